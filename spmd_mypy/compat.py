"""Everything that touches mypy's private parts, in one place.

Each function says what it needs and what happens where a mypy version lacks it: the plugin then goes on with
plainer messages or unknown types, never with a crash.  ``tests/plugin/test_compat.py`` says which version broke what.
"""

from __future__ import annotations

import os
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mypy import errors as mypy_errors
from mypy.errorcodes import ErrorCode
from mypy.literals import literal_hash
from mypy.message_registry import ErrorMessage
from mypy.nodes import (
    ARG_POS,
    ArgKind,
    Block,
    ComparisonExpr,
    Context,
    Expression,
    FuncDef,
    LambdaExpr,
    MypyFile,
    OpExpr,
    SymbolTableNode,
    TempNode,
    TypeInfo,
)
from mypy.plugin import AnalyzeTypeContext
from mypy.reachability import mark_block_unreachable
from mypy.types import AnyType, CallableType, Instance, Type, TypeGuardedType, TypeOfAny, get_proper_type

try:
    from mypy.checker_state import checker_state as _checking
except ImportError:
    _checking = None  # type: ignore[assignment, misc]

# After mypy's own patches.
_LAST: Final = 100

ErrorFilter: TypeAlias = Callable[[str, Any], bool]

# A test sets this to see that the plugin works without the private parts.
WITHOUT_PRIVATE: Final = "SPMD_MYPY_WITHOUT_PRIVATE"
_PRIVATE: Final = not os.environ.get(WITHOUT_PRIVATE)


def private_parts() -> bool:
    """Whether to use mypy's private parts at all."""
    return _PRIVATE


class Watcher:
    """Keeps an error filter at the bottom of mypy's stack of error watchers.

    There it sees exactly the errors that mypy is about to record.  ``Errors.reset`` (the daemon, between runs)
    drops it, so :meth:`watch` is called from every hook unless it ``stays``: outside the daemon, once it is in place.
    """

    def __init__(self, keep: ErrorFilter, begin: Callable[[], None] = lambda: None, batch: bool = False) -> None:
        """``begin`` is called whenever mypy starts to record afresh, which it does once in a ``batch`` run."""
        self.stays = False
        self._batch = batch
        self._filter = keep
        self._begin = begin
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
        self.stays = self._batch
        self._begin()


def errors_of(api: Any) -> Any:
    """The Errors object behind any plugin context's ``api``, or None."""
    while not hasattr(api, "errors"):
        api = getattr(api, "api", None)
        if api is None:
            return None
    return api.errors


def stored_type(api: Any, expression: Expression) -> Type | None:
    """The type that mypy has inferred for ``expression`` in the current pass, or None."""
    if not _PRIVATE:
        return None
    try:
        return api.lookup_type(expression)  # type: ignore[no-any-return]
    except (AttributeError, KeyError):
        return None


_guards: dict[Type, TypeGuardedType] = {}


def _guard(new: Type) -> TypeGuardedType:
    """mypy's mark for a type that holds even where it does not fit the declared one.

    One object per type: where two branches give a variable the same one, mypy's binder then sees that it is the same.
    """
    if len(_guards) > 1000:
        _guards.clear()
    return _guards.setdefault(new, TypeGuardedType(new))


def retype(api: Any, expression: Expression, new: Type, *, outside: bool = False) -> bool:
    """Give the variable ``expression`` the type ``new`` from here on, even where it does not fit the declared one.

    Works for names, attributes and literal indices (mypy's binder); False where it could not be done.  With
    ``outside`` the type also holds after the comprehension around the call, whose bindings mypy drops.
    """
    if not private_parts():
        return False
    try:
        api.binder.put(expression, _guard(new))
        if outside and len(api.binder.frames) > 1:
            api.binder._put(literal_hash(expression), _guard(new), True, -2)
    except (AttributeError, TypeError):
        return False
    return True


class _NextAssignment(defaultdict[Any, list[Any]]):
    """Stands where mypy's binder collects assignments from unions, for one assignment: gives its target our type."""

    def __init__(self, api: Any, target: Expression, new: Type) -> None:
        super().__init__(list)
        self._api, self._target, self._new = api, target, new

    def __getitem__(self, key: Any) -> list[Any]:
        self._api.binder.type_assignments = None
        if key is self._target:
            retype(self._api, self._target, self._new)
        return []


def assigned(api: Any, target: Expression, new: Type) -> bool:
    """Give ``target`` the type ``new`` by the assignment whose complaint is being filtered.

    After a complaint about an attribute mypy binds it to its declared type; this comes in between.
    """
    try:
        if not private_parts() or api.binder.type_assignments is not None:
            return False
        api.binder.type_assignments = _NextAssignment(api, target, new)
    except (AttributeError, TypeError):
        return False
    return True


