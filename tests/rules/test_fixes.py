"""Suggestions are accepted by the rules, and gradients' rules say what the duals say."""

from __future__ import annotations

from itertools import product

import pytest

from spmd_mypy.rules.call import Argument, Call
from spmd_mypy.rules.fixes import suggest
from spmd_mypy.rules.gradients import gradient, judge_loss, judge_parameter
from spmd_mypy.rules.kinds import BY_LETTER, CONSTANT, I, P, R, V
from spmd_mypy.rules.operations import judge
from spmd_mypy.rules.reasons import REASONS


def call(op: str, *operands: tuple[str, str]) -> Call:
    return Call(op, tuple(Argument(param, (BY_LETTER[letter],)) for param, letter in operands))


def spelled(op: str, *operands: tuple[str, str]) -> list[str]:
    asked = call(op, *operands)
    (violation,) = judge(asked).violations
    return [fix.spell("xyz"[fix.arguments[0]], "TP") for fix in suggest(asked, violation)]


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        ("torch.relu", (("input", "P"),), ["all_reduce(x, TP, dst=R)", "all_reduce(x, TP, dst=I)"]),
        ("torch.add", (("input", "I"), ("other", "V")), ["convert(x, TP, src=I, dst=R)"]),
        (
            "torch.add",
            (("input", "P"), ("other", "R")),
            ["all_reduce(x, TP, dst=R)", "convert(y, TP, src=R, dst=P)"],
        ),
        (
            "torch.add",
            (("input", "I"), ("other", "P")),
            ["all_reduce(y, TP, dst=I)", "convert(x, TP, src=I, dst=P, expert_mode=True)"],
        ),
        ("torch.add", (("input", "V"), ("other", "P")), ["all_reduce(y, TP, dst=R)"]),
        ("Tensor.add_", (("self", "P"), ("other", "R")), ["convert(y, TP, src=R, dst=P)"]),
        ("Tensor.add_", (("self", "R"), ("other", "V")), []),
        ("Tensor.item", (("self", "P"),), ["all_reduce(x, TP, dst=R)", "all_reduce(x, TP, dst=I)"]),
    ],
)
def test_suggestions(op: str, operands: tuple[tuple[str, str], ...], expected: list[str]) -> None:
    assert spelled(op, *operands) == expected


@pytest.mark.parametrize("op", ["torch.add", "torch.mul", "torch.div", "torch.maximum", "torch.where"])
def test_every_suggestion_is_accepted(op: str) -> None:
    names = ("condition", "input", "other") if op == "torch.where" else ("input", "other")
    for letters in product("RIVP", repeat=len(names)):
        asked = call(op, *zip(names, letters, strict=True))
        for violation in judge(asked).violations:
            for fix in suggest(asked, violation):
                changed = [fix.dst if at in fix.arguments else letter for at, letter in enumerate(letters)]
                assert not judge(call(op, *zip(names, changed, strict=True))).violations, (letters, fix)
                assert fix.backward


def test_a_suggestion_looks_at_its_own_axis() -> None:
    asked = Call("torch.relu", (Argument("input", (P, P)),))
    first, second = judge(asked).violations
    assert {fix.axis for fix in suggest(asked, first)} == {0}
    assert {fix.axis for fix in suggest(asked, second)} == {1}


def test_every_reason_has_a_code() -> None:
    codes = {"mix", "partial", "inplace", "escape", "loss", "grad"}
    assert {reason.code for reason in REASONS.values()} <= codes


def test_losses() -> None:
    assert not judge_loss((I, P, None, CONSTANT), ())
    assert [violation.axis for violation in judge_loss((R, V, V), {2})] == [0, 1]


def test_gradients_are_dual() -> None:
    assert gradient((R, P, I, V), {3}, parameter=False) == (P, R, I, V)
    assert gradient((R, P, I, V), {3}, parameter=True) == (P, R, I, None)
    assert judge(call("torch.autograd.grad", ("outputs", "I"), ("inputs", "R"))).results == ((P,),)
    assert judge(call("torch.autograd.grad", ("outputs", "R"), ("inputs", "R"))).violations[0].reason == "loss"


def test_parameters_that_nobody_sums() -> None:
    assert [violation.axis for violation in judge_parameter((R, R, I, None), {1})] == [0]
