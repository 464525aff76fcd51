"""The same attention in other memory: packed, padded, one sequence at a time, in pages, of another library's arrays;
and what dropout keeps of many weights.
"""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, mask_of, small
from attention_oracle import DOUBLE, FLOATS, HALF, MASKS, SINGLE
from conftest import in_parts
from foreign import OnlyDlpack
from hypothesis import given, settings
from hypothesis import strategies as st

from numbacc import attention
from numbacc.attention import fused_calls
from numbacc.base.codes import MANY_ARRAYS
from numbacc.base.dispatch import has_gpu, simulated

pytestmark = pytest.mark.usefixtures("poison")
LONGEST = 4 if simulated() else 9
#: On a GPU nearly every example has plans of its own, of half a second each.
few_plans = settings(max_examples=12 if has_gpu() and not simulated() else settings.default.max_examples)


def close(found, wanted, dtype, what):
    room = 2e-6 if dtype.itemsize > 2 else 3e-2
    np.testing.assert_allclose(
        found.astype(np.float64), wanted.astype(np.float64), rtol=room, atol=room, err_msg=str(what)
    )


@st.composite
def sequences(draw):
    """A case with lengths of which the longest are those of the arrays."""
    queries, keys = draw(st.integers(1, LONGEST)), draw(st.integers(1, LONGEST))
    pair = st.tuples(st.integers(0, queries), st.integers(0, keys))
    lengths = draw(st.permutations([(queries, keys), *draw(st.lists(pair, max_size=2))]))
    return small(
        batch=len(lengths), heads=draw(st.integers(1, 2)), groups=draw(st.integers(1, 2)), queries=queries, keys=keys,
        width=draw(st.sampled_from([3, 8])), dtype=draw(st.sampled_from(FLOATS)), mask=draw(st.sampled_from(MASKS)),
        slopes=draw(st.booleans()), lengths=tuple(lengths), seed=draw(st.integers(0, 2**32 - 1)),
    )  # fmt: skip


@in_parts(3, few_plans.max_examples)
@given(case=sequences())
def test_packed_equals_padded_equals_one_by_one(place, part, case):
    """Output, statistics and gradients, whatever the mask: its diagonal is each sequence's own."""
    padded = Call(place, case).check()
    given = attention_oracle.inputs(case)
    rows = {name: ([], int(name in ("k", "v"))) for name in ("q", "k", "v", "do")}
    for b, pair in enumerate(case.lengths):
        for name, (parts, own) in rows.items():
            parts.append(getattr(given, name)[b, :, : pair[own]])
    slopes = {} if given.slopes is None else {"alibi": place.put(given.slopes)}
    options = {"mask": mask_of(case), "scale": case.scale, **slopes}
    packed = {name: place.put(np.concatenate(parts, axis=1).swapaxes(0, 1).copy()) for name, (parts, _) in rows.items()}
    starts = [np.cumsum([0, *(pair[own] for pair in case.lengths)]).astype(np.int32) for own in range(2)]
    more = {"seq_len_q": place.put(starts[0]), "seq_len_kv": place.put(starts[1]), "layout": "THD"}
    more |= {"max_len_q": case.queries, "max_len_kv": case.keys}
    triple = [packed[name] for name in ("q", "k", "v")]
    o, stats = attention.forward(*triple, **options, **more, return_stats=True)
    grads = attention.backward(packed["do"], *triple, o, stats, **options, **more)
    found = dict(zip(("dq", "dk", "dv"), grads, strict=True))
    found = {name: place.get(array) for name, array in {"o": o, **found}.items()}
    for b, pair in enumerate(case.lengths):
        alone = {}
        if all(pair):
            do, *own = (place.put(rows[name][0][b][None].copy()) for name in ("do", "q", "k", "v"))
            single, level = attention.forward(*own, **options, return_stats=True)
            grads = attention.backward(do, *own, single, level, **options)
            alone = {name: place.get(a)[0] for name, a in zip(("o", "dq", "dk", "dv"), (single, *grads), strict=True)}
            close(padded["stats"][b, :, : pair[0]], place.get(level)[0], case.dtype, "stats")
            close(place.get(stats)[b, :, : pair[0]], place.get(level)[0], case.dtype, "packed stats")
        for name, array in found.items():
            own = int(name in ("dk", "dv"))
            part = array[starts[own][b] : starts[own][b + 1]].swapaxes(0, 1)
            close(part, padded[name][b, :, : pair[own]], case.dtype, name)
            close(part, alone.get(name, np.zeros_like(part)), case.dtype, name)


