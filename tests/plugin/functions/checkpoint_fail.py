"""Activation checkpointing hides no mistake."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from spmd_runtime import TP, P, R, Tensor, V, all_reduce, convert


class Block(nn.Module):
    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[R[TP]]:
        return x * scale

    def inner(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)


def reduce(x: Tensor[P[TP]], *, twice: bool = False) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.stages = nn.Sequential(Block(), Block())
        self.act = nn.GELU()
        self.wrapped = checkpoint_wrapper(Block())

    def forward(self, x: Tensor[R[TP]], p: Tensor[P[TP]]) -> Tensor[R[TP]]:
        for layer in self.layers:
            checkpoint(layer, p, use_reentrant=False)  # E: spmd-arg
        checkpoint(self.block, p, use_reentrant=True)  # E: spmd-arg
        checkpoint(self.block, x, "2", use_reentrant=False)  # E: arg-type
        checkpoint(self.block, x, factor=2.0, use_reentrant=False)  # E: call-arg
        checkpoint(self.block, use_reentrant=False)  # E: call-arg
        checkpoint(self.block.inner, p, use_reentrant=False)  # E: spmd-arg
        checkpoint(self.stages, p, use_reentrant=False)  # E: spmd-arg
        checkpoint(self.act, p, use_reentrant=False)  # E: spmd-partial
        checkpoint_sequential(self.stages, 2, p, use_reentrant=False)  # E: spmd-arg
        self.wrapped(p)  # E: spmd-arg
        return checkpoint(self.block.inner, x, use_reentrant=False)  # E: spmd-return


def functions(r: Tensor[R[TP]], p: Tensor[P[TP]], v: Tensor[V[TP]]) -> None:
    checkpoint(reduce, r, use_reentrant=False)  # E: spmd-arg
    checkpoint(lambda t: F.gelu(t), p, use_reentrant=False)  # E: spmd-partial
    checkpoint(lambda t: reduce(t), r, use_reentrant=False)  # E: spmd-arg
    checkpoint(F.gelu, p, use_reentrant=False)  # E: spmd-partial
    F.gelu(checkpoint(lambda t: t + t, p, use_reentrant=False))  # E: spmd-partial

    def closure(t: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(t, TP, src=R, dst=P) + p

    F.gelu(checkpoint(closure, r, use_reentrant=False))  # E: spmd-partial
    checkpoint(closure, p, use_reentrant=False)  # E: spmd-arg
