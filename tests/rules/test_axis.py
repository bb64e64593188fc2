"""The inference on one axis against what the types denote, and the verdict's other parts."""

from __future__ import annotations

from typing import Any

import pytest

from spmd_mypy.rules.axis import Clash, evaluate, fits
from spmd_mypy.rules.call import UNKNOWN, Argument, Call, Name, OptionValue, Verdict
from spmd_mypy.rules.kinds import CONSTANT, FACTORY, AxisType, I, P, R, V, parse, shard
from spmd_mypy.rules.operations import judge

TYPES = {"R": R, "I": I, "V": V, "P": P, "C": CONSTANT, "F": FACTORY, "?": None}


def operand(spec: str | float | None) -> tuple[AxisType | None, bool, OptionValue]:
    """A type by letter, or a number."""
    if isinstance(spec, str):
        return (TYPES[spec] if spec in TYPES else parse(spec)), False, UNKNOWN
    return None, True, spec


def ask(op: str, *specs: tuple[str, str | float], grad: bool = True, **options: OptionValue) -> Verdict:
    """The verdict on a call with one axis: operands are (parameter, type letter or number)."""
    arguments = []
    for param, spec in specs:
        kind, number, value = operand(spec)
        arguments.append(Argument(param, None if number else (kind,), value))
    return judge(Call(op, tuple(arguments), options, grad), axes=1)


def outcome(verdict: Verdict) -> str:
    """The first result's letter, or the violation's reason."""
    if verdict.violations:
        return verdict.violations[0].reason
    kind = verdict.results[0][0]
    if kind is None:
        return "?"
    if kind.constant:
        return "F" if kind.factory else "C"
    return str(kind)


# Per pair of operands: of a sum, of a product, of a nonlinear operation.
PAIRS = [
    ("R", "R", "R", "R", "R"),
    ("I", "I", "I", "I", "I"),
    ("V", "V", "V", "V", "V"),
    ("P", "P", "P", "product", "nonlinear"),
    ("R", "I", "mix", "mix", "mix"),
    ("R", "V", "V", "V", "V"),
    ("R", "P", "affine", "P", "nonlinear"),
    ("I", "V", "mix", "mix", "mix"),
    ("I", "P", "mix", "mix", "mix"),
    ("V", "P", "varying", "varying", "varying"),
    ("C", "R", "R", "R", "R"),
    ("C", "I", "I", "I", "I"),
    ("C", "V", "V", "V", "V"),
    ("C", "P", "affine", "P", "nonlinear"),
    ("C", "C", "C", "C", "C"),
    ("F", "F", "C", "C", "C"),
    ("?", "R", "?", "?", "?"),
    ("?", "V", "?", "?", "?"),
    ("?", "P", "?", "?", "nonlinear"),
    ("?", "?", "?", "?", "?"),
]


@pytest.mark.parametrize(("a", "b", "total", "product", "nonlinear"), PAIRS)
def test_pairs(a: str, b: str, total: str, product: str, nonlinear: str) -> None:
    for one, other in ((a, b), (b, a)):
        assert outcome(ask("torch.add", ("input", one), ("other", other))) == total
        assert outcome(ask("torch.mul", ("input", one), ("other", other))) == product
        assert outcome(ask("torch.maximum", ("input", one), ("other", other))) == nonlinear


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "P"), (0.0, "P"), (1, "number"), (True, "number"), (False, "P"), (2.5, "number")]
)
def test_a_number_beside_a_pending_sum(number: float, expected: str) -> None:
    assert outcome(ask("Tensor.__add__", ("self", "P"), ("other", number))) == expected
    assert outcome(ask("Tensor.__mul__", ("self", "P"), ("other", number))) == "P"


def test_unknown_beside_a_clash_of_the_others_is_reported() -> None:
    assert outcome(ask("torch.cat", ("tensors", "I"), ("tensors", "?"), ("tensors", "V"))) == "mix"


