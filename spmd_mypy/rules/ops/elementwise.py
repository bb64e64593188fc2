"""Operations on corresponding elements: sums, products, and functions of single elements."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# Sums
add sub subtract rsub: linear(self, other) pointwise
neg negative positive: linear(self) pointwise
lerp: linear(self, product(linear(end, self), weight)) pointwise
addcmul: linear(self, product(tensor1, tensor2)) pointwise
addcdiv: linear(self, product(tensor1, divisor(tensor2))) pointwise
complex: linear(real, imag) pointwise
where: product(linear(self, other), index(condition)) pointwise
masked_fill: product(linear(self, value), index(mask)) pointwise
conj conj_physical resolve_conj resolve_neg: linear(self) pointwise view

# Products
mul multiply ldexp: product(self, nonlinear(other)) pointwise
mul multiply: product(self, other) pointwise
div divide true_divide: product(self, divisor(other)) pointwise
    if rounding_mode: nonlinear(self, other) pointwise
rdiv: product(other, divisor(self)) pointwise
polar: product(abs, nonlinear(angle)) pointwise
xlogy special.xlogy: product(self, nonlinear(other)) pointwise
xlog1py: product(self, nonlinear(other)) pointwise
bitwise_left_shift: product(self, nonlinear(other)) -> same pointwise
rlshift: nonlinear(self, other) -> discrete pointwise

# One element at a time
abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh ceil cos cosh
deg2rad_ digamma erf erfc erfinv exp exp2 expm1 fix floor frac i0 lgamma log log10 log1p log2 logit mvlgamma
polygamma reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc: nonlinear(self) pointwise
deg2rad rad2deg: linear(self) pointwise
nan_to_num: nonlinear(self) pointwise
clamp clip: nonlinear(self, min, max) pointwise
clamp_min: nonlinear(self, min) pointwise
clamp_max: nonlinear(self, max) pointwise

# Two or three elements
atan2 arctan2 copysign dist fmod hypot logaddexp logaddexp2 maximum minimum fmax fmin nextafter remainder
floor_divide heaviside igamma igammac gcd lcm float_power: nonlinear(self, other|exponent) pointwise
pow: nonlinear(self, exponent|other) pointwise
    if exponent=1: linear(self) pointwise
rpow: nonlinear(self, other) pointwise

# To bool or integers
eq equal not_equal ne lt less le less_equal gt greater ge greater_equal isclose allclose logical_and logical_or
logical_xor: nonlinear(self, other) -> discrete pointwise
logical_not isnan isinf isfinite isneginf isposinf isreal signbit bitwise_not: nonlinear(self) -> discrete pointwise
bitwise_and bitwise_or bitwise_xor bitwise_right_shift: nonlinear(self, other) -> discrete pointwise

# Casts
to type float double half bfloat16 cfloat cdouble chalf: linear(self, shape(other)) pointwise view
long int short char byte bool: linear(self) -> discrete pointwise view
clone contiguous cpu cuda pin_memory alias: linear(self) pointwise view
type_as: linear(self, shape(other)) pointwise view

# Writes
copy: linear(src|other) overwrites=self
zero: shape(self) overwrites=self
fill: linear(value) overwrites=self
"""
