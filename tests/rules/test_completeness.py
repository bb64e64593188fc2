"""The table knows every public callable of torch, and every parameter of it that takes tensors."""

from __future__ import annotations

import pytest
import torch

from spmd_mypy.rules import ops
from spmd_mypy.rules.grammar import Expression, Parameter, parameter
from spmd_mypy.rules.ops import irrelevant, versions
from tests.rules import signatures, surface
from tests.rules.versions import installed

# Parameters without annotation that take no tensor.
PLAIN = frozenset(
    [
        "dim",
        "dim1",
        "dim2",
        "dims",
        "dtype",
        "keepdim",
        "ord",
        "p",
        "n",
        "s",
        "norm",
        "upper",
        "check_errors",
        "hermitian",
        "left",
        "adjoint",
        "unitriangular",
        "pivot",
        "mode",
        "driver",
        "full_matrices",
        "rcond",
        "UPLO",
        "offset",
        "ind",
        "N",
        "d",
        "device",
        "layout",
        "requires_grad",
        "compute_mode",
        "eps",
        "memo",
        "sizes",
        "split_size",
        "get_infos",
        "sorted",
        "return_inverse",
        "return_counts",
        "symmetric",
        "distance_function",
    ]
)


def names(expression: Expression) -> set[str]:
    """All parameter names in an expression of roles."""
    found: set[str] = set()
    for item in expression.items:
        found.update(item.names if isinstance(item, Parameter) else names(item))
    return found


def test_every_public_callable_has_a_row() -> None:
    unknown = [op for op in surface.public() if not ops.known(op)]
    assert not unknown, f"neither ruled on nor listed as irrelevant: {unknown}"


def test_every_tensor_parameter_has_a_role() -> None:
    missing = []
    for op in [*surface.functions(), *surface.members()]:
        operation = ops.find(op)
        assert operation is not None
        ruled = set(PLAIN | {"out"})
        for rule in operation.rules:
            ruled |= names(rule.expression)
            for written in (*rule.writes, *rule.overwrites):
                ruled.update(parameter(written).names)
        if "*" in ruled or rule.results == ("dual",):
            continue
        renamed = dict(operation.renamed)
        missing += [
            f"{op}({formal.name})"
            for formal in signatures.tensor_formals(op)
            if renamed.get(formal.name, formal.name) not in ruled
        ]
    assert not missing


@pytest.mark.parametrize("names", irrelevant.REASONS.values(), ids=irrelevant.REASONS)
def test_irrelevant_names_have_no_other_rule(names: str) -> None:
    for name in names.split():
        operation = ops.find(name)
        assert operation is not None and operation.rules[-1].results == ("unknown",), name


def test_every_row_can_be_read() -> None:
    assert len(ops.bases()) > 1000


def test_an_unknown_name_is_unknown() -> None:
    assert not ops.known("torch.no_such_operation")
    assert not ops.known("Tensor.no_such_operation_")
    assert not ops.known("my_project.add")
    assert not ops.known("builtins.range")


@pytest.mark.parametrize(
    "op",
    [
        "torch.add", "Tensor.add", "Tensor.add_", "Tensor.__add__", "Tensor.__radd__", "Tensor.__iadd__",
        "operator.add", "operator.iadd", "_operator.add", "torch._foreach_add", "torch._foreach_add_",
    ],
)  # fmt: skip
def test_aliases_lead_to_one_row(op: str) -> None:
    operation = ops.find(op)
    assert operation is not None and operation.base == "add"
    assert operation.inplace == (op.endswith("_") and not op.endswith("__") or "iadd" in op)


def test_names_of_other_versions_are_known() -> None:
    for name in (*versions.GONE, *versions.ADDED, *versions.LATER, *versions.LEAVING):
        assert ops.known(name), name
    here = installed()
    if torch.__version__.startswith("2.13."):
        assert {*versions.ADDED, *versions.LEAVING} - {"torch.miopen_ctc_loss"} <= here
        assert not {*versions.GONE, *versions.LATER} & here