@pytest.mark.parametrize("kind", "RIVP")
def test_an_index_has_no_gradient(kind: str) -> None:
    for index in "RI":
        assert outcome(ask("torch.gather", ("input", kind), ("index", index), dim=0)) == kind
    assert outcome(ask("torch.gather", ("input", kind), ("index", "P"), dim=0)) == "index"


def test_a_varying_index_selects_other_elements_on_each_rank() -> None:
    expected = {"R": "V", "I": "mix", "V": "V", "P": "varying"}
    for kind, result in expected.items():
        assert outcome(ask("torch.gather", ("input", kind), ("index", "V"), dim=0)) == result


def test_compound_rules_name_the_operand_that_is_wrong() -> None:
    verdict = ask("torch.nn.functional.linear", ("input", "P"), ("weight", "R"), ("bias", "R"))
    assert verdict.violations[0].reason == "affine" and verdict.violations[0].culprits == (0, 2)
    verdict = ask("torch.div", ("input", "R"), ("other", "P"))
    assert verdict.violations[0].reason == "divisor" and verdict.violations[0].culprits == (1,)


def test_without_gradients_equal_values_are_constants() -> None:
    assert outcome(ask("torch.add", ("input", "R"), ("other", "I"), grad=False)) == "C"
    assert outcome(ask("torch.add", ("input", "I"), ("other", "V"), grad=False)) == "V"
    assert outcome(ask("torch.add", ("input", "R"), ("other", "P"), grad=False)) == "affine"


@pytest.mark.parametrize("kind", "RI")
def test_integers_and_bools_are_constants(kind: str) -> None:
    assert outcome(ask("torch.argmax", ("input", kind))) == "C"
    assert outcome(ask("Tensor.long", ("self", kind))) == "C"
    assert outcome(ask("Tensor.to", ("self", kind), dtype=Name("torch.int64"))) == "C"
    assert outcome(ask("Tensor.__lt__", ("self", kind), ("other", 0))) == "C"


def test_rounding_a_pending_sum() -> None:
    assert outcome(ask("Tensor.long", ("self", "P"))) == "discrete"
    assert outcome(ask("torch.sum", ("input", "P"), dtype=Name("torch.int64"))) == "discrete"
    assert outcome(ask("Tensor.to", ("self", "P"), dtype=Name("torch.float32"))) == "P"


def test_outputs_of_their_own() -> None:
    verdict = ask("torch.max", ("input", "R"), dim=1)
    assert verdict.results == ((R,), (CONSTANT,))
    assert ask("torch.max", ("input", "V"), dim=1).results == ((V,), (V,))


@pytest.mark.parametrize(
    ("op", "options", "expected"),
    [
        ("torch.nn.functional.dropout", {}, "random"),
        ("torch.nn.functional.dropout", {"training": False}, "P"),
        ("torch.nn.functional.dropout", {"training": UNKNOWN}, "random"),
        ("torch.nn.functional.dropout", {"p": 0.0}, "P"),
        ("torch.nn.functional.pad", {"pad": (1, 1)}, "P"),
        ("torch.nn.functional.pad", {"pad": (1, 1), "value": 1.0}, "number"),
        ("torch.nn.functional.pad", {"pad": (1, 1), "value": UNKNOWN}, "number"),
        ("torch.nn.functional.pad", {"pad": (1, 1), "mode": "reflect"}, "P"),
        ("torch.nn.functional.batch_norm", {"training": True}, "nonlinear"),
        ("torch.pow", {"exponent": 1}, "P"),
        ("torch.pow", {"exponent": 2}, "nonlinear"),
    ],
)
def test_options_that_change_the_rule(op: str, options: dict[str, Any], expected: str) -> None:
    assert outcome(ask(op, ("input", "P"), **options)) == expected


# ---- writes