def narrowed_type(api: Any, expression: Expression) -> Type | None:
    """The type that mypy's binder has for a variable here, or None where it is what was declared."""
    if not private_parts():
        return None
    try:
        found = api.binder.get(expression)
    except (AttributeError, AssertionError):
        return None
    return found.type_guard if isinstance(found, TypeGuardedType) else found


def member_type(api: Any, t: Type, name: str, context: Context) -> Type | None:
    """The type of the attribute ``name`` of a value of type ``t``, bound and with ``t``'s arguments put in.

    mypy's own look-up: overloads, decorators, generics and properties are what they are elsewhere; a decorated method
    that is not inferred yet defers the function being checked.  None without the private parts.
    """
    if not private_parts():
        return None
    try:
        return cast("Type", api.expr_checker.analyze_external_member_access(name, t, context))
    except AttributeError:
        return None


def call(api: Any, callee: Type, types: Sequence[Type], context: Context) -> Type:
    """What calling ``callee`` on positional arguments of these types gives; errors are reported at ``context``."""
    arguments = [typed_node(t, context) for t in types]
    return call_with(api, callee, Actuals(arguments, [ARG_POS] * len(arguments)), context)


def typed_node(t: Type, context: Context) -> Expression:
    """An expression of type ``t`` that stands where ``context`` stands."""
    node = TempNode(t)
    node.set_line(context)
    return node


def lambda_type(api: Any, expression: LambdaExpr, types: Sequence[Type]) -> Type | None:
    """The type of a lambda that is called on positional arguments of these types; None without the private parts."""
    if not private_parts():
        return None
    any_ = AnyType(TypeOfAny.special_form)
    parameters = [types[i] if i < len(types) else any_ for i in range(len(expression.arg_kinds))]
    try:
        function = api.named_generic_type("builtins.function", [])
        wanted = CallableType(parameters, expression.arg_kinds, expression.arg_names, any_, function)
        return cast("Type", api.expr_checker.accept(expression, wanted))
    except AttributeError:
        return None


class Actuals(NamedTuple):
    """The arguments of a call that the plugin makes."""

    expressions: Sequence[Expression]
    kinds: Sequence[ArgKind]
    names: Sequence[str | None] | None = None


def call_with(api: Any, callee: Type, given: Actuals, context: Context, fullname: str | None = None) -> Type:
    """What the call ``callee(given)`` gives; errors are reported at ``context``.  Any without the private parts.

    ``fullname`` is the called function's, for hooks.
    """
    if not private_parts():
        return AnyType(TypeOfAny.special_form)
    try:
        names = None if given.names is None else list(given.names)
        result, _ = api.expr_checker.check_call(
            callee, list(given.expressions), list(given.kinds), context, names, callable_name=fullname
        )
    except AttributeError:
        return AnyType(TypeOfAny.special_form)
    return cast("Type", result)


def check_subtype(api: Any, given: Type, declared: Type, context: Context, message: ErrorMessage) -> None:
    """Report, as mypy does at an assignment, where ``given`` does not fit ``declared``."""
    if private_parts() and hasattr(api, "check_subtype"):
        api.check_subtype(given, declared, context, message, "expression has type", "variable has type")


def iterated(api: Any, t: Type) -> Type | None:
    """The type of the elements of an iterable of type ``t``; None where it is none, or mypy cannot say."""
    t = get_proper_type(t)
    no_iterable = isinstance(t, Instance) and not t.type.has_readable_member("__iter__")
    if no_iterable or not private_parts():  # asked all the same, mypy looks for names like __iter__: a millisecond
        return None
    try:
        with api.msg.filter_errors():
            return cast("Type", api.analyze_iterable_item_type_without_expression(t, Context())[1])
    except (AttributeError, IndexError, TypeError):
        return None


def expected_type(api: Any) -> Type | None:
    """The type that the place of the call being checked declares: of ``f(x)`` in ``y: T = f(x)`` it is T."""
    try:
        return cast("Type | None", api.expr_checker.type_context[-1]) if private_parts() else None
    except (AttributeError, IndexError):
        return None


def current_checker() -> Any:
    """The checker of the module that is being checked, where no hook's context says it; None where mypy keeps none."""
    return _checking.type_checker if _PRIVATE and _checking is not None else None


