"""The calls on which the rows of the table are proved, made from the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from spmd_mypy.rules.collectives import TRANSITIONS
from tests.runtime.meaning import Case, PerRank, dim_of

Shape = tuple[int, ...]

UNEVEN = (2, 0, 3, 1)
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.complex64, torch.complex128)
S_DIMS = ("S(0)", "S(1)", "S(-1)")

# Rows whose shard dims may differ: data moves from one dim to the other.
_MOVES = {"all_to_all"}


def rows() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Every row with its shard dims filled in, and the options that it needs."""
    for op, table in TRANSITIONS.items():
        for src, dst in table:
            options = {"expert_mode": True} if op in ("convert", "reinterpret") else {}
            for s in S_DIMS if src == "S" else (src,):
                for d in S_DIMS if dst == "S" else (dst,):
                    if src == dst == "S" and s != d and op not in _MOVES:
                        continue
                    yield op, s, d, options
    for root in (0, 1):
        yield "broadcast", "V", "R", {"root": root}
        yield "broadcast", "V", "I", {"root": root}
    for offset in (1, -1, 2):
        yield "shift", "V", "V", {"offset": offset}


def plain(ranks: int) -> Iterator[Case]:
    """Each row once, on a shape whose every dim both stacks and divides: (n, n, 2n)."""
    for op, src, dst, options in rows():
        if options.get("root", 0) < ranks:
            shapes = ((ranks, ranks, 2 * ranks),) * ranks
            yield Case(op, src, dst, ranks, shapes, tuple(options.items()))


def placed(ranks: int) -> Iterator[Case]:
    """The rows with a V at another place than dim 0."""
    n = ranks
    for dim in (1, 2, -1):
        stacked = ((n, n, n),) * n
        for dst in "RI":
            yield Case("all_gather", "V", dst, n, ((2, 3, 2),) * n, (("gather_dim", dim),))
        yield Case("reduce_scatter", "P", "V", n, stacked, (("scatter_dim", dim),))
        yield Case("all_to_all", "V", "V", n, stacked, (("split_dim", dim), ("concat_dim", 0)))
        yield Case("all_to_all", "V", "V", n, stacked, (("split_dim", 1), ("concat_dim", dim)))
        yield Case("all_to_all", "S(1)", "V", n, stacked, (("concat_dim", dim),))
        yield Case("all_to_all", "V", "S(0)", n, stacked, (("split_dim", dim),))


def uneven(ranks: int) -> Iterator[Case]:
    """Parts of different sizes, one of them empty."""
    n, sizes = ranks, UNEVEN[:ranks]
    total = sum(sizes)
    for dim in (0, 1, -1):
        part = f"S({dim})"
        whole = _with(dim, total)
        parts = tuple(_with(dim, size) for size in sizes)
        split = (("split_sizes", sizes),)
        for dst in "RI":
            yield Case("all_gather", part, dst, n, parts, split)
            yield Case("unshard", part, dst, n, parts, split)
        yield Case("reduce_scatter", "P", part, n, (whole,) * n, split)
        for src in "RI":
            yield Case("convert", src, part, n, (whole,) * n, (*split, ("expert_mode", True)))
            yield Case("shard", src, part, n, (whole,) * n, split)
        yield Case("convert", part, "P", n, parts, (*split, ("expert_mode", True)))
    yield from _uneven_exchanges(n, sizes)


def _uneven_exchanges(n: int, sizes: Shape) -> Iterator[Case]:
    total = sum(sizes)
    # From shards of one dim to shards of another: the parts sent are the new shards, those received the old ones.
    for src, dst in ((0, 1), (1, 0), (-1, 0), (0, -1)):
        shapes = tuple(_with(dst, total, _with(src, size)) for size in sizes)
        options = (("input_split_sizes", sizes), ("output_split_sizes", sizes))
        yield Case("all_to_all", f"S({src})", f"S({dst})", n, shapes, options)
    # Dispatch along dim 0: everybody sends 1, 2, ... rows to rank 0, 1, ..., who gets as many from everybody.
    sent = tuple(range(1, n + 1))
    received = PerRank(tuple((rank + 1,) * n for rank in range(n)))
    dispatch = (("input_split_sizes", sent), ("output_split_sizes", received))
    for before, after in (("V", "V"), ("S(0)", "S(0)"), ("S(0)", "V"), ("V", "S(0)")):
        yield Case("all_to_all", before, after, n, ((sum(sent), 2),) * n, dispatch)


def _with(dim: int, size: int, shape: Shape = (2, 3, 2)) -> Shape:
    out = list(shape)
    out[dim] = size
    return tuple(out)


def empty_and_scalar(ranks: int) -> Iterator[Case]:
    """Tensors without elements, and without dims."""
    for case in plain(ranks):
        shape = (ranks, ranks, 0)
        yield replace(case, shapes=(shape,) * ranks)
        dimless = case.op in ("all_reduce", "broadcast", "shift", "reinterpret") or (
            case.op in ("all_gather", "convert") and case.src in "RIVP" and case.dst in "RIP"
        )
        if dimless:
            yield replace(case, shapes=((),) * ranks)


def strided(ranks: int) -> Iterator[Case]:
    """Tensors whose elements do not lie in order."""
    for case in (*plain(ranks), *uneven(ranks)):
        yield replace(case, strided=True)


def typed(ranks: int) -> Iterator[Case]:
    """Each row in the other dtypes."""
    for case in plain(ranks):
        if dim_of(case.src) not in (1, -1) and dim_of(case.dst) not in (0, -1):
            for dtype in DTYPES:
                yield replace(case, dtype=dtype)


def shaped(ranks: int) -> list[Case]:
    """All calls for a number of ranks on contiguous float64 tensors."""
    return [*plain(ranks), *placed(ranks), *uneven(ranks)]


def every(ranks: int) -> list[Case]:
    """All calls for a number of ranks."""
    makers = (plain, placed, uneven, empty_and_scalar, strided, typed)
    return [case for maker in makers for case in maker(ranks)]
