"""Walking mypy's syntax trees: what lies right inside a node, in the order in which it runs.

mypy's own visitors are compiled so that plugins cannot subclass them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mypy import nodes as n
from mypy import patterns as p

# Attributes that hold nodes, lists of nodes or lists of tuples of nodes.
_FIELDS: Final[dict[type, tuple[str, ...]]] = {
    # statements
    n.Block: ("body",),
    n.MypyFile: ("defs",),
    n.ExpressionStmt: ("expr",),
    n.AssignmentStmt: ("rvalue", "lvalues"),
    n.OperatorAssignmentStmt: ("rvalue", "lvalue"),
    n.WhileStmt: ("expr", "body", "else_body"),
    n.ForStmt: ("expr", "index", "body", "else_body"),
    n.ReturnStmt: ("expr",),
    n.AssertStmt: ("expr", "msg"),
    n.DelStmt: ("expr",),
    n.IfStmt: ("expr", "body", "else_body"),
    n.RaiseStmt: ("expr", "from_expr"),
    n.TryStmt: ("body", "types", "vars", "handlers", "else_body", "finally_body"),
    n.WithStmt: ("expr", "target", "body"),
    n.MatchStmt: ("subject", "patterns", "guards", "bodies"),
    n.FuncDef: ("arguments", "body"),
    n.OverloadedFuncDef: ("items", "impl"),
    n.Decorator: ("decorators", "func"),
    n.ClassDef: ("decorators", "base_type_exprs", "defs"),
    n.Argument: ("initializer",),
    # expressions
    n.StarExpr: ("expr",),
    n.MemberExpr: ("expr",),
    n.CallExpr: ("callee", "args"),
    n.YieldFromExpr: ("expr",),
    n.YieldExpr: ("expr",),
    n.IndexExpr: ("base", "index"),
    n.UnaryExpr: ("expr",),
    n.AssignmentExpr: ("value", "target"),
    n.OpExpr: ("left", "right"),
    n.ComparisonExpr: ("operands",),
    n.SliceExpr: ("begin_index", "end_index", "stride"),
    n.CastExpr: ("expr",),
    n.AssertTypeExpr: ("expr",),
    n.RevealExpr: ("expr",),
    n.SuperExpr: ("call",),
    n.LambdaExpr: ("arguments", "body"),
    n.ListExpr: ("items",),
    n.DictExpr: ("items",),
    n.TupleExpr: ("items",),
    n.SetExpr: ("items",),
    n.GeneratorExpr: ("sequences", "indices", "condlists", "left_expr"),
    n.ListComprehension: ("generator",),
    n.SetComprehension: ("generator",),
    n.DictionaryComprehension: ("sequences", "indices", "condlists", "key", "value"),
    n.ConditionalExpr: ("cond", "if_expr", "else_expr"),
    n.TypeApplication: ("expr",),
    n.AwaitExpr: ("expr",),
    # patterns
    p.AsPattern: ("pattern", "name"),
    p.OrPattern: ("patterns",),
    p.ValuePattern: ("expr",),
    p.SequencePattern: ("patterns",),
    p.StarredPattern: ("capture",),
    p.MappingPattern: ("keys", "values", "rest"),
    p.ClassPattern: ("positionals", "keyword_values"),
}


# Where statements and blocks lie inside others; all other statements hold none.
_INSIDE: Final[dict[type, tuple[str, ...]]] = {
    n.Block: ("body",), n.ClassDef: ("defs",), n.FuncDef: ("body",), n.Decorator: ("func",),
    n.OverloadedFuncDef: ("items",), n.IfStmt: ("body", "else_body"), n.ForStmt: ("body", "else_body"),
    n.WhileStmt: ("body", "else_body"), n.WithStmt: ("body",),
    n.TryStmt: ("body", "handlers", "else_body", "finally_body"), n.MatchStmt: ("bodies",),
}  # fmt: skip


def has_statements(node: n.Node) -> bool:
    """Whether statements may lie inside ``node``."""
    return type(node) in _INSIDE


def blocks(statement: n.Node) -> Iterator[n.Node]:
    """The statements and blocks right inside a statement."""
    for name in _INSIDE.get(type(statement), ()):
        inner = getattr(statement, name)
        if isinstance(inner, list):
            yield from inner
        elif inner is not None:
            yield inner


def statements(node: n.Node) -> Iterator[n.Node]:
    """The statements inside ``node``, however deep, in the order in which they are written; no expressions."""
    for inside in blocks(node):
        if type(inside) is not n.Block:
            yield inside
        if type(inside) in _INSIDE:
            yield from statements(inside)


def _nodes(value: object) -> Iterator[n.Node]:
    if isinstance(value, n.Node):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _nodes(item)


def children(node: n.Node) -> Iterator[n.Node]:
    """The nodes right inside ``node``; none for kinds of nodes that hold no code."""
    for name in _FIELDS.get(type(node), ()):
        yield from _nodes(getattr(node, name, None))


_KEPT: Final = 8


class _Walked(NamedTuple):
    """What lies in a function or block; with the body that it had, for the daemon puts others."""

    node: n.Node
    body: object
    nodes: list[n.Node]


_walked: dict[int, _Walked] = {}  # those asked for last


def walk(node: n.Node) -> Iterator[n.Node]:
    """``node`` and everything inside it, parents first; functions and blocks are asked for again and again."""
    if not isinstance(node, n.FuncDef | n.Block):
        return _walk(node)
    return iter(_walk_once(node).nodes)


def _walk_once(node: n.FuncDef | n.Block) -> _Walked:
    body = node.body
    known = _walked.get(id(node))
    if known is None or known.node is not node or known.body is not body:
        if len(_walked) >= _KEPT:
            _walked.clear()
        known = _walked[id(node)] = _Walked(node, body, list(_walk(node)))
    return known


def _walk(node: n.Node) -> Iterator[n.Node]:
    todo = [node]
    while todo:
        found = todo.pop()
        yield found
        fields = _FIELDS.get(type(found))
        if fields is not None:
            inside: list[n.Node] = []
            for name in fields:
                value = getattr(found, name, None)
                if isinstance(value, n.Node):
                    inside.append(value)
                elif value:
                    inside.extend(_nodes(value))
            todo.extend(inside[::-1])
