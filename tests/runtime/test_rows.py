"""Proof of the table of collectives: what each row means forward, and that its backward is the transpose of that.

The rows come from ``spmd_mypy.rules.collectives``, which the plugin reads too; what they mean comes from
``meaning.py``.  Each call runs on every rank, in memory (``simulated.py``) and on real gloo processes, and is compared
with the meaning as a program for one device.  Values are small whole numbers, so that sums are exact in every dtype and
equality is equality.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.distributed as dist

import spmd_runtime as spmd
from spmd_mypy.rules import collectives as table
from spmd_mypy.rules.collectives import Refusal, Transition
from spmd_mypy.rules.kinds import parse
from spmd_runtime import request, rows
from tests.runtime import cases, gloo, simulated
from tests.runtime.meaning import (
    MEANINGS,
    Case,
    as_type,
    denotations,
    denoted,
    dual,
    inner,
    row_of,
)

Values = list[torch.Tensor]


@dataclass
class Part:
    """What one rank has after a call: input and output, their gradients, and the direction and value of the second
    derivative."""

    x: torch.Tensor
    y: torch.Tensor
    grad_y: torch.Tensor
    grad_x: torch.Tensor
    direction: torch.Tensor
    second: torch.Tensor


def drawn(kind: str, shape: tuple[int, ...], rank: int, seed: int, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of small whole numbers: equal on all ranks for R and I, different ones for the others."""
    generator = torch.Generator("cpu").manual_seed(1000 * seed + (0 if kind in ("R", "I") else rank + 1))

    def numbers() -> torch.Tensor:
        return torch.randint(-3, 4, shape, generator=generator, device="cpu").to(torch.float64)

    x = torch.complex(numbers(), numbers()) if dtype.is_complex else numbers()
    return x.to(torch.get_default_device(), dtype)


def scattered(x: torch.Tensor) -> torch.Tensor:
    """The same values, every second element of a transposed buffer."""
    buffer = torch.empty((*reversed(x.shape), 2), dtype=x.dtype)
    view = buffer[..., 0].permute(*reversed(range(x.dim())))
    return view.copy_(x)


def call(case: Case, x: torch.Tensor, axis: Any, rank: int) -> torch.Tensor:
    """The call that ``case`` describes."""
    options = case.on_rank(rank)
    if case.dtype in (torch.bfloat16, torch.float16):  # otherwise refused
        options["backward_options"] = {"op_dtype": case.dtype, "backward_options": {"op_dtype": case.dtype}}
    if case.op == "broadcast":
        return spmd.broadcast(x, axis, dst=as_type(case.dst), **options)
    if case.op == "shift":
        return spmd.shift(x, axis, **options)
    return getattr(spmd, case.op)(x, axis, src=as_type(case.src), dst=as_type(case.dst), **options)


def one_rank(case: Case, axis: Any, rank: int, seed: int = 1) -> Part:
    """One rank's part of a call, its gradient, and the gradient of that."""
    x = drawn(case.src, case.shapes[rank], rank, seed, case.dtype)
    x = (scattered(x) if case.strided else x).requires_grad_()
    y = call(case, x, axis, rank)
    grad_y = drawn(dual(case.dst), tuple(y.shape), rank, seed + 1, case.dtype)
    grad_y = (scattered(grad_y) if case.strided else grad_y).requires_grad_()
    (grad_x,) = torch.autograd.grad(y, x, grad_y, create_graph=True)
    direction = drawn(case.src, tuple(x.shape), rank, seed + 2, case.dtype)
    (second,) = torch.autograd.grad(grad_x, grad_y, direction)
    with torch.no_grad():
        assert torch.equal(call(case, x, axis, rank), y), "the forward without gradients is another"
    return Part(*(t.detach() for t in (x, y, grad_y, grad_x, direction, second)))


def verify(case: Case, parts: list[Part]) -> None:
    """Compare what the ranks have with what the row means."""
    src, dst = denotations(case)
    meaning = MEANINGS[row_of(replace(case, op=table.ALIASES.get(case.op, case.op)))]
    x = denoted(src, [part.x for part in parts])
    leaf = [v.clone().requires_grad_() for v in x] if isinstance(x, list) else x.clone().requires_grad_()
    y = meaning(leaf, case)
    same(denoted(dst, [part.y for part in parts]), y, "forward")
    grad_y = denoted(dual(dst), [part.grad_y for part in parts])
    grad_x = denoted(dual(src), [part.grad_x for part in parts])
    leaves, outs, cotangents = (v if isinstance(v, list) else [v] for v in (leaf, y, grad_y))
    expected = torch.autograd.grad(outs, leaves, cotangents, allow_unused=True)
    filled = [torch.zeros_like(v) if g is None else g for v, g in zip(leaves, expected, strict=True)]
    same(grad_x, filled if isinstance(x, list) else filled[0], "gradient")
    moved = meaning(denoted(src, [part.direction for part in parts]), case)
    same(denoted(dst, [part.second for part in parts]), moved, "second derivative")
    below = inner(src, [part.grad_x for part in parts], [part.x for part in parts])
    above = inner(dst, [part.grad_y for part in parts], [part.y for part in parts])
    assert below == above, f"duality: <grad, J x> is {above}, <J^T grad, x> is {below}"


