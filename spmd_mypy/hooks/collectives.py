"""Collectives and conversions of ``spmd_runtime``: checked against the table, and typed by their ``dst``."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from mypy.nodes import CallExpr, Expression, IntExpr, UnaryExpr
from mypy.plugin import FunctionContext
from mypy.typeops import make_simplified_union
from mypy.types import (
    FunctionLike,
    Instance,
    ProperType,
    Type,
    TypeType,
    UnionType,
    get_proper_type,
)

from spmd_mypy import codes, messages
from spmd_mypy.config import Axis
from spmd_mypy.fullnames import GROUP, MESH_AXIS, SHARD
from spmd_mypy.hooks import branches
from spmd_mypy.hooks.arguments import Operand, option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.meshes import report_foreign
from spmd_mypy.hooks.pending import report_use
from spmd_mypy.hooks.repeats import Repeats
from spmd_mypy.layout import axis_type, is_tensor, layout_argument, unknown_type
from spmd_mypy.rules import collectives as table
from spmd_mypy.rules import kinds
from spmd_mypy.rules.kinds import AxisType

UNKNOWN_AXIS: Final = -1
WRONG_AXIS: Final = -2
_ONE_WAY: Final = frozenset({"broadcast", "shift"})  # without src to choose from


class Given(NamedTuple):
    """One argument of a call: its type and expression."""

    type: ProperType
    expression: Expression


def given(ctx: FunctionContext, name: str) -> Given | None:
    """The argument at parameter ``name``, or None where it is left to its default."""
    names = ctx.callee_arg_names
    at = names.index(name) if name in names else len(ctx.arg_types)
    if at >= len(ctx.arg_types) or not ctx.arg_types[at]:
        return None
    return Given(get_proper_type(ctx.arg_types[at][0]), ctx.args[at][0])


def class_of(t: ProperType) -> Instance | None:
    """The instance type of a class given as a value: ``TP``, ``R``."""
    if isinstance(t, FunctionLike) and t.is_type_obj():
        made = get_proper_type(t.items[0].ret_type)
        return made if isinstance(made, Instance) else None
    if isinstance(t, TypeType):
        return t.item if isinstance(t.item, Instance) else None
    return None


class AxisReader:
    """Reads the ``axis`` argument: a class, a ``Group[...]``, a process group, or a name."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.config = bench.config

    def read(self, api: Any, axis: Given, op: str) -> int:
        """The axis's index; UNKNOWN_AXIS where it is not known; WRONG_AXIS after an error."""
        cls = class_of(axis.type)
        if cls is not None and cls.type.has_base(MESH_AXIS):
            return self._configured(api, axis, cls.type.fullname, op)
        if isinstance(axis.type, Instance) and axis.type.type.fullname == GROUP and axis.type.args:
            inner = get_proper_type(axis.type.args[0])
            if isinstance(inner, Instance):
                return self._configured(api, axis, inner.type.fullname, op)
            return UNKNOWN_AXIS
        name = option(api, axis.expression)
        if isinstance(name, str):
            return self._found(api, axis, self.config.by_name(name), repr(name), op)
        return UNKNOWN_AXIS

    def _configured(self, api: Any, axis: Given, fullname: str, op: str) -> int:
        if fullname == MESH_AXIS:
            return UNKNOWN_AXIS
        return self._found(api, axis, self.config.by_fullname(fullname), Axis(fullname).shown, op)

    def _found(self, api: Any, axis: Given, index: int | None, shown: str, op: str) -> int:
        if index is not None:
            return index
        text = messages.unknown_axis(op, shown, self.config.spelled())
        self.bench.fail(api, axis.expression, codes.COLLECTIVE, text)
        return WRONG_AXIS


def kind_value(api: Any, argument: Given) -> AxisType | None:
    """The type that ``src=`` or ``dst=`` names: ``R``, ``S(0)``; None where it is not known."""
    cls = class_of(argument.type)
    if cls is not None:
        return axis_type(cls)
    if not isinstance(argument.type, Instance) or argument.type.type.fullname != SHARD:
        return None
    call = argument.expression
    if isinstance(call, CallExpr) and len(call.args) == 1 and isinstance(call.args[0], IntExpr | UnaryExpr):
        dim = option(api, call.args[0])
        if isinstance(dim, int):
            return kinds.shard(dim)
    return axis_type(argument.type)


