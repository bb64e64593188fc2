"""Operators, methods, functions and properties go through the rules; constants, unions, writes."""

from __future__ import annotations

import operator

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from spmd_runtime import DP, TP, I, P, Parameter, R, S, Tensor, V, all_reduce


def mixing(r: Tensor[R[TP]], i: Tensor[I[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(r * v)  # R: Tensor[V[TP]]
    reveal_type(r + r)  # R: Tensor[R[TP]]
    reveal_type(i * i)  # R: Tensor[I[TP]]
    reveal_type(p + p)  # R: Tensor[P[TP]]
    reveal_type(p * r)  # R: Tensor[P[TP]]
    reveal_type(2 * p / 3)  # R: Tensor[P[TP]]
    reveal_type(p @ r)  # R: Tensor[P[TP]]
    i * r  # E: spmd-mix
    v - i  # E: spmd-mix
    p + v  # E: spmd-mix
    p + r  # E: spmd-mix
    p * p  # E: spmd-partial
    p + 1  # E: spmd-partial
    1 - p  # E: spmd-partial
    r / p  # E: spmd-partial
    p**2  # E: spmd-partial
    p > 0  # E: spmd-partial
    p == 1  # E: spmd-partial
    F.gelu(p)  # E: spmd-partial
    p.relu()  # E: spmd-partial
    torch.div(p, 2, rounding_mode="floor")  # E: spmd-partial
    torch.div(r, other=p)  # E: spmd-partial
    operator.mul(p, p)  # E: spmd-partial


def one_mistake_is_one_report(x: Tensor[V[DP], P[TP]]) -> None:
    y = F.gelu(x)  # E: spmd-partial
    reveal_type(y)  # R: Tensor[V[DP]]
    F.gelu(y)
    reveal_type(y + 1)  # R: Tensor[V[DP]]


def axes_apart(x: Tensor[V[DP], P[TP]], w: Tensor[R[DP], R[TP]], u: Tensor[R[TP]]) -> None:
    reveal_type(x @ w)  # R: Tensor[V[DP], P[TP]]
    reveal_type(x @ u)  # R: Tensor[P[TP]]


def linear_in_partial(p: Tensor[P[TP]], w: Tensor[R[TP]], i: Tensor[I[TP]], index: Tensor[I[TP]]) -> None:
    reveal_type(F.linear(p, w))  # R: Tensor[P[TP]]
    reveal_type(p[0])  # R: Tensor[P[TP]]
    reveal_type(p[:, index])  # R: Tensor[P[TP]]
    reveal_type(p.float())  # R: Tensor[P[TP]]
    reveal_type(p.to(torch.bfloat16))  # R: Tensor[P[TP]]
    reveal_type(F.pad(p, (1, 1)))  # R: Tensor[P[TP]]
    reveal_type(torch.where(w > 0, p, 0.0))  # R: Tensor[P[TP]]
    reveal_type(sum([p, p]))  # R: Tensor[P[TP]] | Literal[0]
    reveal_type(torch.cat([p, p]))  # R: Tensor[P[TP]]
    reveal_type(torch.einsum("ij,jk->ik", p, w))  # R: Tensor[P[TP]]
    p.long()  # E: spmd-partial
    p.to(torch.int64)  # E: spmd-partial
    F.pad(p, (1, 1), value=1.0)  # E: spmd-partial
    F.linear(p, w, w)  # E: spmd-mix
    torch.cat([p, w])  # E: spmd-mix


def results(v: Tensor[V[TP]], r: Tensor[R[TP]]) -> None:
    q, k = v.chunk(2, dim=-1)
    reveal_type(q)  # R: Tensor[V[TP]]
    reveal_type(v.split(2))  # R: tuple[Tensor[V[TP]], ...]
    values, indices = r.max(dim=0)
    reveal_type(values)  # R: Tensor[R[TP]]
    for row in v:
        reveal_type(row)  # R: Tensor[V[TP]]
    a, b = v
    reveal_type(a)  # R: Tensor[V[TP]]
    reveal_type(v.T)  # R: Tensor[V[TP]]
    reveal_type(v.mT)  # R: Tensor[V[TP]]
    reveal_type(v.data)  # R: Tensor[V[TP]]
    reveal_type(v.shape)  # R: torch._C.Size
    reveal_type([x * 2 for x in [v, v]])  # R: list[Tensor[V[TP]]]
    reveal_type(torch.stack([x * 2 for x in [v, v]]))  # R: Tensor[V[TP]]
    reveal_type(torch.linalg.solve(v, r))  # R: Tensor[V[TP]]
    reveal_type(torch.fft.fft(v))  # R: Tensor[V[TP]]


def shard_dims(s: Tensor[S[TP, 0]], t: Tensor[S[TP, 1]], r: Tensor[R[TP]]) -> None:
    reveal_type(s * r)  # R: Tensor[S[TP, 0]]
    reveal_type(s + s)  # R: Tensor[S[TP, 0]]
    reveal_type(s + t)  # R: Tensor[V[TP]]
    reveal_type(s.transpose(0, 1))  # R: Tensor[S[TP, 1]]
    reveal_type(s.unsqueeze(0))  # R: Tensor[S[TP, 1]]
    reveal_type(s.view(-1))  # R: Tensor[V[TP]]


def constants(v: Tensor[V[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    z = torch.zeros(8)
    reveal_type(z)  # R: Tensor[R[DP], R[CP], R[TP]]
    reveal_type(z + v)  # R: Tensor[V[TP]]
    reveal_type(z + i)  # R: Tensor[I[TP]]
    reveal_type(i.detach() + v)  # R: Tensor[V[TP]]
    reveal_type((i > 0) * r)  # R: Tensor[R[TP]]
    reveal_type(v.new_ones(3) * i)  # R: Tensor[I[TP]]
    with torch.no_grad():
        reveal_type(i + r)  # R: Tensor[R[TP]]
    a: Tensor[R[TP]] = z
    b: Tensor[I[TP]] = z
    c: Tensor[V[TP]] = torch.zeros(8)
    d: Tensor[P[TP]] = torch.zeros(8)
    reveal_type(c)  # R: Tensor[V[TP]]
    reveal_type(d)  # R: Tensor[P[TP]]
    e: Tensor[V[TP]] = i.detach()  # E: spmd-assign
    a + i  # E: spmd-mix
    reveal_type(torch.randn(8))  # R: torch._tensor.Tensor
    reveal_type(torch.empty(8) + v)  # R: torch._tensor.Tensor
    w = nn.Parameter(torch.zeros(8))
    reveal_type(w)  # R: torch.nn.parameter.Parameter
    reveal_type(torch.zeros(8).requires_grad_())  # R: torch._tensor.Tensor
    collected = [torch.zeros(8)]
    collected.append(v)


@torch.no_grad()
def no_gradients(i: Tensor[I[TP]], v: Tensor[V[TP]]) -> None:
    reveal_type(i * v)  # R: Tensor[V[TP]]
    with torch.enable_grad():
        i * v  # E: spmd-mix


def writes(r: Tensor[R[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    r.add_(v)  # E: spmd-inplace
    r[0] = v  # E: spmd-inplace
    r += v  # E: spmd-inplace
    r.view(-1).add_(v)  # E: spmd-inplace
    torch.add(r, v, out=r)  # E: spmd-inplace
    v.copy_(r)
    p.mul_(r)
    buffer = torch.zeros(8)
    buffer[0] = v
    reveal_type(buffer)  # R: Tensor[V[TP]]
    other = torch.zeros(8)
    other += v
    reveal_type(other)  # R: Tensor[V[TP]]
    third = torch.zeros(8)
    third[0].copy_(v)
    reveal_type(third)  # R: Tensor[V[TP]]


def writes_through_views(r: Tensor[R[TP]], i: Tensor[I[TP]], v: Tensor[V[TP]], index: Tensor[V[TP]]) -> None:
    r.data.add_(v)  # E: spmd-inplace
    r.detach()[0].copy_(v)  # E: spmd-inplace
    r.data = v  # E: spmd-assign
    r[index] += 1  # E: spmd-inplace
    r[index].add_(1)  # writes into a copy
    i.data.add_(r)
    r.data = r * 2
    r.data.zero_()


def indices(r: Tensor[R[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(r[v:])  # R: Tensor[V[TP]]
    reveal_type(r[1:2, : r.shape[0]])  # R: Tensor[R[TP]]
    r[:, p:]  # E: spmd-partial
    max(p, p)  # E: spmd-partial
    reveal_type(max(r, v))  # R: Tensor[V[TP]]
    reveal_type(max(r.shape[0], 3))  # R: int


def displays(r: Tensor[R[TP]], i: Tensor[I[TP]]) -> None:
    sum([r, i])  # type: ignore[list-item]  # E: spmd-mix
    sum((r, i))  # type: ignore[arg-type]  # E: spmd-mix
    print(sum([1, 2]), sorted({"b": 1}.values()), f"{[1]}")
    shape = torch.empty((3, 4)).shape
    reveal_type(r.reshape((6, 2)))  # R: Tensor[R[TP]]
    reveal_type(r.reshape((6, shape[0])))  # R: Tensor[R[TP]]
    reveal_type(r.expand(shape))  # R: Tensor[R[TP]]


def escapes(p: Tensor[P[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]]) -> None:
    p.item()  # E: spmd-escape
    p.tolist()  # E: spmd-escape
    float(p)  # E: spmd-escape
    int(p.sum())  # E: spmd-escape
    bool(p)  # E: spmd-escape
    print(p)  # E: spmd-escape
    print(i, r)
    f"{p} {i}"  # E: spmd-escape
    float(i)


def flow(x: Tensor[P[TP]], c: bool) -> Tensor[R[TP]]:
    if c:
        x = all_reduce(x, TP, dst=R)
    reveal_type(x)  # R: Tensor[P[TP]] | Tensor[R[TP]]
    F.gelu(x)  # E: spmd-partial
    reveal_type(x * 2)  # R: Tensor[P[TP]] | Tensor[R[TP]]
    x.relu()  # E: spmd-partial
    return x  # E: spmd-return


def opaque(x: torch.Tensor) -> torch.Tensor:
    return x


def needs_replicate(x: Tensor[R[TP]]) -> None: ...


def unknown_is_never_reported(x: Tensor[P[TP]], c: bool) -> Tensor[R[TP]]:
    x = opaque(x)
    F.gelu(x)
    x.relu()
    x + 1
    needs_replicate(x)
    y = opaque(x) if c else x
    F.gelu(y)
    return x


def unions_with_none(x: Tensor[P[TP]] | None, w: Parameter[I[TP]]) -> None:
    if x is not None:
        F.gelu(x)  # E: spmd-partial
    reveal_type(w * 2)  # R: Tensor[I[TP]]


def outputs(v: Tensor[V[TP]], r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(v.max(0).values)  # R: Tensor[V[TP]]
    reveal_type(torch.sort(r).indices)  # R: Tensor[R[TP]]
    reveal_type(torch.linalg.svd(v).Vh)  # R: Tensor[V[TP]]
    values, vectors = torch.linalg.eigh(r)
    reveal_type(vectors)  # R: Tensor[R[TP]]
    torch.unique(p)  # E: spmd-partial
    p.type("torch.LongTensor")  # E: spmd-partial


def scaled(v: Tensor[V[TP]], dim: int, power: float, numbers: Any) -> None:
    scale = dim**-0.5
    reveal_type(v * scale)  # R: Tensor[V[TP]]
    reveal_type(v / v.shape[-1] ** 0.5)  # R: Tensor[V[TP]]
    reveal_type(v * power**power)  # R: Tensor[V[TP]]
    reveal_type(torch.stack([numbers, numbers]))  # R: torch._tensor.Tensor
    reveal_type(torch.cat([x for x in numbers]))  # R: torch._tensor.Tensor
    reveal_type(v.view([numbers, 2]))  # R: Tensor[V[TP]]


def norms(i: Tensor[I[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(nn.utils.clip_grad_norm_([i, r], 1.0))  # R: Tensor[R[TP]]
    reveal_type(nn.utils.get_total_norm([i, v]))  # R: Tensor[V[TP]]
    nn.utils.get_total_norm([i, p])  # E: spmd-partial


def iterated(v: Tensor[V[TP]], p: Tensor[P[TP]], s: Tensor[S[TP, 0]], plain: torch.Tensor) -> None:
    for index, row in enumerate(v):
        reveal_type(row)  # R: Tensor[V[TP]]
    for one, other in zip(p, v, strict=True):
        one + other  # E: spmd-mix
    for number, row in zip([1, 2], s):
        reveal_type(row)  # R: Tensor[V[TP]]
        reveal_type(number)  # R: int
    reveal_type(list(p))  # R: list[Tensor[P[TP]]]
    reveal_type(tuple(v))  # R: tuple[Tensor[V[TP]], ...]
    reveal_type(next(iter(v)))  # R: Tensor[V[TP]]
    reveal_type(list(plain))  # R: list[Any]
    reveal_type(list([v]))  # R: list[Tensor[V[TP]]]
