"""Types for modules that are not ours: ``typed(nn.Linear(...), weight=V[TP], bias=V[TP])``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from torch import nn

from spmd_runtime.axes import MeshAxis
from spmd_runtime.types import Kind, Shard, SpmdType

M = TypeVar("M", bound=nn.Module)

# What a parameter is: on one axis (``V[TP]``), on several (``(R[DP], V[TP])``, ``{DP: R, TP: S(0)}``), or absent.
Declared: TypeAlias = "Kind | tuple[Kind, ...] | Mapping[type[MeshAxis] | str, Kind] | None"


def typed(module: M, **layouts: Declared) -> M:
    """Declare what ``module``'s own parameters and buffers are on each mesh axis; gives ``module`` back, unchanged.

    A call of a stock module then follows: ``typed(nn.Linear(d, f), weight=V[TP], bias=V[TP])(x)`` is Varying for a
    Replicate ``x``.  Nothing is kept at run time; the types are read by the mypy plugin.

    Args:
        module: any module; what it does is not changed.
        layouts: for each parameter or buffer by name its type: ``V[TP]``, several axes as ``(R[DP], V[TP])`` or
            ``{DP: R, TP: S(0)}``, or None for one that the module does not have.  Of a module that is made in the
            call itself, ``typed(nn.Linear(d, f, bias=False), ...)``, that need not be said.

    Raises:
        ValueError: ``module`` has no parameter or buffer of that name, or has one that is declared None.
        TypeError: a value is no type.
    """
    for name, layout in layouts.items():
        if name not in module._parameters and name not in module._buffers:
            own = ", ".join([*module._parameters, *module._buffers]) or "none"
            raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r} of its own; it has {own}")
        if layout is None:
            if getattr(module, name) is not None:
                raise ValueError(f"{name} of {type(module).__name__} is declared None, but the module has it")
        else:
            _check(name, layout)
    return module


def _check(name: str, layout: object) -> None:
    parts = layout.values() if isinstance(layout, Mapping) else layout if isinstance(layout, tuple) else (layout,)
    for part in parts:
        if isinstance(part, Shard) or (isinstance(part, type) and issubclass(part, SpmdType)):
            continue
        raise TypeError(f"{name}={part!r} is no SPMD type; write V[TP], (R[DP], V[TP]) or {{DP: R, TP: S(0)}}")


if TYPE_CHECKING:
    Saved_co = TypeVar("Saved_co", covariant=True)

    class FunctionContext(Any, Generic[Saved_co]):  # type: ignore[misc]
        """The ``ctx`` of an autograd.Function as the plugin sees it: anything, with what was saved for backward."""

        @property
        def saved_tensors(self) -> Saved_co: ...
