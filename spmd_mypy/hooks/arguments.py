"""From a call in mypy's syntax tree to a ``rules.call.Call``: which tensors and numbers stand at which parameter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from mypy.nodes import (
    ARG_POS,
    ARG_STAR,
    ARG_STAR2,
    CallExpr,
    ComparisonExpr,
    Context,
    EllipsisExpr,
    Expression,
    FloatExpr,
    IndexExpr,
    IntExpr,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    RefExpr,
    SetExpr,
    SliceExpr,
    StarExpr,
    StrExpr,
    TempNode,
    TupleExpr,
    UnaryExpr,
    Var,
)
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    NoneType,
    ProperType,
    Type,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

from spmd_mypy import compat
from spmd_mypy.fullnames import GENERIC_TENSORS
from spmd_mypy.hooks.displays import comprehended, element_type
from spmd_mypy.layout import Layouts, has_layout, is_tensor, tensors_in
from spmd_mypy.rules.call import UNKNOWN, UNTYPED, Name, OptionValue
from spmd_mypy.rules.kinds import AxisType, Layout

AnyCall: TypeAlias = FunctionContext | MethodContext

NUMBERS: Final = frozenset({"builtins.int", "builtins.float", "builtins.bool", "builtins.complex"})
PLAIN: Final = frozenset({"builtins.str", "torch._C.dtype", "torch._C.device", "torch._C.layout", "torch._C.Size"})
_CONSTANTS: Final[dict[str, OptionValue]] = {"builtins.True": True, "builtins.False": False, "builtins.None": None}


@dataclass(slots=True)
class Operand:
    """One tensor or number among a call's arguments, with the expression it comes from.

    ``type`` is the tensor's type, unions kept whole; ``expression`` is None where a container gave it, ``container``.
    """

    param: str
    type: ProperType
    expression: Expression | None
    number: bool = False
    value: OptionValue = UNKNOWN
    container: Expression | None = None


# ---- literal options

_LITERALS: Final = (IntExpr, StrExpr, FloatExpr)
_DISPLAYS: Final = (ListExpr, TupleExpr, SetExpr)
_SEQUENCES: Final = (TupleExpr, ListExpr)
_SHOWN: Final = (RefExpr, *_LITERALS)  # whose type says all


def option(api: Any, expression: Expression) -> OptionValue:
    """The value of an argument that holds no tensor, as far as it can be read from the source or its type."""
    if isinstance(expression, _LITERALS):
        return expression.value
    if isinstance(expression, UnaryExpr) and expression.op == "-":
        value = option(api, expression.expr)
        return -value if isinstance(value, (int, float)) else UNKNOWN
    if isinstance(expression, _SEQUENCES):
        return tuple([option(api, item) for item in expression.items])
    if isinstance(expression, SliceExpr):
        return Name("builtins.slice")
    if isinstance(expression, RefExpr):
        return _reference(api, expression)
    return _literal(compat.stored_type(api, expression))


def _reference(api: Any, expression: RefExpr) -> OptionValue:
    fullname = expression.fullname
    if fullname in _CONSTANTS:
        return _CONSTANTS[fullname]
    value = _literal(compat.stored_type(api, expression))
    if value is UNKNOWN and fullname.startswith("torch."):
        return Name(public_name(fullname))
    return value


def public_name(fullname: str) -> str:
    """``torch.int64`` for ``torch._C.int64``: where users find what torch's extension module defines."""
    rest = fullname.removeprefix("torch._C.")
    return fullname if rest == fullname or "." in rest else f"torch.{rest}"


def _literal(t: Type | None) -> OptionValue:
    t = get_proper_type(t) if t is not None else None
    if isinstance(t, Instance) and t.last_known_value is not None:
        t = t.last_known_value
    if isinstance(t, LiteralType) and isinstance(t.value, int | str | float | bool):
        return t.value
    return UNKNOWN


