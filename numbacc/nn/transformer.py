"""Attention as a module, its cache of keys and values, and a transformer for text."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import attention as attending
from .. import elementwise
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..errors import OptionError, ShapeError
from . import functions
from .modules import Dropout, Embedding, GatedMLP, Linear, LinearCrossEntropy, Module, RMSNorm
from .tape import Variable, checkpoint, recording


class KVCache:
    """Keys and values of the positions that a model has seen, for generation: each new token is computed alone.

    Attention modules store their arrays (batch, length, kv_heads, d) here. The model calls `advance`.

    Args:
        batch: the number of sequences, which all have the same length.
        length: the largest number of positions.

    Attributes:
        position: the number of positions that are filled.

    Example:
        >>> model = nn.Transformer(96, width=16, layers=1, heads=2, length=8).initialize(device="cpu")
        >>> cache = nn.KVCache(batch=1, length=8)
        >>> logits = model(np.array([[1, 2, 3]]), cache=cache)
        >>> cache.position
        3
    """

    def __init__(self, batch: int, length: int):
        self.batch, self.length, self.position = batch, length, 0
        self._arrays: dict[Any, tuple[Array, Array]] = {}
        self._filled: Any = None

    def update(self, owner: Any, k: Array, v: Array) -> tuple[Array, Array, Array]:
        """Store new keys and values of a module at the current position.

        Returns:
            the arrays of all keys and values, of `length` positions, and the number of filled ones (batch,).

        Raises:
            ShapeError: they have another batch, or more positions than there is room for.
        """
        first, last = self.position, self.position + k.shape[1]
        if k.shape[0] != self.batch or last > self.length:
            raise ShapeError(
                f"the cache has room for {self.batch} sequences of {self.length} positions; it got {k.shape[0]} of "
                f"{last}"
            )
        if owner not in self._arrays:
            device, lengths = operands.device_of(k), (self.batch, self.length)
            keys, values = (creation.zeros((*lengths, *each.shape[2:]), each.dtype, device=device) for each in (k, v))
            self._arrays[owner] = keys, values
        keys, values = self._arrays[owner]
        elementwise.copy(k, out=keys[:, first:last])
        elementwise.copy(v, out=values[:, first:last])
        if self._filled is None or self._filled[0] != last:
            self._filled = last, creation.full(self.batch, last, "int32", device=operands.device_of(k))
        return keys, values, self._filled[1]

    def advance(self, count: int) -> None:
        """Count positions that all modules have stored."""
        self.position += count


class Attention(Module):
    """Self-attention with rotary positions and grouped heads: one product, rotation, attention, one product.

    Args:
        width: the length of rows.
        heads: the number of heads of queries.
        kv_heads: the number of heads of keys and values, which divides heads; heads by default.
        length: the largest number of positions, for rotary embedding.
        head: the length of a head's rows; width / heads by default.
        mask: as in `attention.forward`: "causal", None, `attention.CausalSlidingWindow(n)`, ...
        rope: the base of the rotary embedding (Su et al. 2021, arXiv:2104.09864), or None for no positions.
        bias: whether the products have biases.
        dropout: the probability that a weight becomes 0 while a tape records.
        std, out_std: standard deviations of the initial weights of the two products; 1/√inputs by default.

    Example:
        >>> layer = nn.Attention(16, heads=4, kv_heads=2, length=8).initialize(device="cpu")
        >>> layer(np.ones((1, 8, 16), "float32")).shape
        (1, 8, 16)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int | None = None,
        *,
        length: int = 2048,
        head: int | None = None,
        mask: Any = "causal",
        rope: float | None = 10000.0,
        bias: bool = False,
        dropout: float = 0.0,
        std: float | None = None,
        out_std: float | None = None,
    ):
        self.heads, self.kv_heads = heads, heads if kv_heads is None else kv_heads
        if self.kv_heads < 1 or heads % self.kv_heads or (head is None and width % heads):
            raise OptionError(
                f"heads={heads} must be a multiple of kv_heads={self.kv_heads}, and width={width} of heads"
            )
        self.head, self.length, self.mask, self.rope = head or width // heads, length, mask, rope
        self.qkv = Linear(width, (heads + 2 * self.kv_heads) * self.head, bias, std=std)
        self.out = Linear(heads * self.head, width, bias, std=out_std)
        self.dropout = functions.check_probability(dropout)
        self.tables: Any = None

    def prepare(self, dtype: Any, device: Any) -> None:
        if self.rope is not None:
            wide = "float64" if dtype == np.float64 else "float32"
            found = elementwise.rope_tables(self.length, self.head, base=self.rope, dtype=wide, device=device)
            self.tables = [each[:, None] for each in found]

    def __call__(
        self, x: Any, residual: Any = None, *, norm: Any = None, cache: KVCache | None = None, **options: Any
    ) -> Any:
        """Return the result, plus the residual.

        Args:
            x: (batch, length, width), a variable or an array.
            residual: None, or what is added, like x.
            norm: an `RMSNorm` or `LayerNorm` that is applied to x first, or None. Its result is not kept for the
                backward pass.
            cache: keys and values of earlier positions; the call adds the new ones. Not while a tape records.
            options: more options of `attention.forward`, such as bias, seq_len_q and seq_len_kv.

        Raises:
            ShapeError: x has more positions than `length`.
            OptionError: a cache is used while a tape records, or with another mask than "causal".
        """
        first = 0 if cache is None else cache.position
        last = first + x.shape[1]
        if self.rope is not None and self.tables is None:
            raise OptionError("this module has no tables yet: call initialize() of the model first")
        if self.tables is not None and last > self.length:
            raise ShapeError(f"x has positions up to {last}; this module has length={self.length}")
        tables = None if self.tables is None else [each[first:last] for each in self.tables]
        qkv = self.qkv(x, before=None if norm is None else norm.before)
        if cache is not None:
            return self.out(self._cached(qkv, tables, cache), residual)
        tape = recording()
        if tape is not None and self.dropout:
            seed, offset = self.random(tape)
            options |= {"dropout": self.dropout, "seed": seed, "offset": offset}
        made = functions.attention(qkv, self.heads, self.kv_heads, tables, mask=self.mask, **options)
        return self.out(made, residual)

    def _cached(self, qkv: Any, tables: Any, cache: KVCache) -> Array:
        """Return the attention of new queries to all keys of the cache."""
        if isinstance(qkv, Variable) or self.mask != "causal":
            raise OptionError('a cache needs mask="causal", and no tape that records')
        batch, length, _ = qkv.shape
        x = functions.rotated_heads(qkv, self.heads, self.kv_heads, tables)
        q, k, v = functions.split_heads(x, self.heads, self.kv_heads)
        keys, values, filled = cache.update(self, k, v)
        options: dict[str, Any] = {"layout": "BSHD"}
        if cache.position == 0:
            keys, values = k, v
            options["mask"] = "causal"
        else:
            options["seq_len_kv"] = filled
            options["mask"] = "causal_bottom_right" if length > 1 else None
        o: Array = attending.forward(q, keys, values, **options)
        return o.reshape((batch, length, -1))


