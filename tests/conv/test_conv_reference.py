"""Convolutions in NumPy against sums tap by tap, differences and each other; what geometry gives and refuses."""

from __future__ import annotations

import importlib
import tracemalloc
from itertools import product

import conv_oracle
import ml_dtypes
import numpy as np
import pytest
from conftest import refused, sentinel
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, Case, Inputs, cases, inputs
from gemm_oracle import to_tf32
from hypothesis import event, given
from hypothesis import strategies as st

import numbacc
from numbacc import conv
from numbacc.conv.geometry import geometry as geometry_of
from numbacc.reference import conv as reference

DOUBLE = np.dtype(np.float64)
#: One of each rank, uneven in everything.
UNEVEN = (
    Case("forward", "NCW", 2, 2, 2, 3, (9,), (3,), (2,), ((1, 3),), 2, dtype=DOUBLE, out_dtype=DOUBLE),
    Case("forward", "NHWC", 2, 3, 1, 2, (5, 6), (2, 3), (1, 2), ((2, 0), 1), (2, 1), True, DOUBLE, DOUBLE),
    Case("forward", "NCDHW", 1, 1, 2, 2, (3, 4, 4), (2, 1, 3), (1, 3, 1), ((0, 1), 2, (1, 0)), 1, True, DOUBLE, DOUBLE),
)


@pytest.fixture(autouse=True, scope="module")
def poisoned_memory():
    """What NumPy allocates without values holds some that are wrong, so that an element which is not written shows."""
    # When these modules are first imported, Numba learns which functions it compiles: it must be NumPy's own np.empty.
    importlib.import_module("numba.np.arrayobj")
    empty = np.empty

    def poisoned(*arguments, **options):
        array = empty(*arguments, **options)
        if array.dtype.kind in "fi":
            array[...] = sentinel(array.dtype)
        return array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "empty", poisoned)
        yield


def geometry(x, w, names=("x", "w"), **options):
    """The geometry of a convolution with these options, and else the functions' defaults."""
    given = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW", "flip": False, **options}
    return geometry_of(x, w, **given, names=names)


def computed(case, values):
    """The reference's result."""
    x, w, _ = case.shapes
    window = geometry(x, w, **case.geometry).window
    options = {"out_dtype": case.out_dtype, "alpha": case.alpha, "beta": case.beta, "before": values.before}
    if case.direction == "forward":
        options |= {"bias": values.bias, "activation": case.activation}
        return reference.forward(values.first, values.second, window, **options)
    shape = x if case.direction == "backward_data" else w
    return getattr(reference, case.direction)(values.first, values.second, shape, window, **options)


def scattered(array):
    """The same values, every other element of what is otherwise poison, and backwards."""
    base = np.full([2 * n for n in array.shape], sentinel(array.dtype))
    view = base[(slice(None, None, -2),) * array.ndim]
    view[...] = array
    return view


# ---------------------------------------------------------------- against the oracle


