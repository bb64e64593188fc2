"""Functions that call, wrap or differentiate other functions: their types pass through.

``checkpoint(f, x)`` is ``f(x)``; ``lru_cache``, ``custom_op``, ``autocast``, ``jit.script`` and the like keep a
function's signature; ``vmap`` maps it, ``grad`` gives the dual of an argument.  What mypy does by itself
(``functools.partial``, ParamSpec decorators, ``torch.no_grad``, ``torch.compile`` of a function) needs no hook.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mypy.nodes import (
    ARG_POS,
    ARG_STAR,
    ArgKind,
    CallExpr,
    Decorator,
    Expression,
    LambdaExpr,
    MemberExpr,
    RefExpr,
    TupleExpr,
)
from mypy.plugin import FunctionContext, MethodContext, MethodSigContext
from mypy.typeops import bind_self
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    NoneType,
    ProperType,
    TupleType,
    Type,
    TypeVarId,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from spmd_mypy import compat
from spmd_mypy.hooks.arguments import AnyCall, option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.signatures import mapped, mentions_layout, module_of, written_forward
from spmd_mypy.layout import unknown_type
from spmd_mypy.messages import loss_message
from spmd_mypy.rules.gradients import judge_loss
from spmd_mypy.rules.kinds import AxisType, V, dual
from spmd_mypy.tree import walk

# Functions that give back what they are given: a function, with its signature, or a module.
KEEPING: Final = frozenset(
    {
        "torch.compile", "torch.jit._script.script", "torch.jit._trace.trace", "torch.compiler.disable",
        "torch.compiler.allow_in_graph", "torch.compiler.assume_constant_result", "torch._dynamo.decorators.disable",
        "torch._dynamo.decorators.allow_in_graph", "torch._dynamo.decorators.assume_constant_result",
        "torch._jit_internal.ignore", "torch._disable_dynamo",
        "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.checkpoint_wrapper",
    }
)  # fmt: skip
# Objects that decorate a function without saying so: the method that is called with it.
DECORATING: Final = frozenset(
    f"torch.{module}.autocast.__call__"
    for module in ("amp.autocast_mode", "cuda.amp.autocast_mode", "cpu.amp.autocast_mode")
)
# Wrappers that are called in a function's place but do not know its parameters.
WRAPPING: Final = frozenset({"functools._lru_cache_wrapper.__call__", "torch._library.custom_ops.CustomOpDef.__call__"})


class _Actual(NamedTuple):
    """One argument as it is given."""

    type: Type
    expression: Expression
    kind: ArgKind
    name: str | None


def _actuals(ctx: AnyCall, *formals: str) -> list[_Actual]:
    """The arguments given for some formal parameters; ``*pair`` stands once, however many it fills."""
    found: list[_Actual] = []
    for formal, types, expressions, kinds, names in zip(
        ctx.callee_arg_names, ctx.arg_types, ctx.args, ctx.arg_kinds, ctx.arg_names, strict=False
    ):
        if formal in formals:
            for actual in map(_Actual, types, expressions, kinds, names):
                if not any(actual.expression is other.expression for other in found):
                    found.append(actual)
    return found


def _first(ctx: AnyCall) -> _Actual | None:
    for types, expressions, kinds, names in zip(ctx.arg_types, ctx.args, ctx.arg_kinds, ctx.arg_names, strict=False):
        return next(map(_Actual, types, expressions, kinds, names), None)
    return None


class Callables:
    """The hooks for functions that take functions."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    # ---- calling one

    def checkpoint(self, ctx: FunctionContext) -> Type:
        """``checkpoint(f, *args, **kwargs)``, reentrant or not, selective or not: what ``f(*args, **kwargs)`` gives."""
        function = _actuals(ctx, "function")
        if not function:
            return ctx.default_return_type
        return self._called(ctx, function[0], [*_actuals(ctx, "args"), *_actuals(ctx, "kwargs")])

    def checkpoint_sequential(self, ctx: FunctionContext) -> Type:
        """``checkpoint_sequential(sequential, segments, x)``: what ``sequential(x)`` gives."""
        functions, given = _actuals(ctx, "functions"), _actuals(ctx, "input")
        if not functions or module_of(functions[0].type) is None:
            return ctx.default_return_type
        return self._called(ctx, functions[0], given)

    def functional_call(self, ctx: FunctionContext) -> Type:
        """``functional_call(module, parameters, args)``: what ``module(*args)`` gives, with the types it declares."""
        module, given = _actuals(ctx, "module"), _actuals(ctx, "args")
        if not module or not given or _actuals(ctx, "kwargs"):
            return ctx.default_return_type
        only, t = given[0], get_proper_type(given[0].type)
        display = only.expression.items if isinstance(only.expression, TupleExpr) else []
        if isinstance(t, TupleType) and len(display) == len(t.items):
            parts = [_Actual(item, e, ARG_POS, None) for item, e in zip(t.items, display, strict=True)]
        else:
            parts = [_Actual(t, only.expression, ARG_STAR if isinstance(t, TupleType) else ARG_POS, None)]
        return self._called(ctx, module[0], parts)

    def _called(self, ctx: FunctionContext, function: _Actual, given: Sequence[_Actual]) -> Type:
        t: Type = function.type
        if isinstance(function.expression, LambdaExpr) and self.bench.uses_spmd(ctx.api):
            t = compat.lambda_type(ctx.api, function.expression, [a.type for a in given]) or t
        name = function.expression.fullname if isinstance(function.expression, RefExpr) else ""
        if not self._speaks(ctx.api, t, name):
            return ctx.default_return_type
        nodes = [compat.typed_node(a.type, a.expression) for a in given]
        actuals = compat.Actuals(nodes, [a.kind for a in given], [a.name for a in given])
        return compat.call_with(ctx.api, t, actuals, ctx.context, name or None)

    def _speaks(self, api: Any, t: Type, name: str = "") -> bool:
        """Whether calling ``t`` has to do with layouts; other code keeps the types that it had."""
        t = get_proper_type(t)
        if isinstance(t, UnionType):
            return any(self._speaks(api, item, name) for item in t.items)
        if isinstance(t, FunctionLike):
            return mentions_layout(t) or (name.startswith("torch.") and self.bench.uses_spmd(api))
        module = module_of(t)
        if module is not None and mentions_layout(written_forward(module.type)):
            return True
        return isinstance(t, Instance) and self.bench.uses_spmd(api)

    # ---- wrapping one

    def keeping(self, ctx: FunctionContext) -> Type:
        """``torch.jit.script(f)``, ``torch.compile(module)``: what goes in comes out."""
        given = _first(ctx)
        if given is None or isinstance(get_proper_type(given.type), NoneType):
            return self._factory(ctx)
        return given.type if self._speaks(ctx.api, given.type) else ctx.default_return_type

    def _factory(self, ctx: FunctionContext) -> Type:
        """``@torch.compiler.disable(recursive=False)``: a decorator that keeps the signature below it."""
        tree = compat.current_file(ctx.api)
        if tree is None or not isinstance(get_proper_type(ctx.default_return_type), AnyType):
            return ctx.default_return_type
        for node in walk(tree):
            if isinstance(node, Decorator) and any(d is ctx.context for d in node.original_decorators):
                return _keeping(ctx.api) if mentions_layout(node.func.type) else ctx.default_return_type
        return ctx.default_return_type

    @staticmethod
    def decorating(ctx: MethodContext) -> Type:
        """``torch.autocast("cuda")(f)``: ``f``."""
        given = _first(ctx)
        return given.type if given is not None and mentions_layout(given.type) else ctx.default_return_type

    @staticmethod
    def wrapped(ctx: MethodSigContext) -> FunctionLike:
        """A call of a cached function: mypy knows its result only, the function itself has its parameters."""
        callee = ctx.context.callee if isinstance(ctx.context, CallExpr) else None
        written = _decorated_function(ctx.api, callee)
        if written is None or not mentions_layout(written):
            return ctx.default_signature
        return written

    # ---- transforming one

    def vmap(self, ctx: FunctionContext) -> Type:
        """``vmap(f)``: ``f``'s layouts; outside, dims count the mapped one too, so a Shard is only Varying."""
        signature = _transformed(ctx)
        if signature is None or not mentions_layout(signature):
            return ctx.default_return_type
        return mapped(self.layouts, signature, _without_dim)

    def grad(self, ctx: FunctionContext) -> Type:
        """``torch.func.grad(f)``: the dual of the argument; ``f`` must give what a backward may start from."""
        return self._differentiated(ctx, with_value=False)

    def grad_and_value(self, ctx: FunctionContext) -> Type:
        """``torch.func.grad_and_value(f)``: the gradient and the value."""
        return self._differentiated(ctx, with_value=True)

    def _differentiated(self, ctx: FunctionContext, *, with_value: bool) -> Type:
        function, signature = _first(ctx), _transformed(ctx)
        t = get_proper_type(function.type) if function is not None else None
        if function is None or not isinstance(t, CallableType) or signature is None:
            return ctx.default_return_type
        if not mentions_layout(t):
            return ctx.default_return_type
        aux = self._literal(ctx, "has_aux", default=False)
        argnums = self._literal(ctx, "argnums", default=0)
        value = get_proper_type(t.ret_type)
        loss = value.items[0] if aux and isinstance(value, TupleType) and value.items else value
        self._check_loss(ctx, function.expression, get_proper_type(loss))
        gradient = self._gradient(signature, argnums)
        if gradient is None or aux not in (True, False):
            return ctx.default_return_type
        if with_value:
            result: Type = self._tuple([gradient, value])
        else:
            aux_type = value.items[1] if isinstance(value, TupleType) and len(value.items) == 2 else unknown_type()
            result = self._tuple([gradient, aux_type]) if aux else gradient
        return signature.copy_modified(ret_type=result)

    def _gradient(self, function: CallableType, argnums: object) -> Type | None:
        if isinstance(argnums, tuple):
            parts = [self._gradient(function, n) for n in argnums]
            return self._tuple([unknown_type() if part is None else part for part in parts])
        if not isinstance(argnums, int) or not -len(function.arg_types) <= argnums < len(function.arg_types):
            return None
        return mapped(self.layouts, function.arg_types[argnums], dual, plain=True)

    def _check_loss(self, ctx: FunctionContext, expression: Expression, loss: ProperType) -> None:
        layout = self.layouts.read(loss)
        for violation in judge_loss(layout or self.layouts.unknown, self.bench.config.reduced):
            kind = layout[violation.axis] if layout is not None else None
            if kind is not None:
                name = f"the result of {self.bench.text(ctx.api, expression, 'the function')}"
                message = loss_message(name, kind, self.bench.axis(violation.axis))
                self.bench.fail(ctx.api, ctx.context, message.code, message.text, message.notes)

    @staticmethod
    def _literal(ctx: FunctionContext, name: str, *, default: object) -> object:
        given = _actuals(ctx, name)
        return option(ctx.api, given[0].expression) if given else default

    def _tuple(self, items: list[Type]) -> Type:
        info = self.layouts.info("builtins.tuple")
        return TupleType(items, Instance(info, [unknown_type()])) if info is not None else unknown_type()


