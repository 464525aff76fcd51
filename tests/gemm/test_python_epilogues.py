"""`matmul` with Python functions as epilogues, and its derived gradients, against float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import readonly, refused, sentinel
from gemm_call import BY_COLUMNS, PADDED

import numbacc
from numbacc import elementwise, gemm
from numbacc.base import dtypes
from numbacc.errors import DTypeError, LayoutError, OptionError, ShapeError, UnsupportedError
from numbacc.functions import digamma

pytestmark = pytest.mark.usefixtures("poison")

#: dtype -> relative error of a result.
ERRORS = {"float32": 2e-5, "float64": 1e-12, "float16": 1e-3, "bfloat16": 8e-3, "float8_e4m3fn": 0.07}
factor = 1.5


def bent(x, bias):
    return max(x + bias, 0.0) ** 2


def several(x, row, column, whole, number):
    z = x * column + row
    return z / (1 + math.exp(-z)) + whole if z > number else whole, z > number, factor * z


def bent_in_numpy(x, bias):
    return np.maximum(x + bias, 0) ** 2


def several_in_numpy(x, row, column, whole, number):
    z = x * column + row
    return np.where(z > number, z / (1 + np.exp(-z)), 0) + whole, z > number, factor * z


def normal(shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtypes.dtype(dtype))


def close(place, found, wanted, scale=None):
    found = place.get(found) if not isinstance(found, np.ndarray) else found
    assert found.shape == wanted.shape
    if found.dtype == bool:
        assert (found != wanted).mean() <= 0.02
        return
    error = np.abs(found.astype(np.float64) - wanted).max(initial=0)
    assert error <= ERRORS[found.dtype.name] * max(np.abs(wanted).max(initial=0), scale or 0, 1e-30)


SHAPES = {
    "matrices": ((5, 7), (7, 6)),
    "one column": ((5, 7), (7, 1)),
    "shared b": ((2, 3, 7), (7, 4)),
    "shared a": ((3, 7), (2, 7, 4)),
    "both": ((2, 1, 3, 7), (3, 7, 5)),
    "row": ((7,), (7, 6)),
    "column": ((5, 7), (7,)),
    "empty": ((0, 7), (7, 6)),
    "no sum": ((3, 0), (0, 6)),
}
KINDS = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "bfloat16 to float32": "float32",
    "float32 to float8": "float8_e4m3fn",
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_shape_and_dtype(place, shapes, kind):
    (one, other), name = SHAPES[shapes], kind.split()[0]
    a, b = normal(one, name, 1), normal(other, name, 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    row = normal(exact.shape[-1:], name, 3)
    options = {} if name == KINDS[kind] else {"out_dtype": KINDS[kind]}
    found = gemm.matmul(place.put(a), place.put(b), epilogue=bent, operands=(place.put(row),), **options)
    assert found.dtype == dtypes.dtype(KINDS[kind])
    close(place, found, bent_in_numpy(exact, row.astype(np.float64)))


def test_several_results_and_every_operand(place):
    """Rows, columns, whole arrays and numbers; strided, permuted and broadcast; with C; into given arrays."""
    a, b = (place.operand(normal(shape, "float32", k), **PADDED) for k, shape in enumerate(((5, 7), (7, 6))))
    c = place.operand(normal((5, 6), "float32", 3), **BY_COLUMNS)
    row = place.operand(normal(6, "float16", 4), steps=(-2,))
    column = place.operand(normal((5, 1), "bfloat16", 5))
    whole = place.operand(normal((5, 6), "float64", 6), **BY_COLUMNS)
    others = row, column, whole
    kinds = ("bfloat16", "bool", "float32")
    outs = [
        place.empty((5, 6), dtypes.dtype(kind), **lies)
        for kind, lies in zip(kinds, (PADDED, {}, BY_COLUMNS), strict=True)
    ]
    operands = (*(each.view for each in others), 0.25)
    options = {"epilogue": several, "operands": operands, "c": c.view, "beta": -2.0}
    to = tuple(each.view for each in outs)
    found = gemm.matmul(a.view, b.view, out=to, alpha=0.5, **options)
    assert found is to
    values = [each.values.astype(np.float64) for each in (a, b, c, *others)]
    wanted = several_in_numpy(0.5 * values[0] @ values[1] - 2 * values[2], *values[3:], 0.25)
    for out, right in zip(outs, wanted, strict=True):
        close(place, out.view, right)
        if right.dtype != bool:  # the sentinel is True
            out.assert_written_only()
    for each in (a, b, c, *others):
        each.assert_untouched()
    again = gemm.matmul(a.view, b.view, alpha=0.5, out_dtype=("bfloat16", None, "float32"), **options)
    for out, right in zip(again, to, strict=True):
        np.testing.assert_array_equal(place.get(out), place.get(right))
    plan = gemm.matmul.plan(a.view, b.view, out=to, **options)
    assert plan.info.op == "gemm.matmul.several" and "float64" in plan.info.dtypes
    plan(a.view, b.view, operands=operands, c=c.view, alpha=0.5, beta=-2.0, out=to)
    with pytest.raises(LayoutError, match="operands\\[1\\]"):
        plan(a.view, b.view, operands=operands[:1] * 4, c=c.view, alpha=0.5, beta=-2.0, out=to)


def test_in_place(place):
    """An operand of the same layout, and C, may be `out`."""
    a, b, c = (normal(shape, "float32", k) for k, shape in enumerate(((5, 7), (7, 6), (5, 6))))
    out = place.put(c)
    gemm.matmul(place.put(a), place.put(b), epilogue=lambda x, y: x * y, operands=(out,), out=out)
    close(place, out, (a.astype(np.float64) @ b) * c)
    out = place.put(c)
    gemm.matmul(place.put(a), place.put(b), c=out, beta=1.0, epilogue=lambda x: -x, out=out)
    close(place, out, -(a.astype(np.float64) @ b + c))


def test_products_of_narrow_dtypes(place):
    """int8 and float8, dequantized by the function; float8 with a scale for each row and column."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128, 128, shape, np.int8) for shape in ((8, 16), (16, 32)))
    b = np.asfortranarray(b)
    scales = normal(32, "float32", 1)
    scaled = lambda x, scale: x * scale  # noqa: E731
    found = gemm.matmul(
        place.put(a), place.put(b), epilogue=scaled, operands=(place.put(scales),), out_dtype="bfloat16"
    )
    close(place, found, (a.astype(np.int64) @ b.astype(np.int64)) * scales.astype(np.float64))
    a, b = normal((16, 16), "float8_e4m3fn", 2), normal((16, 32), "float8_e4m3fn", 3)
    b = np.asfortranarray(b)
    rows = abs(normal(16, "float32", 4))
    exact = (a.astype(np.float64) @ b.astype(np.float64)) * rows[:, None] * scales
    # cuBLASLt's sums of float8 have fewer bits.
    options = {"scale_a": place.put(rows), "scale_b": place.put(scales), "out_dtype": ("bfloat16", "float32")}
    found = gemm.matmul(place.put(a), place.put(b), epilogue=lambda x: (max(x, 0.0), abs(x)), **options)
    close(place, found[0], np.maximum(exact, 0)), close(place, found[1], abs(exact), 10 * np.abs(exact).max())
    found = gemm.matmul(place.put(a), place.put(b), epilogue=lambda x: -x, scale_a=2.0, alpha=0.5)
    close(place, found, -(a.astype(np.float64) @ b.astype(np.float64)))


