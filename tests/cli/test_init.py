"""``spmd init`` writes into the file that mypy reads, changes nothing else, and leaves nothing half written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest
import tomlkit

from spmd_mypy.cli import edit, init, settings
from spmd_mypy.cli.edit import EditError
from spmd_mypy.config import load
from tests.cli.conftest import Commands

PYPROJECT = """\
# A project.
[build-system]
requires = ["hatchling"]   # keep

[tool.mypy]
# How strict we are.
strict = true
plugins = [
    "numpy.typing.mypy_plugin",  # first
]

[[tool.mypy.overrides]]
module = "vendored.*"
ignore_errors = true
"""


def test_makes_a_file_where_there_is_none(bare: Commands) -> None:
    assert bare("init", "--axes", "dp,tp").status == 0
    found = settings.read([])
    assert found.has_plugin
    assert found.options.allow_redefinition
    assert load(found.config_file).names() == "dp, tp"
    again = bare("init")
    assert "has all of it" in again.out


def test_without_axes_it_says_that_they_are_placeholders(bare: Commands) -> None:
    """In what it prints and in what it writes; the file is read as it should be all the same."""
    done = bare("init")
    assert "The mesh axes are placeholders" in done.out
    assert "an own axis is the dotted path of its class" in done.out
    assert 'axes = ["dp", "cp", "tp"]  # placeholders' in Path("pyproject.toml").read_text()
    Path("pyproject.toml").unlink()
    bare.write(mypy__ini="[mypy]\nstrict = True\n\n[spmd-mypy]\nstrict = true\n\n[mypy-x]\nstrict = False\n")
    assert "placeholders" in bare("init").out
    assert "# placeholders: write the dims of your device mesh\naxes = dp, cp, tp\n" in Path("mypy.ini").read_text()
    assert load(settings.read([]).config_file).names() == "dp, cp, tp"


def test_asks_for_the_axes_on_a_terminal(bare: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are none yet; a wrong answer writes nothing."""
    monkeypatch.setattr(init, "_is_interactive", lambda: True)
    answers = iter(["nope", "dp, tp"])
    monkeypatch.setattr(click, "prompt", lambda *_, **__: next(answers))
    assert bare("init").status == 2
    assert not Path("pyproject.toml").exists()
    done = bare("init")
    assert "placeholders" not in done.out
    assert load(settings.read([]).config_file).names() == "dp, tp"
    assert "has all of it" in bare("init").out  # and does not ask again


def test_an_unreadable_file_that_would_win(bare: Commands) -> None:
    """Nothing is written beside it: mypy would read it as soon as it is mended."""
    bare.write(pyproject__toml=PYPROJECT, mypy__ini="plugins = x\n")
    done = bare("init")
    assert done.status == 2
    assert "mypy.ini cannot be parsed" in done.err
    assert Path("pyproject.toml").read_text() == PYPROJECT


def test_keeps_comments_order_and_values(bare: Commands) -> None:
    """Every old line is there, in its order."""
    bare.write(pyproject__toml=PYPROJECT)
    assert bare("init", "--axes", "tp").status == 0
    new = Path("pyproject.toml").read_text()
    left = iter(new.splitlines())
    assert all(line in left for line in PYPROJECT.splitlines())
    assert settings.read([]).has_plugin
    assert settings.read([]).options.strict_equality


@pytest.mark.parametrize("name", ["mypy.ini", ".mypy.ini", "setup.cfg"])
def test_ini_files(bare: Commands, name: str) -> None:
    text = (
        "# head\n[mypy]\nplugins =\n    numpy.typing.mypy_plugin\n; tail\nstrict = True\n\n[mypy-x]\nstrict = False\n"
    )
    Path(name).write_text(text)
    assert bare("init", "--axes", "dp,tp").status == 0
    found = settings.read([])
    assert found.has_plugin
    assert found.options.plugins == ["numpy.typing.mypy_plugin", "spmd_mypy.plugin"]
    assert load(found.config_file).names() == "dp, tp"
    left = iter(Path(name).read_text().splitlines())
    assert all(line in left for line in text.splitlines() if "mypy_plugin" not in line)


