"""Calls that repeat: one look-up instead of a judgement.

A program has many calls and few different ones.  Where every argument is a plain tensor, a number or another literal,
a key of the arguments' layouts and values says all that the rules look at; the result of a clean call is kept under it.
Everything else (unions, containers, type variables, what a collective still writes to) goes the long way.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import (
    ARG_STAR,
    ARG_STAR2,
    CallExpr,
    FloatExpr,
    IntExpr,
    MemberExpr,
    NameExpr,
    StrExpr,
    TempNode,
    UnaryExpr,
    Var,
)
from mypy.plugin import MethodContext
from mypy.types import AnyType, CallableType, Instance, NoneType, Type, get_proper_type

from spmd_mypy.fullnames import GENERIC_TENSORS, GROUP, SHARD
from spmd_mypy.hooks.arguments import NUMBERS, PLAIN, AnyCall, option, receiver_of
from spmd_mypy.layout import Layouts
from spmd_mypy.rules.call import UNKNOWN

_LITERALS: Final = frozenset({IntExpr, FloatExpr, StrExpr})
_VALUES: Final = NUMBERS | PLAIN
# Stands in keys for a tensor of unknown layout; a known layout stands there as its object's identity.
_UNKNOWN: Final = 0
_UNTYPED: Final = "Any"


class Repeats:
    """Makes keys of calls."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts

    def key(self, op: str, ctx: AnyCall) -> list[Any] | None:
        """What tells this call from others of its operation; None where it has to be looked at in full.

        The first entry says whether any argument's layout is known.
        """
        parts: list[Any] = [False]
        if isinstance(ctx, MethodContext):
            part = self._receiver(op, ctx)
            if part is None:
                return None
            parts[0] = type(part) is int and part != _UNKNOWN
            parts.append(part)
        for at, types in enumerate(ctx.arg_types):
            if types and not self._parameter(op, ctx, at, parts):
                return None
        default = get_proper_type(ctx.default_return_type)
        tensor = isinstance(default, Instance) and default.type.fullname in GENERIC_TENSORS
        parts.append(default.type if tensor else default)  # type: ignore[attr-defined]
        return parts

    def _receiver(self, op: str, ctx: MethodContext) -> object:
        t = ctx.type
        part = self._part(t, None)
        if part is None and isinstance(t, Instance) and t.type.fullname in GENERIC_TENSORS:
            return self._part(t, receiver_of(op, ctx.context))
        return part

    def _parameter(self, op: str, ctx: AnyCall, at: int, parts: list[Any]) -> bool:
        """Add what is given for one parameter; whether all of it could be read."""
        name, keywords, kinds = ctx.callee_arg_names[at], ctx.arg_names[at], ctx.arg_kinds[at]
        for i, (given, expression) in enumerate(zip(ctx.arg_types[at], ctx.args[at], strict=False)):
            if kinds[i] is ARG_STAR or kinds[i] is ARG_STAR2:
                return False
            t = get_proper_type(given)
            if isinstance(t, Instance) and t.type.fullname in _VALUES:
                part = _value(op, ctx, t, expression)
            elif isinstance(t, NoneType):
                part = (None, option(ctx.api, expression))
            else:
                part = self._part(t, expression)
                parts[0] = parts[0] or (type(part) is int and part != _UNKNOWN)
            if part is None:
                return False
            parts.append(name or keywords[i] or at)
            parts.append(part)
        return True

    def _part(self, t: Type, expression: Any) -> object:
        """What stands in the key for a tensor, a class or an untyped value; None for anything else."""
        if isinstance(t, Instance):
            if t.type.fullname not in GENERIC_TENSORS or not t.args:
                return self._other(t, expression)
            argument = t.args[0]
            layout = self.layouts.plain(argument)
            if layout is None:
                return _UNKNOWN if isinstance(argument, AnyType) else None
            # A constant in a variable is what the variable was declared.
            if id(layout) in self.layouts.with_constant and not _undeclared(expression):
                return None
            return id(layout) if layout is not self.layouts.unknown else _UNKNOWN
        if isinstance(t, AnyType):
            return _UNTYPED
        if isinstance(t, CallableType) and t.is_type_obj() and isinstance(t.ret_type, Instance):
            return t.ret_type.type  # a class: TP, R
        return None

    @staticmethod
    def _other(t: Instance, expression: Any) -> object:
        """A group, or ``S(0)``."""
        if t.type.fullname == GROUP:
            return t
        if t.type.fullname == SHARD and isinstance(expression, CallExpr) and len(expression.args) == 1:
            dim = expression.args[0]
            if isinstance(dim, IntExpr):
                return (SHARD, dim.value)
            if isinstance(dim, UnaryExpr) and dim.op == "-" and isinstance(dim.expr, IntExpr):
                return (SHARD, -dim.expr.value)
        return None


def _value(op: str, ctx: AnyCall, t: Instance, expression: Any) -> object:
    """A number's or another literal's class and value; the class, since 1, 1.0 and True are equal."""
    shown = t.type.fullname
    if type(expression) in _LITERALS:
        return (shown, expression.value)
    if type(expression) is TempNode:  # mypy's placeholder for the left side of 2 * x
        left: Any = getattr(ctx.context, "left", None)
        return (shown, left.value) if type(left) in _LITERALS and op.startswith("Tensor.__r") else None
    if shown == "builtins.int" and isinstance(expression, NameExpr | MemberExpr):
        last = t.last_known_value
        return (shown, UNKNOWN if last is None else last.value)
    return (shown, option(ctx.api, expression))


def _undeclared(expression: Any) -> bool:
    """Whether a value is what was inferred, not in a variable that has a declared type."""
    if type(expression) is NameExpr:
        return isinstance(expression.node, Var) and expression.node.is_inferred
    return expression is not None
