"""The training step: forward, backward, and what data parallelism adds to them.

Every dp rank has a loss of its own (``V[DP]``), so the gradient of a parameter, which is the same on all of them, is a
summand (``P[DP]``) until :func:`average` has reduced it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.func import functional_call

from spmd_runtime import DP, TP, I, P, R, Tensor, V, all_reduce, axis_size

from .model import Llama, Loss, Tokens, tp_dims

Gradients = dict[str, torch.Tensor]
Step = Callable[[Mapping[str, torch.Tensor], Tokens, Tokens], tuple[torch.Tensor, Gradients]]


def average(x: Tensor[P[DP]]) -> Tensor[R[DP]]:
    """The mean over the dp ranks of what each of them has: the finaliser of data parallelism.

    One collective per tensor, for clarity: DDP and FSDP do the same in buckets, while the backward is still running.
    """
    return all_reduce(x, DP, src=P, dst=R) / axis_size(DP)


class LossAndGradients(nn.Module):
    """One training step without the update: loss and gradients, both averaged over dp."""

    def __init__(self, model: Llama, bf16: bool = False) -> None:
        super().__init__()
        self.model, self.bf16 = model, bf16

    def forward(self, tokens: Tokens, targets: Tokens) -> tuple[Tensor[R[DP], I[TP]], Gradients]:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.bf16):
            loss: Loss = self.model(tokens, targets)
        params = dict(self.model.named_parameters())
        grads = torch.autograd.grad(loss, list(params.values()))
        return average(loss.detach()), {name: average(grad) for name, grad in zip(params, grads, strict=True)}


def make_step(model: Llama, bf16: bool = False) -> Step:
    """``step(params, tokens, targets) -> (loss, gradients)``, a function of its arguments alone.

    The backward runs while ``params`` stand in for the model's own, so that recomputed activations use them too.
    """
    module = LossAndGradients(model, bf16)

    def step(params: Mapping[str, torch.Tensor], tokens: Tokens, targets: Tokens) -> tuple[torch.Tensor, Gradients]:
        named = {f"model.{name}": param for name, param in params.items()}
        loss, grads = functional_call(module, named, (tokens, targets))
        return loss, grads

    return step


def global_norm(cut: list[Tensor[R[DP], V[TP]]], whole: list[Tensor[R[DP], I[TP]]]) -> Tensor[R[DP], I[TP]]:
    """The norm of the whole model's gradient: parts that are cut over tp are summed over it, the others count once."""
    own_square: Tensor[R[DP], P[TP]] = torch.stack([grad.square().sum() for grad in cut]).sum()
    square = all_reduce(own_square, TP, src=P, dst=I) + torch.stack([grad.square().sum() for grad in whole]).sum()
    return square.sqrt()


def clip(model: nn.Module, grads: Gradients, limit: float) -> torch.Tensor:
    """Scale ``grads`` in place so that their global norm is at most ``limit``; gives the norm before."""
    dims = tp_dims(model)
    cut = [grad for name, grad in grads.items() if dims[name] is not None]
    whole = [grad for name, grad in grads.items() if dims[name] is None]
    norm = global_norm(cut, whole)
    scale = (limit / (norm + 1e-6)).clamp(max=1.0)
    for grad in grads.values():
        grad.mul_(scale)
    return norm
