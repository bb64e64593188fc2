"""Layouts as mypy types and back.

``torch.Tensor`` has one covariant type variable (see ``hooks.annotations``) whose argument is a tuple with
one slot per configured axis.  A slot is an instance of one of ``spmd_runtime.types``' kinds, or Any for unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from mypy.maptype import map_instance_to_supertype
from mypy.nodes import SymbolTableNode, TypeInfo
from mypy.typeops import make_simplified_union
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    ProperType,
    TupleType,
    Type,
    TypeOfAny,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from spmd_mypy.config import Config
from spmd_mypy.fullnames import GENERIC_TENSORS, PARAMETER, PENDING, SHARD, TENSOR, TYPES
from spmd_mypy.rules import kinds
from spmd_mypy.rules.kinds import AxisType, Layout

Lookup: TypeAlias = Callable[[str], "SymbolTableNode | None"]

_READ: Final = {
    f"{TYPES}.Replicate": kinds.R,
    f"{TYPES}.Invariant": kinds.I,
    f"{TYPES}.Varying": kinds.V,
    f"{TYPES}.Partial": kinds.P,
    f"{TYPES}.Shard": kinds.V,
    f"{TYPES}.Constant": kinds.CONSTANT,
    f"{TYPES}.FactoryConstant": kinds.FACTORY,
    f"{TYPES}.Reduced": kinds.CONSTANT,
}
KINDS: Final = frozenset(_READ)
_LETTER_CLASS: Final = {"R": "Replicate", "I": "Invariant", "V": "Varying", "P": "Partial"}
# Containers of the standard library whose last argument holds the elements.
CONTAINERS: Final = frozenset(
    f"{module}.{name}"
    for module, names in (
        ("builtins", ("tuple", "list", "set", "frozenset", "dict", "map", "filter", "reversed")),
        (
            "typing",
            (
                "Sequence",
                "Iterable",
                "Iterator",
                "Mapping",
                "Collection",
                "MutableSequence",
                "Generator",
                "ValuesView",
                "ItemsView",
            ),
        ),
        ("collections", ("deque", "OrderedDict")),
        ("_collections_abc", ("dict_values", "dict_items")),
    )
    for name in names
)


def unknown_type() -> AnyType:
    """The Any of an unknown slot or layout; explicit, so that ``disallow_any_generics`` stays silent about it."""
    return AnyType(TypeOfAny.special_form)


def class_name(kind: AxisType) -> str:
    """The class of ``spmd_runtime.types`` that stands for a kind."""
    if kind.constant:
        return "FactoryConstant" if kind.factory else "Constant"
    return "Shard" if kind.dim is not None else _LETTER_CLASS[kind.letter]


def axis_type(slot: Type) -> AxisType | None:
    """The kind that a slot holds; None for Any, type variables and joins of different kinds."""
    slot = get_proper_type(slot)
    if not isinstance(slot, Instance):
        return None
    kind = _READ.get(slot.type.fullname)
    if kind is kinds.V and slot.type.fullname == SHARD and len(slot.args) > 1:
        dim = get_proper_type(slot.args[1])
        if isinstance(dim, LiteralType) and isinstance(dim.value, int):
            return kinds.shard(dim.value)
    return kind


def is_tensor(t: Type) -> bool:
    """Whether ``t`` is an instance of torch.Tensor or of a subclass."""
    t = get_proper_type(t)
    return isinstance(t, Instance) and (t.type.fullname == TENSOR or t.type.has_base(TENSOR))


def is_parameter(t: Type) -> bool:
    """Whether ``t`` is an instance of nn.Parameter."""
    t = get_proper_type(t)
    return isinstance(t, Instance) and t.type.has_base(PARAMETER)


def layout_argument(t: ProperType) -> Type | None:
    """The type argument that holds a tensor's layout, or None where ``t`` is no tensor."""
    if not isinstance(t, Instance):
        return None
    if t.type.fullname != TENSOR:
        if not t.type.has_base(TENSOR):
            return None
        t = map_instance_to_supertype(t, next(base for base in t.type.mro if base.fullname == TENSOR))
    return t.args[0] if t.args else unknown_type()


