"""The collectives on a GPU: rows, gradients, graphs, compilation, and what a launch costs; under 10 minutes on one GPU.

    python -m tests.gpu.collectives_cuda

* Every row of the table, forward, backward and double backward, on NCCL: on one rank, and on as many ranks (up to 4) as
  there are GPUs.  NCCL takes no two ranks on one GPU; several ranks on one GPU run over gloo, and rows for which gloo
  has no CUDA form are counted, not hidden.
* A tensor-parallel MLP under CUDA graphs and under ``torch.compile(fullgraph=True)`` gives the eager numbers.
* What a call costs beside one written by hand, by the clock, with the GPU's work in it.

One line for each check and one JSON object at the end; exit status 0 where everything holds, 2 where there is no GPU.
``--rehearse`` runs all that a machine without a GPU can, on the CPU over gloo.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import spmd_runtime as spmd
from spmd_runtime import TP, I, R
from tests.runtime import cases, gloo, test_rows
from tests.runtime.meaning import Case

# How gloo says that it has no such call for CUDA tensors.
NOT_IN_GLOO = ("not supported", "not implemented", "unsupported", "does not support", "invalid tensor type")
TIMEOUT = 180


def on_device(some: list[Case], device: str) -> list[Any]:
    """This rank's part of each call on tensors of ``device``, results on the CPU."""
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    with torch.device(device):
        return [_on_cpu(part) for part in test_rows.parts_on_rank(some)]


def _on_cpu(part: Any) -> Any:
    return part if isinstance(part, str) else test_rows.Part(*(value.cpu() for value in vars(part).values()))


def rows(ranks: int, backend: str, device: str) -> dict[str, Any]:
    """All rows on ``ranks`` ranks; those that the backend does not have for this device are counted apart."""
    some = cases.every(ranks) if backend == "nccl" else cases.shaped(ranks)
    columns = gloo.run(on_device, ranks, some, device, timeout=TIMEOUT, backend=backend)
    told = [next((part for part in parts if isinstance(part, str)), "") for parts in zip(*columns, strict=True)]
    had = [backend == "nccl" or not any(text in one.lower() for text in NOT_IN_GLOO) for one in told]
    kept = [case for case, here in zip(some, had, strict=True) if here]
    kept_columns = [[part for part, here in zip(column, had, strict=True) if here] for column in columns]
    wrong = test_rows.failures(kept, kept_columns)
    return {"calls": len(kept), "not in the backend": len(some) - len(kept), "wrong": wrong[:20], "holds": not wrong}


def mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """A tensor-parallel MLP: x is I on tp."""
    h = torch.tanh(spmd.convert(x, TP, src=I, dst=R) @ up)
    return spmd.all_reduce(h @ down, TP, dst=I)


def leaves(device: str) -> list[torch.Tensor]:
    """x, up and down."""
    torch.manual_seed(0)
    shapes = ((8, 16), (16, 32), (32, 16))
    return [torch.randn(shape).to(device).requires_grad_() for shape in shapes]


