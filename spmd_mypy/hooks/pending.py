"""Collectives that are still under way.

A raw collective with ``async_op=True`` whose handle is a local name leaves its tensor unusable until that name's
``wait()``: the tensor's slot then is ``InFlight``, which holds what it will be.  Where the handle goes elsewhere, or
is waited for under a condition on itself, the tensor is unknown, silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mypy.nodes import (
    LDEF,
    AssignmentStmt,
    CallExpr,
    ClassDef,
    ComparisonExpr,
    Context,
    Decorator,
    DelStmt,
    Expression,
    FuncDef,
    IfStmt,
    LambdaExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    Node,
    Statement,
    TupleExpr,
    UnaryExpr,
)
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, Instance, LiteralType, NoneType, Type, UnionType, get_proper_type

from spmd_mypy import codes, flow_messages
from spmd_mypy.fullnames import IN_FLIGHT
from spmd_mypy.hooks.arguments import Operand
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.scopes import Definition, Scope, key_of
from spmd_mypy.hooks.variables import Change, Variables, Write
from spmd_mypy.layout import unknown_type
from spmd_mypy.rules.ops import find
from spmd_mypy.tree import children, walk

WORK: Final = "torch._C._distributed_c10d.Work"
_HARMLESS: Final = frozenset({"is_completed", "is_success", "exception"})
# Where a handle is compared or dropped, not used.
_HARMLESS_PLACES: Final = (ComparisonExpr, UnaryExpr, DelStmt)
# Code that runs at another time.
_ELSEWHERE: Final = (FuncDef, Decorator, ClassDef, LambdaExpr)
_KEPT: Final = 256  # launches that are remembered


# ---- slots


def in_flight(layouts: Any, t: Type) -> str | None:
    """The handle's name, where a tensor (or a member of a union) is still written to; else None."""
    if layouts.is_plain(t):
        return None
    t = get_proper_type(t)
    if isinstance(t, UnionType):
        found = (in_flight(layouts, item) for item in t.items)
        return next((name for name in found if name is not None), None)
    for slot in map(get_proper_type, layouts.slots(t) or ()):
        if isinstance(slot, Instance) and slot.type.fullname == IN_FLIGHT and len(slot.args) == 3:
            handle = get_proper_type(slot.args[2])
            return str(handle.value) if isinstance(handle, LiteralType) else "the handle"
    return None


def report_use(bench: Workbench, api: Any, context: Context, operands: Iterable[Operand], op: str = "") -> bool:
    """Report the use of a tensor that a collective still writes to; whether there was one.

    ``op`` is the operation that uses it; one that only looks at its shape or dtype may.
    """
    for o in operands:
        handle = None if o.number else in_flight(bench.layouts, o.type)
        if handle is not None and not _looks_only(op):
            name = bench.text(api, o.expression, "the tensor")
            bench.fail(api, context, codes.COLLECTIVE, flow_messages.in_flight(name, handle))
            return True
    return False


def _looks_only(op: str) -> bool:
    operation = find(op) if op else None
    return operation is not None and operation.rules[0].expression.role == "shape"


# ---- handles


class _Uses:
    """What a function does with a handle: waits for it, plainly or under a condition on it, or passes it on."""

    def __init__(self, node: object, statements: Sequence[Statement]) -> None:
        self.node = node
        self.guarded = False
        self.escapes = False
        self.waits: list[int] = []
        for statement in statements:
            self._read(statement, False)

    def _is_handle(self, e: Node) -> bool:
        return isinstance(e, NameExpr) and e.node is self.node

    def _read(self, node: Node, tested: bool) -> None:
        """``tested``: ``node`` runs under a condition on the handle."""
        if self._is_handle(node) or (isinstance(node, _ELSEWHERE) and any(map(self._is_handle, walk(node)))):
            self.escapes = True
        elif isinstance(node, IfStmt):
            self._if(node, tested)
        elif isinstance(node, AssignmentStmt):
            self._assignment(node, tested)
        elif not (isinstance(node, CallExpr) and self._method(node, tested)):
            for child in children(node):
                if not (self._is_handle(child) and isinstance(node, _HARMLESS_PLACES)):
                    self._read(child, tested)

    def _if(self, node: IfStmt, tested: bool) -> None:
        for condition, body in zip(node.expr, node.body, strict=True):
            inside = any(self._is_handle(e) for e in walk(condition))
            if not self._is_handle(condition):
                self._read(condition, tested)
            self._read(body, tested or inside)
        if node.else_body is not None:
            self._read(node.else_body, tested)

    def _assignment(self, node: AssignmentStmt, tested: bool) -> None:
        self._read(node.rvalue, tested)
        for target in node.lvalues:
            for part in target.items if isinstance(target, TupleExpr | ListExpr) else [target]:
                if not self._is_handle(part):
                    self._read(part, tested)

    def _method(self, node: CallExpr, tested: bool) -> bool:
        """A call of a method of the handle."""
        callee = node.callee
        if not isinstance(callee, MemberExpr) or not self._is_handle(callee.expr):
            return False
        if callee.name == "wait":
            self.guarded = self.guarded or tested
            self.waits.append(node.line)
        elif callee.name not in _HARMLESS:
            self.escapes = True
        return True


