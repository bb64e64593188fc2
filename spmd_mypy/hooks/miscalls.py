"""Calls of collectives that fit none of their overloads: what is wrong with the call, for a list of overloads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from spmd_mypy.hooks.overloads import NO_VARIANT
from spmd_mypy.patterns import QUOTED, lazily
from spmd_mypy.rules import collectives as table
from spmd_mypy.rules.conversions import backward_of, call_of
from spmd_mypy.rules.dtypes import ALIASES
from spmd_mypy.source import lines_of, shortened, text_between
from spmd_mypy.spelling import TENSORS, Spelled, parse

_COMMON: Final = ("x", "axis", "src", "dst", "op_dtype", "out_dtype", "async_op", "backward_options")
# The collectives that have overloads, and their further arguments.
ARGUMENTS: Final[dict[str, tuple[str, ...]]] = {
    "all_reduce": (*_COMMON, "inplace"),
    "all_gather": (*_COMMON, "gather_dim", "split_sizes"),
    "reduce_scatter": (*_COMMON, "scatter_dim", "split_sizes"),
    "all_to_all": (*_COMMON, "split_dim", "concat_dim", "output_split_sizes", "input_split_sizes"),
    "redistribute": (*_COMMON, "split_sizes"),
    "unshard": (*_COMMON, "split_sizes"),
}
_NEEDS_SRC: Final = frozenset({"redistribute", "unshard"})
# What torch's own collectives have, and others' functions of these names.
_ELSEWHERE: Final = {
    "op": "a sum is all that it does; for another reduction there is torch.distributed",
    "dim": "src=S(0) or dst=S(0) says along which dim",
    "output": "it returns its result",
    "out": "it returns its result",
}
_UNEXPECTED: Final = lazily(r'Unexpected keyword argument "\w+" for overloaded function "(\w+)"')
_KINDS: Final = frozenset({"Replicate", "Invariant", "Varying", "Partial"})  # not Shard, which is a value


class Miscall(NamedTuple):
    """A call of a collective as it is written: the name, and each argument's parameter, text and type."""

    op: str
    positional: list[tuple[str, Spelled]]
    named: dict[str, tuple[str, Spelled]]

    def get(self, name: str, place: int) -> tuple[str, Spelled] | None:
        """The text and type of an argument, which may be given by place or by name."""
        return self.positional[place] if place < len(self.positional) else self.named.get(name)


def announced(error: Any) -> bool:
    """Whether mypy says of a collective's argument what it says again in its complaint about the overloads."""
    found = _UNEXPECTED.fullmatch(error.message)
    return found is not None and found[1] in ARGUMENTS


def explain(file: str, error: Any) -> str | None:
    """What is wrong with a call of a collective for which mypy finds no overload; None elsewhere."""
    call = _read(file, error) if error.message.startswith(NO_VARIANT) else None
    if call is None:
        return None
    found = next((text for check in _CHECKS for text in check(call)), None)
    return f"{call.op} {found}" if found is not None else None


def _read(file: str, error: Any) -> Miscall | None:
    written = text_between(file, error.line, error.column, error.end_line, error.end_column)
    if written is None or not any("spmd_runtime" in line for line in lines_of(file)):
        return None
    parsed, quoted = call_of(written), QUOTED.findall(error.message)
    if parsed is None or not quoted or any(keyword.arg is None for keyword in parsed[1].keywords):
        return None
    called, node = parsed
    op, types = quoted[0], [parse(text) for text in quoted[1:]]
    names = [*(None for _ in node.args), *(keyword.arg for keyword in node.keywords)]
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    if op not in ARGUMENTS or called != op or len(types) != len(values):
        return None
    given = [(name, (ast.unparse(value), t)) for name, value, t in zip(names, values, types, strict=True)]
    return Miscall(op, [pair for name, pair in given if name is None], {name: pair for name, pair in given if name})


# ---- what may be wrong, in the order in which it is said


