"""The same idioms, each with one mistake."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V


def norm_of_the_own_part(parameters: list[Parameter[V[TP]]], tp: Group[TP]) -> Tensor[R[TP]]:
    total = torch.zeros(1)
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm() ** 2
    return total.sqrt()  # E: spmd-return


def norm_summed_in_the_loop(parameters: list[Parameter[V[TP]]], tp: Group[TP]) -> None:
    total = torch.zeros(1)
    for p in parameters:
        norm = p.detach().norm()
        dist.all_reduce(norm, group=tp)
        dist.all_reduce(norm, group=tp)  # E: spmd-collective
        total += norm


class VocabParallelCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor[V[TP]], rows: Tensor[R[TP]], tp: Group[TP], dp: Group[DP]) -> Tensor[R[TP]]:
        highest = torch.max(logits, dim=-1)[0]
        logits = logits - highest.unsqueeze(dim=-1)
        predicted = logits[rows, rows].clone()
        dist.all_reduce(predicted, group=dp)
        total = logits.exp().sum(dim=-1)
        dist.all_reduce(total, group=tp)
        return torch.log(total) - predicted  # E: spmd-return


def expert_load(routing: Tensor[V[DP]], dp: Group[DP]) -> Tensor[V[DP]]:
    counts = routing.sum(dim=0)
    dist.all_reduce(counts, group=dp)
    return counts * 2  # E: spmd-return


def linear_backward(grad: Tensor[V[TP]], weight: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    summands: Tensor[P[TP]] = grad.matmul(weight)
    handle = dist.all_reduce(summands, group=tp, async_op=True)
    bias = summands.sum(dim=0)  # E: spmd-collective
    handle.wait()
    return summands + bias


def logged(loss: Tensor[P[DP], V[TP]], dp: Group[DP], tp: Group[TP]) -> float:
    mean = loss.detach().clone()
    dist.all_reduce(mean, group=tp)
    return mean.item()  # E: spmd-escape


def sharded_sum(x: Tensor[S[TP, 0]], tp: Group[TP]) -> None:
    y = x.detach() * 2
    dist.all_reduce(y, group=tp)  # E: spmd-collective


class Metrics:
    loss: Tensor[P[DP]]

    def reduce(self, dp: Group[DP]) -> None:
        dist.all_reduce(self.loss, group=dp)  # E: spmd-inplace

    def reduced(self, dp: Group[DP]) -> float:
        loss = self.loss.clone()
        dist.all_reduce(loss, group=dp)
        return loss.sqrt().item()
