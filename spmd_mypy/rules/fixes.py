"""What to write instead of a call that a rule rejects.

A candidate is one collective or conversion on an operand.  It is suggested only where the call that it leads to is
accepted on that axis, and gives what the other operands would give by themselves: a fix of one operand must not
silently make another tensor of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from spmd_mypy.rules.call import Argument, Call, Verdict, Violation
from spmd_mypy.rules.collectives import TRANSITIONS, token
from spmd_mypy.rules.conversions import backward_of
from spmd_mypy.rules.kinds import CONSTANT, AxisType, I, Layout, P, R, V, shard
from spmd_mypy.rules.operations import judge

Judge: TypeAlias = Callable[[Call], Verdict]

# In the order in which they are offered, after a reduce_scatter to the shard of another operand.
_CANDIDATES: Final[tuple[tuple[str, AxisType, AxisType], ...]] = (
    ("all_reduce", P, R),
    ("all_reduce", P, I),
    ("convert", I, R),
    ("convert", R, P),
    ("convert", I, P),
)

# What the backward of a fix does, where it takes more words than elsewhere.
_BACKWARD: Final = {("convert", R, P): "the gradient is kept on one rank, zero on the others"}
_REDUCTIONS: Final = frozenset({"all_reduce", "reduce_scatter"})


class Fix(NamedTuple):
    """A collective or conversion to put around operands of a call.

    ``arguments`` index ``Call.arguments``; ``axis`` the layouts.  ``expert`` fixes need ``expert_mode=True``;
    ``backward`` says in words what their backward does.
    """

    op: str
    arguments: tuple[int, ...]
    axis: int
    src: AxisType
    dst: AxisType
    expert: bool
    backward: str

    @property
    def reduces(self) -> bool:
        """Whether it ends a pending sum."""
        return self.op in _REDUCTIONS

    def spell(self, operand: str, axis: str) -> str:
        """The call to write for an operand, given its source text and the axis's name."""
        source = "" if self.reduces else f"src={self.src}, "
        expert = ", expert_mode=True" if self.expert else ""
        return f"{self.op}({operand}, {axis}, {source}dst={self.dst}{expert})"


def _slot(argument: Argument, axis: int) -> AxisType | None:
    return None if argument.layout is None else argument.layout[axis]


def _retyped(call: Call, at: tuple[int, ...], axis: int, kind: AxisType) -> Call:
    arguments = list(call.arguments)
    for index in at:
        layout = arguments[index].layout
        assert layout is not None
        arguments[index] = arguments[index]._replace(layout=(*layout[:axis], kind, *layout[axis + 1 :]))
    return call._replace(arguments=tuple(arguments))


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
    alone = ask(call._replace(arguments=rest))
    if not _accepted(alone, axis) or alone.mutations != fixed.mutations and not alone.mutations:
        return True
    mine, theirs = _letters(fixed, axis), _letters(alone, axis)
    return all(one in (other, None) or other in ("C", None) for one, other in zip(mine, theirs, strict=False))


