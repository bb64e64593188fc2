"""What to call to get from one type to another, in words; each answer is looked up in the table of collectives."""

from __future__ import annotations

import ast
from typing import Final

from spmd_mypy.rules.collectives import DEFAULT_SRC, TRANSITIONS, Token, Transition, same_dim, token, transition
from spmd_mypy.rules.kinds import AxisType, parse

# In this order: without data loss, the plain collective first, what needs expert_mode last.
_CANDIDATES: Final = ("all_reduce", "reduce_scatter", "all_gather", "convert", "reinterpret", "all_to_all")

_NAMED: Final = frozenset(TRANSITIONS) | {"redistribute"}
_DEFAULT_SRC: Final = {op: parse(src) for op, src in DEFAULT_SRC.items()}

_BACKWARD: Final[dict[tuple[str, Token, Token], str]] = {
    ("convert", "I", "R"): "nothing",
    ("convert", "R", "I"): "nothing",
    ("convert", "I", "P"): "keeps it on rank 0",
    ("convert", "R", "V"): "keeps the own slice",
    ("convert", "R", "S"): "keeps the own slice",
    ("convert", "R", "P"): "keeps it on rank 0",
    ("convert", "V", "P"): "zeros around the own slice",
    ("convert", "S", "P"): "zeros around the own slice",
    ("convert", "I", "V"): "keeps the own slice",
    ("convert", "I", "S"): "keeps the own slice",
}


def backward_of(row: Transition) -> str:
    """What the gradient goes through, in a word or two."""
    op = row.backward[0]
    return _BACKWARD.get(
        row.backward, "nothing" if op == "reinterpret" or (op == "convert" and row.src == row.dst) else op
    )


def spell(kind: AxisType) -> str:
    """A type as a value: ``R``, ``S(0)``."""
    return str(kind)


def call_text(row: Transition, op: str, name: str, axis: str, src: AxisType, dst: AxisType) -> str:
    """The call that takes ``name`` over ``row``, as the user would write it."""
    shown_src = "" if op == "all_reduce" else f"src={spell(src)}, "
    expert = ", expert_mode=True" if row.expert else ""
    return f"{op}({name}, {axis}, {shown_src}dst={spell(dst)}{expert})"


def conversion(have: AxisType, need: AxisType, axis: str, name: str) -> str | None:
    """``all_reduce(x, TP, dst=R) (backward: all_reduce)``: how to get from ``have`` to ``need``, or None.

    Prefers a call that needs no expert mode.
    """
    if have.constant:
        return None
    found: list[tuple[bool, str]] = []
    for op in _CANDIDATES:
        row = transition(op, have, need, expert=True)
        if not isinstance(row, Transition) or token(have) != row.src:
            continue
        found.append((row.expert, f"{call_text(row, op, name, axis, have, need)} (backward: {backward_of(row)})"))
    found.sort(key=lambda item: item[0])
    return found[0][1] if found else None


def conversions(have: AxisType, need: AxisType, axis: str, name: str) -> str | None:
    """``conversion``, and from V both ways to one value: a sum where it is a summand, a gather where it is a part.

    The types do not tell which of the two a V is, and the wrong one is silent.
    """
    found = conversion(have, need, axis, name)
    if found is None or have.letter != "V" or have.dim is not None or need.letter not in ("R", "I"):
        return found
    row = transition("all_reduce", have, need)
    if not isinstance(row, Transition):
        return found
    summed = f"all_reduce({name}, {axis}, src=P, dst={spell(need)})"
    return f"{summed} (backward: {backward_of(row)}) if it is a summand, {found} if it is a part"


def moved(op: str, src: AxisType, kind: AxisType, dst: AxisType, axis: str, name: str) -> str | None:
    """The call of ``op`` over an axis on which ``name`` is ``kind``; None where that is not what ``src`` says.

    A shard is named by its dim, of which ``src=V`` says nothing.
    """
    row = transition(op, kind, dst) if op in _NAMED and not kind.constant else None
    if not isinstance(row, Transition) or row.expert or row.src != token(kind) or kind.letter != src.letter:
        return None
    if src.dim is not None and (kind.dim is None or not same_dim(src.dim, kind.dim)):
        return None
    return f"{call_text(row, op, name, axis, kind, dst)} (backward: {backward_of(row)})"


def call_of(text: str) -> tuple[str, ast.Call] | None:
    """A call in source text, behind the last name of what is called; None for anything else."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    return (ast.unparse(node.func).rpartition(".")[2], node) if isinstance(node, ast.Call) else None


def redirected(call: str, have: AxisType, need: AxisType) -> str | None:
    """``write dst=I in all_reduce (backward: nothing)``: where the collective ``call`` could give ``need`` itself.

    ``call`` is source text.  None where it is no collective to ``have``, or does not lead from its src to ``need``.
    """
    parsed = call_of(call)
    if parsed is None:
        return None
    op, node = parsed
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    dst, src = _kind(given.get("dst")), _kind(given.get("src")) or _DEFAULT_SRC.get(op)
    if op not in _NAMED or src is None or dst is None or (dst.letter, dst.dim) != (have.letter, have.dim):
        return None
    row = transition(op, src, need, expert="expert_mode" in given)
    if not isinstance(row, Transition):
        return _replaced(node, src, need)
    if (op == "redistribute" and row.expert) or src == need:
        return None
    return f"write dst={spell(need)} in {op} (backward: {backward_of(row)})"


def _replaced(call: ast.Call, src: AxisType, need: AxisType) -> str | None:
    """``instead write reduce_scatter(...)``: another collective that leads from what ``call`` is given to ``need``."""
    known = (src.letter == "P" or src.dim is not None) and (need.dim is not None or need.letter in ("R", "I"))
    if not known or len(call.args) != 2:
        return None
    name, axis = map(ast.unparse, call.args)
    found = conversion(src, need, axis, name)
    return f"instead write {found}" if found is not None and "expert_mode" not in found else None


def _kind(value: ast.expr | None) -> AxisType | None:
    """The type that an argument spells: ``R``, ``spmd.R``, ``S(0)``."""
    if value is None:
        return None
    try:
        return parse(ast.unparse(value).removeprefix("spmd."))
    except ValueError:
        return None
