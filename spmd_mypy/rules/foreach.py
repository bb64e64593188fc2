"""``torch._foreach_*``: one operation on each element of its lists, told apart where a call gives the elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from spmd_mypy.rules.call import Call, Verdict
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
        result.append((replace(call, arguments=tuple(call.arguments[at] for at in where)), where))
    return result


def merged(parts: Sequence[tuple[Verdict, tuple[int, ...]]]) -> Verdict:
    """The verdict on the whole call, from those on its elements: a result is known where the elements agree on it."""
    verdicts = [verdict for verdict, _ in parts]
    results = tuple(_common(layouts) for layouts in zip(*(verdict.results for verdict in verdicts), strict=True))
    violations = tuple(
        replace(violation, culprits=tuple(where[at] for at in violation.culprits))
        for verdict, where in parts
        for violation in verdict.violations
    )
    mutations = tuple((where[at], layout) for verdict, where in parts for at, layout in verdict.mutations)
    return Verdict(results, violations, mutations)


def _common(layouts: Sequence[Layout]) -> Layout:
    def same(kinds: tuple[AxisType | None, ...]) -> AxisType | None:
        return kinds[0] if len(set(kinds)) == 1 else None

    return tuple(same(kinds) for kinds in zip(*layouts, strict=True))
