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
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # of a rank's tensor before and after, where 2-d

    def rows(self, after: bool) -> int:
        """In how many rows a rank's numbers are drawn."""
        shape = self.shapes[after] if self.shapes else ()
        return shape[0] if len(shape) > 1 else 1


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


def _none(x: Ranks) -> Vector:
    return tuple(0.0 for _ in x[1])


def _zeroed(x: Ranks) -> Ranks:
    return x[0], _none(x)


def _exchanged(x: Ranks) -> Ranks:
    return (x[0][0], x[1][0]), (x[0][1], x[1][1])


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
    ("all_gather", "V", "R"): lambda x: _same(_whole(x)),
    ("reduce_scatter", "P", "V"): lambda x: _halves(_sum(x)),
    ("all_to_all", "V", "V"): _exchanged,
    ("all_to_all", "S(0)", "S(1)"): _exchanged,
    ("all_to_all", "S(1)", "S(0)"): _exchanged,
    ("broadcast", "V", "R"): lambda x: _same(x[0]),
    ("broadcast", "V", "I"): lambda x: _same(x[0]),
    ("sum to the root", "P", "V"): lambda x: (_sum(x), _none(x)),
    ("keep on the root", "I", "V"): _zeroed,
    ("shift", "V", "V"): lambda x: (x[1], x[0]),
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
    ("all_gather", "V", "R"): ("reduce_scatter", "P", "V"),
    ("all_to_all", "V", "V"): ("all_to_all", "V", "V"),
    ("all_to_all", "S(0)", "S(1)"): ("all_to_all", "S(1)", "S(0)"),
    ("broadcast", "V", "R"): ("sum to the root", "P", "V"),
    ("broadcast", "V", "I"): ("keep on the root", "I", "V"),
    ("shift", "V", "V"): ("shift", "V", "V"),
    ("convert", "I", "R"): ("all_reduce", "P", "I"),
    ("convert", "R", "S(0)"): ("convert", "S(0)", "P"),
    ("convert", "I", "S(0)"): ("all_gather", "S(0)", "I"),
    ("convert", "R", "P"): ("convert", "R", "P"),
    ("reinterpret", "V", "P"): ("reinterpret", "R", "V"),
}

# What those do that have no name of their own in the backward.
_WORDS: Final[dict[tuple[str, str, str], str]] = {
    ("convert", "I", "R"): "nothing moves",
    ("convert", "I", "S(0)"): "keep the own slice",
    ("convert", "S(0)", "P"): "the own slice, zeros elsewhere",
    ("convert", "R", "P"): "keep it on rank 0",
    ("reinterpret", "R", "V"): "nothing moves",
    ("shift", "V", "V"): "shift the other way",
}

TYPES: Final[dict[str, tuple[str, Ranks, str, Ranks]]] = {
    # letter: its name, values, letter of the gradient, values of the gradient
    "R": ("Replicate", ((1, 2), (1, 2)), "P", ((3, 0), (1, 4))),
    "I": ("Invariant", ((1, 2), (1, 2)), "I", ((4, 4), (4, 4))),
    "V": ("Varying", ((1, 2), (5, 6)), "V", ((3, 0), (1, 4))),
    "P": ("Partial", ((1, 2), (3, 4)), "R", ((5, 7), (5, 7))),
    "S": ("Shard", ((1, 2), (3, 4)), "S", ((5, 6), (7, 8))),
}

# What stands behind it: one value, or, of a V, one on each rank.
VALUES: Final[dict[str, tuple[Vector, ...]]] = {
    "R": ((1, 2),),
    "I": ((1, 2),),
    "V": ((1, 2), (5, 6)),
    "P": ((4, 6),),
    "S": ((1, 2, 3, 4),),
}

