"""Who has declared an attribute: its class's body, an annotated assignment to ``self.x``, or nobody."""

from __future__ import annotations

from typing import Any

from mypy.nodes import AssignmentStmt, MemberExpr, TypeInfo, Var
from mypy.types import Instance, Type, get_proper_type

from spmd_mypy import compat
from spmd_mypy.tree import walk


class Attribute:
    """An attribute of an instance, as an expression names it.

    ``declared`` is None where that cannot be told: mypy keeps no annotations of ``self.x`` in its cache, so that
    it is only read off a class of the module that is being checked.
    """

    def __init__(self, node: Var, declared: bool | None) -> None:
        self.node = node
        self.declared = declared


def attribute(api: Any, e: MemberExpr) -> Attribute | None:
    """The attribute that ``e`` names, or None where it names none that is a plain variable."""
    owner: Type | None = compat.stored_type(api, e.expr)
    owner = get_proper_type(owner) if owner is not None else None
    symbol = owner.type.get(e.name) if isinstance(owner, Instance) else None
    if symbol is None or not isinstance(symbol.node, Var) or symbol.node.is_property:
        return None
    node = symbol.node
    if not symbol.implicit:
        return Attribute(node, not node.is_inferred)
    tree = compat.current_file(api)
    here = tree is not None and node.info.module_name == tree.fullname
    return Attribute(node, _annotated(node.info, e.name) if here else None)


def _annotated(info: TypeInfo, name: str) -> bool:
    """Whether a method of the class annotates ``self.name``."""
    return any(
        isinstance(node, AssignmentStmt)
        and node.unanalyzed_type is not None
        and any(isinstance(target, MemberExpr) and target.name == name for target in node.lvalues)
        for node in walk(info.defn)
    )
