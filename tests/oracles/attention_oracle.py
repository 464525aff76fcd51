"""What attention must give, how far off a result may be, and random cases. Independent of numbacc.

**Values.** Whole matrices of scores with whole masks, in NumPy's einsum; gradients by the softmax's Jacobian. They are
evaluated twice: the *oracle* in a wider dtype (float64; long double for float64), from the exact values of the inputs,
the *trusted* version in the dtype of the arithmetic.

**Tolerance.** error(ours, oracle) must stay under 2 x error(trusted, oracle) + a few roundings of the arithmetic + one
of the result, and one where 16-bit floats are rounded between the products. Errors are counted at the scale of each
element: the sum of the magnitudes that it is added up from,
times 1 + the largest magnitude of a score, since an exponential makes relative errors of absolute ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import oracle
from hypothesis import strategies as st

SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS = oracle.DTYPES
#: As `Case.mask` has them; a window has its length beside it.
MASKS = (
    None,
    "causal",
    "causal_bottom_right",
    "window",
    "causal_window",
    "window_bottom_right",
    "causal_window_bottom_right",
)


class Case(NamedTuple):
    """Attention without its arrays.

    Attributes:
        batch, heads, groups, queries, keys, width, value_width: lengths; `heads` of keys, and `groups` times as many of
            queries.
        dtype: of the arrays.
        mask: one of MASKS. window: the length of a window.
        bias: its shape; None for none.
        slopes: whether there are slopes.
        scale: None for 1/sqrt(width).
        lengths: pairs (queries, keys) of each of the batch; None where all are as long as they can be.
        dropout: a probability.
        seed: of the values.
    """

    batch: int = 2
    heads: int = 2
    groups: int = 1
    queries: int = 5
    keys: int = 7
    width: int = 8
    value_width: int = 8
    dtype: Any = SINGLE
    mask: str | None = None
    window: int = 3
    bias: tuple[int, ...] | None = None
    slopes: bool = False
    scale: float | None = None
    lengths: tuple[tuple[int, int], ...] | None = None
    dropout: float = 0.0
    seed: int = 0

    @property
    def query_heads(self):
        return self.heads * self.groups

    @property
    def scores(self):
        """The shape of all scores."""
        return self.batch, self.query_heads, self.queries, self.keys

    @property
    def factor(self):
        return self.width**-0.5 if self.scale is None else self.scale

    def visible(self):
        """Which key each query sees: bool, (batch, 1, queries, keys)."""
        found = np.zeros((self.batch, 1, self.queries, self.keys), bool)
        for b in range(self.batch):
            rows, columns = (self.queries, self.keys) if self.lengths is None else self.lengths[b]
            for i in range(rows):
                for j in range(columns):
                    found[b, 0, i, j] = self._sees(i, j, rows, columns)
        return found

    def _sees(self, i, j, rows, columns):
        if self.mask is None:
            return True
        place = i + columns - rows if self.mask.endswith("bottom_right") else i
        if self.mask.startswith("window"):
            return abs(place - j) < self.window
        return j <= place and ("window" not in self.mask or place - j < self.window)


class Inputs(NamedTuple):
    q: Any
    k: Any
    v: Any
    do: Any
    bias: Any
    slopes: Any


def inputs(case):
    """Random values: what no query sees is no different from the rest."""
    rng = np.random.default_rng(case.seed)

    def normal(*shape):
        return rng.standard_normal(shape).astype(case.dtype)

    return Inputs(
        q=normal(case.batch, case.query_heads, case.queries, case.width),
        k=normal(case.batch, case.heads, case.keys, case.width),
        v=normal(case.batch, case.heads, case.keys, case.value_width),
        do=normal(case.batch, case.query_heads, case.queries, case.value_width),
        bias=None if case.bias is None else normal(*case.bias),
        slopes=(2.0 ** -np.arange(1, case.query_heads + 1)).astype(np.float32) if case.slopes else None,
    )


class Term(NamedTuple):
    """A value, and the scale at which errors are counted."""

    value: Any
    scale: Any


def evaluate(case, given, real, *, kept=None, o=None, narrow=False):
    """All results by name: "o", "stats", "dq", "dk", "dv", "dbias".

    Args:
        real: the dtype of the arithmetic.
        kept: what dropout keeps, as bool in the shape of all scores.
        o: the output that the gradients are given; by default what is computed here.
        narrow: whether probabilities, their gradients, and what heads that share a key add to its gradients are rounded
            to the arrays' dtype before they are multiplied, or summed.
    """
    q, k, v, do = (each.astype(real) for each in (given.q, given.k, given.v, given.do))
    k, v = (np.repeat(each, case.groups, axis=1) for each in (k, v))
    factor, visible = real(case.factor), case.visible()

    def rounded(x):
        return x.astype(case.dtype).astype(real) if narrow else x

    with np.errstate(all="ignore"):
        s = np.einsum("bhid,bhjd->bhij", q, k) * factor
        size = np.einsum("bhid,bhjd->bhij", np.abs(q), np.abs(k)) * abs(factor)
        if given.bias is not None:
            s, size = s + given.bias.astype(real), size + np.abs(given.bias.astype(real))
        if given.slopes is not None:
            apart = np.arange(case.keys) - np.arange(case.queries)[:, None]
            added = given.slopes.astype(real)[:, None, None] * apart.astype(real)
            s, size = s + added, size + np.abs(added)
        s = np.where(visible, s, -np.inf)
        sees = np.isfinite(s).any(axis=-1, keepdims=True)
        growth = 1 + np.where(np.isfinite(s), size, 0).max(axis=-1, keepdims=True, initial=0)
        top = np.where(sees, s.max(axis=-1, keepdims=True, initial=-np.inf), 0)
        weights = np.exp(s - top)
        total = weights.sum(axis=-1, keepdims=True)
        p = np.where(sees, weights / np.where(sees, total, 1), 0)
        stats = np.where(sees, top + np.log(total), -np.inf)[..., 0]
    m = np.ones(case.scores, real) if kept is None else kept / real(1 - case.dropout)
    results = {
        "o": Term(rounded(p * m) @ v, growth * (p * m @ np.abs(v))),
        "stats": Term(stats, np.broadcast_to(growth[..., 0], stats.shape)),
    }
    o = results["o"].value if o is None else o.astype(real)

    def shared(x):
        """Summed over the heads of queries that share one of keys."""
        return rounded(x).reshape(case.batch, case.heads, case.groups, *x.shape[2:]).sum(axis=2)

    level, level_size = (do * o).sum(axis=-1, keepdims=True), np.abs(do * o).sum(axis=-1, keepdims=True)
    spread, spread_size = m * (do @ v.swapaxes(2, 3)), m * (np.abs(do) @ np.abs(v).swapaxes(2, 3))
    ds, ds_size = p * (spread - level), growth * p * (spread_size + level_size)
    results["dv"] = Term(
        shared(rounded(p * m).swapaxes(2, 3) @ do), shared((growth * p * m).swapaxes(2, 3) @ np.abs(do))
    )
    t = abs(factor)
    results["dq"] = Term(factor * (rounded(ds) @ k), t * (ds_size @ np.abs(k)))
    results["dk"] = Term(
        shared(factor * (rounded(ds).swapaxes(2, 3) @ q)), shared(t * (ds_size.swapaxes(2, 3) @ np.abs(q)))
    )
    if given.bias is not None:
        axes = tuple(d for d, n in enumerate(given.bias.shape) if n == 1)
        results["dbias"] = Term(*(x.sum(axis=axes, keepdims=True) for x in (ds, ds_size)))
    return results


def assert_right(case, given, found, *, kept=None, o=None, narrow=False, slack=0.0):
    """Check results, by name, against the oracle by the rule at the top.

    Args:
        found: NumPy arrays by name.
        slack: what a library's exponentials may be off, times the scale.
        kept, o, narrow: as in `evaluate`.
    """
    more = {"kept": kept, "o": o}
    expected = evaluate(case, given, oracle.wide_dtype(case.dtype).type, **more)
    trusted = evaluate(case, given, oracle.compute_dtype(case.dtype).type, **more, narrow=narrow)
    real = oracle.compute_dtype(case.dtype)
    for name, result in found.items():
        wanted, scale = expected[name].value, np.asarray(expected[name].scale, np.float64)
        kind = real if name == "stats" else case.dtype
        assert (result.shape, result.dtype) == (wanted.shape, kind), name
        is_empty = np.isneginf(wanted)
        np.testing.assert_array_equal(np.isneginf(result.astype(np.float64)), is_empty, err_msg=f"{name}: {case}")
        with np.errstate(all="ignore"):
            off = np.where(is_empty, 0, np.abs(result.astype(wanted.dtype) - wanted))
            own = trusted[name].value.astype(kind).astype(wanted.dtype)
            ratio = np.where(scale > 0, np.abs(own - wanted) / np.where(scale > 0, scale, 1), 0)
            ratio = np.where(is_empty, 0, ratio).max(initial=0)
            room = 2 * ratio * scale + (8 * np.finfo(real).eps + slack) * scale
            if narrow:
                room = room + float(ml_dtypes.finfo(case.dtype).eps) * scale
            room = room + np.where(is_empty, 0, oracle.spacing(wanted, kind))
        worst = (off > np.where(is_empty, 0, room)) | np.isnan(off)
        assert not worst.any(), f"{name} is off by {off[worst].max()}, {room[worst].min()} is allowed: {case}"


# ---------------------------------------------------------------- random ones


@st.composite
def cases(draw, dtypes=FLOATS, dropout=True, longest=9):
    """Attention of few elements, of every kind."""
    batch, heads, groups = draw(st.integers(0, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    queries, keys = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    lengths = None
    if draw(st.booleans()):
        each = st.tuples(st.integers(0, queries), st.integers(0, keys))
        lengths = tuple(draw(each) for _ in range(batch))
    bias = None
    if draw(st.booleans()):
        bias = tuple(draw(st.sampled_from([1, n])) for n in (batch, heads * groups, queries, keys))
    return Case(
        batch=batch,
        heads=heads,
        groups=groups,
        queries=queries,
        keys=keys,
        width=draw(st.integers(1, 9)),
        value_width=draw(st.integers(1, 9)),
        dtype=draw(st.sampled_from(dtypes)),
        mask=draw(st.sampled_from(MASKS)),
        window=draw(st.integers(1, 4)),
        bias=bias,
        slopes=draw(st.booleans()),
        scale=draw(st.sampled_from([None, None, 1.0, 0.3, -0.5])),
        lengths=lengths,
        dropout=draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])) if dropout else 0.0,
        seed=draw(st.integers(0, 2**32 - 1)),
    )