def same(got: Any, wanted: Any, what: str) -> None:
    got, wanted = ([v] if isinstance(v, torch.Tensor) else list(v) for v in (got, wanted))
    assert len(got) == len(wanted), what
    for one, other in zip(got, wanted, strict=True):
        assert one.shape == other.shape, f"{what}: shape {tuple(one.shape)}, not {tuple(other.shape)}"
        assert one.dtype == other.dtype, f"{what}: {one.dtype}, not {other.dtype}"
        assert torch.equal(one, other), f"{what}: {one.tolist()}, not {other.tolist()}"


def parts_on_rank(some: list[Case]) -> list[Part | str]:
    """This gloo rank's part of each call; the text of the exception where there is one."""
    found: list[Part | str] = []
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(spmd.TP, world):
        for case in some:
            try:
                found.append(one_rank(case, spmd.TP, dist.get_rank()))
            except (AssertionError, RuntimeError, ValueError, TypeError) as error:
                found.append(f"{type(error).__name__}: {error}")
    return found


def failures(some: list[Case], columns: list[list[Any]]) -> list[str]:
    """The cases that are not as they should be, each in a line."""
    found = []
    for case, parts in zip(some, zip(*columns, strict=True), strict=True):
        wrong = next((part for part in parts if isinstance(part, str)), None)
        if wrong is None:
            try:
                verify(case, list(parts))
            except AssertionError as error:
                wrong = str(error)
        if wrong is not None:
            found.append(f"{case}: {wrong}")
    return found


# SPMD_TEST_FULL=1: everything on every number of ranks; else two ranks stand for dtypes, strides and empty tensors.
FULL = os.environ.get("SPMD_TEST_FULL", "") not in ("", "0")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_row_on_gloo(ranks: int) -> None:
    some = cases.every(ranks) if FULL or ranks == 2 else cases.shaped(ranks)
    assert not (wrong := failures(some, gloo.run(parts_on_rank, ranks, some, timeout=120))), "\n".join(wrong)


def simulate(some: list[Case]) -> list[str]:
    """The cases that fail on simulated ranks."""
    ranks = some[0].ranks

    def on_thread(group: dist.ProcessGroup) -> list[Part]:
        return [one_rank(case, group, group.rank()) for case in some]

    return failures(some, simulated.run(on_thread, ranks))


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_row_on_simulated_ranks(ranks: int) -> None:
    some = cases.shaped(ranks)
    assert not (wrong := simulate(some)), "\n".join(wrong)


def test_rows_and_meanings_are_the_same_set() -> None:
    """No row without a meaning, no meaning without a row; the rows that only a backward takes aside."""
    known = {(op, src, dst) for op, table_ in rows.ROWS.items() for src, dst in table_} - {
        ("reduce", "P", "V"), ("keep", "I", "V"),
    }  # fmt: skip
    assert known == set(MEANINGS)


# Rows whose backward is the identity or a sum, tried with one that stacks: autograd sums a gradient that broadcasts to
# the input's shape, and so comes to the same.
SUMMED_BY_AUTOGRAD = {("reinterpret", "I", "V", "all_gather"), ("reinterpret", "R", "V", "convert")}


def forget() -> None:
    """Drop what was derived from the table."""
    request._plans.clear()


def wrong_rows() -> list[Transition]:
    """Each row with each backward of the same types that is carried out by another kernel; a shift by 0 is none."""
    found = []
    for row in (row for table_ in table.TRANSITIONS.values() for row in table_.values()):
        right = rows.backward(row)
        for others in rows.ROWS.values():
            for other in others.values():
                alike = (other.src, other.dst) in ((right.src, right.dst), (row.backward[1], row.backward[2]))
                apart = rows.kernel(other) not in (rows.kernel(right), "ring")
                if alike and apart and (row.op, row.src, row.dst, other.op) not in SUMMED_BY_AUTOGRAD:
                    found.append(row._replace(backward=(other.op, other.src, other.dst)))
    return found


