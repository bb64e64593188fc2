"""The numeric proof of the table: every claim on every sample, in numbers.

    python -m tests.rules.sweep [--samples 4] [--assignments 16] [--ranks 2 3] [--changed] [--write]

Prints claims that do not hold, and rejections that hold on every draw though.  ``--write`` keeps the result in
``sweep_result.json``; ``--changed`` goes over the rows alone that have changed since, and keeps the others' results.
The test ``test_simulation`` runs a bounded part, and reads the kept result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import torch

from spmd_mypy.rules import ops
from tests.rules import simulate
from tests.rules.exceptions import KNOWN_MISSES, NOT_SIMULATED, OVER_STRICT
from tests.rules.own_samples import own
from tests.rules.samples import from_modules, from_torch
from tests.rules.simulate import Sample, Unsuitable

RESULT = Path(__file__).with_name("sweep_result.json")
EVIDENCE = 4  # draws that a rejection must hold on before it counts as over-strict


@dataclass
class Tally:
    """How often an assignment of types that the rules reject would have been right."""

    draws: int = 0
    right: int = 0


@dataclass
class Report:
    """What a sweep found; rows by base name."""

    checked: dict[str, int] = field(default_factory=dict)
    refuted: list[tuple[str, str]] = field(default_factory=list)
    rejected: dict[tuple[str, str], Tally] = field(default_factory=dict)
    unsuitable: dict[str, str] = field(default_factory=dict)

    def over_strict(self) -> dict[str, list[str]]:
        """Rows with a rejection that held on every draw, with the assignments."""
        rows: dict[str, list[str]] = {}
        for (base, types), tally in self.rejected.items():
            if tally.draws >= EVIDENCE and tally.right == tally.draws:
                rows.setdefault(base, []).append(types)
        return rows

    def without_sample(self) -> list[str]:
        """Rows that should have been checked and were not."""
        return sorted(to_check() - self.checked.keys())


def to_check() -> set[str]:
    """Rows that claim something and can be simulated."""
    rows = (base for base, rules in ops.bases().items() if rules[-1].results != ("unknown",))
    return {base for base in rows if base not in NOT_SIMULATED}


def _described(sample: Sample, letters: str) -> str:
    # Functions and methods have other names for the same operand.
    names = ["self" if param == "input" else param for param in sample.params]
    return ", ".join(sorted({f"{name}: {letter}" for name, letter in zip(names, letters, strict=True)}))


def _float_target(sample: Sample) -> bool:
    pairs = zip(sample.params, sample.tensors, strict=True)
    return any(param == "target" and x.dtype.is_floating_point for param, x in pairs)


def _check(report: Report, sample: Sample, letters: str, ranks: int, seed: int) -> None:
    operation = ops.find(sample.op)
    assert operation is not None, sample.op
    base = operation.base
    verdict, _ = simulate.verdict_on(sample, letters)
    try:
        if verdict.violations:
            right = bool(simulate.acceptable(sample, letters, ranks, seed))
            tally = report.rejected.setdefault((base, _described(sample, letters)), Tally())
            tally.draws += 1
            tally.right += right
        else:
            problem = simulate.refuted(sample, letters, ranks, seed)
            if problem and not (base in KNOWN_MISSES and _float_target(sample)):
                text = f"{sample.op}({_described(sample, letters)}) on {ranks} ranks: {problem}"
                report.refuted.append((base, text))
        report.checked[base] = report.checked.get(base, 0) + 1
    except Unsuitable as problem:
        report.unsuitable[base] = str(problem)


def sweep(
    samples: Iterable[Sample], *, assignments: int, ranks: Iterable[int], seed: int = 1, report: Report | None = None
) -> Report:
    """Check the rules' verdicts on samples, under assignments of types and on numbers of ranks; adds to ``report``."""
    torch.set_num_threads(1)
    report = report or Report()
    generator = torch.Generator().manual_seed(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples:
            for letters in simulate.assignments(len(sample.tensors), assignments, generator):
                for count in ranks:
                    _check(report, sample, letters, count, seed)
    return report


def sweep_all(
    limit: int, *, assignments: int, of_ours: int, ranks: Iterable[int], only: set[str] | None = None
) -> Report:
    """Sweep over our samples and so many of torch's per operation, with so many assignments of each.

    ``only`` are the rows to go over, all where it is None.
    """
    ranks = list(ranks)

    def chosen(samples: Iterable[Sample]) -> Iterator[Sample]:
        for sample in samples:
            operation = ops.find(sample.op)
            if only is None or (operation is not None and operation.base in only):
                yield sample

    report = sweep(chosen(own()), assignments=of_ours, ranks=ranks)
    rest = chain(from_modules(limit), from_torch(limit))
    return sweep(chosen(rest), assignments=assignments, ranks=ranks, report=report)


# ---- the kept result


def digest(base: str) -> str:
    """A row's text, in short: what a kept result was found of."""
    return hashlib.sha256("\n".join(ops.text(base)).encode()).hexdigest()[:8]


def kept(report: Report) -> dict[str, dict[str, object]]:
    """What a sweep found, row by row."""
    over = report.over_strict()
    return {
        base: {
            "row": digest(base),
            "draws": draws,
            "refuted": [text for row, text in report.refuted if row == base],
            "over_strict": over.get(base, []),
        }
        for base, draws in sorted(report.checked.items())
    }


def read_kept() -> dict[str, dict[str, object]]:
    """The kept result, row by row."""
    rows: dict[str, dict[str, object]] = json.loads(RESULT.read_text())["rows"]
    return rows


def stale() -> set[str]:
    """Rows that the kept result does not have as they are today."""
    rows = read_kept() if RESULT.exists() else {}
    return {base for base in to_check() if base not in rows or rows[base]["row"] != digest(base)}


def _write(rows: dict[str, dict[str, object]], header: dict[str, object]) -> None:
    lines = ",\n".join(f"  {json.dumps(base)}: {json.dumps(row)}" for base, row in sorted(rows.items()))
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in header.items())
    RESULT.write_text(f'{{\n{head},\n "rows": {{\n{lines}\n }}\n}}\n')


