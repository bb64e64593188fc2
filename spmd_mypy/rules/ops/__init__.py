"""The table of operations: which rule has a name.

The rows lie in this package's modules as text (the notation is ``grammar``'s) under the
operation's base name.  An operation has many names -- ``torch.add``, ``Tensor.add``, ``Tensor.add_``,
``Tensor.__add__``, ``Tensor.__iadd__``, ``operator.iadd``, ``torch._foreach_add_`` -- which :func:`find` traces back to
that one.  Names are looked up and rows read when first asked for, then kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from spmd_mypy.rules.grammar import Rule, read_row, split_rows
from spmd_mypy.rules.ops import autograd, creation, elementwise, indexing, layers, linalg, python, reductions, shapes

TABLES: Final = (elementwise, reductions, shapes, indexing, linalg, layers, creation, autograd, python)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as the rules see it.

    ``base`` is the name of its row; ``rules`` are tried in order; ``inplace`` operations write their result to
    their first argument; ``swapped`` ones (``Tensor.__rsub__`` through a row that is not symmetric) are none.
    """

    base: str
    rules: tuple[Rule, ...]
    inplace: bool = False
    renamed: tuple[tuple[str, str], ...] = ()


def _rows() -> dict[str, list[str]]:
    rows: dict[str, list[str]] = {}
    for table in TABLES:
        rows.update(split_rows(table.ROWS))
    return rows


_ROWS: Final = _rows()

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

# The function module ``operator`` has other names for some, and calls its parameters a, b and c.
_OPERATOR_FUNCTIONS: Final = {"inv": "invert", "not_": "not", "truth": "bool", "and_": "and", "or_": "or"}
_OPERATOR_PARAMETERS: Final = {
    "setitem": (("a", "self"), ("b", "indices"), ("c", "value")),
    "getitem": (("a", "self"), ("b", "indices")),
    "contains": (("a", "self"), ("b", "element")),
}
_TWO_PARAMETERS: Final = (("a", "self"), ("b", "other"))

# Where an operation is found; the row may be under the part after the prefix, or under the last name.
_PREFIXES: Final = (
    "Tensor.", "torch.nn.functional.", "torch._C._nn.", "torch.linalg.", "torch.fft.", "torch.special.",
    "torch.nn.init.", "torch.nn.utils.", "torch.nn.", "torch.", "builtins.", "math.",
)  # fmt: skip


def _row(name: str) -> str | None:
    return name if name in _ROWS else None


def _dunder(name: str) -> tuple[str, bool] | None:
    """The row of a special method, by the name between the underscores, and whether it is in place."""
    if (found := _row(f"__{name}__")) is not None:
        return found, False
    if name in _OPERATORS:
        return _OPERATORS[name], False
    if name[:1] == "i" and name[1:] in _OPERATORS:
        return _OPERATORS[name[1:]], True
    return None


def _base(name: str) -> tuple[str, bool] | None:
    """The row of an operation by its last name, and whether it is in place."""
    if name.startswith("__") and name.endswith("__"):
        return _dunder(name[2:-2])
    if name in _ROWS:
        return name, False
    if name.startswith("_foreach_"):
        return _base(name.removeprefix("_foreach_"))
    if name.endswith("_") and name[:-1] in _ROWS:
        return name[:-1], True
    return None


def _resolve(op: str) -> tuple[str, bool] | None:
    if op in _ROWS:
        return op, False
    for prefix in _PREFIXES:
        if op.startswith(prefix):
            name = op[len(prefix) :]
            qualified = prefix.removeprefix("torch.") + name
            if qualified in _ROWS:
                return qualified, False
            return _base(name) if "." not in name else None
    return None


@cache
def find(op: str) -> Operation | None:
    """The operation of that name, or None where the table has none; ``op`` is named as in ``Call.op``."""
    module, _, name = op.rpartition(".")
    renamed: tuple[tuple[str, str], ...] = ()
    if module in ("operator", "_operator"):
        name = _OPERATOR_FUNCTIONS.get(name, name)
        renamed = _OPERATOR_PARAMETERS.get(name, _TWO_PARAMETERS)
        found = _dunder(name)
    else:
        found = _resolve(op)
    if found is None:
        return None
    base, inplace = found
    return Operation(base, read_row(_ROWS[base]), inplace, renamed)


def known(op: str) -> bool:
    """Whether the table has a rule for that name."""
    return find(op) is not None
