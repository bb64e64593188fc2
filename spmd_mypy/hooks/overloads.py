"""mypy's complaint that no overload fits: judged again with what the rules accept where a type is declared.

mypy tries the overloads by its own rules, in which V is no P and a fresh constant no V.  The complaint lists the
arguments' types only; the call and its overloads are looked up where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

from mypy.messages import format_type_bare
from mypy.nodes import CallExpr
from mypy.subtypes import is_subtype
from mypy.types import AnyType, CallableType, Overloaded, Type, TypeOfAny, get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks.signatures import mentions_layout
from spmd_mypy.spelling import Spelled, parse
from spmd_mypy.tree import walk

NO_VARIANT: Final = "No overload variant of"

Accepts = Callable[[Spelled, Spelled], bool]


class Verdict(Enum):
    """What is wrong with a call of which mypy says that no overload fits."""

    NOTHING = "an overload fits by the rules"
    LAYOUTS = "an overload would fit but for the layouts"
    OTHER = "no overload would fit, or none of ours is called"


def judge(api: Any, line: int, column: int, accepts: Accepts, fits: Accepts) -> Verdict:
    """The verdict on the call at a position; ``accepts`` compares types by the rules, ``fits`` without layouts."""
    call = _call(api, line, column)
    callee = _overloaded(api, call)
    if call is None or callee is None or not mentions_layout(callee):
        return Verdict.OTHER
    for test, verdict in ((accepts, Verdict.NOTHING), (fits, Verdict.LAYOUTS)):
        if any(_takes(api, item, call, test) for item in callee.items):
            return verdict
    return Verdict.OTHER


def none_takes(api: Any, line: int, column: int, fits: Accepts) -> bool:
    """Whether the call at a position fits no overload for sure, whatever the layouts are."""
    call = _call(api, line, column)
    callee = _overloaded(api, call)
    if call is None or callee is None or any(kind.is_star() for kind in call.arg_kinds):
        return False
    return not any(_takes(api, item, call, fits) for item in callee.items)


def _overloaded(api: Any, call: CallExpr | None) -> Overloaded | None:
    callee = compat.stored_type(api, call.callee) if call is not None else None
    callee = get_proper_type(callee) if callee is not None else None
    return callee if isinstance(callee, Overloaded) else None


def _call(api: Any, line: int, column: int) -> CallExpr | None:
    scope = compat.enclosing_function(api) or compat.current_file(api)
    calls = (node for node in walk(scope) if isinstance(node, CallExpr)) if scope is not None else ()
    return next((call for call in calls if (call.line, call.column) == (line, column)), None)


def _takes(api: Any, item: CallableType, call: CallExpr, test: Accepts) -> bool:
    """Whether an overload takes the call's arguments."""
    places = _places(item, call)
    required = {at for at, kind in enumerate(item.arg_kinds) if kind.is_required()}
    if places is None or not required <= set(places):
        return False
    actual = [compat.stored_type(api, argument) or AnyType(TypeOfAny.special_form) for argument in call.args]
    return all(_fits(api, t, item.arg_types[at], test) for t, at in zip(actual, places, strict=True))


def _places(item: CallableType, call: CallExpr) -> list[int] | None:
    """The parameter that each argument fills; None where one has none, or stands for several."""
    positional = [at for at, kind in enumerate(item.arg_kinds) if kind.is_positional()]
    named = {name: at for at, name in enumerate(item.arg_names) if name is not None}
    found: list[int] = []
    for kind, name in zip(call.arg_kinds, call.arg_names, strict=True):
        at = named.get(name) if name is not None else positional.pop(0) if positional else None
        if at is None or kind.is_star() or at in found:
            return None
        found.append(at)
    return found


def _fits(api: Any, given: Type, formal: Type, test: Accepts) -> bool:
    if is_subtype(given, formal):
        return True
    one, two = (parse(format_type_bare(t, api.options)) for t in (given, formal))
    return (one.laid_out or two.laid_out) and test(one, two)
