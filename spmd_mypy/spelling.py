"""Types as mypy prints them in messages: read, compare, and print them as users write them.

mypy offers no hook for its own complaints about arguments, returns and assignments; the texts are all there is.
mypy prints the layout of ``Tensor[V[DP], P[TP]]`` as ``Tensor[tuple[Varying[DP], Any, Partial[TP]]]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from spmd_mypy.layout import show_slot
from spmd_mypy.patterns import lazily
from spmd_mypy.rules import kinds
from spmd_mypy.rules.kinds import AxisType

TENSORS: Final = frozenset({"Tensor", "Parameter", "Buffer"})
_KINDS: Final = {
    "Replicate": kinds.R,
    "Invariant": kinds.I,
    "Varying": kinds.V,
    "Partial": kinds.P,
    "Shard": kinds.V,
    "Constant": kinds.CONSTANT,
    "FactoryConstant": kinds.FACTORY,
    "Reduced": kinds.CONSTANT,
}
_TENSOR_START: Final = lazily(r"(?:[\w.]*\.)?(Tensor|Parameter|Buffer)\[")
QUOTES: Final = "'\""
_TOKEN: Final = lazily(r"\s*(?:([\w.<>*'@]+|-?\d+|\.\.\.)|([\[\],|]))")


class Spelled(NamedTuple):
    """A type as printed: a name with arguments; a union is named ``|``; what is not understood has no arguments."""

    name: str
    args: tuple[Spelled, ...] = ()

    @property
    def short(self) -> str:
        """The name without its module."""
        return self.name.rpartition(".")[2]

    @property
    def members(self) -> tuple[Spelled, ...]:
        """The members of a union, or the type itself."""
        return self.args if self.name == "|" else (self,)

    @property
    def is_tensor(self) -> bool:
        """Whether this is torch.Tensor or a class of torch that the plugin made generic."""
        return self.short in TENSORS

    @property
    def laid_out(self) -> bool:
        """Whether a tensor with a layout stands in it."""
        return (self.is_tensor and self.slots() is not None) or any(arg.laid_out for arg in self.args)

    def slots(self) -> tuple[Spelled, ...] | None:
        """The slots of a tensor; None where its layout is unknown."""
        if len(self.args) == 1 and self.args[0].short == "tuple":
            return self.args[0].args
        return None


class Slot(NamedTuple):
    """One slot of a printed layout: the axis's class name and what the tensor is there (None: unknown)."""

    axis: str
    kind: AxisType | None


def slot_of(spelled: Spelled) -> Slot:
    """Read ``Partial[TP]`` or ``Shard[TP, Literal[0]]``."""
    kind = _KINDS.get(spelled.short)
    axis = spelled.args[0].short if spelled.args else ""
    if spelled.short == "Shard" and len(spelled.args) == 2 and spelled.args[1].args:
        dim = spelled.args[1].args[0].name
        kind = kinds.shard(int(dim)) if dim.lstrip("-").isdigit() else kind
    return Slot(axis, kind)


