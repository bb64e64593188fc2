"""The smallest steps worth compiling, for the tests of what happens around the compiler."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from spmd_runtime import TP, I, P, all_reduce, axis_index

Params = dict[str, torch.Tensor]


def tiny(params: Params, x: torch.Tensor, scale: float) -> tuple[torch.Tensor, Params]:
    """Loss and gradients of a row-parallel layer; its input depends on the rank."""
    y = all_reduce((x + axis_index(TP)) @ params["w"], TP, src=P, dst=I) + params["b"]
    loss = (y.tanh() * scale).sum()
    grads = torch.autograd.grad(loss, list(params.values()))
    return loss.detach(), dict(zip(params, grads, strict=True))


def tiny_inputs(batch: int = 4) -> tuple[Params, torch.Tensor, float]:
    """Inputs with numbers."""
    generator = torch.Generator().manual_seed(3)
    w, b = torch.randn(6, 5, generator=generator), torch.randn(5, generator=generator)
    return {"w": w.requires_grad_(), "b": b.requires_grad_()}, torch.randn(batch, 6, generator=generator), 0.5


def update(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Writes into its first input."""
    w.sub_(x * 0.5)
    return all_reduce(w.sum(), TP, src=P, dst=I)


class Scaled(torch.nn.Module):
    """A module with a parameter and a buffer, whose method is a step."""

    offset: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("offset", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        loss = all_reduce((x * self.weight + self.offset).square().sum(), TP, src=P, dst=I)
        return loss.detach(), torch.autograd.grad(loss, [self.weight])


class Pair(NamedTuple):
    """Inputs, and results, by name."""

    x: torch.Tensor
    y: torch.Tensor


def product(pair: Pair) -> Pair:
    """Takes and gives a named tuple."""
    return Pair(pair.x * pair.y, pair.y)


def shards(batch: torch.Tensor) -> torch.Tensor:
    """A mean over ranks with different batches."""
    return all_reduce(batch.square().sum(), TP, src=P, dst=I)


def several(w: torch.Tensor, x: torch.Tensor, tied: torch.Tensor) -> Any:
    """Gives an input it has written into, a view of it, an input as it is, random numbers, and a gradient."""
    w.sub_(x)
    return w, w.view(-1), x, F.dropout(x, 0.5), torch.autograd.grad((x * tied * tied).sum(), [tied])[0]
