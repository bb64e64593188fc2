"""``nn.ModuleList``, ``ModuleDict``, ``Sequential``, ``ParameterList`` and ``ParameterDict`` keep what they hold.

Each gets a type variable for its elements (``nn.ModuleList[Block]`` may be written in annotations), ``Module`` by
default, and torch's methods give it back: iteration, ``enumerate``, ``zip``, ``items()`` are then mypy's own inference.
Where the elements stand in the source, their positions are kept beside it, in the instance's extra attributes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mypy.expandtype import expand_type_by_instance
from mypy.nodes import ARG_STAR, COVARIANT, Context, Decorator, FuncDef, OverloadedFuncDef, SliceExpr, Statement
from mypy.plugin import ClassDefContext, FunctionContext, MethodContext, MethodSigContext
from mypy.typeops import bind_self, make_simplified_union
from mypy.types import (
    AnyType,
    CallableType,
    ExtraAttrs,
    FunctionLike,
    Instance,
    Type,
    TypeVarId,
    TypeVarType,
    UnboundType,
    UnionType,
    get_proper_type,
)

from spmd_mypy import compat
from spmd_mypy.fullnames import MODULE
from spmd_mypy.hooks.arguments import option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.elements import Elements, elements_of, later_elements
from spmd_mypy.hooks.signatures import forward_owner, module_of, same_signature, stock_operation, written_forward
from spmd_mypy.layout import unknown_type
from spmd_mypy.unmarked import ELEMENT

_MODULE_FILE: Final = "torch.nn.modules.container"
SEQUENTIAL: Final = f"{_MODULE_FILE}.Sequential"


class _Container(NamedTuple):
    """What torch writes for an element in the annotations of a container, and the methods that give elements."""

    element: str
    methods: frozenset[str]


_LISTS: Final = frozenset({"__getitem__", "__iter__", "pop", "__add__"})
_DICTS: Final = frozenset({"__getitem__", "pop", "items", "values", "get", "popitem", "copy", "setdefault"})
CONTAINERS: Final = {
    f"{_MODULE_FILE}.ModuleList": _Container("Module", _LISTS),
    SEQUENTIAL: _Container("Module", _LISTS),
    f"{_MODULE_FILE}.ModuleDict": _Container("Module", _DICTS),
    f"{_MODULE_FILE}.ParameterList": _Container("Any", _LISTS),
    f"{_MODULE_FILE}.ParameterDict": _Container("Any", _DICTS),
}


# ---- the type variable


def make_container(ctx: ClassDefContext) -> None:
    """Give a container of torch one covariant type variable and let its methods speak of it.

    The default is what torch's annotations said, so that code that does not use it sees no difference.
    """
    info = ctx.cls.info
    spec = CONTAINERS[info.fullname]
    base = next((b for b in info.bases if b.type.fullname == MODULE), None)
    if info.defn.type_vars or base is None:
        return
    holds_modules = spec.element == "Module"
    bound: Type = base if holds_modules else ctx.api.named_type("builtins.object")
    default: Type = base if holds_modules else unknown_type()
    variable = TypeVarType(
        ELEMENT, f"{info.fullname}.{ELEMENT}", TypeVarId(1, namespace=info.fullname), [], bound, default, COVARIANT
    )
    info.defn.type_vars = [variable]
    info.type_vars = []
    info.add_type_vars()
    for function in _functions(info.defn.defs.body):
        if function.name in spec.methods and isinstance(function.type, CallableType):
            function.type.ret_type = _with_elements(function.type.ret_type, spec.element, info.name, variable)


def _simplified(t: Type) -> Type:
    """A union as mypy reads it where it is declared: ``Sequential | Module`` is just ``Module``."""
    proper = get_proper_type(t)
    return make_simplified_union(proper.items) if isinstance(proper, UnionType) else t


def _functions(body: list[Statement]) -> Iterator[FuncDef]:
    for node in body:
        if isinstance(node, FuncDef):
            yield node
        elif isinstance(node, Decorator):
            yield node.func
        elif isinstance(node, OverloadedFuncDef):
            yield from _functions(list(node.items))


def _with_elements(t: Type, element: str, container: str, variable: TypeVarType) -> Type:
    """An annotation, not analyzed yet, that speaks of the type variable where it spoke of an element."""
    if isinstance(t, UnionType):
        t.items = [_with_elements(item, element, container, variable) for item in t.items]
    elif isinstance(t, UnboundType):
        if t.name == element:
            return variable
        if t.name == container and not t.args:
            t.args = (variable,)
        else:
            t.args = tuple(_with_elements(a, element, container, variable) for a in t.args)
    return t


# ---- positions


def positions(t: Instance) -> dict[str, Type]:
    """The elements of a container by index or key, as far as they are known; empty where they are not."""
    return dict(t.extra_attrs.attrs) if t.extra_attrs is not None else {}


def _with_positions(t: Instance, found: dict[str, Type]) -> Instance:
    result = t.copy_modified()
    result.extra_attrs = ExtraAttrs(found, set(), None) if found else None
    return result


class Containers:
    """The hooks for torch's containers."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    # ---- construction

    def construct(self, ctx: FunctionContext) -> Type:
        """``nn.ModuleList([Block(), ...])``: its elements, those that are appended later included."""
        default = get_proper_type(ctx.default_return_type)
        if not isinstance(default, Instance) or not self.bench.uses_spmd(ctx.api):
            return default
        found = self._given(ctx)
        later = later_elements(ctx.api, ctx.context)
        every = [*found.types, *later.types]
        if not every or not found.known or not later.known:
            return default
        element = self.common(every)
        if element is None:
            element = default.args[0] if default.args else None
        if element is None:
            return default
        result = default.copy_modified(args=[element])
        return _with_positions(result, found.positions) if later.fixed and not later.types else result

    def _given(self, ctx: FunctionContext) -> Elements:
        found = Elements()
        for types, expressions, kinds in zip(ctx.arg_types, ctx.args, ctx.arg_kinds, strict=False):
            for t, expression, kind in zip(types, expressions, kinds, strict=False):
                one_of_many = module_of(t) is not None and kind != ARG_STAR
                found.extend(Elements.single(t) if one_of_many else elements_of(ctx.api, t, expression))
        return found

    @staticmethod
    def common(types: list[Type]) -> Type | None:
        """One type for all elements of a container; None where they do not do the same: a loop then tells nothing."""
        first = module_of(types[0])
        if first is None:
            return make_simplified_union(types)
        for t in types[1:]:
            other = module_of(t)
            if other is None or not _interchangeable(first, other):
                return None
        return make_simplified_union(types)

    # ---- elements

    def narrowed(self, name: str, ctx: MethodSigContext) -> FunctionLike:
        """A method of a container whose elements nobody knows, as after ``isinstance(x, nn.ModuleDict)``: modules."""
        receiver = get_proper_type(ctx.type)
        if not isinstance(receiver, Instance) or not receiver.args:
            return ctx.default_signature
        if not isinstance(get_proper_type(receiver.args[0]), AnyType):
            return ctx.default_signature
        symbol = receiver.type.get(name)
        function = get_proper_type(symbol.type) if symbol is not None else None
        module = self.layouts.info(MODULE)
        if not isinstance(function, FunctionLike) or module is None:
            return ctx.default_signature
        holder = receiver.copy_modified(args=[Instance(module, [])])
        for overload in function.items:  # mypy asks for each of them
            if _bound(overload, receiver) == ctx.default_signature:
                return _bound(overload, holder)
        return ctx.default_signature

    def item(self, ctx: MethodContext) -> Type:
        """``layers[0]``, ``layers[1:]``, ``layers["a"]`` where the index is a literal and the position known."""
        container = get_proper_type(ctx.type)
        if not isinstance(container, Instance) or container.extra_attrs is None or not ctx.args or not ctx.args[0]:
            return _simplified(ctx.default_return_type)
        index = ctx.args[0][0]
        known = positions(container)
        if isinstance(index, SliceExpr):
            return self._sliced(ctx, container, list(known.values()), index)
        value = option(ctx.api, index)
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value + len(known) if value < 0 else value)
        return known.get(value, ctx.default_return_type) if isinstance(value, str) else ctx.default_return_type

    def _sliced(self, ctx: MethodContext, container: Instance, known: list[Type], index: SliceExpr) -> Type:
        bounds = []
        for part in (index.begin_index, index.end_index, index.stride):
            value = option(ctx.api, part) if part is not None else None
            if value is not None and not isinstance(value, int):
                return _with_positions(container, {})
            bounds.append(value)
        chosen = known[slice(*bounds)]
        element = self.common(chosen) if chosen else None
        result = container.copy_modified(args=[element]) if element is not None else container
        return _with_positions(result, {str(i): t for i, t in enumerate(chosen)})

    # ---- Sequential

    @staticmethod
    def is_sequential(receiver: Instance) -> bool:
        """Whether a call of ``receiver`` runs nn.Sequential's own forward."""
        owner = forward_owner(receiver.type)
        return owner is not None and owner.fullname == SEQUENTIAL

    def through(self, receiver: Instance, ctx: MethodContext) -> Type:
        """``sequential(x)``: every stage is checked on what the stage before it gives."""
        given = [t for types in ctx.arg_types for t in types]
        stages = self._stages(receiver)
        if len(given) != 1 or stages is None or not self._concerns_us(ctx, stages):
            return ctx.default_return_type
        flowing = given[0]
        at: Context = next(e for expressions in ctx.args for e in expressions)
        for stage in stages:
            flowing = compat.call(ctx.api, stage, [flowing], at)
            at = ctx.context
        return flowing

    def _stages(self, receiver: Instance) -> list[Type] | None:
        """The stages in order; of equal ones, however many, two show what there is to see."""
        known = list(positions(receiver).values())
        if known:
            return known
        base = next((b for b in receiver.type.mro if b.fullname == SEQUENTIAL), None)
        if base is None or not receiver.args:
            return None
        element = module_of(receiver.args[0])
        return [element, element] if element is not None and element.type.fullname != MODULE else None

    def _concerns_us(self, ctx: MethodContext, stages: list[Type]) -> bool:
        return self.bench.uses_spmd(ctx.api)


def _bound(method: CallableType, receiver: Instance) -> CallableType:
    return expand_type_by_instance(bind_self(method, receiver), receiver)


def _interchangeable(one: Instance, two: Instance) -> bool:
    """Whether two modules take and give the same types when called."""
    if one.type is two.type:
        return True
    if stock_operation(one.type) is not None or stock_operation(two.type) is not None:
        return False
    first, second = written_forward(one.type), written_forward(two.type)
    if first is None or second is None:
        return False
    return same_signature(get_proper_type(first), get_proper_type(second))


__all__ = ["CONTAINERS", "Containers", "make_container", "positions"]
