"""SPMD types for PyTorch: annotations that a mypy plugin checks, and the collectives to go with them.

``import spmd_runtime as spmd``.  Everything public is re-exported here; nobody needs to import from a submodule.
At run time the annotations are erased: ``Tensor[V[DP], P[TP]]`` is ``torch.Tensor``.

Full names, under which tools such as the plugin know them:

* ``spmd_runtime.axes``: ``MeshAxis``, ``DP``, ``FSDP``, ``CP``, ``TP``, ``SP``, ``EP``, ``EDP``, ``ETP``, ``PP``
* ``spmd_runtime.types``: ``Tensor``, ``Parameter``, ``Buffer``, ``Group``, ``SpmdType``, ``Replicate`` (``R``),
  ``Invariant`` (``I``), ``Varying`` (``V``), ``Partial`` (``P``), ``Shard`` (``S``)
* ``spmd_runtime.collectives`` (data moves): ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``,
  ``redistribute``, ``unshard``, ``broadcast``, ``shift``
* ``spmd_runtime.local`` (no data moves forward): ``convert``, ``reinterpret``, ``invariant_to_replicate``, ``shard``,
  ``assert_type``, ``mutate_type``, ``reinterpret_mesh``, ``axis_index``, ``axis_size``
* ``spmd_runtime.pending``: ``Pending``
* ``spmd_runtime.mesh``: ``use_mesh``, ``bind``, ``Binding``
"""

from __future__ import annotations

from spmd_runtime.axes import CP, DP, EDP, EP, ETP, FSDP, PP, SP, TP, MeshAxis
from spmd_runtime.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    redistribute,
    reduce_scatter,
    shift,
    unshard,
)
from spmd_runtime.local import (
    assert_type,
    axis_index,
    axis_size,
    convert,
    invariant_to_replicate,
    mutate_type,
    reinterpret,
    reinterpret_mesh,
    shard,
)
from spmd_runtime.mesh import Binding, bind, use_mesh
from spmd_runtime.pending import Pending
from spmd_runtime.typed import typed
from spmd_runtime.types import (
    Buffer,
    Group,
    I,
    Invariant,
    P,
    Parameter,
    Partial,
    R,
    Replicate,
    S,
    Shard,
    SpmdType,
    Tensor,
    V,
    Varying,
)

__all__ = [
    "CP", "DP", "EDP", "EP", "ETP", "FSDP", "PP", "SP", "TP", "Binding", "Buffer", "Group", "I", "Invariant",
    "MeshAxis", "P", "Parameter", "Partial", "Pending", "R", "Replicate", "S", "Shard", "SpmdType", "Tensor", "V",
    "Varying", "all_gather", "all_reduce", "all_to_all", "assert_type", "axis_index", "axis_size", "bind", "broadcast",
    "convert", "invariant_to_replicate", "mutate_type", "redistribute", "reduce_scatter", "reinterpret",
    "reinterpret_mesh", "shard", "shift", "typed", "unshard", "use_mesh",
]  # fmt: skip
