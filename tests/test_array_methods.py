"""Methods of arrays, and NumPy's functions of them, as programs for NumPy call them: the same lines on every array."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused

import numbacc
from numbacc import elementwise as ew

FLOATS = np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]])
WHOLE = np.array([[3, 1, 2], [5, -4, 0]], np.int32)
# NumPy's, of variances of too few numbers.
pytestmark = pytest.mark.filterwarnings("ignore:Degrees of freedom")

#: By names that lines below call them by.
HOST = {
    "x": FLOATS, "f": FLOATS.astype(np.float32), "h": FLOATS.astype(np.float16), "i": WHOLE,
    "u": np.abs(WHOLE).astype(np.uint8), "b": WHOLE > 1, "z": FLOATS + 1j * FLOATS[::-1],
}  # fmt: skip


def answer(line, arrays):
    """What a line gives: values, dtypes and shapes of arrays, and whatever is none."""
    return shown_as(eval(line, {"np": np, **arrays}))


def shown_as(found):
    if isinstance(found, (tuple, list)):
        return [shown_as(each) for each in found]
    if hasattr(found, "_numbacc_layout"):
        return numbacc.asnumpy(found)
    return np.asarray(found) if isinstance(found, (np.ndarray, np.generic)) else found


def assert_same(found, wanted, line):
    if isinstance(wanted, list):
        assert len(found) == len(wanted), line
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other, line)
    elif isinstance(wanted, np.ndarray):
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), line
        rtol = {"f": 8, "c": 8}.get(wanted.dtype.kind, 0) * (
            float(np.finfo(wanted.dtype).eps) if wanted.dtype.kind in "fc" else 0
        )
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol, err_msg=line)
    else:
        assert type(found) is type(wanted) and found == wanted, line


def check_lines(place, lines):
    """Each line (several in one, apart by "|") gives of arrays here what it gives of NumPy's."""
    with np.errstate(all="ignore"):
        for line in lines.replace("\n", "|").split("|"):
            if line.strip():
                here = {name: place.put(each) for name, each in HOST.items()}
                wanted = answer(line.strip(), {name: each.copy() for name, each in HOST.items()})
                assert_same(answer(line.strip(), here), wanted, line)


# ---------------------------------------------------------------- reductions

SPREADS = """
    x.std(ddof=1) | x.var(0, ddof=1) | x.var(axis=1, ddof=0.5, keepdims=True) | f.var(1, None, None, 1) | i.std(ddof=1)
    np.var(x, ddof=1) | np.std(x, 0, None, None, 1, True) | np.var(x, correction=1) | np.var(f, 0, np.float64)
    f.var(dtype="float64") | x.var(dtype="float32", axis=1) | h.std(dtype=np.float32) | h.var(dtype="float64")
    i.var(dtype="float32") | b.std(dtype="float32") | z.var() | z.std(ddof=1) | np.std(u, dtype="float32", ddof=1)
    x.std(ddof=6) | x[0, 0, ...].var(ddof=1)
"""
PLACES = """
    x.sum(0, "float32") | x.sum(0, None, None) | x.sum(1, None, None, True) | x.prod(1, "float32")
    f.mean(0, "float64") | x.mean(0, None, None, True)
    x.max(0, None, True) | x.min(1, None) | x.argmax(0, None) | i.max(0, None, True)
    np.all(b, 1, None) | x.cumsum(0, "float32") | x.cumprod(1, None) | np.sum(x, 0, "float32")
    np.sum(x, 0, None, None, True)
    np.prod(x, 0, "float32") | np.mean(f, 1, "float64") | np.max(x, 0, None, True) | np.argmax(x, 0, None)
    np.argmin(x, 1, keepdims=True) | np.any(x, 0, None, True) | np.cumsum(x, 0, "float32") | np.cumprod(x, 1, None)
    np.min(x, (0, 1), None, True) | np.clip(x, 0, 2, None) | np.round(x, 0, None) | np.tril(x, -1)
    x.sum(initial=0) | x.prod(initial=1.0) | i.sum(initial=0.0) | np.sum(x, where=True) | x.mean(where=True)
    np.add.reduce(x) | np.add.reduce(x, 1, None) | np.add.reduce(x, axis=(0, 1), keepdims=True)
    np.add.accumulate(x, 1)
    np.add.reduce(x, initial=0) | np.multiply.reduce(f, 1, np.float64)
"""
DTYPES = """
    b.sum() | b.sum(0) | b.mean() | b.prod(1) | b.max() | b.cumsum() | b.any(0) | b.argmax(1) | b.sum(dtype="int32")
    u.sum() | u.mean(1) | u.prod() | u.sum(dtype="uint8") | i.sum() | i.mean(dtype="float32") | i.cumsum(1) | i.std()
    i.sum(dtype="float64") | h.sum() | h.mean(dtype="float32") | z.sum(0) | z.mean() | f.sum(dtype="complex64")
"""
EDGES = """
    x[:0].sum() | x[:0].sum(0) | x[:0].prod(1) | x[:0].any() | x[:0].all(0) | x[:, :0].sum(axis=(0, -1))
    x[:0].max(1) | x[:0].argmax(1) | x[:0].cumsum(0) | x[:0].cumsum() | x[:0].sum(1, keepdims=True) | x[:, :0].min(0)
    x[0, 0, ...].sum() | x[0, 0, ...].max(keepdims=True) | x[0, 0, ...].argmax() | x[0, 0, ...].any()
    x[0, 0, ...].cumsum() | x[0, 0, ...].mean(axis=()) | x.sum(axis=()) | x.max(axis=(-1, 0)) | x.sum(-2)
    x.std(axis=(0, -1))
"""


