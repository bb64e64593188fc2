"""torch.func: vmap keeps layouts, grad gives the duals."""

from __future__ import annotations

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, vmap
from typing_extensions import assert_type

from spmd_runtime import TP, I, P, R, S, Tensor, V, all_reduce


def to_partial(x: Tensor[R[TP]], w: Tensor[V[TP]]) -> Tensor[V[TP]]:
    return x * w


def cut(x: Tensor[S[TP, 0]]) -> Tensor[S[TP, 0]]:
    return x * 2


def loss(w: Tensor[I[TP]], x: Tensor[I[TP]]) -> Tensor[I[TP]]:
    return (w * x).sum()


def pending_loss(w: Tensor[R[TP]], x: Tensor[V[TP]]) -> Tensor[P[TP]]:
    total: Tensor[P[TP]] = (w * x).sum()
    return total


def with_aux(w: Tensor[I[TP]], x: Tensor[I[TP]]) -> tuple[Tensor[I[TP]], Tensor[I[TP]]]:
    y = w * x
    return y.sum(), y


class Model(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


def uses(r: Tensor[R[TP]], v: Tensor[V[TP]], i: Tensor[I[TP]], p: Tensor[P[TP]], s: Tensor[S[TP, 1]]) -> None:
    assert_type(vmap(to_partial)(r, v), Tensor[V[TP]])
    assert_type(torch.vmap(to_partial, in_dims=(0, 0))(r, v), Tensor[V[TP]])
    assert_type(vmap(cut)(s), Tensor[V[TP]])
    assert_type(grad(loss)(i, i), Tensor[I[TP]])
    assert_type(grad(pending_loss)(r, v), Tensor[P[TP]])
    assert_type(grad(pending_loss, argnums=1)(r, v), Tensor[V[TP]])
    first, second = grad(pending_loss, argnums=(0, 1))(r, v)
    assert_type(first, Tensor[P[TP]])
    assert_type(second, Tensor[V[TP]])
    g, value = grad_and_value(pending_loss)(r, v)
    assert_type(g, Tensor[P[TP]])
    assert_type(value, Tensor[P[TP]])
    g, aux = grad(with_aux, has_aux=True)(i, i)
    assert_type(g, Tensor[I[TP]])
    assert_type(aux, Tensor[I[TP]])
    assert_type(functional_call(Model(), {}, (p,)), Tensor[R[TP]])
    assert_type(functional_call(Model(), {}, p), Tensor[R[TP]])
    grad(lambda w: w.sum())(r)


def main() -> None:
    x = torch.ones(2, 3)
    uses(x, x, x, x, x)
    assert torch.equal(grad(loss)(x, x * 2), x * 2)
