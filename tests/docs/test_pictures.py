"""The numbers in the pictures are what the runtime does on two gloo ranks, forward and backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from docs.building import pictures
from docs.building.pictures import BACKWARD, COLLECTIVES, STEPS, Collective, backward, forward, picture
from spmd_mypy.rules.collectives import TRANSITIONS
from spmd_mypy.rules.kinds import parse
from spmd_runtime import TP, I, P, R, S, V, bind
from spmd_runtime import collectives as moving
from spmd_runtime import local as standing
from tests.runtime import gloo

_KINDS: dict[str, Any] = {"R": R, "I": I, "P": P, "V": V, "S(0)": S(0), "S(1)": S(1)}
_DUALS = {"R": "P", "P": "R"}


def _token(kind: str) -> str:
    return "S" if parse(kind).dim is not None else kind


def run(name: str) -> tuple[list[float], list[float]]:
    """What a rank holds after the collective, and the gradient of what it held before."""
    c = COLLECTIVES[name]
    rank = dist.get_rank()
    shapes = c.shapes or ((-1,), (-1,))
    x = torch.tensor(c.before[rank], dtype=torch.float32).reshape(shapes[0]).requires_grad_()
    assert dist.group.WORLD is not None
    with bind(TP, dist.group.WORLD):
        function = getattr(moving, c.op, None) or getattr(standing, c.op)
        y = function(x, TP, **_types(c))
        y.backward(torch.tensor(c.incoming[rank], dtype=torch.float32).reshape(shapes[1]))
    assert x.grad is not None
    assert c.shapes is None or tuple(y.shape) == c.shapes[1]
    return y.flatten().tolist(), x.grad.flatten().tolist()


def _types(c: Collective) -> dict[str, Any]:
    """The arguments that the caption of the picture has."""
    if c.op == "shift":
        return {}
    return {"dst": _KINDS[c.dst]} | ({} if c.op == "broadcast" else {"src": _KINDS[c.src]})


@pytest.mark.parametrize("name", COLLECTIVES)
def test_numbers(name: str) -> None:
    """Values and gradients as drawn."""
    c = COLLECTIVES[name]
    for rank, (value, gradient) in enumerate(gloo.run(run, 2, name, timeout=60)):
        assert value == list(forward(c)[rank])
        assert gradient == list(backward(c)[rank])


@pytest.mark.parametrize("name", COLLECTIVES)
def test_backward_is_the_rules(name: str) -> None:
    """The operation named for the backward is that of the table of collectives."""
    c = COLLECTIVES[name]
    op, src, dst = BACKWARD[c.op, c.src, c.dst]
    assert (op, src, dst) in STEPS
    assert (src, dst) == (_DUALS.get(c.dst, c.dst), _DUALS.get(c.src, c.src))
    if c.op in TRANSITIONS:  # broadcast and shift are not: no message proposes them
        row = TRANSITIONS[c.op][_token(c.src), _token(c.dst)]  # type: ignore[index]
        assert row.backward == (op, _token(src), _token(dst))


def test_every_collective_is_drawn() -> None:
    """Every way without ``expert_mode`` of what moves data; V alone stands for V and S(i) where both go."""
    assert {c.op for c in COLLECTIVES.values()} >= {*TRANSITIONS, "broadcast", "shift"}


def test_types_mean_their_values() -> None:
    """The value drawn beside each type is what its ranks hold together, and the gradient is of the dual type."""
    for letter, (_, (first, second), dual, gradient) in pictures.TYPES.items():
        together = {
            "P": (tuple(a + b for a, b in zip(first, second, strict=True)),),
            "S": ((*first, *second),),
            "V": (first, second),
        }.get(letter, (first,))
        assert pictures.VALUES[letter] == together
        assert dual == _DUALS.get(letter, letter)
        assert letter not in "RI" or first == second
        assert dual not in "RI" or gradient[0] == gradient[1]


def test_pictures_are_drawn() -> None:
    assert {picture(name).count("<svg") for name in COLLECTIVES} == {2}
    assert {picture(f"type {letter}").count("<svg") for letter in "RIVPS"} == {3}
