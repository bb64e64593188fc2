"""What goes wrong is said before anything is sent; with SPMD_DEBUG=1 also what goes wrong between ranks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import spmd_runtime as spmd
from spmd_runtime import DP, TP, I, P, R, S, V, debug
from tests.runtime import simulated
from tests.runtime.gloo import RanksFailed, run

Call = Callable[[Any, Any], object]
X = torch.ones(3, 4)

REFUSED: list[tuple[Call, type[Exception], str]] = [
    (lambda x, g: spmd.all_reduce(x, g, src=R, dst=R), ValueError,
     r"all_reduce\(axis .*src=R.*one value already.*must be P"),
    (lambda x, g: spmd.all_reduce(x, g, dst=V), ValueError, "all_reduce.*dst must be R or I, not V"),
    (lambda x, g: spmd.all_reduce(x, g, dst=S), TypeError, "all_reduce: dst is one of R, I, V, P.*S\\(0\\)"),
    (lambda x, g: spmd.all_reduce(x, g, dst="R"), TypeError, "all_reduce: dst is one of R, I, V, P, S\\(i\\), not 'R'"),
    (lambda x, g: spmd.all_gather(x, g, src=P, dst=R), ValueError, "all_gather.*src must be V or S\\(i\\), not P"),
    (lambda x, g: spmd.reduce_scatter(x, g, dst=S(0)), ValueError,
     "reduce_scatter.*dim 0 of size 3.*2 equal parts; pass split"),
    (spmd.reduce_scatter, ValueError,
     "reduce_scatter.*dim 0 has 3 entries where V needs one per rank"),
    (lambda x, g: spmd.reduce_scatter(x, g, dst=S(2)), ValueError, r"no dim 2 to cut in a tensor of shape \(3, 4\)"),
    (lambda x, g: spmd.convert(x, g, src=R, dst=S(0)), ValueError, "convert.*dim 0 of size 3 does not divide into 2"),
    (lambda x, g: spmd.convert(x, g, src=R, dst=S(0), split_sizes=[1, 1]), ValueError, "add up to 2, dim 0 has 3"),
    (lambda x, g: spmd.convert(x, g, src=R, dst=S(0), split_sizes=[3]), ValueError, "are 1, the axis has 2 ranks"),
    (lambda x, g: spmd.convert(x, g, src=R, dst=V, split_sizes=[1, 2]), ValueError,
     "split sizes are for the parts of an S"),
    (lambda x, g: spmd.all_gather(x, g, src=S(0), dst=R, split_sizes=[9, 9]), ValueError,
     "give this rank 9, dim 0 has 3"),
    (lambda x, g: spmd.all_gather(x, g, src=S(0), dst=R, gather_dim=1), ValueError, "dim 1 is given beside S\\(0\\)"),
    (lambda x, g: spmd.convert(x, g, src=P, dst=R), ValueError,
     "convert.*a pending sum ends by a reduction: all_reduce"),
    (lambda x, g: spmd.convert(x, g, src=R, dst=I), ValueError, "expert_mode=True"),
    (lambda x, g: spmd.convert(x, g, src=S(0), dst=S(1)), ValueError, "use all_to_all or redistribute"),
    (lambda x, g: spmd.convert(x, g, src=S(1), dst=S(-2)), ValueError, "use all_to_all or redistribute"),
    (lambda x, g: spmd.shard(x, g, src=R, dst=V), ValueError, "shard.*dst must be S\\(i\\)"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, backward_options={"dtype": 1}), ValueError,
     "unknown 'dtype'; known are op_dtype"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, backward_options={"op_dtype": 1}), TypeError, "is a torch.dtype, not 1"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, inplace=True, op_dtype=torch.float64), ValueError,
     "inplace=True goes with"),
    (lambda x, g: spmd.all_reduce(x.to("meta"), "nowhere", dst=R), LookupError,
     "axis 'nowhere' is bound to no process group"),
    # What leads there instead.
    (lambda x, g: spmd.convert(x, g, src=V, dst=R), ValueError,
     r"dst must be V or S\(i\), not R; .*all_reduce\(x, .*if it is a summand, all_gather\(x, .*if it is a part"),
    (lambda x, g: spmd.convert(x, g, src=S(1), dst=I), ValueError,
     r"to get from S\(1\) to I: all_gather\(x, .*, src=S\(1\), dst=I\)"),
    (lambda x, g: spmd.all_gather(x, g, src=P, dst=R), ValueError, r"to get from P to R: all_reduce\(x, .*, dst=R\)"),
    # What is no tensor, no dtype, no axis.
    (lambda x, g: spmd.all_reduce(3.0, g, dst=R), TypeError, "all_reduce.*takes a tensor, not 3.0$"),
    (lambda x, g: spmd.all_reduce([x], g, dst=R), TypeError, "takes a tensor, not a list; .*all_reduce_coalesced"),
    (lambda x, g: spmd.all_gather(None, g, dst=R), TypeError, "all_gather.*takes a tensor, not None"),
    (lambda x, g: spmd.convert(x.numpy(), g, src=R, dst=V), TypeError, "convert.*not a ndarray; torch.from_numpy"),
    (lambda x, g: spmd.redistribute(2, g, src=S(0), dst=S(1)), TypeError, "takes a tensor, not 2"),
    (lambda x, g: spmd.all_reduce(2, g, dst=R, async_op=True), TypeError, "all_reduce.*takes a tensor, not 2"),
    (lambda x, g: spmd.all_reduce(2, g, dst=R, inplace=True), TypeError, "all_reduce.*takes a tensor, not 2"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, out_dtype="bf16"), TypeError,
     "all_reduce: out_dtype is a torch.dtype, not 'bf16': write torch.bfloat16"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, op_dtype="float32"), TypeError, "op_dtype.*write torch.float32"),
    (lambda x, g: spmd.all_reduce(x, g, dst=R, backward_options="bf16"), TypeError, "backward_options is a dict"),
    (lambda x, g: spmd.all_reduce(x, [TP], dst=R), TypeError, "an axis is a MeshAxis class, .*; got \\["),
    (lambda x, g: spmd.use_mesh("tp"), TypeError, "use_mesh takes DeviceMesh objects.*not 'tp'; bind"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=[text[:40] for _, _, text in REFUSED])
def test_what_is_refused_says_why(call: Call, error: type[Exception], text: str) -> None:
    """Every rank refuses by itself, without a word to the others."""

    def on_thread(group: dist.ProcessGroup) -> None:
        with pytest.raises(error, match=text):
            call(X, group)

    simulated.run(on_thread, 2)


def test_a_tensor_on_another_device_than_its_group() -> None:
    class Group(simulated.SimulatedGroup):
        """Serves an accelerator only, and refuses other tensors as c10d does."""

        @property
        def _device_types(self) -> list[torch.device]:
            return [torch.device("cuda")]

        def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> None:
            raise RuntimeError("No backend type associated with device type cpu")

    def on_thread(group: dist.ProcessGroup) -> None:
        group.__class__ = Group
        with pytest.raises(
            ValueError, match=r"all_reduce\(axis .*got a tensor on cpu.*communicates on cuda; move the tensor"
        ):
            spmd.all_reduce(X, group, dst=R)

    simulated.run(on_thread, 2)


LOW = {"op_dtype": torch.float32}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_silent_low_precision_sum_in_the_backward_is_refused(dtype: torch.dtype) -> None:
    def on_thread(group: dist.ProcessGroup) -> None:
        x = torch.ones(2, 2, dtype=dtype, requires_grad=True)
        wide = torch.ones(2, 2, requires_grad=True)
        for call in (
            lambda x, **o: spmd.all_reduce(x, group, dst=R, **o),
            lambda x, **o: spmd.all_gather(x, group, src=S(0), dst=R, **o),
            lambda x, **o: spmd.convert(x, group, src=I, dst=R, **o),
            lambda x, **o: spmd.invariant_to_replicate(x, group, **o),
            lambda x, **o: spmd.reinterpret(x, group, src=I, dst=V, **o),
            lambda x, **o: spmd.redistribute(x, group, src=V, dst=R, **o),
        ):
            with pytest.raises(ValueError, match="in which precision: backward_options"):
                call(x)
            with pytest.raises(ValueError, match="in which precision: backward_options"):
                call(wide, op_dtype=dtype)
            assert call(x.detach()).dtype == dtype
            with torch.no_grad():
                assert call(x).dtype == dtype
            y = call(x, backward_options=LOW)
            assert y.dtype == dtype
            assert torch.autograd.grad(y.sum(), x)[0].dtype == dtype
        spmd.all_reduce(x, group, dst=I)
        spmd.reduce_scatter(x, group, dst=S(0))

    simulated.run(on_thread, 2)


def test_dtypes_of_communication_and_result() -> None:
    """op_dtype is what is sent; out_dtype what comes out; the backward's own; sums keep the input's precision."""
    sent: list[torch.dtype] = []

    class Group(simulated.SimulatedGroup):
        def allreduce(self, tensors: list[torch.Tensor], options: Any = None) -> None:
            sent.append(tensors[0].dtype)
            super().allreduce(tensors, options)

        def _allgather_base(self, out: torch.Tensor, x: torch.Tensor, options: Any = None) -> None:
            sent.append(x.dtype)
            super()._allgather_base(out, x, options)

    def on_thread(group: dist.ProcessGroup) -> None:
        group.__class__ = Group
        x = torch.ones(2, requires_grad=True)
        half = {"op_dtype": torch.bfloat16}
        y = spmd.all_reduce(x, group, dst=R, op_dtype=torch.bfloat16, backward_options=LOW)
        assert y.dtype == torch.bfloat16
        assert torch.autograd.grad(y.sum(), x)[0].dtype == torch.float32
        y = spmd.all_reduce(x, group, dst=R, op_dtype=torch.float64, out_dtype=torch.float32, backward_options=half)
        assert y.dtype == torch.float32
        assert torch.autograd.grad(y.sum(), x)[0].dtype == torch.float32
        assert spmd.all_reduce(x, group, dst=I, out_dtype=torch.bfloat16).dtype == torch.bfloat16
        assert spmd.all_gather(x.detach(), group, dst=I, out_dtype=torch.bfloat16).dtype == torch.bfloat16
        assert spmd.all_gather(x.detach(), group, dst=I, out_dtype=torch.float64).dtype == torch.float64

    simulated.run(on_thread, 2)
    half, single, double = torch.bfloat16, torch.float32, torch.float64
    assert sent[::2] == [half, single, double, half, single, half, single]


def checked(body: Callable[[int], None], timeout: str = "3") -> str:
    """What this rank's ``body(rank)`` is told, within the time."""
    os.environ["SPMD_DEBUG_TIMEOUT"] = timeout
    debug.enable()
    start = time.monotonic()
    try:
        with spmd.bind(TP, dist.group.WORLD):
            body(dist.get_rank())
        return ""
    except debug.Disagreement as told:
        assert time.monotonic() - start < float(timeout) + 10
        return str(told)
    finally:
        debug.enable(False)


