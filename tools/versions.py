#!/usr/bin/env python3
"""Run the static tests on versions of mypy, Python and torch and write the table ``docs/versions.md``.

    python tools/versions.py [--python PATH ...] [--only 2.0.0] [--folder build/versions]

Run it in the environment of the tests.  Every combination gets a virtual environment of its own; torch is read where it
is installed, or, for another version, from its wheel unpacked without its binaries: the static side never imports it.
A result is kept in the folder and taken from there as long as the plugin and the tests are the same, so a run that was
broken off goes on where it stopped.

The static tests are the marked modules of ``tests/plugin`` (errors and revealed types, line by line), the odd code of
``tests/safety``, and ``tests/plugin/test_compat.py``, on mypy's private parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
TABLE: Final = ROOT / "docs" / "versions.md"
# How the test of the pages' blocks knows that this one is not run there.
SHOWN: Final = "<!-- shown: what `python tools/versions.py` printed under another torch than the tests here have -->"
MYPY: Final = ("2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.3.1", "2.4.0", "2.4.1")
PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
# Besides the installed one, a version of each minor one from the oldest that pyproject.toml allows.
TORCH: Final = ("2.9.0", "2.10.0", "2.11.0", "2.12.1", "2.14.1")
# Marked modules that need no configuration of their own.
FOLDERS: Final = ("core", "flow", "functions", "modules", "autograd", "groups")
SOURCES: Final = ("spmd_mypy", "spmd_runtime", "tests/plugin", "tests/safety", "tests/mypy_runner.py")
# What the plugin, the tests and the files of torch import.
PACKAGES: Final = (
    *("typing_extensions>=4.12", "tomli>=2", "pytest>=8.3,<10"),
    *("numpy>=1.26,<3", "sympy", "networkx", "jinja2", "fsspec", "filelock", "setuptools"),
)
TIMEOUT: Final = 1200.0
INTRODUCTION: Final = """\
# Tested versions

spmd-mypy needs Python 3.10, mypy 2.0 and torch 2.9, or newer. These combinations were tested, each in an environment
of its own:

* *Marked lines*: {marked} lines of `tests/plugin` that say which error mypy reports there, under which code, or which
  type `reveal_type` prints. Every other line of those modules must be clean.
* *Odd code*: pieces of code as nobody writes it (`tests/safety`), each followed by a bug. mypy has to finish and report
  each bug. Before 2.4 mypy reads code with the parser of the Python that runs it: on an old Python a few pieces are
  no Python yet and are left out.
* *Private parts*: what the plugin uses of mypy without mypy's promise is there; and where it is missing, which the test
  simulates, mypy finishes and rules hold, but messages are plainer and fewer types are known.

Only Python files of torch are read, never its binaries: for these tests it makes no difference for which accelerator a
wheel of torch was built. The run-time side is tested with torch {torch} alone.

The rows were measured up to {day:%d %B %Y}, all with the same plugin; newer versions than these were not tested.
Every change is tested with mypy {mypy}, Python {python} and torch {torch}.