# Target, written value: the target's type afterwards of ``x[i] = v``, or the reason against it.
WRITES = [
    ("R", "R", "R"), ("R", "C", "R"), ("R", "V", "inplace"), ("R", "P", "affine"), ("R", "I", "mix"),
    ("I", "I", "I"), ("I", "C", "I"), ("I", "V", "mix"),
    ("V", "V", "V"), ("V", "R", "V"), ("V", "C", "V"), ("V", "I", "mix"), ("V", "P", "varying"),
    ("P", "P", "P"), ("P", "R", "affine"), ("P", 0, "P"), ("P", 1.0, "number"),
    ("F", "V", "V"), ("F", "P", "P"), ("F", "R", "R"), ("F", "I", "I"), ("C", "V", "V"),
    ("?", "V", "V"), ("?", "P", "P"), ("?", "R", "?"), ("R", "?", "R"), ("V", "?", "V"),
]  # fmt: skip


@pytest.mark.parametrize(("target", "value", "expected"), WRITES)
def test_an_item_assignment_keeps_the_targets_type(target: str, value: str | float, expected: str) -> None:
    verdict = ask("Tensor.__setitem__", ("self", target), ("indices", 0), ("value", value))
    if verdict.violations:
        assert verdict.violations[0].reason == expected
        return
    ((at, (kind,)),) = verdict.mutations
    assert at == 0
    assert ("?" if kind is None else "C" if kind.constant else str(kind)) == expected


def test_an_overwritten_target_is_no_summand() -> None:
    assert outcome(ask("Tensor.copy_", ("self", "P"), ("other", "R"))) == "inplace"
    assert outcome(ask("Tensor.copy_", ("self", "R"), ("other", "P"))) == "inplace"
    assert outcome(ask("Tensor.zero_", ("self", "P"))) == "P"
    assert outcome(ask("Tensor.fill_", ("self", "P"), ("value", 1.0))) == "inplace"
    assert outcome(ask("torch.add", ("input", "V"), ("other", "R"), ("out", "R"))) == "inplace"
    assert ask("torch.add", ("input", "V"), ("other", "R"), ("out", "F")).mutations == ((2, (V,)),)


def test_in_place_operations() -> None:
    assert outcome(ask("Tensor.add_", ("self", "R"), ("other", "V"))) == "inplace"
    assert outcome(ask("Tensor.__iadd__", ("self", "V"), ("other", "R"))) == "V"
    assert outcome(ask("Tensor.mul_", ("self", "P"), ("other", "R"))) == "P"
    assert outcome(ask("torch.nn.functional.relu", ("input", "P"), inplace=True)) == "nonlinear"
    assert ask("torch._foreach_add_", ("self", "R"), ("self", "R"), ("other", "R")).mutations == ((0, (R,)), (1, (R,)))


def test_sums_into_fresh_buffers() -> None:
    verdict = ask("Tensor.index_add_", ("self", "F"), ("index", "R"), ("source", "P"), dim=0)
    assert not verdict.violations and verdict.mutations == ((0, (P,)),)


def test_zeros_beside_a_pending_sum() -> None:
    assert outcome(ask("torch.add", ("input", "P"), ("other", "F"))) == "affine"
    zeros = Call("torch.add", (Argument("input", (P,)), Argument("other", (FACTORY,), 0)))
    assert outcome(judge(zeros)) == "P"
    assert outcome(ask("torch.index_add", ("input", "F"), ("index", "R"), ("source", "P"), dim=0)) == "P"
    assert outcome(ask("torch.index_add", ("input", "C"), ("index", "R"), ("source", "P"), dim=0)) == "affine"


def test_fits() -> None:
    assert fits(V, R) and fits(R, CONSTANT) and fits(P, FACTORY) and fits(None, V)
    assert not fits(V, I) and not fits(R, V) and not fits(P, CONSTANT) and not fits(I, R)


# ---- constants, randomness, escapes


