"""Tensors of different meshes in one operation (``spmd-mix``)."""

from __future__ import annotations

from typing import Any

from mypy.nodes import Context

from spmd_mypy import codes, flow_messages
from spmd_mypy.hooks.arguments import Operand
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.messages import short_name
from spmd_mypy.rules import meshes as rules
from spmd_mypy.rules.kinds import Layout


def report_clash(bench: Workbench, api: Any, context: Context, op: str, operands: list[Operand]) -> bool:
    """Report operands that are laid out over different meshes; whether there were any."""
    meshes = bench.config.meshes
    if len(meshes) < 2:
        return False
    layouts = [None if o.number else bench.layouts.read(o.type) for o in operands]
    found = rules.clash(layouts, meshes)
    if found is None:
        return False
    shown = [_axis(bench, layouts[position]) for position in found]
    names = [bench.text(api, operands[position].expression, operands[position].param) for position in found]
    text, notes = flow_messages.meshes_meet(short_name(op), names[0], names[1], shown)
    bench.fail(api, context, codes.MIX, text, notes)
    return True


def report_foreign(bench: Workbench, api: Any, context: Context, op: str, x: Operand, axis: int) -> bool:
    """Report a collective over an axis of another mesh than the one its tensor is laid out over."""
    meshes = bench.config.meshes
    layout = bench.layouts.read(x.type) if len(meshes) > 1 else None
    mesh = rules.mesh_of(layout, meshes) if layout is not None else None
    if mesh is None or axis in meshes[mesh]:
        return False
    name = bench.text(api, x.expression, "the tensor")
    text, notes = flow_messages.foreign_axis(op, name, _axis(bench, layout), bench.axis(axis))
    bench.fail(api, context, codes.MIX, text, notes)
    return True


def _axis(bench: Workbench, layout: Layout | None) -> str:
    """The class name of the axis that places a tensor on its mesh."""
    for mesh in bench.config.meshes if layout is not None else ():
        axis = rules.axis_in(layout, mesh) if layout is not None else None
        if axis is not None:
            return bench.axis(axis)
    return "no axis"
