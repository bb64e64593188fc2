"""``strict = true`` reports what makes values unknown, in the modules that ask for it, and nothing else."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.docs.blocks import EXPERTS
from tests.mypy_runner import Project, compare, configuration

HELPERS = """\
from typing import Any
import torch

def helper(x: torch.Tensor) -> torch.Tensor:
    return x

def anything(x: torch.Tensor) -> Any:
    return x
"""
STRICT = """\
from typing import Any, TypeVar
import torch
import torch.nn as nn
from helpers import anything, helper
from spmd_runtime import CP, DP, EDP, EP, ETP, TP, R, Tensor, V

L = TypeVar("L")
Act = Tensor[V[DP], V[CP], R[TP], V[EDP], R[EP], R[ETP]]

def bare(x: torch.Tensor, y: Act) -> Act:  # E: spmd-annotation
    return y

def left_out(x: Tensor[R[TP]]) -> None: ...  # E: spmd-annotation

def on_purpose(x: Tensor[Any], y: Tensor[R[TP], Any], z: Tensor[L]) -> Tensor[L]:
    return z

def without(u, v: Act) -> Act:  # E: spmd-annotation
    return v + u

def calls(x: Act, n: int) -> Act:
    a = helper(x)  # E: spmd-annotation
    b = anything(x)  # E: spmd-annotation
    anything(x)
    c: Act = helper(x)
    d = torch.empty_like(x)  # E: spmd-annotation
    e = torch.relu(x) + c * n
    on_purpose(x, x, x)
    print(x.sum().item(), e.tolist())
    return helper(x)
"""


def test_strict_modules_only() -> None:
    """The same helpers are not reported in a module that does not ask for it."""
    files = {"strict_one.py": STRICT, "lenient.py": HELPERS, "helpers.py": HELPERS}
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder), configuration(None, spmd=EXPERTS))
        found = project.check(*project.write(files))
    assert not compare(STRICT, [m for m in found.messages if m.file == "strict_one.py"], "strict_one")
    assert {m.file for m in found.messages} == {"strict_one.py"}
