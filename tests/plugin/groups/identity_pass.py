"""A group's axis is known from where it comes: a mesh's dim, an annotation, an attribute, a function's result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from typing_extensions import assert_type

from spmd_runtime import CP, DP, TP, Group, I, P, R, Tensor, V, all_reduce

TP_NAME: Final = "tp"


def by_dim(x: Tensor[R[DP], P[TP]], mesh: DeviceMesh) -> Tensor[R[DP], R[TP]]:
    return all_reduce(x, mesh.get_group("tp"), dst=R)


def by_submesh(x: Tensor[P[TP]], mesh: DeviceMesh) -> Tensor[R[TP]]:
    tp = mesh["tp"]
    return all_reduce(x, tp.get_group(), dst=R)


def by_keyword(x: Tensor[P[TP]], mesh: DeviceMesh) -> Tensor[R[TP]]:
    return all_reduce(x, mesh.get_group(mesh_dim="tp"), dst=R)


def by_constant(x: Tensor[P[TP]], mesh: DeviceMesh) -> Tensor[R[TP]]:
    return all_reduce(x, mesh.get_group(TP_NAME), dst=R)


def by_number(x: Tensor[R[DP], P[TP]]) -> Tensor[R[DP], R[TP]]:
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    return all_reduce(x, mesh.get_group(1), dst=R)


def by_slice(x: Tensor[R[DP], P[TP]], mesh: DeviceMesh) -> Tensor[R[DP], R[TP]]:
    both = mesh["dp", "tp"]
    return all_reduce(x, both.get_group(-1), dst=R)


def new_group(ranks: list[int]) -> Group[TP]:
    tp: Group[TP] = dist.new_group(ranks)
    assert_type(tp, Group[TP])
    return tp


def from_unknown(group: dist.ProcessGroup) -> Group[TP]:
    tp: Group[TP] = group  # a declaration: the group's axis was not known
    return tp


def is_a_process_group(tp: Group[TP], dp: Group[DP]) -> list[dist.ProcessGroup]:
    groups: list[dist.ProcessGroup] = [tp, dp]
    sizes = {group: dist.get_world_size(group) for group in groups}
    return list(sizes)


def goes_where_torch_wants_one(mesh: DeviceMesh) -> DeviceMesh:
    def takes(meshes: list[DeviceMesh], groups: list[dist.ProcessGroup]) -> None: ...

    mine = [mesh["tp"]]
    groups = [mesh.get_group("tp")]
    takes(mine, groups)
    takes([mesh["dp"], mesh["tp"]], [mesh.get_group("dp"), mesh.get_group("tp")])
    return mesh["tp"]


def flattened(x: Tensor[P[DP], P[TP]], mesh: DeviceMesh) -> Tensor[R[DP], R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=mesh["dp", "tp"]._flatten("dp_tp").get_group())
    return y.sqrt()


def flattened_by_name(x: Tensor[P[DP], P[TP]], mesh: DeviceMesh) -> Tensor[R[DP], R[TP]]:
    mesh["dp", "tp"]._flatten("dp_tp")
    y = x.clone()
    dist.all_reduce(y, group=mesh["dp_tp"].get_group())
    return y.sqrt()


def other_names(x: Tensor[P[TP]], mesh: DeviceMesh, name: str) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=mesh.get_group(name))
    return y.sqrt()  # of unknown axis: unknown


class Layer(nn.Module):
    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.mesh = mesh["tp"]
        self.tp = mesh.get_group("tp")
        self.declared: Group[TP] = mesh.get_group("tp")

    @property
    def group(self) -> Group[TP]:
        return self.tp

    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        by_inferred = all_reduce(x, self.tp, dst=R)
        by_declared = all_reduce(x, self.declared, dst=R)
        by_property = all_reduce(x, self.group, dst=R)
        by_mesh = all_reduce(x, self.mesh.get_group(), dst=R)
        return by_inferred + by_declared + by_property + by_mesh


@dataclass
class Groups:
    tp: Group[TP]
    dp: Group[DP]


def of_a_dataclass(x: Tensor[R[DP], P[TP]], groups: Groups) -> Tensor[R[DP], R[TP]]:
    return all_reduce(x, groups.tp, dst=R)


def chosen(mesh: DeviceMesh, flag: bool) -> dist.ProcessGroup:
    return mesh.get_group("dp") if flag else mesh.get_group("tp")


def reassigned(x: Tensor[P[DP], P[TP]], mesh: DeviceMesh) -> Tensor[R[DP], R[TP]]:
    group = mesh.get_group("tp")
    x = all_reduce(x, group, dst=R)
    group = mesh.get_group("dp")
    return all_reduce(x, group, dst=R)


def main() -> None:
    n = dist.get_world_size()
    mesh = init_device_mesh("cpu", (1, n), mesh_dim_names=("dp", "tp"))
    x: Tensor = torch.tensor([4.0]).requires_grad_(False)
    total = x * n
    for function in (by_dim, by_submesh, by_keyword, by_constant, by_slice, reassigned):
        assert torch.equal(function(x, mesh), total), function
    assert torch.equal(by_number(x), total)
    for in_place in (flattened, flattened_by_name):
        assert torch.equal(in_place(x, mesh), total.sqrt()), in_place
    assert torch.equal(other_names(x, mesh, "tp"), total.sqrt())
    assert torch.equal(all_reduce(x, new_group(list(range(n))), dst=R), total)
    tp, dp = mesh.get_group("tp"), mesh.get_group("dp")
    assert from_unknown(tp) is tp and is_a_process_group(tp, dp)[0] is tp
    assert goes_where_torch_wants_one(mesh).ndim == 1 and chosen(mesh, True) is dp
    assert torch.equal(Layer(mesh)(x), total * 4)
    assert torch.equal(of_a_dataclass(x, Groups(tp, dp)), total)
