"""The user's source text, for messages that name an operand as it was written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from spmd_mypy.patterns import lazily

_LIMIT: Final = 40
_DOTS: Final = "..."
# A string, a comment, or one character.
_PIECE: Final = lazily(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|#.*|.", re.DOTALL)


_shadows: dict[str, str] = {}  # by absolute path
_read_once: list[bool] = [False]


def begin(shadows: Sequence[Sequence[str]], batch: bool) -> None:
    """Read ``shadows`` (path, instead) as mypy does under ``--shadow-file``: editors check what is not saved so.

    In a ``batch`` run files are read once, as mypy reads them; the daemon sees them change.
    """
    _read.cache_clear()
    _shadows.clear()
    _shadows.update({os.path.abspath(path): instead for path, instead in shadows})
    _read_once[0] = batch


@lru_cache(maxsize=64)  # mypy looks at a module twice, and at others between
def _read(path: str, stamp: float) -> str:
    with open(path, "rb", buffering=0) as file:
        text = file.read().decode("utf-8")
    return text.replace("\r\n", "\n") if "\r" in text else text


@lru_cache(maxsize=8)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def text_of(path: str) -> str | None:
    """The text that mypy reads for a file; None where it cannot be read.  Read anew when it has changed."""
    if _shadows:
        path = _shadows.get(os.path.abspath(path), path)
    try:
        return _read(path, 0.0 if _read_once[0] else os.stat(path).st_mtime)
    except (OSError, UnicodeDecodeError):
        return None


def lines_of(path: str) -> tuple[str, ...]:
    """The lines of a file; none where it cannot be read."""
    return _lines(text_of(path) or "")


def line_of(path: str, number: int) -> str:
    """The line ``number``, from 1; empty where there is none."""
    lines = lines_of(path)
    return lines[number - 1] if 0 < number <= len(lines) else ""


def slice_of(path: str, line: int, column: int, end_line: int | None, end_column: int | None) -> str | None:
    """The text between two positions (lines from 1, columns in characters from 0), shortened; None if unknown."""
    text = text_between(path, line, column, end_line, end_column)
    return text if text is None else shortened(text)


def text_between(path: str, line: int, column: int, end_line: int | None, end_column: int | None) -> str | None:
    """The text between two positions as one line, without comments; None if unknown.

    So it is behind characters beyond ASCII: mypy's columns are off there (too small by one for each, in mypy 2.4.1).
    """
    lines = lines_of(path)
    if not (0 < line <= len(lines)) or column < 0:
        return None
    if end_line is None or end_column is None or end_line < line or end_line > len(lines):
        return None
    if not all(_ascii_until(lines[n - 1], end) for n, end in ((line, column), (end_line, end_column))):
        return None
    if end_line == line:
        text = lines[line - 1][column:end_column]
    else:
        text = _joined([lines[line - 1][column:], *lines[line : end_line - 1], lines[end_line - 1][:end_column]])
    text = " ".join(text.split())
    return text or None


def _ascii_until(line: str, column: int) -> bool:
    """Whether a line is ASCII up to a column, even one that is too small by all the characters that are not."""
    return line.isascii() or line[: column + len(line.encode()) - len(line)].isascii()


def _joined(lines: list[str]) -> str:
    """Several lines as one, as it would be written on one."""
    bare = ("".join(piece for piece in _PIECE.findall(line) if not piece.startswith("#")).strip() for line in lines)
    return re.sub(r",? ([)\]}])", r"\1", re.sub(r"([(\[{]) ", r"\1", " ".join(bare)))


def shortened(text: str) -> str:
    """An expression in few characters, still one: what stands in brackets becomes ``...``, the innermost first.

    ``F.linear(h, w).view(n, h // p).contiguous()`` is then ``F.linear(...).view(...).contiguous()``.
    """
    if len(text) <= _LIMIT:
        return text
    pieces = list(_depths(text))
    shorter = text
    for depth in range(max(depth for _, depth in pieces), 0, -1):
        shorter = _without(pieces, depth)
        if len(shorter) <= _LIMIT:
            return shorter
    cut = shorter.rfind(" ", 0, _LIMIT - len(_DOTS))
    return f"{shorter[:cut]} {_DOTS}" if cut > 0 else shorter  # a long dotted name has no part to spare


def compound(text: str) -> bool:
    """Whether an expression has operators outside of its brackets."""
    return any(piece == " " and not depth for piece, depth in _depths(text))


def entry_value(text: str) -> str:
    """The value of a dict's entry: ``x`` of ``"a": x``."""
    pieces = list(_depths(text))
    at = next((at for at, piece in enumerate(pieces) if piece == (":", 0)), -1)
    return "".join(piece for piece, _ in pieces[at + 1 :]).strip()


def _depths(text: str) -> Iterator[tuple[str, int]]:
    """The pieces of an expression, each with the number of brackets that it stands in."""
    depth = 0
    for piece in _PIECE.findall(text):
        depth -= piece in (")", "]", "}")
        yield piece, depth
        depth += piece in ("(", "[", "{")


def _without(pieces: list[tuple[str, int]], deepest: int) -> str:
    """The text with ``...`` for what stands in so many brackets, or more, unless that is as short."""
    parts: list[str] = []
    inside = ""
    for piece, depth in [*pieces, ("", 0)]:
        if depth >= deepest:
            inside += piece
            continue
        parts += [inside if len(inside) <= len(_DOTS) else _DOTS] if inside else []
        parts.append(piece)
        inside = ""
    return "".join(parts)
