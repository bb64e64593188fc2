"""One model judged as each configuration runs it; the marks of ``parallel`` and ``plain`` hold in that configuration only."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn as nn
import torch.nn.functional as F

from spmd_runtime import CP, DP, TP, I, P, Parameter, R, S, Tensor, V, all_gather, all_reduce, reduce_scatter

SEQUENCE_PARALLEL = bool(int(os.environ.get("SEQUENCE_PARALLEL", "0")))


@dataclass
class Config:
    sequence_parallel: bool = False
    attention: str = "dense"
    tp_size: int = 1
    dropout: float = 0.0


# ---- booleans: attributes, module-level names, arguments


class Linear(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.sequence_parallel = config.sequence_parallel

    def forward(self, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        if self.config.sequence_parallel:
            reveal_type(x)  # parallel: R: Tensor[P[TP]]
            return x  # parallel: E: spmd-return
        return all_reduce(x, TP, dst=I)

    def negated(self, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        if not self.sequence_parallel:
            return x  # plain: E: spmd-return
        else:
            return all_reduce(x, TP, dst=I)

    def followed(self, x: Tensor[P[TP]]) -> Tensor:
        if self.sequence_parallel:
            x = reduce_scatter(x, TP, dst=S(0))
        else:
            x = all_reduce(x, TP, dst=R)
        reveal_type(x)  # parallel: R: Tensor[S[TP, 0]]  # plain: R: Tensor[R[TP]]
        return F.gelu(x)

    def left_out(self, x: Tensor[P[TP]]) -> Tensor:
        if self.sequence_parallel:
            x = reduce_scatter(x, TP, dst=S(0))
        return F.gelu(x)  # plain: E: spmd-partial

    def chained(self, x: Tensor[P[TP]], flag: bool) -> Tensor:
        if flag:
            x = all_reduce(x, TP, dst=R)
        elif self.sequence_parallel:
            x = all_reduce(x, TP, dst=R)
        else:
            F.gelu(x)  # plain: E: spmd-partial
            x = all_reduce(x, TP, dst=R)
        return F.gelu(x)

    def expression(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        y = all_reduce(x, TP, dst=R) if self.sequence_parallel else x
        return y  # plain: E: spmd-return

    def inverse_expression(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return x if not self.sequence_parallel else all_reduce(x, TP, dst=R)  # plain: E: spmd-return

    def combined(self, x: Tensor[P[TP]], flag: bool) -> None:
        if self.sequence_parallel and flag:
            F.gelu(x)  # parallel: E: spmd-partial
        if self.sequence_parallel or flag:
            F.silu(x)  # E: spmd-partial
        else:
            F.relu(x)  # plain: E: spmd-partial
        if flag and not self.sequence_parallel:
            F.tanh(x)  # plain: E: spmd-partial

    def operators(self, x: Tensor[P[TP]]) -> None:
        self.sequence_parallel and F.gelu(x)  # parallel: E: spmd-partial
        self.sequence_parallel or F.silu(x)  # plain: E: spmd-partial

    def asserted(self, x: Tensor[P[TP]]) -> Tensor:
        assert not self.sequence_parallel
        return F.gelu(x)  # plain: E: spmd-partial

    def stops(self, x: Tensor[P[TP]]) -> Tensor:
        if self.sequence_parallel:
            raise NotImplementedError
        return F.gelu(x)  # plain: E: spmd-partial

    def by_name(self, x: Tensor[P[TP]], config: Any) -> None:
        if getattr(config, "sequence_parallel", False):
            F.gelu(x)  # parallel: E: spmd-partial
        if bool(config.sequence_parallel) is True:
            F.gelu(x)  # parallel: E: spmd-partial
        while config.sequence_parallel:
            F.gelu(x)  # parallel: E: spmd-partial


def argument(x: Tensor[P[TP]], sequence_parallel: bool) -> None:
    if sequence_parallel:
        F.gelu(x)  # parallel: E: spmd-partial


if SEQUENCE_PARALLEL:

    def reduced(x: Tensor[P[TP]]) -> Tensor[S[TP, 0]]:
        return reduce_scatter(x, TP, dst=S(0))

else:

    def reduced(x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return all_reduce(x, TP, dst=I)


def uses(x: Tensor[P[TP]]) -> None:
    reveal_type(reduced(x))  # parallel: R: Tensor[S[TP, 0]]  # plain: R: Tensor[I[TP]]


# ---- numbers and strings


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config

    def forward(self, x: Tensor[P[CP]]) -> Tensor:
        if self.config.attention == "ring":
            return F.gelu(x)  # parallel: E: spmd-partial
        elif self.config.attention in ("dense", "flash"):
            return F.silu(x)
        return F.relu(x)

    def numbers(self, x: Tensor[P[TP]]) -> Tensor:
        if self.config.tp_size > 1:
            x = all_reduce(x, TP, dst=R)
        y = F.gelu(x)  # plain: E: spmd-partial
        if 1 < self.config.tp_size <= 2 * 2:
            return F.silu(y)
        if self.config.tp_size:
            return F.relu(x)  # plain: E: spmd-partial
        return F.tanh(x)

    def matched(self, x: Tensor[P[TP]]) -> Tensor:
        match self.config.attention:
            case "ring":
                x = all_reduce(x, TP, dst=R)
            case "dense" | "flash":
                x = all_reduce(x, TP, dst=I)
            case _:
                F.gelu(x)
        reveal_type(x)  # parallel: R: Tensor[R[TP]]  # plain: R: Tensor[I[TP]]
        return x

    def undecided(self, x: Tensor[P[TP]], dropout: float) -> None:
        if self.config.dropout > 0:
            F.gelu(x)  # E: spmd-partial
        if dropout and (self.config.dropout or 4) == 4:
            F.gelu(x)  # E: spmd-partial


# ---- an axis of size one: nothing on it is an error


def on_context_axis(x: Tensor[P[CP]], y: Tensor[V[DP], R[TP]]) -> None:
    F.gelu(x)  # parallel: E: spmd-partial
    all_gather(x, CP, dst=R)  # parallel: E: spmd-collective
    reveal_type(y)  # R: Tensor[V[DP], R[TP]]


# ---- dotted names


def dotted(x: Tensor[P[TP]], first: Config, other: Config) -> None:
    if first.dropout == 0.5:
        F.gelu(x)  # parallel: E: spmd-partial
    if other.dropout == 0.5:
        F.gelu(x)  # E: spmd-partial
