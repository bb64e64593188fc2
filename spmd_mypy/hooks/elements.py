"""What a container is filled with: by the display, comprehension or list that it is made of, and by later appends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mypy.nodes import (
    AssignmentStmt,
    Block,
    CallExpr,
    ClassDef,
    ConditionalExpr,
    Context,
    Decorator,
    DelStmt,
    DictExpr,
    DictionaryComprehension,
    Expression,
    ExpressionStmt,
    FuncDef,
    GeneratorExpr,
    IndexExpr,
    ListComprehension,
    ListExpr,
    MemberExpr,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    OpExpr,
    OverloadedFuncDef,
    RefExpr,
    StarExpr,
    StrExpr,
    TupleExpr,
    TypeInfo,
    Var,
)
from mypy.types import AnyType, Instance, TupleType, Type, TypeOfAny, get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks.signatures import is_module
from spmd_mypy.patterns import lazily
from spmd_mypy.source import text_of
from spmd_mypy.tree import statements, walk

_MAPPING_BASES: Final = frozenset({"builtins.dict", "typing.Mapping", "collections.OrderedDict"})


@dataclass
class Elements:
    """The types of a container's elements.

    ``positions`` has them by index or key while every one is in its place; ``known`` is False where some are missing.
    """

    types: list[Type] = field(default_factory=list)
    positions: dict[str, Type] = field(default_factory=dict)
    fixed: bool = True
    known: bool = True

    @classmethod
    def single(cls, t: Type, key: str = "0") -> Elements:
        """One element at one place."""
        return cls([t], {key: t})

    @classmethod
    def many(cls, t: Type) -> Elements:
        """Any number of elements of one type."""
        return cls([t], {}, fixed=False)

    @classmethod
    def unknown(cls) -> Elements:
        """Elements of which nothing is known."""
        return cls([], {}, fixed=False, known=False)

    def repeated(self) -> Elements:
        """These elements, some number of times."""
        return Elements(self.types, {}, fixed=False, known=self.known)

    def extend(self, other: Elements, *, keyed: bool = False) -> None:
        """Put ``other``'s elements after these."""
        at = len(self.positions)
        self.types.extend(other.types)
        self.fixed = self.fixed and other.fixed
        self.known = self.known and other.known
        if not self.fixed:
            self.positions = {}
        elif keyed or any(not key.isdigit() for key in other.positions):
            self.positions.update(other.positions)
        else:
            self.positions.update({str(at + i): t for i, t in enumerate(other.positions.values())})


# ---- what the constructor is given


def elements_of(api: Any, t: Type, expression: Expression | None) -> Elements:
    """The elements of an iterable or mapping of type ``t``; displays are read element by element.

    mypy joins the elements of a display in the context that torch's annotation gives, ``Iterable[Module]``.
    """
    if isinstance(expression, ListExpr | TupleExpr):
        return _joined(_item(api, item) for item in expression.items)
    if isinstance(expression, DictExpr):
        return _entries(api, expression)
    if isinstance(expression, OpExpr) and expression.op == "+":
        return _joined(_of_expression(api, side) for side in (expression.left, expression.right))
    if isinstance(expression, OpExpr) and expression.op == "*":
        return _of_expression(api, expression.left).repeated()
    comprehension = _comprehended(expression)
    if comprehension is not None:
        found = compat.stored_type(api, comprehension)
        return Elements.many(found) if found is not None else Elements.unknown()
    if isinstance(expression, CallExpr) and len(expression.args) == 1 and _is_dict(expression):
        return _pairs(api, expression.args[0])
    return _of_type(api, t)


def _joined(parts: Iterable[Elements]) -> Elements:
    found = Elements()
    for part in parts:
        found.extend(part)
    return found


def _of_expression(api: Any, expression: Expression) -> Elements:
    t = compat.stored_type(api, expression)
    return elements_of(api, t, expression) if t is not None else Elements.unknown()


def _item(api: Any, item: Expression) -> Elements:
    if isinstance(item, StarExpr):
        return _of_expression(api, item.expr)
    t = compat.stored_type(api, item)
    return Elements.single(t) if t is not None else Elements.unknown()


def _entries(api: Any, display: DictExpr) -> Elements:
    found = Elements()
    for key, value in display.items:
        if key is None:
            found.extend(_of_expression(api, value), keyed=True)
            continue
        t = compat.stored_type(api, value)
        one = Elements.unknown() if t is None else Elements.many(t)
        if t is not None and isinstance(key, StrExpr):
            one = Elements.single(t, key.value)
        found.extend(one, keyed=True)
    return found


