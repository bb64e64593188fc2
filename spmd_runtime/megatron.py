"""The mappings of ``megatron.core.tensor_parallel``, by the same names, arguments and defaults, typed.

Each does what Megatron's *code* does, forward and backward, on two points against its docstrings:
``scatter_to_tensor_model_parallel_region`` cuts (it sums nothing), and ``gather_from_tensor_model_parallel_region``
ends in an Invariant (its backward keeps the own part).  ``group=None`` is the axis ``tp``; a group of one rank returns
its argument.  No low-precision sum is refused, for Megatron refuses none.  Where Megatron loses the sum of a tensor
that is not contiguous (it reduces a copy and returns the original), it is summed here.

=====================================================  ============================================
name                                                   type on the axis
=====================================================  ============================================
``copy_to_tensor_model_parallel_region``               convert I -> R
``reduce_from_tensor_model_parallel_region``           all_reduce P -> I, into its argument
``scatter_to_tensor_model_parallel_region``            convert I -> S(-1)
``gather_from_tensor_model_parallel_region``           all_gather S(-1) -> I
``scatter_to_sequence_parallel_region``                convert I -> S(0)
``gather_from_sequence_parallel_region``               all_gather S(0) -> R, or -> I
``reduce_scatter_to_sequence_parallel_region``         reduce_scatter P -> S(0)
``all_gather_last_dim_from_tensor_parallel_region``    all_gather S(-1) -> R
``reduce_scatter_last_dim_to_tensor_parallel_region``  reduce_scatter P -> S(-1)
``all_to_all``                                         all_to_all V -> V along dim 0
``all_to_all_sp2hp``                                   all_to_all S(0) -> S(-1)
``all_to_all_hp2sp``                                   all_to_all S(-1) -> S(0)
=====================================================  ============================================
"""

# mypy: disable-error-code="overload-cannot-match"
# (without the plugin a Group is a ProcessGroup, and what takes one never reaches the overload for the other)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import torch
import torch.distributed as dist

from spmd_runtime import eager
from spmd_runtime.axes import TP
from spmd_runtime.mesh import lookup
from spmd_runtime.plan import Plan, is_plain
from spmd_runtime.request import Call, find
from spmd_runtime.types import Group, I, P, R, S, Tensor, V


def _plan(op: str, group: Any, src: Any, dst: Any, *sizes: tuple[int, ...] | None) -> Call | None:
    """The plan of a mapping; None on a group of one rank, where Megatron returns the argument."""
    axis = TP if group is None else group
    if lookup(axis).size == 1:
        return None
    cut, join = (*sizes, None, None)[:2]
    return find(op, axis, src, dst, None, None, None, False, None, None, cut, join, 0, False)


def _do(x: torch.Tensor, plan: Call | None) -> torch.Tensor:
    return x if plan is None else plan(x)


