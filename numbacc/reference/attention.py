"""Attention and its gradients in NumPy.

Queries q, keys k and values v are matrices whose rows are vectors. With t = scale:

    S[i, j] = t q[i] · k[j] + bias[i, j] + slope (j - i)     if query i may see key j, else -inf
    L[i] = log Σ_j exp S[i, j]
    P[i, j] = exp(S[i, j] - L[i])
    o[i] = Σ_j M[i, j] P[i, j] v[j]

This is computed separately for each sequence of a batch and each head. L is called the statistics. Without dropout, M
is 1. With dropout, M is 0 with probability p, and else 1/(1 - p). A query that sees no key has o = 0 and L = -inf.
Several heads of queries may share a head of keys and values (Ainslie et al. 2023): head h of queries uses head h //
(heads of queries / heads of keys).

If do is the gradient of a loss with respect to o, and D[i] = do[i] · o[i], the other gradients are

    dv[j] = Σ_i M[i, j] P[i, j] do[i]
    dS[i, j] = P[i, j] (M[i, j] do[i] · v[j] - D[i])
    dq[i] = t Σ_j dS[i, j] k[j]        dk[j] = t Σ_i dS[i, j] q[i]        dbias = dS

A score function f and a mask function g change S before bias and slopes are added:

    S[i, j] = f(t q[i] · k[j], batch, head, i, j, *elements) + ...     if g(batch, head, i, j), else -inf

With a score function, the statistics are two numbers: the largest S of a row, and log Σ_j exp(S[i, j] - largest). Their
sum would lose the second one where scores are very negative. The gradient of an element is dS df/d(element).

Gradients are summed over everything that shares a key, a value, a bias or an operand. The code works on blocks of rows,
so it never stores the matrix of all scores. 16-bit floats are computed in float32 and rounded once, when a result is
stored.

8-bit floats have scales, in the forward pass. S uses descale_q q and descale_k k. Weights are multiplied by scale_s
before they are rounded to 8 bits:

    o32[i] = descale_s descale_v Σ_j round(scale_s P[i, j]) v[j]        o = round(scale_o o32)

The largest |P| and |o32| show which scale_s and scale_o to use in the next step.

Sources: Vaswani et al. 2017 (arXiv:1706.03762); Dao et al. 2022 (arXiv:2205.14135) for L and D; Press, Smith and Lewis
2021 (arXiv:2108.12409) for slopes; Kwon et al. 2023 (arXiv:2309.06180) for pages; Micikevicius et al. 2022
(arXiv:2209.05433) for 8-bit floats and their scales.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.attention_band import Band
from ..base.casts import cast
from ..base.dtypes import dtype, info
from .random import philox

Array = NDArray[Any]

#: Elements per block of scores.
_BLOCK = 1 << 20
#: Rows per block with a mask function: few, so that keys that none of them sees are left out.
_SEEN = 128


class Dropout(NamedTuple):
    """The random choice of the probabilities that become 0.

    Attributes:
        p: the probability that an element becomes 0, at least 0 and below 1, rounded to a multiple of 2^-32.
        seed, offset: seed of the generator philox, and start position in its sequence.
        shape: (batch, heads, queries, keys): each element uses the word with its number in C order.
    """

    p: float
    seed: int
    offset: int
    shape: tuple[int, int, int, int]

    def factors(self, b: int, h: int, rows: slice, keys: slice, real: np.dtype[Any]) -> Array:
        """Return M for some rows and keys of a head."""
        _, heads, queries, width = self.shape
        first = ((b * heads + h) * queries + rows.start) * width
        words = philox(self.seed, self.offset + first, (rows.stop - rows.start) * width).reshape(-1, width)
        kept = words[:, keys] >= np.uint64(least_kept(self.p))
        return np.asarray(np.where(kept, real.type(1.0 / (1.0 - self.p)), real.type(0)))


class ScoreMap(NamedTuple):
    """A score function and a mask function, as one function of a score.

    Attributes:
        value: (score, *elements, batch, head, query, key) -> (the new score,).
        gradient: (dS, score, *elements, batch, head, query, key) -> the gradients of the score and of all elements;
            only needed by `backward`.
        operands: arrays (batch, heads, queries, keys), where each length may be 1 instead.
        wanted: the operands whose gradients are computed.
        seen: (batch, head, rows) -> the first key that any of these rows sees, and the end of such keys; or None.
        has_two_stats: whether the statistics are two numbers, as with a score function.
    """

    value: Callable[..., tuple[Array, ...]]
    gradient: Callable[..., tuple[Array, ...]] | None
    operands: Sequence[Array] = ()
    wanted: tuple[int, ...] = ()
    seen: Callable[[int, int, slice], tuple[int, int]] | None = None
    has_two_stats: bool = True

    def arguments(self, scores: Array, b: int, h: int, rows: slice, keys: slice) -> tuple[Any, ...]:
        """Return the arguments of `value` for some rows and keys."""
        parts = []
        for each in self.operands:
            part = each[_at(each, 0, b), _at(each, 1, h)]
            part = part[rows if part.shape[0] > 1 else slice(None), keys if part.shape[1] > 1 else slice(None)]
            parts.append(part if part.dtype.kind in "biu" else cast(part, scores.dtype))
        i, j = np.arange(rows.start, rows.stop)[:, None], np.arange(keys.start, keys.stop)
        return (scores, *parts, b, h, i, j)


class Scores(NamedTuple):
    """The parameters that turn scores into probabilities.

    Attributes:
        scale: a factor of all scores.
        band: which keys a query sees.
        bias: (batch, heads, queries, keys), where each length may be 1 instead; or None.
        slopes: ALiBi's number for each head; or None.
        queries, keys: the number of queries and keys of each sequence in the batch; None if all have full length.
        dropout: None for no dropout.
        map: a score function or a mask function, or both; or None.
    """

    scale: float
    band: Band = Band()
    bias: Array | None = None
    slopes: Array | None = None
    queries: Sequence[int] | None = None
    keys: Sequence[int] | None = None
    dropout: Dropout | None = None
    map: ScoreMap | None = None


def least_kept(p: float) -> int:
    """Return the smallest 32-bit random word whose element is kept."""
    return round(p * 2**32)


def dropout_mask(dropout: Dropout) -> Array:
    """Return a bool array of the full shape, True for elements that are kept."""
    batch, heads, queries, keys = dropout.shape
    kept = np.empty(dropout.shape, np.bool_)
    for b in range(batch):
        for h in range(heads):
            factors = dropout.factors(b, h, slice(0, queries), slice(0, keys), np.dtype(np.float32))
            kept[b, h] = factors != 0
    return kept


class _Block(NamedTuple):
    """Some rows of a head, the keys that any of them sees, and their scores (-inf for keys that a row does not see).

    `raw` are the scores before a score function.
    """

    b: int
    h: int
    group: int
    rows: slice
    keys: slice
    scores: Array
    raw: Array


def _blocks(q: Array, k: Array, how: Scores, real: np.dtype[Any]) -> Iterator[_Block]:
    """Yield all blocks that contain a visible key."""
    batch, heads = q.shape[:2]
    each = heads // k.shape[1] if k.shape[1] else 1
    for b in range(batch):
        queries = q.shape[2] if how.queries is None else int(how.queries[b])
        keys = k.shape[2] if how.keys is None else int(how.keys[b])
        step = max(1, _BLOCK // max(keys, 1))
        if how.map is not None and how.map.seen is not None:
            step = min(step, _SEEN)
        for h in range(heads):
            for top in range(0, queries, step):
                rows = slice(top, min(top + step, queries))
                columns = slice(*how.band.keys_of(rows.start, rows.stop - 1, queries, keys))
                if how.map is not None and how.map.seen is not None:
                    first, end = how.map.seen(b, h, rows)
                    first = max(first, columns.start)
                    columns = slice(first, max(first, min(end, columns.stop)))
                if columns.start == columns.stop:
                    continue
                scores = (cast(q[b, h, rows], real) @ cast(k[b, h // each, columns], real).T) * real.type(how.scale)
                raw = scores
                if how.map is not None:
                    scores = how.map.value(*how.map.arguments(raw, b, h, rows, columns))[0].astype(real)
                scores = _masked(scores, b, h, rows, columns, queries, keys, how)
                yield _Block(b, h, h // each, rows, columns, scores, raw)


def _masked(
    scores: Array, b: int, h: int, rows: slice, keys: slice, queries: int, available: int, how: Scores
) -> Array:
    """Add bias and slopes to scores, and set them to -inf for keys that a query does not see."""
    real = scores.dtype
    apart = np.arange(keys.start, keys.stop) - np.arange(rows.start, rows.stop)[:, None]
    if how.bias is not None:
        part = how.bias[_at(how.bias, 0, b), _at(how.bias, 1, h)]
        part = part[rows if part.shape[0] > 1 else slice(None), keys if part.shape[1] > 1 else slice(None)]
        scores = scores + cast(part, real)
    if how.slopes is not None:
        scores = scores + cast(how.slopes[h], real) * apart.astype(real)
    apart = apart - how.band.shift(queries, available)
    for bound, beyond in ((how.band.lower, np.less), (how.band.upper, np.greater)):
        if bound is not None:
            scores = np.where(beyond(apart, bound), real.type(-np.inf), scores)
    return scores


def _at(bias: Array, axis: int, number: int) -> int:
    return number if bias.shape[axis] > 1 else 0


def compute_dtype(given: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the computation and of the statistics, for arrays of a dtype."""
    return dtype(str(info(given).number))


