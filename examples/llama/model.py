"""A Llama-style transformer, cut over ``tp`` and replicated over ``dp``, every tensor typed.

Two models share their parameters and all modules that compute:

=========================  ====================  ==========================  ==========================
model                      between the blocks    into half a block           out of half a block
=========================  ====================  ==========================  ==========================
``TensorParallelLlama``    ``I[TP]``             convert I -> R              all_reduce P -> I
                                                 (backward: all_reduce)      (backward: identity)
``SequenceParallelLlama``  ``S[TP, 0]``          all_gather S(0) -> R        reduce_scatter P -> S(0)
                                                 (backward: reduce_scatter)  (backward: all_gather)
=========================  ====================  ==========================  ==========================

Attention, MLP, embedding, head and loss are the same code in both: they take a Replicate tensor and give the
summands of a pending sum (Partial), and the model says how that sum is taken.

Activations are sequence first, ``(s, b, d)``: the cut of sequence parallelism is then dim 0, a rank's tokens lie
together in memory, and the collectives need no transposed copy.

Shapes in comments: s sequence, b local batch, d model dim, h heads and g key/value heads of this rank, e head dim,
f feed-forward dim of this rank, v vocabulary rows of this rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from spmd_runtime import (
    DP,
    TP,
    I,
    P,
    Parameter,
    R,
    S,
    Tensor,
    V,
    all_gather,
    all_reduce,
    axis_index,
    axis_size,
    convert,
    reduce_scatter,
)

Tokens = Tensor[V[DP], R[TP]]  # (s, b) token ids: every tp rank has all of its dp rank's tokens
Whole = Tensor[V[DP], R[TP]]  # whole on every tp rank, used by each for itself: what column-parallel weights multiply
Summand = Tensor[V[DP], P[TP]]  # (s, b, d) what row-parallel weights give: one summand per tp rank
Same = Tensor[V[DP], I[TP]]  # (s, b, d) the hidden state without sequence parallelism
Cut = Tensor[V[DP], S[TP, Literal[0]]]  # (s/tp, b, d) the hidden state with it
Own = Tensor[V[DP], V[TP]]  # something else on every rank: own heads, own vocabulary rows
Table = Tensor[R[DP], R[TP]]  # (s, e/2) the same on every rank
Loss = Tensor[V[DP], I[TP]]  # () one loss per dp rank

NormWeight = Parameter[R[DP], I[TP]]
CutWeight = Parameter[R[DP], V[TP]]


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes of the whole model; tp divides ``vocab``, ``kv_heads`` and ``ffn`` (with sequence parallelism also s)."""

    vocab: int = 256
    dim: int = 128
    layers: int = 4
    heads: int = 8
    kv_heads: int = 4
    ffn: int = 344
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    recompute: bool = False  # activation checkpointing: keep block inputs only, recompute the rest in the backward

    def __post_init__(self) -> None:
        if self.dim % (2 * self.heads):
            raise ValueError(f"dim = {self.dim} must be a multiple of 2 * heads = {2 * self.heads}: rotary turns pairs")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads = {self.heads} must be a multiple of kv_heads = {self.kv_heads}")

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


def tp_share(size: int, what: str) -> int:
    """The part of ``size`` that each tp rank holds; ValueError where tp does not divide it."""
    share, rest = divmod(size, axis_size(TP))
    if rest:
        raise ValueError(f"{what} = {size} cannot be cut over {axis_size(TP)} tp ranks: choose a multiple")
    return share


class Rotary(NamedTuple):
    """Cosine and sine of position times frequency."""

    cos: Table
    sin: Table


def rotary(config: LlamaConfig, length: int, like: torch.Tensor) -> Rotary:
    """The table for positions 0 to ``length``, in ``like``'s dtype and on its device.

    Computed in float64, once per forward: a table kept as a buffer would be rounded by ``model.to(torch.bfloat16)``.
    """
    exponent = torch.arange(0, config.head_dim, 2, dtype=torch.float64, device=like.device) / config.head_dim
    position = torch.arange(length, dtype=torch.float64, device=like.device)
    angle = torch.outer(position, config.rope_theta**-exponent)
    return Rotary(angle.cos().to(like.dtype), angle.sin().to(like.dtype))


def rotate(x: Own, table: Rotary) -> Own:
    """Turn each pair (x[i], x[i + e/2]) by its position's angle; x is ``(b, h, s, e)``."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * table.cos - right * table.sin, right * table.cos + left * table.sin), dim=-1)


def own_rows(ids: Tokens, rows: int) -> tuple[Own, Own]:
    """Token ids as rows of this rank's part of the vocabulary, clamped, and whether they lie in it.

    The offset is a tensor, ``axis_index(TP)``, not a Python number: the graph is then the same on every rank.
    """
    local = ids - axis_index(TP) * rows
    return local.clamp(0, rows - 1), (local >= 0) & (local < rows)


class VocabParallel(nn.Module):
    """What embedding and head hold: this rank's rows of a ``(vocab, dim)`` table."""

    tp_dims: ClassVar[Mapping[str, int]] = {"weight": 0}
    weight: CutWeight

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(tp_share(config.vocab, "vocab"), config.dim))


