"""Callables that the rules have nothing to say about, each with the reason.

They are known, so that nothing is reported where they are called: they give unknown results.
"""

from __future__ import annotations

from typing import Final

REASONS: Final = {
    "reads shape, dtype, device, layout or flags, no values": """
size stride dim ndim has_names ndimension shape numel nelement nbytes itemsize element_size dim_order storage_offset
dtype device layout get_device is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_neg
is_pinned is_same_size is_set_to is_shared is_signed is_coalesced is_cpu is_cuda is_ipu is_maia is_meta is_mkldnn
is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu is_leaf is_tensor is_storage
requires_grad retains_grad output_nr grad_fn grad_dtype name qscheme q_per_channel_axis q_scale q_zero_point
sparse_dim dense_dim result_type broadcast_shapes can_cast promote_types typename cudnn_is_acceptable __len__
__sizeof__ __hash__ builtins.len builtins.id builtins.isinstance builtins.type builtins.hash builtins.hasattr
builtins.callable __dlpack_device__ is_tensor_like""",
    "hands out memory, on which nothing is tracked": """
data_ptr const_data_ptr storage untyped_storage storage_type __dlpack__ to_dlpack __cuda_array_interface__
__dlpack_c_exchange_api__ record_stream save load""",
    "registers something, or prepares for autograd or modules": """
register_hook register_post_accumulate_grad_hook retain_grad volatile module_load reinforce backward
autograd.backward grad autograd.variable autograd.gradcheck autograd.gradgradcheck autograd.is_view_replay_enabled
autograd.is_multithreading_enabled autograd.kineto_available clip_grad_value_""",
    "part of Python's object protocol": """
__annotations__ __class_getitem__ __array_priority__ __array_wrap__ __delattr__ __delitem__ __dict__ __dir__ __doc__
__getattribute__ __getstate__ __init__ __init_subclass__ __module__ __new__ __reduce__ __reduce_ex__ __setattr__
__setstate__ __subclasshook__ __torch_dispatch__ __torch_function__ __weakref__ __class__ handle_torch_function
has_torch_function has_torch_function_unary has_torch_function_variadic boolean_dispatch assert_int_or_pair
classproperty Optional""",
    "takes functions, whose bodies are checked by themselves": """
compile cond while_loop vmap fork wait utils.skip_init""",
    "sets or reads a mode of the process": """
are_deterministic_algorithms_enabled autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
compiled_with_cxx11_abi get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_autocast_ipu_dtype
get_autocast_xla_dtype get_default_device get_default_dtype get_deterministic_debug_mode get_device_module
get_file_path get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state init_num_threads
initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled
is_autocast_enabled is_autocast_ipu_enabled is_autocast_xla_enabled is_deterministic_algorithms_warn_only_enabled
is_grad_enabled is_inference_mode_enabled is_vulkan_available is_warn_always_enabled manual_seed
prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 seed set_anomaly_enabled
set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled
set_autocast_gpu_dtype set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype
set_autocast_xla_enabled set_default_device set_default_dtype set_default_tensor_type set_deterministic_debug_mode
set_float32_matmul_precision set_flush_denormal set_num_interop_threads set_num_threads set_printoptions
set_rng_state set_warn_always thread_safe_generator use_deterministic_algorithms init.calculate_gain""",
    "compiles or parses TorchScript": """
import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema parse_type_comment
unify_type_list""",
    "works on symbolic numbers": """
sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not
sym_sqrt sym_sum""",
    "removed from torch: raises where it is called": "torch.eig Tensor.eig lstsq symeig torch.solve Tensor.solve",
    "first-class dimensions of functorch": "Tensor.index",
    "changes modules, whose parameters have types of their own": """
convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format fuse_conv_bn_eval fuse_linear_bn_eval
remove_spectral_norm remove_weight_norm spectral_norm weight_norm""",
    "acts on parameters and gradients that it holds, whose types are checked where they are declared": """
torch.optim.Optimizer.step torch.optim.Optimizer.zero_grad""",
    "works on packed sequences, which have no type": """
rnn.pad_packed_sequence rnn.unpack_sequence rnn.bind rnn.copy_method_params""",
}