# ---- what Python's own functions iterate over

ITERATING: Final = frozenset(f"builtins.{name}" for name in ("sum", "max", "min", "sorted"))


def iterates_others(ctx: AnyCall) -> bool:
    """Whether a function that iterates over its argument finds no tensors there: a dict's keys, pairs, numbers."""
    given = [t for types in ctx.arg_types for t in types]
    kinds = [kind for kinds in ctx.arg_kinds for kind in kinds]
    if not given or kinds.count(ARG_POS) != 1 or tensors_in(given[0]) in ([], [get_proper_type(given[0])]):
        return False
    element = compat.iterated(ctx.api, given[0])
    return element is not None and tensors_in(element) != [get_proper_type(element)]


# ---- leaves


def is_number(t: Type) -> bool:
    """Whether ``t`` is a Python number."""
    t = get_proper_type(t)
    if isinstance(t, LiteralType):
        t = t.fallback
    if isinstance(t, UnionType):
        return all(is_number(item) for item in t.items)
    return isinstance(t, Instance) and t.type.fullname in NUMBERS


def may_hide(api: Any, expression: Expression) -> bool:
    """Whether an argument holds typed tensors that its own type does not show: in a display, or rebuilt from one."""
    if isinstance(expression, StarExpr):
        expression = expression.expr
    if isinstance(expression, _SHOWN):
        return False
    if isinstance(expression, _DISPLAYS):
        return any(_shows(api, item) or may_hide(api, item) for item in expression.items)
    element = comprehended(expression)
    if element is not None:
        return _shows(api, element)
    item = element_type(api, expression)
    return item is not None and has_layout(item)


def _shows(api: Any, expression: Expression) -> bool:
    t = compat.stored_type(api, expression)
    return t is not None and has_layout(t)


def _displayed(api: Any, param: str, items: list[Expression]) -> Iterator[Operand]:
    """The leaves of a list's items; what is untyped beside a tensor is a tensor of unknown layout."""
    found: list[Operand] = []
    untyped: list[Operand] = []
    for item in items:
        inner = item.expr if isinstance(item, StarExpr) else item
        t = compat.stored_type(api, inner)
        if isinstance(get_proper_type(t) if t is not None else None, AnyType):
            untyped.append(Operand(param, AnyType(TypeOfAny.special_form), inner))
        elif t is not None and inner is item:
            found.extend(leaves(api, param, t, inner))
        elif t is not None:
            found.extend(replace(o, container=inner) for o in leaves(api, param, t, None))
    yield from found
    if any(not operand.number for operand in found):
        yield from untyped


def leaves(api: Any, param: str, t: Type, expression: Expression | None) -> Iterator[Operand]:
    """The tensors and numbers in one argument.

    In a display or a comprehension each element's own type counts: mypy joins them, in a context that knows no layouts.
    """
    t = get_proper_type(t)
    if expression is not None and not is_tensor(t):
        elements = _elements(api, param, t, expression)
        if elements is not None:
            yield from elements
            return
    if is_number(t):
        value = option(api, expression) if expression is not None else UNKNOWN
        yield Operand(param, t, expression, number=True, value=value)
        return
    for tensor in tensors_in(t):
        whole = is_tensor(t) or tensor is t
        yield Operand(param, tensor, expression if whole else None, container=None if whole else expression)


def _elements(api: Any, param: str, t: Type, expression: Expression) -> Iterable[Operand] | None:
    """The tensors and numbers in a list that is written in an argument's place; None where none is."""
    if isinstance(expression, _DISPLAYS):
        return _displayed(api, param, expression.items)
    if isinstance(expression, SliceExpr):
        bounds = [bound for bound in (expression.begin_index, expression.end_index, expression.stride) if bound]
        return (bound for bound in _displayed(api, param, bounds) if not bound.number)
    if isinstance(expression, OpExpr) and expression.op == "+":
        sides = (expression.left, expression.right)
        return [o for side in sides for o in leaves(api, param, compat.stored_type(api, side) or t, side)]
    element = comprehended(expression)
    if element is not None:
        found = compat.stored_type(api, element)
        return leaves(api, param, found, element) if found is not None else ()
    item = element_type(api, expression)
    return (replace(o, container=expression) for o in leaves(api, param, item, None)) if item is not None else None


