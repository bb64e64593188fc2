"""Where a collective cuts and joins: the part of a call that its backward shares with it.

Everything here is plain tensor code around the communication itself, the same in eager mode and under tracing:
``prepare_*`` brings the parts for the ranks to the front, in rank order and contiguous, as communication wants them;
``finish_*`` puts what has arrived where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Geometry:
    """How a tensor is cut into one part per rank, or joined from them.

    ``dim`` is the tensor dim of the parts; with ``stack`` the parts are its indices (a V: the dim comes or goes), else
    its equal chunks, or chunks of ``sizes``.  ``all_to_all`` cuts along ``dim`` (into ``sizes``) and joins along
    ``join`` (from ``join_sizes``).  ``place`` is the root of a broadcast and the offset of a shift.
    """

    dim: int = 0
    stack: bool = False
    sizes: tuple[int, ...] | None = None
    join: int = 0
    join_sizes: tuple[int, ...] | None = None
    place: int = 0

    def swapped(self) -> Geometry:
        """Cut and join exchanged, as the backward of ``all_to_all`` needs it."""
        return replace(self, dim=self.join, join=self.dim, sizes=self.join_sizes, join_sizes=self.sizes)

    def reversed(self) -> Geometry:
        """The other way round the ring, as the backward of ``shift`` needs it."""
        return replace(self, place=-self.place)

    def batched(self) -> Geometry:
        """The same under a new leading dim (vmap)."""
        return replace(self, dim=self.dim + (self.dim >= 0), join=self.join + (self.join >= 0))


class Misfit(Exception):
    """A tensor that cannot be cut as the geometry says; the text says why, and what would do."""


def check_cut(x: Tensor, g: Geometry, rank: int, n: int) -> None:
    """Raise :class:`Misfit` unless ``x`` can be cut into ``n`` parts along ``g.dim``."""
    if not -x.dim() <= g.dim < x.dim():
        raise Misfit(f"there is no dim {g.dim} to cut in a tensor of shape {tuple(x.shape)}")
    length = x.shape[g.dim]
    if g.stack:
        if length != n:
            raise Misfit(
                f"dim {g.dim} has {length} entries where V needs one per rank ({n}); S({g.dim}) cuts it in chunks"
            )
    elif g.sizes is not None:
        _check_sizes(g.sizes, n)
        if sum(g.sizes) != length:
            raise Misfit(f"split sizes {list(g.sizes)} add up to {sum(g.sizes)}, dim {g.dim} has {length}")
    elif length % n:
        raise Misfit(f"dim {g.dim} of size {length} does not divide into {n} equal parts; pass split sizes")


def check_part(x: Tensor, g: Geometry, rank: int, n: int) -> None:
    """Raise :class:`Misfit` unless ``x`` can be one rank's part along ``g.dim``."""
    if g.stack:
        if not -x.dim() - 1 <= g.dim <= x.dim():
            raise Misfit(f"there is no place {g.dim} for a new dim in a tensor of shape {tuple(x.shape)}")
        return
    if not -x.dim() <= g.dim < x.dim():
        raise Misfit(f"there is no dim {g.dim} to join along in a tensor of shape {tuple(x.shape)}")
    if g.sizes is not None:
        _check_sizes(g.sizes, n)
        if g.sizes[rank] != x.shape[g.dim]:
            raise Misfit(
                f"split sizes {list(g.sizes)} give this rank {g.sizes[rank]}, dim {g.dim} has {x.shape[g.dim]}"
            )


def check_join(x: Tensor, g: Geometry, rank: int, n: int) -> None:
    """Raise :class:`Misfit` unless what ``all_to_all`` receives can be joined along ``g.join``."""
    if not -x.dim() <= g.join < x.dim():
        raise Misfit(f"there is no dim {g.join} to join along in a tensor of shape {tuple(x.shape)}")
    if g.join_sizes is None:
        return
    _check_sizes(g.join_sizes, n)
    length = x.shape[g.join]
    if (g.dim - g.join) % x.dim() and g.join_sizes[rank] != length:
        raise Misfit(
            f"output split sizes {list(g.join_sizes)} give this rank {g.join_sizes[rank]}, dim {g.join} has {length}"
        )


def _check_sizes(sizes: tuple[int, ...], n: int) -> None:
    if len(sizes) != n:
        raise Misfit(f"split sizes {list(sizes)} are {len(sizes)}, the axis has {n} ranks")


def is_front(x: Tensor, dim: int) -> bool:
    """Whether ``dim`` is the first dim of ``x``."""
    return dim in (0, -x.dim())


def prepare_gather(x: Tensor, g: Geometry) -> Tensor:
    """``x`` as one rank's part, at the front."""
    if g.stack:
        return x.unsqueeze(0).contiguous()
    if g.sizes is not None:
        return padded(x, g.dim, max(g.sizes)).contiguous()
    return x.contiguous()


