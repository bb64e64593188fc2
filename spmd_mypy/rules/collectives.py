"""The table of collectives and conversions: from which type to which, and with which backward.

One table for the plugin, the runtime, the tests and the documentation.  ``S`` in a
pair stands for any ``S(i)``.  The pairs and their backwards follow from the duality
of the types (R and P swap, I, V and S are their own duals): the backward of
``op: src -> dst`` goes from ``dual(dst)`` to ``dual(src)``.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Literal, NamedTuple, TypeAlias

from spmd_mypy.rules.kinds import AxisType

Token: TypeAlias = Literal["R", "I", "V", "P", "S"]
Pair: TypeAlias = tuple[Token, Token]


class Transition(NamedTuple):
    """One row: ``op`` takes ``src`` to ``dst``; the gradient takes the way ``backward``.

    ``backward`` names an operation and the types that the gradient has before and after it.
    ``forward_comm`` and ``backward_comm`` say whether data moves between ranks.  ``expert`` rows
    need ``expert_mode=True``.
    """

    op: str
    src: Token
    dst: Token
    backward: tuple[str, Token, Token]
    expert: bool = False


_COMMUNICATES: Final = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})

_DUAL: Final[dict[Token, Token]] = {"R": "P", "P": "R", "I": "I", "V": "V", "S": "S"}

# op, src, dst, the operation of the backward; its types are the duals of dst and src.  Where those of an all_reduce do
# not start at P, the gradient is summed as it is: the ranks' values are the summands.
_ROWS: Final[tuple[tuple[str, Token, Token, str], ...]] = (
    ("all_reduce", "P", "R", "all_reduce"),
    ("all_reduce", "P", "I", "convert"),
    ("all_gather", "V", "R", "reduce_scatter"),
    ("all_gather", "V", "I", "convert"),
    ("all_gather", "S", "R", "reduce_scatter"),
    ("all_gather", "S", "I", "convert"),
    ("reduce_scatter", "P", "V", "all_gather"),
    ("reduce_scatter", "P", "S", "all_gather"),
    ("all_to_all", "V", "V", "all_to_all"),
    ("all_to_all", "V", "S", "all_to_all"),
    ("all_to_all", "S", "V", "all_to_all"),
    ("all_to_all", "S", "S", "all_to_all"),
    ("convert", "I", "R", "all_reduce"),
    ("convert", "R", "V", "convert"),
    ("convert", "R", "S", "convert"),
    ("convert", "I", "V", "all_gather"),
    ("convert", "I", "S", "all_gather"),
    ("convert", "R", "P", "convert"),
    ("reinterpret", "V", "P", "reinterpret"),
    ("reinterpret", "I", "V", "all_reduce"),
    ("reinterpret", "I", "P", "all_reduce"),
)

_EXPERT_ROWS: Final[tuple[tuple[str, Token, Token, str], ...]] = (
    ("convert", "R", "I", "convert"),
    ("convert", "I", "P", "convert"),
    ("convert", "V", "P", "convert"),
    ("convert", "S", "P", "convert"),
    ("reinterpret", "R", "I", "convert"),
    ("reinterpret", "R", "P", "reinterpret"),
    ("reinterpret", "I", "R", "all_reduce"),
    ("reinterpret", "R", "V", "reinterpret"),
)

# Relabellings that move nothing: a type to itself, and V to S(i) and back.
_IDENTITIES: Final[tuple[tuple[str, Token, Token], ...]] = (
    ("convert", "R", "R"), ("convert", "I", "I"), ("convert", "V", "V"), ("convert", "P", "P"),
    ("convert", "S", "S"), ("convert", "V", "S"), ("convert", "S", "V"),
    ("reinterpret", "R", "R"), ("reinterpret", "I", "I"), ("reinterpret", "V", "V"), ("reinterpret", "P", "P"),
)  # fmt: skip


def _transitions() -> dict[str, dict[Pair, Transition]]:
    table: dict[str, dict[Pair, Transition]] = {}
    for rows, expert in ((_ROWS, False), (_EXPERT_ROWS, True)):
        for op, src, dst, backward in rows:
            row = Transition(op, src, dst, (backward, _DUAL[dst], _DUAL[src]), expert)
            table.setdefault(op, {})[src, dst] = row
    for op, src, dst in _IDENTITIES:
        table[op][src, dst] = Transition(op, src, dst, (op, _DUAL[dst], _DUAL[src]))
    return table


TRANSITIONS: Final = _transitions()

# ``shard`` and ``unshard`` are other names of rows above.
ALIASES: Final = {"shard": "convert", "unshard": "all_gather"}

# What ``redistribute`` delegates to: the cheapest single operation per pair.
REDISTRIBUTE: Final[dict[Pair, str]] = {
    ("P", "R"): "all_reduce", ("P", "I"): "all_reduce", ("P", "V"): "reduce_scatter", ("P", "S"): "reduce_scatter",
    ("V", "R"): "all_gather", ("V", "I"): "all_gather", ("S", "R"): "all_gather", ("S", "I"): "all_gather",
    ("S", "S"): "all_to_all",
}  # fmt: skip  # every other pair: convert, in expert mode

# Where src=P (a sum over ranks is asked for) a V tensor is taken as its summands.
SUMMING: Final = frozenset({"all_reduce", "reduce_scatter", "redistribute"})

DEFAULT_SRC: Final[dict[str, Token]] = {"all_reduce": "P", "all_gather": "V", "reduce_scatter": "P", "all_to_all": "V"}
DEFAULT_DST: Final[dict[str, Token]] = {"reduce_scatter": "V", "all_to_all": "V"}


def token(kind: AxisType) -> Token:
    """The row key of a type: ``S`` for every shard."""
    return "S" if kind.dim is not None else kind.letter


def same_dim(a: int, b: int) -> bool:
    # S(-1) and S(2) may be the same dim: the rank is not known here.
    return a == b or (a < 0) != (b < 0)


class Refusal(NamedTuple):
    """Why a pair of src and dst is not accepted.

    ``reason`` is one of "src" (no row starts there), "dst" (no row of this src ends there), "expert" (needs
    ``expert_mode=True``), "shard" (from S(i) to S(j) leads only all_to_all or redistribute).  ``choices`` are the
    tokens that would do for src or dst.
    """

    reason: Literal["src", "dst", "expert", "shard"]
    choices: tuple[Token, ...] = ()


def _summing_row(op: str, src: AxisType, dst: AxisType) -> Pair:
    """V is taken for P where a sum is asked for."""
    pair = (token(src), token(dst))
    return ("P", pair[1]) if op in ("all_reduce", "reduce_scatter") and pair[0] == "V" else pair


@cache
def transition(op: str, src: AxisType, dst: AxisType, *, expert: bool = False) -> Transition | Refusal:
    """The row for ``op`` from ``src`` to ``dst``, or why there is none.

    ``redistribute`` goes through the row of the operation that it delegates to.
    """
    if op == "redistribute":
        pair = (token(src), token(dst))
        same_shard = src.dim is not None and dst.dim is not None and same_dim(src.dim, dst.dim)
        delegate = "convert" if same_shard else REDISTRIBUTE.get(pair, "convert")
        return TRANSITIONS[delegate][pair]
    if op == "shard" and dst.dim is None:
        return Refusal("dst", ("S",))
    if op == "unshard" and src.dim is None:
        return Refusal("src", ("S",))
    op = ALIASES.get(op, op)
    rows = TRANSITIONS[op]
    pair = _summing_row(op, src, dst)
    row = rows.get(pair)
    if row is None:
        starts = tuple(dict.fromkeys(s for s, _ in rows))
        if pair[0] not in starts:
            return Refusal("src", starts)
        return Refusal("dst", tuple(d for (s, d), r in rows.items() if s == pair[0] and (expert or not r.expert)))
    if row.expert and not expert:
        return Refusal("expert")
    if op == "convert" and src.dim is not None and dst.dim is not None and not same_dim(src.dim, dst.dim):
        return Refusal("shard")
    return row


def accepts(op: str, src: AxisType, actual: AxisType) -> bool:
    """Whether a tensor of type ``actual`` may stand where ``op`` is told ``src=src``.

    ``src=S(i)`` takes V (an assertion); ``src=V`` takes S where nothing is summed; ``src=P`` takes V, but never S,
    where a sum is asked for.  Constants are R and I; fresh ones anything.
    """
    if actual.constant:
        return actual.factory or src.letter in ("R", "I")
    if src.letter != actual.letter:
        return src.letter == "P" and op in SUMMING and actual.letter == "V" and actual.dim is None
    if src.dim is not None and actual.dim is not None:
        return same_dim(src.dim, actual.dim)
    if actual.dim is not None and src.letter == "V":
        return ALIASES.get(op, op) not in ("all_reduce", "reduce_scatter")
    return True


def communicates(op: str) -> bool:
    """Whether ``op`` moves data between ranks in its forward."""
    return ALIASES.get(op, op) in _COMMUNICATES
