"""The array API's names on device arrays: each gives what NumPy's function of that name does."""

from __future__ import annotations

import numpy as np
import pytest
from array_api_standard import STANDARD, misfits
from conftest import refused
from in_one import in_one
from paths import ROOT
from skips import needed

import numbacc
from numbacc import array_api as xp

HOST = np.array([[0.5, -0.25, 0.75], [1.0, 0.125, -0.5]])
UNARY = [
    "abs", "acos", "asin", "asinh", "atan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "isfinite", "isinf",
    "isnan", "log1p", "negative", "positive", "reciprocal", "round", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh", "trunc", "all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var", "conj",
    "real", "imag", "logical_not", "matrix_transpose", "flip", "ones_like", "zeros_like",
]  # fmt: skip
BINARY = [
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less",
    "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
    "nextafter", "not_equal", "pow", "remainder", "subtract",
]  # fmt: skip


def same(place, found, wanted):
    found = place.get(found)
    assert found.shape == np.shape(wanted) and found.dtype == np.asarray(wanted).dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("name", UNARY)
def test_of_one_array(place, name):
    with np.errstate(all="ignore"):
        same(place, getattr(xp, name)(place.put(HOST)), getattr(np, name)(HOST))


@pytest.mark.parametrize("name", BINARY)
def test_of_two_arrays(place, name):
    other = np.roll(HOST, 1)
    with np.errstate(all="ignore"):
        same(place, getattr(xp, name)(place.put(HOST), place.put(other)), getattr(np, name)(HOST, other))


def test_bits(place):
    x, y = np.array([12, -7]), np.array([2, 1])
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"):
        same(place, getattr(xp, name)(place.put(x), place.put(y)), getattr(np, name)(x, y))
    same(place, xp.bitwise_invert(place.put(x)), ~x)


def test_shapes(place):
    if not place.is_device:
        return  # views of NumPy's arrays are NumPy's own
    x = place.put(HOST)
    same(place, xp.permute_dims(x, (1, 0)), HOST.T)
    same(place, xp.reshape(x.T, (2, 3)), HOST.T.reshape(2, 3))
    same(place, xp.reshape(x, (6,), copy=True), HOST.reshape(6))
    refused(numbacc.LayoutError, "copy", run=lambda: xp.reshape(x.T, (2, 3), copy=False))
    same(place, xp.expand_dims(x, axis=1), HOST[:, None])
    same(place, xp.squeeze(x[:1], 0), HOST[0])
    same(place, xp.moveaxis(x, 0, 1), HOST.T)
    same(place, xp.broadcast_to(x[0], (2, 3)), np.broadcast_to(HOST[0], (2, 3)))
    same(place, xp.flip(x, axis=-1), HOST[:, ::-1])
    same(place, xp.concat([x, x], axis=1), np.concatenate([HOST, HOST], 1))
    same(place, xp.stack([x, x]), np.stack([HOST, HOST]))


def test_products_and_choices(place):
    x = place.put(HOST)
    np.testing.assert_allclose(place.get(xp.matmul(x, place.put(np.ascontiguousarray(HOST.T)))), HOST @ HOST.T)
    same(place, xp.where(place.put(HOST > 0), x, 0.0), np.where(HOST > 0, HOST, 0.0))
    same(place, xp.clip(x, 0.0, 0.5), np.clip(HOST, 0.0, 0.5))
    same(place, xp.clip(x, None, 0.5), np.minimum(HOST, 0.5))
    assert xp.clip(x) is not x
    same(place, xp.clip(x), HOST)


def test_making_arrays(place):
    device = None if place.is_device else "cpu"
    assert place.get(xp.ones((2,), dtype=xp.int8, device=device)).tolist() == [1, 1]
    for value, dtype in ((True, xp.bool), (3, xp.int64), (1.5, xp.float32), (1j, xp.complex64)):
        assert xp.full((2,), value, device=device).dtype == dtype
    assert xp.empty((2, 3), device=device).dtype == xp.zeros(2, device=device).dtype == xp.float32
    x = place.put(HOST)
    assert place.get(xp.full_like(x, 7, dtype=xp.int16)).tolist() == [[7] * 3] * 2
    if place.is_device:
        assert xp.asarray(x) is x and xp.asarray(x, copy=True) is not x
        assert xp.asarray(x, dtype=xp.float32).dtype == xp.float32
        refused(numbacc.DTypeError, "copy=False", run=lambda: xp.asarray(x, dtype=xp.float32, copy=False))
        refused(numbacc.LayoutError, "copy=False", run=lambda: xp.asarray([1.0], copy=False))


