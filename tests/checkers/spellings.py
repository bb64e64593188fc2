"""Every portable way to write a type, in one module that all checkers must pass and that must import.

Portable means: ``Parameter[...]`` and ``Buffer[...]`` from ``spmd_runtime`` and ``S[TP, Literal[2]]``.  The functions
say what they return with ``assert_type`` or hand it on, so that a checker that lost ``torch.Tensor`` would complain.
"""
# ruff: noqa: UP007, UP037, UP045 - quoted and old spellings belong to the list

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, NamedTuple, Optional, Protocol, TypedDict, TypeVar, Union, overload

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import assert_type

from spmd_runtime import (
    CP,
    DP,
    EP,
    TP,
    Buffer,
    Group,
    I,
    Invariant,
    MeshAxis,
    P,
    Parameter,
    Partial,
    R,
    Replicate,
    S,
    Shard,
    Tensor,
    V,
    Varying,
)


class Seq(MeshAxis):
    """An axis of the project's own."""


Act = Tensor[V[DP], I[TP]]
Weights = dict[str, Parameter[V[TP]]]
MaybeAct = Optional[Act]
L = TypeVar("L")
K = TypeVar("K")

scale: Tensor[R[DP], R[TP]] = torch.ones(4)
table: dict[str, Tensor[V[TP]]] = {}


def any_number_of_axes_in_any_order(x: Tensor[V[DP], P[TP]], y: Tensor[P[TP], V[DP], R[CP]]) -> Tensor[P[TP]]:
    return x + y


def long_names(
    a: Tensor[Replicate[DP]], b: Tensor[Invariant[DP]], c: Tensor[Varying[DP]], d: Tensor[Partial[TP]]
) -> list[torch.Tensor]:
    return [a, b, c, d]


def shards(q: Tensor[S[TP, Literal[2]]], k: Tensor[Shard[TP, Literal[-1]]]) -> tuple[Tensor[V[TP]], int]:
    return q, q.shape[-1] + k.size(0)


def default_axis(t: Tensor[Partial]) -> Tensor[Partial]:
    return t * 2.0


def no_layout(x: Tensor, w: Parameter) -> Tensor:
    return F.linear(x, w)


def own_axis(x: Tensor[V[Seq], R[EP]]) -> Tensor[V[Seq], R[EP]]:
    return x.transpose(0, 1).contiguous()


def groups(group: Group[TP], x: Tensor[P[TP]]) -> int:
    torch.distributed.all_reduce(x, group=group)
    return group.size()


def quoted(x: "Tensor[V[TP]]", y: Tensor["V[TP]"], z: "Act") -> "Tensor[V[DP]]":
    return x + y + z


def optional(x: Tensor[V[TP]] | None, y: MaybeAct, z: Union[Tensor[V[TP]], int]) -> Tensor[V[TP]] | None:
    if x is None or y is None or isinstance(z, int):
        return None
    return x + y + z


def containers(
    xs: list[Tensor[V[TP]]], ys: Sequence[Act], zs: tuple[Tensor[R[TP]], ...], pair: tuple[Act, Tensor[R[TP]]]
) -> Iterator[Tensor[V[TP]]]:
    assert_type(pair[0], Act)
    yield torch.cat(xs)
    yield torch.stack([*ys])
    yield from zs


def annotated(x: Annotated[Tensor[V[TP]], "batch seq hidden"]) -> Annotated[Tensor[V[TP]], "batch seq"]:
    return x.sum(-1)


def whole_layout(x: Tensor[L]) -> Tensor[L]:
    return x


def same_layout(xs: Sequence[K]) -> K:
    return xs[0]


def higher_order(f: Callable[[Tensor[V[TP]]], Tensor[P[TP]]], x: Tensor[V[TP]]) -> Tensor[P[TP]]:
    return f(x)


def variadic(*xs: Tensor[V[TP]], **named: Tensor[R[TP]]) -> Tensor[V[TP]]:
    return xs[0] + named["bias"]


@overload
def overloaded(x: Tensor[V[TP]], reduce: Literal[False]) -> Tensor[V[TP]]: ...
@overload
def overloaded(x: Tensor[V[TP]], reduce: Literal[True] = ...) -> Tensor[P[TP]]: ...
def overloaded(x: Tensor[V[TP]], reduce: bool = True) -> Tensor:
    return x.sum() if reduce else x


async def asynchronous(x: Tensor[V[TP]]) -> Tensor[V[TP]]:
    return x


@dataclass
class Batch:
    tokens: Tensor[V[DP], R[TP]]
    mask: Tensor[V[DP]] | None = None
    extra: dict[str, Act] | None = None


class Heads(NamedTuple):
    query: Tensor[V[TP]]
    key: Tensor[S[TP, Literal[1]]]


class State(TypedDict, total=False):
    hidden: Tensor[V[DP], I[TP]]
    cache: list[Tensor[V[TP]]]


class Block(Protocol):
    weight: Parameter[V[TP]]

    def __call__(self, x: Tensor[V[DP], I[TP]], /) -> Tensor[V[DP], I[TP]]: ...


class Box(Generic[K]):
    def __init__(self, item: K) -> None:
        self.item = item


class Linear(nn.Module):
    """Declared fields, as a model has them."""

    weight: Parameter[V[TP]]
    bias: Parameter[I[TP]] | None
    inverse: Buffer[R[TP]]
    table: Tensor[R[TP]]

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, width))
        self.bias = None
        self.inverse = nn.Buffer(torch.ones(width))
        self.register_buffer("table", torch.ones(width), persistent=False)

    @property
    def scaled(self) -> Tensor[V[TP]]:
        return self.weight * self.inverse

    def forward(self, x: Tensor[V[DP], R[TP]]) -> Tensor[V[DP], V[TP]]:
        y = F.linear(x, self.scaled)
        return y if self.bias is None else y + self.bias.sum()


def use(batch: Batch, heads: Heads, state: State, block: Block, box: Box[Act]) -> Act:
    assert_type(box.item, Act)
    hidden = state.get("hidden")
    rotated = heads.query + heads.key
    total: Tensor[V[DP], I[TP]] = block(box.item) + batch.tokens + rotated
    return total if hidden is None else total + hidden


def modules(linear: Linear, layers: nn.ModuleList, stack: Sequence[Linear], x: Tensor[V[DP], R[TP]]) -> Tensor[V[DP]]:
    for layer in layers:
        x = layer(x)
    y: Tensor[V[DP]] = linear(x) + stack[0](x)
    return y


def narrowed(x: object, y: Tensor[V[TP]] | Tensor[R[TP]]) -> torch.Tensor:
    plain: torch.Tensor = y
    return x if isinstance(x, torch.Tensor) else plain


def decorated(x: Tensor[V[TP]]) -> Tensor[V[TP]]:
    @torch.no_grad()
    def inner(z: Tensor[V[TP]]) -> Tensor[V[TP]]:
        return z.detach()

    pair: Callable[[Tensor[V[TP]]], Tensor[V[TP]]] = inner
    return inner(x) + pair(x)
