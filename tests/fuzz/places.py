"""What has to do with where elements are (gathers, triangles, codes, rotations, dropout, joining), steps of AdamW on
lists, and kernels of one's own.
"""

from __future__ import annotations

import block_cases
import index_cases
import numpy as np
import optimizer_cases
from conftest import bits
from own_kernels import bent, bent_by_numpy, capped

import numbacc
from numbacc import elementwise as ew
from numbacc.base import dtypes

from .arrays import values as any_values
from .operands import anywhere, called, in_a_buffer, lay, result_of, target_of

FLOATS = block_cases.FLOATS
INDICES = ("int8", "int16", "int32", "int64")


def run(case):
    gathers = [take, take_along_axis, taken_back, taken_back_along]
    case.pick([*gathers, one_hot, triangle, rope, dropout, joined, adamw, own_kernel, ranges])(case)


def name_of_any(case):
    """A dtype: any."""
    return case.pick([name for name, row in dtypes.TABLE.items() if not row.is_scaled])


def same_bits(found, wanted):
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(bits(found), bits(np.array(wanted, order="C")))


# ---------------------------------------------------------------- indices


def indices_of(case, shape, length):
    """Indices from either end, and now and then beyond."""
    found = case.rng.integers(-length, length, shape)
    if case.chance(0.2):
        found = np.where(case.rng.random(shape) < 0.2, length + case.integer(0, 3), found)
    return lay(case, np.asarray(found).astype(case.pick(INDICES[1:] if length > 120 else INDICES)))


def taken(x, indices, axis, gather):
    """NumPy's, with 0 or NaN where an index is beyond the end."""
    length = x.shape[axis]
    is_there = (indices >= -length) & (indices < length)
    safe = np.where(is_there, indices, 0).astype(np.int64)
    found = gather(x, safe, axis)
    row = dtypes.info(x.dtype)
    nothing = np.nan if row.is_float or row.parts == 2 else 0
    return found, is_there, np.asarray(nothing).astype(x.dtype)


def compared(found, wanted, is_there, nothing):
    is_there = np.broadcast_to(is_there, wanted.shape)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(bits(found)[is_there], bits(np.array(wanted, order="C"))[is_there])
    rest = found[~is_there]
    np.testing.assert_array_equal(rest.astype(complex), np.full(rest.shape, nothing).astype(complex))


def take(case):
    name, shape = name_of_any(case), case.shape(case.pick([1, 2, 2, 3, 4]), empty=0)
    flat = case.chance(0.2)
    axis = None if flat else case.integer(-len(shape), len(shape) - 1)
    # What is seen as one row lies so.
    x = case.place.operand(any_values(case, shape, name)) if flat else lay(case, any_values(case, shape, name))
    read = np.array(x.values)
    length = read.size if flat else shape[axis]
    i = indices_of(case, case.pick([(), (1,), (5,), (2, 3), (0,), (case.integer(1, 40),)]), length)
    source, along = (read.ravel(), 0) if flat else (read, axis)
    wanted, is_there, nothing = taken(source, np.array(i.values), along, np.take)
    way = along % source.ndim
    is_there = is_there.reshape((1,) * way + is_there.shape + (1,) * (source.ndim - way - 1))
    out, options = target_of(case, wanted.shape, read.dtype)
    if flat:  # of which a plan is called with what is flattened
        answer = case.call("elementwise.take", ew.take, x.view, i.view, **options, **case.stream())
    else:
        answer = called(case, "take", x.view, i.view, axis=axis, **options)
    compared(result_of(case, answer, out), wanted, is_there, nothing)
    x.assert_untouched(), i.assert_untouched()


def take_along_axis(case):
    name, shape = name_of_any(case), case.shape(case.pick([1, 2, 3]), empty=0)
    axis, count = case.integer(-len(shape), len(shape) - 1), case.integer(1, 6)
    whole = tuple(count if d == axis % len(shape) else n for d, n in enumerate(shape))
    own = tuple(n if d == axis % len(shape) or case.chance(0.7) else 1 for d, n in enumerate(whole))
    x, i = lay(case, any_values(case, shape, name)), indices_of(case, own, shape[axis])
    read, places = np.array(x.values), np.broadcast_to(np.array(i.values), whole)
    wanted, is_there, nothing = taken(read, places, axis, np.take_along_axis)
    out, options = target_of(case, whole, read.dtype)
    found = result_of(case, called(case, "take_along_axis", x.view, i.view, axis=axis, **options), out)
    compared(found, wanted, is_there, nothing)
    x.assert_untouched(), i.assert_untouched()


