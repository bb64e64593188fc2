"""Train the example on its own source text, byte by byte, on a mesh of dp x tp ranks.

    torchrun --standalone --nproc-per-node=4 examples/llama/train.py --tp 2 --sequence-parallel

Runs on CPUs (gloo) or GPUs (nccl).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from spmd_runtime import DP, axis_size, use_mesh

if not __package__:  # started as a script: let the relative imports find the other files
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    globals()["__package__"] = "llama"

from .model import Llama, LlamaConfig, SequenceParallelLlama, TensorParallelLlama, Tokens, initial_state, load_full
from .step import clip, make_step


@dataclass(frozen=True)
class TrainConfig:
    """What is not the model's: the data and the optimizer."""

    steps: int = 100
    sequence_parallel: bool = False
    bf16: bool = False
    length: int = 64  # tokens per sequence
    batch: int = 8  # sequences per dp rank
    lr: float = 3e-3
    clip: float = 1.0
    seed: int = 0


def build_model(config: LlamaConfig, mesh: DeviceMesh, *, sequence_parallel: bool, seed: int) -> Llama:
    """This rank's part of the model, with the same initial values on every mesh."""
    model: Llama = SequenceParallelLlama(config) if sequence_parallel else TensorParallelLlama(config)
    load_full(model, initial_state(model, config.layers, seed), mesh.get_local_rank("tp"))
    return model.to(mesh.device_type)


def make_optimizer(params: Mapping[str, nn.Parameter], lr: float) -> torch.optim.Optimizer:
    """AdamW with decay on the matrices only."""
    matrices = [param for param in params.values() if param.dim() > 1]
    vectors = [param for param in params.values() if param.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))


def own_text() -> torch.Tensor:
    """The bytes of this folder's Python files, as int64."""
    text = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return torch.tensor(list(text))


def draw(text: torch.Tensor, config: TrainConfig, step: int, dp_rank: int) -> tuple[Tokens, Tokens]:
    """Random windows of the text as tokens and next tokens, ``(s, b)`` each: others on every dp rank, alike over tp."""
    generator = torch.Generator().manual_seed(config.seed + 1_000_003 * step + dp_rank)
    start = torch.randint(len(text) - config.length, (config.batch,), generator=generator)
    window = text[start + torch.arange(config.length + 1).unsqueeze(1)]
    return window[:-1], window[1:]


class Progress:
    """One line on rank 0: rewritten in place on a terminal, a line per tenth of the way elsewhere."""

    def __init__(self, steps: int, tokens_per_step: int) -> None:
        self.steps, self.tokens_per_step, self.start = steps, tokens_per_step, time.perf_counter()
        self.tty = sys.stdout.isatty()

    def show(self, step: int, loss: float, norm: float) -> None:
        if dist.get_rank():
            return
        if not self.tty and step % max(1, self.steps // 10) and step != self.steps:
            return
        pace = (time.perf_counter() - self.start) / step
        line = f"step {step:4d}/{self.steps}  loss {loss:.4f}  grad norm {norm:.2f}  "
        line += f"{self.tokens_per_step / pace:,.0f} tokens/s  {pace * (self.steps - step):.0f} s left"
        print(f"\r{line}\033[K" if self.tty else line, end="" if self.tty and step < self.steps else "\n", flush=True)


def train(config: TrainConfig, model_config: LlamaConfig, mesh: DeviceMesh) -> float:
    """Train for ``config.steps`` steps; gives the last loss."""
    model = build_model(model_config, mesh, sequence_parallel=config.sequence_parallel, seed=config.seed)
    params = dict(model.named_parameters())
    optimizer = make_optimizer(params, config.lr)
    step = make_step(model, config.bf16)
    text, dp_rank, last = own_text(), mesh.get_local_rank("dp"), float("nan")
    progress = Progress(config.steps, config.batch * config.length * axis_size(DP))
    for number in range(1, config.steps + 1):
        tokens, targets = draw(text, config, number, dp_rank)
        loss, grads = step(params, tokens.to(mesh.device_type), targets.to(mesh.device_type))
        norm = clip(model, grads, config.clip)
        for name, param in params.items():
            param.grad = grads[name]
        optimizer.step()
        last = loss.item()
        progress.show(number, last, norm.item())
    return last


def main() -> None:
    """Read the command line, make the mesh, train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=TrainConfig.steps)
    parser.add_argument("--tp", type=int, default=2, help="tensor-parallel ranks; the others are dp")
    parser.add_argument("--sequence-parallel", action="store_true", help="cut the tokens over tp between blocks")
    parser.add_argument("--recompute", action="store_true", help="activation checkpointing")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks % args.tp:
        parser.error(f"--tp {args.tp} does not divide the {ranks} ranks that torchrun started")
    mesh = init_device_mesh(device, (ranks // args.tp, args.tp), mesh_dim_names=("dp", "tp"))
    config = TrainConfig(steps=args.steps, sequence_parallel=args.sequence_parallel, bf16=args.bf16)
    try:
        with use_mesh(mesh):
            train(config, LlamaConfig(recompute=args.recompute), mesh)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
