"""torch.distributed._functional_collectives and torch.distributed.nn.functional: typed results, most of them with a backward."""

from __future__ import annotations

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.nn.functional as dnn
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import GroupName  # type: ignore[attr-defined,unused-ignore]  # not in torch 2.9
from typing_extensions import assert_type

from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V
from spmd_runtime.mesh import lookup


def summed(x: Tensor[V[DP], P[TP]], tp: Group[TP]) -> Tensor[V[DP], R[TP]]:
    y = funcol.wait_tensor(funcol.all_reduce(x, "sum", tp))
    assert_type(y, Tensor[V[DP], R[TP]])
    return y.sqrt()


def by_name(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return funcol.all_reduce(x, "sum", GroupName("tp")).sqrt()


def by_mesh(x: Tensor[P[TP]], mesh: DeviceMesh) -> Tensor[R[TP]]:
    return funcol.all_reduce(x, "sum", mesh["tp"]).sqrt()


def by_dim(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    mesh = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("dp", "tp"))
    return funcol.all_reduce(x, "sum", (mesh, 1)).sqrt()


def maximum(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    return x - funcol.all_reduce(x.amax(), "max", tp)


def gathered(x: Tensor[S[TP, 1]], tp: Group[TP]) -> Tensor[R[TP]]:
    return funcol.all_gather_tensor(x, 1, tp)


def scattered(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[S[TP, 0]]:
    return funcol.reduce_scatter_tensor(x, "sum", 0, tp)


def exchanged(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    return funcol.all_to_all_single(x, None, None, tp)


def listed(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y, z = funcol.all_reduce_coalesced([x, x], "sum", tp)
    return y * z


class Layer(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2, 2))

    def forward(self, x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        return funcol.all_reduce(x @ self.weight, "sum", tp)

    def old(self, x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
        return dnn.all_reduce(x @ self.weight, group=tp)


def nn_gathered(x: Tensor[V[DP], V[TP]], tp: Group[TP]) -> Tensor[V[DP], R[TP]]:
    parts = dnn.all_gather(x, group=tp)
    assert_type(parts[0], Tensor[V[DP], R[TP]])
    return torch.cat(tuple(parts))


def nn_scattered(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    parts = list(x.chunk(dist.get_world_size(tp)))
    return dnn.reduce_scatter(torch.empty_like(parts[0]), parts, group=tp)


def nn_exchanged(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[V[TP]]:
    return dnn.all_to_all_single(torch.empty_like(x), x, group=tp)


def nn_sent(x: Tensor[V[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    return dnn.broadcast(x, 0, group=tp)


def of_unknown_axis(x: Tensor[P[TP]], group: dist.ProcessGroup) -> Tensor[R[TP]]:
    return funcol.all_reduce(x, "sum", group).sqrt()


def given(x: torch.Tensor) -> torch.Tensor:
    return x


def main() -> None:
    tp = lookup(TP).group
    n, rank = tp.size(), tp.rank()
    x = given(torch.full((2 * n, 1), 4.0))
    root = (x * n).sqrt()
    mesh = init_device_mesh("cpu", (1, n), mesh_dim_names=("dp", "tp"))
    for found in (summed(x, tp), by_name(x), by_mesh(x, mesh), by_dim(x), of_unknown_axis(x, tp)):
        assert torch.equal(found, root)
    rows = given(torch.full((1, 1), float(rank)))
    assert float(maximum(rows, tp)) == rank - n + 1
    assert gathered(rows, tp).tolist() == [list(map(float, range(n)))]
    assert torch.equal(scattered(x, tp), (x * n)[:2])
    assert torch.equal(nn_scattered(x, tp), (x * n)[:2])
    assert torch.equal(listed(x, tp), (x * n) ** 2)
    for function in (exchanged, nn_exchanged):
        assert function(given(torch.full((n,), float(rank))), tp).tolist() == list(map(float, range(n)))
    assert nn_gathered(rows, tp).flatten().tolist() == list(map(float, range(n)))
    assert torch.equal(nn_sent(rows, tp), torch.zeros(1, 1))
    layer = Layer()
    for run in (layer, layer.old):
        layer.zero_grad()
        y = run(torch.ones(1, 2), tp)
        assert torch.equal(y, torch.full((1, 2), 2.0 * n))
        y.sum().div(n).backward()  # type: ignore[spmd-loss]  # each rank starts with its share
        assert layer.weight.grad is not None and torch.equal(layer.weight.grad, torch.ones(2, 2))