def _pairs(api: Any, pairs: Expression) -> Elements:
    """The elements of ``OrderedDict([("a", A()), ...])``."""
    if not isinstance(pairs, ListExpr | TupleExpr):
        return Elements.unknown()
    found = Elements()
    for pair in pairs.items:
        if not isinstance(pair, TupleExpr) or len(pair.items) != 2:
            return Elements.unknown()
        t = compat.stored_type(api, pair.items[1])
        key = pair.items[0]
        if t is None:
            return Elements.unknown()
        found.extend(Elements.single(t, key.value) if isinstance(key, StrExpr) else Elements.many(t), keyed=True)
    return found


def _is_dict(call: CallExpr) -> bool:
    return isinstance(call.callee, RefExpr) and call.callee.fullname in ("builtins.dict", "collections.OrderedDict")


def _comprehended(expression: Expression | None) -> Expression | None:
    if isinstance(expression, ListComprehension):
        expression = expression.generator
    if isinstance(expression, GeneratorExpr):
        return expression.left_expr
    return expression.value if isinstance(expression, DictionaryComprehension) else None


def _of_type(api: Any, t: Type) -> Elements:
    t = get_proper_type(t)
    if isinstance(t, TupleType):
        return _joined(Elements.single(item) for item in t.items)
    if not isinstance(t, Instance):
        return Elements() if t.__class__.__name__ == "NoneType" else Elements.unknown()
    if any(base.fullname in _MAPPING_BASES for base in t.type.mro) and t.args:
        return Elements.many(t.args[-1])
    item = compat.iterated(api, t)
    return Elements.many(item) if item is not None else Elements.unknown()


# ---- what is put in later

_MOST_CONTAINERS: Final = 64
_ADDS: Final = {"append": 0, "add_module": 1, "insert": 1}
_REMOVES: Final = frozenset({"pop", "clear"})
_ADD_MANY: Final = frozenset({"extend", "update"})

# What follows a container's name where it is changed: a method, an index, an augmented assignment.
_CHANGED: Final = lazily(
    rf"(?:[\s\\)]|#[^\n]*)*(?:\.\s*(?:{'|'.join([*_ADDS, *_REMOVES, *_ADD_MANY])})\b|\[|[-+*/|&^@%]+=)"
)

_nothing_later: dict[int, Context] = {}  # containers, by where they are made, that nothing is put into later


def later_elements(api: Any, made_at: Context) -> Elements:
    """The modules that the class, or the function, puts later into the container constructed at ``made_at``.

    mypy infers an attribute's first value twice or more; what was found to stay as it is made is not asked about again.
    """
    if _nothing_later.get(id(made_at)) is made_at:
        return Elements()
    found = _later_elements(api, made_at)
    if not found.types and found.known and found.fixed:
        if len(_nothing_later) >= _MOST_CONTAINERS:
            _nothing_later.clear()
        _nothing_later[id(made_at)] = made_at
    return found


def _later_elements(api: Any, made_at: Context) -> Elements:
    function = compat.enclosing_function(api)
    variable = _assigned_to(function, made_at) if function is not None else None
    if function is None or variable is None:
        return Elements()
    text = text_of(getattr(api, "path", ""))
    if text is not None and not _may_be_filled(variable, text):
        return Elements()
    scope: Node = function
    if isinstance(variable, MemberExpr) and function.info and isinstance(function.info.defn, ClassDef):
        scope = function.info.defn.defs
    return put_in(scope, variable, removed=text is None or any(f".{name}(" in text for name in _REMOVES))


def _may_be_filled(variable: Expression, text: str) -> bool:
    """Whether anything in a module's text looks like a change of what ``variable`` holds; a search beats a walk."""
    if not isinstance(variable, NameExpr | MemberExpr):
        return False
    return any(_CHANGED.match(after) for after in text.split(variable.name)[1:])


def put_in(scope: Node, variable: Expression, removed: bool = True) -> Elements:
    """The modules that the functions in ``scope`` put into the container ``variable``; mypy need not have seen them.

    ``removed`` is False where nothing calls a method that takes elements out again.
    """
    found = Elements()
    for inside in _functions(scope):
        for value, many in _additions(inside, variable):
            found.extend(each(value, inside) if many else constructed(value, inside))
        if any(_removes(node, variable) for node in (walk(inside) if removed else statements(inside))):
            found.fixed = False
    return found