def gradient(case, name, dy, x_shape, indices, axis, wanted):
    """A gradient of the two, by the function or its plan, given x or its shape; small integers are added exactly."""
    dtype = dy.values.dtype
    x = lay(case, np.zeros(x_shape, dtype)).view if case.chance(0.3) else tuple(x_shape)
    out, options = target_of(case, x_shape, dtype)
    if case.chance(0.8):
        function = getattr(ew, name)
        answer = case.call(
            f"elementwise.{name}", function, dy.view, x, indices.view, axis=axis, **options, **case.stream()
        )
    else:
        made = getattr(ew, name).plan
        plan = case.call(f"elementwise.{name}.plan", made, dy.view, x, indices.view, axis=axis, **options)
        answer = plan(dy.view, indices.view, **options)
    found = result_of(case, answer, out)
    assert (found.dtype, found.shape) == (dtype, tuple(x_shape))
    np.testing.assert_array_equal(found.astype(np.float64), wanted.astype(dtype).astype(np.float64))
    dy.assert_untouched(), indices.assert_untouched()


def taken_back(case):
    dtype, shape = np.dtype(case.pick(FLOATS)), case.shape(case.pick([1, 2, 2, 3]), empty=0)
    axis = None if case.chance(0.2) else case.integer(-len(shape), len(shape) - 1)
    length = int(np.prod(shape)) if axis is None else shape[axis]
    many = 12 if case.place.is_slow else case.pick([40, 400, 3000 if len(shape) < 3 else 40])
    i = indices_of(case, case.pick([(1,), (5,), (2, 3), (0,), (case.integer(1, many),)]), length)
    places, at = np.array(i.values), 0 if axis is None else axis % len(shape)
    own = places.shape if axis is None else (*shape[:at], *places.shape, *shape[at + 1 :])
    dy = lay(case, case.rng.integers(-1, 2, own).astype(dtype))
    wanted, _ = index_cases.taken_back(dy.values, shape, places, axis)
    gradient(case, "take_backward", dy, shape, i, axis, wanted)


def taken_back_along(case):
    dtype, shape = np.dtype(case.pick(FLOATS)), case.shape(case.pick([1, 2, 3]), empty=0)
    axis, count = case.integer(-len(shape), len(shape) - 1), case.integer(1, 6 if case.place.is_slow else 50)
    whole = tuple(count if d == axis % len(shape) else n for d, n in enumerate(shape))
    table, own = (tuple(n if d == axis % len(shape) or case.chance(0.7) else 1 for d, n in enumerate(each))
                  for each in (shape, whole))  # fmt: skip
    i = indices_of(case, own, shape[axis])
    alone = tuple(1 if d == axis % len(shape) else n for d, n in enumerate(table))
    dy = lay(case, case.rng.integers(-1, 2, np.broadcast_shapes(alone, own)).astype(dtype))
    wanted, _ = index_cases.taken_back_along(dy.values, table, np.array(i.values), axis)
    gradient(case, "take_along_axis_backward", dy, table, i, axis, wanted)


def one_hot(case):
    classes, name = case.integer(1, 20), name_of_any(case)
    shape = tuple(min(n, 30) for n in case.shape(case.pick([0, 1, 2, 3])))
    i = lay(case, case.rng.integers(-2, classes + 2, shape).astype(case.pick(["int8", "uint16", "int32", "int64"])))
    axis = case.integer(-len(shape) - 1, len(shape))
    hot = np.array(i.values).astype(np.int64)[..., None] == np.arange(classes)
    wanted = np.moveaxis(hot.astype(dtypes.dtype(name)), -1, axis)
    out, options = target_of(case, wanted.shape, wanted.dtype)
    same_bits(result_of(case, called(case, "one_hot", i.view, classes, axis=axis, dtype=name, **options), out), wanted)
    i.assert_untouched()


def triangle(case):
    name, which, k = name_of_any(case), case.pick(["tril", "triu"]), case.integer(-4, 4)
    shape = case.shape(case.pick([2, 2, 3, 4, 8]))
    in_place = case.chance(0.3)
    x = lay(case, any_values(case, shape, name), in_place, 0 if in_place else 0.1)
    wanted = getattr(np, which)(np.array(x.values), k)
    out, options = (x, {"out": x.view}) if in_place else target_of(case, shape, x.values.dtype)
    same_bits(result_of(case, called(case, which, x.view, k=k, **options), out), wanted)
    if not in_place:
        x.assert_untouched()


