"""Score and mask functions of attention: results and gradients against a dense float64 oracle."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import numbacc
from numbacc import attention
from numbacc.attention.score_functions import block_map
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

DOCS = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
#: name -> (score function, its derivatives by score and elements, mask function, shapes of operands).
CASES = {
    "soft cap": (
        lambda s, b, h, i, j: 3 * math.tanh(s / 3),
        lambda s, b, h, i, j: (1 - np.tanh(s / 3) ** 2,),
        None,
        (),
    ),
    "ALiBi, learnable slopes": (
        lambda s, b, h, i, j, slope: s + slope * (j - i),
        lambda s, b, h, i, j, slope: (1 + 0 * s, j - i + 0 * s),
        lambda b, h, i, j: i >= j,
        ((4, 1, 1),),
    ),
    "two operands and a branch": (
        lambda s, b, h, i, j, x, y: s * x if j % 2 else s * s / 4 + y,
        lambda s, b, h, i, j, x, y: (
            np.where(j % 2, x, s / 2),
            np.where(j % 2, s, 0),
            np.where(j % 2, 0, 1) + 0 * s,
        ),
        lambda b, h, i, j: abs(i - j) < 4 or h == b,
        ((2, 1, 6, 1), (9,)),
    ),
    "documents": (None, None, lambda b, h, i, j: DOCS[i] == DOCS[j], ()),
    "documents in a window, no key for some": (
        lambda s, b, h, i, j, x: s - x * x,
        lambda s, b, h, i, j, x: (1 + 0 * s, -2 * x + 0 * s),
        lambda b, h, i, j: (DOCS[i] == DOCS[j]) & (i != 3) & (h + b < 4),
        ((1, 4, 6, 9),),
    ),
}


def grids(shape):
    return np.ogrid[tuple(slice(n) for n in shape)]


def oracle(q, k, v, do, function, slopes_of, mask, operands, scale=None):
    """(o, dq, dk, dv, *gradients of operands), dense in float64."""
    q, k, v, do, *operands = (np.asarray(each, np.float64) for each in (q, k, v, do, *operands))
    group = q.shape[1] // k.shape[1]
    keys, values = np.repeat(k, group, 1), np.repeat(v, group, 1)
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    raw = q @ keys.swapaxes(-1, -2) * scale
    places = [np.broadcast_to(each, raw.shape) for each in grids(raw.shape)]
    elements = [np.broadcast_to(each, raw.shape) for each in operands]
    scores, slopes = raw, [np.ones_like(raw)]
    if function is not None:
        given = [each.ravel().tolist() for each in (raw, *places, *elements)]
        scores = np.array([function(*numbers) for numbers in zip(*given, strict=True)]).reshape(raw.shape)
        slopes = slopes_of(raw, *places, *elements)
    seen = np.ones(raw.shape, bool)
    if mask is not None:
        flat = zip(*(each.ravel().tolist() for each in places), strict=True)
        seen = np.array([bool(mask(*numbers)) for numbers in flat]).reshape(raw.shape)
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.where(seen, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    o = weights @ values
    spread = weights * (do @ values.swapaxes(-1, -2) - (do * o).sum(-1, keepdims=True))
    raw_slopes = spread * slopes[0] * scale

    def shared(full):
        return full.reshape(k.shape[0], k.shape[1], group, *full.shape[2:]).sum(2)

    found = [o, raw_slopes @ keys, shared(raw_slopes.swapaxes(-1, -2) @ q), shared(weights.swapaxes(-1, -2) @ do)]
    for own, slope in zip(operands, slopes[1:], strict=False):
        full, padded = spread * slope, (1,) * (4 - own.ndim) + own.shape
        axes = tuple(axis for axis, n in enumerate(padded) if n == 1)
        found.append(full.sum(axes, keepdims=True).reshape(own.shape))
    return found


def inputs(name, dtype=np.float64, seed=0, queries=6, keys=9):
    rng = np.random.default_rng(seed)
    shapes = [(2, 4, queries, 8), (2, 2, keys, 8), (2, 2, keys, 5), (2, 4, queries, 5), *CASES[name][3]]
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def close(found, wanted, limit):
    for one, other in zip(found, wanted, strict=True):
        one = np.asarray(numbacc.asnumpy(one), np.float64)
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, atol=limit * max(np.abs(other).max(), 1), rtol=0)


def test_forward_and_backward(place):
    kinds = ((np.float64, 1e-13),) * (not place.is_device) + ((np.float32, 3e-6),)
    for name, (dtype, limit) in itertools.product(CASES, kinds):
        function, slopes_of, mask, _ = CASES[name]
        arrays = inputs(name, dtype)
        wanted = oracle(*arrays[:4], function, slopes_of, mask, arrays[4:])
        q, k, v, do, *operands = map(place.put, arrays)
        options = {"score": function, "mask": mask, "operands": tuple(operands) or None}
        o, saved = attention.forward(q, k, v, **options, return_saved=True)
        gradients = attention.backward(do, saved, operand_grads=True)
        close((o, *gradients), wanted, limit)
        if place.is_device and function is not None:
            continue
        again, stats = attention.forward(q, k, v, **options, return_stats=True)
        assert stats.shape == ((2, 4, 6) if function is None else (2, 2, 4, 6))
        gradients = attention.backward(do, q, k, v, again, stats, **options)
        close((again, *gradients), wanted[:4], limit)


def test_layouts_lengths_slices_and_outputs(place):
    """Strided operands, the layout BSHD, lengths, bias, given outputs and slices of few queries."""
    name = "two operands and a branch"
    function, slopes_of, mask, _ = CASES[name]
    q, k, v, do, x, y = inputs(name, np.float32)
    lengths, bias = np.array([4, 6], np.int32), np.linspace(-1, 1, 9, dtype=np.float32)
    keys = np.array([9, 5], np.int32)
    options = {"score": function, "mask": mask, "layout": "BSHD"}

    def biased(s, b, h, i, j, x, y):
        return function(s, b, h, i, j, x, y) + bias[int(j)]

    def seen(b, h, i, j):
        return mask(b, h, i, j) and i < lengths[b] and j < keys[b]

    wanted = oracle(q, k, v, do, biased, slopes_of, seen, (x, y))
    turned = [place.put(np.ascontiguousarray(each.swapaxes(1, 2))) for each in (q, k, v, do)]
    strided = place.put(np.repeat(x, 3, axis=2))[:, :, ::3]
    options |= {"operands": (strided, place.put(y)), "bias": place.put(bias)}
    options |= {"seq_len_q": place.put(lengths), "seq_len_kv": place.put(keys)}
    slices = []
    for limit in (None, 9600):
        out = place.put(np.full((2, 6, 4, 5), np.nan, np.float32)), place.put(np.zeros((2, 2, 4, 6), np.float32))
        own = {**options, "workspace_limit": None if limit is None else limit}
        o, stats, saved = attention.forward(*turned[:3], **own, return_stats=True, return_saved=True, out=out)
        assert o is out[0] and stats is out[1]
        dx = place.put(np.full(x.shape, np.nan, np.float32))
        shapes = [(2, 6, 4, 8), (2, 9, 2, 8), (2, 9, 2, 5)]
        made = (*(place.put(np.zeros(shape, np.float32)) for shape in shapes), dx)
        found = attention.backward(turned[3], saved, operand_grads=(0,), out=made)
        assert found[3] is dx
        found = [numbacc.asnumpy(each).swapaxes(1, 2) for each in (o, *found[:3])]
        close((*found, dx), wanted[:5], 3e-6)
        slices.append(attention.backward.plan(turned[3], saved, operand_grads=(0,)).info.algorithm)
    assert not place.is_device or ["slices" in each for each in slices] == [False, True]


def test_the_one_liners_of_the_page(place):
    """Each row of the table in docs/attention.md, against the oracle."""
    page = (Path(__file__).parents[2] / "docs" / "attention.md").read_text()
    codes = [re.findall(r"`((?:score|mask)=lambda.*?)`", line) for line in page.split("\n") if line.startswith("|")]
    q, k, v, do = inputs("soft cap", np.float32, queries=9)
    d = np.tile(DOCS, (2, 1))
    shapes = {"learnable slopes": (4, 1, 1), "a learnable bias": (4, 9, 9)}
    names = [line for line in page.split("\n") if line.startswith("|") and re.search(r"`(score|mask)=lambda", line)]
    codes = [each[0] for each in codes if each]
    assert len(codes) == 7
    for name, code in zip(names, codes, strict=True):
        given = eval(f"dict({code})", {"math": math, "documents": DOCS})
        rng = np.random.default_rng(1)
        operands = [rng.standard_normal(shape).astype(np.float32) for text, shape in shapes.items() if text in name]
        if "x == y" in code:
            operands = [d[:, None, :, None], d[:, None, None, :]]
        wanted = oracle(q, k, v, do, given.get("score"), lambda *at: (1 + 0 * at[0],), given.get("mask"), operands)[0]
        given |= {"operands": tuple(map(place.put, operands))} if operands else {}
        close([attention.forward(*map(place.put, (q, k, v)), **given)], [wanted], 3e-6)


def test_packed_sequences_of_16_bit_floats(place):
    """Two sequences without padding, operands and results in bfloat16; gradients of slopes add up over both."""
    function, slopes_of, mask, _ = CASES["ALiBi, learnable slopes"]
    rng, (starts, ends) = np.random.default_rng(2), (np.array([0, 4, 10], np.int32), np.array([0, 9, 16], np.int32))
    shapes = (10, 4, 8), (16, 2, 8), (16, 2, 8), (10, 4, 8), (4, 1, 1)
    q, k, v, do, slopes = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    wanted = []
    for (first, end), (left, right) in zip(itertools.pairwise(starts), itertools.pairwise(ends), strict=True):
        own = q[first:end], k[left:right], v[left:right], do[first:end]
        whole = [each[None].swapaxes(1, 2).astype(np.float64) for each in own]
        wanted.append(oracle(*whole, function, slopes_of, mask, [slopes]))
    wanted = [[each[0].swapaxes(0, 1) for each in found[:4]] + [found[4]] for found in wanted]
    options = {"layout": "THD", "seq_len_q": place.put(starts), "seq_len_kv": place.put(ends), "max_len_q": 6}
    o, saved = attention.forward(
        *map(place.put, (q, k, v)),
        score=function,
        mask=mask,
        operands=(place.put(slopes),),
        return_saved=True,
        **options,
    )
    found = (o, *attention.backward(place.put(do), saved, operand_grads=True))
    assert found[4].dtype == slopes.dtype
    joined = [np.concatenate(pair) for pair in zip(*(each[:4] for each in wanted), strict=True)]
    close(found, (*joined, wanted[0][4] + wanted[1][4]), 0.02)


def test_dropout_numbers_and_arrays_that_change(place):
    """What dropout keeps is multiplied by the function's weights; integers stay whole; masks see new values."""
    q, k, v, do = (each.astype(np.float32) for each in inputs("soft cap"))
    ids, on = np.arange(9) % 3 + 2**24, np.arange(6)[:, None] % 2 == 0

    def chosen(s, b, h, i, j, number, is_on):
        return s * 2 if is_on and number == 2**24 + 1 else s

    operands = [place.put(ids), place.put(on)]
    arrays, own = list(map(place.put, (q, k, v))), {"score": chosen, "operands": tuple(operands)}
    wanted = oracle(q, k, v, do, chosen, lambda *at: (1 + 0 * at[0],), None, [ids, on])[0]
    close([attention.forward(*arrays, **own)], [wanted], 3e-6)
    kept = numbacc.asnumpy(attention.dropout_mask(*arrays, **own, dropout=0.25, seed=5))
    values = np.zeros((2, 2, 9, 9), np.float32) + np.eye(9, dtype=np.float32)  # o is then the weights
    weights, dropped = (
        numbacc.asnumpy(attention.forward(*arrays[:2], place.put(values), **own, dropout=p, seed=5))
        for p in (0.0, 0.25)
    )
    np.testing.assert_allclose(dropped, weights * kept / 0.75, rtol=3e-6)
    seen = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])

    def same(b, h, i, j):
        return seen[i] == seen[j]

    for first in (0, 2):
        seen[0] = first
        wanted = oracle(q, k, v, do, None, None, same, ())[0]
        close([attention.forward(*arrays, mask=same)], [wanted], 3e-6)


