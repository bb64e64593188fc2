"""The example's transformer once more: one process, the whole batch, nothing shared with the example.

Written from the formulas, on purpose by other means than ``examples/llama/model.py``: batch first, rotary as a complex
product, attention as an explicit softmax over repeated key/value heads, the loss by torch's own cross entropy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F

State = Mapping[str, torch.Tensor]


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps) * weight


def _rotate(x: torch.Tensor, theta: float) -> torch.Tensor:
    """x ``(b, s, h, e)``; the pair (x[i], x[i + e/2]) is one complex number, turned by position / theta^(2i/e)."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half], x[..., half:])
    frequency = torch.tensor([theta ** (-2 * i / x.shape[-1]) for i in range(half)], dtype=x.dtype)
    angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * frequency[None, :]
    turned = pairs * torch.exp(1j * angle)[None, :, None, :]
    return torch.cat([turned.real, turned.imag], dim=-1)


def _attention(x: torch.Tensor, p: State, prefix: str, config: Any) -> torch.Tensor:
    b, s, _ = x.shape
    e = config.dim // config.heads
    q = _rotate((x @ p[prefix + "wq"].T).reshape(b, s, config.heads, e), config.rope_theta)
    k = _rotate((x @ p[prefix + "wk"].T).reshape(b, s, config.kv_heads, e), config.rope_theta)
    v = (x @ p[prefix + "wv"].T).reshape(b, s, config.kv_heads, e)
    k, v = (t.repeat_interleave(config.heads // config.kv_heads, dim=2) for t in (k, v))
    scores = torch.einsum("bqhe,bkhe->bhqk", q, k) / e**0.5
    scores = scores + torch.full((s, s), float("-inf"), dtype=x.dtype).triu(1)
    y = torch.einsum("bhqk,bkhe->bqhe", scores.softmax(dim=-1), v)
    return y.reshape(b, s, config.dim) @ p[prefix + "wo"].T


def _mlp(x: torch.Tensor, p: State, prefix: str) -> torch.Tensor:
    gate = x @ p[prefix + "w1"].T
    return (gate * torch.sigmoid(gate) * (x @ p[prefix + "w3"].T)) @ p[prefix + "w2"].T


def loss(p: State, tokens: torch.Tensor, targets: torch.Tensor, config: Any) -> torch.Tensor:
    """Mean cross entropy over all tokens; ``tokens`` and ``targets`` are ``(b, s)``, ``p`` has whole parameters."""
    h = p["embedding.weight"][tokens]
    for i in range(config.layers):
        block = f"blocks.{i}."
        h = h + _attention(
            _norm(h, p[block + "attention_norm.weight"], config.norm_eps), p, block + "attention.", config
        )
        h = h + _mlp(_norm(h, p[block + "mlp_norm.weight"], config.norm_eps), p, block + "mlp.")
    logits = _norm(h, p["norm.weight"], config.norm_eps) @ p["head.weight"].T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def loss_and_gradients(
    state: State, tokens: torch.Tensor, targets: torch.Tensor, config: Any
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss and the gradient of every parameter, by autograd."""
    params = {name: tensor.detach().clone().requires_grad_() for name, tensor in state.items()}
    value = loss(params, tokens, targets, config)
    return value.detach(), dict(zip(params, torch.autograd.grad(value, list(params.values())), strict=True))
