"""Kernels whose operands differ: in dtype, layout and number, with scalar arguments that come at the launch."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import ptx
import pytest
from conftest import Operand
from operand_cases import SHAPE, check, each_layout, executable, operand, poisoned
from skips import skip_if

from numbacc.arrays.operands import layout_of
from numbacc.base import dtypes
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE, words
from numbacc.base.layout import layout, view
from numbacc.functions.formula import Formula
from numbacc.functions.reduction_formula import ReductionFormula
from numbacc.kernels.elementwise import other_launches
from numbacc.kernels.elementwise.launch import MapExecutable, MapTask
from numbacc.kernels.specs import KernelSpec, compute_dtype


def numbers(shape, dtype, seed=0):
    """Small whole numbers, which every dtype holds."""
    rng = np.random.default_rng(seed)
    row = np.dtype(dtypes.dtype(dtype))
    if row.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    low = 0 if row.kind == "u" else -9
    found = rng.integers(low, 10, shape)
    return (found + 1j * rng.integers(-9, 10, shape)).astype(row) if row.kind == "c" else found.astype(row)


REAL = ("float64", "float32", "float16", "bfloat16", "int8", "uint8", "int32", "uint16", "int64", "uint64", "bool")


@each_layout
@pytest.mark.parametrize("source", REAL)
def test_casts(device_place, source, layouts):
    shape = SHAPE if layouts[0].get("order") is None else (40, 33)
    x = numbers(shape, source)
    for target in ("float32", "bfloat16", "float64", "int32", "uint8", "bool"):
        if target == "uint8" and source != "bool":
            x = np.abs(x)
        wanted = x.astype(dtypes.dtype(target))
        one, out = Operand(device_place, x, **layouts[0]), poisoned(device_place, target, layouts[1], shape)
        check(device_place, lambda v: v, [one], [out], [wanted])


@each_layout
def test_comparisons_and_choices(device_place, layouts):
    x, y = numbers(SHAPE, "float32"), numbers(SHAPE, "float32", 1)
    x[0, 3] = np.nan
    ins = [operand(device_place, v, layouts[0]) for v in (x, y)]
    check(device_place, lambda a, b: a > b, ins, [poisoned(device_place, "bool", layouts[1])], [x > y])
    mask = numbers(SHAPE, "bool")
    three = [operand(device_place, mask, layouts[1]), *ins]
    out = poisoned(device_place, "float16", layouts[0])
    check(device_place, lambda m, a, b: a if m else b, three, [out], [np.where(mask, x, y).astype(np.float16)])


@each_layout
@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers(device_place, dtype, layouts):
    x, y = numbers(SHAPE, dtype), numbers(SHAPE, dtype, 1)
    big = np.iinfo(dtype).max - 3
    x[0, :5] = big
    ins = [operand(device_place, v, layouts[0]) for v in (x, y)]
    out = poisoned(device_place, dtype, layouts[1])
    with np.errstate(all="ignore"):
        wanted = x + y * np.dtype(dtype).type(3)
    check(device_place, lambda a, b: a + b * 3, ins, [out], [wanted])
    shifted, both = poisoned(device_place, dtype, layouts[1]), poisoned(device_place, "int64", layouts[0])
    check(
        device_place,
        lambda a: (a >> 1, a & 6),
        [ins[0]],
        [shifted, both],
        [x >> 1, (x & np.dtype(dtype).type(6)).astype("i8")],
    )


@each_layout
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers(device_place, dtype, layouts):
    z, w = numbers(SHAPE, dtype), numbers(SHAPE, dtype, 1)
    real = numbers(SHAPE, "float32", 2)
    ins = [operand(device_place, v, layouts[0]) for v in (z, w)]
    out = poisoned(device_place, dtype, layouts[1])
    wanted = (2 * z * w + 1).astype(dtype)
    check(device_place, lambda a, b: 2 * a * b + 1, ins, [out], [wanted])
    parts = "float32" if dtype == "complex64" else "float64"
    outs = [poisoned(device_place, parts, layouts[1]), poisoned(device_place, parts, layouts[0])]
    check(device_place, lambda a: (a.real, a.imag), [ins[0]], outs, [z.real, z.imag])
    mixed = [ins[0], operand(device_place, real, layouts[1])]
    check(
        device_place, lambda a, r: a * r, mixed, [poisoned(device_place, dtype, layouts[0])], [(z * real).astype(dtype)]
    )


def test_complex_numbers_that_are_aligned_as_their_parts_are(device_place):
    values = np.arange(160, dtype=np.float32)
    held = device_place.put(values)
    z = values[1:159].view(np.complex64)
    seen = type(held)(layout((79,), (8,), np.dtype(np.complex64), 0), held._address + 4, held._storage)
    out = Operand(device_place, np.zeros(79, np.complex64))
    made = executable(Formula("own", lambda a: a + 1), [_Seen(seen)], [out])
    made.run([seen], [out.view], None, 0)
    np.testing.assert_array_equal(out.now(), z + 1)


class _Seen:
    def __init__(self, array):
        self.view = array


@each_layout
def test_sixteen_arrays(device_place, layouts):
    kinds = ("float32", "float16", "int32", "bool", "float64")
    values = [numbers(SHAPE, kinds[k % 5], k) for k in range(14)]
    ins = [operand(device_place, v, layouts[k % 2]) for k, v in enumerate(values)]
    outs = [poisoned(device_place, dtype, layouts[k]) for k, dtype in enumerate(("float64", "float32"))]

    def total(a, b, c, d, e, f, g, h, i, j, k, m, n, o):
        found = a + b + c + d + e + f + g + h + i + j + k + m + n + o
        return found, found * 2

    wanted = sum(v.astype(np.float64) for v in values)
    check(device_place, total, ins, outs, [wanted, (2 * wanted).astype(np.float32)], compute="float64")


@each_layout
def test_scalars_come_with_the_launch(device_place, layouts):
    x, mask = numbers(SHAPE, "float32"), numbers(SHAPE, "bool")
    ins = [operand(device_place, x, layouts[0]), operand(device_place, mask, layouts[1])]
    out = poisoned(device_place, "float32", layouts[1])

    def formula(v, m, scale, shift, flag):
        return v * scale + shift if m == flag else v

    names, made = ("float32", "int32", "bool"), None
    for values in ((2.5, -3, True), (-0.5, 2**20, False), (math.inf, 0, True)):
        with np.errstate(all="ignore"):
            wanted = np.where(mask == values[2], x * np.float32(values[0]) + np.float32(values[1]), x)
        if made is None:
            made = check(device_place, formula, ins, [out], [wanted], names, values)
        packed = [word for name, value in zip(names, values, strict=True) for word in words(value, name)]
        made.run([o.view for o in ins], [out.view], None, 0, packed)
        np.testing.assert_array_equal(out.now(), wanted)
    assert len(made.chosen.made) == 1


#: A layout of its own for each of four operands.
UNLIKE = [
    [{"steps": (1, 2)}, {"steps": (1, -1)}, {}, {"steps": (2, 3)}],
    [{"order": (1, 0)}, {}, {"steps": (-1, 1)}, {"margins": [(0, 0), (1, 1)]}],
    [{}, {"steps": (0, 1)}, {"steps": (1, 0)}, {"margins": [(0, 0), (0, 3)]}],
    [{"margins": [(0, 0), (k, 5)]} for k in range(4)],
    [{"order": (1, 0), "margins": [(0, 0), (k, 2)]} for k in range(4)],
]


@pytest.mark.parametrize("layouts", UNLIKE, ids=range(len(UNLIKE)))
def test_each_operand_has_a_dtype_and_a_layout_of_its_own(device_place, layouts):
    shape = (40, 70)
    values = [numbers(shape, kind, k) for k, kind in enumerate(("float32", "int32", "bool"))]
    ins = [Operand(device_place, v, **how) for v, how in zip(values, layouts, strict=False)]
    x, n, m = (o.values for o in ins)
    out = poisoned(device_place, "float16", layouts[3], shape)
    wanted = np.where(m, x * 2.5 + n, x - n).astype(np.float16)
    check(device_place, lambda x, n, m, s: x * s + n if m else x - n, ins, [out], [wanted], ("float32",), (2.5,))


@pytest.mark.parametrize(
    "name, value", [("complex64", 1 - 2j), ("float64", 1e300), ("uint64", 2**64 - 1), ("int8", -5)]
)
def test_scalars_of_other_dtypes(device_place, name, value):
    out = Operand(device_place, np.zeros(40, dtypes.dtype(name)))
    x = Operand(device_place, np.zeros(40, dtypes.dtype(name)))
    wanted = np.full(40, value, dtypes.dtype(name))
    check(device_place, lambda v, s: v + s, [x], [out], [wanted], (name,), (value,))


@pytest.mark.parametrize("shapes", [((3, 1), (1, 70)), ((1, 1), (3, 70)), ((70,), (3, 1)), ((1,), (3, 70))], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint8"])
def test_what_is_repeated_along_rows_needs_no_strided_kernel(device_place, shapes, dtype):
    one, two = (numbers(shape, dtype, k) for k, shape in enumerate(shapes))
    ins = [Operand(device_place, v) for v in (one, two)]
    out = poisoned(device_place, dtype, {})
    wanted = (one.astype(np.float32) + two.astype(np.float32)).astype(out.values.dtype)
    made = check(device_place, lambda a, b: a + b, ins, [out], [wanted])
    assert not made.last.algorithm.startswith("strided")


# ---------------------------------------------------------------- reductions along rows


def reduced(reduction, inputs, outs, scalars=()):
    """The reduction of (rows, columns) over its rows."""
    reads = [layout_of(o.view) for o in inputs]
    results = [layout_of(o.view) for o in outs]
    spec = MapTask(
        op="own", formula=reduction, reference=reduction.reference,
        names=tuple(f"operand {k}" for k in range(len(reads) + len(results))), inputs=tuple(reads),
        outputs=tuple(results), shape=results[0].shape,
        reads=tuple(view(k, 0, a.strides, a.shape)._replace(shape=a.shape) for k, a in enumerate(reads)),
        writes=tuple(view(k, 0, a.strides, a.shape)._replace(shape=a.shape) for k, a in enumerate(results)),
        out_given=True, order=partial(other_launches.reduction_order, "reduce_rows"), scalars=tuple(scalars),
    )  # fmt: skip
    return MapExecutable(spec)


#: The mean and the mean of squares from one pass; the largest magnitude; a dot product with a factor.
MOMENTS = ReductionFormula(
    "moments", lambda x: (x, x * x), start=(0, 0), merge=lambda a, b, c, d: (a + c, b + d),
    finish=lambda a, b, rows: (a / rows, b / rows),
)  # fmt: skip
LARGEST = ReductionFormula(
    "largest", lambda x: (abs(x),), start=(0,), merge=lambda a, b: (max(a, b),), finish=lambda a, rows: (a,)
)
DOT = ReductionFormula(
    "dot", lambda x, y, s: (x * y,), start=(0,), merge=lambda a, b: (a + b,), finish=lambda a, rows, s: (a * s,)
)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int32"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["rows apart", "columns apart"])
@pytest.mark.parametrize("shape", [(40, 24), (3, 5), (130, 1)], ids=str)
def test_reductions_of_several_parts_and_arrays(device_place, dtype, order, shape):
    x, y = numbers(shape, dtype), numbers(shape, dtype, 1)
    one, two = (Operand(device_place, v, order=order) for v in (x, y))
    kind = np.dtype(dtypes.dtype(dtype))
    wide = "float64" if dtype == "float64" else "float32"
    if dtype != "int32":
        outs = [poisoned(device_place, wide, {}, shape[1:]) for _ in range(2)]
        reduced(MOMENTS, [one], outs).run([one.view], [o.view for o in outs], None, 0)
        f = x.astype(np.float64)
        for out, wanted in zip(outs, (f.mean(0), (f * f).mean(0)), strict=True):
            np.testing.assert_allclose(out.now().astype(float), wanted, rtol=1e-6, atol=1e-6)
    out = poisoned(device_place, dtype, {}, shape[1:])
    reduced(LARGEST, [one], [out]).run([one.view], [out.view], None, 0)
    np.testing.assert_array_equal(out.now(), np.abs(x).max(0))
    out = poisoned(device_place, wide, {}, shape[1:])
    plan = reduced(DOT, [one, two], [out], (wide if dtype != "int32" else "float32",))
    for factor in (2.0, -0.5):
        plan.run([one.view, two.view], [out.view], None, 0, words(factor, plan.task.scalars[0]))
        wanted = (x.astype(np.float64) * y.astype(np.float64)).sum(0) * factor
        np.testing.assert_array_equal(out.now().astype(np.float64), wanted)
    assert kind == one.values.dtype


# ---------------------------------------------------------------- what it compiles to


@pytest.mark.parametrize(
    "reads, writes, wanted",
    [
        (("float32",), ("bfloat16",), "float32"),
        (("int64", "float16"), ("float32",), "float32"),
        (("float32",), ("float64",), "float64"),
        (("bool", "int8"), ("int32",), "int8"),
        (("bool",), ("bool",), "bool"),
        (("complex64", "float64"), ("complex64",), "complex128"),
    ],
)
def test_the_compute_dtype_is_that_of_the_widest_float(reads, writes, wanted):
    assert compute_dtype(reads, writes) == wanted


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize(
    "source, target", [("float32", "bfloat16"), ("uint8", "float32"), ("bool", "float16"), ("float16", "uint8")]
)
def test_mixed_vectors_move_16_bytes_of_the_widest(source, target):
    width = 16 // max(TABLE[source].itemsize, TABLE[target].itemsize)
    spec = KernelSpec(
        "vector", Formula("cast", lambda v: v), (source,), (target,), 1, False, width, width, compute="float32"
    )
    found = ptx.compiled(spec)
    widths = {(a.operation, a.nbytes) for a in found.accesses}
    sizes = {"ld": TABLE[source].itemsize, "st": TABLE[target].itemsize}
    assert widths == {(operation, n) for operation, size in sizes.items() for n in (size, size * width)}
    assert ".f64" not in found.text and ".local" not in found.text
