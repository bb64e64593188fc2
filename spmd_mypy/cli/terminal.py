"""Colours and progress, on a terminal only."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import TracebackType
from typing import Final, TextIO

import click

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_PATIENCE: Final = 0.3  # seconds before anything is shown
_SLOW: Final = 4.0


def is_terminal(stream: TextIO) -> bool:
    """Whether a person is looking: a terminal that is no dumb one."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colours(stream: TextIO) -> bool:
    """Whether to colour: on a terminal, or where ``FORCE_COLOR`` is set; never where ``NO_COLOR`` is."""
    if os.environ.get("NO_COLOR"):
        return False
    return is_terminal(stream) or os.environ.get("FORCE_COLOR", "0") not in ("", "0")


def echo(text: str, *, end: str = "\n") -> None:
    """Print on standard output, with the text's colours where ``colours`` says so."""
    click.echo(text + end, nl=False, color=colours(sys.stdout))


class Progress:
    """A moving line on standard error while something runs; nothing at all where that is no terminal."""

    def __init__(self, text: str, slow: str = "") -> None:
        self._text, self._slow = text, slow
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Progress:
        if is_terminal(sys.stderr):
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the line away; may be called twice."""
        if not self._done.is_set():
            self._done.set()
            if self._thread.is_alive():
                self._thread.join()

    def _show(self) -> None:
        start, number = time.monotonic(), 0
        if self._done.wait(_PATIENCE):
            return
        while True:
            text = f"{self._text}; {self._slow}" if self._slow and time.monotonic() - start > _SLOW else self._text
            frame = click.style(_FRAMES[number % len(_FRAMES)], fg="cyan") if colours(sys.stderr) else "*"
            sys.stderr.write(f"\r\x1b[K{frame} {text} ...")
            sys.stderr.flush()
            if self._done.wait(0.1):
                break
            number += 1
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def fail(message: str, advice: str = "") -> None:
    """Print what is wrong and what to do, and end with mypy's status for that: 2."""
    coloured = colours(sys.stderr)
    head = click.style("spmd: ", fg="red", bold=True) if coloured else "spmd: "
    click.echo(head + message, err=True, color=coloured)
    hint(advice)
    raise SystemExit(2)


def say(message: str) -> None:
    """A remark about the run; on standard error, so that reports stay clean."""
    click.echo(f"spmd: {message}", err=True)


def hint(advice: str) -> None:
    """What to do about the line above."""
    for line in advice.splitlines():
        click.echo(f"      {line}", err=True)