def forward(q: Array, k: Array, v: Array, how: Scores) -> tuple[Array, Array]:
    """Compute (o, statistics).

    Args:
        q: (batch, heads, queries, d).
        k, v: (batch, heads of keys, keys, d); v may have another d. q's number of heads is a multiple of that of k and
            v.
        how: the other options.

    Returns:
        o: (batch, heads, queries, v's d), with q's dtype. Rows after a sequence's end are 0.
        statistics: (batch, heads, queries), with `compute_dtype`; -inf for those rows. With a score function (2, batch,
            heads, queries): the largest score of a row, and the logarithm of the sum; -inf and 0 for those rows.
    """
    real = compute_dtype(q.dtype)
    o = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    stats = np.full(q.shape[:3], -np.inf, real)
    rest = np.zeros_like(stats) if how.map is not None and how.map.has_two_stats else None
    with np.errstate(all="ignore"):
        for b, h, group, rows, keys, scores, _ in _blocks(q, k, how, real):
            top = scores.max(axis=-1, keepdims=True)
            # In a row without a key the largest score is -inf, and differences are NaN. This is corrected below.
            weights = np.exp(scores - top)
            total = weights.sum(axis=-1, keepdims=True)
            is_empty = top == -np.inf
            if rest is None:
                stats[b, h, rows] = np.where(is_empty, real.type(-np.inf), top + np.log(total))[:, 0]
            else:
                stats[b, h, rows] = top[:, 0]
                rest[b, h, rows] = np.where(is_empty, real.type(0), np.log(total))[:, 0]
            shares = np.where(is_empty, real.type(0), weights / total)
            if how.dropout is not None:
                shares = shares * how.dropout.factors(b, h, rows, keys, real)
            o[b, h, rows] = cast(shares @ cast(v[b, group, keys], real), o.dtype)
    return o, stats if rest is None else np.stack((stats, rest))


