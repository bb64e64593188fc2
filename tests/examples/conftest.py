"""One run of the pool and one of mypy, shared by all tests of the example."""

from __future__ import annotations

from typing import Any

import pytest

from tests.examples import mutations, pool
from tests.examples.static import Report, check_all

# Each plain job is one step of a variant; a key is (id, model), the id "" for the example as it is.
VARIANTS: dict[str, dict[str, Any]] = {"": {}, "recompute": {"recompute": True}, "bf16": {"bf16": True}}
Results = dict[tuple[str, str], list[Any]]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What every variant and every mutated copy of the example gives, per rank of a 2 x 2 mesh."""
    jobs: dict[tuple[str, str], dict[str, Any]] = {}
    for variant, options in VARIANTS.items():
        for model in ("tp", "sp"):
            jobs[variant, model] = {"folder": str(mutations.LLAMA.parent), "model": model, **options}
    copies = tmp_path_factory.mktemp("copies")
    for mutation in mutations.read():
        folder = mutations.write_copy(copies, mutation)
        for model in mutation.models:
            jobs[mutation.id, model] = {"folder": str(folder), "model": model}
    rows = pool.run_jobs(list(jobs.values()), tmp_path_factory.mktemp("pool"), timeout=300)
    return dict(zip(jobs, rows, strict=True))


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Report]]:
    """What mypy reports in every mutated copy, by id, and under "" in the example as it is."""
    return check_all(tmp_path_factory.mktemp("static"))
