"""Names in the configuration that name nothing are found, and whatever may be right is left alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Commands

FILES = {
    "proj/__init__.py": "from .mesh import Seq as Sequence\n",
    "proj/starring.py": "from proj.kernels import *\n",
    "proj/mesh.py": "from spmd_runtime import MeshAxis\n\n\nclass Seq(MeshAxis):\n    pass\n",
    "proj/again.py": "from proj.mesh import Seq\nfrom . import kernels\n",
    "proj/kernels.py": """\
import sys
import torch
import torch.distributed as dist
from typing import overload
from unknown import wrapper

if sys.platform == "win32":
    def get_tp() -> dist.ProcessGroup: ...
else:
    try:
        from fast import get_tp
    except ImportError:
        def get_tp() -> dist.ProcessGroup: ...

def fused(x: torch.Tensor, /, bias: torch.Tensor, *rest: torch.Tensor, eps: float = 0) -> torch.Tensor: ...
def anything(x: torch.Tensor, **rest: object) -> torch.Tensor: ...
@wrapper
def wrapped(x: torch.Tensor) -> torch.Tensor: ...
@torch.library.custom_op("a::b", mutates_args=())
def registered(x: torch.Tensor) -> torch.Tensor: ...
@overload
def many(x: torch.Tensor) -> torch.Tensor: ...
@overload
def many(y: int) -> int: ...
def many(x): ...
alias = fused

def start() -> None:
    global late
    late = get_tp()

class State:
    def get(self) -> dist.ProcessGroup: ...
    group: dist.ProcessGroup
    def __init__(self) -> None:
        self.own = self.get()

class Dynamic:
    def __init__(self) -> None:
        setattr(self, "own", None)

class Inherits(State): ...
""",
    "proj/native.cpython-399.so": "",
    "loose/mesh.py": "from spmd_runtime import MeshAxis\n\n\nclass Part(MeshAxis):\n    pass\n",
    "proj/dynamic.py": "def __getattr__(name: str) -> object: ...\n",
}
RIGHT = """\
axes = ["tp", "proj.mesh.Seq", "loose.mesh.Part"]
[tool.spmd-mypy.groups]
"proj.kernels.get_tp" = "tp"
"proj.kernels.State.get" = "tp"
"proj.kernels.State.group" = "tp"
"proj.kernels.State.own" = "tp"
"proj.kernels.Dynamic.own" = "tp"
"proj.kernels.Inherits.get" = "tp"
"proj.kernels.alias" = "tp"
"proj.kernels.late" = "tp"
"proj.dynamic.whatever" = "tp"
"proj.starring.starred" = "tp"
"proj.native.f" = "tp"
[tool.spmd-mypy.rules]
"proj.kernels.fused" = { nonlinear = ["x", "bias", "rest"], shape = ["eps"] }
"proj.kernels.anything" = { nonlinear = ["other"] }
"proj.kernels.wrapped" = { nonlinear = ["other"] }
"proj.kernels.registered" = { nonlinear = ["x"] }
"proj.kernels.many" = { nonlinear = ["x", "y"] }
"""


@pytest.fixture
def project(spmd: Commands) -> Commands:
    """A package beside the model."""
    Path("model.py").write_text("x = 1\n")
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text)
    return spmd


def findings(spmd: Commands, keys: str) -> list[tuple[str, str, str]]:
    """Level, text and advice of what doctor says of the names, with these keys in the configuration."""
    config = Path("pyproject.toml").read_text().partition("[tool.spmd-mypy]")[0]
    spmd.write(pyproject__toml=f"{config}[tool.spmd-mypy]\n{keys}")
    rows = json.loads(spmd("doctor", "--no-probe", "--output-format", "json").out)
    return [(row["level"], row["text"], row["advice"]) for row in rows if row["about"] in ("names", "configuration")]


def test_no_false_alarm(project: Commands) -> None:
    assert [row for row in findings(project, RIGHT) if row[0] != "ok"] == []
    assert project("check", "model.py").status == 0


@pytest.mark.parametrize(
    ("keys", "level", "text", "advice"),
    [
        ('axes = ["proj.mesh.Sec"]', "problem", "axes: proj.mesh.Sec: there is no Sec in proj.mesh", "proj.mesh.Seq?"),
        ('axes = ["proj.mash.Seq"]', "problem", "there is no mash in proj", "proj.mesh?"),
        ('axes = ["porj.mesh.Seq"]', "problem", "mypy does not find its module", "correct the path"),
        ('axes = ["loose.mash.Seq"]', "problem", "mypy does not find its module", "correct the path"),
        ('axes = ["proj.kernels.State"]', "problem", "State is no mesh axis", "derives from spmd_runtime.MeshAxis"),
        ('axes = ["proj.kernels.fused"]', "problem", "fused is no mesh axis", "derives from spmd_runtime.MeshAxis"),
        ('axes = ["proj.again.Seq"]', "problem", "Seq is only imported there", '"proj.mesh.Seq"'),
        ('axes = ["proj.Sequence"]', "problem", "Sequence is only imported there", '"proj.mesh.Seq"'),
        ('[tool.spmd-mypy.groups]\n"proj.kernels.get_pt" = "tp"', "problem", "no get_pt in", "proj.kernels.get_tp?"),
        ('[tool.spmd-mypy.groups]\n"proj.kernels.State.gets" = "tp"', "problem", "no gets in", "State.get?"),
        ('[tool.spmd-mypy.groups]\n"elsewhere.f" = "tp"', "warning", "mypy does not find its module", "no effect"),
        (
            '[tool.spmd-mypy.rules]\n"proj.kernels.fused" = { nonlinear = ["x"], index = ["bais"] }', "problem",
            "index names bais, which is no parameter of fused", "did you mean bias? it has x, bias, rest, eps",
        ),
        ('[tool.spmd-mypy.rules]\nfused = { nonlinear = ["x"] }', "problem", "expected the dotted path", ""),
        ('[tool.spmd-mypy.groups]\nproj.kernels.get_tp = "tp"', "problem", "with the quotation marks", ""),
    ],
)  # fmt: skip
def test_names_that_name_nothing(project: Commands, keys: str, level: str, text: str, advice: str) -> None:
    """The message has file, key and value, and what to do."""
    (found,) = [row for row in findings(project, keys) if row[0] != "ok"]
    assert found[0] == level
    assert "pyproject.toml: [tool.spmd-mypy" in found[1]
    assert text in found[1]
    assert advice in found[2]


def test_check_refuses_what_is_certain(project: Commands) -> None:
    """A name that is not in its module; but not a module that mypy does not find from what is checked."""
    findings(project, 'axes = ["proj.mesh.Sec"]')
    done = project("check", "model.py")
    assert done.status == 2
    assert "did you mean proj.mesh.Seq?" in done.err
    findings(project, '[tool.spmd-mypy.groups]\n"elsewhere.f" = "tp"')
    assert project("check", "model.py").status == 0
