"""The contract between the rules and whoever asks them: a call of an operation, and the verdict on it.

``operations.judge(call)`` takes a :class:`Call` and gives a :class:`Verdict`.
The plugin builds calls from mypy's syntax tree, the tests from drawn tensors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from spmd_mypy.rules.kinds import AxisType, Layout


class _Unknown:
    """An option that is given, but not as a literal."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class _Untyped:
    """An option that may be a tensor: nothing is known of its type."""

    def __repr__(self) -> str:
        return "UNTYPED"


UNTYPED: Final = _Untyped()


@dataclass(frozen=True, slots=True)  # no tuple: an option may be one
class Name:
    """An option that names something by its full dotted name: ``torch.int64``, ``torch.distributed.ReduceOp.MAX``."""

    fullname: str


OptionValue: TypeAlias = (
    "int | float | complex | str | bool | None | Name | _Unknown | _Untyped | tuple[OptionValue, ...]"
)


class Argument(NamedTuple):
    """One tensor or number among a call's arguments; lists of tensors are given leaf by leaf.

    ``param`` is the formal parameter's name in torch's stubs (``"self"``,
    ``"input"``, ``"other"``, ``"tensors"``, ...; of ``*args`` the name without the star).
    ``layout`` is None for a Python number (int, float, complex, bool), whose
    literal is ``value`` if it is one.  A tensor made on the spot by ``torch.zeros`` and its like may say ``value=0``.
    """

    param: str
    layout: Layout | None
    value: OptionValue = UNKNOWN


_NO_OPTIONS: Final[Mapping[str, OptionValue]] = MappingProxyType({})


class Call(NamedTuple):
    """A call of an operation.

    ``op`` is the name users know: ``"torch.add"``, ``"Tensor.add_"``, ``"Tensor.__radd__"``,
    ``"torch.nn.functional.linear"``, ``"builtins.sum"``.  ``options`` has every argument that holds no
    tensor, by formal parameter name; a number stands in both, since only the operation's row knows whether
    ``2`` is an operand (``add``) or a dim (``sum``).  ``grad`` is False where gradients are off (``torch.no_grad()``).
    """

    op: str
    arguments: tuple[Argument, ...]
    options: Mapping[str, OptionValue] = _NO_OPTIONS
    grad: bool = True


class Violation(NamedTuple):
    """A rule that a call breaks on one axis.

    ``reason`` is a key of ``reasons.REASONS``; ``axis`` indexes the layouts; ``culprits`` index
    ``Call.arguments``, the operand to name first.  ``written`` is what a call in place would make of its target.
    """

    reason: str
    axis: int
    culprits: tuple[int, ...]
    written: AxisType | None = None


class Verdict(NamedTuple):
    """What the rules say of a call.

    ``results`` has one layout for all tensors that come out, or one per output where they differ (a call that gives
    fewer has the first ones).
    ``mutations`` are the arguments that are written to, each with its layout afterwards.
    On an axis with a violation the results are unknown.
    """

    results: tuple[Layout, ...]
    violations: tuple[Violation, ...] = ()
    mutations: tuple[tuple[int, Layout], ...] = ()