class Collectives:
    """The hooks for the functions of DESIGN section 3."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.axes = AxisReader(bench)
        self._repeats = Repeats(self.layouts)

    def call(self, op: str, ctx: FunctionContext) -> Type:
        """``op(x, axis, *, src, dst)``; what the same arguments gave before is looked up."""
        parts = self._repeats.key(op, ctx)
        key = (op, *parts) if parts is not None else None
        known = self.layouts.repeated.get(key) if key is not None else None
        if known is not None:
            return known
        failures = self.bench.failures
        src, dst = self._ends(ctx, op)
        result = self.move(ctx, op, src, dst)
        if key is not None and self.bench.failures == failures:
            self.layouts.repeated[key] = result
        return result

    def move(
        self, ctx: FunctionContext, op: str, src: AxisType | None, dst: AxisType | None, *, keeps: bool = False
    ) -> Type:
        """The result of taking ``x`` from ``src`` to ``dst`` over ``axis``; with ``keeps`` it stays what it is."""
        x, axis = given(ctx, "x"), given(ctx, "axis")
        if x is None or axis is None:
            return ctx.default_return_type
        index = self.axes.read(ctx.api, axis, op)
        operand = Operand("x", x.type, x.expression)
        foreign = index >= 0 and report_foreign(self.bench, ctx.api, ctx.context, op, operand, index)
        if index == UNKNOWN_AXIS or foreign or report_use(self.bench, ctx.api, ctx.context, [operand]):
            return self._with(ctx, [unknown_type()])
        if isinstance(x.type, UnionType):
            members = [get_proper_type(m) for m in x.type.relevant_items()]
            open_axes = self.layouts.open_axes(x.type)
        else:
            members, open_axes = [x.type], frozenset()
        closed = index >= 0 and index not in open_axes
        fits = [self._check(ctx, op, member, x, index, src, dst) if closed else True for member in members]
        row = not all(fits) or self._row(ctx, op, src, dst, x, axis, index)
        results = []
        for member, fitting in zip(members, fits, strict=True):
            after = self._after(member, index, dst, keeps) if row and fitting and index >= 0 else None
            results.append(self._result(ctx, member, index, after))
        return make_simplified_union(results) if len(results) > 1 else results[0]

    # ---- src and dst

    def _ends(self, ctx: FunctionContext, op: str) -> tuple[AxisType | None, AxisType | None]:
        if op == "invariant_to_replicate":
            return kinds.I, kinds.R
        ends = []
        for name, defaults in (("src", table.DEFAULT_SRC), ("dst", table.DEFAULT_DST)):
            argument = given(ctx, name)
            if argument is not None:
                ends.append(self._end(ctx, op, name, argument))
            else:
                default = defaults.get(op)
                ends.append(kinds.parse(default) if default is not None else None)
        return ends[0], ends[1]

    def _end(self, ctx: FunctionContext, op: str, name: str, argument: Given) -> AxisType | None:
        """What ``src=`` or ``dst=`` says; reports the class S, which is no value."""
        cls = class_of(argument.type)
        if cls is not None and cls.type.fullname == SHARD:
            text = messages.shard_value(op, name, self.bench.text(ctx.api, argument.expression, "S"))
            self.bench.fail(ctx.api, argument.expression, codes.COLLECTIVE, text)
            return None
        return kind_value(ctx.api, argument)

    def _row(
        self, ctx: FunctionContext, op: str, src: AxisType | None, dst: AxisType | None, x: Given, axis: Given,
        index: int,
    ) -> bool:  # fmt: skip
        """Whether the table has the pair; reports it where not."""
        if src is None or dst is None or op in _ONE_WAY:
            return True
        expert_argument = given(ctx, "expert_mode")
        expert = option(ctx.api, expert_argument.expression) if expert_argument is not None else False
        row = table.transition(_row_name(op), src, dst, expert=expert is not False)
        if isinstance(row, table.Transition):
            return True
        code = codes.SHARD if row.reason == "shard" else codes.COLLECTIVE
        layout = self.layouts.read(x.type)
        actual = layout[index] if layout is not None and index >= 0 else None
        names = (self.bench.text(ctx.api, argument.expression, "the tensor") for argument in (x, axis))
        self.bench.fail(ctx.api, ctx.context, code, *messages.refused(op, row, (src, dst), actual or src, *names))
        return False

    # ---- the tensor

    def _check(
        self, ctx: FunctionContext, op: str, member: ProperType, x: Given, index: int, src: AxisType | None,
        dst: AxisType | None,
    ) -> bool:  # fmt: skip
        layout = self.layouts.read(member)
        actual = layout[index] if layout is not None else None
        if src is None or actual is None or table.accepts(op, src, actual):
            return True
        name = self.bench.text(ctx.api, x.expression, "the tensor")
        shard = src.dim is not None and actual.dim is not None
        text, notes = messages.wrong_source(op, src, dst, actual, self.bench.axis(index), name, layout, self.layouts)
        text += branches.note(self.bench, ctx.api, x.expression, index, actual)
        self.bench.fail(ctx.api, ctx.context, codes.SHARD if shard else codes.COLLECTIVE, text, notes)
        return False

    def _after(self, member: ProperType, index: int, dst: AxisType | None, keeps: bool) -> AxisType | None:
        """The type on the axis afterwards."""
        layout = self.layouts.read(member) if keeps else None
        return layout[index] if layout is not None else dst

    def _result(self, ctx: FunctionContext, member: ProperType, index: int, after: AxisType | None) -> Type:
        if not is_tensor(member):
            return self.layouts.put(ctx.default_return_type, [unknown_type()])
        # After a wrong axis all axes keep their types: one mistake, one report.
        return self._with(ctx, [self.layouts.with_slot(member, index, after) if index >= 0 else self._same(member)])

    def _same(self, member: ProperType) -> Type:
        return layout_argument(member) or unknown_type()

    def _with(self, ctx: FunctionContext, results: list[Type]) -> Type:
        return self.layouts.put(ctx.default_return_type, results)

    # ---- functions without src and dst

    def axis_index(self, ctx: FunctionContext) -> Type:
        """``axis_index(axis)`` differs between the ranks of its axis, and is the same along the mesh's other axes."""
        axis = given(ctx, "axis")
        index = self.axes.read(ctx.api, axis, "axis_index") if axis is not None else UNKNOWN_AXIS
        if index < 0:
            return ctx.default_return_type
        mesh = next(mesh for mesh in self.bench.config.meshes if index in mesh)
        elsewhere = {i: kinds.CONSTANT for i in mesh - self.bench.config.size_one}
        layout = tuple(kinds.V if i == index else elsewhere.get(i) for i in range(self.layouts.size))
        return self._with(ctx, [self.layouts.write(layout)])

    def axis_size(self, ctx: FunctionContext) -> Type:
        """``axis_size(axis)``: only the axis is checked."""
        axis = given(ctx, "axis")
        if axis is not None:
            self.axes.read(ctx.api, axis, "axis_size")
        return ctx.default_return_type


def _row_name(op: str) -> str:
    return "convert" if op == "invariant_to_replicate" else op
