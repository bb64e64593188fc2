"""Tensors that are zero for sure: a sum may leave them out, so that ``acc = torch.zeros(8); acc = acc + p`` is fine.

To a sum of summands a fresh tensor is a term that every rank adds; zeros add nothing.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import CallExpr, Expression, FloatExpr, IntExpr, MemberExpr, NameExpr, RefExpr

from spmd_mypy import compat
from spmd_mypy.fullnames import canonical
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.scopes import Key, key_of

_ZEROS: Final = frozenset({"torch.zeros", "torch.zeros_like"})
_FILLED: Final = {"torch.tensor": 0, "torch.full": 1, "torch.full_like": 1}
_METHODS: Final = frozenset({"new_zeros"})
# Methods that leave zeros zeros.
_KEEPING: Final = frozenset({"to", "float", "double", "half", "bfloat16", "cuda", "cpu", "view", "reshape", "clone"})


def zeros(bench: Workbench, api: Any, expression: Expression | None, seen: frozenset[Key] = frozenset()) -> bool:
    """Whether a fresh tensor, or a number, is zero: by the call that makes it; through a name, by all that may make it.

    What is not constant and written into a fresh tensor makes it another type, so that it is not asked about any more.
    """
    if isinstance(expression, IntExpr | FloatExpr):
        return expression.value == 0
    if isinstance(expression, CallExpr):
        return _made(bench, api, expression, seen)
    key = key_of(expression) if isinstance(expression, NameExpr) else None
    if key is None or expression is None or key in seen:
        return False
    scope = bench.scopes.around(api)
    found, from_before = scope.reaching(key, expression.line)
    made = [d.value for d in found if not _something_else(bench, api, d.value)]
    if from_before or not made or not all(zeros(bench, api, value, seen | {key}) for value in made):
        return False
    return all(any(_something_else(bench, api, value) for value in values) for values in scope.written(key))


def _made(bench: Workbench, api: Any, call: CallExpr, seen: frozenset[Key]) -> bool:
    callee = call.callee
    name = canonical(callee.fullname) if isinstance(callee, RefExpr) else ""
    if name in _FILLED:
        at = _FILLED[name]
        value = call.args[at] if at < len(call.args) else None
        return isinstance(value, IntExpr | FloatExpr) and value.value == 0
    if isinstance(callee, MemberExpr) and not name:
        return callee.name in _METHODS or (callee.name in _KEEPING and zeros(bench, api, callee.expr, seen))
    return name in _ZEROS


def _something_else(bench: Workbench, api: Any, value: Expression | None) -> bool:
    """Whether a value is a tensor, and not a fresh one: then it is not what is asked about."""
    t = compat.stored_type(api, value) if value is not None else None
    layout = bench.layouts.read(t) if t is not None else None
    return t is None or (layout is not None and not any(kind is not None and kind.constant for kind in layout))
