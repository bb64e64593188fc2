"""Runs jobs on a 2 x 2 mesh (dp, tp) of gloo ranks: four processes, started once for all jobs, killed when late."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

ROOT: Final = Path(__file__).resolve().parents[2]
RANKS: Final = 4


def _start(rank: int, folder: Path) -> subprocess.Popen[bytes]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).with_name("worker.py")), str(rank), str(folder)]
    with (folder / f"{rank}.log").open("wb") as log:
        return subprocess.Popen(command, env=env, stdout=log, stderr=subprocess.STDOUT)


def run_jobs(jobs: Sequence[dict[str, Any]], folder: Path, timeout: float) -> list[list[Any]]:
    """What each job gave, per rank: ``result[job][rank]``, as :mod:`tests.examples.worker` says.

    Args:
        jobs: each with ``folder`` (of the example's files), ``model`` ("tp" or "sp") and, if wanted, ``recompute``
            and ``bf16``.
        folder: an empty one for this run.
        timeout: seconds for all jobs together; then the processes are killed and AssertionError is raised.
    """
    (folder / "jobs.json").write_text(json.dumps(list(jobs)))
    processes = [_start(rank, folder) for rank in range(RANKS)]
    deadline = time.monotonic() + timeout
    try:
        codes = [process.wait(max(0.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        codes = ["late"]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if any(codes):
        logs = "\n".join((folder / f"{rank}.log").read_text()[-1500:] for rank in range(RANKS))
        raise AssertionError(f"the ranks ended with {codes}:\n{logs}")
    by_rank = [torch.load(folder / f"{rank}.pt") for rank in range(RANKS)]
    return [list(of_job) for of_job in zip(*by_rank, strict=True)]
