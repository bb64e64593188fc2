"""The kernels in eager mode: c10d directly, and the own rank as a number.

A communicating kernel comes in two halves, so that a caller may do something in between: ``start_*`` gives the buffer
that the communication fills and the work to wait for, ``finish_*`` the result.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import torch
from torch import Tensor
from torch._C import _distributed_c10d as c10d

from spmd_runtime import geometry as geo
from spmd_runtime.geometry import Geometry
from spmd_runtime.mesh import Bound

Started: TypeAlias = "tuple[Any, Any]"


def _both(kind: Any) -> dict[bool, Any]:
    """Options of a collective by whether it is synchronous; made once, for making them costs more than a look-up."""
    found: dict[bool, Any] = {}
    for sync in (True, False):
        found[sync] = kind()
        found[sync].asyncOp = not sync
    return found


ALLREDUCE: Final = _both(c10d.AllreduceOptions)
ALLGATHER: Final = _both(c10d.AllgatherOptions)
REDUCE_SCATTER: Final = _both(c10d.ReduceScatterOptions)
ALLTOALL: Final = _both(c10d.AllToAllOptions)


def _rooted(kind: Any, root: int, *, sync: bool) -> Any:
    options = kind()
    options.rootRank = root
    options.asyncOp = not sync
    return options


def real(x: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones, which every backend can send and sum."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def fresh(x: Tensor) -> Tensor:
    """A contiguous copy."""
    return x.clone(memory_format=torch.contiguous_format)


def start_sum(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    out = fresh(x)
    if b.size == 1:
        return out, None
    return out, b.group.allreduce([real(out)], ALLREDUCE[sync])


def sum_in_place(x: Tensor, b: Bound) -> Tensor:
    """Sum the contiguous real tensor ``x`` into itself."""
    work = b.group.allreduce([x], ALLREDUCE[True]) if b.size > 1 else None
    if work is not None:
        work.wait()
    return x


def start_gather(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    part = geo.prepare_gather(x, g)
    if b.size == 1:
        return fresh(part), None
    out = part.new_empty((b.size * part.shape[0], *part.shape[1:]))
    return out, b.group._allgather_base(real(out), real(part), ALLGATHER[sync])


def finish_gather(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return geo.finish_gather(out, g, b.size)


def start_scatter(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    parts = geo.prepare_scatter(x, g, b.size)
    if b.size == 1:
        return fresh(parts), None
    out = parts.new_empty((parts.shape[0] // b.size, *parts.shape[1:]))
    return out, b.group._reduce_scatter_base(real(out), real(parts), REDUCE_SCATTER[sync])


def finish_scatter(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return geo.finish_scatter(out, g, b.rank)


def start_exchange(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    if g.sizes is not None or g.join_sizes is not None:
        return _start_parcels(x, b, g, sync)
    parts = geo.prepare_scatter(x, g, b.size)
    if b.size == 1:
        return fresh(parts), None
    out = torch.empty_like(parts)
    return out, b.group.alltoall_base(real(out), real(parts), [], [], ALLTOALL[sync])


def _start_parcels(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    parcels = geo.pack(x, g, b.rank, b.size)
    out = parcels.flat.new_empty(sum(parcels.received))
    if b.size == 1:
        return (out.copy_(parcels.flat), parcels), None
    work = b.group.alltoall_base(real(out), real(parcels.flat), parcels.received, parcels.sent, ALLTOALL[sync])
    return (out, parcels), work


def finish_exchange(out: Any, b: Bound, g: Geometry) -> Tensor:
    if isinstance(out, tuple):
        return geo.unpack(out[0], out[1], g)
    return geo.finish_exchange(out, g, b.size)


def start_spread(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    out = fresh(x) if b.rank == g.place else torch.empty_like(x, memory_format=torch.contiguous_format)
    if b.size == 1:
        return out, None
    return out, b.group.broadcast([real(out)], _rooted(c10d.BroadcastOptions, g.place, sync=sync))


def start_collect(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    out = fresh(x)
    if b.size == 1:
        return out, None
    return out, b.group.reduce([real(out)], _rooted(c10d.ReduceOptions, g.place, sync=sync))


def finish_collect(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return out if b.rank == g.place else out.zero_()


def start_ring(x: Tensor, b: Bound, g: Geometry, sync: bool) -> Started:
    """An all-to-all in which each rank has one part for one other: one call on every backend, and no deadlock."""
    x = x.contiguous()
    if g.place % b.size == 0:
        return fresh(x), None
    out = torch.empty_like(x)
    sent, received = [0] * b.size, [0] * b.size
    sent[(b.rank + g.place) % b.size] = received[(b.rank - g.place) % b.size] = x.numel()
    return out, b.group.alltoall_base(real(out.view(-1)), real(x.view(-1)), received, sent, ALLTOALL[sync])


def same(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The tensor itself; autograd makes the output a view of it."""
    return x


def cut(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part."""
    if g.stack:
        return x.select(g.dim, b.rank).contiguous()
    start, length = geo.extent(x.shape[g.dim], g, b.rank, b.size)
    return x.narrow(g.dim, start, length).contiguous()


def first(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the first rank, zeros on the others."""
    return x if b.rank == 0 else torch.zeros_like(x)


def keep(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the root, zeros on the others."""
    return x if b.rank == g.place else torch.zeros_like(x)


def place(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part at its place, zeros elsewhere."""
    out = x.new_zeros(geo.whole(x, g, b.size))
    if g.stack:
        out.select(g.dim, b.rank).copy_(x)
    else:
        out.narrow(g.dim, geo.extent(out.shape[g.dim], g, b.rank, b.size)[0], x.shape[g.dim]).copy_(x)
    return out