def _operands(call: Call, violation: Violation, src: AxisType, dst: AxisType, ask: Judge) -> Iterator[tuple[int, ...]]:
    """Which operands of the type to wrap: the first culprit, another one, all of them together."""
    written = {at for at, _ in ask(call).mutations}
    of_type = [
        at
        for at, argument in enumerate(call.arguments)
        if (kind := _slot(argument, violation.axis)) is not None
        and kind.letter == src.letter
        and (not kind.constant or (src, dst) == (R, P))  # a constant is one of the summands where it is R
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
    summand = call.arguments[at]._replace(layout=_put(call.arguments[at].layout, axis, P))
    others = tuple(
        argument if _slot(argument, axis) is None else argument._replace(layout=_put(argument.layout, axis, R))
        for argument in call.arguments
    )
    alone = ask(call._replace(arguments=(summand,)))
    beside = ask(call._replace(arguments=(*others[:at], summand, *others[at + 1 :])))
    return _accepted(alone, axis) and not _accepted(beside, axis)


def _put(layout: Layout | None, axis: int, kind: AxisType) -> Layout | None:
    return None if layout is None else (*layout[:axis], kind, *layout[axis + 1 :])


def _candidates(call: Call, axis: int) -> Iterator[tuple[str, AxisType, AxisType]]:
    kinds = [kind for argument in call.arguments if (kind := _slot(argument, axis)) is not None]
    for dim in dict.fromkeys(kind.dim for kind in kinds if kind.dim is not None):
        yield "reduce_scatter", P, shard(dim)
    yield from _CANDIDATES


def _fits(call: Call, fixed: Verdict, at: tuple[int, ...], axis: int, dst: AxisType, ask: Judge) -> bool:
    """Whether a call is as it should be once fixed; one operand's cut goes with another's where it stays one."""
    if dst.dim is not None and {layout[axis] for layout in fixed.results} != {dst}:
        return False
    return _accepted(fixed, axis) and _keeps_the_rest(call, fixed, at, axis, ask)


def suggest(call: Call, violation: Violation, ask: Judge = judge) -> list[Fix]:
    """What would make ``call`` acceptable on the violation's axis, best first; empty where nothing simple does.

    ``ask`` judges a call; for a project's own operation it knows that operation's row.
    """
    fixes = []
    axis = violation.axis
    for op, src, dst in _candidates(call, axis):
        row = TRANSITIONS[op][token(src), token(dst)]
        for at in _operands(call, violation, src, dst, ask):
            if _fits(call, ask(_retyped(call, at, axis, dst)), at, axis, dst, ask):
                constant = all(kind.constant for i in at if (kind := _slot(call.arguments[i], axis)))
                backward = "nothing" if constant else _BACKWARD.get((op, src, dst), backward_of(row))
                fixes.append(Fix(op, at, axis, src, dst, row.expert, backward))
                break
    # One sum is enough: none that takes more operands than the best.
    return [fix for fix in fixes if not fix.reduces or len(fix.arguments) <= len(fixes[0].arguments)]


def beside_part(call: Call, at: int, axis: int, ask: Judge = judge) -> int | None:
    """An operand that differs by rank and may be a part, entry by entry, of what operand ``at`` sums."""
    varying = [
        index for index, one in enumerate(call.arguments) if index != at and (kind := _slot(one, axis)) and kind == V
    ]
    if not varying:
        return None
    cut = shard(0)
    fixed = ask(_retyped(call, (at, *varying), axis, cut))
    return varying[0] if _fits(call, fixed, (at, *varying), axis, cut, ask) else None


def passes(call: Call, violation: Violation, at: int, kind: AxisType, ask: Judge = judge) -> bool:
    """Whether the call is fine on the violation's axis where operand ``at`` is ``kind``."""
    return _accepted(ask(_retyped(call, (at,), violation.axis, kind)), violation.axis)


def goes_without_gradient(call: Call, violation: Violation, at: int, ask: Judge = judge) -> bool:
    """Whether the call is fine where operand ``at`` has no gradient, and is not written to."""
    written = {target for target, _ in ask(call).mutations}
    return at not in written and passes(call, violation, at, CONSTANT, ask)


def source(call: Call, violation: Violation, ask: Judge = judge) -> int | None:
    """The one operand that would have to be what the target of a call in place is; None where it is not one."""
    axis = violation.axis
    target = _slot(call.arguments[violation.culprits[0]], axis)
    if target is None:
        return None
    found = [
        at
        for at, argument in enumerate(call.arguments)
        if at not in violation.culprits[:1] and _slot(argument, axis) not in (None, target)
        if _accepted(ask(_retyped(call, (at,), axis, target)), axis) and not _selects(call, at, axis, ask)
    ]
    return found[0] if len(found) == 1 else None


def _selects(call: Call, at: int, axis: int, ask: Judge) -> bool:
    """Whether an operand is an index or a mask, of which there is no sum."""
    return any(violation.reason == "index" for violation in ask(_retyped(call, (at,), axis, P)).violations)