def test_globals_and_alpha_0(place):
    global factor
    a, b = (place.put(normal(shape, "float32", k)) for k, shape in enumerate(((5, 7), (7, 6))))
    scaled = lambda x: factor * x  # noqa: E731
    exact = place.get(a).astype(np.float64) @ place.get(b)
    close(place, gemm.matmul(a, b, epilogue=scaled), 1.5 * exact)
    try:
        factor = 3.0
        close(place, gemm.matmul(a, b, epilogue=scaled), 3 * exact)
    finally:
        factor = 1.5
    infinite = place.put(np.full((7, 6), np.inf, np.float32))
    found = gemm.matmul(a, infinite, epilogue=lambda x: x + 1, alpha=0.0)
    np.testing.assert_array_equal(place.get(found), 1)
    kernel = elementwise.kernel(lambda x: x * x)
    close(place, gemm.matmul(a, b, epilogue=kernel), exact**2)
    before = gemm.cache_info().misses
    for _ in range(2):  # equal functions share a plan
        gemm.matmul(a, b, epilogue=lambda x: x * 7)
    assert gemm.cache_info().misses == before + 1


def test_errors(place):
    a, b, row = (place.put(normal(shape, "float32", k)) for k, shape in enumerate(((5, 7), (7, 6), (6,))))

    def call(*operands, epilogue=bent, **options):
        return lambda: gemm.matmul(a, b, epilogue=epilogue, operands=operands, **options)

    refused(OptionError, "bent", "1 operands", "got 0", run=call())
    refused(OptionError, "operands", '"relu"', run=call(row, epilogue="relu"))
    refused(OptionError, "epilogue", "relo", run=call(row, epilogue="relo"))
    refused(OptionError, "bias", "operands", run=call(row, bias=row))
    refused(ShapeError, "operands[0]", "(5,)", "(5, 6)", run=call(place.put(normal(5, "float32"))))
    refused(DTypeError, "operands[0]", "complex64", run=call(place.put(np.ones(6, np.complex64))))
    refused(DTypeError, "out_dtype", "int32", run=call(row, out_dtype="int32"))
    refused(OptionError, "out_dtype", "2 entries", run=call(row, out_dtype=("float32", None)))
    refused(DTypeError, "bool", run=call(epilogue=lambda x: x > 0, out_dtype=("float32",)))
    refused(UnsupportedError, "int", run=call(epilogue=lambda x: int(x)))
    refused(ShapeError, "out", "(4, 6)", run=call(row, out=place.put(np.ones((4, 6), np.float32))))
    refused(ShapeError, "a has shape", run=lambda: gemm.matmul(b, a, epilogue=bent, operands=(row,)))
    square = place.put(np.ones((6, 6), np.float32))
    refused(LayoutError, "shares memory", run=lambda: gemm.matmul(square, square, epilogue=lambda x: x, out=square))
    out = place.operand(np.broadcast_to(sentinel(np.dtype("float32")), (5, 6)))
    refused(LayoutError, "read-only", run=call(row, out=readonly(place, out).view))


