"""The user's source text, for messages that name an operand as it was written."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Final

_LIMIT: Final = 40


@lru_cache(maxsize=8)
def _read(path: str, stamp: float) -> str:
    with open(path, "rb", buffering=0) as file:
        text = file.read().decode("utf-8")
    return text.replace("\r\n", "\n") if "\r" in text else text


@lru_cache(maxsize=8)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


def text_of(path: str) -> str | None:
    """The text of a file; None where it cannot be read.  Read anew when the file has changed."""
    try:
        return _read(path, os.stat(path).st_mtime)
    except (OSError, UnicodeDecodeError):
        return None


def lines_of(path: str) -> tuple[str, ...]:
    """The lines of a file; none where it cannot be read."""
    return _lines(text_of(path) or "")


def slice_of(path: str, line: int, column: int, end_line: int | None, end_column: int | None) -> str | None:
    """The text between two positions (lines from 1, columns in characters from 0), shortened; None if unknown."""
    text = text_between(path, line, column, end_line, end_column)
    return text if text is None or len(text) <= _LIMIT else text[: _LIMIT - 3] + "..."


def text_between(path: str, line: int, column: int, end_line: int | None, end_column: int | None) -> str | None:
    """The text between two positions on one line, white space apart; None if unknown."""
    lines = lines_of(path)
    if not (0 < line <= len(lines)) or column < 0:
        return None
    if end_line is None or end_column is None or end_line < line:
        return None
    if end_line == line:
        text = lines[line - 1][column:end_column]
    elif end_line <= len(lines):
        text = " ".join([lines[line - 1][column:], *lines[line : end_line - 1], lines[end_line - 1][:end_column]])
    else:
        return None
    text = " ".join(text.split())
    return text or None
