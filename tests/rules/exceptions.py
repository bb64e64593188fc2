"""What the simulation is told to expect, each with the reason."""

from __future__ import annotations

from typing import Final

# Rows of which a rejection is sound on every draw, and why it stands.  At most 40.
OVER_STRICT: Final[dict[str, str]] = {
    "copysign": "the sign operand gets a gradient of zeros, which is one",
    "nextafter": "steps of one unit in the last place, below what the simulation sees; it has no gradient",
    "floor_divide": "has no gradient, which only its integers show: on floats it is an ordinary operation",
    "heaviside": "has no gradient, as floor_divide",
    "hinge_embedding_loss": "the target gets a gradient of zeros, which is one",
    "soft_margin_loss": "a float target is an ordinary argument, though torch lets it have no gradient",
    "linear_cross_entropy": "class weights act linearly unless the mean divides by their sum",
    "histogram": "has no gradient, as floor_divide",
    "randn_like": "equal seeds draw equal numbers on all ranks, but not numbers that sum to one draw",
    "rand_like": "as randn_like",
    "randint_like": "as randn_like",
    "dropout": "sound where all ranks draw the same mask, which nothing shows",
    "dropout2d": "as dropout",
    "scaled_dot_product_attention": "as dropout, where it has a dropout",
    "powsum": "has no gradient, as floor_divide",
    "bincount": "has no gradient, as floor_divide",
    "ldl_solve": "the factors get no gradient in this version",
    **dict.fromkeys(
        (
            "chebyshev_polynomial_t",
            "chebyshev_polynomial_u",
            "chebyshev_polynomial_v",
            "chebyshev_polynomial_w",
            "hermite_polynomial_h",
            "hermite_polynomial_he",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
            "shifted_chebyshev_polynomial_t",
            "shifted_chebyshev_polynomial_u",
            "shifted_chebyshev_polynomial_v",
            "shifted_chebyshev_polynomial_w",
        ),
        "has no gradient in this version",
    ),
    "normal": "has no gradient; mixing means and deviations of different types is no one's intent",
}

# Rows with claims that do not hold where the target is a float, and why they stand.
KNOWN_MISSES: Final[dict[str, str]] = dict.fromkeys(
    ("cross_entropy", "linear_cross_entropy"),
    "class probabilities may get a gradient, class indices have none; its type does not say which a target is",
)


def _reasons(reason: str, rows: str) -> dict[str, str]:
    return dict.fromkeys(rows.split(), reason)


# Rows that no sample checks, and why.
NOT_SIMULATED: Final[dict[str, str]] = {
    **_reasons(
        "runs on one kind of device only",
        """cuda xpu ipu mtia hpu pin_memory to_mkldnn mkldnn_convolution mkldnn_adaptive_avg_pool2d mkldnn_max_pool2d
        mkldnn_max_pool3d mkldnn_rnn_layer mkldnn_linear_backward_weights miopen_rnn miopen_batch_norm miopen_ctc_loss
        miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
        miopen_depthwise_convolution cudnn_batch_norm cudnn_affine_grid_generator cudnn_grid_sampler cudnn_convolution
        cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose batch_norm_backward_elemt
        batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats batch_norm_gather_stats_with_counts
        batch_norm_stats scaled_mm scaled_grouped_mm _scaled_mm _scaled_grouped_mm native_norm saddmm""",
    ),
    **_reasons(
        "takes or gives quantised tensors, which have no float64",
        """quantize_per_tensor quantize_per_channel dequantize int_repr q_per_channel_scales q_per_channel_zero_points
        choose_qparams_optimized fake_quantize_per_channel_affine fused_moving_avg_obs_fake_quant quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_lstm quantized_gru quantized_lstm_cell quantized_gru_cell
        quantized_rnn_relu_cell quantized_rnn_tanh_cell quantized_batch_norm fbgemm_linear_fp16_weight
        fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation
        fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix
        quantize_per_tensor_dynamic""",
    ),
    **_reasons(
        "takes no tensor, so that every rank has the same",
        """zeros ones eye arange range full scalar_tensor tril_indices triu_indices fftfreq rfftfreq bartlett_window
        blackman_window hamming_window hann_window kaiser_window""",
    ),
    **_reasons(
        "gives a Python value, not a tensor",
        """item tolist numpy __array__ __float__ __int__ __long__ __index__ __complex__ __bool__ __nonzero__ __format__
        __repr__ __str__ is_nonzero __contains__ __not__ builtins.float builtins.int builtins.bool builtins.complex
        builtins.str builtins.repr builtins.format builtins.print builtins.all builtins.any builtins.min builtins.max
        builtins.sorted builtins.hex builtins.oct builtins.bin builtins.next builtins.enumerate builtins.divmod""",
    ),
    **_reasons(
        "the old name of a function with an underscore, which is checked",
        """init.normal init.uniform init.xavier_normal init.xavier_uniform init.kaiming_normal init.kaiming_uniform
        init.orthogonal init.sparse init.eye init.dirac init.constant clip_grad_norm""",
    ),
    **_reasons(
        "works on gradients or modules, not on its arguments' values",
        """autograd.grad grad_scaler.GradScaler.scale clip_grad_norm_ clip_grads_with_norm_ fuse_conv_bn_weights
        fuse_linear_bn_weights nn.parameter.Parameter nn.parameter.UninitializedParameter
        nn.parameter.Buffer nn.parameter.UninitializedBuffer as_subclass __deepcopy__""",
    ),
    **_reasons("takes a sparse tensor, which the simulation does not draw", "sparse_mask sampled_addmm"),
    **_reasons(
        "takes or gives packed or padded lists", "rnn.pack_padded_sequence rnn.pack_sequence rnn.unpad_sequence"
    ),
    **_reasons(
        "changes storage or calls Python per element",
        """set_ map2_ builtins.round sparse_resize_ sparse_resize_and_clear_ resize_as_sparse_ to_padded_tensor
        slice_inverse""",
    ),
    **_reasons(
        "not in the installed version, or the copying twin of a view that is checked",
        """unique_dim indices_copy values_copy align_to align_as align_tensors refine_names rename linalg.polar
        matrix_sqrth crow_indices_copy col_indices_copy ccol_indices_copy row_indices_copy""",
    ),
}