def test_dtypes(place):
    x = place.put(HOST)
    assert xp.astype(x, xp.float32).dtype == xp.float32 == xp.result_type(xp.float32, 1.0)
    assert xp.result_type(x, xp.complex64) == xp.complex128
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(x, xp.float32)
    assert xp.finfo(x).bits == 64 and xp.iinfo(xp.int8).max == 127
    assert xp.isdtype(xp.float32, "real floating") and not xp.isdtype(xp.int8, ("bool", "complex floating"))
    assert float(xp.pi) == np.pi and xp.newaxis is None and xp.isnan(place.put(np.array([xp.nan]))).all()


def test_arrays_find_it(device_place):
    x = device_place.put(HOST)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2024.12") is xp
    refused(numbacc.OptionError, "api_version", run=lambda: x.__array_namespace__(api_version="2030.1"))


def test_array_api_compat_finds_it(device_place):
    """What libraries that take anybody's arrays ask, as scikit-learn and SciPy do."""
    compat = needed("array_api_compat", "array api")
    x = device_place.put(HOST)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x * 2, 1.0, api_version="2024.12") is xp
    with pytest.raises(TypeError, match="Multiple namespaces"):
        compat.array_namespace(x, HOST)


#: What the docs call sorting and sets.
SORTING = {"sort", "argsort", "unique_all", "unique_counts", "unique_inverse", "unique_values"}


def test_what_is_missing_is_in_the_docs():
    text = (ROOT / "docs" / "elementwise.md").read_text().split("It\nlacks ")[1].split("The default dtypes")[0]
    missing = {name for name in STANDARD if not hasattr(xp, name)}
    # Arguments of some kinds are missing of `repeat`.
    assert missing - SORTING == {name for name in STANDARD if f"`{name}`" in text} - {"repeat"}
    assert missing >= SORTING and "sorting and sets" in text
    for name in ("fft", "linalg"):
        assert not hasattr(xp, name) and f"`{name}`" in text


@in_one("name", [name for name in STANDARD if hasattr(xp, name)])
def test_calls_of_the_standard_fit(name):
    assert misfits(name, getattr(xp, name)) == []


def test_a_function_that_does_not_fit_is_seen():
    assert misfits("sum", lambda x, /, *, axis=None, dtype=None: None) == ["keepdims=False"]
    assert misfits("flip", lambda x, /, y, *, axis=0: None) == ["axis=None", "y"]
    assert misfits("expand_dims", lambda x, /, *, axis=0: None) == ["axis"]


def test_what_the_docs_say_is_otherwise(place):
    """The docs' list of where the standard does not hold, tried."""
    refused(numbacc.UnsupportedError, "repeats", run=lambda: xp.repeat(place.put(HOST), place.put(np.array([1, 2]))))
    infinite = place.put(np.array([np.inf, 1.0]))
    assert np.isnan(place.get(xp.floor_divide(infinite, 2.0))[0])
    assert place.get(xp.floor_divide(1.0, -infinite))[0] == -1
    if place.is_device:
        for index in (infinite > 0, place.put(np.array([0, 1]))):
            refused(numbacc.LayoutError, "index", run=lambda index=index: infinite[index])
        assert isinstance(infinite[0], np.float64) and infinite[0, ...].shape == ()
        assert type(infinite.device) is int


