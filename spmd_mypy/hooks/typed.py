"""``spmd.typed(module, weight=V[TP])``: the module's class, with those attributes declared.

The result is an instance of a subclass made up for it, as mypy makes up intersections for ``isinstance``: attribute
look-up, calls, joins and caches then need nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mypy.mro import calculate_mro
from mypy.nodes import (
    GDEF,
    MDEF,
    Block,
    CallExpr,
    ClassDef,
    DictExpr,
    Expression,
    MypyFile,
    NameExpr,
    SymbolTable,
    SymbolTableNode,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.plugin import FunctionContext
from mypy.types import Instance, NoneType, ProperType, Type, get_proper_type

from spmd_mypy import codes, compat
from spmd_mypy.fullnames import BUFFER, PARAMETER
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import AxisReader, Given, class_of, kind_value
from spmd_mypy.hooks.signatures import STOCK, module_of, stock_operation
from spmd_mypy.layout import axis_type, is_tensor, unknown_type
from spmd_mypy.messages import parameter_message
from spmd_mypy.rules.gradients import judge_parameter
from spmd_mypy.rules.kinds import AxisType, Layout
from spmd_mypy.rules.ops import find

# Arguments with which stock modules are made without parameters.
_SWITCHES: Final = {"bias": ("bias",), "elementwise_affine": ("weight", "bias"), "affine": ("weight", "bias")}


class Typed:
    """The hook for ``spmd.typed``."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.axes = AxisReader(bench)

    def typed(self, ctx: FunctionContext) -> Type:
        """``typed(module, **layouts)``."""
        module = module_of(ctx.default_return_type)
        tree = compat.current_file(ctx.api)
        if module is None or tree is None:
            return ctx.default_return_type
        declared: dict[str, Layout | None] = {}
        for name, given in _keywords(ctx):
            if not self._has(module, name):
                self._fail(ctx, given.expression, f"{module.type.name} has no parameter or buffer {name!r}")
            elif isinstance(given.type, NoneType):
                declared[name] = None
            else:
                declared[name] = self._layout(ctx, given)
                self._judge(ctx, module, name, declared[name], given.expression)
        for name in self._switched_off(ctx, module):
            declared.setdefault(name, None)
        return self._subclass(tree, module, declared) if declared else ctx.default_return_type

    # ---- reading

    @staticmethod
    def _has(module: Instance, name: str) -> bool:
        """Whether a module may have a parameter of that name; only torch's own are known for sure."""
        own = stock_parameters(module)
        return not own or name in own or module.type.get(name) is not None or not module.type.fullname.startswith(STOCK)

    def _layout(self, ctx: FunctionContext, given: Given) -> Layout:
        slots: list[AxisType | None] = [None] * self.layouts.size
        for index, kind in self._parts(ctx, given):
            if index < 0 or kind is None:
                continue
            if slots[index] is not None:
                self._fail(ctx, given.expression, f"axis {self.bench.axis(index)} is given twice")
            slots[index] = kind
        return tuple(slots)

    def _parts(self, ctx: FunctionContext, given: Given) -> Iterator[tuple[int, AxisType | None]]:
        """Axes with what the parameter is there: from ``V[TP]``, a tuple of those, or ``{TP: S(0)}``."""
        expression = given.expression
        if isinstance(expression, TupleExpr):
            for item in expression.items:
                yield from self._parts(ctx, _given(ctx.api, item))
        elif isinstance(expression, DictExpr):
            for key, value in expression.items:
                if key is not None:
                    axis = self.axes.read(ctx.api, _given(ctx.api, key), "typed")
                    yield axis, kind_value(ctx.api, _given(ctx.api, value))
        else:
            yield from self._one(ctx, given)

    def _one(self, ctx: FunctionContext, given: Given) -> Iterator[tuple[int, AxisType | None]]:
        made = class_of(given.type)
        if made is None:
            return
        axis = get_proper_type(made.args[0]) if made.args else None
        if isinstance(axis, Instance):
            index = self.bench.config.by_fullname(axis.type.fullname)
            if index is None:
                configured = self.bench.config.names()
                self._fail(ctx, given.expression, f"axis {axis.type.name} is not configured; there are {configured}")
        else:
            index = self.bench.config.default_axis
        yield (-1 if index is None else index), axis_type(made)

    def _judge(self, ctx: FunctionContext, module: Instance, name: str, layout: Layout | None, at: Expression) -> None:
        if self._class(module, name) != PARAMETER:
            return
        for violation in judge_parameter(layout or (), self.bench.config.reduced):
            self.bench.fail(ctx.api, at, codes.GRAD, parameter_message(self.bench.axis(violation.axis)))

    @staticmethod
    def _switched_off(ctx: FunctionContext, module: Instance) -> Iterator[str]:
        """The parameters that ``nn.Linear(..., bias=False)``, made in this very call, does not have."""
        made = ctx.args[0][0] if ctx.args and ctx.args[0] else None
        if isinstance(made, CallExpr):
            for name, value in zip(made.arg_names, made.args, strict=False):
                if name in _SWITCHES and isinstance(value, NameExpr) and value.fullname == "builtins.False":
                    yield from (own for own in stock_parameters(module) if own in _SWITCHES[name])

    def _fail(self, ctx: FunctionContext, at: Expression, message: str) -> None:
        self.bench.fail(ctx.api, at, codes.ANNOTATION, f"typed: {message}")

    # ---- the class

    @staticmethod
    def _class(module: Instance, name: str) -> str:
        """Parameter, or what the class declares instead."""
        symbol = module.type.get(name)
        declared = get_proper_type(symbol.type) if symbol is not None and symbol.type is not None else None
        if name in stock_parameters(module):
            return PARAMETER
        if isinstance(declared, Instance) and is_tensor(declared) and declared.type.fullname != PARAMETER:
            return BUFFER if declared.type.fullname == BUFFER else declared.type.fullname
        return PARAMETER

    def _attribute(self, module: Instance, name: str, layout: Layout | None) -> Type:
        if layout is None:
            return NoneType()
        info = self.layouts.info(self._class(module, name))
        if info is None or not info.defn.type_vars:
            return unknown_type()
        return Instance(info, [self.layouts.write(layout)])

    def _subclass(self, tree: MypyFile, module: Instance, declared: dict[str, Layout | None]) -> Instance:
        """An instance of the subclass of ``module``'s class with these attributes; one class per file and layout."""
        shown = ", ".join(f"{name}: {self._show(layout)}" for name, layout in sorted(declared.items()))
        name = f"{module.type.name}({shown})"
        existing = tree.names.get(name)
        info = existing.node if existing is not None else None
        if not isinstance(info, TypeInfo) or info.bases != [module]:
            info = _make(tree, name, module)
            for attribute, layout in declared.items():
                variable = Var(attribute, self._attribute(module, attribute, layout))
                variable.info = info
                variable._fullname = f"{info.fullname}.{attribute}"
                info.names[attribute] = SymbolTableNode(MDEF, variable, plugin_generated=True)
            tree.names[name] = SymbolTableNode(GDEF, info, module_public=False, module_hidden=True)
        return Instance(info, [])

    def _show(self, layout: Layout | None) -> str:
        if layout is None:
            return "None"
        return self.layouts.show(layout).removeprefix("Tensor").removeprefix("[").removesuffix("]") or "unknown"


def _make(tree: MypyFile, name: str, base: Instance) -> TypeInfo:
    definition = ClassDef(name, Block([]))
    definition.fullname = f"{tree.fullname}.{name}"
    info = TypeInfo(SymbolTable(), definition, tree.fullname)
    definition.info = info
    info.bases = [base]
    calculate_mro(info)
    info.metaclass_type = info.calculate_metaclass_type()
    return info


def _given(api: Any, expression: Expression) -> Given:
    found = compat.stored_type(api, expression)
    t: ProperType = unknown_type() if found is None else get_proper_type(found)
    return Given(t, expression)


def _keywords(ctx: FunctionContext) -> Iterator[tuple[str, Given]]:
    for formal, types, expressions, names in zip(
        ctx.callee_arg_names, ctx.arg_types, ctx.args, ctx.arg_names, strict=False
    ):
        if formal != "module":
            for t, expression, name in zip(types, expressions, names, strict=False):
                if name is not None:
                    yield name, Given(get_proper_type(t), expression)


def stock_parameters(module: Instance) -> tuple[str, ...]:
    """The names of a stock module's own tensors; none for other modules."""
    op = stock_operation(module.type)
    operation = find(op) if op is not None else None
    return operation.parameters if operation is not None else ()