| mypy | Python | torch | marked lines | odd code | private parts |
|---|---|---|---|---|---|
"""
# Why a version has rows that are not as they should be; the page shows a note with what differs, where it does.
NOTES: Final = (
    (
        "torch",
        "2.14.1",
        "torch 2.14 declares that `all_gather_into_tensor` gives `Work | None`, whatever `async_op` is; before it said "
        "nothing. Where the handle is waited for, mypy by itself wants to be told that there is one.",
    ),
)


class Setup(NamedTuple):
    """What is tested together: a version of mypy, the path of an interpreter, a version of torch ("": installed)."""

    mypy: str
    python: str
    torch: str = ""


# ---- in the environment under test


def measure() -> dict[str, Any]:
    """The static tests with the mypy that this interpreter has."""
    sys.path.insert(0, str(ROOT))
    from mypy.version import __version__ as mypy  # noqa: PLC0415 - only there in the environment under test

    versions = {"mypy": mypy, "python": platform.python_version(), "torch": torch_version()}
    return {**versions, **marked_lines(), **odd_code()}


def torch_version() -> str:
    """The version of the torch whose files mypy reads; torch is not imported."""
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).with_name("version.py").read_text()
    (found,) = re.findall(r"^__version__ = '([\d.]+)", text, re.MULTILINE)
    return str(found)


def marked_lines() -> dict[str, Any]:
    """How many lines of the marked modules are marked, and those on which mypy says something else."""
    from tests.mypy_runner import marks, mismatches  # noqa: PLC0415 - from the checkout

    paths = [p for name in FOLDERS for p in sorted((ROOT / "tests" / "plugin" / name).glob("*.py"))]
    wrong = mismatches({f"{path.parent.name}_{path.stem}": path for path in paths})
    return {"marked": sum(len(marks(path.read_text())) for path in paths), "wrong": wrong}


def odd_code() -> dict[str, Any]:
    """How many pieces of odd code there are for this mypy, and what keeps it from reading them to their ends."""
    from mypy.options import Options  # noqa: PLC0415

    from tests.safety.corpus import snippets  # noqa: PLC0415
    from tests.safety.test_odd import run, unreached  # noqa: PLC0415

    own_parser = getattr(Options(), "native_parser", False)
    chosen = [s for s in snippets() if own_parser or parses(s.text)]
    with tempfile.TemporaryDirectory() as folder:
        result = run(Path(folder), chosen)
    crash = [] if result.status == 1 else [f"ended with status {result.status}: {result.output[-2000:]}"]
    return {"odd": len(chosen), "unread": crash or unreached(result, chosen)}


def parses(text: str) -> bool:
    """Whether this Python knows the syntax."""
    try:
        compile(text, "", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


# ---- environments


def torch_files(folder: Path, version: str) -> Path:
    """A folder with the Python files of this torch alone; they need not fit this interpreter."""
    target = folder / f"torch-{version or 'installed'}"
    if target.exists():
        return target
    unpacked = target.with_name(f"{target.name}.new")
    shutil.rmtree(unpacked, ignore_errors=True)
    if version:
        where = ["--no-deps", "--no-cache-dir", "--target", str(unpacked)]
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *where, f"torch=={version}"], check=True)
        for path in sorted(unpacked.rglob("*")):
            if path.is_file() and path.suffix not in {".py", ".pyi", ".typed"}:
                path.unlink()
    else:
        unpacked.mkdir(parents=True)
        for package in ("torch", "torchgen", "functorch"):
            (unpacked / package).symlink_to(Path(sysconfig.get_path("purelib")) / package)
    unpacked.rename(target)
    return target


def environment(folder: Path, setup: Setup) -> Path:
    """The interpreter of an environment with this mypy, that sees the files of this torch."""
    home = folder / f"{setup.mypy}-{digest(setup.python)}-{setup.torch or 'installed'}"
    interpreter = home / "bin" / "python"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        # Without a pip of its own: not every Python brings one.
        subprocess.run([setup.python, "-m", "venv", "--without-pip", str(home)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "--quiet"]
        subprocess.run([*pip, f"mypy=={setup.mypy}", *PACKAGES], check=True)
        (site,) = home.glob("lib/python*/site-packages")
        (site / "torch.pth").write_text(f"{torch_files(folder, setup.torch)}\n")
        (home / "complete").touch()
    return interpreter


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def sources() -> str:
    """A digest of the plugin and of the tests: results of others do not count."""
    paths = [p for name in SOURCES for p in sorted([ROOT / name, *(ROOT / name).rglob("*")])]
    return digest("".join(p.read_text() for p in paths if p.suffix in {".py", ".txt"}))


# ---- the table


def setups(pythons: dict[str, str], torches: tuple[str, ...] = TORCH) -> Iterator[Setup]:
    """Each mypy, each Python, each torch, with what the tests have otherwise; then the oldest and the newest of all.

    Args:
        pythons: minor version -> path of an interpreter.
        torches: versions of torch besides the installed one, oldest first.
    """
    newest, here = MYPY[-1], sys.executable
    yield from (Setup(mypy, here) for mypy in MYPY)
    yield from (Setup(newest, path) for path in pythons.values() if path != here)
    yield from (Setup(newest, here, torch) for torch in torches)
    names = sorted(pythons, key=lambda name: int(name.partition(".")[2]))
    yield Setup(MYPY[0], pythons[names[0]], torches[0])
    yield Setup(newest, pythons[names[-1]], torches[-1])


def interpreters(given: list[str]) -> dict[str, str]:
    """Minor version -> path: this interpreter, those that are given, and those on the path."""
    found: dict[str, str] = {}
    for name in (sys.executable, *given, *(f"python{minor}" for minor in PYTHONS)):
        path = shutil.which(name)
        if path is None:
            continue
        command = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.setdefault(done.stdout.strip(), path)
    return found


def result_of(setup: Setup, folder: Path) -> dict[str, Any]:
    """The result for a setup: the kept one, or that of a run, which is kept."""
    kept = folder / "results" / f"{digest(repr(setup))}.json"
    stamp = sources()
    if kept.exists() and (old := json.loads(kept.read_text()))["sources"] == stamp:
        return dict(old)
    result = {**run_tests(environment(folder, setup)), "sources": stamp}
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result, indent=1))
    return result


def run_tests(interpreter: Path) -> dict[str, Any]:
    """What the static tests give in this interpreter's environment, starting without a cache."""
    with tempfile.TemporaryDirectory(prefix="spmd-versions-") as cache:
        caller = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "SPMD_TEST_CACHE": cache}
        command = [str(interpreter), __file__, "--measure"]
        done = subprocess.run(command, env=caller, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True)
        return {**json.loads(done.stdout.splitlines()[-1]), "private": private_parts(interpreter, caller)}


