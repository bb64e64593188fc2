"""The hook for pre-commit: finds errors in the user's environment, and fails loudly where torch is Any."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Commands
from tests.mypy_runner import ROOT


@pytest.fixture
def repository(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    """A git repository with the model, and the hook's files in another one."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    monkeypatch.setenv("PRE_COMMIT_COLOR", "never")
    for name in ("NAME", "EMAIL"):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", "x")
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", "x")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / ".pre-commit-hooks.yaml").write_text((ROOT / ".pre-commit-hooks.yaml").read_text())
    for folder in (hooks, tmp_path):
        _git("init", "-q", folder=folder)
    _git("add", ".", folder=hooks)
    _git("commit", "-qm", "hooks", folder=hooks)
    _git("add", "model.py", "pyproject.toml", folder=tmp_path)
    return spmd


def _git(*arguments: str, folder: Path) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, timeout=60)


def run_hook() -> subprocess.CompletedProcess[str]:
    """Run the hook as pre-commit would."""
    command = [sys.executable, "-m", "pre_commit", "try-repo", "hooks", "spmd", "--files", "model.py", "--verbose"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_finds_errors(repository: Commands) -> None:
    done = run_hook()
    assert done.returncode == 1
    assert "[spmd-partial]" in done.stdout


def test_leaves_out_what_mypy_excludes(repository: Commands) -> None:
    """As plain mypy does: a changed file that the configuration leaves out is not reported."""
    config = Path("pyproject.toml").read_text()
    repository.write(pyproject__toml=config.replace("[tool.mypy]\n", '[tool.mypy]\nexclude = ["model"]\n'), fine__py="")
    done = run_hook()
    assert done.returncode == 0, done.stdout


def test_fails_where_there_is_no_spmd(repository: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without this package."""
    folders = os.environ["PATH"].split(os.pathsep)
    monkeypatch.setenv("PATH", os.pathsep.join(f for f in folders if not (Path(f) / "spmd").exists()))
    done = run_hook()
    assert done.returncode == 1, done.stdout
    assert "Executable `spmd` not found" in done.stdout


def test_fails_where_torch_is_any(repository: Commands) -> None:
    """As mypy would be in an isolated environment that ignores missing imports."""
    config = Path("pyproject.toml").read_text()
    options = "[tool.mypy]\nno_site_packages = true\nignore_missing_imports = true\n"
    repository.write(pyproject__toml=config.replace("[tool.mypy]\n", options))
    done = run_hook()
    assert done.returncode == 1
    assert "does not find torch" in done.stdout
