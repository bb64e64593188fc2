"""Which of the user's code a step runs, and whether it changes state that no graph keeps (a global, an attribute)."""

from __future__ import annotations

import sys
from collections.abc import Sized
from types import CodeType, FrameType
from typing import Any, Final

from spmd_runtime.precompile.errors import CaptureError
from spmd_runtime.precompile.provenance import is_installed, is_users

_SIMPLE: Final = (int, float, str, bool, type(None), tuple)
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__", "<module>"})
_TORCHS: Final = frozenset({"_parameters", "_buffers", "_modules", "training"})


class Watch:
    """Sees every function of the user's that is called while it is active.

    ``files`` maps the name of each module that a function came from to its file.
    """

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._codes: set[CodeType] = set()
        self._torchs: set[CodeType] = set()  # seen and not the user's
        self._names: dict[int, dict[str, CodeType]] = {}  # id of globals -> names used, and by what
        self._globals: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._objects: dict[int, tuple[Any, dict[str, Any], CodeType]] = {}
        self._before: Any = None

    def __enter__(self) -> Watch:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, arg: Any) -> None:
        """Called for every call of a Python function, and, as it returns None, not for its lines."""
        code = frame.f_code
        if code in self._torchs:
            return
        if not is_users(code.co_filename):
            self._torchs.add(code)
            return
        if code not in self._codes:
            self._codes.add(code)
            space = frame.f_globals
            self.files[str(space.get("__name__", "?"))] = code.co_filename
            if is_installed(code.co_filename):
                return  # a library's own business
            if id(space) not in self._globals:
                self._globals[id(space)] = (space, _snapshot(space))
            self._names.setdefault(id(space), {}).update(dict.fromkeys(code.co_names, code))
        first = code.co_varnames[0] if code.co_argcount else ""
        owner = frame.f_locals.get(first)
        is_method = hasattr(type(owner), code.co_name) and code.co_name not in _CONSTRUCTORS
        if is_method and not is_installed(code.co_filename):
            self._see(owner, code)

    def _see(self, owner: Any, code: CodeType) -> None:
        attributes = getattr(owner, "__dict__", None)
        if isinstance(attributes, dict) and id(owner) not in self._objects:
            self._objects[id(owner)] = (owner, _snapshot(attributes), code)

    def check(self) -> None:
        """Raise CaptureError for a global or an attribute that the step has changed."""
        for key, (space, before) in self._globals.items():
            for name, code in self._names[key].items():
                if changed := _changed(name, before, _snapshot({name: space[name]} if name in space else {})):
                    raise CaptureError(_report(f"the global {name!r} of {space.get('__name__')}", changed, code))
        for owner, before, code in self._objects.values():
            after = _snapshot(vars(owner))
            for name in (*before, *(name for name in after if name not in before)):
                if name not in _TORCHS and (changed := _changed(name, before, after)):
                    raise CaptureError(_report(f"the attribute {name!r} of a {type(owner).__name__}", changed, code))


def _snapshot(values: dict[str, Any]) -> dict[str, Any]:
    """For each name what tells whether it has changed: a simple value itself, else identity and length."""
    return {name: _mark(value) for name, value in values.items()}


def _mark(value: Any) -> Any:
    if isinstance(value, _SIMPLE):
        return repr(value)
    size = len(value) if isinstance(value, Sized) and isinstance(value, (list, dict, set)) else None
    return id(value), size, type(value).__name__


def _changed(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    missing = "nothing"
    old, new = before.get(name, missing), after.get(name, missing)
    if old == new:
        return ""
    if isinstance(old, str) and isinstance(new, str):
        return f"from {old} to {new}"
    if isinstance(old, tuple) and isinstance(new, tuple) and old[0] == new[0]:
        return f"from {old[1]} entries to {new[1]}"
    return "to another object"


def _report(what: str, how: str, code: CodeType) -> str:
    return (
        f"the step changes {what} ({how}) in {code.co_name}, {code.co_filename}:{code.co_firstlineno}\n"
        "The compiled step would not: its effects are its results and what it writes into its inputs. Return the "
        "value, or do it outside the step"
    )
