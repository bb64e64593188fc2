"""Functions of torch under another name: ``self.act = F.gelu``, ``act = torch.relu``, ``reduce = all_reduce``.

mypy names the variable that is called, and forgets in its type which function it holds.  What is assigned to it tells:
to a local name in the syntax tree, to an attribute or a module's variable in the source of the module that defines it,
since mypy's cache keeps no syntax trees.  Where anything else may be assigned, the call is not known; nor is it where
the types of two functions differ, since mypy has no hook for calls of a union.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from mypy.nodes import (
    CallExpr,
    ConditionalExpr,
    Decorator,
    Expression,
    FuncDef,
    MypyFile,
    NameExpr,
    OverloadedFuncDef,
    RefExpr,
    SuperExpr,
    Var,
)
from mypy.plugin import FunctionContext, MethodContext
from mypy.types import FunctionLike, Type, get_proper_type

from spmd_mypy import compat
from spmd_mypy.hooks.arguments import AnyCall
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.meanings import Meanings
from spmd_mypy.hooks.scopes import key_of
from spmd_mypy.layout import Lookup
from spmd_mypy.source import text_of

FunctionHook = Callable[[FunctionContext], Type]
# Names of functions by the dotted name of what holds them within its module; None where something else may be there.
Values = Mapping[str, "tuple[str, ...] | None"]

_FUNCTIONS: Final = (FuncDef, OverloadedFuncDef, Decorator, Var)


class Held:
    """The hooks for calls of variables that hold a function.

    ``hook_for`` gives the handler of a function by its full name; ``parent`` handles calls through ``super()``.
    """

    def __init__(
        self,
        bench: Workbench,
        lookup: Lookup,
        meanings: Meanings,
        hook_for: Callable[[str], FunctionHook | None],
        parent: FunctionHook,
    ) -> None:
        self.bench = bench
        self._lookup = lookup
        self._meanings = meanings
        self._hook_for = hook_for
        self._parent = parent
        self._modules: dict[str, tuple[object, object, Values]] = {}

    # ---- entry points

    def unnamed(self, ctx: FunctionContext) -> Type:
        """A call whose callee mypy knows by a bare name: a local variable, or a method through ``super()``."""
        callee = ctx.context.callee if isinstance(ctx.context, CallExpr) else None
        if callee is None or not self.bench.uses_spmd(ctx.api):
            return ctx.default_return_type
        if isinstance(callee, SuperExpr):
            return self._parent(ctx)
        if not isinstance(callee, NameExpr) or not isinstance(callee.node, Var):
            return ctx.default_return_type
        key = key_of(callee)
        found, from_before = self.bench.scopes.around(ctx.api).reaching(key, callee.line) if key else ([], True)
        names: list[str] = []
        for definition in found:
            values = list(_references(definition.value)) if not definition.part else [None]
            names.extend(value.fullname for value in values if value is not None)
            from_before = from_before or None in values
        return ctx.default_return_type if from_before else self._call(ctx, tuple(dict.fromkeys(names)))

    def named(self, fullname: str) -> Callable[[AnyCall], Type] | None:
        """The handler for calls of an attribute or of a module's variable; None for other names."""
        node = self._meanings.of(fullname)
        if not isinstance(node, Var) or node.is_property or not isinstance(get_proper_type(node.type), FunctionLike):
            return None
        return partial(self._variable, node)

    def _variable(self, node: Var, ctx: AnyCall) -> Type:
        names = self._names(node) if self.bench.uses_spmd(ctx.api) else None
        return ctx.default_return_type if names is None else self._call(as_function(ctx), names)

    def _call(self, ctx: FunctionContext, names: tuple[str, ...]) -> Type:
        """The call as one of each function; what the first of them may not take is an error."""
        result: Type | None = None
        for name in names:
            hook = self._hook_for(name)
            if hook is None:
                return ctx.default_return_type
            before = self.bench.failures
            found = hook(ctx)
            if self.bench.failures > before:
                return found
            if result is not None and found != result:
                return ctx.default_return_type
            result = found
        return ctx.default_return_type if result is None else result

    # ---- attributes and variables of modules

    def _names(self, node: Var) -> tuple[str, ...] | None:
        """The functions that a variable holds, by full name."""
        info = node.info
        module = info.module_name if info else node.fullname.rpartition(".")[0]
        tree = compat.module(self._lookup, module)
        if tree is None:
            return None
        inner = info.fullname[len(module) + 1 :] + "." if info else ""
        return self._of_module(module, tree).get(inner + node.name)

    def _of_module(self, module: str, tree: MypyFile) -> Values:
        known = self._modules.get(module)
        if known is None or known[0] is not tree or known[1] is not tree.defs:
            text = text_of(tree.path) or ""
            known = self._modules[module] = (tree, tree.defs, self._read(tree, text))
        return known[2]

    def _read(self, tree: MypyFile, text: str) -> Values:
        found: dict[str, tuple[str, ...] | None] = {}
        try:
            bindings = list(_bindings(ast.parse(text)))
        except SyntaxError:
            return found
        for name, value in bindings:
            functions = tuple(self._function(tree, e) for e in _alternatives(value))
            named = tuple(f for f in functions if f is not None)
            before = found.get(name, ())
            found[name] = None if before is None or len(named) < len(functions) else (*before, *named)
        return found

    def _function(self, tree: MypyFile, expression: ast.expr | None) -> str | None:
        """The full name of the function that an expression at module level of ``tree`` stands for."""
        if not isinstance(expression, ast.Name | ast.Attribute):
            return None
        head, *rest = ast.unparse(expression).split(".")
        symbol = tree.names.get(head)
        for part in rest:
            node = symbol.node if symbol is not None else None
            if not isinstance(node, MypyFile):
                return None
            symbol = node.names.get(part) or self._lookup(f"{node.fullname}.{part}")
        node = symbol.node if symbol is not None else None
        return node.fullname if isinstance(node, _FUNCTIONS) else None


