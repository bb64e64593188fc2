"""``torch._foreach_*``: one operation on each element of its lists, told apart where a call gives the elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from spmd_mypy.rules.axis import Clash, evaluate
from spmd_mypy.rules.call import Call, Verdict, Violation
from spmd_mypy.rules.kinds import AxisType, Layout

PREFIX: Final = "torch._foreach_"

# A call on one element of each list, and where its arguments stand in the whole call.
Element: TypeAlias = tuple[Call, tuple[int, ...]]


def elements(call: Call) -> list[Element]:
    """The calls that a call of ``torch._foreach_*`` stands for; none where its lists are not given one by one.

    A parameter with a single argument, a scalar or a list of unknown length, goes with every element.
    """
    places: dict[str, list[int]] = {}
    for at, argument in enumerate(call.arguments):
        places.setdefault(argument.param, []).append(at)
    lengths = {len(found) for found in places.values()} - {1}
    if len(lengths) != 1:
        return []
    result = []
    for index in range(lengths.pop()):
        where = tuple(sorted(found[index] if len(found) > 1 else found[0] for found in places.values()))
        result.append((call._replace(arguments=tuple(call.arguments[at] for at in where)), where))
    return result


def merged(parts: Sequence[tuple[Verdict, tuple[int, ...]]], *, written: bool) -> Verdict:
    """The verdict on the whole call, from those on its elements.

    The elements of what comes out are of one type, as those of a stack of them would be; where they are ``written``
    in place each keeps its own.
    """
    violations = [
        violation._replace(culprits=tuple(where[at] for at in violation.culprits))
        for verdict, where in parts
        for violation in verdict.violations
    ]
    mutations = tuple((where[at], layout) for verdict, where in parts for at, layout in verdict.mutations)
    outputs = list(zip(*(verdict.results for verdict, _ in parts), strict=True))
    if written or violations:
        return Verdict(tuple(_unknown(layouts[0]) for layouts in outputs), tuple(violations), mutations)
    first = [where[0] for _, where in parts]
    results = tuple(_together(layouts, first, violations) for layouts in outputs)
    return Verdict(results, tuple(violations), mutations)


def _unknown(layout: Layout) -> Layout:
    return tuple(None for _ in layout)


def _together(layouts: Sequence[Layout], where: Sequence[int], violations: list[Violation]) -> Layout:
    """The layout of a list of tensors of such layouts; adds what does not go together."""
    result: list[AxisType | None] = []
    for axis, kinds in enumerate(zip(*layouts, strict=True)):
        try:
            result.append(evaluate(("linear", tuple(range(len(kinds)))), kinds)[0])
        except Clash as clash:
            violations.append(Violation(clash.reason, axis, tuple(where[at] for at in clash.culprits)))
            result.append(None)
    return tuple(result)
