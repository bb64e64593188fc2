"""What each row of the table of collectives means, written down apart from the code that carries it out.

A tensor of a type *denotes* one thing: R and I the value, P the sum of the ranks' summands, S(i) the parts joined along
dim i, V the list of the ranks' values.  A row takes what its source denotes to what its result denotes; ``MEANINGS``
says to what, as a program for one device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import spmd_runtime as spmd

Value = Any  # a tensor, or for V the list of the ranks' tensors

DUAL = {"R": "P", "P": "R", "I": "I", "V": "V"}


@dataclass(frozen=True)
class PerRank:
    """The value of an option that is another one on each rank."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    """One call: ``op`` from ``src`` to ``dst`` with ``options``, on a tensor of local ``shape`` per rank."""

    op: str
    src: str
    dst: str
    ranks: int
    shapes: tuple[tuple[int, ...], ...]
    options: tuple[tuple[str, Any], ...] = ()
    dtype: torch.dtype = torch.float64
    strided: bool = False

    @property
    def opts(self) -> dict[str, Any]:
        return dict(self.options)

    def on_rank(self, rank: int) -> dict[str, Any]:
        """The options as this rank passes them."""
        return {k: v.values[rank] if isinstance(v, PerRank) else v for k, v in self.options}

    def __str__(self) -> str:
        extra = "".join(f" {key}={value}" for key, value in self.options)
        strided = " strided" if self.strided else ""
        return f"{self.op} {self.src}->{self.dst} on {self.ranks}{extra} {self.shapes[0]} {self.dtype}{strided}"


def dual(kind: str) -> str:
    return kind if kind.startswith("S") else DUAL[kind]


def dim_of(kind: str) -> int | None:
    """The dim of ``"S(1)"``, None for the others."""
    return int(kind[2:-1]) if kind.startswith("S") else None


def as_type(kind: str) -> Any:
    """``"S(1)"`` as ``S(1)``, ``"R"`` as ``R``."""
    dim = dim_of(kind)
    return {"R": spmd.R, "I": spmd.I, "V": spmd.V, "P": spmd.P}[kind] if dim is None else spmd.S(dim)


def denoted(kind: str, values: Sequence[torch.Tensor]) -> Value:
    """What the ranks' ``values`` denote as ``kind``; fails where the ranks differ and may not."""
    if kind in ("R", "I"):
        for value in values[1:]:
            assert torch.equal(value, values[0]), f"{kind}, but the ranks differ"
        return values[0]
    if kind == "P":
        return sum(values[1:], values[0])
    if kind == "V":
        return list(values)
    return torch.cat(list(values), dim_of(kind))


def inner(kind: str, grads: Sequence[torch.Tensor], values: Sequence[torch.Tensor]) -> complex:
    """The inner product of values of ``kind`` with gradients of its dual: I counts once, the others once per rank."""
    products = [torch.sum(grad.conj() * value).item() for grad, value in zip(grads, values, strict=True)]
    return products[0] if kind == "I" else sum(products)


def _unbind(x: Value, case: Case) -> Value:
    return list(x.unbind(case.opts.get("scatter_dim", 0)))


def _stack(xs: Value, case: Case) -> Value:
    return torch.stack(xs, case.opts.get("gather_dim", 0))


def _identity(x: Value, case: Case) -> Value:
    return x


def _sum(xs: Value, case: Case) -> Value:
    return sum(xs[1:], xs[0])


def _copies(x: Value, case: Case) -> Value:
    return [x] * case.ranks


def _times(x: Value, case: Case) -> Value:
    return x * case.ranks


def _transposed(xs: Value, case: Case) -> Value:
    """V -> V: the axis and a tensor dim change places; with split sizes, parts of the dim."""
    if "input_split_sizes" in case.opts:
        return _exchanged(xs, case)
    split, concat = case.opts.get("split_dim", 0), case.opts.get("concat_dim", 0)
    rows = [x.unbind(split) for x in xs]
    return [torch.stack([row[rank] for row in rows], concat) for rank in range(case.ranks)]


def _exchanged(xs: Value, case: Case) -> Value:
    """Rank s gets part s of everybody, joined: what every all_to_all does that is not V -> V."""
    src, dst, opts = dim_of(case.src), dim_of(case.dst), case.opts
    if src is not None and dst is not None:
        cut, join = dst, src
    else:
        cut = src if src is not None else opts.get("split_dim", 0)
        join = dst if dst is not None else opts.get("concat_dim", 0)
    sizes = opts.get("input_split_sizes")
    rows = [x.split(list(sizes), cut) if sizes else x.chunk(case.ranks, cut) for x in xs]
    return [torch.cat([row[rank] for row in rows], join) for rank in range(case.ranks)]


MEANINGS: dict[tuple[str, str, str], Callable[[Value, Case], Value]] = {
    ("all_reduce", "P", "R"): _identity, ("all_reduce", "P", "I"): _identity,
    ("all_gather", "V", "R"): _stack, ("all_gather", "V", "I"): _stack,
    ("all_gather", "S", "R"): _identity, ("all_gather", "S", "I"): _identity,
    ("reduce_scatter", "P", "V"): _unbind, ("reduce_scatter", "P", "S"): _identity,
    ("all_to_all", "V", "V"): _transposed,
    ("all_to_all", "V", "S"): _exchanged,
    ("all_to_all", "S", "V"): _exchanged, ("all_to_all", "S", "S"): _exchanged,
    ("convert", "I", "R"): _identity, ("convert", "R", "I"): _identity,
    ("convert", "R", "V"): _unbind, ("convert", "R", "S"): _identity,
    ("convert", "I", "V"): _unbind, ("convert", "I", "S"): _identity,
    ("convert", "R", "P"): _identity, ("convert", "I", "P"): _identity,
    ("convert", "V", "P"): _stack, ("convert", "S", "P"): _identity,
    ("convert", "V", "S"): _identity, ("convert", "S", "V"): _identity,
    ("convert", "R", "R"): _identity, ("convert", "I", "I"): _identity, ("convert", "V", "V"): _identity,
    ("convert", "P", "P"): _identity, ("convert", "S", "S"): _identity,
    ("reinterpret", "V", "P"): _sum, ("reinterpret", "I", "V"): _copies, ("reinterpret", "I", "P"): _times,
    ("reinterpret", "R", "I"): _identity, ("reinterpret", "R", "P"): _times, ("reinterpret", "I", "R"): _identity,
    ("reinterpret", "R", "V"): _copies, ("reinterpret", "R", "R"): _identity, ("reinterpret", "I", "I"): _identity,
    ("reinterpret", "V", "V"): _identity, ("reinterpret", "P", "P"): _identity,
    ("broadcast", "V", "R"): lambda xs, case: xs[case.opts["root"]],
    ("broadcast", "V", "I"): lambda xs, case: xs[case.opts["root"]],
    ("shift", "V", "V"): lambda xs, case: [xs[(rank - case.opts["offset"]) % case.ranks] for rank in range(case.ranks)],
}  # fmt: skip

# Rows between V and S, and all_to_all with a V, are about the ranks' values one by one: no global tensor is meant.
LISTS = {("convert", "V", "S"), ("convert", "S", "V"), ("all_to_all", "V", "S"), ("all_to_all", "S", "V"),
         ("all_to_all", "S", "S")}  # fmt: skip


def row_of(case: Case) -> tuple[str, str, str]:
    """The row of the table that ``case`` exercises."""
    return case.op, case.src[0], case.dst[0]


def denotations(case: Case) -> tuple[str, str]:
    """The types as which source and result are to be read."""
    return ("V", "V") if row_of(case) in LISTS else (case.src, case.dst)
