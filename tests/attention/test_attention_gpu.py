"""What only a real cuDNN shows: larger heads, every graph's numbers, padding that is large."""

from __future__ import annotations

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, HALF, MASKS
from conftest import Place

import numbacc
from numbacc import attention, conv

pytestmark = pytest.mark.gpu

PLACE = Place("gpu")
HALVES = (HALF, BFLOAT16)
each_half = pytest.mark.parametrize("dtype", HALVES, ids=str)


def large(**more):
    """Attention of several tiles, odd in its lengths."""
    sizes = {"batch": 2, "heads": 2, "queries": 141, "keys": 205, "width": 64, "value_width": 64, "window": 40}
    return small(**{**sizes, **more})


@each_half
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, dtype):
    for case in (
        large(mask=mask, dtype=dtype),
        large(mask=mask, dtype=dtype, groups=3),
        large(mask=mask, dtype=dtype, queries=205, keys=141),
        large(mask=mask, dtype=dtype, lengths=((141, 205), (77, 130))),
        large(mask=mask, dtype=dtype, lengths=((0, 205), (141, 0)), groups=2),
    ):
        Call(PLACE, case).check()
        Call(PLACE, case, "BSHD", deterministic=True).check()


@each_half
@pytest.mark.parametrize(("width", "value_width"), [(8, 8), (20, 12), (32, 64), (128, 128), (192, 128), (256, 256)])
def test_widths(width, value_width, dtype):
    Call(PLACE, large(width=width, value_width=value_width, dtype=dtype, mask="causal")).check()


@each_half
def test_biases_and_slopes(dtype):
    for shape in ((1, 2, 141, 205), (2, 2, 141, 205), (2, 1, 1, 205), (1, 1, 141, 1)):
        Call(PLACE, large(bias=shape, dtype=dtype)).check()
    Call(PLACE, large(slopes=True, mask="causal", dtype=dtype)).check()
    Call(PLACE, large(slopes=True, bias=(1, 2, 141, 205), lengths=((141, 205), (99, 201)), dtype=dtype)).check()


@each_half
def test_dropout(dtype):
    """Forward and backward drop what the dump says, and as many as they should."""
    for more in ({}, {"mask": "causal", "groups": 2}, {"lengths": ((141, 205), (77, 130))}):
        call = Call(PLACE, large(dropout=0.25, dtype=dtype, **more))
        call.check()
        kept = call.kept()
        # Fused kernels leave tiles that nobody sees as they are.
        seen = kept[np.broadcast_to(call.case.visible(), kept.shape)]
        assert abs(seen.mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / seen.size)


@each_half
def test_padding_may_be_large(dtype):
    """But finite: cuDNN multiplies what it loads by 0."""
    case = large(dtype=dtype, lengths=((100, 131), (141, 60)), groups=2, mask="causal")
    values = attention_oracle.inputs(case)
    wanted = Call(PLACE, case, values=values).check()
    arrays = {name: getattr(values, name).copy() for name in ("q", "k", "v", "do")}
    for b, pair in enumerate(case.lengths):
        for name, array in arrays.items():
            array[b, :, pair[name in ("k", "v")] :] = 3e4
    call = Call(PLACE, case, values=values._replace(**arrays))
    o, stats = call.forward()
    for name, array in {"o": o, "stats": stats, **call.backward(o, stats)}.items():
        found = PLACE.get(array).astype(np.float64)
        np.testing.assert_array_equal(np.isnan(found), False, err_msg=name)
        np.testing.assert_allclose(found, wanted[name].astype(np.float64), rtol=1e-2, atol=1e-2, err_msg=name)


@each_half
def test_the_same_bits_where_they_are_asked_for(dtype):
    call = Call(PLACE, large(dtype=dtype, mask="causal", groups=2), deterministic=True)
    o, stats = call.forward()
    first = {name: PLACE.get(each) for name, each in call.backward(o, stats).items()}
    for _ in range(20):
        for name, each in call.backward(*call.forward()).items():
            np.testing.assert_array_equal(PLACE.get(each), first[name])


@each_half
def test_pages_of_a_long_cache(dtype):
    rng = np.random.default_rng(0)
    for page in (16, 64, 128):
        count, keys = 2048 // page, np.array([2048, 777], np.int32)
        k, v = (rng.standard_normal((2 * count, 2, page, 128)).astype(dtype) for _ in range(2))
        q = rng.standard_normal((2, 8, 1, 128)).astype(dtype)
        table = rng.permutation(2 * count).astype(np.int32).reshape(2, count)
        arrays = [PLACE.put(each) for each in (q, k, v)]
        tables = {name: PLACE.put(table) for name in ("page_table_k", "page_table_v")}
        found = PLACE.get(attention.forward(*arrays, **tables, seq_len_kv=PLACE.put(keys))).astype(np.float64)
        for b in range(2):
            rows = [np.concatenate(each[table[b]], axis=1)[:, : keys[b]].astype(np.float64) for each in (k, v)]
            scores = np.einsum("hgd,hjd->hgj", q[b, :, 0].reshape(2, 4, 128).astype(np.float64), rows[0]) / 128**0.5
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            wanted = np.einsum("hgj,hjd->hgd", weights / weights.sum(-1, keepdims=True), rows[1])
            np.testing.assert_allclose(found[b, :, 0].reshape(2, 4, 128), wanted, rtol=2e-2, atol=1e-2)


def test_prepared_plans_are_found(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    attention.cache_clear()
    asked = [attention.backward.request((1, 2, n, 64), (1, 2, n, 64)) for n in (65, 67)]
    attention.prepare(asked, threads=2)
    q = numbacc.empty((1, 2, 65, 64), "bfloat16")
    assert "engine" in attention.backward.plan(q, q, q, q, q, numbacc.zeros((1, 2, 65))).info.algorithm
    attention.cache_clear()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("take", ["as they are", "as torch's"])
def test_batches_of_0_whatever_their_strides(torch, take, dtype):
    """Also torch's tensors, made of numbacc's arrays or by torch."""
    whole, some = (numbacc.zeros((n, 16, 4, 8), dtype=dtype) for n in (0, 3))
    views = [whole.transpose(0, 2, 1, 3), whole[:, ::2], whole[:, :, ::2], whole[::2], some[:0].transpose(0, 2, 1, 3)]
    arrays = [torch.from_dlpack(view) for view in views] if take == "as torch's" else views
    if take == "as torch's":
        arrays += [torch.zeros(0, 16, 4, 8, device="cuda", dtype=getattr(torch, dtype)).transpose(1, 2)]
    for x in arrays:
        shape = tuple(x.shape)
        o, saved = attention.forward(x, x, x, return_saved=True)
        assert o.shape == shape and [each.shape for each in attention.backward(x, saved)] == [shape] * 3
        assert attention.forward(x, x, x, out=numbacc.zeros(shape, dtype=dtype)).shape == shape
        assert tuple(torch.from_dlpack(o).shape) == shape and numbacc.asnumpy(o).shape == shape
    if dtype == "float32":
        return
    w = numbacc.zeros((64, 3, 3, 2), dtype=dtype)
    for dy in (
        numbacc.zeros((0, 64, 8, 8), dtype=dtype).transpose(0, 2, 3, 1),
        numbacc.zeros((0, 16, 8, 64), dtype=dtype)[:, ::2],
    ):
        given = [torch.from_dlpack(each) for each in (dy, w)] if take == "as torch's" else [dy, w]
        found = conv.backward_data(*given, (0, 10, 10, 64), groups=32, layout="NHWC")
        assert found.shape == (0, 10, 10, 64)