def test_other_devices_and_copies(place):
    """`device` and `copy` are not passed over in silence."""
    x = place.put(HOST)
    where = x.device if place.is_device else "cpu"
    for function in (lambda **more: xp.asarray(x, **more), lambda **more: xp.from_dlpack(x, **more)):
        assert function(device=where) is x and function(copy=False) is x
        copied = function(copy=True)
        assert copied is not x
        copied[...] = 0.0
        np.testing.assert_array_equal(place.get(x), HOST)
        assert type(function(device="cpu")) is np.ndarray
        if place.is_device:
            refused(numbacc.LayoutError, "copy=False", run=lambda: function(device="cpu", copy=False))  # noqa: B023
    moved = xp.astype(x, xp.float32, device="cpu")
    assert type(moved) is np.ndarray and moved.dtype == np.float32
    refused(numbacc.LayoutError, "copy=False", run=lambda: xp.asarray([1.0], copy=False))
    if not place.is_device:
        refused(numbacc.LayoutError, "copy=False", run=lambda: xp.asarray(x, dtype=xp.float32, copy=False))


def test_views_of_any_place(place):
    x, one = place.put(HOST), place.put(np.array(2.5))
    same(place, xp.broadcast_to(x, (2, 2, 3)), np.broadcast_to(HOST, (2, 2, 3)))
    same(place, xp.expand_dims(x, 1), HOST[:, None])
    same(place, xp.flip(one), np.array(2.5))
    assert isinstance(xp.flip(one), type(one))
    same(place, xp.signbit(x), np.signbit(HOST))
    same(place, xp.reshape(x.T, (6,)), HOST.T.reshape(6))
    refused(numbacc.LayoutError, run=lambda: xp.reshape(x.T, (6,), copy=False))
    refused(numbacc.ShapeError, run=lambda: xp.reshape(x, (5,)))


def test_what_it_says_of_itself(place):
    info = xp.__array_namespace_info__()
    found = info.default_dtypes()
    for kind, number in (("real floating", 0.5), ("complex floating", 1j), ("integral", 1), ("indexing", [1, 2])):
        assert xp.asarray(number).dtype == found[kind]
    assert xp.asarray([[1.5], [2]]).dtype == xp.float32 and xp.asarray([True]).dtype == xp.bool
    assert xp.asarray(np.array([0.5])).dtype == xp.asarray([np.float64(0.5)]).dtype == xp.float64
    assert info.dtypes(kind=("bool", "real floating")).keys() == {"bool", "float32", "float64"}
    assert len(info.dtypes()) == 13 and all(getattr(xp, name) == dtype for name, dtype in info.dtypes().items())
    refused(numbacc.OptionError, "kind", run=lambda: info.dtypes(kind="small"))
    assert info.capabilities()["boolean indexing"] is False and info.capabilities()["max dimensions"] == 8
    if place.is_device:
        x = place.put(HOST)
        assert x.device == info.default_device() and x.device in info.devices()
    limits = xp.finfo(xp.complex64)
    assert (limits.bits, limits.dtype) == (32, xp.float32) and type(limits.eps) is float and limits.eps == 2**-23


def test_rolled_repeated_and_tiled(place):
    x = place.put(np.stack([HOST, -HOST]))
    host = place.get(x)
    for shift, axis in ((1, None), (-7, None), (2, 1), (-1, -1), ((1, 4), (0, 2)), (0, 0)):
        same(place, xp.roll(x, shift, axis=axis), np.roll(host, shift, axis))
    for counts in ((2,), (2, 1, 3), (2, 1, 1, 2), (0, 1)):
        same(place, xp.tile(x, counts), np.tile(host, counts))
    for times, axis in ((2, None), (3, 1), (0, -1)):
        same(place, xp.repeat(x, times, axis=axis), np.repeat(host, times, axis))
    refused(numbacc.ShapeError, "one shift for each axis", run=lambda: xp.roll(x, (1, 2), axis=0))
    refused(numbacc.OptionError, "repeats", run=lambda: xp.repeat(x, -1))
    refused(numbacc.UnsupportedError, "repeats", run=lambda: xp.repeat(x, place.put(np.array([1, 2]))))
    refused(numbacc.ShapeError, "out of range", run=lambda: xp.repeat(x, 2, axis=3))