def test_factories() -> None:
    assert judge(Call("torch.zeros", ()), axes=2).results == ((FACTORY, FACTORY),)
    assert outcome(ask("torch.zeros_like", ("input", "P"))) == "F"
    assert outcome(ask("torch.tensor", ("data", 3.0))) == "F"
    assert outcome(ask("torch.tensor", ("data", "R"))) == "C"
    assert judge(Call("torch.randn", ()), axes=1).results == ((None,),)
    assert outcome(ask("torch.empty_like", ("input", "R"))) == "?"
    assert outcome(ask("Tensor.view", ("self", "F"), size=(2, 2))) == "F"
    assert outcome(ask("Tensor.float", ("self", "F"))) == "F"


def test_detach_and_its_end() -> None:
    assert outcome(ask("Tensor.detach", ("self", "I"))) == "C"
    assert outcome(ask("Tensor.detach", ("self", "P"))) == "P"
    assert outcome(ask("Tensor.requires_grad_", ("self", "C"))) == "?"
    assert outcome(ask("Tensor.requires_grad_", ("self", "R"))) == "R"
    assert outcome(ask("torch.nn.Parameter", ("data", "F"))) == "?"
    assert outcome(ask("torch.nn.Parameter", ("data", "V"))) == "V"


def test_random_numbers() -> None:
    call = Call("torch.nn.functional.dropout", (Argument("input", (R,)),))
    assert outcome(judge(call)) == "R"
    assert outcome(judge(call, rng="per-rank")) == "per_rank"
    assert outcome(ask("torch.nn.functional.dropout", ("input", "V"))) == "V"
    assert outcome(ask("Tensor.normal_", ("self", "F"))) == "?"


@pytest.mark.parametrize(
    "op", ["Tensor.item", "Tensor.tolist", "Tensor.__float__", "builtins.float", "builtins.print", "math.sqrt"]
)
def test_a_pending_sum_does_not_become_a_python_value(op: str) -> None:
    assert outcome(ask(op, ("self", "P"))) == "escape"
    for kind in "RIV":
        assert not ask(op, ("self", kind)).violations


def test_shape_and_flags_are_nobodys_business() -> None:
    for op in ("Tensor.size", "Tensor.dim", "torch.is_tensor", "builtins.len", "Tensor.requires_grad"):
        assert outcome(ask(op, ("self", "P"))) == "?"


def test_an_unknown_operation_is_nonlinear() -> None:
    assert outcome(ask("torch.no_such_thing", ("x", "P"), ("y", "R"))) == "nonlinear"
    assert outcome(ask("torch.no_such_thing", ("x", "V"), ("y", "R"))) == "V"


def test_parameters_of_a_module_are_unknown_until_they_are_given() -> None:
    assert outcome(ask("torch.nn.Linear", ("input", "R"))) == "?"
    assert outcome(ask("torch.nn.Linear", ("input", "R"), ("weight", "V"), ("bias", "V"))) == "V"
    assert outcome(ask("torch.nn.GELU", ("input", "P"))) == "nonlinear"
    assert outcome(ask("torch.nn.modules.linear.Linear", ("input", "P"), ("weight", "P"))) == "product"


def test_a_constant_of_unknown_value_beside_a_pending_sum() -> None:
    assert outcome(ask("torch.nn.ConstantPad1d", ("input", "P"))) == "?"
    assert outcome(ask("torch.nn.ConstantPad1d", ("input", "V"))) == "V"


