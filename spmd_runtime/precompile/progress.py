"""What a build is doing, stage by stage: rewritten in place on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO


class Progress:
    """Stages go to ``stream``; with ``quiet`` nowhere.  ``seconds`` keeps how long each took."""

    def __init__(self, stream: TextIO | None = None, *, quiet: bool = False) -> None:
        self.stream = stream if stream is not None else sys.stderr
        self.quiet = quiet
        self.tty = self.stream.isatty()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str, text: str) -> Iterator[None]:
        """One stage: announced on a terminal, then a line with its duration."""
        if self.tty:
            self._show(f"\r{text} ...\033[K", end="")
        start = time.perf_counter()
        try:
            yield
        except BaseException:
            self._show(f"{chr(13) if self.tty else ''}{text}: failed")
            raise
        spent = time.perf_counter() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self._show(f"{chr(13) if self.tty else ''}{text}  {spent:.1f} s" + ("\033[K" if self.tty else ""))

    def _show(self, text: str, end: str = "\n") -> None:
        if not self.quiet:
            print(text, end=end, file=self.stream, flush=True)
