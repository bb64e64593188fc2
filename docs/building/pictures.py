"""Draws what tensors are on two ranks, per type and per collective, as SVG that follows the page's colours.

The numbers are computed here in plain Python; ``tests/docs/test_pictures.py`` compares them with what the runtime does
on two gloo ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

Vector = tuple[float, ...]
Ranks = tuple[Vector, Vector]

RANKS: Final = 2
_CELL, _GAP, _HEAD = 34, 26, 22


@dataclass(frozen=True)
class Collective:
    """One picture: forward from ``before``, backward from the gradient ``incoming`` of the result."""

    op: str
    src: str
    dst: str
    before: Ranks
    incoming: Ranks


# ---- what the operations do, on two ranks


def _sum(x: Ranks) -> Vector:
    return tuple(a + b for a, b in zip(*x, strict=True))


def _whole(x: Ranks) -> Vector:
    return (*x[0], *x[1])


def _same(v: Vector) -> Ranks:
    return v, v


def _halves(v: Vector) -> Ranks:
    half = len(v) // RANKS
    return v[:half], v[half:]


def _zeroed(x: Ranks) -> Ranks:
    return x[0], tuple(0.0 for _ in x[1])


def _own(x: Ranks) -> Ranks:
    return _halves(x[0])[0], _halves(x[1])[1]


def _padded(x: Ranks) -> Ranks:
    zeros = tuple(0.0 for _ in x[0])
    return (*x[0], *zeros), (*zeros, *x[1])


STEPS: Final[dict[tuple[str, str, str], Callable[[Ranks], Ranks]]] = {
    ("all_reduce", "P", "R"): lambda x: _same(_sum(x)),
    ("all_reduce", "P", "I"): lambda x: _same(_sum(x)),
    ("all_gather", "S(0)", "R"): lambda x: _same(_whole(x)),
    ("all_gather", "S(0)", "I"): lambda x: _same(_whole(x)),
    ("reduce_scatter", "P", "S(0)"): lambda x: _halves(_sum(x)),
    ("all_to_all", "V", "V"): lambda x: ((x[0][0], x[1][0]), (x[0][1], x[1][1])),
    ("convert", "I", "R"): lambda x: x,
    ("convert", "R", "S(0)"): _own,
    ("convert", "I", "S(0)"): _own,
    ("convert", "R", "P"): _zeroed,
    ("convert", "S(0)", "P"): _padded,
    ("reinterpret", "V", "P"): lambda x: x,
    ("reinterpret", "R", "V"): lambda x: x,
}

# The gradient of each, as an operation between the dual types.
BACKWARD: Final[dict[tuple[str, str, str], tuple[str, str, str]]] = {
    ("all_reduce", "P", "R"): ("all_reduce", "P", "R"),
    ("all_reduce", "P", "I"): ("convert", "I", "R"),
    ("all_gather", "S(0)", "R"): ("reduce_scatter", "P", "S(0)"),
    ("all_gather", "S(0)", "I"): ("convert", "I", "S(0)"),
    ("reduce_scatter", "P", "S(0)"): ("all_gather", "S(0)", "R"),
    ("all_to_all", "V", "V"): ("all_to_all", "V", "V"),
    ("convert", "I", "R"): ("all_reduce", "P", "I"),
    ("convert", "R", "S(0)"): ("convert", "S(0)", "P"),
    ("convert", "I", "S(0)"): ("all_gather", "S(0)", "I"),
    ("convert", "R", "P"): ("convert", "R", "P"),
    ("reinterpret", "V", "P"): ("reinterpret", "R", "V"),
}

_TYPES: Final[dict[str, tuple[str, Ranks, str, Ranks]]] = {
    # letter: its name, values, letter of the gradient, values of the gradient
    "R": ("Replicate", ((1, 2), (1, 2)), "P", ((3, 0), (1, 4))),
    "I": ("Invariant", ((1, 2), (1, 2)), "I", ((4, 4), (4, 4))),
    "V": ("Varying", ((1, 2), (5, 6)), "V", ((3, 0), (1, 4))),
    "P": ("Partial", ((1, 2), (3, 4)), "R", ((5, 7), (5, 7))),
    "S": ("Shard", ((1, 2), (3, 4)), "S", ((5, 6), (7, 8))),
}

_MEANING: Final = {
    "R": "the value, on each rank",
    "I": "one value",
    "V": "two values",
    "P": "4  6, the sum",
    "S": "1  2  3  4, put together",
}

COLLECTIVES: Final[dict[str, Collective]] = {
    f"{c.op} {c.src} {c.dst}": c
    for c in (
        Collective("all_reduce", "P", "R", ((1, 2), (3, 4)), ((1, 0), (0, 2))),
        Collective("all_reduce", "P", "I", ((1, 2), (3, 4)), ((1, 2), (1, 2))),
        Collective("all_gather", "S(0)", "R", ((1, 2), (3, 4)), ((1, 0, 5, 0), (0, 2, 0, 6))),
        Collective("all_gather", "S(0)", "I", ((1, 2), (3, 4)), ((1, 2, 5, 6), (1, 2, 5, 6))),
        Collective("reduce_scatter", "P", "S(0)", ((1, 2, 3, 4), (5, 6, 7, 8)), ((1, 2), (3, 4))),
        Collective("all_to_all", "V", "V", ((1, 2), (3, 4)), ((5, 6), (7, 8))),
        Collective("convert", "I", "R", ((1, 2), (1, 2)), ((1, 0), (0, 2))),
        Collective("convert", "R", "S(0)", ((1, 2, 3, 4), (1, 2, 3, 4)), ((1, 2), (5, 6))),
        Collective("convert", "I", "S(0)", ((1, 2, 3, 4), (1, 2, 3, 4)), ((1, 2), (5, 6))),
        Collective("convert", "R", "P", ((1, 2), (1, 2)), ((5, 6), (5, 6))),
        Collective("reinterpret", "V", "P", ((1, 2), (3, 4)), ((5, 6), (5, 6))),
    )
}


def forward(c: Collective) -> Ranks:
    """What the ranks hold afterwards."""
    return STEPS[c.op, c.src, c.dst](c.before)


def backward(c: Collective) -> Ranks:
    """The gradient of what the ranks held before."""
    return STEPS[BACKWARD[c.op, c.src, c.dst]](c.incoming)


# ---- drawing


def picture(what: str) -> str:
    """The figure that a page names: ``type R`` or ``all_reduce P R``."""
    if what.startswith("type "):
        return _type_figure(what.removeprefix("type "))
    return _collective_figure(COLLECTIVES[what])


def _cells(values: Vector, x: float, y: float, kind: str) -> list[str]:
    parts = []
    for i, value in enumerate(values):
        left = x + i * _CELL
        zero = " spmd-zero" if value == 0 else ""
        size = f'x="{left}" y="{y}" width="{_CELL - 3}" height="{_CELL - 3}" rx="4"'
        parts.append(f'<rect class="spmd-cell spmd-{kind}{zero}" {size}/>')
        parts.append(f'<text class="spmd-value{zero}" x="{left + (_CELL - 3) / 2}" y="{y + 21}">{value:g}</text>')
    return parts


def _ranks(x: Ranks, left: float, top: float, kind: str) -> list[str]:
    """Both ranks' values, one below the other."""
    return [part for rank in range(RANKS) for part in _cells(x[rank], left, top + rank * (_CELL + 8), kind)]