def finish_gather(out: Tensor, g: Geometry, n: int) -> Tensor:
    """``out`` has the ranks' parts along dim 0; put them along ``g.dim``."""
    if g.stack:
        return out if g.dim == 0 else out.movedim(0, g.dim).contiguous()
    if g.sizes is not None:
        parts = [part.narrow(g.dim, 0, size) for part, size in zip(out.chunk(n), g.sizes, strict=True)]
        return torch.cat(parts, g.dim)
    return _along(out, g.dim, n)


def _along(out: Tensor, dim: int, n: int) -> Tensor:
    """Move the ``n`` chunks of dim 0 to ``dim``: a view where only dims of size 1 are passed on the way."""
    if is_front(out, dim):
        return out
    shape = list(out.shape)
    dim %= len(shape)
    if shape[0] == n and all(size == 1 for size in shape[1:dim]):
        return out.view([1, *shape[1:dim], n * shape[dim], *shape[dim + 1 :]])
    return torch.cat(torch.chunk(out, n, dim=0), dim=dim)


def prepare_scatter(x: Tensor, g: Geometry, n: int) -> Tensor:
    """Bring the parts of ``x`` along ``g.dim`` to the front: dim 0 divides into one chunk per rank."""
    if g.stack:
        return x.movedim(g.dim, 0).contiguous()
    if g.sizes is not None:
        longest = max(g.sizes)
        return torch.cat([padded(part, g.dim, longest) for part in torch.split(x, list(g.sizes), g.dim)])
    if is_front(x, g.dim):
        return x.contiguous()
    return torch.cat(torch.chunk(x, n, dim=g.dim))


def finish_scatter(out: Tensor, g: Geometry, rank: int) -> Tensor:
    """The own part as it arrived, without what only communication needed."""
    if g.stack:
        return out.squeeze(0)
    if g.sizes is not None:
        return out.narrow(g.dim, 0, g.sizes[rank]).contiguous()
    return out


def finish_exchange(out: Tensor, g: Geometry, n: int) -> Tensor:
    """``out`` has what the ranks sent along dim 0; put it along ``g.join``."""
    if g.stack:
        return out if g.join == 0 else out.movedim(0, g.join).contiguous()
    return _along(out, g.join, n)


@dataclass(frozen=True, slots=True)
class Parcels:
    """Parts of different shapes on their way through a flat buffer: ``sent`` and ``received`` elements per rank."""

    flat: Tensor
    sent: list[int]
    received: list[int]
    shapes: list[list[int]]


def pack(x: Tensor, g: Geometry, rank: int, n: int) -> Parcels:
    """Flatten the parts of ``x``, and work out what will arrive."""
    sizes = g.sizes if g.sizes is not None else equal(x.shape[g.dim], n)
    parts = torch.split(x, list(sizes), g.dim)
    dim, join = g.dim % x.dim(), g.join % x.dim()
    if g.join_sizes is not None:
        join_sizes = g.join_sizes
    else:
        join_sizes = equal(x.shape[join], n) if dim == join else (x.shape[join],) * n
    shapes: list[list[int]] = []
    for length in join_sizes:
        shape = list(x.shape)
        shape[dim] = sizes[rank]
        shape[join] = length
        shapes.append(shape)
    received = [torch.Size(shape).numel() for shape in shapes]
    return Parcels(torch.cat([part.reshape(-1) for part in parts]), [part.numel() for part in parts], received, shapes)


def unpack(flat: Tensor, parcels: Parcels, g: Geometry) -> Tensor:
    """Give what arrived its shapes and join it along ``g.join``."""
    arrived = torch.split(flat, parcels.received)
    return torch.cat([part.view(shape) for part, shape in zip(arrived, parcels.shapes, strict=True)], g.join)


def padded(x: Tensor, dim: int, length: int) -> Tensor:
    """``x`` with zeros appended along ``dim`` up to ``length``."""
    missing = length - x.shape[dim]
    if missing == 0:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return torch.cat([x, x.new_zeros(shape)], dim)


def equal(length: int, n: int) -> tuple[int, ...]:
    """``n`` equal parts of ``length``."""
    return (length // n,) * n


def extent(length: int, g: Geometry, rank: int, n: int) -> tuple[int, int]:
    """Start and length of the own part of ``length`` entries."""
    if g.sizes is None:
        return rank * (length // n), length // n
    return sum(g.sizes[:rank]), g.sizes[rank]


def whole(x: Tensor, g: Geometry, n: int) -> list[int]:
    """The shape of the whole of which ``x`` is one rank's part."""
    shape = list(x.shape)
    if g.stack:
        shape.insert(g.dim % (x.dim() + 1), n)
    else:
        shape[g.dim] = n * shape[g.dim] if g.sizes is None else sum(g.sizes)
    return shape


def as_sizes(sizes: Sequence[int] | None) -> tuple[int, ...] | None:
    """Split sizes as a hashable tuple."""
    return None if sizes is None else tuple(sizes)
