"""``spmd doctor`` finds each thing that keeps the plugin from working, and nothing where all is well."""

from __future__ import annotations

import json
import os
import re
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from spmd_mypy.cli import findings, settings, surroundings
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
    monkeypatch.delenv("SPMD_MYPY_KEEP_INSTALLED", raising=False)


def test_all_is_well(spmd: Commands) -> None:
    """With the probe: mypy is run, and follows a tensor."""
    done = spmd("doctor")
    assert done.status == 0
    assert "mypy follows a Tensor[V[DP]] through torch.relu" in done.out
    assert "Nothing is in the way." in done.out
    assert len(done.out.splitlines()) <= 12


def test_plugin_not_loaded(spmd: Commands) -> None:
    spmd.write(pyproject__toml="[tool.mypy]\nstrict = true\n")
    assert levels(examined(spmd), "plugin") == ["problem"]


def test_torch_is_any(spmd: Commands) -> None:
    assert "problem" in levels(examined(spmd, "--no-site-packages"), "torch")


def test_another_mypy(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "mypy").write_text("#!/bin/sh\necho 'Error importing plugin'\nexit 2\n")
    (other / "mypy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    found = examined(spmd)
    assert levels(found, "path")[0] == "problem"
    assert str(other / "mypy") in found["path"][0]["text"]


@pytest.mark.parametrize("answer", ["mypy 1.18.2 (compiled: yes)", "mypy 2.4.1 (compiled: yes)"])
def test_another_mypy_that_is_of_no_use(
    spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str
) -> None:
    """It is too old; or it loads the plugin, but finds no torch."""
    other = tmp_path / "other"
    other.mkdir()
    imports = '*torch*) echo "error: Cannot find module";; *) echo "Success: no issues found";;'
    (other / "mypy").write_text(f'#!/bin/sh\ncase "$*" in --version) echo "{answer}";; {imports} esac\n')
    (other / "mypy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    assert levels(examined(spmd), "path")[0] == "problem"


def test_another_mypy_that_has_the_plugin(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As through a version manager's shim: it is asked, and what answers is no problem."""
    other = tmp_path / "shims"
    other.mkdir()
    (other / "mypy").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mypy "$@"\n')
    (other / "mypy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    assert levels(examined(spmd, status=0), "path")[0] == "warning"


def test_a_link_to_this_mypy(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As pipx and uv make them; and a copy of the script elsewhere, which names this interpreter."""
    other = tmp_path / "links"
    other.mkdir()
    for name in ("mypy", "pylsp"):
        script = Path(sys.executable).with_name(name)
        if script.exists():
            (other / name).symlink_to(script)
    (other / "dmypy").write_text(f"#!{sys.executable}\n")
    (other / "dmypy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}{os.environ['PATH']}")
    assert levels(examined(spmd, status=0), "path") == ["ok"]


@pytest.mark.parametrize("module", ["torch.*", "torch.nn.*", "spmd_runtime.*"])
@pytest.mark.parametrize("how", ["skip", "error"])
def test_torch_is_not_followed(spmd: Commands, module: str, how: str) -> None:
    config = Path("pyproject.toml").read_text()
    override = f'[[tool.mypy.overrides]]\nmodule = "{module}"\nfollow_imports = "{how}"\n'
    spmd.write(pyproject__toml=config + override)
    assert levels(examined(spmd), "torch") == ["problem"]
    assert f"follow_imports = {how}" in spmd("check").err


def test_torch_is_not_installed_where_mypy_looks(spmd: Commands, tmp_path: Path) -> None:
    """An environment of its own, without torch; missing imports are ignored, so mypy would say nothing."""
    venv.create(tmp_path / "empty", with_pip=False)
    python = next(p for p in (tmp_path / "empty").rglob("python*") if p.name in ("python", "python.exe"))
    found = examined(spmd, "--python-executable", str(python), "--ignore-missing-imports")
    assert "problem" in levels(found, "torch")
    assert str(python) in found["torch"][0]["advice"]


def test_another_torch(spmd: Commands) -> None:
    """A module of the project's that has torch's name."""
    spmd.write(torch__py="x = 1\n")
    assert "which is not PyTorch" in examined(spmd)["torch"][0]["text"]


def test_stubs_that_replace_torch(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("stubs/torch-stubs").mkdir(parents=True)
    monkeypatch.setenv("MYPYPATH", "stubs")
    config = Path("pyproject.toml").read_text().replace("[tool.mypy]\n", '[tool.mypy]\nmypy_path = "stubs"\n')
    spmd.write(pyproject__toml=config)
    assert levels(examined(spmd), "stubs") == ["problem"]


def test_installed_stubs_are_named(spmd: Commands, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package that brought them is told from its record."""
    site = tmp_path / "site"
    (site / "torch-stubs").mkdir(parents=True)
    (site / "types_torch-1.dist-info").mkdir()
    (site / "types_torch-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: types-torch\nVersion: 1\n")
    (site / "types_torch-1.dist-info/RECORD").write_text("torch-stubs/__init__.pyi,,\n")
    monkeypatch.setattr(settings, "package_folders", lambda _: [site])
    assert "types-torch" in examined(spmd)["stubs"][0]["advice"]
    assert "torch-stubs" in spmd("check").err


def test_unreadable_file(spmd: Commands) -> None:
    spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + "[tool.x\n")
    found = examined(spmd)
    assert levels(found, "configuration") == ["problem"]
    assert "line 9" in found["configuration"][0]["text"]
    assert "plugin" not in found


def test_unreadable_file_before_another(spmd: Commands) -> None:
    """mypy passes over mypy.ini and takes the next one."""
    spmd.write(mypy__ini="plugins = spmd_mypy.plugin\n")
    found = examined(spmd)
    assert "mypy.ini cannot be parsed" in found["configuration"][0]["text"]


def test_mypys_remarks(spmd: Commands) -> None:
    config = Path("pyproject.toml").read_text().replace("[tool.mypy]\n", "[tool.mypy]\nstrickt = true\n")
    spmd.write(pyproject__toml=config)
    found = examined(spmd, status=0)
    assert "strickt" in found["configuration"][0]["text"]


def test_file_that_loses(spmd: Commands) -> None:
    spmd.write(mypy__ini="[mypy]\nplugins = spmd_mypy.plugin\n\n[spmd-mypy]\naxes = tp\n")
    found = examined(spmd, status=0)
    assert "ignores [tool.mypy] in pyproject.toml" in found["configuration"][0]["text"]


def test_section_in_a_file_that_mypy_does_not_read(spmd: Commands) -> None:
    """Its axes would be ignored in silence; a file asked for by name is another matter."""
    spmd.write(
        pyproject__toml="[tool.spmd-mypy]\naxes = ['tp']\n",
        setup__cfg="[mypy]\nplugins = spmd_mypy.plugin\n",
        ci__ini="[mypy]\nplugins = spmd_mypy.plugin\n",
    )
    found = examined(spmd)
    assert "pyproject.toml configures the plugin, but mypy reads setup.cfg" in found["configuration"][1]["text"]
    assert "but mypy reads setup.cfg" in spmd("check").err
    assert "has a section for the plugin, which mypy does not read" in spmd("init", "--dry-run").err
    examined(spmd, "--config-file", "ci.ini", status=0)


def test_wrong_key(spmd: Commands) -> None:
    spmd.write(pyproject__toml=Path("pyproject.toml").read_text() + "colour = 1\n")
    assert levels(examined(spmd), "configuration") == ["problem"]


def test_refused_configuration(spmd: Commands) -> None:
    assert levels(examined(spmd, "--config-file", "nowhere.toml"), "mypy") == ["problem"]


def test_old_versions(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "OLDEST_MYPY", (99, 0))
    monkeypatch.setattr(surroundings, "OLDEST_TORCH", (99, 0))
    monkeypatch.setattr(surroundings, "OLDEST_PYTHON", (99, 0))
    found = examined(spmd)
    assert [levels(found, about)[0] for about in ("mypy", "torch", "python")] == ["problem"] * 3


@pytest.mark.parametrize(
    ("version", "level"), [("1.20.2", "problem"), ("2.0.0", "ok"), ("2.10", "warning"), ("1.99.0+dev", "problem")]
)
def test_version_of_mypy(spmd: Commands, monkeypatch: pytest.MonkeyPatch, version: str, level: str) -> None:
    monkeypatch.setattr(surroundings, "_installed", lambda package: version if package == "mypy" else "2.13.0")
    found = examined(spmd, status=int(level == "problem"))
    assert levels(found, "versions" if level == "ok" else "mypy") == [level]


def test_newest_versions_are_those_of_the_table() -> None:
    """The newest minor version in each column of the page of tested versions."""
    lines = (Path(__file__).parents[2] / "docs" / "versions.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if re.match(r"\| \d", line)]
    newest = [max(surroundings._numbers(row[column]) for row in rows) for column in range(3)]
    assert newest == [surroundings.NEWEST_MYPY, surroundings.NEWEST_PYTHON, surroundings.NEWEST_TORCH]


def test_version_of_the_torch_that_mypy_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "version.py").write_text("from typing import Optional\n__version__ = '2.4.1+cu121'\n")
    monkeypatch.setattr(settings, "find", lambda *_: settings.Found(str(tmp_path / "__init__.py")))
    found = list(surroundings.versions(settings.Settings(None)))
    assert [f.text for f in found if f.level == "problem"] == ["torch 2.4.1+cu121 is too old"]


def test_broken_probe(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is: a plugin that does not follow a tensor is a problem."""
    monkeypatch.setattr(findings, "_PROBE", "import torch\nfrom {module} import {axis}\nreveal_type(torch.tensor(1))\n")
    done = spmd("doctor")
    assert done.status == 1
    assert "does not follow a tensor's type" in done.out


def test_old_cache(spmd: Commands) -> None:
    Path(".cache/2.7").mkdir(parents=True)
    assert levels(examined(spmd, "--cache-dir", ".cache", status=0), "cache") == ["warning"]


def test_cache_that_cannot_be_written(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(".cache").mkdir()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert levels(examined(spmd, "--cache-dir", ".cache"), "cache") == ["problem"]


def test_old_daemon(spmd: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon older than the configuration, or than the plugin; and one that has ended."""
    Path(".dmypy.json").write_text(json.dumps({"pid": os.getpid()}))
    os.utime(".dmypy.json", (1, 1))
    assert levels(examined(spmd), "daemon") == ["problem"]
    Path(".dmypy.json").write_text(json.dumps({"pid": os.getpid()}))
    with monkeypatch.context() as patched:
        patched.setattr(surroundings, "_plugin_changed", lambda: 1e12)
        assert levels(examined(spmd), "daemon") == ["problem"]
    Path(".dmypy.json").write_text(json.dumps({"pid": 2**22 + 1}))
    assert levels(examined(spmd, status=0), "daemon") == ["warning"]