@given(case=cases(), strided=st.booleans(), columns=st.sampled_from([1, 40, 300, 1 << 24]))
def test_all_there_is(case, strided, columns):
    values = inputs(case)
    if strided:
        values = Inputs(*(None if a is None else scattered(a) for a in values))
    event(f"{case.direction} {case.dtype}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "_COLUMNS", columns)  # copied at once, or in pieces
        result = computed(case, values)
    assert result.flags.c_contiguous
    conv_oracle.assert_right(case, values, result)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_activation_behind_all_that_is_added(activation, dtype):
    case = UNEVEN[1]._replace(dtype=dtype, out_dtype=dtype, activation=activation, alpha=1.5, beta=-0.5, biased=True)
    values = inputs(case)
    conv_oracle.assert_right(case, values, computed(case, values))


def loops(case, first, second):
    """The sums, channels first, one product after the other."""
    x_shape, w_shape, y_shape = case.shapes
    total = np.zeros({"forward": y_shape, "backward_data": x_shape, "backward_filter": w_shape}[case.direction])
    for n, k, c in product(range(case.batch), range(y_shape[1]), range(case.channels)):
        for p, r in product(np.ndindex(*case.places), np.ndindex(*case.taps)):
            i = tuple(p[d] * case.steps[d] + r[d] * case.apart[d] - case.zeros[d][0] for d in range(len(p)))
            if not all(0 <= at < length for at, length in zip(i, case.lengths, strict=True)):
                continue
            tap = tuple(length - 1 - at for at, length in zip(r, case.taps, strict=True)) if case.flip else r
            at_x, at_w, at_y = (n, k // case.filters * case.channels + c, *i), (k, c, *tap), (n, k, *p)
            if case.direction == "forward":
                total[at_y] += first[at_x] * second[at_w]
            elif case.direction == "backward_data":
                total[at_x] += first[at_y] * second[at_w]
            else:
                total[at_w] += first[at_x] * second[at_y]
    return total


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("case", UNEVEN, ids=lambda case: case.layout)
def test_the_oracle_gives_what_index_loops_give(case, direction):
    case = case._replace(direction=direction, layout=case.layout.replace("HWC", "CHW"))
    values = inputs(case)
    wanted = loops(case, values.first, values.second)
    np.testing.assert_allclose(conv_oracle.sums(case, values.first, values.second), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_oracle_sees_what_is_wrong(dtype):
    """One element of many that is a few roundings off; taps in the wrong order."""
    for direction in DIRECTIONS:
        case = UNEVEN[1]._replace(direction=direction, dtype=dtype, out_dtype=dtype)
        values = inputs(case)
        result = computed(case, values)
        at = np.unravel_index(np.abs(result).argmax(), result.shape)
        result[at] *= dtype.type(1 + 16 * float(ml_dtypes.finfo(dtype).eps))
        with pytest.raises(AssertionError, match="wrong in 1 of"):
            conv_oracle.assert_right(case, values, result)
        with pytest.raises(AssertionError, match="wrong in"):
            conv_oracle.assert_right(case._replace(flip=False), values, computed(case, values))


def test_the_oracle_allows_tf32_where_it_is_asked_for():
    case = UNEVEN[1]._replace(dtype=FLOATS[0], out_dtype=FLOATS[0])
    values = inputs(case)
    narrow = Inputs(*(to_tf32(a) for a in values[:2]))
    conv_oracle.assert_right(case, values, computed(case, narrow), compute="tf32")
    with pytest.raises(AssertionError, match="wrong in"):
        conv_oracle.assert_right(case, values, computed(case, narrow))


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_layouts_differ_in_the_order_of_axes_alone(dimension):
    case = next(case for case in UNEVEN if len(case.taps) == dimension)
    for direction in DIRECTIONS:
        first, last = (
            case._replace(direction=direction, layout=name)
            for name in conv_oracle.LAYOUTS
            if len(name) == dimension + 2
        )
        values = inputs(first)
        moved = Inputs(*(np.moveaxis(a, 1, -1) for a in values[:2]))
        np.testing.assert_array_equal(np.moveaxis(computed(first, values), 1, -1), computed(last, moved))


# ---------------------------------------------------------------- gradients


@given(case=cases(directions=["forward"], dtypes=[DOUBLE]))
def test_the_three_directions_are_adjoint(case):
    case = case._replace(alpha=1.0, beta=0.0, activation=None, biased=False)
    x, w, *_ = inputs(case)
    y = computed(case, Inputs(x, w))
    dy = np.random.default_rng(1).standard_normal(y.shape)
    dx = computed(case._replace(direction="backward_data"), Inputs(dy, w))
    dw = computed(case._replace(direction="backward_filter"), Inputs(x, dy))
    assert (dx.shape, dw.shape) == (x.shape, w.shape)
    scale = 1e-13 * (1 + np.linalg.norm(y) * np.linalg.norm(dy))
    assert abs((dx * x).sum() - (dy * y).sum()) <= scale
    assert abs((dw * w).sum() - (dy * y).sum()) <= scale


@pytest.mark.parametrize("case", UNEVEN, ids=lambda case: case.layout)
def test_gradients_are_differences(case):
    x, w, *_ = inputs(case)
    dy = np.random.default_rng(2).standard_normal(case.result_shape)
    gradients = {
        "x": computed(case._replace(direction="backward_data"), Inputs(dy, w)),
        "w": computed(case._replace(direction="backward_filter"), Inputs(x, dy)),
    }
    for name, array in (("x", x), ("w", w)):
        found = np.zeros_like(array)
        for at in np.ndindex(*array.shape):
            losses = []
            for step in (0.5, -0.5):  # of what is linear the difference is exact
                moved = array.copy()
                moved[at] += step
                losses.append((dy * computed(case, Inputs(moved, w) if name == "x" else Inputs(x, moved))).sum())
            found[at] = losses[0] - losses[1]
        np.testing.assert_allclose(gradients[name], found, rtol=0, atol=1e-12)


# ---------------------------------------------------------------- values by hand


def correlated(x, w, **options):
    """One channel of one dimension."""
    x, w = (np.asarray(a, np.float64)[None, None] for a in (x, w))
    window = geometry(x.shape, w.shape, layout="NCW", **options).window
    return reference.forward(x, w, window, out_dtype=DOUBLE)[0, 0].tolist()


def test_by_hand():
    assert correlated([1, 2, 3, 4], [1, 10]) == [21, 32, 43]
    assert correlated([1, 2, 3, 4], [1, 10], flip=True) == [12, 23, 34]
    assert correlated([1, 2, 3, 4], [1, 10], stride=2) == [21, 43]
    assert correlated([1, 2, 3, 4], [1, 10], dilation=3) == [41]
    assert correlated([1, 2, 3, 4], [1, 10], padding=[(1, 0)]) == [10, 21, 32, 43]
    assert correlated([1, 2], [1, 10], padding=3) == [0, 0, 10, 21, 2, 0, 0]
    assert correlated([1, 2, 3, 4], [5]) == [5, 10, 15, 20]


def test_same_has_what_cannot_be_halved_behind():
    assert correlated([1, 2, 3, 4], [1, 10], padding="same") == [21, 32, 43, 4]
    assert correlated([1, 2, 3, 4], [1, 10, 100], padding="same") == [210, 321, 432, 43]
    # As TensorFlow has it: where the last window starts at the last element, its zeros are all behind.
    assert correlated([1, 2, 3], [1, 10], padding="same", stride=2) == [21, 3]
    assert correlated([1, 2, 3, 4], [1, 10], padding="same", stride=2) == [21, 43]
    assert correlated([1, 2, 3, 4], [7], padding="same", stride=3) == [7, 28]


def test_a_flipped_kernel_is_numpys_convolution():
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal(20), rng.standard_normal(6)
    np.testing.assert_allclose(correlated(x, w, flip=True, padding=5), np.convolve(x, w), rtol=0, atol=1e-14)


# ---------------------------------------------------------------- options and dtypes


def test_what_has_the_factor_0_is_not_read():
    case = UNEVEN[1]
    nothing = np.full(case.result_shape, np.nan)
    for direction in DIRECTIONS:
        now = case._replace(direction=direction)
        values = inputs(now._replace(beta=1.0))
        alone = computed(now, values)
        nothing = np.full(now.result_shape, np.nan)
        np.testing.assert_array_equal(computed(now, values._replace(before=nothing)), alone)
        wrong = values._replace(first=np.full_like(values.first, np.nan))
        np.testing.assert_array_equal(computed(now._replace(alpha=0.0, beta=2.0), wrong), 2 * values.before)


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_narrow_floats_are_rounded_once(dtype):
    """Sums, factors and bias in float32: 16 bits lose what is added to 2048."""
    x = np.array([[[2048.0] + [0.25] * 6]], dtype)
    window = geometry(x.shape, (1, 1, 7), layout="NCW").window
    w, bias = np.ones((1, 1, 7), dtype), np.array([-2048.0], dtype)
    assert reference.forward(x, w, window, out_dtype=dtype, bias=bias).tolist() == [[[1.5]]]
    assert reference.forward(x, w, window, out_dtype=np.dtype(np.float32)).tolist() == [[[2049.5]]]
    huge = np.full((1, 1, 7), 3e4 if dtype == np.float16 else 3e38).astype(dtype)
    assert reference.forward(huge, w, window, out_dtype=dtype).tolist() == [[[np.inf]]]


def test_integers_wrap():
    count = 140_000
    x = np.full((1, 1, count), -128, np.int8)
    window = geometry(x.shape, x.shape, layout="NCW").window
    for name in ("int32", "float32"):
        result = reference.forward(x, x, window, out_dtype=np.dtype(name))
        assert result.dtype == name and result.tolist() == [[[count * 2**14 - 2**32]]]


def test_nothing_of_nothing():
    """An empty batch has an empty result, and kernels no gradient."""
    case = Case("forward", "NHWC", 0, 1, 3, 2, (4, 5), (3, 3))
    for direction in DIRECTIONS:
        now = case._replace(direction=direction)
        result = computed(now, inputs(now))
        assert result.shape == now.result_shape and not result.any()


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_windows_are_not_copied_all_at_once(direction, monkeypatch):
    """With 49 taps they would be 49 times the input."""
    monkeypatch.setattr(reference, "_COLUMNS", 1 << 13)
    case = Case(direction, "NCHW", 2, 1, 2, 1, (100, 100), (7, 7), padding="same")
    values = inputs(case)
    tracemalloc.start()
    try:
        computed(case, values)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < 8 * 4 * np.prod(case.shapes[0])


# ---------------------------------------------------------------- geometry


@given(case=cases())
def test_shapes(case):
    x, w, y = case.shapes
    options = case.geometry
    found = geometry(x, w, **options)
    assert found.y_shape == y
    assert (found.batch, found.channels, found.filters) == (x[0], case.groups * case.channels, w[0])
    assert (found.lengths, found.taps, found.places) == (case.lengths, case.taps, case.places)
    assert found.window.padding == tuple(case.zeros) and found.layout == case.layout
    assert hash(found) == hash(geometry(list(x), np.array(w), **options))
    del options["flip"]
    assert conv.output_shape(x, w, **options) == y
    found.check_dy(y)
    refused(numbacc.ShapeError, "dy has shape", y, run=lambda: found.check_dy((*y, 1)))


X, W = (2, 4, 9, 10), (6, 4, 3, 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "NCHWc"}, ["layout='NCHWc'", "NCW, NWC, NCHW, NHWC, NCDHW, NDHWC"]),
        ({"layout": None}, ["layout=None"]),
        ({"layout": ["NCHW"]}, ["layout=['NCHW']"]),
        ({"stride": 0}, ["stride=0", "must be at least 1"]),
        ({"stride": (1, -1)}, ["stride=-1"]),
        ({"stride": (1, 1, 1)}, ["stride=(1, 1, 1) is for 3 spatial dimensions", 'layout="NCHW" has 2']),
        ({"stride": 1.5}, ["stride=1.5 is not an integer"]),
        ({"stride": "2"}, ["stride='2' is not an integer"]),
        ({"stride": 2**31}, ["stride=2147483648"]),
        ({"dilation": 0}, ["dilation=0"]),
        ({"dilation": (1,)}, ["dilation=(1,) is for 1 spatial dimensions"]),
        ({"dilation": None}, ["dilation=None"]),
        ({"padding": -1}, ["padding=-1", "must be at least 0"]),
        ({"padding": ((0, 1), (0, -1))}, ["padding=-1"]),
        ({"padding": (1, 1, 1, 1)}, ["padding=(1, 1, 1, 1) is for 4"]),
        ({"padding": ((1, 2, 3), 1)}, ["padding has (1, 2, 3)", "(before, after)"]),
        ({"padding": ((1, 1.5), 1)}, ["padding=1.5 is not an integer"]),
        ({"padding": "full"}, ["padding='full'", '"same", "valid"']),
        ({"padding": None}, ["padding=None"]),
        ({"groups": 0}, ["groups=0"]),
        ({"groups": 2.0}, ["groups=2.0"]),
        ({"flip": 1}, ["flip=1 is neither True nor False"]),
    ],
    ids=str,
)
def test_options_that_are_refused(options, words):
    refused(numbacc.OptionError, *words, run=lambda: geometry(X, W, **options))
    if "flip" not in options:
        refused(numbacc.OptionError, *words, run=lambda: conv.output_shape(X, W, **options))