class Scaling(NamedTuple):
    """Scales of 8-bit floats: descales convert stored values to numbers, scales convert numbers to stored values."""

    descale_q: float = 1.0
    descale_k: float = 1.0
    descale_v: float = 1.0
    scale_s: float = 1.0
    descale_s: float = 1.0
    scale_o: float = 1.0


def forward_scaled(q: Array, k: Array, v: Array, how: Scores, scaling: Scaling) -> tuple[Array, Array, Array, Array]:
    """Compute (o, statistics, amax_s, amax_o) for 8-bit floats; the first two are as in `forward`.

    Args:
        q, k, v, how: as in `forward`, without dropout.
        scaling: the scales.

    Returns:
        amax_s, amax_o: the largest weight, and the largest |o| before scale_o, as float32 arrays of shape (1,).
    """
    real = compute_dtype(q.dtype)
    narrow = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    stats = np.full(q.shape[:3], -np.inf, real)
    amax_s, amax_o = np.zeros(1, real), np.zeros(1, real)
    how = how._replace(scale=how.scale * scaling.descale_q * scaling.descale_k)
    for b, h, group, rows, keys, scores, _ in _blocks(q, k, how, real):
        top = scores.max(axis=-1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        stats[b, h, rows] = (top + np.log(total))[:, 0]
        shares = weights / total
        amax_s = np.maximum(amax_s, shares.max(initial=0))
        rounded = cast(cast(shares * real.type(scaling.scale_s), q.dtype), real)
        sums = rounded @ cast(v[b, group, keys], real) * real.type(scaling.descale_s * scaling.descale_v)
        amax_o = np.maximum(amax_o, np.abs(sums).max(initial=0))
        narrow[b, h, rows] = cast(sums * real.type(scaling.scale_o), q.dtype)
    return narrow, stats, amax_s, amax_o


class Gradients(NamedTuple):
    """The gradients with respect to q, k, v, the bias (or None) and operands, with their shapes and dtypes."""

    dq: Array
    dk: Array
    dv: Array
    dbias: Array | None
    doperands: tuple[Array, ...] = ()


def backward(
    do: Array, q: Array, k: Array, v: Array, o: Array, stats: Array, how: Scores, *, bias_grad: bool = False
) -> Gradients:
    """Compute the gradients.

    Args:
        do: the gradient with respect to o.
        q, k, v, how: as in `forward`.
        o, stats: the results of `forward`.
        bias_grad: whether to compute the gradient with respect to the bias.
    """
    real = compute_dtype(q.dtype)
    dq, dk, dv = (np.zeros(each.shape, real) for each in (q, k, v))
    dbias = np.zeros(how.bias.shape, real) if bias_grad and how.bias is not None else None
    sums = [] if how.map is None else [np.zeros(how.map.operands[k].shape, real) for k in how.map.wanted]
    level_of, rest_of = stats if how.map is not None and how.map.has_two_stats else (stats, None)
    with np.errstate(all="ignore"):
        for b, h, group, rows, keys, scores, raw in _blocks(q, k, how, real):
            level = cast(level_of[b, h, rows], real)[:, None]
            apart = scores - level
            if rest_of is not None:
                apart = apart - cast(rest_of[b, h, rows], real)[:, None]
            shares = np.where(level == -np.inf, real.type(0), np.exp(apart))
            slope, value = cast(do[b, h, rows], real), cast(v[b, group, keys], real)
            spread = slope @ value.T
            kept = shares
            if how.dropout is not None:
                factors = how.dropout.factors(b, h, rows, keys, real)
                spread, kept = spread * factors, shares * factors
            dv[b, group, keys] += kept.T @ slope
            level = (slope * cast(o[b, h, rows], real)).sum(axis=-1, keepdims=True)
            ds = shares * (spread - level)
            if dbias is not None:
                _add(dbias, ds, b, h, rows, keys)
            if how.map is not None and how.map.gradient is not None:
                ds, *parts = how.map.gradient(ds, *how.map.arguments(raw, b, h, rows, keys))
                ds = ds.astype(real)
                for total, number in zip(sums, how.map.wanted, strict=True):
                    _add(total, parts[number].astype(real), b, h, rows, keys)
            ds = ds * real.type(how.scale)
            dq[b, h, rows] = ds @ cast(k[b, group, keys], real)
            dk[b, group, keys] += ds.T @ cast(q[b, h, rows], real)
    dq, dk, dv = (cast(found, given.dtype) for found, given in zip((dq, dk, dv), (q, k, v), strict=True))
    if dbias is not None and how.bias is not None:
        dbias = cast(dbias, how.bias.dtype)
    if how.map is not None:
        sums = [cast(each, how.map.operands[k].dtype) for each, k in zip(sums, how.map.wanted, strict=True)]
    return Gradients(dq, dk, dv, dbias, tuple(sums))


def _add(total: Array, found: Array, b: int, h: int, rows: slice, keys: slice) -> None:
    """Add gradients of some scores of a head to those of an array that broadcasts to all scores."""
    part = total[_at(total, 0, b), _at(total, 1, h)]
    for axis, taken in enumerate((rows, keys)):
        if part.shape[axis] > 1:
            part = part[(slice(None),) * axis + (taken,)]
    found = found.sum(axis=0, keepdims=True) if part.shape[0] == 1 else found
    part += found.sum(axis=1, keepdims=True) if part.shape[1] == 1 else found


# ---------------------------------------------------------------- memory layouts of sequences


def gathered(container: Array, table: Array, keys: Sequence[int] | None) -> Array:
    """Collect keys or values from pages.

    Args:
        container: (pages, heads, page length, d).
        table: (batch, pages of a sequence): numbers of pages, in order.
        keys: the number of keys of each sequence. Later pages are not read, and their elements are 0.

    Returns:
        (batch, heads, pages of a sequence times page length, d).
    """
    batch, count = table.shape
    _, heads, length, width = container.shape
    found = np.zeros((batch, heads, count * length, width), container.dtype)
    for b in range(batch):
        many = count * length if keys is None else int(keys[b])
        for number in range(-(-many // length)):
            start = number * length
            end = min(start + length, many)
            found[b, :, start:end] = container[int(table[b, number]), :, : end - start]
    return found


def padded(packed: Array, starts: Sequence[int], longest: int) -> Array:
    """Copy packed sequences into separate rows, padded with zeros at the end.

    Args:
        packed: (tokens, heads, ...).
        starts: where each sequence begins, and where the last one ends.
        longest: the length of rows.

    Returns:
        (batch, heads, longest, ...).
    """
    found = np.zeros((len(starts) - 1, packed.shape[1], longest, *packed.shape[2:]), packed.dtype)
    for b, (start, end) in enumerate(pairwise(starts)):
        found[b, :, : end - start] = np.moveaxis(packed[start:end], 0, 1)
    return found


def put_back(rows: Array, starts: Sequence[int], packed: Array) -> None:
    """Undo `padded`, writing into `packed`; elements that belong to no sequence stay unchanged."""
    for b, (start, end) in enumerate(pairwise(starts)):
        packed[start:end] = np.moveaxis(rows[b, :, : end - start], 0, 1)
