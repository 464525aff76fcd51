"""What matrix products refuse, with which error and message, and that nothing is written then."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import readonly, refused
from gemm_call import Call

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.errors import DeviceError, DTypeError, LayoutError, OptionError, ShapeError

F32, U8 = np.dtype(np.float32), np.dtype(np.uint8)
#: Shapes of a, b and the result.
A, B, D = (4, 16), (16, 8), (4, 8)


def ones(place, shape, dtype="float32", **layout):
    return place.operand(np.ones(shape, dtypes.dtype(dtype)), **layout).view


def refused_everywhere(place, error, *words, **given):
    """`matmul` and its plan refuse, and write nothing to `out`."""
    dtype = given.pop("dtype", "float32")
    a, b = (ones(place, shape, dtype) for shape in (A, B))
    out = place.empty(D, F32)
    arguments = {"a": a, "b": b, **({"out": out.view} if dtype == "float32" else {}), **given}
    refused(error, *words, run=lambda: gemm.matmul(**arguments))
    if "alpha" not in given:  # which a plan does not depend on
        refused(error, *words, run=lambda: gemm.matmul.plan(**arguments))
    out.assert_untouched()


# ---------------------------------------------------------------- shapes


@pytest.mark.parametrize(
    "a, b", [((4, 6), (5, 8)), ((6,), (5, 8)), ((4, 6), (5,)), ((6,), (5,)), ((2, 4, 6), (2, 5, 8)), ((4, 0), (1, 8))],
    ids=str,
)  # fmt: skip
def test_columns_of_a_are_rows_of_b(place, a, b):
    refused_everywhere(place, ShapeError, "a", a, "b", b, a=ones(place, a), b=ones(place, b), out=None)


@pytest.mark.parametrize("batches", [((2,), (3,)), ((2, 3), (2,)), ((0,), (2,)), ((4, 2, 1), (3, 1))], ids=str)
def test_batches_do_not_broadcast(place, batches):
    a, b = ((*batch, *shape) for batch, shape in zip(batches, (A, B), strict=True))
    refused_everywhere(place, ShapeError, "a", a, "b", b, a=ones(place, a), b=ones(place, b), out=None)


@pytest.mark.parametrize("rank", [0, 9])
def test_ranks(place, rank):
    array = place.put(np.ones((1,) * rank, F32))
    refused_everywhere(place, ShapeError, "a has rank", rank, "1 to 8", a=array, out=None)
    refused_everywhere(place, ShapeError, "b has rank", rank, "1 to 8", b=array, out=None)


#: Operand, wrong shape, right shape, options.
SHAPES = [
    ("c", (8,), D, {"beta": 1.0}),
    ("c", (1, 8), D, {"beta": 1.0}),
    ("c", (8, 4), D, {"beta": 1.0}),
    ("c", (1, *D), D, {"beta": 1.0}),
    ("bias", (4,), (8,), {"epilogue": "bias"}),
    ("bias", (1,), (8,), {"epilogue": "relu_bias"}),
    ("bias", (1, 8), (8,), {"epilogue": "gelu_bias"}),
    ("bias", (8, 1), (8,), {"epilogue": "gelu_aux_bias"}),
    ("bias", (), (8,), {"epilogue": "bias"}),
    ("aux", (4, 1), D, {"epilogue": "dgelu"}),
    ("aux", (8, 4), D, {"epilogue": "dgelu_bgrad"}),
    ("aux", (1, *D), D, {"epilogue": "gelu_aux"}),
    ("aux", D, (4, 1), {"epilogue": "drelu"}),
    ("aux", (4, 16), (4, 1), {"epilogue": "drelu_bgrad"}),
    ("aux", (1,), (4, 1), {"epilogue": "relu_aux"}),
    ("out", (8, 4), D, {}),
    ("out", (8,), D, {}),
    ("out", (2, *D), D, {}),
    ("out", (), D, {}),
]


@pytest.mark.parametrize("name, shape, wanted, options", SHAPES, ids=str)
def test_shapes(place, name, shape, wanted, options):
    dtype = "uint8" if "relu" in options.get("epilogue", "") and name == "aux" else "float32"
    array = place.put(np.ones(shape, dtype))
    refused_everywhere(place, ShapeError, name, shape, wanted, **{name: array}, **options)
    if name == "aux":
        assert (place.get(array) == 1).all()


def test_a_bias_is_one_for_all_or_one_a_matrix(place):
    a, b = ones(place, (2, 3, *A)), ones(place, B)
    for shape in ((2, 8), (3, 8), (1, 1, 8), (2, 3, 1, 8)):
        bias = ones(place, shape)
        words = ("bias", shape, (8,), (2, 3, 8))
        refused_everywhere(place, ShapeError, *words, a=a, b=b, bias=bias, epilogue="bias", out=None)


# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int16", "complex64", "bool"])
def test_dtypes_that_are_not_multiplied(place, dtype):
    words = ("a has dtype", dtype, "float32", "bfloat16", "int8")
    refused_everywhere(place, DTypeError, *words, a=ones(place, A, dtype), b=ones(place, B, dtype), out=None)


@pytest.mark.parametrize("a, b", [("float32", "float64"), ("float16", "bfloat16"), ("int8", "float8_e4m3fn")])
def test_a_and_b_are_of_one_dtype(place, a, b):
    for one, two in ((a, b), (b, a)):
        left, right = ones(place, A, one), ones(place, B, two)
        refused_everywhere(place, DTypeError, "b has dtype", two, one, a=left, b=right, out=None)


#: Operand, its wrong dtype, what it should be, dtype of a and b, options.
DTYPES = [
    ("c", "float64", "float32", "float32", {"beta": 1.0}),
    ("c", "bfloat16", "float32", "bfloat16", {"beta": 1.0, "out_dtype": "float32"}),
    ("bias", "float32", "float16", "float16", {"epilogue": "bias"}),
    ("bias", "float16", "float32", "float16", {"epilogue": "gelu_bias", "out_dtype": "float32"}),
    ("bias", "int8", "float64", "float64", {"epilogue": "relu_bias"}),
    ("aux", "float32", "bfloat16", "bfloat16", {"epilogue": "dgelu", "aux_shape": D}),
    ("aux", "float64", "float32", "float32", {"epilogue": "gelu_aux", "aux_shape": D}),
    ("aux", "bool", "uint8", "float32", {"epilogue": "drelu", "aux_shape": (4, 1)}),
    ("aux", "int8", "uint8", "float32", {"epilogue": "relu_aux_bias", "aux_shape": (4, 1)}),
]


@pytest.mark.parametrize("name, dtype, wanted, ab, options", DTYPES, ids=str)
def test_dtypes_of_operands(place, name, dtype, wanted, ab, options):
    options = dict(options)
    shape = options.pop("aux_shape", (8,) if name == "bias" else D)
    more = {"bias": ones(place, (8,), ab)} if "aux_bias" in options.get("epilogue", "") else {}
    words = (name, dtype, wanted)
    refused_everywhere(place, DTypeError, *words, dtype=ab, **{name: ones(place, shape, dtype)}, **options, **more)


@pytest.mark.parametrize("a", ["float32", "float64", "float16", "bfloat16", "int8"])
def test_dtypes_of_results(place, a):
    allowed = {"float16": ["float16", "float32"], "bfloat16": ["bfloat16", "float32"], "int8": ["int32"]}.get(a, [a])
    for wanted in ("float32", "float64", "float16", "bfloat16", "int8", "int32", "float8_e5m2"):
        if wanted not in allowed:
            refused_everywhere(place, DTypeError, "result", a, wanted, *allowed, dtype=a, out_dtype=wanted)
            out = place.empty(D, dtypes.dtype(wanted))
            refused_everywhere(place, DTypeError, a, wanted, dtype=a, out=out.view)
            out.assert_untouched()
    out = place.empty(D, dtypes.dtype(allowed[0]))
    if len(allowed) > 1:
        refused_everywhere(place, DTypeError, "out has dtype", dtype=a, out=out.view, out_dtype=allowed[1])


@pytest.mark.parametrize("name", ["no such dtype", "float33", object, 3.5])
def test_unknown_out_dtype(place, name):
    refused_everywhere(place, DTypeError, dtype="float16", out_dtype=name)


@pytest.mark.parametrize("name", ["a", "b", "c", "bias", "aux", "out"])
@pytest.mark.parametrize("value", [3.0, "x", [[1.0]], np.float32(1)], ids=repr)
def test_no_array(place, name, value):
    more = {"c": {"beta": 1.0}, "bias": {"epilogue": "bias"}, "aux": {"epilogue": "dgelu"}}.get(name, {})
    refused_everywhere(place, DTypeError, f"{name} is a {type(value).__name__}", **{name: value}, **more)


@pytest.mark.parametrize("name", ["a", "b"])
def test_none_is_no_array(place, name):
    refused_everywhere(place, DTypeError, f"{name} is a NoneType", **{name: None})


# ---------------------------------------------------------------- layouts


@pytest.mark.parametrize("steps", [(1, 2), (2, 2), (-1, 1), (1, -1), (0, 1)], ids=str)
def test_neither_rows_nor_columns_are_gapless(place, steps):
    for name, shape in (("a", A), ("b", B), ("out", D)):
        if name == "out" and 0 in steps:
            continue
        layout = {"order": (1, 0)} if steps == (1, -1) else {}
        operand = place.operand(np.ones(shape, F32), steps=steps, **layout)
        strides = operand.view.strides
        refused_everywhere(place, LayoutError, name, strides, "are contiguous", **{name: operand.view})
        operand.assert_untouched()


@pytest.mark.parametrize("steps", [(0, 1), (1, 0), (0, 0)], ids=str)
def test_out_with_elements_that_share_memory(place, steps):
    refused_everywhere(place, LayoutError, "out", "share", out=ones(place, D, steps=steps))


def test_strides_that_are_no_multiples_of_the_size(numpy_place):
    raw = np.zeros(4 * 18, np.uint8)
    odd = np.ndarray((4, 4), np.float32, raw, 0, (18, 4))
    refused_everywhere(numpy_place, LayoutError, "a", "multiples", a=odd, b=np.ones((4, 8), F32))


def test_what_is_written_is_read_only(place):
    out, aux = readonly(place, place.empty(D, F32)), readonly(place, place.empty(D, F32))
    a, b, free = ones(place, A), ones(place, B), place.empty(D, F32)
    plan = gemm.matmul.plan(a, b, out=free.view)
    for run in (
        lambda: gemm.matmul(a, b, out=out.view),
        lambda: gemm.matmul(a, b, alpha=2.0, out=out.view),
        lambda: gemm.matmul(a, b, out=out.view, c=out.view, beta=1.0),
        lambda: plan(a, b, out=out.view),
    ):
        refused(LayoutError, "out", "read-only", run=run)
    run = lambda: gemm.matmul(a, b, epilogue="gelu_aux", out=free.view, aux=aux.view)  # noqa: E731
    refused(LayoutError, "aux", "read-only", run=run)
    for operand in (out, aux, free):
        operand.assert_untouched()


def test_inputs_may_be_read_only(place):
    a, b = (readonly(place, place.operand(np.ones(shape, F32))).view for shape in (A, B))
    np.testing.assert_array_equal(place.get(gemm.matmul(a, b)), np.full(D, 16))


def test_what_is_written_shares_memory(place):
    """With anything but c, and with c unless it is element for element `out`."""
    base = place.operand(np.ones((16, 32), F32))
    v = base.view
    a, b, bias, square = ones(place, (8, 8)), ones(place, (8, 8)), ones(place, (8,)), v[:8, :8]
    fresh = place.empty((8, 8), F32)
    cases = {
        "a": lambda: gemm.matmul(square, b, out=square),
        "b": lambda: gemm.matmul(a, square, out=square),
        "a, shifted": lambda: gemm.matmul(v[1:9, :8], b, out=square),
        "b, crosswise": lambda: gemm.matmul(a, square.T, out=square),
        "bias": lambda: gemm.matmul(a, b, bias=v[3, :8], epilogue="bias", out=square),
        "aux": lambda: gemm.matmul(a, b, aux=v[1:9, :8], epilogue="dgelu", out=square),
        "aux, in place": lambda: gemm.matmul(a, b, aux=square, epilogue="dgelu", out=square),
        "c": lambda: gemm.matmul(a, b, c=v[1:9, :8], beta=1.0, out=square),
        "c, crosswise": lambda: gemm.matmul(a, b, c=square.T, beta=1.0, out=square),
        "aux shares memory with a": lambda: gemm.matmul(square, b, aux=square, epilogue="gelu_aux", out=fresh.view),
        "aux shares memory with bias": lambda: gemm.matmul(
            a, b, bias=v[2, :8], aux=square, epilogue="gelu_aux_bias", out=fresh.view
        ),
        "with aux": lambda: gemm.matmul(a, b, aux=v[4:12, :8], epilogue="gelu_aux", out=square),
    }
    for name, run in cases.items():
        operand = name.split(",")[0] if "shares" not in name else name
        words = ("shares memory", operand) if name != "with aux" else ("shares memory", "out", "aux")
        refused(LayoutError, *words, run=run)
    plan = gemm.matmul.plan(v[:8, 8:16], b, out=square)
    refused(LayoutError, "shares memory", "a", run=lambda: plan(v[:8, :8], b, out=square))
    base.assert_untouched()
    fresh.assert_untouched()
    del bias


def test_neighbours_in_memory_do_not_overlap(place):
    """Columns of one array, side by side: the same stretch of memory, but no byte in common."""
    memory = place.operand(np.arange(8 * 24, dtype=F32).reshape(8, 24))
    v, values = memory.view, memory.values
    gemm.matmul(v[:, :8], v[:, 8:16], out=v[:, 16:])
    np.testing.assert_array_equal(memory.now()[:, 16:], values[:, :8] @ values[:, 8:16])
    np.testing.assert_array_equal(memory.now()[:, :16], values[:, :16])


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("epilogue", ["glu", "RELU", "", None, 3, ["relu"], {}, b"relu"], ids=repr)
def test_unknown_epilogue_names_the_known_ones(place, epilogue):
    refused_everywhere(place, OptionError, "epilogue", repr(epilogue), "gelu_aux_bias", "bgradb", epilogue=epilogue)


@pytest.mark.parametrize("dtype, compute", [
    ("float32", "float64"), ("float32", "fast"), ("float16", "tf32"), ("float64", "float32"), ("int8", "float32"),
    ("float8_e4m3fn", "tf32"), ("float32", 32), ("float32", ["tf32"]),
])  # fmt: skip
def test_unknown_compute(place, dtype, compute):
    refused_everywhere(place, OptionError, "compute", repr(compute), dtype, dtype=dtype, compute=compute)


@pytest.mark.parametrize("kind", [kind.value for kind in gemm.Epilogue])
def test_missing_and_unexpected_operands(place, kind):
    uses = gemm.Epilogue(kind)
    bits = uses.activation == "relu"
    bias, aux = ones(place, (8,)), ones(place, (4, 1) if bits else D, "uint8" if bits else "float32")
    given = {"bias": bias} if uses.uses_bias else {}
    if uses.uses_aux:
        refused_everywhere(place, OptionError, kind, "needs aux", epilogue=kind)
    elif not uses.produces_aux:
        refused_everywhere(place, OptionError, "aux is given", kind, epilogue=kind, aux=aux, **given)
    if uses.uses_bias:
        refused_everywhere(place, OptionError, kind, "needs bias", epilogue=kind)
    else:
        given = {"aux": aux} if uses.uses_aux else {}
        refused_everywhere(place, OptionError, "bias is given", kind, epilogue=kind, bias=bias, **given)


def test_beta_needs_c(place):
    refused_everywhere(place, OptionError, "beta needs c", beta=0.5)


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", ["x", None, [1.0, 2.0], 1j], ids=repr)
def test_factors_are_numbers(place, name, value):
    refused_everywhere(place, OptionError, name, repr(value), "number", c=ones(place, D), **{name: value})


@pytest.mark.parametrize("limit", [0, -1, 1.5, "1 MiB", True, [1]], ids=repr)
def test_workspace_limit_is_positive(place, limit):
    refused_everywhere(place, OptionError, "workspace_limit", repr(limit), "positive", workspace_limit=limit)


def test_a_small_workspace_limit_is_kept(place):
    call = Call(place, (16, 16, 64), options={"workspace_limit": 1})
    call.verify(call.run())
    assert call.plan().info.workspace_bytes <= 1


@pytest.mark.parametrize("stream", ["0", -1, 1.5, object], ids=repr)
def test_unknown_stream(place, stream):
    out = place.empty(D, F32)
    a, b = ones(place, A), ones(place, B)
    refused(OptionError, "stream", run=lambda: gemm.matmul(a, b, out=out.view, stream=stream))
    out.assert_untouched()


def test_options_are_named(place):
    with pytest.raises(TypeError):
        gemm.matmul(ones(place, A), ones(place, B), "none")


# ---------------------------------------------------------------- devices


def test_host_and_device_arrays_do_not_mix(device_place):
    def here(shape, dtype=F32):
        return ones(device_place, shape, dtype)

    out = device_place.empty(D, F32)
    host = {
        "a": np.ones(A, F32), "b": np.ones(B, F32), "c": np.ones(D, F32), "bias": np.ones(8, F32),
        "aux": np.ones(D, F32), "out": np.ones(D, F32),
    }  # fmt: skip
    more = {"c": {"beta": 1.0}, "bias": {"epilogue": "bias"}, "aux": {"epilogue": "dgelu"}}
    for name, array in host.items():
        arguments = {"a": here(A), "b": here(B), "out": out.view, **more.get(name, {}), name: array}
        refused(DeviceError, name, "NumPy", "cuda:0", "asarray", run=lambda given=arguments: gemm.matmul(**given))
        np.testing.assert_array_equal(array, 1)
        if name not in ("a", "b"):
            arguments |= {"a": np.ones(A, F32), "b": np.ones(B, F32), "out": None, name: device_place.put(array)}
            refused(DeviceError, name, "NumPy", "cuda:0", run=lambda given=arguments: gemm.matmul(**given))
    out.assert_untouched()


def test_scales_live_where_a_does(device_place):
    a, b = (ones(device_place, shape, "float8_e4m3fn") for shape in ((16, 16), (16, 16)))
    for name in ("scale_a", "scale_b"):
        refused(DeviceError, name, run=lambda name=name: gemm.matmul(a, b.T, **{name: np.ones(1, F32)}))


def test_every_error_is_pythons_too():
    assert issubclass(numbacc.UnsupportedError, NotImplementedError)
    assert issubclass(numbacc.UnsupportedError, numbacc.Error)


def test_options_are_looked_at_though_equal_ones_were_used(place):
    """The cache of plans must not take True and 1.0 for 1."""
    a = place.put(np.ones((4, 4), np.float32))
    gemm.matmul(a, a, workspace_limit=1)
    for limit in (True, 1.0):
        refused(OptionError, "workspace_limit", run=lambda limit=limit: gemm.matmul(a, a, workspace_limit=limit))
    refused(DTypeError, "dtype", run=lambda: gemm.matmul(a, a, out_dtype=""))


def test_factors_of_integers_are_integers(place):
    a = place.put(np.ones((4, 4), np.float32))
    refused(OptionError, "alpha", run=lambda: gemm.matmul(a, a, alpha=np.ones(2)))
    eight = np.ones((4, 4), np.int8)
    a, b = place.put(eight), place.put(eight).T
    plan = gemm.matmul.plan(a, b)
    for alpha in (0.5, 2**31):
        refused(OptionError, "alpha", run=lambda alpha=alpha: gemm.matmul(a, b, alpha=alpha))
        refused(OptionError, "alpha", run=lambda alpha=alpha: plan(a, b, alpha=alpha))


def test_layers_want_matrices(place):
    x, w = place.put(np.ones((2, 3, 4), np.float32)), place.put(np.ones((4, 5), np.float32))
    refused(ShapeError, "w", run=lambda: gemm.linear(x, place.put(np.ones((2, 4, 5), np.float32))))
    refused(ShapeError, "w", run=lambda: gemm.linear(x, place.put(np.ones(4, np.float32))))
    out = place.put(np.ones((3, 2, 5), np.float32))
    refused(ShapeError, "out", run=lambda: gemm.linear(x, w, out=out))
