"""Declared attributes and containers keep their types; undeclared ones are what the branch made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from spmd_runtime import DP, TP, Group, I, P, R, Tensor, V, all_reduce


class Declared:
    x: Tensor[P[TP]]

    def __init__(self, x: Tensor[P[TP]], y: Tensor[P[TP]]) -> None:
        self.x = x
        self.y: Tensor[P[TP]] = y

    def reduced(self) -> None:
        self.x = all_reduce(self.x, TP, dst=R)  # E: spmd-assign
        self.y = all_reduce(self.y, TP, dst=R)  # E: spmd-assign
        self.x.sqrt()  # E: spmd-partial


class Undeclared:
    def __init__(self, x: Tensor[P[TP]]) -> None:
        self.x = x

    def twice(self) -> None:
        self.x = all_reduce(self.x, TP, dst=R)
        self.x = all_reduce(self.x, TP, dst=R)  # E: spmd-collective

    def on_one_branch(self, flag: bool) -> None:
        if flag:
            self.x = all_reduce(self.x, TP, dst=R)
        self.x.sqrt()  # E: spmd-partial

    def in_the_next_method(self) -> None:
        self.x.sqrt()  # E: spmd-partial


@dataclass
class Fields:
    hidden: Tensor[P[TP]]
    more: dict[str, Tensor[P[TP]]] = field(default_factory=dict)


def written(fields: Fields, r: Tensor[R[TP]]) -> None:
    fields.hidden.sqrt()  # E: spmd-partial
    fields.hidden = r  # E: spmd-assign
    fields.more["x"] = r  # E: spmd-assign


class Entry(TypedDict):
    hidden: Tensor[P[TP]]


def entries(entry: Entry, r: Tensor[R[TP]]) -> None:
    entry["hidden"] = r  # E: spmd-assign
    Entry(hidden=r)  # E: spmd-assign


def declared(xs: list[Tensor[P[TP]]]) -> None:
    xs[0] = all_reduce(xs[0], TP, dst=R)  # E: spmd-assign
    xs[0].sqrt()  # E: spmd-partial
    ys: dict[str, Tensor[P[TP]]] = {"x": xs[0]}
    ys["x"] = all_reduce(ys["x"], TP, dst=R)  # E: spmd-assign


def one_element(a: Tensor[P[TP]], b: Tensor[P[TP]]) -> None:
    parts = [a, b]
    parts[0] = all_reduce(parts[0], TP, dst=R)
    all_reduce(parts[0], TP, dst=R)  # E: spmd-collective
