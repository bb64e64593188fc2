"""Types for Megatron's mappings between tensor-parallel and sequence-parallel regions: those of its code.

The signatures are those of ``spmd_runtime.megatron``, which explains them.
"""

from collections.abc import Sequence
from typing import Literal, overload

import torch
import torch.distributed as dist

from spmd_runtime import TP, Group, I, P, R, S, Tensor, V

@overload
def copy_to_tensor_model_parallel_region(input_: Tensor[I[TP]], group: Group[TP] | None = None) -> Tensor[R[TP]]: ...
@overload
def copy_to_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def reduce_from_tensor_model_parallel_region(
    input_: Tensor[P[TP]], group: Group[TP] | None = None
) -> Tensor[I[TP]]: ...
@overload
def reduce_from_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def scatter_to_tensor_model_parallel_region(
    input_: Tensor[I[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def scatter_to_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def gather_from_tensor_model_parallel_region(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[I[TP]]: ...
@overload
def gather_from_tensor_model_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def scatter_to_sequence_parallel_region(
    input_: Tensor[I[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[0]]]: ...
@overload
def scatter_to_sequence_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def all_gather_last_dim_from_tensor_parallel_region(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[R[TP]]: ...
@overload
def all_gather_last_dim_from_tensor_parallel_region(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def reduce_scatter_last_dim_to_tensor_parallel_region(
    input_: Tensor[P[TP]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def reduce_scatter_last_dim_to_tensor_parallel_region(
    input_: torch.Tensor, group: dist.ProcessGroup
) -> torch.Tensor: ...
@overload
def all_to_all_sp2hp(
    input_: Tensor[S[TP, Literal[0]]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[-1]]]: ...
@overload
def all_to_all_sp2hp(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
@overload
def all_to_all_hp2sp(
    input_: Tensor[S[TP, Literal[-1]]], group: Group[TP] | None = None
) -> Tensor[S[TP, Literal[0]]]: ...
@overload
def all_to_all_hp2sp(input_: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor: ...
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
