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
    x.std(ddof=1) | x.var(0, ddof=1) | x.var(axis=1, ddof=0.5, keepdims=True) | f.var(1, None, None, 1)
    i.std(ddof=1) | np.var(x, ddof=1) | np.std(x, 0, None, None, 1, True) | np.var(x, correction=1)
    np.var(f, 0, np.float64) | f.var(dtype="float64") | x.var(dtype="float32", axis=1) | h.std(dtype=np.float32)
    h.var(dtype="float64") | i.var(dtype="float32") | b.std(dtype="float32") | z.var() | z.std(ddof=1)
    np.std(u, dtype="float32", ddof=1) | x.std(ddof=6) | x[0, 0, ...].var(ddof=1)
"""
PLACES = """
    x.sum(0, "float32") | x.sum(0, None, None) | x.sum(1, None, None, True) | x.prod(1, "float32")
    f.mean(0, "float64") | x.mean(0, None, None, True) | x.max(0, None, True) | x.min(1, None) | x.argmax(0, None)
    i.max(0, None, True) | np.all(b, 1, None) | x.cumsum(0, "float32") | x.cumprod(1, None)
    np.sum(x, 0, "float32") | np.sum(x, 0, None, None, True) | np.prod(x, 0, "float32") | np.mean(f, 1, "float64")
    np.max(x, 0, None, True) | np.argmax(x, 0, None) | np.argmin(x, 1, keepdims=True) | np.any(x, 0, None, True)
    np.cumsum(x, 0, "float32") | np.cumprod(x, 1, None) | np.min(x, (0, 1), None, True) | np.clip(x, 0, 2, None)
    np.round(x, 0, None) | np.tril(x, -1) | x.sum(initial=0) | x.prod(initial=1.0) | i.sum(initial=0.0)
    np.sum(x, where=True) | x.mean(where=True) | np.add.reduce(x) | np.add.reduce(x, 1, None)
    np.add.reduce(x, axis=(0, 1), keepdims=True) | np.add.accumulate(x, 1) | np.add.reduce(x, initial=0)
    np.multiply.reduce(f, 1, np.float64)
"""
DTYPES = """
    b.sum() | b.sum(0) | b.mean() | b.prod(1) | b.max() | b.cumsum() | b.any(0) | b.argmax(1) | b.sum(dtype="int32")
    u.sum() | u.mean(1) | u.prod() | u.sum(dtype="uint8") | i.sum() | i.mean(dtype="float32") | i.cumsum(1)
    i.std() | i.sum(dtype="float64") | h.sum() | h.mean(dtype="float32") | z.sum(0) | z.mean()
    f.sum(dtype="complex64")
"""
EDGES = """
    x[:0].sum() | x[:0].sum(0) | x[:0].prod(1) | x[:0].any() | x[:0].all(0) | x[:, :0].sum(axis=(0, -1))
    x[:0].max(1) | x[:0].argmax(1) | x[:0].cumsum(0) | x[:0].cumsum() | x[:0].sum(1, keepdims=True)
    x[:, :0].min(0) | x[0, 0, ...].sum() | x[0, 0, ...].max(keepdims=True) | x[0, 0, ...].argmax()
    x[0, 0, ...].any() | x[0, 0, ...].cumsum() | x[0, 0, ...].mean(axis=()) | x.sum(axis=()) | x.max(axis=(-1, 0))
    x.sum(-2) | x.std(axis=(0, -1))
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
    plan = function.plan(f, axis=1, dtype="float64", correction=1)
    np.testing.assert_allclose(place.get(plan(f)), getattr(HOST["f"].astype(float), name)(1, ddof=1), rtol=1e-14)
    for dtype in ("int32", "bool", "complex64"):
        refused(numbacc.DTypeError, f"dtype={dtype}", name, run=lambda dtype=dtype: function(f, dtype=dtype))
    refused(numbacc.DTypeError, "dtype=", "complex x", run=lambda: function(place.put(HOST["z"]), dtype="float32"))


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


# ---------------------------------------------------------------- other methods, and functions that are made of others

