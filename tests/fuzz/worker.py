"""Checks mutants with the plugin in one process, in memory: ``python -m tests.fuzz.worker CONFIG CACHE FIRST COUNT``.

Prints one line of JSON: how many were checked, how many errors mypy reported, and what failed.  A hook that raises
makes mypy raise (``SPMD_MYPY_DEBUG=raise``); mypy's own failures, which occur without the plugin too, are told apart.
"""

from __future__ import annotations

import copy
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from mypy import build
from mypy.errors import CompileError
from mypy.fscache import FileSystemCache
from mypy.main import process_options
from mypy.modulefinder import BuildSource
from mypy.options import Options

from tests.fuzz.corpus import pieces
from tests.fuzz.mutants import mutant

BATCH = 40


@dataclass
class Report:
    """What became of the mutants."""

    checked: int = 0
    no_python: int = 0
    refused: int = 0  # mypy stops at them, with or without the plugin
    errors: int = 0
    spmd_errors: int = 0
    failures: list[str] = field(default_factory=list)
    own_failures_of_mypy: list[str] = field(default_factory=list)


def options(config: str, cache: str) -> Options:
    """mypy's options as its command line has them, so that the cache is the one that other runs use."""
    arguments = ["--config-file", config, "--cache-dir", cache, "--no-error-summary", "-c", "0"]
    _, found = process_options(arguments, stdout=io.StringIO(), stderr=io.StringIO(), fscache=FileSystemCache())
    found.raise_exceptions = True
    found.show_traceback = True
    return found


def sources(first: int, count: int, report: Report) -> Iterator[BuildSource]:
    """Mutants ``first`` to ``first + count``, each a module whose text is only in memory."""
    every = pieces()
    for number in range(first, first + count):
        piece = every[number % len(every)]
        text = mutant(piece, number)
        if text is None:
            report.no_python += 1
        else:
            yield BuildSource(f"in_memory/mutant_{number}.py", f"mutant_{number}", text)


def check(batch: Sequence[BuildSource], found: Options, report: Report, *, plugin: bool = True) -> None:
    """Check some mutants in one build; where it cannot finish, each half by itself, down to the culprit."""
    chosen = copy.copy(found)
    if not plugin:
        chosen.plugins = []
        chosen.cache_dir = os.devnull
    captured = io.StringIO()
    try:
        result = build.build(list(batch), chosen, None, None, FileSystemCache(), captured, captured)
        messages = result.errors
    except CompileError as error:
        messages = error.messages
        if len(batch) > 1:
            _halves(batch, found, report, plugin=plugin)
            return
        report.refused += 1
    except (Exception, SystemExit):
        if len(batch) > 1:
            _halves(batch, found, report, plugin=plugin)
            return
        _failed(batch[0], found, report, plugin=plugin)
        return
    report.checked += len(batch)
    report.errors += sum(": error: " in m for m in messages)
    report.spmd_errors += sum("[spmd" in m for m in messages)


def _halves(batch: Sequence[BuildSource], found: Options, report: Report, *, plugin: bool) -> None:
    middle = len(batch) // 2
    for half in (batch[:middle], batch[middle:]):
        check(half, found, report, plugin=plugin)


def _failed(source: BuildSource, found: Options, report: Report, *, plugin: bool) -> None:
    text = f"{source.module}: {traceback.format_exc()[-1500:]}"
    if not plugin:
        report.own_failures_of_mypy.append(text)
        return
    alone = Report()
    check([source], found, alone, plugin=False)
    report.checked += 1
    (report.own_failures_of_mypy if alone.own_failures_of_mypy else report.failures).append(text)


def main() -> None:
    """Check a range of mutants."""
    config, cache, first, count = sys.argv[1:]
    report = Report()
    found = options(config, cache)
    batch: list[BuildSource] = []
    for source in sources(int(first), int(count), report):
        batch.append(source)
        if len(batch) == BATCH:
            check(batch, found, report)
            batch = []
    if batch:
        check(batch, found, report)
    print(json.dumps(asdict(report)))


if __name__ == "__main__":
    main()
