"""Which variables of a function share memory: an in-place collective on one changes the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from mypy.nodes import (
    AssignmentExpr,
    CallExpr,
    CastExpr,
    ConditionalExpr,
    DictExpr,
    DictionaryComprehension,
    Expression,
    GeneratorExpr,
    IndexExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    NameExpr,
    OpExpr,
    SetExpr,
    StarExpr,
    TupleExpr,
)
from mypy.types import Type

from spmd_mypy.hooks.scopes import Definition, Key, Scope, key_of
from spmd_mypy.layout import is_tensor

TypeOf = Callable[[Expression], "Type | None"]

# Methods and functions whose result is, or may be, a view of their argument; or holds it.
_VIEWS: Final = frozenset(
    {
        "view", "view_as", "reshape", "reshape_as", "expand", "expand_as", "t", "transpose", "permute", "movedim",
        "moveaxis", "swapaxes", "swapdims", "squeeze", "unsqueeze", "flatten", "unflatten", "ravel", "narrow", "select",
        "chunk", "split", "tensor_split", "hsplit", "vsplit", "unbind", "diagonal", "detach", "contiguous", "to",
        "type", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda", "broadcast_to", "unfold", "as_strided",
        "real", "imag", "adjoint", "conj", "values", "items", "get", "pop", "copy", "cast", "enumerate", "zip",
        "reversed", "sorted", "list", "tuple", "iter", "next", "assert_type", "mutate_type", "reinterpret_mesh",
        "convert", "reinterpret", "invariant_to_replicate",
    }
)  # fmt: skip
VIEW_PROPERTIES: Final = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})


def is_view(name: str) -> bool:
    """Whether a method or function of this name may return its argument's memory; in-place methods return it itself."""
    return name in _VIEWS or (name.endswith("_") and not name.endswith("__"))


def roots(e: Expression, type_of: TypeOf) -> Iterator[Expression]:
    """The variables whose memory the value of ``e`` may share: views and containers are seen through."""
    key = key_of(e)
    if isinstance(e, MemberExpr):
        if e.name in VIEW_PROPERTIES and _tensor(e.expr, type_of):
            yield from roots(e.expr, type_of)
        elif key is not None:
            yield e
        return
    if isinstance(e, IndexExpr):
        if key is not None and not _tensor(e.base, type_of):
            yield e
        yield from roots(e.base, type_of)
        return
    if key is not None:
        yield e
        return
    for inner in _inside(e):
        yield from roots(inner, type_of)


def _tensor(e: Expression, type_of: TypeOf) -> bool:
    t = type_of(e)
    return t is not None and is_tensor(t)


def _inside(e: Expression) -> list[Expression]:
    """The expressions whose value ``e`` passes on."""
    if isinstance(e, CallExpr):
        callee = e.callee
        if isinstance(callee, NameExpr | MemberExpr) and is_view(callee.name):
            receiver = [callee.expr] if isinstance(callee, MemberExpr) else []
            return [*receiver, *e.args]
        return []
    if isinstance(e, TupleExpr | ListExpr | SetExpr):
        return list(e.items)
    if isinstance(e, DictExpr):
        return [value for _, value in e.items]
    if isinstance(e, ConditionalExpr):
        return [e.if_expr, e.else_expr]
    if isinstance(e, OpExpr) and e.op in ("and", "or"):
        return [e.left, e.right]
    if isinstance(e, ListComprehension):
        e = e.generator
    if isinstance(e, GeneratorExpr | DictionaryComprehension):
        return [e.left_expr if isinstance(e, GeneratorExpr) else e.value]
    if isinstance(e, StarExpr | CastExpr):
        return [e.expr]
    return [e.target, e.value] if isinstance(e, AssignmentExpr) else []


def same_variable(d: Definition, type_of: TypeOf) -> bool:
    """Whether a binding gives a name its own memory again: ``x = x.view(-1)``."""
    return d.value is not None and any(key_of(root) == d.key for root in roots(d.value, type_of))


class Aliases:
    """The variables of one scope that may share memory at a line."""

    def __init__(self, scope: Scope, type_of: TypeOf) -> None:
        self.scope = scope
        self.type_of = type_of

    def of(self, variable: Expression, line: int) -> list[Expression]:
        """The other variables that may share memory with ``variable`` at ``line``."""
        start = key_of(variable)
        if start is None:
            return []
        edges = self._edges(line)
        found: dict[Key, Expression] = {start: variable}
        todo = [start]
        while todo:
            key = todo.pop()
            for one, other, expression in edges:
                if one == key and other not in found:
                    found[other] = expression
                    todo.append(other)
        return [expression for key, expression in found.items() if key != start]

    def _edges(self, line: int) -> list[tuple[Key, Key, Expression]]:
        edges: list[tuple[Key, Key, Expression]] = []
        for d in self.scope.definitions:
            if d.value is None or d not in self.scope.reaching(d.key, line)[0]:
                continue
            for root in roots(d.value, self.type_of):
                key = key_of(root)
                if key is not None and key != d.key and self._bindings(key, d.line) == self._bindings(key, line):
                    edges += [(d.key, key, root), (key, d.key, d.target)]
        return edges

    def _bindings(self, key: Key, line: int) -> set[Definition]:
        """The bindings that give the variable memory, at ``line``."""
        found, _ = self.scope.reaching(key, line)
        return {d for d in found if not same_variable(d, self.type_of)}

    def renewed(self, key: Key, line: int) -> bool:
        """Whether the variable may have been given other memory within the scope before ``line``."""
        found, _ = self.scope.reaching(key, line)
        return bool(found)


def name_of(e: Expression) -> str:
    """A variable as messages name it."""
    if isinstance(e, NameExpr):
        return e.name
    if isinstance(e, MemberExpr):
        return f"{name_of(e.expr)}.{e.name}"
    return "the tensor"
