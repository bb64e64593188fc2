"""Groups of another package over another axis."""

from __future__ import annotations

import parallel_state
import torch
import torch.distributed as dist

from spmd_runtime import CP, DP, TP, Group, I, P, R, Tensor, V, all_reduce


def by_function(x: Tensor[R[DP], P[TP]]) -> None:
    all_reduce(x, parallel_state.get_data_parallel_group(), dst=R)  # E: spmd-collective
    dist.all_reduce(x, group=parallel_state.get_data_parallel_group())  # E: spmd-collective


def optional(x: Tensor[P[DP], R[TP]]) -> None:
    group = parallel_state.maybe_group()
    assert group is not None
    all_reduce(x, group, dst=R)  # E: spmd-collective


def by_attribute(x: Tensor[P[DP], R[TP]], groups: parallel_state.Collection) -> None:
    all_reduce(x, groups.tp, dst=R)  # E: spmd-collective
    all_reduce(x, groups.model, dst=R)  # E: spmd-collective


def by_method(x: Tensor[R[DP], P[TP]], groups: parallel_state.Collection) -> None:
    all_reduce(x, groups.data(), dst=R)  # E: spmd-collective


def takes(tp: Group[TP]) -> None: ...


def passes() -> None:
    takes(parallel_state.get_tensor_model_parallel_group())
    takes(parallel_state.get_data_parallel_group())  # E: spmd-arg
