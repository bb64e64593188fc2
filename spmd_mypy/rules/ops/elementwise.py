"""Operations on corresponding elements: sums, products, functions of single elements, casts and fills."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# Sums.
add sub subtract rsub: linear(self, other) pointwise
neg negative positive: linear(self) pointwise
lerp: linear(self, product(linear(end|tensors1, self), weight|weights)) pointwise
addcmul: linear(self, product(tensor1, tensor2, scalars)) pointwise
addcdiv: linear(self, product(tensor1, scalars, divisor(tensor2))) pointwise
complex: linear(real, imag) pointwise
where: product(linear(self, other), index(condition)) pointwise
masked_fill: product(linear(self, value), index(mask)) pointwise

# Products.
mul multiply: product(self, other) pointwise
div divide true_divide: product(self, divisor(other)) pointwise
    if rounding_mode: nonlinear(self, other) pointwise
rdiv: product(other, divisor(self)) pointwise
ldexp xlogy xlog1py: product(self, nonlinear(other)) pointwise
polar: nonlinear(abs, angle) pointwise
bitwise_left_shift __lshift__: product(self, nonlinear(other)) -> integer pointwise
rlshift: product(other, nonlinear(self)) -> integer pointwise

# Linear functions of one element.
deg2rad rad2deg conj conj_physical resolve_conj resolve_neg real imag: linear(self) pointwise view

# Functions of one element.
abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh ceil cos cosh digamma
erf erfc erfcx erfinv exp exp2 expit expm1 fix floor frac i0 i0e i1 i1e lgamma gammaln log log10 log1p log2 log_ndtr
logit ndtr ndtri psi reciprocal rsqrt sgn sigmoid sign sin sinc sinh sqrt square tan tanh trunc round nan_to_num entr
airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0
modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0: nonlinear(self) pointwise
mvlgamma multigammaln: nonlinear(self, p) pointwise
polygamma: nonlinear(self|n, n|input) pointwise
clamp clip: nonlinear(self, min, max) pointwise
clamp_min: nonlinear(self, min|other) pointwise
clamp_max: nonlinear(self, max|other) pointwise
frexp: nonlinear(self) -> same, discrete

# Functions of two elements.
atan2 arctan2 copysign fmod hypot logaddexp logaddexp2 maximum minimum fmax fmin nextafter remainder floor_divide
igamma igammac gammainc gammaincc zeta: nonlinear(self, other) pointwise
heaviside: nonlinear(self, values) pointwise
float_power pow: nonlinear(self, exponent|other) pointwise
    if exponent=1: linear(self) pointwise
    if other=1: linear(self) pointwise
rpow: nonlinear(self, other) pointwise
chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
shifted_chebyshev_polynomial_w: nonlinear(x|input, index(n))

# To bools or integers.
eq ne not_equal lt less le less_equal gt greater ge greater_equal isclose logical_and logical_or logical_xor
bitwise_and bitwise_or bitwise_xor bitwise_right_shift __and__ __or__
__xor__: nonlinear(self, other) -> discrete pointwise
gcd lcm: nonlinear(self, other) -> discrete pointwise
logical_not isnan isinf isfinite isneginf isposinf isreal signbit bitwise_not: nonlinear(self) -> discrete pointwise

# Casts and copies.
to: linear(self, shape(other|tensor)) pointwise view
type: linear(self) pointwise view
type_as: linear(self, shape(other)) pointwise view
float double half bfloat16 cfloat cdouble chalf cpu cuda xpu ipu mtia hpu clone contiguous pin_memory alias_copy
as_subclass to_dense to_mkldnn share_memory_ coalesce: linear(self) pointwise view
long int short char byte bool: linear(self) -> discrete pointwise view

# Fills and copies into.
copy_: linear(other|src) overwrites=self pointwise
zero_: shape(self) overwrites=self
fill: linear(value, shape(self))
fill_: linear(value) overwrites=self
fill_diagonal_: linear(self, fill_value)
set_: linear(source) overwrites=self
apply_: nonlinear(self) writes=self
map_: nonlinear(self, other) writes=self
map2_: nonlinear(self, x, y) writes=self

# Quantised values are rounded.
quantize_per_tensor: nonlinear(self, scale, zero_point, tensors, scales, zero_points)
quantize_per_channel: nonlinear(self, scales, zero_points)
quantize_per_tensor_dynamic dequantize int_repr q_per_channel_scales q_per_channel_zero_points
choose_qparams_optimized: nonlinear(self|tensors)
fake_quantize_per_channel_affine fake_quantize_per_tensor_affine fused_moving_avg_obs_fake_quant: nonlinear(*)
"""