def _width(x: Ranks) -> float:
    return max(len(x[0]), len(x[1])) * _CELL


def _text(x: float, y: float, text: str, css: str) -> str:
    return f'<text class="{css}" x="{x}" y="{y}">{escape(text)}</text>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="spmd-picture" role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width: {width:g}px">{"".join(parts)}</svg>'
    )


def _figure(svgs: Sequence[str], caption: str) -> str:
    row = f'<div class="spmd-row">{"".join(svgs)}</div>'
    return f'<figure class="spmd-figure">{row}<figcaption>{escape(caption)}</figcaption></figure>'


def _step(title: str, a: tuple[str, Ranks], b: tuple[str, Ranks], css: str, reverse: bool = False) -> str:
    """Two states with an arrow between them."""
    left, top = 48.0, _HEAD + 24.0
    gap = 52.0
    middle = left + _width(a[1]) + gap
    parts = [_text(0, 14, title, f"spmd-title {css}")]
    parts += [_text(0, top + 21 + r * (_CELL + 8), f"rank {r}", "spmd-rank") for r in range(RANKS)]
    for (letter, values), x in ((a, left), (b, middle)):
        parts.append(_text(x + (_width(values) - 3) / 2, top - 8, letter, "spmd-letter"))
        parts += _ranks(values, x, top, letter[0])
    y = top + _CELL + 2
    start, end = left + _width(a[1]) + 7, middle - 10
    if reverse:
        start, end = end, start
    tip = 6 if end > start else -6
    parts.append(f'<path class="spmd-arrow" d="M{start} {y} H{end} m{-tip} -5 l{tip} 5 l{-tip} 5"/>')
    width = middle + _width(b[1]) + 2
    return _svg(width, top + 2 * (_CELL + 8), title, parts)


def _collective_figure(c: Collective) -> str:
    op, src, dst = BACKWARD[c.op, c.src, c.dst]
    there = _step(f"forward: {c.op}", (c.src, c.before), (c.dst, forward(c)), "spmd-forward")
    back = _step(f"backward: {op}", (dst, backward(c)), (src, c.incoming), "spmd-backward", reverse=True)
    return _figure([there, back], f"{c.op}(x, TP, src={c.src}, dst={c.dst}); the gradient goes from right to left")


def _type_figure(letter: str) -> str:
    name, values, dual, gradient = _TYPES[letter]
    there = _state(f"{name} ({letter})", letter, values)
    back = _state(f"its gradient: {dual}", dual, gradient)
    return _figure([there, back], f"{name} on two ranks stands for: {_MEANING[letter]}")


def _state(title: str, letter: str, values: Ranks) -> str:
    top = _HEAD + 8.0
    parts = [_text(0, 14, title, "spmd-title")]
    parts += [_text(0, top + 21 + r * (_CELL + 8), f"rank {r}", "spmd-rank") for r in range(RANKS)]
    parts += _ranks(values, 48, top, letter)
    return _svg(max(48 + _width(values), 150), top + 2 * (_CELL + 8), title, parts)
