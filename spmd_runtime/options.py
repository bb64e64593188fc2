"""Dtypes of a collective, forward and backward, and what is refused about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Optional

import torch

from spmd_mypy.rules.dtypes import ALIASES

# Kinds of numbers in which a sum over many ranks loses digits.  By name: not every torch has every one.
LOW_PRECISION: Final = frozenset(
    getattr(torch, name)
    for name in ("bfloat16", "float16", "complex32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz",
                 "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2")
    if hasattr(torch, name)
)  # fmt: skip

_KEYS: Final = ("op_dtype", "out_dtype", "async_op", "backward_options")


class Dtypes(NamedTuple):
    """``op_dtype``: the communication's; ``out_dtype``: the result's; ``backward``: the same for the gradient."""

    op: torch.dtype | None = None
    out: torch.dtype | None = None
    backward: Optional[Dtypes] = None  # noqa: UP045  # evaluated by NamedTuple on Python 3.10

    def resolved(self, given: torch.dtype, *, shrinks: bool) -> tuple[torch.dtype, torch.dtype]:
        """The dtypes for an input of dtype ``given``.

        ``op`` alone is the result's too.  With ``out`` alone the communication takes the narrower of the two, except
        where the operation sums or makes the tensor smaller (``shrinks``), which keeps the input's precision.
        """
        if self.op is not None:
            return self.op, self.out if self.out is not None else self.op
        if self.out is None:
            return given, given
        if shrinks:
            return given, self.out
        return min(given, self.out, key=lambda dtype: dtype.itemsize), self.out

    def names_backward_dtype(self) -> bool:
        """Whether the precision of the backward's communication is given."""
        return self.backward is not None and self.backward.op is not None

    def low(self) -> bool:
        """Whether a dtype is asked for in which sums lose precision."""
        return self.op in LOW_PRECISION or self.out in LOW_PRECISION


NONE: Final = Dtypes()


def frozen(options: Mapping[str, object] | None) -> Dtypes | None:
    """``backward_options`` as a value; raises ValueError for an unknown key, TypeError for what is no dtype.

    ``async_op`` is accepted and has no effect: a gradient is always waited for.
    """
    if options is None:
        return None
    if type(options) is not dict and not isinstance(options, Mapping):
        raise TypeError(f"backward_options is a dict, {{'op_dtype': torch.float32}}, say, not {options!r}")
    if unknown := [key for key in options if key not in _KEYS]:
        raise ValueError(f"backward_options: unknown {', '.join(map(repr, unknown))}; known are {', '.join(_KEYS)}")
    nested = options.get("backward_options")
    if nested is not None and not isinstance(nested, Mapping):
        raise TypeError(f"backward_options of backward_options is a dict, not {nested!r}")
    op, out = (checked(options.get(key), f"backward_options[{key!r}]") for key in ("op_dtype", "out_dtype"))
    return Dtypes(op, out, None if nested is None else frozen(nested))


def checked(value: object, what: str) -> torch.dtype | None:
    """``value`` if it is a dtype or None; raises TypeError, naming the argument ``what``, for anything else."""
    if value is None or isinstance(value, torch.dtype):
        return value
    name = ALIASES.get(value, value) if isinstance(value, str) else ""
    meant = f": write torch.{name}" if isinstance(getattr(torch, name or "-", None), torch.dtype) else ""
    raise TypeError(f"{what} is a torch.dtype, not {value!r}{meant}")
