"""Python's own functions and conversions."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
item tolist numpy __float__ __int__ __bool__ __format__ builtins.float builtins.int builtins.bool builtins.print
builtins.str: escape(self|args|values|object|x)
builtins.sum: linear(iterable, start)
builtins.abs: nonlinear(x)
"""
