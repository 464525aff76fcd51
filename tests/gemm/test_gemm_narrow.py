"""Products of 8-bit numbers: float8 with its scales, and int8."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Place, refused
from gemm_call import BY_COLUMNS, BY_ROWS, E4, E5, EPILOGUES, F32, Call8
from skips import skip

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.base.dispatch import runtime
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError

pytestmark = pytest.mark.usefixtures("poison")

OUTS = ("bfloat16", "float16", "float32", E4, E5)
#: What cuBLASLt has for every GPU that multiplies float8.
FUSED = ("none", "bias", "relu", "relu_bias", "gelu", "gelu_bias")


def in_hardware(place, kind="none", out="bfloat16", a=E4, b=E4):
    """What must not be missing: on a GPU what every cuBLASLt has, in the simulator the same epilogues."""
    if place.name == "gpu":
        return kind in FUSED and out != E5 and not (a == b == E5)
    return not place.is_device or kind in FUSED


@pytest.mark.parametrize("out", OUTS)
@pytest.mark.parametrize("a, b", [(E4, E4), (E4, E5), (E5, E4), (E5, E5)], ids=str)
def test_float8(place, a, b, out):
    shapes = [(5, 16, 32)] if place.is_slow else [(32, 48, 64), (5, 16, 16), (1, 32, 48)]
    for shape in shapes:
        Call8(place, shape, a=a, b=b, out=out).check(in_hardware(place, out=out, a=a, b=b))
    layouts = {"out": BY_ROWS}
    Call8(place, (16, 16, 32), a=a, b=b, out=out, layouts=layouts).check(in_hardware(place, out=out, a=a, b=b))


@pytest.mark.parametrize("kind", [kind for kind in EPILOGUES if "bgrad" not in kind])
@pytest.mark.parametrize("out", ["bfloat16", "float32", E4])
@pytest.mark.parametrize("shape", [(0, 48, 64), (32, 0, 64)], ids=str)
def test_an_empty_product_of_float8(place, kind, out, shape):
    """Nothing is computed, whatever dtypes aux and bias have."""
    Call8(place, shape, kind, out=out).check()


@pytest.mark.parametrize("kind", EPILOGUES)
@pytest.mark.parametrize("out", ["bfloat16", "float16", "float32", E4])
def test_float8_epilogues(place, kind, out):
    scales = {"scale_a": 2.0, "scale_b": 0.25}
    required = in_hardware(place, kind, out) and (not place.is_device or out in ("bfloat16", "float16"))
    Call8(place, kind=kind, out=out, scales=scales).check(required)


@pytest.mark.parametrize(
    "out, in_place",
    # Of a float8 result c has 16 bits, and is not the result.
    [("bfloat16", False), ("bfloat16", True), ("float32", False), ("float32", True), (E4, False)],
    ids=["bfloat16", "bfloat16, in place", "float32", "float32, in place", E4],
)
def test_float8_with_c(place, out, in_place):
    more = {"in_place": in_place, "beta": 0.5, "alpha": -1.5}
    Call8(place, out=out, layouts={"out": BY_ROWS}, **more).check()
    Call8(place, out=out, scales={"scale_c": 3.0}, beta=0.5, alpha=-1.5).check()


def test_float8_in_batches(place):
    for batches in (((3,), (3,)), ((2, 3), (3,)), ((3,), ())):
        Call8(place, (16, 16, 32), batch_a=batches[0], batch_b=batches[1]).check()


@pytest.mark.parametrize("compute", [None, "fast"])
@pytest.mark.parametrize("out", ["bfloat16", E4])
def test_compute(place, compute, out):
    call = Call8(place, out=out, compute=compute)
    call.check()
    info = call.plan().info
    assert (info.math_dtype, info.accumulator_dtype) == (compute or "float32", "float32")


# ---------------------------------------------------------------- scales


@pytest.mark.parametrize("out", ["bfloat16", "float32", E4])
@pytest.mark.parametrize("one", [(1,), (), (1, 1)], ids=str)
def test_scales_in_memory(place, out, one):
    scales = {"scale_a": np.full(one, 0.5, F32), "scale_b": np.full(one, 4, F32)}
    Call8(place, out=out, scales=scales).check()
    Call8(place, out=out, scales={"scale_b": scales["scale_b"]}).check()
    Call8(place, out=out, scales={**scales, "scale_a": 3.0}).check()


@pytest.mark.parametrize("out", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("lying", [False, True], ids=["(m,), (n,)", "(m, 1), (1, n)"])
def test_a_scale_for_each_row_and_column(place, out, lying):
    rng = np.random.default_rng(5)
    a, b = (np.exp2(rng.integers(-2, 3, n)).astype(F32) * rng.uniform(1, 2, n).astype(F32) for n in (32, 48))
    scales = {"scale_a": a[:, None] if lying else a, "scale_b": b[None, :] if lying else b}
    Call8(place, out=out, scales=scales).check(required=False)


@pytest.mark.parametrize("rows", [16, 1])
@pytest.mark.parametrize("batches", [((3,), (3,)), ((2, 3), ()), ((3, 1), (1, 2))], ids=str)
def test_a_scale_for_each_row_serves_every_matrix_of_a_batch(place, batches, rows):
    a, b = (np.linspace(0.5, 2, n, dtype=F32) for n in (rows, 48))
    for kind in ("none", "relu_bias"):
        call = Call8(
            place, (rows, 48, 64), kind, scales={"scale_a": a, "scale_b": b}, batch_a=batches[0], batch_b=batches[1]
        )
        call.check(required=False)


@pytest.mark.parametrize("scale", [2.5, 0.125])
@pytest.mark.parametrize("in_memory", [False, True], ids=["number", "memory"])
def test_the_scale_of_a_float8_result(place, scale, in_memory):
    call = Call8(place, out=E4, scales={"scale_d": np.full(1, scale, F32) if in_memory else scale})
    call.check()
    Call8(place, kind="relu_bias", out=E4, scales={"scale_d": scale}).check(required=False)


@pytest.mark.parametrize("kind", ["none", "relu", "gelu_bias"])
def test_amax(place, kind):
    """The largest |D| before its scale, whatever was in the memory before."""
    amax = place.put(np.full(1, 1e9, F32))
    call = Call8(place, kind=kind, out=E4, scales={"scale_d": 0.5}, options={"amax_d": amax})
    call.check(kind == "none" or place.is_slow, amax)


def test_amax_of_nothing_is_0(place):
    a, w = place.put(np.zeros((0, 32), dtypes.dtype(E4))), place.put(np.zeros((16, 32), dtypes.dtype(E4)))
    amax = place.put(np.full(1, 1e9, F32))
    assert gemm.matmul(a, w.T, out_dtype=E4, amax_d=amax).shape == (0, 16)
    assert place.get(amax) == 0


def test_scales_may_be_numpys_numbers(place):
    a, b = matrices(place)
    one, two = (gemm.matmul(a, b, scale_a=number) for number in (np.float32(2), 2.0))
    np.testing.assert_array_equal(place.get(one).astype(F32), place.get(two).astype(F32))


def test_scale_c_in_memory(numpy_place):
    a, b = matrices(numpy_place)
    c = np.ones((a.shape[0], b.shape[1]), dtypes.dtype("bfloat16"))
    one, two = (gemm.matmul(a, b, c=c, beta=2.0, scale_c=scale) for scale in (np.full(1, 0.5, F32), 0.5))
    np.testing.assert_array_equal(one.astype(F32), two.astype(F32))


def test_a_single_row_has_one_scale_and_b_one_a_column(numpy_place):
    a, w = np.ones((1, 16), dtypes.dtype(E4)), np.ones((32, 16), dtypes.dtype(E4))
    columns = np.arange(32, dtype=F32)
    found = gemm.matmul(a, w.T, scale_a=np.full(1, 2, F32), scale_b=columns, out_dtype="float32")
    np.testing.assert_array_equal(found, 32 * columns[None, :])


@pytest.mark.parametrize("out, largest", [(E4, 448.0), (E5, 57344.0)])
def test_float8_results_saturate(place, out, largest):
    """What is beyond the range becomes the largest number, not NaN or infinity."""
    a = np.zeros((16, 32))
    a[0, 0], a[1, 0], a[2, 0] = 2, -2, 1
    b = np.zeros((32, 16))
    b[0] = 448
    call = Call8(place, (16, 16, 32), b=E4 if out == E4 else E5, out=out, alpha=largest / 448, inputs={"a": a, "b": b})
    call.check(out == E4)
    if not place.is_device or out == E4:
        found = place.get(call.run()).astype(np.float64)
        assert found[:4, 3].tolist() == [largest, -largest, largest, 0]


@pytest.mark.parametrize("kind", ["bgrada", "bgradb", "drelu_bgrad", "dgelu_bgrad"])
def test_sums_in_float8_saturate(place, kind):
    """As `out` does: what is beyond the range becomes the largest number, not NaN."""
    a = np.full((16, 32), 256.0)
    a[1] *= -1
    b = np.full((32, 16), 256.0)
    b[:, 1] *= -1
    given = {"a": a, "b": b, "aux": np.full((16, 2), 255, np.uint8) if "relu" in kind else np.full((16, 16), 8.0)}
    if kind.startswith("d"):
        given["a"] = np.full((16, 32), 1.0)
    call = Call8(place, (16, 16, 32), kind, out=E4, inputs=given)
    try:
        _, found = call.results(call.run())
    except numbacc.UnsupportedError:
        assert place.is_device
        skip("no product")
    assert found[:3].astype(float).tolist() == [448, -448, 448]


@pytest.mark.parametrize("kind", ["bgrada", "bgradb"])
def test_sums_of_a_and_b_are_unscaled(place, kind):
    """Neither alpha nor a scale is a factor of them."""
    scales = {"scale_a": 4.0, "scale_b": np.full(1, 0.5, F32)}
    inputs = {"a": np.full((16, 32), 0.5), "b": np.full((32, 16), 2.0)}
    call = Call8(place, (16, 16, 32), kind, scales=scales, alpha=3.0, inputs=inputs)
    try:
        out, found = call.results(call.run())
    except numbacc.UnsupportedError:
        assert place.is_device
        skip("no product")
    assert (out.astype(F32) == 32 * 0.5 * 2.0 * 4 * 0.5 * 3).all()
    assert (found.astype(F32) == {"bgrada": 16, "bgradb": 64}[kind]).all()


def test_a_scale_of_nan_is_seen(numpy_place):
    call = Call8(numpy_place, scales={"scale_a": float("nan")})
    assert np.isnan(call.run().astype(np.float32)).all()


# ---------------------------------------------------------------- what float8 refuses


def matrices(place, m=16, n=16, k=32, a=E4, b=E4):
    left, right = np.ones((m, k)).astype(dtypes.dtype(a)), np.ones((n, k)).astype(dtypes.dtype(b))
    return place.put(left), place.put(right).T


@pytest.mark.parametrize("n, k", [(16, 24), (16, 1), (8, 32), (17, 32)])
def test_float8_comes_in_sixteens(place, n, k):
    a, b = matrices(place, n=n, k=k)
    refused(ShapeError, "multiples of 16", a.shape, b.shape, run=lambda: gemm.matmul(a, b))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [E4, "int8"])
def test_matrices_stored_as_tensor_cores_do_not_take_them(dtype):
    place = Place("gpu")
    a, b = matrices(place, a=dtype, b=dtype)
    rows, columns = (place.put(np.ones((32, 16)).astype(dtypes.dtype(dtype))) for _ in range(2))
    wide = place.put(np.ones((16, 33)).astype(dtypes.dtype(dtype)))[:, :32]
    if runtime().capability(0) >= (10, 0):
        assert (place.get(gemm.matmul(columns.T, rows)).astype(F32) == 32).all()
    else:
        refused(LayoutError, "b has strides", "column", run=lambda: gemm.matmul(a, rows))
        refused(LayoutError, "a has strides", "row", run=lambda: gemm.matmul(columns.T, b))
        refused(LayoutError, "a has strides", "multiples", run=lambda: gemm.matmul(wide, b))


def test_scales_are_for_float8(place):
    a, b = (place.put(np.ones((16, 16), F32)) for _ in range(2))
    for name in ("scale_a", "scale_b", "scale_c", "scale_d"):
        for value in (2.0, place.put(np.ones(1, F32))):
            refused(OptionError, name, "float8", run=lambda n=name, v=value: gemm.matmul(a, b, **{n: v}))
    refused(OptionError, "amax_d", "float8", run=lambda: gemm.matmul(a, b, amax_d=place.put(np.ones(1, F32))))


def test_scales_that_do_not_fit(place):
    a, b = matrices(place, m=16, n=48)

    def put(shape, dtype="float32", **layout):
        return place.operand(np.ones(shape, dtypes.dtype(dtype)), **layout).view

    rows, columns, one = put((16,)), put((48,)), put((1,))
    cases = [
        (ShapeError, ("scale_a", (3,), (16,)), {"scale_a": put((3,)), "scale_b": columns}),
        (ShapeError, ("scale_b", (16,), (48,)), {"scale_a": rows, "scale_b": rows}),
        (ShapeError, ("scale_a", (1, 16)), {"scale_a": put((1, 16)), "scale_b": columns}),
        (ShapeError, ("scale_d", (2,), "one element"), {"scale_d": put((2,)), "out_dtype": E4}),
        (ShapeError, ("amax_d", (2,), "one element"), {"amax_d": put((2,)), "out_dtype": E4}),
        (DTypeError, ("scale_a", "float64", "float32"), {"scale_a": put((1,), "float64")}),
        (DTypeError, ("amax_d", "bfloat16", "float32"), {"amax_d": put((1,), "bfloat16"), "out_dtype": E4}),
        (DTypeError, ("scale_a is a str",), {"scale_a": "2"}),
        (DTypeError, ("scale_b is a bool",), {"scale_b": True}),
        (DTypeError, ("amax_d is a float",), {"amax_d": 1.0, "out_dtype": E4}),
        (LayoutError, ("scale_a", "must be contiguous"), {"scale_a": put((16,), steps=(2,)), "scale_b": columns}),
        (LayoutError, ("scale_a", "must be contiguous"), {"scale_a": put((16, 3))[:, 1:2], "scale_b": columns}),
        (LayoutError, ("scale_b", "must be contiguous"), {"scale_a": rows, "scale_b": columns[::-1]}),
        (OptionError, ("scale_a and scale_b", "both"), {"scale_a": rows, "scale_b": one}),
        (OptionError, ("scale_a and scale_b", "both"), {"scale_b": columns}),
        (OptionError, ("float8 result",), {"scale_a": rows, "scale_b": columns, "out_dtype": E4}),
        (OptionError, ("scale_d", "float8 result", "bfloat16"), {"scale_d": 2.0}),
        (OptionError, ("amax_d", "float8 result", "float16"), {"amax_d": one, "out_dtype": "float16"}),
        (OptionError, ("scale_c", "without c"), {"scale_c": 2.0}),
        (DTypeError, ("c has dtype", "bfloat16"), {"c": put((16, 48), E4), "beta": 1.0, "out_dtype": E4}),
        (DTypeError, ("bias has dtype", "bfloat16"), {"bias": put((48,)), "epilogue": "bias", "out_dtype": "float32"}),
    ]
    for error, words, given in cases:
        refused(error, *words, run=lambda given=given: gemm.matmul(a, b, **given))
        refused(error, *words, run=lambda given=given: gemm.matmul.plan(a, b, **given))


def test_amax_is_read_only(numpy_place):
    a, b = matrices(numpy_place)
    amax = np.ones(1, F32)
    amax.flags.writeable = False
    refused(LayoutError, "amax_d", "read-only", run=lambda: gemm.matmul(a, b, amax_d=amax, out_dtype=E4))


@pytest.mark.parametrize("dtype", [E4, E5])
def test_what_is_missing_is_said(device_place, dtype):
    """No kernel replaces a float8 product: the error tells what was asked for, and where."""
    if dtype == E4 and device_place.name == "gpu":
        skip("has product")
    a, b = matrices(device_place, a=dtype, b=dtype)
    kind = "none" if device_place.name == "gpu" else "dgelu_bgrad"
    aux = {} if kind == "none" else {"aux": device_place.put(np.ones((16, 16)).astype(dtypes.dtype("bfloat16")))}
    run = lambda: gemm.matmul(a, b, epilogue=kind, **aux)  # noqa: E731
    refused(numbacc.UnsupportedError, "cuBLASLt", "compute capability", dtype, kind, run=run)


# ---------------------------------------------------------------- int8


def int8(place, *shape, seed=0, by_columns=False):
    values = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    return values, place.operand(values, **(BY_COLUMNS if by_columns else {})).view


@pytest.mark.parametrize("m, n, k", [(4, 4, 4), (32, 48, 64), (16, 8, 400), (1, 16, 32), (5, 16, 32), (8, 4, 0)])
def test_int8_is_exact(place, m, n, k):
    a, left = int8(place, m, k)
    b, right = int8(place, k, n, seed=1, by_columns=True)
    want = a.astype(np.int64) @ b.astype(np.int64)
    result = gemm.matmul(left, right)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(place.get(result), want)
    for alpha, beta in ((3, 0), (-1, 2)):
        c = np.random.default_rng(2).integers(-1000, 1000, (m, n)).astype(np.int32)
        out = place.put(c)
        assert gemm.matmul(left, right, c=out, alpha=alpha, beta=beta, out=out) is out
        np.testing.assert_array_equal(place.get(out), alpha * want + beta * c)


def test_sums_of_int8_wrap(place):
    """2^17 + 1 products of 2^14 are 2^31 + 2^14: beyond the largest number of 32 bits they go on from the smallest."""
    k = 2**17 + 4
    a, b = (place.put(np.full(shape, -128, np.int8)) for shape in ((4, k), (4, k)))
    np.testing.assert_array_equal(place.get(gemm.matmul(a, b.T)), 2**14 * k - 2**32)


def test_int8_in_batches(place):
    a, left = int8(place, 3, 8, 16)
    b, right = int8(place, 12, 16, seed=1)
    np.testing.assert_array_equal(place.get(gemm.matmul(left, right.T)), a.astype(int) @ b.T.astype(int))
    info = gemm.matmul.plan(left, right.T).info
    assert (info.dtypes, info.accumulator_dtype) == (("int8", "int8", "int32"), "int32")


@pytest.mark.parametrize("n, k", [(4, 6), (6, 4), (4, 1)])
def test_int8_comes_in_fours(place, n, k):
    _, a = int8(place, 4, k)
    _, b = int8(place, n, k)
    refused(ShapeError, "multiples of 4", a.shape, run=lambda: gemm.matmul(a, b.T))


@pytest.mark.parametrize("kind", [kind for kind in EPILOGUES if kind != "none"])
def test_int8_has_no_epilogue(place, kind):
    _, a = int8(place, 4, 4)
    refused(OptionError, "epilogue", kind, "int8", run=lambda: gemm.matmul(a, a.T, epilogue=kind))


@pytest.mark.parametrize("given", [{"alpha": 0.5}, {"beta": 1.5}, {"alpha": float("nan")}], ids=str)
def test_int8_takes_whole_factors(place, given):
    _, a = int8(place, 4, 4)
    c = place.put(np.ones((4, 4), np.int32))
    refused(OptionError, next(iter(given)), "integer", run=lambda: gemm.matmul(a, a.T, c=c, **given))
