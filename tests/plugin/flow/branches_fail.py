"""A reduce on one branch only: the use that the other branch fails is the error, and it says which branch that is."""

from __future__ import annotations

import torch
import torch.distributed as dist

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_gather, all_reduce


def takes(x: Tensor[R[TP]]) -> None: ...


def one_branch(x: Tensor[P[TP]], flag: bool) -> Tensor[R[TP]]:
    y = x * 2
    if flag:
        y = all_reduce(y, TP, dst=R)
    y.sqrt()  # E: spmd-partial
    torch.sqrt(y)  # E: spmd-partial
    takes(y)  # E: spmd-arg
    return y  # E: spmd-return


def one_branch_of_a_parameter(x: Tensor[P[TP]], flag: bool) -> None:
    if flag:
        x = all_reduce(x, TP, dst=R)
    x.sqrt()  # E: spmd-partial


def one_branch_raw(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> None:
    y = x.clone()
    if flag:
        dist.all_reduce(y, group=tp)
    y.sqrt()  # E: spmd-partial


def declared(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> None:
    y: Tensor[P[TP]] = x.clone()
    if flag:
        dist.all_reduce(y, group=tp)
    y.sqrt()  # E: spmd-partial


def elif_chain(x: Tensor[P[TP]], n: int) -> None:
    if n == 0:
        y = all_reduce(x, TP, dst=R)
    elif n == 1:
        y = x * 2
    else:
        y = all_reduce(x, TP, dst=R)
    y.sqrt()  # E: spmd-partial


def loop_that_may_not_run(xs: list[Tensor[P[TP]]], x: Tensor[P[TP]]) -> None:
    y = x * 1
    for each in xs:
        y = all_reduce(each, TP, dst=R)
    y.sqrt()  # E: spmd-partial


def second_time_round(x: Tensor[P[TP]]) -> None:
    for _ in range(2):
        x = all_reduce(x, TP, dst=R)  # E: spmd-collective


def conditional(x: Tensor[P[TP]], flag: bool) -> None:
    y = all_reduce(x, TP, dst=R) if flag else x
    y.sqrt()  # E: spmd-partial


def matched(x: Tensor[P[TP]], kind: str) -> None:
    match kind:
        case "sum":
            x = all_reduce(x, TP, dst=R)
        case _:
            pass
    x.sqrt()  # E: spmd-partial


def tried(x: Tensor[P[TP]]) -> None:
    y = x * 2
    try:
        y = all_reduce(y, TP, dst=R)
    except RuntimeError:
        pass
    y.sqrt()  # E: spmd-partial


def reduces_what_one_branch_has_reduced(x: Tensor[P[TP]], flag: bool) -> None:
    if flag:
        x = all_reduce(x, TP, dst=R)
    all_reduce(x, TP, dst=R)  # E: spmd-collective


def two_kinds(v: Tensor[V[TP]], i: Tensor[I[TP]], flag: bool) -> None:
    y = v if flag else i
    y * v  # E: spmd-mix


def unknown_on_one_branch(x: Tensor[P[TP]], other: Tensor, flag: bool) -> None:
    y = x * 2
    if flag:
        y = other
    y.sqrt()


class Holder:
    def __init__(self, x: Tensor[P[TP]]) -> None:
        self.x = x

    def undeclared(self, tp: Group[TP], flag: bool) -> None:
        if flag:
            dist.all_reduce(self.x, group=tp)
        self.x.sqrt()  # E: spmd-partial
