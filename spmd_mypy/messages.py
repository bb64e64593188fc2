"""Every message: what is wrong, the rule in one clause, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from spmd_mypy.rules import conversions, fixes
from spmd_mypy.rules.call import Call, Violation
from spmd_mypy.rules.collectives import Refusal, Token
from spmd_mypy.rules.kinds import AxisType, Layout
from spmd_mypy.rules.operations import judge
from spmd_mypy.rules.reasons import REASONS

if TYPE_CHECKING:
    from spmd_mypy.layout import Layouts


@dataclass(frozen=True, slots=True)
class Message:
    """An error with its code's short name (``partial``) and its notes."""

    code: str
    text: str
    notes: tuple[str, ...] = ()


_WORDS = {"R": "Replicate", "I": "Invariant", "V": "Varying", "P": "Partial"}


def word(kind: AxisType) -> str:
    """``Partial``, ``S(0)``."""
    return str(kind) if kind.dim is not None else _WORDS[kind.letter]


def violation_message(
    call: Call, violation: Violation, texts: Sequence[str], axis: str, ask: fixes.Judge = judge
) -> Message:
    """The message for a rule that an operation breaks; ``texts`` are the operands as written."""
    reason = REASONS[violation.reason]
    named = [texts[i] if i < len(texts) else "the number" for i in violation.culprits] or ["the operand"]
    kinds = [_kind_at(call, i, violation.axis) for i in violation.culprits]
    op = short_name(call.op)
    text = reason.clause.format(
        op=op,
        ops=_plural(op),
        first=named[0],
        second=named[1] if len(named) > 1 else "the other operand",
        axis=axis,
        kind=kinds[0] if kinds else "",
        new=kinds[1] if len(kinds) > 1 else "another type",
    )
    found = fixes.suggest(call, violation, ask)
    late = [
        f"where the rest is a summand still to be reduced (P): add {texts[at]} after its all_reduce"
        for at in dict.fromkeys(
            at for fix in found if (fix.op, fix.src, fix.dst) == ("convert", "I", "R") for at in fix.arguments
        )
        if at < len(texts) and fixes.addend(call, at, violation.axis, ask)
    ]
    return Message(reason.code, text, (*late, *fix_notes(found, texts, axis)))


def _plural(op: str) -> str:
    """``the sum of gelus``; of names that have no plural, ``the sum of abs of each summand``."""
    regular = op.islower() and op.isalpha() and not op.endswith(("s", "x", "z", "ed", "ch", "sh", "y"))
    return f"the sum of {op}s" if regular else f"the sum of {op} of each summand"


def _kind_at(call: Call, index: int, axis: int) -> str:
    layout = call.arguments[index].layout if index < len(call.arguments) else None
    kind = layout[axis] if layout is not None else None
    return word(kind) if kind is not None else "unknown"


def fix_notes(found: Sequence[fixes.Fix], texts: Sequence[str], axis: str) -> Iterator[str]:
    """Suggestions as notes; reductions of the same operands share one."""
    reductions = [fix for fix in found if fix.op == "all_reduce"]
    if reductions:
        first, *others = reductions
        text = f"reduce first: {_calls(first, texts, axis)} (backward: {first.backward})"
        for other in others:
            shown = f"dst={other.dst}" if other.arguments == first.arguments else _calls(other, texts, axis)
            text += f" or {shown} (backward: {other.backward})"
        yield text
    for fix in found:
        if fix.op != "all_reduce":
            yield f"convert first: {_calls(fix, texts, axis)} (backward: {fix.backward})"


def _calls(fix: fixes.Fix, texts: Sequence[str], axis: str) -> str:
    return " and ".join(dict.fromkeys(fix.spell(texts[i], axis) for i in fix.arguments))


_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "matmul": "@", "mod": "%", "floordiv": "//", "pow": "**",
    "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "getitem": "indexing", "setitem": "item assignment", "neg": "-", "invert": "~",
}  # fmt: skip


def short_name(op: str) -> str:
    """An operation as users call it in a sentence: ``gelu``, ``+``, ``+=``."""
    name = op.rpartition(".")[2]
    if name.startswith("__") and name.endswith("__"):
        inner = name.strip("_")
        if inner in _SYMBOLS:
            return _SYMBOLS[inner]
        if inner[1:] in _SYMBOLS:
            return _SYMBOLS[inner[1:]] + ("=" if inner[0] == "i" else "")
        return inner
    return name


# ---- gradients


