"""Operations that do not communicate: functions, methods, operators and properties of torch.

Builds the call, asks ``rules.operations.judge`` once per combination of union members, reports what it finds and puts
the resulting layout into the type that mypy inferred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from mypy.nodes import Expression, MemberExpr, NameExpr
from mypy.plugin import AttributeContext, MethodContext
from mypy.typeops import make_simplified_union
from mypy.types import AnyType, Instance, NoneType, TupleType, Type, UnionType, get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks import branches, untyped
from spmd_mypy.hooks.arguments import (
    AUGMENTED,
    ITERATING,
    AnyCall,
    Operand,
    base_of,
    is_view,
    iterates_others,
    layout_of,
    may_hide,
    operands,
)
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.meshes import report_clash
from spmd_mypy.hooks.pending import report_use
from spmd_mypy.hooks.repeats import Repeats
from spmd_mypy.hooks.zeros import zeros
from spmd_mypy.layout import has_layout, is_parameter, is_tensor, same_type_variable, unknown_type
from spmd_mypy.operation_messages import violation_message
from spmd_mypy.rules import operations as rules
from spmd_mypy.rules.axis import fits, without_gradient
from spmd_mypy.rules.call import Argument, Call, Verdict, Violation
from spmd_mypy.rules.kinds import Layout
from spmd_mypy.rules.ops import Operation

PYTHON: Final = ("builtins.", "math.")
# Attributes of tensors that are tensors, or of which it counts that a tensor is read; shapes and the like have no
# layout.  A list, so that of the attributes of a project's own classes nothing is asked.
PROPERTIES: Final = ("T", "H", "mT", "mH", "data", "real", "imag", "grad_fn", "grad_dtype")
_COMBINATIONS: Final = 16  # more members than this in a call's unions are not told apart


class Operations:
    """The hooks for torch's own operations."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts
        self._repeats = Repeats(self.layouts)
        self._judged: dict[object, Judged] = {}

    # ---- entry points

    def call(self, op: str, ctx: AnyCall) -> Type:
        """A function, method or operator."""
        key = self._repeats.key(op, ctx)
        if key is not None:
            return self._repeated(op, ctx, key)
        return self._call(op, ctx, None) if self._concerns_us(op, ctx) else ctx.default_return_type

    def _repeated(self, op: str, ctx: AnyCall, key: list[Any]) -> Type:
        """What was found of a call with that key, or is now."""
        if not key[0] and not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        key[0] = op if self.bench.gradients_on(ctx.api, ctx.context) else (op,)
        once = tuple(key)
        known = self.layouts.repeated.get(once)
        return known if known is not None else self._call(op, ctx, once)

    def pythons(self, op: str, ctx: AnyCall) -> Type:
        """One of Python's own functions, of which few calls concern us."""
        if not self._concerns_us(op, ctx):
            return ctx.default_return_type
        key = self._repeats.key(op, ctx)
        return self._call(op, ctx, None) if key is None else self._repeated(op, ctx, key)

    def _call(self, op: str, ctx: AnyCall, key: object) -> Type:
        """A call that is looked at in full; its result is kept under ``key`` if there is nothing else to it."""
        if op in ITERATING and iterates_others(ctx):
            return ctx.default_return_type
        found, options = operands(op, ctx)
        site = Site(op, ctx.api, ctx.context, found, options)
        failures = self.bench.failures
        result = self.infer(site, ctx.default_return_type)
        if key is not None and site.repeatable and self.bench.failures == failures and not _is_augmented(op):
            self.layouts.repeated[key] = result
        # ``x += y`` assigns nothing in mypy's eyes: its result must fit x as it was; a new type is set by flow.
        return ctx.type if isinstance(ctx, MethodContext) and _is_augmented(op) else result

    def attribute(self, op: str, ctx: AttributeContext) -> Type:
        """A property such as ``x.T``."""
        if not has_layout(ctx.type):
            return ctx.default_attr_type
        if ctx.is_lvalue:
            return self._assigned(ctx)
        receiver = ctx.context.expr if isinstance(ctx.context, MemberExpr) else None
        found = [Operand("self", get_proper_type(ctx.type), receiver)]
        return self.infer(Site(op, ctx.api, ctx.context, found, {}), ctx.default_attr_type)

    def _assigned(self, ctx: AttributeContext) -> Type:
        """What ``x.data = y`` takes: what ``x`` is declared to be."""
        layout = self.layouts.read(ctx.type) or self.layouts.unknown
        kept = tuple(None if kind is None or kind.constant else kind for kind in layout)
        return self.layouts.put(ctx.default_attr_type, [self.layouts.write(self.layouts.intern(kept))])

    def operator(self, op: str, ctx: MethodContext) -> Type:
        """An operator of a class, or of the members of a union, that may or may not be tensors."""
        t = get_proper_type(ctx.type)
        members = t.relevant_items() if isinstance(t, UnionType) else [t]
        return self.call(op, ctx) if all(is_tensor(member) for member in members) else ctx.default_return_type

    def _concerns_us(self, op: str, ctx: AnyCall) -> bool:
        """Whether anything here has a type of ours or may get one; other code is never touched.

        Constants are inferred only in modules that import SPMD types, and Python's own functions make none.
        """
        if isinstance(ctx, MethodContext) and has_layout(ctx.type):
            return True
        if any([has_layout(t) for types in ctx.arg_types for t in types]):  # a list: there are one or two
            return True
        if op.startswith(PYTHON):
            # ``sum([x, y])``: mypy gives the display the type that ``sum`` asks for.
            return any([may_hide(ctx.api, e) for expressions in ctx.args for e in expressions])
        return self.bench.uses_spmd(ctx.api)

    # ---- inference

    def infer(self, site: Site, default: Type) -> Type:
        """The type of what ``site`` gives, ``default`` with layouts put in; reports what the rules refuse."""
        used = report_use(self.bench, site.api, site.context, site.operands, site.op)
        if used or report_clash(self.bench, site.api, site.context, site.op, site.operands):
            return self.layouts.put(default, [unknown_type()])
        if not any(isinstance(o.type, UnionType) for o in site.operands):
            return self._one(site, site.operands, default, set())
        reported: set[tuple[str, int]] = set()
        results = [self._one(site, members, default, reported) for members in self._members(site)]
        return make_simplified_union(results) if len(results) > 1 else results[0]

    def _one(self, site: Site, members: list[Operand], default: Type, reported: set[tuple[str, int]]) -> Type:
        """The result for one choice of union members."""
        layouts = [layout_of(self.layouts, o) for o in members]
        if all(layout is None or layout is self.layouts.unknown for layout in layouts):
            tensors = [o.type for o in members if not o.number]
            variable = same_type_variable(tensors) if tensors else None
            if variable is not None:
                return self.layouts.put(default, [variable])
        judged = self._judge(site, members, layouts)
        site.repeatable = not judged.verdict.violations and not judged.verdict.mutations
        if judged.verdict.violations:
            judged = self._without_zeros(site, members, layouts, judged)
        site.arguments = judged.call.arguments
        if judged.verdict.violations:
            self._report(site, members, judged.verdict, reported)
        if judged.verdict.mutations:
            self._mutate(site, judged.verdict)
        return self._result(site, judged, default)

    def _members(self, site: Site) -> Iterator[list[Operand]]:
        """Every combination of the members of unions among the operands."""
        choices: list[list[Operand]] = []
        for o in site.operands:
            if isinstance(o.type, UnionType) and not o.number:
                members = [get_proper_type(m) for m in o.type.relevant_items() if is_tensor(m)]
                choices.append([replace(o, type=m) for m in members] or [o])
            else:
                choices.append([o])
        total = prod(len(choice) for choice in choices)
        if total > _COMBINATIONS:
            choices = [[o] for o in site.operands]
        for members in product(*choices):
            yield list(members)

    def _judge(self, site: Site, members: list[Operand], layouts: list[Layout | None]) -> Judged:
        """The rules' verdict; calls repeat, and equal layouts are one object, so that a look-up is cheap."""
        grad = self.bench.gradients_on(site.api, site.context)
        parts = [(o.param, o.value if o.number else id(layout)) for o, layout in zip(members, layouts, strict=True)]
        key = (site.op, site.operation, grad, tuple(parts), tuple(site.options.items()))
        judged = self._judged.get(key)
        if judged is None:
            arguments = tuple(Argument(o.param, layout, o.value) for o, layout in zip(members, layouts, strict=True))
            call = Call(site.op, arguments, site.options, grad)
            verdict = self._ask(site)(call)
            verdict = verdict._replace(results=tuple(self.layouts.intern(layout) for layout in verdict.results))
            judged = self._judged[key] = Judged(call, verdict)
        return judged

    def _without_zeros(
        self, site: Site, members: list[Operand], layouts: list[Layout | None], judged: Judged
    ) -> Judged:
        """The verdict where fresh operands, and numbers, that are zero for sure count as nothing."""
        found = [
            (o.number or any(kind is not None and kind.factory for kind in layout or ()))
            and zeros(self.bench, site.api, o.expression)
            for o, layout in zip(members, layouts, strict=True)
        ]
        if not any(found):
            return judged
        arguments = [a._replace(value=0) if zero else a for a, zero in zip(judged.call.arguments, found, strict=True)]
        call = judged.call._replace(arguments=tuple(arguments))
        return Judged(call, self._ask(site)(call))

    def _ask(self, site: Site) -> Callable[[Call], Verdict]:
        return partial(rules.judge, operation=site.operation, axes=self.layouts.size, rng=self.bench.config.rng)

    def _report(self, site: Site, members: list[Operand], verdict: Verdict, reported: set[tuple[str, int]]) -> None:
        for violation in verdict.violations:
            key = (violation.reason, violation.axis)
            if key in reported or self._really_unknown(site, violation):
                continue
            reported.add(key)
            self._fail(site, members, violation)

    def _really_unknown(self, site: Site, violation: Violation) -> bool:
        """Whether a culprit is one member of a union that is unknown on this axis.

        mypy hands a method each member of its receiver's union apart, and reads a name that was re-assigned an unknown
        tensor as a union with its old type: what joins with unknown is unknown.
        """
        for index in violation.culprits:
            o = site.operands[index] if index < len(site.operands) else None
            if o is None:
                continue
            whole = compat.stored_type(site.api, o.expression) if o.expression is not None else None
            if violation.axis in self.layouts.open_axes(whole if whole is not None else o.type):
                return True
        return False

    def _fail(self, site: Site, members: list[Operand], violation: Violation) -> None:
        call = Call(site.op, site.arguments, site.options, True)
        texts = [self._text(site, o, members) for o in members]
        trained = [at for at, o in enumerate(members) if is_parameter(o.type)]
        message = violation_message(call, violation, texts, self.bench.axis(violation.axis), self._ask(site), trained)
        branch = self._branch(site, violation)
        self.bench.fail(site.api, site.context, message.code, message.text + branch, message.notes)

    def _text(self, site: Site, o: Operand, members: list[Operand]) -> str:
        """An operand as it is written; of a tuple ``pair[0]``, of another container ``xs[...]``."""
        if o.expression is not None or o.container is None:
            return self.bench.text(site.api, o.expression, _fallback_text(o))
        whole = compat.stored_type(site.api, o.container)
        whole = get_proper_type(whole) if whole is not None else None
        beside = [other for other in members if other.container is o.container]
        items = whole.items if isinstance(whole, TupleType) else []
        each = len(items) == len(beside) and all(map(is_tensor, items))
        place = next(at for at, other in enumerate(beside) if other is o) if each else "..."
        return f"{self.bench.text(site.api, o.container, o.param)}[{place}]"

    def _branch(self, site: Site, violation: Violation) -> str:
        """Which branch makes a culprit what it is, where another makes it something else; of the first such culprit."""
        for at in violation.culprits:
            layout = site.arguments[at].layout if at < len(site.operands) else None
            kind = layout[violation.axis] if layout is not None else None
            if kind is not None:
                expression = site.operands[at].expression
                note = branches.note(self.bench, site.api, expression, violation.axis, kind)
                if note:
                    return note
        return ""

    def _mutate(self, site: Site, verdict: Verdict) -> None:
        """Re-type the variables that the call has written to; a write into a view is one into what it views."""
        for index, layout in verdict.mutations:
            target = site.operands[index].expression
            base = base_of(target) if target is not None else None
            if target is not None and base is not target and (_is_augmented(site.op) or is_view(site.api, target)):
                self._fit(site, base, layout)
            if base is not None and isinstance(base, NameExpr):
                self._retype(site, base, layout if base is target else self._partly_written(site, base, layout))

    def _fit(self, site: Site, base: Expression | None, layout: Layout) -> None:
        """A write into a view is one into its base, whose type the view may have lost.

        So it is with ``x.data.add_(v)``, and with ``x[i] += v`` where ``i`` varies.
        """
        whole = compat.stored_type(site.api, base) if base is not None else None
        old = self.layouts.read(whole) if whole is not None else None
        for axis, (was, new) in enumerate(zip(old or (), layout, strict=False)):
            if not fits(was, without_gradient(new)):
                site.operands[0] = replace(site.operands[0], expression=base)
                site.arguments = (site.arguments[0]._replace(layout=old), *site.arguments[1:])
                self._fail(site, site.operands, Violation("inplace", axis, (0,), new))

    def _partly_written(self, site: Site, base: Expression, layout: Layout) -> Layout:
        """The layout of a tensor after ``layout`` was written into a part of it."""
        whole = compat.stored_type(site.api, base)
        old = self.layouts.read(whole) if whole is not None else None
        if old is None:
            return self.layouts.unknown
        return tuple(new if kind is not None and kind.constant else kind for kind, new in zip(old, layout, strict=True))

    def _retype(self, site: Site, name: NameExpr, layout: Layout) -> None:
        t = compat.stored_type(site.api, name)
        t = get_proper_type(t) if t is not None else None
        if isinstance(t, Instance) and is_tensor(t) and self.layouts.read(t) != layout:
            compat.retype(site.api, name, self.layouts.put(t, [self.layouts.write(layout)]))

    # ---- results

    def _result(self, site: Site, judged: Judged, default: Type) -> Type:
        written = [self.layouts.write(layout) for layout in judged.verdict.results]
        if isinstance(get_proper_type(default), AnyType):
            default = untyped.result(self.layouts, site.op, site.options, default, len(written) > 1)
        if not written or isinstance(get_proper_type(default), NoneType):
            return default
        return self.layouts.put(default, written)


class Judged(NamedTuple):
    """A call and the verdict on it."""

    call: Call
    verdict: Verdict


def _fallback_text(o: Operand) -> str:
    return repr(o.value) if o.number and isinstance(o.value, int | float) else o.param or "the operand"


def _is_augmented(op: str) -> bool:
    return op.startswith("Tensor.__i") and op.removeprefix("Tensor.__i").removesuffix("__") in AUGMENTED


class Site:
    """One call as it stands in the source."""

    def __init__(
        self,
        op: str,
        api: Any,
        context: Any,
        found: list[Operand],
        options: dict[str, Any],
        operation: Operation | None = None,
    ) -> None:
        self.op = op
        self.operation = operation  # of a project's own, else None
        self.api = api
        self.context = context
        self.operands = found
        self.options = options
        self.arguments: tuple[Argument, ...] = ()
        self.repeatable = False  # nothing was reported or re-typed
