"""The layers of the generated modules: as models are written today, and longhand, with every step spelled out."""

from __future__ import annotations

from typing import Final

NORM: Final = '''

class Norm{n}(nn.Module):
    """Root mean square norm over the hidden size."""

    weight: Parameter[I[TP]]

    def __init__(self, config: Config{n}) -> None:
        super().__init__()
        self.eps = config.norm_eps
        self.weight = nn.Parameter(torch.ones(config.hidden_size))

    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
{norm}'''

ATTENTION: Final = '''

class Layer{n}(nn.Module):
    """Self attention whose heads are spread over the ranks of TP."""

    wqkv: Parameter[V[TP]]
    wo: Parameter[V[TP]]

    def __init__(self, config: Config{n}, ranks: int = 1) -> None:
        super().__init__()
        self.config = config
        self.heads = config.num_heads // ranks
        local = config.hidden_size // ranks
        self.norm = Norm{n}(config)
        self.wqkv = nn.Parameter(torch.empty(3 * local, config.hidden_size))
        self.wo = nn.Parameter(torch.empty(config.hidden_size, local))

    def forward(self, x: Tensor[V[DP], I[TP]], causal: bool = True) -> Tensor[V[DP], I[TP]]:
        h = convert(self.norm(x), TP, src=I, dst=R)
        batch, length, _ = h.shape
        q, k, v = F.linear(h, self.wqkv).chunk(3, dim=-1)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
{mixed}        out: Tensor[V[DP], P[TP]] = F.linear(mixed.transpose(1, 2).reshape(batch, length, -1), self.wo)
        return x + all_reduce(out, TP, dst=I)
'''

FEED_FORWARD: Final = '''

class Layer{n}(nn.Module):
    """Gated feed-forward network, split over TP in its inner size."""

    w1: Parameter[V[TP]]
    w2: Parameter[V[TP]]
    w3: Parameter[V[TP]]

    def __init__(self, config: Config{n}, ranks: int = 1) -> None:
        super().__init__()
        self.config = config
        local = config.ffn_size // ranks
        self.norm = Norm{n}(config)
        self.w1 = nn.Parameter(torch.empty(local, config.hidden_size))
        self.w2 = nn.Parameter(torch.empty(config.hidden_size, local))
        self.w3 = nn.Parameter(torch.empty(local, config.hidden_size))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for weight in (self.w1, self.w2, self.w3):
            nn.init.trunc_normal_(weight, std=1.0 / math.sqrt(self.config.hidden_size))

    def activation(self, x: Tensor[V[DP], V[TP]]) -> Tensor[V[DP], V[TP]]:
        return F.silu(x) if self.config.activation == "silu" else F.gelu(x)

    def forward(self, x: Tensor[V[DP], I[TP]], causal: bool = True) -> Tensor[V[DP], I[TP]]:
        h = convert(self.norm(x), TP, src=I, dst=R)
        gate = self.activation(F.linear(h, self.w1))
        inner = gate * F.linear(h, self.w3)
        if self.training:
            inner = F.dropout(inner, 0.1)
{clamp}        out: Tensor[V[DP], P[TP]] = F.linear(inner, self.w2)
        return x + all_reduce(out, TP, dst=I)
'''

MODEL: Final = '''

class Model{n}(nn.Module):
    """The layers of this part, then the parts below it."""

    def __init__(self, config: Config{n}, ranks: int = 1) -> None:
        super().__init__()
        self.config = config
        self.layers = nn.ModuleList([Layer{n}(config, ranks) for _ in range(config.num_layers)])
{parts}
    def forward(self, x: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        for layer in self.layers:
            x = layer(x)
{calls}        return x

    def loss(self, x: Tensor[V[DP], I[TP]], target: Tensor[V[DP], I[TP]]) -> Tensor[V[DP], I[TP]]:
        error = (self(x) - target).float()
        return error.abs().mean() + 0.5 * (error * error).mean()
'''

# What the layers leave to be filled in: by one call of torch, or longhand, step by step.
SHORT: Final = {
    "norm": "        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)\n",
    "mixed": "        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)\n",
    "clamp": "",
}
LONGHAND: Final = {
    "norm": """\
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight
""",
    "mixed": """\
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.config.head_size)
        if causal:
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        mixed = torch.softmax(scores, dim=-1) @ v
""",
    "clamp": """\
        norm = inner.float().pow(2).sum(-1, keepdim=True).sqrt()
        inner = (inner / norm.clamp(min=1.0)).to(x.dtype)
""",
}
