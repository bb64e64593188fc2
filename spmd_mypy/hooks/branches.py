"""Which branch makes a variable what it is: words for errors about one member of a union."""

from __future__ import annotations

from typing import Any

from mypy.nodes import Expression
from mypy.types import UnionType, get_proper_type

from spmd_mypy import compat, flow_messages
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.rules.kinds import AxisType


def note(bench: Workbench, api: Any, expression: Expression | None, axis: int, kind: AxisType) -> str:
    """Where a union has members of other kinds on ``axis``: words that say from which line it is ``kind``; else "".

    ``expression`` is the operand that an error complains of, ``kind`` what it is on the axis in the member at fault.
    """
    whole = compat.stored_type(api, expression) if expression is not None else None
    whole = get_proper_type(whole) if whole is not None else None
    if expression is None or not isinstance(whole, UnionType):
        return ""
    members = [bench.layouts.read(item) for item in whole.items]
    kinds = {layout[axis] for layout in members if layout is not None}
    if len(kinds) < 2:
        return ""
    here: list[int] = []
    others: list[tuple[int, AxisType]] = []
    key = key_of(expression)
    found = bench.scopes.around(api).reaching(key, expression.line)[0] if key is not None else []
    for d in sorted(found, key=lambda d: d.line):
        t = compat.stored_type(api, d.value) if d.value is not None and not d.part else None
        layout = bench.layouts.read(t) if t is not None else None
        got = layout[axis] if layout is not None else None
        if got == kind:
            here.append(d.line)
        elif got is not None:
            others.append((d.line, got))
    name = bench.text(api, expression, "it")
    return flow_messages.branch(name, kind, here, others)
