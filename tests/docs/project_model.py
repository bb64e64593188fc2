"""The model on which the pages show ``spmd coverage``."""

import torch
import torch.nn.functional as F

from spmd_runtime import DP, TP, P, R, Tensor, V, all_reduce


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 0.5


def mlp(x: Tensor[V[DP], R[TP]], w1: Tensor[R[DP], V[TP]], w2: Tensor[R[DP], V[TP]]) -> Tensor[V[DP], R[TP]]:
    h = F.silu(F.linear(x, w1))
    y: Tensor[V[DP], P[TP]] = F.linear(h, w2)
    return all_reduce(y, TP, dst=R)


def step(x: Tensor[V[DP], R[TP]], w: Tensor[R[DP], V[TP]], noise: torch.Tensor) -> None:
    y = mlp(x + 0.1 * noise, w, w)
    z = scaled(y)
    print(z.mean())
