"""How a call is carried out: the row of the table, the kernel for it, and the gradient's way back.

A :class:`Plan` is what a call comes to once its axis, types and options are known.  Plans are kept, so that the next
call of the same kind only looks its plan up.  The gradient takes the plan of the row's backward, which has a backward
of its own: there is one autograd function for all rows, to any order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.autograd import forward_ad, profiler

from spmd_mypy.rules.collectives import Transition
from spmd_runtime import debug, eager, geometry, rows
from spmd_runtime.geometry import Geometry, Misfit
from spmd_runtime.mesh import Bound
from spmd_runtime.options import LOW_PRECISION, NONE, Dtypes

_PLAIN: Final = frozenset({torch.Tensor, torch.nn.Parameter})

# Asked in every call; as names of their own, for each dot costs a look-up.
_compiling: Final = torch.compiler.is_compiling
_dispatch_modes: Final = torch._C._len_torch_dispatch_stack
_transforms: Final = torch._C._are_functorch_transforms_active
_grad_enabled: Final = torch.is_grad_enabled

# What must hold of a tensor's shape before anything is sent, by kernel.
_FITS: Final = {
    "gather": (geometry.check_part,), "place": (geometry.check_part,),
    "scatter": (geometry.check_cut,), "cut": (geometry.check_cut,),
    "exchange": (geometry.check_cut, geometry.check_join),
}  # fmt: skip

# Kernels whose result is smaller than what comes in: no precision is given up before them.
_SHRINKING: Final = frozenset({"sum", "scatter", "cut", "collect"})


class Plan:
    """One kind of call on one axis.

    Calling it goes through autograd, tracing or a transform as the tensor demands; ``run`` is the eager forward alone.
    """

    __slots__ = (
        "_dual", "_finish", "_fits", "_start", "asks", "bound", "careful", "communicates", "dtypes", "geometry",
        "kernel", "label", "passes", "row", "run",
    )  # fmt: skip

    def __init__(self, row: Transition, bound: Bound, geo: Geometry, dtypes: Dtypes, *, careful: bool = True) -> None:
        self.row = row
        self.bound = bound
        self.geometry = geo
        self.dtypes = dtypes
        # Whether a low-precision sum in the backward has to be asked for, and has not been.
        self.asks = careful
        self.careful = careful and row.backward[0] in rows.REDUCING and not dtypes.names_backward_dtype()
        self.kernel = rows.kernel(row)
        self.communicates = row.op in rows.COMMUNICATING
        # Whether the gradient comes back as it is, unless one asks for its own gradient.
        self.passes = rows.kernel(rows.backward(row)) == "same" and dtypes.backward is None and not debug.ENABLED
        self.label = f"spmd::{row.op}[{bound.name}]"
        self._dual: Plan | None = None
        self._fits = _FITS.get(self.kernel, ())
        self._start: Any = getattr(eager, f"start_{self.kernel}" if self.communicates else self.kernel)
        self._finish: Any = getattr(eager, f"finish_{self.kernel}", None)
        self.run: Callable[[Tensor], Tensor] = _runner(self)

    def __repr__(self) -> str:
        return f"{self.row.op}(axis {self.bound.name!r}, {self.row.src} -> {self.row.dst})"

    @property
    def dual(self) -> Plan:
        """The plan of the gradient."""
        if self._dual is None:
            row, turned = rows.backward(self.row), self.geometry
            if row.op == "all_to_all":
                turned = turned.swapped()
            elif row.op == "shift":
                turned = turned.reversed()
            self._dual = Plan(row, self.bound, turned, self.dtypes.backward or NONE, careful=self.asks)
        return self._dual

    def batched(self) -> Plan:
        """The same for a tensor with a new leading dim."""
        return Plan(self.row, self.bound, self.geometry.batched(), self.dtypes, careful=False)

    def __call__(self, x: Tensor) -> Tensor:
        if (
            _compiling()
            or type(x) not in _PLAIN
            or _dispatch_modes()
            or _transforms()
            or forward_ad._current_level >= 0
        ):  # that is, not is_plain(x); written out, for a call costs as much as the question
            return special(self, x)
        if x.requires_grad and _grad_enabled():
            if self.careful:
                self.refuse_silent_low_precision(x)
            return _apply(x, self)  # type: ignore[no-any-return,no-untyped-call]
        return self.run(x)

    def start(self, x: Tensor, sync: bool) -> tuple[Any, Any]:
        """Check, and send: the buffer being filled, and the work to wait for."""
        if not self.communicates:
            return self.run_local(x), None
        for fits in self._fits:
            self.check(fits, x)
        try:
            return self._start(x, self.bound, self.geometry, sync)  # type: ignore[no-any-return]
        except RuntimeError as error:
            raise _explained(self, x, error) from error

    def finish(self, out: Any) -> Tensor:
        """The result, from the buffer that has been filled."""
        return out if self._finish is None else self._finish(out, self.bound, self.geometry)  # type: ignore[no-any-return]

    def run_local(self, x: Tensor) -> Tensor:
        """Check, and carry out what moves no data."""
        for fits in self._fits:
            self.check(fits, x)
        return self._start(x, self.bound, self.geometry)  # type: ignore[no-any-return]

    def check(self, fits: Any, x: Tensor) -> None:
        """Raise ValueError where ``x`` cannot be cut or joined as the call says."""
        try:
            fits(x, self.geometry, self.bound.rank, self.bound.size)
        except Misfit as misfit:
            raise ValueError(f"{self} of a tensor of shape {tuple(x.shape)}: {misfit}") from None

    def cast(self, x: Tensor) -> tuple[Tensor, torch.dtype]:
        """``x`` in the dtype of the communication, and the dtype of the result."""
        op, out = self.dtypes.resolved(x.dtype, shrinks=self.kernel in _SHRINKING)
        return x.to(op), out

    def run_fully(self, x: Tensor) -> Tensor:
        """``run`` with all that may be asked for: a name in the profile, dtypes, SPMD_DEBUG's checks."""
        if self.communicates and profiler._is_profiler_enabled:
            with torch.autograd.profiler.record_function(self.label):
                return self._run_checked(x)
        return self._run_checked(x)

    def _run_checked(self, x: Tensor) -> Tensor:
        x, dtype = self.cast(x)
        for fits in self._fits:  # before the other ranks hear of it
            self.check(fits, x)
        self.before(x)
        out, work = self.start(x, True)
        if work is not None:
            work.wait()
        result = self.finish(out)
        if debug.ENABLED:
            debug.after(self, result)
        return result.to(dtype)

    def before(self, x: Tensor) -> None:
        """With SPMD_DEBUG=1, compare with the other ranks before anything is sent."""
        if debug.ENABLED:
            debug.before(self, x)

    def trace(self, x: Tensor) -> Tensor:
        """The forward as functional collectives on the axis's name."""
        x, dtype = self.cast(x)
        return self.trace_finish(self.trace_start(x), x).to(dtype)

    def trace_start(self, x: Tensor) -> Any:
        """The buffer of the functional collective, not waited for."""
        from spmd_runtime import traced  # noqa: PLC0415  # takes long to import

        for fits in self._fits:
            self.check(fits, x)
        kernel = getattr(traced, f"start_{self.kernel}" if self.communicates else self.kernel)
        return kernel(x, self.bound, self.geometry)

    def trace_finish(self, out: Any, x: Tensor) -> Tensor:
        """Wait for the buffer and build the result; ``x`` is what went in."""
        from spmd_runtime import traced  # noqa: PLC0415  # takes long to import

        if not self.communicates:
            return out  # type: ignore[no-any-return]
        out = traced.wait(out, x.is_complex())
        finish = traced.finish_collect if self.kernel == "collect" else self._finish
        return out if finish is None else finish(out, self.bound, self.geometry)

    def refuse_silent_low_precision(self, x: Tensor) -> None:
        """Raise ValueError where the backward would sum in a precision that nobody asked for."""
        if x.dtype in LOW_PRECISION or self.dtypes.low():
            raise ValueError(
                f"{self} of a {x.dtype} tensor that requires grad: its backward sums gradients over the ranks; say in "
                f"which precision: backward_options={{'op_dtype': torch.float32}}, or {x.dtype} if that will do"
            )


