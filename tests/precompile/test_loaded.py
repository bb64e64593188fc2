"""A loaded step on real ranks: what it computes, what it refuses, and that it compiles nothing."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from spmd_runtime import TP, use_mesh
from spmd_runtime.mesh import lookup
from spmd_runtime.precompile import (
    InputError,
    PeerError,
    PrecompileError,
    TensorSpec,
    compat,
    fake_world,
    load,
    precompile,
)
from tests.precompile import tiny, tripwires
from tests.precompile.ranks import TRUST, difference
from tests.runtime import gloo

TIMEOUT = 120


def mesh_of(ranks: int) -> Any:
    return init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))


def run_tiny(folder: str) -> list[float]:
    """The largest difference to eager, twice; with every compiler made to raise."""
    mesh = mesh_of(2)
    with tripwires.no_compiler():
        step = load(folder, mesh, trust=TRUST)
        results = [step(*tiny.tiny_inputs()) for _ in range(2)]
    assert lookup(TP).group is mesh.get_group("tp")  # bound for good
    eager = tiny.tiny(*tiny.tiny_inputs())
    return [difference(result, eager).largest for result in results]


def test_equals_eager_and_compiles_nothing(plain: Path) -> None:
    for differences in gloo.run(run_tiny, 2, str(plain), timeout=TIMEOUT):
        assert all(d < 1e-6 for d in differences)


def test_every_tripwire_is_on_the_path_of_a_compilation() -> None:
    """A wire that nothing runs into would show nothing: torch.compile runs into the first ones."""
    with tripwires.no_compiler(), pytest.raises(tripwires.Compiled):
        torch.compile(lambda x: x + 1)(torch.ones(3))
    torch._dynamo.reset()


def inputs_with(**changes: Any) -> Any:
    params, x, scale = tiny.tiny_inputs()
    given = {"params": params, "x": x, "scale": scale, **changes}
    return given["params"], given["x"], given["scale"]


def misfits() -> dict[str, tuple[Any, str]]:
    params, x, _ = tiny.tiny_inputs()
    return {
        "shape": (inputs_with(x=x[:3]), r"input x has shape \(3, 6\), and the step was built for \(4, 6\)"),
        "rank": (inputs_with(x=x.view(24)), r"input x has shape \(24,\)"),
        "dtype": (inputs_with(x=x.double()), r"input x has dtype torch.float64, .* torch.float32"),
        "device": (inputs_with(x=x.to("meta")), r"input x has device meta, .* cpu"),
        "strides": (
            inputs_with(x=x.t().contiguous().t()),
            r"input x has strides \(1, 4\), .* \(6, 1\); call .contiguous",
        ),
        "constant": (inputs_with(scale=2.0), r"input scale is 2.0, and the step was built for 0.5"),
        "kind": (inputs_with(x=1), r"input x is a int, and the step was built for a tensor"),
        "in a dict": (inputs_with(params={**params, "b": torch.ones(4)}), r"input params\['b'\] has shape \(4,\)"),
        "structure": (inputs_with(params={"w": params["w"]}), r"other arguments than it was built for: 3 leaves"),
        "argument": (inputs_with()[:2], r"other arguments than it was built for"),
    }


@pytest.fixture
def fake_step(plain: Path) -> Any:
    """The step with collectives that send nothing: enough for what is checked before it runs."""
    with fake_world({"tp": 2}):
        yield load(plain, trust=TRUST)


@pytest.mark.parametrize("what", misfits())
def test_other_inputs_are_refused_by_name(fake_step: Any, what: str) -> None:
    inputs, message = misfits()[what]
    with pytest.raises(InputError, match=message):
        fake_step(*inputs)


def test_keyword_arguments_are_another_call(fake_step: Any) -> None:
    params, x, scale = tiny.tiny_inputs()
    with pytest.raises(InputError, match="other arguments"):
        fake_step(params, x, scale=scale)


def test_an_axis_that_is_bound_anew_is_refused(plain: Path) -> None:
    with fake_world({"tp": 2}):
        step = load(plain, trust=TRUST)
    with fake_world({"tp": 2}), pytest.raises(PrecompileError, match="another group"):
        step(*tiny.tiny_inputs())


def run_writing(folder: str) -> tuple[float, str]:
    """What an input holds after the step, against eager, and the refusal of inputs that overlap."""
    mesh = mesh_of(2)
    x = torch.arange(24.0).view(6, 4).t()
    mine, eager = torch.ones(4, 6), torch.ones(4, 6)
    with use_mesh(mesh):
        step = load(folder, mesh, trust=TRUST)
        base = torch.ones(48)
        try:
            step(base[:24].view(4, 6), base[10:34].view(6, 4).t())
            refusal = ""
        except InputError as error:
            refusal = str(error)
        found = step(mine, x), tiny.update(eager, x)
    return difference((mine, found[0]), (eager, found[1])).largest, refusal


def test_inputs_that_the_step_writes_into(writing: Path) -> None:
    for largest, refusal in gloo.run(run_writing, 2, str(writing), timeout=TIMEOUT):
        assert largest < 1e-6
        assert "writes into w, which shares memory with x" in refusal


def run_varied(folder: str) -> dict[str, Any]:
    """Each rank's batches by length, in its own variant, against eager; and what fits none."""
    mesh = mesh_of(2)
    width = 3 if dist.get_rank() == 0 else 2
    with use_mesh(mesh):
        step = load(folder, mesh, trust=TRUST)
        found: dict[str, Any] = {"variants": step.variants}
        for n in (1, 2, 5, 8, 1):
            batch = torch.randn(n, width)
            found[f"{n}"] = difference(step(batch), tiny.shards(batch)).largest
        for n in (9, 0):
            try:
                step(torch.ones(n, width))
            except InputError as error:
                found[f"{n}"] = str(error)
    return found