def test_very_negative_scores_have_right_gradients(place):
    """The sum of the largest score and the log sum would round to the largest score."""
    q, k, v, do = inputs("soft cap", np.float32)
    q, k = np.round(q * 2), np.round(k * 2)  # so that scores are integers, and exact after the shift
    wanted = oracle(q, k, v, do, None, None, None, (), scale=1.0)
    q, k, v, do = map(place.put, (q, k, v, do))
    o, saved = attention.forward(
        q, k, v, score=lambda s, b, h, i, j: s - 2.0**22, scale=1.0, return_saved=True
    )  # fmt: skip
    close((o, *attention.backward(do, saved)), wanted, 3e-6)


def test_gradients_equal_differences(numpy_place):
    def function(s, b, h, i, j, x, y):
        return math.tanh(s * x) + math.exp(-abs(i - j) * 0.3) * y

    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(each) for each in ((1, 2, 3, 4), (1, 1, 5, 4), (1, 1, 5, 2), (2, 1, 1), (3, 5))]
    do = rng.standard_normal((1, 2, 3, 2))

    def loss(*given):
        o = attention.forward(*given[:3], score=function, mask=lambda b, h, i, j: j - i < 3, operands=given[3:])
        return float((o * do).sum())

    _, saved = attention.forward(
        *arrays[:3], score=function, mask=lambda b, h, i, j: j - i < 3, operands=tuple(arrays[3:]), return_saved=True
    )
    for number, found in enumerate(attention.backward(do, saved, operand_grads=True)):
        for at in ((0,) * found.ndim, tuple(n - 1 for n in found.shape)):
            pair = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in arrays]
                moved[number][at] += step
                pair.append(loss(*moved))
            assert abs(found[at] - (pair[0] - pair[1]) / 2e-6) < 1e-8