def is_plain(x: Tensor) -> bool:
    """Whether ``x`` is an ordinary tensor in eager mode: no tracing, no transform, no subclass."""
    return type(x) in _PLAIN and not _dispatch_modes() and not _transforms() and forward_ad._current_level < 0


def _itself(x: Tensor) -> Tensor:
    return x


def _runner(plan: Plan) -> Callable[[Tensor], Tensor]:
    """The eager forward of ``plan`` with nothing in it that this plan does not need."""
    finish, bound, geo = plan._finish, plan.bound, plan.geometry
    if debug.ENABLED or plan.dtypes.op is not None or plan.dtypes.out is not None:
        return plan.run_fully
    if plan.kernel == "same":
        return _itself
    if not plan.communicates:
        return plan.run_local

    def run(x: Tensor) -> Tensor:
        if profiler._is_profiler_enabled:
            return plan.run_fully(x)
        out, work = plan.start(x, True)
        if work is not None:
            work.wait()
        return out if finish is None else finish(out, bound, geo)  # type: ignore[no-any-return]

    return run


class Collective(torch.autograd.Function):
    """Every row, in eager mode; also under forward-mode AD, for a collective is linear."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        if debug.ENABLED:
            ctx.site = debug.site()
        return plan.run(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        plan = ctx.plan
        if plan.passes and not _grad_enabled():
            return grad, None
        if debug.ENABLED:
            with debug.backward_of(ctx.site):
                return plan.dual(grad), None
        return plan.dual(grad), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return ctx.plan(tangent)  # type: ignore[no-any-return]


# Function.apply without its look at transforms, which ``is_plain`` has had.
_apply: Final = super(torch.autograd.Function, Collective).apply


class Traced(torch.autograd.Function):
    """Every row, under ``torch.compile`` and tracing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: Plan) -> Tensor:
        ctx.plan = plan
        return plan.trace(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.plan.dual(grad), None


class Transformed(torch.autograd.Function):
    """Every row, under ``torch.func``: vmap moves the batch to the front, where it is one more dim for all ranks."""

    @staticmethod
    def forward(x: Tensor, plan: Plan) -> Tensor:
        return plan(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Plan], output: Tensor) -> None:
        ctx.plan = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.plan.dual(grad), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], x: Tensor, plan: Plan) -> tuple[Tensor, int]:
        return plan.batched()(x.movedim(in_dims[0], 0)), 0

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> Tensor:
        return ctx.plan(tangent)  # type: ignore[no-any-return]