class VocabParallelEmbedding(VocabParallel):
    """Each rank looks up the tokens of its vocabulary rows and gives zeros for the others: summands."""

    def forward(self, tokens: Tokens) -> Summand:
        row, ours = own_rows(tokens, self.weight.shape[0])
        return F.embedding(row, self.weight).masked_fill(~ours.unsqueeze(-1), 0.0)


class VocabParallelHead(VocabParallel):
    """Column-parallel projection to this rank's part of the vocabulary."""

    def forward(self, x: Whole) -> Own:
        return F.linear(x, self.weight)  # (s, b, v)


def vocab_parallel_cross_entropy(logits: Own, targets: Tokens) -> Loss:
    """Mean over the tokens of ``log(sum(exp(logits))) - logits[target]``, for logits ``(s, b, v)`` cut over tp.

    The logits are never gathered: three numbers per token cross the ranks, the maximum, the sum and the target's logit.
    From the sums on, every rank computes the same loss once (Invariant, not Replicate: the gradient that comes back is
    whole already and must not be summed again).
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    row, ours = own_rows(targets, logits.shape[-1])
    # Only for range: the maximum cancels, so it carries no gradient. Gathered, one float per token and rank, because
    # a maximum is no sum: there is no Partial for it.
    peak: Whole = all_gather(logits.detach().amax(-1), TP, src=V, dst=R).amax(0)  # (s, b)
    logits = logits - peak.unsqueeze(-1)
    own_sum: Summand = logits.exp().sum(-1)
    log_sum = all_reduce(own_sum, TP, src=P, dst=I).log()
    own_target: Summand = logits.gather(-1, row.unsqueeze(-1)).squeeze(-1).masked_fill(~ours, 0.0)
    return (log_sum - all_reduce(own_target, TP, src=P, dst=I)).mean()


class Norm(nn.Module):
    """What both RMS norms hold: one weight, the same on all tp ranks (Invariant), its gradient whole on each."""

    weight: NormWeight

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.empty(config.dim))


class RMSNorm(Norm):
    """Every rank normalises all tokens alike."""

    def forward(self, x: Same) -> Same:
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class SequenceParallelRMSNorm(Norm):
    """Every rank normalises its own tokens; the conversion's backward sums the ranks' weight gradients."""

    def forward(self, x: Cut) -> Cut:
        weight = convert(self.weight, TP, src=I, dst=R)
        return F.rms_norm(x, weight.shape, weight, self.eps)


class Attention(nn.Module):
    """Causal grouped-query attention with rotary positions; the heads are cut over tp."""

    tp_dims: ClassVar[Mapping[str, int]] = {"wq": 0, "wk": 0, "wv": 0, "wo": 1}
    wq: CutWeight
    wk: CutWeight
    wv: CutWeight
    wo: CutWeight

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        queries = tp_share(config.heads, "heads") * self.head_dim
        keys = tp_share(config.kv_heads, "kv_heads") * self.head_dim
        self.wq = nn.Parameter(torch.empty(queries, config.dim))
        self.wk = nn.Parameter(torch.empty(keys, config.dim))
        self.wv = nn.Parameter(torch.empty(keys, config.dim))
        self.wo = nn.Parameter(torch.empty(config.dim, queries))

    def heads(self, x: Own) -> Own:
        """``(s, b, h*e)`` as ``(b, h, s, e)``."""
        return x.view(*x.shape[:2], -1, self.head_dim).permute(1, 2, 0, 3)

    def forward(self, x: Whole, table: Rotary) -> Summand:
        q = rotate(self.heads(F.linear(x, self.wq)), table)  # (b, h, s, e)
        k = rotate(self.heads(F.linear(x, self.wk)), table)  # (b, g, s, e)
        v = self.heads(F.linear(x, self.wv))  # (b, g, s, e)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return F.linear(y.permute(2, 0, 1, 3).flatten(2), self.wo)  # (s, b, d)


class MLP(nn.Module):
    """SwiGLU: ``w2(silu(w1 x) * w3 x)``; the feed-forward dim is cut over tp."""

    tp_dims: ClassVar[Mapping[str, int]] = {"w1": 0, "w3": 0, "w2": 1}
    w1: CutWeight
    w3: CutWeight
    w2: CutWeight

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        ffn = tp_share(config.ffn, "ffn")
        self.w1 = nn.Parameter(torch.empty(ffn, config.dim))
        self.w3 = nn.Parameter(torch.empty(ffn, config.dim))
        self.w2 = nn.Parameter(torch.empty(config.dim, ffn))

    def forward(self, x: Whole) -> Summand:
        return F.linear(F.silu(F.linear(x, self.w1)) * F.linear(x, self.w3), self.w2)


class TensorParallelBlock(nn.Module):
    """A block on a hidden state that every tp rank has whole."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(config), Attention(config)
        self.mlp_norm, self.mlp = RMSNorm(config), MLP(config)

    def forward(self, h: Same, table: Rotary) -> Same:
        x = convert(self.attention_norm(h), TP, src=I, dst=R)
        h = h + all_reduce(self.attention(x, table), TP, src=P, dst=I)
        x = convert(self.mlp_norm(h), TP, src=I, dst=R)
        return h + all_reduce(self.mlp(x), TP, src=P, dst=I)


