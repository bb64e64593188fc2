"""Two meshes over the same ranks: reinterpret_mesh leads from one to the other."""

from __future__ import annotations

import torch
from typing_extensions import assert_type

from spmd_runtime import CP, DP, EDP, EP, ETP, TP, I, P, Parameter, R, S, Tensor, V
from spmd_runtime import all_reduce, all_to_all, reinterpret_mesh


def to_experts(x: Tensor[V[DP], V[CP], R[TP]]) -> Tensor[V[EDP], V[EP], R[ETP]]:
    y = reinterpret_mesh(x, {EDP: V, EP: V, ETP: R})
    assert_type(y, Tensor[V[EDP], V[EP], R[ETP]])
    return y


def there_and_back(x: Tensor[V[DP], R[TP]], w: Tensor[V[EP]]) -> Tensor[V[DP], R[TP]]:
    tokens = all_to_all(reinterpret_mesh(x, {EP: V}), EP, src=V, dst=V)
    out = all_to_all(tokens * w, EP, src=V, dst=V)
    return reinterpret_mesh(out, {DP: V, TP: R}) + x


def in_place(x: Tensor[V[DP]], w: Tensor[V[EP]]) -> Tensor[V[EP]]:
    x = x.clone()
    reinterpret_mesh(x, {EP: V}, inplace=True)
    return x * w


def same_everywhere(x: Tensor[R[DP], R[CP], R[TP]]) -> Tensor[R[EDP], R[EP], R[ETP]]:
    return reinterpret_mesh(x, {EDP: R, EP: R, ETP: R})


def constants_go_anywhere(x: Tensor[V[DP]], w: Tensor[V[EP]]) -> tuple[Tensor[V[DP]], Tensor[V[EP]]]:
    one = torch.ones(4)
    return x * one, w * one


def unknown_goes_anywhere(x: Tensor[V[DP]], y: torch.Tensor, w: Tensor[V[EP]]) -> Tensor:
    return x * y + y * w


def reduced(x: Tensor[P[EP]]) -> Tensor[R[EP]]:
    return all_reduce(x, EP, dst=R)
