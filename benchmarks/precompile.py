"""Time to the first step: a loaded artifact against torch.compile, cold and warm, side by side.

    python -m benchmarks.precompile                 # the table: 1, 2 and 4 ranks, the 8-layer example
    python -m benchmarks.precompile --worlds        # build time for meshes of 8 and of 4096 ranks

Every measurement is a fresh set of processes.  The clock runs from where a training script would load or compile (torch
imported, process group and parameters there) to the end of the first step, forward and backward; the slowest rank
counts.  "cold" has an empty Inductor cache, "warm" the one that "cold" has left.  "load" and "warm" are measured
several times in turn, and their medians count.  Results go to ``benchmarks/results/precompile*.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from spmd_runtime import use_mesh
from spmd_runtime.mesh import lookup
from tests.precompile import steps

RESULTS = Path(__file__).parent / "results"
CASE = steps.Case("sp", layers=8, dim=512, vocab=2048, length=64, batch=2)
RANKS = (1, 2, 4)
TIMEOUT = 1800


def worker(mode: str, folder: str) -> None:
    """One rank: ``mode`` is "load" or "compile"; prints the seconds to the end of the first and of the second step."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{os.environ['STORE']}", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (1, ranks), mesh_dim_names=("dp", "tp"))
    with use_mesh(mesh):
        for axis in ("dp", "tp"):
            lookup(axis)
        step, inputs = steps.real(CASE, 0, rank)
        dist.barrier()
        start = time.perf_counter()
        if mode == "load":
            from spmd_runtime.precompile import load  # noqa: PLC0415  # its import is part of what is measured

            step = load(folder, mesh, trust="directory")
        else:
            from torch._dynamo import config  # noqa: PLC0415

            config.trace_autograd_ops = True  # else the graph breaks at torch.autograd.grad
            step = torch.compile(step, fullgraph=True, dynamic=False)
        loss, _ = step(*inputs)
        first = time.perf_counter() - start
        step(*inputs)
        print(json.dumps({"first": first, "second": time.perf_counter() - start - first, "loss": loss.item()}))
    dist.destroy_process_group()


def run(mode: str, ranks: int, folder: Path, cache: Path) -> dict[str, float]:
    """A set of ranks; the slowest one's times and the first one's loss."""
    with tempfile.TemporaryDirectory(prefix="store-") as store:
        shared = {"WORLD_SIZE": str(ranks), "STORE": f"{store}/store", "OMP_NUM_THREADS": "1"}
        shared["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        command = [sys.executable, "-m", "benchmarks.precompile", "--worker", mode, str(folder)]
        processes = [
            subprocess.Popen(command, env={**os.environ, **shared, "RANK": str(r)}, stdout=subprocess.PIPE, text=True)
            for r in range(ranks)
        ]
        try:
            outputs = [process.communicate(timeout=TIMEOUT)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    return {
        "first": max(f["first"] for f in found), "second": max(f["second"] for f in found), "loss": found[0]["loss"],
    }  # fmt: skip


def build(mesh: dict[str, int], out: Path, cache: Path, case: steps.Case) -> dict[str, Any]:
    """Build an artifact in this process; gives seconds by stage, those of the CPU, and the artifact's bytes."""
    from spmd_runtime.precompile import precompile  # noqa: PLC0415
    from spmd_runtime.precompile.progress import Progress  # noqa: PLC0415

    torch.set_num_threads(1)
    start, cpu = time.perf_counter(), sum(os.times()[:4])
    manifest = precompile(partial(steps.factory, case), mesh=mesh, out=out, cache_dir=cache, progress=Progress())
    size = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    spent = {"total": time.perf_counter() - start, "cpu": sum(os.times()[:4]) - cpu}
    return {**spent, **manifest["seconds"], "bytes": size}


def measure(ranks: int) -> dict[str, Any]:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        row: dict[str, Any] = {"ranks": ranks, "load average": os.getloadavg()[0]}
        row["build"] = build({"dp": 1, "tp": ranks}, folder / "artifact", folder / "built", CASE)
        found: dict[str, list[dict[str, float]]] = {"load": [], "cold": [], "warm": []}
        for kind in ("load", "cold", "load", "warm", "load", "warm"):
            mode, where = ("load", folder / "artifact") if kind == "load" else ("compile", folder)
            found[kind].append(run(mode, ranks, where, folder / "cache"))
        assert len({one["loss"] for runs in found.values() for one in runs}) == 1
        for kind, runs in found.items():
            row[kind] = {name: statistics.median(one[name] for one in runs) for name in ("first", "second")}
            row[kind]["all first"] = [round(one["first"], 2) for one in runs]
        return row


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| ranks | build, once | cold torch.compile | warm torch.compile | load | cold / load | warm / load |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cold, warm, load = (row[key]["first"] for key in ("cold", "warm", "load"))
        lines.append(
            f"| {row['ranks']} | {row['build']['total']:.1f} s | {cold:.1f} s | {warm:.1f} s | {load:.1f} s "
            f"| {cold / load:.1f} | {warm / load:.1f} |"
        )
    return "\n".join(lines)


def worlds() -> list[dict[str, Any]]:
    """Build time of one step for two sizes of the mesh, each with an empty Inductor cache."""
    case = steps.Case("sp", layers=1)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        rows = []
        for mesh in ({"dp": 4, "tp": 2}, {"dp": 4, "tp": 2}, {"dp": 2048, "tp": 2}):  # the first time warms Python up
            seconds = build(mesh, folder / str(len(rows)), folder / f"cache{len(rows)}", case)
            rows.append({"mesh": mesh, "ranks": mesh["dp"] * mesh["tp"], **seconds})
        return rows[1:]


def machine() -> dict[str, Any]:
    return {
        "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
        "python": platform.python_version(), "load average": os.getloadavg(),
    }  # fmt: skip


def save(name: str, content: dict[str, Any]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / name).write_text(json.dumps({**content, "machine": machine()}, indent=1) + "\n")


def main() -> None:
    """Read the command line, measure, print and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worker", nargs=2, metavar=("MODE", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--worlds", action="store_true", help="build time for 8 and for 4096 ranks")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    args = parser.parse_args()
    if args.worker:
        worker(*args.worker)
    elif args.worlds:
        found = worlds()
        save("precompile_worlds.json", {"command": "python -m benchmarks.precompile --worlds", "rows": found})
        for row in found:
            print(
                f"{row['ranks']} ranks: capture {row['capture']:.1f} s, compile {row['compile']:.1f} s, "
                f"{row['cpu']:.1f} s of the CPU"
            )
    else:
        rows = []
        for ranks in args.ranks:
            rows.append(measure(ranks))
            save("precompile.json", {"command": "python -m benchmarks.precompile", "rows": rows})
            print(table(rows), flush=True)


if __name__ == "__main__":
    main()
