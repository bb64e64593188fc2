"""The collectives: operations that move data between the ranks of one axis.

Each is differentiable as often as one likes.  What goes to what, and how its gradient comes back, is the table
``spmd_mypy.rules.collectives``, which the mypy plugin reads too.  ``axis`` is an axis class, a process group bound to
an axis, or the axis's name.  Types are erased at run time: ``src`` and ``dst`` say what the caller means.

``op_dtype`` is the dtype of the communication, ``out_dtype`` that of the result (``op_dtype`` alone implies it);
``backward_options`` has the same keys for the backward, and ``backward_options`` again for the double backward.
With ``async_op=True`` the call returns a :class:`Pending` at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import torch

from spmd_runtime.asynchronous import begin, in_place
from spmd_runtime.geometry import as_sizes
from spmd_runtime.options import frozen
from spmd_runtime.pending import Pending
from spmd_runtime.request import find
from spmd_runtime.rows import definite
from spmd_runtime.types import AxisLike, Kind, P, V


@overload
def all_reduce(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind,
    inplace: bool = False,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def all_reduce(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind,
    inplace: bool = False,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def all_reduce(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind,
    inplace: bool = False,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """Sum ``x`` over the ranks of ``axis``: P (or V) -> R or I.

    Shapes: any in, the same out.  Backward: all_reduce for ``dst=R``, nothing for ``dst=I``.
    ``inplace=True`` writes into ``x`` (then without ``op_dtype``, ``out_dtype``, ``async_op``).
    Source of the rule: an all-reduce realises the pending sum; its transpose follows from the types (R and P swap).
    """
    backward = None if backward_options is None else frozen(backward_options)
    plan = find("all_reduce", axis, src, dst, op_dtype, out_dtype, backward)
    if inplace:
        return in_place(plan, x, not async_op and op_dtype is None is out_dtype)
    return begin(plan, x) if async_op else plan(x)


@overload
def all_gather(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind,
    gather_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def all_gather(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind,
    gather_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def all_gather(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind,
    gather_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """Give every rank the values of all: V stacks them along a new dim, S(i) joins them along dim i; -> R or I.

    Shapes: ``src=V`` puts a dim of the axis's size at ``gather_dim`` (default 0); ``src=S(i)`` makes dim i as long as
    all ranks' together (``split_sizes``: their lengths, where they differ).
    Backward: reduce_scatter for ``dst=R``, the own slice for ``dst=I``.
    """
    backward = None if backward_options is None else frozen(backward_options)
    sizes = None if split_sizes is None else tuple(split_sizes)
    plan = find("all_gather", axis, src, dst, op_dtype, out_dtype, backward, False, gather_dim, None, sizes)
    return begin(plan, x) if async_op else plan(x)


@overload
def reduce_scatter(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind = V,
    scatter_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def reduce_scatter(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind = V,
    scatter_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def reduce_scatter(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = P,
    dst: Kind = V,
    scatter_dim: int | None = None,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """Sum ``x`` over the ranks and leave each its part: P (or V) -> V or S(i).

    Shapes: ``dst=V`` takes dim ``scatter_dim`` (default 0; of the axis's size) away; ``dst=S(i)`` divides dim i by the
    axis's size (``split_sizes``: the parts' lengths, where they differ).  Backward: all_gather to R.
    """
    backward = None if backward_options is None else frozen(backward_options)
    sizes = None if split_sizes is None else tuple(split_sizes)
    plan = find("reduce_scatter", axis, src, dst, op_dtype, out_dtype, backward, False, scatter_dim, None, sizes)
    return begin(plan, x) if async_op else plan(x)


@overload
def all_to_all(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind = V,
    split_dim: int | None = None,
    concat_dim: int | None = None,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def all_to_all(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind = V,
    split_dim: int | None = None,
    concat_dim: int | None = None,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def all_to_all(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind = V,
    dst: Kind = V,
    split_dim: int | None = None,
    concat_dim: int | None = None,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """Send one part of ``x`` to each rank and join what they send: V or S(i) -> V or S(j).

    V -> V transposes the axis with a tensor dim: ``split_dim`` (of the axis's size) goes away, a dim comes at
    ``concat_dim``; both are 0 by default.  S(i) -> S(j) cuts along j and joins along i.  S(i) -> V cuts along i and
    joins along ``concat_dim``, V -> S(j) cuts along ``split_dim`` and joins along j.  ``input_split_sizes`` are the
    lengths of the parts sent, ``output_split_sizes`` of those received, where they are not equal; with them V -> V cuts
    and joins too.  Backward: all_to_all the other way.
    """
    sizes = as_sizes(input_split_sizes), as_sizes(output_split_sizes)
    key = (op_dtype, out_dtype, frozen(backward_options), False, split_dim, concat_dim, *sizes)
    plan = find("all_to_all", axis, src, dst, *key)
    return begin(plan, x) if async_op else plan(x)


@overload
def redistribute(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def redistribute(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def redistribute(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """Take ``x`` from any type to any type, keeping what it means, by the cheapest sequence.

    P -> R, I: all_reduce.  P -> V, S(i): reduce_scatter.  V, S(i) -> R, I: all_gather.  S(i) -> S(j): all_to_all.
    The rest is :func:`spmd_runtime.local.convert`.  Backward: the delegate's.
    """
    key = (op_dtype, out_dtype, frozen(backward_options), True, None, None, as_sizes(split_sizes))
    plan = find("redistribute", axis, *definite(src, dst, x), *key)
    return begin(plan, x) if async_op else plan(x)


@overload
def unshard(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[False] = False,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor: ...
@overload
def unshard(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: Literal[True],
    backward_options: Mapping[str, object] | None = None,
) -> Pending[torch.Tensor]: ...
def unshard(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    src: Kind,
    dst: Kind,
    split_sizes: Sequence[int] | None = None,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    async_op: bool = False,
    backward_options: Mapping[str, object] | None = None,
) -> Any:
    """``all_gather`` of an S(i): S(i) -> R or I."""
    key = (op_dtype, out_dtype, frozen(backward_options), False, None, None, as_sizes(split_sizes))
    plan = find("unshard", axis, src, dst, *key)
    return begin(plan, x) if async_op else plan(x)


def broadcast(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    root: int = 0,
    dst: Kind,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """Give every rank the value of rank ``root`` of the axis: V -> R or I.

    Shapes: equal on all ranks.  Backward: for ``dst=R`` the sum of the ranks' gradients reaches ``root``, for ``dst=I``
    its own gradient; the others get zeros.
    """
    key = (op_dtype, out_dtype, frozen(backward_options), False, None, None, None, None, root)
    return find("broadcast", axis, V, dst, *key)(x)


def shift(
    x: torch.Tensor,
    axis: AxisLike,
    *,
    offset: int = 1,
    op_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
    backward_options: Mapping[str, object] | None = None,
) -> torch.Tensor:
    """Send ``x`` to the rank ``offset`` further along the ring, take what comes from behind: V -> V, S(i) -> S(i).

    Shapes: equal on all ranks.  Backward: the shift the other way.
    """
    key = (op_dtype, out_dtype, frozen(backward_options), False, None, None, None, None, offset)
    return find("shift", axis, V, V, *key)(x)
