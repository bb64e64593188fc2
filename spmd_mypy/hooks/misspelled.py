"""Types that are not spelled as DESIGN has them: what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from spmd_mypy import codes
from spmd_mypy.patterns import lazily
from spmd_mypy.source import line_of

_KINDS: Final = "Replicate|Invariant|Varying|Partial|Shard|[RIVPS]"
_CALLED: Final = lazily(rf"(?:\w+\.)*({_KINDS})\(\s*([\w.]+)?[^()]*\)")
_ARGUMENT: Final = lazily(rf"(?<=[\[,\s]){_CALLED.pattern}(?=\s*[\],])")
_SHARD: Final = lazily(r"(?:\w+\.)*(S|Shard)\(\s*(?:dim\s*=\s*)?(-?\d+)\s*\)")
_TWO_AXES: Final = lazily(r'"(Replicate|Invariant|Varying|Partial)" expects between 0 and 1 type arguments, .*')
_NO_ALIAS: Final = ("Type expected within [...]", "Invalid type alias: expression is not a valid type")
_UNDEFINED: Final = lazily(r'Name "(\w+)" is not defined')


def type_text(path: str, line: int, column: int) -> str | None:
    """The call that is written where a type should stand: ``S(0)``; None where there is none."""
    here = line_of(path, line)
    found = _CALLED.match(here, max(column, 0)) or _ARGUMENT.search(here)  # in a string columns count from its start
    return found.group() if found is not None else None


def instead(text: str, axis: str) -> str:
    """What to write for a type that is called: ``S[TP, 0]`` for ``S(0)``."""
    if (shard := _SHARD.fullmatch(text)) is not None:
        return f"{shard[1]}[{axis}, {shard[2]}]"
    called = _CALLED.fullmatch(text)
    return f"{called[1]}[{called[2] or axis}]" if called is not None else f"V[{axis}]"


class Misspelled:
    """mypy's complaints about axes that are written by their names, and about values where a type should stand."""

    def __init__(self, axes: Iterable[str]) -> None:
        """``axes`` are the names of the configured axes' classes."""
        self._axes = {axis.lower(): axis for axis in axes}

    def _free(self, here: str) -> str:
        """An axis that a type on this line may mean: the last one of which it says nothing."""
        axes = list(self._axes.values()) or ["TP"]
        return next((axis for axis in reversed(axes) if f"[{axis}" not in here), axes[-1])

    def keep(self, file: str, error: Any) -> bool | None:
        """Edit an error that is of this kind, or say True to drop it; None where it is of another."""
        if (message := error.message) in _NO_ALIAS:
            return self._alias(file, error)
        if (two := _TWO_AXES.fullmatch(message)) is not None:
            one = two[1][0]
            error.code = codes.ANNOTATION
            error.message = f"{one} takes one axis, and a tensor one type for each: Tensor[{one}[DP], {one}[TP]], say"
            return False
        if (found := _UNDEFINED.fullmatch(message)) is not None and found[1] in self._axes:
            return self._name(file, error, found[1])
        return None

    def _alias(self, file: str, error: Any) -> bool | None:
        """``Act = Tensor[V[DP], S(0)]``, of which mypy says two things."""
        here = line_of(file, error.line)
        found = _ARGUMENT.search(here)
        if found is None or "Tensor[" not in here and "Parameter[" not in here:
            return None
        error.code = codes.ANNOTATION
        right = instead(found.group(), self._free(here))
        said, error.message = error.message, f"in types write {right}, not the value {found.group()}"
        return bool(said == _NO_ALIAS[1])

    def _name(self, file: str, error: Any, name: str) -> bool | None:
        """``V["tp"]``: mypy looks for a class ``tp``."""
        here = line_of(file, error.line)
        written = re.search(rf"\b({_KINDS}|Group|Tensor|Parameter)\[\s*(['\"]?){name}\2\s*([\],])", here)
        if written is None:
            return None
        kind, quote, end = written.groups()
        end = end.replace(",", ", ...]")
        outer = kind in ("Tensor", "Parameter")
        right = f"{kind}[V[{self._axes[name]}]{end}" if outer else f"{kind}[{self._axes[name]}{end}"
        error.code = codes.ANNOTATION
        error.message = f"in types an axis is its class: write {right}, not {kind}[{quote}{name}{quote}{end}"
        return False
