"""Colours and progress are for terminals, unless the environment says otherwise; the help fits any width."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from spmd_mypy.cli import doctor, terminal
from spmd_mypy.cli.finding import Finding
from spmd_mypy.cli.main import main
from tests.cli.conftest import Commands
from tests.mypy_runner import environment

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")
COMMANDS = ("check", "coverage", "doctor", "explain", "init")


def on_terminal(*arguments: str, **variables: str) -> str:
    """What ``spmd ARGUMENTS`` prints on a terminal."""
    mine, its = pty.openpty()
    names = {"NO_COLOR", "FORCE_COLOR", "MYPY_FORCE_COLOR", "TERM", "LINES", "COLUMNS"}
    kept = {k: v for k, v in environment().items() if k not in names}
    env = {**kept, "TERM": "xterm-256color", "LINES": "1000", "COLUMNS": "100", **variables}
    command = [sys.executable, "-m", "spmd_mypy.cli", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=env, close_fds=True)
    os.close(its)
    printed = b""
    try:
        while chunk := os.read(mine, 65536):
            printed += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        process.wait(300)
        os.close(mine)
    return printed.decode()


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False), ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False)],
)
def test_colours_on_a_terminal(bare: Commands, variables: dict[str, str], coloured: bool) -> None:
    printed = on_terminal("explain", "spmd-partial", **variables)
    assert "Why it is a bug" in printed
    assert ("\x1b[" in printed) is coloured


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_in_a_pipe(bare: Commands, variables: dict[str, str], coloured: bool) -> None:
    assert ("\x1b[" in bare("explain", "spmd-partial", **variables).out) is coloured


def test_check_on_a_terminal(spmd: Commands) -> None:
    """mypy's own colours; none with NO_COLOR, which mypy does not know; no progress line is left behind."""
    printed = on_terminal("check", "model.py")
    assert re.search(r"model\.py:8: \x1b\[.*error:", printed)
    assert "[spmd-partial]" in re.sub(r"\x1b[^m]*m", "", printed)
    last = printed.split("checking")[-1]
    assert "checking" not in printed or "\r\x1b[K" in last
    plain = on_terminal("check", "model.py", "--output-format", "json", NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*m", plain)
    plain = on_terminal("check", "model.py", NO_COLOR="1")
    assert "model.py:8: error: gelu" in plain
    assert not re.search(r"\x1b\[[0-9;]*m", plain)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("term", "shown"), [("xterm", True), ("dumb", False)])
def test_progress(monkeypatch: pytest.MonkeyPatch, term: str, shown: bool) -> None:
    """A line while something takes long, and nothing afterwards; never on a dumb terminal or in a pipe."""
    monkeypatch.setattr(terminal, "_PATIENCE", 0.0)
    monkeypatch.setenv("TERM", term)
    for stream, expected in ((Terminal(), shown), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        with terminal.Progress("checking"):
            end = time.monotonic() + 10
            while expected and not stream.getvalue() and time.monotonic() < end:
                time.sleep(0.01)
        assert ("checking" in stream.getvalue()) is expected
        assert stream.getvalue().endswith("\r\x1b[K") is expected


def test_doctor_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken between words on a terminal, in one line elsewhere; a terminal that is too narrow breaks lines itself."""
    found = [Finding("problem", "torch", "a word " * 20, "and " * 20)]
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(doctor, "is_terminal", lambda _: True)
    doctor.show(found)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 70 < sum(map(len, lines))
    monkeypatch.setenv("COLUMNS", "40")
    doctor.show(found)
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits(monkeypatch: pytest.MonkeyPatch, command: str, columns: int) -> None:
    """The text is wrapped, the examples stand as they are; every command has both."""
    monkeypatch.setenv("COLUMNS", str(columns))
    done = CliRunner().invoke(main, [*filter(None, [command]), "--help"], terminal_width=columns)
    assert done.exit_code == 0
    text, _, examples = done.output.partition("Examples:")
    prose = text.partition("Options:")[0].splitlines()
    assert max(map(len, prose)) <= max(columns, 60)
    assert not command or f"spmd {command}" in examples


def test_examples_of_the_help_are_commands_that_exist() -> None:
    """Every option that an example shows is one of the command's, or mypy's."""
    mypys = {"--strict", "--config-file"}
    for name in COMMANDS:
        command = main.commands[name]
        known = {o for p in command.params for o in p.opts} | mypys
        lines = getattr(command, "examples", "").split()
        assert {word for word in lines if word.startswith("--")} <= known
    assert Path(terminal.__file__).exists()
