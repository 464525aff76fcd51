"""Fourier transforms against SciPy in a wider dtype: functions, dtypes, norms, lengths, layouts, in place."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from conftest import bits, memory_layouts
from fft_oracle import FLOATS, MANY, NORMS, ONE, OTHERS, scipys, takes, to_real, values, verify
from hypothesis import event, given
from hypothesis import strategies as st
from in_one import in_one
from skips import skip

import numbacc
from numbacc import fft
from numbacc.base.dispatch import simulated

pytestmark = pytest.mark.usefixtures("poison")

# ---------------------------------------------------------------- the oracle


@pytest.mark.parametrize("single", [False, True])
def test_the_oracle_takes_plain_sums_and_nothing_worse(single):
    """A plain sum of a prime number of equal terms is right, twiddles with fewer digits are not."""
    real, wide = (np.float32, np.complex64) if single else (np.float64, np.complex128)
    n = 103
    k = np.arange(n)
    twiddles = np.exp(-2j * np.pi * (np.outer(k, k) % n) / n)
    equal, others = np.full(n, 4, real), values((n,), np.dtype(real))

    def summed(factors, x):
        scaled = x * real(1 / np.sqrt(n))
        total = np.zeros(n, wide)
        for j in k:
            total = total + factors[:, j].astype(wide) * scaled[j]
        return total

    verify("fft", summed(twiddles, equal), equal, norm="ortho")
    coarse = np.round(twiddles * 2.0**15) / 2.0**15 if single else twiddles.astype(np.complex64)
    with pytest.raises(AssertionError, match="roundings off"):
        verify("fft", summed(coarse, others), others, norm="ortho")


# ---------------------------------------------------------------- every combination


#: Functions of one and of several dimensions, with each of the dtypes that they take.
EVERY = [(function, dtype) for function in ONE + MANY for dtype in FLOATS if takes(function, dtype)]


@pytest.mark.parametrize("function, dtype", EVERY, ids=str)
def test_every_function(place, function, dtype):
    for norm in NORMS:
        for shape in [(2, 6)] if place.is_slow else [(4, 6), (5, 9), (3, 4, 8)]:
            x = values(shape, dtype)
            operand = place.operand(x)
            verify(function, place.get(getattr(fft, function)(operand.view, norm=norm)), x, norm=norm)
            operand.assert_untouched()


@pytest.mark.parametrize("function", ONE + MANY)
@in_one("dtype", OTHERS)
def test_other_dtypes_are_promoted(place, function, dtype):
    x = values((3, 4), dtype)
    operand = place.operand(x)
    verify(function, place.get(getattr(fft, function)(operand.view)), x)
    operand.assert_untouched()


@in_one(
    "function, dtype",
    [
        *EVERY,
        *((f, d) for f in ONE + MANY for d in OTHERS if not (d == ml_dtypes.bfloat16 and to_real(f))),
    ],
)
def test_dtypes_are_numpys(numpy_place, function, dtype):
    """But for bfloat16, for transforms of which to real numbers NumPy has no rule."""
    x = np.ones((4, 4), dtype)
    assert getattr(fft, function)(x).dtype == getattr(np.fft, function)(x).dtype


@pytest.mark.parametrize("function", ONE)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 13])
def test_lengths_are_cut_and_padded(place, function, n):
    for dtype in FLOATS[1::2]:
        if takes(function, dtype):
            for axis in (0, 1):
                x = values((8, 2) if axis == 0 else (2, 8), dtype)
                result = getattr(fft, function)(place.put(x), n, axis, norm="ortho")
                verify(function, place.get(result), x, n, axis, "ortho")


@pytest.mark.parametrize("length", [7, 127, 1009, 65537])
@pytest.mark.parametrize("function", ["fft", "rfft", "irfft"])
def test_primes(place, function, length):
    if place.is_slow and length > 200:
        skip("slow")
    for dtype in FLOATS[:2] if function == "rfft" else FLOATS[2:]:
        x = values((2, length // 2 + 1 if function == "irfft" else length), dtype)
        verify(function, place.get(getattr(fft, function)(place.put(x), length)), x, length)


def test_many_rows(place):
    x = values((200 if place.is_slow else 70_001, 4), np.dtype(np.complex64))
    verify("fft", place.get(fft.fft(place.put(x))), x)
    verify("ifft", place.get(fft.ifft(place.put(x.T), axis=0)), x.T, axes=0)


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (3, 0), (2,), (1, 3, 0, 2), (-1, -2, -3), (4, 3, 2, 1, 0)])
@pytest.mark.parametrize("function", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_any_axes_in_any_order(place, function, axes):
    shape = (2, 3, 2, 3, 2) if place.is_slow else (3, 4, 5, 6, 4)
    for dtype in FLOATS[1::2]:
        if takes(function, dtype):
            x = values(shape, dtype)
            verify(function, place.get(getattr(fft, function)(place.put(x), axes=axes)), x, axes=axes)


@pytest.mark.parametrize("function", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_an_axis_named_twice_is_transformed_twice(place, function):
    x = values((3, 4), FLOATS[1])
    for axes in [(1, 1), (0, 1, 0), (0, 1, 1)]:
        for s in (None, (3,) * len(axes)):
            out = getattr(np.fft, function)(x, s, axes)
            result = place.get(getattr(fft, function)(place.put(x), s, axes))
            np.testing.assert_allclose(result, out, rtol=0, atol=1e-13 * np.abs(out).max())
            target = place.empty(out.shape, out.dtype)
            assert getattr(fft, function)(place.put(x), s, axes, out=target.view) is target.view
            np.testing.assert_array_equal(target.now(), result)


def test_lengths_without_axes_are_those_of_the_last(place):
    x = values((3, 4, 6), FLOATS[3])
    for s, axes in [((5,), (2,)), ((2, 3), (1, 2)), ([-1, 4], (1, 2))]:
        got = place.get(fft.fftn(place.put(x), s))
        verify("fftn", got, x, [n if n > 0 else x.shape[d] for n, d in zip(s, axes, strict=True)], axes)


# ---------------------------------------------------------------- any layout

_LONGEST = {1: 40, 2: 6, 3: 3, 4: 2} if simulated() else {1: 300, 2: 20, 3: 8, 4: 5}


@st.composite
def calls(draw):
    rank = draw(st.integers(1, 4))
    shape = tuple(draw(st.lists(st.integers(1, _LONGEST[rank]), min_size=rank, max_size=rank)))
    function = draw(st.sampled_from(ONE + MANY[4:]))
    dtype = draw(st.sampled_from([d for d in FLOATS if takes(function, d)]))
    lengths = st.integers(1, _LONGEST[rank] + 2)
    if function in ONE:
        axes, n = draw(st.integers(-rank, rank - 1)), draw(st.none() | lengths)
        short = shape[axes] == 1
    else:
        axes = tuple(draw(st.lists(st.integers(0, rank - 1), min_size=1, max_size=rank, unique=True)))
        n = draw(st.none() | st.lists(lengths, min_size=len(axes), max_size=len(axes)).map(tuple))
        short = shape[axes[-1]] == 1
    if n is None and short and to_real(function):
        n = 4 if function in ONE else (4,) * len(axes)
    result = getattr(np.fft, function)(np.zeros(shape, dtype), n, axes)
    target = draw(st.sampled_from(["fresh", "given", "in place"]))
    if target == "in place" and (result.shape != shape or dtype.kind != "c" or to_real(function)):
        target = "given"
    return {
        "function": function,
        "x": values(shape, dtype, draw(st.integers(0, 99))),
        "options": {"n" if function in ONE else "s": n, "axis" if function in ONE else "axes": axes},
        "norm": draw(st.sampled_from(NORMS)),
        "overwrite": (overwrite := draw(st.booleans())),
        "target": target,
        "layout": draw(memory_layouts(rank, overwrite or target == "in place")),
        "out": (result.shape, draw(memory_layouts(rank, True))),
    }


@given(calls())
def test_any_layout(place, call):
    function, x, target = call["function"], call["x"], call["target"]
    event(target)
    operand, out = place.operand(x, **call["layout"]), None
    x = np.array(operand.values)  # along broadcast axes its first element counts
    n, axes = call["options"].values()
    dtype = scipys(
        function, x[..., :1] * 0, 2 if function in ONE else None, -1 if function in ONE else None, None
    ).dtype
    written = None
    if target == "given":
        written = place.empty(call["out"][0], dtype, **call["out"][1])
        out = written.view
    elif target == "in place":
        written, out = operand, operand.view
    run = getattr(fft, function)
    result = run(operand.view, **call["options"], norm=call["norm"], out=out, overwrite_input=call["overwrite"])
    if out is not None:
        assert result is out
        written.assert_written_only()
    verify(function, place.get(result), x, n, axes, call["norm"])
    if target != "in place" and not call["overwrite"]:
        operand.assert_untouched()


@pytest.mark.parametrize("function", ["irfft", "irfft2", "irfftn", "hfft"])
def test_input_may_be_lost_only_if_allowed(place, function):
    for dtype in FLOATS[2:]:
        x = values((3, 4, 5), dtype)
        for norm in NORMS:
            operand, results = place.operand(x), []
            for lost in (False, True):
                operand.assert_untouched()
                results.append(place.get(getattr(fft, function)(operand.view, norm=norm, overwrite_input=lost)))
            verify(function, results[0], x, norm=norm)
            np.testing.assert_allclose(results[1], results[0], rtol=0, atol=1e-5 * np.abs(results[0]).max())


def test_frames_that_overlap(place):
    """A spectrogram's frames, as one view of the signal: transformed without a copy."""
    signal = values(60, FLOATS[0])
    frames = np.lib.stride_tricks.sliding_window_view(signal, 16)[::8]
    if place.is_device:
        from numbacc.arrays.device_array import DeviceArray
        from numbacc.base.layout import layout

        base = place.put(signal)
        view = DeviceArray(layout(frames.shape, frames.strides, frames.dtype, 0), base._address, base._storage)
    else:
        view = frames
    verify("rfft", place.get(fft.rfft(view)), np.array(frames))