def loss_message(name: str, kind: AxisType, axis: str) -> Message:
    """A loss from which backward must not start."""
    text = REASONS["loss"].clause.format(first=name, kind=word(kind), axis=axis)
    if kind.letter == "R":
        return Message(
            "loss",
            f"{text}: each rank would count the same loss, and gradients come out too large",
            (f"make it I where it is reduced (dst=I), or convert({name}, {axis}, src=R, dst=P) (backward: {_KEPT})",),
        )
    return Message(
        "loss",
        f"{text}: each rank has a loss of its own, and nothing sums their gradients",
        (
            f"if the loss is the sum over the ranks: reinterpret({name}, {axis}, src=V, dst=P); "
            f"if a wrapper averages the gradients over {axis}: name it in grad_reduced ([tool.spmd-mypy])",
        ),
    )


_KEPT = "the gradient is kept on one rank, zero on the others"


class Difference(NamedTuple):
    """A gradient that is not the dual of its value on an axis: what the value, the dual and the gradient are."""

    axis: str
    value: AxisType
    wanted: AxisType
    found: AxisType


def backward_message(verb: str, gradient: str, value: str, difference: Difference) -> str:
    """A hand-written backward that ``takes`` or ``gives`` another type than the dual of ``forward``'s."""
    axis, have, wanted, found = difference
    of = value if verb == "takes" else f"forward's {value}"
    text = f"backward {verb} {gradient} as {found} on {axis}, but {of} is {have} there, so its gradient is {wanted}"
    start, end = (wanted, found) if verb == "takes" else (found, wanted)
    advice = conversions.conversion(start, end, axis, "grad")
    return f"{text}; to get from {start} to {end}: {advice}" if advice else text


def parameter_message(axis: str) -> str:
    """A parameter declared R where nobody sums its gradient."""
    return (
        f"a parameter that is Replicate on {axis} gets a Partial gradient there, and nothing sums it: "
        f"declare it I[{axis}] and convert it where it is used (convert(w, {axis}, src=I, dst=R), backward: "
        "all_reduce), "
        f'or name "{axis.lower()}" in grad_reduced ([tool.spmd-mypy]) if a wrapper sums it'
    )


# ---- collectives


def unknown_axis(op: str, shown: str, configured: str) -> str:
    """An axis that the configuration does not have."""
    return f"{op}: axis {shown} is not configured; the configured axes are {configured} ([tool.spmd-mypy] axes)"


def _choices(tokens: Sequence[Token]) -> str:
    return " or ".join("S(i)" if t == "S" else t for t in tokens) or "nothing"


def refused(op: str, refusal: Refusal, src: AxisType, dst: AxisType) -> tuple[str, tuple[str, ...]]:
    """A pair of src and dst that the operation does not have."""
    if refusal.reason == "expert":
        return (
            f"{op} from {src} to {dst} needs expert_mode=True: it is right only where you know more than the types",
            (),
        )
    if refusal.reason == "shard":
        return (
            f"{op} cannot change the shard dim from {src} to {dst}: that moves data between ranks",
            (f"use all_to_all(x, axis, src={src}, dst={dst})",),
        )
    if refusal.reason == "src":
        return f"{op} does not start from {src}: src must be {_choices(refusal.choices)}", _instead(op, src, dst)
    return (
        f"{op} does not lead from {src} to {dst}: from {src} dst must be {_choices(refusal.choices)}",
        _instead(op, src, dst),
    )


def _instead(op: str, src: AxisType, dst: AxisType) -> tuple[str, ...]:
    if src == dst:
        return (f"the tensor is {dst} already: leave {op} out",)
    found = conversions.conversion(src, dst, "axis", "x")
    return (f"to get from {src} to {dst}: {found}",) if found else ()


def wrong_source(
    op: str, src: AxisType, dst: AxisType | None, actual: AxisType, axis: str, name: str, layout: Layout | None,
    layouts: Layouts,
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """A tensor whose type is not the collective's src."""
    text = f"{op} over {axis} expects {name} to be {src}, but it is {actual} on {axis}"
    if src.letter == "P" and actual.letter in ("R", "I"):
        text += ": it is reduced already, so a second sum would scale it by the number of ranks"
    notes: list[str] = []
    if dst is not None:
        if not actual.constant and (actual.letter, actual.dim) == (dst.letter, dst.dim):
            notes.append(f"{name} is {dst} on {axis} already: leave {op} out")
        else:
            found = conversions.conversion(actual, dst, axis, name)
            if found:
                notes.append(f"to get from {actual} to {dst}: {found}")
    if layout is not None:
        others = [
            layouts.config.axes[i].cls
            for i, kind in enumerate(layout)
            if kind is not None and kind == src and layouts.config.axes[i].cls != axis
        ]
        if others:
            notes.append(f"{name} is {src} on {', '.join(others)}: is {axis} the axis you mean?")
    return text, tuple(notes)
