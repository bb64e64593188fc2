"""What is registered on modules and tensors: hooks see typed arguments, buffers and parameters fit what is declared.

=========================================  ==================================================================
``register_forward_pre_hook``              ``(module, forward's arguments)``; gives new arguments, or None
``register_forward_hook``                  ``(module, forward's arguments, its result)``; a new result, or None
``register_full_backward_hook``            ``(module, the arguments' duals, the result's dual)``; new duals, or None
``register_full_backward_pre_hook``        ``(module, the result's dual)``; a new dual, or None
``Tensor.register_hook``                   the tensor's dual; a new one, or None
``register_buffer``, ``register_parameter``  the value is checked against the attribute's declared type
``get_parameter``, ``get_buffer`` ...      the attribute's declared type, for a literal name
=========================================  ==================================================================
"""

from __future__ import annotations

from typing import Any, Final

from mypy.message_registry import INCOMPATIBLE_TYPES_IN_ASSIGNMENT
from mypy.nodes import ARG_POS, ArgKind, Expression, Var
from mypy.plugin import MethodContext, MethodSigContext
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    NoneType,
    ProperType,
    TupleType,
    Type,
    UnionType,
    UnpackType,
    get_proper_type,
)

from spmd_mypy import compat
from spmd_mypy.fullnames import PARAMETER
from spmd_mypy.hooks.arguments import option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.signatures import mapped, mentions_layout, module_of
from spmd_mypy.layout import is_tensor, tensors_in, unknown_type
from spmd_mypy.rules.gradients import gradient
from spmd_mypy.rules.kinds import dual

_HOOKS: Final = {
    "register_forward_pre_hook": ("arguments",),
    "register_forward_hook": ("arguments", "result"),
    "register_full_backward_hook": ("argument duals", "result dual"),
    "register_full_backward_pre_hook": ("result dual",),
}
MODULE_HOOKS: Final = frozenset(_HOOKS)
REGISTRATIONS: Final = frozenset({"register_buffer", "register_parameter"})
LOOKUPS: Final = frozenset({"get_parameter", "get_buffer", "get_submodule"})


