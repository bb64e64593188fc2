"""What comprehensions, generators and yields make, where the rules accept it as what is declared."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from spmd_runtime import TP, P, Tensor, V


def summands(ps: list[Tensor[V[TP]]]) -> list[Tensor[P[TP]]]:
    return [p * 2 for p in ps]


def fresh() -> list[Tensor[V[TP]]]:
    return [torch.zeros(3) for _ in range(3)]


def named(ps: list[Tensor[V[TP]]]) -> dict[int, Tensor[P[TP]]]:
    return {i: p * 2 for i, p in enumerate(ps)}


def one_by_one(ps: list[Tensor[V[TP]]]) -> Iterator[Tensor[P[TP]]]:
    for p in ps:
        yield p * 2


def total(ps: list[Tensor[V[TP]]]) -> Tensor[P[TP]]:
    squares: Tensor[P[TP]] = sum((p.pow(2).sum() for p in ps), torch.zeros(()))
    return squares


def main() -> None:
    parts = [torch.ones(3), torch.ones(3)]
    assert len(summands(parts)) == len(named(parts)) == len(list(one_by_one(parts)))
    assert total(parts).shape == ()
    assert len(fresh()) == 3
