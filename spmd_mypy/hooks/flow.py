"""The collectives of torch.distributed: in place, functional, and with autograd; checked, and followed by flow.

What each of them does is ``rules.raw``.  Here a call's arguments are found, its group's axes read, and the variables
that it writes to take their new type from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mypy.nodes import CallExpr, Expression, ListExpr, MemberExpr, NameExpr, StrExpr, TupleExpr
from mypy.plugin import FunctionContext
from mypy.types import AnyType, Instance, Overloaded, ProperType, Type, UnionType, get_proper_type

from spmd_mypy import codes, compat, flow_messages
from spmd_mypy.fullnames import REDUCED
from spmd_mypy.hooks import branches
from spmd_mypy.hooks.arguments import Operand, leaves, option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import given
from spmd_mypy.hooks.equality import Equality
from spmd_mypy.hooks.groups import Groups
from spmd_mypy.hooks.meshes import report_foreign
from spmd_mypy.hooks.pending import Handles, report_use
from spmd_mypy.hooks.requires_grad import RequiresGrad
from spmd_mypy.hooks.variables import Change, Variables, Write
from spmd_mypy.layout import axis_type, has_layout, unknown_type
from spmd_mypy.rules import raw
from spmd_mypy.rules.kinds import CONSTANT, AxisType
from spmd_mypy.rules.raw import Row


class Site(NamedTuple):
    """One call of a collective of torch.

    ``axes`` are those of its group, None where they are not known; ``sent`` the tensors that go out.
    """

    op: str
    row: Row
    ctx: FunctionContext
    axes: tuple[int, ...] | None
    reduction: str | None
    src_dim: int | None
    dst_dim: int | None
    sent: tuple[Operand, ...]

    @property
    def api(self) -> Any:
        """mypy's checker."""
        return self.ctx.api


