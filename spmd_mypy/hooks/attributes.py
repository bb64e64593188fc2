"""Who has declared an attribute: its class's body, an annotated assignment to ``self.x``, or nobody."""

from __future__ import annotations

from typing import Any

from mypy.nodes import AssignmentStmt, MemberExpr, NameExpr, TypeInfo, Var
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
    """Whether the class's body annotates ``name``, or a method of it ``self.name``.

    mypy calls the fields of a dataclass implicit, too.
    """
    annotated = [n for n in walk(info.defn) if isinstance(n, AssignmentStmt) and n.unanalyzed_type is not None]
    body = info.defn.defs.body
    return any(
        isinstance(target, NameExpr if node in body else MemberExpr)
        and isinstance(target, NameExpr | MemberExpr)
        and target.name == name
        for node in annotated
        for target in node.lvalues
    )
