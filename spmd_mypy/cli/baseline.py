"""A baseline: the errors of a large code base on the day it starts, forgiven until they are mended.

An error is known again by its file, code, message, the text that it points at and the function it stands in, not by its
line: code may move.  Each entry forgives as many errors as there were.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from spmd_mypy.cli.diagnostics import Diagnostic, Report, excerpt, scope

VERSION: Final = 1


class BaselineError(Exception):
    """A file that is no baseline; the message names it and says what to do."""


class Entry(NamedTuple):
    """What an error is known by."""

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


def entry(d: Diagnostic) -> Entry:
    """The entry for an error."""
    return Entry(d.file.replace(os.sep, "/"), scope(d), d.code or "", d.message, _compact(excerpt(d)))


def _compact(text: str) -> str:
    """The same for every way in which a formatter may break and space the lines."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s*([^\w\s])\s*", r"\1", text))


def write(path: Path, diagnostics: Iterable[Diagnostic]) -> int:
    """Write the errors' entries, sorted, so that the file's differences are readable; returns the number of errors."""
    counts = Counter(entry(d) for d in diagnostics if d.is_error)
    rows = [{**e._asdict(), **({"count": n} if n > 1 else {})} for e, n in sorted(counts.items())]
    text = json.dumps({"version": VERSION, "errors": rows}, indent=1, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=f".{path.name}.", encoding="utf-8", delete=False
    ) as new:
        new.write(text)
    os.chmod(new.name, 0o644)
    os.replace(new.name, path)
    return sum(counts.values())


def read(path: Path) -> Counter[Entry]:
    """The entries of a baseline file and how many errors each forgives; raises BaselineError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: {error}") from None
    except json.JSONDecodeError as error:
        raise BaselineError(f"{path} is no baseline ({error}); delete it and run again to write a new one") from None
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        raise BaselineError(f"{path}: baseline version {version!r} is not known; delete it and run again")
    found: Counter[Entry] = Counter()
    try:
        for row in data["errors"]:
            found[_entry(row)] += int(row.get("count", 1))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BaselineError(f"{path}: an entry is incomplete ({error!r}); delete the file and run again") from None
    return found


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(*(str(row[name]) for name in Entry._fields))


def forgive(report: Report, known: Counter[Entry]) -> Outcome:
    """Take the known errors out of a report.

    A run that could not finish (status 2) keeps its status; otherwise the status is 1 where an error is left.
    """
    left = Counter(known)
    kept: list[Diagnostic] = []
    for d in report.diagnostics:
        key = entry(d)
        if d.is_error and left[key] > 0:
            left[key] -= 1
        else:
            kept.append(d)
    forgiven = len(report.diagnostics) - len(kept)
    status = report.status
    if status == 1 and not any(d.is_error for d in kept):
        status = 0
    return Outcome(replace(report, diagnostics=tuple(kept), status=status), forgiven, sum(left.values()))