class TransformerLayer(Module):
    """A layer of a transformer: attention and a gated MLP, each after a norm, each with a residual connection.

    `recomputes` names results that the backward pass computes again: "" (none), "gates", or "norms" (of both).
    """

    def __init__(
        self, width: int, inner: int, dropout: float, std: float, out_std: float, recomputes: str, **attention: Any
    ):
        stds: dict[str, Any] = {"std": std, "out_std": out_std}
        self.norm, self.attention = RMSNorm(width), Attention(width, **stds, **attention)
        self.mlp_norm, self.mlp = RMSNorm(width), GatedMLP(width, inner, **stds, recomputes=bool(recomputes))
        self.dropout, self.recomputes = Dropout(dropout), recomputes == "norms"

    def _part(self, layer: Any, norm: RMSNorm, x: Any, **options: Any) -> Any:
        """Return x + layer(norm(x)), with dropout."""
        h, options = (x, {**options, "norm": norm}) if self.recomputes else (norm(x), options)
        if self.dropout.p and recording() is not None:
            return x + self.dropout(layer(h, **options))
        return layer(h, x, **options)

    def __call__(self, x: Any, cache: KVCache | None = None) -> Any:
        return self._part(self.mlp, self.mlp_norm, self._part(self.attention, self.norm, x, cache=cache))


