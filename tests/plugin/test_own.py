"""A project's own operations: roles by decorator, by configuration, and none."""

from __future__ import annotations

import pytest

from spmd_mypy.hooks.own import declared
from tests.mypy_runner import PRELUDE, check_files, compare

KERNELS = """
import torch
import spmd_runtime as spmd


def fused(x, bias):
    return x


@spmd.rule(linear=["x"], index=["idx"])
def gather(x: torch.Tensor, idx: torch.Tensor) -> torch.Tensor:
    return x


@spmd.rule(nonlinear=["x"])
@torch.library.custom_op("own_test::act", mutates_args=())
def act(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def plain(x: torch.Tensor) -> torch.Tensor:
    return x
"""

USE = f"""{PRELUDE}
from kernels import act, fused, gather, plain


def f(p: Tensor[P[TP]], i: Tensor[I[TP]], r: Tensor[R[TP]]) -> None:
    reveal_type(gather(p, i))  # R: Tensor[P[TP]]
    gather(r, p)  # E: spmd-partial
    gather(r, idx=p)  # E: spmd-partial
    reveal_type(fused(r, r))  # R: Tensor[R[TP]]
    fused(p, r)  # E: spmd-partial
    fused(r, bias=p)  # E: spmd-partial
    act(p)  # E: spmd-partial
    reveal_type(act(i))  # R: Tensor[I[TP]]
    reveal_type(plain(p))  # R: torch._tensor.Tensor
"""


def test_roles_by_decorator_and_by_configuration() -> None:
    files = {"kernels.py": KERNELS, "use.py": USE}
    rules = {"rules": {"kernels.fused": {"nonlinear": ["x", "bias"]}}}
    for _ in range(2):  # the second run takes kernels.py from the cache, which has no decorators
        result = check_files(files, spmd=rules, targets=["use.py"])
        assert compare(USE, [m for m in result.messages if m.file == "use.py"], "use.py") == []


@pytest.mark.parametrize(
    "header", ["from spmd_runtime import rule", "from spmd_runtime import rule as r", "import spmd_runtime as s"]
)
def test_the_decorator_is_found_however_it_is_imported(header: str) -> None:
    name = {"rule": "rule", "r": "r", "s": "s.rule"}[header.rsplit(maxsplit=1)[-1]]
    text = f"{header}\n@{name}(factor=['x', 'w'])\ndef f(x, w): ...\n@other(factor=['x'])\ndef g(x): ...\n"
    assert [(function, own.parameters) for function, own in declared(text)] == [("f", ("x", "w"))]
