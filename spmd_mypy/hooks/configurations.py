"""Conditions on flags of the chosen configuration, taken the way that the configuration decides.

``spmd_mypy.flags`` has mypy decide ``if self.config.sequence_parallel:``.  Here is the rest: flags that are numbers or
strings and are compared, conditional expressions, ``match`` on a flag, asserts that cannot hold.  The syntax tree is
marked before mypy checks it, the way that mypy marks code for other platforms: nothing is reported about what is not
run.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from mypy import nodes as n
from mypy import patterns as p
from mypy.plugin import ClassDefContext

from spmd_mypy import compat
from spmd_mypy.tree import walk

UNDECIDED: Final = object()
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "is": operator.is_, "is not": operator.is_not,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b,
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod,
}  # fmt: skip
_UNARY: Final[Mapping[str, Callable[[Any], Any]]] = {"not": operator.not_, "-": operator.neg}
_NAMED: Final = {"True": True, "False": False, "None": None}
_LEAVING: Final = (n.ReturnStmt, n.RaiseStmt, n.ContinueStmt, n.BreakStmt)
_MOST_TREES: Final = 16

ClassHook: TypeAlias = Callable[[ClassDefContext], None]


class Flags:
    """The values of flags, by name or by the end of a dotted name (``"config.mode"``)."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._last = {name.rpartition(".")[2] for name in values}
        # The trees marked last; marking one twice does nothing, so that it may fall out.
        self._marked: deque[n.MypyFile] = deque(maxlen=_MOST_TREES)

    def __bool__(self) -> bool:
        return bool(self._values)

    def on_class(self, hook: ClassHook | None) -> ClassHook:
        """A hook on a class definition that first marks the module it stands in."""

        def marked(ctx: ClassDefContext) -> None:
            self.mark(compat.tree_of(ctx.api))
            if hook is not None:
                hook(ctx)

        return marked

    # ---- marking

    def mark(self, tree: n.MypyFile | None) -> None:
        """Mark what the flags make unreachable in a module."""
        if tree is None or any(tree is other for other in self._marked):
            return
        self._marked.append(tree)
        try:
            for node in walk(tree):
                handler = _MARKED.get(type(node))
                if handler is not None:
                    handler(self, tree, node)
        except Exception:
            compat.report_failure()

    def _if(self, tree: n.MypyFile, s: n.IfStmt) -> None:
        for at, condition in enumerate(s.expr):
            truth = self.truth(condition)
            if truth is None:
                continue
            if not truth:
                compat.make_unreachable(tree, s.body[at])
                continue
            s.else_body = s.else_body or n.Block([])
            for block in [*s.body[at + 1 :], s.else_body]:
                compat.make_unreachable(tree, block)
            return

    def _while(self, tree: n.MypyFile, s: n.WhileStmt) -> None:
        if self.truth(s.expr) is False:
            compat.make_unreachable(tree, s.body)

    def _block(self, tree: n.MypyFile, block: n.Block) -> None:
        """What follows an assert that cannot hold, or a branch that is taken and leaves, is not run."""
        for at, s in enumerate(block.body):
            if not self._leaves(s):
                continue
            rest = n.Block(block.body[at + 1 :])
            rest.set_line(block.body[-1])
            rest.line = s.line + 1
            compat.make_unreachable(tree, rest)
            # After an assert mypy has to be told; after a branch that leaves it knows, and would report the rest.
            block.body[at + 1 :] = [rest] if isinstance(s, n.AssertStmt) else []
            return

    def _leaves(self, s: n.Statement) -> bool:
        """Whether the flags alone say that what follows a statement is not run."""
        if isinstance(s, n.AssertStmt):
            return self.truth(s.expr) is False
        taken = self._taken(s) if isinstance(s, n.IfStmt) else None
        return taken is not None and any(isinstance(last, _LEAVING) or self._leaves(last) for last in taken.body[-1:])

    def _taken(self, s: n.IfStmt) -> n.Block | None:
        """The branch that is taken; None where that cannot be told."""
        for condition, block in zip(s.expr, s.body, strict=True):
            truth = self.truth(condition)
            if truth is not False:
                return block if truth else None
        return s.else_body

    def _either(self, tree: n.MypyFile, e: n.ConditionalExpr) -> None:
        """Of ``a if flag else b`` one branch remains, in both places: the condition itself is still checked."""
        truth = self.truth(e.cond)
        if truth:
            e.else_expr = e.if_expr
        elif truth is False:
            e.if_expr = e.else_expr

    def _and_or(self, tree: n.MypyFile, e: n.OpExpr) -> None:
        truth = self.truth(e.left) if e.op in ("and", "or") else None
        if truth is not None:
            used = truth is (e.op == "and")
            e.right_always, e.right_unreachable = used, not used

    def _match(self, tree: n.MypyFile, s: n.MatchStmt) -> None:
        subject = self.value(s.subject)
        if subject is UNDECIDED:
            return
        for at, (pattern, guard) in enumerate(zip(s.patterns, s.guards, strict=True)):
            fits = self._fits(pattern, subject)
            if fits is False:
                compat.make_unreachable(tree, s.bodies[at])
            elif fits and guard is None:
                if not isinstance(pattern, p.AsPattern):
                    s.patterns[at] = p.AsPattern(None, None)  # mypy then knows that no case is left
                for block in s.bodies[at + 1 :]:
                    compat.make_unreachable(tree, block)
                return

    def _fits(self, pattern: p.Pattern, subject: object) -> bool | None:
        """Whether a pattern matches a value; None where that cannot be told."""
        if isinstance(pattern, p.AsPattern):
            return True if pattern.pattern is None else self._fits(pattern.pattern, subject)
        if isinstance(pattern, p.OrPattern):
            parts = [self._fits(part, subject) for part in pattern.patterns]
            return True if True in parts else None if None in parts else False
        if isinstance(pattern, p.SingletonPattern):
            return subject is pattern.value
        value = self.value(pattern.expr) if isinstance(pattern, p.ValuePattern) else UNDECIDED
        return None if value is UNDECIDED else value == subject

    # ---- values

    def truth(self, e: n.Expression) -> bool | None:
        """Whether a condition holds under the configuration; None where the flags do not say."""
        if isinstance(e, n.UnaryExpr) and e.op == "not":
            inner = self.truth(e.expr)
            return None if inner is None else not inner
        if isinstance(e, n.OpExpr) and e.op in ("and", "or"):
            parts, stops = (self.truth(e.left), self.truth(e.right)), e.op == "or"
            return stops if stops in parts else None if None in parts else not stops
        value = self.value(e)
        return None if value is UNDECIDED else bool(value)

    def value(self, e: n.Expression) -> Any:
        """What an expression gives under the configuration; ``UNDECIDED`` where the flags do not say."""
        reader = _VALUES.get(type(e))
        return UNDECIDED if reader is None else reader(self, e)

    def _name(self, e: n.NameExpr) -> Any:
        return _NAMED[e.name] if e.name in _NAMED else self._flag(e)

    def _flag(self, e: n.NameExpr | n.MemberExpr) -> Any:
        if e.name not in self._last:
            return UNDECIDED
        parts = [e.name]
        inner: n.Expression = e
        while isinstance(inner, n.MemberExpr):
            inner = inner.expr
            if isinstance(inner, n.NameExpr | n.MemberExpr):
                parts.append(inner.name)
        return self._named(".".join(reversed(parts)))

    def _named(self, text: str) -> Any:
        while text:
            if text in self._values:
                return self._values[text]
            text = text.partition(".")[2]
        return UNDECIDED

    def _unary(self, e: n.UnaryExpr) -> Any:
        value = self.value(e.expr)
        return UNDECIDED if value is UNDECIDED or e.op not in _UNARY else _computed(_UNARY[e.op], value)

    def _operator(self, e: n.OpExpr) -> Any:
        left, right = self.value(e.left), self.value(e.right)
        if left is UNDECIDED:
            return UNDECIDED
        if e.op in ("and", "or"):
            return left if bool(left) is (e.op == "or") else right
        if right is UNDECIDED or e.op not in _OPERATORS:
            return UNDECIDED
        return _computed(_OPERATORS[e.op], left, right)

    def _comparison(self, e: n.ComparisonExpr) -> Any:
        values = [self.value(operand) for operand in e.operands]
        if any(value is UNDECIDED for value in values):
            return UNDECIDED
        results = [_computed(_OPERATORS[op], a, b) for op, a, b in zip(e.operators, values, values[1:], strict=False)]
        return UNDECIDED if UNDECIDED in results else all(results)

    def _display(self, e: n.TupleExpr | n.ListExpr | n.SetExpr) -> Any:
        values = tuple(self.value(item) for item in e.items)
        return UNDECIDED if any(value is UNDECIDED for value in values) else values

    def _call(self, e: n.CallExpr) -> Any:
        """``getattr(config, "flag", default)`` and ``bool(flag)``."""
        name = e.callee.name if isinstance(e.callee, n.NameExpr) else ""
        if name == "getattr" and len(e.args) > 1 and isinstance(e.args[1], n.StrExpr):
            return self._named(e.args[1].value)
        if name == "bool" and len(e.args) == 1:
            value = self.value(e.args[0])
            return value if value is UNDECIDED else bool(value)
        return UNDECIDED


def _computed(function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except (TypeError, ZeroDivisionError):
        return UNDECIDED


_VALUES: Final[dict[type, Callable[[Flags, Any], Any]]] = {
    n.NameExpr: Flags._name,
    n.MemberExpr: Flags._flag,
    n.IntExpr: lambda _, e: e.value,
    n.StrExpr: lambda _, e: e.value,
    n.FloatExpr: lambda _, e: e.value,
    n.UnaryExpr: Flags._unary,
    n.OpExpr: Flags._operator,
    n.ComparisonExpr: Flags._comparison,
    n.TupleExpr: Flags._display,
    n.ListExpr: Flags._display,
    n.SetExpr: Flags._display,
    n.CallExpr: Flags._call,
}
_MARKED: Final[dict[type, Callable[[Flags, n.MypyFile, Any], None]]] = {
    n.IfStmt: Flags._if,
    n.WhileStmt: Flags._while,
    n.Block: Flags._block,
    n.ConditionalExpr: Flags._either,
    n.OpExpr: Flags._and_or,
    n.MatchStmt: Flags._match,
}