def _transformed(ctx: FunctionContext) -> CallableType | None:
    """The signature that a transform of ``torch.func`` gives before its result is adapted, or None.

    torch 2.9 says only that it is a function; it takes what the function takes that is transformed.
    """
    default, function = get_proper_type(ctx.default_return_type), _first(ctx)
    if not isinstance(default, CallableType) or function is None or not default.is_ellipsis_args:
        return default if isinstance(default, CallableType) else None
    given = get_proper_type(function.type)
    if isinstance(given, Instance):
        given = get_proper_type(compat.member_type(ctx.api, given, "__call__", ctx.context))
    return given if isinstance(given, CallableType) else default


def _without_dim(kind: AxisType) -> AxisType:
    return V if kind.dim is not None else kind


def _keeping(api: Any) -> CallableType:
    """``def [F] (f: F) -> F``."""
    function = api.named_generic_type("builtins.function", [])
    top = api.named_generic_type("builtins.object", [])
    f = TypeVarType("F", "F", TypeVarId(-1), [], top, unknown_type())
    return CallableType([f], [ARG_POS], [None], f, function, variables=[f])


def _decorated_function(api: Any, callee: Expression | None) -> FunctionLike | None:
    """The signature below the decorators of the function that ``callee`` names, bound if it is a method."""
    if not isinstance(callee, RefExpr):
        return None
    node, receiver = callee.node, None
    if node is None and isinstance(callee, MemberExpr):
        receiver = compat.stored_type(api, callee.expr)
        receiver = get_proper_type(receiver) if receiver is not None else None
        symbol = receiver.type.get(callee.name) if isinstance(receiver, Instance) else None
        node = symbol.node if symbol is not None else None
    written = node.func.type if isinstance(node, Decorator) else None
    if not isinstance(written, FunctionLike):
        return None
    if receiver is not None and isinstance(node, Decorator) and not node.func.is_static:
        return bind_self(written, receiver)
    return written
