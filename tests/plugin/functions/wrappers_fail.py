"""A wrapped function refuses what the function refuses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import nn
from typing_extensions import ParamSpec

from spmd_runtime import TP, P, R, Tensor, V, all_reduce, convert

Args = ParamSpec("Args")
Result = TypeVar("Result")


def timed(f: Callable[Args, Result]) -> Callable[Args, Result]:
    return f


@timed
def d_timed(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@functools.lru_cache(maxsize=None)
def d_cached(x: Tensor[R[TP]], n: int = 1) -> Tensor[R[TP]]:
    return x * n


@torch.no_grad()
def d_no_grad(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


@torch.no_grad()
def wrong_inside(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    F.gelu(x)  # E: spmd-partial
    return x  # E: spmd-return


@torch.inference_mode()
def d_inference(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, dst=R)


@torch.autocast("cpu")
def d_autocast(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.compile(backend="eager")
def d_compiled(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.compiler.disable
def d_disabled(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.compiler.disable(recursive=False)
def d_disabled_too(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.jit.ignore
def d_ignored(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)


@torch.library.custom_op("spmd_test::unused", mutates_args=())
def d_custom(x: Tensor[R[TP]], factor: float) -> Tensor[R[TP]]:
    return x * factor


class Cached(nn.Module):
    @functools.lru_cache(maxsize=2)
    def table(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)

    @torch.autocast("cpu")
    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return self.table(x)  # E: spmd-return


def plain(x: Tensor[R[TP]], n: int = 1) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P) * n


def uses(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    d_timed(p)  # E: spmd-arg
    F.relu(d_timed(r))  # E: spmd-partial
    d_cached(p)  # E: spmd-arg
    d_cached(r, "1")  # E: arg-type
    d_no_grad(r)  # E: spmd-arg
    d_inference(r)  # E: spmd-arg
    d_autocast(p)  # E: spmd-arg
    F.relu(d_autocast(r))  # E: spmd-partial
    d_compiled(p)  # E: spmd-arg
    F.relu(d_compiled(r))  # E: spmd-partial
    d_disabled(p)  # E: spmd-arg
    F.relu(d_disabled_too(r))  # E: spmd-partial
    d_ignored(p)  # E: spmd-arg
    d_custom(p, 2.0)  # E: spmd-arg
    d_custom(r)  # E: call-arg
    Cached().table(p)  # E: spmd-arg
    Cached()(p)  # E: spmd-arg
    torch.compile(Cached(), backend="eager")(p)  # E: spmd-arg
    torch.jit.script(plain)(p)  # E: spmd-arg


def partials(r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    functools.partial(plain, p)  # E: spmd-arg
    functools.partial(plain, n=2)(p)  # E: spmd-arg
    F.relu(functools.partial(plain, r)())  # E: spmd-partial
    functools.partial(Cached(), p)  # E: spmd-arg
    functools.partial(plain, r)(n="2")  # E: arg-type
