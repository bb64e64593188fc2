"""Answers to mypy's questions for hooks: those that are kept, and those on names of which there is nothing to say.

mypy asks for two hooks on each function and method, the signature's first.  Most of what a project defines has none of
the two, and one look tells; of a module that is being checked, one look tells it of all that the module defines.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final, NamedTuple

from mypy.nodes import ClassDef, Decorator, FuncDef, MypyFile, TypeInfo
from mypy.types import CallableType

from spmd_mypy import compat
from spmd_mypy.fullnames import MODULE
from spmd_mypy.hooks.meanings import Meanings

_TORCHS: Final = "torch."
_AT_TOP: Final = (FuncDef, ClassDef)
_METHODS: Final = (FuncDef, Decorator)


class Kept(dict[str, Any]):
    """A look-up that keeps its answers, so that mypy's next question runs no code of ours.

    ``settled`` says whether the answer on a name stays what it is.  ``sometimes`` are hooks, and whether they have
    anything to do in the place that is being checked: where not, the answer is None, and mypy need not tell them all
    there is to say of the call.  ``quick`` is asked first, where it is set: it says whether it has put an answer here.
    """

    def __init__(
        self,
        find: Callable[[str], Any],
        settled: Callable[[str], bool] | None = None,
        sometimes: tuple[Container[Any], Callable[[], bool]] = ((), bool),
    ) -> None:
        super().__init__()
        self._find, self._settled = find, settled
        self._hooks, self._needed = sometimes
        self._asked_each_time: dict[str, Any] = {}
        self.quick: Callable[[str], bool] | None = None

    def __missing__(self, fullname: str) -> Any:
        hook = self._asked_each_time.get(fullname)
        if hook is not None:
            return hook if self._needed() else None
        if self.quick is not None and self.quick(fullname):
            return self[fullname]
        found = self._find(fullname)
        if self._settled is not None and not self._settled(fullname):
            return found
        if found is None or found not in self._hooks:
            self[fullname] = found
            return found
        self._asked_each_time[fullname] = found
        return found if self._needed() else None


class Defined(NamedTuple):
    """What a module defines of which no hook has anything to say, by full name; and its classes.

    ``stock`` are the classes whose instances may be called as a module of torch's is.
    """

    functions: list[str]
    methods: list[str]
    classes: list[str]
    stock: list[str]


class Silent:
    """Tells functions, classes and methods of which no hook has anything to say.

    ``modules`` are prefixes and ``functions``, those ``configured`` and ``methods`` full names that may have hooks; a
    method of one of ``names`` may have some in any class.  Where ``strict`` hooks come before all others, none is told.
    """

    def __init__(
        self,
        meanings: Meanings,
        modules: tuple[str, ...],
        functions: Container[str],
        configured: Container[str],
        methods: Container[str],
        names: Container[str],
        strict: bool,
    ) -> None:
        self._meanings = meanings
        self._modules, self._methods, self._names = modules, methods, names
        self._functions, self._configured = functions, configured
        self._strict = strict

    def function(self, fullname: str) -> bool:
        """Whether ``fullname`` is such a function or class."""
        if self._strict or fullname in self._functions or fullname.startswith(self._modules):
            return False
        if fullname in self._configured:
            return False
        node = self._meanings.of(fullname)
        return type(node) is TypeInfo or (type(node) is FuncDef and not _is_generic(node))

    def method(self, fullname: str) -> bool:
        """Whether ``fullname`` is such a method."""
        if self._strict or fullname.startswith(self._modules) or fullname in self._methods:
            return False
        if fullname[fullname.rfind(".") + 1 :] in self._names:
            return False
        node = self._meanings.of(fullname)
        return isinstance(node, _METHODS) and not _is_generic(node)

    def defined(self, tree: MypyFile) -> Defined:
        """What is defined at the top of a module that has been analyzed, and in its classes, as far as it is silent."""
        found = Defined([], [], [], [])
        if self._strict or f"{tree.fullname}.".startswith(self._modules):
            return found
        names = tree.names
        for node in tree.defs:
            if not isinstance(node, _AT_TOP):
                continue
            symbol = names.get(node.name)
            meant = symbol.node if symbol is not None else None
            if isinstance(node, ClassDef):
                if isinstance(meant, TypeInfo):
                    self._in_class(node, meant, found)
            elif meant is node and not _is_generic(node):
                found.functions.append(node.fullname)
        table, configured = self._functions, self._configured
        found.functions[:] = [name for name in found.functions if name not in table and name not in configured]
        found.methods[:] = [name for name in found.methods if name not in self._methods]
        return found

    def _in_class(self, definition: ClassDef, info: TypeInfo, found: Defined) -> None:
        fullname = info.fullname
        found.classes.append(fullname)
        found.functions.append(fullname)
        names, methods, not_these = info.names, found.methods, self._names
        if "__call__" in names or any([b.fullname != MODULE and b.fullname.startswith(_TORCHS) for b in info.mro]):
            found.stock.append(fullname)
        for node in definition.defs.body:
            if isinstance(node, _METHODS) and node.name not in not_these and not _is_generic(node):
                symbol = names.get(node.name)
                if symbol is not None and symbol.node is node:
                    methods.append(node.fullname)


class Quick:
    """Puts answers where they are kept, before the tables of hooks are looked at.

    Python is slow where it runs code that it has not run for a while.  So the first question in a module that is being
    checked is taken for all questions on what the module defines, which a loop answers in the time of a few.
    """

    def __init__(
        self,
        silent: Silent,
        watcher: compat.Watcher,
        functions: tuple[Kept, Kept],
        methods: tuple[Kept, Kept],
        called: tuple[Any, Any],
    ) -> None:
        """``functions`` and ``methods`` are the signatures' hooks and the others; ``called`` those on any __call__."""
        self._silent, self._watcher = silent, watcher
        self._functions, self._methods, self._called = functions, methods, called
        self._done: set[str] = set()

    def function(self, fullname: str) -> bool:
        """Whether the answers on the function or class ``fullname`` are there now."""
        return self._answered(fullname, self._functions, self._silent.function)

    def method(self, fullname: str) -> bool:
        """Whether the answers on the method ``fullname`` are there now."""
        return self._answered(fullname, self._methods, self._silent.method)

    def _answered(self, fullname: str, both: tuple[Kept, Kept], silent: Callable[[str], bool]) -> bool:
        if not self._watcher.stays:  # a daemon sees definitions come and go
            return False
        signatures, hooks = both
        if self._module() and fullname in signatures and fullname in hooks:
            return True
        if not silent(fullname):
            return False
        signatures[fullname] = hooks[fullname] = None
        return True

    def _module(self) -> bool:
        """Answer for the module that is being checked; whether that is new."""
        tree = compat.current_file(compat.current_checker())
        if tree is None or tree.fullname in self._done:
            return False
        self._done.add(tree.fullname)
        found = self._silent.defined(tree)
        calls = [f"{name}.__call__" for name in found.classes]
        methods = dict.fromkeys(found.methods + calls)
        for both, silent in ((self._functions, dict.fromkeys(found.functions)), (self._methods, methods)):
            for kept in both:
                kept.update(silent)
        (signatures, hooks), (signature, hook) = self._methods, self._called
        signatures.update(dict.fromkeys(calls, signature))
        hooks.update({f"{name}.__call__": hook for name in found.stock})
        return True


def _is_generic(function: FuncDef | Decorator) -> bool:
    """Whether a function may give back what it is given, for all that is known of its type."""
    t = function.type
    if t is None:
        return type(function) is Decorator  # what the decorator makes of it is not inferred yet
    return type(t) is not CallableType or bool(t.variables)