@pytest.mark.parametrize("dtype", [HALF, SINGLE], ids=str)
def test_one_token_whatever_its_stride(place, dtype):
    """The stride of an axis of length 1 means nothing: here it is negative."""
    rng = np.random.default_rng(5)
    host = [rng.standard_normal((1, 2, 8)).astype(dtype) for _ in range(4)]
    starts = place.put(np.array([0, 1], np.int32))
    more = {"seq_len_q": starts, "seq_len_kv": starts, "layout": "THD", "max_len_q": 1, "max_len_kv": 1}
    found = []
    for is_turned in (False, True):
        q, k, v, do = (place.put(array)[::-1] if is_turned else place.put(array) for array in host)
        assert (q.strides[0] < 0) is is_turned
        o, stats = attention.forward(q, k, v, **more, return_stats=True)
        found.append([place.get(each) for each in (o, stats, *attention.backward(do, q, k, v, o, stats, **more))])
    np.testing.assert_allclose(found[0][0], host[2], rtol=1e-3)  # of one key all the weight
    for plain, turned in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, turned)


@few_plans
@given(data=st.data())
def test_pages_equal_a_whole(place, data):
    """Whatever pages there are, in whatever order, and whoever shares one."""
    page, count = data.draw(st.sampled_from([1, 4])), data.draw(st.integers(1, 3))
    queries, dtype = data.draw(st.integers(1, 3)), data.draw(st.sampled_from(FLOATS))
    keys = [data.draw(st.integers(1, page * count)) for _ in range(2)]
    mask = data.draw(st.sampled_from([None, "causal_bottom_right", attention.SlidingWindow(2, bottom_right=True)]))
    tables = np.array(data.draw(st.lists(st.integers(0, 4), min_size=2 * count, max_size=2 * count)), np.int32)
    tables, rng = tables.reshape(2, count), np.random.default_rng(1)
    q = place.put(rng.standard_normal((2, 4, queries, 8)).astype(dtype))
    k, v = (rng.standard_normal((5, 2, page, 8)).astype(dtype) for _ in range(2))
    whole = [place.put(np.stack([np.concatenate(a[row], axis=1) for row in tables])) for a in (k, v)]
    options = {"mask": mask, "seq_len_kv": place.put(np.array(keys, np.int32)), "return_stats": True}
    wanted = attention.forward(q, *whole, **options)
    table = place.put(tables)
    found = attention.forward(q, place.put(k), place.put(v), page_table_k=table, page_table_v=table, **options)
    for name, one, other in zip(("o", "stats"), found, wanted, strict=True):
        close(place.get(one), place.get(other), dtype, name)


