"""Names that are answered by a quick look get the answer that the long way gives."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import torch
from mypy.types import AnyType, NoneType, TypeOfAny

from spmd_mypy.compat import Watcher
from spmd_mypy.hooks.at_hand import AtHand
from spmd_mypy.hooks.operations import PROPERTIES
from spmd_mypy.rules import ops
from tests.mypy_runner import Project, configuration

HERE = Path(__file__).parent

# A plugin that takes both ways for every name, and keeps what it was asked; for calls of generic functions, whether the
# hook was thought needed where it took the declared type away; and for calls of Python's own functions, whether it was
# thought that a tensor may be at hand where the hook found something to say.
PROBE = """
from pathlib import Path

from spmd_mypy import compat
from spmd_mypy.dispatch import Dispatch
from spmd_mypy.hooks.at_hand import AtHand
from spmd_mypy.hooks.inference import Inference
from spmd_mypy.hooks.containers import SEQUENTIAL
from spmd_mypy.hooks.lookups import Silent
from spmd_mypy.hooks.signatures import forward_owner, is_module, stock_operation
from spmd_mypy.plugin import plugin

asked = Path(__file__).with_suffix(".txt")
called = Path(__file__).with_suffix(".called")
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
            long_way(fullname, *questions)
        return found

    return answer


def long_way(fullname, *questions):
    ways = Silent.function, Silent.method
    Silent.function = Silent.method = lambda self, fullname: False
    hooks = [getattr(made[-1], question)(fullname) for question in questions]
    Silent.function, Silent.method = ways
    if fullname.endswith(".__call__"):  # any class's
        hooks = [hook is not None for hook in hooks]
    with asked.open("a") as file:
        print(fullname, *hooks, file=file)


def of_a_module(self, tree):
    # Asked at once, and again when mypy has gone on to other modules and has inferred more.
    found = defined(self, tree)
    modules.append(found)
    for functions, methods, classes, stock in modules:
        for name in functions:
            long_way(name, "get_function_hook", "get_function_signature_hook")
        for name in methods + [f"{name}.__call__" for name in classes]:
            long_way(name, "get_method_hook", "get_method_signature_hook")
        for name in classes:
            info = made[-1].bench.layouts.info(name)
            if info is not None and is_module(info):
                owner = forward_owner(info)
                torchs = stock_operation(info) is not None or (owner is not None and owner.fullname == SEQUENTIAL)
                with called.open("a") as file:
                    print(name, torchs, name in stock, file=file)
    return found


def question():
    # The hook on generic functions is called where it is not needed, too.
    expected.append(needed())
    with forgotten.open("a") as file:
        print("asked", expected[-1], file=file)
    return True


def forgets(api):
    with forgotten.open("a") as file:
        print("taken away", expected[-1], file=file)


def without_context(ctx):
    try:
        return inferred(ctx)
    finally:
        expected.append("not asked")  # the next hook may be the first of its name


def at_hand(self):
    # The hooks on Python's own functions are called where there is nothing for them, too.
    told.append(tensors(self))
    return True


def of_tensors(self, hook):
    def called(ctx):
        thought, failures = told[-1], self.bench.failures
        result = hook(ctx)
        did = result is not ctx.default_return_type or self.bench.failures != failures
        with ordinary.open("a") as file:
            print("at hand", thought, "did", did, file=file)
        return result

    return guarded(self, called)


told = []
ordinary = Path(__file__).with_suffix(".ordinary")
tensors, AtHand.tensors = AtHand.tensors, at_hand
guarded, Dispatch._of_tensors = Dispatch._of_tensors, of_tensors

forgotten = Path(__file__).with_suffix(".forgotten")
expected = ["not asked"]
needed, inferred = Inference.needed, Inference.without_context
Inference.needed, Inference.without_context = staticmethod(question), staticmethod(without_context)
forget, compat.forget_expected_type = compat.forget_expected_type, lambda api: (forgets(api), forget(api))
Dispatch.lookups = remember
modules = []
defined, Silent.defined = Silent.defined, of_a_module
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

    @classmethod
    def made(cls, n: int) -> "Box":
        return cls()

    @staticmethod
    def kept(x: T) -> T:
        return x


class Narrow(nn.Linear):
    pass


def use(x: Tensor[V[TP]]) -> None:
    box = Box()
    box(box.keep(same(x)))
    box.size(same(2))
    plain: torch.Tensor = same(x)
    again: torch.Tensor = same(x)
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
    answers = {tuple(line.split(" ", 1)) for line in probe.with_suffix(".txt").read_text().splitlines()}
    calls = {name for name, _ in answers if name.endswith(".__call__")}
    assert {hooks for name, hooks in answers if name in calls} == {"True True"}
    assert {hooks for name, hooks in answers if name not in calls} == {"None None"}
    names = {name for name, _ in answers}
    print(f"\n{len(names)} names are answered by a quick look")
    assert len(names) > 500
    assert {"kinds.half", "kinds.Box", "kinds.use", "kinds.Box.size", "kinds.Box.made", "kinds.Box.__call__"} <= names
    assert not {"kinds.own", "kinds.same", "kinds.Box.keep", "kinds.Box.kept", "kinds.Box.forward"} & names
    modules = {tuple(line.split()) for line in probe.with_suffix(".called").read_text().splitlines()}
    assert {("kinds.Box", "False", "False"), ("kinds.Narrow", "True", "True")} <= modules
    assert not [name for name, torchs, told in modules if (torchs, told) == ("True", "False")]
    forgotten = set(probe.with_suffix(".forgotten").read_text().splitlines())
    assert {"asked True", "asked False", "taken away True"} <= forgotten
    assert "taken away False" not in forgotten
    ordinary = set(probe.with_suffix(".ordinary").read_text().splitlines())
    assert {"at hand True did True", "at hand True did False", "at hand False did False"} == ordinary


def test_mypy_gets_the_hook_that_it_was_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks whether there is one, then for the one to call, and ends in an internal error where there is none."""
    at_hand = AtHand(Watcher(lambda file, error: True))
    untyped, nothing = [AnyType(TypeOfAny.special_form)], [NoneType()]
    at_hand._watcher.stays = True
    answers = []
    for types in (nothing, untyped, nothing, nothing, untyped, untyped, nothing):
        monkeypatch.setattr("spmd_mypy.compat.types_at_hand", lambda types=types: types)
        answers.append(at_hand.tensors())
    assert answers == [False, True, True, False, True, True, False]


def test_the_table_of_properties_has_every_attribute_that_is_a_tensor() -> None:
    package = Path(torch.__file__).parent
    names: set[str] = set()
    for path, cls in (("_C/__init__.pyi", "TensorBase"), ("_tensor.py", "Tensor"), ("nn/parameter.py", "Parameter")):
        tree = ast.parse((package / path).read_text())
        body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls)
        for node in body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name, of = node.target.id, ast.unparse(node.annotation)
            elif isinstance(node, ast.FunctionDef) and any(ast.unparse(d) == "property" for d in node.decorator_list):
                name, of = node.name, ast.unparse(node.returns) if node.returns else ""
            else:
                continue
            if re.search(r"\bTensor\b", of):
                names.add(name)
    assert {"T", "mT", "data", "real"} < names
    known = {name for name in names if ops.known(f"Tensor.{name}")}
    assert known - {"grad"} <= set(PROPERTIES)  # .grad has a hook of its own
