"""Calls of generic functions as arguments: torch declares tensors without layouts there, and must not take them away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
import torch.nn as nn
import torch.nn.functional as F

from spmd_runtime import DP, TP, P, R, Tensor, V

L = TypeVar("L")
T = TypeVar("T")


def whole(x: Tensor[L]) -> Tensor[L]:
    return x


def same(x: T) -> T:
    return x


def two(x: Tensor[L]) -> tuple[Tensor[L], Tensor[L]]:
    return x, x


def many(x: Tensor[L]) -> list[Tensor[L]]:
    return [x, x]


def each(x: Tensor[L]) -> Iterator[Tensor[L]]:
    yield x


class Identity(nn.Module):
    def method(self, x: Tensor[L]) -> Tensor[L]:
        return x

    @staticmethod
    def static(x: Tensor[L]) -> Tensor[L]:
        return x

    def forward(self, x: Tensor[L]) -> Tensor[L]:
        return x


def arguments(p: Tensor[P[TP]], module: Identity) -> None:
    F.gelu(whole(p))  # E: spmd-partial
    F.gelu(same(p))  # E: spmd-partial
    F.gelu(same(whole(whole(whole(whole(whole(whole(whole(p)))))))))  # E: spmd-partial
    F.gelu(module.method(p))  # E: spmd-partial
    F.gelu(Identity.static(p))  # E: spmd-partial
    F.gelu(module(p))  # E: spmd-partial
    torch.exp(two(p)[0])  # E: spmd-partial
    torch.cat(two(p)).exp()  # E: spmd-partial
    torch.cat(many(p)).exp()  # E: spmd-partial
    torch.cat(list(each(p))).exp()  # E: spmd-partial
    torch.stack([whole(p), same(p)]).exp()  # E: spmd-partial


def declared(p: Tensor[V[DP], P[TP]]) -> Tensor[R[TP]]:
    plain: Tensor = whole(p)
    others: list[Tensor] = many(p)
    plain, others = same(plain), same(others)
    kept: Tensor[P[TP]] = whole(p)
    kept = same(p)
    wrong: Tensor[R[TP]] = whole(p)  # E: spmd
    wrong = same(p)  # E: spmd
    return whole(p)  # E: spmd
