"""Tables from full name to handler, nothing else; ``spmd_mypy.plugin`` is what mypy loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from mypy.nodes import Decorator, FuncDef, OverloadedFuncDef, TypeInfo
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    MethodContext,
    MethodSigContext,
)
from mypy.plugins.default import DefaultPlugin
from mypy.types import FunctionLike, Type

from spmd_mypy import compat
from spmd_mypy.config import Config
from spmd_mypy.fullnames import (
    GENERIC_TENSORS,
    GROUP,
    GROUP_ALIAS,
    RUNTIME,
    SHARD,
    TENSOR,
    TENSOR_ALIASES,
    TENSOR_BASE,
    TYPES,
    canonical,
    method_of_union,
)
from spmd_mypy.hooks import fields, untyped
from spmd_mypy.hooks.annotations import Annotations, make_generic
from spmd_mypy.hooks.at_hand import AtHand
from spmd_mypy.hooks.base import Workbench
from spmd_mypy.hooks.collectives import Collectives
from spmd_mypy.hooks.configurations import Flags
from spmd_mypy.hooks.flow_table import FlowTable
from spmd_mypy.hooks.gradients import Gradients
from spmd_mypy.hooks.held import Held
from spmd_mypy.hooks.inference import FunctionSigHook, Inference
from spmd_mypy.hooks.iteration import Iteration
from spmd_mypy.hooks.lookups import Kept, Quick, Silent
from spmd_mypy.hooks.meanings import Meanings
from spmd_mypy.hooks.module_table import ANY_CLASS, ModuleTable
from spmd_mypy.hooks.operations import PROPERTIES, PYTHON, Operations
from spmd_mypy.hooks.own import CUSTOM_OP_CALL, OwnOperations
from spmd_mypy.hooks.signatures import STOCK
from spmd_mypy.hooks.strict import Strict
from spmd_mypy.layout import Lookup
from spmd_mypy.rules.ops import known

FunctionHook: TypeAlias = Callable[[FunctionContext], Type]
MethodHook: TypeAlias = Callable[[MethodContext], Type]
AttributeHook: TypeAlias = Callable[[AttributeContext], Type]

_COLLECTIVES: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "redistribute", "unshard")
_LOCAL: Final = ("convert", "reinterpret", "invariant_to_replicate", "shard")
# Functions outside torch that the rules have rows for.  Generic ones (list, zip, enumerate, ...) need none: mypy
# carries the elements' types through them.
_PYTHON_MODULES: Final = ("_operator.", "operator.", "math.", "copy.")
_TORCHS_AND_PYTHONS: Final = ("torch.", *_PYTHON_MODULES)
_NOT_OURS: Final = ("torch.", "builtins.", "typing.", f"{RUNTIME}.")
_DEFINED: Final = (FuncDef, OverloadedFuncDef, Decorator, TypeInfo)
_WITH_RULES: Final = (*_NOT_OURS, *_PYTHON_MODULES)
_DISPLAY: Final = "<"  # ``<list>``: mypy checks displays and comprehensions as calls, of which there is nothing to say
_PARENT: Final = "__init__ of "  # through ``super()``
_CALL: Final = "_.__call__"  # of any class of a project
_ALWAYS_THE_SAME: Final = (*_NOT_OURS, _DISPLAY, _PARENT)
_BUILTINS: Final = frozenset(
    f"builtins.{name}"
    for name in (
        "sum", "max", "min", "sorted", "abs", "round", "pow", "float", "int", "bool", "complex", "str", "repr",
        "format", "print",
    )
)  # fmt: skip
_OPERATORS: Final = frozenset(
    f"__{prefix}{name}__"
    for name in (
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift",
    )
    for prefix in ("", "r", "i")
) | {"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__pos__", "__abs__", "__invert__",
     "__getitem__", "__setitem__"}  # fmt: skip


class Dispatch:
    """Dispatch from mypy's hooks to the handlers in ``spmd_mypy.hooks``."""

    def __init__(self, config: Config, options: Options, lookup: Lookup) -> None:
        self.config = config
        self._batch = not options.fine_grained_incremental
        self._mypys = DefaultPlugin(options)
        self.bench = Workbench(self.config, options, lookup)
        self.annotations = Annotations(self.config, self.bench.layouts, stay=self._batch)
        self.operations = Operations(self.bench)
        self.collectives = Collectives(self.bench)
        self.gradients = Gradients(self.bench)
        self.modules = ModuleTable(self.bench, self.operations)
        self.over_time = FlowTable(self.bench)
        self.own = OwnOperations(self.bench, self.operations, lookup)
        self.strict = Strict(self.bench)
        self.flags = Flags(config.flags)
        self._meanings = Meanings(lookup, stay=self._batch)
        self.inference = Inference(self._meanings)
        self._without_context = self._guard_signature(self.inference.without_context)
        self.held = Held(self.bench, lookup, self._meanings, self._known_function, self.modules.modules.parent)
        self._on_tensors: set[Callable[[Any], Type]] = set()
        self._functions: dict[str, FunctionHook | None] = self._named_functions()
        self._methods: dict[str, MethodHook | None] = {
            "torch._tensor.Tensor.backward": self._guard(self.gradients.backward),
            CUSTOM_OP_CALL: self._guard(self.own.custom_op),
            "builtins.str.format": self._guard_operation("builtins.format"),  # f-strings, too
        }
        self._methods.update(self._guarded(self.modules.methods()))
        self._attributes: dict[str, AttributeHook] = self._tensor_attributes()
        self._attributes.update(self._guarded(self.modules.attributes()))
        self._attributes.update(self._guarded(fields.attributes()))
        self._methods.update(self._guarded(self.over_time.methods()))
        for name in untyped.POWERS:
            self._methods[name] = self._guard(partial(untyped.power, self.bench))
        self._attributes.update(self._guarded(self.over_time.attributes()))
        self._silent = Silent(
            self._meanings, _WITH_RULES, self._functions, self.own.configured, self._methods, _OPERATORS | ANY_CLASS,
            self.strict.on,
        )  # fmt: skip
        self._types = self._named_types()
        self._classes = {**dict.fromkeys(GENERIC_TENSORS, make_generic), **self.modules.classes()}

    # ---- tables by full name

    def _named_functions(self) -> dict[str, FunctionHook | None]:
        table: dict[str, FunctionHook | None] = {}
        for module, names in (("collectives", _COLLECTIVES), ("local", _LOCAL)):
            for name in names:
                table[f"{RUNTIME}.{module}.{name}"] = self._guard(partial(self.collectives.call, name))
        table[untyped.ADD_DOCSTR] = self._guard(untyped.documented)
        table[untyped.BOOLEAN_DISPATCH] = self._guard(untyped.dispatched)
        for name, hook in Iteration(self.bench.layouts).functions().items():
            table[name] = self._of_tensors(hook)
        table[f"{RUNTIME}.local.axis_index"] = self._guard(self.collectives.axis_index)
        table.update(self._guarded(self.modules.functions()))
        table["torch.autograd.backward"] = self._guard(self.gradients.autograd_backward)
        table["torch.autograd.grad"] = self._guard(self.gradients.autograd_grad)
        table[f"{RUNTIME}.local.axis_size"] = self._guard(self.collectives.axis_size)
        table.update(self._guarded(self.over_time.functions()))
        return table

    def _tensor_attributes(self) -> dict[str, AttributeHook]:
        hooks: dict[str, AttributeHook] = {"grad": self.gradients.grad}
        hooks.update({name: partial(self.operations.attribute, f"Tensor.{name}") for name in PROPERTIES})
        return {f"{base}.{name}": self._guard(hook) for name, hook in hooks.items() for base in (TENSOR, TENSOR_BASE)}

    def _named_types(self) -> dict[str, Callable[[AnalyzeTypeContext], Type]]:
        table: dict[str, Callable[[AnalyzeTypeContext], Type]] = {
            alias: self.strict.annotation(partial(self.annotations.tensor, class_name))
            for alias, class_name in TENSOR_ALIASES.items()
        }
        for name in (SHARD, f"{TYPES}.S"):
            table[name] = self.annotations.shard
        for name in (GROUP_ALIAS, GROUP):
            table[name] = self.annotations.group
        return {name: self._annotation(hook) for name, hook in table.items()}

    # ---- safety

    def _prepare(self, ctx: Any) -> None:
        """Put the watcher in place if it is not, and mark what the module has for other configurations."""
        watcher = self.bench.watcher
        if not watcher.stays and not watcher.watching:
            watcher.watch(compat.errors_of(ctx.api))
        if self.flags:
            self.flags.mark(compat.tree_of(ctx.api))

    def _guard(self, hook: Callable[[Any], Type]) -> Callable[[Any], Type]:
        """``hook`` that never raises: whatever the syntax tree holds, mypy finishes; and the watcher is in place."""
        watcher, flagged, prepare = self.bench.watcher, bool(self.flags), self._prepare

        def guarded(ctx: Any) -> Type:
            if flagged or not watcher.stays:
                prepare(ctx)
            try:
                return hook(ctx)
            except Exception:
                compat.report_failure()
                return default_of(ctx)

        return guarded

    def _of_tensors(self, hook: Callable[[Any], Type]) -> Callable[[Any], Type]:
        """``hook``, which has nothing to do where no argument is a tensor: as in most calls of Python's own functions.

        Not for methods of what may be a tensor: the receiver is not at hand when mypy asks.
        """
        guarded = self._guard(hook)
        self._on_tensors.add(guarded)
        return guarded

    def _watched(self, fullname: str, hook: Callable[[Any], Type] | None) -> Callable[[Any], Type] | None:
        strict = self.strict.call(fullname, hook, default_of)
        return strict if strict is hook or strict is None else self._guard(strict)

    def _guarded(self, hooks: Mapping[str, Callable[[Any], Type]]) -> dict[str, Callable[[Any], Type]]:
        return {name: self._guard(hook) for name, hook in hooks.items()}

    # ---- mypy's interface

    def lookups(self) -> dict[str, Callable[[str], Any]]:
        """What answers mypy's questions from the first on, by the name of the plugin's method."""
        sometimes = ((self._without_context,), self.inference.needed)
        # Where modules are marked for other configurations, hooks do it.
        on_tensors = (() if self.flags else self._on_tensors, AtHand(self.bench.watcher).tensors)
        functions = Kept(self.get_function_hook, self._settled, on_tensors)
        methods = Kept(self.get_method_hook, self._settled_method, on_tensors)
        function_signatures = Kept(self.get_function_signature_hook, self.inference.settled, sometimes)
        method_signatures = Kept(self.get_method_signature_hook, None, sometimes)
        called = (self.get_method_signature_hook(_CALL), self.get_method_hook(_CALL))
        of_functions, of_methods = (function_signatures, functions), (method_signatures, methods)
        quick = Quick(self._silent, self.bench.watcher, of_functions, of_methods, called)
        functions.quick = function_signatures.quick = quick.function
        method_signatures.quick = quick.method
        return {
            "get_type_analyze_hook": self._types.get,
            "get_function_hook": functions.__getitem__,
            "get_function_signature_hook": function_signatures.__getitem__,
            "get_method_hook": methods.__getitem__,
            "get_method_signature_hook": method_signatures.__getitem__,
            "get_attribute_hook": self._attributes.get,
            "get_class_attribute_hook": Kept(self.get_class_attribute_hook).__getitem__,
            "get_customize_class_mro_hook": self.get_customize_class_mro_hook if self.flags else self._classes.get,
            "get_base_class_hook": Kept(self.get_base_class_hook, self._settled).__getitem__,
        }

    def _settled(self, fullname: str) -> bool:
        """Whether a name always means the same: not what a project defines and the daemon may see come and go.

        Nor variables, of which mypy has not inferred what they hold.
        """
        if not self.bench.watcher.watching:
            return False
        if "." not in fullname or fullname.startswith(_ALWAYS_THE_SAME):  # in a function the name says nothing
            return True
        return self._batch and isinstance(self._meanings.of(fullname), _DEFINED)

    def _settled_method(self, fullname: str) -> bool:
        """As above; what a method's own name decides stays, whatever class inherits it."""
        return self._methods.get(fullname) is not None or self._settled(fullname)

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Make torch's tensor classes and containers of modules generic."""
        hook = self._classes.get(fullname)
        return self.flags.on_class(hook) if self.flags else hook

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        """Hand-written autograd functions."""
        hook = self.modules.base_class(fullname)
        return None if hook is None else self._guard_class(hook)

    def _guard_class(self, hook: Callable[[ClassDefContext], None]) -> Callable[[ClassDefContext], None]:
        def guarded(ctx: ClassDefContext) -> None:
            try:
                hook(ctx)
            except Exception:
                compat.report_failure()

        return guarded

    def get_class_attribute_hook(self, fullname: str) -> AttributeHook | None:
        """Attributes of class objects."""
        hook = self.modules.class_attribute(fullname)
        return None if hook is None else self._guard(hook)

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        """Annotations."""
        return self._types.get(fullname)

    def _annotation(self, hook: Callable[[AnalyzeTypeContext], Type]) -> Callable[[AnalyzeTypeContext], Type]:
        watcher, flagged, prepare = self.bench.watcher, bool(self.flags), self._prepare

        def analyze(ctx: AnalyzeTypeContext) -> Type:
            if flagged or not watcher.stays:
                prepare(ctx)
            return hook(ctx)

        return analyze

    def get_function_hook(self, fullname: str) -> FunctionHook | None:
        """Functions: collectives, torch's operations, Python's own."""
        hook = None if self._silent.function(fullname) else self._known_function(fullname) or self._own(fullname)
        if hook is not None or self.bench.watcher.watching or self._mypys.get_function_hook(fullname) is not None:
            return hook
        return self._guard(default_of)  # only to put the watcher in place

    def get_function_signature_hook(self, fullname: str) -> FunctionSigHook | None:
        """Generic functions; where mypy's own plugin has a hook (``dataclasses.replace``) that one stays."""
        if not self.inference.function(fullname) or self._mypys.get_function_signature_hook(fullname) is not None:
            return None
        return self._inferred(fullname)

    def _inferred(self, fullname: str) -> Callable[[Any], FunctionLike]:
        """The hook of a generic function; that of one that speaks of layouts is asked wherever it is called."""
        if self.inference.with_layouts(fullname):
            return self._guard_signature(self.inference.without_context)
        return self._without_context

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        """Signatures that depend on the receiver or the arguments."""
        if fullname.endswith((".__eq__", ".__ne__")) and canonical(fullname).startswith("Tensor."):
            return self._guard_signature(partial(untyped.comparison, self.bench.layouts))
        hook = self.modules.signature(fullname)
        if hook is None and self.inference.method(fullname) and self._mypys.get_method_signature_hook(fullname) is None:
            return self._inferred(fullname)
        return None if hook is None else self._guard_signature(hook)

    def _guard_signature(self, hook: Callable[[Any], FunctionLike]) -> Callable[[Any], FunctionLike]:
        def guarded(ctx: Any) -> FunctionLike:
            try:
                return hook(ctx)
            except Exception:
                compat.report_failure()
                return ctx.default_signature  # type: ignore[no-any-return]

        return guarded

    def get_method_hook(self, fullname: str) -> MethodHook | None:
        """Methods and operators."""
        table = self._methods
        if fullname not in table:
            table[fullname] = self._watched(fullname, self._method(fullname))
        return table[fullname] or self._variable(fullname)

    def get_attribute_hook(self, fullname: str) -> AttributeHook | None:
        """Properties of tensors."""
        return self._attributes.get(fullname)

    def _own(self, fullname: str) -> FunctionHook | None:
        """What the project defines; looked up anew each time, since the daemon sees definitions come and go."""
        if fullname.startswith(_NOT_OURS):
            return None
        own = self.own.hook(fullname)
        if own is None:
            return self._variable(fullname)
        return self._guard(own)

    def _variable(self, fullname: str) -> Callable[[Any], Type] | None:
        hook = None if fullname.startswith(_NOT_OURS) else self.held.named(fullname)
        return None if hook is None else self._guard(hook)

    def _known_function(self, fullname: str) -> FunctionHook | None:
        """The handler of a function that is called by another name."""
        table = self._functions
        if fullname not in table:
            table[fullname] = self._watched(fullname, self._operation(fullname))
        return table[fullname]

    # ---- torch's operations

    def _operation(self, fullname: str) -> FunctionHook | None:
        if "." not in fullname:  # a local variable, or a method through ``super()``
            return None if fullname.startswith((_DISPLAY, _PARENT)) else self._guard(self.held.unnamed)
        if not fullname.startswith(_TORCHS_AND_PYTHONS) and fullname not in _BUILTINS:
            return None
        if fullname.startswith(STOCK):  # a module is constructed, not called
            return None
        op = canonical(fullname)
        return self._guard_operation(op) if known(op) else None

    def _guard_operation(self, op: str) -> Callable[[Any], Type]:
        """The handler of an operation by its name in the rules."""
        if op.startswith(PYTHON):
            return self._of_tensors(partial(self.operations.pythons, op))
        return self._guard(partial(self.operations.call, op))

    def _method(self, fullname: str) -> MethodHook | None:
        op = canonical(fullname)
        if op.startswith("Tensor."):
            return self._guard_operation(op) if known(op) else None
        of_union = method_of_union(fullname)
        if of_union is not None:
            return self._guard(partial(self.operations.operator, of_union)) if known(of_union) else None
        name = fullname.rpartition(".")[2]
        hook = self.modules.any_method(name)
        if hook is not None:
            return self._guard(hook) if self._mypys.get_method_hook(fullname) is None else None
        if name in _OPERATORS and not fullname.startswith("builtins."):
            return self._guard(partial(self.operations.operator, f"Tensor.{name}"))
        return None


def default_of(ctx: Any) -> Type:
    """What mypy would have said without the plugin."""
    for name in ("default_return_type", "default_attr_type", "default_signature"):
        found = getattr(ctx, name, None)
        if found is not None:
            return found  # type: ignore[no-any-return]
    raise TypeError(type(ctx).__name__)
