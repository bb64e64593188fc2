"""``spmd check``: mypy, its report in the format a CI system reads, per configuration and against a baseline."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from spmd_mypy.cli import baseline, findings, formats, run, settings
from spmd_mypy.cli.diagnostics import Report, merge
from spmd_mypy.cli.terminal import colours, fail, say
from spmd_mypy.config import CONFIGURATION_VARIABLE, ConfigError, load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Request:
    """The command line of ``spmd check``; ``mypy`` holds what is passed on."""

    mypy: tuple[str, ...]
    output_format: str = "text"
    output_file: Path | None = None
    configurations: tuple[str, ...] = ()
    baseline: Path | None = None
    update_baseline: bool = False
    preflight: bool = True


def check(request: Request) -> int:
    """Do what was asked and return the exit status: mypy's 0, 1 or 2."""
    _refuse_nonsense(request)
    try:
        found = settings.read(request.mypy)
    except settings.SettingsError:
        return run.plain(request.mypy)  # mypy says itself what is wrong, and ends with its status
    if not found.sources:  # neither the command line nor the configuration names anything to check
        request = replace(request, mypy=(*request.mypy, "."))
    if request.preflight:
        _preflight(found)
    names = _names(request, found)
    if _is_plain(request) and not names:
        return run.plain(request.mypy)
    report = _run(request, found, names)
    report = _forgiven(request, report)
    _print(request, report, found)
    return report.status


def _is_plain(request: Request) -> bool:
    return request.output_format == "text" and request.output_file is None and request.baseline is None


def _refuse_nonsense(request: Request) -> None:
    for argument in request.mypy:
        if argument == "-O" or argument.partition("=")[0] == "--output":
            fail(
                f"{argument.partition('=')[0]} is mypy's; with spmd check", "write --output-format, which has json too"
            )
    if request.update_baseline and request.baseline is None:
        fail("--update-baseline needs --baseline FILE", "name the file that is to be written anew")


def _preflight(found: settings.Settings) -> None:
    """End the run where nothing would be checked: no plugin, or a torch that mypy does not see."""
    problems = [f for question in findings.FATAL for f in question(found) if f.level == "problem"]
    if problems:
        for problem in problems[:-1]:
            say(f"{problem.text}; {problem.advice}")
        last = problems[-1]
        fail(f"{last.text}; no SPMD type would be checked", f"{last.advice}. `spmd doctor` says more.")


# ---- configurations


def configuration_names(config_file: str | None) -> list[str]:
    """The names in ``[tool.spmd-mypy.configurations]``, in their order."""
    if config_file is None or not config_file.endswith(".toml"):
        return []
    data: dict[str, Any] = tomllib.loads(Path(config_file).read_text(encoding="utf-8"))
    table = data.get("tool", {}).get("spmd-mypy", {}).get("configurations", {})
    return list(table) if isinstance(table, dict) else []


def _names(request: Request, found: settings.Settings) -> tuple[str, ...]:
    """The configurations to run, in the file's order; none where the command line does not ask for any."""
    if not request.configurations:
        return ()
    try:
        load(found.config_file)
    except ConfigError as error:
        fail(str(error))
    known = configuration_names(found.config_file)
    if not known:
        where = found.config_file or "no file"
        fail(
            "the project has no configurations",
            f"add [tool.spmd-mypy.configurations.NAME] to pyproject.toml (read: {where})",
        )
    unknown = [name for name in request.configurations if name not in (*known, ALL)]
    if unknown:
        fail(
            f"there is no configuration {unknown[0]!r}",
            f"the project has {', '.join(known)}; `all` stands for all of them",
        )
    return tuple(known) if ALL in request.configurations else tuple(n for n in known if n in request.configurations)


def _run(request: Request, found: settings.Settings, names: Sequence[str]) -> Report:
    if not names:
        return run.check(request.mypy)
    reports = {}
    for number, name in enumerate(names, 1):
        title = f"checking {name}" + (f" ({number} of {len(names)})" if len(names) > 1 else "")
        cache = [] if found.cache_dir == os.devnull else ["--cache-dir", os.path.join(found.cache_dir, "spmd", name)]
        reports[name] = run.check([*request.mypy, *cache], environment={CONFIGURATION_VARIABLE: name}, title=title)
    return merge(reports)


# ---- baseline


def _forgiven(request: Request, report: Report) -> Report:
    file = request.baseline
    if file is None or report.status == 2:
        return report
    if request.update_baseline or not file.exists():
        number = _written(file, report)
        say(f"wrote {number} error{'s' * (number != 1)} to {file}: from now on they are forgiven; commit the file")
    try:
        outcome = baseline.forgive(report, baseline.read(file))
    except baseline.BaselineError as error:
        fail(str(error))
        raise
    if outcome.forgiven and not request.update_baseline:
        say(f"{outcome.forgiven} error{'s' * (outcome.forgiven != 1)} forgiven by {file}")
    if outcome.mended:
        say(f"{outcome.mended} of its errors no longer occur: --update-baseline takes them out")
    return outcome.report


def _written(file: Path, report: Report) -> int:
    try:
        return baseline.write(file, report.diagnostics)
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror or error}")
        raise


# ---- output


def _print(request: Request, report: Report, found: settings.Settings) -> None:
    style = formats.Style(coloured=colours(sys.stdout), columns=bool(found.options.show_column_numbers))
    if request.output_format != "text":
        for line in report.other:
            click.echo(line, err=True)
    text = formats.FORMATS[request.output_format](
        report, replace(style, coloured=style.coloured and not request.output_file)
    )
    if request.output_file is None:
        click.echo(text, nl=False)
        return
    try:
        request.output_file.parent.mkdir(parents=True, exist_ok=True)
        request.output_file.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"cannot write {request.output_file}: {error.strerror or error}")
    click.echo(formats.text(report, style), nl=False)
