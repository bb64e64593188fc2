"""The plugin's core on marked modules: annotations, operations, collectives, gradients, and who may be silenced."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import mypy.build  # noqa: F401 - first: mypy's modules import each other
import pytest
from mypy.options import Options

from spmd_mypy import codes
from spmd_mypy.hooks.boundaries import Boundaries, Failure
from tests.mypy_runner import PRELUDE, check, mismatches

CORE = Path(__file__).parent / "core"


def test_marked_modules() -> None:
    modules = {path.stem: path for path in sorted(CORE.glob("*.py"))}
    assert mismatches(modules) == []


SILENCED = f"""{PRELUDE}
def f(p: Tensor[P[TP]], r: Tensor[R[TP]]) -> Tensor[R[TP]]:
    F.gelu(p)  # type: ignore[spmd-partial]
    F.gelu(p)  # type: ignore[spmd]
    p + r  # type: ignore
    return p  # type: ignore[spmd-return]
"""


def test_ignores_by_code_and_by_parent() -> None:
    assert check(SILENCED) == []


def test_disabled_codes_are_silent() -> None:
    source = SILENCED.replace("  # type: ignore[spmd-partial]", "").replace("  # type: ignore[spmd-return]", "")
    assert {m.code for m in check(source) if m.severity == "error"} == {"spmd-partial", "spmd-return"}
    assert check(source, options={"disable_error_code": ["spmd"]}) == []
    left = check(source, options={"disable_error_code": ["spmd-partial"]})
    assert {m.code for m in left if m.severity == "error"} == {"spmd-return"}


def test_a_reassignment_that_needs_allow_redefinition_says_so() -> None:
    source = f"{PRELUDE}\ndef f(x: Tensor[P[TP]]) -> None:\n    x = spmd.all_reduce(x, TP, dst=R)\n"
    assert check(source) == []
    (message,) = check(source, options={"allow_redefinition": None})
    assert message.code == "spmd-assign"
    assert "allow_redefinition = true" in message.message


MESSAGES = [
    (
        "y = F.gelu(p)",
        "gelu is nonlinear and p is Partial on TP: gelu of a pending sum is not the sum of gelus",
        "reduce first: all_reduce(p, TP, dst=R) (backward: all_reduce) or dst=I (backward: nothing)",
    ),
    (
        "y = i * r",
        "i is Invariant on TP",
        "convert first: convert(i, TP, src=I, dst=R) (backward: all_reduce)",
    ),
    (
        "y = spmd.all_reduce(r, TP, dst=R)",
        "all_reduce over TP expects r to be P, but it is R on TP",
        "r is R on TP already: leave all_reduce out",
    ),
]


@pytest.mark.parametrize(("line", "error", "note"), MESSAGES)
def test_a_message_names_operand_axis_rule_and_what_to_write(line: str, error: str, note: str) -> None:
    source = f"{PRELUDE}\ndef f(p: Tensor[P[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]]) -> None:\n    {line}\n"
    messages = check(source)
    assert any(error in m.message for m in messages if m.severity == "error"), messages
    assert any(note in m.message for m in messages if m.severity == "note"), messages


def test_boundaries_say_which_axis_and_what_to_call() -> None:
    source = f"{PRELUDE}\ndef f(x: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:\n    return x\n"
    (message,) = check(source)
    assert message.code == "spmd-return"
    assert message.message == (
        'Incompatible return value type (got "Tensor[V[DP], P[TP]]", expected "Tensor[V[DP], R[TP]]"); '
        "on TP it is P, declared R: all_reduce(x, TP, dst=R) (backward: all_reduce)"
    )


def test_an_error_leaves_the_same_line_of_another_file_alone() -> None:
    """Of a call that fits no overload of a collective the notes are replaced: not those of the next file."""
    boundaries = Boundaries(Options())

    def filtered(file: str, severity: str, message: str) -> str:
        error = SimpleNamespace(line=3, severity=severity, message=message, code=None, parent_error=None)
        assert not boundaries(file, error)
        return str(error.message)

    boundaries.failed(Failure("a.py", 3, codes.COLLECTIVE, "refused", ()))
    assert filtered("a.py", "error", 'No overload variant of "all_reduce" matches') == "refused"
    revealed = 'Revealed type is "torch._tensor.Tensor[tuple[Any, Partial[TP]]]"'
    assert filtered("b.py", "note", revealed) == 'Revealed type is "Tensor[P[TP]]"'
