"""The numeric proof of the table: every claim on every sample, in numbers.

    python -m tests.rules.sweep [--samples 4] [--assignments 20] [--ranks 2 3] [--write]

Prints claims that do not hold, rejections that hold on every draw though, and rows without a sample.  ``--write``
keeps the summary in ``sweep_result.txt``.  The test ``test_simulation`` runs a bounded part of it.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterable
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

RESULT = Path(__file__).with_name("sweep_result.txt")
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
    refuted: list[str] = field(default_factory=list)
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
        rows = (base for base, rules in ops.bases().items() if rules[-1].results != ("unknown",))
        return [base for base in rows if base not in self.checked and base not in NOT_SIMULATED]


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
                report.refuted.append(f"{sample.op}({_described(sample, letters)}) on {ranks} ranks: {problem}")
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


def sweep_all(limit: int, *, assignments: int, of_ours: int, ranks: Iterable[int]) -> Report:
    """Sweep over our samples and so many of torch's per operation, with so many assignments of each."""
    ranks = list(ranks)
    report = sweep(own(), assignments=of_ours, ranks=ranks)
    return sweep(chain(from_modules(limit), from_torch(limit)), assignments=assignments, ranks=ranks, report=report)


def _summary(report: Report, seconds: float, command: str) -> str:
    over = {row: types for row, types in report.over_strict().items() if row not in OVER_STRICT}
    lines = [
        command,
        f"torch {torch.__version__.partition('+')[0]}, {seconds:.0f} s",
        f"{sum(report.checked.values())} draws of {len(report.checked)} rows checked",
        f"claims that do not hold: {len(report.refuted)}",
        *(f"    {text}" for text in report.refuted),
        f"over-strict rows that are not listed: {len(over)}",
        *(f"    {row}: {'; '.join(types)}" for row, types in over.items()),
        f"over-strict rows that are listed: {len(OVER_STRICT)}",
        f"listed as over-strict but not found so: {sorted(set(OVER_STRICT) - set(report.over_strict()))}",
        f"rows without a sample that runs: {report.without_sample()}",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--samples", type=int, default=4, help="of torch's samples per operation")
    parser.add_argument("--assignments", type=int, default=20, help="of types, per sample of torch's")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--write", action="store_true", help=f"keep the summary in {RESULT.name}")
    args = parser.parse_args()
    start = time.perf_counter()
    report = sweep_all(args.samples, assignments=args.assignments, of_ours=64, ranks=args.ranks)
    command = f"python -m tests.rules.sweep --samples {args.samples} --assignments {args.assignments}"
    text = _summary(report, time.perf_counter() - start, command)
    sys.stdout.write(text)
    if args.write:
        RESULT.write_text(text)
    return bool(report.refuted) or bool(report.without_sample())


if __name__ == "__main__":
    sys.exit(main())
