"""The bindings of names in one function, read from its syntax tree: which of them may reach a line.

mypy's binder knows types, not values.  Whether a name still holds the caller's tensor, shares memory with another name,
or was computed from a parameter that needs a gradient is read from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from mypy.literals import literal, literal_hash
from mypy.nodes import (
    LITERAL_NO,
    AssignmentExpr,
    AssignmentStmt,
    Block,
    CallExpr,
    ClassDef,
    Decorator,
    DictionaryComprehension,
    Expression,
    ForStmt,
    FuncDef,
    GeneratorExpr,
    IfStmt,
    IndexExpr,
    ListExpr,
    MatchStmt,
    MemberExpr,
    NameExpr,
    Node,
    OperatorAssignmentStmt,
    OverloadedFuncDef,
    StarExpr,
    Statement,
    TryStmt,
    TupleExpr,
    WhileStmt,
    WithStmt,
)
from mypy.patterns import AsPattern

from spmd_mypy import compat
from spmd_mypy.tree import children

Key: TypeAlias = "tuple[Any, ...]"
Path: TypeAlias = "tuple[int, ...]"

_KEPT: Final = 8  # functions whose bindings are remembered
# Statements whose lines are those of their head alone: what is inside them has places of its own.
_COMPOUND: Final = (IfStmt, MatchStmt, ForStmt, WhileStmt, WithStmt, TryStmt)


def key_of(expression: Expression) -> Key | None:
    """What identifies the variable ``expression`` (a name, an attribute, an element with a literal index), or None."""
    if not isinstance(expression, NameExpr | MemberExpr | IndexExpr) or literal(expression) == LITERAL_NO:
        return None
    return literal_hash(expression)


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """One binding of a variable.

    ``value`` is what it is bound to (None where that is no expression: ``with f() as x``); ``part`` says that it is
    bound to an element of ``value`` (unpacking, a loop).  ``line`` is the statement's, ``path`` the blocks around it
    that may be skipped; ``inner`` that it holds within its statement already (a comprehension, a walrus).
    """

    target: Expression
    key: Key
    value: Expression | None
    part: bool
    line: int
    path: Path
    inner: bool = False


class Place(NamedTuple):
    """Where a statement stands: its lines and the blocks around it that may be skipped or repeated."""

    line: int
    end: int
    path: Path


class Scope:
    """The bindings in one function body or module; nested functions and classes are scopes of their own."""

    def __init__(self, statements: Sequence[Statement], *, function: bool = False) -> None:
        self.statements = statements
        self.function = function
        self.definitions: list[Definition] = []
        self.stores: list[tuple[Expression, Expression]] = []  # attributes and elements, with what is assigned
        self.waited: set[CallExpr] = set()
        self._changes: list[tuple[Key, Place]] = []  # writes into a variable's value: x[0] = 1, x += 1, x.mul_(2)
        self._written: list[tuple[Key, Sequence[Expression]]] = []  # the same, with what is written, as far as known
        self._collectives: set[tuple[Key, int]] = set()  # raw collectives that wrote to a variable, by line
        self._places: list[Place] = []
        self._loops: set[int] = set()
        self._branches: dict[int, Statement] = {}  # block -> the if or match of which a run takes one
        self._blocks = 0
        self._path: Path = ()
        self._at = Place(0, 0, ())
        self._readers: dict[type, Callable[[Any], None]] = {
            IfStmt: self._if, MatchStmt: self._match, WithStmt: self._with, TryStmt: self._try, ForStmt: self._for,
            WhileStmt: self._while, AssignmentStmt: self._assignment, OperatorAssignmentStmt: self._augmented,
            AssignmentExpr: self._walrus, GeneratorExpr: self._comprehension,
            DictionaryComprehension: self._comprehension, AsPattern: self._as_pattern, CallExpr: self._call,
            Block: self._block, FuncDef: self._skip, ClassDef: self._skip, Decorator: self._skip,
            OverloadedFuncDef: self._skip,
        }  # fmt: skip
        self._run(statements)

    # ---- reading the tree

    def _read(self, node: Node) -> None:
        reader = self._readers.get(type(node))
        if reader is not None:
            reader(node)
            return
        self._inside(node)

    def _inside(self, node: Node) -> None:
        for child in children(node):
            self._read(child)

    def _run(self, statements: Sequence[Statement]) -> None:
        before = self._at
        for statement in statements:
            end = statement.line if isinstance(statement, _COMPOUND) else statement.end_line or statement.line
            self._at = Place(statement.line, end, self._path)
            self._places.append(self._at)
            self._read(statement)
        self._at = before

    def _block(self, block: Block, *, loop: bool = False, branch_of: Statement | None = None) -> None:
        """A block that may be skipped, or repeated."""
        self._blocks += 1
        if loop:
            self._loops.add(self._blocks)
        if branch_of is not None:
            self._branches[self._blocks] = branch_of
        before = self._path
        self._path = (*before, self._blocks)
        self._run(block.body)
        self._path = before

    def _skip(self, node: Node) -> None:
        pass

    def _if(self, node: IfStmt) -> None:
        for condition, block in zip(node.expr, node.body, strict=True):
            self._read(condition)
            self._block(block, branch_of=node)
        if node.else_body is not None:
            self._block(node.else_body, branch_of=node)

    def _match(self, node: MatchStmt) -> None:
        self._read(node.subject)
        for pattern, guard, block in zip(node.patterns, node.guards, node.bodies, strict=True):
            self._read(pattern)
            if guard is not None:
                self._read(guard)
            self._block(block, branch_of=node)

    def _with(self, node: WithStmt) -> None:
        for expression, target in zip(node.expr, node.target, strict=True):
            self._read(expression)
            if target is not None:
                self._bind(target, None, False)
        self._run(node.body.body)

    def _try(self, node: TryStmt) -> None:
        for block in (node.body, *node.handlers, node.else_body):
            if block is not None:
                self._block(block)
        if node.finally_body is not None:
            self._run(node.finally_body.body)

    def _for(self, node: ForStmt) -> None:
        self._read(node.expr)
        self._blocks += 1
        self._loops.add(self._blocks)
        before, head = self._path, self._at
        self._path = (*before, self._blocks)
        self._at = Place(head.line, head.end, self._path)
        self._bind(node.index, node.expr, True)
        self._run(node.body.body)
        self._path, self._at = before, head
        if node.else_body is not None:
            self._block(node.else_body)

    def _while(self, node: WhileStmt) -> None:
        self._read(node.expr)
        self._block(node.body, loop=True)
        if node.else_body is not None:
            self._block(node.else_body)

    def _call(self, node: CallExpr) -> None:
        callee = node.callee
        if isinstance(callee, MemberExpr):
            if callee.name == "wait" and isinstance(callee.expr, CallExpr):
                self.waited.add(callee.expr)
            if callee.name.endswith("_"):
                self._change(callee.expr, None if callee.name == "zero_" else node.args)
        self._inside(node)

    # ---- bindings

    def _assignment(self, node: AssignmentStmt) -> None:
        self._inside(node)
        for target in node.lvalues:
            self._bind(target, node.rvalue, False)

    def _augmented(self, node: OperatorAssignmentStmt) -> None:
        self._inside(node)
        self._change(node.lvalue, [node.rvalue])

    def _change(self, target: Expression, values: Sequence[Expression] | None) -> None:
        """``values`` (None: zeros) are written into ``target``, or into what it is a part of."""
        while True:
            key = key_of(target)
            if key is not None:
                self._changes.append((key, self._at))
                if values is not None:
                    self._written.append((key, values))
            if isinstance(target, IndexExpr):
                target = target.base
            elif isinstance(target, MemberExpr):
                target = target.expr
            elif isinstance(target, CallExpr) and isinstance(target.callee, MemberExpr):
                target = target.callee.expr
            else:
                return

    def _walrus(self, node: AssignmentExpr) -> None:
        self._inside(node)
        self._bind(node.target, node.value, False, inner=True)

    def _comprehension(self, node: GeneratorExpr | DictionaryComprehension) -> None:
        for index, sequence in zip(node.indices, node.sequences, strict=True):
            self._bind(index, sequence, True, inner=True)
        self._inside(node)

    def _as_pattern(self, node: AsPattern) -> None:
        if node.name is not None:
            self._bind(node.name, None, False)
        self._inside(node)

    def _bind(self, target: Expression, value: Expression | None, part: bool, *, inner: bool = False) -> None:
        if isinstance(target, TupleExpr | ListExpr):
            for item, bound, is_part in _unpack(target.items, value, part):
                self._bind(item, bound, is_part, inner=inner)
            return
        if isinstance(target, StarExpr):
            self._bind(target.expr, value, True, inner=inner)
            return
        if isinstance(target, IndexExpr):
            self._change(target.base, [] if value is None else [value])
        if isinstance(target, IndexExpr | MemberExpr) and value is not None and not part:
            self.stores.append((target, value))
        key = key_of(target)
        if key is not None:
            self.definitions.append(Definition(target, key, value, part, self._at.line, self._at.path, inner))

    # ---- questions

    def place(self, line: int) -> Place:
        """The place of the statement at ``line``."""
        found = Place(line, line, ())
        for place in self._places:
            if place.line <= line <= place.end and len(place.path) >= len(found.path):
                found = place
        return found

    def reaching(self, key: Key, line: int) -> tuple[list[Definition], bool]:
        """The bindings of ``key`` that may hold at ``line``; and whether the value from before the scope may, too."""
        here = self.place(line)
        mine = [d for d in self.definitions if d.key == key]
        found: list[Definition] = []
        before = [d for d in mine if d.line < here.line or (d.inner and d.line == here.line)]
        for d in sorted(before, key=lambda d: d.line, reverse=True):
            if self._apart(d.path, here.path):
                continue
            found.append(d)
            if d.path == here.path[: len(d.path)]:
                return found + self._later(mine, here, d.path), False
        return found + self._later(mine, here, ()), True

    def _apart(self, one: Path, other: Path) -> bool:
        """Whether a run takes only one of two places: two branches of one ``if``, without a loop around both."""
        for a, b in zip(one, other, strict=False):
            if a != b:
                branch = self._branches.get(a)
                return branch is not None and branch is self._branches.get(b)
            if a in self._loops:
                return False
        return False

    def _later(self, mine: list[Definition], here: Place, after: Path) -> list[Definition]:
        """Bindings further down in a loop around ``here`` that comes round again."""
        loops = [block for block in here.path[len(after) :] if block in self._loops]
        return [d for d in mine if d.line >= here.line and not d.inner and any(block in d.path for block in loops)]

    def written(self, key: Key) -> list[Sequence[Expression]]:
        """What is written into the variable's value anywhere, by each write of anything but zeros."""
        return [values for changed, values in self._written if changed == key]

    # ---- raw collectives, as the hooks find them

    def collective(self, key: Key, line: int) -> None:
        """Remember that a raw collective writes to a variable."""
        self._collectives.add((key, line))

    def reduced(self, key: Key, line: int) -> bool:
        """Whether the variable still has the value that an earlier raw collective gave it."""
        here = self.place(line)
        found, _ = self.reaching(key, line)
        touched = [(d.line, d.path) for d in found] + [(at.line, at.path) for k, at in self._changes if k == key]
        for other, at in self._collectives:
            if other != key:
                continue
            if at < here.line and not any(at < other_line <= here.line for other_line, _ in touched):
                return True
            if at >= here.line and self._round(here, self.place(at).path, [path for _, path in touched]):
                return True
        return False

    def _round(self, here: Place, at: Path, touched: list[Path]) -> bool:
        """Whether a loop leads from ``at`` round to ``here`` without passing through ``touched``."""
        loops = [block for block in here.path if block in self._loops and block in at]
        return any(not any(block in path for path in touched) for block in loops)

    def in_comprehension(self, key: Key, line: int) -> bool:
        """Whether the variable is one of a comprehension at ``line``, which mypy checks more than once."""
        return any(d.inner and d.part for d in self.reaching(key, line)[0])


def _unpack(
    targets: Sequence[Expression], value: Expression | None, part: bool
) -> Iterator[tuple[Expression, Expression | None, bool]]:
    """Pair the targets of an unpacking with what they are bound to."""
    items = value.items if isinstance(value, TupleExpr | ListExpr) and not part else []
    if len(items) == len(targets) and not any(isinstance(item, StarExpr) for item in (*targets, *items)):
        for target, item in zip(targets, items, strict=True):
            yield target, item, False
        return
    for target in targets:
        yield target, value, True


class Scopes:
    """Finds the scope around the code that is being checked; keeps the last few."""

    def __init__(self) -> None:
        # By the list of statements: the daemon puts an edited file's nodes into old ones, but with other lists.
        self._kept: dict[int, tuple[object, Scope]] = {}

    def around(self, api: Any) -> Scope:
        """The scope of the function that is being checked, or of the module."""
        function = compat.enclosing_function(api)
        tree = compat.current_file(api)
        statements = function.body.body if function is not None else tree.defs if tree is not None else []
        kept, scope = self._kept.get(id(statements), (None, None))
        if kept is not statements or scope is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            scope = Scope(statements, function=function is not None)
            self._kept[id(statements)] = (statements, scope)
        return scope
