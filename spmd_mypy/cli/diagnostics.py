"""What mypy reports, as values, and how the reports of several runs become one."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or note of mypy.

    ``file`` is as mypy prints it; lines and columns count from 1, ``end_column`` is the column of the last character
    (0 where mypy names no position).  ``notes`` are the lines that mypy attaches to an error.  ``configurations`` are
    those of the project in which it occurs, empty where they are not told apart.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    message: str
    code: str | None
    severity: str = "error"
    notes: tuple[str, ...] = ()
    configurations: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether it makes the run fail."""
        return self.severity == "error"


@dataclass(frozen=True, slots=True)
class Report:
    """One or more finished runs: the diagnostics, mypy's exit status, and what it printed besides."""

    diagnostics: tuple[Diagnostic, ...] = ()
    status: int = 0
    other: tuple[str, ...] = ()
    configurations: tuple[str, ...] = field(default=())

    @property
    def errors(self) -> list[Diagnostic]:
        """Those that make the run fail."""
        return [d for d in self.diagnostics if d.is_error]

    @property
    def remarks(self) -> list[Diagnostic]:
        """Notes of their own, such as those of ``reveal_type``: no failure."""
        return [d for d in self.diagnostics if not d.is_error]


def read(line: str) -> Diagnostic | None:
    """One line of ``mypy --output json``; None for any other text."""
    if not line.startswith("{"):
        return None
    try:
        row = json.loads(line)
        return _diagnostic(row)
    except (json.JSONDecodeError, KeyError, TypeError):
        return None


def _diagnostic(row: Mapping[str, Any]) -> Diagnostic:
    line, column = max(int(row["line"]), 0), max(int(row["column"]) + 1, 0)  # mypy's JSON counts columns from 0
    end_line, end_column = row.get("end_line"), row.get("end_column")
    hint = row.get("hint")
    return Diagnostic(
        file=str(row["file"]),
        line=line,
        column=column,
        end_line=max(line, int(end_line)) if end_line else line,
        end_column=max(int(end_column), 0) if end_column else column,
        message=str(row["message"]),
        code=_code(row),
        severity=str(row.get("severity", "error")),
        notes=tuple(hint.splitlines()) if hint else (),
    )


def _code(row: Mapping[str, Any]) -> str | None:
    """The error code; mypy files a note that belongs to no error, such as that of ``reveal_type``, under "misc"."""
    code = row.get("code")
    return None if row.get("severity") == "note" and code == "misc" else code


def merge(reports: Mapping[str, Report]) -> Report:
    """The reports of one run per configuration as one: each diagnostic once, with the configurations that have it."""
    found: dict[Diagnostic, list[str]] = {}
    for name, report in reports.items():
        for diagnostic in report.diagnostics:
            names = found.setdefault(diagnostic, [])
            if name not in names:
                names.append(name)
    merged = [replace(d, configurations=tuple(names)) for d, names in found.items()]
    files = list(dict.fromkeys(d.file for d in merged))
    merged.sort(key=lambda d: (files.index(d.file), d.line, d.column))
    other = dict.fromkeys(line for report in reports.values() for line in report.other)
    return Report(tuple(merged), max((r.status for r in reports.values()), default=0), tuple(other), tuple(reports))


# ---- where an error stands


@lru_cache(maxsize=64)
def source(file: str) -> tuple[str, ...]:
    """The lines of a file; none where it cannot be read."""
    try:
        return tuple(Path(file).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError):
        return ()


def excerpt(d: Diagnostic) -> str:
    """The text that a diagnostic points at, with every run of white space as one blank."""
    lines = source(d.file)
    if not 0 < d.line <= len(lines) or d.end_line > len(lines):
        return ""
    part = list(lines[d.line - 1 : d.end_line])
    if d.end_column:
        part[-1] = part[-1][: d.end_column]
    part[0] = part[0][max(d.column - 1, 0) :]
    return " ".join(" ".join(part).split())


@lru_cache(maxsize=64)
def _scopes(file: str) -> tuple[tuple[int, int, str], ...]:
    try:
        tree = ast.parse("\n".join(source(file)))
    except SyntaxError:
        return ()
    return tuple(_walk(tree, ""))


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[int, int, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            yield child.lineno, child.end_lineno or child.lineno, name
            yield from _walk(child, f"{name}.")
        else:
            yield from _walk(child, prefix)


def scope(d: Diagnostic) -> str:
    """The function or class in which a diagnostic stands: ``Block.forward``; "" at the top of a module."""
    inside = [name for start, end, name in _scopes(d.file) if start <= d.line <= end]
    return inside[-1] if inside else ""


def counted(diagnostics: Iterable[Diagnostic]) -> tuple[int, int]:
    """How many errors, in how many files."""
    errors = [d for d in diagnostics if d.is_error]
    return len(errors), len({d.file for d in errors})


def configuration_note(d: Diagnostic, all_names: Sequence[str]) -> str | None:
    """``in configuration sequence``, where a diagnostic does not occur in all of them."""
    if not d.configurations or len(d.configurations) == len(all_names):
        return None
    return f"in configuration{'s' if len(d.configurations) > 1 else ''} {', '.join(d.configurations)}"
