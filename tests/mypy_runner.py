"""Run mypy with the plugin over source text, as a user would, and read what it says.

Three ways in, from short to full:

* ``check(source)`` returns the messages of one module;
* ``mismatches({name: source})`` compares marked modules with their marks, in one mypy run;
* ``Project(folder)`` is a folder with a configuration, for tests of options, caches and daemons.

Every run is a ``python -m mypy`` in a process of its own with a hard timeout.  Runs of the same configuration
share a warm cache, so that torch is checked once per test session and configuration: keep to the default
configuration where a test does not need another.  The cache lies in a folder that is deleted at exit, or below
``$SPMD_TEST_CACHE``, which stays; sessions that run at the same time take folders of their own there.

Marks, at the end of a line:

* ``# E`` (any error), ``# E: spmd-partial`` (an error whose code starts so), ``# E: spmd-mix, arg-type`` (both);
* ``# R: Tensor[V[TP]]``: the type that ``reveal_type`` prints on this line;
* ``# N: text``: a note or an error on this line whose message holds the text.

A line without mark must be clean.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TIMEOUT: Final = 300.0
AXES: Final = ("dp", "cp", "tp")
OPTIONS: Final[Mapping[str, Any]] = {
    "plugins": ["spmd_mypy.plugin"],
    "allow_redefinition": True,
    "check_untyped_defs": True,
}
# What most snippets need; ``check`` and ``mismatches`` leave it to the caller to put it in front.
PRELUDE: Final = """\
from __future__ import annotations
from typing import Any, Literal
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import spmd_runtime as spmd
from spmd_runtime import CP, DP, TP, Group, I, P, Parameter, R, S, Tensor, V
"""

_MESSAGE = re.compile(
    r"^(?P<file>.+?):(?P<line>\d+)(?::(?P<column>\d+))?(?::(?P<end_line>\d+):(?P<end_column>\d+))?"
    r": (?P<severity>error|note): (?P<message>.*?)(?:  \[(?P<code>[\w-]+)\])?$"
)
_MARK = re.compile(r"\s#\s*(?P<kind>[ERN])(?::\s*(?P<text>.*?))?\s*$")


@dataclass(frozen=True)
class Message:
    """One line of mypy's output; ``code`` is "" where it has none, ``file`` relative to the project."""

    line: int
    severity: str
    code: str
    message: str
    file: str = ""
    column: int = 0

    @property
    def revealed(self) -> str | None:
        """The type that ``reveal_type`` printed, or None."""
        found = re.fullmatch(r'Revealed type is "(.*)"', self.message)
        return found.group(1) if found else None


@dataclass(frozen=True)
class Result:
    """A finished run of mypy: exit status, parsed messages and the raw text of both streams."""

    status: int
    messages: list[Message]
    output: str

    @property
    def errors(self) -> list[Message]:
        """The messages of severity error."""
        return [m for m in self.messages if m.severity == "error"]


class MypyFailed(AssertionError):
    """mypy crashed, or refused its arguments or configuration (exit status other than 0 and 1)."""


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)


