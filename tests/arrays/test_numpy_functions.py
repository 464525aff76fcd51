"""NumPy's functions of device arrays: computed where these are, or refused; nothing is copied to the host."""

# ruff: noqa: B023, E501
from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special
from in_one import in_one
from operator_cases import VALUES, numpys, same

import numbacc
from numbacc import elementwise as ew
from numbacc.arrays import protocols
from numbacc.base.dispatch import runtime
from numbacc.errors import DTypeError, ShapeError


@pytest.fixture
def no_copies(device_place, monkeypatch):
    """Copies to the host fail. Switched on by a call, off by the next, which gives what is to be read."""
    state, copy = {"on": False}, runtime().copy_to_host

    def watched(*arguments, **options):
        assert not state["on"], "a copy to the host"
        return copy(*arguments, **options)

    monkeypatch.setattr(runtime(), "copy_to_host", watched)

    def switched(run):
        state["on"] = True
        try:
            return run()
        finally:
            state["on"] = False

    return switched


#: Every ufunc of NumPy's that numbacc has, under whichever name.
UFUNCS = {
    name: each
    for name, each in vars(np).items()
    if isinstance(each, np.ufunc)
    and each.nout == 1
    and each.nin < 3
    and hasattr(ew, protocols.UFUNCS.get(each.__name__, each.__name__))
}


def test_all_that_have_a_namesake_are_found():
    assert len(UFUNCS) > 70
    for name in ("exp", "arctan2", "hypot", "left_shift", "absolute", "power", "isnan", "logical_xor"):
        assert name in UFUNCS


@pytest.mark.parametrize("ufunc", UFUNCS)
@in_one("name", VALUES)
def test_ufuncs(no_copies, device_place, name, ufunc):
    """The same values and dtype as on the host, or, of dtypes that only NumPy has an answer for, an error."""
    x, function = VALUES[name], UFUNCS[ufunc]
    if name in ("float64", "float32", "float16") and ufunc in ("arcsin", "arccos", "arctanh", "arccosh"):
        x = np.abs(x) / 8 if ufunc != "arccosh" else np.abs(x) + 1
    if name in ("int32", "uint8"):
        x = np.abs(x) % 7
    x = x.astype(VALUES[name].dtype)
    host = [x, np.roll(x, 1, 1)][: function.nin]
    if ufunc == "ldexp":
        host[1] = np.array([[1, 2, -3]], np.int32)
    arrays = [device_place.put(each) for each in host]
    wanted = numpys(lambda: function(*host))
    if wanted is None:
        if (name, ufunc) != ("bool", "positive"):
            with pytest.raises((TypeError, numbacc.Error)):
                function(*arrays)
        return
    try:
        found = no_copies(lambda: function(*arrays))
    except DTypeError:
        # Of integers NumPy's results are others than numbacc's.
        assert name in ("bool", "complex128") or ufunc in ("fabs", "rint", "reciprocal")
        return
    same(device_place, found, wanted, {2: 2e-3, 4: 2e-6}.get(wanted.dtype.itemsize, 1e-12))


