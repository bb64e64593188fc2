"""Functional collectives and those of torch.distributed.nn: what they refuse."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as dnn
from torch import nn
from torch.distributed.distributed_c10d import GroupName  # type: ignore[attr-defined,unused-ignore]  # not in torch 2.9

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V


def summed_twice(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    y = funcol.all_reduce(x, "sum", tp)
    funcol.all_reduce(y, "sum", tp)  # E: spmd-collective
    dnn.all_reduce(y, group=tp)  # E: spmd-collective


def not_in_place(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    funcol.all_reduce(x, "sum", tp)
    x.sqrt()  # E: spmd-partial


def over_another_axis(x: Tensor[R[DP], P[TP]], dp: Group[DP]) -> Tensor[R[TP]]:
    funcol.all_reduce(x, "sum", dp)  # E: spmd-collective
    return funcol.all_reduce(x, "sum", GroupName("cp"))  # E: spmd-return


def nonlinear(x: Tensor[P[TP]], tp: Group[TP]) -> None:
    funcol.all_reduce(x, "max", tp)  # E: spmd-collective
    dnn.all_reduce(x, dist.ReduceOp.MIN, group=tp)  # E: spmd-collective


def along_another_dim(x: Tensor[S[TP, 0]], tp: Group[TP]) -> Tensor[S[TP, 1]]:
    funcol.all_gather_tensor(x, 1, tp)  # E: spmd-shard
    y = funcol.reduce_scatter_tensor(x.sum(0), "sum", 0, tp)
    return y  # E: spmd-return


def gathered(x: Tensor[P[TP]], r: Tensor[R[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    funcol.all_gather_tensor(x, 0, tp)  # E: spmd-collective
    dnn.all_gather(r, group=tp)  # E: spmd-collective
    return funcol.all_gather_tensor(x * 0 + x, 0, GroupName("dp")).sqrt()  # E: spmd-partial


def one_logical_computation(i: Tensor[I[TP]], tp: Group[TP]) -> None:
    dnn.broadcast(i, 0, group=tp)  # E: spmd-collective


class Layer(nn.Module):
    weight: Parameter[V[TP]]

    def forward(self, x: Tensor[V[TP]], tp: Group[TP]) -> None:
        h = x @ self.weight
        funcol.broadcast(h, 0, tp)  # E: spmd-collective
        funcol.all_reduce(h, "max", tp)  # E: spmd-collective
        funcol.all_reduce(h, "sum", tp)
        dnn.all_reduce(h, dist.ReduceOp.MAX, group=tp)  # E: spmd-collective
        dnn.all_reduce(h, group=tp)
        with torch.no_grad():
            funcol.all_reduce(h, "max", tp)


def result_is_the_same_everywhere(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    return funcol.all_reduce(x, "sum", tp)  # E: spmd-return
