"""Annotations are erased: with them and without, torch sees the same code."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import subprocess
import sys
import typing
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import spmd_runtime as spmd
from spmd_runtime import DP, TP, Buffer, Group, I, P, Parameter, R, S, Tensor, V
from tests.mypy_runner import ROOT
from tests.runtime.annotated import Bare, Batch, Pair, Typed, bare, scripted, typed

Activation = Tensor[V[DP], R[TP]]


def test_a_subscript_is_torchs_own_class() -> None:
    assert Tensor is torch.Tensor
    assert Tensor[V[DP], P[TP]] is Tensor[P] is Tensor[S[TP, 2]] is Activation is torch.Tensor
    assert Parameter[V[TP]] is nn.Parameter[V[TP]] is nn.Parameter
    assert Buffer[R[TP]] is nn.Buffer
    assert Group[TP] is dist.ProcessGroup
    assert V[TP] is V
    assert isinstance(torch.ones(1), Tensor[V[TP]])
    assert isinstance(nn.Parameter(torch.ones(1)), Parameter[I[TP]])
    assert not isinstance(1, Tensor[V[TP]])
    assert issubclass(nn.Parameter, Tensor[V[TP]])


def test_the_fx_graph_is_the_same() -> None:
    assert torch.fx.symbolic_trace(typed).code == torch.fx.symbolic_trace(bare).code
    one, other = torch.fx.symbolic_trace(Typed()), torch.fx.symbolic_trace(Bare())
    assert one.code == other.code
    assert [str(n) for n in one.graph.nodes] == [str(n) for n in other.graph.nodes]


def compiled_graphs(function: Any, *args: torch.Tensor) -> list[str]:
    texts: list[str] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Any:
        texts.append(graph.code)
        return graph.forward

    torch._dynamo.reset()
    torch.compile(function, backend=keep, fullgraph=True)(*args)
    return texts


def test_the_compiled_graph_is_the_same() -> None:
    x, w = torch.randn(4, 2), torch.randn(2, 3)
    assert compiled_graphs(typed, x, w) == compiled_graphs(bare, x, w)
    assert len(compiled_graphs(typed, x, w)) == 1
    assert compiled_graphs(Typed(), x) == compiled_graphs(Bare(), x)


def test_torchscript_takes_annotated_code() -> None:
    module = torch.jit.script(Typed())
    x = torch.randn(4, 2)
    assert torch.equal(module(x), Typed()(x))
    assert module.code == torch.jit.script(Bare()).code
    schema = str(torch.jit.script(scripted).schema)
    assert schema.endswith("(Tensor x, Tensor[] ys, Tensor? z=None) -> Tensor")


def test_get_type_hints() -> None:
    hints = typing.get_type_hints(typed)
    assert hints == {"x": torch.Tensor, "w": torch.Tensor, "scale": float, "return": torch.Tensor}
    assert typing.get_type_hints(Typed)["weight"] is nn.Parameter
    assert typing.get_type_hints(Typed.forward) == {"x": torch.Tensor, "return": torch.Tensor}
    for name in spmd.__all__:
        if inspect.isfunction(getattr(spmd, name)) and "dtensor" not in name:  # DTensor is imported late
            typing.get_type_hints(getattr(spmd, name))
    assert typing.get_type_hints(spmd.all_reduce)["x"] is torch.Tensor


def test_custom_operators() -> None:
    name = "spmd_test::twice"

    def twice(x: torch.Tensor, others: list[torch.Tensor]) -> torch.Tensor:
        return x * 2 + sum(others)

    twice.__annotations__ = {"x": Tensor[P[TP]], "others": list[Tensor[V[TP]]], "return": Tensor[P[TP]]}
    op = torch.library.custom_op(name, twice, mutates_args=())
    assert torch.equal(op(torch.ones(2), [torch.ones(2)]), torch.full((2,), 3.0))
    assert str(torch.ops.spmd_test.twice.default._schema) == f"{name}(Tensor x, Tensor[] others) -> Tensor"


def test_dataclasses_and_named_tuples() -> None:
    one = Batch(torch.ones(1))
    assert [f.name for f in dataclasses.fields(one)] == ["tokens", "mask", "more"]
    assert typing.get_type_hints(Batch)["tokens"] is torch.Tensor
    assert Pair(torch.ones(1), torch.zeros(1)).q.item() == 1
    assert list(inspect.signature(Batch).parameters) == ["tokens", "mask", "more"]


def test_subclasses_of_tensor_still_work() -> None:
    class Mine(torch.Tensor):
        pass

    assert Mine[V[TP]] is Mine  # type: ignore[misc]
    assert type(torch.ones(2).as_subclass(Mine) + 1) is Mine


HEAVY = {
    "torch.distributed.tensor", "torch.distributed.checkpoint", "torch._dynamo", "torch._inductor", "mypy",
    "torch.distributed._functional_collectives", "spmd_runtime.traced", "spmd_runtime.megatron",
    "spmd_runtime.precompile", "spmd_mypy.rules.ops",
}  # fmt: skip


def test_the_import_brings_in_nothing_heavy() -> None:
    """What it costs in milliseconds is in benchmarks/collectives.md; here, that nothing heavy comes along."""
    code = "import sys, torch; before = set(sys.modules); import spmd_runtime; print(set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert not ast.literal_eval(done.stdout) & HEAVY