def _functions(scope: Node) -> Iterator[FuncDef]:
    """The outermost functions in a function or in the body of a class."""
    if isinstance(scope, FuncDef):
        yield scope
        return
    for node in scope.body if isinstance(scope, Block) else ():
        if isinstance(node, FuncDef):
            yield node
        elif isinstance(node, Decorator):
            yield node.func
        elif isinstance(node, OverloadedFuncDef):
            for item in node.items:
                yield item.func if isinstance(item, Decorator) else item


def _assigned_to(function: FuncDef, made_at: Context) -> Expression | None:
    """The variable that the value made at ``made_at`` is assigned to."""
    for node in statements(function):
        if isinstance(node, AssignmentStmt) and node.rvalue is made_at and len(node.lvalues) == 1:
            return node.lvalues[0]
    return None


def _same_variable(one: Expression, two: Expression) -> bool:
    if isinstance(one, NameExpr):
        return isinstance(two, NameExpr) and one.node is two.node
    return (
        isinstance(one, MemberExpr)
        and isinstance(two, MemberExpr)
        and one.name == two.name
        and isinstance(one.expr, NameExpr)
        and isinstance(two.expr, NameExpr)
        and one.expr.name == two.expr.name
    )


def _additions(function: FuncDef, variable: Expression) -> Iterator[tuple[Expression, bool]]:
    """What a function puts into a variable: one element, or (True) all of an iterable."""
    for node in statements(function):
        if isinstance(node, ExpressionStmt) and isinstance(node.expr, CallExpr):
            yield from _method(node.expr, variable)
        elif isinstance(node, AssignmentStmt):
            for lvalue in node.lvalues:
                if isinstance(lvalue, IndexExpr) and _same_variable(variable, lvalue.base):
                    yield node.rvalue, False
        elif isinstance(node, OperatorAssignmentStmt) and _same_variable(variable, node.lvalue):
            yield node.rvalue, True


def _method(call: CallExpr, variable: Expression) -> Iterator[tuple[Expression, bool]]:
    callee = call.callee
    if not isinstance(callee, MemberExpr) or not _same_variable(variable, callee.expr):
        return
    if callee.name in _ADDS and len(call.args) > _ADDS[callee.name]:
        yield call.args[_ADDS[callee.name]], False
    elif callee.name in _ADD_MANY and call.args:
        yield call.args[0], True


def _removes(node: Node, variable: Expression) -> bool:
    """Whether elements go, so that the others are no longer where they were."""
    if isinstance(node, DelStmt):
        return isinstance(node.expr, IndexExpr) and _same_variable(variable, node.expr.base)
    callee = node.callee if isinstance(node, CallExpr) else None
    return isinstance(callee, MemberExpr) and callee.name in _REMOVES and _same_variable(variable, callee.expr)


def each(iterable: Expression | Sequence[Expression], function: FuncDef) -> Elements:
    """The modules in a display or a comprehension; ``function`` is the one that it stands in."""
    if isinstance(iterable, ListExpr | TupleExpr):
        iterable = iterable.items
    if not isinstance(iterable, Expression):
        return _joined(constructed(item, function) for item in iterable)
    element = _comprehended(iterable)
    return constructed(element, function) if element is not None else Elements.unknown()


def constructed(expression: Expression, function: FuncDef) -> Elements:
    """The class that ``expression`` constructs; a local name stands for what is assigned to it."""
    if isinstance(expression, CallExpr) and isinstance(expression.callee, RefExpr):
        info = expression.callee.node
        if isinstance(info, TypeInfo) and is_module(info):
            any_ = AnyType(TypeOfAny.special_form)
            return Elements.many(Instance(info, [any_] * len(info.defn.type_vars)))
    if isinstance(expression, ConditionalExpr):
        return _joined(constructed(side, function) for side in (expression.if_expr, expression.else_expr))
    if isinstance(expression, NameExpr) and isinstance(expression.node, Var):
        return _named(expression, expression.node, function)
    return Elements.unknown()


def _named(name: NameExpr, variable: Var, function: FuncDef) -> Elements:
    if not variable.is_inferred and variable.type is not None:
        return Elements.many(variable.type)
    values = []
    for node in walk(function):
        if not isinstance(node, AssignmentStmt):
            continue
        for lvalue in node.lvalues:
            if _same_variable(name, lvalue):
                values.append(node.rvalue)
            elif isinstance(lvalue, TupleExpr | ListExpr) and any(_same_variable(name, i) for i in lvalue.items):
                return Elements.unknown()
    if not values or any(isinstance(value, NameExpr) for value in values):
        return Elements.unknown()
    return _joined(constructed(value, function) for value in values)
