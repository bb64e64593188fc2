"""Where an unknown type comes from: the first place on the way at which it was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from mypy.nodes import (
    CallExpr,
    Decorator,
    Expression,
    FuncDef,
    FuncItem,
    IndexExpr,
    ListComprehension,
    MemberExpr,
    NameExpr,
    Node,
    OpExpr,
    OverloadedFuncDef,
    RefExpr,
    SetComprehension,
    Var,
)
from mypy.types import AnyType, CallableType, Instance, ProperType, TupleType, Type, UnionType, get_proper_type

from spmd_mypy.cli.coverage.collect import Collected, known_axes, tensors
from spmd_mypy.cli.coverage.walk import File

Counts = Callable[[tuple[bool, ...]], bool]
# Whose results are of unknown type, whatever they are given.
_FRESH: Final = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "rand", "randint", "randn", "randperm"}
)
# The parts of an expression that its type is made of.
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "OpExpr": ("left", "right"), "UnaryExpr": ("expr",), "AwaitExpr": ("expr",), "CastExpr": ("expr",),
    "ComparisonExpr": ("operands",), "IndexExpr": ("base",), "ConditionalExpr": ("if_expr", "else_expr"),
    "AssignmentExpr": ("value",), "StarExpr": ("expr",), "ListExpr": ("items",), "TupleExpr": ("items",),
    "SetExpr": ("items",), "DictExpr": ("items",), "GeneratorExpr": ("left_expr",),
    "DictionaryComprehension": ("value",),
}  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """Why a type is not known: a line, and what to do something about there."""

    line: int
    text: str


class Causes:
    """Finds the cause for each unknown expression of one file; ``counts`` says which known axes are enough.

    An expression is unknown because of what it is made of.  The search goes back along unknown parts, past those
    that it is looking into already (a variable of a loop is made of itself), to the first that is unknown by itself.
    """

    def __init__(self, file: File, collected: Collected, counts: Counts) -> None:
        self.file, self.collected, self.counts = file, collected, counts
        self._found: dict[Expression, Cause] = {}
        self._asked: set[Expression] = set()
        self._guesses = False

    def of(self, e: Expression) -> Cause:
        """The cause for ``e``; in a loop that only makes itself unknown, a call in it."""
        found = self._search(e)
        if found is None:
            self._guesses = True
            found = self._search(e) or Cause(e.line, f"{_name(e)} is given a tensor of unknown type in a loop")
            self._guesses = False
        return found

    # ---- the search

    def _search(self, e: Expression) -> Cause | None:
        """The cause for ``e``; None where the search is looking into all that could be one."""
        if e in self._found:
            return self._found[e]
        if e in self._asked:
            return None
        self._asked.add(e)
        found = self._look(e)
        self._asked.discard(e)
        if found is not None:
            self._found[e] = found
        return found

    def _blamed(self, parts: Sequence[Expression], otherwise: Callable[[], Cause]) -> Cause | None:
        """The cause for the first part that is itself unknown; ``otherwise`` where no part is."""
        unknown = [part for part in parts if self._is_unknown(part)] or [part for part in parts if self._is_any(part)]
        if not unknown:
            return otherwise()
        return next(filter(None, map(self._search, unknown)), None)

    def _is_unknown(self, e: Expression) -> bool:
        """Whether ``e`` is a tensor of unknown type, or holds one: a list, a tuple, a dict."""
        found = within(self.collected.types.get(e))
        return any(not self.counts(known_axes(self.collected.config, [t])) for t in found)

    def _is_any(self, e: Expression) -> bool:
        found = self.collected.types.get(e)
        return found is not None and isinstance(get_proper_type(found), AnyType)

    # ---- by kind of expression

    def _look(self, e: Expression) -> Cause | None:
        if isinstance(e, NameExpr):
            return self._variable(e)
        if isinstance(e, MemberExpr):
            return self._attribute(e)
        if e.line in self.file.errors:
            return Cause(e.line, "an error is reported here: what follows is unknown")
        if isinstance(e, CallExpr):
            return self._call(e)
        return self._blamed(list(_operands(e)), lambda: Cause(e.line, f"the type of {_name(e)} is lost"))

    def _variable(self, e: NameExpr) -> Cause | None:
        node, owner = e.node, self.file.arguments.get(e.node) if e.node is not None else None
        declared = _declared(node, owner)
        how = "is Any" if isinstance(get_proper_type(declared), AnyType) else "is declared without its type"
        if owner is not None and not self._is_known(declared):
            return Cause(owner.line, f"parameter {e.name} of {owner.name} {how}")
        if owner is None and declared is not None and not self._is_known(declared):
            return Cause(max(e.node.line if e.node else e.line, 1), f"{e.name} {how}")
        values = self.file.bindings.get(node, []) if node is not None else []
        return self._blamed(values, lambda: self._given(e, values))

    def _is_known(self, declared: Type | None) -> bool:
        """Whether a declaration says enough; what is unknown then has come with a later value."""
        found = within(declared)
        return bool(found) and all(self.counts(known_axes(self.collected.config, [t])) for t in found)

    def _given(self, e: NameExpr, values: Sequence[Expression]) -> Cause:
        lines = sorted({value.line for value in values})
        if len(values) > 1 and all(within(self.collected.types.get(value)) for value in values):
            where = ", ".join(map(str, lines))
            return Cause(lines[-1], f"{e.name} is given tensors of different types (lines {where})")
        return Cause(lines[0] if lines else e.line, f"{e.name} is given a tensor of unknown type")

    def _attribute(self, e: MemberExpr) -> Cause | None:
        owner = get_proper_type(self.collected.types.get(e.expr))
        if self._is_any(e.expr) or within(owner):
            return self._blamed([e.expr], lambda: Cause(e.line, f"the type is lost at .{e.name}"))
        symbol = owner.type.get(e.name) if isinstance(owner, Instance) else None
        node = symbol.node if symbol is not None else e.node
        how = "is Any" if self._is_any(e) else "is declared without its type"
        if not isinstance(node, Var) or not node.info:
            return Cause(e.line, f"attribute {e.name} {how}")
        here = node.info.module_name == self.file.module
        return Cause(node.line if here and node.line > 0 else e.line, f"{node.info.name}.{e.name} {how}")

    def _call(self, e: CallExpr) -> Cause | None:
        function = e.callee.node if isinstance(e.callee, RefExpr) else None
        fullname = e.callee.fullname if isinstance(e.callee, RefExpr) else ""
        name = _name(e.callee)
        own = isinstance(function, FuncDef | Decorator | OverloadedFuncDef) and not fullname.startswith("torch.")
        if own and within(self.collected.types.get(e)):
            return Cause(e.line, f"{name}() returns a tensor without its type")
        if own:
            return Cause(e.line, f"{name}() gives Any")
        if fullname.startswith("torch.") and fullname.rpartition(".")[2] in _FRESH or name.endswith(".new_empty"):
            return Cause(e.line, self._lost_in(e))
        parts = [*([e.callee.expr] if isinstance(e.callee, MemberExpr) else []), *e.args]
        itself = Cause(e.line, self._lost_in(e))
        return self._blamed(parts, lambda: itself) or (itself if self._guesses else None)

    def _lost_in(self, e: CallExpr) -> str:
        """What a call of known tensors has done to the type."""
        called = get_proper_type(self.collected.types.get(e.callee))
        if isinstance(called, Instance) and called.type.get("weight") is not None:
            return f"{called.type.name}.weight is declared without its type"
        return f"{_name(e.callee)}() gives {'Any' if self._is_any(e) else 'a tensor of unknown type'}"


def _declared(node: Node | None, owner: FuncItem | None) -> Type | None:
    """The type that a variable was declared with; a parameter's own may be wider, where it is given other values."""
    if not isinstance(node, Var):
        return None
    if owner is None:
        return None if node.is_inferred else node.type
    declared = zip(owner.arguments, owner.type.arg_types if isinstance(owner.type, CallableType) else (), strict=False)
    return next((t for argument, t in declared if argument.variable is node), None)


