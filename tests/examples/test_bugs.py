"""``examples/bugs``: mypy reports the marked lines and no others, and without the plugin nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import mypy_runner
from tests.examples.mutations import LLAMA

EXAMPLES = LLAMA.parent
BUGS = sorted((EXAMPLES / "bugs").glob("*.py"))


def marked(text: str) -> list[int]:
    """The lines that end in ``# BUG: ...``."""
    return [number for number, line in enumerate(text.splitlines(), 1) if "  # BUG: " in line]


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[mypy_runner.Message]:
    """What mypy says of the files in a copy of the folder, under the examples' configuration."""
    folder = tmp_path_factory.mktemp("bugs")
    project = mypy_runner.Project(folder, (EXAMPLES / "pyproject.toml").read_text())
    return project.check(*project.write({path.name: path.read_text() for path in BUGS})).messages


@pytest.mark.parametrize("path", BUGS, ids=lambda path: path.name)
def test_every_bug_is_reported_and_nothing_else(messages: list[mypy_runner.Message], path: Path) -> None:
    errors = [m for m in messages if m.file == path.name and m.severity == "error"]
    assert [m.line for m in errors] == marked(path.read_text())
    assert all(m.code.startswith("spmd-") for m in errors)


def test_there_are_several() -> None:
    assert 4 <= sum(len(marked(path.read_text())) for path in BUGS) <= 12
