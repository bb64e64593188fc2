"""Half a sequence-parallel transformer block and its loss, with six bugs; a line that mypy reports ends in ``# BUG``.

On a 2 x 2 mesh of (dp, tp) none of them raises anything.  To find them takes no GPU, no cluster and no run:

    mypy --config-file examples/pyproject.toml examples/bugs/block.py

``examples/llama/model.py`` has the same block as it should be.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import nn

from spmd_runtime import DP, TP, I, P, Parameter, R, S, Tensor, V, all_gather, reduce_scatter

Cut = Tensor[V[DP], S[TP, Literal[0]]]  # (s/tp, b, d): every tp rank has its own tokens
Whole = Tensor[V[DP], R[TP]]  # (s, b, d): every tp rank has all tokens of its dp rank
Summand = Tensor[V[DP], P[TP]]  # (s, b, d): the value is the sum over the tp ranks
PerToken = Tensor[V[DP], I[TP]]  # (s, b)


class Norm(nn.Module):
    weight: Parameter[R[DP], I[TP]]

    def forward(self, x: Cut) -> Cut:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        return x * self.weight  # BUG: the weight's gradient is that of the rank's own tokens


class MLP(nn.Module):
    w1: Parameter[R[DP], V[TP]]
    w2: Parameter[R[DP], V[TP]]
    bias: Parameter[R[DP], I[TP]]

    def forward(self, x: Whole) -> Summand:
        y: Summand = F.linear(F.silu(F.linear(x, self.w1)), self.w2)
        return y + self.bias  # BUG: the sum over tp will add the bias once per rank


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mlp = Norm(), MLP()

    def forward(self, h: Cut) -> Cut:
        x = all_gather(self.norm(h), TP, src=S(0), dst=I)
        y = self.mlp(x)  # BUG: the backward of a gather to I drops the other ranks' gradients (dst=R sums them)
        return h + reduce_scatter(y, DP, src=P, dst=S(0))  # BUG: y is to be summed over tp, not over dp


def mean_loss(losses: PerToken, mask: PerToken) -> Tensor[P[DP], I[TP]]:
    total: Tensor[P[DP], I[TP]] = (losses * mask).sum()
    return total / mask.sum()  # BUG: every dp rank divides by its own number of tokens


def report(loss: Tensor[P[DP], I[TP]]) -> None:
    print(f"loss {loss.item():.3f}")  # BUG: prints the summand of one rank
