"""Where a backward starts, and what a gradient is: ``loss.backward()``, ``.grad``, parameters declared R."""

from __future__ import annotations

from mypy.nodes import MemberExpr
from mypy.plugin import AttributeContext, FunctionContext, MethodContext
from mypy.types import Instance, TupleType, Type, UnionType, get_proper_type

from spmd_mypy.hooks.arguments import AnyCall, Operand, layout_of, operands
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.layout import is_parameter, is_tensor
from spmd_mypy.messages import loss_message
from spmd_mypy.rules.call import OptionValue
from spmd_mypy.rules.gradients import gradient, judge_loss
from spmd_mypy.rules.kinds import Layout


class Gradients:
    """The hooks for autograd's entry points."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    def backward(self, ctx: MethodContext) -> Type:
        """``loss.backward()``; with a gradient given, the caller says what it starts from."""
        found, options = operands("Tensor.backward", ctx)
        if not self._given(found, options, "gradient"):
            self._check(ctx, [o for o in found if o.param == "self"])
        return ctx.default_return_type

    def autograd_backward(self, ctx: FunctionContext) -> Type:
        """``torch.autograd.backward(tensors)``."""
        found, options = operands("torch.autograd.backward", ctx)
        if not self._given(found, options, "grad_tensors"):
            self._check(ctx, [o for o in found if o.param == "tensors"])
        return ctx.default_return_type

    def autograd_grad(self, ctx: FunctionContext) -> Type:
        """``torch.autograd.grad(outputs, inputs)``: the duals of the inputs."""
        found, options = operands("torch.autograd.grad", ctx)
        if not self._given(found, options, "grad_outputs"):
            self._check(ctx, [o for o in found if o.param == "outputs"])
        inputs = [o for o in found if o.param == "inputs"]
        written = [self.layouts.write(self._gradient(o)) for o in inputs]
        default = get_proper_type(ctx.default_return_type)
        if not written:
            return default
        if all(w == written[0] for w in written):
            return self.layouts.put(default, written[:1])
        if not isinstance(default, Instance):
            return default
        return TupleType([self.layouts.tensor(w) for w in written], default)

    def _gradient(self, o: Operand) -> Layout:
        layout = layout_of(self.layouts, o) or self.layouts.unknown
        return gradient(layout, self._reduced, parameter=is_parameter(o.type))

    def grad(self, ctx: AttributeContext) -> Type:
        """``x.grad``: the dual of ``x``."""
        t = get_proper_type(ctx.type)
        layout = self.layouts.read(t) if is_tensor(t) else None
        if layout is None or not isinstance(ctx.context, MemberExpr):
            return ctx.default_attr_type
        parameter = is_parameter(t)
        dual = gradient(layout, self._reduced, parameter=parameter)
        return self.layouts.put(ctx.default_attr_type, [self.layouts.write(dual)])

    @property
    def _reduced(self) -> frozenset[int]:
        return self.bench.config.reduced

    @staticmethod
    def _given(found: list[Operand], options: dict[str, OptionValue], name: str) -> bool:
        return any(o.param == name for o in found) or options.get(name) is not None

    def _check(self, ctx: AnyCall, losses: list[Operand]) -> None:
        for o in losses:
            layout = self._settled(o)
            if layout is None:
                continue
            for violation in judge_loss(layout, self._reduced):
                kind = layout[violation.axis]
                assert kind is not None
                name = self.bench.text(ctx.api, o.expression, "the loss")
                message = loss_message(name, kind, self.bench.axis(violation.axis))
                self.bench.fail(ctx.api, ctx.context, message.code, message.text, message.notes)

    def _settled(self, o: Operand) -> Layout | None:
        return layout_of(self.layouts, o) if not isinstance(o.type, UnionType) else self.layouts.read(o.type)
