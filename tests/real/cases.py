"""Three files of training code that is in use: a parallel attention, an MoE layer, a loss with its own gradient."""

from __future__ import annotations

from typing import Final

from tests.real.annotate import RETURN, Case, Edit, Mutation

_IMPORTS: Final = (
    "from typing import Any, Callable, Optional\nfrom spmd_runtime import TP, I, P, R, V, all_reduce, convert\n"
)

# ---- Megatron's vocabulary-parallel cross entropy: logits are cut along the vocabulary, targets are on every rank.

_LOSS_IMPORTS: Final = _IMPORTS.replace("I, P", "I, P, Tensor, reinterpret")
_GROUP: Final = "group=get_tensor_model_parallel_group()"
LOSS: Final = Case(
    package="megatron-core==0.16.1",
    file="megatron/core/tensor_parallel/cross_entropy.py",
    imports=_LOSS_IMPORTS,
    signatures={
        "VocabParallelCrossEntropy.calculate_logits_max": {
            "vocab_parallel_logits": "Tensor[V[TP]]",
            RETURN: "tuple[Tensor[V[TP]], Tensor[V[TP]]]",
        },
        "VocabParallelCrossEntropy.calculate_predicted_logits": {
            "vocab_parallel_logits": "Tensor[V[TP]]",
            "target": "Tensor[V[TP]]",
            "logits_max": "Tensor[R[TP]]",
            RETURN: "tuple[Tensor[V[TP]], Tensor[V[TP]], Tensor[V[TP]], Tensor[V[TP]], Tensor[V[TP]]]",
        },
        "VocabParallelCrossEntropy.calculate_cross_entropy_loss": {
            "exp_logits": "Tensor[V[TP]]",
            "predicted_logits": "Tensor[R[TP]]",
            "sum_exp_logits": "Tensor[R[TP]]",
            RETURN: "tuple[Tensor[V[TP]], Tensor[R[TP]]]",
        },
        "VocabParallelCrossEntropy.prepare_gradient_calculation_operands": {
            "softmax": "Tensor[V[TP]]",
            "target_mask": "Tensor[V[TP]]",
            RETURN: "tuple[Tensor[V[TP]], Tensor[R[TP]], Tensor[V[TP]], Tensor[V[TP]]]",
        },
        "VocabParallelCrossEntropy.calculate_gradients": {
            "grad_2d": "Tensor[V[TP]]",
            "arange_1d": "Tensor[R[TP]]",
            "masked_target_1d": "Tensor[V[TP]]",
            "softmax_update": "Tensor[V[TP]]",
            "grad_input": "Tensor[V[TP]]",
            "grad_output": "Tensor[I[TP]]",
            RETURN: "Tensor[V[TP]]",
        },
        "_VocabParallelCrossEntropy.forward": {
            "ctx": "Any",
            "vocab_parallel_logits": "Tensor[V[TP]]",
            "target": "Tensor[R[TP]]",
            "label_smoothing": "float",
            RETURN: "Tensor[I[TP]]",
        },
        "_VocabParallelCrossEntropy.backward": {
            "ctx": "Any",
            "grad_output": "Tensor[I[TP]]",
            RETURN: "tuple[Tensor[V[TP]], None, None]",
        },
        "vocab_parallel_cross_entropy": {
            "vocab_parallel_logits": "Tensor[V[TP]]",
            "target": "Tensor[R[TP]]",
            "label_smoothing": "float",
            RETURN: "Tensor[I[TP]]",
        },
    },
    edits=[
        Edit(
            r"^( +)(softmax, target_mask, masked_target_1d = ctx.saved_tensors)$",
            r"\1softmax: Tensor[V[TP]]\n\1target_mask: Tensor[V[TP]]\n\1masked_target_1d: Tensor[V[TP]]\n\1\2",
        ),
        # Compared with the first index of the own part of the vocabulary, a Python number, targets differ by rank.
        Edit(
            r"^( +)(# Get the partition's vocab indices)$",
            r"\1target = reinterpret(target, TP, src=R, dst=V, expert_mode=True)\n\1\2",
        ),
        # The package forgets to average this over the ranks, which the mutation ``smoothing`` shows to be reported.
        Edit(
            r"^( +)(mean_log_probs = .*)$",
            rf"\1\2\n\1torch.distributed.all_reduce(mean_log_probs, op=torch.distributed.ReduceOp.AVG, {_GROUP})",
        ),
        Edit(r"^( +)@staticmethod\n( +def calculate_gradients)", r"\1@staticmethod\n\1@torch.no_grad()\n\2"),
    ],
    mutations=[
        Mutation("maximum", Edit(r"torch\.distributed\.all_reduce\(\s*logits_max,[^)]*\(\)\s*\)", "pass"), "spmd-arg"),
        Mutation(
            "predicted",
            Edit(r"torch\.distributed\.all_reduce\(\s*predicted_logits,[^)]*\(\),?\s*\)", "pass"),
            "spmd-arg",
        ),
        Mutation(
            "sum", Edit(r"torch\.distributed\.all_reduce\(\s*sum_exp_logits,[^)]*\(\),?\s*\)", "pass"), "spmd-arg"
        ),
        Mutation("smoothing", Edit(r"torch\.distributed\.all_reduce\(mean_log_probs,.*$", "pass"), "spmd-return"),
        Mutation(
            "wrong_gradient", Edit(r"return grad_input, None, None", "return grad_output, None, None"), "spmd-return"
        ),
        Mutation(
            "reduced_gradient",
            Edit(
                r"^( +)return grad_input, None, None",
                rf"\1torch.distributed.all_reduce(grad_input, {_GROUP})\n\1return grad_input, None, None",
            ),
            "spmd-return",
        ),
        Mutation(
            "twice",
            Edit(
                r"^( +)vocab_size = exp_logits\.size\(-1\)$",
                rf"\1torch.distributed.all_reduce(loss, {_GROUP})\n\1vocab_size = exp_logits.size(-1)",
            ),
            "spmd-collective",
        ),
        Mutation("partial_targets", Edit(r"^( +)target = reinterpret\(.*$", r"\1target = target"), "spmd-arg"),
    ],
)

