"""Hand-written pairs of collectives: backward takes and gives the duals of what forward gives and takes."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import once_differentiable
from typing_extensions import assert_type

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_reduce, axis_size, convert


class CopyTo(torch.autograd.Function):
    """Megatron's copy_to: convert I -> R, backward all_reduce."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]], group: Group[TP]) -> Tensor[R[TP]]:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[I[TP]], None]:
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class ReduceFrom(torch.autograd.Function):
    """Megatron's reduce_from: all_reduce P -> I, backward identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]], group: Group[TP]) -> Tensor[I[TP]]:
        y = x.clone()
        dist.all_reduce(y, group=group)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor[I[TP]]) -> tuple[Tensor[R[TP]], None]:
        return grad, None


class Identity(torch.autograd.Function):
    """The same value returned as it is: R and I are one value outside the graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]]) -> Tensor[R[TP]]:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return all_reduce(grad, TP, dst=I)


class Reduce(torch.autograd.Function):
    """all_reduce P -> R, backward all_reduce P -> R."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:
        return all_reduce(x, TP, dst=R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:
        return all_reduce(grad, TP, dst=R)


class Scale(torch.autograd.Function):
    """New style: setup_context saves, forward takes no ctx."""

    @staticmethod
    def forward(x: Tensor[R[TP]], w: Tensor[R[TP]], factor: float) -> Tensor[R[TP]]:
        return x * w * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor[R[TP]], Tensor[R[TP]], float], output: Tensor[R[TP]]) -> None:
        x, w, factor = inputs
        ctx.save_for_backward(x, w)
        ctx.factor = factor

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[P[TP]], Tensor[P[TP]], None]:
        x, w = ctx.saved_tensors
        assert_type(x, Tensor[R[TP]])
        return grad * w * ctx.factor, grad * x * ctx.factor, None


class Saved(torch.autograd.Function):
    """What is saved keeps its type; what is computed before is unknown."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[V[TP]], w: Tensor[R[TP]], mask: Tensor[R[TP]] | None = None) -> Tensor[V[TP]]:
        root = w.sqrt()
        ctx.save_for_backward(x, w, root, None)
        ctx.mark_non_differentiable()
        return x * root

    @staticmethod
    def backward(ctx: Any, grad: Tensor[V[TP]]) -> tuple[Tensor[V[TP]], Tensor[P[TP]], None]:
        x, w, root, nothing = ctx.saved_tensors
        assert_type(x, Tensor[V[TP]])
        assert_type(w, Tensor[R[TP]])
        assert_type(root, torch.Tensor)
        assert_type(nothing, None)
        summands: Tensor[P[TP]] = grad * x / (2 * w.sqrt())
        return grad * w.sqrt(), summands, None


class Two(torch.autograd.Function):
    """Several results, several gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]], y: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], Tensor[I[TP]]]:
        return x.clone(), all_reduce(y, TP, dst=I)

    @staticmethod
    def backward(ctx: Any, gx: Tensor[P[TP]], gy: Tensor[I[TP]]) -> tuple[Tensor[I[TP]], Tensor[R[TP]]]:
        return all_reduce(gx, TP, dst=I), gy


class Many(torch.autograd.Function):
    """Any number of arguments."""

    @staticmethod
    def forward(ctx: Any, *xs: Tensor[I[TP]]) -> Tensor[R[TP]]:
        ctx.count = len(xs)
        return torch.stack(xs).sum(0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor[P[TP]]) -> tuple[Tensor[I[TP]], ...]:
        return (all_reduce(grads[0], TP, dst=I),) * ctx.count


class Derived(Reduce):
    """Inherits both."""


class Half(Reduce):
    """Overrides one; the other is inherited, and they fit."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[V[DP], P[TP]]) -> Tensor[V[DP], R[TP]]:
        return all_reduce(x * 2, TP, dst=R) / 2


class Loose(torch.autograd.Function):
    """Not annotated: not checked."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad


class HalfAnnotated(torch.autograd.Function):
    """Unknown on an axis: not compared there."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> torch.Tensor:
        return all_reduce(x, TP, dst=R)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Tensor[R[TP]]:
        return grad


copy_to = CopyTo.apply


def reduce_from(x: Tensor[P[TP]], group: Group[TP]) -> Tensor[I[TP]]:
    return ReduceFrom.apply(x, group)


def uses(i: Tensor[I[TP]], p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]], group: Group[TP]) -> None:
    assert_type(CopyTo.apply(i, group), Tensor[R[TP]])
    assert_type(copy_to(i, group), Tensor[R[TP]])
    assert_type(reduce_from(p, group), Tensor[I[TP]])
    assert_type(Identity.apply(i), Tensor[R[TP]])
    assert_type(Scale.apply(r, r, 2.0), Tensor[R[TP]])
    assert_type(Saved.apply(v, r), Tensor[V[TP]])
    whole, reduced = Two.apply(i, p)
    assert_type(whole, Tensor[R[TP]])
    assert_type(reduced, Tensor[I[TP]])
    assert_type(Many.apply(i, i, i), Tensor[R[TP]])
    assert_type(Derived.apply(p), Tensor[V[DP], R[TP]])
    assert_type(Half.apply(p), Tensor[V[DP], R[TP]])
    Loose.apply(p)
    HalfAnnotated.apply(p)


def main() -> None:
    world = dist.group.WORLD
    assert world is not None
    n = axis_size(TP)

    def leaf() -> torch.Tensor:
        return torch.full((3,), 2.0, requires_grad=True)

    i = leaf()
    # Every rank uses x once: the loss counts it n times.
    reduce_from(convert(copy_to(i, world), TP, src=R, dst=P), world).sum().backward()
    assert i.grad is not None
    assert torch.equal(i.grad, torch.ones(3)), i.grad
    x, w = leaf(), leaf()
    Scale.apply(x, w, 3.0).backward(torch.ones(3))
    assert x.grad is not None and torch.equal(x.grad, w.detach() * 3.0)
    y = leaf()
    Reduce.apply(y).backward(torch.ones(3))
    assert y.grad is not None and torch.equal(y.grad, torch.full((3,), float(n)))
    uses(leaf(), leaf(), leaf(), leaf(), world)
