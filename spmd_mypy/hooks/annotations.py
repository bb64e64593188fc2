"""``Tensor[V[DP], P[TP]]`` in annotations, and the type variable that makes room for it in torch's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mypy.nodes import COVARIANT, TypeAlias, TypeInfo
from mypy.plugin import AnalyzeTypeContext, ClassDefContext
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    PlaceholderType,
    ProperType,
    RawExpressionType,
    TupleType,
    Type,
    TypeVarId,
    TypeVarLikeType,
    TypeVarType,
    UnboundType,
    UnionType,
    UnpackType,
    get_proper_type,
)

from spmd_mypy import codes, compat
from spmd_mypy.config import Axis, Config
from spmd_mypy.fullnames import GROUP, MESH_AXIS, PARAMETER, SHARD, SPMD_TYPE, TENSOR, TYPES
from spmd_mypy.hooks.misspelled import instead, type_text
from spmd_mypy.layout import KINDS, Layouts, axis_type, unknown_type
from spmd_mypy.messages import parameter_message
from spmd_mypy.rules.gradients import judge_parameter
from spmd_mypy.unmarked import LAYOUT

_OURS: Final = f"{TYPES}."
_NAMED: Final = (TypeAlias, TypeInfo)


def make_generic(ctx: ClassDefContext) -> None:
    """Give torch.Tensor, Parameter or Buffer one covariant type variable, Any by default.

    The default is no omitted Any, or ``disallow_any_generics`` would ask for arguments on every bare ``Tensor``, and
    no explicit one, which mypy takes for a reason to doubt between overloads (``pow(x, 2)``).
    """
    info = ctx.cls.info
    if info.defn.type_vars:
        return
    any_ = unknown_type()
    variable = TypeVarType(
        LAYOUT, f"{info.fullname}.{LAYOUT}", TypeVarId(1, namespace=info.fullname), [],
        ctx.api.named_type("builtins.object"), any_, COVARIANT,
    )  # fmt: skip
    info.defn.type_vars = [variable]
    info.type_vars = []
    info.add_type_vars()
    if info.fullname != TENSOR:
        info.bases = [b.copy_modified(args=[variable]) if b.type.fullname == TENSOR else b for b in info.bases]


class Annotations:
    """Analyses SPMD type arguments into slots and reports wrong ones (``spmd-annotation``)."""

    def __init__(self, config: Config, layouts: Layouts, stay: bool) -> None:
        """``stay`` says that the tensor classes, once found, do not change, as they may in the daemon."""
        self.config = config
        self.layouts = layouts
        self._stay = stay
        self._classes: dict[str, TypeInfo] = {}
        self._failures = 0  # how often something was reported

    # ---- Tensor[...]

    def tensor(self, class_name: str, ctx: AnalyzeTypeContext) -> Type:
        """The hook for every spelling of the tensor class ``class_name``."""
        unbound = ctx.type
        info = self._classes.get(class_name) or self._class(class_name)
        if info is None or not info.defn.type_vars:
            return compat.instance_of(ctx, info, []) if info else unknown_type()
        argument = self._argument(ctx, class_name) if unbound.args else unknown_type()
        result = Instance(info, [argument], unbound.line, unbound.column)
        result.end_line, result.end_column = unbound.end_line, unbound.end_column
        return result

    def _class(self, name: str) -> TypeInfo | None:
        """A tensor class; torch alone has seventeen thousand annotations that ask for one."""
        info = self.layouts.info(name)
        if info is not None and self._stay:
            self._classes[name] = info
        return info

    def _argument(self, ctx: AnalyzeTypeContext, class_name: str) -> Type:
        """The layout argument; annotations repeat, so that what the same names said before is looked up."""
        named = _named(ctx)
        key = None if named is None else (class_name, *named)
        known = self.layouts.repeated.get(key) if key is not None else None
        if known is not None:
            return known
        failures = self._failures
        argument = self._layout_argument(ctx, list(ctx.type.args))
        if class_name == PARAMETER:
            self._check_parameter(ctx, argument)
        if key is not None and self._failures == failures and self.layouts.is_written(argument):
            self.layouts.repeated[key] = argument
        return argument

    def _check_parameter(self, ctx: AnalyzeTypeContext, argument: Type) -> None:
        argument = get_proper_type(argument)
        if isinstance(argument, TupleType):
            layout = tuple(axis_type(slot) for slot in argument.items)
            for violation in judge_parameter(layout, self.config.reduced):
                text = parameter_message(self.config.axes[violation.axis].cls)
                self._failures += 1
                ctx.api.fail(text, ctx.context, code=codes.GRAD)

    def _layout_argument(self, ctx: AnalyzeTypeContext, arguments: list[Type]) -> Type:
        if any(self._is_unpack(a) for a in arguments):
            return unknown_type()
        analyzed = [self._analyze(ctx, a) for a in arguments]
        if len(analyzed) == 1:
            only = get_proper_type(analyzed[0])
            if isinstance(only, AnyType):
                return only
            if isinstance(only, TypeVarLikeType) and self._axis_class(only) is None:
                return only  # stands for a whole layout
        slots: list[Type | None] = [None] * self.layouts.size
        for original, argument in zip(arguments, analyzed, strict=True):
            self._place(ctx, slots, original, argument)
        if all(slot is None for slot in slots):
            return unknown_type()
        layout = tuple([None if slot is None else axis_type(slot) for slot in slots])
        if all(slot is None or kind is not None for slot, kind in zip(slots, layout, strict=True)):
            return self.layouts.write(layout)
        return self.layouts.tuple_of([unknown_type() if slot is None else slot for slot in slots])

    @staticmethod
    def _is_unpack(argument: Type) -> bool:
        if isinstance(argument, UnpackType):
            return True
        return isinstance(argument, UnboundType) and argument.name.rpartition(".")[2] == "Unpack"

    @staticmethod
    def _analyze(ctx: AnalyzeTypeContext, argument: Type) -> Type:
        return argument if isinstance(argument, RawExpressionType) else ctx.api.analyze_type(argument)

    def _place(self, ctx: AnalyzeTypeContext, slots: list[Type | None], original: Type, argument: Type) -> None:
        """Put one argument into its axis's slot, or report it."""
        kind = get_proper_type(argument)
        if isinstance(kind, AnyType | PlaceholderType):
            return
        if not self._is_kind(kind):
            self._fail(
                ctx, f"Tensor[...] takes types such as V[TP] or S[TP, 0], not {self._shown(ctx, original, kind)}"
            )
            return
        index = self._axis_index(ctx, kind)
        if index is None:
            return
        if slots[index] is not None:
            self._fail(ctx, f"axis {self.config.axes[index].cls} is given twice; a tensor has one type per axis")
            return
        if index not in self.config.size_one:
            slots[index] = self._with_axis(kind, index)

    def _shown(self, ctx: AnalyzeTypeContext, original: Type, kind: ProperType) -> str:
        """What stands where a type should, and what to write instead."""
        if isinstance(original, UnboundType):
            axis = isinstance(kind, Instance) and kind.type.has_base(MESH_AXIS)
            name = original.name
            return f"the axis alone: R[{name}], I[{name}], V[{name}], P[{name}] or S[{name}, 0]" if axis else name
        if isinstance(original, UnionType):
            return "a union: a tensor has one type per axis; for either write Tensor[V[TP]] | Tensor[R[TP]]"
        if not isinstance(original, RawExpressionType) or original.literal_value is not None:
            return str(original)
        tree = compat.tree_of(ctx.api)
        text = type_text(tree.path, original.line, original.column) if tree is not None else None
        axis_name = self.config.axes[self.config.default_axis or 0].cls
        return f"the value {text}: write {instead(text, axis_name)}" if text is not None else "an expression"

    @staticmethod
    def _is_kind(kind: ProperType) -> bool:
        if isinstance(kind, TypeVarType):
            return True
        return isinstance(kind, Instance) and (kind.type.fullname in KINDS or kind.type.fullname == SPMD_TYPE)

    def _with_axis(self, kind: ProperType, index: int) -> Type:
        """The slot's type with its axis filled in, where the annotation left it to the default axis."""
        if not isinstance(kind, Instance) or (kind.args and isinstance(kind.args[0], Instance)):
            return kind
        axis = self.layouts.info(self.config.axes[index].fullname)
        if axis is None:
            return kind
        return kind.copy_modified(args=[Instance(axis, []), *kind.args[1:]])

    # ---- axes

    def _axis_class(self, kind: ProperType) -> ProperType | None:
        """The axis argument of a kind, or of the kinds that bound a type variable; None for a whole-layout variable."""
        if isinstance(kind, TypeVarType):
            bound = get_proper_type(kind.values[0] if kind.values else kind.upper_bound)
            return self._axis_class(bound) if self._is_kind(bound) and not isinstance(bound, TypeVarType) else None
        if isinstance(kind, Instance) and kind.args:
            return get_proper_type(kind.args[0])
        return None

    def _axis_index(self, ctx: AnalyzeTypeContext, kind: ProperType) -> int | None:
        axis = self._axis_class(kind)
        if isinstance(axis, AnyType) or axis is None:
            if isinstance(kind, TypeVarType):
                self._fail(ctx, f"{kind.name} stands for a whole layout and must be the only argument; "
                                f"bound it by SpmdType[axis] to let it stand for one axis")  # fmt: skip
            elif self.config.default_axis is None:
                self._fail(ctx, "no axis is named, and the configuration has no default_axis; write V[TP], say")
            else:
                return self.config.default_axis
            return None
        return self.check_axis(ctx, axis)

    def check_axis(self, ctx: AnalyzeTypeContext, axis: ProperType) -> int | None:
        """The index of a configured axis given as a class or as Literal["tp"]; reports others."""
        if isinstance(axis, LiteralType) and isinstance(axis.value, str):
            index, shown = self.config.by_name(axis.value), axis.value
        elif isinstance(axis, Instance):
            index, shown = self.config.by_fullname(axis.type.fullname), Axis(axis.type.fullname).shown
            if index is None and not axis.type.has_base(MESH_AXIS):
                self._fail(ctx, f"{axis.type.name} is not a mesh axis; the configured axes are {self.config.names()}")
                return None
        else:
            if isinstance(axis, LiteralType):
                self._fail(ctx, f"{axis.value} is not a mesh axis; the axis stands first: S[TP, 0], say")
            return None
        if index is None:
            self._fail(ctx, f"axis {shown} is not configured; the configured axes are {self.config.spelled()} "
                            f"([tool.spmd-mypy] axes)")  # fmt: skip
        return index

    # ---- S[TP, 0] and Group[TP]

    def shard(self, ctx: AnalyzeTypeContext) -> Type:
        """``S[TP, 0]``: the number stands for ``Literal[0]``."""
        arguments: Sequence[Type] = [self._literal(a) for a in ctx.type.args]
        info = self.layouts.info(SHARD)
        if info is None:
            return unknown_type()
        if len(arguments) > 2:
            self._fail(ctx, "S takes an axis and a tensor dim: S[TP, 0]")
            arguments = arguments[:2]
        result = compat.instance_of(ctx, info, arguments)
        if isinstance(result, Instance) and len(result.args) == 2:
            dim = get_proper_type(result.args[1])
            if not isinstance(dim, LiteralType | AnyType | TypeVarType) or isinstance(
                getattr(dim, "value", 0), bool | str
            ):
                self._fail(ctx, "the tensor dim of S is an int: S[TP, 0]")
                return result.copy_modified(args=[result.args[0], unknown_type()])
        return result

    def _literal(self, argument: Type) -> Type:
        if isinstance(argument, RawExpressionType) and isinstance(argument.literal_value, int):
            integer = self.layouts.info("builtins.int")
            if integer is not None and not isinstance(argument.literal_value, bool):
                return LiteralType(argument.literal_value, Instance(integer, []))
        return argument

    def group(self, ctx: AnalyzeTypeContext) -> Type:
        """``Group[TP]``: its axis must be configured."""
        info = self.layouts.info(GROUP)
        if info is None:
            return unknown_type()
        result = compat.instance_of(ctx, info, ctx.type.args)
        if isinstance(result, Instance) and result.args:
            self.check_axis(ctx, get_proper_type(result.args[0]))
        return result

    def _fail(self, ctx: AnalyzeTypeContext, message: str) -> None:
        self._failures += 1
        ctx.api.fail(message, ctx.context, code=codes.ANNOTATION)


def _named(ctx: AnalyzeTypeContext) -> list[object] | None:
    """What the names in ``V[DP], S[TP, 0]`` stand for, or None where anything else is written.

    Kinds are ours, and so never change; of an axis only its name counts.
    """
    lookup = compat.scope_of(ctx)
    if lookup is None:
        return None
    found: list[object] = []
    for argument in ctx.type.args:
        if type(argument) is not UnboundType:
            return None
        symbol = lookup(argument.name, argument, True)
        kind = symbol.node if symbol is not None else None
        if not isinstance(kind, _NAMED) or not kind.fullname.startswith(_OURS):
            return None
        found.append(kind)
        for inner in argument.args:
            if type(inner) is UnboundType and not inner.args:
                symbol = lookup(inner.name, inner, True)
                if symbol is None or type(symbol.node) is not TypeInfo:
                    return None
                found.append(symbol.node)
            elif isinstance(inner, RawExpressionType) and type(inner.literal_value) is int:
                found.append(inner.literal_value)
            else:
                return None
        found.append(None)
    return found
