"""Run mypy in a process of its own and read its JSON output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from spmd_mypy.cli.diagnostics import Diagnostic, Report, read
from spmd_mypy.cli.terminal import Progress, colours, is_terminal

SLOW = "the first run also reads torch, which takes half a minute"


def command(arguments: Sequence[str]) -> list[str]:
    """mypy of this environment: the one in which the plugin is installed.

    mypy knows ``FORCE_COLOR``, but not ``NO_COLOR``.
    """
    colourless = ["--no-color-output"] if os.environ.get("NO_COLOR") else []
    return [sys.executable, "-m", "mypy", *colourless, *arguments]


def check(arguments: Sequence[str], *, environment: Mapping[str, str] | None = None, title: str = "checking") -> Report:
    """Run mypy and return what it found; any exit status of mypy's is kept."""
    env = {**os.environ, **(environment or {})}
    call = [*command(arguments), "--output", "json"]
    with Progress(title, SLOW):
        done = subprocess.run(call, env=env, capture_output=True, text=True, encoding="utf-8", check=False)
    diagnostics: list[Diagnostic] = []
    other: list[str] = []
    for line in done.stdout.splitlines():
        diagnostic = read(line)
        if diagnostic is not None:
            diagnostics.append(diagnostic)
        elif line.strip():
            other.append(line)
    other.extend(line for line in done.stderr.splitlines() if line.strip())
    status = done.returncode if done.returncode in (0, 1, 2) else 2
    if status == 1 and diagnostics and not any(d.is_error for d in diagnostics):
        status = 0  # in its JSON mypy does not tell notes from errors when it counts
    return Report(tuple(diagnostics), status, tuple(other))


def plain(arguments: Sequence[str]) -> int:
    """Run mypy with its own output, as if it had been called directly; returns its exit status.

    On a terminal a progress line stands below until the first line of output comes.
    """
    if not is_terminal(sys.stderr):
        return subprocess.run(command(arguments), check=False).returncode
    env = dict(os.environ)
    if colours(sys.stdout):
        env.setdefault("MYPY_FORCE_COLOR", "1")
        env.setdefault("MYPY_FORCE_TERMINAL_WIDTH", str(os.get_terminal_size(sys.stdout.fileno()).columns))
    with Progress("checking", SLOW) as progress:
        process = subprocess.Popen(command(arguments), env=env, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        _pass_on(process.stdout, progress)
        return process.wait()


def _pass_on(stream: IO[str] | None, progress: Progress) -> None:
    for line in stream or ():
        progress.stop()
        sys.stdout.write(line)
        sys.stdout.flush()
