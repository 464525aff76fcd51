"""Reductions of one's own: gradients, refusals, `inspect`, threads, streams, graphs."""

# ruff: noqa: B023
from __future__ import annotations

import copy
import math
import pickle
import sys

import numpy as np
import pytest
from conftest import bits, refused
from own_kernels import DTYPES, FLOATS, close, numbers
from own_reductions import MEANINGS, cosine, dot, logsumexp, moments, rms, same
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc.errors import DTypeError, OptionError, ShapeError, UnsupportedError
from numbacc.functions.digamma import trigamma

pytestmark = pytest.mark.usefixtures("poison", "small_reductions")
scale = 3.0


# ---------------------------------------------------------------- gradients


def differences(meaning, arrays, dys, **options):
    """The gradients of Σ dy · result, by central differences."""
    found = []
    for k, array in enumerate(arrays):
        slope = np.empty_like(array)
        for place in np.ndindex(array.shape):
            sums = []
            for step in (1e-5, -1e-5):
                moved = array.copy()
                moved[place] += step
                results = meaning(*arrays[:k], moved, *arrays[k + 1 :], **options)
                results = results if isinstance(results, tuple) else (results,)
                sums.append(sum((dy * each).sum() for dy, each in zip(dys, results, strict=True)))
            slope[place] = (sums[0] - sums[1]) / 2e-5
        found.append(slope)
    return found


@pytest.mark.parametrize("which", ["rms", "dot", "distance", "cosine", "moments"])
@pytest.mark.parametrize("axis, keepdims", [(None, False), (0, False), (1, True), ((0, 1), True), ((), False)])
def test_gradients(place, which, axis, keepdims):
    own, count, meaning = MEANINGS[which]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((3, 4)) for _ in range(count)]
    results = meaning(*arrays, axis=axis, keepdims=keepdims)
    several = isinstance(results, tuple)
    dys = [np.asarray(rng.standard_normal(np.shape(each))) for each in (results if several else (results,))]
    given = tuple(map(place.put, dys))
    found = own.backward(given if several else given[0], *map(place.put, arrays), axis=axis, keepdims=keepdims)
    assert isinstance(found, tuple) and len(found) == count
    for one, other in zip(found, differences(meaning, arrays, dys, axis=axis, keepdims=keepdims), strict=True):
        np.testing.assert_allclose(place.get(one), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FLOATS)
def test_gradients_in_every_float(place, name):
    x, dy = numbers((3, 40), name), numbers((3,), name, 1)
    wide, root = x.astype(float), np.sqrt((x.astype(float) ** 2).mean(1) + 0.5)
    (dx,) = rms.backward(place.put(dy), place.put(x), axis=1, eps=0.5)
    assert dx.dtype == DTYPES[name]
    close(place, dx, (dy.astype(float) / root)[:, None] * wide / 40, name)
    mean = ew.reduction(lambda x: x, after=lambda total, count: total / count)
    (dx,) = mean.backward(place.put(dy), place.put(x), axis=1)
    close(place, dx, np.broadcast_to(dy.astype(float)[:, None] / 40, x.shape), name)


def test_gradients_of_what_was_repeated_of_numbers_and_into_out(place):
    x, y = numbers((3, 4), "float32"), numbers((4,), "float32", 1)
    dy = numbers((3,), "float32", 2)
    dx, dz = dot.backward(place.put(dy), place.put(x), place.put(y), axis=-1)
    close(place, dx, dy[:, None] * y), close(place, dz, (dy[:, None] * x).sum(0))
    (dx,) = dot.backward(place.put(dy), place.put(x), 2.0, axis=-1)
    close(place, dx, np.broadcast_to(2 * dy[:, None], x.shape))
    out = (place.empty((3, 4), np.dtype(np.float32)).view, place.empty((4,), np.dtype(np.float32)).view)
    assert dot.backward(place.put(dy), place.put(x), place.put(y), axis=-1, out=out) is out
    close(place, out[0], dy[:, None] * y), close(place, out[1], (dy[:, None] * x).sum(0))
    turned = place.operand(x, order=(1, 0), steps=(2, -1))
    (dx,) = rms.backward(place.put(dy), turned.view, axis=1)
    close(place, dx, dy[:, None] * x / 4 / np.sqrt((x * x).mean(1))[:, None])


