"""Calls under ``torch.compile``: what Dynamo has to follow, kept short.

Looking up rows and making plans is Python that Dynamo would trace call by call.  Here it is done once per call site, by
a function whose result Dynamo takes for a constant: a tuple of plain values, the *spec*.  What is left to trace is
about what a hand-written autograd function has.  The spec depends on the axis's name and size, which Dynamo guards.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from spmd_runtime import geometry, traced
from spmd_runtime.mesh import axis_name, lookup, stacks
from spmd_runtime.options import LOW_PRECISION, Dtypes
from spmd_runtime.pending import Pending
from spmd_runtime.plan import Plan
from spmd_runtime.request import Request, make
from spmd_runtime.types import Shard


class Spec(NamedTuple):
    """A plan in plain values; stands for the bound axis and the geometry where kernels ask for these."""

    label: str
    kernel: str
    communicates: bool
    casts: bool
    careful: bool
    name: str
    size: int
    dim: int
    stack: bool
    join: int
    place: int
    op: torch.dtype | None
    out: torch.dtype | None
    dual: Any = None  # the spec of the backward; a backward has none
    sizes: None = None  # explicit split sizes take the longer way, for they need not be constants
    join_sizes: None = None


def _constant_spec(name: str, size: int, op: str, *key: Any) -> Spec:
    """The spec for ``Request(op, name, *key)``; runs as ordinary Python while Dynamo traces."""
    axis: Any = name if name in stacks else c10d._resolve_process_group(name)  # type: ignore[arg-type]
    plan = make(Request(op, axis, *key))
    if plan.bound.size != size:
        raise RuntimeError(f"axis {name!r} had {size} ranks a moment ago and has {plan.bound.size} now")
    return _spec(plan, _spec(plan.dual, None))


_constant_spec._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler.assume_constant_result


def _spec(plan: Plan, dual: Spec | None) -> Spec:
    g, d = plan.geometry, plan.dtypes
    how = (plan.kernel, plan.communicates, d.op is not None or d.out is not None, plan.careful)
    return Spec(
        str(plan), *how, plan.bound.name, plan.bound.size, g.dim, g.stack, g.join, g.place, d.op, d.out, dual
    )  # fmt: skip


def _plain(kind: Any) -> Any:
    """A type as something that is a constant to Dynamo."""
    return f"S({kind.dim})" if isinstance(kind, Shard) else kind


class Compiled:
    """A call's plan, as Dynamo sees it."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def __call__(self, x: Tensor) -> Tensor:
        spec = self.spec
        if not (x.requires_grad and torch.is_grad_enabled()):
            return run(x, spec)
        if spec.careful:
            refuse_silent_low_precision(x, spec)
        return _Compiled.apply(x, spec)  # type: ignore[no-any-return,no-untyped-call]

    def begin(self, x: Tensor) -> Pending[Tensor]:
        """Start the call; the graph waits where ``wait()`` stands."""
        spec = self.spec
        with torch.no_grad():
            sent, dtype = cast(x, spec)
            out = start(sent, spec)
        if not (x.requires_grad and torch.is_grad_enabled()):
            return Pending(lambda: finish(out, sent.is_complex(), spec).to(dtype))
        refuse_silent_low_precision(x, spec)
        return Pending(lambda: _Late.apply(x, out, dtype, spec))  # type: ignore[no-untyped-call]

    def in_place(self, x: Tensor) -> Tensor:
        """Carry out an all_reduce and write the result into ``x``."""
        if not (x.requires_grad and torch.is_grad_enabled()):
            return x.copy_(run(x, self.spec))
        refuse_silent_low_precision(x, self.spec)
        return _InPlace.apply(x, self.spec)  # type: ignore[no-any-return,no-untyped-call]


def refuse_silent_low_precision(x: Tensor, spec: Spec) -> None:
    """Raise ValueError where the backward would sum in a precision that nobody asked for."""
    if spec.careful and (x.dtype in LOW_PRECISION or spec.op in LOW_PRECISION or spec.out in LOW_PRECISION):
        options = "backward_options={'op_dtype': ...}"
        raise ValueError(f"{spec.label} of a {x.dtype} tensor: name the precision of the backward's sum, {options}")


