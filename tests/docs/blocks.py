"""The code blocks of the pages, and what a comment above each says about it.

A comment on the line before a block says how it is run; the reader does not see it:

* ``<!-- static -->`` Python that mypy checks with the plugin.  Clean, or with the output block below it.
  ``<!-- static experts -->`` takes the configuration of that name in ``test_blocks.py``.
* ``<!-- ranks 2 -->`` Python that runs on two gloo ranks; what they print, rank after rank, is the output block below.
* ``<!-- output -->`` the output of the block before.
* ``<!-- config -->`` TOML that the plugin's configuration reader accepts; ``<!-- data -->`` TOML, YAML, JSON or INI.
* ``<!-- console -->`` a command of ``spmd`` and what it prints; ``project_model.py`` lies there as ``model.py``.
* ``<!-- shell -->`` commands; those of ``spmd`` and ``mypy`` are read by their own parsers.
* ``<!-- shown: reason -->`` is not run, and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# The configuration of blocks marked ``experts``: two meshes, configurations of the project, strict modules.
EXPERTS = {
    "meshes": [["dp", "cp", "tp"], ["edp", "ep", "etp"]],
    "configurations": {"sequence": {"sequence_parallel": True}, "plain": {"sequence_parallel": False}},
    "overrides": [{"module": "strict_*", "strict": True}],
}
_COMMENT = re.compile(r"^\s*<!-- (?P<kind>static|ranks|output|config|data|console|shell|shown)\b:?(?P<rest>.*?)-->$")
_FENCE = re.compile(r"^(?P<indent>\s*)```(?P<language>[\w-]*)(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language, text, and what the comment above says."""

    page: Path
    line: int
    language: str
    text: str
    kind: str
    argument: str
    output: str | None = None
    output_line: int = 0

    @property
    def where(self) -> str:
        """``docs/index.md:12``, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """All pages: those of the site and those of the error codes.  The README has no comments, and tests of its own."""
    return [*sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "spmd_mypy/cli/pages").glob("*.md"))]


def _raw(page: Path) -> Iterator[Block]:
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        if opened is None:
            at += 1
            continue
        end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == "```")
        above = _COMMENT.match(lines[at - 1]) if at else None
        indent = len(opened["indent"])
        text = "".join(line[indent:] + "\n" for line in lines[at + 1 : end])
        kind, rest = (above["kind"], above["rest"].strip()) if above else ("", "")
        yield Block(page, at + 1, opened["language"], text, kind, rest)
        at = end + 1


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, each with the output block that follows it."""
    found: list[Block] = []
    for block in _raw(page):
        if block.kind == "output":
            last = found[-1]
            found[-1] = Block(
                last.page, last.line, last.language, last.text, last.kind, last.argument, block.text, block.line
            )  # fmt: skip
        else:
            found.append(block)
    return found


def all_blocks() -> list[Block]:
    """Every block of every page."""
    return [block for page in pages() for block in blocks(page)]


def rewrite(block: Block, output: str) -> None:
    """Put ``output`` into the output block of ``block``; blocks before it may have changed their length."""
    at = [b.line for b in BEFORE[block.page]].index(block.line)
    lines = block.page.read_text().splitlines()
    found = blocks(block.page)[at]
    start = found.line if block.kind == "console" else found.output_line  # behind the opening fence, counted from 0
    end = next(i for i in range(start, len(lines)) if lines[i].strip() == "```")
    lines[start:end] = output.rstrip("\n").splitlines()
    block.page.write_text("\n".join(lines) + "\n")


BEFORE = {page: blocks(page) for page in pages()}
