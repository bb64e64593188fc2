"""What comprehensions, generators and yields make, declared otherwise: our codes, and what to write."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F

from spmd_runtime import TP, I, P, Parameter, R, Tensor, V, all_reduce


def listed(ps: list[Tensor[P[TP]]]) -> list[Tensor[R[TP]]]:
    return [p * 2 for p in ps]  # E: spmd-arg


def named(ps: list[Tensor[P[TP]]]) -> dict[int, Tensor[R[TP]]]:
    return {i: p * 2 for i, p in enumerate(ps)}  # N: all_reduce(p * 2, TP, dst=R)


def one_by_one(ps: list[Tensor[P[TP]]]) -> Iterator[Tensor[R[TP]]]:
    for p in ps:
        yield p  # N: all_reduce(p, TP, dst=R)


def lazily(ps: list[Tensor[P[TP]]]) -> Iterator[Tensor[R[TP]]]:
    return (p * 1 for p in ps)  # E: spmd-arg


def extended(ps: list[Tensor[P[TP]]], out: list[Tensor[R[TP]]]) -> None:
    out.extend(p * 2 for p in ps)  # E: spmd-arg
    out.extend([p * 2 for p in ps])  # E: spmd-arg


def ignored(ps: list[Tensor[P[TP]]]) -> list[Tensor[R[TP]]]:
    return [p * 2 for p in ps]  # type: ignore[spmd]


def without_dst(p: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(p, TP)  # N: all_reduce needs dst: R (backward: all_reduce) or I (backward: nothing)


def as_text(p: Tensor[P[TP]]) -> Tensor[I[TP]]:
    return all_reduce(p, TP, dst="I")  # N: all_reduce takes the type itself: dst=I, not dst="I"


def summand_or_part(g: Tensor[V[TP]]) -> Tensor[R[TP]]:
    return g.sum()  # N: all_reduce(g.sum(), TP, src=P, dst=R) (backward: all_reduce) if it is a summand, all_gather(


def declared_before(x: Tensor[V[TP]], w: Tensor[V[TP]]) -> Tensor[R[TP]]:
    y: Tensor[P[TP]] = F.linear(x, w)
    y = all_reduce(y, TP, dst=I)  # N: y keeps the type that it is declared with: give this value a name of its own
    return all_reduce(y, TP, dst=R)


def bias_once_per_rank(x: Tensor[V[TP]], w: Parameter[V[TP]], b: Parameter[I[TP]]) -> Tensor[I[TP]]:
    y: Tensor[P[TP]] = F.linear(x, w, b)  # N: add b after its all_reduce
    z: Tensor[P[TP]] = F.linear(x, w) + b  # N: add b after its all_reduce
    return all_reduce(y + z, TP, dst=I)
