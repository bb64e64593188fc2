"""Several tensors in one launch: the grouped forms of the collectives, through torch's coalescing.

Each takes a sequence of tensors and gives the list of what the plain form would give for each; all have one src and one
dst, and shapes of their own.  Tensors of several dtypes take a launch per dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from spmd_runtime import debug
from spmd_runtime.eager import ALLGATHER, REDUCE_SCATTER, fresh, real
from spmd_runtime.geometry import prepare_gather, prepare_scatter
from spmd_runtime.options import frozen
from spmd_runtime.plan import Plan, is_plain
from spmd_runtime.request import Call, find
from spmd_runtime.types import AxisLike, Kind, P, V

_SUM: Final = c10d.AllreduceCoalescedOptions()
_GATHER: Final = ALLGATHER[True]
_SCATTER: Final = REDUCE_SCATTER[True]


def all_reduce_coalesced(
    xs: Sequence[Tensor],
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind,
    backward_options: Mapping[str, object] | None = None,
) -> list[Tensor]:
    """:func:`all_reduce` of each, in one launch: P (or V) -> R or I."""
    return _all(find("all_reduce", axis, src, dst, None, None, frozen(backward_options)), xs)


def all_gather_coalesced(
    xs: Sequence[Tensor],
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind,
    backward_options: Mapping[str, object] | None = None,
) -> list[Tensor]:
    """:func:`all_gather` of each, in one launch: V, S(i) -> R or I."""
    return _all(find("all_gather", axis, src, dst, None, None, frozen(backward_options)), xs)


def reduce_scatter_coalesced(
    xs: Sequence[Tensor],
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind = V,
    backward_options: Mapping[str, object] | None = None,
) -> list[Tensor]:
    """:func:`reduce_scatter` of each, in one launch: P (or V) -> V or S(i)."""
    return _all(find("reduce_scatter", axis, src, dst, None, None, frozen(backward_options)), xs)


class _Coalesced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, *xs: Tensor) -> tuple[Tensor, ...]:
        ctx.plan = plan
        return tuple(_launch(plan, xs))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, *_all(ctx.plan.dual, grads)


def _all(plan: Call, xs: Sequence[Tensor]) -> list[Tensor]:
    """``plan`` on each of ``xs``; one launch where they are ordinary tensors and the plan communicates."""
    if not isinstance(plan, Plan) or debug.ENABLED or not plan.communicates or not all(map(is_plain, xs)) or not xs:
        return [plan(x) for x in xs]
    if torch.is_grad_enabled() and any(x.requires_grad for x in xs):
        if plan.careful:
            for x in xs:
                plan.refuse_silent_low_precision(x)
        return list(_Coalesced.apply(plan, *xs))  # type: ignore[no-untyped-call]
    return _launch(plan, xs)


def _launch(plan: Plan, xs: Sequence[Tensor]) -> list[Tensor]:
    """One launch per dtype: backends want one."""
    if plan.bound.size == 1:
        return [plan.run(x) for x in xs]
    for x in xs:
        for fits in plan._fits:
            plan.check(fits, x)
    found: dict[int, Tensor] = {}
    for dtype in dict.fromkeys(x.dtype for x in xs):
        places = [place for place, x in enumerate(xs) if x.dtype == dtype]
        outs = _FILLED[plan.kernel]([xs[place] for place in places], plan)
        found.update((place, plan.finish(out)) for place, out in zip(places, outs, strict=True))
    return [found[place] for place in range(len(xs))]


def _summed(xs: list[Tensor], plan: Plan) -> list[Tensor]:
    outs = [fresh(x) for x in xs]
    _wait(plan.bound.group.allreduce_coalesced([real(out) for out in outs], _SUM))
    return outs


def _gathered(xs: list[Tensor], plan: Plan) -> list[Tensor]:
    n, geo, group = plan.bound.size, plan.geometry, plan.bound.group
    parts = [prepare_gather(x, geo) for x in xs]
    outs = [part.new_empty((n * part.shape[0], *part.shape[1:])) for part in parts]
    _wait(group.allgather_into_tensor_coalesced([real(out) for out in outs], [real(part) for part in parts], _GATHER))
    return outs


def _scattered(xs: list[Tensor], plan: Plan) -> list[Tensor]:
    n, geo, group = plan.bound.size, plan.geometry, plan.bound.group
    parts = [prepare_scatter(x, geo, n) for x in xs]
    outs = [part.new_empty((part.shape[0] // n, *part.shape[1:])) for part in parts]
    _wait(group.reduce_scatter_tensor_coalesced([real(out) for out in outs], [real(part) for part in parts], _SCATTER))
    return outs


_FILLED: Final = {"sum": _summed, "gather": _gathered, "scatter": _scattered}


def _wait(work: Any) -> None:
    if work is not None:
        work.wait()
