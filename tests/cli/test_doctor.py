"""``spmd doctor`` finds each thing that keeps the plugin from working, and nothing where all is well."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from spmd_mypy.cli import findings
from tests.cli.conftest import Commands


def examined(spmd: Commands, *arguments: str, status: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Findings by what they are about."""
    done = spmd("doctor", "--no-probe", "--output-format", "json", *arguments)
    assert done.status == status, done.out + done.err
    found: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(done.out):
        found.setdefault(finding["about"], []).append(finding)
    return found


def levels(found: dict[str, list[dict[str, Any]]], about: str) -> list[str]:
    return [finding["level"] for finding in found.get(about, [])]


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mypy on the path is the one beside the interpreter."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def test_all_is_well(spmd: Commands) -> None:
    """With the probe: mypy is run, and follows a tensor."""
    done = spmd("doctor")
    assert done.status == 0
    assert "mypy follows a Tensor[V[DP]] through torch.relu" in done.out
    assert "Nothing is in the way." in done.out


def test_plugin_not_loaded(spmd: Commands) -> None:
    spmd.write(pyproject__toml="[tool.mypy]\nstrict = true\n")
    assert levels(examined(spmd), "plugin") == ["problem"]


def test_torch_is_any(spmd: Commands) -> None:
    assert "problem" in levels(examined(spmd, "--no-site-packages"), "torch")


def test_another_mypy(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mypy").write_text("#!/bin/sh\n")
    (other / "mypy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    found = examined(spmd)
    assert levels(found, "path")[0] == "problem"
    assert str(other / "mypy") in found["path"][0]["text"]


def test_stubs_that_replace_torch(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("stubs/torch-stubs").mkdir(parents=True)
    monkeypatch.setenv("MYPYPATH", "stubs")
    config = Path("pyproject.toml").read_text().replace("[tool.mypy]\n", '[tool.mypy]\nmypy_path = "stubs"\n')
    spmd.write(pyproject__toml=config)
    assert levels(examined(spmd), "stubs") == ["problem"]


def test_file_that_loses(spmd: Commands) -> None:
    spmd.write(mypy__ini="[mypy]\nplugins = spmd_mypy.plugin\n")
    found = examined(spmd, status=0)
    assert "ignores [tool.mypy] in pyproject.toml" in found["configuration"][0]["text"]


def test_wrong_key(spmd: Commands) -> None:
    spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + "colour = 1\n")
    assert levels(examined(spmd), "configuration") == ["problem"]


def test_refused_configuration(spmd: Commands) -> None:
    assert levels(examined(spmd, "--config-file", "nowhere.toml"), "mypy") == ["problem"]


def test_old_versions(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "OLDEST_MYPY", (99, 0))
    monkeypatch.setattr(findings, "OLDEST_TORCH", (99, 0))
    monkeypatch.setattr(findings, "OLDEST_PYTHON", (99, 0))
    found = examined(spmd)
    assert [levels(found, about)[0] for about in ("mypy", "torch", "python")] == ["problem"] * 3


def test_old_cache(spmd: Commands) -> None:
    Path(".cache/2.7").mkdir(parents=True)
    assert levels(examined(spmd, "--cache-dir", ".cache", status=0), "cache") == ["warning"]


def test_old_daemon(spmd: Commands) -> None:
    """A daemon older than the configuration; and one that has ended."""
    Path(".dmypy.json").write_text(json.dumps({"pid": os.getpid()}))
    os.utime(".dmypy.json", (1, 1))
    assert levels(examined(spmd), "daemon") == ["problem"]
    Path(".dmypy.json").write_text(json.dumps({"pid": 2**22 + 1}))
    assert levels(examined(spmd, status=0), "daemon") == ["warning"]