@pytest.mark.parametrize("start", [0, 1, 3])
def test_real_arrays_that_start_between_two_complex_numbers(place, start):
    x = values(24, FLOATS[0])
    operand = place.operand(x)
    verify("rfft", place.get(fft.rfft(operand.view[start:])), x[start:])
    out = place.empty((20 + start,), FLOATS[0])
    spectrum = values(11, FLOATS[2])
    assert fft.irfft(place.put(spectrum), out=out.view[start:]).shape == (20,)
    verify("irfft", out.now()[start:], spectrum)
    out.assert_written_only(lambda view: view[start:])


# ---------------------------------------------------------------- what transforms must do


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("points, gap", [(6, 2), (5, 1), (32, 2)])
@pytest.mark.parametrize("shape, axes", [((3,), (1,)), ((3,), (0, 1)), ((2, 3), (0, 1, 2))])
@pytest.mark.parametrize("overwrite", [False, True])
def test_gaps_behind_rows_stay_as_they_are(place, dtype, points, gap, shape, axes, overwrite):
    """Rows of real results that lie as those of a transform in place do."""
    rng = np.random.default_rng(7)
    half = (*shape, points // 2 + 1)
    x = (rng.standard_normal(half) + 1j * rng.standard_normal(half)).astype(dtype)
    real = np.dtype(np.float32 if dtype is np.complex64 else np.float64)
    written = place.empty((*shape, points), real, margins=[(0, 0)] * len(shape) + [(0, gap)])
    lengths = [(*shape, points)[d] for d in axes]
    result = fft.irfftn(place.put(x), lengths, axes, overwrite_input=overwrite, out=written.view)
    written.assert_written_only()
    verify("irfftn", place.get(result), x, lengths, axes, None)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_trip(place, norm, dtype):
    x = values((3, 8), dtype)
    there, back = (fft.rfft, fft.irfft) if dtype.kind == "f" else (fft.fft, fft.ifft)
    result = place.get(back(there(place.put(x), norm=norm), norm=norm))
    assert result.dtype == dtype
    np.testing.assert_allclose(result, x, rtol=0, atol=50 * np.finfo(dtype).eps)
    there, back = (fft.ihfft, fft.hfft) if dtype.kind == "f" else (fft.ifftn, fft.fftn)
    np.testing.assert_allclose(
        place.get(back(there(place.put(x), norm=norm), norm=norm)), x, rtol=0, atol=50 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("function", ["fft", "fft2", "fftn"])
def test_parseval(place, function):
    x = values((4, 6), FLOATS[3])
    result = place.get(getattr(fft, function)(place.put(x), norm="ortho"))
    np.testing.assert_allclose(np.sum(np.abs(result) ** 2), np.sum(np.abs(x) ** 2), rtol=1e-13)


def test_a_wave_is_one_line(place):
    wave = np.exp(2j * np.pi * 5 * np.arange(32) / 32)
    np.testing.assert_allclose(place.get(fft.fft(place.put(wave), norm="forward")), np.eye(32)[5], atol=1e-15)


@pytest.mark.parametrize("function", ONE + MANY)
def test_nothing_to_do(place, function):
    dtype = FLOATS[1 if function.startswith(("rfft", "ihfft")) else 3]
    for shape in [(0, 4), (0, 4, 6)]:
        x = place.put(np.empty(shape, dtype))
        axes = {} if function in ONE else {"axes": (-1,)}
        want = getattr(np.fft, function)(np.empty(shape, dtype), **axes)
        result = getattr(fft, function)(x, **axes)
        assert (result.shape, result.dtype) == (want.shape, want.dtype)
        out = place.empty(want.shape, want.dtype)
        assert getattr(fft, function)(x, **axes, out=out.view) is out.view


@pytest.mark.parametrize("function", ONE)
def test_nothing_padded_is_zeros(place, function):
    x = np.empty((0, 3), FLOATS[1])
    result = place.get(getattr(fft, function)(place.put(x), 4, 0))
    assert result.shape == getattr(np.fft, function)(x, 4, 0).shape
    np.testing.assert_array_equal(result, 0)


@pytest.mark.parametrize("dtype", [OTHERS[0], OTHERS[4], *FLOATS], ids=str)
@pytest.mark.parametrize("function, n", [("ifft", None), ("fft", 19), ("rfft", 39), ("irfft", 34)])
def test_arrays_that_lie_transposed(place, dtype, function, n):
    """What must be converted, padded or cut off is, on its way from columns to rows."""
    if not takes(function, dtype):
        return
    shape = (20, 17) if place.is_slow else (3, 36, 40)
    x = values(shape, dtype)
    made = getattr(fft, function)(place.put(x), n, -2, "ortho")
    out = place.empty(made.shape, made.dtype, order=(1, 0) if place.is_slow else (0, 2, 1))
    getattr(fft, function)(place.put(x), n, -2, "ortho", out=out.view)
    verify(function, place.get(out.view), x, n, -2, "ortho")


def test_small_results_have_the_memory_order_of_the_input(place):
    for order in [(0, 1, 2), (2, 1, 0), (1, 2, 0)]:
        x = place.operand(values((3, 4, 5), FLOATS[3]), order=order)
        for result in (fft.fft(x.view, axis=1), fft.fftn(x.view, norm="ortho")):
            assert tuple(np.argsort(result.strides)[::-1]) == order
            assert type(result) is (np.ndarray if not place.is_device else type(numbacc.zeros(1)))


def test_the_same_bits_twice(place):
    x = place.put(values((5, 12), FLOATS[2]))
    for function in ONE[:2] + ONE[3:5] + ("fftn", "irfftn"):
        first, second = (place.get(getattr(fft, function)(x, norm="ortho")) for _ in range(2))
        np.testing.assert_array_equal(bits(first), bits(second))
