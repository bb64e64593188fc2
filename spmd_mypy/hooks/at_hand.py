"""Whether a call may be given a tensor, told before mypy makes the context of a hook.

Most calls of Python's own functions are given none, f-strings (which mypy checks as ``str.format``) first of all; and
each hook that mypy is given costs it the context and a copy of the signature, whatever the hook then does.
"""

from __future__ import annotations

from typing import Final

from mypy.nodes import TypeInfo
from mypy.types import CallableType, Instance, LiteralType, NoneType, Overloaded, TupleType, Type, UnionType

from spmd_mypy import compat
from spmd_mypy.layout import is_tensor

_NO_TENSORS: Final = frozenset({NoneType, CallableType, Overloaded, LiteralType})


class AtHand:
    """What mypy has at hand when it asks for the hook of a call."""

    def __init__(self, watcher: compat.Watcher) -> None:
        self._watcher = watcher
        self._no_tensors: set[TypeInfo] = set()
        self._asked_again = False

    def tensors(self) -> bool:
        """Whether a tensor, or what is untyped, may be among what the call is given; always so under the daemon.

        Looks at the call's expressions with all that they are made of, since ``sum([x, y])`` gives the display the
        type that ``sum`` asks for.  Once it is so, mypy asks for the hook again to call it, and has to get it.
        """
        if self._asked_again:
            self._asked_again = False
            return True
        self._asked_again = self._some_tensor()
        return self._asked_again

    def _some_tensor(self) -> bool:
        types = compat.types_at_hand() if self._watcher.stays else None
        if types is None:
            return True
        for t in types:
            if type(t) is Instance:
                if (t.args or t.type not in self._no_tensors) and self._may_be_tensor(t):
                    return True
            elif type(t) not in _NO_TENSORS and self._may_be_tensor(t):
                return True
        return False

    def _may_be_tensor(self, t: Type) -> bool:
        if isinstance(t, TupleType | UnionType):
            return any([self._may_be_tensor(item) for item in t.items])
        if type(t) is not Instance:
            return type(t) not in _NO_TENSORS
        if t.type not in self._no_tensors:
            if is_tensor(t):
                return True
            self._no_tensors.add(t.type)
        return any([self._may_be_tensor(argument) for argument in t.args])
