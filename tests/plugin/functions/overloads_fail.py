"""Overloads of the project's own: mypy tries them by its rules, the complaint is judged by ours."""

from __future__ import annotations

from typing import Literal, overload

import torch

from spmd_runtime import TP, P, R, S, Tensor, V


@overload
def f(a: Tensor[R[TP]], b: Tensor[R[TP]], flag: Literal[True] = ...) -> Tensor[R[TP]]: ...
@overload
def f(a: Tensor[V[TP]], b: Tensor[P[TP]], flag: Literal[False]) -> Tensor[V[TP]]: ...
def f(a: Tensor, b: Tensor, flag: bool = True) -> Tensor:
    return a


class K:
    @overload
    def m(self, a: Tensor[R[TP]]) -> Tensor[R[TP]]: ...
    @overload
    def m(self, a: Tensor[V[TP]]) -> Tensor[V[TP]]: ...
    def m(self, a: Tensor) -> Tensor:
        return a


def refused(p: Tensor[P[TP]], r: Tensor[R[TP]], v: Tensor[V[TP]], k: K) -> None:
    f(p, p)  # E: spmd-arg
    f(r, p)  # E: spmd-arg
    f(r, "x")  # E: call-overload
    f(r)  # E: call-overload
    f(p, "x")  # E: call-overload
    f(*(p, p))  # E: spmd-arg
    k.m(p)  # E: spmd-arg


def accepted(r: Tensor[R[TP]], v: Tensor[V[TP]], s: Tensor[S[TP, 0]], p: Tensor[P[TP]], k: K) -> None:
    f(r, r)
    f(v, p, False)
    f(v, v, False)
    f(s, v, False)
    f(torch.zeros(3), torch.zeros(3))
    f(torch.zeros(3), torch.zeros(3), False)
    f(v, torch.zeros(3), flag=False)
    k.m(s)
    k.m(v).relu()


def of_torch(p: Tensor[P[TP]]) -> None:
    torch.add(p, "x")  # E: call-overload
    torch.sum("x", p)  # E: call-overload
    torch.max(p, p, p, p)  # E: call-overload
