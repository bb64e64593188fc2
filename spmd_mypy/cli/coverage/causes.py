"""Where an unknown type comes from: the first place on the way at which it was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mypy.nodes import (
    AssignmentExpr,
    AwaitExpr,
    CallExpr,
    CastExpr,
    ComparisonExpr,
    ConditionalExpr,
    Decorator,
    Expression,
    FuncDef,
    IndexExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    OverloadedFuncDef,
    RefExpr,
    UnaryExpr,
    Var,
)

from spmd_mypy.cli.coverage.collect import Collected, known_axes, tensors
from spmd_mypy.cli.coverage.walk import File

Counts = Callable[[tuple[bool, ...]], bool]


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why a type is not known: a line, and what to do something about there."""

    line: int
    text: str


class Causes:
    """Finds the cause for each unknown expression of one file; ``counts`` says which known axes are enough."""

    def __init__(self, file: File, collected: Collected, counts: Counts) -> None:
        self.file, self.collected, self.counts = file, collected, counts
        self._found: dict[Expression, Cause] = {}
        self._asked: set[Expression] = set()

    def of(self, e: Expression) -> Cause:
        """The cause for ``e``."""
        found = self._found.get(e)
        if found is None:
            if e in self._asked:
                return Cause(e.line, f"{_name(e)} is given a tensor of unknown type in a loop")
            self._asked.add(e)
            found = self._found[e] = self._look(e)
        return found

    # ---- helpers

    def _unknown(self, e: Expression) -> bool:
        members = tensors(self.collected.types.get(e))
        return bool(members) and not self.counts(known_axes(self.collected.config, members))

    def _blamed(self, parts: Iterator[Expression]) -> Cause | None:
        """The cause for the first part that is itself unknown."""
        unknown = next((part for part in parts if self._unknown(part)), None)
        return self.of(unknown) if unknown is not None else None

    # ---- by kind of expression

    def _look(self, e: Expression) -> Cause:
        if isinstance(e, NameExpr):
            return self._variable(e)
        if isinstance(e, MemberExpr):
            return self._attribute(e)
        if e.line in self.file.errors:
            return Cause(e.line, "an error is reported here: what follows is unknown")
        if isinstance(e, CallExpr):
            return self._call(e)
        return self._blamed(_operands(e)) or Cause(e.line, f"the type of {_name(e)} is lost")

    def _variable(self, e: NameExpr) -> Cause:
        node = e.node
        if node in self.file.arguments:
            owner = self.file.arguments[node]
            return Cause(owner.line, f"parameter {e.name} of {owner.name} is declared without its type")
        if isinstance(node, Var) and not node.is_inferred and node.type is not None:
            return Cause(max(node.line, 1), f"{e.name} is declared without its type")
        values = self.file.bindings.get(node, []) if node is not None else []
        return self._blamed(iter(values)) or self._given(e, values)

    def _given(self, e: NameExpr, values: list[Expression]) -> Cause:
        for value in values:
            if isinstance(value, CallExpr) and not tensors(self.collected.types.get(value)):
                return self.of(value)
        return Cause(values[0].line if values else e.line, f"{e.name} is given a tensor of unknown type")

    def _attribute(self, e: MemberExpr) -> Cause:
        if tensors(self.collected.types.get(e.expr)):
            return self._blamed(iter([e.expr])) or Cause(e.line, f"the type is lost at .{e.name}")
        node = e.node
        owner = node.info.name if isinstance(node, Var) and node.info else ""
        shown = f"{owner}.{e.name}" if owner else f"attribute {e.name}"
        return Cause(e.line, f"{shown} is declared without its type")

    def _call(self, e: CallExpr) -> Cause:
        function = e.callee.node if isinstance(e.callee, RefExpr) else None
        receiver = [e.callee.expr] if isinstance(e.callee, MemberExpr) else []
        fullname = e.callee.fullname if isinstance(e.callee, RefExpr) else ""
        own = isinstance(function, FuncDef | Decorator | OverloadedFuncDef) and not fullname.startswith("torch.")
        name = _name(e.callee)
        if own and tensors(self.collected.types.get(e)):
            return Cause(e.line, f"{name}() returns a tensor without its type")
        if not tensors(self.collected.types.get(e)):
            return Cause(e.line, f"{name}() gives Any")
        return self._blamed(iter([*receiver, *e.args])) or Cause(e.line, f"{name}() gives a tensor of unknown type")


def _operands(e: Expression) -> Iterator[Expression]:
    if isinstance(e, OpExpr):
        yield from (e.left, e.right)
    elif isinstance(e, UnaryExpr | AwaitExpr | CastExpr):
        yield e.expr
    elif isinstance(e, ComparisonExpr):
        yield from e.operands
    elif isinstance(e, IndexExpr):
        yield e.base
    elif isinstance(e, ConditionalExpr):
        yield from (e.if_expr, e.else_expr)
    elif isinstance(e, AssignmentExpr):
        yield e.value


def _name(e: Expression) -> str:
    """A short name for an expression in a sentence."""
    if isinstance(e, NameExpr):
        return e.name
    if isinstance(e, MemberExpr):
        inner = _name(e.expr) if isinstance(e.expr, NameExpr | MemberExpr) else ""
        return f"{inner}.{e.name}" if inner else e.name
    if isinstance(e, CallExpr):
        return f"{_name(e.callee)}()"
    if isinstance(e, IndexExpr):
        return f"{_name(e.base)}[...]"
    if isinstance(e, OpExpr):
        return f"an operator {e.op}"
    return "this expression"
