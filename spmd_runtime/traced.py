"""The kernels under ``torch.compile`` and tracing: functional collectives on the axis's name.

A graph made of these names the axis and nothing of the rank that traced it: where the own rank is needed, it is a
tensor, the result of the operator ``spmd_runtime::axis_index``.  Only parts of explicit split sizes differ from rank to
rank.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed._functional_collectives  # noqa: F401  # registers the operators' fake kernels
from torch import Tensor

from spmd_runtime import eager
from spmd_runtime import geometry as geo
from spmd_runtime.eager import real
from spmd_runtime.geometry import Geometry
from spmd_runtime.mesh import Bound, lookup

_c10d = torch.ops._c10d_functional


@torch.library.custom_op("spmd_runtime::axis_index", mutates_args=())
def _axis_index(axis: str, device: torch.device) -> Tensor:
    return lookup(axis).index(device).clone()


@_axis_index.register_fake
def _(axis: str, device: torch.device) -> Tensor:
    return torch.empty((), dtype=torch.int64, device=device)


@torch.library.custom_op("spmd_runtime::shift", mutates_args=())
def _shift(x: Tensor, offset: int, axis: str) -> Tensor:
    bound, geometry = lookup(axis), Geometry(place=offset)
    out, work = eager.start_ring(x, bound, geometry, False)
    if work is not None:
        torch._C._distributed_c10d._register_work(out, work)
    return out  # type: ignore[no-any-return]


@_shift.register_fake
def _(x: Tensor, offset: int, axis: str) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def index(name: str, device: torch.device) -> Tensor:
    """The own rank on the axis as a 0-d int64 tensor, read when the graph runs."""
    return torch.ops.spmd_runtime.axis_index(name, device)  # type: ignore[no-any-return]


def wait(out: Any, is_complex: bool) -> Any:
    """The buffer of a functional collective, filled; complex again where the input was."""
    if isinstance(out, tuple):
        return wait(out[0], is_complex), out[1]
    filled = _c10d.wait_tensor(out)
    return torch.view_as_complex(filled) if is_complex else filled


def start_sum(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return _c10d.all_reduce(real(x), "sum", b.name)  # type: ignore[no-any-return]


def start_gather(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return _c10d.all_gather_into_tensor(real(geo.prepare_gather(x, g)), b.size, b.name)  # type: ignore[no-any-return]


def start_scatter(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    parts = real(geo.prepare_scatter(x, g, b.size))
    return _c10d.reduce_scatter_tensor(parts, "sum", b.size, b.name)  # type: ignore[no-any-return]


def start_exchange(x: Tensor, b: Bound, g: Geometry) -> Any:
    if g.sizes is not None or g.join_sizes is not None:
        parcels = geo.pack(x, g, b.rank, b.size)
        flat = _c10d.all_to_all_single(real(parcels.flat), parcels.received, parcels.sent, b.name)
        return flat, parcels
    parts = real(geo.prepare_scatter(x, g, b.size))
    sizes = list(geo.equal(parts.shape[0], b.size))
    return _c10d.all_to_all_single(parts, sizes, sizes, b.name)


def start_spread(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return _c10d.broadcast(real(x), g.place, b.name)  # type: ignore[no-any-return]


def start_collect(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return start_sum(x, b, g)


def finish_collect(out: Tensor, b: Bound, g: Geometry) -> Tensor:
    return keep(out, b, g)


def start_ring(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return torch.ops.spmd_runtime.shift(real(x), g.place, b.name)  # type: ignore[no-any-return]


def same(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return x.view_as(x)


def _own(x: Tensor, b: Bound) -> Tensor:
    return index(b.name, x.device)


def cut(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part."""
    if g.sizes is not None:
        return eager.cut(x, b, g)
    if g.stack:
        return x.index_select(g.dim, _own(x, b).view(1)).squeeze(g.dim)
    dim = g.dim % x.dim()
    shape = list(x.shape)
    chunks = x.reshape([*shape[:dim], b.size, shape[dim] // b.size, *shape[dim + 1 :]])
    return chunks.index_select(dim, _own(x, b).view(1)).squeeze(dim)


def first(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the first rank, zeros on the others."""
    return torch.where(_own(x, b) == 0, x, torch.zeros_like(x))


def keep(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the root, zeros on the others."""
    return torch.where(_own(x, b) == g.place, x, torch.zeros_like(x))


def place(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part at its place, zeros elsewhere."""
    if g.sizes is not None:
        return eager.place(x, b, g)
    dim = g.dim % (x.dim() + g.stack)
    shape = [1] * (x.dim() + 1)
    shape[dim] = b.size
    mine = (torch.arange(b.size, device=x.device) == _own(x, b)).view(shape)
    wide = x.unsqueeze(dim)
    out = torch.where(mine, wide, torch.zeros_like(wide))
    return out if g.stack else out.flatten(dim, dim + 1)