def _tuple(sizes: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if sizes is None else tuple(sizes)


class _ReduceFrom(torch.autograd.Function):
    """An all_reduce into the argument, which autograd does not hear of, as in Megatron."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, plan: Plan) -> torch.Tensor:
        ctx.plan = plan
        return eager.sum_in_place(x, plan.bound)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return ctx.plan.dual(grad), None


@overload
def copy_to_tensor_model_parallel_region(input_: Tensor[I[TP]], group: Group[TP] | None = None) -> Tensor[R[TP]]: ...
@overload
def copy_to_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def copy_to_tensor_model_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The value itself: I -> R (backward: all_reduce)."""
    return _do(input_, _plan("convert", group, I, R))


@overload
def reduce_from_tensor_model_parallel_region(
    input_: Tensor[P[TP]], group: Group[TP] | None = None
) -> Tensor[I[TP]]: ...
@overload
def reduce_from_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def reduce_from_tensor_model_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The sum, into the argument where it is contiguous: P -> I (backward: nothing)."""
    plan = _plan("all_reduce", group, P, I)
    if plan is None:
        return input_
    if not isinstance(plan, Plan) or not is_plain(input_) or input_.is_complex() or not input_.is_contiguous():
        return plan(input_)
    if input_.requires_grad and torch.is_grad_enabled():
        return _ReduceFrom.apply(input_, plan)  # type: ignore[no-any-return,no-untyped-call]
    return eager.sum_in_place(input_, plan.bound)


@overload
def scatter_to_tensor_model_parallel_region(
    input_: Tensor[I[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def scatter_to_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def scatter_to_tensor_model_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The own part of the last dim: I -> S(-1) (backward: all_gather)."""
    return _do(input_, _plan("convert", group, I, S(-1)))


@overload
def gather_from_tensor_model_parallel_region(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[I[TP]]: ...
@overload
def gather_from_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def gather_from_tensor_model_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """All parts of the last dim: S(-1) -> I (backward: the own part)."""
    return _do(input_, _plan("all_gather", group, S(-1), I))


@overload
def scatter_to_sequence_parallel_region(
    input_: Tensor[I[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[0]]]: ...
@overload
def scatter_to_sequence_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def scatter_to_sequence_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The own part of dim 0: I -> S(0) (backward: all_gather)."""
    return _do(input_, _plan("convert", group, I, S(0)))


@overload
def all_gather_last_dim_from_tensor_parallel_region(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[R[TP]]: ...
@overload
def all_gather_last_dim_from_tensor_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def all_gather_last_dim_from_tensor_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """All parts of the last dim: S(-1) -> R (backward: reduce_scatter)."""
    return _do(input_, _plan("all_gather", group, S(-1), R))


@overload
def reduce_scatter_last_dim_to_tensor_parallel_region(
    input_: Tensor[P[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def reduce_scatter_last_dim_to_tensor_parallel_region(
    input_: torch.Tensor, group: dist.ProcessGroup
) -> torch.Tensor: ...
def reduce_scatter_last_dim_to_tensor_parallel_region(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """The sum's own part of the last dim: P -> S(-1) (backward: all_gather)."""
    return _do(input_, _plan("reduce_scatter", group, P, S(-1)))


@overload
def all_to_all_sp2hp(
    input_: Tensor[S[TP, Literal[0]]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def all_to_all_sp2hp(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def all_to_all_sp2hp(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """From [tokens / n, hidden] to [tokens, hidden / n]; leading dims are flattened (backward: the other way)."""
    flat = input_.reshape(-1, input_.shape[-1])
    return _do(flat, _plan("all_to_all", group, S(0), S(-1)))


@overload
def all_to_all_hp2sp(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[0]]]: ...
@overload
def all_to_all_hp2sp(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
def all_to_all_hp2sp(input_: torch.Tensor, group: Any = None) -> torch.Tensor:
    """From [tokens, hidden / n] to [tokens / n, hidden]; leading dims are flattened (backward: the other way)."""
    flat = input_.reshape(-1, input_.shape[-1])
    return _do(flat, _plan("all_to_all", group, S(-1), S(0)))


@overload
def gather_from_sequence_parallel_region(
    input_: Tensor[S[TP, Literal[0]]],
    tensor_parallel_output_grad: Literal[True] = True,
    group: Group[TP] | None = None,
    output_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> Tensor[R[TP]]: ...
@overload
def gather_from_sequence_parallel_region(
    input_: Tensor[S[TP, Literal[0]]],
    tensor_parallel_output_grad: Literal[False],
    group: Group[TP] | None = None,
    output_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> Tensor[I[TP]]: ...
@overload
def gather_from_sequence_parallel_region(
    input_: torch.Tensor,
    tensor_parallel_output_grad: bool = True,
    *,
    group: dist.ProcessGroup,
    output_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> torch.Tensor: ...
def gather_from_sequence_parallel_region(
    input_: torch.Tensor,
    tensor_parallel_output_grad: bool = True,
    group: Any = None,
    output_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> torch.Tensor:
    """All parts of dim 0: S(0) -> R (backward: reduce_scatter), or with ``tensor_parallel_output_grad=False`` -> I
    (backward: the own part).  ``use_global_buffer`` is accepted and has no effect."""
    dst = R if tensor_parallel_output_grad else I
    return _do(input_, _plan("all_gather", group, S(0), dst, _tuple(output_split_sizes)))


@overload
def reduce_scatter_to_sequence_parallel_region(
    input_: Tensor[P[TP]],
    group: Group[TP] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> Tensor[S[TP, Literal[0]]]: ...
@overload
def reduce_scatter_to_sequence_parallel_region(
    input_: torch.Tensor,
    group: dist.ProcessGroup,
    input_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> torch.Tensor: ...
def reduce_scatter_to_sequence_parallel_region(
    input_: torch.Tensor,
    group: Any = None,
    input_split_sizes: Sequence[int] | None = None,
    use_global_buffer: bool = False,
) -> torch.Tensor:
    """The sum's own part of dim 0: P -> S(0) (backward: all_gather).  ``use_global_buffer`` has no effect."""
    return _do(input_, _plan("reduce_scatter", group, P, S(0), _tuple(input_split_sizes)))


@overload
def all_to_all(
    group: Group[TP],
    input_: Tensor[V[TP]],
    output_split_sizes_: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
) -> Tensor[V[TP]]: ...
@overload
def all_to_all(
    group: dist.ProcessGroup,
    input_: torch.Tensor,
    output_split_sizes_: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
) -> torch.Tensor: ...
def all_to_all(
    group: Any,
    input_: torch.Tensor,
    output_split_sizes_: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
) -> torch.Tensor:
    """A part of dim 0 to each rank, and theirs joined along dim 0: V -> V (backward: the other way)."""
    sizes = _tuple(input_split_sizes), _tuple(output_split_sizes_)
    return _do(input_, _plan("all_to_all", group, S(0), S(0), *sizes))
