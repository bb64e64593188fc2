"""The README's example is the file that the demo checks, its output is mypy's, and what it lists is what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spmd_mypy import codes
from tests.mypy_runner import ROOT, cache_folder, environment
from tools import dev

README = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "quickstart.py"


def blocks(language: str) -> list[str]:
    """The README's code blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_code_is_the_example() -> None:
    assert blocks("python") == [EXAMPLE.read_text()]
    assert len(EXAMPLE.read_text().splitlines()) == 20


def test_the_output_is_mypys() -> None:
    (console,) = blocks("console")
    first, _, shown = console.partition("\n")
    command = first.removeprefix("$ ").split()
    assert command == ["mypy", *dev.DEMO]
    cache = ["--cache-dir", str(cache_folder("readme"))]
    done = subprocess.run(
        [sys.executable, "-m", *command, *cache],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == shown, done.stdout + done.stderr
    assert done.returncode == 1


def test_the_first_commands_are_those_of_the_tool() -> None:
    opening = re.findall(r"^python3 (\S+) (\w+)", README, re.MULTILINE)
    assert opening[:2] == [("tools/dev.py", "demo"), ("tools/dev.py", "test")]


def test_every_code_is_named() -> None:
    assert {code.code for code in codes.ALL} <= set(re.findall(r"`(spmd-\w+)`", README))


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    (toml,) = blocks("toml")
    (tmp_path / "pyproject.toml").write_text(toml)
    (tmp_path / "empty.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "empty.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)\)", README))
def test_links(link: str) -> None:
    assert (ROOT / link).exists()