def find(key: tuple[Any, ...]) -> Compiled | Plan:
    """The call's plan, under Dynamo."""
    if key[10:11] not in ((), (None,)) or key[11:12] not in ((), (None,)):  # split sizes
        plan = make(Request(*key))
        plan.dual.dual  # noqa: B018  # made now: inside a traced function nothing outside of it may change
        return plan
    axis = key[1]
    name = lookup(axis).name if isinstance(axis, dist.ProcessGroup) else axis_name(axis)
    size = stacks[name][-1].size if name in stacks else lookup(axis).size
    return Compiled(_constant_spec(name, size, key[0], _plain(key[2]), _plain(key[3]), *key[4:]))


_START: Final[dict[str, Any]] = {
    "sum": traced.start_sum, "gather": traced.start_gather, "scatter": traced.start_scatter,
    "exchange": traced.start_exchange, "spread": traced.start_spread, "collect": traced.start_collect,
    "ring": traced.start_ring, "same": traced.same, "cut": traced.cut, "first": traced.first, "keep": traced.keep,
    "place": traced.place,
}  # fmt: skip

# The commonest calls go straight to these.
_all_reduce: Final = torch.ops._c10d_functional.all_reduce
_wait: Final = torch.ops._c10d_functional.wait_tensor

_SHRINKS: Final = ("sum", "scatter", "cut", "collect")


def cast(x: Tensor, spec: Spec) -> tuple[Tensor, torch.dtype]:
    """``x`` in the dtype of the communication, and the dtype of the result."""
    op, out = Dtypes(spec.op, spec.out).resolved(x.dtype, shrinks=spec.kernel in _SHRINKS)
    return x.to(op), out


def start(x: Tensor, spec: Any) -> Any:
    """Check the shape, and start: a buffer that is not waited for, or the result of what moves nothing."""
    kernel = spec.kernel
    if kernel in ("scatter", "cut", "exchange"):
        geometry.check_cut(x, spec, 0, spec.size)
    elif kernel in ("gather", "place"):
        geometry.check_part(x, spec, 0, spec.size)
    return _START[kernel](x, spec, spec)


def finish(out: Any, is_complex: bool, spec: Any) -> Tensor:
    """Wait for the buffer, and build the result."""
    if not spec.communicates:
        return out  # type: ignore[no-any-return]
    out = traced.wait(out, is_complex)
    if spec.kernel == "gather":
        return geometry.finish_gather(out, spec, spec.size)
    if spec.kernel == "scatter":
        return geometry.finish_scatter(out, spec, 0)
    if spec.kernel == "exchange":
        return geometry.finish_exchange(out, spec, spec.size)
    return traced.keep(out, spec, spec) if spec.kernel == "collect" else out


def run(x: Tensor, spec: Spec) -> Tensor:
    """The call, forward."""
    if spec.casts:
        x, dtype = cast(x, spec)
        return finish(start(x, spec), x.is_complex(), spec).to(dtype)
    if spec.kernel == "same":
        return x.view_as(x)
    if spec.kernel == "sum" and not x.is_complex():
        return _wait(_all_reduce(x, "sum", spec.name))  # type: ignore[no-any-return]
    return finish(start(x, spec), x.is_complex(), spec)


class _Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, spec: Spec) -> Tensor:
        ctx.dual = spec.dual
        return run(x, spec)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return run(grad, ctx.dual), None


class _Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, out: Any, dtype: torch.dtype, spec: Spec) -> Tensor:
        ctx.dual = spec.dual
        return finish(out, x.is_complex(), spec).to(dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return run(grad, ctx.dual), None, None, None


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, spec: Spec) -> Tensor:
        ctx.dual = spec.dual
        ctx.mark_dirty(x)
        return x.copy_(run(x, spec))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return run(grad, ctx.dual), None
