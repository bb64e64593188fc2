"""Matrix products and linear algebra."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
matmul mm bmm mv dot vdot inner outer ger: product(self, other|mat2|vec|vec2|tensor)
einsum: product(args|operands)
addmm: linear(self, product(mat1, mat2))
addmv: linear(self, product(mat, vec))
addbmm baddbmm: linear(self, product(batch1, batch2))
addr: linear(self, product(vec1, vec2))
"""