def test_lists_are_judged_element_by_element() -> None:
    both = (("self", "P"), ("self", "P"))
    assert outcome(ask("torch._foreach_mul", *both, ("other", 2.0))) == "P"
    assert outcome(ask("torch._foreach_mul", ("self", "P"), ("self", "R"), ("other", 2.0))) == "affine"
    assert outcome(ask("torch._foreach_mul", ("self", "P"), ("self", "R"), ("other", "R"), ("other", "P"))) == "P"
    assert outcome(ask("torch._foreach_mul", ("self", "R"), ("self", "V"), ("other", 2.0))) == "V"
    assert outcome(ask("torch._foreach_mul", ("self", "I"), ("self", "V"), ("other", 2.0))) == "mix"
    assert outcome(ask("torch._foreach_mul_", ("self", "I"), ("self", "V"), ("other", 2.0))) == "?"
    assert outcome(ask("torch._foreach_mul", *both, ("other", "R"), ("other", "V"))) == "varying"
    assert outcome(ask("torch._foreach_add", *both, ("other", "P"), ("other", "P"))) == "P"
    verdict = ask("torch._foreach_add_", ("self", "V"), ("self", "R"), ("other", "R"), ("other", "V"))
    assert [(violation.reason, violation.culprits) for violation in verdict.violations] == [("inplace", (1, 3))]
    assert [at for at, _ in verdict.mutations] == [0, 1]


def test_axes_are_judged_apart() -> None:
    call = Call("torch.add", (Argument("input", (R, P, None)), Argument("other", (V, R, I))))
    verdict = judge(call)
    assert verdict.results == ((V, None, None),)
    assert [violation.axis for violation in verdict.violations] == [1]


def test_evaluate_raises_a_clash() -> None:
    with pytest.raises(Clash) as caught:
        evaluate(("nonlinear", (0,)), [P])
    assert caught.value.reason == "nonlinear" and caught.value.culprits == (0,)


# ---- shard dims


@pytest.mark.parametrize(
    ("op", "options", "before", "after"),
    [
        ("Tensor.transpose", {"dim0": 0, "dim1": 1}, 0, 1),
        ("Tensor.transpose", {"dim0": 0, "dim1": 1}, 2, 2),
        ("Tensor.transpose", {"dim0": -1, "dim1": -2}, -1, -2),
        ("Tensor.transpose", {"dim0": 0, "dim1": 1}, -1, None),
        ("Tensor.transpose", {"dim0": UNKNOWN, "dim1": 1}, 0, None),
        ("Tensor.permute", {"dims": (2, 0, 1)}, 0, 1),
        ("Tensor.permute", {"dims": (2, 0, 1)}, -1, -3),
        ("torch.movedim", {"source": 0, "destination": 2}, 0, 2),
        ("torch.movedim", {"source": 0, "destination": 2}, 1, 0),
        ("Tensor.unsqueeze", {"dim": 0}, 0, 1),
        ("Tensor.unsqueeze", {"dim": -1}, -1, -2),
        ("Tensor.unsqueeze", {"dim": 1}, 0, 0),
        ("Tensor.squeeze", {"dim": 0}, 1, 0),
        ("Tensor.squeeze", {}, 1, None),
        ("Tensor.t", {}, 0, 1),
        ("Tensor.mT", {}, -1, -2),
        ("Tensor.T", {}, 0, -1),
        ("torch.relu", {}, 1, 1),
        ("Tensor.softmax", {"dim": -1}, 0, None),
        ("Tensor.sum", {"dim": 0}, 0, None),
        ("Tensor.view", {"size": (2, 2)}, 0, None),
    ],
)
def test_shard_dims(op: str, options: dict[str, OptionValue], before: int, after: int | None) -> None:
    verdict = judge(Call(op, (Argument("self", (shard(before),)),), options))
    assert verdict.results[0][0] == (V if after is None else shard(after))


def test_shards_together() -> None:
    assert outcome(ask("torch.add", ("input", "S(0)"), ("other", "S(0)"))) == "S(0)"
    assert outcome(ask("torch.add", ("input", "S(0)"), ("other", "R"))) == "S(0)"
    assert outcome(ask("torch.add", ("input", "S(0)"), ("other", 1.0))) == "S(0)"
    assert outcome(ask("torch.add", ("input", "S(0)"), ("other", "S(1)"))) == "V"
    assert outcome(ask("torch.add", ("input", "S(0)"), ("other", "V"))) == "V"
    assert outcome(ask("torch.matmul", ("input", "S(0)"), ("other", "R"))) == "V"
