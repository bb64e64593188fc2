"""Every code block of the pages is run: through mypy with its stated output, on gloo ranks, or by a parser.

``SPMD_DOCS_UPDATE=1`` writes what came out into the pages instead of comparing.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
from click.testing import CliRunner

from spmd_mypy import codes
from spmd_mypy.cli.main import main
from spmd_mypy.config import build
from spmd_runtime.precompile.__main__ import parser
from tests.docs import worker
from tests.docs.blocks import EXPERTS, ROOT, Block, all_blocks, rewrite
from tests.mypy_runner import Project, cache_folder, configuration
from tests.runtime import gloo

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UPDATE = bool(os.environ.get("SPMD_DOCS_UPDATE"))
BLOCKS = all_blocks()
SHOWN_NAME = "model.py"
WIDTH = 88  # columns of code that fit between the site's two columns of links (docs/assets/spmd.css)
CONFIGURATIONS = {"": configuration(), "experts": configuration(None, spmd=EXPERTS)}


def of_kind(*kinds: str) -> list[Block]:
    """The blocks whose comment is one of these."""
    return [block for block in BLOCKS if block.kind in kinds]


def name(block: Block) -> str:
    """A test's name: page and line."""
    return block.where


def held(block: Block, found: str) -> None:
    """``found`` is what the page says, or the page is updated."""
    if UPDATE and block.output is not None:
        rewrite(block, found)
        return
    compared(block, found)


def compared(block: Block, found: str) -> None:
    """Fail unless ``found`` is what the page says."""
    assert found.strip() == (block.output or "").strip(), (
        f"{block.where} says something else; SPMD_DOCS_UPDATE=1 updates it"
    )


def test_every_block_is_run() -> None:
    """No block without a comment that says how."""
    left = [block.where for block in BLOCKS if not block.kind]
    assert not left, f"say above these blocks how they are run (tests/docs/blocks.py): {left}"


def test_blocks_not_run_give_a_reason() -> None:
    assert all(block.argument for block in of_kind("shown"))


def test_every_output_is_compared() -> None:
    """An output stands below a block that is run by mypy or on ranks, and nowhere else."""
    stray = [block.where for block in BLOCKS if block.output is not None and block.kind not in ("static", "ranks")]
    assert not stray


def test_a_wrong_output_fails() -> None:
    """Of a block with errors, of one that is clean, of one on ranks."""
    for block in (of_kind("static")[0], of_kind("ranks")[0]):
        assert block.output
        with pytest.raises(AssertionError, match="says something else"):
            compared(block, f"{block.output}.")
        with pytest.raises(AssertionError, match="says something else"):
            compared(replace(block, output=None), block.output)


def test_code_fits() -> None:
    """No line of code is cut on a wide screen."""
    runnable = of_kind("static", "ranks", "config", "console")
    assert not [
        f"{block.where}: {line}" for block in runnable for line in block.text.splitlines() if len(line) > WIDTH
    ]  # fmt: skip


def test_the_readmes_blocks_have_tests_of_their_own() -> None:
    """``tests/packaging/test_readme.py`` and ``tests/precompile/test_command_line.py`` know these and no other."""
    opened = re.findall(r"^```(\w*)$", (ROOT / "README.md").read_text(), re.M)
    assert sorted(opened[::2]) == ["", "console", "python", "text", "toml"]


PARTS = ["What it says", "Why it is a bug", "What to write", "When to silence it"]


@pytest.mark.parametrize("code", [code.code for code in codes.ALL])
def test_a_codes_page_has_its_parts(code: str) -> None:
    """What it says of wrong code, the wrong gradient in numbers, right code, when to silence it: in this order."""
    found = [block for block in BLOCKS if block.page.stem == code]
    parts = {at: title for at, line in enumerate(found[0].page.read_text().splitlines(), 1)
             if (title := line.removeprefix("## ")) in PARTS}  # fmt: skip
    assert list(parts.values()) == PARTS
    says, why, write, silence = parts
    assert any(f"[{code}]" in (block.output or "") for block in found if says < block.line < why)
    numbers = [block for block in found if why < block.line < write and block.kind == "ranks"]
    assert numbers and all(len(set(re.findall(r"gradient (.*)", block.output or ""))) > 1 for block in numbers)
    assert any(block.output is None for block in found if write < block.line < silence and block.kind == "static")


# ---- static


@pytest.fixture(scope="module")
def checked() -> dict[str, str]:
    """What mypy says to each static block: one run per configuration, each block a module of its own."""
    by_configuration: dict[str, list[Block]] = defaultdict(list)
    for block in of_kind("static"):
        by_configuration[block.argument.replace("strict", "").strip()].append(block)
    said: dict[str, str] = {}
    for key, blocks in by_configuration.items():
        with tempfile.TemporaryDirectory(prefix="spmd-docs-") as folder:
            said |= _check(Project(Path(folder), CONFIGURATIONS[key]), blocks)
    return said