# mypy keeps no names of positional-only parameters and of special methods' parameters.
_NAMELESS: Final = {
    "__getitem__": ("indices",),
    "__setitem__": ("indices", "value"),
    "sum": ("iterable", "start"),
}
AUGMENTED: Final = frozenset(
    {"add", "sub", "mul", "truediv", "div", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"}
)
_REFLECTED: Final = frozenset(f"__r{name}__" for name in AUGMENTED)
_NAMELESS_METHOD: Final = ("other",)
_NAMELESS_FUNCTION: Final = ("input", "other")


def operands(op: str, ctx: AnyCall) -> tuple[list[Operand], dict[str, OptionValue]]:
    """All operands of a call, the receiver first, and its options by parameter name."""
    found: list[Operand] = []
    options: dict[str, OptionValue] = {}
    method = isinstance(ctx, MethodContext)
    if isinstance(ctx, MethodContext):
        _place(ctx.api, "self", ctx.type, receiver_of(op, ctx.context), found, {})
    special = op.rpartition(".")[2]
    nameless = _NAMELESS.get(special, _NAMELESS_METHOD if method else _NAMELESS_FUNCTION)
    for at, types in enumerate(ctx.arg_types):
        name = ctx.callee_arg_names[at] if at < len(ctx.callee_arg_names) else None
        for t, kind, expression, keyword in zip(
            types, ctx.arg_kinds[at], ctx.args[at], ctx.arg_names[at], strict=False
        ):
            param = name or keyword or (nameless[at] if at < len(nameless) else "")
            if kind is ARG_STAR or kind is ARG_STAR2:
                found.extend(replace(o, container=expression) for o in leaves(ctx.api, param, t, None))
                options.setdefault(param, UNTYPED if isinstance(get_proper_type(t), AnyType) else UNKNOWN)
            else:
                _place(ctx.api, param, t, _written(special, ctx.context, expression), found, options)
    return found, options


def _place(
    api: Any, param: str, t: Type, expression: Expression | None, found: list[Operand], options: dict[str, OptionValue]
) -> None:
    """Add one argument to the operands or the options, or, for numbers, to both."""
    t = get_proper_type(t)
    name = t.type.fullname if isinstance(t, Instance) else ""
    if name in GENERIC_TENSORS:
        found.append(Operand(param, t, expression))
    elif name in NUMBERS:
        value = option(api, expression) if expression is not None else UNKNOWN
        found.append(Operand(param, t, expression, True, value))
        options[param] = value
    elif isinstance(t, AnyType):
        options[param] = UNTYPED
    elif name in PLAIN or isinstance(t, NoneType):
        options[param] = option(api, expression) if expression is not None else UNKNOWN
    else:
        here = list(leaves(api, param, t, expression))
        found.extend(here)
        if not here and _holds_untyped(api, expression):
            options[param] = UNTYPED
        elif all(operand.number for operand in here):
            options[param] = option(api, expression) if expression is not None else UNKNOWN


def _holds_untyped(api: Any, expression: Expression | None) -> bool:
    """Whether something in a display or a comprehension may be a tensor, for all that its type says."""
    if isinstance(expression, _DISPLAYS):
        items = [item.expr if isinstance(item, StarExpr) else item for item in expression.items]
    else:
        element = comprehended(expression) if expression is not None else None
        items = [element] if element is not None else []
    types = (compat.stored_type(api, item) for item in items)
    return any(isinstance(get_proper_type(t), AnyType) for t in types if t is not None)


def receiver_of(op: str, context: Context) -> Expression | None:
    """The expression whose method is called: ``x`` of ``x.relu()``, ``x + y``, ``1 - x``, ``x[0]``, ``x == y``."""
    callee = getattr(context, "callee", None)
    if callee is not None:
        return getattr(callee, "expr", None)
    if isinstance(context, ComparisonExpr):
        return context.operands[0] if len(context.operands) == 2 else None
    if isinstance(context, OpExpr):
        return context.right if op.rpartition(".")[2] in _REFLECTED else context.left
    for attribute in ("base", "lvalue", "expr"):
        found = getattr(context, attribute, None)
        if isinstance(found, Expression):
            return found
    return None


def _written(special: str, context: Context, expression: Expression) -> Expression:
    """The operand as written: for ``__rsub__`` mypy puts a placeholder in the place of the left one."""
    if isinstance(expression, TempNode) and isinstance(context, OpExpr):
        return context.left if special in _REFLECTED else context.right
    return expression


# Operations whose result shares the data of their receiver; a write into it is a write into the receiver.
_VIEWS: Final = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "ravel", "squeeze", "unsqueeze",
        "transpose", "swapaxes", "swapdims", "t", "permute", "movedim", "moveaxis", "narrow", "select", "diagonal",
        "expand", "expand_as", "unfold", "as_strided", "detach", "T", "mT", "H", "mH", "data",
    }
)  # fmt: skip


