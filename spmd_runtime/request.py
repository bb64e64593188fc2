"""From a call's arguments to its plan, and the plans that are kept."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from spmd_mypy.rules.kinds import AxisType
from spmd_runtime.geometry import Geometry
from spmd_runtime.mesh import axis_name, lookup, on_change
from spmd_runtime.options import Dtypes, checked
from spmd_runtime.plan import Plan
from spmd_runtime.rows import find_row, kind


class Request(NamedTuple):
    """What a call asks for.

    ``cut`` and ``join`` are the dims given besides those of S(i), ``sizes`` and ``join_sizes`` the lengths of the
    parts; ``place`` is the root of a broadcast, the offset of a shift.
    """

    op: str
    axis: Any
    src: Any
    dst: Any
    op_dtype: torch.dtype | None = None
    out_dtype: torch.dtype | None = None
    backward: Dtypes | None = None
    expert: bool = False
    cut: int | None = None
    join: int | None = None
    sizes: tuple[int, ...] | None = None
    join_sizes: tuple[int, ...] | None = None
    place: int = 0
    careful: bool = True


_compiling: Final = torch.compiler.is_compiling
_plans: dict[tuple[Any, ...], Plan] = {}
on_change(_plans.clear)


class Call(Protocol):
    """What a request comes to: a :class:`Plan`, or under Dynamo the like of it."""

    def __call__(self, x: Tensor) -> Tensor:
        """Carry the call out on ``x``."""


def find(*key: Any) -> Call:
    """The plan for ``Request(*key)``, made once."""
    if _compiling():
        from spmd_runtime import compiled  # noqa: PLC0415  # takes long to import

        return compiled.find(key)
    try:
        plan = _plans.get(key)
    except TypeError:  # something that has no hash
        axis_name(key[1])
        raise
    if plan is None or plan.bound.world is not dist.GroupMember.WORLD:
        plan = make(Request(*key))
        if plan.geometry.sizes is None and plan.geometry.join_sizes is None:  # those change from step to step
            _plans[key] = plan
    return plan


def make(request: Request) -> Plan:
    """Check the arguments and make the plan; raises LookupError, TypeError or ValueError that says what would do."""
    bound = lookup(request.axis)
    op = request.op
    src, dst = kind(request.src, f"{op}: src"), kind(request.dst, f"{op}: dst")
    row = find_row(op, src, dst, expert=request.expert, axis=bound.name)
    if row.op == "all_to_all":
        geometry = _exchange(request, src, dst)
    else:
        geometry = _parts(request, dst if row.dst in ("V", "S") else src)
    dtypes = Dtypes(
        checked(request.op_dtype, f"{op}: op_dtype"), checked(request.out_dtype, f"{op}: out_dtype"), request.backward
    )
    return Plan(row, bound, geometry, dtypes, careful=request.careful)


def _parts(request: Request, part: AxisType) -> Geometry:
    if part.dim is None and request.sizes is not None:
        raise ValueError(f"{request.op}: split sizes are for the parts of an S(i); a V has one entry per rank")
    return Geometry(_agreed(request.op, request.cut, part), part.dim is None, request.sizes, place=request.place)


def _exchange(request: Request, src: AxisType, dst: AxisType) -> Geometry:
    """S(i) -> S(j) is cut along j and joined along i; a V says its dim by ``split_dim`` and ``concat_dim``."""
    sizes, join_sizes = request.sizes, request.join_sizes
    if src.dim is not None and dst.dim is not None:
        src, dst = dst, src
    stack = src.dim is None and dst.dim is None and sizes is None and join_sizes is None
    cut, join = _agreed(request.op, request.cut, src), _agreed(request.op, request.join, dst)
    return Geometry(cut, stack, sizes, join, join_sizes)


def _agreed(op: str, given: int | None, kind: AxisType) -> int:
    """The dim that both say: the one given by name, and that of S(i)."""
    if given is not None and kind.dim is not None and given != kind.dim:
        raise ValueError(f"{op}: dim {given} is given beside {kind}, which says dim {kind.dim}; leave one out")
    return given if given is not None else kind.dim or 0
