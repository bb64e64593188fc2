"""Messages: what is wrong, the rule in one clause, and what to write instead; see also ``operation_messages``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spmd_mypy.layout import Layouts
from spmd_mypy.rules import conversions
from spmd_mypy.rules.collectives import Refusal, Token
from spmd_mypy.rules.kinds import AxisType, Layout
from spmd_mypy.rules.reasons import REASONS


class Message(NamedTuple):
    """An error with its code's short name (``partial``) and its notes."""

    code: str
    text: str
    notes: tuple[str, ...] = ()


_WORDS = {"R": "Replicate", "I": "Invariant", "V": "Varying", "P": "Partial"}


def word(kind: AxisType) -> str:
    """``Partial``, ``S(0)``."""
    return str(kind) if kind.dim is not None else _WORDS[kind.letter]


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
    advice = conversions.conversion(start, end, axis, gradient if gradient.isidentifier() else "...")
    return f"{text}; to get from {start} to {end}: {advice}" if advice else text


def parameter_message(axis: str) -> str:
    """A parameter declared R where nobody sums its gradient."""
    return (
        f"a parameter that is Replicate on {axis} gets a Partial gradient there, and nothing sums it: "
        f"declare it I[{axis}] and convert it where it is used (convert(..., {axis}, src=I, dst=R), backward: "
        "all_reduce), "
        f'or name "{axis.lower()}" in grad_reduced ([tool.spmd-mypy]) if a wrapper sums it'
    )


# ---- collectives


def unknown_axis(op: str, shown: str, configured: str) -> str:
    """An axis that the configuration does not have."""
    return f"{op}: axis {shown} is not configured; the configured axes are {configured} ([tool.spmd-mypy] axes)"


def _choices(tokens: Sequence[Token]) -> str:
    return " or ".join("S(i)" if t == "S" else t for t in tokens) or "nothing"


def refused(
    op: str, refusal: Refusal, ends: tuple[AxisType, AxisType], actual: AxisType, name: str, axis: str
) -> tuple[str, tuple[str, ...]]:
    """A src and dst, the ``ends``, between which the operation does not lead.

    ``actual`` is what the tensor is, ``name`` and ``axis`` are the arguments as written.
    """
    src, dst = ends
    if refusal.reason == "expert":
        return (
            f"{op} from {src} to {dst} needs expert_mode=True: it is right only where you know more than the types",
            (),
        )
    if refusal.reason == "shard":
        return (
            f"{op} cannot change the shard dim from {src} to {dst}: that moves data between ranks",
            (f"use all_to_all({name}, {axis}, src={src}, dst={dst})",),
        )
    instead = _instead(op, src if actual.constant else actual, dst, name, axis)
    if refusal.reason == "src":
        return f"{op} does not start from {src}: src must be {_choices(refusal.choices)}", instead
    return f"{op} does not lead from {src} to {dst}: from {src} dst must be {_choices(refusal.choices)}", instead


def _instead(op: str, src: AxisType, dst: AxisType, name: str, axis: str) -> tuple[str, ...]:
    if src == dst:
        return (f"{name} is {dst} already: leave {op} out",)
    found = conversions.conversions(src, dst, axis, name)
    return (f"to get from {src} to {dst}: {found}",) if found else ()


def shard_value(op: str, end: str, written: str) -> str:
    """``src=S``, ``src=S[TP, 0]``: the class where a value of it is meant."""
    name, bracket, inside = written.partition("[")
    dim = inside.rstrip("] ").rpartition(",")[2].strip() if bracket else ""
    if dim.lstrip("-").isdigit():
        return f"{op}: {end}={written} is a type for annotations: write {end}={name}({dim})"
    return f"{op}: {end}={written} does not say which tensor dim is cut: write {end}={name}(0) for dim 0"


def wrong_source(
    op: str, src: AxisType, dst: AxisType | None, actual: AxisType, axis: str, name: str, layout: Layout | None,
    layouts: Layouts,
) -> tuple[str, tuple[str, ...]]:  # fmt: skip
    """A tensor whose type is not the collective's src."""
    text = f"{op} over {axis} expects {name} to be {src}, but it is {actual} on {axis}"
    if src.letter == "P" and actual.letter in ("R", "I"):
        text += ": it is reduced already, so a second sum would scale it by the number of ranks"
    notes = [note] if (note := _elsewhere(op, src, dst, axis, name, layout, layouts)) else []
    meant = f"if {axis} is meant: " if notes else ""
    if dst is not None:
        if not actual.constant and (actual.letter, actual.dim) == (dst.letter, dst.dim):
            notes.append(f"{meant}{name} is {dst} on {axis} already: leave {op} out")
        else:
            found = conversions.conversions(actual, dst, axis, name)
            if found:
                notes.append(f"{meant}to get from {actual} to {dst}: {found}")
    return text, tuple(notes)


def _elsewhere(
    op: str, src: AxisType, dst: AxisType | None, axis: str, name: str, layout: Layout | None, layouts: Layouts
) -> str | None:
    """The same collective over another axis, on which the tensor is what it starts from."""
    if dst is None:
        return None
    found = [
        (known.cls, kind, text)
        for known, kind in zip(layouts.config.axes, layout or (), strict=False)
        if known.cls != axis and kind is not None and (text := conversions.moved(op, src, kind, dst, known.cls, name))
    ]
    if not found:
        return None
    return f"{name} is {found[0][1]} on {' and '.join(other for other, _, _ in found)}, not on {axis}: " + " or ".join(
        text for _, _, text in found
    )
