"""Functions of torch that mypy sees as Any.

``torch.linalg``, ``torch.fft`` and ``torch.special`` are filled by ``solve = _add_docstr(_linalg.solve, "linalg.solve(A, B, *, ...)")``.  A
hook on ``_add_docstr`` makes a callable of that Any, with the parameter names that the docstring opens with, so that
calls reach the hooks for operations.  Every parameter is optional and Any, and so is the result: code without
SPMD types sees no difference.
"""

from __future__ import annotations

import re
from typing import Final

from mypy.nodes import (
    ARG_NAMED_OPT,
    ARG_OPT,
    ARG_STAR,
    ARG_STAR2,
    ArgKind,
    CallExpr,
    Expression,
    MemberExpr,
    OpExpr,
    StrExpr,
)
from mypy.plugin import FunctionContext
from mypy.types import AnyType, CallableType, Instance, Type, TypeOfAny, get_proper_type

from spmd_mypy.layout import Layouts, unknown_type

ADD_DOCSTR: Final = "torch._C._add_docstr"
_SIGNATURE: Final = re.compile(r"^\s*(?:[a-z_]+\.)*([a-z_0-9]+)\((.*?)\)\s*->", re.M | re.S)

# Results that torch's annotations leave untyped: what comes out all the same.  "none": leave it Any.
_RESULTS: Final = {
    "Tensor.split": "tuple", "torch.split": "tuple", "torch.meshgrid": "tuple", "torch.broadcast_tensors": "tuple",
    "torch.unique": "none", "torch.unique_consecutive": "none", "Tensor.unique": "none",
    "Tensor.unique_consecutive": "none", "torch.lu": "none", "Tensor.lu": "none", "torch.atleast_1d": "like",
    "torch.atleast_2d": "like", "torch.atleast_3d": "like", "torch.pca_lowrank": "none", "torch.svd_lowrank": "none",
    "Tensor.backward": "none", "Tensor.tolist": "none", "Tensor.item": "none", "Tensor.numpy": "none",
    "torch.nn.functional.multi_head_attention_forward": "none", "builtins.sum": "none",
}  # fmt: skip
_SEVERAL_OUTPUTS: Final = frozenset(
    f"torch.linalg.{name}"
    for name in (
        "eig", "eigh", "svd", "qr", "lu", "lu_factor", "lu_factor_ex", "slogdet", "lstsq", "cholesky_ex", "inv_ex",
        "ldl_factor", "ldl_factor_ex", "solve_ex",
    )
)  # fmt: skip
_TENSOR_MODULES: Final = (
    "Tensor.", "torch.linalg.", "torch.fft.", "torch.special.", "torch.nn.functional.", "torch.nn.init.", "operator."
)  # fmt: skip


def _text(expression: Expression) -> str:
    """The start of a docstring that may be formatted or put together."""
    if isinstance(expression, StrExpr):
        return expression.value
    if isinstance(expression, OpExpr):
        return _text(expression.left)
    if isinstance(expression, CallExpr) and isinstance(expression.callee, MemberExpr):
        return _text(expression.callee.expr)
    return ""


def signature(docstring: str) -> list[tuple[str, ArgKind]]:
    """Parameter names and kinds from the first line of a docstring of torch; all of them optional."""
    match = _SIGNATURE.search(docstring)
    parameters: list[tuple[str, ArgKind]] = []
    kind = ARG_OPT
    for part in match.group(2).split(",") if match else ():
        name = part.partition("=")[0].partition(":")[0].strip()
        if name == "*":
            kind = ARG_NAMED_OPT
        elif name.isidentifier():
            parameters.append((name, kind))
    return parameters


def documented(ctx: FunctionContext) -> Type:
    """The type of ``_add_docstr(function, docstring)`` where the function itself is untyped."""
    default = ctx.default_return_type
    if not isinstance(get_proper_type(default), AnyType) or len(ctx.args) < 2 or not ctx.args[1]:
        return default
    parameters = signature(_text(ctx.args[1][0]))
    if not parameters:
        return default
    any_ = AnyType(TypeOfAny.special_form)
    positional = [p for p in parameters if p[1] == ARG_OPT]
    named = [p for p in parameters if p[1] == ARG_NAMED_OPT]
    names = [*(n for n, _ in positional), None, *(n for n, _ in named), None]
    kinds = [ARG_OPT] * len(positional) + [ARG_STAR] + [ARG_NAMED_OPT] * len(named) + [ARG_STAR2]
    fallback = ctx.api.named_generic_type("builtins.function", [])
    return CallableType([any_] * len(names), kinds, names, any_, fallback)


def result(layouts: Layouts, op: str, default: Type, several: bool) -> Type:
    """What an operation of torch returns whose annotation says Any; ``several`` outputs stay Any."""
    shape = _RESULTS.get(op)
    if shape is None:
        is_tensor = op.startswith(_TENSOR_MODULES) and op not in _SEVERAL_OUTPUTS and not several
        shape = "tensor" if is_tensor else "none"
    tensor = layouts.tensor(unknown_type())
    if shape == "none":
        return default
    if shape == "tuple":
        info = layouts.info("builtins.tuple")
        return Instance(info, [tensor]) if info is not None else default
    return tensor
