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
* ``spmd_runtime.coalesced`` (several tensors in one launch): ``all_reduce_coalesced``, ``all_gather_coalesced``,
  ``reduce_scatter_coalesced``
* ``spmd_runtime.dtensor``: ``to_dtensor``, ``from_dtensor``
* ``spmd_runtime.pending``: ``Pending``
* ``spmd_runtime.rule``: ``rule``; ``spmd_runtime.typed``: ``typed``
* ``spmd_runtime.mesh``: ``use_mesh``, ``bind``, ``Binding``
"""

from __future__ import annotations

from spmd_runtime.axes import CP, DP, EDP, EP, ETP, FSDP, PP, SP, TP, MeshAxis
from spmd_runtime.coalesced import all_gather_coalesced, all_reduce_coalesced, reduce_scatter_coalesced
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
from spmd_runtime.dtensor import from_dtensor, to_dtensor
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
from spmd_runtime.rule import rule
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
    "Binding", "Buffer", "CP", "DP", "EDP", "EP", "ETP", "FSDP", "Group", "I", "Invariant", "MeshAxis", "P", "PP",
    "Parameter", "Partial", "Pending", "R", "Replicate", "S", "SP", "Shard", "SpmdType", "TP", "Tensor", "V",
    "Varying", "all_gather", "all_gather_coalesced", "all_reduce", "all_reduce_coalesced", "all_to_all",
    "assert_type", "axis_index", "axis_size", "bind", "broadcast", "convert", "from_dtensor",
    "invariant_to_replicate", "mutate_type", "redistribute", "reduce_scatter", "reduce_scatter_coalesced",
    "reinterpret", "reinterpret_mesh", "rule", "shard", "shift", "to_dtensor", "typed", "unshard", "use_mesh",
]  # fmt: skip
