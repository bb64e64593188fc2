"""Flow and groups: marked modules that pass and that fail; those that pass also run, and check their own numbers.

``*_pass.py`` has no error anywhere and its ``main()`` is run on one rank and on two; ``*_fail.py`` has errors exactly
on the marked lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mypy_runner import PRELUDE, check, mismatches
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


BRANCH = f"""{PRELUDE}
def f(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> Tensor[R[TP]]:
    y = x * 2
    if flag:
        y = spmd.all_reduce(y, TP, dst=R)
    y.sqrt()
    spmd.all_reduce(y, TP, dst=R)
    return y

def g(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> Tensor[R[TP]]:
    if flag:
        x = spmd.all_reduce(x, TP, dst=R)
    torch.sqrt(x)
    return x

def h(x: Tensor[P[TP]], tp: Group[TP], flag: bool) -> None:
    z = x.clone()
    if flag:
        dist.all_reduce(z, group=tp)
    z.sqrt()
"""


def test_errors_say_which_branch_lacks_the_reduce() -> None:
    start = BRANCH.splitlines().index("    y = x * 2") + 1
    texts = {m.line - start: m.message for m in check(BRANCH) if m.severity == "error"}
    assert set(texts) == {3, 4, 5, 10, 11, 17}
    first = f"(where y is still Partial, from line {start}; only line {start + 2} makes it Replicate)"
    assert first in texts[3] and first in texts[5]
    assert f"(where y is Replicate, from line {start + 2}; only line {start} makes it Partial)" in texts[4]
    assert f"(where x is still Partial; only line {start + 9} makes it Replicate)" in texts[10]
    assert f"(where x is still Partial; only line {start + 9} makes it Replicate)" in texts[11]
    assert "(where z is still Partial" in texts[17]
