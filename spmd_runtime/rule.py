"""``rule``: the roles of an operation's tensors, for operations that the checker cannot look into."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

F = TypeVar("F")


def rule(
    *,
    linear: Sequence[str] = (),
    factor: Sequence[str] = (),
    nonlinear: Sequence[str] = (),
    index: Sequence[str] = (),
    shape: Sequence[str] = (),
    mutated: Sequence[str] = (),
) -> Callable[[F], F]:
    """Tell the checker how an operation treats its tensors; returns the function itself, unchanged.

    For custom ops, Python wrappers of Triton kernels, ``autograd.Function`` classes (their ``forward``) and plain
    functions::

        @spmd.rule(linear=["x"], index=["idx"])
        def my_gather(x, idx): ...

    * ``linear``: linear in these together: all of them Partial, or none;
    * ``factor``: linear in each of these by itself: at most one is Partial, as in a product;
    * ``nonlinear``: none is Partial (also what holds for tensors that are not named);
    * ``index``: selects or masks, without a gradient;
    * ``shape``: only the shape is used;
    * ``mutated``: written to, with the result's type.

    Raises ValueError for a name that is no parameter, and for one with two roles.
    """
    from spmd_mypy.rules.ops import own  # noqa: PLC0415  # loads the whole table

    given = {
        "linear": linear, "factor": factor, "nonlinear": nonlinear, "index": index, "shape": shape, "mutated": mutated,
    }  # fmt: skip
    named = own.read(
        {key: list(names) if not isinstance(names, str) else names for key, names in given.items() if names}
    )

    def mark(function: F) -> F:
        parameters = _parameters(function)
        for key, names in named.items():
            for name in names:
                if parameters is not None and name not in parameters:
                    raise ValueError(f"{key}: {name!r} is no parameter; there are {', '.join(parameters) or 'none'}")
        return function

    return mark


def _parameters(function: Any) -> list[str] | None:
    """Parameter names of a callable, or of an autograd function's ``forward``; None where it has no signature."""
    if inspect.isclass(function) and hasattr(function, "forward"):
        found = list(inspect.signature(function.forward).parameters)
        return found[1:] if found[:1] == ["ctx"] else found
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
