"""A wheel and an editable install both give a mypy that needs nothing but the line that names the plugin.

Each goes into a virtual environment of its own, which sees torch and mypy where these tests run, but not this checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.mypy_runner import ROOT, cache_folder, parse

pytest.importorskip("hatchling", reason="builds need hatchling: pip install -e '.[dev]'")

CONFIG = '[tool.mypy]\nplugins = ["spmd_mypy.plugin"]\n'
SOURCE = """\
import torch
from spmd_runtime import TP, P, R, Tensor, all_reduce

def f(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    torch.exp(x)
    return all_reduce(x, TP, src=P, dst=R)

reveal_type(f)
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command outside of this checkout and return what it prints; it must succeed."""
    env = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "MYPYPATH"}}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(kind: str, source: Path, out: Path) -> Path:
    """Build a wheel or an sdist from a source tree, without the network."""
    out.mkdir()
    code = f"import hatchling.build as b; b.build_{kind}({str(out)!r})"
    run(sys.executable, "-c", code, cwd=source)
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    folder = tmp_path_factory.mktemp("sdist")
    archive = build("sdist", ROOT, folder / "out")
    shutil.unpack_archive(archive, folder)
    return folder / archive.name.removesuffix(".tar.gz")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist, as an installer would."""
    return build("wheel", sdist, tmp_path_factory.mktemp("wheel") / "out")


def environment(folder: Path) -> Path:
    """A new virtual environment beside which only the packages of this one are seen; its interpreter."""
    venv.create(folder, with_pip=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "other_packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def check(python: Path, folder: Path, expected_in: Path) -> None:
    """mypy in the environment finds the bug; the packages are those that were installed."""
    project = folder / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(CONFIG)
    (project / "model.py").write_text(SOURCE)
    where = run(python, "-c", "import spmd_mypy, spmd_runtime; print(spmd_mypy.__file__)", cwd=project)
    assert Path(where.strip()).is_relative_to(expected_in), where
    command = [str(python), "-m", "mypy", "--cache-dir", str(cache_folder("installed")), "model.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False)
    messages = parse(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [(m.line, m.code) for m in messages if m.severity == "error"] == [(5, "spmd-partial")], done.stdout
    assert [m.revealed for m in messages if m.revealed] == ["def (x: Tensor[P[TP]]) -> Tensor[R[TP]]"]


def stub_packages() -> list[Path]:
    """The folders of partial stubs."""
    return sorted(path for path in (ROOT / "stubs").iterdir() if path.is_dir() and path.name.endswith("-stubs"))


def test_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(n for n in names if n.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    tops = {name.partition("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"spmd_mypy", "spmd_runtime", *(path.name for path in stub_packages())}
    for folder in (ROOT / "spmd_mypy", ROOT / "spmd_runtime", *stub_packages()):
        paths = [p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
        missing = {p.relative_to(folder.parent).as_posix() for p in paths} - names
        assert not missing
        assert f"{folder.name}/py.typed" in names
    for stubs in stub_packages():
        assert (stubs / "py.typed").read_text() == "partial\n"
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: BSD-3-Clause" in text
    assert "Requires-Python: >=3.10" in text
    for requirement in ("mypy>=2.0", "torch>=2.9", "typing-extensions"):
        assert f"Requires-Dist: {requirement}" in text


def test_wheel(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=tmp_path)
    check(python, tmp_path, tmp_path / "venv")


def test_editable(sdist: Path, tmp_path: Path) -> None:
    """What is edited is what mypy loads."""
    source = tmp_path / "checkout"
    shutil.copytree(sdist, source)
    python = environment(tmp_path / "venv")
    options = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    run(python, "-m", "pip", "install", *options, "--editable", source, cwd=tmp_path)
    check(python, tmp_path, source)
    codes = source / "spmd_mypy" / "__init__.py"
    codes.write_text(codes.read_text().replace("__version__ =", "edited = True\n__version__ ="))
    assert run(python, "-c", "import spmd_mypy; print(spmd_mypy.edited)", cwd=tmp_path) == "True\n"


@pytest.mark.parametrize(
    ("module", "absent"), [("spmd_mypy.rules.operations", ["mypy", "torch"]), ("spmd_mypy.plugin", ["torch"])]
)
def test_static_side_stays_light(module: str, absent: list[str], wheel: Path, tmp_path: Path) -> None:
    """The rules import neither mypy nor torch, and the plugin no torch."""
    code = (
        f"import sys; sys.path.insert(0, {str(wheel)!r}); import {module}; print([*filter(sys.modules.get, {absent})])"
    )
    assert run(sys.executable, "-c", code, cwd=tmp_path) == "[]\n"
