"""``spmd explain``: the page of an error code, on the terminal."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator

import click

from spmd_mypy import codes
from spmd_mypy.cli import pages
from spmd_mypy.cli.terminal import colours, echo, fail

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]+\)")


def run(code: str | None) -> int:
    """Print the page of ``code``, or the list of codes."""
    if code is None:
        _list()
        return 0
    name = pages.resolve(code)
    page = pages.find(name) if name else None
    if name is None or page is None:
        near = pages.similar(code)
        hint = f"did you mean {' or '.join(near)}?" if near else "`spmd explain` lists the codes"
        own = "; codes without spmd- are mypy's own" if name is None and "spmd" not in code.lower() else ""
        fail(f"there is no error code {code!r}{own}", hint)
        return 2
    text = "\n".join(_rendered(page.text)) if colours(sys.stdout) else page.text.rstrip()
    click.echo_via_pager(text + "\n", color=colours(sys.stdout)) if _long(text) else echo(text)
    return 0


def _long(text: str) -> bool:
    return sys.stdout.isatty() and text.count("\n") > shutil.get_terminal_size().lines


def _list() -> None:
    for code in (codes.SPMD, *codes.ALL):
        click.echo(f"{code.code:<17} {code.description}")
    click.echo("\n`spmd explain CODE` prints what a code says, why it is a bug, and what to write instead.")


def _rendered(text: str) -> Iterator[str]:
    """Markdown with terminal colours instead of marks."""
    code = False
    for line in text.splitlines():
        if line.startswith("```"):
            code = not code
            continue
        if code:
            yield "    " + click.style(line, fg="cyan")
        elif line.startswith("#"):
            yield click.style(line.lstrip("# ").replace("`", ""), bold=True, underline=line.startswith("# "))
        else:
            yield _INLINE.sub(_inline, line)


def _inline(match: re.Match[str]) -> str:
    code, bold, link = match.groups()
    if code is not None:
        return click.style(code, fg="cyan")
    return click.style(bold or link, bold=bold is not None)
