"""Reductions and scans over a tensor dim."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
sum mean cumsum trace: linear(self)
amax amin prod cumprod logsumexp logcumsumexp norm var std: nonlinear(self)
var_mean std_mean: nonlinear(self)
max min: nonlinear(self, other) pointwise
    if dim: nonlinear(self) -> same, discrete
argmax argmin argsort: nonlinear(self) -> discrete
all any: nonlinear(self) -> discrete
sort topk kthvalue mode cummax cummin: nonlinear(self) -> same, discrete
median nanmedian: nonlinear(self)
    if dim: nonlinear(self) -> same, discrete
softmax log_softmax: nonlinear(self)
"""
