"""What to write instead of a call that a rule rejects.

A candidate is one collective or conversion on an operand.  It is suggested only where the call that it leads to is
accepted on that axis, and gives what the other operands would give by themselves: a fix of one operand must not
silently make another tensor of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from spmd_mypy.rules.call import Argument, Call, Verdict, Violation
from spmd_mypy.rules.collectives import TRANSITIONS, Token
from spmd_mypy.rules.kinds import BY_LETTER, AxisType, Layout
from spmd_mypy.rules.operations import judge

Judge: TypeAlias = Callable[[Call], Verdict]

# In the order in which they are offered.
_CANDIDATES: Final[tuple[tuple[str, Token, Token], ...]] = (
    ("all_reduce", "P", "R"),
    ("all_reduce", "P", "I"),
    ("convert", "I", "R"),
    ("convert", "R", "P"),
    ("convert", "I", "P"),
)

# What the backward of a fix does, in words.
_BACKWARD: Final = {
    ("all_reduce", "P", "R"): "all_reduce",
    ("all_reduce", "P", "I"): "nothing",
    ("convert", "I", "R"): "all_reduce",
    ("convert", "R", "P"): "the gradient is kept on one rank, zero on the others",
    ("convert", "I", "P"): "nothing",
}


@dataclass(frozen=True, slots=True)
class Fix:
    """A collective or conversion to put around operands of a call.

    ``arguments`` index ``Call.arguments``; ``axis`` the layouts.  ``expert`` fixes need ``expert_mode=True``;
    ``backward`` says in words what their backward does.
    """

    op: str
    arguments: tuple[int, ...]
    axis: int
    src: Token
    dst: Token
    expert: bool
    backward: str

    def spell(self, operand: str, axis: str) -> str:
        """The call to write for an operand, given its source text and the axis's name."""
        source = "" if self.op == "all_reduce" else f"src={self.src}, "
        expert = ", expert_mode=True" if self.expert else ""
        return f"{self.op}({operand}, {axis}, {source}dst={self.dst}{expert})"


def _slot(argument: Argument, axis: int) -> AxisType | None:
    return None if argument.layout is None else argument.layout[axis]


def _retyped(call: Call, at: tuple[int, ...], axis: int, kind: AxisType) -> Call:
    arguments = list(call.arguments)
    for index in at:
        layout = arguments[index].layout
        assert layout is not None
        arguments[index] = replace(arguments[index], layout=(*layout[:axis], kind, *layout[axis + 1 :]))
    return replace(call, arguments=tuple(arguments))


def _accepted(verdict: Verdict, axis: int) -> bool:
    return all(violation.axis != axis for violation in verdict.violations)


def _letters(verdict: Verdict, axis: int) -> list[str | None]:
    kinds = [layout[axis] for layout in verdict.results if len(layout) > axis]
    return [kind if kind is None else "C" if kind.constant else kind.letter for kind in kinds]


def _keeps_the_rest(call: Call, fixed: Verdict, at: tuple[int, ...], axis: int, ask: Judge) -> bool:
    """Whether the other operands alone give the same result type as the fixed call."""
    rest = tuple(argument for index, argument in enumerate(call.arguments) if index not in at)
    if all(_slot(argument, axis) is None for argument in rest):
        return True
    alone = ask(replace(call, arguments=rest))
    if not _accepted(alone, axis) or alone.mutations != fixed.mutations and not alone.mutations:
        return True
    mine, theirs = _letters(fixed, axis), _letters(alone, axis)
    return all(one in (other, None) or other in ("C", None) for one, other in zip(mine, theirs, strict=False))


def _operands(call: Call, violation: Violation, src: Token, dst: Token, ask: Judge) -> Iterator[tuple[int, ...]]:
    """Which operands of the type to wrap: the first culprit, another one, all of them together."""
    written = {at for at, _ in ask(call).mutations}
    of_type = [
        at
        for at, argument in enumerate(call.arguments)
        if (kind := _slot(argument, violation.axis)) is not None
        and kind.letter == src
        and (not kind.constant or (src, dst) == ("R", "P"))  # a constant is one of the summands where it is R
        and at not in written
    ]
    of_type.sort(key=lambda at: violation.culprits.index(at) if at in violation.culprits else len(call.arguments) + at)
    for at in of_type:
        yield (at,)
    if len(of_type) > 1:
        yield tuple(sorted(of_type))


def addend(call: Call, at: int, axis: int, ask: Judge = judge) -> bool:
    """Whether an operand is added to values that differ by rank: they may be summands, to which it is added once."""
    kinds = [kind for index, one in enumerate(call.arguments) if index != at and (kind := _slot(one, axis)) is not None]
    if not any(kind.letter == "V" for kind in kinds):
        return False
    summand = replace(call.arguments[at], layout=_put(call.arguments[at].layout, axis, BY_LETTER["P"]))
    others = tuple(
        argument
        if _slot(argument, axis) is None
        else replace(argument, layout=_put(argument.layout, axis, BY_LETTER["R"]))
        for argument in call.arguments
    )
    alone = ask(replace(call, arguments=(summand,)))
    beside = ask(replace(call, arguments=(*others[:at], summand, *others[at + 1 :])))
    return _accepted(alone, axis) and not _accepted(beside, axis)


def _put(layout: Layout | None, axis: int, kind: AxisType) -> Layout | None:
    return None if layout is None else (*layout[:axis], kind, *layout[axis + 1 :])


def suggest(call: Call, violation: Violation, ask: Judge = judge) -> list[Fix]:
    """What would make ``call`` acceptable on the violation's axis, best first; empty where nothing simple does.

    ``ask`` judges a call; for a project's own operation it knows that operation's row.
    """
    fixes = []
    for op, src, dst in _CANDIDATES:
        row = TRANSITIONS[op][src, dst]
        for at in _operands(call, violation, src, dst, ask):
            fixed = ask(_retyped(call, at, violation.axis, BY_LETTER[dst]))
            if _accepted(fixed, violation.axis) and _keeps_the_rest(call, fixed, at, violation.axis, ask):
                constant = all(kind.constant for i in at if (kind := _slot(call.arguments[i], violation.axis)))
                backward = "nothing" if constant else _BACKWARD[op, src, dst]
                fixes.append(Fix(op, at, violation.axis, src, dst, row.expert, backward))
                break
    return fixes
