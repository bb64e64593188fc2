"""Activation checkpointing, reentrant or not, selective or not: the checkpointed function's own types."""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
import torch.utils.checkpoint as ckpt
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
)
from typing_extensions import assert_type

from spmd_runtime import TP, I, P, R, Tensor, V, all_reduce, convert


class Block(nn.Module):
    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[R[TP]]:
        return F.gelu(x) * scale

    def inner(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)


def reduce(x: Tensor[P[TP]], *, twice: bool = False) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


def two(x: Tensor[R[TP]], y: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], Tensor[P[TP]]]:
    return x, y


def policy(ctx: object, op: object, *args: object, **kwargs: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.stages = nn.Sequential(Block(), Block())
        self.act = nn.GELU()
        self.wrapped = checkpoint_wrapper(Block())

    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        assert_type(x, Tensor[R[TP]])
        assert_type(checkpoint(self.block, x, 2.0, use_reentrant=True), Tensor[R[TP]])
        assert_type(checkpoint(self.block, x, scale=2.0, use_reentrant=False), Tensor[R[TP]])
        assert_type(checkpoint(self.block.inner, x, use_reentrant=False), Tensor[P[TP]])
        assert_type(checkpoint(self.stages, x, use_reentrant=False), Tensor[R[TP]])
        assert_type(checkpoint(self.act, x, use_reentrant=False), Tensor[R[TP]])
        assert_type(checkpoint_sequential(self.stages, 2, x, use_reentrant=False), Tensor[R[TP]])
        assert_type(self.wrapped(x), Tensor[R[TP]])
        assert_type(ckpt.checkpoint(self.block, x, use_reentrant=False), Tensor[R[TP]])
        return x


def functions(r: Tensor[R[TP]], p: Tensor[P[TP]], v: Tensor[V[TP]]) -> None:
    assert_type(checkpoint(reduce, p, use_reentrant=False), Tensor[R[TP]])
    assert_type(checkpoint(reduce, p, twice=True, use_reentrant=False), Tensor[R[TP]])
    x, y = checkpoint(two, r, p, use_reentrant=False)
    assert_type(x, Tensor[R[TP]])
    assert_type(y, Tensor[P[TP]])
    assert_type(checkpoint(two, *(r, p), use_reentrant=False)[1], Tensor[P[TP]])
    assert_type(checkpoint(lambda t: F.gelu(t), v, use_reentrant=False), Tensor[V[TP]])
    assert_type(checkpoint(lambda a, b: reduce(b) + a, r, p, use_reentrant=False), Tensor[R[TP]])
    assert_type(checkpoint(F.gelu, v, use_reentrant=False), Tensor[V[TP]])
    assert_type(checkpoint(functools.partial(reduce, twice=True), p, use_reentrant=False), Tensor[R[TP]])

    def closure(t: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(t, TP, src=R, dst=P) + p

    assert_type(checkpoint(closure, r, use_reentrant=False), Tensor[P[TP]])
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    assert_type(checkpoint(reduce, p, use_reentrant=False, context_fn=contexts), Tensor[R[TP]])

    def untyped(*args):  # type: ignore[no-untyped-def]
        return args[0]

    F.gelu(checkpoint(untyped, p, use_reentrant=False))


def main() -> None:
    x = torch.randn(3, requires_grad=True)
    y = Model()(x)
    y.backward(torch.ones(3))
    assert x.grad is not None
    reference = x.detach().requires_grad_()
    F.gelu(F.gelu(reference)).backward(torch.ones(3))
    assert reference.grad is not None
    assert torch.allclose(x.grad, reference.grad)
    functions(x, x, x)