def test_gradients_that_there_are_not(place):
    x = place.put(np.ones((2, 3)))
    dy = place.put(np.ones(2))
    own = ew.reduction(lambda x: x, merge="prod")
    refused(UnsupportedError, "does not support gradients", "merge is 'prod'", run=lambda: own.backward(dy, x, axis=1))
    refused(
        UnsupportedError,
        "does not support gradients",
        "merge is a function",
        run=lambda: logsumexp.backward(dy, x, axis=1),
    )
    for own in (ew.reduction(lambda x: trigamma(x)), ew.reduction(lambda x: x, after=lambda s: trigamma(s))):
        refused(UnsupportedError, "derivative", "trigamma", run=lambda: own.backward(dy, x, axis=1))
    refused(ShapeError, "dy has shape (2,)", (3,), run=lambda: rms.backward(dy, x, axis=0))
    refused(OptionError, "dy is 1", "2 results", run=lambda: moments.backward(dy, x, axis=1))
    with pytest.raises(DTypeError, match="int64"):
        rms.backward(dy, place.put(np.ones((2, 3), np.int64)), axis=1)


# ---------------------------------------------------------------- what functions are refused


def test_what_is_no_reduction_is_refused():
    refused(OptionError, "function=", run=lambda: ew.reduction(math.sqrt))
    refused(OptionError, "after=", run=lambda: ew.reduction(lambda x: x, after=3))
    refused(OptionError, "merge=", "sum", run=lambda: ew.reduction(lambda x: x, merge="mean"))
    refused(OptionError, "merge=", run=lambda: ew.reduction(lambda x: x, merge=3))
    refused(OptionError, "start=", run=lambda: ew.reduction(lambda x: x, start=0.0))
    refused(OptionError, "start=", run=lambda: ew.reduction(lambda x: x, merge=lambda a, b: a + b))
    refused(OptionError, "start=", run=lambda: ew.reduction(lambda x: x, merge=lambda a, b: a + b, start="a"))
    refused(OptionError, "axis", run=lambda: ew.reduction(lambda x, axis: x))
    refused(OptionError, "out", run=lambda: ew.reduction(lambda x, out=1.0: x))
    refused(OptionError, "must be positional", run=lambda: ew.reduction(lambda *x: x[0]))
    refused(OptionError, "must be positional", run=lambda: ew.reduction(lambda x: x, after=lambda *t: t[0]))
    refused(OptionError, "at least one", run=lambda: ew.reduction(lambda: 1.0))
    refused(
        OptionError, "p has the default 1.0", run=lambda: ew.reduction(lambda x, p=1.0: x, after=lambda t, p=2.0: t)
    )


def test_functions_that_do_not_fit_each_other(place):
    x = place.put(np.ones(3))
    for own, words in [
        (ew.reduction(lambda x: x, after=lambda a, b, c: a), ("after has 3", "1")),
        (ew.reduction(lambda x: (x, x), after=lambda a: a), ("after has 1", "2")),
        (ew.reduction(lambda x: x, merge=lambda a: a, start=0), ("merge has 1", "2")),
        (ew.reduction(lambda x: x, merge=lambda a, b: (a, b), start=0), ("merge returns 2", "1")),
        (ew.reduction(lambda x: x, merge=lambda a, b: a + b, start=(0, 0)), ("start is 2", "1")),
    ]:
        refused(OptionError, *words, run=lambda: own(x))


def loops(x):
    while x > 1:
        x = x / 2
    return x


def makes_an_int(total):
    return int(total)


@pytest.mark.parametrize(
    "make, line",
    [
        (lambda: ew.reduction(loops), "while x > 1"),
        (lambda: ew.reduction(lambda x: x, after=makes_an_int), "int(total)"),
        (lambda: ew.reduction(lambda x: x, merge=lambda a, b: max(loops(a), b), start=0.0), "while x > 1"),
        (lambda: ew.reduction(lambda x: rms(x)), "rms(x)"),
    ],
)
def test_what_kernels_cannot_is_told_with_the_line(place, make, line):
    own = make()
    for _ in range(2):
        with pytest.raises(UnsupportedError) as caught:
            own(place.put(np.ones(2)))
        message = str(caught.value)
        assert line in message and own.__name__ in message and "test_elementwise_reductions_object.py" in message
        assert "Traceback" not in message and caught.value.__cause__ is None


# ---------------------------------------------------------------- the object


def test_forward_backward_and_source_have_the_same_values_from_outside(place, monkeypatch):
    own = ew.reduction(lambda x: scale * x, after=lambda total: total + scale)
    x = place.put(np.array([1.0, 2.0]))
    close(place, own(x), 12)
    monkeypatch.setattr(sys.modules[__name__], "scale", 100.0)
    (dx,) = own.backward(place.put(np.array(1.0)), x)
    close(place, dx, [100, 100])
    close(place, own(x), 400)
    assert own.inspect().source.count("100") == 3


