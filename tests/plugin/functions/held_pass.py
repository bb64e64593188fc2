"""Functions of torch that variables and attributes hold are those functions."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import assert_type

from spmd_runtime import TP, P, R, Tensor, V, all_reduce

activation = F.silu
reduce = all_reduce


class MLP(nn.Module):
    def __init__(self, exact: bool) -> None:
        super().__init__()
        self.act = F.gelu
        self.mix = torch.matmul
        self.norm = F.rms_norm if exact else F.layer_norm
        self.reduce = all_reduce
        if exact:
            self.branch = F.relu
        else:
            self.branch = F.relu6
        self.any: Callable[..., torch.Tensor] = F.gelu
        self.changes = F.relu
        self.changes = lambda input, inplace=False: input

    def forward(self, v: Tensor[V[TP]], p: Tensor[P[TP]], r: Tensor[R[TP]]) -> Tensor[R[TP]]:
        assert_type(self.act(v, approximate="tanh"), Tensor[V[TP]])
        assert_type(self.mix(r, v), Tensor[V[TP]])
        assert_type(self.mix(p, r), Tensor[P[TP]])
        self.norm(v, [3])
        assert_type(self.branch(v), Tensor[V[TP]])
        assert_type(activation(v), Tensor[V[TP]])
        self.any(p)
        self.changes(p)
        return self.reduce(p, TP, dst=R)


class Derived(MLP):
    def again(self, v: Tensor[V[TP]]) -> Tensor[V[TP]]:
        return self.act(v)


def local(v: Tensor[V[TP]], p: Tensor[P[TP]], given: Callable[[torch.Tensor], torch.Tensor], flag: bool) -> None:
    act = torch.relu
    assert_type(act(v), Tensor[V[TP]])
    scale = torch.neg
    assert_type(scale(p), Tensor[P[TP]])
    chosen = F.relu if flag else torch.neg
    chosen(v)
    given(p)
    table = {"relu": torch.relu, "neg": torch.neg}
    table["neg"](p)
    first, second = torch.relu, torch.neg
    assert_type(second(p), Tensor[P[TP]])
    assert_type(reduce(p, TP, dst=R), Tensor[R[TP]])
    for f in (torch.neg, torch.abs):
        f(p)


def main() -> None:
    v, p = torch.randn(3, 3), torch.randn(3, 3)
    MLP(exact=False)(v, p, p)
    Derived(exact=False).again(v)
    local(v, p, torch.neg, True)