class Registered:
    """The hooks for what is registered."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    # ---- hooks of modules

    def module_hook(self, name: str, ctx: MethodSigContext) -> FunctionLike:
        """``module.register_forward_hook(f)``: ``f`` must take what it will be given."""
        module = module_of(ctx.type)
        if module is None or not ctx.args or not ctx.args[0]:
            return ctx.default_signature
        forward = compat.member_type(ctx.api, module, "__call__", ctx.context)
        forward = get_proper_type(forward) if forward is not None else None
        if not isinstance(forward, CallableType) or not mentions_layout(forward):
            return ctx.default_signature
        parts = [self._part(part, forward) for part in _HOOKS[name]]
        if self._with_kwargs(ctx):
            parts.insert(1, unknown_type())
        gives: Type = unknown_type() if self._with_kwargs(ctx) else self._new(name, forward, parts)
        hook = self._function(ctx.api, [module, *parts], gives)
        return ctx.default_signature.copy_modified(arg_types=[hook, *ctx.default_signature.arg_types[1:]])

    def _part(self, part: str, forward: CallableType) -> Type:
        """What a hook is given, by its name in the table above."""
        if part == "result":
            return forward.ret_type
        if part == "result dual":
            result = get_proper_type(forward.ret_type)
            outputs = result.items if isinstance(result, TupleType) else [result]
            return self._tuple([self._dual(t) for t in outputs])
        given = [t for t, kind in zip(forward.arg_types, forward.arg_kinds, strict=True) if kind == ARG_POS]
        items = [self._dual(t) for t in given] if part == "argument duals" else given
        return self._tuple(items, more=len(given) < len(forward.arg_types))

    def _dual(self, t: Type) -> Type:
        """A gradient; what is no tensor has none."""
        return mapped(self.layouts, t, dual, plain=True) if tensors_in(t) else unknown_type()

    @staticmethod
    def _new(name: str, forward: CallableType, parts: list[Type]) -> Type:
        """What a hook may put in the place of what it is given."""
        new = parts[-1] if name != "register_full_backward_hook" else parts[0]
        choices = [new, NoneType()]
        if name == "register_forward_pre_hook" and len(forward.arg_types) == 1:
            choices.append(forward.arg_types[0])
        new = get_proper_type(new)
        if name.startswith("register_full_backward") and isinstance(new, TupleType) and len(new.items) == 1:
            choices.append(new.items[0])
        return UnionType.make_union(choices)

    @staticmethod
    def _with_kwargs(ctx: MethodSigContext) -> bool:
        names = ctx.default_signature.arg_names
        given = ctx.args[names.index("with_kwargs")] if "with_kwargs" in names else []
        return bool(given) and option(ctx.api, given[0]) is not False

    # ---- hooks of tensors

    def tensor_hook(self, ctx: MethodSigContext) -> FunctionLike:
        """``x.register_hook(f)``: ``f`` takes the dual of ``x``."""
        t = get_proper_type(ctx.type)
        layout = self.layouts.read(t) if is_tensor(t) else None
        if not isinstance(t, Instance) or layout is None or not any(layout):
            return ctx.default_signature
        new = gradient(layout, self.bench.config.reduced, parameter=t.type.has_base(PARAMETER))
        taken = self.layouts.tensor(self.layouts.write(new))
        hook = self._function(ctx.api, [taken], UnionType.make_union([taken, NoneType()]))
        return ctx.default_signature.copy_modified(arg_types=[hook, *ctx.default_signature.arg_types[1:]])

    # ---- buffers and parameters

    def register(self, ctx: MethodContext) -> Type:
        """``self.register_buffer("mask", t)``: ``t`` fits ``mask: Tensor[R[TP]]`` of the class."""
        declared, given = self._attribute(ctx), ctx.arg_types[1] if len(ctx.arg_types) > 1 else []
        if declared is not None and given and mentions_layout(declared):
            compat.check_subtype(ctx.api, given[0], declared, ctx.args[1][0], INCOMPATIBLE_TYPES_IN_ASSIGNMENT)
        return ctx.default_return_type

    def lookup(self, ctx: MethodContext) -> Type:
        """``module.get_parameter("weight")``: the attribute's declared type."""
        declared = self._attribute(ctx)
        if declared is None or not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        t = get_proper_type(declared)
        fits = is_tensor(t) or module_of(t) is not None
        return declared if fits and isinstance(t, Instance) else ctx.default_return_type

    @staticmethod
    def _attribute(ctx: MethodContext) -> Type | None:
        """The type of the attribute whose name is the first argument; None where it is not known."""
        module = module_of(ctx.type)
        expression: Expression | None = ctx.args[0][0] if ctx.args and ctx.args[0] else None
        name = option(ctx.api, expression) if expression is not None else None
        symbol = module.type.get(name) if module is not None and isinstance(name, str) else None
        if module is None or symbol is None or not isinstance(symbol.node, Var) or not isinstance(name, str):
            return None
        if symbol.node.type is None:  # to be inferred yet: asking for it would be an error of our own
            return None
        return compat.member_type(ctx.api, module, name, ctx.context)

    # ---- types

    def _tuple(self, items: list[Type], *, more: bool = False) -> Type:
        info = self.layouts.info("builtins.tuple")
        if info is None:
            return unknown_type()
        fallback = Instance(info, [unknown_type()])
        rest: list[Type] = [UnpackType(Instance(info, [unknown_type()]))] if more else []
        return TupleType([*items, *rest], fallback)

    @staticmethod
    def _function(api: Any, taken: list[Type], gives: Type) -> ProperType:
        kinds: list[ArgKind] = [ARG_POS] * len(taken)
        names: list[str | None] = [None] * len(taken)
        return CallableType(taken, kinds, names, gives, api.named_generic_type("builtins.function", []))
