"""fully_shard and DDP over dp with these collectives over tp, on a 2 x 2 mesh: gradients equal those of one device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import spmd_runtime as spmd
from spmd_runtime import TP, I, R, S
from tests.runtime.gloo import run

HIDDEN, WIDE = 4, 8


def weights() -> dict[str, Tensor]:
    """The whole weights, the same everywhere."""
    generator = torch.Generator().manual_seed(3)
    shapes = {"norm": (HIDDEN,), "up": (WIDE, HIDDEN), "down": (HIDDEN, WIDE)}
    return {name: torch.randn(s, generator=generator, dtype=torch.float64) for name, s in shapes.items()}


def batch() -> Tensor:
    return torch.randn(8, 6, HIDDEN, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def reference() -> dict[str, Tensor]:
    """Gradients on one device, over the whole batch."""
    w = {name: t.requires_grad_() for name, t in weights().items()}
    x = batch()
    for _ in range(2):
        h = F.rms_norm(x, (HIDDEN,), w["norm"])
        x = x + F.linear(torch.tanh(F.linear(h, w["up"])), w["down"])
    loss = x.square().mean()
    return dict(zip(w, torch.autograd.grad(loss, list(w.values())), strict=True))


class Block(nn.Module):
    """Tensor parallel; activations are batch x sequence x hidden, cut along the sequence between blocks if asked."""

    def __init__(self, sequence_parallel: bool, tp: int, rank: int) -> None:
        super().__init__()
        w = weights()
        self.sequence_parallel = sequence_parallel
        self.norm = nn.Parameter(w["norm"])
        self.up = nn.Parameter(w["up"].chunk(tp, 0)[rank].clone())
        self.down = nn.Parameter(w["down"].chunk(tp, 1)[rank].clone())

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        if self.sequence_parallel:  # each rank norms its own tokens: the weight's gradients are summed
            norm = spmd.convert(norm, TP, src=I, dst=R)
        h = F.rms_norm(x, (HIDDEN,), norm)
        h = spmd.all_gather(h, TP, src=S(1), dst=R) if self.sequence_parallel else spmd.convert(h, TP, src=I, dst=R)
        y = F.linear(torch.tanh(F.linear(h, self.up)), self.down)
        return x + (spmd.reduce_scatter(y, TP, dst=S(1)) if self.sequence_parallel else spmd.all_reduce(y, TP, dst=I))


class Model(nn.Module):
    """One block, applied twice."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        self.block = Block(*args)
        self.sequence_parallel = self.block.sequence_parallel

    def forward(self, x: Tensor) -> Tensor:
        if self.sequence_parallel:
            x = spmd.convert(x, TP, src=I, dst=S(1))
        for _ in range(2):
            x = self.block(x)
        total = x.square().sum() / batch()[::2].numel()
        return spmd.all_reduce(total, TP, dst=I) if self.sequence_parallel else total


def trained(kind: str, sequence_parallel: bool) -> dict[str, float]:
    """The largest relative error of each gradient against the single device."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    with spmd.use_mesh(mesh):
        model = Model(sequence_parallel, 2, mesh["tp"].get_local_rank())
        wrapped = wrap(kind, model, mesh)
        wrapped(batch().chunk(2)[mesh["dp"].get_local_rank()]).backward()
        return {name: error(name, p, mesh) for name, p in model.block.named_parameters()}


def wrap(kind: str, model: Model, mesh: DeviceMesh) -> nn.Module:
    if kind == "ddp":
        return DistributedDataParallel(model, process_group=mesh["dp"].get_group())
    fully_shard(model.block, mesh=mesh["dp"])
    return fully_shard(model, mesh=mesh["dp"])


def error(name: str, p: nn.Parameter, mesh: DeviceMesh) -> float:
    grad: Any = p.grad
    grad = grad.full_tensor() if hasattr(grad, "full_tensor") else grad
    wanted = reference()[name]
    if name != "norm":
        wanted = wanted.chunk(2, 0 if name == "up" else 1)[mesh["tp"].get_local_rank()]
    return float(((grad - wanted).abs().max() / wanted.abs().max()).item())


@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("kind", ["ddp", "fully_shard"])
def test_gradients_equal_the_single_device(kind: str, sequence_parallel: bool) -> None:
    for errors in run(trained, 4, kind, sequence_parallel, timeout=120):
        assert set(errors) == {"norm", "up", "down"}
        assert max(errors.values()) < 1e-9, errors
