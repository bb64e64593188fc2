"""mypy's own complaints about groups, meshes and collectives that are still under way.

A process group of unknown axis goes anywhere, and a group or mesh of known axes goes where torch's own class is asked
for, in containers too.  What is still under way is no tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from mypy.errorcodes import ErrorCode

from spmd_mypy import codes, flow_messages
from spmd_mypy.patterns import QUOTED, lazily
from spmd_mypy.source import slice_of
from spmd_mypy.spelling import Spelled, parse, prettify

_CODES: Final[dict[str, ErrorCode]] = {
    "arg-type": codes.ARG,
    "list-item": codes.ARG,
    "dict-item": codes.ARG,
    "call-overload": codes.ARG,
    "return-value": codes.RETURN,
    "assignment": codes.ASSIGN,
    "typeddict-item": codes.ASSIGN,
}
_PENDING: Final = frozenset(
    {*_CODES, "attr-defined", "union-attr", "operator", "index", "misc", "call-arg", "type-var"}
)
_GROUPS: Final = frozenset({"Group", "ProcessGroup"})
_IN_FLIGHT: Final = lazily(r"InFlight\[[\w.]+, (?:[^\[\]]|\[[^\[\]]*\])*, Literal\['(\w+)'\]\]")
_TYPED: Final = lazily(
    r"(?:spmd_runtime\.inferred\.)?(Group|DeviceMesh)\[((?:[^\[\]]|\[(?:[^\[\]]|\[[^\[\]]*\])*\])*)\]"
)


def concerned(axes: Iterable[str]) -> re.Pattern[str]:
    """What messages about these classes hold; the names of the ``axes``' classes tell ours from others so called."""
    names = "|".join(map(re.escape, axes))
    return re.compile(
        rf"\b(?:Group|DeviceMesh)\[(?:tuple\[)*(?:[\w.]*\.)?(?:{names}|Any)\b|Pending\[[\w.]*Tensor\[tuple\[|InFlight\["
    )


def keep(file: str, error: Any) -> bool | None:
    """Edit ``error`` in place, or say True to drop it; None where it is not of this kind."""
    message = error.message
    code = error.code.code if error.code is not None else ""
    if error.severity != "error":
        error.message = _pretty(message)
        return None
    if (flight := _IN_FLIGHT.search(message)) is not None and code in _CODES:
        name = slice_of(file, error.line, error.column, error.end_line, error.end_column) or "the tensor"
        error.code, error.message = codes.COLLECTIVE, flow_messages.in_flight(name, flight.group(1))
        return False
    types = [parse(text) for text in QUOTED.findall(message)]
    if code in _PENDING and _uses_pending(types):
        error.code, error.message = codes.COLLECTIVE, f"{_pretty(prettify(message))}; {flow_messages.pending_use()}"
        return False
    if code in _CODES and len(types) >= 2:
        return _groups(error, code, types[-2], types[-1])
    error.message = _pretty(message)
    return None


def _uses_pending(types: list[Spelled]) -> bool:
    """Whether a Pending stands where something else is wanted."""
    pending = [any(member.short == "Pending" and member.args for member in t.members) for t in types]
    return any(pending) and not (len(pending) >= 2 and pending[-1] and pending[-2])


def _groups(error: Any, code: str, got: Spelled, want: Spelled) -> bool | None:
    if _fits(got, want, axes=True):
        return True
    if _fits(got, want, axes=False):
        error.code = _CODES[code]
        error.message = f"{_pretty(error.message)}; a group over another axis"
        return False
    error.message = _pretty(error.message)
    return None


def _fits(got: Spelled, want: Spelled, *, axes: bool) -> bool:
    """Whether ``got`` may stand where ``want`` is asked for; with ``axes=False`` as if no group had an axis."""
    if len(got.members) > 1 or len(want.members) > 1:
        return all(any(_fits(g, w, axes=axes) for w in want.members) for g in got.members)
    if "Any" in (got.name, want.name):
        return True
    if got.short in _GROUPS and want.short in _GROUPS:
        return not axes or not got.args or not want.args or got.args == want.args or Spelled("Any") in got.args
    if got.short == want.short == "DeviceMesh":
        return True
    if got.short != want.short or len(got.args) != len(want.args):
        return False
    return all(_fits(g, w, axes=axes) for g, w in zip(got.args, want.args, strict=True))


def _pretty(message: str) -> str:
    """Groups as users write them, meshes as torch does."""

    def shown(match: re.Match[str]) -> str:
        if match.group(1) == "DeviceMesh":
            return "DeviceMesh"
        return f"Group[{match.group(2).replace('spmd_runtime.axes.', '').removeprefix('tuple[').removesuffix(']')}]"

    return _TYPED.sub(shown, message)
