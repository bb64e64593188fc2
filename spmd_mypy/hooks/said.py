"""What was said of a place already: mypy checks a loop's body again with what the first round has made of it."""

from __future__ import annotations

from typing import Any, Final

from spmd_mypy.patterns import lazily

# What may be another in the second round: the type that was given, and from which branch it comes.
_GIVEN: Final = lazily(r'(?:incompatible type|\((?:expression has type|got)) "[^"]*"')
_BRANCH: Final = lazily(r" \(where .* is .*\)$")


class Said:
    """The errors of ours recorded for one file."""

    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], str] = {}  # what was complained of where, and its message

    def clear(self) -> None:
        """Another file, or another run."""
        self._said.clear()

    def again(self, error: Any) -> bool:
        """Whether an error says what was said of its place before, only in other words.

        The very same message is left to mypy, which may have forgotten the first.
        """
        if error.severity != "error" or error.code is None or not error.code.code.startswith("spmd-"):
            return False
        same = _GIVEN.sub("", _BRANCH.sub("", error.message), count=1)
        first = self._said.setdefault((error.line, error.column, error.code.code, same), error.message)
        return bool(first != error.message)
