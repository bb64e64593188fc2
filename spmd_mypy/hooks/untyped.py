"""Functions of torch that mypy sees as Any.

``torch.linalg``, ``torch.fft`` and ``torch.special`` are filled by lines such as
``solve = _add_docstr(_linalg.solve, "linalg.solve(A, B, *, ...)")``.  A hook on ``_add_docstr`` makes a callable of
that Any, with the parameter names that the docstring opens with, so that calls reach the hooks for operations.  Every
parameter is optional and Any, and so is the result: code without SPMD types sees no difference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mypy.nodes import (
    ARG_NAMED,
    ARG_NAMED_OPT,
    ARG_OPT,
    ARG_POS,
    ARG_STAR,
    ARG_STAR2,
    ArgKind,
    CallExpr,
    Expression,
    MemberExpr,
    OpExpr,
    StrExpr,
)
from mypy.plugin import FunctionContext, MethodContext, MethodSigContext
from mypy.types import AnyType, CallableType, FunctionLike, Instance, Type, TypeOfAny, UnionType, get_proper_type
from mypy.typevars import fill_typevars

from spmd_mypy import compat
from spmd_mypy.hooks import fields
from spmd_mypy.hooks.arguments import is_number
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.layout import Layouts, is_tensor, unknown_type
from spmd_mypy.patterns import lazily

ADD_DOCSTR: Final = "torch._C._add_docstr"
BOOLEAN_DISPATCH: Final = "torch._jit_internal.boolean_dispatch"
_CHOICE: Final = 4  # its parameter if_false
_SIGNATURE: Final = lazily(r"\A\s*(?:[a-z_]+\.)*([a-z_0-9]+)\((.*?)\)", re.S)

# Results that torch's annotations leave untyped: what comes out all the same.
_RESULTS: Final = {
    "Tensor.split": "tuple", "torch.split": "tuple", "torch.meshgrid": "tuple", "torch.broadcast_tensors": "tuple",
    "Tensor.__iter__": "iterator",
    **dict.fromkeys(
        (
            "torch.atleast_1d", "torch.atleast_2d", "torch.atleast_3d", "torch.norm", "torch.stft", "Tensor.norm",
            "torch.block_diag", "torch.chain_matmul", "torch.tensordot", "Tensor.resize", "Tensor.resize_as",
            "Tensor.to_sparse_coo",
            "Tensor.stft", "Tensor.istft", "Tensor.unflatten", "Tensor.refine_names", "Tensor.align_to",
            "Tensor.rename", "Tensor.rename_", "Tensor.__reversed__", "Tensor.__rdiv__", "Tensor.__rpow__",
            "Tensor.__rfloordiv__", "Tensor.__rlshift__", "Tensor.__rrshift__", "Tensor.__rmatmul__",
            "Tensor.__pow__", "Tensor.__ipow__", "Tensor.__floordiv__", "Tensor.share_memory_", "Tensor.__deepcopy__",
        ),
        "tensor",
    ),
}  # fmt: skip
_SEVERAL_OUTPUTS: Final = frozenset(
    f"torch.linalg.{name}"
    for name in (
        "eig", "eigh", "svd", "qr", "lu", "lu_factor", "lu_factor_ex", "slogdet", "lstsq", "cholesky_ex", "inv_ex",
        "ldl_factor", "ldl_factor_ex", "solve_ex",
    )
)  # fmt: skip
# Those of them that torch has a class of results for.
_STRUCTURES: Final = {
    "torch.linalg.svd": "_linalg_svd",
    "torch.linalg.eigh": "_linalg_eigh",
    "torch.linalg.qr": "qr",
    "torch.linalg.slogdet": "slogdet",
}
_TENSOR_MODULES: Final = (
    "torch.linalg.", "torch.fft.", "torch.special.", "torch.sparse.", "torch.nn.functional.", "torch.nn.init.",
    "operator.",
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
    return _callable(ctx, signature(_text(ctx.args[1][0])))


def dispatched(ctx: FunctionContext) -> Type:
    """The type of ``boolean_dispatch(...)``, such as ``torch.unique``: called as the functions that it chooses from."""
    default = ctx.default_return_type
    if not isinstance(get_proper_type(default), AnyType) or len(ctx.arg_types) <= _CHOICE or not ctx.arg_types[_CHOICE]:
        return default
    choice = get_proper_type(ctx.arg_types[_CHOICE][0])
    if not isinstance(choice, CallableType):
        return default
    kinds = {ARG_POS: ARG_OPT, ARG_OPT: ARG_OPT, ARG_NAMED: ARG_NAMED_OPT, ARG_NAMED_OPT: ARG_NAMED_OPT}
    pairs = zip(choice.arg_names, choice.arg_kinds, strict=True)
    return _callable(ctx, [(name, kinds[kind]) for name, kind in pairs if name is not None and kind in kinds])


def _callable(ctx: FunctionContext, parameters: list[tuple[str, ArgKind]]) -> CallableType:
    """A callable with those parameters and any others, and Any everywhere."""
    any_ = AnyType(TypeOfAny.special_form)
    positional = [p for p in parameters if p[1] == ARG_OPT]
    named = [p for p in parameters if p[1] == ARG_NAMED_OPT]
    names = [*(n for n, _ in positional), None, *(n for n, _ in named), None]
    kinds = [ARG_OPT] * len(positional) + [ARG_STAR] + [ARG_NAMED_OPT] * len(named) + [ARG_STAR2]
    fallback = ctx.api.named_generic_type("builtins.function", [])
    return CallableType([any_] * len(names), kinds, names, any_, fallback)


def comparison(layouts: Layouts, ctx: MethodSigContext) -> FunctionLike:
    """``x == y`` gives a tensor where ``y`` is a tensor or a number, by whichever overload.

    The overloads are (Tensor) -> Tensor and (object) -> bool: with a generic operand mypy finds that both may fit, and
    gives up on the result.
    """
    signature_ = ctx.default_signature
    if not ctx.args or not ctx.args[0]:
        return signature_
    expression = ctx.args[0][0]
    other = get_proper_type(compat.stored_type(ctx.api, expression) or ctx.api.get_expression_type(expression))
    members = other.relevant_items() if isinstance(other, UnionType) else [other]
    if isinstance(signature_, CallableType) and all(is_tensor(member) or is_number(member) for member in members):
        return signature_.copy_modified(ret_type=layouts.tensor(unknown_type()))
    return signature_


# ``d ** -0.5``: Any in typeshed, since it is complex where d is negative.
POWERS: Final = ("builtins.float.__pow__", "builtins.float.__rpow__")


def power(bench: Workbench, ctx: MethodContext) -> Type:
    """A power with a fraction is taken for a float where SPMD types are used: what Any scales, Any becomes."""
    default = ctx.default_return_type
    if not isinstance(get_proper_type(default), AnyType) or not bench.uses_spmd(ctx.api):
        return default
    operands = [ctx.type, *(t for types in ctx.arg_types[:1] for t in types)]
    return ctx.api.named_generic_type("builtins.float", []) if all(is_number(t) for t in operands) else default


# What comes out of these is one tensor unless more is asked for.
_MORE_ON_DEMAND: Final = frozenset(
    {"torch.unique", "Tensor.unique", "torch.unique_consecutive", "Tensor.unique_consecutive"}
)
_DEMANDS: Final = ("return_inverse", "return_counts")


def result(layouts: Layouts, op: str, options: Mapping[str, object], default: Type, several: bool) -> Type:
    """What an operation of torch returns whose annotation says Any; ``several`` outputs stay Any."""
    if op in _STRUCTURES:
        info = layouts.info(f"{fields.MODULE}.{_STRUCTURES[op]}")
        return default if info is None or info.tuple_type is None else fill_typevars(info)
    shape = _RESULTS.get(op)
    if op in _MORE_ON_DEMAND and all(options.get(name, False) is False for name in _DEMANDS):
        shape = "tensor"
    if shape is None:
        is_tensor = op.startswith(_TENSOR_MODULES) and op not in _SEVERAL_OUTPUTS and not several
        shape = "tensor" if is_tensor else "none"
    tensor = layouts.tensor(unknown_type())
    if shape == "none":
        return default
    if shape == "tensor":
        return tensor
    info = layouts.info("builtins.tuple" if shape == "tuple" else "typing.Iterator")
    return Instance(info, [tensor]) if info is not None else default
