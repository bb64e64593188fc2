"""The same code annotated and bare, for ``test_erasure.py``.

Without ``from __future__ import annotations``: TorchScript wants annotations as objects.
"""
# ruff: noqa: RET504

import dataclasses
import typing

import torch
from torch import nn

from spmd_runtime import DP, TP, P, Parameter, R, Tensor, V


def typed(x: Tensor[V[DP], R[TP]], w: Tensor[V[TP]], scale: float = 2.0) -> Tensor[V[DP], V[TP]]:
    def inner(y: Tensor[V[DP], V[TP]]) -> Tensor[V[DP], V[TP]]:
        z: Tensor[V[DP], V[TP]] = torch.tanh(y) * scale
        return typing.cast("Tensor[V[DP], V[TP]]", z)

    h: Tensor[V[DP], V[TP]] = x @ w
    return inner(h)


def bare(x: torch.Tensor, w: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    def inner(y: torch.Tensor) -> torch.Tensor:
        z = torch.tanh(y) * scale
        return z

    h = x @ w
    return inner(h)


class Typed(nn.Module):
    weight: Parameter[V[TP]]
    offset: Tensor[R[TP]]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: Tensor[V[DP], R[TP]]) -> Tensor[V[DP], V[TP]]:
        return torch.relu(x @ self.weight) + self.offset


class Bare(nn.Module):
    weight: nn.Parameter
    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 3))
        self.register_buffer("offset", torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.weight) + self.offset


def scripted(x: Tensor[R[TP]], ys: list[Tensor[V[TP]]], z: typing.Optional[Tensor[P[TP]]] = None) -> Tensor[V[TP]]:  # noqa: UP045
    for y in ys:
        x = x + y
    return x if z is None else x + z


@dataclasses.dataclass
class Batch:
    tokens: Tensor[V[DP], R[TP]]
    mask: Tensor[V[DP], R[TP]] | None = None
    more: list[Tensor[V[DP]]] = dataclasses.field(default_factory=list)


class Pair(typing.NamedTuple):
    q: Tensor[V[TP]]
    k: Tensor[V[TP]]
