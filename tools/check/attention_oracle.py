"""What attention must give, and how far off a result may be: whole matrices in float64, a sequence at a time.

It shares nothing with `numbacc.reference` or with the planning: masks are written out from what a case says, sequences
are cut out of the arrays as the layout says, and the softmax is NumPy's exponential.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from numbacc.attention import CausalSlidingWindow

from .attention_cases import Case

Arrays = dict[str, Any]
Pair = tuple[Any, Any]

#: Arrays that have a row for each query; the others have one for each key.
_OF_QUERIES = ("q", "do", "o", "out", "dq")
#: Those that are laid out as queries, keys and values are.
_RESULTS = ("out", "dq", "dk", "dv")
#: A Hopper's tensor cores add products of float8 in 14 bits (DeepSeek-AI 2024, arXiv:2412.19437, section 3.3.2): so far
#: a score may be off, in parts of the sum of its products' magnitudes.
_SUM_OF_FLOAT8 = 2.0**-12
#: Half of the distance from 1 to the next number.
_UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Where everything is 0 a result is, too.
_NOTHING = 1e-30


class Expected(NamedTuple):
    """A result, and how far each of its elements may be off."""

    value: Any
    allowed: Any


def visible(mask: Any, queries: int, keys: int) -> Any:
    """Which key each query sees: bool, (queries, keys)."""
    is_shifted = mask == "causal_bottom_right" or getattr(mask, "bottom_right", False)
    back = np.arange(queries)[:, None] + is_shifted * (keys - queries) - np.arange(keys)
    if mask is None:
        return np.ones(back.shape, bool)
    if isinstance(mask, str):
        return back >= 0
    return (back < mask.length) & (back > (-1 if isinstance(mask, CausalSlidingWindow) else -mask.length))


def part_of(case: Case, host: Arrays, name: str, array: Any, b: int) -> Any:
    """What of an array belongs to a sequence: (heads, its length, elements), a view but where there are pages."""
    layout, is_of_queries = case.asked.get("layout", "BHSD"), name in _OF_QUERIES
    lengths = host.get("seq_len_q" if is_of_queries else "seq_len_kv")
    if layout == "THD":
        assert lengths is not None
        return array[lengths[b] : lengths[b + 1]].swapaxes(0, 1)
    if case.asked.get("pages") and not is_of_queries:
        whole = np.concatenate(array[host[f"page_table_{name}"][b]], axis=1)
    else:
        whole = array[b] if layout == "BHSD" else array[b].swapaxes(0, 1)
    return whole if lengths is None else whole[:, : lengths[b]]


def _softmax(scores: Any) -> Pair:
    """(weights, statistics) of scores, -inf where a key is not seen; rows of nothing else weigh nothing."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return e / np.where(total == 0, 1, total), (top + np.log(total))[..., 0]