def test_a_pair_for_one_dimension():
    words = ("padding=(1, 2) is for 2", "[(before, after)]")
    refused(
        numbacc.OptionError, *words, run=lambda: conv.output_shape((1, 1, 5), (1, 1, 3), padding=(1, 2), layout="NCW")
    )
    assert conv.output_shape((1, 1, 5), (1, 1, 3), padding=[(1, 2)], layout="NCW") == (1, 1, 6)


@pytest.mark.parametrize(
    ("x", "w", "options", "words"),
    [
        (X[1:], W, {}, ["x has shape (4, 9, 10), of rank 3", 'layout="NCHW" it must have rank 4']),
        (X, W[1:], {}, ["w has shape (4, 3, 3), of rank 3"]),
        (X, W, {"layout": "NCDHW"}, ["of rank 4", "rank 5"]),
        ((2, 0, 9, 10), W, {}, ["x has shape (2, 0, 9, 10)", "only the batch"]),
        ((2, 4, 9, 0), W, {"padding": 5}, ["length of 0"]),
        (X, (0, 4, 3, 3), {}, ["w has shape (0, 4, 3, 3)", "at least one"]),
        (X, (6, 4, 0, 3), {}, ["at least one"]),
        ((2, -4, 9, 10), W, {}, ["x=(2, -4, 9, 10) has a negative length"]),
        (X, W, {"groups": 3}, ["4 channels cannot be divided into groups=3"]),
        (X, (6, 1, 3, 3), {"groups": 4}, ["w has shape", "6 outputs cannot be divided into groups=4"]),
        (X, W, {"groups": 2}, ["kernels have 4 channels", "kernels of 2, on axis 1 of w"]),
        (X, (6, 3, 3, 3), {}, ["kernels have 3 channels", "kernels of 4"]),
        ((2, 9, 10, 4), W, {"layout": "NHWC"}, ["kernels have 3 channels", "on axis -1 of w"]),
        (X, (6, 4, 3, 11), {}, ["spatial dimension 1", "11 taps reach over 11", "only 10"]),
        (X, W, {"dilation": (5, 1)}, ["spatial dimension 0", "reach over 11", "dilation 5", "only 9"]),
        (X, (6, 4, 13, 3), {"padding": ((1, 2), 0)}, ["only 12", "9 and padding (1, 2)"]),
        (X, W, {"padding": 2**31 - 1}, ["padding=2147483647", "no memory holds"]),
    ],
    ids=str,
)
def test_shapes_that_are_refused(x, w, options, words):
    refused(numbacc.ShapeError, *words, run=lambda: geometry(x, w, **options))


def test_shapes_are_called_what_the_user_calls_them():
    refused(numbacc.ShapeError, "w has shape", "x_shape=(2, 3, 9, 10)", "on axis 1 of w",
            run=lambda: geometry((2, 3, 9, 10), W, names=("x_shape", "w")))  # fmt: skip
    refused(numbacc.ShapeError, "w_shape=(6, 3, 3, 3)", "on axis 1 of w_shape",
            run=lambda: geometry(X, (6, 3, 3, 3), names=("x", "w_shape")))  # fmt: skip
    refused(numbacc.ShapeError, "x_shape='x' is not", run=lambda: conv.output_shape("x", W))
    refused(numbacc.ShapeError, "w_shape=(6, 4.0, 3, 3) is not", run=lambda: conv.output_shape(X, (6, 4.0, 3, 3)))
