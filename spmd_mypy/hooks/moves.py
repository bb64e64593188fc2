"""Collectives of ``spmd_runtime`` with one way to go (``broadcast``, ``shift``), and the one in place."""

from __future__ import annotations

from collections.abc import Sequence

from mypy.plugin import FunctionContext
from mypy.types import Type, get_proper_type

from spmd_mypy import codes, messages
from spmd_mypy.hooks.arguments import option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import Collectives, given, kind_value
from spmd_mypy.hooks.variables import Variables, Write
from spmd_mypy.layout import axis_type, unknown_type
from spmd_mypy.rules import kinds
from spmd_mypy.rules.collectives import Refusal
from spmd_mypy.rules.kinds import AxisType


class Moves(Collectives):
    """The hooks for them."""

    def __init__(self, bench: Workbench, variables: Variables) -> None:
        super().__init__(bench)
        self.variables = variables

    def broadcast(self, ctx: FunctionContext) -> Type:
        """``broadcast(x, axis, root=0, dst=R)``: V, S(i) -> R or I."""
        argument = given(ctx, "dst")
        dst = kind_value(ctx.api, argument) if argument is not None else None
        if dst is not None and dst.letter not in ("R", "I"):
            ends = kinds.V, dst
            text, _ = messages.refused("broadcast", Refusal("dst", ("R", "I")), ends, kinds.V, "the tensor", "its axis")
            self.bench.fail(ctx.api, ctx.context, codes.COLLECTIVE, text)
            dst = None
        return self.move(ctx, "broadcast", kinds.V, dst)

    def shift(self, ctx: FunctionContext) -> Type:
        """``shift(x, axis, offset=1)``: what varies goes on varying, a shard stays cut along its dim."""
        return self.move(ctx, "shift", kinds.V, None, keeps=True)

    def all_reduce(self, ctx: FunctionContext) -> Type:
        """``all_reduce``; with ``inplace=True`` what it is given is its result, too."""
        result = self.call("all_reduce", ctx)
        x, inplace = given(ctx, "x"), given(ctx, "inplace")
        if x is None or inplace is None or option(ctx.api, inplace.expression) is not True:
            return result
        after = self.layouts.slots(get_proper_type(result)) or [unknown_type()] * self.layouts.size
        before = self.layouts.slots(x.type) or [unknown_type()] * self.layouts.size
        axes = tuple(i for i in range(self.layouts.size) if after[i] != before[i])

        def change(slots: Sequence[Type]) -> Sequence[Type]:
            return [after[i] if i in axes else slot for i, slot in enumerate(slots)]

        becomes: tuple[AxisType | None, ...] = tuple(axis_type(after[i]) for i in axes)
        self.variables.write(Write(ctx.api, ctx.context, "all_reduce", axes, change, becomes), x.expression)
        return result
