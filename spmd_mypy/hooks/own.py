"""A project's own operations: roles from ``[tool.spmd-mypy.rules]`` or from the decorator ``spmd.rule``.

mypy's cache keeps no decorators, so the roles that a decorator gives are read from the module's source, once a module.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from mypy.nodes import MypyFile, RefExpr
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import AnyType, Type, get_proper_type

from spmd_mypy import compat
from spmd_mypy.fullnames import RUNTIME
from spmd_mypy.hooks.arguments import AnyCall, Operand, leaves, operands, option
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.operations import Operations, Site
from spmd_mypy.layout import Lookup, has_layout, unknown_type
from spmd_mypy.rules.call import OptionValue
from spmd_mypy.rules.ops import Operation, custom
from spmd_mypy.source import text_of

CUSTOM_OP_CALL: Final = "torch._library.custom_ops.CustomOpDef.__call__"


class Own(NamedTuple):
    """An operation of the project's own: its row, and its parameters in order where the source tells them."""

    operation: Operation
    parameters: tuple[str, ...] = ()


def _rule_names(tree: ast.Module) -> set[str]:
    """How the module spells the decorator: ``rule``, ``spmd.rule``."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(RUNTIME):
            names.update(alias.asname or alias.name for alias in node.names if alias.name == "rule")
        elif isinstance(node, ast.Import):
            names.update(f"{alias.asname or alias.name}.rule" for alias in node.names if alias.name == RUNTIME)
    return names


def _roles(decorator: ast.expr, spelled: set[str]) -> dict[str, object] | None:
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) not in spelled:
        return None
    try:
        return {keyword.arg: ast.literal_eval(keyword.value) for keyword in decorator.keywords if keyword.arg}
    except ValueError:
        return None


def declared(text: str) -> Iterator[tuple[str, Own]]:
    """The functions of a module that carry the decorator, with their rows; wrong roles the runtime refuses."""
    tree = ast.parse(text)
    spelled = _rule_names(tree)
    for node in tree.body if spelled else ():
        if not isinstance(node, ast.FunctionDef):
            continue
        for decorator in node.decorator_list:
            roles = _roles(decorator, spelled)
            if roles is None:
                continue
            parameters = tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args))
            try:
                yield node.name, Own(custom(node.name, roles), parameters)
            except ValueError:
                continue


class OwnOperations:
    """The hooks for a project's own operations."""

    def __init__(self, bench: Workbench, operations: Operations, lookup: Lookup) -> None:
        self.bench = bench
        self.operations = operations
        self._lookup = lookup
        self.configured = {name: Own(custom(name, roles)) for name, roles in bench.config.rules.items()}
        self._declared: dict[str, tuple[MypyFile, object, Mapping[str, Own]]] = {}

    def find(self, fullname: str) -> Own | None:
        """The row of the function ``fullname``, or None where it has none."""
        configured = self.configured.get(fullname)
        if configured is not None:
            return configured
        module, _, name = fullname.rpartition(".")
        tree = compat.module(self._lookup, module)
        return self._of_module(module, tree).get(name) if tree is not None else None

    def _of_module(self, module: str, tree: MypyFile) -> Mapping[str, Own]:
        known = self._declared.get(module)
        if known is None or known[0] is not tree or known[1] is not tree.defs:
            text = text_of(tree.path) or ""
            rows = dict(declared(text)) if "rule(" in text and RUNTIME in text else {}
            known = self._declared[module] = (tree, tree.defs, rows)
        return known[2]

    def hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The handler for calls of the function ``fullname``."""
        own = self.find(fullname)
        return None if own is None else partial(self._call, fullname, own)

    def custom_op(self, ctx: MethodContext) -> Type:
        """A call of what ``torch.library.custom_op`` made."""
        callee = getattr(ctx.context, "callee", None)
        if not isinstance(callee, RefExpr) or (own := self.find(callee.fullname)) is None:
            return ctx.default_return_type
        return self._call(callee.fullname, own, ctx)

    def _call(self, fullname: str, own: Own, ctx: AnyCall) -> Type:
        found, options = self._operands(fullname, own, ctx)
        site = Site(fullname, ctx.api, ctx.context, found, options, own.operation)
        default = ctx.default_return_type
        if isinstance(get_proper_type(default), AnyType):
            default = self.bench.layouts.tensor(unknown_type())
        result = self.operations.infer(site, default)
        # What the annotations say of the result holds; the roles judge the arguments all the same.
        return ctx.default_return_type if has_layout(ctx.default_return_type) else result

    def _operands(self, fullname: str, own: Own, ctx: AnyCall) -> tuple[list[Operand], dict[str, OptionValue]]:
        if isinstance(ctx, FunctionContext):
            return operands(fullname, ctx)
        found: list[Operand] = []
        options: dict[str, OptionValue] = {}
        given = [
            (own.parameters[i] if name is None and i < len(own.parameters) else name or "", t, expression)
            for types, names, expressions in zip(ctx.arg_types, ctx.arg_names, ctx.args, strict=True)
            for i, (t, name, expression) in enumerate(zip(types, names, expressions, strict=True))
        ]
        for name, t, expression in given:
            here = list(leaves(ctx.api, name, t, expression))
            found.extend(here)
            if not here:
                options[name] = option(ctx.api, expression)
        return found, options
