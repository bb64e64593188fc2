"""``module(x)`` is ``forward`` with the module's own types; a stock module is the operation that it goes through.

torch declares ``Module.__call__`` as ``Callable[..., Any]``.  The hook on that one attribute puts the type of
``forward`` there, so that calls, ``module.__call__``, ``super().__call__``, ``functools.partial(module)`` and modules
passed as callables all see it: overridden, inherited, overloaded, decorated or generic.
"""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import SYMBOL_FUNCBASE_TYPES, CallExpr, Context, Decorator, FuncDef, SuperExpr, TypeInfo
from mypy.plugin import AttributeContext, FunctionContext, MethodContext
from mypy.types import AnyType, CallableType, Instance, NoneType, Type, get_proper_type
from mypy.typevars import fill_typevars

from spmd_mypy import compat
from spmd_mypy.fullnames import MODULE
from spmd_mypy.hooks.arguments import AnyCall, Operand, operands
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.containers import Containers
from spmd_mypy.hooks.operations import Operations, Site
from spmd_mypy.hooks.signatures import (
    forward_owner,
    has_variables,
    is_module,
    mentions_layout,
    module_of,
    stock_operation,
    written_forward,
)
from spmd_mypy.layout import has_layout, is_tensor, tensors_in, unknown_type
from spmd_mypy.rules.call import OptionValue
from spmd_mypy.rules.ops import find

# Modules that call the one they are given.
WRAPPERS: Final = (
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "torch.nn.parallel.data_parallel.DataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
)
_WRAPPED: Final = "module"


