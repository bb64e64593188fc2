"""A variable follows its assignments: parameters, loops, branches, try, with, match, tuple targets, walrus, attributes."""

from __future__ import annotations

import contextlib

import torch
import torch.distributed as dist
from typing_extensions import assert_type

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_reduce
from spmd_runtime.mesh import lookup


def parameter(x: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:
    x = all_reduce(x, TP, dst=R)
    assert_type(x, Tensor[V[DP], R[TP]])
    return x.sqrt()


def loop(xs: list[Tensor[P[TP]]]) -> Tensor[R[TP]]:
    total = torch.zeros(())
    for x in xs:
        x = all_reduce(x, TP, dst=R)
        total = total + x.sqrt().sum()
    return total


def while_loop(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    n = 2
    y = x
    while n:
        y = all_reduce(x, TP, dst=R).sqrt()
        n -= 1
    else:
        y = all_reduce(x, TP, dst=R).sqrt()
    return y


def both_branches(x: Tensor[P[TP]], flag: bool) -> Tensor[R[TP]]:
    if flag:
        x = all_reduce(x, TP, dst=R)
    else:
        x = all_reduce(x * 2, TP, dst=R)
    return x.sqrt()


def both_branches_raw(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> Tensor[R[TP]]:
    y = x.clone()
    if flag:
        dist.all_reduce(y, group=tp)
    else:
        y *= 2
        dist.all_reduce(y, op=dist.ReduceOp.SUM, group=tp)
    return y.sqrt()


def declared_on_both_branches(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> Tensor[R[TP]]:
    y: Tensor[P[TP]] = x.clone()
    if flag:
        dist.all_reduce(y, group=tp)
    else:
        y.mul_(2)
        dist.all_reduce(y, group=tp)
    return y.sqrt()


def early_return(x: Tensor[P[TP]], flag: bool) -> Tensor[R[TP]]:
    if not flag:
        return all_reduce(x, TP, dst=R)
    x = all_reduce(x, TP, dst=R)
    return x.sqrt()


def with_block(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    with contextlib.nullcontext():
        x = all_reduce(x, TP, dst=R)
    return x.sqrt()


def tried(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    try:
        y = all_reduce(x, TP, dst=R)
    except RuntimeError:
        y = all_reduce(x * 0, TP, dst=R)
    finally:
        x.size()
    return y.sqrt()


def matched(x: Tensor[P[TP]], kind: str) -> Tensor[R[TP]]:
    match kind:
        case "sum":
            x = all_reduce(x, TP, dst=R)
        case "double":
            x = all_reduce(x * 2, TP, dst=R)
        case _:
            raise ValueError(kind)
    return x.sqrt()


def tuple_targets(x: Tensor[P[TP]], y: Tensor[P[TP]]) -> Tensor[R[TP]]:
    x, y = all_reduce(x, TP, dst=R), all_reduce(y, TP, dst=R)
    (a, b), c = (x.sqrt(), y.sqrt()), x * y
    return a + b + c


def walrus(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    if (y := all_reduce(x, TP, dst=R)).numel():
        return y.sqrt()
    return y


def none_first(x: Tensor[P[TP]], flag: bool) -> Tensor[R[TP]]:
    y = None
    if flag:
        y = all_reduce(x, TP, dst=R)
    if y is None:
        y = all_reduce(x, TP, dst=R)
    return y.sqrt()


class Holder:
    def __init__(self, x: Tensor[P[TP]]) -> None:
        self.x = x
        self.group: Group[TP] | None = None

    def undeclared(self, tp: Group[TP]) -> Tensor[R[TP]]:
        dist.all_reduce(self.x, group=tp)
        return self.x.sqrt()


def main() -> None:
    tp = lookup(TP).group
    x: Tensor = torch.tensor([4.0, 9.0]).requires_grad_(False)
    root = (x * tp.size()).sqrt()
    for function in (parameter, while_loop, with_block, tried, walrus):
        assert torch.equal(function(x), root), function
    for flag in (True, False):
        for both in (both_branches(x, flag), both_branches_raw(x, tp, flag)):
            torch.testing.assert_close(both, root if flag else root * 2**0.5)
        assert torch.equal(declared_on_both_branches(x, tp, flag), (x * tp.size() * (1 if flag else 2)).sqrt())
        assert torch.equal(early_return(x, flag), root if flag else x * tp.size())
        assert torch.equal(none_first(x, flag), root)
    assert torch.equal(matched(x, "sum"), root)
    assert torch.equal(loop([x]), root.sum())
    assert tuple_targets(x, x).shape == x.shape
    assert torch.equal(Holder(x.clone()).undeclared(tp), root)
