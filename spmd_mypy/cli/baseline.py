"""A baseline: the errors of a large code base on the day it starts, forgiven until they are mended.

An error is known again by its file, code, message, the text that it points at and the function it stands in, not by its
line: code may move.  Each entry forgives as many errors as there were.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from spmd_mypy.cli import files
from spmd_mypy.cli.diagnostics import Diagnostic, Report, excerpt, scope

VERSION: Final = 1
_ANEW: Final = "restore it from version control, or delete it and run again to write a new one"


class BaselineError(Exception):
    """A file that is no baseline; the message names it and says what to do."""


class Entry(NamedTuple):
    """What an error is known by; the file is relative to the baseline's folder."""

    file: str
    scope: str
    code: str
    message: str
    source: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """A report without the forgiven errors; how many those are, and how many entries have no error any more."""

    report: Report
    forgiven: int
    mended: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """A baseline's file, and its entries with the number of errors that each forgives."""

    path: Path
    entries: Counter[Entry] = field(default_factory=Counter)

    @property
    def size(self) -> int:
        """How many errors it forgives."""
        return sum(self.entries.values())

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """The baseline in a file; raises BaselineError."""
        return cls(path, _entries(path))

    def entry(self, d: Diagnostic) -> Entry:
        """The entry for an error."""
        file = os.path.abspath(d.file)
        with suppress(ValueError):  # another drive
            file = os.path.relpath(file, self.path.absolute().parent)
        return Entry(file.replace(os.sep, "/"), scope(d), d.code or "", d.message, _compact(excerpt(d)))

    def _is_settled(self, entry: Entry, checked: frozenset[str]) -> bool:
        """Whether a run over the ``checked`` files, by absolute path, had to find the error if there still is one."""
        file = os.path.normpath(self.path.absolute().parent / entry.file)
        return file in checked or not os.path.exists(file)

    def forgive(self, report: Report, checked: frozenset[str]) -> Outcome:
        """Take the known errors out of a report.

        A run that could not finish (status 2) keeps its status; otherwise the status is 1 where an error is left.
        """
        left = Counter(self.entries)
        kept: list[Diagnostic] = []
        for d in report.diagnostics:
            key = self.entry(d)
            if d.is_error and left[key] > 0:
                left[key] -= 1
            else:
                kept.append(d)
        status = report.status
        if status == 1 and not any(d.is_error for d in kept):
            status = 0
        mended = sum(n for entry, n in left.items() if n and self._is_settled(entry, checked))
        forgiven = len(report.diagnostics) - len(kept)
        return Outcome(replace(report, diagnostics=tuple(kept), status=status), forgiven, mended)

    def update(self, report: Report, checked: frozenset[str]) -> Baseline:
        """Write the report's errors, and keep the entries of files that were not checked."""
        found = Counter(self.entry(d) for d in report.errors)
        files = {entry.file for entry in found}
        for entry, n in self.entries.items():
            if entry.file not in files and not self._is_settled(entry, checked):
                found[entry] = n
        new = Baseline(self.path, found)
        new.write()
        return new

    def write(self) -> None:
        """Write the entries, sorted, so that the file's differences are readable, in one step."""
        rows = [{**e._asdict(), **({"count": n} if n > 1 else {})} for e, n in sorted(self.entries.items())]
        text = json.dumps({"version": VERSION, "errors": rows}, indent=1, ensure_ascii=False) + "\n"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(self.path, text, errors="replace")


def _compact(text: str) -> str:
    """The same for every way in which a formatter may break and space the lines."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s*([^\w\s])\s*", r"\1", text))


# ---- the file


def _entries(path: Path) -> Counter[Entry]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"cannot read the baseline {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise BaselineError(f"{path} is no baseline ({error}); {_ANEW}") from None
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        raise BaselineError(f"{path} is no baseline of this version ({version!r}, not {VERSION}); {_ANEW}")
    found: Counter[Entry] = Counter()
    try:
        for row in data["errors"]:
            found[_entry(row)] += int(row.get("count", 1))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"{path}: an entry is incomplete ({error!r}); {_ANEW}") from None
    return found


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(*(str(row[name]) for name in Entry._fields))
