"""What torch's own collectives do to a tensor's type on the axis of their group.

``torch.distributed`` works in place and outside autograd: what it writes carries no gradient.  So a value that all
ranks then share is constant.  ``torch.distributed.nn.functional`` and ``torch.distributed._functional_collectives``
return their result, most of it with a backward.  Rows as of torch 2.13; the backwards are those of its source.

The rules are those of ``collectives``: a sum takes P and V, never S; a gather and an exchange take V and S; from
R or I there is nothing to sum or to gather.  A reduction other than a sum is nonlinear, so it takes no P, and
one that leaves equal values alone (a maximum, a mean) takes R and I as they are.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from spmd_mypy.rules.collectives import same_dim
from spmd_mypy.rules.kinds import CONSTANT, AxisType, I, R, V, shard

Action: TypeAlias = Literal[
    "all_reduce", "reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "scatter", "gather", "send",
    "receive", "wait",
]  # fmt: skip

C10D: Final = "torch.distributed.distributed_c10d"
FUNCTIONAL: Final = "torch.distributed._functional_collectives"
NN: Final = "torch.distributed.nn.functional"


class Row(NamedTuple):
    """One function of torch.

    ``sent`` is the parameter whose tensors go out, ``written`` the one that receives, "" where the result is
    returned.  ``backward`` are the reductions under which it is differentiable; ``("",)`` for one that reduces
    nothing.  ``src_dim`` and ``dst_dim`` are parameters that name the tensor dim of S(i) before and after;
    ``container`` says that it returns several tensors for one.
    """

    action: Action
    sent: str
    written: str = ""
    backward: tuple[str, ...] = ()
    src_dim: str = ""
    dst_dim: str = ""
    container: bool = False

    @property
    def in_place(self) -> bool:
        """Whether what is sent is overwritten."""
        return self.written != "" and self.sent == self.written


_C10D_ROWS: Final = {
    "all_reduce": Row("all_reduce", "tensor", "tensor"),
    "all_reduce_coalesced": Row("all_reduce", "tensors", "tensors"),
    "reduce": Row("reduce", "tensor", "tensor"),
    "broadcast": Row("broadcast", "tensor", "tensor"),
    "all_gather": Row("all_gather", "tensor", "tensor_list"),
    "all_gather_single": Row("all_gather", "input_tensor", "output_tensor"),
    "all_gather_into_tensor": Row("all_gather", "input_tensor", "output_tensor"),
    "_all_gather_base": Row("all_gather", "input_tensor", "output_tensor"),
    "all_gather_coalesced": Row("all_gather", "input_tensor_list", "output_tensor_lists"),
    "reduce_scatter": Row("reduce_scatter", "input_list", "output"),
    "reduce_scatter_single": Row("reduce_scatter", "input", "output"),
    "reduce_scatter_tensor": Row("reduce_scatter", "input", "output"),
    "_reduce_scatter_base": Row("reduce_scatter", "input", "output"),
    "all_to_all": Row("all_to_all", "input_tensor_list", "output_tensor_list"),
    "all_to_all_single": Row("all_to_all", "input", "output"),
    "scatter": Row("scatter", "scatter_list", "tensor"),
    "gather": Row("gather", "tensor", "gather_list"),
    "send": Row("send", "tensor"),
    "isend": Row("send", "tensor"),
    "recv": Row("receive", "", "tensor"),
    "irecv": Row("receive", "", "tensor"),
}
_FUNCTIONAL_ROWS: Final = {
    "all_reduce": Row("all_reduce", "self", backward=("sum",)),
    "all_reduce_coalesced": Row("all_reduce", "self", backward=("sum",)),
    "broadcast": Row("broadcast", "self"),
    **{
        f"{name}{suffix}": row
        for suffix in ("", "_autograd")
        for name, row in (
            ("all_gather_single", Row("all_gather", "self", backward=("",), src_dim="gather_dim")),
            ("all_gather_tensor", Row("all_gather", "self", backward=("",), src_dim="gather_dim")),
            ("reduce_scatter_single", Row("reduce_scatter", "self", backward=("sum",), dst_dim="scatter_dim")),
            ("reduce_scatter_tensor", Row("reduce_scatter", "self", backward=("sum",), dst_dim="scatter_dim")),
            ("all_to_all_single", Row("all_to_all", "self", backward=("",))),
        )
    },
    "all_gather_single_coalesced": Row("all_gather", "self", backward=("",)),
    "all_gather_into_tensor_coalesced": Row("all_gather", "self", backward=("",)),
    "reduce_scatter_single_coalesced": Row("reduce_scatter", "inputs", backward=("sum",)),
    "reduce_scatter_tensor_coalesced": Row("reduce_scatter", "inputs", backward=("sum",)),
    "permute_tensor": Row("all_to_all", "self", backward=("",)),
    "wait_tensor": Row("wait", "tensor", backward=("",)),
    "all_reduce_inplace": Row("all_reduce", "tensor", "tensor"),
    "all_gather_tensor_inplace": Row("all_gather", "input_tensor", "output_tensor"),
    "all_gather_inplace": Row("all_gather", "tensor", "tensor_list"),
    "reduce_scatter_tensor_inplace": Row("reduce_scatter", "input", "output"),
    "all_to_all_inplace": Row("all_to_all", "input", "output"),
}
_NN_ROWS: Final = {
    "all_reduce": Row("all_reduce", "tensor", backward=("sum", "avg")),
    "reduce": Row("reduce", "tensor", backward=("sum", "avg")),
    "broadcast": Row("broadcast", "tensor", backward=("",)),
    "all_gather": Row("all_gather", "tensor", backward=("",), container=True),
    "_all_gather_base": Row("all_gather", "input_tensor", backward=("",)),
    "reduce_scatter": Row("reduce_scatter", "input_list", backward=("sum",)),
    "all_to_all": Row("all_to_all", "input_tensor_list", backward=("",), container=True),
    "all_to_all_single": Row("all_to_all", "input", backward=("",)),
    "gather": Row("gather", "tensor", backward=("",), container=True),
    "scatter": Row("scatter", "tensors", backward=("",)),
}

# By full name, as mypy has it.
ROWS: Final[dict[str, Row]] = {
    f"{module}.{name}": row
    for module, rows in ((C10D, _C10D_ROWS), (FUNCTIONAL, _FUNCTIONAL_ROWS), (NN, _NN_ROWS))
    for name, row in rows.items()
}

# Reductions that are linear, so that they take summands; by the last part of the name, in lower case.
LINEAR: Final = frozenset({"sum", "avg", "premul_sum"})
# Reductions of equal values that give that value.
IDEMPOTENT: Final = frozenset({"avg", "max", "min", "band", "bor"})
REDUCTIONS: Final = LINEAR | IDEMPOTENT | {"product", "bxor"}
_REDUCING: Final = frozenset({"all_reduce", "reduce", "reduce_scatter"})

# Why a tensor is refused.  {op} is the function, {name} the tensor, {kind} its type on {axis}.
REFUSALS: Final = {
    "reduced": "{op} over {axis} sums {name}, but it is {kind} on {axis}: it is reduced already, so a second sum would "
    "scale it by the number of ranks",
    "shard": "{op} over {axis} sums {name}, but it is {kind} on {axis}: the ranks hold different parts, not summands",
    "nonlinear": "{op} takes the {reduction} of {name}, Partial on {axis}: the {reduction} of the summands is not that "
    "of the sum",
    "partial": "{op} over {axis} moves {name}, Partial on {axis}: the ranks would hold summands of others, not the sum",
    "same": "{op} over {axis} expects {name} to differ between the ranks, but it is {kind} on {axis}: every rank has "
    "it already",
    "invariant": "{op} over {axis} has {name} as one logical computation (I): its backward gives every rank another "
    "gradient",
    "dim": "{op} over {axis} joins along dim {dim}, but {name} is {kind} on {axis}",
}  # fmt: skip


class Outcome(NamedTuple):
    """What a collective makes of one tensor on its axis.

    ``after`` is its result's type, None for unknown; ``refusal`` a key of :data:`REFUSALS`, "" where it is accepted;
    ``backward`` whether the result carries a gradient.
    """

    after: AxisType | None
    refusal: str = ""
    backward: bool = False


def differentiable(row: Row, reduction: str | None) -> bool:
    """Whether a gradient comes back through the call; an unknown reduction gets the benefit of the doubt."""
    if row.action not in _REDUCING:
        return bool(row.backward)
    return bool(row.backward) and (reduction is None or reduction in row.backward)


def refusal(row: Row, reduction: str | None, kind: AxisType | None, dim: int | None = None) -> str:
    """Why ``row`` does not take a tensor of type ``kind`` on its axis; "" where it does.

    ``reduction`` is "sum", "max", ...; None where it is not known.  ``dim`` is the value of ``src_dim``.
    """
    if kind is None or kind.factory or row.action in ("send", "receive", "wait"):
        return ""
    if row.action in _REDUCING:
        return _refuse_reduction(row, reduction, kind)
    if kind.letter == "P":
        return "partial"
    if row.action == "broadcast":
        return "invariant" if kind == I and row.backward else ""
    if row.action in ("all_gather", "all_to_all") and kind.letter != "V":
        return "same"
    if dim is not None and kind.dim is not None and not same_dim(kind.dim, dim):
        return "dim"
    return ""


def _refuse_reduction(row: Row, reduction: str | None, kind: AxisType) -> str:
    if reduction is None:
        return ""
    if kind.letter in ("R", "I"):
        return "" if reduction in IDEMPOTENT else "reduced"
    if kind.letter == "P":
        return "" if reduction in LINEAR else "nonlinear"
    return "shard" if kind.dim is not None and reduction in LINEAR else ""


def outcome(
    row: Row, reduction: str | None, kind: AxisType | None, src_dim: int | None = None, dst_dim: int | None = None
) -> Outcome:
    """What becomes of a tensor of type ``kind`` on the axis of the group.

    After a refusal the result is unknown.
    """
    reason = refusal(row, reduction, kind, src_dim)
    if reason:
        return Outcome(None, reason)
    backward = differentiable(row, reduction)
    return Outcome(_after(row, kind, backward, dst_dim), "", backward)


def _after(row: Row, kind: AxisType | None, backward: bool, dim: int | None) -> AxisType | None:
    action = row.action
    if action in ("all_reduce", "broadcast") and kind is not None and kind.letter in ("R", "I") and not kind.factory:
        return kind  # equal values stay what they are
    if action in ("all_reduce", "all_gather", "broadcast"):
        return R if backward else CONSTANT
    if action == "reduce_scatter":
        return V if dim is None else shard(dim)
    if action in ("reduce", "all_to_all", "scatter"):
        return V
    return kind if action in ("wait", "send") else None


def elsewhere(kind: AxisType | None, backward: bool) -> AxisType | None:
    """The type of a new result on an axis over which nothing was sent, from the type ``kind`` of what was sent."""
    if kind is None or backward or kind.letter not in ("R", "I"):
        return kind
    return CONSTANT
