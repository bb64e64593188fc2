"""Walk the syntax tree of a module: its expressions, what variables are given, functions that mypy does not look into.

mypy's own visitors are compiled and take no subclasses from outside, hence the table of what lies below what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from mypy.nodes import (
    AssignmentExpr,
    AssignmentStmt,
    CallExpr,
    DictionaryComprehension,
    Expression,
    ExpressionStmt,
    ForStmt,
    FuncDef,
    FuncItem,
    GeneratorExpr,
    IndexExpr,
    ListExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    StarExpr,
    TupleExpr,
    WithStmt,
)

# What lies below a node, in the order in which it is read.  Targets of assignments and loops are left out.
_BELOW: Final[dict[str, tuple[str, ...]]] = {
    "MypyFile": ("defs",), "Block": ("body",), "ClassDef": ("defs",), "OverloadedFuncDef": ("items",),
    "Decorator": ("decorators", "func"), "AssignmentStmt": ("rvalue",),
    "OperatorAssignmentStmt": ("lvalue", "rvalue"), "ExpressionStmt": ("expr",),
    "WhileStmt": ("expr", "body", "else_body"), "ForStmt": ("expr", "body", "else_body"), "ReturnStmt": ("expr",),
    "AssertStmt": ("expr", "msg"), "DelStmt": ("expr",), "IfStmt": ("expr", "body", "else_body"),
    "RaiseStmt": ("expr", "from_expr"), "TryStmt": ("body", "handlers", "else_body", "finally_body"),
    "WithStmt": ("expr", "body"), "MatchStmt": ("subject", "guards", "bodies"), "StarExpr": ("expr",),
    "MemberExpr": ("expr",), "CallExpr": ("callee", "args"), "YieldFromExpr": ("expr",), "YieldExpr": ("expr",),
    "AwaitExpr": ("expr",), "IndexExpr": ("base", "index"), "UnaryExpr": ("expr",), "AssignmentExpr": ("value",),
    "OpExpr": ("left", "right"), "ComparisonExpr": ("operands",),
    "SliceExpr": ("begin_index", "end_index", "stride"), "CastExpr": ("expr",), "AssertTypeExpr": ("expr",),
    "RevealExpr": ("expr",), "ListExpr": ("items",), "DictExpr": ("items",), "TupleExpr": ("items",),
    "SetExpr": ("items",), "GeneratorExpr": ("sequences", "condlists", "left_expr"),
    "ListComprehension": ("generator",), "SetComprehension": ("generator",),
    "DictionaryComprehension": ("sequences", "condlists", "key", "value"),
    "ConditionalExpr": ("cond", "if_expr", "else_expr"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seen:
    """One tensor expression: on which axes its type is known."""

    expression: Expression
    known: tuple[bool, ...]


@dataclass
class File:
    """What was found in one file.

    ``expressions`` are all that might be tensors, ``statements`` those whose value nobody uses, ``seen`` the tensors.
    ``bindings`` has, per variable, the expressions that it was given; ``unchecked`` the functions that mypy does not
    look into, with their lines; ``errors`` the lines with an error of the plugin's.
    """

    path: str
    module: str = ""
    expressions: list[Expression] = field(default_factory=list)
    statements: set[Expression] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)
    bindings: dict[Node, list[Expression]] = field(default_factory=dict)
    arguments: dict[Node, FuncItem] = field(default_factory=dict)
    unchecked: list[tuple[str, int]] = field(default_factory=list)
    errors: frozenset[int] = frozenset()


def walk(tree: MypyFile, *, check_untyped: bool) -> File:
    """Collect a module; functions without annotations are left out unless ``check_untyped``."""
    file = File(tree.path, tree.fullname)
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, list | tuple):
            todo.extend(reversed(node))
        elif isinstance(node, FuncItem):
            todo.extend(_function(file, node, check_untyped))
        elif isinstance(node, Node):
            _note(file, node)
            todo.extend(reversed([getattr(node, name) for name in _BELOW.get(type(node).__name__, ())]))
    return file


def _function(file: File, function: FuncItem, check_untyped: bool) -> Iterator[Node]:
    if isinstance(function, FuncDef) and function.is_dynamic() and not check_untyped:
        file.unchecked.append((function.name, function.line))
        return
    for argument in function.arguments:
        file.arguments[argument.variable] = function
        if argument.initializer is not None:
            yield argument.initializer
    yield function.body


def _note(file: File, node: Node) -> None:
    if isinstance(node, ExpressionStmt):
        file.statements.add(node.expr)
    elif isinstance(node, Expression) and _counts(node):
        file.expressions.append(node)
    for target, value in _bound(node):
        _bind(file, target, value)


def _counts(e: Expression) -> bool:
    """Whether ``e`` is a value; ``List[int]`` and ``TypeVar(...)`` are none, though they look like it."""
    if isinstance(e, CallExpr | IndexExpr):
        return e.analyzed is None
    return not isinstance(e, GeneratorExpr | StarExpr)


def _bound(node: Node) -> Iterable[tuple[Expression, Expression]]:
    """Targets and what they are given."""
    if isinstance(node, AssignmentStmt):
        return [(target, node.rvalue) for target in node.lvalues]
    if isinstance(node, AssignmentExpr):
        return [(node.target, node.value)]
    if isinstance(node, ForStmt):
        return [(node.index, node.expr)]
    if isinstance(node, GeneratorExpr | DictionaryComprehension):
        return list(zip(node.indices, node.sequences, strict=True))
    if isinstance(node, WithStmt):
        return [(t, e) for t, e in zip(node.target, node.expr, strict=True) if t is not None]
    return []


def _bind(file: File, target: Expression, value: Expression) -> None:
    if isinstance(target, NameExpr):
        if target.node is not None:
            file.bindings.setdefault(target.node, []).append(value)
    elif isinstance(target, TupleExpr | ListExpr):
        whole = not (isinstance(value, TupleExpr | ListExpr) and len(value.items) == len(target.items))
        values = [value] * len(target.items) if whole else value.items  # type: ignore[attr-defined]
        for inner, part in zip(target.items, values, strict=True):
            _bind(file, inner, part)
    elif isinstance(target, StarExpr):
        _bind(file, target.expr, value)
    elif isinstance(target, MemberExpr | IndexExpr):  # ``x[0] = v`` reads x
        base = target.expr if isinstance(target, MemberExpr) else target.base
        for node in _chain(base):
            file.expressions.append(node)


def _chain(e: Expression) -> Iterator[Expression]:
    """``self.a`` of ``self.a[0] = v``: the expression and what it is an attribute or an item of."""
    while True:
        yield e
        if isinstance(e, MemberExpr):
            e = e.expr
        elif isinstance(e, IndexExpr):
            e = e.base
        else:
            return
