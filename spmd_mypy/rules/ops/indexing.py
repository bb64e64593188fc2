"""Selection by indices and masks, and writes through them."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
__getitem__: product(self, index(indices))
__setitem__: product(linear(self, value), index(indices)) writes=self
gather index_select take take_along_dim: product(self, index(index|indices))
masked_select: product(self, index(mask))
index_add index_copy: linear(self, product(source, index(index)))
scatter: product(linear(self, src, value), index(index))
scatter_add: linear(self, product(src, index(index)))
masked_scatter: product(linear(self, source), index(mask))
index_put: product(linear(self, values), index(indices))
repeat_interleave: product(self, index(repeats))
"""