METHODS = """
    x.round() | x.round(1) | np.round(x / 7, 2) | np.round(x * 50, -1) | np.around(f / 3, decimals=3) | i.round(2)
    h.round(1) | x.flatten() | x.T.flatten() | x.T.flatten("F") | x[:, ::-2].flatten() | x[0, 0, ...].flatten()
    x.conjugate() | z.conjugate() | x.swapaxes(0, -1) | x[None].swapaxes(0, 2) | x.repeat(2) | x.repeat(2, 1)
    x.repeat(3, axis=0) | x.dot(x.T) | x.dot(2) | x.take([0, 1]) | x.take(-1, axis=0)
    x.T.take([[0, 1], [1, -1]], 1) | x.take([2], 1) | x.diagonal() | x.diagonal(1) | x.T.diagonal(-1)
    x.diagonal(5) | x[None].diagonal(0, 1, 2) | x.trace() | i.trace(-1) | x.trace(dtype="float32") | x.item(1)
    x.item(-1) | x.item(0, 2) | x.item((1, 1)) | x[0].item(2) | x[:1, :1].item() | x.itemsize | x.nbytes | x.size
    x.T | x[None].squeeze() | x.view() | x.view("int64") | x.clip(0, 2, None) | x.copy("C")
    x.astype("float32", "K") | x.astype(np.float32, casting="same_kind", copy=False)
    x.astype("int8", "K", "unsafe", True, True)
"""
FUNCTIONS = """
    np.take(x, 1) | np.take(x, -1, 0) | np.take(x, [0, 1]) | np.take(x, [0, -1], 1)
    np.take(x, ((0, 1), (1, 0)), axis=1) | np.take(x, np.int64(1), 0)
    np.take(a=x, indices=[1], axis=0, mode="raise") | np.vecdot(x, x) | np.vecdot(z, z, axis=0)
    np.linalg.vector_norm(x) | np.linalg.vector_norm(x, axis=0, keepdims=True, ord=1) | np.linalg.matrix_norm(x)
    np.linalg.matrix_norm(x[None], keepdims=True) | np.expand_dims(x, (0, 2)) | np.expand_dims(x, [-1, 0])
    np.size(x, 1) | np.diag(x) | np.diag(x, -1) | np.diag(x[0], 1) | np.diag(i[1], -2) | np.diagonal(x, 1)
    np.trace(x) | np.linalg.trace(x) | np.linalg.diagonal(x, offset=1) | np.append(x, x) | np.append(x, x.T)
    np.append(x, x, 0) | np.array_equiv(x, x[:1]) | np.array_equiv(x, x) | np.array_equiv(x, x[:, :2])
    np.can_cast(x.dtype, "float32") | np.isposinf(x / 0) | np.isneginf(x / 0) | np.isreal(z) | np.iscomplex(z)
    np.isreal(x) | np.iscomplex(i) | np.fix(x) | np.dsplit(x[None], 3) | np.permute_dims(x, (1, 0))
"""
UFUNCS = """
    np.degrees(x) | np.rad2deg(f) | np.radians(x) | np.deg2rad(i) | np.degrees(u) | np.fabs(i) | np.fabs(b)
    np.rint(u) | np.rint(i) | np.signbit(x) | np.signbit(-x * 0) | np.signbit(i) | np.signbit(u)
    np.heaviside(x, 0.5) | np.heaviside(i, u) | np.heaviside(x * 0, f) | np.heaviside(x * np.nan, 1) | np.modf(x)
    np.modf(x / 0) | np.modf(i) | np.float_power(f, 2) | np.float_power(i, -1) | np.float_power(2, u)
    np.reciprocal(z)
"""


@pytest.mark.parametrize("lines", [METHODS, FUNCTIONS, UFUNCS], ids=["methods", "functions", "ufuncs"])
def test_what_is_made_of_others(place, lines):
    check_lines(place, lines)


def test_products_of_ufuncs(place):
    x, f = place.put(FLOATS), place.put(HOST["f"])
    for name, arrays in (("matvec", (x, x[0])), ("vecmat", (x[0], x.T)), ("matvec", (f[None], f)), ("vecdot", (f, f))):
        ufunc = getattr(np, name, None)
        if ufunc is not None:
            wanted = ufunc(*map(place.get, arrays))
            np.testing.assert_allclose(place.get(ufunc(*arrays)), wanted, rtol=1e-6)