def test_ufuncs_with_options(no_copies, device_place):
    x, place = VALUES["float32"], device_place
    d, mask = place.put(x), place.put(x > 0)
    out = place.put(np.full(x.shape, 9, np.float32))
    assert no_copies(lambda: np.add(d, 1, out=out)) is out
    assert np.add(d, 1, out) is out
    np.testing.assert_array_equal(place.get(out), x + 1)
    assert no_copies(lambda: np.negative(d, out=(out,), where=mask)) is out
    np.testing.assert_array_equal(place.get(out), np.where(x > 0, -x, x + 1))
    same(place, np.add(d, d, where=True, casting="same_kind", order="K", subok=True, dtype=None), x + x)
    for more in ({"dtype": "float64"}, {"casting": "unsafe"}, {"order": "F"}, {"signature": "ff->f"}, {"where": mask}):
        with pytest.raises(numbacc.Error):
            np.add(d, d, **more)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: np.maximum.accumulate(x), lambda x: np.add.outer(x, x), lambda x: np.add.at(x, 0, 1),
        lambda x: np.add.reduceat(x, [0]), lambda x: np.subtract.reduce(x), lambda x: np.modf(x, where=x > 0), lambda x: np.frexp(x),
        lambda x: np.spacing(x), lambda x: np.degrees(x, dtype="f8"), lambda x: np.sort(x),
        lambda x: np.unique(x), lambda x: np.nonzero(x), lambda x: np.where(x),
        lambda x: np.array(x), lambda x: np.asarray(x), lambda x: np.round(x, 0.5), lambda x: np.ones_like(x, order="F"),
        lambda x: np.median(x), lambda x: np.dot(x, x.T, np.ones(3)), lambda x: np.repeat(x, np.array([1, 2])), lambda x: np.copy(x, order="F"), lambda x: np.copy(x, "C"),
        lambda x: np.angle(x, deg=True), lambda x: np.angle(x, True), lambda x: np.clip(x, 0, 1, None, dtype="float64"),
        lambda x: np.fabs(x, casting="no"), lambda x: np.linalg.inv(x), lambda x: np.split(x, 4, 1), lambda x: np.array_split(x, 0),
        lambda x: np.reshape(x, (3, 2), order="F"), lambda x: np.ravel(x, "F"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(no_copies, device_place, run):
    """By an error that says so: nothing is copied to the host, no bare TypeError of a call that does not fit."""
    x = device_place.put(VALUES["float32"])
    with pytest.raises((numbacc.Error, IndexError)):
        no_copies(lambda: run(x))
    np.testing.assert_array_equal(device_place.get(x), VALUES["float32"])


@pytest.mark.parametrize("name", ["erf", "erfc", "erfinv", "gammaln", "psi", "digamma", "expit"])
def test_ufuncs_of_scipy(no_copies, device_place, name):
    x = np.array([0.25, 0.5, 0.75])
    found = no_copies(lambda: getattr(scipy.special, name)(device_place.put(x)))
    same(device_place, found, getattr(scipy.special, name)(x), 1e-12)
    with pytest.raises(numbacc.Error):
        scipy.special.j0(device_place.put(x))


FUNCTIONS = {
    "where": lambda x: np.where(x > 0, x, -1), "where, number": lambda x: np.where(x > 0, 1.5, x),
    "clip": lambda x: np.clip(x, 0, 2), "clip, named": lambda x: np.clip(a=x, a_min=0, a_max=2),
    "clip, below": lambda x: np.clip(x, 0, None), "clip, above": lambda x: np.clip(x, None, 2),
    "clip, new names": lambda x: np.clip(x, min=0, max=2), "clip, one": lambda x: np.clip(x, min=0),
    "round": lambda x: np.round(x), "around": lambda x: np.around(x, 0), "round, named": lambda x: np.round(x, decimals=0),
    "real": lambda x: np.real(x), "imag": lambda x: np.imag(x), "angle": lambda x: np.angle(x), "copy": lambda x: np.copy(x),
    "real, named": lambda x: np.real(val=x), "angle, named": lambda x: np.angle(z=x),
    "transpose": lambda x: np.transpose(x), "axes": lambda x: np.transpose(x, (1, 0)),
    "reshape": lambda x: np.reshape(x, (3, 2)), "reshape, named": lambda x: np.reshape(x, shape=(-1,)),
    "ravel": lambda x: np.ravel(x), "ravel, C": lambda x: np.ravel(x, order="C"),
    "squeeze": lambda x: np.squeeze(x[None]), "squeeze, axis": lambda x: np.squeeze(x[None], axis=0),
    "broadcast_to": lambda x: np.broadcast_to(x, (4, 2, 3)), "expand": lambda x: np.expand_dims(x, 1),
    "expand, last": lambda x: np.expand_dims(x, -1), "expand, first": lambda x: np.expand_dims(x, -3),
    "swap": lambda x: np.swapaxes(x, 0, -1), "move": lambda x: np.moveaxis(x[None], 0, -1),
    "move back": lambda x: np.moveaxis(x[None], -1, 0),
    "tril": lambda x: np.tril(x, 1), "tril, named": lambda x: np.tril(m=x, k=-1), "triu": lambda x: np.triu(x),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(no_copies, device_place, name):
    x = VALUES["float64"]
    d = device_place.put(x)
    same(device_place, no_copies(lambda: FUNCTIONS[name](d)), FUNCTIONS[name](x), 1e-15)


def test_gathers(no_copies, device_place):
    x, places = VALUES["float64"], np.array([1, 0])
    d, i = device_place.put(x), device_place.put(places)
    for function in (lambda a, b: np.take(a, b, 1), lambda a, b: np.take(a, b, axis=0), np.take):
        same(device_place, no_copies(lambda function=function: function(d, i)), function(x, places), 0)
    found = no_copies(lambda: np.take_along_axis(d, i[None], 1))
    same(device_place, found, np.take_along_axis(x, places[None], 1), 0)


def test_norms(no_copies, device_place):
    """Vectors' and, of one order, matrices': others of matrices are no sums over elements."""
    x, z = VALUES["float64"], VALUES["complex128"]
    d = device_place.put(x)
    for more in ({}, {"axis": 0}, {"ord": 1, "axis": -1}, {"ord": np.inf, "axis": (1,), "keepdims": True},
                 {"ord": "fro"}, {"axis": (0, 1)}, {"ord": None, "axis": None}):  # fmt: skip
        same(device_place, no_copies(lambda more=more: np.linalg.norm(d, **more)), np.linalg.norm(x, **more), 1e-15)
    same(device_place, np.linalg.norm(d, 2, 1, True), np.linalg.norm(x, 2, 1, True), 1e-15)
    for order in (0, 1, 3, 0.5, -1, -np.inf):
        same(device_place, np.linalg.norm(d[0], order), np.linalg.norm(x[0], order), 1e-14)
    same(device_place, np.linalg.norm(device_place.put(z)), np.linalg.norm(z), 1e-15)
    for order in (1, 2, np.inf, -1, "nuc"):
        for more in ({}, {"axis": (0, 1)}):
            with pytest.raises(DTypeError):
                np.linalg.norm(d, order, **more)


def test_questions_of_attributes(no_copies, device_place):
    d = device_place.put(VALUES["float32"])
    found = no_copies(lambda: (np.shape(d), np.ndim(d), np.size(d), np.iscomplexobj(d), np.result_type(d, 1.0)))
    assert found == ((2, 3), 2, 6, False, np.float32)
    assert no_copies(lambda: np.result_type(d, np.float64)) == np.float64
    assert (np.size(d, 0), np.isrealobj(d)) == (2, True)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: np.moveaxis(x, 2, 0), lambda x: np.moveaxis(x, 0, 5), lambda x: np.moveaxis(x, -3, 0),
        lambda x: np.expand_dims(x, 5), lambda x: np.expand_dims(x, -5), lambda x: np.swapaxes(x, 0, 2),
        lambda x: np.swapaxes(x, -3, 0),
    ],
)  # fmt: skip
def test_axes_out_of_range(device_place, run):
    with pytest.raises((ShapeError, IndexError)):
        run(device_place.put(VALUES["float32"]))


