"""Writing to variables: what a call in place makes of a name, an attribute or an element, and of its aliases.

Local variables take their new type by flow (mypy's binder).  A declared parameter or attribute keeps its type for
everyone else, so a call that would change it is ``spmd-inplace``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mypy.nodes import Context, Expression, IndexExpr, MemberExpr, NameExpr, Var
from mypy.typeops import make_simplified_union
from mypy.types import AnyType, CallableType, Instance, TupleType, Type, UnionType, get_proper_type

from spmd_mypy import codes, compat
from spmd_mypy.flow_messages import written_in_place
from spmd_mypy.hooks.acceptance import accepts_slot
from spmd_mypy.hooks.aliases import VIEW_PROPERTIES, Aliases, roots
from spmd_mypy.hooks.attributes import attribute
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.layout import CONTAINERS, axis_type, is_tensor, unknown_type
from spmd_mypy.rules.kinds import AxisType

if TYPE_CHECKING:
    from spmd_mypy.hooks.base import Workbench

# From a tensor's slots to its new ones.
Change: TypeAlias = Callable[[Sequence[Type]], Sequence[Type]]
# What is declared, and where: "parameter" or "attribute".
Declared: TypeAlias = "tuple[Type, str]"


class Write(NamedTuple):
    """A call that writes to a tensor.

    ``op`` is its name for messages, ``axes`` those on which the type may change, ``change`` gives the new
    slots; ``becomes`` is the type on these axes in the end (None: unknown), which is what others will see.
    """

    api: Any
    context: Context
    op: str
    axes: tuple[int, ...]
    change: Change
    becomes: tuple[AxisType | None, ...]


class Variables:
    """Re-types what is written to."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    # ---- types

    def argument(self, slots: Sequence[Type]) -> Type:
        """The layout argument with these slots; plain Any where nothing is known."""
        if all(isinstance(get_proper_type(slot), AnyType) for slot in slots):
            return unknown_type()
        return self.layouts.tuple_of(slots)

    def changed(self, t: Type, change: Change) -> Type:
        """``t`` with the slots of every tensor in it replaced."""
        t = get_proper_type(t)
        if isinstance(t, UnionType):
            return make_simplified_union([self.changed(item, change) for item in t.items])
        if isinstance(t, TupleType):
            return t.copy_modified(items=[self.changed(item, change) for item in t.items])
        if is_tensor(t) and isinstance(t, Instance):
            slots = self.layouts.slots(t) or [unknown_type()] * self.layouts.size
            return t.copy_modified(args=[self.argument(change(slots))]) if len(t.args) == 1 else t
        if isinstance(t, Instance) and t.type.fullname in CONTAINERS and t.args:
            return t.copy_modified(args=[*t.args[:-1], self.changed(t.args[-1], change)])
        return t

    def forgetting(self, axes: Iterable[int]) -> Change:
        """The change that leaves a tensor unknown on ``axes``."""
        gone = frozenset(axes)
        return lambda slots: [unknown_type() if i in gone else slot for i, slot in enumerate(slots)]

    def current(self, api: Any, variable: Expression) -> Type | None:
        """The type that a variable has now."""
        found = compat.narrowed_type(api, variable)
        if found is not None:
            return found
        if isinstance(variable, NameExpr) and isinstance(variable.node, Var):
            return variable.node.type
        return compat.stored_type(api, variable)

    def retype(self, api: Any, variable: Expression, change: Change, *, outside: bool = False) -> None:
        """Change the type of a variable from here on; ``outside``: also behind the comprehension around."""
        t = self.current(api, variable)
        if t is None:
            return
        new = self.changed(t, change)
        if get_proper_type(new) != get_proper_type(t):
            compat.retype(api, variable, new, outside=outside)

    # ---- writing

    def write(self, write: Write, target: Expression) -> None:
        """The value of ``target`` is written to."""
        api = write.api
        key = key_of(target)
        if key is not None:
            self.bench.scopes.around(api).collective(key, write.context.line)
        if key is None or self._is_part(api, target):
            self._forget(write, list(roots(target, self._type_of(api))))
            return
        declared = self._declared(api, target, write.context.line)
        change = write.change
        if declared is not None and self._refuse(write, target, declared):
            change = self.forgetting(write.axes)
        others = self._aliases(api).of(target, write.context.line)
        if isinstance(target, IndexExpr):
            others += roots(target.base, self._type_of(api))
        inside = self._in_comprehension(api, target, write.context.line)
        self._forget(write, others, outside=inside)
        if not inside:
            self._open_attribute(write, target)
            self.retype(api, target, change)

    def _open_attribute(self, write: Write, target: Expression) -> None:
        """Leave an undeclared attribute unknown to other methods, if the method that makes it writes to it.

        They would see the type that mypy has taken from the first assignment, before the write.
        """
        found = attribute(write.api, target) if isinstance(target, MemberExpr) else None
        key = key_of(target)
        if found is None or found.declared is not False or found.node.type is None or key is None:
            return
        _, from_before = self.bench.scopes.around(write.api).reaching(key, write.context.line)
        if not from_before:
            found.node.type = self.changed(found.node.type, self.forgetting(write.axes))

    def _in_comprehension(self, api: Any, target: Expression, line: int) -> bool:
        key = key_of(target)
        return key is not None and self.bench.scopes.around(api).in_comprehension(key, line)

    def _forget(self, write: Write, variables: list[Expression], *, outside: bool = False) -> None:
        """What shares memory with a written tensor is unknown."""
        change = self.forgetting(write.axes)
        for variable in variables:
            for other in (variable, *self._aliases(write.api).of(variable, write.context.line)):
                self.retype(write.api, other, change, outside=outside)

    def _is_part(self, api: Any, target: Expression) -> bool:
        """Whether ``target`` is a view into a tensor variable: ``x[0]``, ``x.data``."""
        if isinstance(target, MemberExpr):
            return target.name in VIEW_PROPERTIES
        t = compat.stored_type(api, target.base) if isinstance(target, IndexExpr) else None
        return t is not None and is_tensor(t)

    def _aliases(self, api: Any) -> Aliases:
        return Aliases(self.bench.scopes.around(api), self._type_of(api))

    @staticmethod
    def _type_of(api: Any) -> Callable[[Expression], Type | None]:
        return lambda expression: compat.stored_type(api, expression)

    # ---- declared parameters and attributes

    def _declared(self, api: Any, target: Expression, line: int) -> Declared | None:
        if isinstance(target, MemberExpr):
            return self._attribute(api, target)
        if not isinstance(target, NameExpr) or not isinstance(target.node, Var):
            return None
        t = self._parameter(api, target.node)
        key = key_of(target)
        if t is None or key is None or self.bench.scopes.around(api).reaching(key, line)[0]:
            return None  # it has been given another tensor, perhaps
        return t, "parameter"

    @staticmethod
    def _parameter(api: Any, node: Var) -> Type | None:
        """The declared type of a parameter of the function being checked."""
        function = compat.enclosing_function(api)
        if function is None or not isinstance(function.type, CallableType):
            return None
        for argument, t in zip(function.arguments, function.type.arg_types, strict=False):
            if argument.variable is node:
                return t
        return None

    @staticmethod
    def _attribute(api: Any, target: MemberExpr) -> Declared | None:
        found = attribute(api, target)
        if found is None or not found.declared or found.node.type is None:
            return None
        return found.node.type, "attribute"

    def _refuse(self, write: Write, target: Expression, declared: Declared) -> bool:
        """Report a write that gives a declared tensor another type."""
        t, what = declared
        for axis, new in zip(write.axes, write.becomes, strict=True):
            for old in self._kinds(t, axis):
                if old is not None and new is not None and not accepts_slot(new, old):
                    name = self.bench.text(write.api, target, "the tensor")
                    text, notes = written_in_place(write.op, (name, old, self.bench.axis(axis)), what, new)
                    self.bench.fail(write.api, write.context, codes.INPLACE, text, notes)
                    return True
        return False

    def _kinds(self, t: Type, axis: int) -> list[AxisType | None]:
        """What a tensor, or the tensors in a union or a list, are declared on an axis."""
        found: list[AxisType | None] = []

        def look(slots: Sequence[Type]) -> Sequence[Type]:
            found.append(axis_type(slots[axis]))
            return slots

        self.changed(t, look)
        return found
