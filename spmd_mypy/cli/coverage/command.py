"""Count the typed tensor expressions, print them per file, and hold them against a minimum."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from spmd_mypy.cli import findings, settings
from spmd_mypy.cli.coverage.causes import Cause, Causes
from spmd_mypy.cli.coverage.collect import Collected, CollectError, collect
from spmd_mypy.cli.coverage.walk import File
from spmd_mypy.cli.terminal import Progress, colours, echo, fail
from spmd_mypy.config import ConfigError, load

_SHOWN_CAUSES: Final = 3


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one file: expressions, typed ones, typed ones per axis, causes with how often each counts."""

    path: str
    total: int
    typed: int
    per_axis: tuple[int, ...]
    causes: tuple[tuple[Cause, int], ...]
    unchecked: tuple[tuple[str, int], ...]


def share(typed: int, total: int) -> float:
    """Percent; of nothing, nothing is checked."""
    return 100.0 * typed / total if total else 0.0


def run(arguments: Sequence[str], *, fail_under: float | None, axis: str | None, why: bool, as_json: bool) -> int:
    """Exit status 1 below the minimum, 2 where mypy cannot check the files."""
    found = _settings(arguments)
    index = _axis(found, axis)
    try:
        with Progress("checking", "the first run also reads torch, which takes half a minute"):
            collected = collect(found)
    except CollectError as error:
        click.echo(str(error), err=True)
        return 2
    rows = [_row(file, collected, index) for file in collected.files]
    names = [a.name for i, a in enumerate(collected.config.axes) if i not in collected.config.size_one]
    if as_json:
        click.echo(json.dumps(_json(rows, names), indent=2))
    else:
        _show(rows, names, why)
    return _verdict(rows, fail_under, axis)


def _settings(arguments: Sequence[str]) -> settings.Settings:
    try:
        found = settings.read(arguments)
    except settings.SettingsError as error:
        click.echo(str(error), err=error.status != 0)
        raise SystemExit(error.status) from None
    if not found.sources:
        fail("there is nothing to count here: no Python file", "name a file or a folder")
    for question in findings.FATAL:
        for finding in question(found):
            if finding.level == "problem":
                fail(finding.text, finding.advice)
    return found


def _axis(found: settings.Settings, name: str | None) -> int | None:
    try:
        config = load(found.config_file)
    except ConfigError as error:
        fail(str(error))
        raise
    if name is None:
        return None
    index = config.by_name(name.lower())
    if index is None:
        fail(f"there is no mesh axis {name!r}", f"the configured axes are {config.names()}")
    return index


def _row(file: File, collected: Collected, axis: int | None) -> Row:
    def counts(known: tuple[bool, ...]) -> bool:
        return any(known) if axis is None else known[axis]

    causes = Causes(file, collected, counts)
    unknown = Counter(causes.of(seen.expression) for seen in file.seen if not counts(seen.known))
    used = [i for i in range(len(collected.config.axes)) if i not in collected.config.size_one]
    return Row(
        path=file.path,
        total=len(file.seen),
        typed=sum(counts(seen.known) for seen in file.seen),
        per_axis=tuple(sum(seen.known[i] for seen in file.seen) for i in used),
        causes=tuple(sorted(unknown.items(), key=lambda item: (-item[1], item[0]))),
        unchecked=tuple(file.unchecked),
    )


def _total(rows: Sequence[Row], axes: int) -> Row:
    per_axis = tuple(sum(row.per_axis[i] for row in rows) for i in range(axes))
    return Row("total", sum(r.total for r in rows), sum(r.typed for r in rows), per_axis, (), ())


# ---- output


def _show(rows: Sequence[Row], axes: Sequence[str], why: bool) -> None:
    coloured = colours(sys.stdout)
    width = max([len("total"), *(len(row.path) for row in rows)])
    heads = "".join(f"{name:>8}" for name in axes)
    click.echo(f"{'':{width}}  tensors  typed       {heads}")
    for row in [*rows, _total(rows, len(axes))]:
        percent = f"{share(row.typed, row.total):6.1f} %" if row.total else "       -"
        if coloured and row.total:
            percent = click.style(percent, fg="green" if row.typed == row.total else "yellow" if row.typed else "red")
        per_axis = "".join(f"{share(n, row.total):6.1f} %" if row.total else f"{'-':>8}" for n in row.per_axis)
        echo(f"{row.path:{width}}  {row.total:7}  {row.typed:5}{percent}{per_axis}")
        _show_causes(row, why)


def _show_causes(row: Row, why: bool) -> None:
    shown = row.causes if why else row.causes[:_SHOWN_CAUSES]
    for cause, times in shown:
        click.echo(f"    {times:4}  {row.path}:{cause.line}: {cause.text}")
    left = row.causes[len(shown) :]
    if left:
        click.echo(
            f"    {sum(n for _, n in left):4}  {len(left)} other cause{'s' * (len(left) > 1)} (--why lists them)"
        )
    if row.unchecked:
        names = ", ".join(f"{name} (line {line})" for name, line in (row.unchecked if why else row.unchecked[:3]))
        rest = ", ..." if len(row.unchecked) > 3 and not why else ""
        click.echo(f"          not looked into, for want of annotations: {names}{rest}")


def _json(rows: Sequence[Row], axes: Sequence[str]) -> dict[str, Any]:
    def figures(row: Row) -> dict[str, Any]:
        return {
            "tensors": row.total,
            "typed": row.typed,
            "percent": round(share(row.typed, row.total), 2),
            "axes": dict(zip(axes, row.per_axis, strict=True)),
        }

    files = [
        {
            "file": row.path,
            **figures(row),
            "causes": [{"line": c.line, "text": c.text, "count": n} for c, n in row.causes],
            "unchecked_functions": [{"name": name, "line": line} for name, line in row.unchecked],
        }
        for row in rows
    ]
    return {"files": files, "total": figures(_total(rows, len(axes)))}


def _verdict(rows: Sequence[Row], fail_under: float | None, axis: str | None) -> int:
    if fail_under is None:
        return 0
    total, typed = sum(row.total for row in rows), sum(row.typed for row in rows)
    percent = share(typed, total)
    if percent >= fail_under and (total or not fail_under):
        return 0
    where = f" on {axis}" if axis else ""
    what = f"{percent:.1f} % of the tensor expressions are typed{where}" if total else "there is no tensor expression"
    click.echo(f"spmd: {what}; the minimum is {fail_under:g} %", err=True)
    return 1
