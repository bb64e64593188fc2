"""The step to compile once, and training with it: every rank loads it, none compiles.

    OMP_NUM_THREADS=1 python -m spmd_runtime.precompile build examples.llama.artifact:make_step \
        --mesh dp=2,tp=2 --out artifacts/llama
    torchrun --standalone --nproc-per-node=4 -m examples.llama.artifact artifacts/llama --trust directory

torchrun gives every rank one thread, and code for CPUs is made for a number of threads.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spmd_runtime import use_mesh
from spmd_runtime.precompile import TensorSpec, load

from .model import LlamaConfig, SequenceParallelLlama
from .step import Step, clip
from .step import make_step as step_of
from .train import Progress, TrainConfig, build_model, draw, make_optimizer, own_text

CONFIG = TrainConfig(sequence_parallel=True)


def make_step() -> tuple[Step, tuple[object, ...]]:
    """Loss and gradients of the sequence-parallel model: ``step(params, tokens, targets)``, and what it takes.

    Called as each rank that the step is captured as, with the axes bound; nothing here needs numbers or memory.
    """
    with torch.device("meta"):
        model = SequenceParallelLlama(LlamaConfig())
    tokens = TensorSpec((CONFIG.length, CONFIG.batch), torch.int64)
    return step_of(model), (dict(model.named_parameters()), tokens, tokens)


def train(folder: str, steps: int, mesh: DeviceMesh, trust: str | None) -> float:
    """The loop of ``train.py`` with the loaded step; gives the last loss."""
    model = build_model(LlamaConfig(), mesh, sequence_parallel=True, seed=CONFIG.seed)
    params = dict(model.named_parameters())
    optimizer, text, dp_rank, last = make_optimizer(params, CONFIG.lr), own_text(), mesh.get_local_rank("dp"), 0.0
    start = time.perf_counter()
    step = load(folder, mesh, trust=trust)
    if dist.get_rank() == 0:
        print(f"loaded in {time.perf_counter() - start:.1f} s", flush=True)
    progress = Progress(steps, CONFIG.batch * CONFIG.length * mesh.size(0))
    for number in range(1, steps + 1):
        tokens, targets = draw(text, CONFIG, number, dp_rank)
        loss, grads = step(params, tokens, targets)
        norm = clip(model, grads, CONFIG.clip)
        for name, param in params.items():
            param.grad = grads[name]
        optimizer.step()
        last = loss.item()
        progress.show(number, last, norm.item())
    return last


def main() -> None:
    """Read the command line, make the mesh, train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="the artifact")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--trust", choices=["directory"], help="load without a key")
    args = parser.parse_args()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    try:
        with use_mesh(mesh):
            train(args.folder, args.steps, mesh, args.trust)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