class SequenceParallelBlock(nn.Module):
    """A block on a hidden state whose tokens are cut over tp; norms and residuals work on the own tokens only."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm, self.attention = SequenceParallelRMSNorm(config), Attention(config)
        self.mlp_norm, self.mlp = SequenceParallelRMSNorm(config), MLP(config)

    def forward(self, h: Cut, table: Rotary) -> Cut:
        x = all_gather(self.attention_norm(h), TP, src=S(0), dst=R)
        h = h + reduce_scatter(self.attention(x, table), TP, src=P, dst=S(0))
        x = all_gather(self.mlp_norm(h), TP, src=S(0), dst=R)
        return h + reduce_scatter(self.mlp(x), TP, src=P, dst=S(0))


class TensorParallelLlama(nn.Module):
    """Tensor parallel without sequence parallelism: Invariant between blocks."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = VocabParallelEmbedding(config)
        self.blocks = nn.ModuleList([TensorParallelBlock(config) for _ in range(config.layers)])
        self.norm, self.head = RMSNorm(config), VocabParallelHead(config)

    def forward(self, tokens: Tokens, targets: Tokens) -> Loss:
        h = all_reduce(self.embedding(tokens), TP, src=P, dst=I)
        table = rotary(self.config, tokens.shape[0], h)
        for block in self.blocks:
            h = checkpoint(block, h, table, use_reentrant=False) if self.config.recompute else block(h, table)
        x = convert(self.norm(h), TP, src=I, dst=R)
        return vocab_parallel_cross_entropy(self.head(x), targets)


class SequenceParallelLlama(nn.Module):
    """Tensor parallel with sequence parallelism: the tokens are cut between blocks, with 1/tp of the activations."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = VocabParallelEmbedding(config)
        self.blocks = nn.ModuleList([SequenceParallelBlock(config) for _ in range(config.layers)])
        self.norm, self.head = SequenceParallelRMSNorm(config), VocabParallelHead(config)

    def forward(self, tokens: Tokens, targets: Tokens) -> Loss:
        h = reduce_scatter(self.embedding(tokens), TP, src=P, dst=S(0))
        table = rotary(self.config, tokens.shape[0], h)
        for block in self.blocks:
            h = checkpoint(block, h, table, use_reentrant=False) if self.config.recompute else block(h, table)
        x = all_gather(self.norm(h), TP, src=S(0), dst=R)
        return vocab_parallel_cross_entropy(self.head(x), targets)


Llama = TensorParallelLlama | SequenceParallelLlama


def tp_dims(model: nn.Module) -> dict[str, int | None]:
    """For every parameter, the dim along which it is cut over tp, or None where each rank has it whole."""
    dims: dict[str, int | None] = {}
    for prefix, module in model.named_modules():
        own: Mapping[str, int] = getattr(type(module), "tp_dims", {})
        for name, _ in module.named_parameters(recurse=False):
            dims[f"{prefix}.{name}" if prefix else name] = own.get(name)
    return dims


def full_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """The shape of every parameter before the cut over tp."""
    shapes = {name: list(param.shape) for name, param in model.named_parameters()}
    for name, dim in tp_dims(model).items():
        if dim is not None:
            shapes[name][dim] *= axis_size(TP)
    return {name: torch.Size(shape) for name, shape in shapes.items()}


@torch.no_grad()
def load_full(model: nn.Module, full: Mapping[str, torch.Tensor], tp_rank: int) -> None:
    """Copy this rank's part of a whole model's parameters (a checkpoint, an initialisation) into ``model``."""
    dims = tp_dims(model)
    for name, param in model.named_parameters():
        dim = dims[name]
        param.copy_(full[name] if dim is None else full[name].chunk(axis_size(TP), dim)[tp_rank])


def initial_state(model: nn.Module, layers: int, seed: int) -> dict[str, torch.Tensor]:
    """The whole model's first parameters: the same for every mesh, however it is cut."""
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = {}
    for name, shape in full_shapes(model).items():
        if len(shape) == 1:
            state[name] = torch.ones(shape)
            continue
        # Into the residual stream less is written the more blocks write there.
        std = 0.02 / (2 * layers) ** 0.5 if name.endswith(("wo", "w2")) else 0.02
        state[name] = torch.empty(shape).normal_(std=std, generator=generator)
    return state
