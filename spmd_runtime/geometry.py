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

    ``dim`` is the tensor dim of the parts; with ``stack`` the parts are its indices (a V: the dim comes or goes), else its
    equal chunks, or chunks of ``sizes``.  ``all_to_all`` cuts along ``dim`` (into ``sizes``) and joins along ``join``
    (from ``join_sizes``).  ``place`` is the root of a broadcast and the offset of a shift.
    """

    dim: int = 0
    stack: bool = False
    sizes: tuple[int, ...] | None = None
    join: int = 0
    join_sizes: tuple[int, ...] | None = None
    place: int = 0

    def swapped(self) -> Geometry:
        """Cut and join exchanged, as the backward of ``all_to_all`` and ``shift`` needs it."""
        return replace(
            self, dim=self.join, join=self.dim, sizes=self.join_sizes, join_sizes=self.sizes, place=-self.place
        )

    def batched(self) -> Geometry:
        """The same under a new leading dim (vmap)."""
        return replace(self, dim=self.dim + (self.dim >= 0), join=self.join + (self.join >= 0))


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
    if is_front(out, g.dim):
        return out
    return torch.cat(torch.chunk(out, n, dim=0), dim=g.dim)


def prepare_scatter(x: Tensor, g: Geometry, n: int) -> Tensor:
    """Bring the parts of ``x`` along ``g.dim`` to the front: dim 0 divides into one chunk per rank."""
    if g.stack:
        return x.movedim(g.dim, 0).contiguous()
    if g.sizes is not None:
        longest = max(g.sizes)
        return torch.cat([padded(part, g.dim, longest) for part in x.split(g.sizes, g.dim)])
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
    if is_front(out, g.join):
        return out
    return torch.cat(torch.chunk(out, n, dim=0), dim=g.join)


def prepare_uneven_exchange(x: Tensor, g: Geometry, rank: int) -> tuple[Tensor, list[int], list[int], list[list[int]]]:
    """Flatten the parts of ``x``: (flat input, elements received from each, elements sent to each, received shapes)."""
    n = len(g.sizes or g.join_sizes or ())
    sizes = g.sizes if g.sizes is not None else equal(x.shape[g.dim], n)
    join_sizes = g.join_sizes if g.join_sizes is not None else equal(x.shape[g.join], n)
    parts = x.split(sizes, g.dim)
    dim, join = g.dim % x.dim(), g.join % x.dim()
    shapes: list[list[int]] = []
    for length in join_sizes:
        shape = list(x.shape)
        shape[dim] = sizes[rank]
        shape[join] = length
        shapes.append(shape)
    received = [torch.Size(shape).numel() for shape in shapes]
    return torch.cat([part.reshape(-1) for part in parts]), received, [part.numel() for part in parts], shapes


def finish_uneven_exchange(flat: Tensor, g: Geometry, received: list[int], shapes: list[list[int]]) -> Tensor:
    """Undo the flattening of what arrived and join it along ``g.join``."""
    return torch.cat([part.view(shape) for part, shape in zip(flat.split(received), shapes, strict=True)], g.join)


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


def extent(x: Tensor, g: Geometry, rank: int, n: int) -> tuple[int, int]:
    """Start and length of the own part along ``g.dim``."""
    if g.sizes is None:
        length = x.shape[g.dim] // n
        return rank * length, length
    return sum(g.sizes[:rank]), g.sizes[rank]


def total(x: Tensor, g: Geometry, n: int) -> list[int]:
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
