"""Messages about operations: the rule that one breaks in one clause, and what to write instead."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from spmd_mypy.layout import show_slot
from spmd_mypy.messages import Message, short_name, word
from spmd_mypy.rules import conversions, fixes
from spmd_mypy.rules.call import Call, Violation
from spmd_mypy.rules.kinds import I, R, shard
from spmd_mypy.rules.operations import judge
from spmd_mypy.rules.ops import find
from spmd_mypy.rules.reasons import REASONS
from spmd_mypy.source import compound


def violation_message(
    call: Call,
    violation: Violation,
    texts: Sequence[str],
    axis: str,
    ask: fixes.Judge = judge,
    trained: Collection[int] = (),
) -> Message:
    """The message for a rule that an operation breaks.

    ``texts`` are the operands as written, ``trained`` those that are parameters.
    """
    reason = REASONS[violation.reason]
    named = [texts[i] if i < len(texts) else "the number" for i in violation.culprits] or ["the operand"]
    kinds = [_kind_at(call, i, violation.axis) for i in violation.culprits]
    op = short_name(call.op)
    text = reason.clause.format(
        op=op,
        why=_nonlinear(op.removesuffix("_")),
        first=named[0],
        second=named[1] if len(named) > 1 else "the other operand",
        axis=axis,
        kind=kinds[0] if kinds else "",
        other=kinds[1] if len(kinds) > 1 else "not",
        written=word(violation.written) if violation.written is not None else "another type",
    )
    found = fixes.suggest(call, violation, ask)
    notes = [*_redirected(call, violation, texts, ask), *_late(call, violation, found, texts, ask)]
    notes += fix_notes(found, texts, axis)
    if not trained or violation.culprits[0] not in trained:
        notes += _gradless(call, violation, texts, ask)
    notes += _part(call, violation, found, texts, axis, ask)
    if violation.reason == "inplace":
        notes += _in_place(call, violation, texts, axis, ask, fixed=bool(found))
    elif not found:
        notes += _elsewise(call, violation, texts, axis, ask)
    return Message(reason.code, text, tuple(notes))


def _redirected(call: Call, violation: Violation, texts: Sequence[str], ask: fixes.Judge) -> Iterator[str]:
    """Beside an I, ``all_reduce(z, TP, dst=R)`` in the call's own text was most likely meant to give an I, too."""
    if violation.reason != "mix":
        return
    for at, (argument, text) in enumerate(zip(call.arguments, texts, strict=False)):
        kind = argument.layout[violation.axis] if argument.layout is not None else None
        advice = conversions.redirected(text, kind, I) if kind == R else None
        if advice is not None and fixes.passes(call, violation, at, I, ask):
            yield advice


def _late(
    call: Call, violation: Violation, found: Sequence[fixes.Fix], texts: Sequence[str], ask: fixes.Judge
) -> Iterator[str]:
    """For what is added once to a sum: after the sum."""
    converted = (at for fix in found if (fix.op, fix.src, fix.dst) == ("convert", I, R) for at in fix.arguments)
    for at in dict.fromkeys(converted):
        if at < len(texts) and fixes.addend(call, at, violation.axis, ask):
            yield f"where the rest is a summand still to be reduced (P): add {texts[at]} after its all_reduce"


# Operations that integers and masks take part in.
_INTEGRAL: Final = frozenset({
    "+", "-", "*", "//", "%", "+=", "-=", "*=", "add", "sub", "mul", "add_", "sub_", "mul_", "where", "masked_fill",
    "maximum", "minimum", "cat", "stack",
})  # fmt: skip


def _gradless(call: Call, violation: Violation, texts: Sequence[str], ask: fixes.Judge) -> Iterator[str]:
    """An I of which the types do not tell that it is an integer or a mask."""
    at = violation.culprits[0] if violation.reason == "mix" and violation.culprits else len(texts)
    simple = at < len(texts) and texts[at].isidentifier() and short_name(call.op) in _INTEGRAL
    if simple and fixes.goes_without_gradient(call, violation, at, ask):
        yield f"if {texts[at]} holds integers or a mask, which have no gradient: {texts[at]}.detach()"


def _part(
    call: Call, violation: Violation, found: Sequence[fixes.Fix], texts: Sequence[str], axis: str, ask: fixes.Judge
) -> Iterator[str]:
    """Beside what differs by rank a sum may have to be cut as well; in which dim the types do not tell."""
    fix = found[0] if found else None
    if fix is None or fix.op != "all_reduce" or len(fix.arguments) != 1:
        return
    (at,) = fix.arguments
    part = fixes.beside_part(call, at, violation.axis, ask)
    if part is not None and part < len(texts):
        cut = fix._replace(op="reduce_scatter", dst=shard(0))
        yield f"if {texts[part]} is a part cut along dim 0, say: {cut.spell(texts[at], axis)} (backward: all_gather)"


def _in_place(
    call: Call, violation: Violation, texts: Sequence[str], axis: str, ask: fixes.Judge, *, fixed: bool
) -> Iterator[str]:
    """What to write instead of a call in place: another value, or another target."""
    if fixed and call.op == "Tensor.copy_":
        return
    at = None if fixed else fixes.source(call, violation, ask)
    target = call.arguments[violation.culprits[0]].layout
    have = call.arguments[at].layout if at is not None else None
    if at is not None and at < len(texts) and target is not None and have is not None:
        start, end = have[violation.axis], target[violation.axis]
        assert start is not None and end is not None
        advice = conversions.conversions(start, end, axis, texts[at])
        if advice is not None:
            fixed = True
            yield f"to get from {start} to {end}: {advice}"
    if (instead := _another_target(call, violation, texts, axis)) is not None:
        yield f"or {instead}" if fixed else instead


