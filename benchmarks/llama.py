"""A layer of Llama in torch, with Hugging Face's names and structure: docs/torch.md replaces parts of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import nn

__all__ = [
    "ALL_ATTENTION_FUNCTIONS",
    "Config",
    "LlamaAttention",
    "LlamaDecoderLayer",
    "LlamaMLP",
    "LlamaRMSNorm",
    "apply_rotary_pos_emb",
    "position_embeddings",
]


class Config(NamedTuple):
    """The sizes of a layer; the defaults are those of Llama 3 8B."""

    hidden_size: int = 4096
    intermediate_size: int = 14336
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    head_dim: int = 128
    attn_implementation: str = "sdpa"


class LlamaRMSNorm(nn.Module):
    """The norm, in float32."""

    def __init__(self, hidden_size: int, eps: float = 1e-6):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(x.dtype)


class LlamaMLP(nn.Module):
    """The gated layers."""

    def __init__(self, config: Config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def _turned(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
    """Rotate queries and keys."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + _turned(q) * sin, k * cos + _turned(k) * sin


def position_embeddings(config: Config, batch: int, length: int, like: torch.Tensor) -> tuple[Any, Any]:
    """Return cosines and sines (batch, length, head_dim), both halves alike."""
    rates = 500000.0 ** -(torch.arange(0, config.head_dim, 2, device=like.device) / config.head_dim)
    angles = torch.arange(length, device=like.device)[:, None] * rates
    both = torch.cat((angles, angles), -1).expand(batch, -1, -1)
    return both.cos().to(like.dtype), both.sin().to(like.dtype)


def _sdpa(
    module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: Any = None, dropout: float = 0.0
) -> tuple[Any, None]:
    attend = nn.functional.scaled_dot_product_attention
    y = attend(q, k, v, is_causal=True, scale=scaling, dropout_p=dropout, enable_gqa=True)
    return y.transpose(1, 2).contiguous(), None


#: Name -> attention: (module, q, k, v, mask, scaling=, dropout=) -> (result, weights or None).
ALL_ATTENTION_FUNCTIONS: dict[str, Any] = {"sdpa": _sdpa}


class LlamaAttention(nn.Module):
    """Attention with its projections."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, self.scaling = config, config.head_dim**-0.5
        keys, heads = config.num_key_value_heads * config.head_dim, config.num_attention_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, heads, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(heads, config.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, embeddings: tuple[Any, Any]) -> Any:
        shape = (*x.shape[:-1], -1, self.config.head_dim)
        q, k, v = (each(x).view(shape).transpose(1, 2) for each in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(q, k, *embeddings)
        attend = ALL_ATTENTION_FUNCTIONS[self.config.attn_implementation]
        y, _ = attend(self, q, k, v, None, dropout=0.0, scaling=self.scaling)
        return self.o_proj(y.reshape(*x.shape[:-1], -1).contiguous())


class LlamaDecoderLayer(nn.Module):
    """Norm, attention, norm, MLP."""

    def __init__(self, config: Config):
        super().__init__()
        self.self_attn, self.mlp = LlamaAttention(config), LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size)

    def forward(self, x: torch.Tensor, embeddings: tuple[Any, Any]) -> Any:
        x = x + self.self_attn(self.input_layernorm(x), embeddings)
        return x + self.mlp(self.post_attention_layernorm(x))
