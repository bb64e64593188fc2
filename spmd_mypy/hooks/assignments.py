"""Assignments that give an undeclared attribute, or an element of an undeclared container, another layout.

``self.x = all_reduce(self.x, TP, dst=R)`` is to an attribute what re-assigning a name is to a name.  mypy has no
redefinition of attributes and elements, and complains; where nobody has declared their type, the complaint is dropped
and the new type followed: an attribute has it from there on, a container forgets what it held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mypy.nodes import Expression, IndexExpr, MemberExpr, NameExpr, Var
from mypy.types import Type

from spmd_mypy import compat
from spmd_mypy.hooks.attributes import attribute
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.hooks.variables import Change, Variables
from spmd_mypy.layout import unknown_type

if TYPE_CHECKING:
    from spmd_mypy.hooks.base import Workbench


def refilled(bench: Workbench, api: Any, error: Any) -> None:
    """Give the attribute whose assignment mypy's ``error`` is about the type of what is assigned."""
    for target, value in bench.scopes.around(api).stores if api is not None else ():
        new = compat.stored_type(api, value)
        if (value.line, value.column) == (error.line, error.column) and new is not None:
            compat.assigned(api, target, new)


def follow(bench: Workbench, api: Any, error: Any) -> bool:
    """Whether mypy's ``error`` is about such an assignment; then its target has its new type."""
    if api is None:
        return False
    for target, value in bench.scopes.around(api).stores:
        if (value.line, value.column) == (error.line, error.column) and _undeclared(api, target):
            new = compat.stored_type(api, value)
            return new is not None and _retype(Variables(bench), api, target, new)
    return False


def _undeclared(api: Any, target: Expression) -> bool:
    """Whether nobody has declared the type of the attribute, or of the container whose element this is."""
    if isinstance(target, IndexExpr):
        return _undeclared(api, target.base)
    if isinstance(target, NameExpr):
        node = target.node
        return isinstance(node, Var) and node.is_inferred and not getattr(node, "is_argument", False)
    found = attribute(api, target) if isinstance(target, MemberExpr) else None
    return found is not None and found.declared is False


def _retype(variables: Variables, api: Any, target: Expression, new: Type) -> bool:
    if not isinstance(target, IndexExpr):
        return compat.assigned(api, target, new)
    slots = variables.layouts.slots(new) or [unknown_type()] * variables.layouts.size
    variables.retype(api, target.base, _forgetting_what_differs(slots))
    return key_of(target) is None or compat.retype(api, target, new)


def _forgetting_what_differs(new: Sequence[Type]) -> Change:
    """The change that leaves a container's elements unknown where one of them now is something else."""

    def change(slots: Sequence[Type]) -> Sequence[Type]:
        return [old if old == other else unknown_type() for old, other in zip(slots, new, strict=True)]

    return change
