"""Where gradients start and stop, and what gathers parameters."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
detach data detach_copy: linear(self) -> detached pointwise view
requires_grad_: linear(self) -> leaf pointwise
    if requires_grad=False: linear(self) pointwise
    if mode=False: linear(self) pointwise
nn.Parameter nn.parameter.Parameter nn.parameter.UninitializedParameter: linear(data) -> leaf pointwise
nn.Buffer nn.parameter.Buffer nn.parameter.UninitializedBuffer: linear(data) pointwise
autograd.grad: loss(outputs) -> dual
    if grad_outputs: shape(outputs, grad_outputs) -> dual
grad_scaler.GradScaler.scale: linear(outputs) pointwise

# torch.nn.utils.
clip_grad_norm clip_grad_norm_: nonlinear(parameters) -> detached
get_total_norm: nonlinear(tensors) -> detached
clip_grads_with_norm_: nonlinear(parameters, total_norm)
parameters_to_vector: linear(parameters)
vector_to_parameters: linear(vec) overwrites=parameters
fuse_conv_bn_weights fuse_linear_bn_weights: nonlinear(*)
rnn.pack_padded_sequence: product(input, index(lengths))
rnn.pack_sequence: linear(sequences)
rnn.unpad_sequence: product(padded_sequences, index(lengths))
rnn.invert_permutation: index(permutation) -> discrete
"""
