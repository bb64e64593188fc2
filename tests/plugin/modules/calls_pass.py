"""A call of a module is its forward, whoever wrote it and whatever decorates it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, Literal, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from typing_extensions import ParamSpec, assert_type

from spmd_runtime import DP, TP, I, P, Parameter, R, Tensor, V, all_reduce, convert

L = TypeVar("L")
Args = ParamSpec("Args")
Result = TypeVar("Result")


def logged(f: Callable[Args, Result]) -> Callable[Args, Result]:
    @functools.wraps(f)
    def inner(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        return f(*args, **kwargs)

    return inner


class Column(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[V[TP]]:
        return F.linear(x, self.weight) * scale


class Row(nn.Module):
    weight: Parameter[V[TP]]

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))

    def forward(self, x: Tensor[V[TP]]) -> Tensor[P[TP]]:
        return F.linear(x, self.weight)


class Inherited(Column):
    pass


class Overridden(Column):
    def forward(self, x: Tensor[R[TP]], scale: float = 1.0) -> Tensor[V[TP]]:
        assert_type(super().forward(x), Tensor[V[TP]])
        return super().forward(x, scale=scale) + super().forward(x)


class Called(Column):
    def __call__(self, x: Tensor[R[TP]]) -> Tensor[V[TP]]:
        y = super().__call__(x)
        assert_type(y, Tensor[V[TP]])
        return y


class Either(nn.Module):
    @overload
    def forward(self, x: Tensor[R[TP]], whole: Literal[True]) -> Tensor[R[TP]]: ...
    @overload
    def forward(self, x: Tensor[R[TP]], whole: Literal[False] = ...) -> Tensor[P[TP]]: ...
    def forward(self, x: Any, whole: bool = False) -> Any:
        return x if whole else convert(x, TP, src=R, dst=P)


class NoGrad(nn.Module):
    @torch.no_grad()
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)


class Logged(nn.Module):
    @logged
    def forward(self, x: Tensor[P[TP]]) -> Tensor[I[TP]]:
        return all_reduce(x, TP, dst=I)


class Whatever(nn.Module):
    def forward(self, x: Tensor[L]) -> Tensor[L]:
        return F.dropout(x, training=False)


class Of(nn.Module, Generic[L]):
    def forward(self, x: Tensor[L]) -> Tensor[L]:
        return x.clone()


class OnRV(Of[tuple[Any, Any, R[TP]]]):
    pass


class TwoResults(nn.Module):
    def forward(
        self, x: Tensor[R[TP]], *rest: Tensor[R[TP]], bias: Tensor[R[TP]] | None = None
    ) -> tuple[Tensor[R[TP]], Tensor[P[TP]]]:
        for r in rest:
            x = x + r
        if bias is not None:
            x = x + bias
        return x, convert(x, TP, src=R, dst=P)


class Unannotated(nn.Module):
    def forward(self, x, y=None):  # type: ignore[no-untyped-def]
        return x


class Partly(nn.Module):
    def forward(self, x: Tensor[R[TP]], mask: Any = None) -> torch.Tensor:
        return x


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.column, self.row = Column(), Row()
        self.maybe: Column | None = Column()
        self.either: Column | Inherited = Inherited()
        self.unannotated = Unannotated()
        self.forward_of: Callable[[Tensor[R[TP]]], Tensor[V[TP]]] = Overridden()

    def forward(self, x: Tensor[R[TP]]) -> Tensor[I[TP]]:
        assert_type(self.column(x), Tensor[V[TP]])
        assert_type(self.column(x, scale=2.0), Tensor[V[TP]])
        assert_type(self.column.forward(x), Tensor[V[TP]])
        assert_type(self.column.__call__(x), Tensor[V[TP]])
        assert_type(self.row(self.column(x)), Tensor[P[TP]])
        if self.maybe is not None:
            assert_type(self.maybe(x), Tensor[V[TP]])
        assert_type(self.either(x), Tensor[V[TP]])
        assert_type(self.forward_of(x), Tensor[V[TP]])
        alias = self.column
        assert_type(alias(x), Tensor[V[TP]])
        loose = self.unannotated(x)
        h = x + loose  # unknown: nothing is said
        F.gelu(h)
        return all_reduce(self.row(self.column(x)), TP, dst=I)


def kinds(r: Tensor[R[TP]], p: Tensor[P[TP]], d: Tensor[V[DP], P[TP]]) -> None:
    assert_type(Inherited()(r), Tensor[V[TP]])
    assert_type(Overridden()(r), Tensor[V[TP]])
    assert_type(Called()(r), Tensor[V[TP]])
    assert_type(Either()(r, True), Tensor[R[TP]])
    assert_type(Either()(r, False), Tensor[P[TP]])
    assert_type(Either()(r), Tensor[P[TP]])
    assert_type(NoGrad()(p), Tensor[R[TP]])
    assert_type(Logged()(p), Tensor[I[TP]])
    assert_type(Whatever()(d), Tensor[V[DP], P[TP]])
    assert_type(OnRV()(r), Tensor[R[TP]])
    whole, part = TwoResults()(r, r, r, bias=r)
    assert_type(whole, Tensor[R[TP]])
    assert_type(part, Tensor[P[TP]])
    assert_type(Partly()(r), torch.Tensor)
    typed: type[Column] = Column
    assert_type(typed()(r), Tensor[V[TP]])


def bounded(module: M, x: Tensor[R[TP]]) -> M:
    assert_type(module(x), Tensor[V[TP]])
    return module


M = TypeVar("M", bound=Column)


def replicated(x: Tensor[R[TP]]) -> None:
    model = DistributedDataParallel(Column())
    assert_type(model(x), Tensor[V[TP]])
    assert_type(model.module, Column)
    assert_type(model.module.weight, Parameter[V[TP]])
    with model.no_sync():
        model(x)
    anything: nn.Module = model
    anything(x)


class Keeps:
    def same(self, x: Result) -> Result:
        return x

    def keep(self, x: Tensor[L]) -> Tensor[L]:
        return x


class Keeping(Keeps):
    pass


def inherited(keeping: Keeping, p: Tensor[P[TP]]) -> None:
    assert_type(keeping.same(p), Tensor[P[TP]])
    plain: torch.Tensor
    plain = keeping.keep(p)
    assert_type(plain, Tensor[P[TP]])
    plain = keeping.same(p)
    assert_type(plain, Tensor[P[TP]])


def main() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(Everything()(x), x)
    kinds(x, x, x)
    replicated(x)
    inherited(Keeping(), x)
    assert isinstance(bounded(Inherited(), x), Inherited)