def test_plans_and_changing_closures(place):
    q, k, v, do = map(place.put, inputs("soft cap", np.float32))
    most = 3.0

    def capped(s, b, h, i, j):
        return most * math.tanh(s / most)

    one = attention.forward.plan(q, k, v, score=capped)

    def equal(score, batch, head, query, key):
        return most * math.tanh(score / most)

    assert attention.forward.plan(q, k, v, score=equal) is one
    first = numbacc.asnumpy(one(q, k, v))
    np.testing.assert_array_equal(first, numbacc.asnumpy(attention.forward(q, k, v, score=capped)))
    most = 1.0
    assert np.abs(numbacc.asnumpy(attention.forward(q, k, v, score=capped)) - first).max() > 0.01

    def same(b, h, i, j):
        return DOCS[i] == DOCS[j]

    plan = attention.forward.plan(q, k, v, mask=same, return_stats=True)
    o, stats = plan(q, k, v, mask=same)
    with pytest.raises(OptionError, match="pass mask="):
        plan(q, k, v)
    _, saved = attention.forward(q, k, v, mask=same, return_saved=True)
    found = attention.backward.plan(do, saved)(do, saved)
    other = attention.backward(do, q, k, v, o, stats, mask=same)
    for one, two in zip(found, other, strict=True):
        np.testing.assert_array_equal(numbacc.asnumpy(one), numbacc.asnumpy(two))


