"""Rules about gradients: what a loss may be, what a parameter's gradient is."""

from __future__ import annotations

from collections.abc import Collection

from spmd_mypy.rules.call import Violation
from spmd_mypy.rules.kinds import Layout, dual


def judge_loss(layout: Layout, reduced: Collection[int], *, culprit: int = 0) -> tuple[Violation, ...]:
    """Whether ``backward()`` may start from a loss of this layout.

    ``reduced`` are the axes (by index) in ``grad_reduced``.  Every rank starts its backward with gradient 1.  That is
    the gradient of one loss where it is I, and of the summed loss where it is P (the dual of P is R).  A V loss is each
    rank's own: right where a wrapper averages the gradients afterwards.  An R loss would count the same loss once per
    rank.
    """
    violations = []
    for axis, kind in enumerate(layout):
        if kind is None or kind.letter in ("I", "P") or kind.constant:
            continue
        if kind.letter == "V" and axis in reduced:
            continue
        violations.append(Violation("loss", axis, (culprit,)))
    return tuple(violations)


def gradient(layout: Layout, reduced: Collection[int], *, parameter: bool) -> Layout:
    """The layout of ``.grad``: dual, and for a parameter unknown on the axes whose gradients a wrapper reduces."""
    return tuple(None if parameter and axis in reduced else dual(kind) for axis, kind in enumerate(layout))


def judge_parameter(layout: Layout, reduced: Collection[int]) -> tuple[Violation, ...]:
    """Whether a parameter may be declared like this: R only where somebody sums its Partial gradient."""
    return tuple(
        Violation("grad", axis, ())
        for axis, kind in enumerate(layout)
        if kind is not None and kind.letter == "R" and not kind.constant and axis not in reduced
    )