def test_says_which_file_wins(bare: Commands) -> None:
    bare.write(pyproject__toml=PYPROJECT, mypy__ini="[mypy]\nstrict = True\n")
    done = bare("init")
    assert "mypy reads mypy.ini, which wins over pyproject.toml" in done.err
    assert Path("pyproject.toml").read_text() == PYPROJECT
    assert "spmd_mypy.plugin" in Path("mypy.ini").read_text()


def test_finds_the_file_above(bare: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    bare.write(pyproject__toml=PYPROJECT)
    Path("src").mkdir()
    monkeypatch.chdir("src")
    assert bare("init").status == 0
    assert not Path("pyproject.toml").exists()
    assert "spmd_mypy.plugin" in Path("../pyproject.toml").read_text()


def test_leaves_a_personal_configuration_alone(bare: Commands, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".mypy.ini").write_text("[mypy]\nstrict = True\n")
    assert bare("init").status == 0
    assert (home / ".mypy.ini").read_text() == "[mypy]\nstrict = True\n"
    assert "spmd_mypy.plugin" in Path("pyproject.toml").read_text()


def test_dry_run_writes_nothing(bare: Commands) -> None:
    bare.write(pyproject__toml=PYPROJECT)
    done = bare("init", "--dry-run")
    assert '+    "spmd_mypy.plugin",' in done.out
    assert Path("pyproject.toml").read_text() == PYPROJECT


def test_keeps_line_ends_and_permissions(bare: Commands) -> None:
    Path("pyproject.toml").write_bytes(PYPROJECT.replace("\n", "\r\n").encode())
    Path("pyproject.toml").chmod(0o640)
    assert bare("init").status == 0
    raw = Path("pyproject.toml").read_bytes()
    assert raw.count(b"\n") - raw.count(b"\r\n") <= 1  # tomlkit's own new line in an array
    assert stat.S_IMODE(os.stat("pyproject.toml").st_mode) == 0o640


@pytest.mark.parametrize("axes", ["dp,dp", "nope", "dp,,1x"])
def test_wrong_axes_are_refused(bare: Commands, axes: str) -> None:
    done = bare("init", "--axes", axes)
    assert done.status == 2
    assert "not a list of different mesh axes" in done.err
    assert not Path("pyproject.toml").exists()


def test_other_axes_are_not_overwritten(bare: Commands) -> None:
    bare("init", "--axes", "dp,tp")
    before = Path("pyproject.toml").read_text()
    done = bare("init", "--axes", "cp")
    assert done.status == 2
    assert "has mesh axes already" in done.err
    assert Path("pyproject.toml").read_text() == before


def test_broken_files_are_refused(bare: Commands) -> None:
    bare.write(pyproject__toml="[tool.mypy\n")
    assert bare("init").status == 2
    assert Path("pyproject.toml").read_text() == "[tool.mypy\n"


def test_nothing_is_half_written(bare: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file cannot be replaced, the old one stays and nothing lies beside it."""
    bare.write(pyproject__toml=PYPROJECT)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    done = bare("init")
    assert done.status == 2
    assert "cannot write pyproject.toml: Permission denied" in done.err
    assert Path("pyproject.toml").read_text() == PYPROJECT
    assert sorted(p.name for p in Path(".").iterdir()) == [".git", "pyproject.toml"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[tool.mypy]\n",
        '[tool.mypy]\nplugins = "a.b"\n',
        "[tool]\nmypy.strict = true\n",
        '[tool.mypy]\nplugins = ["a.b"]\n[tool.spmd-mypy]\nstrict = true\n[tool.x]\na = 1\n',
        "tool = { mypy = { strict = true } }\n",
        '[tool.x]\na = 1\n[tool.mypy]\nstrict = true\n[tool.y]\nb = 1\n[[tool.mypy.overrides]]\nmodule = "z"\n',
    ],
)
def test_layouts_of_toml(text: str) -> None:
    """Edited so that it means what it should, or refused."""
    try:
        new = edit.toml(text, ("tp",)).text
    except EditError as error:
        assert "by hand" in str(error)
        return
    tool = tomlkit.parse(new).unwrap()["tool"]
    assert "spmd_mypy.plugin" in tool["mypy"]["plugins"]
    assert tool["spmd-mypy"]["axes"] == ["tp"]
    assert edit.toml(new, ()).text == new
