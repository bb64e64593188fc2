"""``spmd doctor``: find what keeps the plugin from working."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

import click

from spmd_mypy.cli import findings
from spmd_mypy.cli.finding import Finding
from spmd_mypy.cli.settings import SettingsError, read
from spmd_mypy.cli.terminal import Progress, colours, echo, fail, is_terminal

_INDENT: Final = 26
_LEAST_ROOM: Final = 30
_MARKS: Final = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}


def examine(arguments: Sequence[str], *, probe: bool = True) -> list[Finding]:
    """All findings for ``mypy ARGUMENTS`` in the current folder; ``probe`` also runs mypy once."""
    try:
        settings = read(arguments)
    except SettingsError as error:
        if error.status == 0:
            fail("doctor has no use for that option of mypy's", "give the arguments with which mypy checks the project")
        advice = "correct the configuration; nothing else can be looked at before"
        return [Finding("problem", "mypy", f"mypy refuses to start: {error}", advice)]
    found: list[Finding] = []
    for check in findings.ALL:
        if check is findings.probe and not probe:
            continue
        with Progress(f"looking at the {check.__name__.replace('_', ' ')}"):
            found.extend(check(settings))
    return found


def _wrapped(text: str) -> list[str]:
    """The lines of a text; on a terminal no longer than there is room for."""
    room = shutil.get_terminal_size().columns - _INDENT if is_terminal(sys.stdout) else 0
    if room < _LEAST_ROOM:
        return [text]
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def show(found: Sequence[Finding]) -> None:
    """Print the findings for a person: what is well in a line each, and what to do about the rest."""
    coloured = colours(sys.stdout)
    for finding in found:
        mark, colour = _MARKS[finding.level]
        painted = click.style(f"{mark:>8}", fg=colour, bold=finding.level == "problem") if coloured else f"{mark:>8}"
        advice = finding.advice.splitlines() if finding.level != "ok" else []
        first, *others = [line for text in (*finding.text.splitlines(), *advice) for line in _wrapped(text)]
        echo(f"{painted}  {finding.about:<14}  {first}")
        for line in others:
            echo(" " * _INDENT + line)
    problems = sum(f.level == "problem" for f in found)
    echo("")
    echo("Nothing is in the way." if not problems else f"{problems} problem{'s' if problems > 1 else ''} found.")


def run(arguments: Sequence[str], *, as_json: bool, probe: bool) -> int:
    """Exit status 1 where something keeps the plugin from working, else 0."""
    found = examine(arguments, probe=probe)
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        show(found)
    return int(any(finding.level == "problem" for finding in found))
