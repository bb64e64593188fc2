"""MkDocs hook: the pages of the error codes come from the package, pictures are drawn where a comment names them, and
each page is described, to search engines and where a link to it is shown, by its first paragraph."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from docs.building.pictures import picture  # noqa: E402
from spmd_mypy import codes  # noqa: E402

_PICTURE = re.compile(r"^<!-- picture (?P<what>.+?) -->$", re.M)
_TABLE = re.compile(r"^<!-- table (?P<what>collectives|expert_mode) -->$", re.M)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add ``codes/`` with one page per code and an index."""
    pages = ROOT / "spmd_mypy" / "cli" / "pages"
    for code in (codes.SPMD, *codes.ALL):
        text = (pages / f"{code.code}.md").read_text(encoding="utf-8")
        files.append(File.generated(config, f"codes/{code.code}.md", content=text))
    files.append(File.generated(config, "codes/index.md", content=_index()))
    return files


def _index() -> str:
    rows = [f"| [`{c.code}`]({c.code}.md) | {c.description} |" for c in (*codes.ALL, codes.SPMD)]
    return "\n".join(
        [
            "# Error codes",
            "",
            "Every message of the plugin ends with a code. Each page says what it means, why it is a bug (with the",
            "wrong gradient in numbers), what to write instead, and when to silence it. `spmd explain CODE` prints it",
            "in the terminal.",
            "",
            "| code | what it is about |",
            "|---|---|",
            *rows,
            "",
            "A code silences one kind of complaint: in a line (`# type: ignore[spmd-mix]`), in modules or everywhere",
            "(`disable_error_code` in mypy's configuration). `spmd` stands for all of them.",
            "",
        ]
    )


def on_page_markdown(markdown: str, page: Page, **kwargs: Any) -> str:
    """Put pictures and generated tables into their places; take the description from the text."""
    del kwargs
    page.meta.setdefault("description", _first_paragraph(markdown))
    markdown = _PICTURE.sub(lambda match: picture(match["what"]), markdown)
    return _TABLE.sub(lambda match: _collectives(expert=match["what"] == "expert_mode"), markdown)


def on_page_content(html: str, **kwargs: Any) -> str:
    """Drop what only docstrings have (``:func:``, ``::``, ``->`` in text), and say where code in a line may be broken.

    Short code may not (``--strict``, ``S[TP, 0]``), a long name may behind ``_``, ``.`` and ``(``.  Blocks, whose code
    stands behind an empty span, wrap as they are, but for the code at the end of a message.
    """
    del kwargs
    html = re.sub(r":(?:func|class|mod|meth):(<code>)", r"\1", html).replace("::</p>", ":</p>")
    html = re.sub(r"(<(pre|code)\b.*?</\2>)|-&gt;", lambda found: found[1] or "\N{RIGHTWARDS ARROW}", html, flags=re.S)
    html = re.sub(r"(?<= )\[[a-z]+(?:-[a-z]+)+\](?=\n)", _unbroken, html)
    html = re.sub(r"<code>([^<>\s]{1,20}|[^<>]{1,14})</code>", r'<code class="spmd-short">\1</code>', html)
    return re.sub(r"(?<!</span>)<code>([^<>]+)</code>", lambda code: f"<code>{_breakable(code[1])}</code>", html)


def _breakable(code: str) -> str:
    return re.sub(r"--[a-z][a-z-]*", _unbroken, re.sub(r"(?<=[a-z])([_.(])(?=[a-z])", r"\1<wbr>", code))


def _unbroken(text: re.Match[str]) -> str:
    return f'<span class="spmd-short">{text[0]}</span>'


def _first_paragraph(markdown: str) -> str:
    """The first paragraph below the heading as plain text, at most two sentences of it."""
    text = next(p for p in markdown.split("\n\n") if p.strip() and not p.startswith(("#", "<!--")))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", " ".join(text.split()))
    return " ".join(re.split(r"(?<=[.?]) ", re.sub(r"[`*]", "", plain))[:2]).rstrip(":")


def _collectives(expert: bool) -> str:
    """The table of collectives, from the rules; a row stands for V and for S(i) where both go the same way."""
    from spmd_mypy.rules.collectives import TRANSITIONS, Transition  # noqa: PLC0415

    rows: dict[tuple[str, ...], list[Transition]] = {}
    for row in (row for table in TRANSITIONS.values() for row in table.values() if row.expert is expert):
        if row.backward[0] == row.op and _joined(row.src) == _joined(row.dst) and row.op != "all_to_all":
            continue  # a type to itself, V to S(i) and back: names, which the text says
        rows.setdefault((row.op, _joined(row.src), _joined(row.dst)), []).append(row)
    lines = ["| operation | from | to | backward | from | to |", "|---|---|---|---|---|---|"]
    for (op, *_), same in rows.items():
        ends = [[row.src for row in same], [row.dst for row in same]]
        ends += [[row.backward[1] for row in same], [row.backward[2] for row in same]]
        src, dst, before, after = (_shown(tokens) for tokens in ends)
        back = _breakable(same[0].backward[0])
        lines.append(f"| <code>{_breakable(op)}</code> | {src} | {dst} | <code>{back}</code> | {before} | {after} |")
    return "\n".join(lines)


def _joined(token: str) -> str:
    return "V" if token == "S" else token


def _shown(tokens: Iterable[str]) -> str:
    return ", ".join("`S(i)`" if token == "S" else f"`{token}`" for token in dict.fromkeys(tokens))
