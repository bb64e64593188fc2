"""A call of a module is its forward: what forward refuses, the call refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import ParamSpec

from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V, all_reduce, convert

L = TypeVar("L")
Args = ParamSpec("Args")
Result = TypeVar("Result")


def logged(f: Callable[Args, Result]) -> Callable[Args, Result]:
    return f


class Column(nn.Module):
    weight: Parameter[V[TP]]

    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[V[TP]]:
        return F.linear(x, self.weight) * scale


class Row(nn.Module):
    weight: Parameter[V[TP]]

    def forward(self, x: Tensor[V[TP]]) -> Tensor[P[TP]]:
        return F.linear(x, self.weight)


class Inherited(Column):
    pass


class Overridden(Column):
    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[V[TP]]:
        super().forward(convert(x, TP, src=R, dst=P))  # E: spmd-arg
        super().__call__(convert(x, TP, src=R, dst=P))  # E: spmd-arg
        return super().forward(x)


class Narrowed(Column):
    def forward(self, x: Tensor[I[TP]], scale: float = 1.0) -> Tensor[V[TP]]:  # E
        return convert(x, TP, src=I, dst=V)


class Either(nn.Module):
    @overload
    def forward(self, x: Tensor[R[TP]], whole: Literal[True]) -> Tensor[R[TP]]: ...
    @overload
    def forward(self, x: Tensor[R[TP]], whole: Literal[False] = ...) -> Tensor[P[TP]]: ...
    def forward(self, x: Any, whole: bool = False) -> Any:
        return x


class NoGrad(nn.Module):
    @torch.no_grad()
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


class Logged(nn.Module):
    @logged
    def forward(self, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return all_reduce(x, TP, dst=I)


class Of(nn.Module, Generic[L]):
    def forward(self, x: Tensor[L]) -> Tensor[L]:
        return x


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.column, self.row = Column(), Row()
        self.maybe: Column | None = Column()
        self.either: Column | NoGrad = Column()

    def forward(self, x: Tensor[R[TP]], p: Tensor[P[TP]]) -> Tensor[I[TP]]:
        self.column(p)  # E: spmd-arg
        self.column(p, 2.0)  # E: spmd-arg
        self.column(x, "2")  # E: arg-type
        self.column()  # E: call-arg
        self.column(x, factor=2.0)  # E: call-arg
        self.column.forward(p)  # E: spmd-arg
        self.column.__call__(p)  # E: spmd-arg
        self.row(self.row(x))  # E: spmd-arg
        F.gelu(self.row(self.column(x)))  # E: spmd-partial
        if self.maybe is not None:
            self.maybe(p)  # E: spmd-arg
        self.either(x)  # E: spmd-arg
        wrong: Callable[[Tensor[P[TP]]], Tensor[V[TP]]] = self.column  # E
        return self.row(self.column(x))  # E: spmd-return


def kinds(r: Tensor[R[TP]], p: Tensor[P[TP]], d: Tensor[V[DP], P[TP]]) -> None:
    Inherited()(p)  # E: spmd-arg
    Overridden()(p)  # E: spmd-arg
    Either()(p, True)  # E
    F.relu(Either()(r))  # E: spmd-partial
    NoGrad()(r)  # E: spmd-arg
    Logged()(r)  # E: spmd-arg
    wrong: Tensor[V[TP]] = Of[Any]()(p)
    F.relu(Of[tuple[Any, Any, P[TP]]]()(p))  # E: spmd-partial


def replicated(p: Tensor[P[TP]]) -> None:
    DistributedDataParallel(Column())(p)  # E: spmd-arg
    F.gelu(DistributedDataParallel(Row()).module(p))  # E: spmd-arg, spmd-partial


M = TypeVar("M", bound=Column)


def bounded(module: M, x: Tensor[P[TP]]) -> None:
    module(x)  # E: spmd-arg
