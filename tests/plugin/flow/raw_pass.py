"""Raw collectives re-type what they write: every claim here is checked by mypy, and in numbers when this file runs."""

from __future__ import annotations

import torch
import torch.distributed as dist
from typing_extensions import assert_type

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V
from spmd_runtime.mesh import lookup


def summed(x: Tensor[V[DP], P[TP]], tp: Group[TP]) -> Tensor[V[DP], R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=tp)
    assert_type(y, Tensor[V[DP], R[TP]])
    return y.sqrt()


def summed_varying(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[I[TP]]:
    y = x.detach().clone()
    dist.all_reduce(y, dist.ReduceOp.SUM, tp)
    return y  # a constant: R and I


def mixes_with_everything(x: Tensor[V[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]], tp: Group[TP]) -> Tensor[I[TP]]:
    total = x.clone()
    dist.all_reduce(total, group=tp)
    shifted: Tensor[V[TP]] = x - total
    scaled: Tensor[R[TP]] = r / total
    assert shifted.shape == scaled.shape
    return i * total


def declared_local(x: Tensor[V[TP]], w: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    h: Tensor[P[TP]] = x * w
    dist.all_reduce(h, group=tp)
    return torch.relu(h)


def gathered(x: Tensor[V[DP], V[TP]], tp: Group[TP]) -> Tensor[V[DP], R[TP]]:
    out = torch.empty(x.shape[0] * dist.get_world_size(tp), *x.shape[1:])
    dist.all_gather_into_tensor(out, x, group=tp)
    assert_type(out, Tensor[V[DP], R[TP]])
    return out


def gathered_shards(x: Tensor[S[TP, 1]], tp: Group[TP]) -> Tensor[R[TP]]:
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size(tp))]
    dist.all_gather(parts, x, group=tp)
    return torch.cat(parts, dim=1)


def gathered_into(out: Tensor[R[TP]], x: Tensor[V[TP]], tp: Group[TP]) -> None:
    dist.all_gather_into_tensor(out, x, group=tp)


