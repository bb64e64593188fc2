"""Modules, functions and autograd functions: marked modules that pass and that fail; those that pass also run.

``*_pass.py`` has no error anywhere and its ``main()`` is run; ``*_fail.py`` has errors exactly on the marked lines.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mypy_runner import marks, mismatches
from tests.plugin.execution import execute
from tests.runtime.gloo import run

FOLDERS = ("modules", "functions", "autograd")
FILES = [path for folder in FOLDERS for path in sorted(Path(__file__).with_name(folder).glob("*.py"))]
PASSING = [path for path in FILES if path.stem.endswith("_pass")]


def test_every_file_says_what_it_is() -> None:
    assert all(path.stem.endswith(("_pass", "_fail")) for path in FILES)
    assert {path.parent.name for path in PASSING} == set(FOLDERS)


def test_marked_modules() -> None:
    assert mismatches({f"{path.parent.name}_{path.stem}": path for path in FILES}) == []


def test_passing_modules_have_no_mark_of_an_error() -> None:
    assert [path.name for path in PASSING if any(kind == "E" for kind, _ in marks(path.read_text()).values())] == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_passing_modules_run(ranks: int) -> None:
    chosen = [str(path) for path in PASSING if ranks == 1 or path.parent.name == "autograd"]
    assert run(execute, ranks, chosen, timeout=120) == [len(chosen)] * ranks
