"""What one rank does with an artifact: run it, and the same step eagerly and under torch.compile, and compare."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.utils import _pytree as pytree

from spmd_runtime import use_mesh
from spmd_runtime.mesh import lookup
from spmd_runtime.precompile import compat, load
from tests.precompile import steps

TRUST = "directory"


@dataclass
class Difference:
    """The largest difference between two results, and which leaves are not equal bit for bit."""

    largest: float = 0.0
    unequal: list[str] = field(default_factory=list)


def difference(a: Any, b: Any) -> Difference:
    """``a`` against ``b``, leaf by leaf; relative to the largest entry of ``b``'s leaf."""
    found = Difference()
    for (path, x), (_, y) in zip(pytree.tree_leaves_with_path(a), pytree.tree_leaves_with_path(b), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype, (path, x.shape, y.shape)
        if not torch.equal(x, y):
            found.unequal.append(pytree.keystr(path))
            scale = max(float(y.double().abs().max()), 1e-30)
            found.largest = max(found.largest, float((x.double() - y.double()).abs().max()) / scale)
    return found


def all_of(step: Any, inputs: Any) -> Any:
    """The results of a step and its inputs after it, which it may have written into."""
    args = copy.deepcopy(inputs)
    results = step(*args)
    return pytree.tree_map(lambda x: x.detach().clone(), (results, args))


def against_eager_and_compile(
    case: steps.Case, folder: str, tp: int, cache: str, batch: int | None = None, only: int | None = None
) -> dict[str, Difference]:
    """The loaded step against eager and, where ``cache`` is given, against torch.compile of the whole step.

    ``only``: this rank alone compiles, and meanwhile the others run the loaded step once more: it talks to them as the
    compiled one would, and compiling takes long.
    """
    world = torch.distributed.get_world_size()
    mesh = init_device_mesh("cpu", (world // tp, tp), mesh_dim_names=("dp", "tp"))
    with use_mesh(mesh):
        step, inputs = steps.real(case, mesh.get_local_rank("dp"), mesh.get_local_rank("tp"), batch=batch)
        again = load(folder, mesh, trust=TRUST)
        loaded = all_of(again, inputs)
        eager = all_of(step, inputs)
        found = {"eager": difference(loaded, eager)}
        if cache:
            if case.recompute:
                # In one graph with its backward, torch refuses to recompute attention: it might draw random numbers.
                step, _ = steps.real(case, mesh.get_local_rank("dp"), mesh.get_local_rank("tp"), compiled_model=True)
            other = in_process(step, cache, case) if only in (None, torch.distributed.get_rank()) else again
            compiled = all_of(other, inputs)
            found["compile"] = difference(loaded, compiled)
            found["compile to eager"] = difference(compiled, eager)
    return found


def in_process(step: Any, cache: str, case: steps.Case) -> Any:
    """``step`` under torch.compile, forward and backward in one graph, with Inductor's files in ``cache``."""
    from torch._dynamo import config, mark_dynamic, reset  # noqa: PLC0415  # slow, and not needed by a loaded step

    for axis in ("dp", "tp"):
        lookup(axis)
    reset()
    config.trace_autograd_ops = True  # else Dynamo breaks the graph at torch.autograd.grad
    compiled = step
    if not case.recompute:
        compiled = torch.compile(step, fullgraph=True, dynamic=None if case.dynamic else False)

    def run(*args: Any) -> Any:
        if case.dynamic:
            for tokens in args[-2:]:
                mark_dynamic(tokens, tokens.dim() - 1, min=2, max=8)
        with compat.cache_directory(Path(cache)):
            return compiled(*args)

    return run
