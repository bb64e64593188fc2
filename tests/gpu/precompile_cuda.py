"""Precompile on one GPU: build, load with every compiler made to raise, compare bit for bit; under 8 minutes.

    python -m tests.gpu.precompile_cuda

Each part runs in a process of its own: what loads must not find anything in the memory of what built.  The mesh has one
rank, on NCCL.  One line for each check and one JSON object at the end; exit status 0 where everything holds, 2 where
there is no GPU.  ``--rehearse`` does the same on the CPU over gloo, without the Triton kernel: it shows that the script
works.  ``--cases`` picks some.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.utils import _pytree as pytree

from spmd_runtime import use_mesh
from spmd_runtime.mesh import lookup
from tests.precompile import memory, steps

MESH = {"dp": 1, "tp": 1}
DEVICE = os.environ.get("SPMD_GPU_DEVICE", "cpu" if "--rehearse" in sys.argv else "cuda:0")
ON_GPU = DEVICE.startswith("cuda")
TIMEOUT = 420 if ON_GPU else 900
CASES = {
    "sp": steps.Case("sp", layers=2, dim=128, length=64, batch=4),
    "bf16": steps.Case("tp", layers=2, dim=128, length=64, batch=4, bf16=True),
    "recompute": steps.Case("sp", layers=4, dim=128, length=256, batch=4, recompute=True),
    "float64": steps.Case("tp", dtype=torch.float64, adamw=True, micro=2),
}
if not ON_GPU:  # a rehearsal, which shows that the script works
    CASES = {name: replace(case, layers=1, dim=32, length=32, batch=2) for name, case in CASES.items()}


def on_gpu(inputs: Any) -> Any:
    """The same numbers on the GPU; parameters stay parameters."""

    def move(x: Any) -> Any:
        return x.detach().to(DEVICE).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x

    return pytree.tree_map(move, inputs)


def synchronize() -> None:
    """Wait for the GPU."""
    if ON_GPU:
        torch.cuda.synchronize()


def peak_of(function: Callable[[], Any]) -> tuple[Any, int]:
    """What ``function`` gives, and the most memory that it held beyond what there was before."""
    if not ON_GPU:
        found = memory.record(function)
        return function(), found.peak
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = function()
    return result, torch.cuda.max_memory_allocated() - before


def kernel_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The step with a Triton kernel of the user's own."""
    from tests.precompile.triton_kernel import step  # noqa: PLC0415  # only a torch for GPUs brings triton

    return step(x, y)


def kernel_inputs() -> Any:
    return on_gpu((torch.linspace(0, 1, 1000), torch.linspace(1, 2, 1000)))


def gpu_factory(case: steps.Case) -> Any:
    """Step and inputs with everything on the GPU, the parameters without numbers."""
    return steps.factory(case, DEVICE)


def build(folder: Path, *names: str) -> dict[str, Any]:
    """Build these artifacts in this process."""
    from spmd_runtime.precompile import precompile  # noqa: PLC0415

    seconds = {}
    for name in names:
        start = time.perf_counter()
        if name == "kernel":
            precompile(kernel_step, kernel_inputs(), mesh={"tp": 1}, out=folder / name)
        else:
            precompile(partial(gpu_factory, CASES[name]), mesh=MESH, out=folder / name)
        seconds[name] = round(time.perf_counter() - start, 1)
    return {"build seconds": seconds}


def on_nccl(function: Callable[[], dict[str, Any]], axes: dict[str, int]) -> dict[str, Any]:
    """``function`` on a mesh of one rank on NCCL."""
    with tempfile.TemporaryDirectory(prefix="store-") as store:
        dist.init_process_group("nccl" if ON_GPU else "gloo", init_method=f"file://{store}/store", rank=0, world_size=1)
        mesh = init_device_mesh(DEVICE.partition(":")[0], tuple(axes.values()), mesh_dim_names=tuple(axes))
        try:
            with use_mesh(mesh):
                return function()
        finally:
            dist.destroy_process_group()


def run_loaded(folder: Path, name: str) -> dict[str, Any]:
    """Load and run with every compiler made to raise; saves the results."""
    from spmd_runtime.precompile import load  # noqa: PLC0415
    from tests.precompile import tripwires  # noqa: PLC0415

    inputs = kernel_inputs() if name == "kernel" else on_gpu(steps.real(CASES[name], 0, 0)[1])
    start = time.perf_counter()
    with tripwires.no_compiler(cuda=ON_GPU):
        step = load(folder / name, trust="directory")
        results = step(*inputs)
        synchronize()
    seconds = time.perf_counter() - start
    torch.save((results, inputs), folder / f"{name}.loaded")
    if name == "recompute":
        return {"load seconds": round(seconds, 2), "peak bytes": peak_of(lambda: step(*inputs))[1]}
    return {"load seconds": round(seconds, 2)}