def special(plan: Plan, x: Tensor) -> Tensor:
    """Carry ``plan`` out where ``x`` is no ordinary tensor in eager mode."""
    if torch.compiler.is_compiling():
        return _trace(plan, x)
    if not hasattr(x, "requires_grad"):
        raise rows.no_tensor(plan, x)
    if _transforms():
        return Transformed.apply(x, plan)  # type: ignore[no-any-return,no-untyped-call]
    if hasattr(x, "placements"):
        raise TypeError(f"{plan} got a DTensor; take its local tensor by from_dtensor(x, {{axis: type}}) first")
    if type(x) in _PLAIN and not _dispatch_modes():  # then forward-mode AD is what is special
        return Collective.apply(x, plan)  # type: ignore[no-any-return,no-untyped-call]
    return _trace(plan, x)


def _trace(plan: Plan, x: Tensor) -> Tensor:
    if not (x.requires_grad and torch.is_grad_enabled()):
        return plan.trace(x)
    if plan.careful:
        plan.refuse_silent_low_precision(x)
    plan.dual.dual  # noqa: B018  # made now: inside a traced function nothing outside of it may change
    return Traced.apply(x, plan)  # type: ignore[no-any-return,no-untyped-call]


def _explained(plan: Plan, x: Tensor, error: RuntimeError) -> Exception:
    """What c10d refused, in terms of the call: mostly a tensor on a device that the group does not serve."""
    served = sorted({device.type for device in plan.bound.group._device_types})
    if x.device.type not in served:
        return ValueError(
            f"{plan} got a tensor on {x.device}, but the group of axis {plan.bound.name!r} communicates on "
            f"{', '.join(served)}; move the tensor, or bind the axis to a group with a backend for {x.device.type}"
        )
    return RuntimeError(f"{plan} of a {x.dtype} tensor of shape {tuple(x.shape)} on {x.device}: {error}")
