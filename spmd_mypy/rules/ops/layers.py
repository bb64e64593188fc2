"""``torch.nn.functional`` and the modules that go through it."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
linear: linear(product(input, weight), bias)
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d: linear(product(input, weight), bias)
bilinear: linear(product(input1, input2, weight), bias)
relu relu6 gelu silu mish elu selu celu softplus leaky_relu hardswish hardtanh: nonlinear(input) pointwise
dropout: random(input) pointwise
    if training=False: linear(input) pointwise
    if p=0: linear(input) pointwise
layer_norm: linear(product(nonlinear(input), weight), bias)
rms_norm: product(nonlinear(input), weight)
embedding: product(weight, index(input))
scaled_dot_product_attention: product(nonlinear(query, key, attn_mask), value)
cross_entropy: nonlinear(input, index(target, weight))
nll_loss: product(input, index(target, weight))
mse_loss: nonlinear(input, target, weight)
"""
