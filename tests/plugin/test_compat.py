"""mypy's private parts: each is there in the installed version; without them the plugin works, more plainly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
from mypy.binder import ConditionalTypeBinder
from mypy.checker import TypeChecker
from mypy.checker_state import checker_state
from mypy.checkexpr import ExpressionChecker
from mypy.errors import ErrorInfo, Errors, ErrorWatcher
from mypy.options import Options
from mypy.semanal import SemanticAnalyzer
from mypy.typeanal import TypeAnalyser

from spmd_mypy.compat import WITHOUT_PRIVATE
from tests.mypy_runner import PRELUDE, Message, Project, cache_folder, check

# Owner, attribute, and what the plugin loses without it.
PRIVATE = [
    (TypeChecker, "lookup_type", "the types of operands in displays and of receivers"),
    (TypeChecker, "_type_maps", "time: hooks are called where there is no tensor"),
    (TypeChecker, "check_subtype", "complaints about values that a module declares"),
    (ConditionalTypeBinder, "put", "re-typing by flow"),
    (ConditionalTypeBinder, "get", "re-typing by flow"),
    (ExpressionChecker, "check_call", "calls through modules and wrappers"),
    (ExpressionChecker, "accept", "calls of lambdas"),
    (ExpressionChecker, "analyze_external_member_access", "parameters of stock modules"),
    (ExpressionChecker, "type_overrides", "time: hooks are called where there is no tensor"),
    (SemanticAnalyzer, "schedule_patch", "checks of hand-written autograd functions"),
    (TypeAnalyser, "analyze_type_with_type_info", "defaults of type arguments"),
]


@pytest.mark.parametrize(("owner", "name", "lost"), PRIVATE, ids=lambda value: getattr(value, "__name__", value))
def test_a_private_part_is_there(owner: type, name: str, lost: str) -> None:
    assert hasattr(owner, name), f"mypy {version('mypy')} has no {owner.__name__}.{name}: the plugin loses {lost}"


def test_mypy_says_which_checker_is_at_work() -> None:
    """That it is the right one shows in ``test_lookups.py``."""
    assert hasattr(checker_state, "type_checker"), f"mypy {version('mypy')} keeps no checker: messages stay mypy's own"


def test_the_stack_of_error_watchers_takes_a_filter() -> None:
    seen: list[str] = []
    errors = Errors(Options())
    errors.set_file("m.py", "m", Options())

    def keep(file: str, info: ErrorInfo) -> bool:
        seen.append(info.message)
        return True

    errors._watchers.insert(0, ErrorWatcher(errors, filter_errors=keep))
    errors.report(1, 0, "dropped")
    assert seen == ["dropped"]
    assert not errors.is_errors(), f"mypy {version('mypy')} records what a watcher drops: messages stay mypy's own"


SOURCE = f"""{PRELUDE}
def f(p: Tensor[V[DP], P[TP]], r: Tensor[R[TP]]) -> Tensor[R[TP]]:
    F.gelu(p)
    y = spmd.all_reduce(p, TP, dst=R)
    torch.cat([y, r])
    [q * 2 for q in (p, r)]
    nn.Linear(3, 3)(r)
    p + r
    return p
"""

# mypy as a program, without the private parts: those that are attributes of its classes, and the filters of errors.
DELETED = f"""
import mypy.__main__, mypy.build, mypy.checker_state, mypy.errors
from importlib import import_module
for module, owner, name in {[(owner.__module__, owner.__qualname__, name) for owner, name, _ in PRIVATE]}:
    for class_ in getattr(import_module(module), owner).__mro__:
        if name in vars(class_):
            delattr(class_, name)
del mypy.errors.ErrorWatcher, mypy.checker_state.checker_state
mypy.__main__.console_entry()
"""


def switched_off(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """mypy's messages with the plugin told to use no private part."""
    del folder
    monkeypatch.setenv(WITHOUT_PRIVATE, "1")
    return check(source)


def deleted(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Message]:
    """mypy's messages where the private parts are really missing, which the plugin has to find out."""
    del monkeypatch
    project = Project(folder)
    # Another text than above: mypy takes what it said of the same text from its cache.
    paths = project.write({"main_module.py": f"{source}# deleted\n"})
    options = ["--config-file", str(folder / "pyproject.toml"), "--cache-dir", str(cache_folder(project.config))]
    result = project.command([sys.executable, "-c", DELETED, *options, "--no-error-summary", *map(str, paths)])
    assert result.status == 1, result.output
    return result.messages


@pytest.mark.parametrize("without", [switched_off, deleted])
def test_without_private_parts_the_rules_hold_and_nothing_crashes(
    without: Callable[[str, Path, pytest.MonkeyPatch], list[Message]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [(m.line, m.code) for m in without(SOURCE, tmp_path, monkeypatch) if m.severity == "error"]
    lines = SOURCE.splitlines()
    found = {(lines[line - 1].strip(), code) for line, code in errors}
    assert ("F.gelu(p)", "spmd-partial") in found
    assert any(text == "p + r" for text, _ in found)
    # mypy's own complaint stays, under mypy's own code.
    assert ("return p", "return-value") in found
    assert not any(text.startswith(("y =", "torch.cat", "[q", "nn.")) for text, _ in found)
