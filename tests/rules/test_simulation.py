"""Every row of the table against numbers: a bounded part of ``tests.rules.sweep``."""

from __future__ import annotations

import pytest
import torch

from spmd_mypy.rules.kinds import I, P, R
from tests.rules import simulate
from tests.rules.exceptions import KNOWN_MISSES, NOT_SIMULATED, OVER_STRICT
from tests.rules.simulate import Sample
from tests.rules.sweep import Report, read_kept, stale, sweep_all


@pytest.fixture(scope="module")
def report() -> Report:
    return sweep_all(1, assignments=5, of_ours=5, ranks=[2])


def test_every_claim_holds(report: Report) -> None:
    assert not report.refuted


def test_every_row_has_a_sample(report: Report) -> None:
    assert not report.without_sample()


def test_the_exceptions_are_few_and_have_reasons() -> None:
    assert len(OVER_STRICT) <= 40
    for reasons in (OVER_STRICT, KNOWN_MISSES, NOT_SIMULATED):
        assert all(reasons.values())


def test_the_full_sweep_was_clean() -> None:
    """The kept result of ``python -m tests.rules.sweep --write``, which takes too long to run here."""
    rows = read_kept()
    assert not stale(), "run python -m tests.rules.sweep --changed --write"
    assert not [row["refuted"] for row in rows.values() if row["refuted"]]
    over_strict = {base for base, row in rows.items() if row["over_strict"]}
    assert over_strict == set(OVER_STRICT), "a rejection that holds on every draw needs a reason, and no other has one"


def _sample(run: object) -> Sample:
    return Sample("torch.relu", [("input", torch.randn(4, dtype=torch.float64))], run)  # type: ignore[arg-type]


def test_the_simulation_can_refute() -> None:
    """A wrong claim about values, and one about gradients, are both found."""
    relu = _sample(lambda values: torch.relu(values[0]))
    attempt = simulate.simulate(relu, "P", 2, 1)
    assert not simulate.output_holds(P, attempt, 0) and not simulate.output_holds(R, attempt, 0)
    double = Sample(
        "torch.add",
        [("input", torch.ones(3, dtype=torch.float64)), ("other", torch.ones(3, dtype=torch.float64))],
        lambda values: values[0] + values[1],  # type: ignore[operator]
    )
    mixed = simulate.simulate(double, "RI", 2, 1)
    assert simulate.output_holds(I, mixed, 0) and not simulate.gradients_hold([I], mixed, 1)
    equal = simulate.simulate(double, "II", 2, 1)
    assert simulate.gradients_hold([I], equal, 1) and not simulate.gradients_hold([R], equal, 1)
