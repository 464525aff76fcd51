"""What a matrix product's epilogue is composed of: elementwise formulas, masks of bits, sums over rows."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from conftest import bits, memory_layouts, sentinel
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DTYPES

from numbacc import LayoutError
from numbacc.arrays.operands import layout_of
from numbacc.base.dispatch import simulated
from numbacc.gemm import epilogue_plans
from numbacc.gemm.epilogue_plans import map_plan, pack_plan, select_plan, sum_plan
from numbacc.kernels.elementwise import geometry, other_launches

each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
some_layouts = settings(max_examples=20 if simulated() else settings.default.max_examples)


def layouts(*operands):
    return tuple(layout_of(o.view) for o in operands)


def run(plan, inputs, outs):
    """Run on `Operand`s. Nothing but the outs' elements may change."""
    before = [o.place.get(o.base) for o in outs]
    assert plan.run([o.view for o in inputs], [o.view for o in outs], outs[0].view, 0) is outs[0].view
    for operand, base in zip(outs, before, strict=True):
        operand.within(base)[...] = operand.now()
        np.testing.assert_array_equal(bits(operand.place.get(operand.base)), bits(base))
    for operand in inputs:
        if operand not in outs:
            operand.assert_untouched()


def assert_equal(got, wanted):
    """Equal as numbers, NaN to NaN."""
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))


def eighths(rng, shape, dtype):
    """Numbers of which any two add up without a rounding in every dtype."""
    return (rng.integers(-48, 49, shape) / 8).astype(dtype)


def shapes(draw):
    """A shape, and a seed for numbers of that shape."""
    rank = draw(st.integers(1, 4))
    longest = (150, 40, 12, 6)[rank - 1]
    last = st.one_of(st.integers(0, longest), st.sampled_from([1, 7, 8, 9, 16, 24, 64]))
    shape = (*draw(st.lists(st.integers(1, longest), min_size=rank - 1, max_size=rank - 1)), draw(last))
    return shape, draw(st.integers(0, 2**32 - 1))


# ---------------------------------------------------------------- formulas

FORMULAS = ("bias", "relu", "relu_bias", "gelu", "gelu_bias", "gelu_aux", "gelu_aux_bias", "dgelu")
each_formula = pytest.mark.parametrize("formula", FORMULAS)


def check_formula(formula, operands, results):
    """Results in NumPy against the oracle, where v + b is exact."""
    if formula == "dgelu":
        v, aux = operands
        backward = (v, np.ones_like(v), aux)
        first, _ = oracle.trusted("backward", "geglu_tanh", backward)
        oracle.assert_accurate("backward", "geglu_tanh", [first, results[0]], backward)
    else:
        check_forward(formula, operands, results)


def check_forward(formula, operands, results):
    dtype = operands[0].dtype
    z = sum(x.astype(np.float64) for x in operands).astype(dtype)
    if formula.startswith("gelu"):
        oracle.assert_accurate("forward", "geglu_tanh", [results[0]], (np.ones_like(z), z))
    else:
        assert_equal(results[0], np.maximum(z, dtype.type(0)) if "relu" in formula else z)
    if "aux" in formula:
        assert_equal(results[1], z)


def operands_of(place, formula, shape, dtype, bias_shape, seed=0, **how):
    """[v], [v, bias] or [v, aux], with the values of the second in v's shape."""
    rng = np.random.default_rng(seed)
    second = {"bias": bias_shape, "dgelu": shape}.get(formula.split("_")[-1])
    found = [place.operand(eighths(rng, s, dtype), **how) for s in (shape, second) if s is not None]
    return found, [np.broadcast_to(o.values, shape) for o in found]


@each_formula
@each_dtype
def test_formulas(place, formula, dtype):
    shape = (2, 9) if place.is_slow else (70, 257)
    inputs, values = operands_of(place, formula, shape, dtype, shape[1:])
    outs = [place.empty(shape, dtype) for _ in range(1 + ("aux" in formula))]
    run(map_plan(f"epilogue.{formula}", layouts(*inputs), layouts(*outs)), inputs, outs)
    check_formula(formula, values, [o.now() for o in outs])


@each_formula
def test_formulas_in_place(place, formula):
    """Into v; what GELU keeps goes elsewhere, or GELU itself does."""
    for targets in [("v",)] if "aux" not in formula else [("v", "fresh"), ("fresh", "v")]:
        inputs, values = operands_of(place, formula, (5, 24), DTYPES[3], (24,))
        outs = [inputs[0] if target == "v" else place.empty((5, 24), DTYPES[3]) for target in targets]
        run(map_plan(f"epilogue.{formula}", layouts(*inputs), layouts(*outs)), inputs, outs)
        check_formula(formula, values, [o.now() for o in outs])