def _print(report: Report) -> None:
    over = {row: types for row, types in report.over_strict().items() if row not in OVER_STRICT}
    print(f"{sum(report.checked.values())} draws of {len(report.checked)} rows checked")
    print(f"claims that do not hold: {len(report.refuted)}", *(text for _, text in report.refuted), sep="\n    ")
    print(f"over-strict rows that are not listed: {len(over)}")
    print(*(f"    {row}: {'; '.join(types)}" for row, types in over.items()), sep="\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, default=4, help="of torch's samples per operation")
    parser.add_argument("--assignments", type=int, default=16, help="of types, per sample of torch's")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--changed", action="store_true", help="only rows that are not as in the kept result")
    parser.add_argument("--write", action="store_true", help=f"keep the result in {RESULT.name}")
    args = parser.parse_args()
    only = stale() if args.changed else None
    start = time.perf_counter()
    report = sweep_all(args.samples, assignments=args.assignments, of_ours=64, ranks=args.ranks, only=only)
    _print(report)
    if args.write:
        header: dict[str, object] = {
            "samples": args.samples,
            "assignments": args.assignments,
            "ranks": args.ranks,
            "torch": torch.__version__.partition("+")[0],
            "seconds": round(time.perf_counter() - start),
        }
        old: dict[str, dict[str, object]] = {}
        if args.changed and RESULT.exists():
            whole = json.loads(RESULT.read_text())
            old = whole.pop("rows")
            header["seconds"] = whole["seconds"]
        today = to_check()
        _write({base: row for base, row in (old | kept(report)).items() if base in today}, header)
    return bool(report.refuted)


if __name__ == "__main__":
    sys.exit(main())
