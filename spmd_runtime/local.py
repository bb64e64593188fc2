"""Conversions and assertions: operations whose forward moves nothing between ranks.

Their backward may communicate (``convert`` I -> R sums the gradient).  The table is ``spmd_mypy.rules.collectives``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from spmd_runtime.geometry import as_sizes
from spmd_runtime.mesh import lookup
from spmd_runtime.options import frozen
from spmd_runtime.request import find
from spmd_runtime.rows import definite
from spmd_runtime.types import AxisLike, I, Kind, R, Shard


def convert(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    expert_mode: bool = False,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """Change the type of ``x`` on ``axis`` and keep what it means, without communication.

    I -> R: the value itself (backward: all_reduce).  R, I -> V: the own slice of dim 0, which goes away; R, I -> S(i):
    the own part of dim i (``split_sizes``: the parts' lengths, where they differ).  R -> P: the value on the first
    rank, zeros on the others.  With ``expert_mode=True`` also R -> I, I -> P and V, S(i) -> P (the value at its place,
    zeros elsewhere).  Backward: the table's dual.
    """
    backward = None if backward_options is None else frozen(backward_options)
    if isinstance(src, Shard):
        src, dst = definite(src, dst, x)
    if split_sizes is None:
        return find("convert", axis, src, dst, op_dtype, out_dtype, backward, expert_mode)(x)
    key = (op_dtype, out_dtype, backward, expert_mode, None, None, tuple(split_sizes))
    return find("convert", axis, src, dst, *key)(x)


def reinterpret(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    expert_mode: bool = False,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """Keep the local value of ``x`` and call it another type; what it means may change.

    V -> P (these are summands), I -> V, I -> P; with ``expert_mode=True`` also R -> I, R -> P, I -> R, R -> V.
    I -> P and R -> P mean the axis's size times the value.  Backward: the dual.
    """
    plan = find("reinterpret", axis, src, dst, op_dtype, out_dtype, frozen(backward_options), expert_mode)
    return plan(x)


def invariant_to_replicate(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """``convert`` I -> R: the value itself; backward: all_reduce."""
    return find("convert", axis, I, R, op_dtype, out_dtype, frozen(backward_options))(x)


def shard(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """``convert`` to S(i): R, I -> S(i), the own part of dim i."""
    key = (op_dtype, out_dtype, frozen(backward_options), False, None, None, as_sizes(split_sizes))
    return find("shard", axis, src, dst, *key)(x)


def assert_type(x: torch.Tensor, layout: Mapping[Any, Kind], /) -> torch.Tensor:
    """Say that ``x`` has these types: ``assert_type(x, {TP: R, "dp": V})``.

    Keys are axes, values types.  Returns ``x``; only the type checker looks, at run time nothing happens.
    """
    return x


def mutate_type(
    tensor: torch.Tensor,
    axis: AxisLike | None = None,
    *,
    src: Kind | Mapping[Any, Kind],
    dst: Kind | Mapping[Any, Kind],
) -> torch.Tensor:
    """Say that ``tensor``, until now ``src`` on ``axis``, is ``dst`` from here on; ``src`` and ``dst`` may be per axis.

    Returns ``tensor``; only the type checker looks, at run time nothing happens.
    """
    return tensor


def reinterpret_mesh(tensor: torch.Tensor, type: Mapping[Any, Kind], *, inplace: bool = False) -> torch.Tensor:
    """Say what ``tensor`` is on the axes of another mesh over the same ranks: ``reinterpret_mesh(x, {EP: V, EDP: R})``.

    Returns ``tensor``; only the type checker looks, at run time nothing happens.
    """
    return tensor


def axis_index(axis: AxisLike, *, device: torch.device | None = None) -> torch.Tensor:
    """The own rank on ``axis`` as a 0-d int64 tensor: V on that axis, so that no graph holds it as a number.

    ``device``: default the one that the axis's group communicates on.
    """
    bound = lookup(axis)
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        from spmd_runtime import traced  # noqa: PLC0415  # takes long to import

        return traced.index(bound.name, device if device is not None else bound.device())
    return bound.index(device)


def axis_size(axis: AxisLike) -> int:
    """The number of ranks on ``axis``."""
    return lookup(axis).size
