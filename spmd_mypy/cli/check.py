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
from spmd_mypy.cli.terminal import colours, echo, fail, hint, say
from spmd_mypy.config import CONFIGURATION_VARIABLE, ConfigError, load

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ALL: Final = "all"
# Variables of which CI systems set one: GitHub, GitLab and most others; Azure; Jenkins; TeamCity.
_CI: Final = ("CI", "TF_BUILD", "JENKINS_URL", "TEAMCITY_VERSION")


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
    except settings.SettingsError as error:
        return _refused(request, error)
    request = replace(request, mypy=found.arguments)
    if request.preflight:
        _preflight(found)
    names = _names(request, found)
    if _is_plain(request) and not names:
        return run.plain(request.mypy)
    known = _baseline(request)
    report = _run(request, found, names)
    if known is not None and report.status != 2:
        report = _forgiven(request, known, report, found)
    _print(request, report, columns=bool(found.options.show_column_numbers))
    return report.status


def _refused(request: Request, error: settings.SettingsError) -> int:
    """mypy ends at once: with its help or version, or because it refuses its arguments."""
    if error.status == 0 or _is_plain(request):
        return run.plain(request.mypy)
    _print(request, Report((), 2, tuple(str(error).splitlines())))
    return 2


def _is_plain(request: Request) -> bool:
    return request.output_format == "text" and request.output_file is None and request.baseline is None


def _refuse_nonsense(request: Request) -> None:
    for argument in request.mypy:
        name = argument.partition("=")[0]
        if name == "-O" or (name.startswith("--o") and "--output".startswith(name)):  # mypy takes any beginning
            fail(f"{name} is mypy's; with spmd check", "write --output-format, which has json too")
    if request.update_baseline and request.baseline is None:
        fail("--update-baseline needs --baseline FILE", "name the file that is to be written anew")


def _preflight(found: settings.Settings) -> None:
    """End the run where nothing would be checked: no plugin, or a torch that mypy does not see."""
    problems = [f for question in findings.FATAL for f in question(found) if f.level == "problem"]
    if not problems:
        return
    for problem in problems[:-1]:
        say(problem.text)
        hint(problem.advice)
    last = problems[-1]
    fail(last.text, f"{last.advice}\n`spmd doctor` looks at all the rest")


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


def _in_ci() -> bool:
    """Whether nobody would keep a file that is written here."""
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in _CI)


def _baseline(request: Request) -> baseline.Baseline | None:
    """The baseline asked for, empty where it is still to be written.

    In CI a file that is not there is a mistake: to write it would forgive every error, in each run anew.
    """
    file, update = request.baseline, request.update_baseline
    if file is None:
        return None
    if not file.exists():
        if _in_ci() and not update:
            fail(
                f"there is no baseline {file}, and in CI none is written unless asked for",
                f"run `spmd check --baseline {file}` on your machine and commit the file, or add --update-baseline",
            )
        return baseline.Baseline(file)
    try:
        return baseline.Baseline.read(file)
    except baseline.BaselineError as error:
        if not update:
            fail(str(error))
        return baseline.Baseline(file)


def _forgiven(request: Request, known: baseline.Baseline, report: Report, found: settings.Settings) -> Report:
    new = request.update_baseline or not known.path.exists()
    if new:
        known = _written(known, report, found)
    outcome = known.forgive(report, _checked(found))
    if outcome.forgiven and not new:
        say(f"{_errors(outcome.forgiven)} forgiven by {known.path}")
    if outcome.mended:
        say(f"{outcome.mended} of its errors no longer occur: --update-baseline takes them out")
    return outcome.report


def _checked(found: settings.Settings) -> frozenset[str]:
    """The files that mypy was told to check; what is not among them was perhaps not looked at."""
    return frozenset(os.path.abspath(source.path) for source in found.sources if source.path)


def _written(known: baseline.Baseline, report: Report, found: settings.Settings) -> baseline.Baseline:
    try:
        written = known.update(report, _checked(found))
    except OSError as error:
        fail(f"cannot write {known.path}: {error.strerror or error}")
        raise
    number = written.size
    say(f"wrote {_errors(number)} to {known.path}: from now on {'it is' if number == 1 else 'they are'} forgiven")
    hint("commit the file; later runs report only what is new")
    return written


def _errors(number: int) -> str:
    return f"{number} error{'s' * (number != 1)}"


# ---- output


def _print(request: Request, report: Report, *, columns: bool = False) -> None:
    style = formats.Style(coloured=colours(sys.stdout), columns=columns)
    if request.output_format != "text":
        for line in report.other:
            click.echo(line, err=True)
    make = formats.FORMATS[request.output_format]
    if request.output_file is None:
        echo(make(report, style), end="")
        return
    text = make(report, replace(style, coloured=False))
    try:
        request.output_file.parent.mkdir(parents=True, exist_ok=True)
        request.output_file.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        fail(f"cannot write {request.output_file}: {error.strerror or error}")
    echo(formats.text(report, style), end="")
