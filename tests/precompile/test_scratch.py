"""Temporary directories: removed with their process, also where it was killed, and never while it lives."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from spmd_runtime.precompile import scratch

PREFIX = "spmd-scratch-"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def aged(folder: Path) -> Path:
    """As if made an hour ago."""
    os.utime(folder, (time.time() - 3600,) * 2)
    return folder


def _hold(pipe: Any) -> None:
    pipe.send(str(scratch.make(PREFIX)))
    signal.pause()


def test_what_a_killed_process_leaves_is_removed_and_what_a_living_one_has_is_not() -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_hold, args=(theirs,))
    child.start()
    try:
        assert ours.poll(60)
        folder = aged(Path(ours.recv()))
        scratch.drop(scratch.make(PREFIX))
        assert folder.is_dir()
    finally:
        child.kill()
        child.join(60)
    scratch.drop(scratch.make(PREFIX))
    assert not folder.exists()


def test_ours_stays_until_it_is_dropped(temporary: Path) -> None:
    folder = aged(scratch.make(PREFIX))
    other = scratch.make(PREFIX)
    assert folder.is_dir() and folder.stat().st_mode & 0o077 == 0
    scratch.drop(folder)
    scratch.drop(other)
    assert not list(temporary.iterdir())


def test_one_that_is_just_being_made_is_left_alone(temporary: Path) -> None:
    young = temporary / f"{PREFIX}young"
    young.mkdir()
    scratch.drop(scratch.make(PREFIX))
    assert young.is_dir()
    aged(young)
    scratch.drop(scratch.make(PREFIX))
    assert not young.exists()
