"""Calls of generic functions are inferred as they are without the plugin.

``def pick(x: T) -> T`` in ``t: Tensor = pick(y)``: mypy takes T from the arguments, unless what is declared is generic.
Then it takes T from there, and reports an argument instead of an assignment.  The plugin makes torch's classes generic,
so for a declared type without layout the hook takes the context away.  So it does for a function that hands on what it
is given, of which the complaint is to be one of what stands there, and for functions that give back layouts:
in ``F.gelu(norm(x))`` with ``def norm(x: Tensor[L]) -> Tensor[L]``, what gelu declares knows none.  Overloads that
speak of layouts come along, so that where mypy finds none to fit it is known which module is being checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mypy.nodes import Decorator, FuncDef, OverloadedFuncDef
from mypy.plugin import FunctionSigContext, MethodSigContext
from mypy.types import AnyType, CallableType, FunctionLike, Instance, Overloaded, Type, TypeVarType, get_proper_type

from spmd_mypy import compat
from spmd_mypy.fullnames import GENERIC_TENSORS, MODULE
from spmd_mypy.hooks.containers import CONTAINERS
from spmd_mypy.hooks.meanings import Meanings
from spmd_mypy.hooks.signatures import has_variables, mentions_layout
from spmd_mypy.layout import has_layout, is_tensor

FunctionSigHook: TypeAlias = Callable[[FunctionSigContext], FunctionLike]
# Generic without being written as one: ``type(module).__new__(...)``; modules are called by ``__call__``.
# In every program, and slow through a hook; what mypy says of it is the same without one.
_FREQUENT: Final = frozenset({"dataclasses.field"})
_METHODS: Final = (".__new__", ".__call__")
_FUNCTIONS: Final = (FuncDef, OverloadedFuncDef, Decorator)


class Inference:
    """Finds functions that give back one of their type variables, or a layout that is one; and overloads of ours."""

    def __init__(self, meanings: Meanings) -> None:
        self._meanings = meanings
        self._concerned: dict[str, bool] = {}
        self._with_layouts: set[str] = set()

    def method(self, fullname: str) -> bool:
        """Whether the method ``fullname`` is concerned."""
        return fullname.endswith(_METHODS) or self.function(fullname)

    def function(self, fullname: str) -> bool:
        """Whether the function ``fullname`` is concerned."""
        found = self._concerned.get(fullname)
        if found is None:
            found = False if fullname in _FREQUENT else self._gives_its_variable(fullname)
            if found is None:
                return False
            self._concerned[fullname] = found
        return found

    def with_layouts(self, fullname: str) -> bool:
        """Whether a function that is concerned speaks of layouts, so that every place of a call matters."""
        return fullname in self._with_layouts or fullname.endswith(_METHODS)

    def settled(self, fullname: str) -> bool:
        """Whether what is said of ``fullname`` will not change when mypy has inferred more."""
        return fullname in self._concerned

    def _gives_its_variable(self, fullname: str) -> bool | None:
        """None where mypy has not inferred the function's type yet."""
        node = self._meanings.of(fullname)
        if not isinstance(node, _FUNCTIONS):
            return False
        function = get_proper_type(node.type)
        if type(node) is FuncDef and type(function) is CallableType and not function.variables:
            return False  # as most are
        if function is None:
            return None if isinstance(node, Decorator) else False
        if not isinstance(function, FunctionLike):
            return False
        generic = [item for item in function.items if item.variables]
        if (isinstance(function, Overloaded) and mentions_layout(function)) or any(map(_gives_layout, generic)):
            self._with_layouts.add(fullname)
            return True
        given = [get_proper_type(item.ret_type) for item in generic]
        return any(isinstance(t, TypeVarType) and not t.id.is_self() for t in given)  # the receiver says what Self is

    @staticmethod
    def needed() -> bool:
        """Whether :meth:`without_context` may do anything for a call in the place that is being checked.

        It does so for a function that does not speak of layouts only where a class with type arguments is declared.
        """
        checker = compat.current_checker()
        if checker is None:
            return True
        declared = compat.expected_type(checker)
        return declared is not None and (type(declared) is not Instance or bool(declared.args))

    @staticmethod
    def without_context(ctx: FunctionSigContext | MethodSigContext) -> FunctionLike:
        """The signature as it is; the type declared for its place is forgotten if only the plugin made it generic."""
        declared = compat.expected_type(ctx.api) if ctx.default_signature.variables else None
        if declared is not None:
            layout = _gives_layout(ctx.default_signature) and not mentions_layout(declared)
            if _plain(declared) or layout or (_laid_out(declared) and _hands_on(ctx.default_signature)):
                compat.forget_expected_type(ctx.api)
        return ctx.default_signature


def _gives_layout(signature: CallableType) -> bool:
    """Whether a function gives back a tensor whose layout is one of its type variables."""
    return mentions_layout(signature.ret_type) and has_variables(signature.ret_type)


def _hands_on(signature: CallableType) -> bool:
    """Whether a function gives back what it is given, as ``copy.deepcopy``: then its argument says what that is.

    Or what a function gives that it is given, as ``checkpoint`` from torch 2.14 on.
    """
    given = get_proper_type(signature.ret_type)
    arguments = [get_proper_type(t) for t in signature.arg_types]
    results = [get_proper_type(t.ret_type) for t in arguments if isinstance(t, CallableType)]
    return isinstance(given, TypeVarType) and given in [*arguments, *results]


def _laid_out(declared: Type | None) -> bool:
    return declared is not None and is_tensor(declared) and has_layout(declared)


def _plain(declared: Type | None) -> bool:
    """Whether a declared type is a class of torch of whose arguments nothing is said."""
    t = get_proper_type(declared) if declared is not None else None
    if not isinstance(t, Instance) or len(t.args) != 1:
        return False
    argument = get_proper_type(t.args[0])
    if t.type.fullname in GENERIC_TENSORS:
        return isinstance(argument, AnyType)
    any_module = isinstance(argument, Instance) and argument.type.fullname == MODULE
    return t.type.fullname in CONTAINERS and (any_module or isinstance(argument, AnyType))
