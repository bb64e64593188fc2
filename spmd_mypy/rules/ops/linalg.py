"""Matrix products, linear algebra and transforms."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# Products.
matmul mm bmm mv dot vdot inner outer ger kron smm spmm dsmm hsmm: product(self, other|mat2|vec|vec2|tensor|mat)
outer ger: product(self, vec2)
hspmm: product(mat1, mat2)
cross: product(self, other)
vecdot: product(x, y)
tensordot: product(a, b)
chain_matmul: product(matrices)
multi_dot: product(tensors)
einsum: product(args|operands)
addmm sspaddmm saddmm sampled_addmm: linear(self|mat, product(mat1, mat2))
    if beta=0: linear(shape(self|mat), product(mat1, mat2))
addmv: linear(self, product(mat, vec))
    if beta=0: linear(shape(self), product(mat, vec))
addbmm baddbmm: linear(self, product(batch1, batch2))
    if beta=0: linear(shape(self), product(batch1, batch2))
addr: linear(self, product(vec1, vec2))
    if beta=0: linear(shape(self), product(vec1, vec2))
grouped_mm scaled_mm scaled_grouped_mm _grouped_mm _scaled_mm _scaled_grouped_mm
_int_mm: linear(product(mat_a|self, mat_b|mat2, scale_a, scale_b, index(offs)), bias)

# Solutions are linear in the right-hand side alone.
solve: product(nonlinear(A), B)
solve_triangular tensorsolve: product(nonlinear(A), B)
solve_ex: product(nonlinear(A), B) -> same, unknown
linalg.lstsq: product(nonlinear(A), B) -> same, unknown, unknown, unknown
ldl_solve: product(nonlinear(LD), index(pivots), B)
linalg.lu_solve: product(nonlinear(LU), index(pivots), B)
lu_solve: product(self, nonlinear(LU_data), index(LU_pivots))
cholesky_solve: product(self, nonlinear(input2))
triangular_solve: product(self, nonlinear(A)) -> same, unknown
ormqr: product(input3, nonlinear(self, input2))

# Decompositions and functions of matrices.
det logdet inverse matrix_power cholesky cholesky_inverse pinverse qr svd: nonlinear(self|A)
slogdet eigh eig eigvals eigvalsh svdvals matrix_exp linalg.norm: nonlinear(self|A)
linalg.cholesky linalg.cond linalg.det linalg.inv linalg.qr linalg.svd linalg.lu linalg.matrix_norm
linalg.matrix_power tensorinv: nonlinear(A)
linalg.polar matrix_sqrth: nonlinear(A)
vector_norm: nonlinear(x)
vander: nonlinear(x)
orgqr: nonlinear(self, input2)
householder_product: nonlinear(A|input, tau)
pinv: nonlinear(A, atol, rtol, rcond, hermitian)
matrix_rank: nonlinear(A|input, atol, rtol, tol) -> discrete
cholesky_ex inv_ex lu_factor ldl_factor: nonlinear(A) -> same, discrete
lu_factor_ex ldl_factor_ex: nonlinear(A) -> same, discrete, discrete
lu: nonlinear(A|self) -> same, discrete, discrete
lu_unpack: nonlinear(LU_data, index(LU_pivots))
geqrf: nonlinear(self)
lobpcg: nonlinear(A, B, X, iK)
svd_lowrank: random(A, M)
pca_lowrank: random(A)

# Transforms.
fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn fftshift
ifftshift: linear(input)
stft: product(self, window)
istft: product(self, nonlinear(window))
"""
