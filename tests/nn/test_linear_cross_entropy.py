"""`nn.linear_cross_entropy` against a product, a softmax and their gradients written out in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import bits, refused, sentinel

import numbacc
from numbacc import elementwise, gemm, nn
from numbacc.base import dtypes
from numbacc.errors import DTypeError, IndexRangeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")

DTYPES = ("float32", "float64", "float16", "bfloat16")
IN, CLASSES, IGNORED = 6, 11, -100
#: How x may lie in memory.
LAYOUTS = {"dense": {}, "rows uneven": {"margins": ((0, 0), (0, 1), (0, 0))}, "turned": {"order": (1, 0, 2)}}
#: How a target may lie: also as tokens[:, 1:] does.
TARGETS = {
    "dense": {},
    "a slice": {"margins": ((0, 0), (1, 0))},
    "turned": {"order": (1, 0)},
    "apart": {"steps": (1, 2)},
}


def by_hand(x, w, target, bias, reduction, smoothing, dloss):
    """The loss and its gradients (dx, dw, dbias), in float64."""
    rows, flat = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    z = rows @ w + (0 if bias is None else bias)
    logs = z - z.max(1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    valid = flat != IGNORED
    wanted = np.full(z.shape, smoothing / z.shape[1])
    wanted[valid, flat[valid]] += 1 - smoothing
    count = valid.sum() if reduction == "mean" else 1
    loss = -(wanted * logs).sum(1)[valid].sum() / count
    dz = (np.exp(logs) - wanted) * valid[:, None] * dloss / count
    return loss, (dz @ w.T).reshape(x.shape), rows.T @ dz, dz.sum(0)


class Case:
    """Arguments, and the results in float64."""

    def __init__(self, place, dtype, has_bias=True, reduction="mean", smoothing=0.0, dloss=1.0, layout=None):
        rng = np.random.default_rng(3)
        self.place, self.dtype = place, dtypes.dtype(dtype)
        values = [(0.7 * rng.standard_normal(s)).astype(self.dtype) for s in ((3, 7, IN), (IN, CLASSES), (CLASSES,))]
        target = rng.integers(0, CLASSES, (3, 7))
        target[0, 0] = target[2, 3] = IGNORED
        x, w, bias = (each.astype(np.float64) for each in values)
        self.exact = by_hand(x, w, target, bias if has_bias else None, reduction, smoothing, dloss)
        self.x = place.operand(values[0], **(layout or {})).view
        self.w, self.bias, self.target = (
            place.put(values[1]),
            place.put(values[2]) if has_bias else None,
            place.put(target),
        )
        self.options = {"reduction": reduction, "label_smoothing": smoothing, "dloss": dloss}

    def run(self, **options):
        return nn.linear_cross_entropy(self.x, self.w, self.target, self.bias, **self.options, **options)

    def verify(self, loss, gradients, times=(1, 1, 1)):
        """Results are as near as logits and gradients of this dtype allow."""
        eps = float(ml_dtypes.finfo(self.dtype).eps)
        wanted, *slopes = self.exact
        assert abs(float(self.place.get(loss)) - wanted) <= 8 * eps * abs(wanted)
        for name, found, exact, n in zip(("dx", "dw", "dbias"), gradients, slopes, times, strict=True):
            if found is None:
                assert name == "dbias" and self.bias is None
                continue
            got = self.place.get(found).astype(np.float64)
            assert got.shape == exact.shape
            assert np.abs(got - n * exact).max() <= 8 * eps * n * np.abs(exact).max(), name


#: Whether there is a bias, the reduction, the smoothing and dloss: any three of these in all combinations.
OPTIONS = [
    (has_bias, reduction, smoothing, 1.0 if (has_bias == (reduction == "mean")) == (smoothing == 0) else 3.0)
    for has_bias in (True, False)
    for reduction in ("mean", "sum")
    for smoothing in (0.0, 0.25)
]


@pytest.mark.each_alone(names_apart=True)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias, reduction, smoothing, dloss", OPTIONS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("chunk", [4, 1, 21, None])
def test_loss_and_gradients(place, dtype, has_bias, reduction, smoothing, dloss, layout, chunk):
    case = Case(place, dtype, has_bias, reduction, smoothing, dloss, LAYOUTS[layout])
    loss, gradients = case.run(chunk=chunk)
    case.verify(loss, gradients)
    wide = np.float32 if case.dtype.itemsize == 2 else case.dtype
    assert (gradients.dx.dtype, gradients.dw.dtype, loss.shape) == (case.dtype, wide, ())
    only, none = case.run(chunk=chunk, gradients=False)
    np.testing.assert_array_equal(place.get(only), place.get(loss))
    assert none == (None, None, None)


@pytest.mark.parametrize("layout", TARGETS)
def test_targets_lie_anywhere(place, layout):
    case = Case(place, "float32")
    case.target = place.operand(place.get(case.target), **TARGETS[layout]).view
    case.verify(*case.run(chunk=4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_to_the_separate_functions(place, dtype):
    """In one chunk to the last bit, but for the order of the losses' sum."""
    case = Case(place, dtype, smoothing=0.1)
    loss, gradients = case.run(out=(None, *(numbacc.empty_like(each) for each in (case.w, case.bias))))
    rows = case.x.reshape((21, IN))
    y, saved = gemm.linear(rows, case.w, case.bias)
    flat = case.target.reshape((21,))
    apart, kept = elementwise.cross_entropy(y, flat, label_smoothing=0.1, return_saved=True)
    dx, dw, dbias = gemm.linear_backward(elementwise.cross_entropy_backward(1.0, kept), saved)
    np.testing.assert_allclose(place.get(loss), place.get(apart), rtol=1e-6)
    for found, wanted in zip(gradients, (dx.reshape((3, 7, IN)), dw, dbias), strict=True):
        eps = float(ml_dtypes.finfo(case.dtype).eps)
        found, wanted = (place.get(each).astype(np.float64) for each in (found, wanted))
        np.testing.assert_allclose(found, wanted, rtol=eps, atol=eps * np.abs(wanted).max())


