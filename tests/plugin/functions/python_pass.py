"""Lambdas, closures, generators, star arguments, overloads, Annotated, type variables: Python as it is written."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypedDict, TypeVar, overload

import torch
import torch.nn.functional as F
from typing_extensions import Unpack, assert_type

from spmd_runtime import DP, TP, I, P, R, Replicate, S, SpmdType, Tensor, V, Varying, all_reduce, convert

if TYPE_CHECKING:
    from typing import Annotated as Float  # what jaxtyping.Float is to type checkers
else:

    class Float:
        """jaxtyping.Float, as far as annotations go."""

        def __class_getitem__(cls, item):
            return item[0]


L = TypeVar("L")
OnDP = TypeVar("OnDP", bound=SpmdType[DP])
RorV = TypeVar("RorV", Replicate[TP], Varying[TP])
T = TypeVar("T", bound=torch.Tensor)
Act = Tensor[V[DP], R[TP]]


# ---- type variables


def whole(x: Tensor[L]) -> Tensor[L]:
    y = x * 2
    assert_type(y, Tensor[L])
    return F.dropout(y, training=False)


def both(x: Tensor[L], y: Tensor[L]) -> Tensor[L]:
    return x + y


def one_axis(x: Tensor[OnDP, P[TP]]) -> Tensor[OnDP, R[TP]]:
    y = all_reduce(x, TP, dst=R)
    assert_type(y, Tensor[OnDP, R[TP]])
    return y


def valued(x: Tensor[RorV]) -> Tensor[RorV]:
    return F.gelu(x) * 2


def any_tensor(x: T) -> T:
    return x


def apply(f: Callable[[Tensor[L]], T], x: Tensor[L]) -> T:
    return f(x)


def variables(r: Tensor[R[TP]], d: Act, p: Tensor[V[DP], P[TP]], v: Tensor[V[TP]]) -> None:
    assert_type(whole(r), Tensor[R[TP]])
    assert_type(whole(d), Tensor[V[DP], R[TP]])
    assert_type(whole(p), Tensor[V[DP], P[TP]])
    assert_type(both(p, p), Tensor[V[DP], P[TP]])
    assert_type(one_axis(p), Tensor[V[DP], R[TP]])
    assert_type(valued(r), Tensor[R[TP]])
    assert_type(valued(v), Tensor[V[TP]])
    assert_type(any_tensor(d), Tensor[V[DP], R[TP]])
    assert_type(apply(reduce, p), Tensor[R[TP]])


# ---- lambdas, closures, generators


def reduce(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


def lambdas(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    f: Callable[[Tensor[P[TP]]], Tensor[R[TP]]] = lambda x: all_reduce(x, TP, dst=R)  # noqa: E731
    assert_type(f(p), Tensor[R[TP]])
    assert_type((lambda x: x + p)(p), Tensor[P[TP]])
    assert_type([x * 2 for x in (r, r)][0], Tensor[R[TP]])
    assert_type(list(map(reduce, [p, p]))[0], Tensor[R[TP]])
    assert_type(sorted([p, p], key=lambda x: x.numel())[0], Tensor[P[TP]])
    default: Callable[..., Tensor[R[TP]]] = lambda x=r: x  # noqa: E731
    assert_type(default(), Tensor[R[TP]])


def make(p: Tensor[P[TP]]) -> Callable[[Tensor[R[TP]]], Tensor[P[TP]]]:
    scale = 2.0

    def closure(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        def inner() -> Tensor[P[TP]]:
            assert_type(p * scale, Tensor[P[TP]])
            return p * scale

        return convert(x, TP, src=R, dst=P) + inner()

    return closure


def chunks(x: Tensor[P[TP]]) -> Iterator[Tensor[P[TP]]]:
    for part in x.chunk(1):
        assert_type(part, Tensor[P[TP]])
        yield part


def both_ways(x: Tensor[P[TP]]) -> Generator[Tensor[P[TP]], Tensor[R[TP]], Tensor[R[TP]]]:
    back = yield x
    assert_type(back, Tensor[R[TP]])
    return back


def delegating(x: Tensor[P[TP]]) -> Generator[Tensor[P[TP]], Tensor[R[TP]], None]:
    result = yield from both_ways(x)
    assert_type(result, Tensor[R[TP]])


def flows(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    assert_type(make(p)(r), Tensor[P[TP]])
    for part in chunks(p):
        assert_type(part, Tensor[P[TP]])
    assert_type(sum(chunks(p)), Tensor[P[TP]] | Literal[0])
    assert_type(torch.cat(list(chunks(p))), Tensor[P[TP]])
    list(delegating(p))


# ---- star arguments


def summed(*xs: Tensor[P[TP]], **named: Tensor[R[TP]]) -> Tensor[R[TP]]:
    for x in xs:
        assert_type(x, Tensor[P[TP]])
    for y in named.values():
        assert_type(y, Tensor[R[TP]])
    return all_reduce(torch.stack(xs).sum(0), TP, dst=R)


class Options(TypedDict, total=False):
    bias: Tensor[R[TP]]
    scale: float


def optioned(x: Tensor[R[TP]], **options: Unpack[Options]) -> Tensor[R[TP]]:
    bias = options.get("bias")
    return x if bias is None else x + bias


def keyword_only(x: Tensor[P[TP]], /, *, dst: Tensor[R[TP]] | None = None) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R) if dst is None else dst


def stars(r: Tensor[R[TP]], p: Tensor[P[TP]], ps: list[Tensor[P[TP]]], named: dict[str, Tensor[R[TP]]]) -> None:
    assert_type(summed(p, p, a=r), Tensor[R[TP]])
    summed(*ps, **named)
    summed(*(p, p), p)
    optioned(r, bias=r)
    optioned(r, scale=2.0)
    keyword_only(p, dst=r)


# ---- overloads, Annotated, containers


@overload
def gather(x: Tensor[V[TP]], whole: Literal[True]) -> Tensor[R[TP]]: ...
@overload
def gather(x: Tensor[V[TP]], whole: Literal[False] = ...) -> Tensor[V[TP]]: ...
def gather(x: Tensor[V[TP]], whole: bool = False) -> Tensor[R[TP]] | Tensor[V[TP]]:
    return all_reduce(x, TP, src=V, dst=R) if whole else x


def annotated(x: Annotated[Tensor[V[DP], P[TP]], "batch sequence"]) -> Annotated[Tensor[V[DP], R[TP]], "b s"]:
    assert_type(x, Tensor[V[DP], P[TP]])
    return all_reduce(x, TP, dst=R)


def jaxtyped(x: Float[Tensor[P[TP]], "b s"], y: Float[Tensor[R[TP]], "b"]) -> Float[Tensor[R[TP]], "b s"]:
    assert_type(x, Tensor[P[TP]])
    return all_reduce(x, TP, dst=R) + y


@dataclass
class Batch:
    tokens: Tensor[V[DP], R[TP]]
    mask: Tensor[V[DP], R[TP]] | None = None


class Pair(NamedTuple):
    whole: Tensor[R[TP]]
    part: Tensor[P[TP]]


class Reducer(Protocol):
    def __call__(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]: ...


class Box(Generic[L]):
    def __init__(self, value: Tensor[L]) -> None:
        self.value = value


def containers(v: Tensor[V[TP]], d: Act, dp: Tensor[V[DP], P[TP]], r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    assert_type(gather(v, True), Tensor[R[TP]])
    assert_type(gather(v), Tensor[V[TP]])
    assert_type(annotated(dp), Tensor[V[DP], R[TP]])
    assert_type(jaxtyped(p, r), Tensor[R[TP]])
    assert_type(Batch(d).tokens, Tensor[V[DP], R[TP]])
    one, two = Pair(r, p)
    assert_type(two, Tensor[P[TP]])
    reducer: Reducer = reduce
    assert_type(reducer(p), Tensor[R[TP]])
    assert_type(Box(p).value, Tensor[P[TP]])
    table: dict[str, list[Tensor[P[TP]]]] = {"a": [p]}
    assert_type(table["a"][0], Tensor[P[TP]])
    nothing: Iterable[Any] = []
    for unknown in nothing:
        F.gelu(unknown)
    match Pair(r, p):
        case Pair(whole=w, part=q):
            assert_type(q, Tensor[P[TP]])
            assert_type(w, Tensor[R[TP]])


def main() -> None:
    x = torch.ones(2, 3)
    variables(x, x, x, x)
    lambdas(x, x)
    flows(x, x)
    stars(x, x, [x], {"a": x})
    containers(x, x, x, x, x)