class Transformer(Module):
    """A transformer for text, as Llama: embedding, layers with RMSNorm, RoPE, grouped heads and SwiGLU, output layer.

    Source: Touvron et al. 2023 (arXiv:2302.13971).

    Args:
        vocabulary: the number of tokens.
        width: the length of rows.
        layers: the number of layers.
        heads, kv_heads: numbers of heads of queries, and of keys and values.
        length: the largest number of positions.
        inner: the length of the MLP's rows; 8/3 width by default, rounded up to a multiple of 64.
        tied: whether the output layer shares the embedding's table.
        dropout: the probability to drop elements of the layers' results.
        checkpointing: what the backward pass computes again, to save memory: nothing (False), "gates" for the results
            of the MLPs' gates, "norms" for these and the norms' results, or whole layers (True).
        std: the standard deviation of initial weights. Products before a residual connection have std / √(2 layers).

    Example:
        >>> model = nn.Transformer(96, width=16, layers=2, heads=4, kv_heads=2, length=8).initialize(device="cpu")
        >>> tokens = np.arange(8, dtype=np.int32)[None]
        >>> model(tokens).shape, model(tokens, tokens).round(1)
        ((1, 8, 96), np.float32(4.6))
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        width: int,
        layers: int,
        heads: int,
        kv_heads: int | None = None,
        length: int = 1024,
        inner: int | None = None,
        tied: bool = False,
        dropout: float = 0.0,
        checkpointing: bool | str = False,
        std: float = 0.02,
    ):
        inner = -(-8 * width // 3 // 64) * 64 if inner is None else inner
        out_std = std * (2 * layers) ** -0.5
        if checkpointing not in (False, "gates", "norms", True):
            raise OptionError(f'checkpointing={checkpointing!r}: it is False, "gates", "norms" or True')
        self.length, self.checkpointing = length, checkpointing is True
        recomputes = checkpointing if isinstance(checkpointing, str) else ""
        self.embedding = Embedding(vocabulary, width, std=std)
        self.layers = [
            TransformerLayer(
                width, inner, dropout, std, out_std, recomputes, heads=heads, kv_heads=kv_heads, length=length
            )
            for _ in range(layers)
        ]
        self.norm = RMSNorm(width)
        self.head = LinearCrossEntropy(width, vocabulary, self.embedding if tied else None, std=std)

    def __call__(self, tokens: Any, target: Any = None, *, cache: KVCache | None = None) -> Any:
        """Return the logits (batch, length, vocabulary), or the mean loss if there is a target.

        Args:
            tokens: integers (batch, length).
            target: the next token of each position, integers like tokens; -100 is ignored.
            cache: keys and values of earlier positions; the call adds the new ones.
        """
        x = self.embedding(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x) if self.checkpointing and cache is None else layer(x, cache)
        x = self.norm(x)
        if cache is not None:
            cache.advance(x.shape[1])
        return self.head.logits(x) if target is None else self.head(x, target)


def generate(
    model: Any, tokens: Any, count: int, *, temperature: float = 1.0, top_k: int | None = None, seed: int = 0
) -> Array:
    """Continue sequences of tokens, one token after the other, with a cache of keys and values.

    The last logits of each step are copied to the host, where NumPy draws the next tokens.

    Args:
        model: called as model(tokens, cache=cache), it returns logits (batch, length, vocabulary); it has the attribute
            `length`. A `Transformer` is such a model.
        tokens: integers (batch, length), at least one for each sequence.
        count: the number of tokens to add. If more than the model's length are needed, the start is forgotten: the
            cache is filled again from the last half of the positions.
        temperature: divides the logits. With 0, the most likely token is chosen.
        top_k: draw among this many of the most likely tokens only.
        seed: of the draws.

    Returns:
        a NumPy array (batch, length + count).

    Raises:
        OptionError: temperature is negative, or top_k is below 1. ShapeError: tokens is not a matrix, or is empty.

    Example:
        >>> model = nn.Transformer(96, width=16, layers=1, heads=2, length=8).initialize(device="cpu")
        >>> nn.generate(model, np.array([[1, 2]]), 3, temperature=0).shape
        (1, 5)
    """
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise OptionError(f"temperature={temperature} must be at least 0, and top_k={top_k} at least 1")
    known = np.array(creation.asnumpy(tokens))
    if known.ndim != 2 or not known.size:
        raise ShapeError(f"tokens has shape {known.shape}; it must be (batch, length), with at least one token each")
    rng = np.random.default_rng(seed)
    new, cache = known[:, -model.length :], KVCache(len(known), model.length)
    like = next(iter(model.parameters().values())).value
    for _ in range(count):
        if cache.position + new.shape[1] > model.length:
            cache, new = KVCache(len(known), model.length), known[:, -max(model.length // 2, 1) :]
        given = creation.asarray(np.ascontiguousarray(new, dtype=np.int32), device=operands.device_of(like))
        logits = creation.asnumpy(model(given, cache=cache)[:, -1]).astype(np.float64)
        new = _drawn(logits, temperature, top_k, rng)[:, None].astype(known.dtype)
        known = np.concatenate([known, new], axis=1)
    return known


def _drawn(logits: Any, temperature: float, top_k: int | None, rng: Any) -> Any:
    """Return a token for each row of logits."""
    if temperature == 0:
        return logits.argmax(axis=1)
    if top_k is not None and top_k < logits.shape[1]:
        least = np.partition(logits, -top_k, axis=1)[:, -top_k, None]
        logits = np.where(logits < least, -np.inf, logits)
    # The largest of logits with Gumbel noise is a draw from their softmax.
    return (logits / temperature + rng.gumbel(size=logits.shape)).argmax(axis=1)
