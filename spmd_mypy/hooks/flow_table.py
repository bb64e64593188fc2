"""Full name -> handler for what happens over time: torch's collectives, their handles, groups, assertions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from mypy.types import Type

from spmd_mypy.fullnames import MESH, RUNTIME
from spmd_mypy.hooks import groups
from spmd_mypy.hooks.assertions import Assertions
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.flow import Flow
from spmd_mypy.hooks.groups import Groups
from spmd_mypy.hooks.moves import Moves
from spmd_mypy.hooks.pending import WORK, Handles
from spmd_mypy.hooks.variables import Variables
from spmd_mypy.rules import raw

Hook: TypeAlias = Callable[[Any], Type]
Table: TypeAlias = "dict[str, Hook]"


class FlowTable:
    """The tables of these hooks, for one build."""

    def __init__(self, bench: Workbench) -> None:
        self.groups = Groups(bench)
        self.variables = Variables(bench)
        self.handles = Handles(bench, self.variables)
        self.flow = Flow(bench, self.groups, self.variables, self.handles)
        self.moves = Moves(bench, self.variables)
        self.assertions = Assertions(bench, self.variables)

    def functions(self) -> Table:
        """Hooks for functions and classes."""
        table: Table = {name: partial(self.flow.call, name.rpartition(".")[2], row) for name, row in raw.ROWS.items()}
        table[f"{raw.C10D}.P2POp"] = self.flow.peer_operation
        table[groups.INIT_DEVICE_MESH] = self.groups.init_device_mesh
        table[groups.DEVICE_MESH] = self.groups.init_device_mesh
        table[groups.NEW_GROUP] = self.groups.new_group
        for name in ("all_reduce", "broadcast", "shift"):
            table[f"{RUNTIME}.collectives.{name}"] = getattr(self.moves, name)
        for name in ("assert_type", "mutate_type", "reinterpret_mesh"):
            table[f"{RUNTIME}.local.{name}"] = getattr(self.assertions, name)
        return table | self._configured(self.groups.call)

    def methods(self) -> Table:
        """Hooks for methods."""
        table: Table = {f"{WORK}.wait": self.handles.wait}
        for mesh in (groups.DEVICE_MESH, MESH):
            table[f"{mesh}.__getitem__"] = self.groups.item
            table[f"{mesh}.get_group"] = self.groups.get_group
            table[f"{mesh}._flatten"] = self.groups.flatten
        return table | self._configured(self.groups.call)

    def attributes(self) -> Table:
        """Hooks for attributes."""
        return self._configured(self.groups.attribute)

    def _configured(self, hook: Callable[[int, Any], Type]) -> Table:
        return {name: partial(hook, axis) for name, axis in self.groups.config.groups.items()}