@pytest.mark.parametrize("kind", ["float32", "float64", "bfloat16", "float16"])
def test_reductions_of_rows(place, kind):
    """They see unrounded results, alone or with others, also in the user's array. NaN stays. Sums have a gradient."""
    a, b, bias = (normal(shape, kind, k) for k, shape in enumerate(((2, 5, 7), (7, 6), (6,))))
    a[0, 1, 2] = np.nan
    given = [place.put(each) for each in (a, b, bias)]
    f = lambda x, bias: (x + bias, abs(x + bias), x * bias, x)  # noqa: E731
    wide = "float64" if kind == "float64" else "float32"
    out = place.empty((2, 5, 1), dtypes.dtype(wide))
    outs = None, out.view, None, None
    found = gemm.matmul(*given[:2], epilogue=f, operands=(given[2],), reduce=(None, "max", "sum", "min"))
    x, row = a.astype(np.float64) @ b.astype(np.float64), bias.astype(np.float64)
    rows = np.abs(x + row).max(-1, keepdims=True), (x * row).sum(-1, keepdims=True), x.min(-1, keepdims=True)
    for one, right in zip(map(place.get, found), (x + row, *rows), strict=True):
        assert one.shape == right.shape and (np.isnan(one) == np.isnan(right)).all()
        scale = np.nanmax(np.abs(right))
        assert np.nanmax(np.abs(one.astype(np.float64) - right)) <= ERRORS[one.dtype.name] * scale
    assert all(each.dtype == dtypes.dtype(wide) for each in found[1:])
    largest = lambda x, bias: abs(x + bias)  # noqa: E731
    assert gemm.matmul(*given[:2], epilogue=largest, operands=(given[2],), reduce="max", out=out.view) is outs[1]
    np.testing.assert_allclose(out.now(), rows[0], rtol=ERRORS[wide] * 10)
    out.assert_written_only()
    a[0, 1, 2] = 0
    weights, dy = normal((2, 5, 1), kind, 4), place.put(normal((2, 5, 1), kind, 4))
    product = {"epilogue": lambda x, bias: x * bias, "operands": (given[2],), "reduce": "sum"}
    da, db, dbias = gemm.matmul.backward(dy, place.put(a), given[1], **product)
    dz = np.broadcast_to(weights.astype(np.float64) * row, x.shape)
    close(place, da, dz @ b.T.astype(np.float64), 3)
    close(place, db, np.einsum("bmk,bmn->kn", a.astype(np.float64), dz), 10)
    x = a.astype(np.float64) @ b.astype(np.float64)
    close(place, dbias, (weights.astype(np.float64) * x).sum((0, 1)), 10)
    refused(UnsupportedError, "max", run=lambda: gemm.matmul.backward(dy, *given[:2], **product | {"reduce": "max"}))
    for error, words, options in (
        (OptionError, ("reduce", "mean"), {"reduce": "mean"}),
        (OptionError, ("reduce", "2 entries"), {"reduce": ("max", None)}),
        (OptionError, ("reduce", "relu"), {"reduce": "max", "epilogue": "relu", "operands": None}),
        (DTypeError, ("reduced",), {"reduce": ("max",), "out_dtype": ("float16",)}),
        (OptionError, ("bool",), {"reduce": "max", "epilogue": lambda x, bias: x > bias}),
    ):
        refused(error, *words, run=lambda o=options: gemm.matmul(*given[:2], **product | o))


