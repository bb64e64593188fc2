"""What Python's own functions make of a tensor that they iterate over: ``zip(x, y)``, ``enumerate(x)``, ``list(x)``.

mypy asks the tensor for its elements by the protocol, where torch's annotations leave them untyped; a loop over the
tensor itself needs none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy.plugin import FunctionContext
from mypy.types import AnyType, Instance, TupleType, Type, get_proper_type

from spmd_mypy.layout import Layouts, has_layout, is_tensor
from spmd_mypy.rules.kinds import V

_NAMES: Final = ("enumerate", "iter", "list", "reversed", "tuple", "zip")


class Iteration:
    """The hooks for these functions."""

    def __init__(self, layouts: Layouts) -> None:
        self.layouts = layouts

    def functions(self) -> dict[str, Callable[[FunctionContext], Type]]:
        """Hooks by full name."""
        return {f"builtins.{name}": self.call for name in _NAMES}

    def call(self, ctx: FunctionContext) -> Type:
        """The result with the tensors' elements where mypy has Any."""
        given = [
            get_proper_type(t)
            for types, names in zip(ctx.arg_types, ctx.arg_names, strict=True)
            for t, name in zip(types, names, strict=True)
            if name is None
        ]
        default = get_proper_type(ctx.default_return_type)
        if not any(is_tensor(t) and has_layout(t) for t in given):
            return ctx.default_return_type
        elements = [self._element(t) if isinstance(t, Instance) and is_tensor(t) else None for t in given]
        if isinstance(default, AnyType) and elements[0] is not None:  # ``reversed`` flips a tensor; ``iter``
            info = self.layouts.info("typing.Iterator")
            return default if info is None else Instance(info, [elements[0]])
        if not isinstance(default, Instance) or len(default.args) != 1:
            return ctx.default_return_type
        return default.copy_modified(args=[self._put(default.args[0], elements)])

    def _element(self, tensor: Instance) -> Type:
        """A tensor that lacks the first dim: where that or another was cut is no longer told."""
        layout = self.layouts.read(tensor) or self.layouts.unknown
        kinds = tuple(V if kind is not None and kind.dim is not None else kind for kind in layout)
        return self.layouts.put(tensor, [self.layouts.write(self.layouts.intern(kinds))])

    @staticmethod
    def _put(t: Type, elements: list[Type | None]) -> Type:
        t = get_proper_type(t)
        if isinstance(t, TupleType) and len(t.items) == len(elements):
            return t.copy_modified(items=[_known(*pair) for pair in zip(t.items, elements, strict=True)])
        return _known(t, elements[0] if elements else None)


def _known(t: Type, element: Type | None) -> Type:
    """``element`` in the place of Any."""
    return element if element is not None and isinstance(get_proper_type(t), AnyType) else t