def scattered(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    out = torch.zeros(x.shape[0] // dist.get_world_size(tp), *x.shape[1:])
    dist.reduce_scatter_tensor(out, x, group=tp)
    return out


def scattered_parts(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    out = torch.empty(x.shape[0] // dist.get_world_size(tp), *x.shape[1:])
    dist.reduce_scatter(out, list(x.chunk(dist.get_world_size(tp))), group=tp)
    return out


def exchanged(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, group=tp)
    return out


def sent_from_one(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.broadcast(y, 0, group=tp)
    return y


def stays(weight: Parameter[I[TP]], scale: Tensor[R[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    with torch.no_grad():
        dist.broadcast(weight, 0, group=tp)
    dist.broadcast(scale, 0, group=tp)
    dist.all_reduce(scale, dist.ReduceOp.MAX, group=tp)  # equal values: their maximum is what they are
    return scale


def reduced_to_one(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    y = x.clone()
    dist.reduce(y, 0, group=tp)
    return y


def reduced_then_sent(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.reduce(y, 0, group=tp)
    dist.broadcast(y, 0, group=tp)
    return y


def maximum(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    highest = x.amax()
    dist.all_reduce(highest, op=dist.ReduceOp.MAX, group=tp)
    return torch.exp(x - highest)


def mean(x: Tensor[P[TP]], tp: Group[TP], op: dist.ReduceOp.RedOpType) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y, op=op, group=tp)  # the reduction is not known: given the benefit of the doubt
    return y


def counted(tokens: int, tp: Group[TP]) -> float:
    count = torch.tensor(tokens)
    dist.all_reduce(count, group=tp)
    return count.item()


def counted_by_each_rank(batch: list[int], tp: Group[TP]) -> Tensor[R[TP]]:
    count = torch.tensor(len(batch)) * 2.0
    dist.all_reduce(count, group=tp)
    flag = torch.zeros(1)
    if batch:
        flag += 1
    dist.all_reduce(flag, group=tp)
    sizes = torch.empty(dist.get_world_size(tp))
    dist.all_gather_into_tensor(sizes, torch.full((1,), float(len(batch))) + 0.5, group=tp)
    return count + flag + sizes.sum()


def statistics(losses: list[float], tp: Group[TP]) -> Tensor[R[TP]]:
    total, stats = torch.zeros(2), torch.zeros(2)
    for n, loss in enumerate(losses):
        stats[0], stats[1] = loss, n
        dist.all_reduce(stats, group=tp)
        total += stats
    return total


def many(a: Tensor[P[TP]], b: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    x, y = a.clone(), b.clone()
    dist.all_reduce_coalesced([x, y], group=tp)
    return x * y


def in_a_loop(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    total = torch.zeros_like(x.detach())
    for _ in range(3):
        part = x.clone()
        dist.all_reduce(part, group=tp)
        total = total + part.sqrt()
    return total


def over_all_axes(x: Tensor[V[DP], P[TP]]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y)  # the world is no axis: unknown from here on
    return torch.relu(y)


def of_unknown_axis(x: Tensor[P[TP]], group: dist.ProcessGroup) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=group)
    return torch.relu(y)


def optional_group(x: Tensor[P[TP]], tp: Group[TP] | None = None) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=tp)
    return torch.relu(y)


def unknown_tensor(x: Tensor, tp: Group[TP]) -> Tensor[R[TP]]:
    dist.all_reduce(x, group=tp)
    return x


def received(x: Tensor[V[CP], V[TP]], cp: Group[CP]) -> Tensor[V[CP]]:
    buffer = torch.zeros_like(x)
    if dist.get_world_size(cp) > 1:
        dist.send(x, 0, group=cp)
        dist.recv(buffer, 1, group=cp)
    return buffer


class Meter:
    def __init__(self, tp: Group[TP]) -> None:
        self.tp = tp
        self.total = torch.zeros(1)
        self.seen: Tensor[R[TP]] = torch.zeros(1)

    def update(self, loss: Tensor[V[TP]]) -> Tensor[R[TP]]:
        self.total = loss.detach().clone()
        dist.all_reduce(self.total, group=self.tp)
        dist.broadcast(self.seen, 0, group=self.tp)
        return self.total.sqrt() + self.seen


def by_key(losses: dict[str, Tensor[P[TP]]], tp: Group[TP]) -> Tensor[R[TP]]:
    copy = {name: loss.clone() for name, loss in losses.items()}
    dist.all_reduce(copy["ce"], group=tp)
    return copy["ce"].sqrt()


def every_one(losses: list[Tensor[P[TP]]], tp: Group[TP]) -> Tensor[R[TP]]:
    for loss in losses:
        dist.all_reduce(loss, group=tp)
        loss.sqrt()
    return losses[0].sqrt()  # unknown now: its elements were written to


def given(x: torch.Tensor) -> torch.Tensor:
    """A tensor of unknown type: what a rank makes of its own number is no constant."""
    return x


def main() -> None:
    tp = lookup(TP).group
    n, rank = tp.size(), tp.rank()
    start = torch.arange(1.0, 1 + 2 * n).reshape(2 * n, 1)
    x = given(start + rank)
    whole = given(torch.stack([start + r for r in range(n)]).sum(0))
    assert torch.equal(summed(x, tp), whole.sqrt())
    assert torch.equal(summed_varying(x, tp), whole)
    assert torch.equal(mixes_with_everything(x, x, x, tp), x * whole)
    assert torch.equal(declared_local(x, torch.ones(1), tp), whole)
    rows = given(torch.full((1, 1), float(rank)))
    every = torch.arange(float(n)).reshape(n, 1)
    assert torch.equal(gathered(rows, tp), every)
    assert torch.equal(gathered_shards(rows, tp), every.T)
    out = torch.zeros(n, 1)
    gathered_into(out, rows, tp)
    assert torch.equal(out, every)
    assert torch.equal(scattered(x, tp), whole[2 * rank : 2 * rank + 2])
    assert torch.equal(scattered_parts(x, tp), whole[2 * rank : 2 * rank + 2])
    assert torch.equal(sent_from_one(rows, tp), torch.zeros(1, 1))
    assert torch.equal(stays(torch.nn.Parameter(torch.ones(1)), torch.ones(1), tp), torch.ones(1))
    assert torch.equal(reduced_then_sent(x, tp), whole)
    assert float(maximum(rows, tp)) == float(torch.exp(torch.tensor(float(rank - n + 1))))
    assert torch.equal(mean(x, tp, dist.ReduceOp.SUM), whole)
    assert counted(3, tp) == 3 * n
    assert float(counted_by_each_rank([1, 2], tp)) == 4 * n + n + 2.5 * n
    assert statistics([1.0, 3.0], tp).tolist() == [4.0 * n, n]
    assert torch.equal(many(x, x, tp), whole * whole)
    assert torch.equal(in_a_loop(x, tp), whole.sqrt() * 3)
    assert torch.equal(over_all_axes(x), whole) and torch.equal(of_unknown_axis(x, tp), whole)
    assert torch.equal(optional_group(x, tp), whole) and torch.equal(unknown_tensor(x.clone(), tp), whole)
    assert torch.equal(Meter(tp).update(x), whole.sqrt())
    assert torch.equal(by_key({"ce": x}, tp), whole.sqrt())
    assert torch.equal(every_one([x.clone()], tp), whole.sqrt())
    assert exchanged(torch.full((n,), float(rank)), tp).tolist() == list(map(float, range(n)))
    assert reduced_to_one(x, tp).shape == x.shape
    received(x, lookup(CP).group)
