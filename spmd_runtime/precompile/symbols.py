"""Dims with names instead of lengths: symbols while the step is captured, ranges that are kept."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic

from spmd_runtime.precompile import compat
from spmd_runtime.precompile.errors import CaptureError
from spmd_runtime.precompile.provenance import Origin, caller

Range = tuple[int, int]


def check_limits(dynamic: Mapping[str, Any]) -> None:
    """Raise CaptureError for a range that is no pair of lengths, or has none."""
    for name, limits in dynamic.items():
        is_pair = isinstance(limits, (tuple, list)) and len(limits) == 2 and all(type(x) is int for x in limits)
        if not is_pair or not 1 <= limits[0] <= limits[1]:
            raise CaptureError(f"dim {name!r}: a range is (low, high) with 1 <= low <= high, not {limits!r}")


def check_names(dynamic: Mapping[str, Range], names: Collection[str]) -> None:
    """Raise CaptureError for a range of a dim that no input has."""
    for name in dynamic:
        if name not in names:
            there = ", ".join(sorted(names)) or "none"
            raise CaptureError(f"dynamic names {name!r}, but no input has such a dim (there are: {there})")


class _Guards(list[Any]):
    """The decisions that tracing takes on lengths, each with the user's line that asked.

    ``symbols`` has the symbol that a name had before any decision: torch puts one for the other where two are equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.symbols: dict[str, Any] = {}
        self._lines: list[Origin | None] = []

    def append(self, guard: Any) -> None:
        super().append(guard)
        self._lines.append(caller())

    def origins(self) -> Iterator[tuple[Any, Origin | None]]:
        """Guards with their lines."""
        return zip(self, self._lines, strict=True)


def symbols(mode: Any, names: tuple[str, ...], dynamic: Mapping[str, Range]) -> dict[str, torch.SymInt]:
    """A symbolic length for every name, known to lie in its range."""
    for name in names:
        if name not in dynamic:
            raise CaptureError(f"dim {name!r} has no range: pass dynamic={{{name!r}: (1, 64)}}")
    guards = mode.shape_env.guards = _Guards()
    lengths = {name: _symbol(mode.shape_env, name, dynamic[name]) for name in names}
    guards.symbols = {name: length.node.expr for name, length in lengths.items()}
    return lengths


def _symbol(env: Any, name: str, limits: Range) -> torch.SymInt:
    from torch._dynamo.source import ConstantSource  # noqa: PLC0415  # private, and slow to import

    low, high = limits
    hint = min(high, max(low, 5 if high < 16 else 13))  # a length that no other dim is likely to have
    source = ConstantSource(name)
    symbol = env.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
    env.constrain_symbol_range(symbol, compiler_min=low, compiler_max=high)
    made: torch.SymInt = env.create_symintnode(symbol, hint=hint, source=source)
    return made


def check_guards(mode: Any, dynamic: Mapping[str, Range]) -> None:
    """Raise CaptureError where the step has taken a decision that does not hold for all lengths in the ranges."""
    guards = mode.shape_env.guards
    ranges = {symbol: dynamic[name] for name, symbol in guards.symbols.items()}
    for guard, origin in guards.origins():
        if not compat.always(guard.expr, ranges):
            said = ", ".join(f"{name} from {low} to {high}" for name, (low, high) in dynamic.items())
            where = f"\n  at {origin}" if origin is not None else ""
            claim = str(guard.expr)
            for name, symbol in guards.symbols.items():
                claim = re.sub(rf"\b{symbol}\b", name, claim)
            raise CaptureError(
                f"the step is not the same for all lengths ({said}): as captured, it holds for {claim} only"
                f"{where}\nNarrow the range, or build a variant for each case"
            )
