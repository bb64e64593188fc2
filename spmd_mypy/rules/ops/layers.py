"""``torch.nn.functional``: layers, activations, pooling, losses."""

from __future__ import annotations

from typing import Final

ROWS: Final = """
# Affine in the input, linear in each parameter.
linear: linear(product(input, weight), bias)
conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
mkldnn_convolution: linear(product(input, weight), bias)
bilinear: linear(product(input1, input2, weight), bias)

# Normalisation: nonlinear in the input, affine in the parameters.
layer_norm group_norm: linear(product(nonlinear(input), weight), bias)
native_layer_norm native_group_norm: linear(product(nonlinear(input), weight), bias) -> same, unknown, unknown
rms_norm: product(nonlinear(input), weight)
batch_norm: linear(product(linear(input, index(running_mean)), index(running_var), weight), bias)
    if training!=False: linear(product(nonlinear(input), weight, shape(running_mean, running_var)), bias)
native_batch_norm: linear(product(nonlinear(input), weight, index(running_mean, running_var)), bias) -> same, unknown
instance_norm: linear(product(nonlinear(input), weight, shape(running_mean, running_var)), bias)
    if use_input_stats=False: linear(product(linear(input, index(running_mean)), index(running_var), weight), bias)
local_response_norm normalize: nonlinear(input)

# Attention.
scaled_dot_product_attention: product(nonlinear(query, key, attn_mask), value)
    if dropout_p!=0: product(nonlinear(query, key, attn_mask), random(value))
flex_attention: product(nonlinear(query, key), value) -> same, unknown
multi_head_attention_forward: nonlinear(*)

# Activations.
relu relu6 gelu silu mish elu selu celu softplus leaky_relu hardswish hardsigmoid hardtanh hardshrink softshrink
tanhshrink softsign logsigmoid threshold: nonlinear(input) pointwise
glu softmin: nonlinear(input)
prelu: nonlinear(input, weight)

# Random.
dropout native_dropout: random(input) pointwise
    if training=False: linear(input) pointwise
    if train=False: linear(input) pointwise
    if p=0: linear(input) pointwise
dropout1d dropout2d dropout3d feature_dropout alpha_dropout feature_alpha_dropout: random(input) pointwise
    if training=False: linear(input) pointwise
    if train=False: linear(input) pointwise
rrelu: nonlinear(input) pointwise
    if training!=False: random(input) pointwise
gumbel_softmax: random(logits)
fractional_max_pool2d fractional_max_pool3d fractional_max_pool2d_with_indices
fractional_max_pool3d_with_indices: random(input, index(_random_samples)) -> same, discrete

# Pooling and resampling.
avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
mkldnn_adaptive_avg_pool2d interpolate upsample upsample_bilinear upsample_nearest fold: linear(input)
max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d adaptive_max_pool1d_with_indices
adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices: nonlinear(input) -> same, discrete
lp_pool1d lp_pool2d lp_pool3d mkldnn_max_pool2d mkldnn_max_pool3d quantized_max_pool1d quantized_max_pool2d
quantized_max_pool3d: nonlinear(input)
max_unpool1d max_unpool2d max_unpool3d: product(input, index(indices))
grid_sample grid_sampler grid_sampler_2d grid_sampler_3d: product(input, nonlinear(grid))
affine_grid affine_grid_generator: linear(theta)

# Losses.  Class indices have no gradient, nor have class weights.
cross_entropy: nonlinear(input, index(target, weight))
nll_loss: product(input, index(target, weight))
multi_margin_loss multilabel_margin_loss: nonlinear(input, index(target, weight))
linear_cross_entropy: nonlinear(input, linear_weight, linear_bias, index(target, weight))
ctc_loss: nonlinear(log_probs, index(targets, input_lengths, target_lengths))
binary_cross_entropy binary_cross_entropy_with_logits
multilabel_soft_margin_loss: product(nonlinear(input, target, pos_weight), weight)
mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss hinge_embedding_loss
soft_margin_loss: nonlinear(input, target, weight)
gaussian_nll_loss: nonlinear(input, target, var)
margin_ranking_loss cosine_embedding_loss: nonlinear(input1, input2, target)
triplet_margin_loss triplet_margin_with_distance_loss: nonlinear(anchor, positive, negative)

# Recurrent layers, and kernels of one backend: nonlinear in all tensors.
lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell quantized_lstm quantized_gru
quantized_lstm_cell quantized_gru_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell mkldnn_rnn_layer miopen_rnn
batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats quantized_batch_norm cudnn_batch_norm
miopen_batch_norm cudnn_affine_grid_generator cudnn_grid_sampler cudnn_convolution_add_relu cudnn_convolution_relu
miopen_convolution_add_relu miopen_convolution_relu miopen_ctc_loss mkldnn_linear_backward_weights
fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
fbgemm_pack_quantized_matrix cudnn_convolution cudnn_convolution_transpose miopen_convolution
miopen_convolution_transpose miopen_depthwise_convolution: nonlinear(*)
"""
