"""What one rank of a 2 x 2 mesh (dp, tp) does with the example and with copies of it."""

from __future__ import annotations

import importlib
import io
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spmd_runtime import use_mesh
from tests.runtime import gloo

MESH = (2, 2)  # dp, tp
# Sizes such that no two dims that a wrong collective could confuse are equal, and every cut has more than one row.
SIZES = {"vocab": 28, "dim": 24, "layers": 2, "heads": 4, "kv_heads": 2, "ffn": 14}
LENGTH, BATCH = 8, 6  # tokens per sequence; sequences of all dp ranks together


@dataclass(frozen=True)
class Job:
    """One step of the package ``llama`` in ``folder``; ``model`` is "tp" or "sp"."""

    folder: Path
    model: str
    recompute: bool = False
    bf16: bool = False


@dataclass(frozen=True)
class Outcome:
    """What one rank got: the loss, the gradients before and after clipping, their norm, how parameters are cut.

    Where the step raised, ``error`` is the traceback and nothing else is set.
    """

    loss: torch.Tensor
    grads: dict[str, torch.Tensor]
    clipped: dict[str, torch.Tensor]
    norm: torch.Tensor
    dims: dict[str, int | None]
    error: str = ""


def whole_state(shapes: dict[str, torch.Size]) -> dict[str, torch.Tensor]:
    """Parameters of the whole model in float64, large enough that every nonlinearity shows."""
    generator = torch.Generator().manual_seed(7)
    state = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        state[name] = 1 + 0.3 * noise if len(shape) == 1 else 0.4 * noise
    return state


def whole_batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets ``(s, b)`` of all dp ranks together."""
    generator = torch.Generator().manual_seed(11)
    drawn = torch.randint(SIZES["vocab"], (2, LENGTH, BATCH), generator=generator)
    return drawn[0], drawn[1]


def load(folder: Path) -> tuple[ModuleType, ModuleType]:
    """The modules ``llama.model`` and ``llama.step`` of the copy in ``folder``; the copy before it is forgotten."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "llama"]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("llama.model"), importlib.import_module("llama.step")
    finally:
        sys.path.remove(str(folder))


def step(job: Job, mesh: DeviceMesh) -> Outcome:
    """One step in float64 (with bf16: parameters in float32)."""
    models, steps = load(job.folder)
    config = models.LlamaConfig(**SIZES, recompute=job.recompute)
    model = {"tp": models.TensorParallelLlama, "sp": models.SequenceParallelLlama}[job.model](config)
    model.to(torch.float32 if job.bf16 else torch.float64)
    models.load_full(model, whole_state(models.full_shapes(model)), mesh.get_local_rank("tp"))
    dp = mesh.get_local_rank("dp")
    tokens, targets = (whole.chunk(MESH[0], dim=1)[dp].contiguous() for whole in whole_batch())
    params = {name: param.detach().clone().requires_grad_() for name, param in model.named_parameters()}
    for param in model.parameters():
        param.data.fill_(float("nan"))  # the step is a function of its arguments, in the recomputation too
    loss, grads = steps.make_step(model, job.bf16)(params, tokens, targets)
    clipped = {name: grad.clone() for name, grad in grads.items()}
    norm = steps.clip(model, clipped, 1.0)
    return Outcome(loss, grads, clipped, norm, models.tp_dims(model))


def attempt(job: Job, mesh: DeviceMesh) -> Outcome:
    """The outcome of a job that may raise: a copy of the example with a mistake in it may do anything."""
    try:
        return step(job, mesh)
    except Exception:
        nothing = torch.tensor(float("nan"))
        return Outcome(nothing, {}, {}, nothing, {}, traceback.format_exc(limit=-3))


def rank_main(jobs: Sequence[Job]) -> bytes:
    """All jobs as one rank; the outcomes as ``torch.save`` writes them."""
    mesh = init_device_mesh("cpu", MESH, mesh_dim_names=("dp", "tp"))
    with use_mesh(mesh):
        outcomes = [vars(attempt(job, mesh)) for job in jobs]
    file = io.BytesIO()
    torch.save(outcomes, file)
    return file.getvalue()


def run_jobs(jobs: Sequence[Job], timeout: float) -> list[list[Outcome]]:
    """``outcome[job][rank]`` of each job on four gloo ranks, within ``timeout`` seconds for all together."""
    by_rank: list[list[dict[str, Any]]] = [
        torch.load(io.BytesIO(saved)) for saved in gloo.run(rank_main, MESH[0] * MESH[1], jobs, timeout=timeout)
    ]
    return [[Outcome(**fields) for fields in ranks] for ranks in zip(*by_rank, strict=True)]