def ranges(case):
    """What is made of nothing."""
    device = {"device": None if case.place.is_device else "cpu"}
    dtype = case.pick(["float32", "float64", "float16", "int32", "int64"])
    kind = case.pick(["arange", "linspace", "eye"])
    if kind == "arange":
        start, stop, step = case.integer(-50, 50), case.integer(-50, 300), case.pick([1, 2, 7, -3, 0.5])
        whole = np.arange(start, stop, step)
        arguments = (start, stop, step)
    elif kind == "linspace":
        arguments = (case.integer(-9, 9), case.integer(-9, 9) + 0.5, case.integer(0, 300))
        whole = np.linspace(*arguments)
    else:
        k = case.integer(-5, 5)
        arguments, device = (case.integer(0, 30), case.integer(0, 30)), {**device, "k": k}
        whole = np.eye(*arguments, k=k)
    if kind != "eye" and dtype in ("int32", "int64") and not (whole == np.rint(whole)).all():
        dtype = "float64"
    found = case.call(f"elementwise.{kind}", getattr(ew, kind), *arguments, dtype=dtype, **device, **case.stream())
    same_bits(case.place.get(found), whole.astype(dtype))


# ---------------------------------------------------------------- rotations and dropout


def rope(case):
    dtype = np.dtype(case.pick(FLOATS))
    *places, half = case.shape(case.pick([2, 3, 4]), empty=0)
    shape, interleaved, back = (*places, 2 * half), case.chance(0.5), case.chance(0.3)
    table = "float64" if dtype == np.float64 else "float32"
    own = (*(n if case.chance(0.7) else 1 for n in places), half)
    own = own[case.integer(0, len(places) - 1) if case.chance(0.5) else 0 :]
    angle = case.rng.normal(0, 3, own)
    in_place = case.chance(0.3)
    x = lay(case, case.rng.normal(size=shape).astype(dtype), in_place, 0 if in_place else 0.1)
    cos, sin = (lay(case, f(angle).astype(table)) for f in (np.cos, np.sin))
    turn = np.array(cos.values, np.float64) + (-1j if back else 1j) * np.array(sin.values, np.float64)
    read = np.array(x.values, np.float64)
    a, b = (read[..., 0::2], read[..., 1::2]) if interleaved else (read[..., :half], read[..., half:])
    turned = (a + 1j * b) * turn
    parts = np.stack([turned.real, turned.imag], axis=-1 if interleaved else -2)
    wanted = parts.reshape(shape)
    out, options = (x, {"out": x.view}) if in_place else target_of(case, shape, dtype)
    name = "rope_backward" if back else "rope"
    answer = called(case, name, x.view, cos.view, sin.view, interleaved=interleaved, **options)
    block_cases.near(result_of(case, answer, out), wanted, dtype, ulps=4, scale=3)
    for operand in (x, cos, sin)[in_place:]:
        operand.assert_untouched()


def dropout(case):
    """What the generator's mask drops, in C order."""
    dtype, shape = np.dtype(case.pick(FLOATS)), case.shape(case.pick([0, 1, 1, 2, 3]))
    p, seed = case.pick([0.0, 0.1, 0.5, 0.9, 1.0]), case.integer(0, 2**62)
    offset = 4 * case.pick([0, 1, 250, 2**38])
    in_place = case.chance(0.2)
    x = lay(case, case.rng.normal(size=shape).astype(dtype), in_place, 0 if in_place else 0.1)
    real = np.float64 if dtype == np.float64 else np.float32
    mask = numbacc.random.Generator("philox", seed, device="cpu", offset=offset).dropout_mask(p, shape, dtype="bool")
    scale = real(1 / (1 - p)) if p < 1 else real(0)
    wanted = np.where(mask, (np.array(x.values).astype(real) * scale).astype(dtype), dtype.type(0))
    # An offset on the GPU is rounded down to a block of four.
    given = case.place.put(np.array([offset + case.integer(0, 3)])) if case.chance(0.4) else offset
    out, options = (x, {"out": x.view}) if in_place else target_of(case, shape, dtype)
    name = case.pick(["dropout", "dropout_backward"])
    function = getattr(ew, name)
    answer = case.call(f"elementwise.{name}", function, x.view, p, seed=seed, offset=given, **options, **case.stream())
    found = result_of(case, answer, out)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.astype(np.float64), np.asarray(wanted).astype(np.float64))
    if not in_place:
        x.assert_untouched()


