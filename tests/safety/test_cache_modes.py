"""The same errors however mypy caches: cold, warm, edited, parallel, each cache format, fine-grained, the daemon."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mypy_runner import Message, Project, configuration

LAYERS = """\
from __future__ import annotations

import torch
import torch.nn.functional as F
from spmd_runtime import DP, TP, I, P, Parameter, R, S, Tensor, V, all_reduce
from torch import nn

Act = Tensor[V[DP], I[TP]]


class Linear(nn.Module):
    weight: Parameter[V[TP]]

    def forward(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return F.linear(x, self.weight)


def reduced(x: Tensor[P[TP]]) -> Tensor[R[TP]]:
    return all_reduce(x, TP, src=P, dst=R)
"""
MODEL = """\
from __future__ import annotations

import layers
import torch
import torch.distributed as dist
from layers import Act, Linear, reduced
from spmd_runtime import DP, TP, Group, I, P, R, S, Tensor, V
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Linear() for _ in range(2)])
        self.first = Linear()

    def forward(self, x: Tensor[R[TP]], act: Act, tp: Group[TP]) -> Tensor[R[TP]]:
        y = self.first(x)
        reveal_type(y)
        torch.exp(y)
        reveal_type(self.layers[0](x))
        dist.all_reduce(y, group=tp)
        reveal_type(y)
        x + act
        z: Tensor[V[TP]] = reduced(layers.reduced(y))
        return y + z
"""
USE = """\
from __future__ import annotations

import torch
from model import Model
from spmd_runtime import TP, P, R, Tensor


def use(model: Model, x: Tensor[P[TP]]) -> None:
    torch.exp(x)  # type: ignore[spmd-partial]
    torch.log(x)  # type: ignore[spmd]
    x.exp()
    model.first.weight + x
"""
FILES = {"layers.py": LAYERS, "model.py": MODEL, "use.py": USE}
# What ``reduced`` gives changes, and with it what its callers may do with the result.
EDITED = {
    "layers.py": LAYERS.replace("-> Tensor[R[TP]]:\n    return all", "-> Tensor[I[TP]]:\n    # now I\n    return all")
}
CONFIG = configuration()


def as_set(messages: list[Message]) -> list[tuple[str, int, str, str]]:
    """Messages without their order, which a daemon and parallel workers choose."""
    return sorted((m.file, m.line, m.severity, f"{m.message} [{m.code}]") for m in messages)


Messages = list[tuple[str, int, str, str]]


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Messages, Messages]:
    """What the plain run says before and after the edit, each in a folder of its own."""
    results = []
    for files in (FILES, {**FILES, **EDITED}):
        project = Project(tmp_path_factory.mktemp("plain"), CONFIG)
        results.append(as_set(project.check(*project.write(files)).messages))
    before, after = results
    assert {code for *_, text in before for code in [text.rpartition("[")[2]]} >= {"spmd-partial]", "spmd-mix]"}
    assert before != after
    return before, after


def three_runs(project: Project, *arguments: str) -> list[Messages]:
    """Cold, warm and edited, as seen in one folder with one cache."""
    paths = project.write(FILES)
    runs = [project.check(*arguments, *paths), project.check(*arguments, *paths)]
    project.write(EDITED)
    return [as_set(result.messages) for result in [*runs, project.check(*arguments, *paths)]]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["-n", "2"],
        ["--no-incremental"],
        ["--no-sqlite-cache"],
        ["--no-fixed-format-cache"],
        ["--no-sqlite-cache", "--no-fixed-format-cache", "--cache-fine-grained"],
    ],
    ids=lambda arguments: " ".join(arguments) or "default",
)
def test_caches(arguments: list[str], tmp_path: Path, expected: tuple[Messages, Messages]) -> None:
    before, after = expected
    project = Project(tmp_path, CONFIG)
    if arguments == ["--no-incremental"]:
        result = project.check(*arguments, *project.write(FILES))
        assert as_set(result.messages) == before
        return
    assert three_runs(project, *arguments) == [before, before, after]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[tuple[Project, list[str]]]:
    """A project and the command that talks to its own daemon, which is stopped in the end."""
    project = Project(tmp_path, CONFIG)
    dmypy = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(tmp_path / "dmypy.json")]
    yield project, dmypy
    project.command([*dmypy, "stop"], timeout=60)
    project.command([*dmypy, "kill"], timeout=60)


def test_daemon(daemon: tuple[Project, list[str]], expected: tuple[Messages, Messages]) -> None:
    project, dmypy = daemon
    before, after = expected
    paths = [str(path) for path in project.write(FILES)]
    config = ["--config-file", str(project.folder / "pyproject.toml"), "--cache-dir", str(project.folder / "cache")]
    flags = ["--no-pretty", "--no-color-output", "--no-error-summary", "--show-column-numbers", "--hide-error-context"]
    run = [*dmypy, "run", "--timeout", "300", "--", *config, *flags, *paths]
    seen = [as_set(project.command(run).messages) for _ in range(2)]
    time.sleep(1.1)  # the daemon tells files apart by whole seconds
    project.write(EDITED)
    seen.append(as_set(project.command(run).messages))
    time.sleep(1.1)
    project.write(FILES)
    seen.append(as_set(project.command(run).messages))
    assert seen == [before, before, after, before]


SAVED = """\
import torch
from spmd_runtime import TP, P, Tensor


def step(x: Tensor[P[TP]]) -> Tensor[P[TP]]:
    return x + torch.ones(1, requires_grad=True)
"""
# The same without gradients, on lines that moved.
UNSAVED = SAVED.replace("    return", "    # not\n    # saved\n    with torch.no_grad():\n        return")


@pytest.mark.parametrize("first", [SAVED, UNSAVED], ids=["saved", "unsaved"])
def test_what_an_editor_has_not_saved(first: str, tmp_path: Path) -> None:
    """Editors check it under ``--shadow-file``: what mypy says is that of the text shown, whatever the file holds."""
    shown = UNSAVED if first is SAVED else SAVED
    project = Project(tmp_path, CONFIG)
    file, unsaved, alone = project.write({"step.py": first, "unsaved.txt": shown, "alone.py": shown})
    told = project.check("--shadow-file", file, unsaved, file).messages
    expected = project.check(alone).messages
    assert expected
    assert [(m.line, m.column, m.message) for m in told] == [(m.line, m.column, m.message) for m in expected]
