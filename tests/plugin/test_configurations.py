"""``[tool.spmd-mypy.configurations]``: flags that decide, axes of size one; one file judged as each would run it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spmd_mypy.config import CONFIGURATION_VARIABLE
from tests.mypy_runner import Project, compare, configuration

SOURCE: Final = (Path(__file__).parent / "configurations" / "flags.py").read_text()
TABLE: Final = """
[tool.spmd-mypy.configurations.parallel]
sequence_parallel = true
SEQUENCE_PARALLEL = true
attention = "ring"
tp_size = 4
"first.dropout" = 0.5

[tool.spmd-mypy.configurations.plain]
sequence_parallel = false
SEQUENCE_PARALLEL = false
attention = "flash"
tp_size = 1
"first.dropout" = 0
size_one = ["cp"]
"""
# Nothing is reported about what the configuration does not run.
OPTIONS: Final = {"warn_unreachable": True, "enable_error_code": ["redundant-expr"]}
NAMES: Final = ("parallel", "plain")


def marked_for(name: str) -> str:
    """The source with the marks that hold in one configuration."""
    lines = []
    for line in SOURCE.splitlines():
        code, *comments = re.split(r"  # (?=(?:parallel|plain): )", line)
        own = [c.removeprefix(f"{name}: ") for c in comments if c.startswith(f"{name}: ")]
        lines.append("  # ".join([code, *own]))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("configurations")
    yield Project(folder, configuration(options=OPTIONS) + TABLE, cache=folder / "cache")


def judged(project: Project, text: str, *arguments: str) -> list[str]:
    """What does not meet the marks of ``text``, which stands in for the source: comments change no verdict."""
    return compare(text, project.check(*arguments, *project.write({"flags.py": SOURCE})).messages, "flags.py")


def test_each_configuration_has_its_verdicts(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all: a change of the configuration alone makes mypy judge anew."""
    monkeypatch.delenv(CONFIGURATION_VARIABLE, raising=False)
    assert judged(project, marked_for("parallel")) == [], "plain mypy judges the first configuration"
    monkeypatch.setenv(CONFIGURATION_VARIABLE, "plain")
    assert judged(project, marked_for("plain")) == []
    assert judged(project, marked_for("plain")) == [], "from the cache"


def test_with_workers(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """mypy's workers, which parse with another parser, decide alike (after the test above: torch is in the cache)."""
    monkeypatch.setenv(CONFIGURATION_VARIABLE, "plain")
    found = project.check("-n", "2", *project.write({"flags.py": SOURCE + "\n", "second.py": "import flags\n"}))
    assert compare(marked_for("plain"), [m for m in found.messages if m.file == "flags.py"], "flags.py") == []
