"""Functions of torch that variables and attributes hold refuse what those functions refuse."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from spmd_runtime import TP, Group, I, P, Parameter, R, Tensor, V, all_reduce

activation = F.silu
reduce = all_reduce


class MLP(nn.Module):
    def __init__(self, exact: bool) -> None:
        super().__init__()
        self.act = F.gelu
        self.mix = torch.matmul
        self.either = F.relu if exact else F.relu6
        self.reduce = all_reduce
        self.raw = dist.all_reduce

    def forward(self, v: Tensor[V[TP]], p: Tensor[P[TP]], i: Tensor[I[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        self.act(p)  # E: spmd-partial
        self.mix(i, v)  # E: spmd-mix
        self.mix(p, p)  # E: spmd-partial
        self.either(p)  # E: spmd-partial
        activation(p)  # E: spmd-partial
        reduce(i, TP, dst=R)  # E: spmd-collective
        y = p.detach().clone()
        self.raw(y, group=tp)
        self.raw(y, group=tp)  # E: spmd-collective
        return self.reduce(i, TP, dst=R)  # E: spmd-collective


class Derived(MLP):
    def again(self, p: Tensor[P[TP]]) -> None:
        self.act(p)  # E: spmd-partial


def local(p: Tensor[P[TP]], flag: bool) -> None:
    act = torch.relu
    act(p)  # E: spmd-partial
    if flag:
        act = torch.sigmoid
    act(p)  # E: spmd-partial
    if flag:
        act = torch.neg
    act(p)  # E: spmd-partial
    first, second = torch.relu, torch.neg
    first(p)  # E: spmd-partial


class Row(nn.Linear):
    weight: Parameter[V[TP]]
    bias: Parameter[I[TP]]

    def forward(self, input: Tensor[V[TP]]) -> Tensor[I[TP]]:
        return super().forward(input)  # E: spmd-mix


class Column(nn.Linear):
    weight: Parameter[V[TP]]
    bias: Parameter[V[TP]]

    def __call__(self, input: Tensor[I[TP]]) -> Tensor[V[TP]]:
        return super().__call__(input)  # E: spmd-mix


class Norm(nn.LayerNorm):
    weight: Parameter[I[TP]]
    bias: Parameter[I[TP]]

    def forward(self, input: Tensor[P[TP]]) -> Tensor[I[TP]]:
        super().forward(input)  # E
        return super().forward(all_reduce(input, TP, dst=I))
