"""The contenders of ``collectives.py``: the bare collective, autograd functions written by hand, spmd_types, ours.

The hand-written functions are what people write after Megatron's example, out of place as ours are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import spmd_runtime as spmd
from spmd_runtime import TP, I, P, R, S

try:
    import spmd_types as peer
except ImportError:  # it takes part where it is installed
    peer = None

Call = Callable[[Tensor], Tensor]


def reduced(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    out = x.clone()
    dist.all_reduce(out, group=group)
    return out


def gathered(x: Tensor, group: dist.ProcessGroup, dim: int = 0) -> Tensor:
    n = group.size()
    out = torch.empty((n * x.shape[0], *x.shape[1:]), dtype=x.dtype, device=x.device)
    dist.all_gather_into_tensor(out, x.contiguous(), group=group)
    return out if dim == 0 else torch.cat(out.chunk(n), dim)


def scattered(x: Tensor, group: dist.ProcessGroup, dim: int = 0) -> Tensor:
    n = group.size()
    x = x.contiguous() if dim == 0 else torch.cat(x.chunk(n, dim))
    out = torch.empty((x.shape[0] // n, *x.shape[1:]), dtype=x.dtype, device=x.device)
    dist.reduce_scatter_tensor(out, x, group=group)
    return out


def exchanged(x: Tensor, group: dist.ProcessGroup, cut: int, join: int) -> Tensor:
    n = group.size()
    x = x.contiguous() if cut == 0 else torch.cat(x.chunk(n, cut))
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, group=group)
    return out if join == 0 else torch.cat(out.chunk(n), join)


def own(x: Tensor, group: dist.ProcessGroup, dim: int = 0) -> Tensor:
    return x.chunk(group.size(), dim)[group.rank()].contiguous()


class CopyTo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return reduced(grad, ctx.group), None


class ReduceFrom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        return reduced(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad, None


class ReduceBoth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return reduced(x, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return reduced(grad, ctx.group), None


class GatherScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, dim: int) -> Tensor:
        ctx.group, ctx.dim = group, dim
        return gathered(x, group, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return scattered(grad, ctx.group, ctx.dim), None, None


class GatherOwn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, dim: int) -> Tensor:
        ctx.group, ctx.dim = group, dim
        return gathered(x, group, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return own(grad, ctx.group, ctx.dim), None, None


class OwnGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, dim: int) -> Tensor:
        ctx.group, ctx.dim = group, dim
        return own(x, group, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return gathered(grad, ctx.group, ctx.dim), None, None


class ScatterGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, dim: int) -> Tensor:
        ctx.group, ctx.dim = group, dim
        return scattered(x, group, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return gathered(grad, ctx.group, ctx.dim), None, None


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, cut: int, join: int) -> Tensor:
        ctx.group, ctx.cut, ctx.join = group, cut, join
        return exchanged(x, group, cut, join)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return exchanged(grad, ctx.group, ctx.join, ctx.cut), None, None, None


@dataclass(frozen=True)
class Typed:
    """A typed call, as ours and as spmd_types' of the same name and arguments."""

    op: str
    src: Any
    dst: Any

    def ours(self) -> Call:
        op, src, dst = getattr(spmd, self.op), self.src, self.dst
        return lambda x: op(x, TP, src=src, dst=dst)

    def theirs(self, group: dist.ProcessGroup) -> Call:
        op, src, dst = getattr(peer, self.op), _theirs(self.src), _theirs(self.dst)
        return lambda x: op(x, group, src=src, dst=dst)


def _theirs(kind: Any) -> Any:
    return peer.S(kind.dim) if isinstance(kind, S) else {R: peer.R, I: peer.I, P: peer.P}[kind]


