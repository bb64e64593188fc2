"""The editor: python-lsp-server with pylsp-mypy over dmypy, driven as an editor drives it.

Open a model, break a line, save: the error is underlined, with its code, the range of the expression and what to write
instead.  Mend it, save: it is gone.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editor.client import Client
from tests.mypy_runner import ROOT, configuration, environment

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pylsp_mypy") is None, reason="the editor extra is not installed (pylsp-mypy)"
)

FIRST = 240.0  # the daemon reads torch
LATER = 60.0


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """The example's model in a project; the daemon that the server starts is stopped at the end."""
    (tmp_path / "pyproject.toml").write_text(configuration(["dp", "tp"]))
    (tmp_path / "model.py").write_text((ROOT / "examples/llama/model.py").read_text())
    yield tmp_path
    stop = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(tmp_path / ".dmypy.json"), "kill"]
    subprocess.run(stop, cwd=tmp_path, capture_output=True, timeout=60, check=False)


def broken(text: str) -> tuple[str, int, str]:
    """The model with one line broken: its text, the line's number from 0, and the expression to be underlined."""
    lines = text.splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if "F.linear(" in line and "return" in line)
    indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
    lines[number] = (
        f"{indent}summand: Summand = {lines[number].strip().removeprefix('return ')}\n{indent}return F.relu(summand)\n"
    )
    return "".join(lines), number + 1, "F.relu(summand)"


def test_breaking_and_mending_a_line(project: Path) -> None:
    """As a person would see it."""
    settings = {"enabled": True, "dmypy": True, "live_mode": False, "dmypy_status_file": str(project / ".dmypy.json")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    model = project / "model.py"
    good = model.read_text()
    bad, line, expression = broken(good)
    with Client(project, settings, {**environment(), "PATH": path}) as editor:
        editor.open(model)
        assert editor.diagnostics(model, lambda found: True, FIRST) == []
        for _ in range(2):
            editor.save(model, bad)
            found, advice = editor.diagnostics(model, bool, LATER)
            assert found["code"] == "spmd-partial"
            assert found["severity"] == 1
            start, end = found["range"]["start"], found["range"]["end"]
            assert start["line"] == end["line"] == line
            assert bad.splitlines()[line][start["character"] : end["character"]] == expression
            assert "relu is nonlinear and summand is Partial on TP" in found["message"]
            assert "all_reduce(summand, TP, dst=R)" in advice["message"]
            assert advice["range"]["start"]["line"] == line
            time.sleep(1.1)  # dmypy does not see a change within the same second that keeps the size
            editor.save(model, good)
            assert editor.diagnostics(model, lambda found: not found, LATER) == []
            time.sleep(1.1)
