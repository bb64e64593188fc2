"""What the plugin costs mypy in instructions: a figure that other work on the machine does not change.

    python benchmarks/mypy_instructions.py --record      # needs valgrind; takes about ten minutes

The projects are those of ``mypy_speed.py``, two sizes of them, and everything in them is stale but torch.  Two sizes
tell what starting costs from what each module costs: the cost is linear if the ratio for the modules between them is
that of the larger project.  ``callgrind`` counts the instructions of the whole process and writes no time: where the
plugin's instructions miss the caches more often than mypy's do, the ratio of times is larger.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.generated import write_project  # noqa: E402
from benchmarks.mypy_speed import mypy_command, run_mypy, setting, touch_all  # noqa: E402

RESULTS: Final = ROOT / "benchmarks" / "results" / "mypy_instructions.md"
_TOTAL: Final = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def instructions(folder: Path, plugin: bool) -> float:
    """Millions of instructions of one stale run over the project in ``folder``."""
    run_mypy(folder, plugin, "project")  # torch, and the plugin's bytecode
    touch_all(folder / "project", int(plugin))
    command, environment = mypy_command(folder, plugin)
    counts = folder / "counts"
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={counts}"]
    environment["PYTHONHASHSEED"] = "0"
    run = subprocess.run(
        [*valgrind, *command, "project"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    found = _TOTAL.search(counts.read_text()) if counts.exists() else None
    if run.returncode not in (0, 1) or found is None:
        raise RuntimeError(f"mypy under valgrind ended with {run.returncode}:\n{run.stderr[-3000:]}")
    return int(found[1]) / 1e6


def measured(modules: int) -> tuple[float, float]:
    """Millions of instructions without and with the plugin for a project of ``modules`` modules."""
    with tempfile.TemporaryDirectory(prefix="spmd-instructions-") as name:
        folder = Path(name)
        write_project(folder, modules, False)
        return instructions(folder, False), instructions(folder, True)


def row(what: str, without: float, with_: float) -> str:
    """One line of the table."""
    return f"| {what} | {without:,.0f} M | {with_:,.0f} M | {with_ / without:.3f} |"


def main() -> int:
    """Measure, print, and keep the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", type=int, nargs=2, default=[20, 60], metavar=("FEW", "MANY"))
    parser.add_argument("--record", action="store_true", help="keep the table in benchmarks/results")
    arguments = parser.parse_args()
    few, many = sorted(arguments.modules)
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: it counts the instructions (apt-get install valgrind, say)", file=sys.stderr)
        return 2
    small, large = measured(few), measured(many)
    each = [(after - before) / (many - few) for before, after in zip(small, large, strict=True)]
    text = "\n".join(
        [
            f"# python benchmarks/mypy_instructions.py --modules {few} {many}",
            "",
            f"{setting()}  Instructions of a run in which all is stale but torch.",
            "",
            "| project | without | with | ratio |",
            "|---|---|---|---|",
            row(f"{few} modules", *small),
            row(f"{many} modules", *large),
            row(f"each module from {few} to {many}", *each),
        ]
    )
    print(text)
    if arguments.record:
        RESULTS.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
