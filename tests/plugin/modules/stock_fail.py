"""torch's own modules refuse what the operation refuses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

import spmd_runtime as spmd
from spmd_runtime import DP, PP, TP, I, P, Parameter, R, Tensor, V


class ColumnLinear(nn.Linear):
    weight: Parameter[V[TP]]
    bias: Parameter[V[TP]]


class Norm(nn.LayerNorm):
    weight: Parameter[I[TP]]
    bias: Parameter[I[TP]]


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = spmd.typed(nn.Linear(4, 4), weight=V[TP], bias=V[TP])
        self.norm = spmd.typed(nn.LayerNorm(4), weight=I[TP], bias=I[TP])
        self.stack = nn.Sequential(nn.Dropout(0.1), nn.GELU())

    def forward(self, x: Tensor[I[TP]], p: Tensor[P[TP]]) -> Tensor[I[TP]]:
        self.up(x)  # E: spmd-mix
        self.up(p)  # E: spmd-mix
        self.up.forward(p)  # E: spmd-mix
        self.stack(p)  # E: spmd-partial
        self.up.weight = nn.Parameter(torch.ones(4))
        self.norm(self.up(torch.ones(4)))  # E: spmd-mix
        return self.norm(p)  # E


def activations(p: Tensor[P[TP]]) -> None:
    nn.GELU()(p)  # E: spmd-partial
    nn.SiLU()(p)  # E: spmd-partial
    nn.Softmax(dim=-1)(p)  # E: spmd-partial
    nn.Tanh().forward(p)  # E: spmd-partial
    nn.MSELoss()(p, p)  # E: spmd-partial
    nn.MaxPool1d(2)(p)  # E: spmd-partial
    nn.GELU(p)  # E: arg-type
    nn.Linear(4, p)  # E: arg-type
    nn.GELU()("x")  # E: arg-type


def declared(i: Tensor[I[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    ColumnLinear(4, 4)(p)  # E: spmd-mix
    Norm(4)(v)  # E: spmd-mix
    Norm(4)(p)  # E
    table = spmd.typed(nn.Embedding(8, 4), weight=P[TP])
    F.relu(table(torch.arange(4)))  # E: spmd-partial


def wrong(linear: nn.Linear) -> None:
    spmd.typed(linear, wieght=V[TP])  # E: spmd-annotation
    spmd.typed(linear, weight=(V[TP], R[TP]))  # E: spmd-annotation, spmd-grad
    spmd.typed(linear, weight=V[PP])  # E: spmd-annotation
    spmd.typed(linear, weight={PP: V})  # E: spmd
    spmd.typed(linear, weight=R[TP])  # E: spmd-grad
    spmd.typed(linear, weight=(R[DP], V[TP]))
    spmd.typed(linear, weight=3)  # E: arg-type
    spmd.typed("linear", weight=V[TP])  # E: type-var
