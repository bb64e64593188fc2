"""``spmd coverage`` counts what is typed, says where the rest is lost, and fails below a minimum."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Commands

MODEL = """\
from typing import Any

import torch
import torch.nn.functional as F

from spmd_runtime import DP, TP, P, R, Tensor, V, all_reduce


def helper(x: torch.Tensor) -> torch.Tensor:
    return x


def untyped(x):
    return x + 1


def forward(x: Tensor[V[DP], V[TP]], w: Tensor[R[DP], V[TP]]) -> None:
    h = F.linear(x, w)
    y = helper(h)
    z = y * 2
    u = torch.randn(3)
    v = u + 1
    a = untyped(h)
"""
TYPED = """\
from spmd_runtime import CP, DP, TP, P, R, Tensor, all_reduce


def f(x: Tensor[R[DP], R[CP], P[TP]]) -> Tensor[R[DP], R[CP], R[TP]]:
    return all_reduce(x * 2, TP, dst=R)
"""


@pytest.fixture(autouse=True)
def lenient(spmd: Commands) -> None:
    """mypy does not look into functions without annotations in the module ``model``."""
    config = Path("pyproject.toml").read_text()
    spmd.write(pyproject__toml=config + '[[tool.mypy.overrides]]\nmodule = "model"\ncheck_untyped_defs = false\n')


@pytest.fixture(scope="module")
def causes() -> dict[int, str]:
    """Per line of MODEL the cause expected there."""
    return {
        9: "parameter x of helper is declared without its type",
        19: "helper() returns a tensor without its type",
        21: "torch.randn() gives a tensor of unknown type",
        23: "untyped() gives Any",
    }


def test_counts_and_causes(spmd: Commands, causes: dict[int, str]) -> None:
    """x, w, F.linear, and h twice are typed; one use of x, helper(), y, y * 2, randn(), u, u + 1, untyped() are not."""
    spmd.write(model__py=MODEL, typed__py=TYPED)
    done = spmd("coverage", "model.py", "typed.py", "--output-format", "json")
    assert done.status == 0
    model, typed = json.loads(done.out)["files"]
    assert (model["tensors"], model["typed"]) == (13, 5)
    assert model["axes"] == {"dp": 5, "cp": 0, "tp": 5}
    assert {c["line"]: c["text"] for c in model["causes"]} == causes
    assert {c["line"]: c["count"] for c in model["causes"]} == {9: 1, 19: 3, 21: 3, 23: 1}
    assert model["unchecked_functions"] == [{"name": "untyped", "line": 13}]
    assert (typed["tensors"], typed["percent"], typed["causes"]) == (3, 100.0, [])


def test_a_second_run_counts_the_same(spmd: Commands) -> None:
    """Nothing of the project's own comes out of a cache."""
    spmd.write(typed__py=TYPED)
    first = spmd("coverage", "typed.py")
    assert "100.0 %" in first.out
    assert spmd("coverage", "typed.py").out == first.out


def test_minimum(spmd: Commands) -> None:
    spmd.write(model__py=MODEL, typed__py=TYPED)
    assert spmd("coverage", "typed.py", "--fail-under", "100").status == 0
    done = spmd("coverage", "model.py", "--fail-under", "90")
    assert done.status == 1
    assert "38.5 % of the tensor expressions are typed; the minimum is 90 %" in done.err
    assert spmd("coverage", "model.py", "--axis", "cp", "--fail-under", "1").status == 1


def test_nothing_to_count_is_not_everything(spmd: Commands) -> None:
    spmd.write(empty__py="x = 1\n")
    done = spmd("coverage", "empty.py", "--fail-under", "1")
    assert done.status == 1
    assert "no tensor expression" in done.err


def test_what_follows_an_error_is_said_to(spmd: Commands) -> None:
    spmd.write(
        model__py=(
            "import torch\nfrom spmd_runtime import TP, P, Tensor\n\n\n"
            "def f(x: Tensor[P[TP]]) -> None:\n    y = torch.relu(x)\n    z = y + 1\n"
        )
    )
    row = json.loads(spmd("coverage", "model.py", "--output-format", "json").out)["files"][0]
    assert row["causes"] == [{"line": 6, "text": "an error is reported here: what follows is unknown", "count": 3}]


LOOPS = """\
from typing import Any

import torch
import torch.nn as nn

from spmd_runtime import CP, DP, TP, R, Tensor

X = Tensor[R[DP], R[CP], R[TP]]


def fresh(x: X, n: int) -> None:
    out = x
    while n:
        out = torch.empty_like(out)
        out = out + x


def fresh_before(x: X, n: int) -> torch.Tensor:
    out = torch.empty_like(x)
    for _ in range(n):
        y = out * 2
        out = y + x
    return out


def undeclared(ts: list[torch.Tensor], x: X) -> None:
    acc = x
    for t in ts:
        acc = acc + t


def of_modules(layers: list[nn.Module], x: X) -> None:
    for layer in layers:
        x = layer(x)


def held(x: X, state: Any) -> None:
    a, b = state["h"].chunk(2)
    pair = (torch.cat([x, a]), x)
    total = pair[0] * 2


def paired(grads: list[torch.Tensor], x: X) -> None:
    named = {str(i): g for i, g in zip(range(2), grads)}
    for name, g in named.items():
        x * g


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.rand(4))

    def forward(self, x: X) -> None:
        h, rest = self.up(x).chunk(2)
        y = x * self.scale
"""


def test_causes_in_loops_containers_and_modules(spmd: Commands) -> None:
    """Each unknown type is put down to the place where it began, not to one on the way."""
    spmd.write(model__py=LOOPS)
    (file,) = json.loads(spmd("coverage", "model.py", "--output-format", "json").out)["files"]
    assert {(c["line"], c["text"]) for c in file["causes"]} == {
        (14, "torch.empty_like() gives a tensor of unknown type"),
        (19, "torch.empty_like() gives a tensor of unknown type"),
        (26, "parameter ts of undeclared is declared without its type"),
        (34, "layer() gives Any"),
        (37, "parameter state of held is Any"),
        (43, "parameter grads of paired is declared without its type"),
        (53, "torch.rand() gives a tensor of unknown type"),
        (53, "Block.scale is declared without its type"),
        (56, "Linear.weight is declared without its type"),
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--axis", "zz", "model.py"], "there is no mesh axis 'zz'"),
        (["--fail-under", "110", "model.py"], "110"),
        (["nowhere.py"], "nowhere.py"),
    ],
)
def test_bad_input(spmd: Commands, arguments: list[str], expected: str) -> None:
    done = spmd("coverage", *arguments)
    assert done.status == 2
    assert expected in done.err
