"""A hand-written pair of collectives with the wrong backward is an error at the class."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F

from spmd_runtime import DP, TP, Group, I, P, R, S, Tensor, V, all_gather, all_reduce


class BackwardOfCopy(torch.autograd.Function):  # E: spmd-grad
    """Forward of copy_to with the backward of reduce_from."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]]) -> Tensor[R[TP]]:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[R[TP]]) -> Tensor[I[TP]]:
        return grad


class BackwardOfReduce(torch.autograd.Function):  # E: spmd-grad
    """Forward of reduce_from with the backward of all_reduce to R."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return all_reduce(x, TP, dst=I)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(grad, TP, dst=R)


class NotReduced(torch.autograd.Function):
    """The types are right, the body is not."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]]) -> Tensor[R[TP]]:
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return grad  # E: spmd-return


class ForwardNotReduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return x * 2  # E: spmd-return

    @staticmethod
    def backward(ctx: Any, grad: Tensor[I[TP]]) -> Tensor[R[TP]]:
        return grad


class WrongResult(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(ctx: Any, x: Tensor[R[TP]], n: int) -> Tensor[R[TP]]:
        return x * n

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], None]:
        return all_reduce(grad, TP, dst=R), None


class WrongAxis(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(ctx: Any, x: Tensor[I[DP], P[TP]]) -> Tensor[I[DP], R[TP]]:
        return all_reduce(x, TP, dst=R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[R[DP], P[TP]]) -> Tensor[I[DP], R[TP]]:
        return all_reduce(grad, TP, dst=R)


class WrongSecond(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(ctx: Any, x: Tensor[V[TP]], w: Tensor[R[TP]]) -> Tensor[V[TP]]:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, grad: Tensor[V[TP]]) -> tuple[Tensor[V[TP]], Tensor[R[TP]]]:
        x, w = ctx.saved_tensors
        F.gelu(w) + x
        return grad * w, w


class WrongDim(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(ctx: Any, x: Tensor[S[TP, 0]]) -> Tensor[R[TP]]:
        return all_gather(x, TP, src=S(0), dst=R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[S[TP, 1]]:
        return grad  # E: spmd-return


class NewStyle(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(x: Tensor[P[TP]], w: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R) * w

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor[R[TP]]) -> None:
        x, w = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[P[TP]], Tensor[P[TP]]]:
        x, w = ctx.saved_tensors
        F.gelu(x)  # E: spmd-partial
        return grad * w, grad


class Outputs(torch.autograd.Function):  # E: spmd-grad
    @staticmethod
    def forward(ctx: Any, x: Tensor[I[TP]], y: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], Tensor[I[TP]]]:
        return x.clone(), all_reduce(y, TP, dst=I)

    @staticmethod
    def backward(ctx: Any, gx: Tensor[P[TP]], gy: Tensor[R[TP]]) -> tuple[Tensor[I[TP]], Tensor[R[TP]]]:
        return all_reduce(gx, TP, dst=I), gy


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(grad, TP, dst=R)


class Half(Right):  # E: spmd-grad
    """The inherited backward does not fit the new forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[I[TP]]:  # E
        return all_reduce(x, TP, dst=I)


class ByGroup(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]], group: Group[DP]) -> Tensor[R[TP]]:
        y = x.clone()
        dist.all_reduce(y, group=group)
        return y  # E: spmd-return

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> tuple[Tensor[R[TP]], None]:
        return all_reduce(grad, TP, dst=R), None


apply_right = Right.apply


def uses(i: Tensor[I[TP]], p: Tensor[P[TP]], r: Tensor[R[TP]]) -> None:
    Right.apply(r)  # E: spmd-arg
    apply_right(r)  # E: spmd-arg
    Right.apply(p, 2)  # E: call-arg
    F.gelu(Outputs.apply(i, p)[0]) * i  # E: spmd-mix
    Outputs.apply(p, i)  # E: spmd-arg
    NewStyle.apply(r, r)  # E: spmd-arg
