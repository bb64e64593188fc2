"""partial, lru_cache, decorators, compilers: a wrapped function keeps its types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import Concatenate, ParamSpec, assert_type

from spmd_runtime import TP, I, P, R, Tensor, V, all_reduce, convert

Args = ParamSpec("Args")
Result = TypeVar("Result")
Function = TypeVar("Function", bound=Callable[..., object])


def timed(f: Callable[Args, Result]) -> Callable[Args, Result]:
    @functools.wraps(f)
    def inner(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        return f(*args, **kwargs)

    return inner


def repeated(times: int) -> Callable[[Callable[Args, Result]], Callable[Args, Result]]:
    def decorate(f: Callable[Args, Result]) -> Callable[Args, Result]:
        return f

    return decorate


def marked(f: Function) -> Function:
    return f


def first_is_zero(f: Callable[Concatenate[int, Args], Result]) -> Callable[Args, Result]:
    def inner(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        return f(0, *args, **kwargs)

    return inner


@timed
def d_timed(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@repeated(3)
def d_repeated(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@marked
def d_marked(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@first_is_zero
def d_first(n: int, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@functools.lru_cache(maxsize=None)
def d_cached(x: Tensor[R[TP]], n: int = 1) -> Tensor[R[TP]]:
    return x * n


@functools.cache
def d_cache(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return x


@torch.no_grad()
def d_no_grad(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


@torch.inference_mode()
def d_inference(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


@torch.enable_grad()
def d_enable(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


@torch.autocast("cpu")
def d_autocast(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return F.gelu(x)


@torch.autocast(device_type="cpu", dtype=torch.bfloat16)
@timed
def d_both(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return F.gelu(x)


@torch.compile(backend="eager")
def d_compiled(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return F.gelu(x)


@torch.compiler.disable
def d_disabled(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.compiler.disable(recursive=False)
def d_disabled_too(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.jit.ignore
def d_ignored(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return x


@torch.library.custom_op("spmd_test::scale", mutates_args=())
def d_custom(x: Tensor[R[TP]], factor: float) -> Tensor[R[TP]]:
    return x * factor


class Cached(nn.Module):
    @functools.lru_cache(maxsize=2)  # noqa: B019
    def table(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return x

    @torch.autocast("cpu")
    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        assert_type(self.table(x), Tensor[R[TP]])
        return self.table(x)

    @functools.cached_property
    def weight(self) -> Tensor[V[TP]]:
        return torch.ones(3)

    @property
    def bias(self) -> Tensor[I[TP]]:
        return torch.ones(3)


def plain(x: Tensor[R[TP]], n: int = 1) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P) * n


def uses(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    for f in (d_timed, d_repeated, d_marked, d_disabled):
        assert_type(f(r), Tensor[P[TP]])
    assert_type(d_first(r), Tensor[P[TP]])
    assert_type(d_cached(r), Tensor[R[TP]])
    assert_type(d_cached(r, n=2), Tensor[R[TP]])
    d_cached.cache_clear()
    assert_type(d_cache(r), Tensor[R[TP]])
    for reduced in (d_no_grad, d_inference, d_enable):
        assert_type(reduced(p), Tensor[R[TP]])
    assert_type(d_autocast(r), Tensor[R[TP]])
    assert_type(d_both(r), Tensor[R[TP]])
    assert_type(d_compiled(r), Tensor[R[TP]])
    assert_type(d_disabled_too(r), Tensor[P[TP]])
    assert_type(d_ignored(r), Tensor[R[TP]])
    assert_type(d_custom(r, 2.0), Tensor[R[TP]])
    module = Cached()
    assert_type(module(r), Tensor[R[TP]])
    assert_type(r * module.weight, Tensor[V[TP]])
    assert_type(module.bias, Tensor[I[TP]])
    compiled = torch.compile(module, backend="eager")
    assert_type(compiled(r), Tensor[R[TP]])
    assert_type(compiled.bias, Tensor[I[TP]])


def partials(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    bound = functools.partial(plain, r)
    assert_type(bound(), Tensor[P[TP]])
    assert_type(bound(n=2), Tensor[P[TP]])
    assert_type(functools.partial(plain, n=2)(r), Tensor[P[TP]])
    assert_type(functools.partial(Cached(), r)(), Tensor[R[TP]])
    every = [functools.partial(plain, n=i) for i in range(2)]
    assert_type(every[0](r), Tensor[P[TP]])
    torch.jit.script(scripted)
    with torch.no_grad(), torch.autocast("cpu"):
        assert_type(all_reduce(plain(r), TP, dst=R), Tensor[R[TP]])


def scripted(x: Tensor[R[TP]]) -> Tensor[R[TP]]:
    return x * 2


def main() -> None:
    x = torch.ones(3)
    uses(x, x)
    partials(x, x)
    assert torch.equal(torch.jit.script(scripted)(x), x * 2)
