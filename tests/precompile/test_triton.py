"""What of the way to a GPU can be checked without one; ``tests/gpu/precompile_cuda.py`` has the rest."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
import torch

pytest.importorskip("triton", reason="a torch for CPUs alone comes without triton; pip install triton==3.7.1")

from spmd_runtime.precompile import DisagreementError, compat, precompile  # noqa: E402
from tests.precompile import triton_kernel  # noqa: E402

INPUTS = (torch.ones(100), torch.ones(100))


def test_a_users_kernel_is_an_operation_of_the_graph_the_same_on_every_rank(tmp_path: Path) -> None:
    with mock.patch.object(compat, "compile_graph", return_value=(b"", None)) as compiler:
        manifest = precompile(triton_kernel.step, INPUTS, mesh={"tp": 2}, out=tmp_path / "step")
    graph = compiler.call_args.args[0]
    (launch,) = (node for node in graph.graph.nodes if compat.is_triton_launch(node.target))
    arguments = compat.triton_launch(launch.kwargs)
    assert "scaled_add" in str(arguments["kernel"]) and arguments["grid"] == [(2, 1, 1)]
    assert manifest["variants"]["step"]["collectives"][0]["op"] == "all_reduce"


def test_a_constant_of_a_kernel_that_depends_on_the_rank_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DisagreementError, match=r"scale.*1\.0(?s:.*)scale.*2\.0(?s:.*)triton_kernel\.py"):
        precompile(triton_kernel.rank_dependent, INPUTS, mesh={"tp": 2}, out=tmp_path / "step")


@pytest.mark.parametrize("capability", [90, 100])
def test_triton_makes_machine_code_without_a_gpu(capability: int) -> None:
    """A cubin, which the driver loads as it is: no PTX is left to compile on the GPU's machine."""
    import triton  # type: ignore[import-not-found]  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]  # noqa: PLC0415
    from triton.compiler import ASTSource  # type: ignore[import-not-found]  # noqa: PLC0415

    source = ASTSource(
        triton_kernel.scaled_add,
        signature={"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "scale": "constexpr", "BLOCK": "constexpr"},
        constexprs={"scale": 2.0, "BLOCK": 64},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    assert compiled.asm["cubin"].startswith(b"\x7fELF")
    assert f".target sm_{capability}" in compiled.asm["ptx"]