def test_what_a_reduction_is():
    assert rms.__name__ == "rms" and rms.__doc__ == "√(mean of x² + eps)." and "rms(x, eps=0.0)" in repr(rms)
    assert pickle.loads(pickle.dumps(rms)) is rms
    assert copy.copy(rms) is rms and copy.deepcopy([rms])[0] is rms
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(dot)
    assert ew.reduction(ew.kernel(lambda x: x * x), merge="max")(np.array([1.0, -3.0])) == 9


def test_inspect(place):
    x = place.put(np.ones((64, 256), np.float32))
    found = rms.inspect(x, axis=-1)
    assert found.source.count("def ") == 4 and "square_root" in str(found) and "reduce_contiguous" in repr(found)
    assert found.bytes_per_thread == 64 and found.capability >= (7, 5)
    if place.is_slow:
        assert found.ptx is None and "simulator" in found.kernels[0].reason
        return
    assert ".entry" in found.ptx and f"sm_{found.capability[0]}{found.capability[1]}" in found.ptx
    if found.registers is not None:
        assert 0 < found.registers <= 64 and found.local_bytes == found.spilled_bytes == 0
    assert len(rms.inspect().kernels) == 1
    assert [each.algorithm.split(",")[0] for each in rms.inspect(np.ones(1 << 22)).kernels] == [
        "reduce_contiguous",
        "reduce_strided",
    ]
    nothing = dot.inspect(np.ones((0, 3)), 2.0, axis=1)
    assert nothing.registers is None and "empty" in str(nothing)
    assert "merge" in ew.reduction(lambda x: x, merge="prod").inspect().source
    assert logsumexp.inspect(x, axis=0).source.count("def ") == 3


def test_threads_make_it_once(place):
    for _ in range(2 if place.is_slow else 10):
        own = ew.reduction(lambda x, s: x * s if x > 0 else x - s, after=lambda total, count, k=1.0: k * total / count)
        x = place.put(np.array([[1.0, -1.0]]))

        def work(k, own=own, x=x):
            close(place, own(x, float(k), axis=1), [-1 / 2])
            close(place, own(x, float(k), axis=1, k=4.0), [-2])
            close(place, own.backward(own(x, 2.0, axis=1), x, 3.0, axis=1)[0], [[-0.75, -0.25]])

        run_threads(work)


def test_streams(place):
    x, streams = numbers((4, 5), "float32"), [None, numbacc.stream(), numbacc.stream()]
    d = place.put(x)
    for k in range(6):
        d = ew.add(d, 1.0, stream=streams[k % 3])
        total = dot(d, d, axis=1, stream=streams[(k + 1) % 3])
        (back,) = rms.backward(total, d, axis=1, stream=streams[(k + 2) % 3])
        wide = x.astype(float) + k + 1
        same(place, total, (wide * wide).sum(1), "float32")
        root = np.sqrt((wide * wide).mean(1))
        close(place, back, ((wide * wide).sum(1) / root)[:, None] * wide / 5)


def test_the_same_bits_twice(place):
    x = place.put(np.random.default_rng(8).standard_normal((7, 100 if place.is_slow else 30_000)).astype(np.float32))
    for axis in (None, 0, 1):
        one, other = (np.asarray(place.get(cosine(x, x, axis=axis))) for _ in range(2))
        np.testing.assert_array_equal(bits(one), bits(other))


@pytest.mark.gpu
def test_a_graph_is_replayed_with_new_inputs():
    x, y = numbacc.zeros((8, 900)), numbacc.zeros((8, 1))
    with numbacc.graph() as g:
        z = dot(x, y, axis=1)
        r = rms(x, eps=0.5)
        (dx,) = rms.backward(z, x, axis=1, eps=0.5)
    for k in range(4):
        host = np.random.default_rng(k).standard_normal((8, 900)).astype(np.float32)
        x[...], y[...] = host, host[:, :1]
        g.launch()
        wide = host.astype(float)
        total = (wide * wide[:, :1]).sum(1)
        np.testing.assert_allclose(numbacc.asnumpy(z), total, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(numbacc.asnumpy(r), np.sqrt((wide * wide).mean() + 0.5), rtol=1e-5)
        slope = (total / np.sqrt((wide * wide).mean(1) + 0.5))[:, None] * wide / 900
        np.testing.assert_allclose(numbacc.asnumpy(dx), slope, rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
def test_torch_tensors_and_benchmarks(torch):
    tensor = torch.ones((4, 300), device="cuda")
    np.testing.assert_allclose(numbacc.asnumpy(dot(tensor, tensor.sum(1, keepdim=True), axis=1)), 90_000)
    for axis in (None, 0, 1):
        found = dot.benchmark((1024, 2048), "bfloat16", axis=axis, repeats=3)
        assert 0 < found.bandwidth < 20 and found.nbytes >= 2 * 1024 * 2048 * 2
