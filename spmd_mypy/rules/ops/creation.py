"""New tensors: from nothing, from numbers, like others, from random numbers."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
zeros ones eye arange range linspace full scalar_tensor tril_indices triu_indices fftfreq rfftfreq bartlett_window
blackman_window hamming_window hann_window kaiser_window: linear(fill_value, start, end, step) -> factory
logspace: nonlinear(start, end) -> factory
zeros_like ones_like new_zeros new_ones: shape(self) -> factory
full_like new_full: linear(fill_value, shape(self)) -> factory
tensor: linear(data) -> factory
new_tensor: linear(data, shape(self)) -> factory
as_tensor asarray: linear(data|obj)

# Unknown: without values, or with values from outside.
empty empty_like new_empty empty_permuted empty_quantized empty_strided new_empty_strided from_numpy frombuffer
from_file from_dlpack new torch.Tensor.new: shape(*) -> unknown

# Random numbers: from nothing unknown; from a tensor its type, unless each rank draws its own.
rand randn randint randperm: shape(*) -> unknown
rand_like randn_like bernoulli binomial poisson: random(self|count, prob) pointwise
randint_like: random(self, index(low, high)) pointwise
multinomial: random(self) -> discrete
normal: random(mean, std) pointwise
normal_ uniform_ exponential_ cauchy_ geometric_ log_normal_ random_: random(self) pointwise writes=self
bernoulli_: random(self, p) pointwise writes=self

# torch.nn.init.
init.normal_ init.uniform_ init.trunc_normal_ init.xavier_normal_ init.xavier_uniform_ init.kaiming_normal_
init.kaiming_uniform_ init.orthogonal_ init.sparse_: random(tensor) writes=tensor
init.normal init.uniform init.xavier_normal init.xavier_uniform init.kaiming_normal init.kaiming_uniform
init.orthogonal init.sparse: random(tensor|args) writes=tensor,args
init.zeros_: shape(tensor) overwrites=tensor
init.ones_ init.eye_ init.dirac_: index() overwrites=tensor
init.eye init.dirac: index() overwrites=tensor,args
init.constant_: linear(val) overwrites=tensor
init.constant: linear(val) overwrites=tensor,args
"""