def private_parts(interpreter: Path, caller: dict[str, str]) -> list[str]:
    """The tests of mypy's private parts that fail."""
    command = [str(interpreter), "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "tests/plugin/test_compat.py"]
    done = subprocess.run(
        command, cwd=ROOT, env=caller, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )  # fmt: skip
    failed = re.findall(r"^(?:FAILED|ERROR) \S+?::(\S+)", done.stdout, re.MULTILINE)
    return failed or ([] if done.returncode == 0 else [done.stdout[-2000:] + done.stderr[-2000:]])


def row(result: dict[str, Any]) -> str:
    """One line of the table."""
    wrong = len(result["wrong"])
    marked = f"{wrong} differ{'s' if wrong == 1 else ''}" if wrong else "all"
    odd = f"{len(result['unread'])} of {result['odd']} unread" if result["unread"] else f"all {result['odd']}"
    private = ", ".join(result["private"]) or "all"
    return f"| {result['mypy']} | {result['python']} | {result['torch']} | {marked} | {odd} | {private} |\n"


def problems(result: dict[str, Any]) -> list[str]:
    """Everything that is not as it should be."""
    return [*result["wrong"], *result["unread"], *result["private"]]


def differences(results: list[dict[str, Any]]) -> str:
    """The notes on versions with rows that are not as they should be, each with what differs."""
    text, unexplained = "", [result for result in results if problems(result)]
    for column, name, note in NOTES:
        rows = [result for result in unexplained if result[column] == name]
        if rows:
            unexplained = [result for result in unexplained if result not in rows]
            text += section(f"{column} {name}", note, rows)
    return text + (section("Not explained", "", unexplained) if unexplained else "")


def section(heading: str, note: str, results: list[dict[str, Any]]) -> str:
    """A heading, a note, and everything that differs in these results."""
    lines = dict.fromkeys(line for result in results for line in problems(result))
    body = "".join(f"{line}\n" for line in lines)
    return f"\n## {heading}\n\n{fill(note, 120)}\n\n{SHOWN}\n```text\n{body}```\n"


def main() -> int:
    """Test every setup and write the table; 1 where something differs or could not be tested."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--measure", action="store_true", help="test this environment alone and print the result")
    parser.add_argument("--python", action="append", default=[], help="an interpreter that is not on the path")
    parser.add_argument("--only", default="", help="versions of mypy, separated by commas; leaves the table alone")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions", help="for environments and results")
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure()))
        return 0
    pythons, results, broken = interpreters(arguments.python), [], False
    missing = [name for name in PYTHONS if name not in pythons]
    print(f"no interpreter: {', '.join(missing)}" if missing else "every Python is there", file=sys.stderr)
    for setup in setups(pythons):
        if arguments.only and setup.mypy not in arguments.only.split(","):
            continue
        try:
            result = result_of(setup, arguments.folder.resolve())
        except (subprocess.SubprocessError, OSError) as error:
            print(f"{setup}: {error}", file=sys.stderr)
            broken = True
            continue
        results.append(result)
        print(row(result), *(f"    {line}\n" for line in problems(result)), sep="", end="", flush=True)
    if results and not arguments.only:
        # The environment of the tests is the one whose Python runs this, with the newest mypy.
        here = next(result for result in results if result["mypy"] == MYPY[-1])
        text = INTRODUCTION.format(**here, day=date.today())
        TABLE.write_text(text + "".join(map(row, results)) + differences(results))
    return int(broken or any(map(problems, results)))


if __name__ == "__main__":
    sys.exit(main())
