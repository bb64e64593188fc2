"""Every one-line mistake of ``mutations.toml`` shows at run time, and mypy reports it."""

from __future__ import annotations

import ast

import pytest

from tests.examples import mutations
from tests.examples.conftest import MODELS, Results
from tests.examples.static import Report
from tests.examples.test_numbers import distance
from tests.examples.worker import Outcome

ALL = mutations.read()
ALLOWED_MISSES = 2
# Far above rounding in float64, far below what a wrong collective does.
SHOWS = 1e-6
COLLECTIVES = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "convert", "reinterpret", "axis_index"}


def differs(got: Outcome, right: Outcome) -> bool:
    """Whether a rank failed, or has another loss or gradient, before or after clipping, than the example as it is."""
    if got.error:
        return True
    pairs = [(got.loss, right.loss)]
    pairs += [(got.grads[name], grad) for name, grad in right.grads.items()]
    pairs += [(got.clipped[name], grad) for name, grad in right.clipped.items()]
    return any(not distance(a, b) < SHOWS for a, b in pairs)


def any_differs(results: Results, key: str, model: str) -> bool:
    """Whether some rank differs from the example as it is."""
    return any(map(differs, results[key, model], results["", model]))


@pytest.mark.parametrize("mutation", ALL, ids=lambda m: m.id)
def test_shows_at_run_time(results: Results, mutation: mutations.Mutation) -> None:
    for model in mutation.models:
        assert any_differs(results, mutation.id, model), f"{model}: {mutation.mistake}"


@pytest.mark.parametrize("model", MODELS)
def test_an_unchanged_copy_does_not_show(results: Results, model: str) -> None:
    assert not any_differs(results, "recompute", model)


@pytest.mark.parametrize("mutation", ALL, ids=lambda m: m.id)
def test_is_reported(reports: dict[str, list[Report]], mutation: mutations.Mutation) -> None:
    found = [report for report in reports[mutation.id] if report.code.startswith("spmd")]
    if mutation.miss:
        assert not found, f"reported now, so no longer a miss: {found[0]}"
    else:
        assert found, mutation.mistake


def test_the_example_is_clean(reports: dict[str, list[Report]]) -> None:
    assert not reports[""]


def test_no_mutation_has_an_error_that_is_not_of_ours(reports: dict[str, list[Report]]) -> None:
    """A mutated copy is to be caught for what it does, not for a name that it lacks."""
    other = {id_: [report for report in found if not report.code.startswith("spmd")] for id_, found in reports.items()}
    assert not {id_: found for id_, found in other.items() if found}


def test_there_are_enough_and_few_misses() -> None:
    assert len(ALL) >= 40
    assert len({m.id for m in ALL}) == len(ALL)
    assert sum(bool(m.miss) for m in ALL) <= ALLOWED_MISSES


@pytest.mark.parametrize("file", mutations.SOURCES[1:])
def test_every_collective_and_conversion_is_mutated(file: str) -> None:
    text = (mutations.LLAMA / file).read_text()
    mutated = {m.line(text) for m in ALL if m.file == file}
    calls = {
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLLECTIVES
    }
    assert calls
    assert calls <= mutated
