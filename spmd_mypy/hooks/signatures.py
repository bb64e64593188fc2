"""What several hooks ask of signatures: does one speak of layouts, what does a module's ``forward`` take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mypy.nodes import Decorator, OverloadedFuncDef, TypeInfo, Var
from mypy.type_visitor import TypeQuery
from mypy.types import AnyType, CallableType, Instance, ProperType, Type, TypeVarType, get_proper_type

from spmd_mypy.fullnames import MODULE
from spmd_mypy.layout import layout_argument
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


def mentions_layout(t: Type | None) -> bool:
    """Whether some tensor in ``t`` (a signature, say) has a layout; other code keeps exactly the types it had."""
    return t is not None and t.accept(_Mentions())


def has_variables(t: Type | None) -> bool:
    """Whether ``t`` mentions a type variable, through which layouts may pass."""
    return t is not None and t.accept(_Variables())


# ---- modules


def is_module(info: TypeInfo) -> bool:
    """Whether a class is nn.Module or derived from it."""
    return any(base.fullname == MODULE for base in info.mro)


def module_of(t: Type) -> Instance | None:
    """``t`` if it is a module, else None."""
    t = get_proper_type(t)
    return t if isinstance(t, Instance) and is_module(t.type) else None


def forward_owner(info: TypeInfo) -> TypeInfo | None:
    """The class whose ``forward`` runs when an instance of ``info`` is called; None where nobody wrote one."""
    for base in info.mro:
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


def stock_operation(info: TypeInfo) -> str | None:
    """The rules' name of what a stock module of torch does (``torch.nn.Linear``), None for other modules."""
    owner = forward_owner(info)
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
