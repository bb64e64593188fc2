"""Modules, containers, typed modules and autograd functions across files: the same verdicts however mypy is run.

Cold, warm, after edits, with two workers, and from the daemon: what the plugin adds (classes of typed modules,
elements' positions, types of contexts) must survive caches and updates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mypy_runner import Message, Project, Result, cache_folder, compare, configuration, parse

LIBRARY = """
from __future__ import annotations
import functools
from typing import Any
import torch
import torch.nn.functional as F
from torch import nn
import spmd_runtime as spmd
from spmd_runtime import TP, P, R, Tensor, V, all_reduce, convert

class Block(nn.Module):
    def forward(self, x: Tensor[R[TP]]) -> Tensor[R[TP]]:
        return x

class Split(nn.Module):
    def forward(self, x: Tensor[R[TP]]) -> Tensor[P[TP]]:
        return convert(x, TP, src=R, dst=P)

class Join(nn.Module):
    def forward(self, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(x, TP, dst=R)

class Model(nn.Module):
    opened: nn.ModuleList

    def __init__(self) -> None:
        super().__init__()
        self.opened = nn.ModuleList([Split(), Split()])
        self.act = F.gelu
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.pair = nn.ModuleList([Split(), Join()])
        self.sequence = nn.Sequential(Split(), Join())
        self.table = nn.ModuleDict({"split": Split(), "join": Join()})
        self.up = spmd.typed(nn.Linear(4, 4), weight=V[TP], bias=V[TP])
        self.ups = nn.ModuleList([spmd.typed(nn.Linear(4, 4, bias=False), weight=V[TP]) for _ in range(2)])
        self.later = nn.ModuleList()
        for _ in range(3):
            self.later.append(Split())

activation = torch.relu

class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[R[TP]]:
        ctx.save_for_backward(x)
        return all_reduce(x, TP, dst=R)

    @staticmethod
    def backward(ctx: Any, grad: Tensor[P[TP]]) -> Tensor[R[TP]]:
        return all_reduce(grad, TP, dst=R)

reduce = Reduce.apply

@functools.lru_cache(None)
def cached(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)

@torch.autocast("cpu")
def cast(x: Tensor[R[TP]]) -> Tensor[P[TP]]:
    return convert(x, TP, src=R, dst=P)
"""

USER = """
from __future__ import annotations
import torch.nn.functional as F
from library import Model, Reduce, activation, cached, cast, reduce
from spmd_runtime import TP, P, R, Tensor, V

class Sub(Model):
    pass

def use(m: Model, s: Sub, r: Tensor[R[TP]], p: Tensor[P[TP]]) -> None:
    reveal_type(m.blocks[0](r))  # R: Tensor[R[TP]]
    m.blocks[0](p)  # E: spmd-arg
    reveal_type(m.pair[1](m.pair[0](r)))  # R: Tensor[R[TP]]
    m.pair[1](r)  # E: spmd-arg
    reveal_type(m.sequence(r))  # R: Tensor[R[TP]]
    m.sequence(p)  # E: spmd-arg
    reveal_type(m.table["join"](p))  # R: Tensor[R[TP]]
    m.table["split"](p)  # E: spmd-arg
    reveal_type(s.up(r))  # R: Tensor[V[TP]]
    m.up(p)  # E: spmd-mix
    for up in s.ups:
        reveal_type(up(r))  # R: Tensor[V[TP]]
        up(p)  # E: spmd-mix
    for layer in m.later:
        reveal_type(layer(r))  # R: Tensor[P[TP]]
        layer(p)  # E: spmd-arg
    for layer in m.opened:
        reveal_type(layer(r))  # R: Tensor[P[TP]]
        layer(p)  # E: spmd-arg
    m.act(p)  # E: spmd-partial
    s.act(p)  # E: spmd-partial
    reveal_type(s.act(r))  # R: Tensor[R[TP]]
    activation(p)  # E: spmd-partial
    reveal_type(Reduce.apply(p))  # R: Tensor[R[TP]]
    Reduce.apply(r)  # E: spmd-arg
    reveal_type(reduce(p))  # R: Tensor[R[TP]]
    reduce(r)  # E: spmd-arg
    F.gelu(cached(r))  # E: spmd-partial
    cached(p)  # E: spmd-arg
    F.gelu(cast(r))  # E: spmd-partial
    cast(p)  # E: spmd-arg
"""

# An edit of the library, and what it changes where it is used.
EDITS = [
    ("self.act = F.gelu", "self.act = torch.neg", 2),
    ("activation = torch.relu", "activation = torch.neg", 1),
    ("self.opened = nn.ModuleList([Split(), Split()])", "self.opened = nn.ModuleList([Block(), Block()])", 1),
    ("self.pair = nn.ModuleList([Split(), Join()])", "self.pair = nn.ModuleList([Join(), Split()])", 2),
    ("weight=V[TP], bias=V[TP])", "weight=P[TP], bias=P[TP])", 2),
    ("            self.later.append(Split())", "            self.later.append(Block())", 1),
    (
        "    def forward(ctx: Any, x: Tensor[P[TP]]) -> Tensor[R[TP]]:",
        "    def forward(ctx: Any, x) -> Tensor[R[TP]]:",
        2,
    ),
]


def write(project: Project, library: str, user: str = USER) -> list[Path]:
    return project.write({"library.py": library, "user.py": user})


def unmet(result: Result) -> list[str]:
    assert result.status == 1, result.output
    assert [m for m in result.errors if m.file == "library.py"] == []
    return compare(USER, [m for m in result.messages if m.file == "user.py"], "user.py")


def verdicts(messages: list[Message]) -> list[tuple[str, int, str, str]]:
    return sorted((m.file, m.line, m.code, m.message) for m in messages)


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_cold_warm_and_edited(project: Project) -> None:
    assert unmet(project.check(*write(project, LIBRARY))) == []
    assert unmet(project.check(*write(project, LIBRARY, USER + "# edited\n"))) == []
    assert unmet(project.check(*write(project, LIBRARY + "# edited\n", USER + "# edited\n"))) == []
    assert unmet(project.check(*write(project, LIBRARY + "# edited\n", USER + "# edited again\n"))) == []


def test_two_workers(project: Project) -> None:
    paths = write(project, LIBRARY)
    assert unmet(project.check("-n", "2", *paths)) == []
    assert unmet(project.check("-n", "2", *write(project, LIBRARY, USER + "# edited\n"))) == []


class Daemon:
    """mypy's daemon over a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.command = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(project.folder / "status.json")]

    def check(self, paths: list[Path]) -> Result:
        cache = cache_folder(self.project.config)
        options = ["--config-file", str(self.project.folder / "pyproject.toml"), "--cache-dir", str(cache)]
        shown = ["--no-pretty", "--no-color-output", "--no-error-summary", "--show-column-numbers"]
        result = self.project.command([*self.command, "run", "--", *options, *shown, *map(str, paths)])
        return Result(result.status, parse(result.output, self.project.folder), result.output)

    def stop(self) -> None:
        self.project.command([*self.command, "kill"], timeout=30)


@pytest.fixture(name="daemon")
def _daemon(project: Project) -> Iterator[Daemon]:
    daemon = Daemon(project)
    yield daemon
    daemon.stop()


def test_daemon_after_edits(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> None:
    project = daemon.project
    assert unmet(daemon.check(write(project, LIBRARY))) == []
    library = LIBRARY
    for number, (old, new, least) in enumerate(EDITS):
        assert old in library
        library = library.replace(old, new)
        time.sleep(1.1)  # the daemon's file watcher compares whole seconds
        result = daemon.check(write(project, library))
        fresh = Project(tmp_path_factory.mktemp(f"fresh{number}"), configuration())
        assert verdicts(result.messages) == verdicts(fresh.check(*write(fresh, library)).messages)
        assert len(compare(USER, [m for m in result.messages if m.file == "user.py"])) >= least
    time.sleep(1.1)
    assert unmet(daemon.check(write(project, LIBRARY))) == []