def _places(call: Miscall) -> Iterator[str]:
    if len(call.positional) > 2:
        ends = [text for text, _ in call.positional[2:]]
        names = ("src", "dst") if len(ends) > 1 else ("dst",)
        named = ", ".join(f"{name}={text}" for name, text in zip(names, ends, strict=False))
        yield f"takes src and dst by name: {call.op}({', '.join(text for text, _ in call.positional[:2])}, {named})"


def _names(call: Miscall) -> Iterator[str]:
    for name, (text, t) in call.named.items():
        if name not in ARGUMENTS[call.op] and t.short in ("Group", "ProcessGroup"):
            x = call.get("x", 0) or ("...", t)
            yield f"has no argument {name}: the group is the second argument, {call.op}({x[0]}, {text}, ...)"
        elif name not in ARGUMENTS[call.op]:
            known = f"its arguments are {', '.join(ARGUMENTS[call.op])}"
            yield f"has no argument {name}: {_ELSEWHERE.get(name, known)}"


def _tensor(call: Miscall) -> Iterator[str]:
    if (x := call.get("x", 0)) is None:
        yield "needs a tensor"
    elif not any(member.is_tensor or member.name == "Any" for member in x[1].members):
        several = x[1].short in ("list", "tuple") and any(arg.short in TENSORS for arg in x[1].args)
        coalesced = f"{call.op}_coalesced" if call.op in ("all_reduce", "all_gather", "reduce_scatter") else ""
        hint = f"; of several at once: {coalesced}" if several and coalesced else ""
        yield f"takes a tensor, and {shortened(x[0])} is {_kind_of(x[1])}{hint}"


def _axis(call: Miscall) -> Iterator[str]:
    axis = call.get("axis", 1)
    if axis is None:
        yield "needs an axis, or its group, as the second argument"
        return
    text, t = axis
    if t.short in ("tuple", "list"):
        yield f"goes over one axis, and {text} are several: one call after the other, or over an axis of their own"
    elif text.endswith("()"):
        yield f"takes the axis as a class: {text.removesuffix('()')}, not {text}"
    elif t.short in ("int", "float", "None", "DeviceMesh"):
        yield f"takes an axis, its name or its group, and {shortened(text)} is {_kind_of(t)}"


def _ends(call: Miscall) -> Iterator[str]:
    for name in ("src", "dst"):
        if name not in call.named:
            continue
        text, t = call.named[name]
        if t.short == "str":
            bare = text.strip("'\"")
            yield f'takes the type itself: {name}={bare}, not {name}="{bare}"'
        elif t.short in _KINDS and "(" in text:
            yield f"takes {name}={text.partition('(')[0]}; over which axis is the second argument"
        elif t.short in ("int", "float", "None"):
            yield f"takes R, I, V, P or S(i) for {name}, and {text} is {_kind_of(t)}"


def _missing(call: Miscall) -> Iterator[str]:
    if call.op in _NEEDS_SRC and "src" not in call.named:
        yield "needs src, the type that the tensor has"
    if "dst" not in call.named and call.op not in table.DEFAULT_DST:
        start = table.DEFAULT_SRC.get(call.op)
        rows = table.TRANSITIONS.get(call.op, {}).items()
        ways = [f"{dst} (backward: {backward_of(row)})" for (src, dst), row in rows if src == start]
        yield f"needs dst: {' or '.join(ways)}" if ways else "needs dst, the type that the result is to have"


def _dtypes(call: Miscall) -> Iterator[str]:
    for name in ("op_dtype", "out_dtype"):
        text, t = call.named.get(name, ("", Spelled("dtype")))
        if t.short == "str":
            bare = text.strip("'\"")
            yield f"takes a torch.dtype for {name}: torch.{ALIASES.get(bare, bare)}, not {text}"


_CHECKS: Final = (_places, _names, _tensor, _axis, _ends, _missing, _dtypes)


def _kind_of(t: Spelled) -> str:
    """``a float``, ``None``."""
    if t.name == "None":
        return "None"
    article = "an" if t.short[:1].lower() in "aeiou" else "a"
    return f"{article} {t.short}"
