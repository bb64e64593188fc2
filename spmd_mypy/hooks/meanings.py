"""What the full names stand for with which mypy asks for hooks."""

from __future__ import annotations

from mypy.nodes import SymbolNode, TypeInfo

from spmd_mypy import compat
from spmd_mypy.layout import Lookup


class Meanings:
    """Looks names up; ``stay`` says that what a name was found to stand for does not change, as it may in the daemon.

    mypy asks for several hooks by one name in turn, so that the last one is kept.
    """

    def __init__(self, lookup: Lookup, stay: bool) -> None:
        self._lookup = lookup
        self._stay = stay
        self._last = ""
        self._node: SymbolNode | None = None

    def of(self, fullname: str) -> SymbolNode | None:
        """What a module or a class, its bases included, has by a name; None where that is not known (yet)."""
        if fullname == self._last:
            return self._node
        node = self._find(fullname)
        if node is not None and self._stay:
            self._last, self._node = fullname, node
        return node

    def _find(self, fullname: str) -> SymbolNode | None:
        owner, _, name = fullname.rpartition(".")
        tree = compat.module(self._lookup, owner)
        if tree is not None:
            symbol = tree.names.get(name)
        elif not owner:  # of a local function mypy gives the bare name
            return None
        else:
            found = self._lookup(owner)
            if found is None:
                symbol = self._lookup(fullname)
            else:
                holder = found.node
                symbol = holder.get(name) if isinstance(holder, TypeInfo) and holder.mro else None
        return symbol.node if symbol is not None else None