def module(block: Block) -> str:
    """The name of a block's module; those that start so are strict in the configuration."""
    strict = "strict_" if "strict" in block.argument else ""
    return f"{strict}{re.sub(r'[^a-z0-9]', '_', block.page.stem)}_{block.line}"


def _check(project: Project, blocks: list[Block]) -> dict[str, str]:
    paths = project.write({f"{module(block)}.py": block.text for block in blocks})
    result = project.check(*paths)
    said: dict[str, list[str]] = {block.where: [] for block in blocks}
    owners = {f"{module(block)}.py": block for block in blocks}
    for message in result.messages:
        block = owners.get(message.file)
        assert block is not None, f"a message about another file: {message}"
        code = f"  [{message.code}]" if message.code and message.severity == "error" else ""
        said[block.where].append(f"{SHOWN_NAME}:{message.line}: {message.severity}: {message.message}{code}")
    return {where: "\n".join(lines) for where, lines in said.items()}


@pytest.mark.parametrize("block", of_kind("static"), ids=name)
def test_static(block: Block, checked: dict[str, str]) -> None:
    """mypy says to the block what the page says."""
    held(block, checked[block.where])


# ---- on ranks


@pytest.mark.parametrize("block", of_kind("ranks"), ids=name)
def test_on_ranks(block: Block) -> None:
    """The block prints on gloo ranks what the page says."""
    printed = gloo.run(worker.execute, int(block.argument), block.text, block.where, timeout=60)
    held(block, "".join(printed))


# ---- configuration, data, commands


@pytest.mark.parametrize("block", of_kind("config"), ids=name)
def test_configuration(block: Block) -> None:
    """The plugin reads what the page says one can write."""
    tool = tomllib.loads(block.text)["tool"]
    if "spmd-mypy" in tool:
        items = dict(tool["spmd-mypy"])
        items.setdefault("axes", ["dp", "cp", "tp", "ep"]) if "meshes" not in items else None
        own = {axis for axis in items.get("axes", ()) if "." in axis}
        assert build("pyproject.toml", items).axes or own
    if "mypy" in tool and "plugins" in tool["mypy"]:
        assert "spmd_mypy.plugin" in tool["mypy"]["plugins"]


@pytest.mark.parametrize("block", of_kind("data"), ids=name)
def test_data(block: Block) -> None:
    """TOML, YAML, JSON and INI can be read."""
    if block.language == "toml":
        assert tomllib.loads(block.text)
    elif block.language == "yaml":
        assert yaml.safe_load(block.text)
    elif block.language == "json":
        assert json.loads(block.text)
    elif block.language == "ini":
        parser = configparser.RawConfigParser()
        parser.read_string(block.text)
        assert parser.sections()
    else:
        pytest.fail(f"{block.where}: {block.language} is no data")


@pytest.mark.parametrize(("at", "file"), [(0, "github.yml"), (2, "gitlab.yml"), (3, "pre-commit-config.yaml")])
def test_the_ci_examples_are_the_files(at: int, file: str) -> None:
    """What the page shows is what ``examples/ci`` has."""
    shown = [block for block in of_kind("data") if block.page.name == "ci.md"][at]
    assert shown.text == (ROOT / "examples" / "ci" / file).read_text()


def commands(block: Block) -> list[list[str]]:
    """The commands of a shell block, without prompts, comments and what they print."""
    found = []
    for line in block.text.replace("\\\n", " ").splitlines():
        text = line.removeprefix("$ ")
        if line.startswith("$ ") or (block.language == "bash" and line.strip() and not line.startswith("#")):
            found.append(shlex.split(text, comments=True))
    return found


@pytest.mark.parametrize("block", of_kind("console"), ids=name)
def test_console(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints what the page says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    command = block.text.splitlines()[0].removeprefix("$ ").split()
    if command[1] != "init":
        Path("pyproject.toml").write_text(configuration())
        Path("model.py").write_text((Path(__file__).parent / "project_model.py").read_text())
        monkeypatch.setenv("MYPY_CACHE_DIR", str(cache_folder(configuration())))
    result = CliRunner().invoke(main, command[1:], catch_exceptions=False)
    held(replace(block, output=block.text, output_line=block.line), f"$ {' '.join(command)}\n{result.stdout}")


@pytest.mark.parametrize("block", of_kind("shell"), ids=name)
def test_commands(block: Block) -> None:
    """``spmd`` and ``spmd_runtime.precompile`` have the commands and options that the pages name."""
    found = commands(block)
    assert found, f"{block.where} has no command"
    for command in found:
        words = [word for word in command if "=" not in word or word.startswith("-")]
        if words[0] == "spmd":
            known = main.commands.get(words[1])
            assert known is not None, f"{block.where}: no such command: {words[1]}"
            known.make_context(words[1], list(words[2:]), resilient_parsing=False)
        if command[:3] == ["python", "-m", "spmd_runtime.precompile"]:
            assert parser().parse_args(command[3:])


def test_commands_are_read_by_their_parser() -> None:
    """The check above can fail."""
    with pytest.raises(click.ClickException):
        main.commands["explain"].make_context("explain", ["--no-such-option"])
