"""The table as users meet it: calls of all of torch's operations, as source text, through mypy with the plugin.

Each sample of the simulation becomes a line of source; what mypy says of it must be what the rules say of the call.
So an operation that mypy knows by another name, or not at all (as ``Any``), is found, and one whose arguments the
plugin reads wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import pytest
import torch

from spmd_mypy.rules import ops
from spmd_mypy.rules.kinds import BY_LETTER, AxisType
from spmd_mypy.rules.operations import judge
from tests.mypy_runner import check
from tests.rules.own_samples import rows
from tests.rules.samples import Row, calls, make
from tests.rules.simulate import Sample, call_of, leaves

PRELUDE = """\
import builtins, copy, operator
import torch
import torch.nn.attention.flex_attention, torch.nn.utils.rnn
from spmd_runtime import TP, I, P, R, Tensor, V
"""
MIXTURES = ("P", "RP", "PR", "RV")  # of types, repeated over a call's tensors
WITHOUT_TENSOR = ("None", "bool")
# Results that torch's annotations leave untyped, and of which there is more than one tensor; of torch.nn's, mypy
# gives the class alone, since its constructor is no generic one.
UNTYPED = frozenset(
    f"{where}.{name}"
    for where, names in {
        "torch.linalg": "cholesky_ex eig inv_ex ldl_factor ldl_factor_ex lstsq lu lu_factor lu_factor_ex solve_ex",
        "torch": "lu unique_consecutive",
        "Tensor": "lu unique_consecutive",
        "torch.nn": "Parameter Buffer",
        "builtins": "list tuple iter reversed",
    }.items()
    for name in names.split()
)


class Unspoken(Exception):
    """A value that has no source text."""


@dataclass(frozen=True)
class Line:
    """A call as source text, and what the rules say of it: the result's type, or whether it is refused."""

    op: str
    text: str
    types: str
    refused: bool
    kind: AxisType | None


def spelled(value: object, letters: Iterator[str]) -> str:
    """A value as source text; a tensor is a variable that is named after its type."""
    if isinstance(value, torch.Tensor):
        return next(letters).lower()
    if isinstance(value, (list, tuple)):
        items = ", ".join(spelled(item, letters) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items},)" if items else "()"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if value is None or isinstance(value, (bool, int, float, str, torch.dtype)):
        return repr(value)
    raise Unspoken(value)


def _text(op: str, args: list[str], keywords: list[str]) -> str:
    if op.startswith("Tensor."):
        receiver, name = args[0], op.removeprefix("Tensor.")
        if not callable(getattr(torch.Tensor, name)):
            return f"{receiver}.{name}"
        op, args = f"{receiver}.{name}", args[1:]
    return f"{op}({', '.join([*args, *keywords])})"


def line(row: Row, sample: Sample, mixture: str) -> Line:
    """A call with types of tensors in turn; raises Unspoken where some argument cannot be written."""
    op, args, keywords = row
    letters = "".join(islice(mixture * len(sample.tensors), len(sample.tensors)))
    rest = iter(letters)
    positional = [spelled(value, rest) for value in args]
    text = _text(op, positional, [f"{name}={spelled(value, rest)}" for name, value in keywords.items()])
    verdict = judge(call_of(sample, [BY_LETTER[letter] for letter in letters])[0], axes=1)
    return Line(op, text, letters, bool(verdict.violations), verdict.results[0][0] if verdict.results else None)


def lines() -> Iterator[Line]:
    """One sample of each operation's name, with each mixture of types."""
    seen: set[tuple[str, int]] = set()
    for row in chain(rows(), calls(1)):
        op, args, keywords = row
        count = len(list(leaves([*args, *keywords.values()])))
        sample = make(op, args, keywords) if (op, count) not in seen and ops.known(op) and count else None
        if sample is None:
            continue
        seen.add((op, count))
        for mixture in MIXTURES[: None if count > 1 else 2]:
            try:
                yield line(row, sample, mixture)
            except Unspoken:
                break


@pytest.fixture(scope="module")
def said() -> list[tuple[Line, list[str], str]]:
    """Lines with the errors that mypy has for each, and the type that it reveals."""
    found = list(dict.fromkeys(lines()))
    source = PRELUDE
    for at, each in enumerate(found):
        source += f"def f{at}(p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:\n"
        source += f"    reveal_type({each.text})\n"
    messages = check(source)
    errors: dict[int, list[str]] = {}
    types: dict[int, str] = {}
    for message in messages:
        if message.severity == "error":
            errors.setdefault(message.line, []).append(f"{message.message} [{message.code}]")
        elif message.revealed:
            types[message.line] = message.revealed
    first = PRELUDE.count("\n") + 2
    return [(each, errors.get(first + 2 * at, []), types.get(first + 2 * at, "")) for at, each in enumerate(found)]


def test_mypy_refuses_what_the_rules_refuse(said: list[tuple[Line, list[str], str]]) -> None:
    assert len(said) > 2500
    wrong = []
    for each, errors, _ in said:
        refused = any("[spmd" in error for error in errors)
        impossible = bool(errors) and not refused  # mypy's own complaint that torch takes no such arguments
        if refused != each.refused and not impossible:
            wrong.append(f"{each.text} ({each.types}): {errors or 'accepted'}")
    assert not wrong, "\n".join(wrong)
    assert sum(bool(errors) and not any("[spmd" in error for error in errors) for _, errors, _ in said) < 50


def test_results_have_the_type_that_the_rules_give(said: list[tuple[Line, list[str], str]]) -> None:
    wrong = []
    for each, errors, revealed in said:
        if errors or each.kind is None or each.kind.constant or revealed in WITHOUT_TENSOR:
            continue
        if f"{each.kind.letter}[TP]" not in revealed and each.op not in UNTYPED:
            wrong.append(f"{each.text} ({each.types}): {revealed}, not {each.kind}")
    assert not wrong, "\n".join(wrong)
