"""The whole sweep: ``python -m tests.fuzz.sweep [--count 2400] [--save]``; the tests run a small part of it.

Mutants are checked in processes of their own, a chunk in each, with a hard timeout: a mutant on which mypy hangs costs
its chunk, and fails the sweep.  ``--save`` keeps the figures in ``tests/results/fuzz.json``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Final

from tests.fuzz.corpus import pieces
from tests.fuzz.worker import Report
from tests.mypy_runner import PRELUDE, ROOT, Project, cache_folder, configuration, environment

RESULTS: Final = ROOT / "tests" / "results" / "fuzz.json"
CHUNK: Final = 200
SECONDS_PER_MUTANT: Final = 4.0  # of wall time, on a busy machine; one takes less than a tenth of that


def sweep(folder: Path, first: int, count: int, chunk: int = CHUNK) -> Report:
    """Check mutants ``first`` to ``first + count`` with the plugin; torch is read once, before."""
    config = configuration()
    project = Project(folder, config)
    project.check(*project.write({"warm.py": PRELUDE + "from spmd_runtime import *\n"}))
    total = Report()
    for start in range(first, first + count, chunk):
        found = _chunk(project, start, min(chunk, first + count - start))
        for name, value in asdict(found).items():
            setattr(total, name, getattr(total, name) + value)
    return total


def _chunk(project: Project, start: int, count: int) -> Report:
    config = str(project.folder / project.config_name)
    command = [sys.executable, "-m", "tests.fuzz.worker", config, str(cache_folder(project.config))]
    limit = 60 + SECONDS_PER_MUTANT * count
    try:
        done = subprocess.run(
            [*command, str(start), str(count)],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Report(failures=[f"mutants {start} to {start + count}: not done after {limit:.0f} s"])
    try:
        return Report(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError, TypeError):
        text = (done.stdout + done.stderr)[-2000:]
        return Report(failures=[f"mutants {start} to {start + count}: status {done.returncode}: {text}"])


def save(report: Report, count: int, seconds: float) -> None:
    """Keep the figures in the repository."""
    document = {
        "command": f"python -m tests.fuzz.sweep --count {count} --save",
        "date": time.strftime("%Y-%m-%d"),
        "pieces_of_code": len(pieces()),
        "seconds": round(seconds),
        **asdict(report),
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")


def summary(report: Report) -> str:
    """The figures in a line."""
    return (
        f"{report.checked} mutants checked ({report.no_python} more were no Python, {report.refused} refused by mypy): "
        f"{report.errors} errors, {report.spmd_errors} of them SPMD errors; {len(report.failures)} failures, "
        f"{len(report.own_failures_of_mypy)} of mypy without the plugin too"
    )


def main() -> int:
    """Run the sweep that the command line describes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=2400)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--save", action="store_true")
    arguments = parser.parse_args()
    before = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spmd-fuzz-") as folder:
        report = sweep(Path(folder), arguments.first, arguments.count)
    print(summary(report))
    for failure in report.failures:
        print(failure)
    if arguments.save:
        save(report, arguments.count, time.monotonic() - before)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
