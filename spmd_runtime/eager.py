"""The kernels in eager mode: c10d directly, and the own rank as a number.

A communicating kernel comes in two halves, so that a caller may do something in between: ``start`` gives the buffer that
the communication fills and the work to wait for, ``finish`` the result.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from spmd_runtime import geometry as geo
from spmd_runtime.geometry import Geometry
from spmd_runtime.mesh import Bound

Started: TypeAlias = "tuple[Tensor, Any]"


def _options(kind: Any, *, sync: bool) -> Any:
    options = kind()
    options.asyncOp = not sync
    return options


# Made once: their construction costs as much as the look-up of an axis.
ALLREDUCE = {sync: _options(c10d.AllreduceOptions, sync=sync) for sync in (True, False)}
ALLGATHER = {sync: _options(c10d.AllgatherOptions, sync=sync) for sync in (True, False)}
REDUCE_SCATTER = {sync: _options(c10d.ReduceScatterOptions, sync=sync) for sync in (True, False)}
ALLTOALL = {sync: _options(c10d.AllToAllOptions, sync=sync) for sync in (True, False)}


def real(x: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones, which every backend can send and sum."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def start_sum(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    out = x.clone(memory_format=torch.contiguous_format)
    if b.size == 1:
        return out, None
    return out, b.group.allreduce([real(out)], ALLREDUCE[sync])


def finish_sum(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return out


def start_gather(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    part = geo.prepare_gather(x, g)
    if b.size == 1:
        return part.clone(), None
    out = part.new_empty((b.size * part.shape[0], *part.shape[1:]))
    return out, b.group._allgather_base(real(out), real(part), ALLGATHER[sync])


def finish_gather(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return geo.finish_gather(out, g, b.size)


def start_scatter(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    parts = geo.prepare_scatter(x, g, b.size)
    if b.size == 1:
        return parts.clone(), None
    out = parts.new_empty((parts.shape[0] // b.size, *parts.shape[1:]))
    return out, b.group._reduce_scatter_base(real(out), real(parts), REDUCE_SCATTER[sync])


def finish_scatter(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return geo.finish_scatter(out, g, b.rank)


def start_exchange(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    parts = geo.prepare_scatter(x, g, b.size)
    if b.size == 1:
        return parts.clone(), None
    out = torch.empty_like(parts)
    return out, b.group.alltoall_base(real(out), real(parts), [], [], ALLTOALL[sync])


def finish_exchange(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return geo.finish_exchange(out, g, b.size)


def same(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return x


def cut(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part."""
    if g.stack:
        return x.select(g.dim, b.rank).contiguous()
    start, length = geo.extent(x, g, b.rank, b.size)
    return x.narrow(g.dim, start, length).contiguous()


def first(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the first rank, zeros on the others."""
    return x if b.rank == 0 else torch.zeros_like(x)


def place(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part at its place, zeros elsewhere."""
    out = x.new_zeros(geo.total(x, g, b.size))
    if g.stack:
        out.select(g.dim, b.rank).copy_(x)
    else:
        out.narrow(g.dim, geo.extent(out, g, b.rank, b.size)[0], x.shape[g.dim]).copy_(x)
    return out
