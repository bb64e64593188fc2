"""Calls that look like ones before them, which the plugin looks up: what tells them apart still counts."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from spmd_runtime import DP, TP, Group, I, P, R, S, Tensor, V, all_gather, all_reduce


def again(p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:
    for _ in range(2):
        reveal_type(r * v)  # R: Tensor[V[TP]]
    reveal_type(r * v)  # R: Tensor[V[TP]]
    reveal_type(v * r)  # R: Tensor[V[TP]]
    F.gelu(p)  # E: spmd-partial
    F.gelu(p)  # E: spmd-partial
    p + 1  # E: spmd-partial
    p + 1  # E: spmd-partial
    reveal_type(p * 1)  # R: Tensor[P[TP]]
    p + True  # E: spmd-partial
    p + 1.0  # E: spmd-partial
    reveal_type(2 * p)  # R: Tensor[P[TP]]
    reveal_type(3 * p)  # R: Tensor[P[TP]]
    2 / p  # E: spmd-partial


def options(p: Tensor[P[TP]], s: Tensor[S[TP, 0]], n: int) -> None:
    reveal_type(torch.div(p, 2))  # R: Tensor[P[TP]]
    torch.div(p, 2, rounding_mode="floor")  # E: spmd-partial
    torch.div(p, 2, rounding_mode="trunc")  # E: spmd-partial
    reveal_type(torch.div(p, 2, rounding_mode=None))  # R: Tensor[P[TP]]
    reveal_type(p.to(torch.bfloat16))  # R: Tensor[P[TP]]
    p.to(torch.int64)  # E: spmd-partial
    reveal_type(s.transpose(0, 1))  # R: Tensor[S[TP, 1]]
    reveal_type(s.transpose(0, 2))  # R: Tensor[S[TP, 2]]
    reveal_type(s.transpose(1, 2))  # R: Tensor[S[TP, 0]]
    reveal_type(s.transpose(0, n))  # R: Tensor[V[TP]]
    reveal_type(s.permute((1, 0)))  # R: Tensor[S[TP, 1]]
    reveal_type(s.permute((0, 1)))  # R: Tensor[S[TP, 0]]
    reveal_type(s.permute((-1, 0)))  # R: Tensor[S[TP, 1]]
    reveal_type(s.permute((0, n)))  # R: Tensor[V[TP]]
    reveal_type(s.permute((2, 0, 1)))  # R: Tensor[S[TP, 1]]
    reveal_type(s.permute((1, 0)))  # R: Tensor[S[TP, 1]]
    reveal_type(s.unsqueeze(0))  # R: Tensor[S[TP, 1]]
    reveal_type(s.unsqueeze(1))  # R: Tensor[S[TP, 0]]


def gradients(i: Tensor[I[TP]], v: Tensor[V[TP]]) -> None:
    i * v  # E: spmd-mix
    with torch.no_grad():
        constant = i * 2
        reveal_type(constant * v)  # R: Tensor[V[TP]]
    live = i * 2
    live * v  # E: spmd-mix


def constants(v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    free = torch.zeros(4)
    declared: Tensor[R[TP]] = torch.zeros(4)
    summand: Tensor[P[TP]] = torch.zeros(4)
    reveal_type(free + v)  # R: Tensor[V[TP]]
    reveal_type(declared + v)  # R: Tensor[V[TP]]
    reveal_type(summand + p)  # R: Tensor[P[TP]]
    summand + v  # E: spmd-mix
    free.relu()
    summand.relu()  # E: spmd-partial


def collectives(v: Tensor[V[TP]], p: Tensor[P[TP]], tp: Group[TP], dp: Group[DP]) -> None:
    reveal_type(all_reduce(p, TP, dst=R))  # R: Tensor[R[TP]]
    reveal_type(all_reduce(p, TP, dst=I))  # R: Tensor[I[TP]]
    reveal_type(all_reduce(p, tp, dst=R))  # R: Tensor[R[TP]]
    reveal_type(all_reduce(p, dp, dst=R))  # R: Tensor[R[DP], P[TP]]
    reveal_type(all_reduce(p, "tp", dst=R))  # R: Tensor[R[TP]]
    reveal_type(all_gather(v, TP, src=S(0), dst=R))  # R: Tensor[R[TP]]
    reveal_type(all_gather(v, TP, src=S(-1), dst=I))  # R: Tensor[I[TP]]


def shards(s: Tensor[S[TP, 1]]) -> None:
    all_gather(s, TP, src=S(1), dst=R)
    all_gather(s, TP, src=S(0), dst=R)  # E: spmd-shard
    all_gather(s, TP, src=S(0), dst=R)  # E: spmd-shard
