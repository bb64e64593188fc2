"""``assert_type``, ``mutate_type``, ``reinterpret_mesh``: what the user says of a tensor, checked where it is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy.nodes import DictExpr, Expression
from mypy.plugin import FunctionContext
from mypy.types import NoneType, Type, UnionType, get_proper_type

from spmd_mypy import codes, compat, flow_messages
from spmd_mypy.hooks import branches
from spmd_mypy.hooks.acceptance import accepts_slot
from spmd_mypy.hooks.arguments import option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import AxisReader, Given, given, kind_value
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.hooks.variables import Change, Variables
from spmd_mypy.layout import axis_type, unknown_type
from spmd_mypy.rules.kinds import AxisType

# Axis index -> the type that is claimed there; None where it cannot be read.
Claims = dict[int, "AxisType | None"]

_UNIFORM: Final = frozenset({"R", "I", "P"})


class Assertions:
    """The hooks for functions that do nothing at run time."""

    def __init__(self, bench: Workbench, variables: Variables) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.variables = variables
        self.axes = AxisReader(bench)

    # ---- hooks

    def assert_type(self, ctx: FunctionContext) -> Type:
        """``assert_type(x, {TP: R, "dp": V})``: what is known must fit; what is not is declared."""
        x = given(ctx, "x") or _positional(ctx, 0)
        layout = given(ctx, "layout") or _positional(ctx, 1)
        claims = self._claims(ctx, layout, "assert_type") if layout is not None else None
        if x is None or claims is None:
            return ctx.default_return_type
        wrong = {axis for axis, claimed in claims.items() if not self._check(ctx, "assert_type", x, axis, claimed)}
        return self._declare(ctx, x, self._claiming(claims, wrong))

    def mutate_type(self, ctx: FunctionContext) -> Type:
        """``mutate_type(x, TP, src=P, dst=R)``, or both per axis: x is ``src``, and ``dst`` from here on."""
        x, axis = given(ctx, "tensor"), given(ctx, "axis")
        src, dst = given(ctx, "src"), given(ctx, "dst")
        if x is None or src is None or dst is None:
            return ctx.default_return_type
        before, after = self._ends(ctx, axis, src), self._ends(ctx, axis, dst)
        if before is None or after is None:
            return ctx.default_return_type
        wrong = {
            index
            for index, claimed in before.items()
            if not self._check(ctx, "mutate_type", x, index, claimed, same=True)
        }
        return self._declare(ctx, x, self._claiming(after, wrong))

    def reinterpret_mesh(self, ctx: FunctionContext) -> Type:
        """``reinterpret_mesh(x, {EP: V, EDP: R})``: types on another mesh over the same ranks; the old ones go."""
        x, layout = given(ctx, "tensor"), given(ctx, "type")
        claims = self._claims(ctx, layout, "reinterpret_mesh") if layout is not None else None
        if x is None or claims is None:
            return ctx.default_return_type
        wrong = self._uniform(ctx, x, claims)
        change = self._only(claims, wrong)
        inplace = given(ctx, "inplace")
        if inplace is not None and option(ctx.api, inplace.expression) is True:
            return self._declare(ctx, x, change)
        return self._typed(ctx, x, change)

    # ---- reading

    def _claims(self, ctx: FunctionContext, layout: Given, function: str) -> Claims | None:
        """The types in a dict display; None where it is none."""
        if not isinstance(layout.expression, DictExpr):
            return None
        claims: Claims = {}
        for key, value in layout.expression.items:
            index = self._axis(ctx, key, function) if key is not None else None
            kind = self._kind(ctx, value)
            if index is None:
                return None
            claims[index] = kind
        return claims

    def _axis(self, ctx: FunctionContext, expression: Expression, function: str) -> int | None:
        t = compat.stored_type(ctx.api, expression)
        if t is None:
            return None
        index = self.axes.read(ctx.api, Given(get_proper_type(t), expression), function)
        return index if index >= 0 else None

    def _kind(self, ctx: FunctionContext, expression: Expression) -> AxisType | None:
        t = compat.stored_type(ctx.api, expression)
        return kind_value(ctx.api, Given(get_proper_type(t), expression)) if t is not None else None

    def _ends(self, ctx: FunctionContext, axis: Given | None, end: Given) -> Claims | None:
        if axis is None or isinstance(axis.type, NoneType):
            return self._claims(ctx, end, "mutate_type")
        index = self.axes.read(ctx.api, axis, "mutate_type")
        return {index: kind_value(ctx.api, end)} if index >= 0 else None

    # ---- checking

    def _check(
        self, ctx: FunctionContext, function: str, x: Given, axis: int, claimed: AxisType | None, *, same: bool = False
    ) -> bool:
        """Whether ``x`` may be what is claimed (with ``same``: is it); reports the first member that is not."""
        if claimed is None or axis in self.layouts.open_axes(x.type):
            return True
        members = x.type.relevant_items() if isinstance(x.type, UnionType) else [x.type]
        for layout in map(self.layouts.read, members):
            actual = layout[axis] if layout is not None else None
            if actual is None or (accepts_slot(actual, claimed) and not (same and _differ(actual, claimed))):
                continue
            name = self.bench.text(ctx.api, x.expression, "the tensor")
            text, notes = flow_messages.asserted(function, name, actual, claimed, self.bench.axis(axis))
            text += branches.note(self.bench, ctx.api, x.expression, axis, actual)
            self.bench.fail(ctx.api, ctx.context, codes.ASSIGN, text, notes)
            return False
        return True

    def _uniform(self, ctx: FunctionContext, x: Given, claims: Claims) -> set[int]:
        """Axes where a claim contradicts what the tensor is over the whole of its own mesh."""
        layout = self.layouts.read(x.type)
        for mesh in self.bench.config.meshes if layout is not None else ():
            kinds = {layout[axis] for axis in mesh} if layout is not None else set()
            kind = next(iter(kinds)) if len(kinds) == 1 else None
            if kind is None or kind.constant or kind.letter not in _UNIFORM or mesh & claims.keys():
                continue
            for axis, claimed in claims.items():
                if claimed is not None and claimed.letter != kind.letter:
                    name = self.bench.text(ctx.api, x.expression, "the tensor")
                    text, notes = flow_messages.uniform(name, kind, claimed, self.bench.axis(axis))
                    self.bench.fail(ctx.api, ctx.context, codes.ASSIGN, text, notes)
                    return {axis}
        return set()

    # ---- typing

    def _claiming(self, claims: Claims, wrong: set[int]) -> Change:
        """The change that gives a tensor its claimed types; unknown where they are wrong."""

        def change(slots: Sequence[Type]) -> Sequence[Type]:
            made = list(slots)
            for axis, kind in claims.items():
                made[axis] = self._claimed(slots[axis], axis, None if axis in wrong else kind)
            return made

        return change

    def _claimed(self, old: Type, axis: int, kind: AxisType | None) -> Type:
        """A claim of V leaves a shard a shard, and what is claimed as it is stays."""
        actual = axis_type(old)
        if actual is not None and kind is not None and actual.letter == kind.letter == "V" and kind.dim is None:
            return old
        return self.layouts.slot(axis, kind)

    def _only(self, claims: Claims, wrong: set[int]) -> Change:
        """The change to the claimed types alone."""
        return lambda slots: [
            self.layouts.slot(axis, claims[axis]) if axis in claims and axis not in wrong else unknown_type()
            for axis in range(len(slots))
        ]

    def _typed(self, ctx: FunctionContext, x: Given, change: Change) -> Type:
        return self.variables.changed(x.type, change)

    def _declare(self, ctx: FunctionContext, x: Given, change: Change) -> Type:
        """The value with its new type, which the variable has from here on, too."""
        if key_of(x.expression) is not None:
            self.variables.retype(ctx.api, x.expression, change)
        return self._typed(ctx, x, change)


def _differ(actual: AxisType, claimed: AxisType) -> bool:
    """Whether a tensor is not what mutate_type starts from; a shard is a V, a constant R and I."""
    if actual.constant:
        return False
    return actual.letter != claimed.letter


def _positional(ctx: FunctionContext, at: int) -> Given | None:
    """The argument at a positional-only parameter."""
    if at < len(ctx.arg_types) and ctx.arg_types[at]:
        return Given(get_proper_type(ctx.arg_types[at][0]), ctx.args[at][0])
    return None
