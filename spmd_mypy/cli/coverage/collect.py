"""The tensor expressions of a file, and on which mesh axes the type of each is known.

Counted is every expression that reads or makes a tensor: names, attributes, calls, operators, indexing.  A target of an
assignment is not.  A call that takes a tensor and gives Any counts too: nothing behind it is checked.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mypy import build
from mypy.errors import CompileError
from mypy.nodes import CallExpr, Expression, MemberExpr, MypyFile
from mypy.plugin import Plugin, ReportConfigContext
from mypy.types import AnyType, ProperType, TupleType, Type, TypeVarType, UnionType, get_proper_type

from spmd_mypy.cli.coverage.walk import File, Seen, walk
from spmd_mypy.cli.settings import Settings
from spmd_mypy.config import Config, load
from spmd_mypy.layout import axis_type, is_tensor, layout_argument

_ERROR: Final = re.compile(r"^(?P<file>.+?):(?P<line>\d+)(?::\d+)*: error: .*\[spmd[\w-]*\]$")
# Calls that leave the world of tensors; torch's annotations say Any for some.
_LEAVING: Final = frozenset({"item", "tolist", "numpy", "backward", "data_ptr", "size", "register_hook"})


@dataclass
class Collected:
    """All files, and the types of their expressions."""

    config: Config
    files: list[File]
    types: Mapping[Expression, Type]


class CollectError(Exception):
    """mypy could not check the files; the message is what it said."""


class _Reader(Plugin):
    """Has the project's own modules checked anew in each run, and reads their trees before mypy drops them.

    What is installed stays in the cache: torch is read once.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.options)
        self.settings = settings
        self.token = uuid.uuid4().hex
        self.wanted = {source.module for source in settings.sources}
        self.files: dict[str, File] = {}

    def report_config_data(self, ctx: ReportConfigContext) -> Any:
        """Something new in every run, for modules that are not installed."""
        installed = {"site-packages", "dist-packages", "typeshed"} & set(Path(ctx.path).parts)
        return None if installed else self.token

    def get_additional_indirect_deps(self, file: MypyFile) -> set[str]:
        """Called once for each checked module, at its end."""
        self.read(file)
        return set()

    def read(self, tree: MypyFile) -> None:
        """Walk a module's tree, unless it is none of those asked for or has been walked."""
        if tree.fullname in self.wanted and tree.fullname not in self.files:
            check_untyped = self.settings.for_module(tree.fullname).check_untyped_defs
            self.files[tree.fullname] = walk(tree, check_untyped=check_untyped)


def collect(settings: Settings) -> Collected:
    """Check the settings' sources; raises CollectError where mypy cannot."""
    options = settings.options
    options.export_types = options.incremental = True
    options.preserve_asts = not hasattr(Plugin, "get_additional_indirect_deps")  # before mypy 2.4, at some cost
    options.num_workers = 0
    options.cache_dir = str(Path(settings.cache_dir) / "spmd" / "coverage")
    config = load(settings.config_file)
    reader = _Reader(settings)
    try:
        result = build.build(list(settings.sources), options, extra_plugins=[reader])
    except CompileError as error:
        raise CollectError("\n".join(error.messages)) from None
    for state in result.graph.values():
        if isinstance(state.tree, MypyFile) and options.preserve_asts:
            reader.read(state.tree)
    errors = _error_lines(result.errors)
    for file in reader.files.values():
        file.errors = frozenset(errors.get(file.path, ()))
        file.seen = list(_seen(file, result.types, config))
        file.path = _shown(file.path)
    return Collected(config, sorted(reader.files.values(), key=lambda f: f.path), result.types)


def _seen(file: File, types: Mapping[Expression, Type], config: Config) -> Iterator[Seen]:
    """The expressions that are tensors, and the calls on tensors of whose results nothing is known."""
    for e in file.expressions:
        members = tensors(types.get(e))
        if members:
            yield Seen(e, known_axes(config, members))
        elif isinstance(e, CallExpr) and e not in file.statements and _swallows(e, types):
            yield Seen(e, (False,) * len(config.axes))


def _swallows(call: CallExpr, types: Mapping[Expression, Type]) -> bool:
    """Whether a call takes a tensor and gives Any."""
    found = types.get(call)
    if found is None or not isinstance(get_proper_type(found), AnyType):
        return False
    if isinstance(call.callee, MemberExpr) and call.callee.name in _LEAVING:
        return False
    receiver = [call.callee.expr] if isinstance(call.callee, MemberExpr) else []
    return any(tensors(types.get(e)) for e in [*receiver, *call.args])


def _shown(path: str) -> str:
    here = Path.cwd()
    return str(Path(path).resolve().relative_to(here)) if Path(path).resolve().is_relative_to(here) else path


def _error_lines(messages: Iterable[str]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for message in messages:
        if match := _ERROR.match(message):
            found.setdefault(match["file"], set()).add(int(match["line"]))
    return found


# ---- what is known of a type


def tensors(t: Type | None) -> list[ProperType]:
    """``t`` if it is a tensor, or the tensors among its members if it is a union."""
    proper = get_proper_type(t) if t is not None else None
    if proper is None:
        return []
    members = proper.items if isinstance(proper, UnionType) else [proper]
    return [get_proper_type(m) for m in members if is_tensor(m)]


def known_axes(config: Config, members: Sequence[ProperType]) -> tuple[bool, ...]:
    """Per axis whether the type of every one of these tensors is known there."""
    size = len(config.axes)
    rows = [_known(layout_argument(member), size) for member in members]
    return tuple(all(column) for column in zip(*rows, strict=True)) if rows else (False,) * size


def _known(argument: Type | None, size: int) -> tuple[bool, ...]:
    layout = get_proper_type(argument) if argument is not None else None
    if isinstance(layout, TypeVarType):  # stands for a whole layout, checked where the function is called
        return (True,) * size
    if not isinstance(layout, TupleType) or len(layout.items) != size:
        return (False,) * size
    return tuple(isinstance(get_proper_type(slot), TypeVarType) or axis_type(slot) is not None for slot in layout.items)
