"""The types: what a tensor is on each rank of a mesh axis.

At run time everything here is erased: ``Tensor[V[DP], P[TP]]`` *is*
``torch.Tensor``, so annotations cost nothing and change nothing.  For type
checkers ``Tensor`` is a generic alias of ``torch.Tensor`` whose arguments only
the mypy plugin reads.

``R``, ``I``, ``V``, ``P`` and ``S(i)`` also serve as values, as ``src=`` and
``dst=`` of the collectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, Union

import torch
import torch.distributed as dist
from torch import nn
from typing_extensions import TypeVar

from spmd_runtime.axes import MeshAxis

A_co = TypeVar("A_co", default=Any, covariant=True)
D_co = TypeVar("D_co", default=Any, covariant=True)
After_co = TypeVar("After_co", default=Any, covariant=True)
Handle_co = TypeVar("Handle_co", default=Any, covariant=True)


class SpmdType(Generic[A_co]):
    """What a tensor is on the ranks of axis ``A``; base class of the five kinds."""

    if not TYPE_CHECKING:
        # ``V[TP]`` is an annotation: at run time it is the kind itself, whatever
        # stands between the brackets (``S[TP, 2]`` is no legal Generic subscript).
        def __class_getitem__(cls, item):
            return cls


class Replicate(SpmdType[A_co]):
    """Same value on every rank, used independently by each; its gradient is Partial."""


class Invariant(SpmdType[A_co]):
    """Same value on every rank, one logical computation; its gradient is Invariant."""


class Varying(SpmdType[A_co]):
    """A different value on each rank; its gradient is Varying."""


class Partial(SpmdType[A_co]):
    """Summands of a pending sum over the ranks; its gradient is Replicate."""


_SHARDS: dict[int, Any] = {}


class Shard(Varying[A_co], Generic[A_co, D_co]):
    """A Varying that says along which tensor dim the global tensor was cut; its gradient is the same Shard.

    As a value: ``S(0)``, ``S(-1)``.
    """

    dim: int

    if TYPE_CHECKING:

        def __init__(self, dim: int) -> None: ...

    else:
        # One object per dim: what is looked up by it in every call is found by identity.
        def __new__(cls, dim):
            found = _SHARDS.get(dim)
            if found is None or type(dim) is not int:
                if isinstance(dim, bool) or not isinstance(dim, int):
                    raise TypeError(f"S(dim) takes the tensor dim as an int, got {dim!r}")
                found = _SHARDS.setdefault(int(dim), super().__new__(cls))
                found.dim = int(dim)
            return found

    def __reduce__(self) -> tuple[type[Shard[Any, Any]], tuple[int]]:
        return Shard, (self.dim,)

    def __repr__(self) -> str:
        return f"S({self.dim})"


for _dim in range(-16, 16):  # made now: one made under torch.compile has the function compiled again at its next call
    Shard(_dim)


class Constant(Replicate[A_co], Invariant[A_co]):
    """Same value on every rank without a gradient; only the plugin infers it, nobody writes it."""


class FactoryConstant(Constant[A_co]):
    """A fresh constant (``torch.zeros`` ...), which may also be declared Varying or Partial."""


class Reduced(Constant[A_co]):
    """A constant that a raw collective has written; apart from FactoryConstant, so that one can become the other."""


class InFlight(SpmdType[A_co], Generic[A_co, After_co, Handle_co]):
    """What a tensor is while an asynchronous collective writes to it; only the plugin infers it.

    It is ``After_co`` once the variable called ``Handle_co`` (a literal string) has been waited for.
    """


R = Replicate
I = Invariant
V = Varying
P = Partial
S = Shard

# A type as a value, as ``src=`` and ``dst=`` take it: ``R``, ``P``, ``S(0)``.
Kind: TypeAlias = Union[type[SpmdType[Any]], Shard[Any, Any]]  # noqa: UP007  # of classes that | would not join

if TYPE_CHECKING:
    from typing_extensions import TypeAliasType, TypeVarTuple, Unpack

    import spmd_runtime.inferred  # noqa: F401 - the plugin looks its classes up

    _Layout = TypeVarTuple("_Layout", default=Unpack[tuple[Any, ...]])
    Tensor = TypeAliasType("Tensor", torch.Tensor, type_params=(_Layout,))
    Parameter = TypeAliasType("Parameter", nn.Parameter, type_params=(_Layout,))
    Buffer = TypeAliasType("Buffer", nn.Buffer, type_params=(_Layout,))

    _Axis = TypeVar("_Axis", default=Any)
    # For other checkers a plain process group; the plugin makes it one whose axis is known (``inferred.Group``).
    Group = TypeAliasType("Group", dist.ProcessGroup, type_params=(_Axis,))
else:
    # Erased: any subscript gives the class itself, so Dynamo, jit.script, fx and isinstance see torch's own class.
    torch.Tensor.__class_getitem__ = classmethod(lambda cls, layout: cls)
    Tensor, Parameter, Buffer = torch.Tensor, nn.Parameter, nn.Buffer

    class Group:
        """A process group whose mesh axis is known: ``tp: Group[TP]``."""

        def __class_getitem__(cls, axis):
            return dist.ProcessGroup


# An axis, as the collectives take it: its class, a group, or its name.
AxisLike: TypeAlias = Union[type[MeshAxis], Group[Any], dist.ProcessGroup, str]  # noqa: UP007
