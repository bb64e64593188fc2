"""A list that is still Partial on one branch is that for what is made of it."""

from __future__ import annotations

import torch

from spmd_runtime import TP, P, R, Tensor, V


def on_one_branch(xs: list[Tensor[P[TP]]], ys: list[Tensor[R[TP]]], flag: bool) -> list[Tensor[R[TP]]]:
    zs = ys
    if flag:
        zs = xs
    for z in zs:
        z.relu()  # E: spmd-partial
    torch.stack(zs).relu()  # E: spmd-partial
    return zs  # E: spmd-return


def items(r: Tensor[R[TP]], v: Tensor[V[TP]]) -> None:
    of_dict: dict[str, Tensor[P[TP]]] = {"zeros": torch.zeros(3), "v": v}
    of_dict = {"r": r}  # E: spmd-arg
    of_dict = {1: r}  # E: dict-item
    of_dict = {1: v}  # E: dict-item
    of_list: list[Tensor[P[TP]]] = [torch.zeros(3), v]
    of_list = [v, r]  # E: spmd-arg
    print(len(of_dict), len(of_list))
