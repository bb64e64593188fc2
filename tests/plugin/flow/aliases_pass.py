"""Names that share memory: a collective in place on one leaves the others unknown."""

from __future__ import annotations

import torch
import torch.distributed as dist
from typing_extensions import assert_type

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V
from spmd_runtime.mesh import lookup


def same(x: Tensor[V[DP], P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    z = y
    dist.all_reduce(y, group=tp)
    assert_type(z, Tensor[V[DP]])
    return z.sqrt()


def view(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    flat = y.view(-1)
    dist.all_reduce(flat, group=tp)
    return y.sqrt()


def viewed_later(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    first = y[0]
    dist.all_reduce(y, group=tp)
    return first.sqrt()


def of_a_view(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    dist.all_reduce(y.view(-1), group=tp)
    dist.all_reduce(y[0], group=tp)
    dist.all_reduce(y.data, group=tp)
    return y.sqrt()


def chain(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    a = x.clone()
    b = a.transpose(0, 1).detach()
    c = b.unsqueeze(0)
    dist.all_reduce(c, group=tp)
    return a.sqrt()


def parts(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    whole = x.clone()
    left, right = whole.chunk(2)
    dist.all_reduce(left, group=tp)
    left.sqrt()
    return whole.sqrt()


def in_a_list(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.clone()
    held = [y]
    dist.all_reduce(held[0], group=tp)
    held[0].sqrt()
    return y.sqrt()


def in_a_loop(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y, z = x.clone(), x.clone()
    for each in (y, z):
        dist.all_reduce(each, group=tp)
    return y.sqrt()


def items(grads: dict[str, Tensor[P[TP]]], tp: Group[TP]) -> Tensor[R[TP]]:
    for _, grad in grads.items():
        dist.all_reduce(grad, group=tp)
    return grads["w"].sqrt()


def in_a_comprehension(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    ys = [x.clone()]
    [dist.all_reduce(y, group=tp) for y in ys]
    return ys[0].sqrt()


def parameter(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[R[TP]]:
    y = x.detach()
    dist.all_reduce(y, group=tp)
    y.sqrt()
    return x.sqrt()


def copies_are_their_own(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[P[TP]]:
    y = x.clone()
    z = y.clone()
    dist.all_reduce(y, group=tp)
    assert_type(z, Tensor[P[TP]])
    return z


def bound_anew(x: Tensor[P[TP]], tp: Group[TP]) -> Tensor[P[TP]]:
    y = x.clone()
    z = y
    y = x * 2
    dist.all_reduce(y, group=tp)
    assert_type(z, Tensor[P[TP]])
    return z


def main() -> None:
    tp = lookup(TP).group
    n = tp.size()
    x: Tensor = torch.tensor([[4.0], [4.0]]).requires_grad_(False)
    root = (x * n).sqrt()
    for function in (same, view, chain, in_a_list, in_a_loop, in_a_comprehension):
        assert torch.equal(function(x, tp), root), function
    assert torch.equal(viewed_later(x, tp), root[0])
    assert torch.equal(of_a_view(x, tp)[1], (x * n**2).sqrt()[1])
    assert torch.equal(parts(x, tp)[0], root[0])
    assert torch.equal(items({"w": x.clone()}, tp), root)
    assert torch.equal(parameter(x.clone(), tp), root)
    assert copies_are_their_own(x, tp).equal(x) and bound_anew(x, tp).equal(x)  # type: ignore[spmd-partial]