class _Sequence:
    """A sequence in float64: its scores' softmax, and what is computed of it.

    Args:
        case, host, kept: as of `expected`.
        b: which it is.
    """

    def __init__(self, case: Case, host: Arrays, kept: Any, b: int):
        self.case, self.host, self.b = case, host, b
        rows = {
            name: part_of(case, host, name, host[name], b).astype(np.float64)
            for name in ("q", "k", "v", "do", "o")
            if name in host
        }
        self.q, self.group = rows["q"], len(rows["q"]) // len(rows["k"])
        self.k, self.v = (np.repeat(rows[name], self.group, axis=0) for name in ("k", "v"))
        self.do, self.o = rows.get("do"), rows.get("o")
        self.scale = case.asked.get("scale") or self.q.shape[2] ** -0.5
        queries, keys = self.q.shape[1], self.k.shape[1]
        #: That of stored numbers' products.
        self.factor = self.scale * self.number("descale_q") * self.number("descale_k")
        scores = self.factor * (self.q @ self.k.swapaxes(1, 2))
        if "bias" in host:
            scores = scores + self.of_scores(host["bias"])
        if "alibi" in host:
            apart = np.arange(keys) - np.arange(queries)[:, None]
            scores = scores + host["alibi"].astype(np.float64)[:, None, None] * apart
        self.p, self.stats = _softmax(np.where(visible(case.asked["mask"], queries, keys), scores, -np.inf))
        #: What dropout multiplies weights by.
        self.m = 1.0 if kept is None else self.of_scores(kept) / (1 - case.asked["dropout"])

    def of_scores(self, array: Any) -> Any:
        """This sequence's part of what broadcasts to all scores."""
        four = array.reshape((1,) * (4 - array.ndim) + array.shape)
        return four[self.b % len(four), :, : self.q.shape[1], : self.k.shape[1]].astype(np.float64)

    def number(self, name: str) -> float:
        """A scale of float8, 1 where it is not given."""
        return float(self.host[name][0]) if name in self.host else 1.0

    def shared(self, array: Any) -> Any:
        """Summed over heads of queries that share one of keys."""
        return array.reshape(len(array) // self.group, self.group, *array.shape[1:]).sum(axis=1)

    # ------------------------------------------------------------ results, each with the sum of magnitudes behind it

    def forward(self) -> dict[str, Pair]:
        """Of 16-bit floats."""
        weights = self.p * self.m
        return {"out": (weights @ self.v, weights @ np.abs(self.v))}

    def backward(self) -> dict[str, Pair]:
        """Of 16-bit floats; "ds" are the gradients of all scores."""
        assert self.do is not None and self.o is not None
        turned, product = self.v.swapaxes(1, 2), self.do * self.o
        ds = self.p * (self.m * (self.do @ turned) - product.sum(-1, keepdims=True))
        size = self.p * (self.m * (np.abs(self.do) @ np.abs(turned)) + np.abs(product).sum(-1, keepdims=True))

        def gradients(q: Any, k: Any, do: Any, ds: Any, scale: float) -> dict[str, Any]:
            return {
                "ds": ds,
                "dq": scale * (ds @ k),
                "dk": scale * self.shared(ds.swapaxes(1, 2) @ q),
                "dv": self.shared((self.p * self.m).swapaxes(1, 2) @ do),
            }

        values = gradients(self.q, self.k, self.do, ds, self.scale)
        sizes = gradients(np.abs(self.q), np.abs(self.k), np.abs(self.do), size, abs(self.scale))
        return {name: (values[name], sizes[name]) for name in values}

    def of_float8(self) -> dict[str, Pair]:
        """ "out", and "o" before it is stored, each with how far roundings may move it; "stats" likewise."""
        kind = ml_dtypes.finfo(self.host["q"].dtype)
        half, least, largest = float(kind.eps) / 2, float(kind.smallest_subnormal) / 2, float(kind.max)
        moved = _SUM_OF_FLOAT8 * (np.abs(self.q) @ np.abs(self.k).swapaxes(1, 2)).max(axis=-1, keepdims=True)
        moved = self.factor * moved
        weights, back = self.number("scale_s") * self.p, self.number("descale_s") * self.number("descale_v")
        o = back * (weights @ self.v)
        # Each weight is rounded once, to few bits where it is small.
        off = back * (((half + 2 * moved) * weights + least * (weights > 0)) @ np.abs(self.v)) + 1e-5 * np.abs(o)
        stored = np.clip(self.number("scale_o") * o, -largest, largest)
        room = (1 + half) * self.number("scale_o") * off + half * np.abs(stored) + least
        return {"out": (stored, room), "o": (o, off), "stats": (self.stats, moved[..., 0])}


def expected(case: Case, host: Arrays, kept: Any = None) -> dict[str, Expected]:
    """All results by name, laid out as the case's arrays.

    Args:
        host: the inputs; gradients, if o is among them.
        kept: what dropout keeps, in the shape of all scores; None where nothing is dropped.
    """
    batch = case.asked["batch"] if case.asked.get("layout") == "THD" else case.q[0]
    sequences = [_Sequence(case, host, kept, b) for b in range(batch)]
    if case.dtype not in _UNITS:
        return _of_float8(case, host, sequences)
    is_backward, keys = "o" in host, max(each.k.shape[1] for each in sequences)
    pairs = [each.backward() if is_backward else each.forward() for each in sequences]
    # float16 has no exponents below that.
    unit, least = _UNITS[case.dtype], 2.0**-24 * keys if case.dtype == "float16" else _NOTHING

    def rounded(value: Any, size: Any) -> Expected:
        """Allowed is what roundings may make: of the weights and their gradients between the products, of what heads
        that share a key add, of the result.
        """
        return Expected(value, 4 * unit * size + np.where(size > 0, least, _NOTHING))

    found: dict[str, Expected] = {
        name: rounded(*_placed(case, host, name, pairs)) for name in _RESULTS if name in pairs[0]
    }
    if not is_backward:
        found["stats"] = _stats(case, [(each.stats, 0.0) for each in sequences], 1e-4)
    if case.asked.get("bias_grad"):
        axes = tuple(axis for axis, n in enumerate(host["bias"].shape) if n == 1)
        whole = (np.stack([each["ds"][n] for each in pairs]) for n in range(2))
        found["dbias"] = rounded(*(each.sum(axis=axes, keepdims=True) for each in whole))
    return found


def _of_float8(case: Case, host: Arrays, sequences: list[_Sequence]) -> dict[str, Expected]:
    """All results of float8."""
    pairs = [each.of_float8() for each in sequences]
    stats = _stats(case, [each["stats"] for each in pairs], 1e-5)
    found = {"out": Expected(*_placed(case, host, "out", pairs)), "stats": stats}
    if case.asked.get("return_amax"):
        weight = max(float(each.p.max()) for each in sequences)
        o, off = (max(float(np.abs(each["o"][n]).max()) for each in pairs) for n in range(2))
        moved = float(stats.allowed.max())
        found["amax_s"] = Expected(np.array([weight]), np.array([weight * (1e-4 + 2 * moved)]))
        found["amax_o"] = Expected(np.array([o]), np.array([off]))
    return found


def _placed(case: Case, host: Arrays, name: str, pairs: list[dict[str, Pair]]) -> Pair:
    """Both of a pair, put together of all sequences in the case's layout; 0 where there is no sequence."""
    shape = {"out": (*case.q[:-1], case.v[-1]), "dq": case.q, "dk": case.k, "dv": case.v}[name]
    both = np.zeros(shape), np.zeros(shape)
    for b, pair in enumerate(pairs):
        for whole, part in zip(both, pair[name], strict=True):
            part_of(case, host, name, whole, b)[...] = part
    return both


def _stats(case: Case, parts: list[Pair], relative: float) -> Expected:
    """The statistics, (batch, heads, queries), whatever the layout; -inf where there is no query."""
    layout = case.asked.get("layout", "BHSD")
    longest = case.asked["max_len_q"] if layout == "THD" else case.q[1 if layout == "BSHD" else 2]
    value = np.full((len(parts), len(parts[0][0]), longest), -np.inf)
    moved = np.zeros(value.shape)
    for b, (stats, off) in enumerate(parts):
        value[b, :, : stats.shape[1]], moved[b, :, : stats.shape[1]] = stats, off
    return Expected(value, moved + relative * (1 + np.where(np.isneginf(value), 0, np.abs(value))))


def judge(wanted: Mapping[str, Expected], found: Arrays) -> tuple[bool, float]:
    """(whether results are right, their largest error over what is allowed)."""
    worst = 0.0
    for name, (value, allowed) in wanted.items():
        wide, none = found[name].astype(np.float64), np.isneginf(value)
        if not np.isfinite(wide[~none]).all() or not np.array_equal(np.isneginf(wide), none):
            return False, math.inf
        off = np.abs(np.where(none, 0, wide) - np.where(none, 0, value)) / allowed
        worst = max(worst, float(off.max(initial=0)))
    return worst <= 1, worst
