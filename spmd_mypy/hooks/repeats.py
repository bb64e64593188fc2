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
    TupleExpr,
    UnaryExpr,
    Var,
)
from mypy.plugin import MethodContext
from mypy.types import AnyType, CallableType, Instance, NoneType, TupleType, Type, get_proper_type

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
        known = False
        if isinstance(ctx, MethodContext):
            part: object = self._mark(ctx.type) or self._receiver(op, ctx)
            if part is None:
                return None
            known = type(part) is int and part != _UNKNOWN
            parts.append(part)
        kinds, expressions, names = ctx.arg_kinds, ctx.args, ctx.callee_arg_names
        for at, types in enumerate(ctx.arg_types):
            if not types:  # as for most parameters of torch's functions
                continue
            for i, given in enumerate(types):
                kind = kinds[at][i]
                if kind is ARG_STAR or kind is ARG_STAR2:
                    return None
                part = self._mark(given) or self._part(op, ctx, given, expressions[at][i])
                if part is None:
                    return None
                if type(part) is int and part != _UNKNOWN:
                    known = True
                parts += (names[at] or ctx.arg_names[at][i] or at, part)
        parts[0] = known
        default = get_proper_type(ctx.default_return_type)
        tensor = isinstance(default, Instance) and default.type.fullname in GENERIC_TENSORS
        parts.append(default.type if tensor else default)  # type: ignore[attr-defined]
        return parts

    def _mark(self, t: Type) -> int | None:
        """What stands in the key for most tensors, found without a look at their slots."""
        if type(t) is Instance and t.args and t.type.fullname in GENERIC_TENSORS:
            return self.layouts.marks.get(id(t.args[0]))
        return None

    def _receiver(self, op: str, ctx: MethodContext) -> object:
        t = ctx.type
        if not isinstance(t, Instance) or t.type.fullname not in GENERIC_TENSORS:
            return _UNTYPED if isinstance(t, AnyType) else None
        part = self._tensor(t, None)
        return part if part is not None else self._tensor(t, receiver_of(op, ctx.context))

    def _part(self, op: str, ctx: AnyCall, given: Type, expression: Any) -> object:
        """What stands in the key for one argument; None where it cannot be told from others so briefly."""
        t = given if type(given) is Instance else get_proper_type(given)
        if isinstance(t, Instance):
            name = t.type.fullname
            if name in _VALUES:
                # The class, too, since 1, 1.0 and True are equal.
                return (name, expression.value) if type(expression) in _LITERALS else _value(op, ctx, t, expression)
            return self._tensor(t, expression) if name in GENERIC_TENSORS else self._other(t, expression)
        if isinstance(t, AnyType):
            return _UNTYPED
        if isinstance(t, NoneType):
            return (None, option(ctx.api, expression))
        if isinstance(t, TupleType) and type(expression) is TupleExpr:
            return self._numbers(op, ctx, t, expression)
        if isinstance(t, CallableType) and t.is_type_obj() and isinstance(t.ret_type, Instance):
            return t.ret_type.type  # a class: TP, R
        return None

    def _numbers(self, op: str, ctx: AnyCall, t: TupleType, expression: TupleExpr) -> object:
        """What stands in the key for a display of numbers, such as the shape in ``torch.empty((n, 2))``."""
        if len(t.items) != len(expression.items):
            return None
        for item in t.items:
            if type(item) is not Instance or item.type.fullname not in NUMBERS:
                return None
        return tuple([self._part(op, ctx, *pair) for pair in zip(t.items, expression.items, strict=True)])

    def _tensor(self, t: Instance, expression: Any) -> object:
        """What stands in the key for a tensor: its layout's identity."""
        if not t.args:
            return None
        argument = t.args[0]
        layout = self.layouts.plain(argument)
        if layout is None:
            return _UNKNOWN if isinstance(argument, AnyType) else None
        # A constant in a variable is what the variable was declared.
        if id(layout) in self.layouts.with_constant and not _undeclared(expression):
            return None
        return id(layout) if layout is not self.layouts.unknown else _UNKNOWN

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
    """The class and the value of what is not written as a literal."""
    shown = t.type.fullname
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
