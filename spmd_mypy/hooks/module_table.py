"""Which of torch's names the hooks for modules, functions and autograd functions answer to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from mypy.nodes import TypeInfo
from mypy.plugin import ClassDefContext
from mypy.types import FunctionLike, Type

from spmd_mypy.fullnames import FUNCTION, MODULE, RUNTIME, TENSOR, TENSOR_BASE
from spmd_mypy.hooks import callables, registered
from spmd_mypy.hooks.autograd import Functions
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.callables import Callables
from spmd_mypy.hooks.containers import CONTAINERS, Containers, make_container
from spmd_mypy.hooks.declared import Declared
from spmd_mypy.hooks.modules import WRAPPERS, Modules
from spmd_mypy.hooks.operations import Operations
from spmd_mypy.hooks.registered import Registered
from spmd_mypy.hooks.signatures import is_function, is_module
from spmd_mypy.hooks.typed import Typed

# Methods that may have hooks in any class, or be generic without being written as such.
ANY_CLASS: Final = (
    frozenset({"__call__", "__new__", "forward", "register_hook"})
    | registered.REGISTRATIONS
    | registered.LOOKUPS
    | registered.MODULE_HOOKS
)
_OTHER_BASES: Final = ("builtins.", "typing.", "enum.", "abc.")
_FUNCTORCH: Final = "torch._functorch.apis"


class ModuleTable:
    """Tables from full name (or last name, where any class may have the method) to handler."""

    def __init__(self, bench: Workbench, operations: Operations) -> None:
        self.bench = bench
        self.containers = Containers(bench)
        self.modules = Modules(bench, operations, self.containers)
        self.callables = Callables(bench)
        self.registered = Registered(bench)
        self.autograd = Functions(bench)
        self.typed = Typed(bench)
        self.declared = Declared(bench)

    def functions(self) -> dict[str, Callable[[Any], Type]]:
        """Functions and constructors by full name."""
        table: dict[str, Callable[[Any], Type]] = dict.fromkeys(CONTAINERS, self.containers.construct)
        table.update(dict.fromkeys(callables.KEEPING, self.callables.keeping))
        table.update(dict.fromkeys(WRAPPERS, self.modules.wrapped))
        table["torch.utils.checkpoint.checkpoint"] = self.callables.checkpoint
        table["torch.utils.checkpoint.checkpoint_sequential"] = self.callables.checkpoint_sequential
        table["torch._functorch.functional_call.functional_call"] = self.callables.functional_call
        table[f"{_FUNCTORCH}.vmap"] = self.callables.vmap
        table[f"{_FUNCTORCH}.grad"] = self.callables.grad
        table[f"{_FUNCTORCH}.grad_and_value"] = self.callables.grad_and_value
        table[f"{RUNTIME}.typed.typed"] = self.typed.typed
        return table

    def methods(self) -> dict[str, Callable[[Any], Type]]:
        """Methods by full name."""
        table: dict[str, Callable[[Any], Type]] = {f"{name}.__getitem__": self.containers.item for name in CONTAINERS}
        table.update(dict.fromkeys(callables.DECORATING, self.callables.decorating))
        return table

    def attributes(self) -> dict[str, Callable[[Any], Type]]:
        """Attributes by full name."""
        table: dict[str, Callable[[Any], Type]] = {f"{name}.module": self.modules.inner for name in WRAPPERS}
        table[f"{MODULE}.__call__"] = self.modules.called
        return table

    def any_method(self, name: str) -> Callable[[Any], Type] | None:
        """The handler for a method of that name, in whatever class."""
        if name in ("__call__", "forward"):
            return self.modules.stock
        if name in registered.REGISTRATIONS:
            return self.registered.register
        return self.registered.lookup if name in registered.LOOKUPS else None

    def signature(self, fullname: str) -> Callable[[Any], FunctionLike] | None:
        """The handler for the signature of a method."""
        if fullname in callables.WRAPPING:
            return self.callables.wrapped
        owner, _, name = fullname.rpartition(".")
        if owner in CONTAINERS and name in CONTAINERS[owner].methods and CONTAINERS[owner].element == "Module":
            return partial(self.containers.narrowed, name)
        if name in registered.MODULE_HOOKS and owner != MODULE:
            return partial(self.registered.module_hook, name)
        if name == "register_hook" and owner.startswith((TENSOR, TENSOR_BASE, "torch.nn.parameter.")):
            return self.registered.tensor_hook
        return None

    def class_attribute(self, fullname: str) -> Callable[[Any], Type] | None:
        """The handler for an attribute of a class object."""
        return self.autograd.apply if fullname.endswith(".apply") else None

    @staticmethod
    def classes() -> dict[str, Callable[[ClassDefContext], None]]:
        """The handlers that make classes of torch generic."""
        return dict.fromkeys(CONTAINERS, make_container)

    def base_class(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """The handler for classes derived from the class ``fullname``."""
        if fullname.startswith(_OTHER_BASES):
            return None
        if fullname == FUNCTION:
            return self.autograd.checked
        if fullname == MODULE:
            return self.declared.made
        info: TypeInfo | None = self.bench.layouts.info(fullname)
        if info is None or not info.mro:
            return None
        return self.autograd.checked if is_function(info) else self.declared.made if is_module(info) else None
