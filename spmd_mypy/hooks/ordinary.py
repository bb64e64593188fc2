"""Calls of Python's own functions that have nothing to do with tensors: most of them, f-strings included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mypy.nodes import CallExpr, Expression, GeneratorExpr, MemberExpr, NameExpr
from mypy.types import CallableType, Instance, NoneType, Type, UnionType

from spmd_mypy import compat
from spmd_mypy.hooks.arguments import AnyCall
from spmd_mypy.layout import is_tensor

# Arguments of which Python's own functions make nothing of ours, by class.
ORDINARY: Final = frozenset(f"builtins.{name}" for name in ("str", "int", "float", "bool", "complex", "bytes")) | {
    "pathlib.Path"
}
_ORDINARY_TYPES: Final = (NoneType, CallableType)
_PYTHONS: Final = ("builtins.", "typing.", "collections.", "_collections_abc.")


def is_ordinary(ctx: AnyCall) -> bool:
    """Whether a call is given texts, numbers and the like alone, as most calls of Python's own functions are."""
    for at, types in enumerate(ctx.arg_types):
        for t in types:
            if type(t) is not Instance:
                if type(t) not in _ORDINARY_TYPES:
                    return False
            elif t.type.fullname not in ORDINARY and not _is_other(ctx.api, t, ctx.args[at]):
                return False
    return True


def _is_other(api: Any, t: Instance, expressions: Sequence[Expression]) -> bool:
    """Whether an argument is a container of other things than tensors."""
    if type(expressions[0]) is GeneratorExpr and len(expressions) == 1:
        return _fits_ordinary(compat.stored_type(api, expressions[0].left_expr))
    return all(map(_says_what_it_is, expressions)) and _holds_others(t)


def _fits_ordinary(t: Type | None) -> bool:
    return type(t) is NoneType or (type(t) is Instance and t.type.fullname in ORDINARY)


def _says_what_it_is(expression: Expression) -> bool:
    """Whether the type of an argument is its own: ``sum`` gives a display, and what takes one, the type it asks for."""
    if type(expression) is CallExpr:
        return not expression.args
    return type(expression) is NameExpr or type(expression) is MemberExpr


def _holds_others(t: Type) -> bool:
    """Whether a type is a container, of Python's own, of other things than tensors: ``dict_items[str, int]``."""
    if type(t) is not Instance:
        return type(t) in _ORDINARY_TYPES
    if not t.args:
        return False
    return t.type.fullname.startswith(_PYTHONS) and all([_is_simple(item) or _holds_others(item) for item in t.args])


def _is_simple(t: Type) -> bool:
    """Whether a type is a class that holds nothing to iterate over, as far as a container of it goes."""
    if type(t) is UnionType:
        return all(map(_fits_ordinary, t.items))
    return type(t) is Instance and not t.args and (t.type.fullname in ORDINARY or not is_tensor(t))
