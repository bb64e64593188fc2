"""Reductions, scans, norms, sorting and statistics over tensor dims."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# Sums.
sum mean trace cumsum sum_to_size: linear(self)
trapezoid trapz cumulative_trapezoid: product(y, x)
diff: linear(self, prepend, append)
gradient: product(self, divisor(spacing))

# What is not a sum.  (nansum and nanmean leave out what is NaN in a summand, not what is NaN in the sum.)
nansum nanmean amax amin prod cumprod logsumexp logcumsumexp norm frobenius_norm nuclear_norm native_norm var std
var_mean std_mean aminmax msort renorm cov corrcoef softmax log_softmax histc pdist powsum: nonlinear(self)
cov: nonlinear(self, fweights, aweights)
norm_except_dim: nonlinear(v)
dist: nonlinear(self, other)
cdist cosine_similarity pairwise_distance: nonlinear(x1, x2)
quantile nanquantile: nonlinear(self, q)
histogram histogramdd: nonlinear(self, bins, weight)
max min: nonlinear(self, other) pointwise
    if dim: nonlinear(self) -> same, discrete
median nanmedian: nonlinear(self)
    if dim: nonlinear(self) -> same, discrete
sort topk kthvalue mode cummax cummin: nonlinear(self) -> same, discrete
unique unique_consecutive unique_dim: nonlinear(self|args) -> same, discrete, discrete

# To bools or integers.
argmax argmin argsort all any nonzero nonzero_static argwhere count_nonzero hash_tensor: nonlinear(self) -> discrete
equal allclose: nonlinear(self, other) -> discrete
isin: nonlinear(elements|element, test_elements|test_element) -> discrete
bucketize: nonlinear(self, boundaries) -> discrete
searchsorted: nonlinear(self, sorted_sequence, index(sorter)) -> discrete
"""
