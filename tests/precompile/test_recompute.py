"""Bit for bit what torch.compile gives: bf16 with a length that varies, and activations that are computed again.

``python -m benchmarks.precompile_results`` has more steps, every rank compiled in process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spmd_runtime.precompile import fake_world, load, precompile
from tests.precompile import memory, ranks, steps
from tests.runtime import gloo

MESH = {"dp": 1, "tp": 2}
BOUNDS = {"bf16 dynamic": 0.1, "recompute": 1e-5}  # of the difference to eager
TIMEOUT = 400


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> dict[str, Path]:
    """An artifact of each case."""
    folder = tmp_path_factory.mktemp("artifacts")
    found = {}
    for name in BOUNDS:
        case = steps.CASES[name]
        found[name] = folder / name.replace(" ", "_")
        make = partial(steps.factory, case)
        precompile(make, mesh=MESH, dynamic=case.ranges(), out=found[name], cache_dir=cache)
    return found


@pytest.mark.parametrize("name", BOUNDS)
def test_bit_for_bit_what_torch_compile_gives(artifacts: dict[str, Path], cache: Path, name: str) -> None:
    case = steps.CASES[name]
    only = None if case.recompute else 1  # compiled apart from its forward, a backward has another order of collectives
    arguments = case, str(artifacts[name]), MESH["tp"], str(cache), None, only
    for found in gloo.run(ranks.against_eager_and_compile, 2, *arguments, timeout=TIMEOUT):
        assert found["compile"].unequal == []
        assert found["eager"].largest <= found["compile to eager"].largest
        assert found["eager"].largest < BOUNDS[name]


def test_other_lengths_need_no_other_build(artifacts: dict[str, Path]) -> None:
    for batch in (3, 8):
        arguments = steps.CASES["bf16 dynamic"], str(artifacts["bf16 dynamic"]), 2, "", batch
        for found in gloo.run(ranks.against_eager_and_compile, 2, *arguments, timeout=TIMEOUT):
            assert found["eager"].largest < 0.1


def test_recomputation_is_kept(artifacts: dict[str, Path]) -> None:
    """The collectives of a block run again in the backward, and the activations are not held until then."""
    case = steps.CASES["recompute"]
    keeping = replace(case, recompute=False)
    with fake_world(MESH):
        eager, inputs = steps.real(case, 0, 0)
        greedy, _ = steps.real(keeping, 0, 0)
        loaded = load(artifacts["recompute"], trust=ranks.TRUST)
        loaded(*inputs)
        named: dict[str, Callable[..., Any]] = {"loaded": loaded, "eager": eager, "keeping": greedy}
        records = {name: memory.record(partial(step, *inputs)) for name, step in named.items()}
    assert records["loaded"].peak < 0.6 * records["keeping"].peak
    assert records["loaded"].peak < 1.4 * records["eager"].peak
    captured = Counter(
        c["op"]
        for c in json.loads((artifacts["recompute"] / "manifest.json").read_text())["variants"]["step"]["collectives"]
    )
    calls = records["loaded"].calls
    assert calls["_c10d_functional::all_gather_into_tensor"] == captured["all_gather_into_tensor"]
    assert captured["all_gather_into_tensor"] == records["eager"].calls["c10d::_allgather_base_"]
    assert captured["all_gather_into_tensor"] == records["keeping"].calls["c10d::_allgather_base_"] + 2 * case.layers