def types_at_hand() -> Iterable[Type] | None:
    """The types of all expressions in the call that mypy asks a function's or method's hook for; None if it can't tell.

    mypy notes them in a table of their own while it checks a call, but for those that it overrides for a while.
    """
    try:
        checker: Any = current_checker()
        tables = checker._type_maps
        return None if len(tables) < 2 or checker.expr_checker.type_overrides else tables[-1].values()
    except (AttributeError, IndexError, TypeError):
        return None


def forget_expected_type(api: Any) -> None:
    """Infer the rest of the call being checked as if its place declared nothing."""
    try:
        if private_parts():
            api.expr_checker.type_context[-1] = None
    except (AttributeError, IndexError):
        return


def enclosing_function(api: Any) -> FuncDef | None:
    """The innermost function whose body is being checked."""
    try:
        function = api.scope.current_function()
    except AttributeError:
        return None
    return function if isinstance(function, FuncDef) else None


def after_functions(api: Any, info: TypeInfo, action: Callable[[], None]) -> None:
    """Do ``action`` when the functions of the file being analyzed have their types, before anything is checked.

    Hooks on classes run earlier.  Not done at all without the private parts.
    """
    if not private_parts() or not hasattr(api, "schedule_patch"):
        return
    tree, options = api.cur_mod_node, api.options

    def patch() -> None:
        try:
            with api.file_context(tree, options, info):
                action()
        except Exception:
            report_failure()

    api.schedule_patch(_LAST, patch)


def current_file(api: Any) -> MypyFile | None:
    """The module that is being checked."""
    tree = getattr(api, "tree", None)
    return tree if isinstance(tree, MypyFile) else None


def module(lookup: Any, name: str) -> MypyFile | None:
    """A module of the build by name, given the plugin's method ``lookup_fully_qualified``."""
    try:
        return cast("MypyFile | None", lookup.__self__._modules.get(name))
    except AttributeError:  # none are set yet, or they are kept elsewhere
        return None


def tree_of(api: Any) -> MypyFile | None:
    """The module that is being analyzed or checked, from any plugin context's ``api``."""
    while api is not None:
        for name in ("tree", "cur_mod_node"):
            tree = getattr(api, name, None)
            if isinstance(tree, MypyFile):
                return tree
        api = getattr(api, "api", None)
    return None


def make_unreachable(tree: MypyFile, block: Block) -> None:
    """Have mypy leave a block alone, as it does one for another platform; its ``type: ignore`` count as unread."""
    mark_block_unreachable(block)
    if block.end_line is not None and block.line > 0:
        tree.skipped_lines.update(range(block.line, block.end_line + 1))


def _trials(context: Context) -> int:
    """Under how many filters mypy tries an operator: ``__add__`` before ``__radd__``, the overloads of ``__eq__``."""
    if isinstance(context, ComparisonExpr):
        return 2 if "==" in context.operators or "!=" in context.operators else 1
    return 1 if isinstance(context, OpExpr) else 0


@contextmanager
def past_operator_trial(api: Any, context: Context) -> Iterator[None]:
    """Report from here past the filters under which mypy tries an operator.

    Were the error caught there, mypy would take the operator for missing and its result for Any.  Only those filters
    are stepped over: where a whole call is on trial (overloads), errors stay caught.
    """
    stack = getattr(errors_of(api), "_watchers", None) if private_parts() else None
    count = min(_trials(context), len(stack) - 1) if stack else 0
    if not stack or count <= 0:
        yield
        return
    stepped_over = stack[-count:]
    del stack[-count:]
    try:
        yield
    finally:
        stack.extend(stepped_over)


@contextmanager
def past_all_trials(api: Any) -> Iterator[None]:
    """Report from here whatever mypy is trying out: for errors that have nothing to do with the call on trial."""
    stack = getattr(errors_of(api), "_watchers", None)
    if not stack or not private_parts():
        yield
        return
    trials = stack[1:]
    del stack[1:]
    try:
        yield
    finally:
        stack.extend(trials)


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


def scope_of(ctx: AnalyzeTypeContext) -> Callable[[str, Context, bool], SymbolTableNode | None] | None:
    """What tells the meanings of names in a type that is being analyzed, without complaint if the last one is True."""
    return getattr(ctx.api, "lookup_qualified", None)


def instance_of(ctx: AnalyzeTypeContext, info: TypeInfo, arguments: Sequence[Type]) -> Type:
    """The analysed type ``info[arguments]``, as mypy would have made it without a hook on ``info``."""
    api: Any = ctx.api
    try:
        return cast("Type", api.analyze_type_with_type_info(info, arguments, ctx.context, False))
    except AttributeError:
        return Instance(info, [api.analyze_type(argument) for argument in arguments])
