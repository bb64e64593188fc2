"""Every row under tracing: the graph runs to the same as eager mode, and is one graph on all ranks."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

import spmd_runtime as spmd
from spmd_runtime import TP
from tests.runtime import cases
from tests.runtime.gloo import run
from tests.runtime.meaning import Case, dual
from tests.runtime.test_rows import call, drawn


def traced(case: Case) -> str:
    """Trace forward and gradient of a call without communication, run the graph, compare; the graph's text."""
    rank = dist.get_rank()

    def step(x: Tensor, grad_y: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        y = call(case, x, TP, rank)
        return y.detach(), torch.autograd.grad(y, x, grad_y)[0]

    x = drawn(case.src, case.shapes[rank], rank, 1, case.dtype)
    with torch.no_grad():
        y = call(case, x, TP, rank)
    grad_y = drawn(dual(case.dst), tuple(y.shape), rank, 2, case.dtype)
    graph = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(x, grad_y)
    for got, wanted in zip(graph(x, grad_y), step(x, grad_y), strict=True):
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        assert torch.equal(got, wanted), f"{case}: traced {got.tolist()}, eager {wanted.tolist()}"
    return graph.code


def trace_all(some: list[Case]) -> list[str]:
    world = dist.group.WORLD
    assert world is not None
    with spmd.bind(TP, world):
        return [traced(case) for case in some]


def test_every_row_traces_to_one_graph_for_all_ranks() -> None:
    some = [*cases.plain(3), *cases.placed(3), *(case for case in cases.typed(3) if case.dtype.is_complex)]
    for case, *texts in zip(some, *run(trace_all, 3, some, timeout=300), strict=True):
        assert len(set(texts)) == 1, f"{case}: the graphs of the ranks differ:\n" + "\n".join(texts)


def test_uneven_parts_trace_too() -> None:
    """Their sizes differ from rank to rank, and so do the graphs."""
    run(trace_all, 2, [*cases.uneven(2)], timeout=120)
