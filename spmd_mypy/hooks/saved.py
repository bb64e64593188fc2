"""``ctx.saved_tensors`` in an autograd.Function: what ``ctx.save_for_backward`` was given.

``ctx`` is Any in most code.  In ``backward`` it becomes an instance of ``spmd_runtime.typed.FunctionContext``: still
anything, but for ``saved_tensors``, which is the tuple of what was saved, as far as that can be read in ``forward`` (or
``setup_context``): its parameters, and None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy.nodes import (
    ARG_STAR,
    AssignmentStmt,
    CallExpr,
    Decorator,
    Expression,
    ExpressionStmt,
    FuncDef,
    MemberExpr,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    TupleExpr,
    TypeInfo,
)
from mypy.types import AnyType, CallableType, Instance, NoneType, TupleType, Type, get_proper_type

from spmd_mypy.fullnames import RUNTIME
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.signatures import sets_up_context
from spmd_mypy.layout import unknown_type
from spmd_mypy.tree import walk

_CONTEXT: Final = f"{RUNTIME}.typed.FunctionContext"


class SavedTensors:
    """Types ``backward``'s ``ctx``."""

    def __init__(self, bench: Workbench) -> None:
        self.layouts = bench.layouts

    def declare(self, info: TypeInfo, forward: CallableType) -> None:
        """Give ``ctx`` of ``backward`` and ``jvp``, where it is Any, the types of what ``forward`` saves.

        The type before analysis changes with it: the daemon starts from that one when it looks at the function anew.
        """
        saved = self._saved(info, forward)
        context = self.layouts.info(_CONTEXT)
        if saved is None or context is None:
            return
        new = Instance(context, [saved])
        for name in ("backward", "jvp"):
            function = _function(info, name)
            if function is None or not isinstance(function.type, CallableType) or not function.type.arg_types:
                continue
            first = get_proper_type(function.type.arg_types[0])
            if isinstance(first, AnyType) or (isinstance(first, Instance) and first.type is context):
                function.type = _with_first(function.type, new)
                if isinstance(function.unanalyzed_type, CallableType):
                    function.unanalyzed_type = _with_first(function.unanalyzed_type, new)

    def _saved(self, info: TypeInfo, forward: CallableType) -> TupleType | None:
        function = _function(info, "setup_context" if sets_up_context(info) else "forward")
        if function is None or not function.arg_names:
            return None
        known = _unpacked(function, forward) if sets_up_context(info) else _unchanged(function, forward)
        calls = list(_saves(function))
        tuple_info = self.layouts.info("builtins.tuple")
        if len(calls) != 1 or ARG_STAR in calls[0].arg_kinds or tuple_info is None:
            return None
        items: list[Type] = []
        for argument in calls[0].args:
            name = argument.name if isinstance(argument, NameExpr) else ""
            items.append(NoneType() if name == "None" else known.get(name, self.layouts.tensor(unknown_type())))
        return TupleType(items, Instance(tuple_info, [unknown_type()]))


def _function(info: TypeInfo, name: str) -> FuncDef | None:
    node: Node | None = info.names[name].node if name in info.names else None
    node = node.func if isinstance(node, Decorator) else node
    return node if isinstance(node, FuncDef) else None


def _with_first(t: CallableType, first: Type) -> CallableType:
    return t.copy_modified(arg_types=[first, *t.arg_types[1:]])


def _saves(function: FuncDef) -> Iterator[CallExpr]:
    """The calls ``ctx.save_for_backward(...)``."""
    for node in walk(function):
        call = node.expr if isinstance(node, ExpressionStmt) else None
        if isinstance(call, CallExpr) and isinstance(call.callee, MemberExpr):
            receiver = call.callee.expr
            if call.callee.name == "save_for_backward" and isinstance(receiver, NameExpr):
                yield call


def _targets(lvalue: Expression) -> Iterator[str]:
    if isinstance(lvalue, NameExpr):
        yield lvalue.name
    elif isinstance(lvalue, TupleExpr):
        for item in lvalue.items:
            yield from _targets(item)


def _assigned(function: FuncDef) -> set[str]:
    """The names that a function assigns."""
    found: set[str] = set()
    for node in walk(function):
        if isinstance(node, AssignmentStmt):
            found.update(name for lvalue in node.lvalues for name in _targets(lvalue))
        elif isinstance(node, OperatorAssignmentStmt):
            found.update(_targets(node.lvalue))
    return found


def _unchanged(function: FuncDef, forward: CallableType) -> dict[str, Type]:
    """The parameters of ``forward`` that it does not assign, with their types."""
    assigned = _assigned(function)
    return {
        name: t
        for name, t, kind in zip(forward.arg_names, forward.arg_types, forward.arg_kinds, strict=True)
        if name is not None and name not in assigned and kind != ARG_STAR
    }


def _unpacked(function: FuncDef, forward: CallableType) -> dict[str, Type]:
    """The names in ``setup_context(ctx, inputs, output)`` that stand for what ``forward`` takes and gives."""
    names = [*function.arg_names, None, None, None]
    known: dict[str, Type] = {}
    output = get_proper_type(forward.ret_type)
    for given, types in ((names[1], forward.arg_types), (names[2], getattr(output, "items", []))):
        for node in walk(function):
            if isinstance(node, AssignmentStmt) and isinstance(node.rvalue, NameExpr) and node.rvalue.name == given:
                lvalue = node.lvalues[0]
                if isinstance(lvalue, TupleExpr) and len(lvalue.items) == len(types):
                    pairs = zip(lvalue.items, types, strict=True)
                    known.update({item.name: t for item, t in pairs if isinstance(item, NameExpr)})
    if names[2] is not None and names[2] not in _assigned(function) and not isinstance(output, TupleType):
        known[names[2]] = output
    return known
