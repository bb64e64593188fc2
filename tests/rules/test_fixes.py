"""Suggestions are accepted by the rules, and gradients' rules say what the duals say."""

from __future__ import annotations

from itertools import product

import pytest

from spmd_mypy.rules.call import Argument, Call
from spmd_mypy.rules.fixes import beside_part, source, suggest
from spmd_mypy.rules.gradients import gradient, judge_loss, judge_parameter
from spmd_mypy.rules.kinds import CONSTANT, I, P, R, V, parse
from spmd_mypy.rules.operations import judge
from spmd_mypy.rules.reasons import REASONS


def call(op: str, *operands: tuple[str, str]) -> Call:
    return Call(op, tuple(Argument(param, (parse(kind),)) for param, kind in operands))


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
        # A cut that the operation keeps is what the sum has to be cut to; it may broadcast, though.
        (
            "torch.add",
            (("input", "P"), ("other", "S(0)")),
            ["reduce_scatter(x, TP, dst=S(0))", "all_reduce(x, TP, dst=R)"],
        ),
        (
            "Tensor.__iadd__",
            (("self", "S(-1)"), ("other", "P")),
            ["reduce_scatter(y, TP, dst=S(-1))", "all_reduce(y, TP, dst=R)"],
        ),
        (
            "Tensor.copy_",
            (("self", "S(1)"), ("src", "P")),
            ["reduce_scatter(y, TP, dst=S(1))", "all_reduce(y, TP, dst=R)"],
        ),
        ("torch.matmul", (("input", "P"), ("other", "S(1)")), ["all_reduce(x, TP, dst=R)"]),
    ],
)
def test_suggestions(op: str, operands: tuple[tuple[str, str], ...], expected: list[str]) -> None:
    assert spelled(op, *operands) == expected


@pytest.mark.parametrize("op", ["torch.add", "torch.mul", "torch.div", "torch.maximum", "torch.where", "torch.matmul"])
def test_every_suggestion_is_accepted(op: str) -> None:
    names = ("condition", "input", "other") if op == "torch.where" else ("input", "other")
    for kinds in product(("R", "I", "V", "P", "S(0)", "S(1)"), repeat=len(names)):
        asked = call(op, *zip(names, kinds, strict=True))
        for violation in judge(asked).violations:
            for fix in suggest(asked, violation):
                changed = [str(fix.dst) if at in fix.arguments else kind for at, kind in enumerate(kinds)]
                assert not judge(call(op, *zip(names, changed, strict=True))).violations, (kinds, fix)
                assert fix.backward


def test_what_varies_may_be_a_part_only_where_the_operation_keeps_it_one() -> None:
    assert beside_part(call("torch.add", ("input", "P"), ("other", "V")), 0, 0) == 1
    assert beside_part(call("torch.matmul", ("input", "P"), ("other", "V")), 0, 0) is None
    assert beside_part(call("torch.add", ("input", "P"), ("other", "S(0)")), 0, 0) is None


@pytest.mark.parametrize(
    ("op", "operands", "at", "written"),
    [
        ("Tensor.copy_", (("self", "R"), ("src", "V")), 1, "V"),
        ("Tensor.add_", (("self", "R"), ("other", "V")), 1, "V"),
        ("Tensor.addcmul_", (("self", "R"), ("tensor1", "V"), ("tensor2", "V")), None, "V"),
        ("Tensor.masked_fill_", (("self", "R"), ("mask", "V")), None, "V"),  # there is no sum of a mask
        ("torch.mul", (("input", "R"), ("other", "V"), ("out", "I")), None, "V"),
    ],
)
def test_what_a_write_in_place_would_need(
    op: str, operands: tuple[tuple[str, str], ...], at: int | None, written: str
) -> None:
    asked = call(op, *operands)
    (violation,) = judge(asked).violations
    assert violation.reason == "inplace"
    assert violation.written == parse(written)
    assert source(asked, violation) == at


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