@pytest.mark.parametrize("wrong", wrong_rows(), ids=lambda row: f"{row.op}-{row.src}{row.dst}-by-{row.backward[0]}")
def test_a_wrong_backward_in_the_table_is_found(wrong: Transition, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change one row of the table alone: the proof must fail."""
    right = rows.ROWS[wrong.op][wrong.src, wrong.dst]
    monkeypatch.setitem(rows.ROWS[wrong.op], (wrong.src, wrong.dst), wrong)
    monkeypatch.setitem(table.TRANSITIONS[wrong.op], (wrong.src, wrong.dst), wrong)
    some = [case for case in cases.plain(2) if row_of(case) == (wrong.op, wrong.src, wrong.dst)]
    forget()
    found: list[str] = []
    try:
        found = simulate(some)
    except (ValueError, RuntimeError, AssertionError) as error:  # a backward that cannot even run
        found = [str(error)]
    finally:
        forget()
    assert found, f"{wrong} passes as well as {right}"


@pytest.mark.parametrize("kernel", sorted({"sum", "gather", "scatter", "exchange", "cut", "first", "place", "same"}))
def test_a_wrong_kernel_is_found(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change what the runtime does alone, forward, and the proof must fail."""
    from spmd_runtime import eager, plan  # noqa: PLC0415

    name = next(name for name in (f"finish_{kernel}", f"start_{kernel}", kernel) if hasattr(eager, name))
    honest = getattr(eager, name)
    monkeypatch.setattr(eager, name, lambda x, *rest: honest(x * 2, *rest))
    monkeypatch.setattr(plan, "_itself", lambda x: x * 2)
    some = [case for case in cases.plain(2) if rows.kernel(rows.ROWS[case.op][case.src[0], case.dst[0]]) == kernel]
    forget()
    try:
        assert len(simulate(some)) == len(some)
    finally:
        forget()


OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "convert",
    "reinterpret",
    "redistribute",
    "shard",
    "unshard",
)
KINDS = ("R", "I", "V", "P", "S(0)", "S(1)")


@pytest.mark.parametrize("op", OPS)
def test_the_runtime_accepts_what_the_table_accepts(op: str) -> None:
    """Every pair of src and dst, with and without expert_mode: refused exactly where the plugin's table refuses."""

    def on_thread(group: dist.ProcessGroup) -> None:
        for src in KINDS:
            for dst in KINDS:
                for expert in (False, True) if op in ("convert", "reinterpret") else (False,):
                    options = {"expert_mode": True} if expert else {}
                    case = Case(op, src, dst, 2, ((2, 2, 4),) * 2, tuple(options.items()))
                    verdict = table.transition(op, parse(src), parse(dst), expert=expert)
                    if isinstance(verdict, Refusal):
                        with pytest.raises(ValueError, match=op):
                            call(case, torch.ones(2, 2, 4), group, group.rank())
                    else:
                        call(case, torch.ones(2, 2, 4), group, group.rank())

    simulated.run(on_thread, 2)


def test_shards_of_one_dim_become_shards_of_another() -> None:
    """all_to_all and redistribute from S(i) to S(j) keep the global tensor."""

    def on_thread(group: dist.ProcessGroup) -> list[torch.Tensor]:
        whole = torch.arange(36.0).view(6, 6)
        one = spmd.shard(whole, group, src=spmd.R, dst=spmd.S(0))
        return [
            spmd.all_to_all(one, group, src=spmd.S(0), dst=spmd.S(1)),
            spmd.redistribute(one, group, src=spmd.S(0), dst=spmd.S(-1)),
        ]

    whole = torch.arange(36.0).view(6, 6)
    for column in zip(*simulated.run(on_thread, 3), strict=True):
        assert torch.equal(torch.cat(column, 1), whole)


def test_redistribute_takes_the_one_cheapest_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """From any type to any type by one row: nothing is gathered that is only cut away again."""
    for src in KINDS:
        for dst in KINDS:
            row = table.transition("redistribute", parse(src), parse(dst))
            assert isinstance(row, Transition)
            moved = src.startswith(("P", "V", "S")) and dst[0] in "RI"
            moved |= src == "P" and dst[0] in "VS"
            moved |= src[0] == dst[0] == "S" and src != dst
            assert (row.op in rows.COMMUNICATING) == moved, f"{src} -> {dst} by {row.op}"


def test_redistribute_is_that_operation_both_ways() -> None:
    """From any type to any type: value, gradient and second derivative are those of the row it takes."""
    pairs = []
    for src in KINDS:
        for dst in KINDS:
            row = table.transition("redistribute", parse(src), parse(dst))
            assert isinstance(row, Transition)
            options = (("expert_mode", True),) if row.op == "convert" else ()
            one = Case("redistribute", src, dst, 2, ((2, 2, 4),) * 2)
            pairs.append((one, replace(one, op=row.op, options=options)))

    def on_thread(group: dist.ProcessGroup) -> list[str]:
        found = []
        for case, direct in pairs:
            got, wanted = one_rank(case, group, group.rank()), one_rank(direct, group, group.rank())
            found += [
                f"{case}: {name}" for name, value in vars(got).items() if not torch.equal(value, vars(wanted)[name])
            ]
        return found

    assert simulated.run(on_thread, 2) == [[], []]
