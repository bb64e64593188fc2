"""Everything that touches mypy's private parts, in one place.

Each function says what it needs and what happens where a mypy version lacks it: the plugin then goes on with
plainer messages or unknown types, never with a crash.  ``tests/plugin/test_compat.py`` says which version broke what.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast

from mypy import errors as mypy_errors
from mypy.errorcodes import ErrorCode
from mypy.nodes import ComparisonExpr, Context, Expression, FuncDef, MypyFile, OpExpr
from mypy.types import Type, TypeGuardedType

ErrorFilter: TypeAlias = Callable[[str, Any], bool]

# A test sets this to see that the plugin works without the private parts.
WITHOUT_PRIVATE: Final = "SPMD_MYPY_WITHOUT_PRIVATE"


def private_parts() -> bool:
    """Whether to use mypy's private parts at all."""
    return not os.environ.get(WITHOUT_PRIVATE)


class Watcher:
    """Keeps an error filter at the bottom of mypy's stack of error watchers.

    There it sees exactly the errors that mypy is about to record.  ``Errors.reset`` (the daemon, between runs)
    drops it, so :meth:`watch` is called from every hook; it costs two attribute reads when nothing is to be done.
    """

    def __init__(self, keep: ErrorFilter) -> None:
        self._filter = keep
        self._errors: Any = None
        self._watcher: Any = None
        self._usable = private_parts() and hasattr(mypy_errors, "ErrorWatcher")

    @property
    def watching(self) -> bool:
        """Whether the filter is in place (or cannot be put there)."""
        if not self._usable:
            return True
        if self._errors is None:
            return False
        stack = self._errors._watchers
        return bool(stack) and stack[0] is self._watcher

    def watch(self, errors: Any) -> None:
        """Put the filter below all other watchers of ``errors``."""
        if not self._usable or (self._errors is errors and self.watching):
            return
        try:
            watcher = mypy_errors.ErrorWatcher(errors, filter_errors=self._filter)
            errors._watchers.insert(0, watcher)
        except (AttributeError, TypeError):
            self._usable = False
            return
        self._errors, self._watcher = errors, watcher


def errors_of(api: Any) -> Any:
    """The Errors object behind any plugin context's ``api``, or None."""
    while not hasattr(api, "errors"):
        api = getattr(api, "api", None)
        if api is None:
            return None
    return api.errors


def stored_type(api: Any, expression: Expression) -> Type | None:
    """The type that mypy has inferred for ``expression`` in the current pass, or None."""
    if not private_parts():
        return None
    try:
        return cast("Type", api.lookup_type(expression))
    except (AttributeError, KeyError):
        return None


def retype(api: Any, expression: Expression, new: Type) -> bool:
    """Give the variable ``expression`` the type ``new`` from here on, even where it does not fit the declared one.

    Works for names, attributes and literal indices (mypy's binder); False where it could not be done.
    """
    if not private_parts():
        return False
    try:
        api.binder.put(expression, TypeGuardedType(new))
    except (AttributeError, TypeError):
        return False
    return True


def enclosing_function(api: Any) -> FuncDef | None:
    """The innermost function whose body is being checked."""
    try:
        function = api.scope.current_function()
    except AttributeError:
        return None
    return function if isinstance(function, FuncDef) else None


def current_file(api: Any) -> MypyFile | None:
    """The module that is being checked."""
    tree = getattr(api, "tree", None)
    return tree if isinstance(tree, MypyFile) else None


@contextmanager
def past_operator_trial(api: Any, context: Context) -> Iterator[None]:
    """Report from here past the filter under which mypy tries ``__add__`` and then ``__radd__``.

    Were the error caught there, mypy would take the operator for missing and its result for Any.  Only that one filter is
    stepped over: where a whole call is on trial (overloads), errors stay caught.
    """
    stack = getattr(errors_of(api), "_watchers", None) if isinstance(context, OpExpr | ComparisonExpr) else None
    if not stack or len(stack) < 2 or not private_parts():
        yield
        return
    top = stack.pop()
    try:
        yield
    finally:
        stack.append(top)


def note(api: Any, message: str, context: Context, code: ErrorCode) -> None:
    """Attach a note to the error just reported at ``context``."""
    api.note(message, context, code=code)


def report_failure() -> None:
    """A hook failed on code it did not foresee: the value stays as mypy sees it.

    ``SPMD_MYPY_DEBUG=1`` prints the traceback, ``SPMD_MYPY_DEBUG=raise`` raises (the tests do).
    """
    mode = os.environ.get("SPMD_MYPY_DEBUG")
    if mode == "raise":
        raise  # noqa: PLE0704 - called from an except block
    if mode:
        traceback.print_exc()
