"""``strict = true``: what makes values unknown is an error in the modules that ask for it.

Reported are annotations without a type or with an axis left out, and calls that take typed tensors and give one of
unknown type.  ``Tensor[Any]``, or Any beside other types, says that something is left open on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from mypy.nodes import ExpressionStmt, FuncDef, MypyFile, Node, OpExpr
from mypy.plugin import AnalyzeTypeContext
from mypy.types import AnyType, CallableType, ProperType, TupleType, Type, TypeVarType, UnboundType, get_proper_type

from spmd_mypy import codes, compat
from spmd_mypy.fullnames import canonical
from spmd_mypy.hooks.arguments import AnyCall, Operand, operands
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.layout import layout_argument, tensors_in
from spmd_mypy.messages import short_name
from spmd_mypy.tree import walk

Hook = Callable[[Any], Type]

_OPEN: Final = frozenset({"Any", "typing.Any", "t.Any"})
# Calls whose result is no tensor, or of whose result torch's annotations say nothing.
_LEAVING: Final = frozenset({"item", "tolist", "numpy", "backward", "data_ptr", "register_hook", "size"})


class Strict:
    """Wraps the other hooks; where no module is strict it hands them back as they are."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.config = bench.config
        self.on = self.config.strict or any(strict for _, strict in self.config.strict_modules)
        self._tree: MypyFile | None = None
        self._unused: frozenset[Node] = frozenset()

    # ---- annotations

    def annotation(self, hook: Callable[[AnalyzeTypeContext], Type]) -> Callable[[AnalyzeTypeContext], Type]:
        """``hook`` for a tensor class, which also reports what the annotation leaves open."""

        def analyze(ctx: AnalyzeTypeContext) -> Type:
            result = hook(ctx)
            if self._is_strict(_module(ctx.api)):
                self._check_annotation(ctx, get_proper_type(result))
            return result

        return analyze if self.on else hook

    def _check_annotation(self, ctx: AnalyzeTypeContext, result: ProperType) -> None:
        given = ctx.type.args
        if any(isinstance(a, UnboundType) and a.name in _OPEN for a in given):
            return
        name = ctx.type.name.rpartition(".")[2]
        layout = get_proper_type(layout_argument(result) or AnyType(0))
        if not given:
            ctx.api.fail(
                f"{name} has no type here, so its values are not checked (strict): write the type in brackets, "
                f"or Any in its place to leave it open", ctx.context, code=codes.ANNOTATION,
            )  # fmt: skip
        elif isinstance(layout, TupleType):
            left = [self.config.axes[i].cls for i in self._unknown(layout)]
            if left:
                ctx.api.fail(
                    f"{name}[...] says nothing about {', '.join(left)} (strict): name the type there, "
                    f"or add Any to leave it open", ctx.context, code=codes.ANNOTATION,
                )  # fmt: skip

    def _unknown(self, layout: TupleType) -> list[int]:
        return [
            i
            for i, slot in enumerate(layout.items)
            if i not in self.config.size_one and isinstance(get_proper_type(slot), AnyType)
        ]

    # ---- calls

    def call(self, fullname: str, hook: Hook | None, default: Hook) -> Hook | None:
        """``hook`` for a function or method, which also reports that the call loses a type."""
        if not self.on:
            return hook
        inner = hook or default

        def watched(ctx: AnyCall) -> Type:
            tree = compat.current_file(ctx.api)
            if tree is None or not self._is_strict(tree.fullname):
                return inner(ctx)
            self._look_at(ctx, tree)
            before = self.bench.failures
            result = inner(ctx)
            if self.bench.failures == before:
                self._check_call(fullname, ctx, tree, get_proper_type(result))
            return result

        return watched

    def _check_call(self, fullname: str, ctx: AnyCall, tree: MypyFile, result: ProperType) -> None:
        if isinstance(ctx.context, OpExpr) or fullname.rpartition(".")[2] in _LEAVING:
            return
        given, _ = operands(canonical(fullname), ctx)
        known = self._known_axes(given)
        if not known:
            return
        if isinstance(result, AnyType):
            if ctx.context in self._unused:
                return
            lost = "Any"
        else:
            axes = self._lost(result, known)
            if not axes:
                return
            lost = f"a tensor of unknown type on {', '.join(self.config.axes[i].cls for i in axes)}"
        if not self._expected(ctx, known):
            name = short_name(canonical(fullname))
            text = f"{name} takes typed tensors and gives {lost} (strict): declare what it gives"
            self.bench.fail(ctx.api, ctx.context, codes.ANNOTATION, text)

    def _known_axes(self, given: Sequence[Operand]) -> frozenset[int]:
        """Axes on which every tensor that goes in is known."""
        layouts = [self.bench.layouts.read(o.type) or self.bench.layouts.unknown for o in given if not o.number]
        columns = zip(*layouts, strict=True) if layouts else ()
        return frozenset(i for i, column in enumerate(columns) if all(kind is not None for kind in column))

    def _lost(self, result: ProperType, known: frozenset[int]) -> list[int]:
        """Axes that are known of what goes in, but not of a tensor that comes out."""
        found: set[int] = set()
        for tensor in tensors_in(result):
            argument = layout_argument(tensor)
            if argument is None or isinstance(get_proper_type(argument), TypeVarType):
                continue
            found |= known & self.bench.layouts.open_axes(tensor)
        return sorted(found)

    def _expected(self, ctx: AnyCall, known: frozenset[int]) -> bool:
        """Whether the place at which the call stands declares what the call does not tell."""
        wanted = compat.expected_type(ctx.api)
        if wanted is None:
            return False
        tensors = tensors_in(wanted)
        return bool(tensors) and not any(known & self.bench.layouts.open_axes(t) for t in tensors)

    # ---- places

    def _is_strict(self, module: str | None) -> bool:
        return module is not None and self.config.is_strict(module)

    def _look_at(self, ctx: AnyCall, tree: MypyFile) -> None:
        """What is asked of a module as a whole, once, with the first of its calls."""
        if tree is self._tree:
            return
        self._tree, nodes = tree, list(walk(tree))
        self._unused = frozenset(n.expr for n in nodes if isinstance(n, ExpressionStmt))
        for function in nodes:
            if isinstance(function, FuncDef) and isinstance(function.type, CallableType) and self._typed(function.type):
                self._check_parameters(ctx, function)

    def _typed(self, signature: CallableType) -> bool:
        """Whether a tensor among the arguments or in the result has a type."""
        found = [t for part in (*signature.arg_types, signature.ret_type) for t in tensors_in(part)]
        return any(any(self.bench.layouts.read(t) or ()) for t in found)

    def _check_parameters(self, ctx: AnyCall, function: FuncDef) -> None:
        """Report parameters without annotation, unless their default says that they hold no tensor."""
        for argument in function.arguments[bool(function.info) :]:
            if argument.type_annotation is None and argument.initializer is None:
                text = (
                    f"parameter {argument.variable.name} of {function.name} has no annotation (strict): give its type"
                )
                with compat.past_all_trials(ctx.api):
                    self.bench.fail(ctx.api, argument, codes.ANNOTATION, text)


def _module(api: Any) -> str | None:
    """The module in which an annotation stands."""
    inner = getattr(api, "api", api)
    name = getattr(inner, "cur_mod_id", None)
    if isinstance(name, str):
        return name
    tree = compat.current_file(inner)
    return tree.fullname if tree is not None else None