@pytest.mark.parametrize("lines", [SPREADS, PLACES, DTYPES, EDGES], ids=["spreads", "places", "dtypes", "edges"])
def test_reductions_as_numpy_calls_them(place, lines):
    check_lines(place, lines)


def test_results_by_place(place):
    """NumPy's third argument is where the result goes."""
    for line in ("x.sum(0, None, out)", "np.mean(x, 0, None, out)", "x.max(0, out)", "np.min(x, 0, out)",
                 "x.std(0, None, out, 1)", "np.add.reduce(x, 0, None, out)", "x.mean(0, out=out)"):  # fmt: skip
        out, wanted = place.put(np.zeros(3)), np.zeros(3)
        found = eval(line, {"np": np, "x": place.put(FLOATS), "out": out})
        eval(line, {"np": np, "x": FLOATS, "out": wanted})
        assert found is out
        np.testing.assert_allclose(place.get(out), wanted, rtol=1e-15)


@pytest.mark.parametrize("name", ["var", "std"])
def test_dtypes_of_spreads(place, name):
    """The functions' own option, and what they refuse; a plan for each dtype."""
    function, f = getattr(ew, name), place.put(HOST["f"])
    assert function(f).dtype == np.float32 and function(f, dtype="float64", axis=0).dtype == np.float64
    far = place.put(np.array([1e8, 1e8 + 8, 1e8 + 16], np.float32))
    np.testing.assert_allclose(place.get(function(far, dtype="float64")), getattr(np, name)([0.0, 8, 16]), rtol=1e-15)
    plan = getattr(ew, f"{name}_plan")(f, axis=1, dtype="float64", correction=1)
    np.testing.assert_allclose(place.get(plan(f)), getattr(HOST["f"].astype(float), name)(1, ddof=1), rtol=1e-14)
    for dtype in ("int32", "bool", "complex64"):
        refused(numbacc.DTypeError, f"dtype={dtype}", name, run=lambda dtype=dtype: function(f, dtype=dtype))
    refused(numbacc.DTypeError, "dtype=", "x is complex", run=lambda: function(place.put(HOST["z"]), dtype="float32"))


def test_refused_reductions(device_place):
    """What only NumPy takes: by errors that say what to do."""
    x = device_place.put(FLOATS)
    for run in (lambda: x.sum(where=x > 0), lambda: np.sum(x, where=x > 0), lambda: np.add.reduce(x, where=x > 0)):
        refused(numbacc.DTypeError, "where=", "elementwise.where", run=run)
    for run in (lambda: x.max(initial=3), lambda: np.sum(x, initial=1), lambda: x.sum(0, None, None, True, 2)):
        refused(numbacc.DTypeError, "initial=", "maximum", run=run)
    refused(numbacc.OptionError, "ddof", "correction", run=lambda: np.var(x, ddof=1, correction=2))
    refused(numbacc.DTypeError, "axis is given twice", run=lambda: x.sum(0, axis=0))
    refused(numbacc.DTypeError, "too many", run=lambda: x.argmax(0, None, True))
    refused(numbacc.DTypeError, "mean=", run=lambda: x.std(mean=1.0))