class Modules:
    """The hooks for calls of modules."""

    def __init__(self, bench: Workbench, operations: Operations, containers: Containers) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.operations = operations
        self.containers = containers
        # The bound ``forward`` of plain classes, with the function and the type that it was bound from.
        self._bound: dict[TypeInfo, tuple[FuncDef, Type, Type]] = {}

    # ---- module(x)

    def called(self, ctx: AttributeContext) -> Type:
        """The attribute ``Module.__call__``: ``forward`` where it speaks of layouts."""
        if ctx.is_lvalue or isinstance(ctx.context, SYMBOL_FUNCBASE_TYPES + (Decorator,)):
            return ctx.default_attr_type
        if isinstance(ctx.type, Instance):
            known = self._bound.get(ctx.type.type)
            if known is not None and self._still(known, ctx.type):
                return known[2]
        receiver = module_of(ctx.type)
        if receiver is None or receiver.type.fullname == MODULE:
            return ctx.default_attr_type
        inner = receiver.extra_attrs.attrs.get(_WRAPPED) if receiver.extra_attrs is not None else None
        if inner is not None and receiver.type.fullname in WRAPPERS:
            return compat.member_type(ctx.api, inner, "__call__", ctx.context) or ctx.default_attr_type
        forward = self._forward(ctx.api, receiver, ctx.context)
        return ctx.default_attr_type if forward is None else forward

    def _still(self, known: tuple[FuncDef, Type, Type], t: Instance) -> bool:
        """Whether ``forward`` of ``t`` is what it was, as it is outside the daemon where no instance has its own."""
        if self.bench.watcher.stays:
            return not t.args and t.extra_attrs is None
        return _written_once(t) is known[0] and known[0].type is known[1]

    def _forward(self, api: Any, receiver: Instance, context: Context) -> Type | None:
        """The bound ``forward`` of ``receiver``; None where it has none of ours."""
        if not self._ours(api, receiver.type):
            return None
        found = compat.member_type(api, receiver, "forward", context)
        if found is None or isinstance(get_proper_type(found), AnyType):
            return None
        node = _written_once(receiver)
        if node is not None and node.type is not None and mentions_layout(node.type):
            self._bound[receiver.type] = (node, node.type, found)
        return found

    def _ours(self, api: Any, info: TypeInfo) -> bool:
        owner = forward_owner(info)
        if owner is None:
            return False
        written = written_forward(info)
        if mentions_layout(written) or self._decorated(owner):
            return True
        if not self.bench.uses_spmd(api):
            return False
        return has_variables(written) or (stock_operation(info) is not None and _annotated(written))

    @staticmethod
    def _decorated(owner: TypeInfo) -> bool:
        """Whether a decorator gives ``forward`` layouts that its signature does not have."""
        node = owner.names["forward"].node
        return isinstance(node, Decorator) and mentions_layout(node.var.type)

    # ---- wrappers

    def wrapped(self, ctx: FunctionContext) -> Type:
        """``DistributedDataParallel(model)``: it is called as ``model`` is."""
        made = get_proper_type(ctx.default_return_type)
        inner = module_of(ctx.arg_types[0][0]) if ctx.arg_types and ctx.arg_types[0] else None
        if inner is None or not isinstance(made, Instance) or not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        return made.copy_with_extra_attr(_WRAPPED, inner)

    @staticmethod
    def inner(ctx: AttributeContext) -> Type:
        """``wrapper.module``."""
        receiver = module_of(ctx.type)
        if receiver is None or receiver.extra_attrs is None or ctx.is_lvalue:
            return ctx.default_attr_type
        return receiver.extra_attrs.attrs.get(_WRAPPED, ctx.default_attr_type)

    # ---- stock modules

    def stock(self, ctx: MethodContext) -> Type:
        """``linear(x)``: the operation on the arguments and on the module's own parameters."""
        receiver = module_of(ctx.type)
        if receiver is None:
            return ctx.default_return_type
        if self.containers.is_sequential(receiver):
            return self.containers.through(receiver, ctx)
        op = stock_operation(receiver.type)
        return ctx.default_return_type if op is None else self._stock(receiver, op, ctx)

    def parent(self, ctx: FunctionContext) -> Type:
        """``super().forward(x)`` in a class derived from a stock module: with the parameters that the class has."""
        callee = ctx.context.callee if isinstance(ctx.context, CallExpr) else None
        info = callee.info if isinstance(callee, SuperExpr) else None
        if not isinstance(callee, SuperExpr) or info is None or not is_module(info):
            return ctx.default_return_type
        # ``super().__call__`` runs the object's own ``forward``.
        op = stock_operation(info, info.mro[callee.name == "forward" :])
        receiver = fill_typevars(info)
        if op is None or callee.name not in ("forward", "__call__") or not isinstance(receiver, Instance):
            return ctx.default_return_type
        return self._stock(receiver, op, ctx)

    def _stock(self, receiver: Instance, op: str, ctx: AnyCall) -> Type:
        """The operation ``op`` on the call's arguments and the parameters of ``receiver``."""
        found, options = operands(op, ctx)
        own, absent = self._parameters(ctx.api, receiver, op, ctx.context)
        if not any(has_layout(o.type) for o in (*found, *own)) and not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        site = Site(op, ctx.api, ctx.context, [*found, *own], {**options, **absent})
        default = ctx.default_return_type
        if isinstance(get_proper_type(default), AnyType):
            default = self.layouts.tensor(unknown_type())
        result = self.operations.infer(site, default)
        return ctx.default_return_type if result is default else result

    def _parameters(
        self, api: Any, receiver: Instance, op: str, context: Context
    ) -> tuple[list[Operand], dict[str, OptionValue]]:
        """A stock module's own tensors as operands, and those that are declared None."""
        operation = find(op)
        found: list[Operand] = []
        absent: dict[str, OptionValue] = {}
        for name in operation.parameters if operation is not None else ():
            if receiver.type.get(name) is None:
                continue
            declared = compat.member_type(api, receiver, name, context)
            declared = get_proper_type(declared) if declared is not None else None
            if isinstance(declared, NoneType):
                absent[name] = None
            elif declared is not None and (is_tensor(declared) or tensors_in(declared)):
                found.append(Operand(name, tensors_in(declared)[0], None))
        return found, absent


def _written_once(receiver: Type) -> FuncDef | None:
    """The ``forward`` of a class in which nothing changes its type from one instance to another."""
    if not isinstance(receiver, Instance) or receiver.args or receiver.extra_attrs is not None:
        return None
    owner = forward_owner(receiver.type)
    node = owner.names["forward"].node if owner is not None and not owner.type_vars else None
    if not isinstance(node, FuncDef) or not isinstance(node.type, CallableType) or node.type.variables:
        return None
    return node


def _annotated(t: Type | None) -> bool:
    return not isinstance(t, CallableType) or not t.implicit
