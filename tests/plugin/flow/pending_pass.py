"""async_op=True gives a Pending; its wait() gives the tensor, with its type."""

from __future__ import annotations

import torch
from typing_extensions import assert_type

from spmd_runtime import (
    DP, TP, I, P, Pending, R, S, Tensor, V, all_gather, all_reduce, all_to_all, redistribute, reduce_scatter, unshard
)  # fmt: skip


def waited(x: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:
    pending = all_reduce(x, TP, dst=R, async_op=True)
    assert_type(pending, Pending[Tensor[V[DP], R[TP]]])
    y = pending.wait()
    assert_type(y, Tensor[V[DP], R[TP]])
    return y.sqrt()


def at_once(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R, async_op=True).wait()


def not_asynchronous(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R, async_op=False)


def every_kind(p: Tensor[P[TP]], s: Tensor[S[TP, 0]]) -> Tensor[R[TP]]:
    gathered = all_gather(s, TP, src=S(0), dst=R, async_op=True)
    scattered = reduce_scatter(p, TP, dst=S(0), async_op=True)
    exchanged = all_to_all(s, TP, src=S(0), dst=S(1), async_op=True)
    summed = redistribute(p, TP, src=P, dst=R, async_op=True)
    whole = unshard(s, TP, src=S(0), dst=R, async_op=True)
    shards: tuple[Tensor[S[TP, 0]], Tensor[S[TP, 1]]] = (scattered.wait(), exchanged.wait())
    assert all(shard.numel() for shard in shards)
    return gathered.wait().sum() + summed.wait().sum() + whole.wait().sum()


def in_a_list(xs: list[Tensor[P[TP]]]) -> list[Tensor[R[TP]]]:
    pending = [all_reduce(x, TP, dst=R, async_op=True) for x in xs]
    return [each.wait() for each in pending]


def start(x: Tensor[P[TP]]) -> Pending[Tensor[R[TP]]]:
    return all_reduce(x, TP, dst=R, async_op=True)


def given(x: torch.Tensor) -> torch.Tensor:
    return x


def main() -> None:
    from spmd_runtime.mesh import lookup

    n = lookup(TP).size
    x = given(torch.full((2 * n, 2 * n), 4.0))
    for summed in (at_once(x), not_asynchronous(x), in_a_list([x])[0], start(x).wait()):
        assert torch.equal(summed, x * n)
    assert torch.equal(waited(x), (x * n).sqrt())
    assert every_kind(x, x).numel() == 1