@dataclass(slots=True)
class Flight:
    """An asynchronous call; ``handle`` is the local name that is waited for, None where it goes elsewhere."""

    variables: Variables
    handle: str | None
    targets: list[Expression] = field(default_factory=list)

    def delay(self, write: Write, target: Expression) -> Write:
        """The write as it looks until it is waited for."""
        self.targets.append(target)
        return write._replace(change=self._in_flight(write.change, write.axes))

    def _in_flight(self, change: Change, axes: Sequence[int]) -> Change:
        layouts = self.variables.layouts
        info = layouts.info(IN_FLIGHT) if self.handle is not None else None
        text = layouts.info("builtins.str")

        def delayed(slots: Sequence[Type]) -> Sequence[Type]:
            made = list(change(slots))
            for axis in axes:
                axis_info = layouts.info(layouts.config.axes[axis].fullname)
                if info is None or axis_info is None or text is None or self.handle is None:
                    made[axis] = unknown_type()
                else:
                    name = LiteralType(self.handle, Instance(text, []))
                    made[axis] = Instance(info, [Instance(axis_info, []), made[axis], name])
            return made

        return delayed

    def result(self, default: Type) -> Type:
        """The handle's type: torch leaves the call untyped, but ``wait()`` must be seen."""
        info = self.variables.layouts.info(WORK)
        t = get_proper_type(default)
        untyped = isinstance(t, AnyType | NoneType) or (
            isinstance(t, UnionType) and any(isinstance(get_proper_type(item), NoneType) for item in t.items)
        )
        return Instance(info, []) if self.handle is not None and info is not None and untyped else default


class Handles:
    """Follows asynchronous collectives from their call to ``wait()``."""

    def __init__(self, bench: Workbench, variables: Variables) -> None:
        self.bench = bench
        self.variables = variables
        self._flights: dict[CallExpr, Flight] = {}

    def launch(self, ctx: FunctionContext) -> Flight | None:
        """The flight that the asynchronous call starts; None where it is waited for at once."""
        call = ctx.context
        scope = self.bench.scopes.around(ctx.api)
        if not isinstance(call, CallExpr) or call in scope.waited:
            return None
        flight = Flight(self.variables, self._handle(scope, call))
        if len(self._flights) >= _KEPT:
            self._flights.clear()
        self._flights[call] = flight
        return flight

    @staticmethod
    def _handle(scope: Scope, call: CallExpr) -> str | None:
        """The local name that the call's handle is given to, if that name is only waited for."""
        for d in scope.definitions:
            if d.value is call and not d.part and isinstance(d.target, NameExpr) and d.target.node is not None:
                if d.target.kind != LDEF and scope.function:
                    return None
                uses = _Uses(d.target.node, scope.statements)
                lost = uses.escapes or uses.guarded or any(_apart(scope, d, line) for line in uses.waits)
                return None if lost else d.target.name
        return None

    def wait(self, ctx: MethodContext) -> Type:
        """``handle.wait()``: what the handle's call wrote to has its new type."""
        callee = getattr(ctx.context, "callee", None)
        name = callee.expr if isinstance(callee, MemberExpr) else None
        key = key_of(name) if name is not None else None
        if key is not None:
            for d in self.bench.scopes.around(ctx.api).reaching(key, ctx.context.line)[0]:
                flight = self._flights.get(d.value) if isinstance(d.value, CallExpr) else None
                if flight is not None and flight.handle is not None:
                    self._land(ctx.api, flight)
        return ctx.default_return_type

    def _land(self, api: Any, flight: Flight) -> None:
        """Give what a collective wrote to, and other names for it, their new type."""
        variables = [*flight.targets, *(d.target for d in self.bench.scopes.around(api).definitions)]
        for variable in variables:
            t = self.variables.current(api, variable)
            if t is not None and in_flight(self.bench.layouts, t) == flight.handle:
                self.variables.retype(api, variable, _landed)


def _apart(scope: Scope, launch: Definition, wait: int) -> bool:
    """Whether launch and wait stand in different branches, so that their conditions may go together: not followed."""
    start, end = launch.path, scope.place(wait).path
    shorter = min(len(start), len(end))
    return start[:shorter] != end[:shorter]


def _landed(slots: Sequence[Type]) -> Sequence[Type]:
    """What the slots are once the collective is done."""
    made = []
    for slot in slots:
        proper = get_proper_type(slot)
        landed = isinstance(proper, Instance) and proper.type.fullname == IN_FLIGHT and len(proper.args) > 1
        made.append(proper.args[1] if landed and isinstance(proper, Instance) else slot)
    return made
