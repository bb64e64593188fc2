"""Under torch.compile: no graph break, and the very graph that hand-written functional collectives give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.utils.checkpoint import checkpoint

import spmd_runtime as spmd
from spmd_runtime import TP, I, P, R, S
from tests.runtime.gloo import run
from tests.runtime.test_rows import FULL

Call = Callable[[Tensor], Tensor]


# What people write by hand: functional collectives on the group's name, in autograd functions.
def reduced(x: Tensor) -> Tensor:
    return torch.ops._c10d_functional.wait_tensor(torch.ops._c10d_functional.all_reduce(x, "sum", "tp"))


def gathered(x: Tensor, dim: int) -> Tensor:
    out = torch.ops._c10d_functional.all_gather_into_tensor(x.contiguous(), 2, "tp")
    out = torch.ops._c10d_functional.wait_tensor(out)
    return out if dim == 0 else torch.cat(torch.chunk(out, 2, dim=0), dim=dim)


def scattered(x: Tensor, dim: int) -> Tensor:
    x = x.contiguous() if dim == 0 else torch.cat(torch.chunk(x, 2, dim=dim))
    out = torch.ops._c10d_functional.reduce_scatter_tensor(x, "sum", 2, "tp")
    return torch.ops._c10d_functional.wait_tensor(out)


def exchanged(x: Tensor, cut: int, join: int) -> Tensor:
    x = x.contiguous() if cut == 0 else torch.cat(torch.chunk(x, 2, dim=cut))
    sizes = [x.shape[0] // 2] * 2
    out = torch.ops._c10d_functional.all_to_all_single(x, sizes, sizes, "tp")
    out = torch.ops._c10d_functional.wait_tensor(out)
    return out if join == 0 else torch.cat(torch.chunk(out, 2, dim=0), dim=join)


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return reduced(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return reduced(grad)


class ReduceFrom(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return reduced(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.view_as(grad)


class CopyTo(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return reduced(grad)


class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return gathered(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return scattered(grad, ctx.dim), None


class Scatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        ctx.dim = dim
        return scattered(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return gathered(grad, ctx.dim), None


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cut: int, join: int) -> Tensor:
        ctx.cut, ctx.join = cut, join
        return exchanged(x, cut, join)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return exchanged(grad, ctx.join, ctx.cut), None, None


PAIRS: dict[str, tuple[Call, Call]] = {
    "all_reduce to R": (lambda x: spmd.all_reduce(x, TP, dst=R), Reduce.apply),
    "all_reduce to I": (lambda x: spmd.all_reduce(x, "tp", dst=I), ReduceFrom.apply),
    "all_reduce on a group": (lambda x: spmd.all_reduce(x, dist.group.WORLD, dst=R), Reduce.apply),
    "convert I to R": (lambda x: spmd.convert(x, TP, src=I, dst=R), CopyTo.apply),
    "all_gather S(0)": (lambda x: spmd.all_gather(x, TP, src=S(0), dst=R), lambda x: Gather.apply(x, 0)),
    "all_gather S(1)": (lambda x: spmd.all_gather(x, TP, src=S(1), dst=R), lambda x: Gather.apply(x, 1)),
    "reduce_scatter S(0)": (lambda x: spmd.reduce_scatter(x, TP, dst=S(0)), lambda x: Scatter.apply(x, 0)),
    "reduce_scatter S(1)": (lambda x: spmd.reduce_scatter(x, TP, dst=S(1)), lambda x: Scatter.apply(x, 1)),
    "all_to_all": (
        lambda x: spmd.all_to_all(x, TP, src=S(0), dst=S(1)),
        lambda x: Exchange.apply(x, 1, 0),
    ),
}


def graphs(call: Call, x: Tensor) -> tuple[list[str], Tensor, Tensor]:
    """The text of the forward and backward graphs, and what comes out."""
    texts: list[str] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        texts.append(graph.code)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(lambda t: torch.tanh(call(t * 2)), backend=aot_autograd(fw_compiler=keep), fullgraph=True)
    out = compiled(x)
    (grad,) = torch.autograd.grad(out.sum(), x)
    return texts, out.detach(), grad


def compare_graphs() -> dict[str, list[list[str]]]:
    x = torch.arange(16.0).view(4, 4).div(7).add(dist.get_rank()).requires_grad_()
    found = {}
    with spmd.bind(TP, dist.group.WORLD):
        for name, (ours, by_hand) in PAIRS.items():
            text, out, grad = graphs(ours, x)
            hand_text, hand_out, hand_grad = graphs(by_hand, x)
            assert torch.equal(out, hand_out), name
            assert torch.equal(grad, hand_grad), name
            eager = torch.tanh(ours(x * 2))
            torch.testing.assert_close(out, eager)
            torch.testing.assert_close(grad, torch.autograd.grad(eager.sum(), x)[0])
            found[name] = [text, hand_text]
    return found


def test_the_graph_is_that_of_functional_collectives_written_by_hand() -> None:
    for rank in run(compare_graphs, 2, timeout=300):
        for name, (ours, by_hand) in rank.items():
            assert len(ours) == 2
            assert ours == by_hand, name


def everything(x: Tensor) -> Tensor:
    """One function with each kind of call in it; x is I."""
    h = spmd.convert(x, TP, src=I, dst=S(0))
    h = spmd.all_gather(torch.tanh(h), TP, src=S(0), dst=R)
    h = checkpoint(lambda t: spmd.all_reduce(torch.sin(t), TP, dst=R), h, use_reentrant=False)
    pending = spmd.all_reduce(h * 0.5, TP, dst=R, async_op=True)
    cut = spmd.convert(h, TP, src=R, dst=S(1))
    around = spmd.shift(spmd.broadcast(cut, TP, root=1, dst=R) + cut, TP)
    placed = spmd.convert(around, TP, src=S(1), dst=P, expert_mode=True)
    first = spmd.convert(h, TP, src=R, dst=P)
    whole = spmd.redistribute(placed + first, TP, src=P, dst=R) + pending.wait()
    rows = spmd.convert(whole, TP, src=R, dst=S(0))
    moved = spmd.redistribute(rows, TP, src=S(0), dst=S(-1)).sum() + spmd.axis_index(TP) * spmd.axis_size(TP)
    stacked = spmd.all_to_all(whole.view(2, -1), TP).sum() * moved
    first_sum, second_sum = spmd.all_reduce_coalesced([stacked, moved * moved], TP, dst=I)
    return first_sum + second_sum


def compile_everything() -> tuple[list[str], float, float]:
    x = torch.arange(16.0).view(4, 4).div(9).requires_grad_()
    with spmd.bind(TP, dist.group.WORLD):
        eager = everything(x)
        (wanted,) = torch.autograd.grad(eager, x)
        texts, out, grad = graphs(everything, x)
        torch.testing.assert_close(out, torch.tanh(everything(x * 2)))
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled = torch.compile(everything, fullgraph=True, backend="inductor" if FULL else "aot_eager")
        for _ in range(2):
            out = compiled(x)
            (grad,) = torch.autograd.grad(out, x)
            torch.testing.assert_close(out, eager)
            torch.testing.assert_close(grad, wanted)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    return texts, out.item(), grad.sum().item()


def test_every_kind_of_call_compiles_without_a_break_to_one_graph_for_all_ranks() -> None:
    (texts, out, grad), (others, other_out, other_grad) = run(compile_everything, 2, timeout=300)
    assert texts == others
    assert "spmd_runtime.axis_index" in texts[0]
    assert "'tp'" in texts[0]
    assert (out, grad) == (other_out, other_grad)
