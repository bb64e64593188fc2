"""What cannot be captured or differs between ranks: refused before anything is compiled, with the user's line."""

from __future__ import annotations

import collections
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

from spmd_runtime import TP, P, R, all_reduce, axis_size
from spmd_runtime.precompile import (
    CaptureError,
    DisagreementError,
    PrecompileError,
    TensorSpec,
    compat,
    fake_world,
    like,
    precompile,
    variant,
)
from spmd_runtime.precompile.world import sample
from tests.precompile import faulty

MESH = {"dp": 2, "tp": 2}


class Compiled(Exception):  # noqa: N818  # not an error: the step got as far as the compiler
    """Raised in the place of compiling."""


@pytest.fixture(autouse=True)
def no_compiler() -> Iterator[None]:
    """No test here compiles; one that gets so far ends with :class:`Compiled`."""
    with mock.patch.object(compat, "compile_graph", side_effect=Compiled):
        yield
    assert not dist.is_initialized()


def line_of(mark: str) -> str:
    """``faulty.py:LINE`` of the line with this mark."""
    lines = inspect.getsource(faulty).splitlines()
    (number,) = (i for i, line in enumerate(lines, 1) if re.search(rf"# here: {mark}\b", line))
    return f"faulty.py:{number}"


def refused(kind: type[PrecompileError], tmp_path: Path, step: Callable[..., Any], *inputs: Any, **options: Any) -> str:
    """The message with which a step is refused; nothing is left behind."""
    given = inputs or (torch.ones(4, requires_grad=True),)
    with pytest.raises(kind) as info:
        precompile(step, given, mesh=options.pop("mesh", MESH), out=tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())
    return str(info.value)


TABLE = (torch.ones(faulty.ROWS, 4), torch.zeros(6, dtype=torch.int64))


def test_rank_as_a_python_number_is_refused_with_its_line_and_a_way_out(tmp_path: Path) -> None:
    message = refused(DisagreementError, tmp_path, faulty.offset, *TABLE)
    assert line_of("offset") in message
    assert "sub" in message and "ids, 0)" in message and "ids, 8)" in message
    assert "dp 0, tp 0" in message and "dp 0, tp 1" in message
    assert "spmd.axis_index(TP)" in message


def test_rank_as_a_tensor_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        precompile(faulty.offset_as_tensor, TABLE, mesh=MESH, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (faulty.own_backward, ["an argument", "mul"]),
        (faulty.torch_backward, ["an argument", "pow"]),
        (faulty.branch, ["the order of operations", "Every rank must do the same", "outside the step"]),
        (faulty.literal, ["a constant tensor", "[1.0, 0.0, 3.0, 4.0]", "[1.0, 2.0, 3.0, 4.0]"]),
        (faulty.environment, ["mul.Tensor(w, 0)", "mul.Tensor(w, 2)", "spmd.axis_index(DP)"]),
        (faulty.python_random, ["each time that the step is captured", "torch.rand"]),
        (faulty.memo, ["the order of operations", "left behind"]),
    ],
)
def test_difference_between_ranks_names_both_values(
    tmp_path: Path, step: Callable[..., Any], expected: list[str]
) -> None:
    message = refused(DisagreementError, tmp_path, step)
    assert line_of(step.__name__) in message
    for part in expected:
        assert part in message


def test_returned_rank_is_refused(tmp_path: Path) -> None:
    assert "Python value that depends on the rank" in refused(DisagreementError, tmp_path, faulty.returned_number)