@st.composite
def biases(draw):
    shape, seed = shapes(draw)
    own = draw(st.integers(0, len(shape) - 1))
    bias = tuple(n if draw(st.booleans()) else 1 for n in shape[own:])
    how = [draw(memory_layouts(len(s), writable)) for s, writable in ((shape, True), (bias, False), (shape, True))]
    return shape, bias, seed, how, draw(st.booleans()), draw(st.sampled_from(DTYPES))


@given(biases())
@some_layouts
def test_a_bias_of_any_shape_and_layout(place, drawn):
    """It is repeated along axes that it lacks, or that have length 1 in it."""
    shape, bias_shape, seed, how, in_place, dtype = drawn
    rng = np.random.default_rng(seed)
    v, bias = (place.operand(eighths(rng, s, dtype), **h) for s, h in zip((shape, bias_shape), how, strict=False))
    out = v if in_place else place.empty(shape, dtype, **how[2])
    values = [v.values.copy(), bias.values]
    run(map_plan("epilogue.relu_bias", layouts(v, bias), layouts(out)), [v, bias], [out])
    check_formula("relu_bias", values, [out.now()])


@each_dtype
def test_sums_with_the_bias_are_rounded_once(place, dtype):
    v, b = (np.random.default_rng(3).standard_normal((2, 6, 40))).astype(dtype)
    inputs, out = [place.operand(v), place.operand(b)], place.empty(v.shape, dtype)
    run(map_plan("epilogue.bias", layouts(*inputs), layouts(out)), inputs, [out])
    wide = oracle.compute_dtype(dtype)
    assert_equal(out.now(), (v.astype(wide) + b.astype(wide)).astype(dtype))


@each_dtype
def test_formulas_of_special_values(place, dtype):
    nan, inf = np.nan, np.inf
    v = place.operand(np.array([nan, inf, -inf, -0.0, 2.0]).astype(dtype))
    for formula, wanted in [("relu", [nan, inf, 0, 0, 2]), ("gelu", [nan, inf, nan, 0, 1.9546])]:
        out = place.empty((5,), dtype)
        run(map_plan(f"epilogue.{formula}", layouts(v), layouts(out)), [v], [out])
        np.testing.assert_allclose(out.now().astype(float), wanted, rtol=4e-3)


# ---------------------------------------------------------------- masks of bits

SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 6e-5, -6e-5]


def any_floats(rng, shape, dtype):
    return rng.choice(SPECIAL, shape).astype(dtype)


