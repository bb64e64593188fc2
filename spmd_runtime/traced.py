"""The kernels under ``torch.compile`` and tracing: functional collectives on the axis's name.

A graph made of these names the axis and nothing of the rank that traced it: where the own rank is needed, it is a tensor,
the result of the operator ``spmd_runtime::axis_index``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spmd_runtime import geometry as geo
from spmd_runtime.geometry import Geometry
from spmd_runtime.mesh import Bound, lookup

_c10d = torch.ops._c10d_functional


@torch.library.custom_op("spmd_runtime::axis_index", mutates_args=())
def _axis_index(axis: str, device: torch.device) -> Tensor:
    return lookup(axis).index(device).clone()


@_axis_index.register_fake
def _(axis: str, device: torch.device) -> Tensor:
    return torch.empty((), dtype=torch.int64, device=device)


def index(name: str, device: torch.device) -> Tensor:
    """The own rank on the axis as a 0-d int64 tensor, read when the graph runs."""
    return torch.ops.spmd_runtime.axis_index(name, device)  # type: ignore[no-any-return]


def real(x: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones, which every backend can send and sum."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def like(out: Tensor, x: Tensor) -> Tensor:
    """Undo ``real`` on the result ``out`` where ``x`` is complex."""
    return torch.view_as_complex(out) if x.is_complex() else out


def start_sum(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return like(_c10d.all_reduce(real(x.contiguous()), "sum", b.name), x)


def start_gather(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return like(_c10d.all_gather_into_tensor(real(geo.prepare_gather(x, g)), b.size, b.name), x)


def start_scatter(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return like(_c10d.reduce_scatter_tensor(real(geo.prepare_scatter(x, g, b.size)), "sum", b.size, b.name), x)


def start_exchange(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    parts = geo.prepare_scatter(x, g, b.size)
    sizes = list(geo.equal(parts.shape[0], b.size))
    return like(_c10d.all_to_all_single(real(parts), sizes, sizes, b.name), x)


def same(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    return x.view_as(x)


def _onehot(x: Tensor, b: Bound, dim: int) -> Tensor:
    """True at the own rank's place along ``dim``, of a shape that broadcasts against ``x``."""
    shape = [1] * x.dim()
    shape[dim] = b.size
    return (torch.arange(b.size, device=x.device) == index(b.name, x.device)).view(shape)


def cut(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part."""
    if g.sizes is not None:  # parts of different lengths are different programs: the rank may be a number
        return x.narrow(g.dim, *geo.extent(x, g, b.rank, b.size)).contiguous()
    own = index(b.name, x.device).view(1)
    if g.stack:
        return x.index_select(g.dim, own).squeeze(g.dim)
    dim = g.dim % x.dim()
    return x.unflatten(dim, (b.size, -1)).index_select(dim, own).squeeze(dim)


def first(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The value on the first rank, zeros on the others."""
    return torch.where(index(b.name, x.device) == 0, x, torch.zeros_like(x))


def place(x: Tensor, b: Bound, g: Geometry) -> Tensor:
    """The own part at its place, zeros elsewhere."""
    if g.sizes is not None:
        out = x.new_zeros(geo.total(x, g, b.size))
        out.narrow(g.dim, geo.extent(out, g, b.rank, b.size)[0], x.shape[g.dim]).copy_(x)
        return out
    dim = g.dim % (x.dim() + g.stack)
    wide = x.unsqueeze(dim)
    out = torch.where(_onehot(wide, b, dim), wide, torch.zeros_like(wide))
    return out if g.stack else out.flatten(dim, dim + 1)
