"""Answers to mypy's questions for hooks: those that are kept, and those on names of which there is nothing to say.

mypy asks for two hooks on each function and method, the signature's first.  Most of what a project defines has none of
the two, and one look tells.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from mypy.nodes import FuncDef, TypeInfo
from mypy.types import CallableType

from spmd_mypy.hooks.meanings import Meanings


class Kept(dict[str, Any]):
    """A look-up that keeps its answers, so that mypy's next question runs no code of ours.

    ``settled`` says whether the answer on a name stays what it is; where ``silent`` holds, it is None, here and in the
    look-up ``beside``.  ``sometimes`` is a hook, and whether it has anything to do in the place that is being checked:
    where not, the answer is None, and mypy need not tell it all there is to say of the call.
    """

    def __init__(
        self,
        find: Callable[[str], Any],
        settled: Callable[[str], bool] | None = None,
        silent: Callable[[str], bool] | None = None,
        beside: dict[str, Any] | None = None,
        sometimes: tuple[Any, Callable[[], bool]] | None = None,
    ) -> None:
        super().__init__()
        self._find, self._settled, self._silent, self._beside = find, settled, silent, beside
        self._hook: Any = None
        self._needed: Callable[[], bool] = bool
        if sometimes is not None:
            self._hook, self._needed = sometimes
        self._asked_each_time: set[str] = set()

    def __missing__(self, fullname: str) -> Any:
        if fullname in self._asked_each_time:
            return self._hook if self._needed() else None
        if self._beside is not None and self._silent is not None and self._silent(fullname):
            self[fullname] = self._beside[fullname] = None
            return None
        found = self._find(fullname)
        if self._settled is not None and not self._settled(fullname):
            return found
        if found is not None and found is self._hook:
            self._asked_each_time.add(fullname)
        else:
            self[fullname] = found
        return found


class Silent:
    """Tells functions, classes and methods of which no hook has anything to say.

    ``modules`` are prefixes and ``functions``, those ``configured`` and ``methods`` full names that may have hooks; a
    method of one of ``names`` may have some in any class.
    """

    def __init__(
        self,
        meanings: Meanings,
        modules: tuple[str, ...],
        functions: Container[str],
        configured: Container[str],
        methods: Container[str],
        names: Container[str],
    ) -> None:
        self._meanings = meanings
        self._modules, self._methods, self._names = modules, methods, names
        self._functions, self._configured = functions, configured

    def function(self, fullname: str) -> bool:
        """Whether ``fullname`` is such a function or class."""
        if fullname in self._functions or fullname.startswith(self._modules) or fullname in self._configured:
            return False
        node = self._meanings.of(fullname)
        return type(node) is TypeInfo or (type(node) is FuncDef and not _is_generic(node))

    def method(self, fullname: str) -> bool:
        """Whether ``fullname`` is such a method."""
        if fullname.startswith(self._modules) or fullname in self._methods:
            return False
        if fullname[fullname.rfind(".") + 1 :] in self._names:
            return False
        node = self._meanings.of(fullname)
        return type(node) is FuncDef and not _is_generic(node)


def _is_generic(function: FuncDef) -> bool:
    """Whether a function may give back what it is given, for all that is known of its type."""
    t = function.type
    return t is not None and (type(t) is not CallableType or bool(t.variables))
