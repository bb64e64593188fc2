"""The pages of the error codes: one Markdown file per code, printed by ``spmd explain`` and shown on the site."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from spmd_mypy import codes


@dataclass(frozen=True, slots=True)
class Page:
    """The page of a code: its Markdown text, without the comments that only the tests read."""

    code: str
    text: str

    @property
    def summary(self) -> str:
        """The first paragraph below the heading, on one line."""
        paragraphs = [p for p in self.text.split("\n\n") if p.strip() and not p.startswith("#")]
        return " ".join(paragraphs[0].split()) if paragraphs else self.code


@cache
def find(code: str) -> Page | None:
    """The page of ``spmd-partial``, or None where the code has none."""
    if not code.replace("-", "").isalnum():
        return None
    file = resources.files(__name__) / f"{code}.md"
    if not file.is_file():
        return None
    lines = file.read_text(encoding="utf-8").splitlines()
    shown = ["" if line == "<!-- output -->" else line for line in lines]
    return Page(code, "\n".join(line for line in shown if not line.startswith("<!--")).strip() + "\n")


def names() -> list[str]:
    """All codes, ``spmd`` first."""
    return [code.code for code in (codes.SPMD, *codes.ALL)]


def resolve(text: str) -> str | None:
    """The code that a user means: ``spmd-partial``, ``partial``, ``[spmd-partial]``; None where there is none."""
    wanted = text.strip().strip("[]").lower()
    return next((name for name in (wanted, f"spmd-{wanted}") if name in names()), None)


def similar(text: str) -> list[str]:
    """Codes that look like what was typed."""
    wanted = text.strip().strip("[]").lower()
    wanted = wanted if wanted.startswith("spmd") else f"spmd-{wanted}"
    return difflib.get_close_matches(wanted, names(), n=3, cutoff=0.7)
