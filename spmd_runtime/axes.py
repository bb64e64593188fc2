"""Mesh axes as classes.

An axis is a subclass of :class:`MeshAxis`.  Its string name, under which a
process group is bound at run time, is the class name in lower case.
A project adds an axis of its own by subclassing and naming it in ``[tool.spmd-mypy] axes``.
"""

from __future__ import annotations


class MeshAxis:
    """Base class of all mesh axes; never instantiated."""

    name: str = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__name__.lower()

    def __new__(cls) -> MeshAxis:
        raise TypeError(f"{cls.__name__} is a mesh axis; use the class itself, not an instance")


class DP(MeshAxis):
    """Data parallel."""


class FSDP(MeshAxis):
    """Fully sharded data parallel."""


class CP(MeshAxis):
    """Context parallel (sequence cut across ranks in attention)."""


class TP(MeshAxis):
    """Tensor parallel."""


class SP(MeshAxis):
    """Sequence parallel, where it has an axis of its own."""


class EP(MeshAxis):
    """Expert parallel."""


class EDP(MeshAxis):
    """Data parallel within experts."""


class ETP(MeshAxis):
    """Tensor parallel within experts."""


class PP(MeshAxis):
    """Pipeline parallel."""
