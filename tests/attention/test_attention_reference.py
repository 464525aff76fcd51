"""The meaning of attention in NumPy, against whole matrices of scores."""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_oracle import BFLOAT16, DOUBLE, FLOATS, SINGLE, Case
from hypothesis import given

import numbacc
from numbacc.base.attention_band import Band
from numbacc.random import Generator
from numbacc.reference import attention as reference
from numbacc.reference.attention import Dropout, Scores


def band_of(case):
    right, n = bool(case.mask) and case.mask.endswith("bottom_right"), case.window
    if case.mask is None:
        return Band()
    if case.mask.startswith("window"):
        return Band(1 - n, n - 1, right)
    return Band(1 - n if "window" in case.mask else None, 0, right)


def scores_of(case, values):
    dropout = Dropout(case.dropout, 7, 12, case.scores) if case.dropout else None
    queries, keys = zip(*case.lengths, strict=True) if case.lengths else (None, None)
    return Scores(case.factor, band_of(case), values.bias, values.slopes, queries, keys, dropout)


def check(case):
    values = attention_oracle.inputs(case)
    how = scores_of(case, values)
    kept = None if how.dropout is None else reference.dropout_mask(how.dropout)
    o, stats = reference.forward(values.q, values.k, values.v, how)
    found = reference.backward(values.do, values.q, values.k, values.v, o, stats, how, bias_grad=True)
    results = {"o": o, "stats": stats, "dq": found.dq, "dk": found.dk, "dv": found.dv}
    if values.bias is not None:
        results["dbias"] = found.dbias
    else:
        assert found.dbias is None
    attention_oracle.assert_right(case, values, results, kept=kept, o=o)


@given(case=attention_oracle.cases())
def test_random(case):
    check(case)


