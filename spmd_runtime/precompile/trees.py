"""Named tuples in inputs and results: their classes are written down by name, and found where the step is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from typing import Any

from torch.utils import _pytree as pytree

from spmd_runtime.precompile.errors import CaptureError, PrecompileError

_registered: dict[str, type] = {}  # by "module:Class"


def register(value: Any) -> None:
    """Have the classes of the named tuples in ``value`` written down by name; before it is flattened for good.

    Raises CaptureError for a class that another process could not import.
    """
    for kind in dict.fromkeys(_named_tuples(pytree.tree_structure(value))):
        name = f"{kind.__module__}:{kind.__qualname__}"
        if name not in _registered and kind not in pytree.SUPPORTED_SERIALIZED_TYPES:
            if kind.__module__ == "__main__" or _find(name) is not kind:
                raise CaptureError(
                    f"{kind.__qualname__} is a named tuple that {kind.__module__} does not have under that name for "
                    "other processes; define it at the top of an importable module, or use a tuple or a dict"
                )
            _register(name, kind)


def names(*trees: pytree.TreeSpec) -> list[str]:
    """The registered classes in these trees."""
    kinds = {kind for tree in trees for kind in _named_tuples(tree)}
    return sorted(name for name, kind in _registered.items() if kind in kinds)


def find(wanted: Iterable[str]) -> None:
    """Import the classes that an artifact names; raises PrecompileError for one that is not there."""
    for name in wanted:
        if name not in _registered:
            kind = _find(name)
            if kind is None:
                raise PrecompileError(f"the step's inputs or results hold the named tuple {name}, which is not here")
            _register(name, kind)


def _register(name: str, kind: type) -> None:
    pytree._register_namedtuple(kind, serialized_type_name=f"spmd:{name}")
    _registered[name] = kind


def _find(name: str) -> Any:
    module, _, qualified = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found if isinstance(found, type) and issubclass(found, tuple) else None


def _named_tuples(tree: pytree.TreeSpec) -> Iterator[type]:
    for node in _nodes(tree):
        if pytree.is_namedtuple_class(node.context):
            yield node.context


def _nodes(tree: pytree.TreeSpec) -> Iterator[pytree.TreeSpec]:
    yield tree
    for child in tree.children():
        yield from _nodes(child)