def missing_call() -> str:
    def body(rank: int) -> None:
        spmd.all_reduce(X, TP, dst=R)
        if rank != 1:
            spmd.all_reduce(X, TP, dst=R)
        spmd.all_gather(X, TP, dst=R)

    return checked(body)


def other_order() -> str:
    def body(rank: int) -> None:
        x = torch.ones(2, 2)
        calls = [lambda: spmd.all_reduce(x, TP, dst=R), lambda: spmd.reduce_scatter(x, TP, dst=S(0))]
        for call in calls if rank == 0 else reversed(calls):
            call()

    return checked(body)


def other_shape() -> str:
    return checked(lambda rank: (spmd.all_reduce(torch.ones(2 + rank), TP, dst=R), None)[1])


def other_dtype() -> str:
    dtypes = (torch.float32, torch.float64)
    return checked(lambda rank: (spmd.all_reduce(torch.ones(2, dtype=dtypes[rank]), TP, dst=R), None)[1])


def never_comes() -> str:
    def body(rank: int) -> None:
        spmd.all_reduce(X, TP, dst=R)
        if rank == 0:
            spmd.all_reduce(X, TP, dst=R)

    told = checked(body)
    dist.barrier()
    return told


def in_the_backward() -> str:
    def body(rank: int) -> None:
        x = torch.ones(2, requires_grad=True)
        y = spmd.convert(x, TP, src=I, dst=R)
        z = spmd.all_gather(x, TP, src=S(0), dst=R)
        (y.sum() if rank == 0 else z.sum()).backward()

    return checked(body)


