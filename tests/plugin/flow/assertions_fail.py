"""assert_type, mutate_type, broadcast, shift: what contradicts what is known."""

from __future__ import annotations

import torch

from spmd_runtime import (
    CP,
    DP,
    TP,
    Group,
    I,
    P,
    R,
    S,
    Tensor,
    V,
    all_reduce,
    assert_type,
    broadcast,
    mutate_type,
    shift,
)
from spmd_runtime import EP


def wrong(p: Tensor[P[TP]], r: Tensor[R[TP]], i: Tensor[I[TP]], v: Tensor[V[TP]]) -> None:
    assert_type(p, {TP: R})  # E: spmd-assign
    assert_type(r, {TP: I})  # E: spmd-assign
    assert_type(i, {"tp": V})  # E: spmd-assign
    assert_type(v, {TP: R})  # E: spmd-assign
    assert_type(v, {DP: R, TP: V})


def one_mistake_is_one_report(p: Tensor[P[TP]]) -> Tensor[R[TP]]:
    p = assert_type(p, {TP: R})  # E: spmd-assign
    return p.sqrt()


def other_dim(x: Tensor[S[TP, 0]]) -> None:
    assert_type(x, {TP: S(1)})  # E: spmd-assign


def unknown_axis(x: Tensor[R[TP]]) -> None:
    assert_type(x, {"pp": R})  # E: spmd
    assert_type(x, {EP: R})  # E: spmd


def then_it_is(x: torch.Tensor) -> Tensor[R[TP]]:
    assert_type(x, {TP: P})
    x.sqrt()  # E: spmd-partial
    return x  # E: spmd-return


def on_one_branch(p: Tensor[P[TP]], flag: bool) -> None:
    if flag:
        p = all_reduce(p, TP, dst=R)
    assert_type(p, {TP: R})  # E: spmd-assign


def mutates_what_it_is_not(p: Tensor[P[TP]], v: Tensor[V[TP]]) -> None:
    mutate_type(p, TP, src=V, dst=R)  # E: spmd-assign
    mutate_type(v, TP, src=P, dst=R)  # E: spmd-assign


def mutates_several(v: Tensor[V[TP]]) -> None:
    mutate_type(v, src={TP: R}, dst={TP: I})  # E: spmd-assign


def is_what_it_became(p: Tensor[P[TP]]) -> Tensor[P[TP]]:
    mutate_type(p, TP, src=P, dst=R)
    return p  # E: spmd-return


def sends(p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:
    broadcast(p, TP, dst=R)  # E: spmd-collective
    broadcast(r, TP, dst=R)  # E: spmd-collective
    broadcast(v, TP, dst=P)  # E: spmd-collective
    shift(p, TP)  # E: spmd-collective
    shift(r, TP)  # E: spmd-collective


def what_comes_out(v: Tensor[V[TP]]) -> Tensor[R[TP]]:
    if v.numel():
        return broadcast(v, TP, dst=I)  # E: spmd-return
    return shift(v, TP)  # E: spmd-return


def in_place_on_a_parameter(x: Tensor[P[TP]]) -> None:
    all_reduce(x, TP, dst=R, inplace=True)  # E: spmd-inplace
