"""Collectives that return before they are done, and those that write into their argument."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from spmd_runtime import debug
from spmd_runtime.eager import sum_in_place
from spmd_runtime.pending import Pending
from spmd_runtime.plan import Plan, is_plain
from spmd_runtime.request import Call
from spmd_runtime.rows import no_tensor


class _Late(torch.autograd.Function):
    """Enters the autograd graph when a pending result is taken; ``out`` is what is being received."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Plan, take: Any) -> Tensor:
        ctx.plan = plan
        return take()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.plan.dual(grad), None, None


class _LateTraced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Any, plan: Plan) -> Tensor:
        ctx.plan = plan
        return plan.trace_finish(out, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.plan.dual(grad), None, None


def begin(plan: Call, x: Tensor) -> Pending[Tensor]:
    """Start ``plan`` on ``x``; autograd sees it as of the ``wait()``, under the gradient mode of now."""
    if not isinstance(plan, Plan):  # under Dynamo
        return plan.begin(x)  # type: ignore[attr-defined,no-any-return]  # a compiled.Compiled, not imported here
    try:
        differentiable = x.requires_grad and torch.is_grad_enabled()
    except AttributeError:
        raise no_tensor(plan, x) from None
    if differentiable and plan.careful:
        plan.refuse_silent_low_precision(x)
    if torch.compiler.is_compiling() or not is_plain(x):
        return _begin_traced(plan, x, differentiable)
    with torch.no_grad():
        sent, dtype = plan.cast(x)
        plan.before(sent)
        out, work = plan.start(sent, False)

    def take() -> Tensor:
        if work is not None:
            work.wait()
        return plan.finish(out).to(dtype)

    def finish() -> Tensor:
        with torch.set_grad_enabled(differentiable):
            return _Late.apply(x, plan, take) if differentiable else take()  # type: ignore[no-untyped-call]

    return Pending(finish)


def _begin_traced(plan: Plan, x: Tensor, differentiable: bool) -> Pending[Tensor]:
    with torch.no_grad():
        sent, dtype = plan.cast(x)
        out = plan.trace_start(sent)
    if not differentiable:
        return Pending(lambda: plan.trace_finish(out, sent).to(dtype))
    plan.dual.dual  # noqa: B018  # made now: inside a traced function nothing outside of it may change
    return Pending(lambda: _LateTraced.apply(x, out, plan).to(dtype))  # type: ignore[no-untyped-call]


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        ctx.mark_dirty(x)
        return _write(plan, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.plan.dual(grad), None


def _write(plan: Plan, x: Tensor) -> Tensor:
    """The forward of an all_reduce, into ``x``."""
    if torch.compiler.is_compiling() or not is_plain(x):
        return x.copy_(plan.trace(x))
    if debug.ENABLED or x.is_complex() or x.is_neg() or not x.is_contiguous():
        return x.copy_(plan.run(x))
    with torch.no_grad():
        return sum_in_place(x, plan.bound)


def in_place(plan: Call, x: Tensor, plain: bool) -> Tensor:
    """Carry out ``plan`` and write the result into ``x``; only where it is ``plain``: at once and in the dtype of x."""
    if not plain:
        raise ValueError("all_reduce: inplace=True goes with neither op_dtype, out_dtype nor async_op")
    if not isinstance(plan, Plan):  # under Dynamo
        return plan.in_place(x)  # type: ignore[attr-defined,no-any-return]  # a compiled.Compiled, not imported here
    try:
        differentiable = x.requires_grad and torch.is_grad_enabled()
    except AttributeError:
        raise no_tensor(plan, x) from None
    if not differentiable:
        return _write(plan, x)
    if plan.careful:
        plan.refuse_silent_low_precision(x)
    return _InPlace.apply(x, plan)  # type: ignore[no-any-return,no-untyped-call]