def test_writing(place):
    """Into arrays that are there, and by views."""
    x, out = place.put(FLOATS), place.put(np.zeros((2, 3)))
    x.fill(7)
    assert place.get(x).tolist() == [[7.0] * 3] * 2
    np.copyto(x, 1.5, where=place.put(HOST["b"]))
    np.testing.assert_array_equal(place.get(x), np.where(HOST["b"], 1.5, 7))
    np.copyto(x, place.put(FLOATS))
    np.testing.assert_array_equal(place.get(x), FLOATS)
    assert np.degrees(x, out=out) is out
    np.testing.assert_allclose(place.get(out), np.degrees(FLOATS), rtol=1e-15)
    for run in (lambda: x.round(1, out), lambda: np.round(x, 1, out), lambda: np.heaviside(x, 1, out=out)):
        assert run() is out
    assert x.copy("C").strides == x.T.copy("C").T.copy("C").strides == (24, 8)


def test_copies_are_copies(place):
    x = place.put(FLOATS)
    for copied in (x.flatten(), x.take([0, 1]), x.take([1], 0), np.take(x, [1]), x.copy("C")):
        copied[...] = -1
    np.testing.assert_array_equal(place.get(x), FLOATS)
    x.ravel()[0] = 9
    assert place.get(x)[0, 0] == 9


def test_axes_that_are_not_there(place):
    """NumPy's error, which is a ValueError and an IndexError, of arrays of any rank."""
    x, one = place.put(FLOATS), place.put(FLOATS)[0, 0, ...]
    for run in (lambda: x.sum(axis=2), lambda: x.mean(-3), lambda: np.max(x, axis=2), lambda: one.mean(axis=0),
                lambda: one.std(axis=-1), lambda: one.sum(axis=1), lambda: x.swapaxes(0, 2),
                lambda: np.expand_dims(x, 5), lambda: ew.sum(x, axis=2), lambda: ew.sum(one, axis=0)):  # fmt: skip
        with pytest.raises(np.exceptions.AxisError):
            run()
    refused(numbacc.errors.AxisError, "axis=0", "rank 0: it has no axes", run=lambda: ew.sum(one, axis=0))
    for run in (lambda: x.sum(axis=(0, 0)), lambda: x.sum(axis=(0, -2)), lambda: np.expand_dims(x, (0, 0))):
        with pytest.raises(ValueError, match=r"twice|duplicate|repeated"):
            run()


def test_what_methods_refuse(device_place):
    x = device_place.put(FLOATS)
    with pytest.raises(AttributeError, match=r"'tolist'; write numbacc.asnumpy\(x\)"):
        x.tolist()
    assert not hasattr(x, "argsort") and not hasattr(x, "nothing")
    refused(numbacc.errors.IndexRangeError, "indices=[3]", run=lambda: x.take([3], 1))
    refused(numbacc.errors.IndexRangeError, "index 6", "6 elements", run=lambda: x.item(6))
    refused(numbacc.ShapeError, "one element", run=lambda: x.item())
    refused(numbacc.DTypeError, "are not integers", run=lambda: x.take([0.5]))
    refused(numbacc.DeviceError, run=lambda: x.take(np.array([0])))
    refused(numbacc.DTypeError, "decimals=-1", run=lambda: x.astype("int32").round(-1))
    refused(numbacc.DTypeError, "cannot cast float64 to int32", run=lambda: x.astype("int32", casting="safe"))
    for run in (lambda: x.copy("F"), lambda: x.flatten("K"), lambda: x.astype("float32", "C")):
        refused(numbacc.OptionError, "order=", run=run)
    refused(numbacc.OptionError, "out=", "gemm.matmul", run=lambda: x.dot(x.T, x))
    refused(numbacc.OptionError, "ord=2", run=lambda: np.linalg.matrix_norm(x, ord=2))
    refused(numbacc.ShapeError, "same axis", run=lambda: x.diagonal(0, 1, 1))
    refused(numbacc.DTypeError, "fabs", run=lambda: np.fabs(device_place.put(HOST["z"])))
    refused(numbacc.LayoutError, "array_api.reshape", "flatten", run=lambda: x.T.reshape(-1))