_MEANING: Final = {
    "R": "Both ranks hold 1 2. Each has a part of the gradient, which is their sum: 4 4.",
    "I": "Both ranks hold 1 2, and each holds the whole gradient, 4 4.",
    "V": "Two values, 1 2 and 5 6. Each rank has the gradient of its own.",
    "P": "Summands of one value, 4 6. Each rank has the gradient of that value, 5 7.",
    "S": "Pieces of one value, 1 2 3 4. Each rank has its own piece of the gradient.",
}

COLLECTIVES: Final[dict[str, Collective]] = {
    f"{c.op} {c.src} {c.dst}": c
    for c in (
        Collective("all_reduce", "P", "R", ((1, 2), (3, 4)), ((1, 0), (0, 2))),
        Collective("all_reduce", "P", "I", ((1, 2), (3, 4)), ((1, 2), (1, 2))),
        Collective("all_gather", "S(0)", "R", ((1, 2), (3, 4)), ((1, 0, 5, 0), (0, 2, 0, 6))),
        Collective("all_gather", "S(0)", "I", ((1, 2), (3, 4)), ((1, 2, 5, 6), (1, 2, 5, 6))),
        Collective("reduce_scatter", "P", "S(0)", ((1, 2, 3, 4), (5, 6, 7, 8)), ((1, 2), (3, 4))),
        Collective("all_gather", "V", "R", ((1, 2), (3, 4)), ((1, 0, 5, 0), (0, 2, 0, 6)), ((2,), (2, 2))),
        Collective("all_to_all", "V", "V", ((1, 2), (3, 4)), ((5, 6), (7, 8))),
        Collective("all_to_all", "S(0)", "S(1)", ((1, 2), (3, 4)), ((5, 7), (6, 8)), ((1, 2), (2, 1))),
        Collective("broadcast", "V", "R", ((1, 2), (3, 4)), ((1, 0), (0, 2))),
        Collective("broadcast", "V", "I", ((1, 2), (3, 4)), ((1, 2), (1, 2))),
        Collective("shift", "V", "V", ((1, 2), (3, 4)), ((5, 6), (7, 8))),
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


@dataclass(frozen=True)
class _State:
    """What both ranks hold at one time: the letter of the type above, the numbers below, in rows."""

    letter: str
    values: Ranks
    rows: int = 1

    @property
    def width(self) -> float:
        return len(self.values[0]) // self.rows * _CELL

    @property
    def pitch(self) -> float:
        """From one rank to the next."""
        return self.rows * _CELL + 8


def _cells(state: _State, rank: int, left: float, top: float) -> list[str]:
    parts = []
    columns = len(state.values[rank]) // state.rows
    for i, value in enumerate(state.values[rank]):
        x, y = left + i % columns * _CELL, top + i // columns * _CELL
        zero = " spmd-zero" if value == 0 else ""
        size = f'x="{x:g}" y="{y:g}" width="{_CELL - 3}" height="{_CELL - 3}" rx="4"'
        kind = state.letter.partition("(")[0]  # S of S(0)
        parts.append(f'<rect class="spmd-cell spmd-{kind}{zero}" {size}/>')
        parts.append(f'<text class="spmd-value{zero}" x="{x + (_CELL - 3) / 2:g}" y="{y + 21:g}">{value:g}</text>')
    return parts


def _ranks(state: _State, left: float, top: float, pitch: float) -> list[str]:
    """Both ranks' values, one below the other, each in the middle of its ``pitch``."""
    inset = (pitch - state.pitch) / 2
    return [part for rank in range(RANKS) for part in _cells(state, rank, left, top + rank * pitch + inset)]


def _names(top: float, pitch: float) -> list[str]:
    middle = (pitch - 8 - 3) / 2 + 5
    return [_text(0, top + middle + rank * pitch, f"rank {rank}", "spmd-rank") for rank in range(RANKS)]


def _text(x: float, y: float, text: str, css: str) -> str:
    return f'<text class="{css}" x="{x}" y="{y}">{escape(text)}</text>'


def _svg(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    return (
        f'<svg class="spmd-picture" role="img" aria-label="{escape(label)}" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width: {width:g}px">{"".join(parts)}</svg>'
    )


def _figure(svgs: Sequence[str], caption: str, code: bool = True) -> str:
    row = f'<div class="spmd-row">{"".join(svgs)}</div>'
    text = f"<code>{escape(caption)}</code>" if code else escape(caption)
    return f'<figure class="spmd-figure">{row}<figcaption>{text}</figcaption></figure>'


def _step(title: str, a: _State, b: _State, css: str, reverse: bool = False) -> str:
    """Two states with an arrow between them."""
    left, top, gap = 48.0, _HEAD + 24.0, 52.0
    pitch = max(a.pitch, b.pitch)
    middle = left + a.width + gap
    parts = [_text(0, 14, title, f"spmd-title {css}"), *_names(top, pitch)]
    for state, x in ((a, left), (b, middle)):
        parts.append(_text(x + (state.width - 3) / 2, top - 8, state.letter, "spmd-letter"))
        parts += _ranks(state, x, top, pitch)
    start, end = left + a.width + 7, middle - 10
    if reverse:
        start, end = end, start
    tip = 6 if end > start else -6
    y = top + pitch - 5
    parts.append(f'<path class="spmd-arrow" d="M{start:g} {y:g} H{end:g} m{-tip} -5 l{tip} 5 l{-tip} 5"/>')
    start_state, end_state = (b, a) if reverse else (a, b)
    label = f"{title}, from {_said(start_state)} to {_said(end_state)}"
    return _svg(middle + b.width + 2, top + RANKS * pitch, label, parts)


def _said(state: _State) -> str:
    """A state in words, for who cannot see the picture."""
    ranks = (f"rank {rank}: {' '.join(f'{value:g}' for value in state.values[rank])}" for rank in range(RANKS))
    return f"{state.letter} ({', '.join(ranks)})"


def _collective_figure(c: Collective) -> str:
    back = BACKWARD[c.op, c.src, c.dst]
    op, src, dst = back
    before, after = c.rows(after=False), c.rows(after=True)
    there = _step(
        f"forward: {c.op}", _State(c.src, c.before, before), _State(c.dst, forward(c), after), "spmd-forward"
    )  # fmt: skip
    title = f"backward: {_WORDS.get(back, op)}"
    here = _step(title, _State(dst, backward(c), before), _State(src, c.incoming, after), "spmd-backward", reverse=True)
    return _figure([there, here], _call(c))


def _call(c: Collective) -> str:
    """The call, as one writes it."""
    if c.op == "shift":
        return "shift(x, TP)"
    return f"{c.op}(x, TP, dst={c.dst})" if c.op == "broadcast" else f"{c.op}(x, TP, src={c.src}, dst={c.dst})"


def _type_figure(letter: str) -> str:
    name, values, dual, gradient = TYPES[letter]
    there = _alone(f"{name} ({letter})", _State(letter, values))
    back = _alone(f"its gradient: {dual}", _State(dual, gradient))
    return _figure([_meant(letter), there, back], _MEANING[letter], code=False)


def _meant(letter: str) -> str:
    """The value behind a type, apart from any rank."""
    values, top = VALUES[letter], _HEAD + 8.0
    title = "the value" if len(values) == 1 else "the values"
    middle = (RANKS - len(values)) * (_CELL + 8) / 2
    parts = [_text(0, 14, title, "spmd-title")]
    for row, value in enumerate(values):
        parts += _cells(_State("whole", (value, value)), 0, 0, top + middle + row * (_CELL + 8))
    label = f"{title}: {', '.join(' '.join(f'{number:g}' for number in value) for value in values)}"
    return _svg(4 * _CELL, top + RANKS * (_CELL + 8), label, parts)


def _alone(title: str, state: _State) -> str:
    top = _HEAD + 8.0
    parts = [_text(0, 14, title, "spmd-title"), *_names(top, state.pitch), *_ranks(state, 48, top, state.pitch)]
    return _svg(max(48 + state.width, 150), top + RANKS * state.pitch, f"{title}, {_said(state)}", parts)
