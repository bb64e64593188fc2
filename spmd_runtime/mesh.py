"""Which process group an axis is: bindings, and the look-up that every collective goes through.

An axis is bound once, under its *name*: ``with use_mesh(device_mesh):``, or ``with bind(TP, group):``, or
``bind(TP, group).keep()`` for good.  The group is registered with torch under that name too, so that a compiled graph
names ``"tp"`` and nothing of the rank that compiled it.  Bindings belong to the process, not to a thread: autograd's
threads and recomputation see them.  No communicator is ever made here.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh

from spmd_runtime.axes import MeshAxis
from spmd_runtime.types import AxisLike


class Bound:
    """An axis with its group, and what a call needs of it at hand.

    ``name`` is the axis's name (the group's own where the group is bound to no axis), ``rank`` the own place on it.
    """

    __slots__ = ("_indices", "accelerator", "group", "name", "rank", "size", "world")

    def __init__(self, name: str, group: dist.ProcessGroup) -> None:
        self.name = name
        self.group = group
        self.size: int = group.size()
        self.rank: int = group.rank()
        self.world = dist.GroupMember.WORLD
        self.accelerator = _accelerator(group)
        self._indices: dict[torch.device, torch.Tensor] = {}

    def device(self) -> torch.device:
        """The device that the group communicates on: the accelerator if it can, else the CPU."""
        if not self.accelerator:
            return torch.device("cpu")
        return torch.device(self.accelerator, getattr(torch, self.accelerator).current_device())

    def index(self, device: torch.device | None = None) -> torch.Tensor:
        """The own rank as a 0-d int64 tensor on ``device`` (default: where the group communicates)."""
        where = device if device is not None else self.device()
        found = self._indices.get(where)
        if found is None:
            found = self._indices[where] = torch.tensor(self.rank, device=where)
        return found

    def __repr__(self) -> str:
        return f"axis {self.name!r} (rank {self.rank} of {self.size})"


def _accelerator(group: dist.ProcessGroup) -> str:
    """The type of accelerator that the group communicates on, empty where that is the CPU."""
    kinds = sorted({device.type for device in group._device_types} - {"cpu"})
    return kinds[0] if kinds and getattr(torch, kinds[0]).is_available() else ""


_lock = threading.RLock()
stacks: dict[str, list[Bound]] = {}  # by axis name; the last one counts
_found: dict[object, Bound] = {}  # what lookup found before
_abandoned: list[dist.ProcessGroup] = []
_listeners: list[Callable[[], None]] = []  # called when a binding changes


def on_change(listener: Callable[[], None]) -> None:
    """Have ``listener`` called whenever a binding comes or goes, to drop what was derived from it."""
    _listeners.append(listener)


def changed() -> None:
    """Drop everything that was derived from the bindings."""
    _found.clear()
    for listener in _listeners:
        listener()


def _register(name: str, group: dist.ProcessGroup) -> None:
    _unregister(name)
    c10d._register_process_group(name, group)  # type: ignore[arg-type]  # GroupName is a str to everyone else


def _unregister(name: str) -> None:
    with contextlib.suppress(RuntimeError):  # not there: destroy_process_group() has cleared the registry
        c10d._unregister_process_group(name)  # type: ignore[arg-type]


def axis_name(axis: type[MeshAxis] | str) -> str:
    """The name of an axis class, or the string itself; raises TypeError for anything else."""
    if isinstance(axis, str):
        return axis
    if isinstance(axis, type) and issubclass(axis, MeshAxis):
        return axis.name
    raise TypeError(f"an axis is a MeshAxis class, a process group or a name; got {axis!r}")


class Binding:
    """Axes bound to groups, by ``with`` or, with ``keep()``, for good."""

    def __init__(self, groups: Sequence[tuple[str, dist.ProcessGroup]]) -> None:
        self._groups = groups
        self._bound: list[Bound] = []

    def __enter__(self) -> Binding:
        if self._bound:
            raise RuntimeError("this binding is in force already; make another one to bind again")
        with _lock:
            for name, group in self._groups:
                bound = Bound(name, group)
                alive = [other for other in stacks.get(name, ()) if other.world is bound.world]
                stacks[name] = [*alive, bound]
                _register(name, group)
                self._bound.append(bound)
            changed()
        return self

    def keep(self) -> Binding:
        """Bind for good, until ``release()`` or the end of the process."""
        return self.__enter__()

    def release(self) -> None:
        """Undo the binding; what was bound to the same names before counts again."""
        with _lock:
            for bound in reversed(self._bound):
                stack = stacks.get(bound.name, [])
                if bound in stack:
                    stack.remove(bound)
                _unregister(bound.name)
                if stack:
                    _register(bound.name, stack[-1].group)
                else:
                    stacks.pop(bound.name, None)
            self._bound = []
            changed()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def bind(axis: type[MeshAxis] | str, group: dist.ProcessGroup) -> Binding:
    """Bind ``axis`` to ``group``: ``with bind(TP, group):``, or ``bind(TP, group).keep()``."""
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"bind({axis_name(axis)}): expected a process group that this rank is in, got {group!r}")
    return Binding([(axis_name(axis), group)])


def use_mesh(*meshes: DeviceMesh) -> Binding:
    """Bind every named dim of the meshes: ``with use_mesh(mesh):``, or ``use_mesh(mesh).keep()``.

    ``mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))`` binds ``DP`` and ``TP``.
    Several meshes over the same ranks may be in force at once: dense and sparse axes, and a flattened combination of
    dims, ``use_mesh(mesh, mesh["dp", "cp"]._flatten("dp_cp"))``.  Raises ValueError for dims without names, and on a
    rank that is not in the mesh.
    """
    groups: list[tuple[str, dist.ProcessGroup]] = []
    for mesh in meshes:
        if not isinstance(mesh, DeviceMesh):
            raise TypeError(
                f"use_mesh takes DeviceMesh objects, as init_device_mesh makes them, not {mesh!r}; "
                "bind(axis, group) binds one axis to a process group"
            )
        if mesh.mesh_dim_names is None:
            raise ValueError("use_mesh: the mesh's dims have no names; give mesh_dim_names= to init_device_mesh")
        if mesh.get_coordinate() is None:
            raise ValueError(f"use_mesh: rank {dist.get_rank()} is not in the mesh {mesh}")
        groups.extend((name, mesh.get_group(name)) for name in mesh.mesh_dim_names)
    return Binding(groups)


def lookup(axis: AxisLike) -> Bound:
    """The bound axis; raises LookupError, naming what is bound, where ``axis`` is not."""
    if torch.compiler.is_compiling():  # no cache: a traced function changes nothing outside of it
        return _find(axis)
    found = _found.get(axis)
    if found is None or found.world is not dist.GroupMember.WORLD:
        found = _found[axis] = _find(axis)
    return found


def _find(axis: AxisLike) -> Bound:
    found = _of_group(axis) if isinstance(axis, dist.ProcessGroup) else _of_name(axis_name(axis))
    if found.world is not dist.GroupMember.WORLD:
        raise LookupError(
            f"axis {found.name!r} is bound to a group of a torch.distributed that has ended; bind it again"
        )
    return found


def _of_group(group: dist.ProcessGroup) -> Bound:
    for stack in stacks.values():
        for bound in reversed(stack):
            if bound.group is group:
                return bound
    return Bound(group.group_name, group)


def _of_name(name: str) -> Bound:
    if stack := stacks.get(name):
        return stack[-1]
    raise LookupError(
        f"axis {name!r} is bound to no process group (bound: {', '.join(sorted(stacks)) or 'none'}); "
        f"run inside `with use_mesh(device_mesh):` or call bind({name!r}, group).keep()"
    )


def _forget() -> None:
    """In a forked child: the parent's communicators are not ours, not even to destroy (their threads are not here)."""
    _abandoned.extend(bound.group for stack in stacks.values() for bound in stack)
    _abandoned.extend(bound.group for bound in _found.values())
    stacks.clear()
    changed()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