def as_function(ctx: AnyCall) -> FunctionContext:
    """The call of an attribute as one of a function: without receiver."""
    if not isinstance(ctx, MethodContext):
        return ctx
    return FunctionContext(
        ctx.arg_types,
        ctx.arg_kinds,
        ctx.callee_arg_names,
        ctx.arg_names,
        ctx.default_return_type,
        ctx.args,
        ctx.context,
        ctx.api,
    )


def _references(value: Expression | None) -> Iterator[RefExpr | None]:
    """The functions that ``value`` may be; None for anything else."""
    if isinstance(value, ConditionalExpr):
        yield from _references(value.if_expr)
        yield from _references(value.else_expr)
    else:
        # A local name has no full name; what it holds is not followed further.
        named = isinstance(value, RefExpr) and isinstance(value.node, _FUNCTIONS) and "." in value.fullname
        yield value if named and isinstance(value, RefExpr) else None


def _alternatives(value: ast.expr | None) -> Iterator[ast.expr | None]:
    if isinstance(value, ast.IfExp):
        yield from _alternatives(value.body)
        yield from _alternatives(value.orelse)
    else:
        yield value


def _bindings(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """What a module's variables (``act``) and its classes' attributes (``Block.act``) are assigned."""
    for node in tree.body:
        for target, value in _assigned(node):
            if isinstance(target, ast.Name):
                yield target.id, value
    for name, cls in _classes(tree.body, ""):
        for node in ast.walk(cls):
            for target, value in _assigned(node):
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                    yield f"{name}.{target.attr}", value


def _classes(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _classes(node.body, f"{prefix}{node.name}.")


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Every target in an assignment, with the value where the target is all of it."""
    if isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
        yield node.target, node.value if isinstance(node, ast.NamedExpr) else None
    elif isinstance(node, ast.For):
        yield from ((target, None) for target in ast.walk(node.target) if isinstance(target, ast.expr))
    elif isinstance(node, ast.Assign):
        for whole in node.targets:
            for target in ast.walk(whole):
                if isinstance(target, ast.expr):
                    yield target, node.value if target is whole else None
