"""Flow and groups: marked modules that pass and that fail; those that pass also run, and check their own numbers.

``*_pass.py`` has no error anywhere and its ``main()`` is run on one rank and on two; ``*_fail.py`` has errors exactly
on the marked lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mypy_runner import mismatches
from tests.plugin.over_time import execute_beside
from tests.runtime.gloo import run

HERE = Path(__file__).parent
STATE = (HERE / "groups_configured" / "parallel_state.py").read_text()
GROUPS = {
    "parallel_state.get_tensor_model_parallel_group": "tp",
    "parallel_state.get_data_parallel_group": "dp",
    "parallel_state.maybe_group": "tp",
    "parallel_state.Collection.tp": "tp",
    "parallel_state.Collection.model": "tp",
    "parallel_state.Collection.data": "dp",
}
MESHES = [["dp", "cp", "tp"], ["edp", "ep", "etp"]]
# Folders that are checked together, and how.
SETS: dict[tuple[str, ...], dict[str, Any]] = {
    ("flow", "groups"): {},
    ("groups_configured",): {"spmd": {"groups": GROUPS}, "files": {"parallel_state.py": STATE}},
    ("meshes",): {"axes": None, "spmd": {"meshes": MESHES}},
}
FILES = {
    folders: [p for folder in folders for p in sorted((HERE / folder).glob("*.py")) if p.stem != "parallel_state"]
    for folders in SETS
}
PASSING = [path for paths in FILES.values() for path in paths if path.stem.endswith("_pass")]


def test_every_file_has_its_other_half() -> None:
    for paths in FILES.values():
        stems = {path.stem for path in paths}
        assert stems and all(stem.endswith(("_pass", "_fail")) for stem in stems)
        assert {stem.removesuffix("_pass") for stem in stems if stem.endswith("_pass")} == {
            stem.removesuffix("_fail") for stem in stems if stem.endswith("_fail")
        }


@pytest.mark.parametrize("folders", SETS, ids="-".join)
def test_marked_modules(folders: tuple[str, ...]) -> None:
    modules = {f"{path.parent.name}_{path.stem}": path for path in FILES[folders]}
    assert mismatches(modules, **SETS[folders]) == []


def test_passing_modules_have_no_mark_of_an_error() -> None:
    assert [path.name for path in PASSING if "# E" in path.read_text()] == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_passing_modules_run(ranks: int) -> None:
    chosen = [str(path) for path in PASSING if path.parent.name != "meshes"]  # a second mesh needs more ranks
    assert run(execute_beside, ranks, chosen, timeout=120) == [len(chosen)] * ranks