def test_inputs_of_other_shapes_need_variants(tmp_path: Path) -> None:
    def make() -> Any:
        return faulty.reduced, (torch.ones(4 + dist.get_rank() % 2),)

    with pytest.raises(
        DisagreementError, match=r"input w differs: \(4,\).*\(5,\).*rank \(dp 0, tp 1\)(?s:.*)'even'.*'last'"
    ):
        precompile(make, mesh=MESH, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (faulty.item, ["value of a tensor is used in Python", "as an input"]),
        (faulty.truth, ["value of a tensor is used in Python", "torch.where"]),
        (faulty.nonzero, ["shape of a result depends on the values", "masked_fill"]),
        (faulty.to_numpy, ["numpy"]),
        (faulty.no_fake, ["no fake kernel", "register_fake('spmd_faulty::no_fake')"]),
        (faulty.closure, ["(4,) float32 tensor", "not among its inputs"]),
        (faulty.raw_collective, ["in-place collective", "spmd.all_reduce"]),
        (faulty.world_group, ["the world group", "no axis of the mesh (dp, tp)"]),
        (faulty.no_axis, ["axis 'cp'", "give the mesh that axis"]),
        (faulty.number, ["() float32 tensor", "not among its inputs"]),
        (faulty.own_generator, ["generator of its own", "default generator"]),
        (faulty.seeding, ["sets torch's seed", "Seed outside the step"]),
        (faulty.users_error, ["ValueError: too bad"]),
    ],
)
def test_what_no_graph_can_hold_is_refused_with_its_line(
    tmp_path: Path, step: Callable[..., Any], expected: list[str]
) -> None:
    message = refused(CaptureError, tmp_path, step)
    assert line_of(step.__name__) in message
    for part in expected:
        assert part in message


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (faulty.append, r"the global 'history' of tests.precompile.faulty \(from \d+ entries to \d+\) in append"),
        (faulty.count, r"the global 'calls' of tests.precompile.faulty \(from \d+ to \d+\) in count"),
        (faulty.Keeping(), r"the attribute 'last' of a Keeping \(to another object\) in __call__"),
        (faulty.Counting().forward, r"the attribute 'seen' of a Counting \(from \d+ to \d+\) in forward"),
        (faulty.backward_only, r"leaves a gradient in w.grad(?s:.*)torch.autograd.grad"),
        (faulty.no_tensor, r"returns no tensor"),
    ],
)
def test_side_effects_are_refused(tmp_path: Path, step: Callable[..., Any], expected: str) -> None:
    assert re.search(expected, refused(CaptureError, tmp_path, step))


