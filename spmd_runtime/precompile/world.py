"""One process that stands for any rank of a mesh of any size: the place where a step is captured.

    with fake_world({"dp": 512, "tp": 8}, {"tp": 3}):
        ...                      # axis_size(TP) == 8, axis_index(TP) == 3, dist.get_world_size() == 4096

Only the groups that this one rank is in are made, one for each axis, so that the cost does not grow with the mesh.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from unittest import mock

import torch.distributed as dist

from spmd_runtime.mesh import Binding
from spmd_runtime.precompile import compat
from spmd_runtime.precompile.errors import PrecompileError

Mesh = Mapping[str, int]
Coordinates = Mapping[str, int]


def check_mesh(mesh: Mesh) -> dict[str, int]:
    """The mesh as a dict; raises ValueError for sizes that are no positive ints."""
    bad = {name: size for name, size in mesh.items() if not isinstance(size, int) or size < 1}
    if bad or not mesh:
        raise ValueError(f"mesh is axis names with their sizes, like {{'dp': 4, 'tp': 2}}; got {dict(mesh)!r}")
    return dict(mesh)


def rank_at(mesh: Mesh, at: Coordinates) -> int:
    """The global rank at these coordinates, the last axis fastest; an unnamed axis is at 0, -1 is the last."""
    rank = 0
    for name, size in mesh.items():
        rank = rank * size + at.get(name, 0) % size
    return rank


def group_ranks(mesh: Mesh, axis: str, at: Coordinates) -> list[int]:
    """The global ranks along ``axis`` through these coordinates."""
    return [rank_at(mesh, {**at, axis: i}) for i in range(mesh[axis])]


@contextlib.contextmanager
def fake_world(mesh: Mesh, at: Coordinates | None = None) -> Iterator[None]:
    """Be the rank at these coordinates: torch.distributed is initialised and every axis bound, nothing is ever sent.

    $RANK and $WORLD_SIZE say so, too.

    Raises PrecompileError where torch.distributed runs for real in this process.
    """
    if dist.is_initialized():
        raise PrecompileError(
            f"torch.distributed is initialised already ({dist.get_backend()}): precompile makes a world of its own; "
            "run it before init_process_group, or in another process: python -m spmd_runtime.precompile build"
        )
    where = dict(at or {})
    rank, ranks = rank_at(mesh, where), math.prod(mesh.values())
    compat.start_fake_world(rank, ranks)
    try:
        groups = [(axis, compat.own_group(group_ranks(mesh, axis, where))) for axis in mesh]
        with Binding(groups), mock.patch.dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks)):
            yield
    finally:
        dist.destroy_process_group()


def coordinates_text(at: Coordinates) -> str:
    """``dp 0, tp 1``."""
    return ", ".join(f"{axis} {index}" for axis, index in at.items())


def sample(mesh: Mesh, fixed: Coordinates | None = None) -> list[dict[str, int]]:
    """The ranks that a step is captured as: the first, the second and the last along each axis, and the last of all.

    Their number depends on the number of axes alone.  Axes in ``fixed`` stay where they are.
    """
    fixed = {axis: index % mesh[axis] for axis, index in (fixed or {}).items()}
    free = {axis: size for axis, size in mesh.items() if axis not in fixed and size > 1}
    origin = {axis: fixed.get(axis, 0) for axis in mesh}
    picked = [origin]
    for axis, size in free.items():
        picked += [{**origin, axis: index} for index in (1, size - 1)]
    picked.append({**origin, **{axis: size - 1 for axis, size in free.items()}})
    return [at for i, at in enumerate(picked) if at not in picked[:i]]
