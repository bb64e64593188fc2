"""Names with memory of their own keep their types."""

from __future__ import annotations

import torch
import torch.distributed as dist

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V


def copies(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    z = y.clone()
    dist.all_reduce(y, group=tp)
    z.sqrt()  # E: spmd-partial
    x.sqrt()  # E: spmd-partial


def bound_anew(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    z = y
    y = x * 2
    dist.all_reduce(y, group=tp)
    z.sqrt()  # E: spmd-partial


def other_element(xs: list[Tensor[P[TP]]], tp: Group[TP]) -> None:
    ys = [x.clone() for x in xs]
    dist.all_reduce(ys[0], group=tp)
    xs[0].sqrt()  # E: spmd-partial


def other_axes_stay(x: Tensor[P[DP], P[TP]], tp: Group[TP]) -> None:
    y = x.clone()
    z = y.view(-1)
    dist.all_reduce(z, group=tp)
    y.sqrt()  # E: spmd-partial
    z.sqrt()  # E: spmd-partial
