"""A tensor that a collective still writes to is unusable until its handle has been waited for."""

from __future__ import annotations

import torch
import torch.distributed as dist

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_reduce


def takes(x: Tensor[R[TP]]) -> None: ...


def used(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    y.sqrt()  # E: spmd-collective
    y + 1  # E: spmd-collective
    torch.sin(y)  # E: spmd-collective
    y[0]  # E: spmd-collective
    takes(y)  # E: spmd-collective
    all_reduce(y, TP, dst=R)  # E: spmd-collective
    if y.numel():
        return y  # E: spmd-collective
    handle.wait()
    return y


def reduced_again(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    dist.all_reduce(y, group=tp)  # E: spmd-collective
    handle.wait()


def gathered(x: Tensor[V[TP]], tp: Group[TP]) -> None:
    out = torch.empty(8)
    handle = dist.all_gather_into_tensor(out, x, group=tp, async_op=True)
    x.sqrt()  # only read by it
    out.sqrt()  # E: spmd-collective
    handle.wait()


def never_waited(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    return y  # E: spmd-collective


def waited_on_one_branch(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> None:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    if flag:
        handle.wait()
        y.sqrt()
    y.sqrt()  # E: spmd-collective


def waited_for_the_other(a: Tensor[P[TP]], b: Tensor[P[TP]], tp: Group[TP]) -> None:
    x, y = a.clone(), b.clone()
    first = dist.all_reduce(x, group=tp, async_op=True)
    second = dist.all_reduce(y, group=tp, async_op=True)
    first.wait()
    y.sqrt()  # E: spmd-collective
    second.wait()
    y.sqrt()


def what_it_becomes(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    y = x.clone()
    handle = dist.all_reduce(y, group=tp, async_op=True)
    handle.wait()
    return y  # E: spmd-return


def parameter(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    handle = dist.all_reduce(x, group=tp, async_op=True)  # E: spmd-inplace
    handle.wait()


def checked_at_the_call(r: Tensor[R[TP]], p: Tensor[P[TP]], tp: Group[TP]) -> None:
    a = dist.all_reduce(r, group=tp, async_op=True)  # E: spmd-collective
    b = dist.all_reduce(p, op=dist.ReduceOp.MAX, group=tp, async_op=True)  # E: spmd-collective
    a.wait()
    b.wait()


def of_a_list(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y, z = x.clone(), x.clone()
    handle = dist.all_reduce_coalesced([y, z], group=tp, async_op=True)
    z.sqrt()  # E: spmd-collective
    handle.wait()
    z.sqrt()