# ---------------------------------------------------------------- several arrays


def joined(case):
    """concatenate and stack."""
    which, name = case.pick(["concatenate", "stack"]), name_of_any(case)
    rank = case.pick([1, 2, 3])
    shape, axis = case.shape(rank), case.integer(-rank, rank - 1)
    operands = []
    for _ in range(case.integer(1, 4)):
        own = tuple(case.integer(0, 6) if which == "concatenate" and d == axis % rank else n
                    for d, n in enumerate(shape))  # fmt: skip
        operands.append(lay(case, any_values(case, own, name)))
    wanted = getattr(np, which)([np.array(o.values) for o in operands], axis)
    out, options = target_of(case, wanted.shape, wanted.dtype)
    answer = called(case, which, [o.view for o in operands], axis, **options)
    same_bits(result_of(case, answer, out), wanted)
    for operand in operands:
        operand.assert_untouched()


def adamw(case):
    """A step of a parameter, or of a list, whose arrays lie alike or not."""
    kinds = case.pick(optimizer_cases.KINDS)
    shapes = [case.shape(case.pick([0, 1, 2, 3])) for _ in range(case.integer(1, 5))]
    lists = optimizer_cases.drawn(kinds, shapes, case.seed_of_values())
    operands = []
    for number, each in enumerate(lists):
        way = case.where.pick(["dense", "flat", "flat", "anywhere"])
        if way == "flat":  # one after the other, as in a buffer of all gradients
            pieces = [{"memory": in_a_buffer(case, case.where.pick([0, 0, 0, 1]))} for _ in each]
        else:
            pieces = [{} if way == "dense" else anywhere(case, x.shape, number != 1, 0) for x in each]
        operands.append([case.place.operand(x, **where) for x, where in zip(each, pieces, strict=True)])
    t, alone = case.integer(1, 1000), len(shapes) == 1
    views = [[o.view for o in each] for each in operands]
    given = [each[0] for each in views] if alone else views
    step = case.place.put(np.array([t])) if case.place.is_device and case.chance(0.4) else t
    case.call("elementwise.adamw_step", ew.adamw_step, *given, step, **optimizer_cases.OPTIONS, **case.stream())
    for row in zip(*operands, strict=True):
        wanted = optimizer_cases.exact(*(np.array(o.values) for o in row), t, **optimizer_cases.OPTIONS)
        for operand, want in zip((row[0], row[2], row[3]), wanted, strict=True):
            optimizer_cases.assert_near(np.array(operand.now()), want)
            operand.assert_untouched_around()
        row[1].assert_untouched()


def own_kernel(case):
    """Formulas of the tests', one with two results."""
    name, shape = case.pick(["float32", "float64", "float16"]), case.shape(case.pick([0, 1, 2, 3]))
    x = lay(case, (case.rng.integers(-8, 9, shape) / 2).astype(name))
    read = np.array(x.values, np.float64)
    tolerance = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-12}[name]
    if case.chance(0.5):
        s = case.pick([1.5, 3.0])
        found = result_of(case, case.call("capped", capped, x.view, s, **case.stream()), None)
        wanted = s * np.tanh(read / s)
    else:
        own = tuple(n if case.chance(0.7) else 1 for n in shape)
        y, slope = lay(case, (case.rng.integers(-8, 9, own) / 2).astype(name)), case.pick([0.25, 0.5, -2])
        first, second = (case.place.empty(shape, np.dtype(d), **anywhere(case, shape, True)) for d in (name, "bool"))
        fresh = case.chance(0.5)
        options = {} if fresh else {"out": (first.view, second.view)}
        found = case.call("bent", bent, x.view, y.view, slope=slope, **options, **case.stream())
        found, truth = (result_of(case, f, None if fresh else o)
                        for f, o in zip(found, (first, second), strict=True))  # fmt: skip
        wanted, holds = bent_by_numpy(read, np.array(y.values, np.float64), slope)
        np.testing.assert_array_equal(truth, holds)
        y.assert_untouched()
    assert found.dtype == name
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    x.assert_untouched()