def step(arguments: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Loss and gradients."""
    loss = mlp(*arguments).square().sum()
    return (loss.detach(), *torch.autograd.grad(loss, arguments))


def bound() -> spmd.Binding:
    """All ranks as the axis tp."""
    world = dist.group.WORLD
    assert world is not None
    return spmd.bind(TP, world)


def graphs() -> dict[str, Any]:
    """A captured step, replayed on other numbers, against the eager one."""
    with bound():
        arguments = leaves("cuda")
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step(arguments)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = step(arguments)
        with torch.no_grad():
            arguments[0].mul_(0.5)
        graph.replay()
        eager = step(arguments)
        return {"holds": all(map(torch.equal, replayed, eager))}


def compiled(device: str) -> dict[str, Any]:
    """The step without a graph break, against the eager one."""
    if device == "cuda":
        torch.cuda.set_device(dist.get_rank() % torch.cuda.device_count())
    with bound():
        arguments = leaves(device)
        backend = "inductor" if device == "cuda" else "aot_eager"
        made = torch.compile(mlp, fullgraph=True, backend=backend)
        loss = made(*arguments).square().sum()
        got = (loss.detach(), *torch.autograd.grad(loss, arguments))
        return {
            "holds": all(torch.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(got, step(arguments), strict=True))
        }


def costs(device: str, rounds: int) -> dict[str, Any]:
    """Ours against hand-written code, the fake backend moving nothing; the clock stops when the GPU has finished."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
    benchmark: Any = importlib.import_module("collectives")

    def clock() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    world = dist.group.WORLD
    assert world is not None
    effort = benchmark.Effort(rounds, 20, clock)
    with spmd.bind(TP, world), torch.device(device):
        figures = [benchmark.measured(name, steps, effort) for name, steps in benchmark.calls(world, 16, 32)]
        figures += [
            benchmark.measured(name, steps, effort.lighter()) for name, steps in benchmark.blocks(world, 256, 128)
        ]
    ratios = {figure.name: round(figure.ratios["by hand"], 3) for figure in figures}
    return {"ours / by hand": ratios, "median": sorted(ratios.values())[len(ratios) // 2]}


def faked(device: str, rounds: int) -> dict[str, Any]:
    """``costs`` as rank 0 of two over the fake backend."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: PLC0415

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        return costs(device, rounds)
    finally:
        dist.destroy_process_group()


def plan(rehearse: bool) -> dict[str, Callable[[], dict[str, Any]]]:
    """The checks by name."""

    def alone(function: Callable[..., dict[str, Any]], backend: str, *arguments: Any) -> Callable[[], dict[str, Any]]:
        return lambda: gloo.run(function, 1, *arguments, timeout=TIMEOUT, backend=backend)[0]

    if rehearse:
        return {
            "rows, gloo, 2 ranks": lambda: rows(2, "gloo", "cpu"),
            "compiled": alone(compiled, "gloo", "cpu"),
            "cost of a call": alone(faked, "", "cpu", 3),
        }
    found: dict[str, Callable[[], dict[str, Any]]] = {
        "rows, NCCL, 1 rank": lambda: rows(1, "nccl", "cuda"),
        "rows, gloo, 2 ranks on one GPU": lambda: rows(2, "gloo", "cuda"),
        "CUDA graphs": alone(graphs, "nccl"),
        "compiled": alone(compiled, "nccl", "cuda"),
        "cost of a call": alone(faked, "", "cuda", 41),
    }
    for ranks in range(2, min(4, torch.cuda.device_count()) + 1):
        found[f"rows, NCCL, {ranks} ranks"] = lambda ranks=ranks: rows(ranks, "nccl", "cuda")  # type: ignore[misc]
    return found


def report(rehearse: bool = False) -> dict[str, dict[str, Any]]:
    """What each check found, printed as it ends; ``holds`` is False where it failed or did not end in time."""
    found: dict[str, dict[str, Any]] = {}
    for name, check in plan(rehearse).items():
        start = time.perf_counter()
        try:
            found[name] = {"holds": True, **check()}
        except gloo.RanksFailed as error:
            found[name] = {"holds": False, "error": str(error)[-3000:]}
        found[name]["seconds"] = round(time.perf_counter() - start, 1)
        print(f"{name}: {'holds' if found[name]['holds'] else 'FAILS'}  {found[name]}", flush=True)
    return found


def main() -> int:
    """All checks; 0 where everything holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, what can be run there")
    rehearse = parser.parse_args().rehearse
    if not rehearse and not torch.cuda.is_available():
        print("no GPU here: nothing was checked (--rehearse runs what a CPU can)")
        return 2
    found = report(rehearse)
    about = {"torch": torch.__version__, "gpu": "" if rehearse else torch.cuda.get_device_name()}
    print(json.dumps({**about, **found}))
    return 0 if all(one["holds"] for one in found.values()) else 1


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
