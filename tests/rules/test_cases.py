"""The rules against a file of cases, directly: expressions with input types and the expected verdict.

Cases are JSON lines ``{"id", "expr", "inputs": {name: {axis: type}}, "verdict": "ok" or "error", "out"}``; the
environment variable SPMD_CASES names the folder that holds ``local.jsonl`` and ``beyond.jsonl``.  Where the rules
disagree with a case, ``DISAGREEMENTS`` says why the rules are right.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from spmd_mypy.rules.kinds import Layout, parse
from tests.rules import evaluator

# Expression and input letters (of the only axis) of a case, and why the rules say otherwise.
DISAGREEMENTS: Final[dict[tuple[str, str], str]] = {
    ("a.reshape_as(b)", "RV"): "only b's shape is used, and shapes are equal on all ranks: the result is a's value, R",
    **{
        ("torch.bincount(b, weights=a.view(-1)[:4])", letters): "bincount sums weights per bin, with bins equal on all "
        "ranks: the ranks' counts sum to the count of the summed weights (checked in numbers by the simulation)"
        for letters in ("PR", "PI")
    },
}

FOLDER = os.environ.get("SPMD_CASES", "")
pytestmark = pytest.mark.skipif(not FOLDER, reason="SPMD_CASES names no folder of cases")


def cases(name: str) -> Iterator[dict[str, Any]]:
    for line in Path(FOLDER, name).read_text().splitlines():
        if line.strip():
            yield json.loads(line)


def shown(layout: Layout, axes: list[str]) -> dict[str, str]:
    return {axis: str(kind) for axis, kind in zip(axes, layout, strict=True) if kind is not None}


def disagreement(case: dict[str, Any]) -> str:
    """How the rules' verdict differs from the case's; empty where it does not."""
    axes = sorted({axis for types in case["inputs"].values() for axis in types} | {"tp"})
    inputs = {
        name: tuple(parse(types[axis]) if axis in types else None for axis in axes)
        for name, types in case["inputs"].items()
    }
    value, violations = evaluator.evaluate(case["expr"], inputs)
    if case["verdict"] == "error":
        return "" if violations else "no violation"
    if violations:
        return str(violations[0])
    if not isinstance(case["out"], dict):
        return ""
    assert isinstance(value, evaluator.Tensor)
    found = shown(value.layout, axes)
    return "" if found == case["out"] else f"the result is {found}"


@pytest.mark.parametrize(("name", "at_least"), [("local.jsonl", 0.995), ("beyond.jsonl", 0.95)])
def test_agreement(name: str, at_least: float) -> None:
    total, unexplained, agreed = 0, [], 0
    for case in cases(name):
        total += 1
        letters = "".join(types.get("tp", "-") for types in case["inputs"].values())
        found = disagreement(case)
        agreed += not found
        if found and (case["expr"], letters) not in DISAGREEMENTS:
            unexplained.append(f"{case['id']}: {case['expr']} {case['inputs']}: {found}")
    assert not unexplained
    assert agreed / total >= at_least