def not_replicated() -> str:
    x = torch.zeros(2, 3)
    x[1, 2] = dist.get_rank()
    return checked(lambda rank: (spmd.convert(x, TP, src=R, dst=P), None)[1])


def gradient_not_invariant() -> str:
    """A loss that differs over the ranks behind an I: the gradient that comes back is not one value."""

    def body(rank: int) -> None:
        x = torch.ones(4, requires_grad=True)
        y = spmd.all_reduce(x, TP, dst=I)
        (y * (rank + 1)).sum().backward()

    return checked(body)


def agreeing() -> str:
    def body(rank: int) -> None:
        x = torch.ones(rank + 1, 4, requires_grad=True)
        y = spmd.all_gather(x, TP, src=S(0), dst=R, split_sizes=[1, 2])
        sent = [1, 2]
        z = spmd.all_to_all(y, TP, input_split_sizes=sent, output_split_sizes=[sent[rank]] * 2)
        spmd.all_reduce(z.sum(), TP, dst=I).backward()
        spmd.all_reduce(torch.full((2,), float("nan")), TP, dst=R)
        pending = spmd.all_reduce(torch.ones(2), TP, dst=R, async_op=True)
        pending.wait()
        spmd.all_reduce_coalesced([torch.ones(2), torch.ones(3)], TP, dst=R)

    return checked(body, "20")