def test_products_along_axes(place):
    x, y = HOST + 1j * HOST[::-1], np.stack([HOST, HOST + 1])
    same(place, xp.vecdot(place.put(x), place.put(x[:, ::-1])), (x.conj() * x[:, ::-1]).sum(-1))
    same(place, xp.vecdot(place.put(HOST), place.put(y), axis=-2), (HOST * y).sum(-2))
    whole = np.array([[1, 2], [3, 4]], np.int8)
    same(place, xp.vecdot(place.put(whole), place.put(whole)), np.array([5, 25], np.int8))
    refused(numbacc.ShapeError, "axis", run=lambda: xp.vecdot(place.put(HOST), place.put(y), axis=0))
    refused(numbacc.ShapeError, "elements", run=lambda: xp.vecdot(place.put(HOST), place.put(HOST.T)))
    both = ((1, 0), (2, 1))
    for one, other, axes in ((HOST.T, y[0], 1), (HOST, y, 0), (y, HOST, 2), (HOST, y, ((0,), (1,))), (HOST, y, both)):
        same(place, xp.tensordot(place.put(one), place.put(other), axes=axes), np.tensordot(one, other, axes))
    refused(numbacc.ShapeError, "differ", run=lambda: xp.tensordot(place.put(HOST), place.put(y), axes=1))


def test_axes_and_shapes_of_several(place):
    x, y = place.put(np.arange(24.0).reshape(2, 3, 4)), place.put(np.arange(3.0)[:, None])
    for one, other in ((0, -1), ((0, 2), (1, 0)), ((-1,), (0,))):
        same(place, xp.moveaxis(x, one, other), np.moveaxis(place.get(x), one, other))
    refused(numbacc.ShapeError, "the same number", run=lambda: xp.moveaxis(x, (0, 1), 0))
    for found, wanted in zip(xp.broadcast_arrays(x, y), np.broadcast_arrays(place.get(x), place.get(y)), strict=True):
        same(place, found, wanted)
    for kind in ("real floating", "numeric", ("bool", "numeric"), numbacc.bfloat16):
        assert xp.isdtype(np.dtype(numbacc.bfloat16), kind)
    assert not xp.isdtype(np.dtype(numbacc.bfloat16), ("bool", "integral", xp.float32))


def test_what_arrays_have(place):
    """The standard's attributes and methods beside operators."""
    x = place.put(np.stack([HOST, -HOST]))
    same(place, x.mT, np.stack([HOST.T, -HOST.T]))
    assert x.to_device(x.device) is x and x.size == 12 and x.ndim == 3
    moved = x.to_device("cpu")
    assert type(moved) is np.ndarray and moved.tolist() == place.get(x).tolist()
    if place.is_device:
        refused(numbacc.ShapeError, "rank 1", "mT", run=lambda: x[0, 0].mT)
        refused(numbacc.DeviceError, "nowhere", run=lambda: x.to_device("nowhere"))


def test_grids_gathers_and_differences(place):
    x, line, names = place.put(HOST), place.put(HOST[0]), place.put(np.array([1, -1]))
    same(place, xp.take(x, names, axis=1), HOST[:, [1, -1]])
    along = np.array([[0, 2, 1], [1, 1, 0]])
    same(place, xp.take_along_axis(x, place.put(along), axis=1), np.take_along_axis(HOST, along, 1))
    for name in ("tril", "triu"):
        same(place, getattr(xp, name)(x, k=1), getattr(np, name)(HOST, 1))
    for indexing in ("xy", "ij"):
        for found, wanted in zip(
            xp.meshgrid(line, x[:, 0], indexing=indexing),
            np.meshgrid(HOST[0], HOST[:, 0], indexing=indexing),
            strict=True,
        ):
            same(place, found, wanted)
    same(place, xp.diff(x, axis=0), np.diff(HOST, axis=0))
    same(place, xp.diff(x, n=2), np.diff(HOST, n=2))
    same(place, xp.diff(x, append=x[:, :1]), np.diff(HOST, append=HOST[:, :1]))
    same(place, xp.count_nonzero(x, axis=1), np.array([3, 3]))
    assert [place.get(each).tolist() for each in xp.unstack(x, axis=1)] == HOST.T.tolist()
    device = None if place.is_device else "cpu"
    assert xp.eye(2, device=device).dtype == np.float32 and xp.arange(3, device=device).dtype == np.int64
    same(place, xp.linspace(0, 1, 3, dtype=xp.float64, device=device), np.linspace(0, 1, 3))
    refused(numbacc.OptionError, "indexing", run=lambda: xp.meshgrid(line, indexing="yx"))
