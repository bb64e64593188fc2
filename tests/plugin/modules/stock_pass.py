"""torch's own modules: the operation on their arguments and on their declared parameters."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import assert_type

import spmd_runtime as spmd
from spmd_runtime import DP, TP, I, P, Parameter, R, S, Tensor, V, all_reduce


class ColumnLinear(nn.Linear):
    weight: Parameter[V[TP]]
    bias: Parameter[V[TP]]


class GatedColumn(ColumnLinear):
    def forward(self, input: Tensor[R[TP]]) -> Tensor[V[TP]]:
        up = super().forward(input)
        assert_type(up, Tensor[V[TP]])
        return up * F.linear(input, self.weight)


class Traced(ColumnLinear):
    def __call__(self, input: Tensor[R[TP]]) -> Tensor[V[TP]]:
        y = super().__call__(input)
        assert_type(y, Tensor[V[TP]])
        return y


class Norm(nn.LayerNorm):
    weight: Parameter[I[TP]]
    bias: Parameter[I[TP]]


class Own(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor[R[TP]]) -> Tensor[V[TP]]:
        return x * self.weight


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = spmd.typed(nn.Linear(4, 4), weight=V[TP], bias=V[TP])
        self.down = spmd.typed(nn.Linear(4, 4, bias=False), weight=V[TP])
        self.act = nn.GELU()
        self.norm = spmd.typed(nn.LayerNorm(4), weight=I[TP], bias=I[TP])
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor[R[TP]]) -> Tensor[I[TP]]:
        h = self.act(self.up(x))
        assert_type(h, Tensor[V[TP]])
        part: Tensor[P[TP]] = self.down(h)
        y = self.norm(all_reduce(part, TP, dst=I))
        assert_type(y, Tensor[I[TP]])
        return self.drop(y)


def activations(v: Tensor[V[TP]], r: Tensor[R[TP]], i: Tensor[I[TP]], d: Tensor[V[DP], R[TP]]) -> None:
    assert_type(nn.GELU()(v), Tensor[V[TP]])
    assert_type(nn.SiLU()(r), Tensor[R[TP]])
    assert_type(nn.ReLU()(i), Tensor[I[TP]])
    assert_type(nn.Softmax(dim=-1)(d), Tensor[V[DP], R[TP]])
    assert_type(nn.Sigmoid()(v), Tensor[V[TP]])
    assert_type(nn.Dropout(0.1)(d), Tensor[V[DP], R[TP]])
    assert_type(nn.Flatten()(v), Tensor[V[TP]])
    assert_type(nn.Identity()(i), Tensor[I[TP]])
    assert_type(nn.MSELoss()(v, v), Tensor[V[TP]])
    assert_type(nn.Tanh().forward(v), Tensor[V[TP]])


def linear_in_it(p: Tensor[P[TP]]) -> None:
    """What is linear takes a pending sum."""
    assert_type(nn.Identity()(p), Tensor[P[TP]])
    assert_type(nn.Flatten()(p), Tensor[P[TP]])
    assert_type(nn.AvgPool1d(2)(p), Tensor[P[TP]])


def declared(r: Tensor[R[TP]], v: Tensor[V[TP]], i: Tensor[I[TP]], ids: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    column = ColumnLinear(4, 4)
    assert_type(column(r), Tensor[V[TP]])
    assert_type(column.weight, Parameter[V[TP]])
    assert_type(GatedColumn(4, 4)(r), Tensor[V[TP]])
    assert_type(Traced(4, 4)(r), Tensor[V[TP]])
    assert_type(Norm(4)(i), Tensor[I[TP]])
    table = spmd.typed(nn.Embedding(8, 4), weight=V[TP])
    assert_type(table(ids), Tensor[V[TP]])
    conv = spmd.typed(nn.Conv1d(3, 3, 1), weight=V[TP], bias=V[TP])
    assert_type(conv(torch.ones(3, 4)), Tensor[V[TP]])
    rms = spmd.typed(nn.RMSNorm(4), weight=I[TP])
    assert_type(rms(i), Tensor[I[TP]])
    # A weight that every rank has takes a pending sum through.
    same = spmd.typed(nn.Linear(4, 4, bias=False), weight={TP: I})
    assert_type(same(i), Tensor[I[TP]])


def spelled(x: Tensor[R[DP], R[TP]]) -> None:
    one = spmd.typed(nn.Linear(4, 4, bias=False), weight=(R[DP], V[TP]))
    assert_type(one.weight, Parameter[R[DP], V[TP]])
    assert_type(one(x), Tensor[R[DP], V[TP]])
    two = spmd.typed(nn.Linear(4, 4, bias=False), weight={DP: R, TP: S(0)})
    assert_type(two.weight, Parameter[R[DP], S[TP, 0]])
    four = spmd.typed(nn.Linear(4, 4, bias=False), weight=S[TP, Literal[1]])
    assert_type(four.weight, Parameter[S[TP, 1]])
    five = spmd.typed(nn.Linear(4, 4, bias=False), weight=V)
    assert_type(five.weight, Parameter[V[TP]])
    six = spmd.typed(nn.Linear(4, 4, bias=False), weight={"dp": R, "tp": V}, bias=None)
    assert_type(six(x), Tensor[R[DP], V[TP]])
    own = spmd.typed(Own(), weight=V[TP])
    assert_type(own(x), Tensor[V[TP]])


def kept(flag: bool, r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:
    """What is typed stays typed, and stays apart."""
    columns = nn.ModuleList([spmd.typed(nn.Linear(4, 4, bias=False), weight=V[TP]) for _ in range(2)])
    for column in columns:
        assert_type(column(r), Tensor[V[TP]])
    stack = nn.Sequential(spmd.typed(nn.Linear(4, 4), weight=V[TP], bias=V[TP]), nn.GELU(), nn.Dropout(0.0))
    assert_type(stack(r), Tensor[V[TP]])
    both = spmd.typed(nn.Linear(4, 4), weight=V[TP], bias=V[TP])
    plain = nn.Linear(4, 4)
    either = both if flag else plain
    either(r)
    plain = both
    isinstance(both, nn.Linear)


def unknown(p: Tensor[P[TP]], r: Tensor[R[TP]]) -> None:
    """Without declared parameters nothing is known, and nothing is said."""
    F.gelu(nn.Linear(4, 4)(r))
    nn.Linear(4, 4)(p)
    nn.LayerNorm(4)(r) + p
    attention = nn.MultiheadAttention(4, 1)
    attention(r, r, r)


def main() -> None:
    x = torch.randn(3, 4)
    assert MLP()(x).shape == x.shape
    activations(x, x, x, x)
    linear_in_it(x)
    declared(x, x, x, torch.arange(4), x)
    spelled(x)
    kept(True, x, x)
    unknown(x, x)
    linear = nn.Linear(4, 4)
    assert spmd.typed(linear, weight=V[TP], bias=V[TP]) is linear
    for wrong in ({"wieght": V[TP]}, {"bias": None}):
        try:
            spmd.typed(linear, **wrong)  # type: ignore[arg-type]
        except ValueError as error:
            assert "Linear" in str(error)
        else:
            raise AssertionError(wrong)
    try:
        spmd.typed(linear, weight=TP)  # type: ignore[arg-type]
    except TypeError as error:
        assert "weight=" in str(error)
    else:
        raise AssertionError("TP is no layout")
