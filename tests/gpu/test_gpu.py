"""The checks on a GPU, where there is one; where not, a rehearsal of what runs without."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from tests.mypy_runner import ROOT

# The commands with their limits in seconds.
COMMANDS = {"collectives_cuda": 600, "precompile_cuda": 480}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("name", COMMANDS)
def test_on_a_gpu(name: str) -> None:
    command = [sys.executable, "-m", f"tests.gpu.{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=COMMANDS[name], check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_collectives_rehearse_without_a_gpu() -> None:
    """The script itself works: the same checks of the rows and of the compiled step, on the CPU."""
    command = [sys.executable, "-m", "tests.gpu.collectives_cuda", "--rehearse"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows, gloo, 2 ranks"]["calls"] > 100
    assert found["cost of a call"]["median"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU they run")
@pytest.mark.parametrize("name", COMMANDS)
def test_without_a_gpu_the_commands_say_so(name: str) -> None:
    command = [sys.executable, "-m", f"tests.gpu.{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "no GPU here" in done.stdout
