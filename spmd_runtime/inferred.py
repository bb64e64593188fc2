"""Groups and meshes whose axes are known, as the mypy plugin types them; nothing imports this at run time.

Users write ``Group[TP]`` of ``spmd_runtime.types``, which is a plain process group to other checkers.
"""

from __future__ import annotations

from typing import Any, Generic

import torch.distributed as dist
from torch.distributed import device_mesh
from typing_extensions import TypeVar

Axes_co = TypeVar("Axes_co", default=Any, covariant=True)


class Group(dist.ProcessGroup, Generic[Axes_co]):
    """A process group over a known axis, or over several (a tuple)."""


class DeviceMesh(device_mesh.DeviceMesh, Generic[Axes_co]):
    """A device mesh whose dims are known axes: a tuple with an axis per dim; a tuple of axes for a flattened dim."""
