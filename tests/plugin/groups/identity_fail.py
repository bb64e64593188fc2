"""A group over another axis than the tensor is partial on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spmd_runtime import CP, DP, TP, Group, I, P, R, Tensor, V, all_reduce


def by_dim(x: Tensor[R[DP], P[TP]], mesh: DeviceMesh) -> None:
    all_reduce(x, mesh.get_group("dp"), dst=R)  # E: spmd-collective


def by_submesh(x: Tensor[R[DP], P[TP]], mesh: DeviceMesh) -> None:
    dp = mesh["dp"]
    all_reduce(x, dp.get_group(), dst=R)  # E: spmd-collective
    dist.all_reduce(x.clone(), group=mesh["dp"].get_group())  # E: spmd-collective


def by_number(x: Tensor[R[DP], P[TP]]) -> None:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    all_reduce(x, mesh.get_group(0), dst=R)  # E: spmd-collective
    all_reduce(x, mesh["dp", "tp"].get_group(0), dst=R)  # E: spmd-collective


def constructed(x: Tensor[R[DP], P[TP]]) -> None:
    mesh = DeviceMesh("cpu", [[0, 1]], mesh_dim_names=("dp", "tp"))
    all_reduce(x, mesh.get_group(0), dst=R)  # E: spmd-collective


def wrong_annotation(mesh: DeviceMesh, dp: Group[DP]) -> Group[TP]:
    tp: Group[TP] = mesh.get_group("dp")  # E: spmd-assign
    tp = dp  # E: spmd-assign
    return dp  # E: spmd-return


def takes(tp: Group[TP], rest: list[Group[TP]] | None = None) -> None: ...


def passes(dp: Group[DP], mesh: DeviceMesh) -> None:
    takes(dp)  # E: spmd-arg
    takes(mesh.get_group("dp"))  # E: spmd-arg
    takes(mesh.get_group("tp"), [dp])  # E: spmd-arg
    takes(None)  # E: arg-type


class Layer(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.group = mesh.get_group("dp")
        self.mesh = mesh["dp"]

    def forward(self, x: Tensor[R[DP], P[TP]]) -> None:
        all_reduce(x, self.group, dst=R)  # E: spmd-collective
        all_reduce(x, self.mesh.get_group(), dst=R)  # E: spmd-collective


@dataclass
class Groups:
    tp: Group[TP]
    dp: Group[DP]


def of_a_dataclass(x: Tensor[R[DP], P[TP]], groups: Groups, mesh: DeviceMesh) -> None:
    all_reduce(x, groups.dp, dst=R)  # E: spmd-collective
    Groups(mesh.get_group("dp"), mesh.get_group("tp"))  # E: spmd-arg


def flattened(x: Tensor[R[DP], P[TP]], mesh: DeviceMesh) -> None:
    y = x.clone()
    dist.all_reduce(y, group=mesh["dp", "tp"]._flatten().get_group())  # E: spmd-collective