def _another_target(call: Call, violation: Violation, texts: Sequence[str], axis: str) -> str | None:
    """How to keep the value and leave the target alone."""
    name, new = texts[violation.culprits[0]], violation.written
    if call.op == "Tensor.fill_":
        return f"make a new tensor: torch.full_like({', '.join(texts)})"
    if call.op == "Tensor.copy_":
        return f"use {texts[-1]} itself where {name} is used"
    if any(argument.param == "out" for argument in call.arguments):
        return f"leave out= out: {short_name(call.op)} gives a new tensor then"
    apart = _apart(call)
    if apart is not None:
        return f"make a new tensor: {_call_text(apart, texts)}"
    if new is None or new.constant:
        return None
    return f"write into a tensor of that type: out: Tensor[{show_slot(new, axis)}] = torch.empty_like({name})"


def _elsewise(call: Call, violation: Violation, texts: Sequence[str], axis: str, ask: fixes.Judge) -> Iterator[str]:
    """For a call in place on what it may not write to: the same on a new tensor."""
    apart = _apart(call)
    found = fixes.suggest(apart, violation, ask) if apart is not None else []
    for text in fix_notes([fix for fix in found if fix.reduces], texts, axis):
        yield text.replace("reduce first:", "reduce first, into a new tensor:")
    for fix in found:
        if apart is not None and not fix.reduces:
            changed = [fix.spell(text, axis) if i in fix.arguments else text for i, text in enumerate(texts)]
            yield f"not in place: {_call_text(apart, changed)} (backward of {fix.op}: {fix.backward})"


# Not in torch without the underscore.
_ONLY_IN_PLACE: Final = frozenset({"copy_", "fill_", "normal_", "resize_as_"})


def _apart(call: Call) -> Call | None:
    """The call that gives a new tensor where ``call`` writes to its own; None where torch has none."""
    if call.options.get("inplace") is True:
        given = tuple(one._replace(value=False) if one.param == "inplace" else one for one in call.arguments)
        return call._replace(arguments=given, options={**call.options, "inplace": False})
    owner, _, name = call.op.rpartition(".")
    if name in _ONLY_IN_PLACE:
        return None
    if name.startswith("__i") and name.endswith("__"):
        new = f"{owner}.__{name[3:]}"
    elif name.endswith("_") and not name.endswith("__"):
        new = call.op.removesuffix("_")
    else:
        return None
    return call._replace(op=new) if find(new) is not None else None


def _call_text(call: Call, texts: Sequence[str]) -> str:
    """A call as it would be written, as far as its operands tell."""
    owner, _, name = call.op.rpartition(".")
    if name.endswith("__") and len(texts) == 2:
        return " ".join((_grouped(texts[0]), short_name(call.op), _grouped(texts[1])))
    listed = len({one.param for one in call.arguments}) < len(call.arguments) or name.startswith("_foreach_")
    given = "..." if call.options or listed else ", ".join(texts[owner == "Tensor" :])
    return f"{_grouped(texts[0]) if owner == 'Tensor' else owner}.{name}({given})"


def _grouped(text: str) -> str:
    """An operand as it stands beside an operator, or before a dot."""
    return f"({text})" if compound(text) else text


def _nonlinear(op: str) -> str:
    """``gelu of a pending sum is not the sum of gelus``; of operators, and names without plural, in other words."""
    if not op.isidentifier():
        return "each rank would apply it to its summand, not to the sum"
    regular = op.islower() and op.isalpha() and not op.endswith(("s", "x", "z", "ed", "ch", "sh", "y"))
    return f"{op} of a pending sum is not the sum of {f'{op}s' if regular else f'{op} of each summand'}"


def _kind_at(call: Call, index: int, axis: int) -> str:
    layout = call.arguments[index].layout if index < len(call.arguments) else None
    kind = layout[axis] if layout is not None else None
    return word(kind) if kind is not None else "unknown"


def fix_notes(found: Sequence[fixes.Fix], texts: Sequence[str], axis: str) -> Iterator[str]:
    """Suggestions as notes; reductions of the same operands share one."""
    reductions = [fix for fix in found if fix.reduces]
    if reductions:
        first, *others = reductions
        text = f"reduce first: {_calls(first, texts, axis)} (backward: {first.backward})"
        for other in others:
            shown = f"dst={other.dst}" if _alike(first, other) else _calls(other, texts, axis)
            where = (
                f", where {texts[first.arguments[0]]} broadcasts along dim {first.dst.dim}:"
                if first.dst.dim is not None
                else ""
            )
            text += f" or{where} {shown} (backward: {other.backward})"
        yield text
    for fix in found:
        if not fix.reduces:
            yield f"convert first: {_calls(fix, texts, axis)} (backward: {fix.backward})"


def _alike(one: fixes.Fix, other: fixes.Fix) -> bool:
    return (one.op, one.arguments) == (other.op, other.arguments)


def _calls(fix: fixes.Fix, texts: Sequence[str], axis: str) -> str:
    return " and ".join(dict.fromkeys(fix.spell(texts[i], axis) for i in fix.arguments))
