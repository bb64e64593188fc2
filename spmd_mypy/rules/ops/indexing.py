"""Selection by indices and masks, and writes through them.

An index has no gradient; it acts as a replicated factor.
"""

from __future__ import annotations

from typing import Final

ROWS: Final = """
__getitem__: product(self, index(indices))
__setitem__: product(linear(self, value), index(indices)) writes=self
gather index_select take: product(self, index(index))
take_along_dim: product(self, index(indices))
masked_select sparse_mask: product(self, index(mask))
repeat_interleave: product(self, index(repeats))
index_add index_copy: linear(self, product(source, index(index))) into=self
index_fill: product(linear(self, value), index(index))
index_put: product(linear(self, values), index(indices)) into=self
index_reduce: nonlinear(self, source, index(index)) into=self
    if reduce=mean: linear(self, product(source, index(index))) into=self
put: product(linear(self, source), index(index)) into=self
scatter: product(linear(self, src, value), index(index)) into=self
    if reduce=multiply: nonlinear(self, src, value, index(index)) into=self
scatter_add: linear(self, product(src, index(index))) into=self
scatter_reduce: nonlinear(self, src, index(index)) into=self
    if reduce=sum: linear(self, product(src, index(index))) into=self
    if reduce=mean: linear(self, product(src, index(index))) into=self
masked_scatter: product(linear(self, source), index(mask)) into=self
select_scatter slice_scatter diagonal_scatter as_strided_scatter slice_inverse: linear(self, src) into=self
segment_reduce: nonlinear(data, index(lengths, indices, offsets), initial)
    if reduce=sum: product(linear(data, initial), index(lengths, indices, offsets))
    if reduce=mean: product(linear(data, initial), index(lengths, indices, offsets))
bincount: product(weights, index(self))
one_hot: index(tensor) -> discrete
unravel_index: index(indices) -> discrete
embedding: product(weight, index(input|indices))
    if max_norm: nonlinear(weight, index(input|indices))
embedding_bag: product(weight, per_sample_weights, index(input|indices, offsets)) -> same, discrete, discrete, discrete
    if max_norm: nonlinear(weight, per_sample_weights, index(input|indices, offsets))
    if mode=max: nonlinear(weight, per_sample_weights, index(input|indices, offsets))
    if mode=2: nonlinear(weight, per_sample_weights, index(indices, offsets)) -> same, discrete, discrete, discrete
embedding_renorm_: nonlinear(self, index(indices)) writes=self

# Sparse tensors: values at indices.
sparse_coo_tensor: product(values, index(indices))
sparse_csr_tensor: product(values, index(crow_indices, col_indices))
sparse_csc_tensor: product(values, index(ccol_indices, row_indices))
sparse_bsr_tensor: product(values, index(crow_indices, col_indices))
sparse_bsc_tensor: product(values, index(ccol_indices, row_indices))
sparse_compressed_tensor: product(values, index(compressed_indices, plain_indices))
indices crow_indices col_indices ccol_indices row_indices indices_copy crow_indices_copy col_indices_copy
ccol_indices_copy row_indices_copy: nonlinear(self) -> discrete
values values_copy: nonlinear(self)
"""
