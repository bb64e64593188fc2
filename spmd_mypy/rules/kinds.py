"""What a tensor is on one mesh axis, as values.

An :class:`AxisType` is one of R, I, V, P, S(i) or one of the two constants; ``None`` stands for unknown.
A :data:`Layout` holds one per configured mesh axis, in the configuration's order.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

Letter: TypeAlias = Literal["R", "I", "V", "P"]


class AxisType(NamedTuple):
    """The type of a tensor on one axis.

    ``dim`` is the cut tensor dim of a Shard (then ``letter`` is "V").  ``constant``
    marks a value that is equal on all ranks and carries no gradient (then
    ``letter`` is "R"); ``factory`` one that is fresh, so that it may also be
    declared V or P.
    """

    letter: Letter
    dim: int | None = None
    constant: bool = False
    factory: bool = False

    def __str__(self) -> str:
        return self.letter if self.dim is None else f"S({self.dim})"


Layout: TypeAlias = tuple["AxisType | None", ...]

R: Final = AxisType("R")
I: Final = AxisType("I")
V: Final = AxisType("V")
P: Final = AxisType("P")
CONSTANT: Final = AxisType("R", constant=True)
FACTORY: Final = AxisType("R", constant=True, factory=True)

BY_LETTER: Final = {"R": R, "I": I, "V": V, "P": P}


def shard(dim: int) -> AxisType:
    """``S(dim)``."""
    return AxisType("V", dim)


def parse(text: str) -> AxisType:
    """Read ``"R"``, ``"P"``, ``"S(0)"``; raises ValueError for anything else."""
    if text in BY_LETTER:
        return BY_LETTER[text]
    if text.startswith("S(") and text.endswith(")"):
        return shard(int(text[2:-1]))
    raise ValueError(f"not an SPMD type: {text!r}")


def dual(kind: AxisType | None) -> AxisType | None:
    """The type of the gradient: R and P swap, the others are their own duals.

    A constant has no gradient; its dual is unknown.
    """
    if kind is None or kind.constant:
        return None
    if kind.letter == "R":
        return P
    if kind.letter == "P":
        return R
    return kind
