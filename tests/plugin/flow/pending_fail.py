"""A Pending is no tensor yet."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from spmd_runtime import DP, TP, I, P, Pending, R, Tensor, V, all_reduce


def takes(x: Tensor[R[TP]]) -> None: ...


def used(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    y = all_reduce(x, TP, dst=R, async_op=True)
    y + 1  # E: spmd-collective
    2 * y  # E: spmd-collective
    y.sum()  # E: spmd-collective
    y[0]  # E: spmd-collective
    torch.sin(y)  # E: spmd-collective
    F.gelu(y)  # E: spmd-collective
    takes(y)  # E: spmd-collective
    all_reduce(y, TP, dst=R)  # E: spmd-collective
    z: Tensor[R[TP]] = y  # E: spmd-collective
    return y  # E: spmd-collective


def what_it_becomes(x: Tensor[P[TP]], r: Tensor[R[TP]]) -> Tensor[I[TP]]:
    all_reduce(r, TP, dst=R, async_op=True)  # E: spmd-collective
    return all_reduce(x, TP, dst=R, async_op=True).wait()  # E: spmd-return


def start(x: Tensor[P[TP]]) -> Pending[Tensor[I[TP]]]:
    return all_reduce(x, TP, dst=R, async_op=True)  # E: spmd-return
