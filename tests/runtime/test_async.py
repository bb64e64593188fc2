"""Pending results, in-place sums, and several tensors in one launch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

import spmd_runtime as spmd
from spmd_runtime import TP, I, P, Pending, R, S, V
from tests.runtime import cases
from tests.runtime.gloo import run
from tests.runtime.meaning import Case, as_type, dual
from tests.runtime.test_rows import drawn

ASYNC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def late_and_at_once(some: list[Case]) -> list[str]:
    """The calls of ``some`` that give another result or gradient with async_op=True."""
    wrong, rank, world = [], dist.get_rank(), dist.group.WORLD
    assert world is not None
    with spmd.bind(TP, world):
        for case in some:
            x = drawn(case.src, case.shapes[rank], rank, 1, case.dtype).requires_grad_()
            op, options = getattr(spmd, case.op), {"src": as_type(case.src), "dst": as_type(case.dst)}
            options |= case.on_rank(rank)
            now = op(x, TP, **options)
            pending = op(x, TP, **options, async_op=True)
            assert isinstance(pending, Pending)
            with torch.no_grad():  # the gradient mode of the call counts, not that of the wait
                later = pending.wait()
            grad = drawn(dual(case.dst), tuple(now.shape), rank, 2, case.dtype)
            (one,), (other,) = torch.autograd.grad(now, x, grad), torch.autograd.grad(later, x, grad)
            if not (torch.equal(now, later) and torch.equal(one, other) and pending.wait() is later):
                wrong.append(str(case))
            with torch.no_grad():
                assert not op(x, TP, **options, async_op=True).wait().requires_grad
    return wrong


def test_a_pending_result_is_the_result() -> None:
    some = [case for case in cases.shaped(2) if case.op in ASYNC]
    assert len(some) > 30
    assert run(late_and_at_once, 2, some, timeout=120) == [[], []]


def many_at_once() -> float:
    """Several under way, waited for in another order, with options."""
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(TP, world):
        x = torch.ones(3, requires_grad=True)
        low = {"op_dtype": torch.float32}
        sums = [spmd.all_reduce(x * k, TP, dst=R, async_op=True) for k in range(1, 5)]
        half = spmd.all_reduce(x, TP, dst=R, op_dtype=torch.bfloat16, backward_options=low, async_op=True)
        moved = spmd.redistribute(x, TP, src=R, dst=P, async_op=True)
        total = sum(pending.wait().sum() for pending in reversed(sums))
        assert half.wait().dtype == torch.bfloat16
        assert moved.wait().sum() == (3 if dist.get_rank() == 0 else 0)
        assert isinstance(total, Tensor)
        total.backward()
        assert x.grad is not None
        return x.grad.sum().item()


def test_several_may_be_under_way() -> None:
    """sum over k of (all_reduce of k) twice: 2 * (1 + 2 + 3 + 4) per element."""
    assert run(many_at_once, 2) == [60.0, 60.0]


def test_nothing_but_wait_can_be_done_with_a_pending() -> None:
    pending: Any = Pending(lambda: torch.ones(2))
    for use in (
        lambda: pending + 1,
        lambda: torch.ones(2) + pending,
        lambda: torch.relu(pending),
        lambda: torch.stack([pending]),
        lambda: spmd.all_reduce(pending, TP, dst=R),
    ):
        with pytest.raises((TypeError, LookupError)):
            use()
    with pytest.raises(TypeError, match="still under way; call .wait()"):
        torch.relu(pending)
    with pytest.raises(AttributeError, match="still under way; call .wait().*asked for .shape"):
        _ = pending.shape
    assert repr(pending) == "Pending(under way)"
    assert pending.wait().sum() == 2
    assert repr(pending) == "Pending(done)"


def in_place() -> None:
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(TP, world):
        for x in (torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(2, 3, dtype=torch.complex64)):
            where = x.data_ptr()
            y = spmd.all_reduce(x, TP, dst=R, inplace=True)
            assert y is x
            assert x.data_ptr() == where
            assert x.eq(2).all()
        leaf = torch.ones(2, requires_grad=True)
        h = leaf * 3
        y = spmd.all_reduce(h, TP, dst=R, inplace=True)
        assert h.eq(6).all()
        y.sum().backward()
        assert leaf.grad is not None
        assert leaf.grad.eq(6).all()
        squared = torch.exp(leaf)
        spmd.all_reduce(squared, TP, dst=R, inplace=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            squared.sum().backward()


def test_a_sum_in_place_is_seen_by_autograd() -> None:
    run(in_place, 2)


def together() -> None:
    world = dist.group.WORLD
    assert world is not None
    rank = dist.get_rank()
    torch.manual_seed(rank)
    shapes = ((4, 2), (2,), (0, 3), (6, 1, 2))
    with spmd.bind(TP, world):
        for grouped, single, options in (
            (spmd.all_reduce_coalesced, spmd.all_reduce, {"dst": R}),
            (spmd.all_reduce_coalesced, spmd.all_reduce, {"dst": I}),
            (spmd.all_gather_coalesced, spmd.all_gather, {"src": S(0), "dst": R}),
            (spmd.all_gather_coalesced, spmd.all_gather, {"src": V, "dst": I}),
            (spmd.reduce_scatter_coalesced, spmd.reduce_scatter, {"dst": S(0)}),
        ):
            xs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
            xs.append(torch.randn(2, 2, requires_grad=True))  # another dtype
            outs, singles = grouped(xs, TP, **options), [single(x, TP, **options) for x in xs]
            assert isinstance(outs, list)
            assert all(map(torch.equal, outs, singles))
            grads = [torch.randn_like(out) for out in outs]
            assert all(map(torch.equal, *(torch.autograd.grad(o, xs, grads) for o in (outs, singles))))
        assert spmd.all_reduce_coalesced([], TP, dst=R) == []
        with pytest.raises(ValueError, match="in which precision"):
            half = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
            spmd.all_reduce_coalesced([torch.ones(2), half], TP, dst=R)


@pytest.mark.parametrize("ranks", [1, 2])
def test_coalesced_calls_equal_single_ones(ranks: int) -> None:
    run(together, ranks)


def launches() -> int:
    """How many collectives the backend sees for three tensors."""
    world = dist.group.WORLD
    assert world is not None
    with torch.profiler.profile() as profile, spmd.bind(TP, world):
        spmd.all_reduce_coalesced([torch.ones(2), torch.ones(3), torch.ones(4)], TP, dst=R)
    return sum(event.count for event in profile.key_averages() if event.key.startswith("c10d::allreduce"))


def test_coalesced_calls_are_one_launch() -> None:
    assert run(launches, 2) == [1, 1]


def test_types_are_plain_values() -> None:
    assert S(1) is S(1) is copy.deepcopy(S(1)) is pickle.loads(pickle.dumps(S(1)))
    assert pickle.loads(pickle.dumps({TP: R, "dp": S(0)})) == {TP: R, "dp": S(0)}
    assert repr(S(-1)) == "S(-1)"
    with pytest.raises(TypeError, match="takes the tensor dim as an int"):
        S(True)
