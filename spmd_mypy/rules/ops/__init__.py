"""The table of operations: which rule has a name.

The rows lie in this package's modules as text (the notation is ``grammar``'s) under the operation's base name.  An
operation has many names -- ``torch.add``, ``Tensor.add``, ``Tensor.add_``, ``Tensor.__add__``, ``Tensor.__iadd__``,
``operator.iadd``, ``torch._foreach_add_`` -- which :func:`find` traces back to that one.  Rows are read
when their operation is first asked for, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from spmd_mypy.rules.grammar import Rule, read_row, split_rows
from spmd_mypy.rules.ops import (
    autograd,
    creation,
    elementwise,
    indexing,
    irrelevant,
    layers,
    linalg,
    modules,
    own,
    python,
    reductions,
    shapes,
)

TABLES: Final = (elementwise, reductions, shapes, indexing, linalg, layers, creation, autograd, python)

Renaming = tuple[tuple[str, str], ...]


class Operation(NamedTuple):
    """An operation as the rules see it.

    ``base`` is the name of its row; ``rules`` are tried in order.  ``inplace`` operations write their result to
    their first argument.  ``renamed`` maps formal parameters to the row's; ``parameters`` are a module's own tensors,
    unknown unless they are given.
    """

    base: str
    rules: tuple[Rule, ...]
    inplace: bool = False
    renamed: Renaming = ()
    parameters: tuple[str, ...] = ()


class _Found(NamedTuple):
    base: str
    inplace: bool = False
    renamed: Renaming = ()
    parameters: tuple[str, ...] = ()


def _rows() -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for names in irrelevant.REASONS.values():
        rows.update(dict.fromkeys(names.split(), [_IRRELEVANT]))
    for table in TABLES:
        rows.update(split_rows(table.ROWS))
    return rows


_IRRELEVANT: Final = "shape(*) -> unknown"
_ROWS: Final = _rows()
_MODULES: Final = split_rows(modules.MODULES)

# Python's operators, by the name between the underscores.
_OPERATORS: Final = {
    "add": "add", "radd": "add", "sub": "sub", "rsub": "rsub", "mul": "mul", "rmul": "mul", "truediv": "div",
    "div": "div", "rdiv": "rdiv", "rtruediv": "rdiv", "floordiv": "floor_divide", "rfloordiv": "floor_divide",
    "mod": "remainder", "rmod": "remainder", "pow": "pow", "rpow": "rpow", "matmul": "matmul",
    "rmatmul": "matmul", "neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not", "and": "bitwise_and",
    "rand": "bitwise_and", "or": "bitwise_or", "ror": "bitwise_or", "xor": "bitwise_xor", "rxor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rlshift": "rlshift", "rshift": "bitwise_right_shift",
    "rrshift": "bitwise_right_shift", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip

# The module ``operator`` has other names for some, and calls its parameters a, b and c;
# a type checker that does not keep positional names has input, other and none.
_OPERATOR_NAMES: Final = {"inv": "invert", "not_": "not", "truth": "bool", "and_": "and", "or_": "or"}
_SUBSCRIPT: Final = (("a", "self"), ("b", "indices"), ("other", "indices"), ("c", "value"), ("", "value"))
_OPERATOR_PARAMETERS: Final = {"setitem": _SUBSCRIPT, "getitem": _SUBSCRIPT}
_TWO_PARAMETERS: Final = (("a", "self"), ("b", "other"))

# Parameters of the ``torch._foreach_`` functions that the row has under another name.
_FOREACH: Final[dict[str, Renaming]] = {"lerp": (("scalar", "weight"),), "addcmul": (), "addcdiv": ()}
_FOREACH_SCALARS: Final = (("scalar", "other"), ("scalars", "other"))

# Where an operation is found; its row is under what follows the first part of that, or under the last name.
_PREFIXES: Final = (
    "Tensor.", "torch.nn.functional.", "torch._C._nn.", "torch.linalg.", "torch.fft.", "torch.special.",
    "torch.nn.init.", "torch.nn.utils.rnn.", "torch.nn.utils.clip_grad.", "torch.nn.utils.convert_parameters.",
    "torch.nn.utils.fusion.", "torch.nn.utils.", "torch.autograd.", "torch.nn.attention.flex_attention.",
    "torch.nn.parameter.", "torch.nn.", "torch.sparse.", "torch.functional.", "torch._lowrank.", "torch._lobpcg.",
    "torch._linalg_utils.", "torch.amp.grad_scaler.", "torch.", "builtins.", "copy.",
)  # fmt: skip
_PYTHON: Final = frozenset({"builtins.", "copy."})  # where a name is not torch's operation of that name
_MODULE_PREFIXES: Final = ("torch.nn.modules.", "torch.nn.")


def _dunder(name: str) -> _Found | None:
    """The row of a special method, by the name between the underscores."""
    if f"__{name}__" in _ROWS:
        return _Found(f"__{name}__")
    if name in _OPERATORS:
        return _Found(_OPERATORS[name])
    if name[:1] == "i" and name[1:] in _OPERATORS:
        return _Found(_OPERATORS[name[1:]], inplace=True)
    return None


def _last_name(name: str) -> _Found | None:
    """The row of an operation by its last name."""
    if name.startswith("__") and name.endswith("__"):
        return _dunder(name[2:-2])
    if name in _ROWS:
        return _Found(name)
    if name.startswith("_foreach_"):
        base = name.removeprefix("_foreach_")
        found = _last_name(base)
        renamed = _FOREACH.get(base.removesuffix("_"), _FOREACH_SCALARS)
        return found and _Found(found.base, base.endswith("_"), renamed)
    if name.endswith("_") and name[:-1] in _ROWS:
        return _Found(name[:-1], inplace=True)
    return None


def _module(op: str) -> _Found | None:
    """The row of the function that a module of ``torch.nn`` calls."""
    if not op.startswith(_MODULE_PREFIXES):
        return None
    name = op.rpartition(".")[2]
    if name not in _MODULES:
        return None
    base, *parameters = _MODULES[name][0].split()
    return _Found(base, renamed=modules.RENAMED.get(name, ()), parameters=tuple(parameters))


def _resolve(op: str) -> _Found | None:
    if op.startswith("torch.optim."):
        op = f"torch.optim.Optimizer.{op.rpartition('.')[2]}"
    if op in _ROWS:
        return _Found(op)
    for prefix in _PREFIXES:
        if op.startswith(prefix):
            name = op[len(prefix) :]
            # "linalg.norm", "nn.Parameter", "rnn.pack_sequence": the last part of the prefix tells apart.
            qualified = prefix.rstrip(".").rpartition(".")[2] + "." + name
            if qualified in _ROWS:
                return _Found(qualified)
            return _last_name(name) if "." not in name and prefix not in _PYTHON else None
    return None


def _operator(name: str) -> _Found | None:
    """The row of a function of the module ``operator``."""
    name = _OPERATOR_NAMES.get(name, name)
    found = _dunder(name)
    return found and _Found(found.base, found.inplace, _OPERATOR_PARAMETERS.get(name, _TWO_PARAMETERS))


@cache
def _trace(op: str) -> _Found | None:
    module, _, name = op.rpartition(".")
    if module in ("operator", "_operator"):
        return _operator(name)
    return _Found("item") if module == "math" else _module(op) or _resolve(op)


@cache
def find(op: str) -> Operation | None:
    """The operation of that name, or None where the table has none; ``op`` is named as in ``Call.op``."""
    found = _trace(op)
    if found is None:
        return None
    return Operation(found.base, read_row(_ROWS[found.base]), found.inplace, found.renamed, found.parameters)


def custom(name: str, roles: Mapping[str, object]) -> Operation:
    """An operation of a project's own, to hand to ``judge``; ``roles`` are those of ``own``.

    Raises ValueError, with what is wrong, for what is no mapping from roles to parameter names.
    """
    return Operation(name, (own.rule(roles),))


def known(op: str) -> bool:
    """Whether the table has a row for that name (it may say that nothing is to be said)."""
    return _trace(op) is not None  # of most that are asked for, no call is ever judged


def text(base: str) -> list[str]:
    """The text of a row: what follows its names, line by line."""
    return _ROWS[base]


def bases() -> dict[str, tuple[Rule, ...]]:
    """All rows, read: base name to rules.  For the documentation and the tests."""
    return {name: read_row(lines) for name, lines in _ROWS.items()}
