"""Messages about what happens over time: raw collectives, handles, assertions, meshes, branches."""

from __future__ import annotations

from collections.abc import Sequence

from spmd_mypy.messages import word
from spmd_mypy.rules import conversions, raw
from spmd_mypy.rules.kinds import AxisType, R

# An error's text, and its notes.
Text = tuple[str, tuple[str, ...]]
# A tensor as the source names it, what it is on an axis, and the axis.
Named = tuple[str, AxisType, str]


def refused_raw(
    op: str, reason: str, tensor: Named, *, reduction: str | None, dim: int | None, elsewhere: Sequence[str] = ()
) -> Text:
    """A tensor that one of torch's collectives does not take; ``reason`` is a key of ``raw.REFUSALS``.

    ``elsewhere`` are axes, each with what the tensor is there, over which the collective would take it.
    """
    name, kind, axis = tensor
    words = {"max": "maximum", "min": "minimum"}
    text = raw.REFUSALS[reason].format(
        op=op, name=name, kind=word(kind), axis=axis, dim=dim, reduction=words.get(reduction or "", reduction)
    )
    notes = [f"{name} is {' and '.join(elsewhere)}, not on {axis}: is another group meant?"] if elsewhere else []
    if reason in ("nonlinear", "partial"):
        notes.append(f"sum it first: {conversions.conversion(kind, R, axis, name)}")
    if reason == "reduced" and not kind.constant:
        notes.append(f"leave {op} out, or average (ReduceOp.AVG) what should be equal already")
    return text, tuple(notes)


def no_backward(op: str, name: str, axis: str | None, typed: str | None) -> Text:
    """A tensor that needs a gradient goes through a collective without backward."""
    text = f"{op} has no backward, but {name} needs a gradient: autograd would not see the communication"
    use = f"{typed}({name}, {axis}, dst=R) or dst=I" if typed and axis else "the collective of spmd_runtime"
    return text, (f"use {use}; or run it on {name}.detach() or under torch.no_grad() where no gradient is meant",)


def written_in_place(op: str, tensor: Named, what: str, new: AxisType) -> Text:
    """A call in place that makes ``new`` of a declared parameter or attribute; ``tensor`` as it is declared."""
    name, old, axis = tensor
    sees = "the caller still sees" if what == "parameter" else "others still see"
    text = (
        f"{op} makes {name} {word(new)} on {axis} in place, but it is a {what} declared {word(old)}: {sees} {word(old)}"
    )
    text = text.replace("a attribute", "an attribute")
    found = conversions.conversion(old, new, axis, name)
    typed = found if found is not None and found.startswith(f"{op}(") else "a collective of spmd_runtime"
    return text, (f"work on a copy ({name}.clone()) or on the result of {typed}",)


def in_flight(name: str, handle: str) -> str:
    """A tensor is used while a collective writes to it."""
    return f"{name} is still under way in an asynchronous collective: call {handle}.wait() before using it"


def pending_use() -> str:
    """What a Pending that is used as a tensor lacks."""
    return "the collective is still under way: .wait() gives the tensor"


def asserted(function: str, name: str, actual: AxisType, claimed: AxisType, axis: str) -> Text:
    """An assertion that does not hold."""
    text = f"{function} says that {name} is {claimed} on {axis}, but it is {actual} there"
    advice = conversions.conversion(actual, claimed, axis, name)
    return text, (f"to get from {actual} to {claimed}: {advice}",) if advice else ()


def meshes_meet(op: str, one: str, other: str, axes: Sequence[str]) -> Text:
    """Tensors laid out over different meshes meet in one operation."""
    text = f"{op}: {one} is laid out over {axes[0]} and {other} over {axes[1]}: axes of different meshes"
    return text, (f"say what one of them is on the other's mesh: reinterpret_mesh({other}, {{...}})",)


def foreign_axis(op: str, name: str, here: str, axis: str) -> Text:
    """A collective over an axis of another mesh than its tensor's."""
    text = f"{op} over {axis}: {name} is laid out over {here}, an axis of another mesh"
    return text, (f"say what it is on that mesh first: reinterpret_mesh({name}, {{{axis}: ...}})",)


def uniform(name: str, kind: AxisType, claimed: AxisType, axis: str) -> Text:
    """A tensor that is one thing over a whole mesh is that over every mesh of the same ranks."""
    return (
        f"reinterpret_mesh says that {name} is {claimed} on {axis}, but it is {kind} over all axes of its own mesh, "
        "and so over every other mesh of the same ranks",
        (),
    )


def branch(name: str, kind: AxisType, here: Sequence[int], others: Sequence[tuple[int, AxisType]]) -> str:
    """Which branch leaves a tensor ``kind``: it is so from the lines ``here``, another type from ``others``."""
    still = f"{name} is still Partial" if kind.letter == "P" else f"{name} is {word(kind)}"
    change = ", ".join(f"line {line} makes it {word(other)}" for line, other in others)
    came = f", from line {' or '.join(map(str, here))}" if here else ""
    if change:
        return f" (where {still}{came}; only {change})"
    return f" (where {still}: one branch {'does not reduce it' if kind.letter == 'P' else 'leaves it so'})"