def test_variants_and_lengths_are_chosen_by_the_ranks_own_inputs(varied: Path) -> None:
    for found in gloo.run(run_varied, 2, str(varied), timeout=TIMEOUT):
        assert found.pop("variants") == ("even", "even_n1", "last", "last_n1")
        assert "n = 9, and the step was built for 2 to 8" in found.pop("9")
        assert "fit no variant" in found.pop("0")
        assert all(value < 1e-6 for value in found.values()) and len(found) == 4


@pytest.mark.parametrize("other", [torch.ones(4), TensorSpec(("n",))])
def test_variants_with_the_same_inputs_are_chosen_by_name(tmp_path: Path, other: Any) -> None:
    """A first and a last stage may take the same shapes: which one this rank is, its shapes do not say."""
    stages = {"first": (tiny.shards, (torch.ones(4),)), "last": (torch.sin, (other,))}
    with mock.patch.object(compat, "compile_graph", return_value=(b"", None)):
        dynamic = {"n": (3, 8)} if isinstance(other, TensorSpec) else {}
        precompile(stages, mesh={"tp": 1}, out=tmp_path / "step", dynamic=dynamic)
    with fake_world({"tp": 1}), mock.patch.object(compat, "revive"):
        with pytest.raises(PrecompileError, match=r"'first' and 'last' may take the same inputs.*variant='first'"):
            load(tmp_path / "step", trust=TRUST)
        with pytest.raises(PrecompileError, match="no variant 'middle'; it has first, last"):
            load(tmp_path / "step", trust=TRUST, variant="middle")
        assert load(tmp_path / "step", trust=TRUST, variant="last").variants == ("last",)


def run_peers(folders: list[str]) -> str:
    """The error that this rank gets when each loads its own directory."""
    try:
        load(folders[dist.get_rank()], mesh_of(len(folders)), trust=TRUST)
    except (PrecompileError, OSError) as error:
        return f"{type(error).__name__}: {error}"
    return "loaded"


def test_a_rank_with_another_artifact_is_named(plain: Path, signed: Path, tmp_path: Path) -> None:
    """The two hold the same code and differ in when they were built."""
    manifests = [(folder / "manifest.json").read_bytes() for folder in (plain, signed)]
    other = shutil.copytree(signed, tmp_path / "other")
    if manifests[0] == manifests[1]:
        (other / "manifest.json").write_bytes(manifests[1] + b"\n")
    for error in gloo.run(run_peers, 2, [str(plain), str(other)], timeout=TIMEOUT):
        assert error.startswith(PeerError.__name__) and "rank 1 has" in error


