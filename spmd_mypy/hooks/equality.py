"""Which constants are known to be equal on all ranks of an axis.

A constant may hold Python numbers (``torch.tensor(len(batch)) * 2``), which each rank may have counted for itself; to
sum those is what a collective is for.  So a raw collective on a constant is an error only where the function shows that
the value comes from tensors of type R or I, or from an earlier collective.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import (
    CallExpr,
    ComparisonExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    StrExpr,
    UnaryExpr,
)
from mypy.types import get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.layout import is_tensor

_DEPTH: Final = 20  # bindings and operations that are followed
_LITERALS: Final = (IntExpr, FloatExpr, StrExpr)


class Equality:
    """Answers whether an expression is known to have one value on all ranks."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def known(self, api: Any, expression: Expression | None, axis: int) -> bool:
        """Whether ``expression`` comes from R, I or an earlier collective, and from nothing that ranks count."""
        return expression is not None and self._equal(api, expression, axis, _DEPTH)

    def _equal(self, api: Any, e: Expression, axis: int, depth: int) -> bool:
        if depth == 0:
            return False
        if self._reduced(api, e):
            return True
        t = compat.stored_type(api, e)
        layout = self.bench.layouts.read(t) if t is not None and is_tensor(t) else None
        kind = layout[axis] if layout is not None else None
        if kind is None or kind.letter not in ("R", "I") or kind.factory:
            return False
        if not kind.constant:
            return True
        return self._bindings_equal(api, e, axis, depth) if isinstance(e, NameExpr) else self._made(api, e, axis, depth)

    def _reduced(self, api: Any, e: Expression) -> bool:
        key = key_of(e)
        return key is not None and self.bench.scopes.around(api).reduced(key, e.line)

    def _bindings_equal(self, api: Any, e: NameExpr, axis: int, depth: int) -> bool:
        key = key_of(e)
        found, initial = self.bench.scopes.around(api).reaching(key, e.line) if key is not None else ([], True)
        # A part of a tensor that is equal everywhere is, too: ``total, count = stats``.
        values = [
            d.value if not d.part or (d.value is not None and self._tensor(api, d.value)) else None for d in found
        ]
        return not initial and all(v is not None and self._equal(api, v, axis, depth - 1) for v in values)

    def _made(self, api: Any, e: Expression, axis: int, depth: int) -> bool:
        """Whether the value of an operation is made of equal tensors and of literals only."""
        operands = _operands(e)
        tensors = [o for o in operands if self._tensor(api, o)]
        return bool(tensors) and all(
            self._equal(api, o, axis, depth - 1) if o in tensors else _fixed(o) for o in operands
        )

    @staticmethod
    def _tensor(api: Any, e: Expression) -> bool:
        t = compat.stored_type(api, e)
        return t is not None and is_tensor(get_proper_type(t))


def _operands(e: Expression) -> list[Expression]:
    """The expressions whose values the value of ``e`` is made of."""
    if isinstance(e, OpExpr):
        return [e.left, e.right]
    if isinstance(e, ComparisonExpr):
        return e.operands
    if isinstance(e, CallExpr):
        receiver = [e.callee.expr] if isinstance(e.callee, MemberExpr) and not e.callee.fullname else []
        return [*receiver, *e.args]
    if isinstance(e, IndexExpr):
        return [e.base, e.index]
    return [e.expr] if isinstance(e, UnaryExpr | MemberExpr) else []


def _fixed(e: Expression) -> bool:
    """Whether an argument is a literal or names a dtype: the same on every rank."""
    if isinstance(e, UnaryExpr):
        return _fixed(e.expr)
    return isinstance(e, _LITERALS) or (isinstance(e, RefExpr) and e.fullname.startswith(("torch.", "builtins.")))
