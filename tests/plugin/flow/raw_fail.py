"""Raw collectives: what they do not take, and what they leave behind."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V


def reduced_count_used_as_local(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    counts = x.sum(dim=0)
    dist.all_reduce(counts, group=tp)
    return counts  # E: spmd-return


def twice(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    dist.all_reduce(y, group=tp)
    dist.all_reduce(y, group=tp)  # E: spmd-collective


def reduced_already(r: Tensor[R[TP]], i: Tensor[I[TP]], tp: Group[TP]) -> None:
    dist.all_reduce(r, group=tp)  # E: spmd-collective
    dist.all_reduce(i, group=tp)  # E: spmd-collective


def reduced_already_without_gradient(r: Tensor[R[TP]], tp: Group[TP]) -> None:
    y = r.detach() * 2
    dist.all_reduce(y, group=tp)  # E: spmd-collective
    best = (r > 0).sum()
    dist.all_reduce(best, group=tp)  # E: spmd-collective
    parts = [torch.empty_like(r)]
    dist.all_gather(parts, r.detach(), group=tp)  # E: spmd-collective


def counted_twice(n: int, tp: Group[TP]) -> None:
    count = torch.tensor(n)
    dist.all_reduce(count, group=tp)
    mean = count / 2
    dist.all_reduce(count, group=tp)  # E: spmd-collective
    dist.all_reduce(mean, group=tp)  # E: spmd-collective


def part_of_what_was_reduced(loss: Tensor[V[DP]], count: Tensor[V[DP]], dp: Group[DP]) -> None:
    stats = torch.stack([loss.detach(), count.detach()])
    dist.all_reduce(stats, group=dp)
    total, tokens = stats
    mean = total / tokens
    dist.all_reduce(mean, group=dp)  # E: spmd-collective


def multiplied(r: Tensor[R[TP]], tp: Group[TP]) -> None:
    dist.all_reduce(r, op=dist.ReduceOp.PRODUCT, group=tp)  # E: spmd-collective


def in_a_loop(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    for _ in range(2):
        dist.all_reduce(y, group=tp)  # E: spmd-collective


def over_another_axis(x: Tensor[R[DP], P[TP]], dp: Group[DP]) -> None:
    dist.all_reduce(x, group=dp)  # E: spmd-collective


def sums_shards(x: Tensor[S[TP, 0]], tp: Group[TP]) -> None:
    y = x.clone()
    dist.all_reduce(y, group=tp)  # E: spmd-collective


def nonlinear(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    dist.all_reduce(y, op=dist.ReduceOp.MAX, group=tp)  # E: spmd-collective
    y = x.clone()
    dist.all_reduce(y, dist.ReduceOp.MIN, tp)  # E: spmd-collective
    y = x.clone()
    dist.reduce(y, 0, dist.ReduceOp.PRODUCT, tp)  # E: spmd-collective
    y.sqrt()  # one mistake is one report


def parameter(x: Tensor[P[TP]], v: Tensor[V[TP]], tp: Group[TP]) -> None:
    dist.all_reduce(x, group=tp)  # E: spmd-inplace
    x.sqrt()
    dist.broadcast(v, 0, group=tp)  # E: spmd-inplace


def parameter_under_a_view(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    x = x.view(-1)
    dist.all_reduce(x, group=tp)
    return x


def parameter_given_a_copy(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    x = x.clone()
    dist.all_reduce(x, group=tp)
    return x


def output(out: Tensor[V[TP]], x: Tensor[V[TP]], tp: Group[TP]) -> None:
    dist.all_gather_into_tensor(out, x, group=tp)  # E: spmd-inplace


def output_over_another_axis(out: Tensor[R[DP]], x: Tensor[V[DP], V[TP]], tp: Group[TP]) -> None:
    dist.all_gather_into_tensor(out, x, group=tp)  # E: spmd-inplace


class Meter:
    total: Tensor[P[TP]]
    seen: Tensor[P[TP]] | None = None

    def __init__(self, x: Tensor[P[TP]]) -> None:
        self.annotated: Tensor[P[TP]] = x

    def update(self, tp: Group[TP]) -> None:
        dist.all_reduce(self.total, group=tp)  # E: spmd-inplace
        dist.all_reduce(self.annotated, group=tp)  # E: spmd-inplace
        if self.seen is not None:
            dist.all_reduce(self.seen, group=tp)  # E: spmd-inplace


def of_a_meter(meter: Meter, tp: Group[TP]) -> None:
    dist.all_reduce(meter.total, group=tp)  # E: spmd-inplace


def gathers_summands(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    out = torch.empty(8)
    dist.all_gather_into_tensor(out, x, group=tp)  # E: spmd-collective
    parts = [torch.empty_like(x), torch.empty_like(x)]
    dist.all_gather(parts, x, group=tp)  # E: spmd-collective
    dist.all_to_all_single(out, x, group=tp)  # E: spmd-collective
    dist.broadcast(x, 0, group=tp)  # E: spmd-collective


def gathers_what_all_have(x: Tensor[R[TP]], tp: Group[TP]) -> None:
    out = torch.empty(8)
    dist.all_gather_into_tensor(out, x, group=tp)  # E: spmd-collective
    dist.all_to_all_single(out, x, group=tp)  # E: spmd-collective


def gathered_is_the_same(x: Tensor[V[DP], V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    parts = [torch.empty_like(x) for _ in range(2)]
    dist.all_gather(parts, x, group=tp)
    a, b = torch.empty(2), torch.empty(2)
    dist.all_gather([a, b], x, group=tp)
    if x.numel():
        return a  # E: spmd-return
    return parts[0]  # E: spmd-return


def scattered(x: Tensor[P[TP]], r: Tensor[R[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    out = torch.empty(8)
    dist.reduce_scatter_tensor(out, r, group=tp)  # E: spmd-collective
    dist.reduce_scatter(out, [x, x], group=tp)
    return out  # E: spmd-return


def sent_from_one(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    y = x.clone()
    dist.broadcast(y, 0, group=tp)
    return y  # E: spmd-return


def reduced_to_one(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.reduce(y, 0, group=tp)
    return y  # E: spmd-return


class Layer(nn.Module):
    weight: Parameter[V[TP]]

    def forward(self, x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        h = x @ self.weight
        dist.all_reduce(h, group=tp)  # E: spmd-collective
        return h

    def by_steps(self, x: Tensor[V[TP]], tp: Group[TP], flag: bool) -> None:
        h = nn.functional.linear(x, self.weight)
        h = h * 2 if flag else h.relu()
        h += 1
        y = -h[0].view(-1)
        dist.all_reduce(y, group=tp)  # E: spmd-collective

    def weight_itself(self, tp: Group[TP]) -> None:
        dist.all_reduce(self.weight, group=tp)  # E: spmd-collective

    def without_gradient(self, x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        with torch.no_grad():
            h = x @ self.weight
            dist.all_reduce(h, group=tp)
        k = (x @ self.weight).detach()
        dist.all_reduce(k, group=tp)
        return h + k

    def may_need_one(self, x: Tensor[V[TP]], tp: Group[TP], flag: bool) -> Tensor[R[TP]]:
        h = x.clone()
        if flag:
            h = x @ self.weight
        dist.all_reduce(h, group=tp)
        best = (x @ self.weight).argmax()
        dist.all_reduce(best, op=dist.ReduceOp.MAX, group=tp)
        return h
