"""The table of tested versions covers what pyproject.toml allows and ``spmd doctor`` accepts, and says what differs."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from typing import Any, Final

import pytest

from spmd_mypy.cli import surroundings
from tests.mypy_runner import ROOT
from tools import versions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PAGE: Final = versions.TABLE.read_text()
# mypy, Python, torch, and what the tests gave.
ROWS: Final = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (.*) \|$", PAGE, re.MULTILINE)
MYPY, PYTHON, TORCH = (sorted({tuple(map(int, row[i].split("."))) for row in ROWS}) for i in range(3))
AGAIN: Final = "run tools/versions.py and look at what it says"


def project() -> dict[str, Any]:
    """The table ``[project]`` of pyproject.toml."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


def lower_bound(package: str) -> tuple[int, ...]:
    """The oldest version of a package that pyproject.toml allows; no bound from above is expected."""
    (text,) = [name for name in project()["dependencies"] if re.match(rf"{package}\b", name)]
    found = re.fullmatch(rf"{package}>=([\d.]+)", text)
    assert found is not None, text
    return tuple(map(int, found[1].split(".")))


def minors(versions_: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return sorted({v[:2] for v in versions_})


@pytest.mark.parametrize(
    ("package", "tested", "accepted"),
    [("mypy", MYPY, surroundings.OLDEST_MYPY), ("torch", TORCH, surroundings.OLDEST_TORCH)],
)
def test_the_oldest_that_is_allowed_is_tested(
    package: str, tested: list[tuple[int, ...]], accepted: tuple[int, ...]
) -> None:
    assert lower_bound(package) == tested[0][:2] == accepted


def test_the_oldest_python_is_tested() -> None:
    wanted = tuple(map(int, project()["requires-python"].removeprefix(">=").split(".")))
    assert wanted == PYTHON[0][:2] == surroundings.OLDEST_PYTHON


@pytest.mark.parametrize("tested", [MYPY, PYTHON, TORCH], ids=["mypy", "Python", "torch"])
def test_no_minor_version_is_left_out(tested: list[tuple[int, ...]]) -> None:
    (major, first), *_, (_, last) = minors(tested)
    assert minors(tested) == [(major, minor) for minor in range(first, last + 1)]


def test_every_version_of_the_tool_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(versions.MYPY), AGAIN
    assert {row[2] for row in ROWS} >= set(versions.TORCH), AGAIN


def test_the_classifiers_are_the_tested_pythons() -> None:
    named = [re.fullmatch(r"Programming Language :: Python :: 3\.(\d+)", text) for text in project()["classifiers"]]
    assert [(3, int(found[1])) for found in named if found] == minors(PYTHON)


def test_the_versions_of_this_environment_are_tested() -> None:
    assert version("mypy") in {row[0] for row in ROWS}, AGAIN
    assert version("torch").partition("+")[0] in {row[2] for row in ROWS}, AGAIN
    assert sys.version_info[:2] in minors(PYTHON), AGAIN


def test_what_differs_is_explained() -> None:
    """A row that is not as it should be stands for a version whose heading below the table says why."""
    assert "## Not explained" not in PAGE
    headings = set(re.findall(r"^## \w+ ([\d.]+)$", PAGE, re.MULTILINE))
    for mypy, python, torch, results in ROWS:
        as_it_should_be = re.fullmatch(r"all \| all \d+ \| all", results) is not None
        assert as_it_should_be or {mypy, python, torch} & headings, (mypy, python, torch, results)
