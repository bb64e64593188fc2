"""Every kind of step, loaded, against torch.compile in process (bit for bit) and against eager; the full matrix.

    python -m benchmarks.precompile_results          # about ten minutes on two idle cores
    python -m benchmarks.precompile_results sp bf16  # some of them

Two gloo ranks.  Results go to ``benchmarks/results/precompile_results.json``, beside those of other steps that are
there; exit status 1 where a step differs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.precompile import machine
from spmd_runtime.precompile import precompile
from tests.precompile import ranks, steps
from tests.runtime import gloo

RESULTS = Path(__file__).parent / "results" / "precompile_results.json"
MESH = {"dp": 1, "tp": 2}
TIMEOUT = 1500


def measure(name: str, folder: Path) -> dict[str, Any]:
    """One case: the worst of the ranks."""
    case = steps.CASES[name]
    out = folder / name.replace(" ", "_")
    precompile(partial(steps.factory, case), mesh=MESH, dynamic=case.ranges(), out=out, cache_dir=folder / "cache")
    arguments = case, str(out), MESH["tp"], str(folder / "cache")
    found = gloo.run(ranks.against_eager_and_compile, 2, *arguments, timeout=TIMEOUT)
    return {
        "leaves unlike torch.compile": sum(len(f["compile"].unequal) for f in found),
        "to eager": max(f["eager"].largest for f in found),
        "torch.compile to eager": max(f["compile to eager"].largest for f in found),
    }


def main() -> int:
    """Measure, print, save."""
    names = sys.argv[1:] or list(steps.CASES)
    rows: dict[str, Any] = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="results-") as folder:
        for name in names:
            rows[name] = measure(name, Path(folder))
            print(f"{name}: {rows[name]}", flush=True)
            content = {"command": "python -m benchmarks.precompile_results", "cases": rows, "machine": machine()}
            RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    return int(any(rows[name]["leaves unlike torch.compile"] for name in names))


if __name__ == "__main__":
    sys.exit(main())
