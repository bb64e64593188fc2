"""A term that each rank adds to its summand, and operators beside a variable that is still Partial on one branch."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from spmd_runtime import TP, P, R, Tensor, all_reduce


def from_ones(parts: list[Tensor[P[TP]]]) -> None:
    total = torch.ones(3)
    for part in parts:
        total = total + part  # E: spmd-mix


def from_one(parts: list[Tensor[P[TP]]]) -> None:
    total = 1
    for part in parts:
        total = total + part  # E: spmd-partial


def counted(p: Tensor[P[TP]]) -> None:
    count = 0
    count += 1
    p + count  # E: spmd-partial


def written(p: Tensor[P[TP]]) -> None:
    first = torch.zeros(3)
    first[0] = 1
    p + first  # E: spmd-mix
    second = torch.zeros(3)
    second.fill_(1)
    p + second  # E: spmd-mix
    third = p.new_zeros(3)
    third += 1
    p + third  # E: spmd-mix
    p + torch.full((3,), 1.0)  # E: spmd-mix
    torch.cat([p, torch.ones(3)])  # E: spmd-mix


def with_an_option(loss: Tensor[P[TP]], more: bool) -> Tensor[P[TP]]:
    extra = torch.ones(())
    if more:
        extra = loss * 0.1
    return loss + extra  # E: spmd-mix


def reduced_on_one_branch(x: Tensor[P[TP]], w: Tensor[R[TP]], flag: bool) -> None:
    y = x
    if flag:
        y = all_reduce(x, TP, dst=R)
    w + y  # E: spmd-mix
    w - y  # E: spmd-mix
    y + w  # E: spmd-mix
    x * y  # E: spmd-partial
    w * F.gelu(y)  # E: spmd-partial
    z = all_reduce(x, TP, dst=R) if flag else x
    w + z  # E: spmd-mix
    torch.add(w, z)  # E: spmd-mix


def which_branch(x: Tensor[P[TP]], w: Tensor[R[TP]], flag: bool) -> None:
    y = x
    if flag:
        y = all_reduce(x, TP, dst=R)
    w + y  # N: only line 67 makes it Replicate
