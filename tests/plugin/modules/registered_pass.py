"""Registered hooks see typed arguments; buffers and parameters are what the class declares."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from typing_extensions import assert_type

from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V, all_reduce, convert


class Block(nn.Module):
    mask: Tensor[R[TP]]
    running: Tensor[V[TP]]
    weight: Parameter[V[TP]]

    def __init__(self, mask: Tensor[R[TP]], weight: Parameter[V[TP]]) -> None:
        super().__init__()
        self.register_buffer("mask", mask)
        self.register_buffer("mask", torch.ones(2), persistent=False)
        self.register_buffer("running", torch.zeros(2))
        self.register_parameter("weight", weight)
        self.register_parameter("bias", None)
        self.register_buffer("undeclared", torch.ones(2))

    def forward(self, x: Tensor[R[TP]]) -> Tensor[V[TP]]:
        assert_type(x * self.mask, Tensor[R[TP]])
        return x * self.mask * self.weight


class Two(nn.Module):
    def forward(self, x: Tensor[R[TP]], scale: float, y: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], Tensor[P[TP]]]:
        return x * scale, y


def on_forward(module: Block, args: tuple[Tensor[R[TP]]], output: Tensor[V[TP]]) -> Tensor[V[TP]]:
    return output * 2


def loosely(module: nn.Module, args: Any, output: Any) -> None:
    pass


def on_input(module: nn.Module, args: tuple[Any, ...]) -> None:
    pass


def on_backward(module: nn.Module, grad_in: tuple[Tensor[P[TP]]], grad_out: tuple[Tensor[V[TP]]]) -> None:
    pass


def hooks(block: Block, two: Two) -> None:
    block.register_forward_hook(on_forward)
    block.register_forward_hook(loosely)
    block.register_forward_pre_hook(on_input)
    block.register_full_backward_hook(on_backward)
    block.register_forward_hook(lambda m, args, out: assert_type(out, Tensor[V[TP]]))
    block.register_forward_pre_hook(lambda m, args: assert_type(args[0], Tensor[R[TP]]))
    block.register_full_backward_hook(lambda m, gi, go: (assert_type(gi[0], Tensor[P[TP]]),))
    block.register_full_backward_pre_hook(lambda m, go: (assert_type(go[0], Tensor[V[TP]]),))
    block.register_forward_hook(lambda m, args, kwargs, out: assert_type(out, Tensor[V[TP]]), with_kwargs=True)
    two.register_forward_hook(lambda m, args, out: (assert_type(out[0], Tensor[R[TP]]), out[1]))
    nn.Linear(2, 2).register_forward_hook(loosely)


def of_tensors(r: Tensor[R[TP]], v: Tensor[V[TP]], w: Parameter[V[DP], I[TP]]) -> None:
    r.register_hook(lambda g: assert_type(g, Tensor[P[TP]]))
    v.register_hook(lambda g: assert_type(g, Tensor[V[TP]]))
    w.register_hook(lambda g: assert_type(g, Tensor[I[TP]]))
    torch.ones(2, requires_grad=True).register_hook(lambda g: g)


def found(block: Block) -> None:
    assert_type(block.get_parameter("weight"), Parameter[V[TP]])
    assert_type(block.get_buffer("mask"), Tensor[R[TP]])
    for name, parameter in block.named_parameters():
        assert_type(name, str)
        assert_type(parameter, nn.Parameter)
    assert_type(block.to("cpu").mask, Tensor[R[TP]])
    assert_type(block.train().weight, Parameter[V[TP]])


def main() -> None:
    block = Block(torch.ones(2), nn.Parameter(torch.ones(2)))
    hooks(block, Two())
    of_tensors(torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True), nn.Parameter(torch.ones(2)))
    found(block)
    x = torch.ones(2, requires_grad=True)
    block(x).backward(torch.ones(2))
    assert x.grad is not None
    all_reduce(convert(x, TP, src=R, dst=P), TP, dst=R)
