"""The site is built, strictly: every page is in the navigation, every link leads somewhere, every picture is drawn."""

from __future__ import annotations

import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spmd_mypy import codes
from tests.docs.blocks import ROOT

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("material") is None, reason="the docs extra is not installed (mkdocs-material)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning of MkDocs fails the build (not with ``--quiet``, which drops warnings uncounted)."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=environment
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text(page: Path) -> str:
    return html.unescape(page.read_text())


@pytest.mark.parametrize("code", [code.code for code in (codes.SPMD, *codes.ALL)])
def test_each_code_has_a_page(site: Path, code: str) -> None:
    """And the index leads to it, with the registry's description."""
    assert (site / "codes" / code / "index.html").is_file()
    assert f'href="{code}/"' in text(site / "codes" / "index.html")


def test_descriptions_are_the_registrys(site: Path) -> None:
    index = text(site / "codes" / "index.html")
    assert all(code.description in index for code in codes.ALL)


def test_pictures_and_tables_are_in_place(site: Path) -> None:
    """No comment is left that should have become a picture or a table."""
    pages = {page: text(page) for page in site.rglob("*.html")}
    assert not [page for page, content in pages.items() if re.search(r"<!-- (picture|table) ", content)]
    assert text(site / "types" / "index.html").count('class="spmd-picture"') == 15
    assert text(site / "collectives" / "index.html").count('class="spmd-picture"') >= 20
    assert "reduce_scatter" in text(site / "collectives" / "index.html")


def test_names_break_in_lines_and_not_in_blocks(site: Path) -> None:
    page = text(site / "from-megatron" / "index.html")
    assert "copy_<wbr>to_<wbr>tensor_<wbr>model_<wbr>parallel_<wbr>region</code>" in page
    assert not [block for block in re.findall(r"<pre>.*?</pre>", page, re.S) if "<wbr>" in block]


def test_options_and_codes_of_messages_stay_whole(site: Path) -> None:
    """``--`` stands before its name, and the code of a message, as mypy ends it, is in one line."""
    options = [
        found
        for page in site.rglob("index.html")
        for found in re.findall(r"(?<!</span>)<code>[^<]*--[a-z]", text(page))
    ]
    assert not options
    assert '  <span class="spmd-short">[spmd-mix]</span>\n' in text(site / "codes" / "spmd-mix" / "index.html")


def test_the_reference_has_what_is_public(site: Path) -> None:
    """Every function that programs import has an entry."""
    import spmd_runtime  # noqa: PLC0415

    found = text(site / "api" / "index.html")
    functions = [name for name in spmd_runtime.__all__ if name[0].islower()]
    missing = [name for name in functions if not re.search(rf'id="spmd_runtime\.{name}(\.{name})?"', found)]
    assert not missing
    assert not re.search(r":(func|class|mod|meth):|::</p>", found)
    assert "->" not in re.sub(r"<(pre|code|script)\b.*?</\1>|<!--.*?-->", "", found, flags=re.S)


def test_links_lead_somewhere(site: Path) -> None:
    """Links within the site, those in HTML that MkDocs does not see included."""
    dead = []
    for page in site.rglob("index.html"):
        for target in re.findall(r'href="([^"#:]+/)(?:#[^"]*)?"', page.read_text()):
            if not (page.parent / target / "index.html").resolve().is_file() and not target.startswith("/"):
                dead.append(f"{page.relative_to(site)} -> {target}")
    assert not dead
