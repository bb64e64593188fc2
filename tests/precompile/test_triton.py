"""What of the way to a GPU can be checked without one; ``tests/gpu/precompile_cuda.py`` has the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

pytest.importorskip("triton", reason="a torch for CPUs alone comes without triton; pip install triton==3.7.1")

from spmd_runtime.precompile import DisagreementError, compat, fake_world, precompile  # noqa: E402
from spmd_runtime.precompile.capture import capture  # noqa: E402
from spmd_runtime.precompile.specs import signature  # noqa: E402
from tests.precompile import tripwires, triton_kernel  # noqa: E402

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


def compiled(scale: float, capability: int) -> Any:
    """The user's kernel for a GPU that is not here."""
    import triton  # type: ignore[import-not-found]  # noqa: PLC0415
    from triton.backends.compiler import GPUTarget  # type: ignore[import-not-found]  # noqa: PLC0415
    from triton.compiler import ASTSource  # type: ignore[import-not-found]  # noqa: PLC0415

    source = ASTSource(
        triton_kernel.scaled_add,
        signature={"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "scale": "constexpr", "BLOCK": "constexpr"},
        constexprs={"scale": scale, "BLOCK": 64},
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32))


@pytest.mark.parametrize("capability", [90, 100])
def test_triton_makes_machine_code_without_a_gpu(capability: int) -> None:
    """A cubin, which the driver loads as it is: no PTX is left to compile on the GPU's machine."""
    found = compiled(2.0, capability)
    assert found.asm["cubin"].startswith(b"\x7fELF")
    assert f".target sm_{capability}" in found.asm["ptx"]


def test_the_tripwires_let_a_binary_pass_that_is_there_and_no_compilation(tmp_path: Path) -> None:
    """What the GPU's checks stand on: with the cache directory of the build, Triton finds its binary again."""
    with compat.cache_directory(tmp_path / "built"):
        before = compiled(3.0, 90)
        with tripwires.no_compiler(cuda=True):
            assert compiled(3.0, 90).asm["cubin"] == before.asm["cubin"]
    with (
        compat.cache_directory(tmp_path / "empty"),
        tripwires.no_compiler(cuda=True),
        pytest.raises(tripwires.Compiled, match="make_ttir"),
    ):
        compiled(3.0, 90)


def test_users_kernels_are_launched_from_their_binaries() -> None:
    """Inductor does that for its own kernels unasked, for the user's only where they are compiled in this process."""
    with fake_world({"tp": 2}), tracing_settings() as seen:
        captured = capture(triton_kernel.step, signature(triton_kernel.step, INPUTS), {"tp": 2})
        compat.compile_graph(captured.graph, captured.fakes, captured.mode)
    assert seen == [(True, 1)]


@contextlib.contextmanager
def tracing_settings() -> Iterator[list[Any]]:
    """Inductor's settings when it is asked to compile; it is not done."""
    config = torch._inductor.config
    seen: list[Any] = []

    def compile_nothing(*args: Any, **options: Any) -> Any:
        seen.append((config.static_launch_user_defined_triton_kernels, config.compile_threads))
        return mock.Mock(serialize=lambda: b"")

    with mock.patch("torch._inductor.standalone_compile.standalone_compile", compile_nothing):
        yield seen