def test_gradient_left_in_grad_may_be_returned(tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        precompile(faulty.backward_returned, (torch.ones(4, requires_grad=True),), mesh=MESH, out=tmp_path / "out")


def test_inputs_that_are_no_tensors_and_dims_without_range_are_refused(tmp_path: Path) -> None:
    assert "input w is a object" in refused(CaptureError, tmp_path, faulty.reduced, object())
    assert "a shape and a dtype are TensorSpec" in refused(CaptureError, tmp_path, faulty.reduced, torch.float32)
    assert "dim 'n' has no range" in refused(CaptureError, tmp_path, faulty.reduced, TensorSpec(("n",)))
    message = refused(CaptureError, tmp_path, faulty.reduced, TensorSpec((4,)), dynamic={"n": (1, 4)})
    assert "no input has such a dim" in message


@pytest.mark.parametrize("limits", [(0, 4), (4, 2), 4, (1.0, 4)])
def test_a_range_that_is_none_is_refused(tmp_path: Path, limits: Any) -> None:
    message = refused(CaptureError, tmp_path, faulty.reduced, TensorSpec(("n",)), dynamic={"n": limits})
    assert "a range is (low, high) with 1 <= low <= high" in message


def test_two_lengths_that_must_be_equal_are_one_dim(tmp_path: Path) -> None:
    limits = {"n": (2, 4), "m": (2, 4)}
    message = refused(CaptureError, tmp_path, torch.add, TensorSpec(("n",)), TensorSpec(("m",)), dynamic=limits)
    assert "holds for Eq(n, m) only" in message


def test_inputs_that_the_step_does_not_take_are_refused(tmp_path: Path) -> None:
    message = refused(CaptureError, tmp_path, faulty.reduced, torch.ones(4), torch.ones(4))
    assert "2 positional" in message and "it takes (w: " in message
    with pytest.raises(CaptureError, match=r"inputs is a Tensor.*inputs=\(x,\)"):
        precompile(faulty.reduced, torch.ones(4), mesh=MESH, out=tmp_path / "out")
    with pytest.raises(CaptureError, match=r"cannot be called with these inputs \(v=\)"):
        precompile(faulty.reduced, {"v": torch.ones(4)}, mesh=MESH, out=tmp_path / "out")


@pytest.mark.parametrize("made", [3, {"even": 3}, {"two words": (faulty.reduced, (torch.ones(4),))}])
def test_a_factory_gives_a_step_with_its_inputs(tmp_path: Path, made: Any) -> None:
    with pytest.raises(CaptureError, match=r"a pair \(step, inputs\)|names like 'even'"):
        precompile(lambda: made, mesh=MESH, out=tmp_path / "out")


def test_variants_may_be_given_without_a_factory(tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        precompile({"even": (faulty.reduced, (torch.ones(4),))}, mesh=MESH, out=tmp_path / "out")


def test_a_named_tuple_must_be_importable(tmp_path: Path) -> None:
    local = collections.namedtuple("local", "x")
    message = refused(CaptureError, tmp_path, faulty.no_tensor, local(torch.ones(4)))
    assert "local is a named tuple" in message and "importable module" in message


def test_symbolic_lengths_need_names(tmp_path: Path) -> None:
    context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    x = compat.fake_mode().from_tensor(torch.ones(5, 6), symbolic_context=context)
    assert "symbolic lengths" in refused(CaptureError, tmp_path, faulty.reduced, x)
    with pytest.raises(Compiled):
        precompile(faulty.reduced, (like(x, n=0, m=1),), mesh=MESH, out=tmp_path, dynamic={"n": (2, 9), "m": (2, 9)})


def test_groups_of_the_users_own_mesh_are_axes(tmp_path: Path) -> None:
    """A DeviceMesh has groups of other names with the same ranks."""

    def make() -> Any:
        mesh = init_device_mesh("cpu", tuple(MESH.values()), mesh_dim_names=tuple(MESH))

        def step(x: torch.Tensor) -> torch.Tensor:
            return all_reduce(x, mesh.get_group("tp"), src=P, dst=R)

        return step, (torch.ones(4),)

    with mock.patch.object(compat, "compile_graph", return_value=(b"", None)):
        manifest = precompile(make, mesh=MESH, out=tmp_path / "out")
    assert [c["axis"] for c in manifest["variants"]["step"]["collectives"]] == ["tp"]


def test_tied_parameters_of_a_module_are_one_input(tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        precompile(faulty.Tied().loss, (torch.arange(4),), mesh=MESH, out=tmp_path / "out")


def test_a_decision_on_a_length_is_refused_with_its_line(tmp_path: Path) -> None:
    message = refused(CaptureError, tmp_path, faulty.fixed_length, TensorSpec(("n",)), dynamic={"n": (2, 64)})
    assert line_of("fixed_length") in message and "n from 2 to 64" in message


def test_a_decision_that_the_range_settles_is_accepted(tmp_path: Path) -> None:
    with pytest.raises(Compiled):
        precompile(faulty.fixed_length, (TensorSpec(("n",)),), mesh=MESH, out=tmp_path / "o", dynamic={"n": (5, 64)})


def test_a_directory_with_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(PrecompileError, match="other than an artifact"):
        precompile(faulty.reduced, (torch.ones(4),), mesh=MESH, out=tmp_path)


def test_a_world_of_4096_is_one_process() -> None:
    with fake_world({"dp": 512, "tp": 8}, {"dp": 3, "tp": 5}):
        assert dist.get_world_size() == 4096
        assert dist.get_rank() == 3 * 8 + 5
        assert axis_size(TP) == 8


def test_ranks_that_are_compared_do_not_grow_with_the_mesh() -> None:
    places = sample({"dp": 512, "tp": 8})
    assert places[0] == {"dp": 0, "tp": 0} and {"dp": 511, "tp": 7} in places
    assert len(places) == len(sample({"dp": 4, "tp": 8})) == 6
    assert sample({"dp": 1, "tp": 1}) == [{"dp": 0, "tp": 0}]
    assert all(at["tp"] == 7 for at in sample({"dp": 4, "tp": 8}, {"tp": -1}))


def test_a_variant_is_captured_where_it_is_said_to_run(tmp_path: Path) -> None:
    """A rank-dependent number is no difference where the variant is for one rank of that axis alone."""

    def make() -> Any:
        return {"last": variant(faulty.offset, TABLE, tp=-1)}

    with pytest.raises(Compiled):
        precompile(make, mesh={"tp": 4}, out=tmp_path / "out")
