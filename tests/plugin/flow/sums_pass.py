"""Sums that start from zeros, and operators beside a variable that differs by branch."""

from __future__ import annotations

from typing import Any

import torch
from typing_extensions import assert_type

from spmd_runtime import TP, P, R, Tensor, V, all_reduce


def from_zeros(parts: list[Tensor[P[TP]]]) -> Tensor[P[TP]]:
    total = torch.zeros(3)
    for part in parts:
        total = total + part
    return total


def in_place(parts: list[Tensor[P[TP]]]) -> Tensor[P[TP]]:
    total = torch.zeros_like(parts[0])
    for part in parts:
        total += part
    return total


def from_a_tensor_of_zero(losses: list[Tensor[P[TP]]]) -> Tensor[P[TP]]:
    total = torch.tensor(0.0)
    for loss in losses:
        total = total + loss
    return total


def from_the_number(losses: list[Tensor[P[TP]]]) -> Tensor[P[TP]]:
    total: float | Tensor[P[TP]] = 0.0
    started = 0
    for loss in losses:
        total = total + loss
        started = started + loss
    assert isinstance(total, torch.Tensor)
    return total


def with_an_option(loss: Tensor[P[TP]], more: bool) -> Tensor[P[TP]]:
    extra = torch.zeros(())
    if more:
        extra = loss * 0.1
    return loss + extra


def direct(p: Tensor[P[TP]]) -> None:
    assert_type(p + torch.zeros(3), Tensor[P[TP]])
    assert_type(p - p.new_zeros(3).to(torch.float64), Tensor[P[TP]])
    assert_type(torch.full((3,), 0.0) + p, Tensor[P[TP]])
    assert_type(torch.cat([p, torch.zeros(3)]), Tensor[P[TP]])
    assert_type(torch.where(torch.ones(3).bool(), p, torch.zeros(3)), Tensor[P[TP]])
    zeros = torch.zeros(3)
    zeros.zero_()
    assert_type(p + zeros, Tensor[P[TP]])


def beside_a_union(v: Tensor[V[TP]], r: Tensor[R[TP]], flag: bool) -> None:
    either = r
    if flag:
        either = v * 2
    assert_type(v + either, Tensor[V[TP]])
    assert_type(v @ either, Tensor[V[TP]])
    assert_type(v > either, Tensor[V[TP]])
    assert_type(1 - either, Tensor[R[TP]] | Tensor[V[TP]])
    r = r + (either if flag else 1.0)


def beside_an_unknown_one(p: Tensor[P[TP]], r: Tensor[R[TP]], any_: torch.Tensor, flag: bool) -> None:
    either = any_ if flag else p
    r + either
    p * either


def main() -> None:
    x = torch.ones(3)
    for function in (from_zeros, in_place, from_a_tensor_of_zero, from_the_number):
        result: Any = function([x, x])
        assert torch.equal(result, 2 * x)
    with_an_option(x, True)
    direct(x)
    beside_a_union(x, x, True)
    beside_an_unknown_one(x, x, x, True)