@pytest.mark.each_alone
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("adds", [True, False, (False, True, True), (True, False, False)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_and_sums(place, dtype, wide, adds, layout):
    """Gradients are written to views of a flat buffer, or added to them; dx may lie anywhere."""
    case = Case(place, dtype)
    kind = dtypes.dtype("float32") if wide and case.dtype.itemsize == 2 else case.dtype
    sums = (adds,) * 3 if isinstance(adds, bool) else adds
    dx = place.operand(np.full((3, 7, IN), 0 if sums[0] else np.nan, case.dtype), **LAYOUTS[layout])
    size = IN * CLASSES
    start = np.full(size + CLASSES, 0 if sums[1] else np.nan, kind)
    flat = place.operand(start, margins=((8, 8),))
    out = (dx.view, flat.view[:size].reshape((IN, CLASSES)), flat.view[size:])
    for _ in range(2):
        loss, gradients = case.run(chunk=5, out=out, accumulate=adds)
        assert all(one is other for one, other in zip(gradients, out, strict=True))
    case.verify(loss, gradients, [1 + each for each in sums])
    memory = place.get(flat.base)
    untouched = bits(np.asarray(sentinel(memory.dtype)))
    assert (bits(memory[:8]) == untouched).all() and (bits(memory[-8:]) == untouched).all()


def test_sums_over_chunks_are_not_rounded(place):
    """dw of many chunks in bfloat16 is that of float32 sums."""
    rng, half = np.random.default_rng(0), dtypes.dtype("bfloat16")
    rows = 64 if place.is_slow else 1024
    x = np.ones((rows, 2), half)
    w, target = np.zeros((2, 3), half), rng.integers(0, 3, rows)
    _, gradients = nn.linear_cross_entropy(*map(place.put, (x, w, target)), reduction="sum", chunk=rows // 64)
    counts = np.bincount(target, minlength=3)
    slope = np.float64(half.type(1 / 3))
    wanted = (rows - counts) * slope + counts * np.float64(half.type(1 / 3 - 1))
    np.testing.assert_allclose(place.get(gradients.dw), np.broadcast_to(wanted, (2, 3)), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_dloss_may_be_an_array(place, shape, reduction):
    case = Case(place, "float32", dloss=0.5, reduction=reduction)
    case.options["dloss"] = place.put(np.full(shape, 0.5, np.float32))
    case.verify(*case.run(chunk=4))


def test_empty(place):
    x, w, target = (place.put(each) for each in (np.ones((0, 3)), np.ones((3, 4)), np.ones(0, np.int64)))
    loss, (dx, dw, _) = nn.linear_cross_entropy(x, w, target, reduction="sum")
    assert float(place.get(loss)) == 0 and dx.shape == (0, 3)
    np.testing.assert_array_equal(place.get(dw), 0)
    assert np.isnan(place.get(nn.linear_cross_entropy(x, w, target)[0]))


def test_errors(place):
    case = Case(place, "float32")
    run = nn.linear_cross_entropy
    refused(ShapeError, "target has shape", run=lambda: run(case.x, case.w, case.target[0]))
    refused(ShapeError, "w has shape", run=lambda: run(case.x, case.w.T, case.target))
    refused(DTypeError, "target has dtype", run=lambda: run(case.x, case.w, case.x[..., 0]))
    refused(OptionError, "reduction", run=lambda: run(case.x, case.w, case.target, reduction="none"))
    for chunk in (0, -1, 2.0, "all", True):
        refused(OptionError, "chunk", run=lambda chunk=chunk: case.run(chunk=chunk))
    two = place.put(np.ones(2, np.float32))
    refused(ShapeError, "dloss has shape", run=lambda: nn.linear_cross_entropy(case.x, case.w, case.target, dloss=two))
    refused(OptionError, "gradients", run=lambda: case.run(gradients=1))
    refused(OptionError, "gradients=False", run=lambda: case.run(gradients=False, out=(None, None, None)))
    refused(OptionError, "3 entries", run=lambda: case.run(out=(None, None)))
    refused(ShapeError, "dw has shape", run=lambda: case.run(out=(None, case.w.T, None)))
    refused(LayoutError, "dw shares memory with w", run=lambda: case.run(out=(None, case.w, None)))
    refused(LayoutError, "dx shares memory with x", run=lambda: case.run(out=(case.x, None, None)))
    if not place.is_device:
        wrong = case.target.copy()
        wrong[1, 1] = CLASSES
        with pytest.raises(IndexRangeError):
            run(case.x, case.w, wrong)


@pytest.mark.gpu
def test_in_a_graph_and_on_another_stream():
    rng = np.random.default_rng(5)
    x, w = (numbacc.asarray(rng.standard_normal(s).astype("float32")) for s in ((64, 32), (32, 100)))
    target = numbacc.asarray(rng.integers(0, 100, 64))
    loss, gradients = nn.linear_cross_entropy(x, w, target, chunk=24)
    stream = numbacc.stream()
    other, others = nn.linear_cross_entropy(x, w, target, chunk=24, stream=stream)
    with numbacc.graph() as graph:
        captured, slopes = nn.linear_cross_entropy(x, w, target, chunk=24)
    for _ in range(2):
        graph.launch()
    for one, two in (
        (loss, other),
        (loss, captured),
        *zip(gradients[:2], others[:2], strict=True),
        *zip(gradients[:2], slopes[:2], strict=True),
    ):
        np.testing.assert_array_equal(numbacc.asnumpy(one), numbacc.asnumpy(two))


@pytest.mark.gpu
def test_there_are_never_all_logits():
    """Beyond its results, a call needs the memory of one chunk of logits."""
    rows, classes = 4096, 65536
    x, w = numbacc.zeros((rows, 64), "bfloat16"), numbacc.zeros((64, classes), "bfloat16")
    target, dw = numbacc.zeros((rows,), "int64"), numbacc.zeros((64, classes), "float32")
    for chunk in (1024, 512):
        dx = nn.linear_cross_entropy(x, w, target, out=(None, dw, None), chunk=chunk)[1].dx
        del dx
        numbacc.current_stream().synchronize()
        numbacc.peak_memory(reset=True)
        before = numbacc.peak_memory()
        result = nn.linear_cross_entropy(x, w, target, out=(None, dw, None), chunk=chunk)
        numbacc.current_stream().synchronize()
        grown = numbacc.peak_memory() - before
        logits = chunk * classes * 2
        assert logits <= grown < 1.2 * logits + rows * 64 * 2 + 2**24
        del result
