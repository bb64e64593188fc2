"""The inference on one axis: from the operands' types and roles to the result's type.

An operation is an expression of roles over its parameters, such as
``linear(product(input, weight), bias)``.  Each role is a small function from the
operands' types to a type; what it does not accept is a :class:`Clash`.  The
rules follow from what the types denote: R and I stand for their value, P for the
sum of its summands, V for the list of its values; and from the duals that the
gradients have (R and P swap).

=========== ==================================================================
linear      linear in all operands together (a sum): all P, or none
product     linear in each operand by itself: at most one P
nonlinear   no P
divisor     as nonlinear, where the operand is divided by
random      as nonlinear; numbers are drawn
escape      as nonlinear; the value leaves the tensor world
loss        a backward starts here: no R, which would count the loss once per rank
index       selects or masks, gets no gradient: R and I go with anything; no P
shape       only its shape is used
=========== ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from spmd_mypy.rules.kinds import CONSTANT, FACTORY, AxisType, I, P, R, V

# A role and what it is applied to: positions of operands, or expressions.
Node: TypeAlias = "tuple[str, tuple[int | Node, ...]]"
# The type of an operand and the position of the argument that it comes from.
Operand: TypeAlias = "tuple[AxisType | None, int]"

# The literal 0, which a sum may leave out; any other Python number is CONSTANT.
ZERO: Final = AxisType("R", None, True, True)


class Clash(Exception):
    """Operands that a role does not accept: the reason's key, and the positions of the culprits, the worst first."""

    def __init__(self, reason: str, *culprits: int) -> None:
        super().__init__(reason, culprits)
        self.reason = reason
        self.culprits = culprits


def _partials(operands: Sequence[Operand]) -> list[int]:
    return [at for kind, at in operands if kind is not None and kind.letter == "P"]


def join(operands: Sequence[Operand]) -> AxisType | None:
    """The type of a value computed from operands none of which is P.

    All R gives R, all I gives I, R with V gives V; I goes with nothing else, since its gradient would differ
    between the ranks.  Constants go with everything.  Unknown with anything is unknown.
    """
    first: dict[str, int] = {}
    unknown = False
    for kind, at in operands:
        if kind is None:
            unknown = True
        else:
            first.setdefault("C" if kind.constant else kind.letter, at)
    if "I" in first:
        for letter in ("V", "R"):
            if letter in first:
                raise Clash("mix", first["I"], first[letter])
    if unknown:
        return None
    for letter, kind in (("V", V), ("I", I), ("R", R)):
        if letter in first:
            return kind
    return CONSTANT


def _beside_partial(partial: int, kind: AxisType | None, at: int) -> None:
    """What may never stand beside a P, whatever the operation."""
    if kind is not None and not kind.constant:
        if kind.letter == "I":
            raise Clash("mix", at, partial)
        if kind.letter == "V":
            raise Clash("varying", partial, at)


def _linear(operands: Sequence[Operand]) -> AxisType | None:
    """A sum: every operand is P, or none is; a term that each rank adds would be summed once per rank."""
    operands = [operand for operand in operands if operand[0] is not ZERO]
    if not operands:
        return ZERO
    partials = _partials(operands)
    if not partials:
        return join(operands)
    for kind, at in operands:
        _beside_partial(partials[0], kind, at)
    for kind, at in operands:
        if kind is not None and kind.letter == "R":
            raise Clash("affine", partials[0], at)
    return P if len(partials) == len(operands) else None


def _product(operands: Sequence[Operand]) -> AxisType | None:
    """A product: one factor may be P, the others are then R or constant."""
    partials = _partials(operands)
    if not partials:
        return join(operands)
    for kind, at in operands:
        _beside_partial(partials[0], kind, at)
    if len(partials) > 1:
        raise Clash("product", *partials)
    return None if any(kind is None for kind, _ in operands) else P


def _without_partial(reason: str) -> Callable[[Sequence[Operand]], AxisType | None]:
    def rule(operands: Sequence[Operand]) -> AxisType | None:
        partials = _partials(operands)
        if partials:
            for kind, at in operands:
                _beside_partial(partials[0], kind, at)
            raise Clash(reason, *partials)
        return join(operands)

    return rule


def _escape(operands: Sequence[Operand]) -> AxisType | None:
    """Values that are read: each by itself, so nothing mixes."""
    partials = _partials(operands)
    if partials:
        raise Clash("escape", *partials)
    return None


def _index(operands: Sequence[Operand]) -> AxisType | None:
    """An index gets no gradient, so an equal one is a constant."""
    for kind, at in operands:
        if kind is not None and kind.letter == "P":
            raise Clash("index", at)
    return join([(without_gradient(kind), at) for kind, at in operands])


def _loss(operands: Sequence[Operand]) -> AxisType | None:
    for kind, at in operands:
        if kind is not None and kind.letter == "R" and not kind.constant:
            raise Clash("loss", at)
    return None


def _shape(operands: Sequence[Operand]) -> AxisType | None:
    return ZERO


ROLES: Final[dict[str, Callable[[Sequence[Operand]], AxisType | None]]] = {
    "linear": _linear,
    "product": _product,
    "nonlinear": _without_partial("nonlinear"),
    "divisor": _without_partial("divisor"),
    "random": _without_partial("random"),
    "escape": _escape,
    "index": _index,
    "loss": _loss,
    "shape": _shape,
}


def without_gradient(kind: AxisType | None) -> AxisType | None:
    """The type of the same value where no gradient can reach it: R and I become constant."""
    if kind is None or kind.constant or kind.letter in ("V", "P"):
        return kind
    return CONSTANT


def evaluate(node: Node, kinds: Sequence[AxisType | None]) -> tuple[AxisType | None, int]:
    """The type of an expression of roles, given the types of the operands by position, and the first position in it.

    Raises Clash where a role does not accept what it gets.
    """
    role, items = node
    operands: list[Operand] = []
    for item in items:
        operands.append((kinds[item], item) if isinstance(item, int) else evaluate(item, kinds))
    return ROLES[role](operands), operands[0][1] if operands else -1


def fits(target: AxisType | None, new: AxisType | None) -> bool:
    """Whether a tensor of type ``target`` keeps its type when values of type ``new`` are written to it.

    Unknown and constant targets take the new type instead (see ``operations``).
    """
    if target is None or target.constant or new is None:
        return True
    if new is ZERO or new == FACTORY or target.letter == new.letter and not new.constant:
        return True
    if new.constant:
        return target.letter != "P"
    return target.letter == "V" and new.letter == "R"
