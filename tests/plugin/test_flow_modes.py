"""Flow, groups and handles: the same verdicts however mypy is run.

The types of groups and meshes cross modules through caches; re-typed variables, aliases and handles are followed by
nodes of the syntax tree, which the daemon replaces bit by bit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mypy_runner import Project, Result, cache_folder, compare, parse

LIBRARY = """
from __future__ import annotations
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from spmd_runtime import DP, TP, Group, P, Pending, R, Tensor, V, all_reduce

class Parallel:
    def __init__(self, mesh: DeviceMesh) -> None:
        self.tp = mesh.get_group("tp")
        self.dp: Group[DP] = mesh.get_group("dp")
        self.mesh = mesh["tp"]
        self.total = torch.zeros(1)

def make() -> Group[TP]:
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")).get_group("tp")

def start(x: Tensor[P[TP]]) -> Pending[Tensor[R[TP]]]:
    return all_reduce(x, TP, dst=R, async_op=True)

shared = make()
"""
USER = """
from __future__ import annotations
import torch
import torch.distributed as dist
from library import Parallel, make, shared, start
from spmd_runtime import DP, TP, P, R, Tensor, V, all_reduce

def groups(x: Tensor[R[DP], P[TP]], p: Parallel) -> None:
    reveal_type(all_reduce(x, p.tp, dst=R))  # R: Tensor[R[DP], R[TP]]
    reveal_type(all_reduce(x, p.mesh.get_group(), dst=R))  # R: Tensor[R[DP], R[TP]]
    reveal_type(all_reduce(x, make(), dst=R))  # R: Tensor[R[DP], R[TP]]
    reveal_type(all_reduce(x, shared, dst=R))  # R: Tensor[R[DP], R[TP]]
    all_reduce(x, p.dp, dst=R)  # E: spmd-collective

def flow(x: Tensor[P[TP]], p: Parallel, flag: bool) -> Tensor[R[TP]]:
    y = x.clone()
    z = y.view(-1)
    handle = dist.all_reduce(y, group=p.tp, async_op=True)
    y.sqrt()  # E: spmd-collective
    handle.wait()
    y.sqrt()
    z.sqrt()
    w = x * 2
    if flag:
        dist.all_reduce(w, group=p.tp)
    w.sqrt()  # E: spmd-partial
    dist.all_reduce(p.total, group=p.tp)
    return start(x)  # E: spmd-collective

def loops(x: Tensor[P[TP]], p: Parallel) -> None:
    count = torch.tensor(len(x)) * 2
    dist.all_reduce(count, group=p.tp)
    y = x.clone()
    for _ in range(2):
        dist.all_reduce(y, group=p.tp)  # E: spmd-collective
"""
# Edits of one file, each of which changes what is reported.
EDITS = [
    ("library.py", 'self.tp = mesh.get_group("tp")', 'self.tp = mesh.get_group("dp")'),
    ("library.py", 'self.mesh = mesh["tp"]', 'self.mesh = mesh["dp"]'),
    ("user.py", "    handle.wait()\n", "    handle.is_completed()\n"),
]


def unmet(result: Result, user: str = USER) -> list[str]:
    assert result.status == 1, result.output
    assert [m for m in result.errors if m.file == "library.py"] == []
    return compare(user, [m for m in result.messages if m.file == "user.py"], "user.py")


def write(project: Project, library: str = LIBRARY, user: str = USER) -> list[Path]:
    return project.write({"library.py": library, "user.py": user})


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_cold_warm_and_edited(project: Project) -> None:
    assert unmet(project.check(*write(project))) == []
    assert unmet(project.check(*write(project))) == []
    assert unmet(project.check(*write(project, user=USER + "# edited\n"))) == []
    assert unmet(project.check(*write(project, library=LIBRARY + "# edited\n", user=USER + "# edited\n"))) == []


def test_two_workers(project: Project) -> None:
    assert unmet(project.check("-n", "2", *write(project))) == []
    assert unmet(project.check("-n", "2", *write(project, user=USER + "# edited\n"))) == []


@pytest.fixture(name="daemon")
def _daemon(project: Project) -> Iterator[list[str]]:
    command = [sys.executable, "-m", "mypy.dmypy", "--status-file", str(project.folder / "status.json")]
    yield command
    project.command([*command, "kill"], timeout=30)


def test_daemon_after_edits(project: Project, daemon: list[str]) -> None:
    def check(library: str, user: str) -> Result:
        paths = write(project, library, user)
        options = [
            "--config-file",
            str(project.folder / "pyproject.toml"),
            "--cache-dir",
            str(cache_folder(project.config)),
        ]
        shown = ["--no-pretty", "--no-color-output", "--no-error-summary", "--show-column-numbers"]
        result = project.command([*daemon, "run", "--", *options, *shown, *map(str, paths)])
        return Result(result.status, parse(result.output, project.folder), result.output)

    assert unmet(check(LIBRARY, USER)) == []
    for file, old, new in EDITS:
        texts = {"library.py": LIBRARY, "user.py": USER}
        assert old in texts[file]
        texts[file] = texts[file].replace(old, new)
        time.sleep(1.1)  # the daemon's file watcher compares whole seconds
        edited = check(texts["library.py"], texts["user.py"])
        fresh = project.check(*write(project, texts["library.py"], texts["user.py"]))
        assert sorted(map(str, edited.messages)) == sorted(map(str, fresh.messages))
        assert compare(USER, [m for m in edited.messages if m.file == "user.py"]) != []
        time.sleep(1.1)
        assert unmet(check(LIBRARY, USER)) == []