class Flow:
    """The hooks for torch's collectives."""

    def __init__(self, bench: Workbench, groups: Groups, variables: Variables, handles: Handles) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.groups = groups
        self.variables = variables
        self.handles = handles
        self.requires_grad = RequiresGrad(bench)
        self.equality = Equality(bench)

    def call(self, op: str, row: Row, ctx: FunctionContext) -> Type:
        """A call of the function that ``row`` describes.

        Where it has overloads (torch 2.14), what is refused is reported at once: mypy would take it for a reason to
        try the call again, in which the tensor already has its new type.
        """
        if not _overloaded(ctx):
            return self._call(op, row, ctx)
        with compat.past_all_trials(ctx.api):
            return self._call(op, row, ctx)

    def _call(self, op: str, row: Row, ctx: FunctionContext) -> Type:
        site = self._site(op, row, ctx)
        written = self._given(ctx, row.written)
        if not self._concerns_us(site, written):
            return ctx.default_return_type
        used = report_use(self.bench, site.api, ctx.context, [*site.sent, *self._operands(ctx, row.written)])
        if used or self._report_foreign(site):
            site = site._replace(axes=None)
        if row.action == "wait":
            return site.sent[0].type if site.sent else ctx.default_return_type
        backward = raw.differentiable(row, site.reduction)
        needed = not backward and row.action not in ("send", "receive") and self._report_gradient(site)
        fits = not needed and self._report_refusals(site)
        change, becomes = self._outcome(site, fits, backward)
        if row.written:
            return self._write(site, written, change, becomes)
        return self._result(ctx, change)

    def peer_operation(self, ctx: FunctionContext) -> Type:
        """``P2POp(dist.irecv, tensor, peer)``: a tensor that will be received is unknown."""
        op, tensor = given(ctx, "op"), given(ctx, "tensor")
        receives = op is not None and getattr(op.expression, "name", "") in ("irecv", "recv")
        if tensor is not None and receives and has_layout(tensor.type):
            axes = tuple(range(self.layouts.size))
            change = self.variables.forgetting(axes)
            write = Write(ctx.api, ctx.context, "irecv", axes, change, (None,) * len(axes))
            self.variables.write(write, tensor.expression)
        return ctx.default_return_type

    # ---- reading the call

    def _site(self, op: str, row: Row, ctx: FunctionContext) -> Site:
        group = given(ctx, "group")
        axes = self.groups.axes(ctx.api, group.type, group.expression) if group is not None else None
        sent = tuple(o for o in self._operands(ctx, row.sent) if not o.number)
        dims = [self._dim(ctx, name) for name in (row.src_dim, row.dst_dim)]
        return Site(op, row, ctx, axes, self._reduction(ctx), dims[0], dims[1], sent)

    @staticmethod
    def _dim(ctx: FunctionContext, name: str) -> int | None:
        argument = given(ctx, name) if name else None
        value = option(ctx.api, argument.expression) if argument is not None else None
        return value if isinstance(value, int) else None

    @staticmethod
    def _reduction(ctx: FunctionContext) -> str | None:
        """``op=ReduceOp.MAX`` or ``reduceOp="max"``: the last part of the name in lower case; None where not known."""
        argument = given(ctx, "op") or given(ctx, "reduceOp")
        if argument is None:
            return "sum"
        expression = argument.expression
        if isinstance(expression, CallExpr):  # _make_nccl_premul_sum(factor), ReduceOp(ReduceOp.MAX)
            if isinstance(expression.callee, NameExpr | MemberExpr) and expression.callee.name.endswith("premul_sum"):
                return "premul_sum"
            expression = expression.args[0] if expression.args else expression
        name = expression.value if isinstance(expression, StrExpr) else getattr(expression, "name", "")
        return name.lower() if isinstance(name, str) and name.lower() in raw.REDUCTIONS else None

    @staticmethod
    def _given(ctx: FunctionContext, name: str) -> Expression | None:
        argument = given(ctx, name) if name else None
        return argument.expression if argument is not None else None

    @staticmethod
    def _operands(ctx: FunctionContext, name: str) -> list[Operand]:
        if not name:
            return []
        argument = given(ctx, name)
        return list(leaves(ctx.api, name, argument.type, argument.expression)) if argument is not None else []

    def _concerns_us(self, site: Site, written: Expression | None) -> bool:
        types: list[Type] = [o.type for o in site.sent]
        stored = compat.stored_type(site.api, written) if written is not None else None
        if stored is not None:
            types.append(stored)
        for t in types:
            members = t.relevant_items() if isinstance(t, UnionType) else [t]
            if any(self.layouts.slots(m) is not None for m in members):
                return True
        return site.axes is not None and self.bench.uses_spmd(site.api)

    # ---- checks

    def _report_gradient(self, site: Site) -> bool:
        """A tensor that is known to need a gradient goes through a collective that has no backward."""
        for o in site.sent:
            if o.expression is None or not self._has_layout(o.type):
                continue
            if self.requires_grad.known(site.api, o.expression):
                name = self.bench.text(site.api, o.expression, "the tensor")
                axis = self.bench.axis(site.axes[0]) if site.axes else None
                typed = site.row.action if site.row.action in ("all_reduce", "all_gather", "reduce_scatter") else None
                text, notes = flow_messages.no_backward(site.op, name, axis, typed)
                self.bench.fail(site.api, site.ctx.context, codes.COLLECTIVE, text, notes)
                return True
        return False

    def _report_foreign(self, site: Site) -> bool:
        """A tensor that is laid out over another mesh than the group's."""
        return any(
            report_foreign(self.bench, site.api, site.ctx.context, site.op, o, axis)
            for o in site.sent
            for axis in site.axes or ()
        )

    def _has_layout(self, t: ProperType) -> bool:
        members = t.relevant_items() if isinstance(t, UnionType) else [t]
        return any(self.layouts.slots(m) is not None for m in members)

    def _report_refusals(self, site: Site) -> bool:
        """Whether the collective takes everything that is sent; reports the first tensor that it does not."""
        for o in site.sent:
            open_axes = self.layouts.open_axes(o.type)
            for axis in site.axes or ():
                for kind in [] if axis in open_axes else self._kinds(o, axis):
                    reason = raw.refusal(site.row, site.reduction, kind, site.src_dim)
                    if reason and kind is not None and self._certain(site, o, kind, axis):
                        self._refuse(site, o, reason, kind, axis)
                        return False
        return True

    def _certain(self, site: Site, o: Operand, kind: AxisType, axis: int) -> bool:
        """Whether a tensor is what its type says; a constant may have been made of numbers that differ by rank."""
        return not kind.constant or self.equality.known(site.api, o.expression, axis)

    def _refuse(self, site: Site, o: Operand, reason: str, kind: AxisType, axis: int) -> None:
        name = self.bench.text(site.api, o.expression, "the tensor")
        text, notes = flow_messages.refused_raw(
            site.op,
            reason,
            (name, kind, self.bench.axis(axis)),
            reduction=site.reduction,
            dim=site.src_dim,
            elsewhere=self._elsewhere(site, o, axis),
        )
        text += branches.note(self.bench, site.api, o.expression, axis, kind)
        code = codes.SHARD if reason == "dim" else codes.COLLECTIVE
        self.bench.fail(site.api, site.ctx.context, code, text, notes)

    def _elsewhere(self, site: Site, o: Operand, axis: int) -> list[str]:
        """The axes over which the collective would take a tensor, with what it is there: ``P on TP``."""
        return [
            f"{kind} on {self.bench.axis(other)}"
            for other, kind in enumerate(self.layouts.read(o.type) or ())
            if other != axis and kind is not None and kind.letter in ("P", "V")
            if not raw.refusal(site.row, site.reduction, kind, site.src_dim)
        ]

    def _kinds(self, o: Operand, axis: int) -> list[AxisType | None]:
        members = o.type.relevant_items() if isinstance(o.type, UnionType) else [o.type]
        layouts = [self.layouts.read(m) for m in members]
        return [layout[axis] for layout in layouts if layout is not None]

    # ---- what comes out

    def _outcome(self, site: Site, fits: bool, backward: bool) -> tuple[Change, tuple[AxisType | None, ...]]:
        """The new slots of what is written or returned, and the types on the group's axes."""
        if site.axes is None:
            return lambda slots: [unknown_type()] * len(slots), ()
        axes = site.axes
        sent = self._sent_layout(site)
        after = [
            raw.outcome(site.row, site.reduction, sent[axis], site.src_dim, site.dst_dim).after if fits else None
            for axis in axes
        ]
        new = dict(zip(axes, after, strict=True))

        def change(slots: Sequence[Type]) -> Sequence[Type]:
            made = list(slots)
            for i in range(len(made)):
                if i in new:
                    made[i] = self._slot(site, i, new[i], slots[i])
                elif not site.row.in_place:
                    made[i] = self.layouts.slot(i, raw.elsewhere(sent[i], backward))
            return made

        return change, tuple(after)

    def _slot(self, site: Site, axis: int, kind: AxisType | None, old: Type) -> Type:
        """The slot for ``kind``; one that stays what it is keeps its type, whatever it is written as."""
        if site.row.in_place and kind is not None and axis_type(old) == kind:
            return old
        slot = self.layouts.slot(axis, kind)
        # mypy takes a variable back from a wider type to its own: what replaces a fresh constant must not be wider.
        reduced = self.layouts.info(REDUCED) if kind == CONSTANT and site.row.written else None
        return Instance(reduced, slot.args) if reduced is not None and isinstance(slot, Instance) else slot

    def _sent_layout(self, site: Site) -> tuple[AxisType | None, ...]:
        """What the tensors that are sent agree on, axis by axis."""
        layouts = [self.layouts.read(o.type) or self.layouts.unknown for o in site.sent]
        if not layouts:
            return self.layouts.unknown
        return tuple(column[0] if len(set(column)) == 1 else None for column in zip(*layouts, strict=True))

    def _result(self, ctx: FunctionContext, change: Change) -> Type:
        """The result of a functional collective; torch leaves some of them untyped."""
        default = get_proper_type(ctx.default_return_type)
        if isinstance(default, AnyType):
            default = get_proper_type(self.layouts.tensor(unknown_type()))
        return self.variables.changed(default, change)

    # ---- writing

    def _write(
        self, site: Site, written: Expression | None, change: Change, becomes: tuple[AxisType | None, ...]
    ) -> Type:
        api, ctx = site.api, site.ctx
        axes = site.axes if site.axes is not None else tuple(range(self.layouts.size))
        if not site.row.in_place and site.axes is not None:
            axes = tuple(range(self.layouts.size))  # all of the old value is gone
            becomes = self._all_axes(site, change)
        write = Write(api, ctx.context, site.op, axes, change, becomes or (None,) * len(axes))
        flight = self.handles.launch(ctx) if _asynchronous(ctx, site.op) else None
        for target in _targets(written):
            self.variables.write(flight.delay(write, target) if flight is not None else write, target)
        return flight.result(ctx.default_return_type) if flight is not None else ctx.default_return_type

    def _all_axes(self, site: Site, change: Change) -> tuple[AxisType | None, ...]:
        return tuple(axis_type(slot) for slot in change([unknown_type()] * self.layouts.size))


def _overloaded(ctx: FunctionContext) -> bool:
    """Whether the called function has overloads, which mypy tries one by one."""
    callee = compat.stored_type(ctx.api, ctx.context.callee) if isinstance(ctx.context, CallExpr) else None
    return callee is not None and isinstance(get_proper_type(callee), Overloaded)


def _asynchronous(ctx: FunctionContext, op: str) -> bool:
    """Whether the call returns before it is done; where a variable says so, its handle is waited for, or never made."""
    if op == "irecv":
        return True
    argument = given(ctx, "async_op")
    return argument is not None and option(ctx.api, argument.expression) is True


def _targets(written: Expression | None) -> Iterator[Expression]:
    """The variables in an argument that is written to: itself, or the elements of a display."""
    if isinstance(written, ListExpr | TupleExpr):
        for item in written.items:
            yield from _targets(item)
    elif written is not None:
        yield written
