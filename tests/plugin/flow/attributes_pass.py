"""Undeclared attributes and elements of undeclared containers take the type of what is assigned to them."""

from __future__ import annotations

import torch
import torch.distributed as dist
from typing_extensions import assert_type

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_reduce
from spmd_runtime.mesh import lookup


class Holder:
    def __init__(self, x: Tensor[P[TP]]) -> None:
        self.x = x
        self.parts = [x, x]
        self.table = {"x": x}

    def reduced(self) -> Tensor[R[TP]]:
        self.x = all_reduce(self.x, TP, dst=R)
        assert_type(self.x, Tensor[R[TP]])
        return self.x.sqrt()

    def and_back(self, x: Tensor[P[TP]]) -> Tensor[P[TP]]:
        self.x = all_reduce(self.x, TP, dst=R)
        self.x = x
        return self.x

    def on_both_branches(self, flag: bool) -> Tensor[R[TP]]:
        if flag:
            self.x = all_reduce(self.x, TP, dst=R)
        else:
            self.x = all_reduce(self.x * 2, TP, dst=R)
        return self.x.sqrt()

    def elements(self) -> Tensor[R[TP]]:
        self.parts[0] = all_reduce(self.parts[0], TP, dst=R)
        self.table["x"] = all_reduce(self.table["x"], TP, dst=R)
        return self.parts[0].sqrt() + self.table["x"].sqrt()


class Pending:
    """What the method that makes an attribute writes to it, others do not know."""

    def __init__(self, x: Tensor[P[TP]], tp: Group[TP]) -> None:
        self.x = x.detach().clone()
        self.work = dist.all_reduce(self.x, group=tp, async_op=True)
        self.y = x.detach().clone()
        dist.all_reduce(self.y, group=tp)
        assert_type(self.y, Tensor[R[TP]])

    def wait(self) -> Tensor[R[TP]]:
        if self.work is not None:
            self.work.wait()
        return self.x.sqrt() + self.y


def in_a_loop(a: Tensor[P[TP]], b: Tensor[P[TP]]) -> Tensor[R[TP]]:
    parts = [a, b]
    for i in range(len(parts)):
        parts[i] = all_reduce(parts[i], TP, dst=R)
    return parts[0].sqrt() + parts[1].sqrt()  # unknown: not all elements need have been reduced


def by_key(a: Tensor[P[TP]]) -> Tensor[R[TP]]:
    table = {"a": a, "b": a}
    for name, each in table.items():
        table[name] = all_reduce(each, TP, dst=R)
    return table["a"].sqrt()


def given(x: torch.Tensor) -> torch.Tensor:
    return x


def main() -> None:
    x = given(torch.tensor([4.0, 9.0]))
    root = (x * lookup(TP).size).sqrt()
    assert torch.equal(Holder(x).reduced(), root)
    assert Holder(x).and_back(x) is x
    assert torch.equal(Holder(x).on_both_branches(True), root)
    assert torch.equal(Holder(x).elements(), root * 2)
    torch.testing.assert_close(Pending(x, lookup(TP).group).wait(), root + root**2)
    assert torch.equal(in_a_loop(x, x), root * 2) and torch.equal(by_key(x), root)