class Known(NamedTuple):
    """A layout argument that ``Layouts.write`` has made, and what of."""

    argument: TupleType
    layout: Layout


class Layouts:
    """Conversions between layouts and mypy types, for one configuration and one build."""

    def __init__(self, config: Config, lookup: Lookup) -> None:
        self.config = config
        self.size = len(config.axes)
        self._interned: dict[Layout, Layout] = {}
        self.with_constant: set[int] = set()  # identities of interned layouts with a constant in them
        self.unknown: Layout = self.intern((None,) * self.size)
        self._lookup = lookup
        self._anchor: object = None
        # What ``write`` made, by the layout's identity, and back: reading needs no look at the slots then.
        self._written: dict[int, tuple[Layout, Type]] = {}
        self._read: dict[int, Known] = {}
        # The identity of the layout by that of an argument that ``write`` made, for layouts without constants.
        self.marks: dict[int, int] = {}
        # What hooks have made of layouts for calls that repeat; gone with the classes it is made of.
        self.repeated: dict[object, Type] = {}

    def info(self, fullname: str) -> TypeInfo | None:
        """The class called ``fullname``, if the build has loaded it."""
        found = self._lookup(fullname)
        return found.node if found is not None and isinstance(found.node, TypeInfo) else None

    # ---- reading

    def read(self, t: Type) -> Layout | None:
        """The layout of a tensor, or None where ``t`` is no tensor.

        Of a union of tensors: what all members agree on, slot by slot.  Equal layouts are the same object.
        """
        t = get_proper_type(t)
        if isinstance(t, UnionType):
            return self._read_union(t)
        argument = layout_argument(t)
        if argument is None:
            return None
        argument = get_proper_type(argument)
        if not isinstance(argument, TupleType) or len(argument.items) != self.size:
            return self.unknown
        known = self._read.get(id(argument))
        if known is not None and known.argument is argument:
            return known.layout
        return self._masked(tuple([axis_type(item) for item in argument.items]))

    def _masked(self, layout: Layout) -> Layout:
        """The layout as it counts: nothing is known on axes of size one."""
        if self.config.size_one:
            layout = tuple([None if i in self.config.size_one else kind for i, kind in enumerate(layout)])
        return self.intern(layout)

    def plain(self, argument: Type) -> Layout | None:
        """The layout that ``argument`` says if there is a kind or Any in every slot, else None.

        Not so: type variables, joins of different kinds, what a collective still writes to, axes left to be inferred.
        """
        known = self._read.get(id(argument))
        if known is not None:
            return known.layout
        if not isinstance(argument, TupleType) or len(argument.items) != self.size:
            return None
        found: list[AxisType | None] = []
        for slot in argument.items:
            if isinstance(slot, Instance):
                kind = axis_type(slot) if slot.type.fullname == SHARD else _READ.get(slot.type.fullname)
                if kind is None:
                    return None
                found.append(kind)
            elif isinstance(slot, AnyType):
                found.append(None)
            else:
                return None
        return self._masked(tuple(found))

    def is_written(self, argument: Type) -> bool:
        """Whether ``write`` has made ``argument``."""
        return id(argument) in self._read

    def is_plain(self, t: Type) -> bool:
        """Whether ``t`` is a tensor whose layout ``write`` made, of kinds and unknowns alone."""
        t = get_proper_type(t)
        return isinstance(t, Instance) and len(t.args) == 1 and id(t.args[0]) in self._read

    def intern(self, layout: Layout) -> Layout:
        """The one object that stands for ``layout``."""
        found = self._interned.get(layout)
        if found is None:
            found = self._interned[layout] = layout
            if any(kind is not None and kind.constant for kind in layout):
                self.with_constant.add(id(layout))
        return found

    def _read_union(self, t: UnionType) -> Layout | None:
        layouts = [self.read(item) for item in t.relevant_items()]
        known = [layout for layout in layouts if layout is not None]
        if not known or len(known) != len(layouts):
            return None
        return self.intern(tuple(c[0] if len(set(c)) == 1 else None for c in zip(*known, strict=True)))

    def open_axes(self, t: Type) -> frozenset[int]:
        """Axes on which ``t``, a tensor or a union of tensors, has a member of unknown type."""
        t = get_proper_type(t)
        members = t.relevant_items() if isinstance(t, UnionType) else [t]
        layouts = [layout for layout in map(self.read, members) if layout is not None]
        return frozenset(i for layout in layouts for i, kind in enumerate(layout) if kind is None)

    def slots(self, t: Type) -> Sequence[Type] | None:
        """The raw slots of a tensor whose layout is given slot by slot, else None."""
        argument = layout_argument(get_proper_type(t))
        argument = get_proper_type(argument) if argument is not None else None
        if isinstance(argument, TupleType) and len(argument.items) == self.size:
            return argument.items
        return None

    # ---- writing

    def slot(self, axis: int, kind: AxisType | None) -> Type:
        """The mypy type of ``kind`` on the axis with index ``axis``."""
        if kind is None:
            return unknown_type()
        info = self.info(f"{TYPES}.{class_name(kind)}")
        axis_info = self.info(self.config.axes[axis].fullname)
        if info is None or axis_info is None:
            return unknown_type()
        args: list[Type] = [Instance(axis_info, [])]
        if kind.dim is not None:
            args.append(self.literal(kind.dim))
        return Instance(info, args)

    def literal(self, value: int) -> Type:
        """``Literal[value]``."""
        integer = self.info("builtins.int")
        return LiteralType(value, Instance(integer, [])) if integer is not None else unknown_type()

    def tuple_of(self, slots: Sequence[Type]) -> Type:
        """The layout argument with the given slots."""
        info = self.info("builtins.tuple")
        if info is None:
            return unknown_type()
        return TupleType(list(slots), Instance(info, [unknown_type()]))

    def write(self, layout: Layout) -> Type:
        """The layout argument for ``layout``; plain Any where nothing is known."""
        anchor = self.info(f"{TYPES}.Varying")
        if anchor is not self._anchor:  # another build: its classes are other objects
            self._anchor, self._written, self._read, self.marks, self.repeated = anchor, {}, {}, {}, {}
        known = self._written.get(id(layout))
        if known is not None and known[0] is layout:
            return known[1]
        interned = self.intern(layout)
        if interned is not layout:
            return self.write(interned)
        made = self._make(layout) if anchor is not None else unknown_type()
        if self._is_complete(layout, made):
            self._written[id(layout)] = (layout, made)
            if isinstance(made, TupleType) and not self.config.size_one:
                self._read[id(made)] = Known(made, layout)
                if id(layout) not in self.with_constant:
                    self.marks[id(made)] = id(layout)
        return made

    @staticmethod
    def _is_complete(layout: Layout, made: Type) -> bool:
        """Whether every class that ``layout`` needs was there; an own axis's module may be loaded later."""
        slots = made.items if isinstance(made, TupleType) else ()
        return not slots or all(k is None or isinstance(s, Instance) for k, s in zip(layout, slots, strict=True))

    def _make(self, layout: Layout) -> Type:
        if all(kind is None for kind in layout):
            return unknown_type()
        return self.tuple_of([self.slot(i, kind) for i, kind in enumerate(layout)])

    def with_slot(self, t: ProperType, axis: int, kind: AxisType | None) -> Type:
        """The layout argument of the tensor ``t`` with another kind on one axis; type variables elsewhere stay."""
        argument = layout_argument(t)
        argument = get_proper_type(argument) if argument is not None else None
        known = self._read.get(id(argument))
        if known is not None and known.argument is argument:
            layout = known.layout
            return self.write((*layout[:axis], kind, *layout[axis + 1 :]))
        slots = list(self.slots(t) or [unknown_type()] * self.size)
        slots[axis] = self.slot(axis, kind)
        return self.tuple_of(slots)

    def put(self, t: Type, results: Sequence[Type]) -> Type:
        """``t`` with its tensors' layout arguments replaced.

        ``results`` has one layout argument for all tensors in ``t``, or one per item of a tuple.
        """
        t = get_proper_type(t)
        if isinstance(t, UnionType):
            return make_simplified_union([self.put(item, results) for item in t.items])
        if isinstance(t, TupleType):
            per_item = results if len(results) == len(t.items) else [results[0]] * len(t.items)
            items = [self.put(item, [result]) for item, result in zip(t.items, per_item, strict=True)]
            return t.copy_modified(items=items)
        if not isinstance(t, Instance):
            return t
        if is_tensor(t):
            return t.copy_modified(args=[results[0]]) if len(t.args) == 1 else t
        if t.args and (t.type.fullname in CONTAINERS or t.type.fullname == PENDING):
            return t.copy_modified(args=[*t.args[:-1], self.put(t.args[-1], results)])
        return t

    def tensor(self, argument: Type) -> Type:
        """``torch.Tensor`` with the given layout argument."""
        info = self.info(TENSOR)
        return Instance(info, [argument]) if info is not None else unknown_type()

    # ---- printing

    def show(self, layout: Layout) -> str:
        """``Tensor[V[DP], P[TP]]``, unknown axes left out."""
        parts = [show_slot(kind, self.config.axes[i].cls) for i, kind in enumerate(layout) if kind is not None]
        return f"Tensor[{', '.join(parts)}]" if parts else "Tensor"


