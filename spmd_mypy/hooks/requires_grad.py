"""Which tensors are known to need a gradient: parameters, and what the same function computes from them.

Read from the syntax tree.  What only may need one (an argument, the result of a call of other code) does not count.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import (
    AssignmentExpr,
    CallExpr,
    CastExpr,
    ConditionalExpr,
    Expression,
    IndexExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    UnaryExpr,
)
from mypy.types import Instance, get_proper_type

from spmd_mypy import compat
from spmd_mypy.fullnames import BUFFER, PARAMETER, RUNTIME, canonical
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.scopes import Definition, key_of
from spmd_mypy.layout import is_tensor
from spmd_mypy.rules.ops import find

_DEPTH: Final = 40  # bindings and operations that are followed
_ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "@", "**", "%", "//"})
# Results of an operation through which no gradient comes back.
_ENDS: Final = frozenset({"discrete", "integer", "detached", "factory", "unknown"})
_DIFFERENTIABLE: Final = (f"{RUNTIME}.collectives.", f"{RUNTIME}.local.")


class RequiresGrad:
    """Answers whether an expression is known to need a gradient."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    def known(self, api: Any, expression: Expression) -> bool:
        """Whether ``expression`` is computed from a parameter, with gradients on where it is used and all along."""
        return self._needs(api, expression, _DEPTH)

    def _needs(self, api: Any, e: Expression, depth: int) -> bool:
        if depth == 0 or not self.bench.gradients_on(api, e):
            return False
        t = compat.stored_type(api, e)
        t = get_proper_type(t) if t is not None else None
        if isinstance(t, Instance) and t.type.has_base(PARAMETER):
            return not t.type.has_base(BUFFER)
        if t is not None and not is_tensor(t):
            return False
        if isinstance(e, NameExpr):
            return self._name(api, e, depth)
        if isinstance(e, ConditionalExpr):
            return self._needs(api, e.if_expr, depth - 1) and self._needs(api, e.else_expr, depth - 1)
        return any(self._needs(api, operand, depth - 1) for operand in self._operands(e))

    def _name(self, api: Any, e: NameExpr, depth: int) -> bool:
        key = key_of(e)
        if key is None:
            return False
        found, initial = self.bench.scopes.around(api).reaching(key, e.line)
        return bool(found) and not initial and all(self._binding(api, d, depth) for d in found)

    def _binding(self, api: Any, d: Definition, depth: int) -> bool:
        return d.value is not None and not d.part and self._needs(api, d.value, depth - 1)

    def _operands(self, e: Expression) -> list[Expression]:
        """The expressions through which a gradient comes back."""
        if isinstance(e, OpExpr):
            return [e.left, e.right] if e.op in _ARITHMETIC else []
        if isinstance(e, UnaryExpr):
            return [e.expr] if e.op in ("-", "+") else []
        if isinstance(e, IndexExpr):
            return [e.base]
        if isinstance(e, CastExpr):
            return [e.expr]
        if isinstance(e, AssignmentExpr):
            return [e.value]
        if isinstance(e, MemberExpr):
            return [e.expr] if self._differentiable(f"Tensor.{e.name}") else []
        return self._arguments(e) if isinstance(e, CallExpr) else []

    def _arguments(self, e: CallExpr) -> list[Expression]:
        callee = e.callee
        if isinstance(callee, RefExpr) and callee.fullname.startswith(_DIFFERENTIABLE):
            return list(e.args[:1])
        if isinstance(callee, RefExpr) and callee.fullname.startswith("torch."):
            op = canonical(callee.fullname)
            return list(e.args) if self._differentiable(op) else []
        if isinstance(callee, MemberExpr) and self._differentiable(f"Tensor.{callee.name}"):
            return [callee.expr, *e.args]
        return []

    @staticmethod
    def _differentiable(op: str) -> bool:
        operation = find(op)
        return operation is not None and not any(rule.results[0] in _ENDS for rule in operation.rules)
