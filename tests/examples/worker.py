"""One rank of the pool that runs the example and its mutated copies; see :mod:`tests.examples.pool`.

``python worker.py RANK FOLDER``: FOLDER has ``jobs.json``; the results go to ``FOLDER/RANK.pt``, one per job: either
``{"loss": ..., "norm": ..., "grads": {...}, "dims": {...}}`` or the text of the exception.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spmd_runtime import use_mesh

MESH = (2, 2)  # dp, tp
# Sizes such that no two dims that a wrong collective could confuse are equal, and every cut has more than one row.
SIZES = {"vocab": 28, "dim": 24, "layers": 2, "heads": 4, "kv_heads": 2, "ffn": 14}
LENGTH, BATCH = 8, 6  # tokens per sequence; sequences of all dp ranks together
COLLECTIVE_TIMEOUT = timedelta(seconds=30)


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


def run(job: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
    """Loss, gradients and gradient norm of one step, in float64 (with bf16: parameters in float32)."""
    models, steps = load(Path(job["folder"]))
    config = models.LlamaConfig(**SIZES, recompute=job.get("recompute", False))
    cls = {"tp": models.TensorParallelLlama, "sp": models.SequenceParallelLlama}[job["model"]]
    bf16 = job.get("bf16", False)
    model = cls(config).to(torch.float32 if bf16 else torch.float64)
    models.load_full(model, whole_state(models.full_shapes(model)), mesh.get_local_rank("tp"))
    dp = mesh.get_local_rank("dp")
    tokens, targets = (whole.chunk(MESH[0], dim=1)[dp].contiguous() for whole in whole_batch())
    step = steps.make_step(model, bf16)
    loss, grads = step(dict(model.named_parameters()), tokens, targets)
    kept = {name: grad.clone() for name, grad in grads.items()}
    norm = steps.clip(model, grads, 1.0)
    return {"loss": loss, "norm": norm, "grads": kept, "dims": models.tp_dims(model)}


def outcome(job: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any] | str:
    """The result of a job, or the exception that it ended in: a mutated copy may do anything."""
    try:
        return run(job, mesh)
    except Exception:
        return traceback.format_exc(limit=-3)


def main() -> None:
    """Run all jobs of the folder as one rank."""
    torch.set_num_threads(1)
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", store, COLLECTIVE_TIMEOUT, MESH[0] * MESH[1], rank)
    mesh = init_device_mesh("cpu", MESH, mesh_dim_names=("dp", "tp"))
    with use_mesh(mesh):
        results = [outcome(job, mesh) for job in json.loads((folder / "jobs.json").read_text())]
    torch.save(results, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
