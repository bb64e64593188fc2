"""``spmd explain`` prints a page for every code, and helps with what is none; the pages have what they should."""

from __future__ import annotations

import pytest

from spmd_mypy import codes
from spmd_mypy.cli import pages
from tests.cli.conftest import Commands

SECTIONS = ["## What it says", "## Why it is a bug", "## What to write", "## When to silence it"]
ALL = [code.code for code in (codes.SPMD, *codes.ALL)]


@pytest.mark.parametrize("code", ALL)
def test_every_code_has_a_page(bare: Commands, code: str) -> None:
    """Heading, the four sections in their order, and none of the comments that only tests read."""
    out = bare("explain", code).out
    assert out.startswith(f"# {code}\n")
    at = [out.index(section) for section in SECTIONS]
    assert at == sorted(at)
    assert "<!--" not in out


def test_no_page_without_a_code() -> None:
    from importlib import resources  # noqa: PLC0415

    found = {file.name.removesuffix(".md") for file in resources.files(pages).iterdir() if file.name.endswith(".md")}
    assert found == set(ALL)


@pytest.mark.parametrize("code", [code.code for code in codes.ALL])
def test_pages_show_their_code_and_a_gradient(code: str) -> None:
    """The stated output has the code, and what runs on ranks prints a gradient."""
    page = pages.find(code)
    assert page is not None
    assert f"[{code}]" in page.text
    assert "gradient" in page.text.split("## Why it is a bug")[1].split("## What to write")[0].split("```text")[1]


@pytest.mark.parametrize("text", ["partial", "[spmd-partial]", "SPMD-PARTIAL"])
def test_other_spellings(bare: Commands, text: str) -> None:
    assert bare("explain", text).out.startswith("# spmd-partial\n")


def test_list(bare: Commands) -> None:
    out = bare("explain").out
    assert all(code in out for code in ALL)


@pytest.mark.parametrize(
    ("text", "hint"),
    [("partail", "did you mean spmd-partial"), ("arg-type", "mypy's own"), ("../../x/zzzz", "lists the codes")],
)
def test_unknown_codes(bare: Commands, text: str, hint: str) -> None:
    done = bare("explain", text)
    assert done.status == 2
    assert hint in done.err
