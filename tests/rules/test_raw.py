"""The table of torch's own collectives, against torch: its signatures, its values on ranks, and its backwards."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch.distributed as dist

from spmd_mypy.rules import kinds, raw
from spmd_mypy.rules.kinds import CONSTANT, FACTORY, AxisType, I, P, R, V, shard
from spmd_mypy.rules.raw import C10D, FUNCTIONAL, NN, ROWS
from tests.rules import raw_ranks
from tests.runtime.gloo import run

# Functions that move tensors and need no row: Python objects, groups of calls whose members are followed one by one.
WITHOUT_ROW = {
    "all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list",
    "recv_object_list", "batch_isend_irecv", "barrier", "monitored_barrier", "reduce_op",
}  # fmt: skip
MOVING = ("all_", "reduce", "broadcast", "scatter", "gather", "send", "recv", "isend", "irecv", "barrier", "batch_")


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of the table that this torch has."""
    found = {full: getattr(import_module(full.rpartition(".")[0]), full.rpartition(".")[2], None) for full in ROWS}
    return {full: function for full, function in found.items() if function is not None}


def test_rows_name_functions_and_parameters_of_torch() -> None:
    assert len(functions()) > 40
    for full, function in functions().items():
        row, names = ROWS[full], inspect.signature(inspect.unwrap(function)).parameters
        for name in (row.sent, row.written, row.src_dim, row.dst_dim):
            assert not name or name in names, (full, name)
        assert full.endswith("wait_tensor") or "group" in names, full


def test_every_row_is_called_or_left_out_for_a_reason() -> None:
    assert raw_ranks.CALLS.keys() | raw_ranks.NOT_CALLED == ROWS.keys()
    assert not raw_ranks.CALLS.keys() & raw_ranks.NOT_CALLED


def test_every_collective_of_torch_has_a_row() -> None:
    public = [name for name in dist.distributed_c10d.__all__ if name.startswith(MOVING) or "_to_all" in name]
    assert {name for name in public if f"{C10D}.{name}" not in ROWS} <= WITHOUT_ROW


def test_no_public_function_of_the_other_modules_is_left_out() -> None:
    import torch.distributed._functional_collectives as functional  # noqa: PLC0415
    import torch.distributed.nn.functional as nn  # noqa: PLC0415

    for module, prefix in ((functional, FUNCTIONAL), (nn, NN)):
        for name, value in vars(module).items():
            moves = inspect.isfunction(value) and name.startswith(MOVING) and value.__module__ == module.__name__
            known = f"{prefix}.{name}" in ROWS or "backward" in name or "setup_context" in name
            assert known or not moves or name in ("isend_inplace", "irecv_inplace", "batch_p2p_ops_inplace"), name


@pytest.mark.parametrize("reduction", raw_ranks.REDUCTIONS)
def test_what_is_called_constant_is_equal_on_all_ranks(reduction: str) -> None:
    (found, other) = run(raw_ranks.equal, 2, reduction)
    assert found == other
    for full, same in found.items():
        after = raw.outcome(ROWS[full], reduction, V).after
        assert after is not None and (after.letter == "R") == same, (full, after)


@pytest.mark.parametrize("reduction", raw_ranks.REDUCTIONS)
def test_a_reduction_takes_summands_where_it_gives_their_sum(reduction: str) -> None:
    (found, other) = run(raw_ranks.sums, 2, reduction)
    assert found == other and found
    for full, right in found.items():
        assert (raw.refusal(ROWS[full], reduction, P) == "") == right, full


def test_gradients_come_back_where_the_table_says_so() -> None:
    (found, other) = run(raw_ranks.gradients, 2)
    assert {full for full, right in found.items() if right and other[full]} == {
        full for full in found if raw.differentiable(ROWS[full], "sum")
    }


def kind_of(text: str) -> AxisType:
    return {"C": CONSTANT, "F": FACTORY}.get(text) or kinds.parse(text)


# function, reduction, kinds that it takes
ACCEPTED = [
    ("all_reduce", "sum", "P V F"),
    ("all_reduce", "avg", "P V R I C F"),
    ("all_reduce", "max", "V S(0) R I C F"),
    ("all_reduce", "product", "V S(0) F"),
    ("all_reduce", "band", "V S(0) R I C F"),
    ("reduce_scatter_tensor", "sum", "P V F"),
    ("reduce_scatter_tensor", "max", "V S(0) R I C F"),
    ("all_gather_into_tensor", "sum", "V S(0) F"),
    ("all_to_all_single", "sum", "V S(0) F"),
    ("broadcast", "sum", "V S(0) R I C F"),
    ("scatter", "sum", "V S(0) R I C F"),
    ("send", "sum", "P V S(0) R I C F"),
]


@pytest.mark.parametrize(("name", "reduction", "accepted"), ACCEPTED)
def test_what_is_accepted(name: str, reduction: str, accepted: str) -> None:
    row = ROWS[f"{C10D}.{name}"]
    for text in ("R", "I", "V", "P", "S(0)", "C", "F"):
        assert (raw.refusal(row, reduction, kind_of(text)) == "") == (text in accepted.split()), text
    assert raw.refusal(row, reduction, None) == ""


def test_an_unknown_reduction_refuses_nothing() -> None:
    row = ROWS[f"{C10D}.all_reduce"]
    assert all(raw.refusal(row, None, kind) == "" for kind in (R, I, V, P, shard(0), CONSTANT))


def test_equal_values_stay_what_they_are() -> None:
    for name, reduction in (("all_reduce", "max"), ("broadcast", "sum")):
        row = ROWS[f"{C10D}.{name}"]
        assert [raw.outcome(row, reduction, kind).after for kind in (R, I, CONSTANT, V)] == [R, I, CONSTANT, CONSTANT]


def test_what_is_sent_out_of_place_is_constant_on_other_axes_too() -> None:
    assert [raw.elsewhere(kind, False) for kind in (R, I, V, P, shard(1), None)] == [
        CONSTANT,
        CONSTANT,
        V,
        P,
        shard(1),
        None,
    ]
    assert [raw.elsewhere(kind, True) for kind in (R, I)] == [R, I]