def test_a_rank_that_cannot_load_is_named_to_the_others(plain: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(plain, tmp_path / "broken")
    (broken / "step/step.bin").write_bytes(b"")
    errors = gloo.run(run_peers, 2, [str(plain), str(broken)], timeout=TIMEOUT)
    assert errors[0].startswith(PeerError.__name__) and "rank 1 could not load" in errors[0]
    assert errors[1].startswith("BrokenArtifactError")


def run_failing(folder: str) -> str:
    """The error of each rank where one runs out of disk while loading."""
    failing = mock.patch.object(Path, "write_bytes", side_effect=OSError("No space left on device"))
    with failing if dist.get_rank() == 1 else contextlib.nullcontext():
        return run_peers([folder, folder])


def test_a_rank_that_fails_for_any_reason_does_not_keep_the_others_waiting(plain: Path) -> None:
    errors = gloo.run(run_failing, 2, str(plain), timeout=TIMEOUT)
    assert errors[0].startswith(PeerError.__name__) and "rank 1 could not load" in errors[0]
    assert errors[1] == "OSError: No space left on device"


def run_bound(folders: list[str]) -> str:
    """Like :func:`run_peers` with axes that are bound already and no mesh given."""
    with use_mesh(mesh_of(len(folders))):
        try:
            load(folders[dist.get_rank()], trust=TRUST)
        except PrecompileError as error:
            return f"{type(error).__name__}: {error}"
    return "loaded"


def test_without_a_mesh_the_bound_axes_compare_their_artifacts(plain: Path, signed: Path) -> None:
    assert gloo.run(run_bound, 2, [str(plain), str(plain)], timeout=TIMEOUT) == ["loaded", "loaded"]
    if plain.joinpath("manifest.json").read_bytes() != signed.joinpath("manifest.json").read_bytes():
        for error in gloo.run(run_bound, 2, [str(plain), str(signed)], timeout=TIMEOUT):
            assert error.startswith(PeerError.__name__) and "rank 1 has" in error


def test_an_operator_that_nothing_registers_is_named_with_its_module(plain: Path) -> None:
    """The loading process has not run the user's code; ours is there without it."""
    with (
        fake_world({"tp": 2}),
        mock.patch.object(compat, "has_operator", return_value=False),
        pytest.raises(PrecompileError, match=r"::axis_index \(of spmd_runtime.traced\); import the modules"),
    ):
        load(plain, trust=TRUST)


def test_a_modules_method_takes_its_parameters_and_buffers(tmp_path: Path, cache: Path) -> None:
    module = tiny.Scaled()
    x = torch.arange(4.0)
    precompile(module.forward, (x,), mesh={"tp": 1}, out=tmp_path / "step", cache_dir=cache)
    with fake_world({"tp": 1}):
        step = load(tmp_path / "step", trust=TRUST)
        state = {"weight": torch.full((4,), 3.0), "offset": torch.zeros(4)}
        loss, (grad,) = step(state, x)
    assert torch.allclose(loss, (x * 3).square().sum())
    assert torch.allclose(grad, 2 * x * x * 3)
    assert torch.equal(module.weight, torch.ones(4)) and module.weight.grad is None


def test_aliases_and_random_numbers_are_what_torch_compile_gives(tmp_path: Path, cache: Path) -> None:
    x, tied = torch.full((4, 100), 0.25), torch.full((100,), 2.0, requires_grad=True)
    inputs = torch.ones(4, 100), x, tied
    precompile(tiny.several, inputs, mesh={"tp": 1}, out=tmp_path / "step", cache_dir=cache)
    with fake_world({"tp": 1}):
        step = load(tmp_path / "step", trust=TRUST)
        torch.manual_seed(7)
        w, view, same, dropped, grad = step(*inputs)
        again = step(torch.ones(4, 100), x, tied)[3]
    assert w is inputs[0] and same is x and view.data_ptr() == w.data_ptr()
    assert torch.equal(w, torch.full((4, 100), 0.75))
    assert torch.equal(grad, (x * 2 * 2).sum(0))
    assert not torch.equal(dropped, again)
    torch.manual_seed(7)
    assert torch.equal(dropped, torch.compile(torch.nn.functional.dropout)(x, 0.5))


def test_the_same_tensor_twice_stays_the_same_tensor(tmp_path: Path, cache: Path) -> None:
    def squared(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad((a * b).sum(), [a])[0]

    p = torch.full((3,), 2.0, requires_grad=True)
    precompile(squared, (p, p), mesh={"tp": 1}, out=tmp_path / "step", cache_dir=cache)
    with fake_world({"tp": 1}):
        step = load(tmp_path / "step", trust=TRUST)
        assert torch.equal(step(p, p), squared(p, p))
        with pytest.raises(InputError, match="input b must be the same tensor as a"):
            step(p, p.detach().clone())


def test_one_process_builds_the_same_kernels_again(tmp_path: Path) -> None:
    """Each build has a cache of its own, which is gone afterwards, and the process has loaded its kernels."""
    x = torch.arange(8.0)
    for name in ("once", "again"):
        precompile(tiny.shards, (x,), mesh={"tp": 1}, out=tmp_path / name)
        with fake_world({"tp": 1}):
            assert torch.allclose(load(tmp_path / name, trust=TRUST)(x), x.square().sum())


def run_pair(folder: str) -> Any:
    """A step over named tuples, in a process that has not seen their class."""
    with fake_world({"tp": 1}):
        step = load(folder, trust=TRUST)
        found = step(tiny.Pair(torch.full((3,), 2.0), torch.full((3,), 4.0)))
        with pytest.raises(InputError, match="other arguments"):
            step((torch.ones(3), torch.ones(3)))
    return type(found).__qualname__, found.x.tolist()


def test_named_tuples_go_in_and_come_out(tmp_path: Path, cache: Path) -> None:
    inputs = (tiny.Pair(torch.ones(3), torch.ones(3)),)
    precompile(tiny.product, inputs, mesh={"tp": 1}, out=tmp_path / "step", cache_dir=cache)
    assert gloo.run(run_pair, 1, str(tmp_path / "step"), timeout=TIMEOUT, backend="") == [("Pair", [8.0, 8.0, 8.0])]