def test_gradients_of_groups(place):
    """Against differences: operands of all rows, of groups, of each row and element; groups without rows."""
    sizes, rng = np.array([3, 0, -2, 7], np.int32), np.random.default_rng(0)
    a, b, dy = (rng.standard_normal(shape) for shape in ((14, 6), (4, 6, 5), (14, 5)))
    operands = [rng.standard_normal(shape) for shape in ((4, 1, 5), (14, 1), (5,), (14, 5), (1, 1))]

    def bent(x, row, column, bias, whole, factor):
        return (x * column + row) ** 2 * whole * factor + bias

    def loss(a, b, *operands):
        start, total = 0, 0.0
        for group, count in enumerate(np.maximum(sizes, 0)):
            part = slice(start, start := start + count)
            row, column, bias, whole, factor = operands
            total += (
                dy[part] * bent(0.5 * a[part] @ b[group], row[group], column[part], bias, whole[part], factor)
            ).sum()
        return total

    arguments = [a, b, *operands]
    given = [place.put(each) for each in (dy, a, b, sizes)]
    options = {"epilogue": bent, "operands": [*map(place.put, operands)], "alpha": 0.5}
    found = gemm.grouped.backward(*given, **options)
    for number, (gradient, own) in enumerate(zip(found, arguments, strict=True)):
        wanted = np.zeros_like(own)
        for index in np.ndindex(own.shape):
            both = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in arguments]
                moved[number][index] += step
                both.append(loss(*moved))
            wanted[index] = (both[0] - both[1]) / 2e-6
        np.testing.assert_allclose(place.get(gradient), wanted, atol=1e-6 * np.abs(wanted).max() + 1e-7)
    db, bias = place.empty(b.shape, np.dtype(np.float64)), place.empty((5,), np.dtype(np.float64))
    plain = {
        "epilogue": lambda x, bias: x + bias,
        "operands": (place.put(operands[2]),),
        "out": (None, db.view, bias.view),
    }
    da, *same = gemm.grouped_backward(*given, **plain)
    assert same[0] is db.view and same[1] is bias.view
    np.testing.assert_allclose(bias.now(), dy[:10].sum(0))
    assert not place.get(da)[10:].any()
    db.assert_written_only()
    refused(ShapeError, "dy", "(14, 5)", run=lambda: gemm.grouped.backward(given[1], *given[1:]))
    refused(OptionError, "2 entries", run=lambda: gemm.grouped.backward(*given, out=(None,)))
    refused(
        DTypeError, "out[1]", run=lambda: gemm.grouped.backward(*given, out=(None, place.put(b.astype(np.float32))))
    )


def test_groups_of_rows(place):
    """Where the kernel does not run, each group is a product."""
    sizes = np.array([2, 0, 3], np.int32)
    a, b, rows = (normal(shape, "float64", k) for k, shape in enumerate(((6, 7), (3, 7, 4), (3, 1, 4))))
    given = [place.put(each) for each in (a, b, sizes)]
    found = place.get(gemm.grouped(*given, epilogue=lambda x, row: x + row, operands=(place.put(rows),)))
    start = 0
    for group, count in enumerate(sizes):
        part = slice(start, start := start + count)
        np.testing.assert_allclose(found[part], a[part] @ b[group] + rows[group], rtol=1e-12)
    plain = place.empty((6, 4), np.dtype(np.float64))
    assert gemm.grouped(*given, out=plain.view) is plain.view
    plain.assert_written_only(lambda view: view[:5])
    refused(ShapeError, "a has shape", run=lambda: gemm.grouped(given[0], given[0], given[2]))
    refused(DTypeError, "sizes", "int32", run=lambda: gemm.grouped(*given[:2], given[0]))
    refused(
        ShapeError,
        "operands[0]",
        "(3, 1, 4)",
        run=lambda: gemm.grouped(*given, epilogue=lambda x, y: x, operands=(given[1],)),
    )


# ---------------------------------------------------------------- gradients