def calls(group: dist.ProcessGroup) -> dict[str, dict[str, Call]]:
    """Each call by name, as every contender makes it."""
    written: dict[Typed, tuple[Call | None, Call]] = {
        Typed("all_reduce", P, R): (lambda x: reduced(x, group), lambda x: ReduceBoth.apply(x, group)),
        Typed("all_reduce", P, I): (lambda x: reduced(x, group), lambda x: ReduceFrom.apply(x, group)),
        Typed("convert", I, R): (None, lambda x: CopyTo.apply(x, group)),
        Typed("all_gather", S(0), R): (lambda x: gathered(x, group), lambda x: GatherScatter.apply(x, group, 0)),
        Typed("all_gather", S(0), I): (lambda x: gathered(x, group), lambda x: GatherOwn.apply(x, group, 0)),
        Typed("all_gather", S(1), I): (lambda x: gathered(x, group, 1), lambda x: GatherOwn.apply(x, group, 1)),
        Typed("reduce_scatter", P, S(0)): (lambda x: scattered(x, group), lambda x: ScatterGather.apply(x, group, 0)),
        Typed("convert", I, S(1)): (None, lambda x: OwnGather.apply(x, group, 1)),
        Typed("all_to_all", S(0), S(1)): (
            lambda x: exchanged(x, group, 1, 0), lambda x: Exchange.apply(x, group, 1, 0),
        ),
    }  # fmt: skip
    found = {}
    for typed, (bare, by_hand) in written.items():
        makers = {"bare": bare} if bare else {}
        makers["by hand"] = by_hand
        if peer is not None:
            makers["spmd_types"] = typed.theirs(group)
        makers["ours"] = typed.ours()
        found[f"{typed.op} {_name(typed.src)} -> {_name(typed.dst)}"] = makers
    return found


def _name(kind: Any) -> str:
    return str(kind) if isinstance(kind, S) else kind.__name__[0]


def block_collectives(group: dist.ProcessGroup, sequence_parallel: bool) -> dict[str, tuple[Call, Call]]:
    """What a block calls before its column-parallel and after its row-parallel layers, per contender."""
    if sequence_parallel:
        enter, leave = Typed("all_gather", S(0), R), Typed("reduce_scatter", P, S(0))
        by_hand = (lambda x: GatherScatter.apply(x, group, 0), lambda x: ScatterGather.apply(x, group, 0))
    else:
        enter, leave = Typed("convert", I, R), Typed("all_reduce", P, I)
        by_hand = (lambda x: CopyTo.apply(x, group), lambda x: ReduceFrom.apply(x, group))
    found = {"by hand": by_hand, "ours": (enter.ours(), leave.ours())}
    if peer is not None:
        found["spmd_types"] = (enter.theirs(group), leave.theirs(group))
    return found


class Block(nn.Module):
    """A tensor-parallel transformer block; activations are tokens x batch x hidden."""

    def __init__(self, hidden: int, heads: int, ranks: int, collectives: tuple[Call, Call]) -> None:
        super().__init__()
        self.enter, self.leave = collectives
        self.heads = heads // ranks
        self.norm1, self.norm2 = nn.Parameter(torch.ones(hidden)), nn.Parameter(torch.ones(hidden))
        self.qkv = nn.Parameter(torch.randn(3 * hidden // ranks, hidden) / hidden**0.5)
        self.out = nn.Parameter(torch.randn(hidden, hidden // ranks) / hidden**0.5)
        self.up = nn.Parameter(torch.randn(4 * hidden // ranks, hidden) / hidden**0.5)
        self.down = nn.Parameter(torch.randn(hidden, 4 * hidden // ranks) / hidden**0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = self.enter(F.rms_norm(x, x.shape[-1:], self.norm1))
        tokens, batch = h.shape[:2]
        q, k, v = F.linear(h, self.qkv).view(tokens, batch, 3, self.heads, -1).permute(2, 1, 3, 0, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.leave(F.linear(attended.permute(2, 0, 1, 3).reshape(tokens, batch, -1), self.out))
        h = self.enter(F.rms_norm(x, x.shape[-1:], self.norm2))
        return x + self.leave(F.linear(F.gelu(F.linear(h, self.up)), self.down))
