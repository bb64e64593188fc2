"""Walking over statements.  mypy's own visitors are compiled and cannot be subclassed from here."""

from __future__ import annotations

from collections.abc import Iterator

from mypy.nodes import FuncDef, Node

# Where statements and blocks hang below a statement.
_CHILDREN = ("body", "defs", "func", "else_body", "finally_body", "handlers", "bodies", "items")


def statements(root: Node) -> Iterator[Node]:
    """Every statement at or below ``root`` in the order of the source, those of nested functions included."""
    todo: list[Node] = [root]
    while todo:
        node = todo.pop()
        yield node
        inside: list[Node] = []
        for name in _CHILDREN:
            child = getattr(node, name, None)
            if isinstance(child, Node):
                inside.append(child)
            elif isinstance(child, list):
                inside.extend(item for item in child if isinstance(item, Node))
        todo.extend(reversed(inside))


def functions(root: Node) -> Iterator[FuncDef]:
    """Every function at or below ``root``."""
    return (node for node in statements(root) if isinstance(node, FuncDef))