def _viewed(expression: Expression) -> Expression | None:
    """What an expression is a view of: ``x`` of ``x.view(-1)``, of ``x[0]``, of ``x.T``."""
    if isinstance(expression, IndexExpr):
        return expression.base
    if isinstance(expression, CallExpr) and isinstance(expression.callee, MemberExpr):
        return expression.callee.expr if expression.callee.name in _VIEWS else None
    if isinstance(expression, MemberExpr):
        return expression.expr if expression.name in _VIEWS else None
    return None


def base_of(expression: Expression) -> Expression:
    """What a chain of views starts from: ``x`` of ``x.view(-1)[0]``."""
    while (inner := _viewed(expression)) is not None:
        expression = inner
    return expression


def is_view(api: Any, expression: Expression) -> bool:
    """Whether a chain of views shares the data of what it starts from: no index in it is a tensor or a list."""
    while (inner := _viewed(expression)) is not None:
        if isinstance(expression, IndexExpr) and not _is_basic(api, expression.index):
            return False
        expression = inner
    return True


def _is_basic(api: Any, index: Expression) -> bool:
    if isinstance(index, TupleExpr):
        return all(_is_basic(api, item) for item in index.items)
    t = compat.stored_type(api, index)
    return isinstance(index, SliceExpr | EllipsisExpr) or (t is not None and is_number(t))


# ---- layouts


def layout_of(layouts: Layouts, operand: Operand) -> Layout | None:
    """The operand's layout; None for numbers.  A declared type is what it says, whatever constant was assigned."""
    if operand.number:
        return None
    layout = layouts.read(operand.type)
    if layout is None:
        return layouts.unknown
    if any(kind is not None and kind.constant for kind in layout) and isinstance(operand.expression, NameExpr):
        declared = _declared(layouts, operand.expression)
        if declared is not None:
            settled = tuple(
                d if k is not None and d is not None and _declares(d, k) else k
                for k, d in zip(layout, declared, strict=True)
            )
            return layouts.intern(settled)
    return layout


def _declares(declared: AxisType, constant: AxisType) -> bool:
    """Whether a constant came by its declared type; one that was reduced in place is no longer what was declared."""
    return constant.factory or (constant.constant and declared.letter in ("R", "I"))


def _declared(layouts: Layouts, expression: NameExpr) -> Layout | None:
    node = expression.node
    if isinstance(node, Var) and not node.is_inferred and node.type is not None:
        return layouts.read(node.type)
    return None
