"""To DTensor and back, with the types said as an argument: ``to_dtensor(x, mesh, {DP: S(0), TP: R})``.

R and I are both ``Replicate()`` as a placement; they differ in the gradient.  The local tensor of an R is used by each
rank for itself, so its gradient is a pending sum (``Partial()``); that of an I is one gradient, the same on all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from spmd_runtime.local import convert
from spmd_runtime.mesh import axis_name
from spmd_runtime.types import I, Invariant, Kind, Partial, R, Replicate, Shard

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.placement_types import Placement


def by_name(layout: Mapping[Any, Kind]) -> dict[str, Kind]:
    """A layout with its axes as names."""
    return {axis_name(axis): kind for axis, kind in layout.items()}


def kinds_of(mesh: DeviceMesh, layout: Mapping[Any, Kind], what: str) -> dict[str, Kind]:
    """The type on each of the mesh's dims, in their order; raises ValueError where ``layout`` names others."""
    if mesh.mesh_dim_names is None:
        raise ValueError(f"{what}: the mesh's dims have no names; give mesh_dim_names= to init_device_mesh")
    given = by_name(layout)
    if set(given) != set(mesh.mesh_dim_names):
        raise ValueError(f"{what}: the layout names {sorted(given)}, the mesh has {sorted(mesh.mesh_dim_names)}")
    return {name: given[name] for name in mesh.mesh_dim_names}


def placement(kind: Kind, axis: str, what: str) -> Placement:
    """The placement of a type; raises ValueError for a V, which says no dim."""
    from torch.distributed.tensor import placement_types as p  # noqa: PLC0415  # takes long to import

    if isinstance(kind, Shard):
        return p.Shard(kind.dim)
    if kind is Replicate or kind is Invariant:
        return p.Replicate()
    if kind is Partial:
        return p.Partial()
    raise ValueError(f"{what}: a V on {axis!r} is no placement; say along which dim it is cut: S(i)")


def to_dtensor(
    x: torch.Tensor,
    mesh: DeviceMesh,
    layout: Mapping[Any, Kind],
    *,
    shape: torch.Size | None = None,
    stride: tuple[int, ...] | None = None,
) -> DTensor:
    """The DTensor whose local tensor is ``x``, of the types that ``layout`` gives for each dim of ``mesh``.

    ``shape`` and ``stride`` are the whole tensor's, where its parts are not equal.  The gradient of ``x`` is of the
    dual type: that of an R a pending sum.
    """
    from torch.distributed.tensor import DTensor  # noqa: PLC0415  # takes long to import

    kinds = kinds_of(mesh, layout, "to_dtensor")
    placements = [placement(kind, name, "to_dtensor") for name, kind in kinds.items()]
    for name, kind in kinds.items():
        if kind is Replicate and x.requires_grad:
            x = convert(x, mesh.get_group(name), src=R, dst=I, expert_mode=True)
    return DTensor.from_local(x, mesh, placements, run_check=False, shape=shape, stride=stride)


def from_dtensor(x: DTensor, layout: Mapping[Any, Kind]) -> torch.Tensor:
    """The local tensor of ``x``, which must be placed as ``layout`` says; moves nothing.

    R or I chooses what the gradient of the local tensor is: summands, or one value.  Raises ValueError where the
    placement is another: redistribute the DTensor first.
    """
    from torch.distributed.tensor import placement_types as p  # noqa: PLC0415  # takes long to import

    kinds = kinds_of(x.device_mesh, layout, "from_dtensor")
    grads: list[Placement] = []
    for (name, kind), placed in zip(kinds.items(), x.placements, strict=True):
        wanted = placement(kind, name, "from_dtensor")
        if isinstance(wanted, p.Shard) and wanted.dim < 0:
            wanted = p.Shard(wanted.dim % x.dim())
        if placed != wanted:
            raise ValueError(
                f"from_dtensor: placed as {placed} on {name!r}, asked for as {wanted}; redistribute it first"
            )
        swapped = {Replicate: p.Partial(), Partial: p.Replicate()}
        grads.append(placed if isinstance(kind, Shard) else swapped.get(kind, placed))
    return x.to_local(grad_placements=grads)
