"""A missing annotation makes that value unknown, and only that: the others are still checked."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn

from spmd_runtime import DP, TP, I, P, R, Tensor, V, all_reduce


class PartlyTyped(nn.Module):
    def forward(self, x: Tensor[R[TP]], mask=None, *rest, **options) -> Tensor[R[TP]]:  # type: ignore[no-untyped-def]
        return mask + x


class NoResult(nn.Module):
    def forward(self, x: Tensor[R[TP]]):  # type: ignore[no-untyped-def]
        return F.gelu(all_reduce(x, TP, dst=R))  # E: spmd-collective


class OneAxis(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


def no_result(x: Tensor[P[TP]], y):  # type: ignore[no-untyped-def]
    F.gelu(x)  # E: spmd-partial
    return F.gelu(y)


def uses(r: Tensor[R[TP]], p: Tensor[P[TP]], dp: Tensor[V[DP], R[TP]], i: Tensor[I[TP]]) -> None:
    PartlyTyped()(p)  # E: spmd-arg
    PartlyTyped()(p, r)  # E: spmd-arg
    PartlyTyped()(r) * i  # E: spmd-mix
    NoResult()(p)  # E: spmd-arg
    OneAxis()(dp)  # E: spmd-arg
    no_result(r, r)  # E: spmd-arg