def mask_shape(shape):
    return (*shape[:-1], -(-shape[-1] // 8))


def bit_of(mask, columns):
    """The bits of a mask, one per column, as booleans."""
    column = np.arange(columns)
    return (mask[..., column // 8] >> (column % 8) & 1).astype(bool)


def packed(values):
    """The mask of values that are not below 0, bit by bit; NaN is not."""
    columns = values.shape[-1]
    mask = np.zeros(mask_shape(values.shape), np.uint8)
    for column in range(columns):
        number = values[..., column].astype(np.float64)
        kept = (number >= 0) | np.isnan(number)
        mask[..., column // 8] |= kept.astype(np.uint8) << np.uint8(column % 8)
    return mask


@st.composite
def masks(draw):
    shape, seed = shapes(draw)
    how = [draw(memory_layouts(len(shape), writable)) for writable in (True, False, True)]
    return shape, seed, how, draw(st.booleans()), draw(st.sampled_from(DTYPES))


def check_pack(place, values, how, mask_how):
    v, mask = place.operand(values, **how), place.empty(mask_shape(values.shape), np.dtype(np.uint8), **mask_how)
    plan = pack_plan(*layouts(v, mask))
    run(plan, [v], [mask])
    np.testing.assert_array_equal(mask.now(), packed(v.values))
    return plan


def check_select(place, values, how, mask_how, out_how=None, seed=0):
    """In place, unless `out_how` tells how the result lies in memory."""
    drawn = np.random.default_rng(seed).integers(0, 256, mask_shape(values.shape), np.uint8)
    v, mask = place.operand(values, **how), place.operand(drawn, **mask_how)
    out = v if out_how is None else place.empty(values.shape, values.dtype, **out_how)
    wanted = np.where(bit_of(mask.values, values.shape[-1]), v.values, np.zeros_like(v.values))
    plan = select_plan(*layouts(v, mask, out))
    run(plan, [v, mask], [out])
    assert_equal(out.now(), wanted)
    return plan


@given(masks())
@some_layouts
def test_packing_any_layout(place, drawn):
    shape, seed, how, _, dtype = drawn
    check_pack(place, any_floats(np.random.default_rng(seed), shape, dtype), how[0], how[2])


@given(masks())
@some_layouts
def test_selecting_in_any_layout(place, drawn):
    shape, seed, how, in_place, dtype = drawn
    values = any_floats(np.random.default_rng(seed), shape, dtype)
    check_select(place, values, *how[:2], None if in_place else how[2], seed)


DENSE, GAPS, UNALIGNED, TURNED = {}, {"margins": [(0, 0), (0, 8)]}, {"margins": [(0, 0), (1, 0)]}, {"order": (1, 0)}


@pytest.mark.too_long(lambda case: case.columns not in (24, 13))
@each_dtype
@pytest.mark.parametrize("how", [DENSE, GAPS, UNALIGNED, TURNED], ids=["dense", "gaps", "unaligned", "turned"])
@pytest.mark.parametrize("columns", [24, 13, 40, 1])
def test_masks_of_many_rows(place, dtype, how, columns):
    values = any_floats(np.random.default_rng(columns), (9 if place.is_slow else 600, columns), dtype)
    check_pack(place, values, how, GAPS)
    check_select(place, values, how, GAPS)
    check_select(place, values, how, DENSE, how)


@each_dtype
def test_masks_move_16_bytes_where_arrays_are_aligned(device_place, dtype):
    values = any_floats(np.random.default_rng(0), (2, 16), dtype)
    for how, nbytes in ((DENSE, 16), (GAPS, 16), (UNALIGNED, dtype.itemsize)):
        for plan in (check_pack(device_place, values, how, DENSE), check_select(device_place, values, how, DENSE)):
            assert f"{8 * nbytes}-bit accesses, 32-bit indices" in plan.info.algorithm


# ---------------------------------------------------------------- sums


def check_sum(place, values, axis, out_dtype=None, how=DENSE, out_how=DENSE):
    """Of integers, so that the sum is exact but for the last rounding."""
    dtype = out_dtype or values.dtype
    x = place.operand(values, **how)
    out = place.empty(np.delete(values.shape, axis), dtype, **out_how)
    plan = sum_plan(*layouts(x), axis, *layouts(out))
    run(plan, [x], [out])
    assert_equal(out.now(), x.values.astype(np.float64).sum(axis).astype(dtype))
    return plan


def integers(shape, dtype, seed=0):
    return np.random.default_rng(seed).integers(-6, 8, shape).astype(dtype)


@st.composite
def summands(draw):
    longest, most = (9, 2) if simulated() else (40, 5)
    matrix = st.tuples(st.integers(0, longest), st.integers(0, longest))
    shape = (*draw(st.lists(st.integers(1, most), max_size=2)), *draw(matrix))
    how = draw(memory_layouts(len(shape), False)), draw(memory_layouts(len(shape) - 1, True))
    seed, axis, widen = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([-2, -1])), draw(st.booleans())
    return shape, seed, axis, how, draw(st.sampled_from(DTYPES)), widen


@given(summands())
@some_layouts
def test_sums_in_any_layout(place, drawn):
    shape, seed, axis, how, dtype, widen = drawn
    check_sum(place, integers(shape, dtype, seed), axis, oracle.compute_dtype(dtype) if widen else None, *how)


@each_dtype
@pytest.mark.parametrize("axis", [-2, -1])
@pytest.mark.parametrize("how", [DENSE, GAPS, UNALIGNED, TURNED], ids=["dense", "gaps", "unaligned", "turned"])
def test_sums_of_many_rows(place, dtype, axis, how):
    """As many as take a thread several rounds, in columns that fill one block, or several."""
    for count, length in [(2, 530)] if place.is_slow else [(1, 9000), (24, 5000), (4096, 70), (300, 301)]:
        shape = (length, count) if axis == -2 else (count, length)
        check_sum(place, integers(shape, dtype), axis, how=how)


@each_dtype
def test_sums_of_nothing_are_0(place, dtype):
    for shape, axis in [((0, 5), -2), ((3, 0, 5), -2), ((5, 0), -1), ((4, 0), -2), ((0, 4, 3), -2), ((0, 0), -1)]:
        check_sum(place, np.zeros(shape, dtype), axis)


@each_dtype
def test_sums_are_accurate(place, dtype):
    """As accurate as NumPy's in the dtype that they are added up in, but for one rounding of the result."""
    values = np.random.default_rng(1).standard_normal((40, 4) if place.is_slow else (4000, 64)).astype(dtype)
    x, out = place.operand(values), place.empty(values.shape[1:], dtype)
    run(sum_plan(*layouts(x), -2, *layouts(out)), [x], [out])
    exact = values.astype(np.longdouble).sum(0)
    trusted = np.abs(values.astype(oracle.compute_dtype(dtype)).sum(0) - exact).max()
    error = np.abs(out.now().astype(np.longdouble) - exact)
    assert (error <= 2 * trusted + oracle.spacing(exact, dtype) / 2).all()


@each_dtype
def test_sums_of_special_values(place, dtype):
    nan, inf = np.nan, np.inf
    values = np.array([[nan, 1, inf, inf, -inf], [1, 2, 1, -inf, 1]]).astype(dtype)
    x, out = place.operand(values), place.empty((5,), dtype)
    run(sum_plan(*layouts(x), -2, *layouts(out)), [x], [out])
    assert_equal(out.now(), np.array([nan, 3, inf, nan, -inf]).astype(dtype))


def test_sums_have_the_same_bits_twice(place):
    values = np.random.default_rng(2).standard_normal((33, 8) if place.is_slow else (1300, 40)).astype(np.float32)
    x, outs = place.operand(values), [place.empty(values.shape[1:], DTYPES[0]) for _ in range(2)]
    for out in outs:
        run(sum_plan(*layouts(x), -2, *layouts(out)), [x], [out])
    np.testing.assert_array_equal(bits(outs[0].now()), bits(outs[1].now()))


# ---------------------------------------------------------------- plans


def test_plan_info(place):
    x, s = place.operand(integers((6, 16), DTYPES[3])), place.empty((16,), DTYPES[0])
    plan = sum_plan(*layouts(x), -2, *layouts(s))
    assert plan is sum_plan(*layouts(x), -2, *layouts(s))
    info = plan.info
    assert (info.op, info.dtypes) == ("epilogue.sum_rows", ("bfloat16", "float32"))
    assert info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert (info.math_dtype, info.accumulator_dtype, info.deterministic) == ("float32", "float32", True)
    assert map_plan("epilogue.relu", layouts(x), layouts(x)).info.accumulator_dtype is None


def test_memory_is_shared_element_for_element_or_not_at_all(place):
    base = place.put(np.full(64, sentinel(DTYPES[0])))
    v, row, apart = base.reshape(8, 8), base[:8], place.put(np.zeros((8, 1), np.uint8))

    def refuses(plan, inputs, outs):
        with pytest.raises(LayoutError, match="overlap"):
            plan.run(inputs, outs, outs[0], 0)

    def of(*views):
        return [layout_of(view) for view in views]

    refuses(sum_plan(*of(v), -2, *of(row)), [v], [row])
    refuses(select_plan(*of(v[1:], apart[1:], v[:7])), [v[1:], apart[1:]], [v[:7]])
    refuses(map_plan("epilogue.bias", tuple(of(v, row)), tuple(of(v))), [v, row], [v])
    select_plan(*of(v, apart, v)).run([v, apart], [v], v, 0)
    assert not place.get(base).any()


def test_a_mask_shares_no_memory_with_numbers(numpy_place):
    """Not even if both have one column, and steps of the same number of bytes."""
    base = np.zeros(64, np.uint8)
    v, mask = base.view(np.float16)[:, None], base[::2, None]
    like = [layout_of(a) for a in (v, mask)]
    for plan, inputs, out in [
        (pack_plan(*like), [v], mask),
        (select_plan(*like, like[0]), [v, mask], v),
    ]:
        with pytest.raises(LayoutError, match="overlap"):
            plan.run(inputs, [out], out, 0)


@pytest.mark.parametrize("change", ["wide", "low"])
def test_64_bit_indices_and_more_rows_than_the_grid_has(device_place, monkeypatch, change):
    if change == "wide":
        monkeypatch.setattr(other_launches, "_is_wide", lambda *_: True)
    else:
        monkeypatch.setattr(geometry, "_MAX_GRID_Y", 1)
    epilogue_plans.plans.clear()
    values = integers((2, 70, 8), DTYPES[2])
    made = [check_pack(device_place, values, DENSE, DENSE), check_select(device_place, values, DENSE, DENSE)]
    made.append(check_sum(device_place, values, -2))
    for plan in made:
        assert ("64-bit indices" if change == "wide" else ", 1), block") in plan.info.algorithm
    epilogue_plans.plans.clear()
