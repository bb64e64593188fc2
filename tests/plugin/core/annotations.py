"""Every spelling of a type, and every wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar, overload

import torch
from torch import nn

import spmd_runtime as spmd
from spmd_runtime import CP, DP, PP, TP, Buffer, Group, I, P, Parameter, Partial, R, Replicate, S, SpmdType, Tensor, V

Act = Tensor[V[DP], I[TP]]
Weight = Parameter[V[TP]]
Rows = Tensor[V[DP], S[TP, 0]]
Columns = Tensor[S[TP, -1]]


def order(x: Tensor[V[DP], P[TP]], y: Tensor[P[TP], V[DP]], z: Tensor[R[CP], V[DP], P[TP]]) -> None:
    reveal_type(x)  # R: Tensor[V[DP], P[TP]]
    reveal_type(y)  # R: Tensor[V[DP], P[TP]]
    reveal_type(z)  # R: Tensor[V[DP], R[CP], P[TP]]


def unmentioned_is_unknown(x: Tensor[V[DP]], bare: Tensor, plain: torch.Tensor) -> Tensor[V[DP], R[TP]]:
    reveal_type(bare)  # R: torch._tensor.Tensor
    a: Tensor[P[TP]] = bare
    b: Tensor[R[TP]] = plain
    c: Tensor = a
    d: Tensor[P[DP], R[TP]] = b
    return x


def shards(s: Tensor[S[TP, 0]], t: Tensor[S[TP, Literal[1]]], n: Tensor[S[TP, -1]], w: Tensor[S[TP]]) -> None:
    reveal_type(s)  # R: Tensor[S[TP, 0]]
    reveal_type(t)  # R: Tensor[S[TP, 1]]
    reveal_type(n)  # R: Tensor[S[TP, -1]]
    a: Tensor[V[TP]] = s
    b: Tensor[S[TP, 1]] = s  # E: spmd-assign
    c: Tensor[S[TP, -1]] = s
    d: Tensor[S[TP, 2]] = n
    e: Tensor[S[TP, 0]] = w
    f: Tensor[P[TP]] = s  # E: spmd-assign


def shard_aliases(rows: Rows, columns: Columns) -> None:
    reveal_type(rows)  # R: Tensor[V[DP], S[TP, 0]]
    reveal_type(columns)  # R: Tensor[S[TP, -1]]


def varying(v: Tensor[V[TP]]) -> Tensor[P[TP]]:
    s: Tensor[S[TP, 0]] = v
    r: Tensor[R[TP]] = v  # E: spmd-assign
    i: Tensor[I[TP]] = v  # E: spmd-assign
    p: Tensor[P[TP]] = v
    reveal_type(p)  # R: Tensor[P[TP]]
    return v


def never_one_for_another(r: Tensor[R[TP]], i: Tensor[I[TP]], p: Tensor[P[TP]]) -> None:
    a: Tensor[I[TP]] = r  # E: spmd-assign
    b: Tensor[V[TP]] = r  # E: spmd-assign
    c: Tensor[P[TP]] = r  # E: spmd-assign
    d: Tensor[R[TP]] = i  # E: spmd-assign
    e: Tensor[V[TP]] = i  # E: spmd-assign
    f: Tensor[P[TP]] = i  # E: spmd-assign
    g: Tensor[R[TP]] = p  # E: spmd-assign
    h: Tensor[I[TP]] = p  # E: spmd-assign
    j: Tensor[V[TP]] = p  # E: spmd-assign


def default_axis(p: Tensor[Partial], r: Tensor[Replicate], q: Tensor[P, V[DP]], full: Tensor[spmd.Varying[DP]]) -> None:
    reveal_type(p)  # R: Tensor[P[TP]]
    reveal_type(r)  # R: Tensor[R[TP]]
    reveal_type(q)  # R: Tensor[V[DP], P[TP]]
    reveal_type(full)  # R: Tensor[V[DP]]


def quoted(x: Tensor[V[TP]], y: Tensor[V[TP]], z: Tensor[V[TP]], w: Tensor[V[Literal["tp"]]]) -> None:
    reveal_type(x)  # R: Tensor[V[TP]]
    reveal_type(y)  # R: Tensor[V[TP]]
    reveal_type(z)  # R: Tensor[V[TP]]
    reveal_type(w)  # R: Tensor[V[TP]]


def torch_spelling(x: torch.Tensor[V[TP]], w: nn.Parameter[I[TP]], b: Buffer[R[TP]], p: Weight) -> None:
    reveal_type(x)  # R: Tensor[V[TP]]
    reveal_type(w)  # R: Parameter[I[TP]]
    reveal_type(p)  # R: Parameter[V[TP]]
    t: Tensor[I[TP]] = w


def annotated(x: Annotated[Tensor[V[TP]], "b s"], u: Act | None, m: Act | None, n: Tensor[V[TP]] | int) -> None:
    reveal_type(x)  # R: Tensor[V[TP]]
    if u is not None and m is not None:
        reveal_type(u)  # R: Tensor[V[DP], I[TP]]
    if not isinstance(n, int):
        reveal_type(n)  # R: Tensor[V[TP]]


@dataclass
class Batch:
    tokens: Act
    mask: Tensor[R[TP]] | None = None


class Pair(NamedTuple):
    left: Tensor[R[TP]]
    right: Tensor[V[TP]]


class Record(TypedDict):
    x: Tensor[R[TP]]


class Reducer(Protocol):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]: ...


class Fits:
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]: ...  # type: ignore[empty-body]


class DoesNot:
    def forward(self, x: Tensor[P[TP]]) -> Tensor[P[TP]]: ...  # type: ignore[empty-body]


@overload
def pick(x: Tensor[R[TP]]) -> Tensor[V[TP]]: ...
@overload
def pick(x: Tensor[P[TP]]) -> Tensor[R[TP]]: ...
def pick(x: Any) -> Any:
    return x


def containers(a: Act, r: Tensor[R[TP]], p: Tensor[P[TP]], call: Callable[[Tensor[R[TP]]], Act]) -> None:
    Batch(a, r)
    Batch(r)  # E: spmd-arg
    Batch(a, p)  # E: spmd-arg
    Pair(r, p)  # E: spmd-arg
    reveal_type(Batch(a).tokens)  # R: Tensor[V[DP], I[TP]]
    record: Record = {"x": r}
    wrong: Record = {"x": p}  # E: spmd-assign
    reducer: Reducer = Fits()
    other: Reducer = DoesNot()  # E: assignment
    reveal_type(call(r))  # R: Tensor[V[DP], I[TP]]
    call(p)  # E: spmd-arg
    reveal_type(pick(r))  # R: Tensor[V[TP]]
    reveal_type(pick(p))  # R: Tensor[R[TP]]
    many: list[Tensor[R[TP]]] = [r, p]  # E: spmd-arg
    named: dict[str, Act] = {"a": a}
    reveal_type(named["a"])  # R: Tensor[V[DP], I[TP]]


L = TypeVar("L")
K = TypeVar("K", bound=SpmdType[DP])
RV = TypeVar("RV", Replicate[TP], V[TP])


def whole(x: Tensor[L]) -> Tensor[L]:
    y = x * 2
    return y


def one_axis(x: Tensor[K, P[TP]]) -> Tensor[K, R[TP]]:
    return spmd.all_reduce(x, TP, dst=R)


def per_value(x: Tensor[RV]) -> Tensor[RV]:
    return x * 2


class Box(Generic[L]):
    def __init__(self, x: Tensor[L]) -> None:
        self.x = x


def polymorphic(a: Act, r: Tensor[R[TP]], v: Tensor[V[TP]], dp: Tensor[V[DP], P[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(whole(a))  # R: Tensor[V[DP], I[TP]]
    reveal_type(one_axis(dp))  # R: Tensor[V[DP], R[TP]]
    reveal_type(one_axis(p))  # R: Tensor[R[TP]]
    one_axis(r)  # E: spmd-arg
    reveal_type(per_value(r))  # R: Tensor[R[TP]]
    reveal_type(per_value(v))  # R: Tensor[V[TP]]
    per_value(p)  # E: spmd-arg
    reveal_type(Box(a).x)  # R: Tensor[V[DP], I[TP]]


def wrong(
    a: Tensor[V[TP], R[TP]],  # E: spmd-annotation
    b: Tensor[V[PP]],  # E: spmd-annotation
    c: Tensor[int],  # E: spmd-annotation
    d: Tensor[V[int]],  # E: spmd-annotation
    e: Tensor[S[TP, x]],  # E: name-defined
    f: Tensor[L, V[TP]],  # E: spmd-annotation
    g: Group[PP],  # E: spmd-annotation
    h: Tensor[V[Literal["pp"]]],  # E: spmd-annotation
    w: Parameter[R[TP]],  # E: spmd-grad
    ok: Parameter[R[DP], I[TP]],
) -> None:
    reveal_type(b)  # R: torch._tensor.Tensor
    reveal_type(a)  # R: Tensor[V[TP]]
