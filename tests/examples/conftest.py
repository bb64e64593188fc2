"""One run of the pool and one of mypy, shared by all tests of the example."""

from __future__ import annotations

from typing import Final

import pytest

from tests.examples import mutations
from tests.examples.static import Report, check_all
from tests.examples.worker import Job, Outcome, run_jobs

MODELS: Final = ("tp", "sp")
# (mutation id or variant, model) -> outcome per rank; the variant "" is the example as it is.
Results = dict[tuple[str, str], list[Outcome]]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What every variant and every mutated copy of the example gives, per rank of a 2 x 2 mesh."""
    examples = mutations.LLAMA.parent
    jobs = {("", model): Job(examples, model) for model in MODELS}
    jobs |= {("recompute", model): Job(examples, model, recompute=True) for model in MODELS}
    jobs |= {("bf16", model): Job(examples, model, bf16=True) for model in MODELS}
    copies = tmp_path_factory.mktemp("copies")
    for mutation in mutations.read():
        folder = mutations.write_copy(copies, mutation)
        jobs |= {(mutation.id, model): Job(folder, model) for model in mutation.models}
    return dict(zip(jobs, run_jobs(list(jobs.values()), timeout=240), strict=True))


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Report]]:
    """What mypy reports in every mutated copy, by id, and under "" in the example as it is."""
    return check_all(tmp_path_factory.mktemp("static"))
