"""torch.func refuses what the function refuses, and a loss that no backward may start from."""

from __future__ import annotations

import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap

from spmd_runtime import TP, I, P, R, Tensor, V, all_reduce, convert


def to_partial(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


def replicated_loss(w: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return w.sum()


def local_loss(w: Tensor[V[TP]]) -> Tensor[V[TP]]:
    return w.sum()


def pending_loss(w: Tensor[R[TP]], x: Tensor[V[TP]]) -> Tensor[P[TP]]:
    total: Tensor[P[TP]] = (w * x).sum()
    return total


class Model(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


def uses(r: Tensor[R[TP]], v: Tensor[V[TP]], p: Tensor[P[TP]]) -> None:
    vmap(to_partial)(p)  # E: spmd-arg
    F.relu(vmap(to_partial)(r))  # E: spmd-partial
    grad(replicated_loss)  # E: spmd-loss
    grad(local_loss)(v)  # E: spmd-loss
    grad_and_value(replicated_loss)(r)  # E: spmd-loss
    grad(pending_loss)(p, v)  # E: spmd-arg
    F.relu(grad(pending_loss)(r, v))  # E: spmd-partial
    g, value = grad_and_value(pending_loss)(r, v)
    F.relu(value)  # E: spmd-partial
    functional_call(Model(), {}, (r,))  # E: spmd-arg
    vmap(Model())(r)  # E: spmd-arg