def on_two_axes() -> str:
    """Rank 0 calls on tp, rank 1 on dp: each misses the other, and says where it is."""
    os.environ["SPMD_DEBUG_TIMEOUT"] = "2"
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    debug.enable()
    try:
        with spmd.use_mesh(mesh):
            spmd.all_reduce(X, TP if dist.get_rank() in (0, 3) else DP, dst=R)
        return ""
    except debug.Disagreement as told:
        return str(told)
    finally:
        debug.enable(False)


SEEN: list[tuple[Callable[[], str], int, list[str]]] = [
    (missing_call, 3, ["call ", "the calls differ", "rank 1: all_gather(axis 'tp', V -> R)",
                       "rank 0: all_reduce(axis 'tp', P -> R) of torch.float32 (3, 4) at test_faults.py:"]),
    (other_order, 2, ["the calls differ", "rank 0: all_reduce", "rank 1: reduce_scatter"]),
    (other_shape, 2, ["the shapes differ", "rank 0: all_reduce(axis 'tp', P -> R) of torch.float32 (2,)", "(3,)"]),
    (other_dtype, 2, ["the dtypes differ", "torch.float32", "torch.float64"]),
    (in_the_backward, 2, ["the calls differ", "the backward of test_faults.py:", "reduce_scatter", "all_reduce"]),
    (not_replicated, 2, ["claimed R", "1 of 6 elements of rank 1 differ",
         "first at [1, 2]: rank 0 has 0.0, rank 1 has 1.0"]),
    (gradient_not_invariant, 2, ["claimed I", "first at [0]: rank 0 has 1.0, rank 1 has 2.0",
         "the backward of test_faults"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "ranks", "texts"), SEEN, ids=[body.__name__ for body, _, _ in SEEN])
def test_ranks_that_disagree_each_say_so(body: Callable[[], str], ranks: int, texts: list[str]) -> None:
    for told in run(body, ranks, timeout=40):
        assert [text for text in texts if text not in told] == [], told


def test_a_rank_that_does_not_come_is_named() -> None:
    waiting, gone = run(never_comes, 2, timeout=40)
    assert gone == ""
    assert "rank 1: has not come (the time to wait is 3 s); last seen in call" in waiting
    assert "test_faults.py" in waiting


def test_a_rank_that_is_on_another_axis_is_named_with_it() -> None:
    for told in run(on_two_axes, 4, timeout=40):
        assert "has not come (the time to wait is 2 s); last seen in call 1 on axis" in told


def test_ranks_that_agree_are_left_alone() -> None:
    assert run(agreeing, 2, timeout=60) == ["", ""]


def dies() -> None:
    os.environ["SPMD_DEBUG_TIMEOUT"] = "2"
    debug.enable()
    with spmd.bind(TP, dist.group.WORLD):
        spmd.all_reduce(X, TP, dst=R)
        if dist.get_rank() == 1:
            os._exit(3)
        spmd.all_reduce(X, TP, dst=R)


def test_a_rank_that_has_died_is_named() -> None:
    with pytest.raises(RanksFailed) as info:
        run(dies, 2, timeout=30)
    assert "rank 1: has not come (the time to wait is 2 s); last seen in call" in info.value.errors[0]
    assert "exit code 3" in info.value.errors[1]