def _table(name: str, keys: Mapping[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {_toml(value)}\n" for key, value in keys.items())


def configuration(
    axes: Sequence[str] | None = AXES,
    options: Mapping[str, Any] | None = None,
    spmd: Mapping[str, Any] | None = None,
) -> str:
    """The text of a pyproject.toml with ``[tool.mypy]`` and ``[tool.spmd-mypy]``.

    Args:
        axes: the mesh axes; None leaves the key out.
        options: mypy options beside (or instead of) ``OPTIONS``; None as a value leaves a default out.
        spmd: further keys of ``[tool.spmd-mypy]``, e.g. ``{"strict": True, "groups": {"m.f": "tp"}}``.
    """
    mypy_keys = {k: v for k, v in {**OPTIONS, **(options or {})}.items() if v is not None}
    spmd_keys = {**({} if axes is None else {"axes": list(axes)}), **(spmd or {})}
    return _table("tool.mypy", mypy_keys) + "\n" + _table("tool.spmd-mypy", spmd_keys)


_session_cache: Path | None = None
_locks: list[IO[str]] = []  # kept open, and so locked, as long as the process lives


def _kept_cache(base: Path) -> Path:
    """The first folder below ``base`` that no other test session is using; it is this session's until it ends."""
    for number in itertools.count():
        folder = base / f"session-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _locks.append(lock)
        return folder
    raise AssertionError("unreachable")


def cache_folder(config: str) -> Path:
    """The cache that all runs with this configuration text share."""
    global _session_cache  # noqa: PLW0603 - one folder per process, made on first use
    if _session_cache is None:
        kept = os.environ.get("SPMD_TEST_CACHE")
        _session_cache = _kept_cache(Path(kept)) if kept else Path(tempfile.mkdtemp(prefix="spmd-mypy-cache-"))
        if not kept:
            atexit.register(shutil.rmtree, _session_cache, ignore_errors=True)
    return _session_cache / hashlib.sha256(config.encode()).hexdigest()[:12]


def environment() -> dict[str, str]:
    """The environment of a run: this checkout is importable, no setting of the caller's changes mypy.

    A hook that fails on code it did not foresee raises, where for users it would keep silent.
    """
    kept = {k: v for k, v in os.environ.items() if k not in {"MYPYPATH", "MYPY_CACHE_DIR", "MYPY_CONFIG_FILE_DIR"}}
    path = [str(ROOT), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1", "SPMD_MYPY_DEBUG": "raise"}


def parse(output: str, folder: Path | None = None) -> list[Message]:
    """The messages in mypy's output; file names relative to ``folder`` where they lie in it."""
    found = []
    for line in output.splitlines():
        if match := _MESSAGE.match(line):
            file = match["file"]
            if folder is not None and Path(file).is_absolute() and Path(file).is_relative_to(folder):
                file = Path(file).relative_to(folder).as_posix()
            column = int(match["column"] or 0)
            code = match["code"] or ""
            found.append(Message(int(match["line"]), match["severity"], code, match["message"], file, column))
    return found


@dataclass
class Project:
    """A folder with a configuration file and modules, to run mypy in.

    Args:
        folder: where it lies; make it unique, or mypy may take a file for an old one of the same size.
        config: text of the configuration file.
        config_name: its name: pyproject.toml, mypy.ini or setup.cfg.
        cache: the cache folder; None takes the one that runs of this configuration share.
    """

    folder: Path
    config: str = field(default_factory=configuration)
    config_name: str = "pyproject.toml"
    cache: Path | None = None

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.write({self.config_name: self.config})

    def write(self, files: Mapping[str, str]) -> list[Path]:
        """Write files (name relative to the folder -> text) and return their paths."""
        paths = []
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            paths.append(path)
        return paths

    def command(self, command: Sequence[str], timeout: float = TIMEOUT) -> Result:
        """Run a command in the folder and parse what it prints as mypy's output."""
        done = subprocess.run(
            command, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=timeout, check=False
        )
        output = done.stdout + done.stderr
        return Result(done.returncode, parse(output, self.folder), output)

    def run(self, *arguments: str | Path, timeout: float = TIMEOUT) -> Result:
        """Run mypy with these arguments after the options that all runs share; any exit status is returned."""
        cache = self.cache or cache_folder(self.config)
        return self.command(
            [
                *(sys.executable, "-m", "mypy", "--config-file", str(self.folder / self.config_name)),
                *("--cache-dir", str(cache), "--no-pretty", "--no-color-output", "--no-error-summary"),
                *("--show-column-numbers", "--hide-error-context", "--show-traceback"),
                *map(str, arguments),
            ],
            timeout,
        )

    def check(self, *arguments: str | Path, timeout: float = TIMEOUT) -> Result:
        """Like ``run``, but a run that does not end with status 0 or 1 raises ``MypyFailed``."""
        result = self.run(*arguments, timeout=timeout)
        if result.status not in (0, 1) or "INTERNAL ERROR" in result.output or "Traceback (most" in result.output:
            raise MypyFailed(f"mypy ended with status {result.status}:\n{result.output[-4000:]}")
        return result


def check_files(
    files: Mapping[str, str],
    *,
    axes: Sequence[str] = AXES,
    options: Mapping[str, Any] | None = None,
    spmd: Mapping[str, Any] | None = None,
    targets: Iterable[str] | None = None,
    arguments: Sequence[str] = (),
    timeout: float = TIMEOUT,
) -> Result:
    """Check files (name -> text), together in one mypy run; ``targets`` names those given on the command line."""
    with tempfile.TemporaryDirectory(prefix="spmd-mypy-") as folder:
        project = Project(Path(folder), configuration(axes, options, spmd))
        paths = dict(zip(files, project.write(files), strict=True))
        chosen = [paths[name] for name in (files if targets is None else targets)]
        return project.check(*arguments, *chosen, timeout=timeout)


def check(
    source: str,
    *,
    axes: Sequence[str] = AXES,
    options: Mapping[str, Any] | None = None,
    spmd: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> list[Message]:
    """Messages of mypy for one module's text; ``files`` are further modules that it imports.

    Lines are those of ``source``; messages on other files are left out.
    """
    result = check_files(
        {"main_module.py": source, **(files or {})}, axes=axes, options=options, spmd=spmd, targets=["main_module.py"]
    )
    return [m for m in result.messages if m.file == "main_module.py"]


def marks(source: str) -> dict[int, tuple[str, str]]:
    """The marks of a module's text: line -> (kind, text)."""
    found = {}
    for number, line in enumerate(source.splitlines(), 1):
        if match := _MARK.search(line):
            found[number] = (match["kind"], match["text"] or "")
    return found


def _unmet(mark: tuple[str, str], found: list[Message]) -> str | None:
    """Why the messages of a line do not meet its mark, or None; without mark the line must be clean."""
    kind, text = mark
    errors = [m for m in found if m.severity == "error"]
    if kind == "E":
        codes = [code.strip() for code in text.split(",")]
        missing = [c for c in codes if not any(e.code.startswith(c) for e in errors)]
        surplus = [e for e in errors if not any(e.code.startswith(c) for c in codes)]
        return None if not missing and not surplus else f"expected {text or 'an error'}"
    if errors and kind != "N":
        return "expected no error"
    if kind == "R" and text not in [m.revealed for m in found]:
        return f"expected the type {text}"
    if kind == "N" and not any(text in m.message for m in found):
        return f"expected a message with {text!r}"
    return None


def compare(source: str, messages: Iterable[Message], name: str = "") -> list[str]:
    """One line for each line of ``source`` whose messages do not meet its mark."""
    by_line: dict[int, list[Message]] = {}
    for message in messages:
        by_line.setdefault(message.line, []).append(message)
    wanted = marks(source)
    wrong = []
    for line in sorted({*by_line, *wanted}):
        found = by_line.get(line, [])
        if reason := _unmet(wanted.get(line, ("", "")), found):
            got = "; ".join(f"{m.severity}: {m.message} [{m.code}]" for m in found) or "nothing"
            wrong.append(f"{name}:{line}: {reason}, got {got}")
    return wrong


def mismatches(
    sources: Mapping[str, str | Path],
    *,
    axes: Sequence[str] = AXES,
    options: Mapping[str, Any] | None = None,
    spmd: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> list[str]:
    """Check marked modules in one mypy run and list the lines that do not meet their marks (empty: all well).

    Args:
        sources: module name -> its text, or the path of a file that holds it.
        axes, options, spmd: as for ``configuration``.
        files: further files that the modules import; errors in them are not compared.
    """
    texts = {f"{n}.py": s.read_text() if isinstance(s, Path) else s for n, s in sources.items()}
    result = check_files({**texts, **(files or {})}, axes=axes, options=options, spmd=spmd, targets=list(texts))
    return [
        wrong
        for name, text in texts.items()
        for wrong in compare(text, [m for m in result.messages if m.file == name], name)
    ]
