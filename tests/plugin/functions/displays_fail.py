"""Lists that are written in an argument's place hold what they are made of; Python's own functions what they iterate."""

from __future__ import annotations

import functools

import torch

from spmd_runtime import TP, P, R, Tensor


def red(x: Tensor[P[TP]]) -> Tensor[P[TP]]:
    return x


def g(t: list[Tensor[P[TP]]], d: dict[str, Tensor[P[TP]]]) -> None:
    torch.stack(list(map(red, t))).relu()  # E: spmd-partial
    torch.stack(list(d.values())).relu()  # E: spmd-partial
    torch.stack(sorted(t, key=lambda x: x.numel())).relu()  # E: spmd-partial
    torch.stack(list(reversed(t))).relu()  # E: spmd-partial
    torch.stack([red(x) for x in t if x.numel()]).relu()  # E: spmd-partial
    torch.stack(t[::2]).relu()  # E: spmd-partial
    torch.stack(t + t).relu()  # E: spmd-partial
    torch.stack(t * 2).relu()  # E: spmd-partial
    torch.stack([t[0]] * 3).relu()  # E: spmd-partial
    torch.stack([t[0]] + t).relu()  # E: spmd-partial
    torch.stack([x for xs in (t, t) for x in xs]).relu()  # E: spmd-partial
    torch.stack(list(filter(None, t))).relu()  # E: spmd-partial
    torch.stack([*t, *t]).relu()  # E: spmd-partial
    torch.stack(list(zip(t, t, strict=True))[0]).relu()  # E: spmd-partial
    torch.stack([x[0] for x in zip(t, t, strict=True)]).relu()  # E: spmd-partial
    torch.stack([d[k] for k in d]).relu()  # E: spmd-partial
    torch.stack(t if t else [t[0]]).relu()  # E: spmd-partial
    torch.stack(list(x.chunk(2)[0] for x in t)).relu()  # E: spmd-partial
    torch.stack(t[0].unbind(0)).relu()  # E: spmd-partial
    torch.stack(t[0].split(2)).relu()  # E: spmd-partial
    torch.stack(tuple(t[0].chunk(2))).relu()  # E: spmd-partial
    torch.stack(list(t[0])).relu()  # E: spmd-partial
    torch.cat((t[0], *t[1:]), dim=0).relu()  # E: spmd-partial
    torch.block_diag(*t).relu()  # E: spmd-partial
    torch.meshgrid(*t)[0].relu()  # E: spmd-partial
    torch.einsum("i,i->i", t[0], torch.ones(3)).relu()  # E: spmd-partial
    torch.einsum("i,i->i", [t[0], t[0]])  # E: spmd-partial
    functools.reduce(torch.add, t).relu()  # E: spmd-partial
    functools.reduce(torch.Tensor.add, t).relu()  # E: spmd-partial
    torch.stack(tuple(x for x in t)).relu()  # E: spmd-partial
    torch.stack([t[0]] + [t[1]]).relu()  # E: spmd-partial


def mixed(p: Tensor[P[TP]], r: Tensor[R[TP]], flag: bool) -> None:
    torch.cat([p] + [r])  # E: spmd-mix
    torch.cat((p, r))  # E: spmd-mix
    torch.cat([p, r] * 2)
    torch.stack([p] if flag else [r])
    torch.stack([p] if flag else [r]).relu()  # E: spmd-partial


def pythons_own(d: dict[str, Tensor[P[TP]]], t: list[Tensor[P[TP]]]) -> None:
    max(d.values(), key=lambda x: x.numel()).relu()  # E: spmd-partial
    max(t, key=len).relu()  # E: spmd-partial
    [v for _, v in sorted(d.items())][0].relu()  # E: spmd-partial
    sorted(t)  # E: spmd-partial
    max(t)  # E: spmd-partial
    max(t[0], t[1])  # E: spmd-partial
    sorted(d.values())  # E: spmd-partial
    sorted(t, key=lambda x: x.numel())
    for key in sorted(d):
        print(key)
    max(d)
    sorted(d, key=lambda k: d[k].numel())
    sum(len(k) for k in d)
    sorted(d.keys())
    print(d)  # E: spmd-escape
