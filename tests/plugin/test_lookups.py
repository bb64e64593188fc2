"""Names that are answered by a quick look get the answer that the long way gives."""

from __future__ import annotations

from pathlib import Path

from tests.mypy_runner import Project, configuration

HERE = Path(__file__).parent

# A plugin that takes both ways for every name, and keeps what it was asked.
PROBE = """
from pathlib import Path

from spmd_mypy.dispatch import Dispatch
from spmd_mypy.hooks.lookups import Silent
from spmd_mypy.plugin import plugin

asked = Path(__file__).with_suffix(".txt")
made = []
lookups = Dispatch.lookups


def remember(self):
    made.append(self)
    return lookups(self)


def both(quick, *questions):
    def answer(self, fullname):
        found = quick(self, fullname)
        # Until the watcher is in place every call has a hook, to put it there, and no quick answer is given.
        if found and made[-1].bench.watcher.stays:
            ways = Silent.function, Silent.method
            Silent.function = Silent.method = lambda self, fullname: False
            hooks = [getattr(made[-1], question)(fullname) for question in questions]
            Silent.function, Silent.method = ways
            with asked.open("a") as file:
                print(fullname, *hooks, file=file)
        return found

    return answer


Dispatch.lookups = remember
Silent.function = both(Silent.function, "get_function_hook", "get_function_signature_hook")
Silent.method = both(Silent.method, "get_method_hook", "get_method_signature_hook")
"""

# Of every kind one name that is silent, and one beside it that is not.
KINDS = """
from typing import Generic, TypeVar
import torch
import torch.nn as nn
import spmd_runtime as spmd
from spmd_runtime import TP, Tensor, V

T = TypeVar("T")


@spmd.rule(linear=["x"])
def own(x: torch.Tensor) -> torch.Tensor:
    return x


def same(x: T) -> T:
    return x


def half(x: int) -> int:
    return x


class Box(nn.Module):
    def forward(self, x: Tensor[V[TP]]) -> Tensor[V[TP]]:
        return own(x)

    def keep(self, x: T) -> T:
        return x

    def size(self, n: int) -> int:
        return half(n)


def use(x: Tensor[V[TP]]) -> None:
    box = Box()
    box(box.keep(same(x)))
    box.size(same(2))
"""


def test_the_quick_look_agrees_with_the_long_way(tmp_path: Path) -> None:
    folders = ("core", "functions", "modules", "flow", "autograd")
    paths = [path for folder in folders for path in sorted((HERE / folder).glob("*.py"))]
    here = f"\n# {tmp_path}\n"  # not in mypy's cache from another run
    files = {f"{path.parent.name}_{path.name}": path.read_text() + here for path in paths}
    project = Project(tmp_path, configuration(options={"plugins": ["probe.py"]}))
    (probe,) = project.write({"probe.py": PROBE})
    result = project.run(*project.write({**files, "kinds.py": KINDS + here}), timeout=900)
    assert result.status == 1, result.output[-3000:]
    answers = [line.split(" ", 1) for line in probe.with_suffix(".txt").read_text().splitlines()]
    assert {hooks for _, hooks in answers} == {"None None"}
    names = {name for name, _ in answers}
    print(f"\n{len(names)} names are answered by a quick look")
    assert len(names) > 200
    assert {"kinds.half", "kinds.Box", "kinds.use", "kinds.Box.size"} & names == {
        "kinds.half", "kinds.Box", "kinds.Box.size",
    }  # fmt: skip
    assert not {"kinds.own", "kinds.same", "kinds.Box.keep", "kinds.Box.forward", "kinds.Box.__call__"} & names