class _Parser:
    """Recursive descent over a printed type."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(text)
            self.tokens.append(match.group(1) or match.group(2))
            position = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ValueError(f"expected {expected or 'a type'}, got {token or 'the end'}")
        self.at += 1
        return token

    def union(self) -> Spelled:
        members = list(self.atom().members)
        while self.peek() == "|":
            self.take()
            members.extend(self.atom().members)
        return members[0] if len(members) == 1 else Spelled("|", tuple(members))

    def atom(self) -> Spelled:
        name = self.take()
        if name == "[":  # the parameters of a Callable
            return Spelled("[]", self.arguments("]"))
        if self.peek() != "[":
            return Spelled(name)
        self.take("[")
        arguments = self.arguments("]")
        if name == "Optional":
            return Spelled("|", (*arguments[0].members, Spelled("None")))
        return Spelled("|" if name == "Union" else name, arguments)

    def arguments(self, end: str) -> tuple[Spelled, ...]:
        found: list[Spelled] = []
        while self.peek() != end:
            found.append(self.union())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return tuple(found)


def parse(text: str) -> Spelled:
    """Read a printed type; what the grammar does not know is one opaque name."""
    try:
        parser = _Parser(text)
        result = parser.union()
        if parser.peek():
            raise ValueError(parser.peek())
    except ValueError:
        return Spelled(text)
    return result


def _closing(text: str, start: int) -> int:
    """The index after the bracket that closes the one before ``start``; -1 where there is none."""
    depth = 1
    for i in range(start, len(text)):
        if text[i] == "[":
            depth += 1
        elif text[i] == "]":
            depth -= 1
            if depth == 0:
                return i + 1
    return -1


def _show_tensor(text: str, bare: str, name: str) -> str | None:
    """One printed tensor as users write it; None where it is none of ours.

    ``bare`` is the name as printed, kept where the layout is unknown: mypy's words stay as they are.
    """
    spelled = parse(text)
    if spelled.args == (Spelled("Any"),):
        return bare
    slots = spelled.slots()
    if slots is None:
        return None
    shown = []
    for slot in map(slot_of, slots):
        if slot.kind is not None:
            shown.append(show_slot(slot.kind, slot.axis))
    for slot in slots:
        if slot.short not in _KINDS and slot.short != "Any":
            shown.append(_show_other(slot))
    return f"{name}[{', '.join(shown)}]" if shown else bare


def _show_other(slot: Spelled) -> str:
    """A slot without a kind: a type variable, a join of different kinds, or what a collective still writes to."""
    if slot.short == "SpmdType":
        return "Any"
    if slot.short != "InFlight" or len(slot.args) != 3:
        return slot.short
    after, handle = slot_of(slot.args[1]), slot.args[2].args
    kind = show_slot(after.kind, after.axis) if after.kind is not None else f"Any[{slot.args[0].short}]"
    return f"{kind} after {handle[0].name.strip(QUOTES)}.wait()" if handle else f"{kind} after wait()"


def prettify(message: str) -> str:
    """``message`` with every tensor printed as users write it."""
    parts: list[str] = []
    position = 0
    while (match := _TENSOR_START.search(message, position)) is not None:
        end = _closing(message, match.end())
        if end < 0:
            break
        bare = message[match.start() : match.end() - 1]
        shown = _show_tensor(message[match.start() : end], bare, match.group(1))
        parts.append(message[position : match.start()])
        parts.append(message[match.start() : end] if shown is None else shown)
        position = end
    parts.append(message[position:])
    return "".join(parts)


_KIND: Final = lazily(rf"(?:[\w.]*\.)?\b(?:{'|'.join(_KINDS)})\[[\w.]+(?:, [\w\[\].-]+)?\]")


_CLASS: Final = lazily(rf"\btype\[(?:[\w.]*\.)?({'|'.join(_KINDS)})\[A_co(?:, D_co)?\]\]")


def prettify_classes(message: str) -> str:
    """``message`` with the kinds' own classes as users write them: ``type[R]``."""
    return _CLASS.sub(lambda match: f"type[{'S' if match[1] == 'Shard' else _KINDS[match[1]]}]", message)


def kind_of(axes: Iterable[str]) -> re.Pattern[str]:
    """What a message holds that prints a kind on one of these axes: others have classes of such names, too."""
    return re.compile(rf"\b(?:{'|'.join(_KINDS)})\[(?:[\w.]*\.)?(?:{'|'.join(map(re.escape, axes))})\b")


def is_kind(text: str) -> bool:
    """Whether a printed type is a kind on its own: ``Partial[TP]``."""
    return _KIND.fullmatch(text) is not None


def prettify_kinds(message: str) -> str:
    """``message`` with every kind printed as users write it: ``P[TP]``."""

    def show(match: re.Match[str]) -> str:
        slot = slot_of(parse(match.group()))
        return show_slot(slot.kind, slot.axis) if slot.kind is not None else match.group()

    return _KIND.sub(show, message)