FUNCTIONS = {
    "bias": (lambda x, b: x + b, ("row",)),
    "bent": (bent, ("row",)),
    "scaled": (lambda x, s: x * s, ("column",)),
    "linear": (lambda x, y, s: x * s + y, ("whole", "number")),
    "two results": (lambda x, r, w: (math.tanh(x) * r, x * w), ("row", "whole")),
    "one for all": (lambda x, s: math.sin(x * s), ("scalar",)),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
def test_gradients(place, function, name):
    """Against a derivative along a random direction in float64, of all shapes."""
    f, others = FUNCTIONS[function]
    for number, (one, other) in enumerate(SHAPES.values()):
        if place.is_slow and number % 3:
            continue
        a, b = normal(one, name, 1), normal(other, name, 2)
        made = np.matmul(a.astype(np.float64), b.astype(np.float64))
        shapes = {"row": made.shape[-1:], "column": (*made.shape[-2:-1], 1), "whole": made.shape, "scalar": (1,)}
        if "column" in others and (a.ndim == 1 or b.ndim == 1):
            continue
        operands = [0.5 if each == "number" else normal(shapes[each], name, 3 + k) for k, each in enumerate(others)]
        arguments = [a, b, *operands]
        wide = [each if isinstance(each, float) else each.astype(np.float64) for each in arguments]

        def values(given, f=f):
            found = gemm.matmul(given[0], given[1], epilogue=f, operands=tuple(given[2:]), alpha=0.5)
            return found if isinstance(found, tuple) else (found,)

        dys = [normal(each.shape, name, 7 + k) for k, each in enumerate(values(wide))]
        put = [each if isinstance(each, float) else place.put(each) for each in arguments]
        given = tuple(map(place.put, dys)) if len(dys) > 1 else place.put(dys[0])
        found = gemm.matmul.backward(given, put[0], put[1], epilogue=f, operands=put[2:], alpha=0.5)
        assert len(found) == len(arguments)
        for k, (gradient, each) in enumerate(zip(found, arguments, strict=True)):
            if isinstance(each, float):
                assert gradient is None
                continue
            assert (gradient.shape, gradient.dtype) == (each.shape, each.dtype)
            way, h = normal(each.shape, seed=20 + k), 1e-6
            beside = [[*wide[:k], wide[k] + step * way, *wide[k + 1 :]] for step in (h, -h)]
            parts = [
                [(dy.astype(np.float64) * y).sum() for dy, y in zip(dys, values(at), strict=True)] for at in beside
            ]
            wanted = (sum(parts[0]) - sum(parts[1])) / (2 * h)
            terms = place.get(gradient).astype(np.float64) * way
            slack = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 0.06}[name]
            assert abs(terms.sum() - wanted) <= slack * max(np.abs(terms).sum(), 1), (function, one, other, k)


def test_gradients_into_given_arrays(place):
    a, b, row = (normal(shape, "float32", k) for k, shape in enumerate(((5, 7), (7, 6), (6,))))
    dy = normal((5, 6), "float32", 5)
    outs = [
        place.empty(each.shape, each.dtype, **lies) for each, lies in ((a, PADDED), (b, {}), (row, {"steps": (2,)}))
    ]
    options = {"epilogue": bent, "operands": (place.put(row),)}
    put = [place.put(each) for each in (dy, a, b)]
    found = gemm.matmul.backward(*put, out=tuple(each.view for each in outs), **options)
    for one, other, out in zip(found, gemm.matmul.backward(*put, **options), outs, strict=True):
        assert one is out.view
        close(place, one, place.get(other).astype(np.float64))
        out.assert_written_only()
    da, db = gemm.matmul.backward(put[0], put[1], put[2])
    close(place, da, dy.astype(np.float64) @ b.T.astype(np.float64))
    close(place, db, a.T.astype(np.float64) @ dy.astype(np.float64))
    refused(ShapeError, "dy", "(5, 6)", run=lambda: gemm.matmul.backward(put[1], put[1], put[2]))
    refused(OptionError, "linear_backward", run=lambda: gemm.matmul.backward(*put, epilogue="gelu"))
    refused(OptionError, "gelo", run=lambda: gemm.matmul.backward(*put, epilogue="gelo"))
    refused(OptionError, "out", "3 entries", run=lambda: gemm.matmul.backward(*put, out=(None,), **options))
    unknown = lambda x: digamma.trigamma(x)  # noqa: E731
    refused(UnsupportedError, "derivative", run=lambda: gemm.matmul.backward(*put, epilogue=unknown))


def test_numpy_needs_no_gpu():
    assert isinstance(gemm.matmul(np.eye(2), np.eye(2), epilogue=lambda x: x), np.ndarray)
    assert numbacc.gemm.matmul_backward is gemm.matmul.backward
