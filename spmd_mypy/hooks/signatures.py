"""What several hooks ask of signatures: does one speak of layouts, what does a module's ``forward`` take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from mypy.nodes import Decorator, OverloadedFuncDef, TypeInfo, Var
from mypy.type_visitor import TypeQuery, TypeTranslator
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    ProperType,
    Type,
    TypeAliasType,
    TypeVarType,
    get_proper_type,
)

from spmd_mypy.fullnames import FUNCTION, MODULE
from spmd_mypy.layout import Layouts, axis_type, is_tensor, layout_argument, unknown_type
from spmd_mypy.rules.kinds import AxisType
from spmd_mypy.rules.ops import find

STOCK: Final = "torch.nn.modules."


class _Mentions(TypeQuery[bool]):
    def strategy(self, items: Iterable[bool]) -> bool:
        return any(items)

    def visit_instance(self, t: Instance, /) -> bool:
        argument = layout_argument(t)
        if argument is not None:
            return not isinstance(get_proper_type(argument), AnyType)
        return bool(t.args) and self.query_types(t.args)


class _Variables(TypeQuery[bool]):
    def strategy(self, items: Iterable[bool]) -> bool:
        return any(items)

    def visit_type_var(self, t: TypeVarType, /) -> bool:
        return True


_MOST_TYPES: Final = 4096
_mentions: dict[int, tuple[Type, bool]] = {}


def mentions_layout(t: Type | None) -> bool:
    """Whether some tensor in ``t`` (a signature, say) has a layout; other code keeps exactly the types it had."""
    if t is None:
        return False
    known = _mentions.get(id(t))
    if known is None:
        if len(_mentions) >= _MOST_TYPES:
            _mentions.clear()
        known = _mentions[id(t)] = (t, t.accept(_Mentions()))  # with the type, so that its identity stays its own
    return known[1]


def has_variables(t: Type | None) -> bool:
    """Whether ``t`` mentions a type variable, through which layouts may pass."""
    return t is not None and t.accept(_Variables())


# ---- modules


def is_module(info: TypeInfo) -> bool:
    """Whether a class is nn.Module or derived from it."""
    return info.has_base(MODULE)


def module_of(t: Type) -> Instance | None:
    """``t`` if it is a module, else None."""
    t = get_proper_type(t)
    return t if isinstance(t, Instance) and is_module(t.type) else None


def forward_owner(info: TypeInfo, mro: Sequence[TypeInfo] | None = None) -> TypeInfo | None:
    """The class whose ``forward`` runs when an instance of ``info`` is called; None where nobody wrote one.

    ``mro`` is where to look if that is not ``info``'s own.
    """
    for base in info.mro if mro is None else mro:
        if base.fullname == MODULE:
            return None
        if "forward" in base.names:
            return base
    return None


def written_forward(info: TypeInfo) -> Type | None:
    """The type of ``forward`` as its author wrote it, before decorators and unbound; None where there is none."""
    owner = forward_owner(info)
    node = owner.names["forward"].node if owner is not None else None
    if isinstance(node, Decorator):
        return node.func.type
    if isinstance(node, OverloadedFuncDef):
        return node.type
    return node.type if isinstance(node, Var) or hasattr(node, "type") else None  # type: ignore[union-attr]


def stock_operation(info: TypeInfo, mro: Sequence[TypeInfo] | None = None) -> str | None:
    """The rules' name of what a stock module of torch does (``torch.nn.Linear``), None for other modules.

    ``mro`` is where to look for ``forward`` if that is not ``info``'s own: behind the class, through ``super()``.
    """
    owner = forward_owner(info, mro)
    if owner is None or not owner.fullname.startswith(STOCK):
        return None
    for base in info.mro:
        if base.fullname.startswith(STOCK):
            op = f"torch.nn.{base.name}"
            if find(op) is not None:
                return op
    return None


def same_signature(one: ProperType | None, two: ProperType | None) -> bool:
    """Whether two methods take and give the same types, ``self`` aside."""
    if not isinstance(one, CallableType) or not isinstance(two, CallableType):
        return False
    return one.arg_types[1:] == two.arg_types[1:] and one.arg_kinds == two.arg_kinds and one.ret_type == two.ret_type


# ---- layouts inside types


class _Mapped(TypeTranslator):
    def __init__(self, layouts: Layouts, change: Callable[[AxisType], AxisType | None], plain: bool) -> None:
        super().__init__()
        self.layouts = layouts
        self.change = change
        self.plain = plain

    def visit_instance(self, t: Instance, /) -> Type:
        if not is_tensor(t):
            return t.copy_modified(args=[arg.accept(self) for arg in t.args]) if t.args else t
        slots = self.layouts.slots(t)
        if slots is None:
            return self.layouts.tensor(unknown_type()) if self.plain else t
        argument = self.layouts.tuple_of([self._slot(i, slot) for i, slot in enumerate(slots)])
        return self.layouts.tensor(argument) if self.plain else t.copy_modified(args=[argument])

    def _slot(self, axis: int, slot: Type) -> Type:
        kind = axis_type(slot)
        return unknown_type() if kind is None else self.layouts.slot(axis, self.change(kind))

    def visit_type_alias_type(self, t: TypeAliasType, /) -> Type:
        return t if t.is_recursive else get_proper_type(t).accept(self)


def mapped(layouts: Layouts, t: Type, change: Callable[[AxisType], AxisType | None], *, plain: bool = False) -> Type:
    """``t`` with ``change`` applied to what every tensor in it is on every axis; None stands for unknown.

    ``plain`` makes Parameters and other subclasses plain tensors (a gradient is one).
    """
    return t.accept(_Mapped(layouts, change, plain))


# ---- autograd functions


# What autograd calls outside its graph.
AUTOGRAD_METHODS: Final = frozenset({"forward", "backward", "setup_context", "jvp", "vmap"})


def is_function(info: TypeInfo) -> bool:
    """Whether a class is torch.autograd.Function or derived from it."""
    return info.has_base(FUNCTION)


def sets_up_context(info: TypeInfo) -> bool:
    """Whether an autograd function saves in ``setup_context``; then ``forward`` takes no ``ctx``."""
    for base in info.mro:
        if "setup_context" in base.names:
            return not base.fullname.startswith("torch.autograd.")
    return False
