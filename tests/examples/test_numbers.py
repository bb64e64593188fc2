"""The example's loss and every gradient, on a 2 x 2 mesh, against one process with the whole batch and another code."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tests.examples import reference, worker
from tests.examples.conftest import MODELS, Results

TOLERANCE = 1e-9


def part(full: torch.Tensor, dim: int | None, tp_rank: int) -> torch.Tensor:
    """What a tp rank has of a whole tensor."""
    return full if dim is None else full.chunk(worker.MESH[1], dim)[tp_rank]


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference, relative to the largest entry of ``b``; infinite where the shapes differ."""
    if a.shape != b.shape:
        return float("inf")
    return float((a - b).abs().max() / b.abs().max())


@pytest.fixture(scope="module")
def expected(results: Results) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss and gradients of the reference, by the parameters' names."""
    outcome = results["", "tp"][0]
    assert not outcome.error
    shapes = {name: list(grad.shape) for name, grad in outcome.grads.items()}
    for name, dim in outcome.dims.items():
        if dim is not None:
            shapes[name][dim] *= worker.MESH[1]
    state = worker.whole_state({name: torch.Size(shape) for name, shape in shapes.items()})
    config = SimpleNamespace(**worker.SIZES, rope_theta=10_000.0, norm_eps=1e-5)
    tokens, targets = worker.whole_batch()
    return reference.loss_and_gradients(state, tokens.T, targets.T, config)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("variant", ["", "recompute"])
def test_loss_and_every_gradient_equal_one_process(
    results: Results, expected: tuple[torch.Tensor, dict[str, torch.Tensor]], variant: str, model: str
) -> None:
    loss, grads = expected
    for rank, outcome in enumerate(results[variant, model]):
        assert not outcome.error
        assert outcome.loss.dtype == torch.float64
        assert distance(outcome.loss, loss) < TOLERANCE
        assert outcome.grads.keys() == grads.keys()
        own = {name: part(grad, outcome.dims[name], rank % worker.MESH[1]) for name, grad in grads.items()}
        far = {name: distance(grad, own[name]) for name, grad in outcome.grads.items()}
        assert not {name: d for name, d in far.items() if not d < TOLERANCE}, f"rank {rank}"


@pytest.mark.parametrize("model", MODELS)
def test_gradient_norm_is_of_the_whole_model(
    results: Results, expected: tuple[torch.Tensor, dict[str, torch.Tensor]], model: str
) -> None:
    norm = torch.stack([grad.norm() for grad in expected[1].values()]).norm()
    for outcome in results["", model]:
        assert distance(outcome.norm, norm) < TOLERANCE
        for name, grad in outcome.clipped.items():
            assert distance(grad * norm, outcome.grads[name]) < 1e-5  # 1e-6 is added to the norm before the division


def test_reference_is_a_function_of_every_parameter(
    expected: tuple[torch.Tensor, dict[str, torch.Tensor]],
) -> None:
    assert all(bool(grad.abs().max() > 1e-6) for grad in expected[1].values())


@pytest.mark.parametrize("model", MODELS)
def test_autocast_to_bfloat16_stays_near(results: Results, model: str) -> None:
    """bf16 has 8 bits of mantissa: the loss moves a little, and does move."""
    exact, rounded = results["", model][0], results["bf16", model][0]
    assert not rounded.error
    assert 1e-6 < distance(rounded.loss.double(), exact.loss) < 0.05
    assert all(grad.isfinite().all() for grad in rounded.grads.values())