def test_views_share_memory(device_place):
    x = device_place.put(VALUES["float64"].copy())
    np.transpose(x)[...] = 7.0
    np.reshape(x, (6,))[:2] = np.array([1.0, 2.0])
    assert device_place.get(x).ravel().tolist() == [1, 2, 7, 7, 7, 7]


@pytest.mark.parametrize("name", ["float64", "int32"])
def test_every_namesake(no_copies, device_place, name):
    """Whatever numbacc calls as NumPy does, NumPy's function of a device array gives the same as of the host's."""
    x = np.abs(VALUES[name]) % 5 + 1
    for each in ew.__all__:
        theirs = getattr(np, each, None)
        if not isinstance(theirs, np.ufunc) or theirs.nin > 2 or each in ("ldexp", "reciprocal"):
            continue
        host = [x.astype(VALUES[name].dtype)] * theirs.nin
        wanted = numpys(lambda: theirs(*host))
        if wanted is not None:
            arrays = [device_place.put(a) for a in host]
            found = no_copies(lambda: theirs(*arrays))
            same(device_place, found, wanted, 1e-12)


#: NumPy's functions that are made of others.
MADE = {
    "zeros_like": lambda x: np.zeros_like(x), "ones_like": lambda x: np.ones_like(x, dtype="int32"),
    "full_like": lambda x: np.full_like(x, 3), "flip": lambda x: np.flip(x), "flip one": lambda x: np.flip(x, 1),
    "fliplr": np.fliplr, "flipud": np.flipud, "roll": lambda x: np.roll(x, -2), "roll rows": lambda x: np.roll(x, 1, axis=0),
    "roll both": lambda x: np.roll(x, (1, 2), (0, 1)), "tile": lambda x: np.tile(x, 2), "tile more": lambda x: np.tile(x, (2, 1, 3)),
    "repeat": lambda x: np.repeat(x, 2), "repeat rows": lambda x: np.repeat(x, 3, axis=0), "vstack": lambda x: np.vstack([x, x[0]]),
    "hstack": lambda x: np.hstack((x, x)), "hstack vectors": lambda x: np.hstack((x[0], x[1])), "dstack": lambda x: np.dstack([x, x]),
    "dstack vectors": lambda x: np.dstack([x[0], x[1]]), "column_stack": lambda x: np.column_stack([x[0], x.T]),
    "split": lambda x: np.split(x, 3, axis=1), "split between": lambda x: np.split(x, [1, 2], axis=-1),
    "array_split": lambda x: np.array_split(x, 2, 1), "array_split from the end": lambda x: np.array_split(x[0], [1, -1]),
    "hsplit": lambda x: np.hsplit(x, 3), "vsplit": lambda x: np.vsplit(x, 2), "diff": lambda x: np.diff(x, axis=0),
    "count_nonzero": lambda x: np.count_nonzero(x, axis=1), "ptp": lambda x: np.ptp(x, axis=0), "average": lambda x: np.average(x, axis=1),
    "average, weights": lambda x: np.average(x, 0, x * x + 1), "atleast": lambda x: np.atleast_2d(x[0]),
    "atleast several": lambda x: np.atleast_3d(x, x[0]), "rot90": lambda x: np.rot90(x), "rot90 back": lambda x: np.rot90(x, -1),
    "rot90 twice": lambda x: np.rot90(x, 2, (1, 0)), "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[:1]),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1]), "matrix_transpose": lambda x: np.matrix_transpose(x),
    "unstack": lambda x: np.unstack(x, axis=1), "astype": lambda x: np.astype(x, np.complex128),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1, include_initial=True), "isclose": lambda x: np.isclose(x, x * (1 + 1e-6)),
    "nan_to_num": lambda x: np.nan_to_num(x / (x * 0)), "nan_to_num to": lambda x: np.nan_to_num(x / (x * 0), nan=1.5, posinf=7),
    "outer": lambda x: np.outer(x, x[0]), "inner": lambda x: np.inner(x, x), "dot": lambda x: np.dot(x, x.T),
    "dot, a vector": lambda x: np.dot(x, x[0]), "dot, a number": lambda x: np.dot(x, np.float32(2)), "dot of three axes": lambda x: np.dot(x[None], x.T),
    "vdot": lambda x: np.vdot(x, x), "tensordot": lambda x: np.tensordot(x, x), "tensordot by axes": lambda x: np.tensordot(x, x, ([1], [1])),
    "linalg.matmul": lambda x: np.linalg.matmul(x, x.T), "linalg.vecdot": lambda x: np.linalg.vecdot(x, x),
    "linalg.outer": lambda x: np.linalg.outer(x[0], x[1]), "fft": lambda x: np.fft.fft(x), "rfft2": lambda x: np.fft.rfft2(x),
    "ifftn": lambda x: np.fft.ifftn(x, norm="ortho"), "fftshift": lambda x: np.fft.fftshift(x, axes=1), "hfft": lambda x: np.fft.hfft(x, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_made_of_others(no_copies, device_place, name, dtype):
    host = VALUES[dtype].copy()
    host[0, 1] = 0
    x = device_place.put(host)
    with np.errstate(all="ignore"):
        wanted = MADE[name](host)
        found = no_copies(lambda: MADE[name](x))
    several = isinstance(wanted, (list, tuple))
    assert several == isinstance(found, (list, tuple)) and (not several or type(found) is type(wanted))
    for mine, theirs in zip(*((found, wanted) if several else ([found], [wanted])), strict=True):
        theirs = np.asarray(theirs)
        got = device_place.get(mine)
        assert (got.dtype, got.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(
            got, theirs, rtol=3e-6 if dtype == "float32" else 1e-12, atol=1e-5 if dtype == "float32" else 1e-11
        )


def test_truth_of_two_arrays(device_place):
    x = np.array([1.0, math.nan, math.inf, 0.0])
    d = device_place.put(x)
    for other in (x, x + 1e-9, x[:3], x * -1):
        o = device_place.put(other)
        assert np.array_equal(d, o) == np.array_equal(x, other)
        if other.size == 4:
            for same_nan in (False, True):
                assert np.allclose(d, o, equal_nan=same_nan) is np.allclose(x, other, equal_nan=same_nan)
                np.testing.assert_array_equal(
                    device_place.get(np.isclose(d, o, equal_nan=same_nan)), np.isclose(x, other, equal_nan=same_nan)
                )
    whole = device_place.put(np.array([1, 2, 3]))
    assert np.array_equal(whole, whole) and np.nan_to_num(whole).dtype == np.int64
    kept = device_place.put(x.copy())
    assert np.nan_to_num(kept, copy=False) is kept and device_place.get(kept)[1] == 0