def test_all_arrays_may_be_of_other_libraries(numpy_place):
    """Both ways; biases, slopes, lengths, results and page tables, too."""
    case = small(bias=(2, 1, 5, 7), slopes=True, lengths=((5, 7), (3, 2)), dtype=DOUBLE)
    call = Call(numpy_place, case)
    o, stats = call.forward()
    wanted = call.backward(o, stats)
    given = {name: OnlyDlpack(a) if isinstance(a, np.ndarray) else a for name, a in call.keywords.items()}
    outs = [np.full_like(each, np.nan) for each in wanted.values()]
    rows = [OnlyDlpack(each) for each in (*call.views("do", "q", "k", "v"), o, stats)]
    attention.backward(*rows, **given, bias_grad=True, out=tuple(OnlyDlpack(each) for each in outs))
    for one, (name, other) in zip(outs, wanted.items(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    q, k = np.ones((2, 2, 1, 8)), np.random.default_rng(0).standard_normal((4, 2, 4, 8))
    extras = {name: np.array([[1, 0], [3, 2]], np.int32) for name in ("page_table_k", "page_table_v")}
    extras["seq_len_kv"] = np.array([8, 3], np.int32)
    theirs = {name: OnlyDlpack(each) for name, each in extras.items()}
    np.testing.assert_array_equal(
        attention.forward(*map(OnlyDlpack, (q, k, k)), **theirs), attention.forward(q, k, k, **extras)
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_what_dropout_keeps_is_random(place, p, dtype):
    """As many as it should, in rows, columns and heads alike; neighbours and other seeds know nothing of each other."""
    length = 16 if place.is_slow else 128
    x = place.put(np.ones((2, 2, length, 8), dtype))

    def centered(seed, offset=0):
        kept = place.get(attention.dropout_mask(x, x, x, dropout=p, seed=seed, offset=offset))
        assert kept.shape == (2, 2, length, length) and kept.dtype == bool
        return (kept - (1 - p)) / np.sqrt(p * (1 - p))

    first = centered(3)
    others = {
        "other seed": first * centered(4),
        "other offset": first * centered(3, 4 * first.size),
        "next key": first[..., 1:] * first[..., :-1],
        "next query": first[..., 1:, :] * first[..., :-1, :],
        "next head": first[:, 1:] * first[:, :-1],
        "next sequence": first[1:] * first[:-1],
    }
    for name, each in {"all": first, **others}.items():
        assert abs(each.mean()) < 5 / np.sqrt(each.size), name
    for axes in ((0, 1, 2), (0, 1, 3), (2, 3)):
        count = first.size / first.mean(axis=axes).size
        assert (np.abs(first.mean(axis=axes)) < 6 / np.sqrt(count)).all(), axes


def test_the_mean_over_masks_is_attention_without(numpy_place):
    """What is kept is divided by its share."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 4, 8)).astype(SINGLE) for _ in range(3))
    outs = np.stack([attention.forward(q, k, v, dropout=0.3, seed=seed) for seed in range(600)]).astype(np.float64)
    off = outs.mean(axis=0) - attention.forward(q, k, v)
    assert (np.abs(off) < 5.5 * outs.std(axis=0) / np.sqrt(len(outs))).all()


@pytest.mark.parametrize("many", [24, MANY_ARRAYS])
def test_both_ways_drop_the_same_where_one_has_no_fused_plan(device_place, monkeypatch, many):
    """Packed gradients with dropout, slopes and a window have more arrays than a call of 24 takes, and none of 32."""
    monkeypatch.setattr(fused_calls, "MANY_ARRAYS", many)
    attention.cache_clear()
    place = device_place
    q, k = place.put(np.ones((9, 4, 8), HALF)), place.put(np.ones((9, 2, 8), HALF))
    starts = place.put(np.array([0, 5, 9], np.int32))
    keywords = {"layout": "THD", "seq_len_q": starts, "seq_len_kv": starts, "max_len_q": 5, "max_len_kv": 5}
    keywords |= {"alibi": place.put(np.ones(4, np.float32)), "mask": attention.CausalSlidingWindow(3, True)}
    for dropout in (0.5, 0.0):
        forward = attention.forward.plan(q, k, k, **keywords, dropout=dropout, return_stats=True)
        o, stats = attention.forward(q, k, k, **keywords, dropout=dropout, return_stats=True)
        backward = attention.backward.plan(o, q, k, k, o, stats, **keywords, dropout=dropout)
        for plan in (forward, backward):
            assert ("unfused" in plan.info.algorithm) is (dropout > 0 and many == 24)
    attention.cache_clear()
