"""What a list or tuple that is written in an argument's place holds.

mypy infers ``list(parts)`` or ``[x] * 3`` in the context of the parameter, a sequence of tensors without layouts, and
with that the elements lose theirs.  They are read off the expression instead.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
    DictionaryComprehension,
    Expression,
    GeneratorExpr,
    ListComprehension,
    ListExpr,
    OpExpr,
    RefExpr,
    StarExpr,
    TupleExpr,
)
from mypy.typeops import make_simplified_union
from mypy.types import CallableType, Type, get_proper_type

from spmd_mypy import compat

_REBUILDING: Final = frozenset(
    f"builtins.{name}" for name in ("list", "tuple", "sorted", "set", "reversed", "iter", "frozenset")
)


def comprehended(expression: Expression) -> Expression | None:
    """The expression that a comprehension or generator evaluates for each element."""
    if isinstance(expression, ListComprehension):
        expression = expression.generator
    if isinstance(expression, GeneratorExpr):
        return expression.left_expr
    return expression.value if isinstance(expression, DictionaryComprehension) else None


def element_type(api: Any, expression: Expression) -> Type | None:
    """The type of the elements of ``list(parts)``, ``[x] * 3``, ``map(f, parts)``, ``a if c else b``; else None."""
    if isinstance(expression, ConditionalExpr):
        return _union([_elements(api, expression.if_expr), _elements(api, expression.else_expr)])
    if isinstance(expression, OpExpr) and expression.op == "*":
        return _elements(api, expression.left)
    if not isinstance(expression, CallExpr) or not isinstance(expression.callee, RefExpr) or not expression.args:
        return None
    name = expression.callee.fullname
    if name in _REBUILDING:
        return _elements(api, expression.args[0])
    if name == "builtins.filter" and len(expression.args) == 2:
        return _elements(api, expression.args[1])
    if name == "builtins.map":
        function = compat.stored_type(api, expression.args[0])
        function = get_proper_type(function) if function is not None else None
        return function.ret_type if isinstance(function, CallableType) else None
    return None


def _elements(api: Any, expression: Expression) -> Type | None:
    """The type of the elements of any iterable, written or named."""
    if (element := comprehended(expression)) is not None:
        return compat.stored_type(api, element)
    if isinstance(expression, ListExpr | TupleExpr):
        return _union(
            [
                _elements(api, item.expr) if isinstance(item, StarExpr) else compat.stored_type(api, item)
                for item in expression.items
            ]
        )
    found = element_type(api, expression)
    if found is not None:
        return found
    iterable = compat.stored_type(api, expression)
    return compat.iterated(api, iterable) if iterable is not None else None


def _union(types: list[Type | None]) -> Type | None:
    known = [t for t in types if t is not None]
    return make_simplified_union(known) if known and len(known) == len(types) else None
