"""Where the cut dim of a Shard goes when a view moves tensor dims.

A dim counts from the front (``S(0)``) or from the back (``S(-1)``).  The rank of the tensor is not known, so a front
dim and a back dim cannot be compared; where a view would need to, the result is a plain Varying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spmd_mypy.rules.call import OptionValue
from spmd_mypy.rules.kinds import AxisType, V, shard

Options = Mapping[str, OptionValue]


def _dim(options: Options, *names: str) -> int | None:
    for name in names:
        value = options.get(name)
        if isinstance(value, tuple) and len(value) == 1:
            value = value[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _dims(options: Options, *names: str) -> tuple[int, ...] | None:
    for name in names:
        value = options.get(name)
        if isinstance(value, int):
            return (value,)
        if isinstance(value, tuple):
            if len(value) == 1 and isinstance(value[0], tuple):
                value = value[0]
            dims = tuple(dim for dim in value if isinstance(dim, int))
            return dims if len(dims) == len(value) else None
    return None


def _swap(dim: int, one: int | None, two: int | None) -> int | None:
    if one is None or two is None or (one < 0) != (dim < 0) or (two < 0) != (dim < 0):
        return None
    return {one: two, two: one}.get(dim, dim)


def _transpose(dim: int, options: Options) -> int | None:
    one, two = _dim(options, "dim0", "axis0"), _dim(options, "dim1", "axis1")
    return _swap(dim, one, two)


def _permute(dim: int, options: Options) -> int | None:
    dims = _dims(options, "dims", "size")
    if dims is None:
        return None
    rank = len(dims)
    front = [d % rank for d in dims]
    if not -rank <= dim < rank or (dim % rank) not in front:
        return None
    new = front.index(dim % rank)
    return new if dim >= 0 else new - rank


def _movedim(dim: int, options: Options) -> int | None:
    source, destination = _dims(options, "source"), _dims(options, "destination")
    if source is None or destination is None or len(source) != 1 or len(destination) != 1:
        return None
    src, dst = source[0], destination[0]
    if (src < 0) != (dim < 0) or (dst < 0) != (dim < 0):
        return None
    if dim == src:
        return dst
    if src < dim <= dst:
        return dim - 1
    if dst <= dim < src:
        return dim + 1
    return dim


def _unsqueeze(dim: int, options: Options) -> int | None:
    new = _dim(options, "dim")
    if new is None or (new < 0) != (dim < 0):
        return None
    if dim >= 0:
        return dim + 1 if new <= dim else dim
    return dim - 1 if new >= dim else dim


def _squeeze(dim: int, options: Options) -> int | None:
    dims = _dims(options, "dim")
    if dims is None or dim in dims or any((gone < 0) != (dim < 0) for gone in dims):
        return None
    if dim >= 0:
        return dim - sum(gone < dim for gone in dims)
    return dim + sum(gone > dim for gone in dims)


def _reverse(dim: int, options: Options) -> int | None:
    return -1 - dim


def _last_two(dim: int, options: Options) -> int | None:
    return {-1: -2, -2: -1}.get(dim, dim if dim < 0 else None)


def _t(dim: int, options: Options) -> int | None:
    return {0: 1, 1: 0, -1: -2, -2: -1}.get(dim)


_RENUMBER: Final[dict[str, Callable[[int, Options], int | None]]] = {
    "transpose": _transpose,
    "permute": _permute,
    "movedim": _movedim,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "reverse": _reverse,
    "last_two": _last_two,
    "t": _t,
}


def renumber(view: str, dim: int, options: Options) -> AxisType:
    """The type of ``S(dim)`` after the named view with these options: a Shard, or V where that is not known."""
    move = _RENUMBER.get(view)
    new = None if move is None else move(dim, options)
    return V if new is None else shard(new)