# ---- Megatron's attention proper: the heads are cut over tensor parallel ranks, each works on its own.

ATTENTION: Final = Case(
    package="megatron-core==0.16.1",
    file="megatron/core/transformer/dot_product_attention.py",
    imports=_IMPORTS
    + "from spmd_runtime import Tensor as T\n"
    + "Softmax = Callable[[T[V[TP]], Optional[T[R[TP]]], Optional[T[V[TP]]]], T[V[TP]]]\n",
    signatures={
        "DotProductAttention.forward": {
            "query": "Tensor[V[TP]]",
            "key": "Tensor[V[TP]]",
            "value": "Tensor[V[TP]]",
            "attention_mask": "Optional[Tensor[R[TP]]]",
            "attention_bias": "Optional[Tensor[V[TP]]]",
            RETURN: "Tensor[V[TP]]",
        },
    },
    attributes={
        "DotProductAttention": {
            "softmax_offset": "Optional[Tensor[V[TP]]]",
            "num_attention_heads_per_partition": "int",
            "num_query_groups_per_partition": "int",
            "scale_mask_softmax": "Softmax",
        },
    },
    edits=[
        # A buffer that is written over: beta is 0.
        Edit(r"^( +)matmul_input_buffer = ", r"\1matmul_input_buffer: Tensor[V[TP]] = "),
        Edit(r"^( +)attention_probs: Tensor = ", r"\1attention_probs: Tensor[V[TP]] = "),
    ],
    mutations=[
        Mutation(
            "reduced_context", Edit(r"^( +)return context$", r"\1return all_reduce(context, TP, dst=R)"), "spmd-return"
        ),
        Mutation(
            "summed_scores",
            Edit(r"^( +)attention_scores = (.*)$", r"\1attention_scores = all_reduce(\2, TP, dst=R)"),
            "spmd-arg",
        ),
        Mutation(
            "replicated_value",
            Edit(
                r"^( +)value = value\.view\(", r"\1value = all_reduce(value, TP, src=V, dst=I)\n\1value = value.view("
            ),
            "spmd-mix",
        ),
        Mutation(
            "partial_query",
            Edit(
                r"^( +)query = query\.reshape\(",
                r"\1query = convert(query, TP, src=V, dst=P, expert_mode=True).reshape(",
            ),
            "spmd-mix",
        ),
    ],
)

# ---- torchtitan's mixture of experts: the experts' hidden dimension is cut over tensor parallel ranks.