def run_compiled(folder: Path, name: str) -> dict[str, Any]:
    """The same step under torch.compile and eagerly, against what the loaded one gave."""
    from tests.precompile.ranks import difference, in_process  # noqa: PLC0415

    loaded = torch.load(folder / f"{name}.loaded")
    if name == "kernel":
        from tests.precompile.triton_kernel import step as with_kernel  # noqa: PLC0415

        compiled = torch.compile(with_kernel, fullgraph=True, dynamic=False)(*kernel_inputs()), kernel_inputs()
        eager = with_kernel(*kernel_inputs()), kernel_inputs()
        return {"unequal": difference(loaded, compiled).unequal, "to eager": difference(loaded, eager).largest}
    case = CASES[name]
    for axis in MESH:
        lookup(axis)
    step, inputs = steps.real(case, 0, 0, compiled_model=case.recompute)
    start = time.perf_counter()
    arguments = on_gpu(inputs)
    compiled = in_process(step, str(folder / "cache"), case)(*arguments), arguments
    synchronize()
    seconds = time.perf_counter() - start
    plain = replace(case, recompute=False)
    greedy, inputs = steps.real(plain, 0, 0)
    arguments = on_gpu(inputs)
    gradients, peak = peak_of(lambda: greedy(*arguments)) if case.recompute else (greedy(*arguments), 0)
    eager = gradients, arguments
    return {
        "unequal": difference(loaded, compiled).unequal, "to eager": difference(loaded, eager).largest,
        "compiled to eager": difference(compiled, eager).largest, "compile seconds": round(seconds, 2),
        "peak bytes without recomputation": peak,
    }  # fmt: skip


def part(folder: Path, *arguments: str) -> dict[str, Any]:
    """One part in a process of its own."""
    command = [sys.executable, "-m", "tests.gpu.precompile_cuda", "--part", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired as error:
        return {"error": f"not done after {error.timeout} s"}
    if done.returncode:
        return {"error": done.stderr[-3000:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def verdict(name: str, found: dict[str, Any]) -> bool:
    """Whether a case holds: same bits as torch.compile, near eager, recomputation kept."""
    if "error" in found or found["unequal"]:
        return False
    if name == "recompute" and ON_GPU and found["peak bytes"] > 0.7 * found["peak bytes without recomputation"]:
        return False
    if name == "bf16":
        return bool(found["to eager"] <= found["compiled to eager"])
    return bool(found["to eager"] < (1e-9 if name == "float64" else 1e-3))


def run_part(folder: Path, what: str, *name: str) -> dict[str, Any]:
    if what == "build":
        return build(folder, *name)
    axes = {"tp": 1} if name[0] == "kernel" else MESH
    run = run_loaded if what == "load" else run_compiled
    return on_nccl(lambda: run(folder, name[0]), axes)


def main() -> int:
    """All parts in turn; 0 where everything holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--rehearse", action="store_true", help="on the CPU")
    parser.add_argument("--cases", nargs="+", choices=[*CASES, "kernel"], default=[*CASES, "kernel"])
    args = parser.parse_args()
    if args.part:
        print(json.dumps(run_part(Path(args.part[0]), *args.part[1:])))
        return 0
    if args.rehearse:
        os.environ["SPMD_GPU_DEVICE"] = "cpu"  # for the parts, with all that follows from it
        args.cases = [name for name in args.cases if name != "kernel"]
    elif not torch.cuda.is_available():
        print("no GPU here: nothing was checked")
        return 2
    with tempfile.TemporaryDirectory(prefix="spmd-gpu-") as name:
        folder = Path(name)
        report: dict[str, Any] = {
            "device": "cpu" if args.rehearse else torch.cuda.get_device_name(),
            "torch": torch.__version__,
            **part(folder, "build", *args.cases),
        }
        for case in () if "error" in report else args.cases:
            report[case] = {**part(folder, "load", case), **part(folder, "compile", case)}
            print(f"{case}: {'holds' if verdict(case, report[case]) else 'FAILS'}  {report[case]}", flush=True)
    print(json.dumps(report))
    return 0 if "error" not in report and all(verdict(case, report[case]) for case in args.cases) else 1


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    sys.exit(main())
