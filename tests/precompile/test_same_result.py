"""A loaded step gives the very bits that torch.compile gives in process, and what eager gives within rounding.

Here with everything around forward and backward: two batches whose gradients are added up, clipping, AdamW.  Other
steps are in ``test_recompute.py``; ``python -m benchmarks.precompile_results`` has each thing on its own, every rank
compiled in process.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from spmd_runtime.precompile import precompile
from tests.precompile import ranks, steps
from tests.runtime import gloo

MESH = {"dp": 1, "tp": 2}
TIMEOUT = 400


def test_accumulation_clipping_and_adamw_in_the_step(tmp_path: Path, cache: Path) -> None:
    """Loss, norm, and the parameters and the optimizer's state that the step has written."""
    case = steps.CASES["all in float64"]
    precompile(partial(steps.factory, case), mesh=MESH, out=tmp_path / "step", cache_dir=cache)
    arguments = case, str(tmp_path / "step"), MESH["tp"], str(cache), None, 0
    for found in gloo.run(ranks.against_eager_and_compile, 2, *arguments, timeout=TIMEOUT):
        assert found["compile"].unequal == []
        assert found["eager"].largest <= found["compile to eager"].largest < 1e-9
