"""Several meshes over the same ranks: an axis of one never meets an axis of another.

A tensor that varies over ``ep`` holds other values on the ranks of ``dp`` and ``tp`` as well, but not in a way that
their axes could say; so an operation takes tensors laid out over one mesh, and ``reinterpret_mesh`` says what a tensor
is on another.  Constants are the same on every rank, and so on every mesh.
"""

from __future__ import annotations

from collections.abc import Sequence

from spmd_mypy.rules.kinds import Layout

Meshes = Sequence[frozenset[int]]


def mesh_of(layout: Layout, meshes: Meshes) -> int | None:
    """The one mesh over whose axes a tensor is laid out; None where its axes are none, or lie in several."""
    found = {
        at
        for at, mesh in enumerate(meshes)
        if any((kind := layout[axis]) is not None and not kind.constant for axis in mesh)
    }
    return found.pop() if len(found) == 1 else None


def clash(layouts: Sequence[Layout | None], meshes: Meshes) -> tuple[int, int] | None:
    """Two of the operands that are laid out over different meshes, by position; None where there are none."""
    first: dict[int, int] = {}
    for position, layout in enumerate(layouts):
        mesh = mesh_of(layout, meshes) if layout is not None else None
        if mesh is not None:
            first.setdefault(mesh, position)
    positions = sorted(first.values())
    return (positions[0], positions[1]) if len(positions) > 1 else None


def axis_in(layout: Layout, mesh: frozenset[int]) -> int | None:
    """The first axis of ``mesh`` on which the tensor is known not to be constant."""
    for axis in sorted(mesh):
        kind = layout[axis]
        if kind is not None and not kind.constant:
            return axis
    return None
