"""A hook that takes or gives something else, and a buffer that is not what the class declares."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from spmd_runtime import TP, I, P, Parameter, R, Tensor, V, convert


class Block(nn.Module):
    mask: Tensor[R[TP]]
    weight: Parameter[V[TP]]

    def __init__(self, v: Tensor[V[TP]], i: Parameter[I[TP]]) -> None:
        super().__init__()
        self.register_buffer("mask", v)  # E: spmd-assign
        self.register_buffer(name="mask", tensor=v)  # E: spmd-assign
        self.register_parameter("weight", i)  # E: spmd-assign
        self.mask = v  # E: spmd-assign

    def forward(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)


def on_forward(module: nn.Module, args: tuple[Tensor[R[TP]]], output: Tensor[V[TP]]) -> None:
    pass


def replaces(module: nn.Module, args: Any, output: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return torch.ones(2)


def on_input(module: nn.Module, args: tuple[Tensor[P[TP]]]) -> None:
    pass


def on_backward(module: nn.Module, grad_in: tuple[Tensor[R[TP]]], grad_out: Any) -> None:
    pass


def hooks(block: Block) -> None:
    block.register_forward_hook(on_forward)  # E: arg-type
    block.register_forward_hook(replaces)  # E: arg-type
    block.register_forward_pre_hook(on_input)  # E: arg-type
    block.register_full_backward_hook(on_backward)  # E: arg-type
    block.register_forward_hook(lambda m, args, out: F.gelu(out))  # E: spmd-partial
    block.register_forward_hook(lambda m, args, out: args[0])  # E


def of_tensors(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    r.register_hook(lambda g: F.gelu(g))  # E: spmd-partial
    p.register_hook(lambda g: convert(g, TP, src=R, dst=P))  # E
