"""Runs a code block on a rank; what it prints is the result."""

from __future__ import annotations

import contextlib
import io


def execute(text: str, where: str) -> str:
    """Run the text of a block as a module of its own."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, where, "exec"), {"__name__": "__main__"})
    return out.getvalue()
