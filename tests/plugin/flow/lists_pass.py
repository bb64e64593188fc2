"""Lists and dicts of tensors that raw collectives write to, one by one."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from spmd_runtime import TP, Group, P, R, Tensor, all_reduce
from spmd_runtime.mesh import lookup


def sync_list(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    ys = [x.detach().clone() for x in xs]
    for y in ys:
        dist.all_reduce(y, group=tp)
    return ys


def sync_list2(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    ys = []
    for x in xs:
        y = x.detach().clone()
        dist.all_reduce(y, group=tp)
        ys.append(y)
    return ys


def sync_list3(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    ys = [x.detach().clone() for x in xs]
    for i in range(len(ys)):
        dist.all_reduce(ys[i], group=tp)
    return ys


def sync_list4(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    ys = [x.detach().clone() for x in xs]
    for i, y in enumerate(ys):
        ys[i] = all_reduce(y, TP, dst=R)
    return ys


def sync_dict(xs: dict[str, Tensor[P[TP]]], tp: Group[TP]) -> dict[str, Tensor[R[TP]]]:
    out = {}
    for k, v in xs.items():
        v = v.detach().clone()
        dist.all_reduce(v, group=tp)
        out[k] = v
    return out


def sync_dict2(xs: dict[str, Tensor[P[TP]]], tp: Group[TP]) -> dict[str, Tensor[R[TP]]]:
    ys = {k: v.detach().clone() for k, v in xs.items()}
    for v in ys.values():
        dist.all_reduce(v, group=tp)
    return ys


def while_(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> list[Tensor[R[TP]]]:
    work: list[Tensor[R[TP]]] = []
    while xs:
        x = xs.pop().detach().clone()
        h = dist.all_reduce(x, group=tp, async_op=True)
        assert h is not None
        h.wait()
        work.append(x)
    return work


def tuple_handles(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.detach().clone()
    pending = (dist.all_reduce(y, group=tp, async_op=True), y)
    h, t = pending
    assert h is not None
    h.wait()
    return t


def dict_handles(xs: dict[str, Tensor[P[TP]]], tp: Group[TP]) -> dict[str, Tensor[R[TP]]]:
    hs: dict[str, Any] = {}
    ys = {k: v.detach().clone() for k, v in xs.items()}
    for k, y in ys.items():
        hs[k] = dist.all_reduce(y, group=tp, async_op=True)
    for h in hs.values():
        h.wait()
    return ys


def merged(xs: list[Tensor[P[TP]]], r: Tensor[R[TP]], tp: Group[TP], u: list[torch.Tensor], flag: bool) -> None:
    ys = [x.detach().clone() for x in xs]
    for y in ys:
        dist.all_reduce(y, group=tp)
    torch.stack(ys).relu()
    ys[0].relu()
    ys[0] + r
    for x, y in zip(xs, ys, strict=True):
        x * y
    torch.cat([*ys, r]).relu()
    torch.stack(u if flag else xs).relu()


def main() -> None:
    tp = lookup(TP).group
    x = torch.ones(2)
    world = tp.size()
    for function in (sync_list, sync_list2, sync_list3, sync_list4):
        result: Any = function([x.clone()], tp)
        assert torch.equal(result[0], x * world), function
    for of_dict in (sync_dict, sync_dict2, dict_handles):
        result = of_dict({"a": x.clone()}, tp)
        assert torch.equal(result["a"], x * world), of_dict
    assert torch.equal(while_([x.clone()], tp)[0], x * world)
    assert torch.equal(tuple_handles(x.clone(), tp), x * world)
    merged([x.clone()], x, tp, [x], True)
