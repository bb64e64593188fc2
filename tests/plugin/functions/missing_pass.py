"""A missing annotation makes that value unknown, and only that."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import assert_type

from spmd_runtime import DP, TP, P, R, Tensor, V, all_reduce


class PartlyTyped(nn.Module):
    def forward(self, x: Tensor[R[TP]], mask=None, *rest, **options) -> Tensor[R[TP]]:  # type: ignore[no-untyped-def]
        for r in rest:
            F.gelu(r)
        if mask is not None:
            F.gelu(mask)
        assert_type(x, Tensor[R[TP]])
        return x


class NoResult(nn.Module):
    def forward(self, x: Tensor[R[TP]]):  # type: ignore[no-untyped-def]
        return x


class Untyped(nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def]
        return x


class OneAxis(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


def untyped(x):  # type: ignore[no-untyped-def]
    return x


def no_result(x: Tensor[P[TP]]):  # type: ignore[no-untyped-def]
    return x


def uses(r: Tensor[R[TP]], p: Tensor[P[TP]], dp: Tensor[V[DP], P[TP]], bare: torch.Tensor) -> None:
    assert_type(PartlyTyped()(r), Tensor[R[TP]])
    assert_type(PartlyTyped()(r, p), Tensor[R[TP]])
    assert_type(PartlyTyped()(bare), Tensor[R[TP]])
    F.gelu(NoResult()(r))
    F.gelu(Untyped()(p)) + p
    F.gelu(untyped(p))
    F.gelu(no_result(p))
    assert_type(OneAxis()(dp), Tensor[R[TP]])
    mixed = nn.ModuleList([PartlyTyped(), Untyped()])
    for layer in mixed:
        F.gelu(layer(p))
    p + untyped(r)
    p + bare
    assert_type(r * 2, Tensor[R[TP]])


def main() -> None:
    x = torch.ones(2)
    uses(x, x, x, x)
