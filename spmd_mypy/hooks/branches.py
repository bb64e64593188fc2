"""Which branch makes a variable what it is: words for errors about one member of a union."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mypy.nodes import Expression, MemberExpr, NameExpr
from mypy.types import UnionType, get_proper_type

from spmd_mypy import compat, flow_messages
from spmd_mypy.hooks.scopes import Definition, key_of
from spmd_mypy.rules.kinds import AxisType

if TYPE_CHECKING:
    from spmd_mypy.hooks.base import Workbench


def note(bench: Workbench, api: Any, expression: Expression | None, axis: int, kind: AxisType) -> str:
    """Where a union has members of other kinds on ``axis``: words that say from which line it is ``kind``; else "".

    ``expression`` is the operand that an error complains of, ``kind`` what it is on the axis in the member at fault.
    """
    whole = compat.stored_type(api, expression) if expression is not None else None
    whole = get_proper_type(whole) if whole is not None else None
    if expression is None or not isinstance(whole, UnionType):
        return ""
    members = [bench.layouts.read(item) for item in whole.items]
    if len({layout[axis] for layout in members if layout is not None}) < 2:
        return ""
    key = key_of(expression)
    found = bench.scopes.around(api).reaching(key, expression.line)[0] if key is not None else []
    return _words(bench, api, bench.text(api, expression, "it"), axis, kind, found)


def by_name(bench: Workbench, api: Any, name: str, line: int, axis: int, kind: AxisType) -> str:
    """The same for a variable that is known by its name only, a union already."""
    if api is None:
        return ""
    scope = bench.scopes.around(api)
    key = next((d.key for d in scope.definitions if _name(d.target) == name), None)
    found = scope.reaching(key, line)[0] if key is not None else []
    return _words(bench, api, name, axis, kind, found)


def _name(target: Expression) -> str:
    if isinstance(target, MemberExpr):
        return f"{_name(target.expr)}.{target.name}"
    return target.name if isinstance(target, NameExpr) else ""


def _words(bench: Workbench, api: Any, name: str, axis: int, kind: AxisType, found: Sequence[Definition]) -> str:
    here: list[int] = []
    others: list[tuple[int, AxisType]] = []
    for d in sorted(found, key=lambda d: d.line):
        t = compat.stored_type(api, d.value) if d.value is not None and not d.part else None
        layout = bench.layouts.read(t) if t is not None else None
        got = layout[axis] if layout is not None else None
        if got == kind:
            here.append(d.line)
        elif got is not None:
            others.append((d.line, got))
    return flow_messages.branch(name, kind, here, others)
