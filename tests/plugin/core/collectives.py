"""Collectives and conversions: axes in every spelling, sources, shards, results."""

from __future__ import annotations

import torch
import torch.distributed as dist

import spmd_runtime as spmd
from spmd_runtime import (
    CP,
    DP,
    PP,
    TP,
    Group,
    I,
    P,
    R,
    S,
    Tensor,
    V,
    all_gather,
    all_reduce,
    all_to_all,
    axis_index,
    axis_size,
    convert,
    invariant_to_replicate,
    redistribute,
    reduce_scatter,
    reinterpret,
    shard,
    unshard,
)  # fmt: skip


def axes(x: Tensor[V[DP], P[TP]], tp: Group[TP], group: dist.ProcessGroup, name: str) -> None:
    reveal_type(all_reduce(x, TP, dst=R))  # R: Tensor[V[DP], R[TP]]
    reveal_type(all_reduce(x, tp, dst=I))  # R: Tensor[V[DP], I[TP]]
    reveal_type(all_reduce(x, "tp", dst=R))  # R: Tensor[V[DP], R[TP]]
    reveal_type(all_reduce(x, group, dst=R))  # R: torch._tensor.Tensor
    reveal_type(all_reduce(x, name, dst=R))  # R: torch._tensor.Tensor
    all_reduce(x, PP, dst=R)  # E: spmd-collective
    all_reduce(x, "pp", dst=R)  # E: spmd-collective
    all_reduce(x, CP, dst=R)


def sources(p: Tensor[P[TP]], v: Tensor[V[TP]], r: Tensor[R[TP]], i: Tensor[I[TP]], s: Tensor[S[TP, 0]]) -> None:
    reveal_type(all_reduce(v, TP, dst=R))  # R: Tensor[R[TP]]
    all_reduce(r, TP, dst=R)  # E: spmd-collective
    all_reduce(i, TP, dst=R)  # E: spmd-collective
    all_reduce(s, TP, dst=R)  # E: spmd-collective
    all_gather(p, TP, dst=R)  # E: spmd-collective
    reveal_type(all_gather(s, TP, src=S(0), dst=I))  # R: Tensor[I[TP]]
    reveal_type(all_gather(s, TP, dst=R))  # R: Tensor[R[TP]]
    all_gather(s, TP, src=S(1), dst=R)  # E: spmd-shard
    reveal_type(all_gather(v, TP, src=S(1), dst=R))  # R: Tensor[R[TP]]
    reveal_type(reduce_scatter(p, TP, dst=S(0)))  # R: Tensor[S[TP, 0]]
    reveal_type(all_to_all(s, TP, src=S(0), dst=S(1)))  # R: Tensor[S[TP, 1]]
    reveal_type(convert(i, TP, src=I, dst=R))  # R: Tensor[R[TP]]
    convert(r, TP, src=I, dst=R)  # E: spmd-collective
    convert(p, TP, src=P, dst=R)  # E: spmd-collective
    convert(s, TP, src=S(0), dst=S(1))  # E: spmd-shard
    convert(r, TP, src=R, dst=I)  # E: spmd-collective
    reveal_type(convert(r, TP, src=R, dst=I, expert_mode=True))  # R: Tensor[I[TP]]
    convert(v, TP, src=P, dst=P)  # E: spmd-collective
    reveal_type(reinterpret(v, TP, src=V, dst=P))  # R: Tensor[P[TP]]
    reinterpret(s, TP, src=S(0), dst=P)  # E: spmd-collective
    reveal_type(invariant_to_replicate(i, TP))  # R: Tensor[R[TP]]
    invariant_to_replicate(r, TP)  # E: spmd-collective
    reveal_type(shard(r, TP, src=R, dst=S(1)))  # R: Tensor[S[TP, 1]]
    reveal_type(unshard(s, TP, src=S(0), dst=I))  # R: Tensor[I[TP]]
    reveal_type(redistribute(p, TP, src=P, dst=S(0)))  # R: Tensor[S[TP, 0]]
    reveal_type(redistribute(s, TP, src=S(0), dst=S(1)))  # R: Tensor[S[TP, 1]]
    reveal_type(all_reduce(torch.zeros(3), TP, dst=R))  # R: Tensor[R[DP], R[CP], R[TP]]


def one_report(r: Tensor[R[DP], R[TP]]) -> None:
    y = all_reduce(r, TP, dst=R)  # E: spmd-collective
    reveal_type(y)  # R: Tensor[R[DP]]
    all_reduce(y, TP, dst=I)


def unions(x: Tensor[P[TP]] | Tensor[V[TP]], y: Tensor[P[TP]] | Tensor[R[TP]], z: Tensor[P[TP]] | Tensor) -> None:
    reveal_type(all_reduce(x, TP, dst=R))  # R: Tensor[R[TP]]
    all_reduce(y, TP, dst=R)  # E: spmd-collective
    all_reduce(z, TP, dst=R)


def indices() -> None:
    reveal_type(axis_index(TP))  # R: Tensor[R[DP], R[CP], V[TP]]
    reveal_type(axis_size(TP))  # R: int
    axis_index("nope")  # E: spmd-collective


def assigned(p: Tensor[P[TP]], src: type[R], kind: type[spmd.SpmdType]) -> None:
    reveal_type(all_reduce(p, TP, src=P, dst=src))  # R: Tensor[R[TP]]
    reveal_type(all_reduce(p, TP, dst=kind))  # R: torch._tensor.Tensor
