"""The command of the example's documentation, as a user types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.mypy_runner import ROOT

SCRIPT = "examples/llama/train.py"
TIMEOUT = 150.0
STEP = re.compile(r"step +(\d+)/(\d+) +loss ([\d.]+) +grad norm [\d.]+ +[\d,]+ tokens/s +\d+ s left")


def run(command: list[str], **env: str) -> tuple[int, str]:
    """Exit status and output of a command in a process group of its own, which is killed when it is late."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **env}
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"not done after {TIMEOUT} s:\n{output[-3000:]}")
    return process.returncode, output


@pytest.mark.parametrize(("steps", "arguments"), [(8, ()), (4, ("--sequence-parallel", "--recompute"))])
def test_trains_on_a_two_by_two_mesh(steps: int, arguments: tuple[str, ...]) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    status, output = run([*launcher, SCRIPT, "--steps", str(steps), *arguments])
    assert status == 0, output[-3000:]
    lines = [(int(step), int(of), float(loss)) for step, of, loss in STEP.findall(output)]
    assert [line[:2] for line in lines] == [(step, steps) for step in range(1, steps + 1)]
    assert lines[0][2] > 5.0  # log(256) = 5.5: nothing is learnt yet
    assert lines[-1][2] < 4.5


def test_says_what_is_wrong_with_the_mesh() -> None:
    status, output = run([SCRIPT, "--tp", "3"], WORLD_SIZE="4")
    assert status == 2
    assert "--tp 3 does not divide the 4 ranks" in output