def show_slot(kind: AxisType, axis: str) -> str:
    """``V[DP]``, ``S[TP, 0]``: one slot as users write it."""
    return f"S[{axis}, {kind.dim}]" if kind.dim is not None else f"{kind.letter}[{axis}]"


_DEPTH: Final = 4  # aliases such as nested sequences are recursive types


def tensors_in(t: Type, depth: int = _DEPTH) -> list[ProperType]:
    """The tensor types inside a container type (list, tuple, dict of tensors), unions kept whole."""
    t = get_proper_type(t)
    if is_tensor(t):
        return [t]
    if depth == 0:
        return []
    inner: Sequence[Type] = ()
    if isinstance(t, UnionType):
        inner = t.relevant_items()
        if any(is_tensor(member) for member in inner):
            return [t]
        return _alternatives([found for item in inner if (found := tensors_in(item, depth - 1))])
    elif isinstance(t, TupleType):
        inner = t.items
    elif isinstance(t, Instance) and t.type.fullname in CONTAINERS and t.args:
        inner = t.args[-1:]
    return [found for item in inner for found in tensors_in(item, depth - 1)]


def _alternatives(found: Sequence[list[ProperType]]) -> list[ProperType]:
    """The tensors in a union of containers, given those in each of them: ``list[A] | list[B]`` holds ``A | B``."""
    if len(found) < 2 or len({len(tensors) for tensors in found}) > 1:
        return [tensor for tensors in found for tensor in tensors]
    return [get_proper_type(make_simplified_union(list(column))) for column in zip(*found, strict=True)]


def has_layout(t: Type, depth: int = _DEPTH) -> bool:
    """Whether a tensor in ``t``, itself or in a container, has a layout: a quick look before any work is done."""
    t = get_proper_type(t)
    if isinstance(t, Instance):
        if not t.args:
            argument = layout_argument(t)  # a subclass may fix its layout
            return argument is not None and not isinstance(get_proper_type(argument), AnyType)
        if t.type.fullname in GENERIC_TENSORS:
            return not isinstance(get_proper_type(t.args[0]), AnyType)
        return t.type.fullname in CONTAINERS and depth > 0 and has_layout(t.args[-1], depth - 1)
    if depth > 0 and isinstance(t, UnionType | TupleType):
        return any(has_layout(item, depth - 1) for item in t.items)
    return False


def same_type_variable(types: Sequence[Type]) -> Type | None:
    """The one type variable that stands for the whole layout of every tensor given, or None."""
    found: TypeVarType | None = None
    for t in types:
        argument = layout_argument(get_proper_type(t))
        argument = get_proper_type(argument) if argument is not None else None
        if not isinstance(argument, TypeVarType) or (found is not None and found.id != argument.id):
            return None
        found = argument
    return found
