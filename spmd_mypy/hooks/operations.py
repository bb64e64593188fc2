"""Operations that do not communicate: functions, methods, operators and properties of torch.

Builds the call, asks ``rules.operations.judge`` once per combination of union members, reports what it finds and puts the
resulting layout into the type that mypy inferred.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any, Final

from mypy.nodes import MemberExpr, NameExpr
from mypy.plugin import AttributeContext, MethodContext
from mypy.typeops import make_simplified_union
from mypy.types import AnyType, Instance, NoneType, Type, UnionType, get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks import untyped
from spmd_mypy.hooks.arguments import AnyCall, Operand, argument, operands
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.layout import is_tensor, same_type_variable
from spmd_mypy.messages import violation_message
from spmd_mypy.rules import operations as rules
from spmd_mypy.rules.call import Argument, Call, Verdict, Violation

_COMBINATIONS: Final = 16  # more members than this in a call's unions are not told apart


class Operations:
    """The hooks for torch's own operations."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.layouts = bench.layouts

    # ---- entry points

    def call(self, op: str, ctx: AnyCall) -> Type:
        """A function, method or operator."""
        found, options = operands(op, ctx)
        return self._infer(Site(op, ctx.api, ctx.context, found, options), ctx.default_return_type)

    def attribute(self, op: str, ctx: AttributeContext) -> Type:
        """A property such as ``x.T``."""
        if not is_tensor(ctx.type):
            return ctx.default_attr_type
        receiver = ctx.context.expr if isinstance(ctx.context, MemberExpr) else None
        found = [Operand("self", get_proper_type(ctx.type), receiver)]
        return self._infer(Site(op, ctx.api, ctx.context, found, {}), ctx.default_attr_type)

    def operator(self, op: str, ctx: MethodContext) -> Type:
        """An operator of a class that may or may not be a tensor."""
        return self.call(op, ctx) if is_tensor(ctx.type) else ctx.default_return_type

    # ---- inference

    def _infer(self, site: Site, default: Type) -> Type:
        tensors = [o.type for o in site.operands if not o.number]
        if not self._concerns_us(site, tensors):
            return default
        variable = same_type_variable(tensors) if tensors else None
        if variable is not None:
            return self.layouts.put(default, [variable])
        results: list[Type] = []
        reported: set[tuple[str, int]] = set()
        for members in self._members(site):
            verdict = self._judge(site, members)
            self._report(site, members, verdict, reported)
            self._mutate(site, verdict)
            results.append(self._result(site, verdict, default))
        return make_simplified_union(results) if len(results) > 1 else results[0]

    def _concerns_us(self, site: Site, tensors: list[Any]) -> bool:
        """Whether anything here has a type of ours; other code is never touched."""
        for t in tensors:
            members = t.relevant_items() if isinstance(t, UnionType) else [t]
            if any(any(k is not None for k in self.layouts.read(m) or ()) for m in members):
                return True
        return (bool(tensors) and same_type_variable(tensors) is not None) or self.bench.uses_spmd(site.api)

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

    def _judge(self, site: Site, members: list[Operand]) -> Verdict:
        arguments = tuple(argument(self.layouts, o) for o in members)
        site.arguments = arguments
        grad = self.bench.gradients_on(site.api, site.context)
        call = Call(site.op, arguments, site.options, grad)
        return rules.judge(call, axes=self.layouts.size, rng=self.bench.config.rng)

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
        texts = [self.bench.text(site.api, o.expression, o.param or "the operand") for o in members]
        message = violation_message(call, violation, texts, self.bench.axis(violation.axis))
        self.bench.fail(site.api, site.context, message.code, message.text, message.notes)

    def _mutate(self, site: Site, verdict: Verdict) -> None:
        """Re-type the variables that the call has written to."""
        for index, layout in verdict.mutations:
            o = site.operands[index]
            if isinstance(o.expression, NameExpr) and isinstance(o.type, Instance):
                new = self.layouts.put(o.type, [self.layouts.write(layout)])
                compat.retype(site.api, o.expression, new)

    # ---- results

    def _result(self, site: Site, verdict: Verdict, default: Type) -> Type:
        written = [self.layouts.write(layout) for layout in verdict.results]
        if isinstance(get_proper_type(default), AnyType):
            default = untyped.result(self.layouts, site.op, default, len(written) > 1)
        if not written or isinstance(get_proper_type(default), NoneType):
            return default
        return self.layouts.put(default, written)


class Site:
    """One call as it stands in the source."""

    def __init__(self, op: str, api: Any, context: Any, found: list[Operand], options: dict[str, Any]) -> None:
        self.op = op
        self.api = api
        self.context = context
        self.operands = found
        self.options = options
        self.arguments: tuple[Argument, ...] = ()
