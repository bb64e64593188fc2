"""Lambdas, closures, generators, star arguments, overloads, Annotated, type variables: mistakes are found in each."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, NamedTuple, Protocol, TypeVar, overload

import torch
import torch.nn.functional as F

from spmd_runtime import DP, TP, I, P, Partial, R, Replicate, SpmdType, Tensor, V, Varying, all_reduce, convert

L = TypeVar("L")
OnDP = TypeVar("OnDP", bound=SpmdType[DP])
RorV = TypeVar("RorV", Replicate[TP], Varying[TP])
RorP = TypeVar("RorP", Replicate[TP], Partial[TP])


def whole(x: Tensor[L]) -> Tensor[L]:
    return x


def one_axis(x: Tensor[OnDP, P[TP]]) -> Tensor[OnDP, R[TP]]:
    return x  # E: spmd-return


def valued(x: Tensor[RorV]) -> Tensor[RorV]:
    return x


def wrong_for_one(x: Tensor[RorP]) -> Tensor[RorP]:
    return F.gelu(x)  # E: spmd-partial


def variables(r: Tensor[R[TP]], p: Tensor[V[DP], P[TP]], i: Tensor[I[TP]]) -> None:
    F.gelu(whole(p))  # E: spmd-partial
    one_axis(r)  # E: spmd-arg
    valued(p)  # E: spmd-arg
    valued(i)  # E: spmd-arg


def reduce(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


def lambdas(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    f: Callable[[Tensor[P[TP]]], Tensor[R[TP]]] = lambda x: F.gelu(x)  # E
    (lambda x: F.gelu(x))(p)  # E: spmd-partial
    [F.gelu(x) for x in (p, p)]  # E: spmd-partial
    list(map(reduce, [r, r]))  # E


def make(p: Tensor[P[TP]]) -> Callable[[Tensor[R[TP]]], Tensor[P[TP]]]:
    def closure(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return x + p  # E: spmd-mix

    return closure


def chunks(x: Tensor[P[TP]]) -> Iterator[Tensor[R[TP]]]:
    yield from x.chunk(2)  # E
    yield x  # E


def both_ways(x: Tensor[P[TP]]) -> Generator[Tensor[P[TP]], Tensor[R[TP]], Tensor[R[TP]]]:
    back = yield x
    return convert(back, TP, src=R, dst=P)  # E: spmd-return


def summed(*xs: Tensor[P[TP]], **named: Tensor[R[TP]]) -> Tensor[R[TP]]:
    F.gelu(xs[0])  # E: spmd-partial
    return reduce(xs[0])


def stars(r: Tensor[R[TP]], p: Tensor[P[TP]], rs: list[Tensor[R[TP]]], ps: dict[str, Tensor[P[TP]]]) -> None:
    summed(p, r)  # E: spmd-arg
    summed(p, a=p)  # E: spmd-arg
    summed(*rs)  # E: spmd-arg
    summed(**ps)  # E: spmd-arg
    F.gelu(make(p)(r))  # E: spmd-partial


@overload
def gather(x: Tensor[V[TP]], whole: Literal[True]) -> Tensor[R[TP]]: ...
@overload
def gather(x: Tensor[V[TP]], whole: Literal[False] = ...) -> Tensor[V[TP]]: ...
def gather(x: Tensor[V[TP]], whole: bool = False) -> Tensor[R[TP]] | Tensor[V[TP]]:
    return x


def annotated(x: Annotated[Tensor[V[DP], P[TP]], "batch sequence"]) -> Annotated[Tensor[V[DP], R[TP]], "b s"]:
    F.gelu(x)  # E: spmd-partial
    return x  # E: spmd-return


@dataclass
class Batch:
    tokens: Tensor[V[DP], R[TP]]


class Pair(NamedTuple):
    whole: Tensor[R[TP]]
    part: Tensor[P[TP]]


class Reducer(Protocol):
    def __call__(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]: ...


class Box(Generic[L]):
    def __init__(self, value: Tensor[L]) -> None:
        self.value = value


def containers(v: Tensor[V[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    gather(p, True)  # E
    gather(v, True) * i  # E: spmd-mix
    gather(v) * i  # E: spmd-mix
    Batch(p)  # E: spmd-arg
    Pair(p, r)  # E: spmd-arg
    F.gelu(Pair(r, p).part)  # E: spmd-partial
    wrong: Reducer = make(p)  # E
    F.gelu(Box(p).value)  # E: spmd-partial
    table: dict[str, list[Tensor[R[TP]]]] = {"a": [p]}  # E
    match Pair(r, p):
        case Pair(whole=w, part=q):
            F.gelu(q)  # E: spmd-partial
    torch.stack([r, i])  # E: spmd-mix


class Loss(Tensor[P[TP]]):  # type: ignore[misc]
    @overload  # type: ignore[override]
    def __add__(self, other: int) -> Tensor[P[TP]]: ...
    @overload
    def __add__(self, other: float) -> Tensor[P[TP]]: ...
    def __add__(self, other: float) -> Tensor[P[TP]]:
        return self


class Losses(list[Tensor[P[TP]]]):
    pass


def read(loss: Loss, p: Tensor[P[TP]], all_of: Losses, d: dict[str, Tensor[P[TP]]], some: bool) -> None:
    loss + 1  # E: spmd-partial
    f"{loss}"  # E: spmd-escape
    f"{some} {d['a']}"  # E: spmd-escape
    f"{(q := p)}"  # E: spmd-escape
    f"{sum(all_of)}"  # E: spmd-escape
    [f"{n}: {x:.3f}" for n, x in d.items()]  # E: spmd-escape
    float(max(all_of))  # E: spmd-escape
    int(p if some else 3)  # E: spmd-escape
    sorted(d.items(), key=lambda item: float(item[1]))  # E: spmd-escape
    sum(map(lambda i: p, range(3))) + 1  # E: spmd-partial
    sum(p for _ in range(3)) + 1  # E: spmd-partial
