"""``layers: nn.ModuleList`` beside ``self.layers = nn.ModuleList([Block() for ...])``: a declaration that says no more.

mypy takes a declared attribute for what it declares, ``Module``s.  Where a class assigns the attribute once, and to a
container of modules that it constructs right there, the declaration is taken to say of what.  This is done with the
class's declarations, before anything is checked, so that it holds everywhere and in every way to run mypy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mypy.nodes import (
    AssignmentStmt,
    CallExpr,
    ClassDef,
    Decorator,
    DictExpr,
    Expression,
    FuncDef,
    MemberExpr,
    NameExpr,
    RefExpr,
    StarExpr,
    TypeInfo,
    Var,
)
from mypy.plugin import ClassDefContext
from mypy.types import AnyType, Instance, Type, get_proper_type

from spmd_mypy import compat
from spmd_mypy.fullnames import MODULE
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.containers import CONTAINERS, Containers
from spmd_mypy.hooks.elements import Elements, constructed, each, put_in
from spmd_mypy.hooks.signatures import is_module
from spmd_mypy.tree import statements


class Declared:
    """The hook for classes derived from nn.Module."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def made(self, ctx: ClassDefContext) -> None:
        """A class of modules: look at its containers once their types are analyzed."""
        tree = compat.tree_of(ctx.api)
        info = ctx.cls.info
        if tree is not None and is_module(info) and self.bench.imports_spmd(tree):
            compat.after_functions(ctx.api, info, partial(_fill, ctx.cls))


def _fill(cls: ClassDef) -> None:
    for name, symbol in cls.info.names.items():
        node = symbol.node
        declared = get_proper_type(node.type) if isinstance(node, Var) and node.type is not None else None
        if isinstance(node, Var) and isinstance(declared, Instance) and _holds_anything(declared):
            element = _element(cls, name, declared.type)
            if element is not None:
                node.type = declared.copy_modified(args=[element])


def _holds_anything(container: Instance) -> bool:
    """Whether this is a container of modules that does not say of which."""
    if container.type.fullname not in CONTAINERS or len(container.args) != 1:
        return False
    element = get_proper_type(container.args[0])
    return isinstance(element, AnyType) or (isinstance(element, Instance) and element.type.fullname == MODULE)


def _element(cls: ClassDef, name: str, container: TypeInfo) -> Type | None:
    """What the attribute ``name`` of the class holds; None where that cannot be told."""
    assigned = list(_assignments(cls, name))
    if len(assigned) != 1:
        return None
    function, target, value = assigned[0]
    if not isinstance(value, CallExpr) or not isinstance(value.callee, RefExpr) or value.callee.node is not container:
        return None
    found = Elements()
    for argument in value.args:
        found.extend(_given(argument, function))
    found.extend(put_in(cls.defs, target, removed=False))  # it is the types that count, not the places
    return Containers.common(found.types) if found.known and found.types else None


def _given(argument: Expression, function: FuncDef) -> Elements:
    if isinstance(argument, DictExpr):
        return each([value for _, value in argument.items], function)
    made = argument.callee.node if isinstance(argument, CallExpr) and isinstance(argument.callee, RefExpr) else None
    if isinstance(made, TypeInfo) and is_module(made):  # a stage of nn.Sequential
        return constructed(argument, function)
    return each(argument.expr if isinstance(argument, StarExpr) else argument, function)


def _assignments(cls: ClassDef, name: str) -> Iterator[tuple[FuncDef, MemberExpr, Expression]]:
    """Every assignment to ``self.name`` in the class, with the method that it stands in."""
    for statement in cls.defs.body:
        function = statement.func if isinstance(statement, Decorator) else statement
        if not isinstance(function, FuncDef):
            continue
        for node in statements(function):
            if not isinstance(node, AssignmentStmt):
                continue
            for target in node.lvalues:
                if isinstance(target, MemberExpr) and target.name == name and isinstance(target.expr, NameExpr):
                    yield function, target, node.rvalue
