"""Where gradients are off: ``with torch.no_grad():``, ``@torch.inference_mode()`` and the like, by line."""

from __future__ import annotations

from typing import Final

from mypy.nodes import Block, CallExpr, Decorator, Expression, IntExpr, MypyFile, NameExpr, RefExpr, WithStmt
from mypy.traverser import TraverserVisitor

_OFF: Final = ("no_grad", "inference_mode")
_ON: Final = ("enable_grad",)
_SET: Final = ("set_grad_enabled", "inference_mode")


def _mode(expression: Expression) -> bool | None:
    """What a context manager or decorator does to gradients: True on, False off, None neither."""
    arguments: list[Expression] = []
    if isinstance(expression, CallExpr):
        expression, arguments = expression.callee, expression.args
    if not isinstance(expression, RefExpr):
        return None
    name = expression.name if isinstance(expression, NameExpr) else getattr(expression, "name", "")
    if arguments and name in _SET:
        argument = arguments[0]
        value = isinstance(argument, NameExpr) and argument.name == "True"
        if not isinstance(argument, NameExpr | IntExpr) or getattr(argument, "name", "") not in ("True", "False"):
            return None
        return value if name == "set_grad_enabled" else not value
    if name in _OFF:
        return False
    return True if name in _ON else None


class _Finder(TraverserVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int, bool]] = []

    def _add(self, mode: bool | None, body: Block) -> None:
        if mode is not None and body.body:
            last = body.body[-1]
            self.ranges.append((body.body[0].line, last.end_line or last.line, mode))

    def visit_with_stmt(self, node: WithStmt, /) -> None:
        for expression in node.expr:
            self._add(_mode(expression), node.body)
        super().visit_with_stmt(node)

    def visit_decorator(self, node: Decorator, /) -> None:
        for expression in node.original_decorators:
            self._add(_mode(expression), node.func.body)
        super().visit_decorator(node)


class GradMode:
    """Answers whether gradients flow at a line of the module being checked; keeps one module's answer."""

    def __init__(self) -> None:
        self._tree: MypyFile | None = None
        self._defs: object = None  # the daemon puts an edited file's definitions into the old tree
        self._ranges: list[tuple[int, int, bool]] = []

    def enabled(self, tree: MypyFile | None, line: int) -> bool:
        """Whether gradients are on at ``line``: what the innermost block around it says."""
        if tree is None:
            return True
        if tree is not self._tree or tree.defs is not self._defs:
            finder = _Finder()
            tree.accept(finder)
            self._tree, self._defs, self._ranges = tree, tree.defs, finder.ranges
        mode, width = True, 1 << 60
        for start, end, value in self._ranges:
            if start <= line <= end and end - start <= width:
                mode, width = value, end - start
        return mode