MOE: Final = Case(
    package="torchtitan==0.3.0",
    file="torchtitan/models/common/moe.py",
    imports=_IMPORTS.replace("I, P", "I, P, Parameter, Tensor"),
    signatures={
        "GroupedExperts.forward": {
            "x_RD": "Tensor[R[TP]]",
            "num_tokens_per_expert_E": "Tensor[R[TP]]",
            RETURN: "Tensor[P[TP]]",
        },
        "GroupedExperts._grouped_mm": {
            "A": "Tensor[R[TP]] | Tensor[V[TP]]",
            "B_t": "Tensor[V[TP]]",
            "offs": "Tensor[R[TP]]",
            RETURN: "Tensor[V[TP]]",
        },
        "RoutedExperts.forward": {
            "x_BLD": "Tensor[R[TP]]",
            "topk_scores_BLK": "Tensor[R[TP]]",
            "topk_expert_ids_BLK": "Tensor[R[TP]]",
            "num_local_tokens_per_expert_E": "Tensor[R[TP]]",
            RETURN: "Tensor[P[TP]]",
        },
        "TokenChoiceTopKRouter._debug_force_load_balance_routing": {
            "scores_BLE": "Tensor[R[TP]]",
            RETURN: "tuple[Tensor[R[TP]], Tensor[R[TP]]]",
        },
        "TokenChoiceTopKRouter._get_node_limited_routing_scores": {
            "scores_for_choice_BLE": "Tensor[R[TP]]",
            RETURN: "Tensor[R[TP]]",
        },
        "TokenChoiceTopKRouter.forward": {
            "x_BLD": "Tensor[R[TP]]",
            "expert_bias_E": "Tensor[R[TP]] | None",
            RETURN: "tuple[Tensor[R[TP]], Tensor[R[TP]], Tensor[R[TP]]]",
        },
        "MoE.forward": {"x_BLD": "Tensor[I[TP]]", RETURN: "Tensor[I[TP]]"},
    },
    attributes={
        "GroupedExperts": {
            "w1_EFD": "Parameter[V[TP]]",
            "w2_EDF": "Parameter[V[TP]]",
            "w3_EFD": "Parameter[V[TP]]",
        },
        "RoutedExperts": {
            "inner_experts": "GroupedExperts",
        },
        "TokenChoiceTopKRouter": {"gate": "Callable[[Tensor[R[TP]]], Tensor[R[TP]]]"},
        "MoE": {
            "routed_experts": "RoutedExperts",
            "router": "TokenChoiceTopKRouter",
            "shared_experts": "Callable[[Tensor[R[TP]]], Tensor[P[TP]]] | None",
            "expert_bias_E": "Tensor[R[TP]] | None",
            "tokens_per_expert_E": "Tensor[R[TP]]",
        },
    },
    edits=[
        # What leaves DTensor, and what the dispatcher, which is not annotated, gives.
        Edit(r"^( +)(w[123]_E\w\w)( = self\.\2\.to_local\(\))$", r"\1\2: Tensor[V[TP]]\3", count=3),
        Edit(r"^( +)(topk_expert_ids_TK = .*)$", r"\1\2\n\1routed_input_RD: Tensor[R[TP]]"),
        Edit(r"^( +)out_TD = ", r"\1out_TD: Tensor[P[TP]] = "),
        # What the package's parallelisation plan does around the layer.
        Edit(
            r"^( +)(# topk_scores_BLK and topk_expert_ids_BLK shape.*)$",
            r"\1x_BLD = convert(x_BLD, TP, src=I, dst=R)\n\1\2",
        ),
        Edit(r"^( +)return out_BLD$", r"\1return all_reduce(out_BLD, TP, dst=I)"),
    ],
    mutations=[
        Mutation("unreduced", Edit(r"return all_reduce\(out_BLD, TP, dst=I\)", "return out_BLD"), "spmd-return"),
        Mutation("unconverted", Edit(r"x_BLD = convert\(x_BLD, .*$", "pass"), "spmd-arg"),
        Mutation(
            "shared_reduced",
            Edit(r"out_BLD = out_BLD \+ shared_out_BLD", "out_BLD = out_BLD + all_reduce(shared_out_BLD, TP, dst=R)"),
            "spmd-mix",
        ),
        Mutation("nonlinear", Edit(r"return out_TD\.view\(", "return F.silu(out_TD).view("), "spmd-partial"),
        Mutation(
            "reduced_scores",
            Edit(r"scores_BLE = self\.gate\(x_BLD\)", "scores_BLE = all_reduce(self.gate(x_BLD), TP, dst=R)"),
            "spmd-collective",
        ),
        Mutation(
            "reduced_twice",
            Edit(r"return all_reduce\(out_BLD, ", "return all_reduce(all_reduce(out_BLD, TP, dst=R), "),
            "spmd-collective",
        ),
    ],
)
CASES: Final = {"loss": LOSS, "attention": ATTENTION, "moe": MOE}
