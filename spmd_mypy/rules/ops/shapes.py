"""Views, permutations, joins and cuts."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
reshape flatten unflatten ravel expand broadcast_to narrow select split chunk unbind flip fliplr flipud roll
diagonal repeat tile unfold tril triu diag: linear(self) view
view: linear(self, shape(other)) view
    if dtype: nonlinear(self) view
view_as expand_as reshape_as: linear(self, shape(other)) view
transpose swapaxes swapdims: linear(self) view renumber=transpose
permute: linear(self) view renumber=permute
movedim moveaxis: linear(self) view renumber=movedim
unsqueeze: linear(self) view renumber=unsqueeze
squeeze: linear(self) view renumber=squeeze
t: linear(self) view renumber=t
T H: linear(self) view renumber=reverse
mT mH adjoint: linear(self) view renumber=last_two
real imag: linear(self) pointwise view
cat concat concatenate stack hstack vstack dstack column_stack row_stack: linear(tensors)
tensor_split hsplit vsplit dsplit: linear(self) view
atleast_1d atleast_2d atleast_3d: linear(self|tensors)
"""
