"""What mypy complains of where a value stands where something is declared: the code, and the types that it compares."""

from __future__ import annotations

import ast
import re
from typing import Any, Final, NamedTuple

from mypy.errorcodes import ErrorCode

from spmd_mypy import codes
from spmd_mypy.patterns import QUOTED, lazily
from spmd_mypy.source import shortened
from spmd_mypy.spelling import Spelled, parse

_CODES: Final[dict[str, ErrorCode]] = {
    "arg-type": codes.ARG,
    "call-overload": codes.ARG,
    "type-var": codes.ARG,
    "list-item": codes.ARG,
    "dict-item": codes.ARG,
    "return-value": codes.RETURN,
    "assignment": codes.ASSIGN,
    "typeddict-item": codes.ASSIGN,
}
# mypy's complaints about what a comprehension or a generator makes, for which it has no code of their own.
_MADE: Final[dict[re.Pattern[str], ErrorCode]] = {
    lazily(r"(?:List|Set) comprehension has incompatible type \w+\[(.*)\]; expected \w+\[(.*)\]"): codes.ARG,
    lazily(r'(?:Key|Value) expression in .* has incompatible type "(.*)"; expected type "(.*)"'): codes.ARG,
    lazily(r'Generator has incompatible item type "(.*)"; expected "(.*)"'): codes.ARG,
    lazily(r'Incompatible types in "yield" \(actual type "(.*)", expected type "(.*)"\)'): codes.RETURN,
}  # fmt: skip


def _given(text: str) -> Spelled:
    """A type as printed; of ``*pair`` and ``**named`` what each argument may be."""
    spelled = parse(text.lstrip("*"))
    if not text.startswith("*") or not spelled.args:
        return spelled
    elements = spelled.args if spelled.short == "tuple" else spelled.args[-1:]
    elements = tuple(element for element in elements if element.name != "...")
    return elements[0] if len(elements) == 1 else Spelled("|", elements)


def _made(error: Any) -> tuple[re.Match[str], ErrorCode] | None:
    """The types in a complaint about a comprehension, a generator or a yield, and the code that it gets."""
    for pattern, code in _MADE.items():
        if found := pattern.fullmatch(error.message):
            return found, code
    return None


def code_for(error: Any, code: str) -> ErrorCode | None:
    """Our code for a complaint, None where it is not about what stands where something is declared."""
    if code == "misc":
        made = _made(error)
        return None if made is None else made[1]
    return _CODES.get(code)


def compared(error: Any, code: str) -> tuple[Spelled, Spelled] | None:
    """What an error says was given and wanted; None where neither has a layout, so that it is no business of ours."""
    if code == "misc" and error.severity == "error" and (made := _made(error)):
        got, want = map(parse, made[0].groups())
        return (got, want) if got.laid_out or want.laid_out else None
    quoted = QUOTED.findall(error.message)
    if error.severity != "error" or len(quoted) < 2 or "[tuple[" not in error.message:
        return None
    # The complaint about a typed dict's constructor names the item between the two types, that about a dict's item
    # the key's type before each.
    between = code == "dict-item" or (code == "typeddict-item" and "TypedDict item" in error.message)
    if len(quoted) < 2 + between or (code == "dict-item" and quoted[-4:-3] != quoted[-2:-1]):
        return None
    got, want = _given(quoted[-3 if between else -2]), parse(quoted[-1])
    return (got, want) if got.laid_out or want.laid_out else None


def quoted_last(message: str) -> str:
    """The last type that a message quotes."""
    found = QUOTED.findall(message)
    return found[-1] if found else ""


# ---- parts of what is given


class Part(NamedTuple):
    """What differs in a tuple or list: as it is written, and words in front of the advice."""

    name: str
    words: str


def items(got: Spelled, want: Spelled) -> list[tuple[Spelled, Spelled]]:
    """What stands for what in two tuples or lists; nothing where that cannot be said."""
    fixed = len(got.args) == len(want.args) and "..." not in (arg.name for arg in (*got.args, *want.args))
    if got.short == "tuple" and fixed:
        return list(zip(got.args, want.args, strict=True))
    return [(got.args[0], want.args[0])] if got.short == "list" and got.args and want.args else []


def part_of(written: str, differs: list[bool]) -> Part | None:
    """The part of the expression ``written`` that the first difference is in; ``differs`` says which items do.

    A list has one, which stands for each of its elements.
    """
    try:
        node = ast.parse(written, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    at = differs.index(True) if True in differs else -1
    if at < 0 or isinstance(node, ast.List | ast.ListComp):
        return None
    if isinstance(node, ast.Tuple):
        element = ast.get_source_segment(written, node.elts[at]) if len(node.elts) == len(differs) else None
        return Part(shortened(element), "") if element is not None else None
    if len(differs) == 1:
        return Part("x", f"for each x in {shortened(written)}, ")
    return Part(f"{written}[{at}]", "") if isinstance(node, ast.Name | ast.Attribute) else None
