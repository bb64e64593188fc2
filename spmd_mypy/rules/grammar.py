"""The notation of the operation table, and what it reads into.

A row names operations that share a rule, gives the rule as an expression of
roles (see ``axis``) over parameter names, and what comes out::

    add sub rsub: linear(self, other) pointwise
    max: nonlinear(self, other) pointwise
        if dim: nonlinear(self) -> same, discrete

An indented line holds where its options are given: ``dim`` (given and not None), ``dim=0``,
``training!=False``, several joined by ``and``; the first that holds is taken, then the row's own rule.
``a|b`` is a parameter with two names; ``self`` and ``input`` are one name.

Results, after ``->``, one for all outputs or one each:

========== =========================================================================
same       the type of the expression (the default)
discrete   integer or bool: R and I become constant, P is a violation
integer    integers made of integers: as discrete, but P stays
detached   no gradient: R and I become constant
factory    fresh constant
unknown    unknown
unsummed   P becomes unknown: a constant beside it is not known
leaf       a new leaf: constants become unknown, other types stay
dual       the type of the gradient, one result per argument of the expression
========== =========================================================================

Tags: ``pointwise`` (keeps shard dims), ``view`` (a fresh constant stays fresh), ``renumber=F`` (shard dims move as
``shards.F`` says), ``writes=a,b`` (arguments that are written to with the result's type), ``overwrites=a`` (likewise,
the old value does not count), ``into=a`` (where ``a`` is fresh it is taken for zeros).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from spmd_mypy.patterns import lazily
from spmd_mypy.rules.axis import ROLES

RESULTS: Final = frozenset(
    {"same", "discrete", "integer", "detached", "factory", "unknown", "unsummed", "leaf", "dual"}
)
TAGS: Final = frozenset({"pointwise", "view"})

_TOKEN: Final = lazily(r"[(),]|[^\s(),]+")


class Parameter(NamedTuple):
    """A leaf of an expression: a formal parameter by all its names."""

    names: tuple[str, ...]


class Expression(NamedTuple):
    """A role applied to parameters and expressions."""

    role: str
    items: tuple[Parameter | Expression, ...]


class Condition(NamedTuple):
    """A test of one option: ``operator`` is "given", "=" or "!="."""

    option: str
    operator: str
    value: str = ""


class Rule(NamedTuple):
    """What an operation does to types, where ``conditions`` hold."""

    expression: Expression
    results: tuple[str, ...] = ("same",)
    pointwise: bool = False
    view: bool = False
    renumber: str = ""
    writes: tuple[str, ...] = ()
    overwrites: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()


def parameter(text: str) -> Parameter:
    """Read a parameter with its names, ``other|exponent``."""
    names = text.split("|")
    for one, two in (("self", "input"), ("input", "self")):
        if one in names and two not in names:
            names.append(two)
    return Parameter(tuple(names))


class _Reader:
    """A cursor over the tokens of one rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expression(self) -> Expression:
        role = self.take()
        if role not in ROLES or self.take() != "(":
            raise ValueError(f"expected one of {', '.join(ROLES)} and '(' in {self.text!r}")
        items: list[Parameter | Expression] = []
        while self.peek() != ")":
            if self.peek() in ROLES and self.tokens[self.at + 1] == "(":
                items.append(self.expression())
            else:
                items.append(parameter(self.take()))
            if self.peek() == ",":
                self.take()
            elif self.peek() != ")":
                raise ValueError(f"expected ',' or ')' before {self.peek()!r} in {self.text!r}")
        self.take()
        return Expression(role, tuple(items))

    def results(self) -> tuple[str, ...]:
        if self.peek() != "->":
            return ("same",)
        self.take()
        words = [self.take()]
        while self.peek() == ",":
            self.take()
            words.append(self.take())
        if not set(words) <= RESULTS:
            raise ValueError(f"unknown result in {self.text!r}; results are {', '.join(sorted(RESULTS))}")
        return tuple(words)


def _condition(text: str) -> Condition:
    for operator in ("!=", "="):
        option, found, value = text.partition(operator)
        if found:
            return Condition(option.strip(), operator, value.strip())
    return Condition(text.strip(), "given")


def read_rule(text: str, conditions: str = "") -> Rule:
    """Read the part of a line after the colon; raises ValueError for what the notation does not have."""
    reader = _Reader(text)
    expression = reader.expression()
    results = reader.results()
    flags: set[str] = set()
    renumber = ""
    lists: dict[str, tuple[str, ...]] = {"writes": (), "overwrites": (), "into": ()}
    while tag := reader.take():
        key, _, value = tag.partition("=")
        if key in lists:
            names = [value]
            while reader.peek() == ",":
                reader.take()
                names.append(reader.take())
            lists[key] = tuple(names)
        elif key == "renumber":
            renumber = value
        elif tag in TAGS:
            flags.add(tag)
        else:
            raise ValueError(f"unknown tag {tag!r} in {text!r}")
    tests = tuple(_condition(part) for part in conditions.split(" and ")) if conditions else ()
    return Rule(
        expression, results, "pointwise" in flags, "view" in flags, renumber,
        lists["writes"], lists["overwrites"], lists["into"], tests,
    )  # fmt: skip


def read_row(lines: list[str]) -> tuple[Rule, ...]:
    """Read one row (without the names): its own rule last, those with conditions before it, as they are tried."""
    rules = []
    for line in lines[1:]:
        conditions, _, text = line.strip().removeprefix("if ").partition(":")
        rules.append(read_rule(text, conditions))
    return (*rules, read_rule(lines[0]))


def split_rows(text: str) -> dict[str, list[str]]:
    """Cut a table's text into rows, unread: each operation's name with its lines after the colon.

    Names may take several lines, the last of which has the colon.
    """
    rows: dict[str, list[str]] = {}
    names: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(" "):
            lines.append(line)
        elif line and line[0] != "#":
            more, colon, first = line.partition(":")
            names += more.split()
            if colon:
                lines = [first]
                rows.update(dict.fromkeys(names, lines))
                names = []
    return rows
