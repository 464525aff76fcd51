"""How scans are called: out=, plans and their cache, threads, streams, graphs, NumPy's and the array API's names."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Operand, bits, refused
from scan_cases import NAMES, each_name
from skips import skip
from threads import run_threads

import numbacc
from numbacc import array_api as xp
from numbacc import elementwise as ew
from numbacc.base.dispatch import launcher_class

pytestmark = pytest.mark.usefixtures("poison", "small_scans")


def matrix(place):
    return place.put(np.arange(12, dtype=np.float32).reshape(3, 4) - 5)


@each_name
def test_axes(place, name):
    function, x = getattr(ew, name), matrix(place)
    wanted = getattr(np, name)(place.get(x), axis=1)
    for axis in (1, -1, np.int64(1)):
        np.testing.assert_array_equal(place.get(function(x, axis=axis)), wanted)
    for axis, words in [(2, ("axis=2", "rank 2", "-2 to 1")), (1.0, ("axis=1.0", "integer")), ("x", ("axis='x'",)),
                        ((0, 1), ("axis=(0, 1)",)), (True, ("axis=True",))]:  # fmt: skip
        refused(numbacc.ShapeError, *words, run=lambda axis=axis: function(x, axis=axis))


def test_refused_options(place):
    x = matrix(place)
    refused(numbacc.OptionError, "reverse=1", "True or False", run=lambda: ew.cumsum(x, reverse=1))
    refused(numbacc.DTypeError, "dtype='wide'", run=lambda: ew.cumsum(x, dtype="wide"))
    refused(numbacc.DTypeError, "dtype=bool", "cumprod", run=lambda: ew.cumprod(x, dtype=bool))
    z = place.put(np.ones(3, np.complex64))
    refused(numbacc.DTypeError, "dtype=float32", "complex64", run=lambda: ew.cumsum(z, dtype="float32"))
    refused(numbacc.DTypeError, "x is a list", run=lambda: ew.cumsum([1.0, 2.0]))
    refused(numbacc.DTypeError, "dy is a list", run=lambda: ew.cumsum_backward([1.0, 2.0], axis=0))


def test_refused_outs(place):
    x = matrix(place)
    for shape, dtype, error, words in [
        ((3,), "float32", numbacc.ShapeError, ("out has shape (3,)", "the result has shape (3, 4)")),
        ((3, 4), "float64", numbacc.DTypeError, ("out has dtype float64", "float32")),
    ]:
        out = place.put(np.zeros(shape, dtype))
        refused(error, *words, run=lambda out=out: ew.cumsum(x, axis=0, out=out))
    refused(numbacc.LayoutError, "out overlaps x", run=lambda: ew.cumsum(x[:2], axis=0, out=x[1:]))
    refused(numbacc.LayoutError, "out overlaps x", run=lambda: ew.cumsum(x, out=x.reshape(12)))
    pair = (place.put(np.zeros((3, 4), np.float32)),) * 2
    refused(numbacc.ShapeError, "tuple of 2", "one result", run=lambda: ew.cumsum(x, axis=0, out=pair))
    repeated = Operand(place, np.zeros((3, 4), np.float32), steps=(0, 1)).view
    refused(numbacc.LayoutError, "out", run=lambda: ew.cumsum(x, axis=0, out=repeated))
    if place.is_device:
        host = np.zeros((3, 4), np.float32)
        refused(numbacc.DeviceError, "out is in host memory", run=lambda: ew.cumsum(x, axis=0, out=host))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_in_place(place, dtype, reverse):
    """Also of rows that start anywhere, and in three passes."""
    long = 90 if place.is_slow else 40_000
    for shape, axis, start in (((3, 37), 1, 1), ((3, 37), 0, 0), ((2, long), 1, 3), ((long, 2), 0, 0), ((5, 64), 1, 0)):
        values = np.random.default_rng(0).standard_normal(shape).astype(numbacc.base.dtypes.TABLE[dtype].numpy)
        x = place.operand(values, margins=[(0, 0), (start, 1)])
        wanted = place.get(ew.cumsum(x.view, axis=axis, reverse=reverse))
        assert ew.cumsum(x.view, axis=axis, reverse=reverse, out=x.view) is x.view
        # Where results start elsewhere than x, tiles do too, and numbers are added in another order.
        eps = np.finfo(np.float32).eps if dtype == "float32" else 2.0**-7
        np.testing.assert_allclose(x.now().astype(float), wanted.astype(float), rtol=eps, atol=8 * long**0.5 * eps)
        x.assert_written_only()


def test_results_lie_as_x_does(place):
    x = place.put(np.ones((2, 3, 4), np.float32).transpose(2, 0, 1).copy(order="F"))
    assert ew.cumsum(x, axis=0).strides == x.strides
    assert ew.cumsum(x).strides == (4,)


# ---------------------------------------------------------------- plans


@pytest.mark.parametrize("name", [*NAMES, "cumsum_backward"])
def test_plans(place, name):
    x, other = matrix(place), place.put(np.ones((4, 3), np.float32))
    plan, wanted = getattr(ew, name).plan(x, axis=1), place.get(getattr(ew, name)(x, axis=1))
    np.testing.assert_array_equal(place.get(plan(x)), wanted)
    assert plan.info.op == f"elementwise.{name}" and plan.info.deterministic
    assert plan.info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert (plan.info.math_dtype, plan.info.accumulator_dtype) == ("float32", "float32")
    assert f"plan of elementwise.{name}" in repr(plan)
    refused(numbacc.LayoutError, "elementwise", run=lambda: plan(other))
    refused(numbacc.LayoutError, "without out", run=lambda: plan(x, out=other))
    out = place.empty((3, 4), np.dtype(np.float32))
    getattr(ew, name).plan(x, axis=1, out=out.view)(x, out=out.view)
    np.testing.assert_array_equal(out.now(), wanted)


def test_plans_of_the_gradient_of_products(place):
    dy, x = matrix(place), place.put(np.ones((3, 4), np.float32))
    plan = ew.cumprod_backward.plan(dy, x, axis=1)
    wanted = place.get(ew.cumsum_backward(dy, axis=1))  # all factors are 1
    np.testing.assert_array_equal(place.get(plan(dy, x)), wanted)
    assert plan.info.op == "elementwise.cumprod_backward" and plan.info.deterministic
    refused(numbacc.LayoutError, "dy, x", run=lambda: plan(dy))
    stream = numbacc.stream()
    if place.is_device:
        with numbacc.graph(stream) as graph:
            result = ew.cumprod_backward(dy, x, axis=1, stream=stream)
        graph.launch()
        np.testing.assert_array_equal(place.get(result), wanted)


@each_name
def test_a_second_call_hits_the_cache(place, name):
    x, function = matrix(place), getattr(ew, name)
    ew.cache_clear()
    for axis in (0, None):
        function(x, axis=axis)
    assert (ew.cache_info().hits, ew.cache_info().misses) == (0, 2)
    function(x, axis=0)
    function(matrix(place))
    assert (ew.cache_info().hits, ew.cache_info().misses) == (2, 2)
    function(x, axis=0, reverse=True)
    for dtype in ("float64", np.float64, np.dtype(float)):
        function(x, axis=0, dtype=dtype)
    assert ew.cache_info().misses == 4


def test_the_same_bits_twice(place):
    values = np.random.default_rng(1).standard_normal((3, 100 if place.is_slow else 30_000)).astype(np.float32)
    for axis in (0, 1, None):
        one, other = (place.get(ew.cumsum(place.put(values), axis=axis)) for _ in range(2))
        np.testing.assert_array_equal(bits(one), bits(other))


def test_eight_threads(place):
    ew.cache_clear()
    values = np.random.default_rng(2).integers(-9, 9, (6, 50)).astype(np.float32)
    shared = place.put(values)

    def work(k):
        for _ in range(1 if place.is_slow else 20):
            for axis in (0, 1, None):
                np.testing.assert_array_equal(place.get(ew.cumsum(shared, axis=axis)), np.cumsum(values, axis=axis))
            own = place.put(values + np.float32(k))
            ew.cumsum(own, axis=1, reverse=True, out=own)
            wanted = np.cumsum(values[:, ::-1] + np.float32(k), axis=1)[:, ::-1]
            np.testing.assert_array_equal(place.get(own), wanted)

    run_threads(work, 3 if place.is_slow else 8)


def test_streams(place):
    values = np.random.default_rng(3).integers(-3, 4, (2, 80 if place.is_slow else 100_000)).astype(np.float64)
    x, wanted, streams = place.put(values), values, [None, numbacc.stream(), numbacc.stream()]
    for k in range(3):
        x = ew.cumsum(x, axis=k % 2, stream=streams[k], **({"out": x} if k == 1 else {}))
        wanted = np.cumsum(wanted, axis=k % 2)
    np.testing.assert_array_equal(place.get(x), wanted)


@pytest.mark.parametrize("compiles", [True, False])
def test_graphs(device_place, compiles, monkeypatch):
    """Captured, and launched on other numbers; on arrays that start elsewhere than those that were scanned before.

    Where nothing may be compiled the kernels that are there take them, element by element.
    """
    columns = 64 if device_place.is_slow else 40_000
    values = np.random.default_rng(4).integers(-9, 9, (4, columns)).astype(np.float32)
    x = device_place.put(np.zeros((5, columns), np.float32))
    calls = [{"axis": axis, "reverse": reverse} for axis in (0, 1) for reverse in (False, True)]
    for options in calls:
        ew.cumsum(x[:4], **options)
    shifted = device_place.operand(values, margins=[(0, 0), (1, 3)])
    for options in calls:  # a plan for its strides, and a kernel for another start
        ew.cumsum(device_place.operand(values, margins=[(0, 0), (0, 4)]).view, **options)
    stream = numbacc.stream()
    if not compiles:
        monkeypatch.setattr(launcher_class(), "is_loaded", staticmethod(lambda kernel, device: False))
    with numbacc.graph(stream) as graph:
        results = [ew.cumsum(a, stream=stream, **options) for a in (x[:4], shifted.view) for options in calls]
    x[:4] = device_place.put(values)
    for _ in range(2):
        graph.launch()
    for result, options in zip(results, calls * 2, strict=True):
        axis = options["axis"]
        wanted = (
            np.flip(np.cumsum(np.flip(values, axis), axis), axis) if options["reverse"] else np.cumsum(values, axis)
        )
        np.testing.assert_array_equal(device_place.get(result), wanted)


def test_unaligned_arrays_have_a_plan_of_their_own_alignment(device_place):
    """One layout, several addresses: the kernel is the one that fits."""
    values = np.random.default_rng(5).integers(-9, 9, (4, 43)).astype(np.float32)
    for start in (0, 1, 2, 3, 0):
        x = device_place.operand(values, margins=[(0, 0), (start, 5 - start)])
        for axis in (0, 1):
            np.testing.assert_array_equal(device_place.get(ew.cumsum(x.view, axis=axis)), np.cumsum(values, axis))


# ---------------------------------------------------------------- other names


def test_methods_and_numpy(device_place):
    values = np.arange(12, dtype=np.int32).reshape(3, 4) - 4
    x = device_place.put(values)
    for axis in (None, 0, 1):
        for name in NAMES:
            wanted, function = getattr(np, name)(values, axis=axis), getattr(np, name)
            for got in (getattr(x, name)(axis), getattr(x, name)(axis=axis), function(x, axis), function(x, axis=axis)):
                assert got.dtype == wanted.dtype == np.int64
                np.testing.assert_array_equal(device_place.get(got), wanted)
    got = device_place.get(np.cumsum(x, dtype=np.float32))
    assert got.dtype == np.float32
    out = device_place.put(np.zeros((3, 4), np.int64))
    assert np.cumsum(x, axis=0, out=out) is out
    np.testing.assert_array_equal(device_place.get(np.add.accumulate(x)), np.add.accumulate(values))
    np.testing.assert_array_equal(
        device_place.get(np.multiply.accumulate(x, axis=1)), np.multiply.accumulate(values, axis=1)
    )
    refused(numbacc.DTypeError, "maximum.accumulate", run=lambda: np.maximum.accumulate(x))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "complex64", "bfloat16"])
@pytest.mark.parametrize("name, first", [("cumulative_sum", 0), ("cumulative_prod", 1)])
def test_array_api(place, name, first, dtype):
    dtype = numbacc.base.dtypes.TABLE[dtype].numpy
    values = np.array([[1, 2, 3, 1], [2, 1, 1, 2]]).astype(dtype)
    function, scan = getattr(xp, name), np.cumsum if first == 0 else np.cumprod
    kept = {"i": np.int64, "u": np.uint64}.get(dtype.kind, dtype)
    for axis in (0, 1, -1):
        wanted = scan(values.astype(complex), axis=axis)
        got = place.get(function(place.put(values), axis=axis))
        assert got.dtype == kept
        np.testing.assert_array_equal(got.astype(complex), wanted)
        got = place.get(function(place.put(values), axis=axis, include_initial=True))
        ahead = np.full([1 if d == axis % 2 else n for d, n in enumerate(values.shape)], first)
        assert got.dtype == kept
        np.testing.assert_array_equal(got.astype(complex), np.concatenate([ahead, wanted], axis))
    wide = xp.complex128 if dtype.kind == "c" else xp.float64
    got = place.get(function(place.put(values[0]), dtype=wide, include_initial=True))
    assert got.dtype == wide and got.shape == (5,)
    for wrong in (values, np.ones((), dtype)):
        refused(numbacc.ShapeError, "axis=None", run=lambda wrong=wrong: function(place.put(wrong)))


def test_torch_tensors(place, torch):
    if place.name == "simulator":
        skip("gpu")
    tensor = torch.arange(12.0, device="cuda" if place.name == "gpu" else "cpu").reshape(3, 4)
    np.testing.assert_array_equal(place.get(ew.cumsum(tensor, axis=1)), np.cumsum(np.arange(12.0).reshape(3, 4), 1))
    ew.cumsum(tensor.T, axis=0, out=tensor.T)
    np.testing.assert_array_equal(tensor.cpu().numpy(), np.cumsum(np.arange(12.0).reshape(3, 4), 1))


def test_refused_backward(place):
    x, other = place.put(np.ones((2, 3), np.float32)), place.put(np.ones((3, 2), np.float32))
    wide, whole, part = place.put(np.ones((2, 3))), place.put(np.ones((2, 3), np.int32)), x[:, :2]
    for error, words, run in [
        (numbacc.ShapeError, ("dy has shape (3, 2)", "(2, 3)"), lambda: ew.cumprod_backward(other, x, axis=0)),
        (numbacc.DTypeError, ("dy has dtype float64", "float32"), lambda: ew.cumprod_backward(wide, x, axis=0)),
        (numbacc.DTypeError, ("x has dtype int32",), lambda: ew.cumprod_backward(whole, whole, axis=0)),
        (numbacc.DTypeError, ("dy is a list",), lambda: ew.cumprod_backward([1.0], x, axis=0)),
        (numbacc.ShapeError, ("axis=2", "rank 2"), lambda: ew.cumprod_backward(x, x, axis=2)),
        (numbacc.errors.ArgumentsError, ("axis is missing",), lambda: ew.cumprod_backward(x, x, axis=None)),
        (numbacc.OptionError, ("reverse=1",), lambda: ew.cumprod_backward(x, x, axis=0, reverse=1)),
        (numbacc.ShapeError, ("out has shape (3, 2)",), lambda: ew.cumprod_backward(x, x, axis=0, out=other)),
        (numbacc.LayoutError, ("out overlaps dy",), lambda: ew.cumprod_backward(part, part, axis=0, out=x[:, 1:])),
    ]:  # fmt: skip
        refused(error, *words, run=run)


def test_backward_in_the_dtype_of_x(place):
    dy = np.ones((2, 3), np.float32)
    got = place.get(ew.cumsum_backward(place.put(dy), axis=1, dtype="float16"))
    np.testing.assert_array_equal(got, np.array([[3, 2, 1]] * 2, np.float16))
    refused(
        numbacc.DTypeError, "dy has dtype int32", run=lambda: ew.cumsum_backward(place.put(np.ones(3, "i4")), axis=0)
    )
    refused(
        numbacc.errors.ArgumentsError,
        "axis is missing",
        run=lambda: ew.cumsum_backward(place.put(dy), axis=None),
    )
