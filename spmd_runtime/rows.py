"""The rows that the runtime carries out: the plugin's table, and what only the runtime has.

``broadcast`` and ``shift`` have one way to go and so no src and dst to choose a row by; ``reduce`` and ``keep`` are the
backward of ``broadcast`` and not called by anybody.
"""

from __future__ import annotations

from typing import Final

import torch

from spmd_mypy.rules import collectives as table
from spmd_mypy.rules.collectives import Pair, Refusal, Transition
from spmd_mypy.rules.kinds import AxisType, parse
from spmd_mypy.rules.kinds import shard as shard_kind
from spmd_runtime.types import Invariant, Kind, Partial, Replicate, Shard, Varying

_EXTRA: Final = (
    Transition("broadcast", "V", "R", ("reduce", "P", "V")),
    Transition("broadcast", "V", "I", ("keep", "I", "V")),
    Transition("reduce", "P", "V", ("broadcast", "V", "R")),
    Transition("keep", "I", "V", ("broadcast", "V", "I")),
    Transition("shift", "V", "V", ("shift", "V", "V")),
)

ROWS: Final[dict[str, dict[Pair, Transition]]] = {op: dict(rows) for op, rows in table.TRANSITIONS.items()}
for _row in _EXTRA:
    ROWS.setdefault(_row.op, {})[_row.src, _row.dst] = _row

# The kernel that carries a row out, by operation; where data moves, the operation has one kernel for all its rows.
COMMUNICATING: Final = {
    "all_reduce": "sum", "all_gather": "gather", "reduce_scatter": "scatter", "all_to_all": "exchange",
    "broadcast": "spread", "reduce": "collect", "shift": "ring",
}  # fmt: skip

_LOCAL: Final[dict[tuple[str, str], str]] = {
    ("R", "V"): "cut", ("R", "S"): "cut", ("I", "V"): "cut", ("I", "S"): "cut",
    ("R", "P"): "first", ("I", "P"): "first", ("V", "P"): "place", ("S", "P"): "place",
}  # fmt: skip

REDUCING: Final = frozenset({"all_reduce", "reduce_scatter", "reduce"})

_SHOWN: Final = 60  # characters of a value in a message

# Without its cache, which Dynamo warns of; plans are kept as it is.
_transition: Final = getattr(table.transition, "__wrapped__", table.transition)

_KINDS: Final = {
    Replicate: AxisType("R"), Invariant: AxisType("I"), Varying: AxisType("V"), Partial: AxisType("P"),
}  # fmt: skip


def backward(row: Transition) -> Transition:
    """The row of ``row``'s gradient; an all_reduce of whatever kind sums it as it is."""
    op, src, dst = row.backward
    return ROWS[op]["P" if op == "all_reduce" else src, dst]


def kernel(row: Transition) -> str:
    """The name of the kernel that carries ``row`` out forward."""
    if row.op in COMMUNICATING:
        return COMMUNICATING[row.op]
    if row.op == "keep":
        return "keep"
    return _LOCAL.get((row.src, row.dst), "same") if row.op == "convert" else "same"


def kind(value: Kind, what: str) -> AxisType:
    """A type as the table knows it; raises TypeError, naming the argument ``what``, for anything else."""
    if isinstance(value, Shard):
        return shard_kind(value.dim)
    if isinstance(value, str) and value.startswith("S("):  # as a compiled call spells it
        return parse(value)
    found = _KINDS.get(value) if isinstance(value, type) else None
    if found is None:
        hint = "; a Shard names its dim: S(0)" if value is Shard else ""
        raise TypeError(f"{what} is one of R, I, V, P, S(i), not {value!r}{hint}")
    return found


def definite(src: Kind, dst: Kind, x: torch.Tensor) -> tuple[Kind, Kind]:
    """Two shards with their dims counted from the front, so that S(-1) of a matrix is seen to be S(1)."""
    if isinstance(src, Shard) and isinstance(dst, Shard):
        try:
            dims = x.dim()
        except AttributeError:
            raise no_tensor("a collective", x) from None
        return (Shard(src.dim % dims), Shard(dst.dim % dims)) if dims else (src, dst)
    return src, dst


def no_tensor(call: object, x: object) -> TypeError:
    """The error for what stands in the place of a tensor."""
    plain = isinstance(x, (int, float, complex, str)) or x is None
    given = repr(x) if plain and len(repr(x)) <= _SHOWN else f"a {type(x).__name__}"
    hint = "; torch.from_numpy makes one of it" if type(x).__module__ == "numpy" else ""
    if isinstance(x, (list, tuple)):
        hint = "; there are forms for several at once, such as all_reduce_coalesced"
    return TypeError(f"{call} takes a tensor, not {given}{hint}")


def find_row(op: str, src: AxisType, dst: AxisType, *, expert: bool, axis: str) -> Transition:
    """The row for ``op`` from ``src`` to ``dst``; raises ValueError that says what would do."""
    if op not in table.TRANSITIONS and op not in table.ALIASES and op != "redistribute":
        rows = ROWS[op]
        row: Transition | Refusal = rows.get((table.token(src), table.token(dst))) or Refusal(
            "dst", tuple(token for _, token in rows)
        )
    else:
        row = _transition(op, src, dst, expert=expert)
    if isinstance(row, Refusal):
        raise ValueError(_refused(op, src, dst, axis, row))
    return row


def _refused(op: str, src: AxisType, dst: AxisType, axis: str, refusal: Refusal) -> str:
    call = f"{op}(axis {axis!r}, src={src}, dst={dst})"
    if refusal.reason == "expert":
        return f"{call}: rarely what a forward wants; pass expert_mode=True if it is"
    if refusal.reason == "shard":
        return f"{call}: another shard dim takes communication; use all_to_all or redistribute"
    choices = " or ".join("S(i)" if token == "S" else token for token in refusal.choices) or "nothing"
    way = _way(src, dst, axis)
    if op in ("convert", "shard") and src.letter == "P":
        reductions = "all_reduce (dst R or I), reduce_scatter (dst V or S(i))"
        return f"{call}: a pending sum ends by a reduction: {reductions}{way}"
    if op == "all_reduce" and refusal.reason == "src" and src.letter in "RI":
        return f"{call}: the ranks hold one value already, not summands; src must be {choices}{way}"
    value = src if refusal.reason == "src" else dst
    return f"{call}: {refusal.reason} must be {choices}, not {value}{way}"


def _way(src: AxisType, dst: AxisType, axis: str) -> str:
    """What leads from ``src`` to ``dst``, as the end of a message; empty where nothing does."""
    from spmd_mypy.rules.conversions import conversions  # noqa: PLC0415  # only where an error is made

    found = conversions(src, dst, repr(axis), "x") if src != dst else None
    return f"; to get from {src} to {dst}: {found}" if found else ""
