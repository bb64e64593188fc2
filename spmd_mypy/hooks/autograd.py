"""``torch.autograd.Function``: ``apply`` has ``forward``'s type, and ``backward`` is checked against ``forward``.

The gradient of a value is its dual (R and P swap, I and V are their own).  So ``backward`` must take the duals of what
``forward`` gives, and give the duals of what ``forward`` takes: a hand-written pair of collectives with the wrong
backward is an error at the class.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from mypy.nodes import ARG_STAR, ArgKind, Decorator, TypeInfo
from mypy.plugin import AttributeContext, ClassDefContext
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    Overloaded,
    ProperType,
    TupleType,
    Type,
    TypeType,
    UnionType,
    get_proper_type,
)

from spmd_mypy import codes, compat
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.saved import SavedTensors
from spmd_mypy.hooks.signatures import is_function, mentions_layout, sets_up_context
from spmd_mypy.layout import is_tensor
from spmd_mypy.messages import Difference, backward_message
from spmd_mypy.rules.collectives import same_dim
from spmd_mypy.rules.kinds import AxisType, Layout, dual


class _Parameter(NamedTuple):
    name: str
    type: Type
    kind: ArgKind


class Functions:
    """The hooks for hand-written autograd functions."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self.saved = SavedTensors(bench)

    # ---- apply

    @staticmethod
    def apply(ctx: AttributeContext) -> Type:
        """``F.apply``, called or passed on: ``forward`` without ``ctx``."""
        info = _class_of(get_proper_type(ctx.type))
        forward = _written(info, "forward") if info is not None and is_function(info) else None
        if info is None or forward is None or not mentions_layout(forward):
            return ctx.default_attr_type
        return forward if sets_up_context(info) else _without_context(forward)

    # ---- backward against forward

    def checked(self, ctx: ClassDefContext) -> None:
        """A class derived from Function: its ``backward`` against its ``forward``, once their types are analyzed."""
        info = ctx.cls.info
        if is_function(info) and {"forward", "backward"} & set(info.names):
            compat.after_functions(ctx.api, info, partial(self._check, ctx, info))

    def _check(self, ctx: ClassDefContext, info: TypeInfo) -> None:
        forward, backward = _written(info, "forward"), _written(info, "backward")
        if not isinstance(forward, CallableType) or not mentions_layout(forward):
            return
        self.saved.declare(info, forward)
        if isinstance(backward, CallableType):
            inputs = _parameters(forward, skip=0 if sets_up_context(info) else 1)
            for text in [*self._arriving(forward, backward), *self._leaving(inputs, backward)]:
                ctx.api.fail(f"{ctx.cls.name}: {text}", ctx.cls, code=codes.GRAD)

    def _arriving(self, forward: CallableType, backward: CallableType) -> Iterator[str]:
        """Complaints about the gradients that ``backward`` is given."""
        output = get_proper_type(forward.ret_type)
        outputs = output.items if isinstance(output, TupleType) else [output]
        taken = _parameters(backward, skip=1)
        for i, result in enumerate(outputs):
            parameter = _at(taken, i)
            if parameter is not None:
                value = "forward's result" if len(outputs) == 1 else f"forward's result {i}"
                for difference in self._differences(result, parameter.type):
                    yield backward_message("takes", parameter.name or "the gradient", value, difference)

    def _leaving(self, inputs: list[_Parameter], backward: CallableType) -> Iterator[str]:
        """Complaints about the gradients that ``backward`` gives."""
        result = get_proper_type(backward.ret_type)
        if isinstance(result, TupleType):
            pairs = [(_at(inputs, i), item) for i, item in enumerate(result.items)]
        elif isinstance(result, Instance) and result.type.fullname == "builtins.tuple":
            pairs = [(parameter, result.args[0]) for parameter in inputs]
        else:
            pairs = [(_at(inputs, 0), result)]
        for parameter, gradient in pairs:
            if parameter is not None:
                for difference in self._differences(parameter.type, gradient):
                    yield backward_message("gives", "the gradient", parameter.name or "the argument", difference)

    def _differences(self, value: Type, gradient: Type) -> Iterator[Difference]:
        """The axes on which a gradient, as declared, is not the dual of the value, as declared."""
        for axis, (have, found) in enumerate(zip(self._layout(value), self._layout(gradient), strict=True)):
            wanted = dual(have)
            if have is not None and wanted is not None and found is not None and not _agree(wanted, found):
                yield Difference(self.bench.axis(axis), have, wanted, found)

    def _layout(self, t: Type) -> Layout:
        """The layout of a tensor that may be None; unknown for anything else."""
        t = get_proper_type(t)
        members = t.items if isinstance(t, UnionType) else [t]
        tensors = [member for member in members if is_tensor(member)]
        layout = self.layouts.read(tensors[0]) if len(tensors) == 1 else None
        return layout if layout is not None else self.layouts.unknown


def _agree(wanted: AxisType, found: AxisType) -> bool:
    if wanted.letter != found.letter:
        return False
    return wanted.dim is None or found.dim is None or same_dim(wanted.dim, found.dim)


# ---- signatures


def _class_of(t: ProperType) -> TypeInfo | None:
    """The class of which ``t`` is the class object."""
    if isinstance(t, TypeType):
        return t.item.type if isinstance(t.item, Instance) else None
    if isinstance(t, FunctionLike) and t.is_type_obj():
        return t.type_object()
    return None


def _written(info: TypeInfo, name: str) -> FunctionLike | None:
    """A static method as its author wrote it; None for torch's own."""
    for base in info.mro:
        symbol = base.names.get(name)
        if symbol is not None:
            node = symbol.node.func if isinstance(symbol.node, Decorator) else symbol.node
            t = getattr(node, "type", None)
            return t if isinstance(t, FunctionLike) and not base.fullname.startswith("torch.autograd.") else None
    return None


def _without_context(forward: FunctionLike) -> FunctionLike:
    if isinstance(forward, Overloaded):
        return Overloaded([_drop_first(item) for item in forward.items])
    return _drop_first(forward) if isinstance(forward, CallableType) else forward


def _drop_first(t: CallableType) -> CallableType:
    if not t.arg_kinds or t.arg_kinds[0] == ARG_STAR:
        return t
    return t.copy_modified(arg_types=t.arg_types[1:], arg_kinds=t.arg_kinds[1:], arg_names=t.arg_names[1:])


def _parameters(t: CallableType, skip: int) -> list[_Parameter]:
    found = [_Parameter(*p) for p in zip([n or "" for n in t.arg_names], t.arg_types, t.arg_kinds, strict=True)]
    return found[skip:]


def _at(parameters: list[_Parameter], index: int) -> _Parameter | None:
    """The parameter that takes positional argument ``index``."""
    for i, parameter in enumerate(parameters):
        if i == index or parameter.kind == ARG_STAR:
            return parameter
    return None