def within(t: Type | None, depth: int = 3) -> list[ProperType]:
    """The tensors in a type: itself, the members of a union, the elements of a list, tuple, dict."""
    proper = get_proper_type(t)
    found = tensors(proper)
    if found or proper is None or not depth:
        return found
    if isinstance(proper, UnionType | TupleType):
        parts: Sequence[Type] = proper.items
    else:
        parts = proper.args if isinstance(proper, Instance) else ()
    return [tensor for part in parts for tensor in within(part, depth - 1)]


def _operands(e: Expression) -> Iterator[Expression]:
    """What an expression is made of."""
    if isinstance(e, ListComprehension | SetComprehension):
        e = e.generator
    for name in _PARTS.get(type(e).__name__, ()):
        part = getattr(e, name)
        for inner in part if isinstance(part, list) else [part]:  # a dict's items are pairs
            yield from filter(None, inner) if isinstance(inner, tuple) else [inner]


def _name(e: Expression) -> str:
    """A short name for an expression in a sentence."""
    if isinstance(e, NameExpr):
        return e.name
    if isinstance(e, MemberExpr):
        inner = _name(e.expr) if isinstance(e.expr, NameExpr | MemberExpr) else ""
        return f"{inner}.{e.name}" if inner else e.name
    if isinstance(e, CallExpr):
        return f"{_name(e.callee)}()"
    if isinstance(e, IndexExpr):
        return f"{_name(e.base)}[...]"
    if isinstance(e, OpExpr):
        return f"an operator {e.op}"
    return "this expression"
