"""Views, permutations, joins, cuts and padding: every element of the result is one of an operand, or a constant."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
reshape flatten unflatten ravel expand expand_copy broadcast_to narrow narrow_copy select select_copy slice_copy split
split_copy split_with_sizes split_with_sizes_copy unsafe_split unsafe_split_with_sizes chunk unsafe_chunk tensor_split
hsplit vsplit dsplit unbind unbind_copy flip fliplr flipud roll rot90 diagonal diagonal_copy diag diag_embed diagflat
repeat tile unfold unfold_copy tril triu as_strided as_strided_copy view_as_real view_as_complex view_as_real_copy
view_as_complex_copy view_copy channel_shuffle native_channel_shuffle combinations resize resize_ sparse_resize_
sparse_resize_and_clear_ to_padded_tensor to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr
to_sparse_bsc __iter__ __reversed__: linear(self) view
split: linear(self|tensor) view
select: product(self, index(index)) view
linalg.diagonal: linear(A) view
narrow: product(self, index(start)) view
tensor_split: product(self, index(tensor_indices_or_sections|indices_or_sections)) view
view: linear(self, shape(other)) view
    if dtype: nonlinear(self) view
view_as expand_as reshape_as: linear(self, shape(other)) view
resize_as_ resize_as_sparse_ resize_as: linear(self, shape(the_template|tensor)) view
pixel_shuffle pixel_unshuffle: linear(self)
align_to refine_names rename: linear(self) view
align_as: linear(self, shape(other)) view
align_tensors: linear(tensors)

# Shard dims move along.
transpose transpose_ transpose_copy swapaxes swapdims: linear(self) view renumber=transpose
permute permute_copy: linear(self) view renumber=permute
movedim moveaxis: linear(self) view renumber=movedim
unsqueeze unsqueeze_copy: linear(self) view renumber=unsqueeze
squeeze squeeze_copy: linear(self) view renumber=squeeze
t t_copy: linear(self) view renumber=t
T H: linear(self) view renumber=reverse
mT mH adjoint: linear(self) view renumber=last_two

# Joins: each result holds elements of all operands.
cat concat concatenate stack hstack vstack dstack column_stack row_stack block_diag broadcast_tensors cartesian_prod
meshgrid: linear(tensors)
atleast_1d atleast_2d atleast_3d: linear(tensors)
pad_sequence: linear(sequences, padding_value)

# Padding.
pad: linear(input, value)
    if mode=reflect: linear(input)
    if mode=replicate: linear(input)
    if mode=circular: linear(input)
constant_pad_nd: linear(input, value)
constant_pad: linear(input) -> unsummed
"""