def test_masks_that_equal_named_ones_use_their_plans(place):
    """A mask function that depends on the distance only, and is a band, costs what the named mask costs."""
    causal_window, window = attention.CausalSlidingWindow, attention.SlidingWindow
    arrays = {size: [place.put(np.ones((2, 2, n, 4), np.float32)) for n in size] for size in ((6, 9), (9, 6), (3, 3))}
    for mask, size, named in (
        (lambda b, h, i, j: j <= i, (6, 9), "causal"),
        (lambda b, h, i, j: not i < j, (9, 6), "causal"),
        (lambda b, h, i, j: 0 <= i - j < 3, (9, 6), causal_window(3)),
        (lambda b, h, i, j: i >= j and i - 2 <= j, (6, 9), causal_window(3)),
        (lambda b, h, i, j: abs(i - j) < 2, (6, 9), window(2)),
        (lambda b, h, i, j: abs(i - j) * 0.5 <= 1.5, (9, 6), window(4)),
        (lambda b, h, i, j: abs(i - j) < 4, (3, 3), None),
        (lambda b, h, i, j: abs(i - j) < 7, (6, 9), window(7)),
        (lambda b, h, i, j: True, (6, 9), None),
        # These are no bands, or depend on more than the distance.
        (lambda b, h, i, j: j <= i + 1, (6, 9), "other"),
        (lambda b, h, i, j: (i - j) % 2 == 0, (6, 9), "other"),
        (lambda b, h, i, j: j <= i or j < 2, (6, 9), "other"),
        (lambda b, h, i, j: j <= i + h, (6, 9), "other"),
        (lambda b, h, i, j: i + 0.1 - j < 3.1, (6, 9), "other"),
        (lambda b, h, i, j: 2 * i >= j, (6, 9), "other"),
        (lambda b, h, i, j: i // 2 >= j // 2, (6, 9), "other"),
        (lambda b, h, i, j: i < j < i, (6, 9), "other"),
    ):
        q, k = arrays[size]
        plan = attention.forward.plan(q, k, k, mask=mask)
        assert (plan.problem.call.scoring is None) == (named != "other")
        if named != "other":
            assert plan is attention.forward.plan(q, k, k, mask=named)


def test_block_maps():
    def causal(b, h, i, j):
        return i >= j

    assert block_map(causal, (2, 3, 6, 6), (2, 3)).tolist() == [[[[1, 0], [2, 1], [2, 1]]]]

    def heads(b, h, i, j):
        return h == 1 and j < 4

    assert block_map(heads, (2, 2, 3, 6), (2, 2)).tolist() == [[[[0] * 3] * 2, [[2, 2, 0]] * 2]]

    def docs(b, h, i, j):
        return DOCS[i] == DOCS[j]

    assert block_map(docs, (2, 3, 9, 9), (3, 3)).tolist() == [[[[1, 1, 0], [1, 1, 1], [0, 1, 2]]]]
    large = block_map(lambda b, h, i, j: 0 <= i - j < 64, (1, 1, 1000, 1000), (64, 64))
    assert large.shape == (1, 1, 16, 16) and (large != 0).sum() == 31 and not (large == 2).any()
    assert block_map(causal, (2, 3, 6, 6), (2, 3)) is block_map(causal, (2, 3, 6, 6), (2, 3))


def test_errors(numpy_place):
    q, k, v, _ = inputs("soft cap")

    def plain(s, b, h, i, j):
        return s

    def one(s, b, h, i, j, x):
        return s + x

    def call(**options):
        return attention.forward(q, k, v, **options)

    for options, kind, text in (
        ({"score": 3}, OptionError, "score=3 is not a Python function"),
        ({"score": lambda s, b, h: s}, OptionError, "has 3 parameters"),
        ({"mask": lambda i, j: i > j}, OptionError, "has 2 parameters"),
        ({"mask": lambda b, h, i, j, x: x}, OptionError, "has 5 parameters"),
        ({"operands": (q,)}, OptionError, "pass score="),
        ({"score": one}, OptionError, "operands has 0 arrays; one takes 1"),
        ({"score": plain, "operands": (q,)}, OptionError, "operands has 1 arrays"),
        ({"score": one, "operands": (2.0,)}, OptionError, "is a number"),
        ({"score": one, "operands": q}, OptionError, "pass a tuple"),
        ({"score": one, "operands": (np.ones(5),)}, ShapeError, "must broadcast"),
        ({"score": one, "operands": (np.ones(9, complex),)}, DTypeError, "real numbers"),
        ({"score": lambda s, b, h, i, j: (s, s)}, OptionError, "returns 2 results"),
        ({"score": lambda s, b, h, i, j: s + DOCS[i]}, UnsupportedError, "DOCS"),
        ({"mask": lambda b, h, i, j: DOCS[i + 99] == 0}, UnsupportedError, "IndexError"),
        ({"mask": lambda b, h, i, j: DOCS[None, :5] > 0}, OptionError, "broadcast"),
    ):
        with pytest.raises(kind, match=text):
            call(**options)
    o, saved = attention.forward(q, k, v, score=one, operands=(np.ones(9),), return_saved=True)
    for given, text in (((1,), "operand_grads has 1"), ((0, 0), "twice"), (3, "True, False")):
        with pytest.raises(OptionError, match=text):
            attention.backward(o, saved, operand_grads=given)
    with pytest.raises(ShapeError, match="stats has shape"):
        attention.backward(o, q, k, v, o, np.zeros((2, 4, 6)), score=plain)
    with pytest.raises(LayoutError, match="called with none"):
        attention.forward.plan(q, k, v, score=one, operands=(np.ones(9),))(q, k, v)


def test_numpy_does_not_load_numba():
    code = (
        "import sys, numpy as np; from numbacc import attention; q = np.ones((1, 1, 4, 2)); "
        "o, s = attention.forward(q, q, q, score=lambda s, b, h, i, j: s * 2, mask=lambda b, h, i, j: i >= j, "
        "return_saved=True); attention.backward(o, s); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_saved_object_keeps_the_functions(place):
    """A closure that changes after the forward pass changes neither the score nor the mask of the gradients."""
    q = place.put(np.random.default_rng(3).standard_normal((1, 1, 3, 4)))
    factor, reach = 2.0, 0
    options = {"score": lambda s, b, h, i, j: s * factor, "mask": lambda b, h, i, j: j <= i + reach}
    _, saved = attention.forward(q, q, q, return_saved=True, **options)
    before = [place.get(each) for each in attention.backward(q, saved)]
    factor, reach = 3.0, 1
    attention.forward(q, q, q, **options)
    for one, other in zip(before, attention.backward(q, saved), strict=True):
        np.testing.assert_array_equal(one, place.get(other))
