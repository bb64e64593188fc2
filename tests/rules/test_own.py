"""A project's own operations: the configuration's roles, and the decorator."""

from __future__ import annotations

import pytest
import torch

from spmd_mypy.rules import ops
from spmd_mypy.rules.call import Argument, Call
from spmd_mypy.rules.kinds import BY_LETTER, FACTORY, P, V
from spmd_mypy.rules.operations import judge
from spmd_runtime.rule import rule


def outcome(roles: dict[str, object], **types: str) -> str:
    operation = ops.custom("mine.f", roles)
    arguments = tuple(Argument(name, (BY_LETTER[letter],)) for name, letter in types.items())
    verdict = judge(Call("mine.f", arguments), operation=operation)
    return verdict.violations[0].reason if verdict.violations else str(verdict.results[0][0])


def test_roles() -> None:
    assert outcome({"linear": ["x", "y"]}, x="P", y="P") == "P"
    assert outcome({"linear": ["x", "y"]}, x="P", y="R") == "affine"
    assert outcome({"linear": ["x"], "factor": ["w"]}, x="P", w="R") == "P"
    assert outcome({"linear": ["x"], "factor": ["w"]}, x="P", w="P") == "product"
    assert outcome({"linear": "x", "index": "i"}, x="P", i="I") == "P"
    assert outcome({"linear": ["x"], "nonlinear": ["g"]}, x="R", g="P") == "nonlinear"
    assert outcome({"linear": ["x"], "shape": ["like"]}, x="P", like="V") == "P"


def test_what_is_not_named_is_nonlinear() -> None:
    assert outcome({"linear": ["x"]}, x="R", other="P") == "nonlinear"
    assert outcome({"linear": ["x"]}, x="R", other="V") == "V"


def test_writes() -> None:
    operation = ops.custom("mine.f", {"nonlinear": ["x"], "mutated": ["out"]})
    call = Call("mine.f", (Argument("x", (V,)), Argument("out", (FACTORY,))))
    assert judge(call, operation=operation).mutations == ((1, (V,)),)
    call = Call("mine.f", (Argument("x", (V,)), Argument("out", (P,))))
    assert judge(call, operation=operation).violations[0].reason == "inplace"


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"lineer": ["x"]}, "unknown role 'lineer'"),
        ({"linear": [1]}, "takes parameter names"),
        ({"linear": ["not a name"]}, "takes parameter names"),
        ({"linear": ["x"], "index": ["x"]}, "cannot be both linear and index"),
        ({}, "no parameter has a role"),
    ],
)
def test_wrong_roles(roles: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ops.custom("mine.f", roles)


def test_the_decorator_returns_the_function_itself() -> None:
    def f(x: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
        return x[idx]

    assert rule(linear=["x"], index=["idx"])(f) is f


def test_the_decorator_knows_autograd_functions() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

    assert rule(linear=["x"])(Double) is Double
    with pytest.raises(ValueError, match="'ctx' is no parameter; there are x"):
        rule(linear=["ctx"])(Double)


def test_the_decorator_checks_names() -> None:
    with pytest.raises(ValueError, match="'y' is no parameter; there are x"):
        rule(linear=["y"])(lambda x: x)
    with pytest.raises(ValueError, match="cannot be both"):
        rule(linear=["x"], factor=["x"])
    with pytest.raises(ValueError, match="no parameter has a role"):
        rule()
