"""Other type checkers have nothing to say against annotated code: all of ``examples/`` and every portable spelling.

Each checker runs in its strict mode over a copy, with this checkout on its search path.  A control file with
three plain mistakes shows that it really checks types, torch's included.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mypy_runner import ROOT, cache_folder, environment

HERE = Path(__file__).parent
BIN = Path(sys.executable).parent
CONTROL = """\
import torch
from spmd_runtime import TP, Tensor, V

def f(x: Tensor[V[TP]]) -> int:
    y: int = x.sum()
    x.no_such_method()
    return torch.ones(2) + y
"""

Command = list[str]


def pyright(folder: Path) -> Command:
    """Strict, less what it says of torch's own unannotated functions and of style."""
    quiet = ["reportUnknownMemberType", "reportUnknownVariableType", "reportUnknownArgumentType", "reportPrivateUsage"]
    config = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)], **dict.fromkeys(quiet, False)}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    return [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "."]


def pyrefly(folder: Path) -> Command:
    """The strict preset (the basic one reports next to nothing), less its wish for ``@override`` everywhere."""
    (folder / "pyrefly.toml").write_text(
        f'preset = "strict"\nsearch-path = [".", {json.dumps(str(ROOT))}]\n'
        f"python-interpreter-path = {json.dumps(sys.executable)}\n[errors]\nmissing-override-decorator = false\n"
    )
    return [str(BIN / "pyrefly"), "check", "-c", "pyrefly.toml", "--output-format", "min-text", "."]


def ty(folder: Path) -> Command:
    """Every rule that is on by default."""
    return [
        *(str(BIN / "ty"), "check", "--output-format", "concise", "--python", sys.prefix),
        *("--extra-search-path", str(ROOT), str(folder)),
    ]


def zuban(folder: Path) -> Command:
    """Strict, less what it says of torch's own unannotated functions."""
    untyped = ["--allow-untyped-calls", "--no-warn-return-any"]
    return [str(BIN / "zuban"), "check", "--strict", *untyped, "--python-executable", sys.executable, "."]


def bare_mypy(folder: Path) -> Command:
    """mypy itself without the plugin; strict, less what it says of torch's own unannotated functions."""
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nallow_redefinition = true\ndisallow_untyped_calls = false\nwarn_return_any = false\n"
    )
    cache = cache_folder("without the plugin")
    return [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(cache), "."]


CHECKERS: dict[str, Callable[[Path], Command]] = {
    "pyright": pyright,
    "pyrefly": pyrefly,
    "ty": ty,
    "zuban": zuban,
    "mypy": bare_mypy,
}
# A folder with scripts that import each other is a project of its own, as it is for the person who runs them.
EXAMPLES = ROOT / "examples"


def run(checker: str, folder: Path) -> tuple[int, str]:
    """Run a checker over a folder; its exit status and output without colours."""
    command = CHECKERS[checker](folder)
    env = {**environment(), "MYPYPATH": str(ROOT)} if checker == "zuban" else environment()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)


@pytest.fixture(params=list(CHECKERS))
def checker(request: pytest.FixtureRequest) -> str:
    """The name of an installed checker."""
    name = str(request.param)
    if importlib.util.find_spec(name) is None and not (BIN / name).exists():
        pytest.skip(f"{name} is not installed: pip install -e '.[checkers]'")
    return name


def test_examples(checker: str, tmp_path: Path) -> None:
    for file in EXAMPLES.rglob("*.py"):
        copy = tmp_path / file.relative_to(EXAMPLES)
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(file, copy)
    status, output = run(checker, tmp_path)
    assert status == 0, output


def test_spellings(checker: str, tmp_path: Path) -> None:
    shutil.copy(HERE / "spellings.py", tmp_path)
    status, output = run(checker, tmp_path)
    assert status == 0, output


def test_control(checker: str, tmp_path: Path) -> None:
    (tmp_path / "control.py").write_text(CONTROL)
    status, output = run(checker, tmp_path)
    assert status == 1, output
    reported = {int(line) for line in re.findall(r"control\.py:(\d+)", output)}
    assert reported == {5, 6, 7}, output


def test_spellings_run() -> None:
    """The module with all spellings imports, and every annotated tensor is plain torch.Tensor at run time."""
    code = (
        "import typing, torch, spellings\n"
        "hints = typing.get_type_hints(spellings.any_number_of_axes_in_any_order)\n"
        "assert set(hints.values()) == {torch.Tensor}, hints\n"
        "assert typing.get_type_hints(spellings.Batch)['tokens'] is torch.Tensor\n"
        "assert isinstance(torch.ones(1), spellings.Act)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HERE,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
