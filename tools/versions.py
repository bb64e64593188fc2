#!/usr/bin/env python3
"""Run the static tests on versions of mypy and Python and write the table ``docs/versions.md``.

    python tools/versions.py [--only 2.0.0,2.4.1] [--folder build/versions]

Run it in an environment with torch.  Each version gets a virtual environment of its own with that mypy; torch is read
where it is installed, which is enough: the static side never imports it.  The static tests are the marked modules of
``tests/plugin`` (errors and revealed types, line by line) and the odd code of ``tests/safety``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "versions.md"
NEWEST = "2.4.1"
MYPY = ("2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.3.1", "2.4.0", NEWEST)
OTHER_PYTHONS = ("3.10", "3.12", "3.13", "3.14")
# Marked modules that need no configuration of their own.
FOLDERS = ("core", "flow", "functions", "modules", "autograd", "groups")
INTRODUCTION = """\
# Tested versions

Static tests: {marked} marked lines of `tests/plugin` (errors and revealed types), and the odd code of `tests/safety` in
the syntax that the Python knows, on which mypy must finish. torch {torch}. Written by `python tools/versions.py`.

| mypy | Python | marked modules | odd code |
|---|---|---|---|
"""


def measure() -> dict[str, object]:
    """The static tests with the mypy that this interpreter has."""
    sys.path.insert(0, str(ROOT))
    from tests.mypy_runner import Project, marks, mismatches  # noqa: PLC0415 - from the checkout
    from tests.safety.corpus import snippets  # noqa: PLC0415

    paths = [p for name in FOLDERS for p in sorted((ROOT / "tests" / "plugin" / name).glob("*.py"))]
    modules = {f"{path.parent.name}_{path.stem}": path for path in paths}
    wrong = mismatches(modules)
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        odd = {s.module: s.source for s in snippets() if parses(s.text)}
        status = project.run(*project.write(odd)).status
    marked = sum(len(marks(path.read_text())) for path in paths)
    return {"wrong": wrong, "marked": marked, "odd": len(odd), "status": status}


def parses(text: str) -> bool:
    """Whether this Python knows the syntax; older versions of mypy parse with it."""
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def environment(folder: Path, python: str, mypy: str) -> Path:
    """A virtual environment with this mypy that sees torch's files; its interpreter."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        requirements = [f"mypy=={mypy}", "typing_extensions>=4.12", "tomli>=2"]
        subprocess.run([str(interpreter), "-m", "pip", "install", "--quiet", *requirements], check=True)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def pairs(only: list[str]) -> Iterator[tuple[str, str]]:
    """The pairs (mypy, interpreter) to test."""
    yield from ((mypy, sys.executable) for mypy in MYPY if not only or mypy in only)
    if not only:
        yield from ((NEWEST, found) for name in OTHER_PYTHONS if (found := usable(f"python{name}")))


def usable(name: str) -> str | None:
    """The path of an interpreter that runs, or None."""
    path = shutil.which(name)
    if path is None or subprocess.run([path, "--version"], capture_output=True, check=False).returncode:
        return None
    return path


def row(mypy: str, python: str, result: dict[str, object]) -> str:
    """One line of the table."""
    wrong = result["wrong"]
    assert isinstance(wrong, list)
    marked = "all as marked" if not wrong else f"{len(wrong)} lines otherwise"
    odd = f"{result['odd']} pieces, finishes" if result["status"] in (0, 1) else f"ends with status {result['status']}"
    return f"| {mypy} | {python} | {marked} | {odd} |\n"


def main() -> int:
    """Test every pair and write the table; 1 where something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument(
        "--measure", action="store_true", help="run the tests with this interpreter and print the result"
    )
    parser.add_argument("--only", default="", help="versions of mypy, separated by commas; leaves the table alone")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions", help="where the environments go")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure()))
        return 0
    rows, numbers, failed = "", {}, False
    for mypy, python in pairs([name for name in arguments.only.split(",") if name]):
        short = platform.python_version() if python == sys.executable else Path(python).name.removeprefix("python")
        interpreter = environment(arguments.folder / f"{short}-{mypy}", python, mypy)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [str(interpreter), __file__, "--measure"],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            timeout=1800,
            check=True,
        )
        numbers = json.loads(done.stdout)
        failed = failed or bool(numbers["wrong"]) or numbers["status"] not in (0, 1)
        print(row(mypy, short, numbers), *numbers["wrong"][:10], sep="\n", flush=True)
        rows += row(mypy, short, numbers)
    if not arguments.only:
        TABLE.write_text(INTRODUCTION.format(**numbers, torch=version("torch").partition("+")[0]) + rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
