"""Python's own functions and conversions, where tensors go into them."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# A Python value is read: every rank sees its own.
item tolist numpy __array__ __float__ __int__ __long__ __index__ __complex__ __bool__ __nonzero__ __format__ __repr__
__str__ is_nonzero __contains__ __not__ builtins.float builtins.int builtins.bool builtins.complex builtins.str
builtins.repr builtins.format builtins.print builtins.all builtins.any
builtins.hex builtins.oct builtins.bin: escape(*)

# They compare, and give operands as they are.
builtins.max builtins.min builtins.sorted: nonlinear(*)
    if key: linear(*)

builtins.sum: linear(iterable|input, start|other)
builtins.abs builtins.round builtins.pow builtins.divmod: nonlinear(*)
builtins.list builtins.tuple builtins.iter builtins.next builtins.reversed builtins.enumerate: linear(*)
copy.copy copy.deepcopy __deepcopy__: linear(x|self) pointwise view
"""
