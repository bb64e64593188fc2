"""Axes of different meshes never meet in one operation."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from spmd_runtime import CP, DP, EDP, EP, ETP, TP, Group, I, P, Parameter, R, S, Tensor, V
from spmd_runtime import all_reduce, all_to_all, reinterpret_mesh


def meets(x: Tensor[V[DP], R[TP]], w: Tensor[V[EP]]) -> None:
    x * w  # E: spmd-mix
    F.linear(x, w)  # E: spmd-mix
    x.add(w)  # E: spmd-mix
    torch.cat([x, w])  # E: spmd-mix


def one_mistake_is_one_report(x: Tensor[V[DP]], w: Tensor[V[EP]]) -> None:
    y = x * w  # E: spmd-mix
    (y * x) * w


def collective_over_the_other(x: Tensor[V[DP], P[TP]], ep: Group[EP]) -> None:
    all_to_all(x, EP, src=V, dst=V)  # E: spmd-mix
    all_reduce(x, "edp", dst=R)  # E: spmd-mix
    y = x.clone()
    dist.all_reduce(y, group=ep)  # E: spmd-mix


def says_otherwise(x: Tensor[R[DP], R[CP], R[TP]], p: Tensor[P[DP], P[CP], P[TP]]) -> None:
    reinterpret_mesh(x, {EP: V})  # E: spmd-assign
    reinterpret_mesh(p, {EP: P, ETP: R})  # E: spmd-assign


def forgets_the_old_axes(x: Tensor[V[DP], P[TP]]) -> Tensor[V[EP]]:
    y = reinterpret_mesh(x, {EP: P})
    y.sqrt()  # E: spmd-partial
    return y  # E: spmd-return