@given(case=attention_oracle.cases())
def test_small_blocks(case):
    """Rows by rows: the blocks are cut where they like."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_BLOCK", 10)
        check(case)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_longer(dtype):
    check(Case(batch=1, heads=2, groups=2, queries=150, keys=257, width=64, value_width=32, dtype=dtype, mask="causal"))


def differences(case, values, name, index, step):
    """The slope of the loss Σ o do along one number, by central differences."""
    losses = []
    for sign in (1, -1):
        moved = getattr(values, name).copy()
        moved[index] += sign * step
        changed = values._replace(**{name: moved})
        o, _ = reference.forward(changed.q, changed.k, changed.v, scores_of(case, changed))
        losses.append(float((o * values.do).sum()))
    return (losses[0] - losses[1]) / (2 * step)


@pytest.mark.parametrize("mask", attention_oracle.MASKS)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_gradients_are_slopes(mask, dropout):
    case = Case(
        groups=2, dtype=DOUBLE, mask=mask, bias=(1, 4, 5, 7), slopes=True, lengths=((5, 7), (3, 4)), dropout=dropout
    )
    values = attention_oracle.inputs(case)
    how = scores_of(case, values)
    o, stats = reference.forward(values.q, values.k, values.v, how)
    found = reference.backward(values.do, values.q, values.k, values.v, o, stats, how, bias_grad=True)
    rng = np.random.default_rng(0)
    for name in ("q", "k", "v", "bias"):
        gradient = getattr(found, f"d{name}")
        for _ in range(6):
            index = tuple(int(rng.integers(n)) for n in gradient.shape)
            slope = differences(case, values, name, index, 1e-5)
            np.testing.assert_allclose(gradient[index], slope, rtol=1e-6, atol=1e-8)


def test_rows_without_a_key_are_zero():
    """Of a mask, of lengths, and of a bias that is -inf everywhere: not NaN."""
    case = Case(queries=9, keys=4, mask="causal_bottom_right", lengths=((9, 4), (2, 0)))
    values = attention_oracle.inputs(case)
    bias = np.zeros((1, 1, 9, 4), np.float32)
    bias[..., 8, :] = -np.inf
    how = scores_of(case, values._replace(bias=bias))
    o, stats = reference.forward(values.q, values.k, values.v, how)
    empty = np.ones((2, 9), bool)
    empty[0, 5:8] = False
    for b, row in np.ndindex(2, 9):
        assert np.isneginf(stats[b, :, row]).all() == empty[b, row]
        assert (o[b, :, row] == 0).all() == empty[b, row]
    found = reference.backward(values.do, values.q, values.k, values.v, o, stats, how)
    for gradient in found[:3]:
        assert np.isfinite(gradient).all()
    assert not found.dq[0, :, :5].any() and not found.dk[1].any() and found.dq[0, :, 6].any()


def test_what_lies_beyond_the_lengths_is_not_read():
    case = Case(lengths=((3, 4), (5, 2)))
    values, poisoned = attention_oracle.inputs(case), attention_oracle.inputs(case)
    for b, (queries, keys) in enumerate(case.lengths):
        for array in (poisoned.q, poisoned.do):
            array[b, :, queries:] = np.nan
        for array in (poisoned.k, poisoned.v):
            array[b, :, keys:] = np.nan
    results = []
    for each in (values, poisoned):
        how = scores_of(case, each)
        o, stats = reference.forward(each.q, each.k, each.v, how)
        results.append((o, stats, *reference.backward(each.do, each.q, each.k, each.v, o, stats, how)[:3]))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_dropout_is_that_of_the_generator():
    shape, p = (2, 3, 4, 5), 0.25
    kept = reference.dropout_mask(Dropout(p, 11, 0, shape))
    wanted = Generator("philox", 11).dropout_mask(p, shape)
    np.testing.assert_array_equal(kept, numbacc.asnumpy(wanted).astype(bool).reshape(shape))
    later = reference.dropout_mask(Dropout(p, 11, 20, shape))
    np.testing.assert_array_equal(later.ravel()[:100], kept.ravel()[20:])
    many = reference.dropout_mask(Dropout(p, 3, 0, (4, 4, 64, 64)))
    assert abs(many.mean() - (1 - p)) < 5 * np.sqrt(p * (1 - p) / many.size)


def test_pages():
    rng = np.random.default_rng(0)
    container = rng.standard_normal((7, 2, 4, 3)).astype(np.float32)
    table = np.array([[6, 0, 2], [1, 99, -5]], np.int32)
    found = reference.gathered(container, table, (11, 4))
    assert found.shape == (2, 2, 12, 3)
    np.testing.assert_array_equal(found[0, :, :11], np.concatenate(container[[6, 0, 2]], axis=1)[:, :11])
    np.testing.assert_array_equal(found[1, :, :4], container[1])
    assert not found[0, :, 11:].any() and not found[1, :, 4:].any()


def test_packed_sequences():
    rng = np.random.default_rng(0)
    packed = rng.standard_normal((9, 2, 3)).astype(BFLOAT16)
    starts = (0, 4, 4, 8)
    rows = reference.padded(packed, starts, 5)
    assert rows.shape == (3, 2, 5, 3) and not rows[1].any() and not rows[0, :, 4:].any()
    np.testing.assert_array_equal(rows[2, 1, :4], packed[4:8, 1])
    again = np.full_like(packed, 7)
    reference.put_back(rows, starts, again)
    np.testing.assert_array_equal(again[:8], packed[:8])
    assert (again[8] == BFLOAT16.type(7)).all()


def test_bands_know_their_empty_rows():
    for bottom_right in (False, True):
        for lower, upper in ((None, None), (None, 0), (-2, 0), (-2, 2), (-1, 3)):
            for queries, keys in ((1, 1), (4, 9), (9, 4), (3, 3), (0, 3), (3, 0)):
                band = Band(lower, upper, bottom_right)
                ranges = [band.keys_of(i, i, queries, keys) for i in range(queries)]
                assert band.leaves_rows_empty(queries, keys) == any(a == b for a, b in ranges)
                if ranges:
                    whole = band.keys_of(0, queries - 1, queries, keys)
                    seen = [j for a, b in ranges for j in range(a, b)]
                    assert not seen or whole == (min(seen), max(seen) + 1)


@pytest.mark.parametrize("bottom_right", [False, True])
def test_bounds_that_hide_nothing_are_left_out(bottom_right):
    for queries, keys in ((1, 1), (1, 7), (2, 2), (4, 9), (9, 4), (5, 5)):
        for before in range(15):
            for after in range(15):
                band = Band(-before, after, bottom_right)
                within = band.within(queries, keys)
                seen, ranges = (
                    [each.keys_of(row, row, queries, keys) for row in range(queries)] for each in (band, within)
                )
                assert ranges == seen
                hides = seen != [(0, keys)] * queries
                assert not (hides and within.is_full)
                if after and not hides:
                    assert within.is_full
    # Sequences may be shorter than the arrays; each still sees what it saw.
    for queries, keys in ((3, 6), (6, 3)):
        for length in range(1, 9):
            band = Band(1 - length, length - 1, bottom_right)
            within = band.within(queries, keys)
            for rows in range(1, queries + 1):
                for columns in range(1, keys + 1):
                    for row in range(rows):
                        assert within.keys_of(row, row, rows, columns) == band.keys_of(row, row, rows, columns)


def test_memory_is_that_of_a_block(monkeypatch):
    """No array of all scores is made."""
    largest, masked = [], reference._masked

    def watched(scores, *rest):
        largest.append(scores.size)
        return masked(scores, *rest)

    monkeypatch.setattr(reference, "_masked", watched)
    monkeypatch.setattr(reference, "_BLOCK", 1 << 12)
    q = np.ones((1, 2, 512, 4), SINGLE)
    reference.forward(q, q, q, Scores(1.0))
    assert max(largest) <= 1 << 12 and sum(largest) == 2 * 512 * 512
