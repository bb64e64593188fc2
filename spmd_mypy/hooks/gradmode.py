"""Where gradients are off: ``with torch.no_grad():``, ``@torch.inference_mode()`` and the like, by line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Final

from mypy.nodes import (
    Block,
    CallExpr,
    ClassDef,
    Context,
    Decorator,
    Expression,
    FuncDef,
    IntExpr,
    MypyFile,
    NameExpr,
    Node,
    RefExpr,
    WithStmt,
)

from spmd_mypy.hooks.signatures import AUTOGRAD_METHODS, is_function
from spmd_mypy.source import text_of
from spmd_mypy.tree import blocks, has_statements

_OFF: Final = ("no_grad", "inference_mode")
_ON: Final = ("enable_grad",)
_NAMES: Final = ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled", "Function")
_SET: Final = ("set_grad_enabled", "inference_mode")


def _mode(expression: Expression) -> bool | None:
    """What a context manager or decorator does to gradients: True on, False off, None neither."""
    arguments: list[Expression] = []
    if isinstance(expression, CallExpr):
        arguments = expression.args
        expression = expression.callee
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


def _methods(definition: ClassDef) -> Iterator[FuncDef]:
    """The methods of an autograd function that autograd calls outside its graph."""
    for node in definition.defs.body:
        function = node.func if isinstance(node, Decorator) else node
        if isinstance(function, FuncDef) and function.name in AUTOGRAD_METHODS:
            yield function


def _ranges(tree: MypyFile, mentions: Sequence[int]) -> list[tuple[int, int, bool]]:
    """First line, last line and mode of every block that switches gradients on or off; ``mentions`` are lines of names.

    Statements without such a line are not looked into.
    """
    found: list[tuple[int, int, bool]] = []

    def add(expressions: Sequence[Expression], body: Block) -> None:
        for expression in expressions:
            mode = _mode(expression)
            if mode is not None and body.body:
                last = body.body[-1]
                found.append((body.body[0].line, last.end_line or last.line, mode))

    todo: list[Node] = [s for s in tree.defs if _spans(s, mentions) or _is_function(s)]
    while todo:
        statement = todo.pop()
        if isinstance(statement, WithStmt):
            add(statement.expr, statement.body)
        elif isinstance(statement, Decorator):
            add(statement.original_decorators, statement.func.body)
        elif isinstance(statement, ClassDef) and _is_function(statement):
            bodies = [function.body.body for function in _methods(statement)]
            found.extend((body[0].line, body[-1].end_line or body[-1].line, False) for body in bodies if body)
        for node in blocks(statement):
            if has_statements(node) and (type(node) is Block or _spans(node, mentions)):
                todo.append(node)
    return found


def _is_function(statement: Node) -> bool:
    """Whether a statement defines an autograd function, whatever its base is called."""
    return isinstance(statement, ClassDef) and bool(statement.info) and is_function(statement.info)


def _spans(node: Node, lines: Sequence[int]) -> bool:
    """Whether one of the lines, which are in order, is the node's."""
    at = bisect_left(lines, node.line)
    return at < len(lines) and (node.end_line is None or lines[at] <= node.end_line)


def _mentions(path: str) -> list[int]:
    """The lines, in order, on which a module's text has any of the names: most have none, and a search beats a walk."""
    text = text_of(path) or ""
    found: list[int] = []
    for name in _NAMES:
        at = text.find(name)
        while at >= 0:
            found.append(text.count("\n", 0, at) + 1)
            at = text.find(name, at + 1)
    return sorted(found)


class GradMode:
    """Answers whether gradients flow at a line of the module being checked; keeps one module's answer."""

    def __init__(self) -> None:
        self._tree: MypyFile | None = None
        self._defs: object = None  # the daemon puts an edited file's definitions into the old tree
        self._ranges: list[tuple[int, int, bool]] = []

    def enabled(self, api: Any, context: Context) -> bool:
        """Whether gradients are on where ``context`` stands: what the innermost block around it says."""
        tree: MypyFile | None = getattr(api, "tree", None)
        if tree is None:
            return True
        if tree is not self._tree or tree.defs is not self._defs:
            self._tree, self._defs = tree, tree.defs
            mentions = _mentions(tree.path)
            self._ranges = _ranges(tree, mentions) if mentions else []
        if not self._ranges:  # as in most modules
            return True
        mode, width, line = True, 1 << 60, context.line
        for start, end, value in self._ranges:
            if start <= line <= end and end - start <= width:
                mode, width = value, end - start
        return mode
