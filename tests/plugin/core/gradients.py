"""Where a backward starts, and what a gradient is."""

from __future__ import annotations

import torch

from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V


def losses(
    i: Tensor[I[TP]], p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]], dp: Tensor[V[DP], I[TP]], rdp: Tensor[R[DP]]
) -> None:
    i.backward()
    p.backward()
    r.backward()  # E: spmd-loss
    v.backward()  # E: spmd-loss
    dp.backward()
    rdp.backward()  # E: spmd-loss
    r.backward(gradient=torch.ones(1))
    torch.autograd.backward([i, r])  # E: spmd-loss
    torch.autograd.grad(r, [i])  # E: spmd-loss


def duals(i: Tensor[I[TP]], p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[DP]], w: Parameter[V[DP], I[TP]]) -> None:
    reveal_type(i.grad)  # R: Tensor[I[TP]] | None
    reveal_type(p.grad)  # R: Tensor[R[TP]] | None
    reveal_type(r.grad)  # R: Tensor[P[TP]] | None
    reveal_type(v.grad)  # R: Tensor[V[DP]] | None
    reveal_type(w.grad)  # R: Tensor[I[TP]] | None
    reveal_type(torch.autograd.grad(i, [r, w]))  # R: tuple[Tensor[P[TP]], Tensor[I[TP]]]
