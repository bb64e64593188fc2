"""A project in a folder of its own, and the command run in it in this process; mypy still runs in another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from spmd_mypy.cli.diagnostics import _scopes, source
from spmd_mypy.cli.main import main
from tests.mypy_runner import cache_folder, configuration, environment

CONFIG = """\
[tool.mypy]
plugins = ["spmd_mypy.plugin"]
allow_redefinition = true
check_untyped_defs = true
cache_dir = "{cache}"

[tool.spmd-mypy]
axes = ["dp", "cp", "tp"]
"""
MODEL = """\
import torch.nn.functional as F

from spmd_runtime import TP, P, R, Tensor, V, all_reduce


def mlp(x: Tensor[V[TP]], w: Tensor[V[TP]]) -> Tensor[R[TP]]:
    h: Tensor[P[TP]] = F.linear(x, w)
    return F.gelu(
        h,
    )


def other(h: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return h
"""


@dataclass(frozen=True)
class Outcome:
    """A finished command: exit status and what it printed."""

    status: int
    out: str
    err: str


class Commands:
    """Runs ``spmd`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str) -> None:
        """Write files; ``__`` in a name stands for the dot."""
        for name, text in files.items():
            (self.folder / name.replace("__", ".")).write_text(text)

    def __call__(self, *arguments: str, **variables: str) -> Outcome:
        """Run ``spmd ARGUMENTS`` in the folder."""
        source.cache_clear()
        _scopes.cache_clear()
        result = CliRunner().invoke(main, list(arguments), env=variables, catch_exceptions=False)
        return Outcome(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def spmd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """The command, in a project with a configuration and a model with two errors."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    for name in ("CI", "TF_BUILD", "JENKINS_URL", "TEAMCITY_VERSION", "GITHUB_WORKSPACE", "CI_PROJECT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    commands = Commands(tmp_path)
    commands.write(pyproject__toml=CONFIG.format(cache=cache_folder(configuration())), model__py=MODEL)
    yield commands
    os.chdir("/")


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Commands]:
    """The command, in an empty folder that belongs to no project and to nobody with settings of his own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield Commands(folder)
    os.chdir("/")
