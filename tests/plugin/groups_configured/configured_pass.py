"""Groups of another package, whose axes the configuration gives."""

from __future__ import annotations

import parallel_state
import torch
import torch.distributed as dist
from parallel_state import Collection, get_tensor_model_parallel_group
from typing_extensions import assert_type

from spmd_runtime import CP, DP, TP, Group, I, P, R, Tensor, V, all_reduce


def by_function(x: Tensor[R[DP], P[TP]]) -> Tensor[R[DP], R[TP]]:
    assert_type(get_tensor_model_parallel_group(), Group[TP])
    return all_reduce(x, parallel_state.get_tensor_model_parallel_group(), dst=R)


def raw(x: Tensor[P[DP], R[TP]]) -> Tensor[R[DP], R[TP]]:
    y = x.clone()
    dist.all_reduce(y, group=parallel_state.get_data_parallel_group(with_context_parallel=False))
    return y.sqrt()


def optional(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    group = parallel_state.maybe_group()
    if group is not None:
        return all_reduce(x, group, dst=R)
    raise ValueError


def by_attribute(x: Tensor[P[TP]], groups: Collection) -> Tensor[R[TP]]:
    return all_reduce(x, groups.tp, dst=R) + all_reduce(x, groups.model, dst=R)


def by_method(x: Tensor[P[DP]], groups: Collection) -> Tensor[R[DP]]:
    return all_reduce(x, groups.data(), dst=R)


def main() -> None:
    x: Tensor = torch.tensor([4.0]).requires_grad_(False)
    total = x * dist.get_world_size(get_tensor_model_parallel_group())
    groups = Collection()
    assert torch.equal(by_function(x), total) and torch.equal(optional(x), total)
    assert torch.equal(by_attribute(x, groups), total * 2)
    assert torch.equal(raw(x), x.sqrt()) and torch.equal(by_method(x, groups), x)
