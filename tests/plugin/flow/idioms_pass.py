"""Raw collectives as training code has them: nothing here is wrong, and nothing is reported."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V
from spmd_runtime.mesh import lookup


def clip_grad_norm(parameters: list[Parameter[V[TP]]], tp: Group[TP], limit: float) -> Tensor[R[TP]]:
    total = torch.zeros(1)
    for p in parameters:
        if p.grad is not None:
            total += p.grad.norm() ** 2
    dist.all_reduce(total, group=tp)
    norm = total.sqrt()
    scale = limit / (norm + 1e-6)
    for p in parameters:
        if p.grad is not None:
            p.grad.mul_(scale)
    return norm


def average_gradients(model: nn.Module, dp: Group[DP]) -> None:
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=dp)
            p.grad /= dist.get_world_size(dp)
            dist.all_reduce(p.grad.data, op=dist.ReduceOp.SUM, group=dp)


def start_from_one(model: nn.Module, dp: Group[DP]) -> None:
    for p in model.parameters():
        dist.broadcast(p.data, group=dp, group_src=0)
    for buffer in model.buffers():
        dist.broadcast(buffer, group=dp, group_src=0)


class VocabParallelCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor[V[TP]], target: Tensor[R[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        highest = torch.max(logits, dim=-1)[0]
        dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=tp)
        logits = logits - highest.unsqueeze(dim=-1)
        size = logits.size(-1)
        start = tp.rank() * size
        mask = (target < start) | (target >= start + size)
        masked = target.clone() - start
        masked[mask] = 0
        rows = torch.arange(start=0, end=logits.size(0))
        predicted = logits[rows, masked].clone().contiguous()
        predicted[mask] = 0.0
        dist.all_reduce(predicted, op=dist.ReduceOp.SUM, group=tp)
        exponents = logits.exp()
        total = exponents.sum(dim=-1)
        dist.all_reduce(total, op=dist.ReduceOp.SUM, group=tp)
        loss = torch.log(total) - predicted
        exponents = exponents.div(total.unsqueeze(dim=-1))
        ctx.save_for_backward(exponents, mask, masked)
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[V[TP]], None, None]:
        exponents, mask, masked = ctx.saved_tensors
        grad_input = exponents
        rows = torch.arange(start=0, end=grad_input.size(0))
        grad_input[rows, masked] -= 1.0 - mask.float()
        return grad_input * grad.unsqueeze(dim=-1), None, None


class Linear(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self, tp: Group[TP]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 4))
        self.tp = tp
        self.register_buffer("calls", torch.zeros(1))

    def gathered_input(self, x: Tensor[S[TP, 0]]) -> Tensor[V[TP]]:
        size = list(x.size())
        size[0] *= dist.get_world_size(self.tp)
        buffer = torch.empty(size, dtype=x.dtype)
        with torch.no_grad():
            dist.all_gather_into_tensor(buffer, x.contiguous(), group=self.tp)
        return F.linear(buffer, self.weight)

    def backward_by_hand(self, grad: Tensor[V[TP]], x: Tensor[R[TP]]) -> tuple[Tensor[R[TP]], Tensor[V[TP]]]:
        with torch.no_grad():
            summands: Tensor[P[TP]] = grad.matmul(self.weight)
            handle = dist.all_reduce(summands, group=self.tp, async_op=True)
            grad_weight = grad.t().matmul(x)
            handle.wait()
        return summands, grad_weight

    def scattered_by_hand(self, grad: Tensor[V[TP]]) -> Tensor[V[TP]]:
        summands: Tensor[P[TP]] = grad.matmul(self.weight).detach()
        size = list(summands.size())
        size[0] //= dist.get_world_size(self.tp)
        part = torch.empty(size, dtype=grad.dtype, requires_grad=False)
        handle = dist.reduce_scatter_tensor(part, summands, group=self.tp, async_op=True)
        handle.wait()
        return part


def ring(x: Tensor[V[CP]], cp: Group[CP]) -> Tensor[V[CP]]:
    buffer = torch.zeros_like(x)
    rank, size = dist.get_rank(cp), dist.get_world_size(cp)
    if size > 1:
        operations = [
            dist.P2POp(dist.isend, x, dist.get_global_rank(cp, (rank + 1) % size), cp),
            dist.P2POp(dist.irecv, buffer, dist.get_global_rank(cp, (rank - 1) % size), cp),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
    return buffer


def expert_load(routing: Tensor[V[DP]], dp: Group[DP]) -> Tensor[R[DP]]:
    counts = routing.sum(dim=0).float()
    dist.all_reduce(counts, group=dp)
    return counts / counts.sum()


def exchanged(tokens: Tensor[V[TP]], splits: list[int], tp: Group[TP]) -> Tensor[V[TP]]:
    sizes = torch.tensor(splits)
    received = torch.empty_like(sizes)
    dist.all_to_all_single(received, sizes, group=tp)
    out = tokens.new_empty((int(received.sum()), tokens.shape[1]))
    dist.all_to_all_single(out, tokens, received.tolist(), splits, group=tp)
    return out


def logged(loss: Tensor[V[DP]], dp: Group[DP]) -> float:
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM, group=dp)
    mean /= dist.get_world_size(dp)
    return mean.item()


def stopped(found: bool, dp: Group[DP]) -> bool:
    flag = torch.tensor(1.0 if found else 0.0)
    dist.all_reduce(flag, op=dist.ReduceOp.MAX, group=dp)
    return bool(flag.item())


def split_evenly(x: Tensor[V[TP]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    parts = [torch.zeros_like(x) for _ in range(dist.get_world_size(tp))]
    dist.all_gather(parts, x, group=tp)
    return parts


def given(x: torch.Tensor) -> torch.Tensor:
    return x


def main() -> None:
    tp, dp, cp = lookup(TP).group, lookup(DP).group, lookup(CP).group
    n, rank = tp.size(), tp.rank()
    layer = Linear(tp)
    layer.weight.grad = torch.ones(4, 4)
    torch.testing.assert_close(clip_grad_norm([layer.weight], tp, 1.0), torch.tensor([4.0 * n**0.5]))
    average_gradients(layer, dp)
    start_from_one(layer, dp)
    logits = given(torch.arange(8.0 * n).reshape(2, 4 * n).sin())
    target = given(torch.tensor([1, 4 * n - 1]))
    loss = VocabParallelCrossEntropy.apply(logits[:, 4 * rank : 4 * rank + 4], target, tp)
    torch.testing.assert_close(loss, F.cross_entropy(logits, target, reduction="none"))
    rows = given(torch.ones(2, 4))
    assert layer.gathered_input(rows).shape == (2 * n, 4)
    grads = layer.backward_by_hand(rows, rows)
    assert torch.equal(grads[0], rows * 4 * n)
    assert torch.equal(layer.scattered_by_hand(given(torch.ones(2 * n, 4))), torch.full((2, 4), 4.0 * n))
    assert torch.equal(ring(rows, cp), torch.zeros(2, 4))
    assert torch.equal(expert_load(rows, dp), torch.full((4,), 0.25))
    assert exchanged(given(torch.ones(n, 4)), [1] * n, tp).shape == (n, 4)
    assert logged(given(torch.tensor(3.0)), dp) == 3.0 and stopped(True, dp)
    assert len(split_evenly(rows, tp)) == n
