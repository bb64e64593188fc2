"""Asynchronous collectives: the tensor has its new type once its handle has been waited for."""

from __future__ import annotations

import torch
import torch.distributed as dist
from typing_extensions import assert_type

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V
from spmd_runtime.mesh import lookup


def waited(x: Tensor[V[DP], P[TP]], tp: Group[TP]) -> Tensor[V[DP], R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    assert y.shape == x.shape and y.numel() and y.dtype is x.dtype  # its shape is there already
    handle.wait()
    assert_type(y, Tensor[V[DP], R[TP]])
    return y.sqrt()


def waited_at_once(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=tp, async_op=True).wait()
    return y.sqrt()


def two(a: Tensor[P[TP]], b: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    x, y = a.clone(), torch.empty(b.shape[0] * dist.get_world_size(tp), *b.shape[1:])
    first, second = dist.all_reduce(x, group=tp, async_op=True), dist.all_gather_into_tensor(y, b, tp, True)
    second.wait()
    y = y * 2
    first.wait()
    return x.sum() + y.sum()


def one_name_twice(a: Tensor[P[TP]], b: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    x, y = a.clone(), b.clone()
    handle = dist.all_reduce(x, group=tp, async_op=True)
    handle.wait()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    handle.wait()
    return x * y


def overlapped(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    done: list[Tensor[R[TP]]] = []
    for x in xs:
        y = x.clone()
        handle = dist.all_reduce(y, group=tp, async_op=True)
        other = x * 2
        handle.wait()
        done.append(y)
        assert other.shape == y.shape
    return done


def many(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    handles = []
    copies = [x.clone() for x in xs]
    for y in copies:
        handles.append(dist.all_reduce(y, group=tp, async_op=True))
    for handle in handles:
        handle.wait()
    return [y.sqrt() for y in copies]  # unknown, silently


def passed_on(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    pending = [handle]
    for each in pending:
        each.wait()
    return y.sqrt()


def returned(x: Tensor[P[TP]], tp: Group[TP]) -> tuple[Tensor, dist.Work]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    return y, handle


def on_a_condition(x: Tensor[V[TP]], tp: Group[TP], overlap: bool) -> Tensor[R[TP]]:
    y = x.clone()
    handle = None
    if overlap:
        handle = dist.all_reduce(y, group=tp, async_op=True)
    else:
        dist.all_reduce(y, group=tp)
    if handle is not None:
        handle.wait()
    return y.sqrt()


def where_a_flag_says_so(x: Tensor[P[TP]], tp: Group[TP], overlap: bool) -> Tensor[R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=overlap)
    if handle is not None:
        handle.wait()
    return y.sqrt()


def on_the_same_flag(x: Tensor[V[TP]], w: Tensor[R[TP]], tp: Group[TP], sequence_parallel: bool) -> Tensor[V[TP]]:
    if sequence_parallel:
        buffer = torch.empty(x.shape[0] * dist.get_world_size(tp), *x.shape[1:])
        handle = dist.all_gather_into_tensor(buffer, x, group=tp, async_op=True)
        total = buffer
    else:
        total = x
    other = x * w
    if sequence_parallel:
        handle.wait()
    return total.sum() + other


def by_another_name(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    z = y
    handle.wait()
    return z.sqrt()


class Bucket:
    handle: dist.Work | None = None

    def start(self, x: Tensor[P[TP]], tp: Group[TP]) -> Tensor:
        y = x.clone()
        self.handle = dist.all_reduce(y, group=tp, async_op=True)
        return y.relu()


def main() -> None:
    tp = lookup(TP).group
    x: Tensor = torch.tensor([4.0, 4.0, 4.0]).requires_grad_(False)
    n = tp.size()
    assert torch.equal(waited(x, tp), (x * n).sqrt())
    assert torch.equal(waited_at_once(x, tp), (x * n).sqrt())
    assert float(two(x, x, tp)) == 12 * n + 24 * n
    assert torch.equal(one_name_twice(x, x, tp), (x * n) ** 2)
    assert torch.equal(overlapped([x], tp)[0], x * n)
    assert torch.equal(many([x], tp)[0], (x * n).sqrt())
    assert torch.equal(passed_on(x, tp), (x * n).sqrt())
    y, handle = returned(x, tp)
    handle.wait()
    assert torch.equal(y, x * n)
    for overlap in (False, True):
        assert torch.equal(on_a_condition(x, tp, overlap), (x * n).sqrt())
        assert torch.equal(where_a_flag_says_so(x, tp, overlap), (x * n).sqrt())
        on_the_same_flag(x, x, tp, overlap)
    assert torch.equal(by_another_name(x, tp), (x * n).sqrt())
    bucket = Bucket()
    bucket.start(x, tp)
    assert bucket.handle is not None
    bucket.handle.wait()
