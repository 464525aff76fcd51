"""Gated activations, forward and backward, against the oracle: layouts, values, plans."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import oracle
import pytest
from conftest import Call, Place, bits, half, memory_layouts, packed
from hypothesis import given
from hypothesis import strategies as st
from oracle import DTYPES, KINDS

import numbacc
from numbacc import gated
from numbacc.base.dispatch import simulated

pytestmark = pytest.mark.usefixtures("poison")

DIRECTIONS, GATES = ("forward", "backward"), ("second", "first")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
each_gate = pytest.mark.parametrize("gate", GATES)
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
single_or_pair = pytest.mark.parametrize("paired", [False, True], ids=["single", "pair"])


# ---------------------------------------------------------------- every combination


@each_direction
@each_kind
@each_dtype
@each_gate
@single_or_pair
def test_every_combination(place, direction, kind, dtype, gate, paired):
    shape = (2, 19) if place.is_slow else (9, 67)
    layouts = [{}, {"margins": ((1, 0), (8, 8))}, {"margins": ((0, 0), (1, 2))}, {"order": (1, 0)}]
    for layout in layouts[:: 2 if place.is_slow else 1]:
        same = [layout] * (1 + paired + (direction == "backward"))
        call = Call(place, direction, kind, dtype, shape, gate=gate, paired=paired, layouts=same)
        call.verify(call.results(call.run()))
        for operand in call.operands:
            operand.assert_untouched()


_BETWEEN = {"margins": ((0, 0), (3, 17))}  # 3 elements behind a 16-byte boundary, rows as far apart as it takes
#: Shape, layout of the first operand, and of all others (out too).
_KERNEL_CASES = {
    "vector": ((2, 300), _BETWEEN, _BETWEEN),
    "uneven, from other places": ((1, 1023), {"margins": ((0, 0), (1, 0))}, {}),
    "uneven, at odd distances": ((2, 1023), {"margins": ((0, 0), (0, 1))}, {}),
    "scalar": ((5, 7) if simulated() else (70_000, 7), {"margins": ((0, 0), (1, 0))}, {}),
    "tiled": ((18, 35) if simulated() else (70, 145), {"order": (1, 0)}, {}),
    "tiled, a row short": ((31, 32) if simulated() else (95, 160), {"order": (1, 0)}, {}),
    "tiled, a column short": ((32, 31) if simulated() else (96, 159), {"order": (1, 0)}, {}),
    "strided": ((5, 7), {"steps": (1, 2)}, {}),
}


@each_direction
@each_dtype
@pytest.mark.parametrize("case", _KERNEL_CASES)
def test_each_kernel_with_ragged_edges(place, direction, dtype, case):
    shape, first, others = _KERNEL_CASES[case]
    layouts = [first] + [others] * (1 + (direction == "backward"))
    call = Call(place, direction, "swiglu", dtype, shape, paired=True, layouts=layouts)
    outs = call.outs([others] * len(call.shapes))
    call.run(out=packed(outs))
    call.verify([o.now() for o in outs])
    for operand in outs:
        operand.assert_written_only()
    if place.is_device:
        assert call.plan(out=packed(outs)).info.algorithm.startswith(case.split(",")[0])


@pytest.mark.gpu
@pytest.mark.parametrize("algorithm, columns, margin", [("scalar", 100, 1), ("uneven", 260, 1), ("vector", 264, 0)])
def test_more_rows_than_a_grid_has(algorithm, columns, margin):
    """65535 blocks of at most 4 rows each: the kernels go on to the rows that are left."""
    place, shape = Place("gpu"), (4 * 65535 + 9, columns)
    layouts = [{"margins": ((0, 0), (margin, 0))}, {}]
    call = Call(place, "forward", "reglu", DTYPES[0], shape, paired=True, layouts=layouts)
    (y,) = call.results(call.run())
    a, b = call.values()
    np.testing.assert_array_equal(y, np.where(b > 0, a * b, 0))
    assert call.plan().info.algorithm.startswith(algorithm)


@each_direction
@each_dtype
@each_kind
def test_the_whole_range_of_b(place, direction, dtype, kind):
    values = oracle.sample(dtype, 64 if place.is_slow else 4000)[direction == "forward" :]
    call = Call(place, direction, kind, dtype, values[0].shape, paired=True, arguments=values)
    call.verify(call.results(call.run()))


@each_direction
@pytest.mark.parametrize("axis", range(-8, 8))
def test_rank_eight_and_every_axis(place, direction, axis):
    layouts = [{"order": (3, 1, 0, 2, 7, 5, 6, 4), "margins": ((0, 1),) * 8}] * (1 + (direction == "backward"))
    call = Call(place, direction, "geglu", DTYPES[0], (1, 2, 1, 3, 1, 2, 1, 2), axis=axis, layouts=layouts)
    call.verify(call.results(call.run()))


# ---------------------------------------------------------------- any layout


_LONGEST = {1: 300, 2: 18, 3: 4, 4: 3, 5: 2} if simulated() else {1: 2000, 2: 40, 3: 8, 4: 4, 5: 3}


@st.composite
def calls(draw):
    """Arguments for `Call`, and what `out` is."""
    rank = draw(st.integers(1, 5))
    lengths = st.integers(1, _LONGEST[rank]) if draw(st.integers(0, 9)) else st.integers(0, 2)
    direction, paired = draw(st.sampled_from(DIRECTIONS)), draw(st.booleans())
    target = draw(st.sampled_from(["fresh", "given", "first", "second"]))
    count = 1 + paired
    xs = [draw(memory_layouts(rank, target in GATES)) for _ in range(count)]
    dy = [draw(memory_layouts(rank, False))] if direction == "backward" else []
    results = count if direction == "backward" else 1
    outs = [draw(memory_layouts(rank, True)) for _ in range(results)] if target == "given" else None
    arguments = {
        "direction": direction,
        "kind": draw(st.sampled_from(KINDS)),
        "dtype": draw(st.sampled_from(DTYPES)),
        "shape": tuple(draw(st.lists(lengths, min_size=rank, max_size=rank))),
        "gate": draw(st.sampled_from(GATES)),
        "paired": paired,
        "axis": draw(st.integers(-rank, rank - 1)),
        "layouts": [*dy, *xs],
        "seed": draw(st.integers(0, 2**32 - 1)),
    }
    return arguments, target, outs


@given(calls())
def test_any_layout(place, drawn):
    """Fresh result, given `out`, or in place: forward into one half, backward into x."""
    arguments, target, layouts = drawn
    call = Call(place, **arguments)
    written = []
    if target == "fresh":
        call.verify(call.results(call.run()))
    elif target == "given":
        written = call.outs(layouts)
        out = packed(written)
        assert call.run(out=out) is out
        call.verify([o.now() for o in written])
        for operand in written:
            operand.assert_written_only()
    elif call.direction == "forward":
        which = GATES.index(target)
        written = [call.x[which]] if call.paired else call.x

        def part(view):
            return view if call.paired else half(view, call.axis, which)

        call.run(out=part(written[0].view))
        call.verify([part(written[0].now())])
        written[0].assert_written_only(part)
    else:
        written = call.x
        call.run(out=packed(written))
        call.verify([o.now() for o in written])
        for operand in written:
            operand.assert_written_only()
    for operand in call.operands:
        if operand not in written:
            operand.assert_untouched()


@each_gate
def test_gradients_may_swap_places_with_the_pair_and_take_dy(place, gate):
    """Every output is some operand's own memory, element for element."""
    for pick in ([2, 1], [0, 1], [1, 0], [2, 0]):
        call = Call(place, "backward", "swiglu", DTYPES[0], (5, 7), gate=gate, paired=True)
        targets = [call.operands[k] for k in pick]
        call.run(out=packed(targets))
        call.verify([o.now() for o in targets])


@each_gate
@each_dtype
def test_gradients_with_the_result(place, gate, dtype):
    """One kernel gives the results of both functions, bit for bit, also over x and dy."""
    rng, columns = np.random.default_rng(4), 18
    values, slopes = (rng.standard_normal((3, n)).astype(dtype) for n in (2 * columns, columns))
    for kind in KINDS:
        wanted = [place.get(gated.backward(place.put(slopes), place.put(values), kind, gate=gate))]
        wanted.append(place.get(gated.forward(place.put(values), kind, gate=gate)))
        x, dy = (place.operand(each, margins=((0, 0), (1, 2))) for each in (values, slopes))
        found = gated.backward_and_forward(dy.view, x.view, kind, gate=gate)
        out = x.view, dy.view
        assert gated.backward_and_forward(dy.view, x.view, kind, gate=gate, out=out) is out
        for results in (map(place.get, found), (x.now(), dy.now())):
            for one, other in zip(results, wanted, strict=True):
                np.testing.assert_array_equal(bits(one), bits(other))
        for each in (x, dy):
            each.assert_written_only()


@each_direction
def test_length_one_axes_have_strides_without_meaning(place, direction):
    """The out of x[:, :4] may have any stride along its axis of length 1: it is still x's own half."""
    call = Call(place, direction, "swiglu", DTYPES[0], (1, 4))
    whole = call.operands[-1]
    flat = whole.view.reshape(8)
    out = flat[:4].reshape(1, 4) if direction == "forward" else flat.reshape(1, 8)
    call.run(out=out)
    call.verify([half(whole.now(), -1, 0) if direction == "forward" else whole.now()])


# ---------------------------------------------------------------- special values


def special_values(dtype, few):
    big = {2: 1e4, 4: 1e30, 8: 1e300}[dtype.itemsize] if dtype != DTYPES[3] else 1e30
    values = [np.nan, np.inf, -np.inf, 0.0, 1.0, -2.0, big, -big]
    return values if few else [*values, -0.0, 0.75, -big / 3]


@each_direction
@each_kind
@each_dtype
@each_gate
def test_nan_and_infinity_go_through_as_the_formulas_say(place, direction, kind, dtype, gate):
    """Every combination of special values: NaN, infinity and finite where the literal formula has them."""
    values = np.array(special_values(dtype, place.is_slow)).astype(dtype)
    count = 2 + (direction == "backward")
    grid = [g.ravel() for g in np.meshgrid(*[values] * count, indexing="ij")]
    call = Call(place, direction, kind, dtype, grid[0].shape, gate=gate, paired=True, arguments=grid)
    call.verify(call.results(call.run()))


def evaluate(place, direction, kind, *operands):
    """The results of a call on a pair: [y], or [da, db]."""
    dtype, shape = operands[0].dtype, operands[0].shape
    call = Call(place, direction, kind, dtype, shape, paired=True, arguments=list(operands))
    return call.results(call.run())


@each_dtype
def test_reglu_selects(place, dtype):
    """Forward keeps NaN; backward gives 0 where b is not positive, whatever dy and a are."""
    dy = np.array([5, np.inf, np.nan, np.inf, -1]).astype(dtype)
    a = np.array([2, np.inf, 2, 2, np.inf]).astype(dtype)
    b = np.array([np.nan, -1, -1, 0, 3]).astype(dtype)
    (y,) = evaluate(place, "forward", "reglu", a, b)
    np.testing.assert_array_equal(y.astype(float), [np.nan, np.nan, 0, 0, np.inf])
    da, db = evaluate(place, "backward", "reglu", dy, a, b)
    np.testing.assert_array_equal(da.astype(float), [0, 0, 0, 0, -3])
    np.testing.assert_array_equal(db.astype(float), [0, 0, 0, 0, -np.inf])


@each_dtype
@pytest.mark.parametrize("kind", oracle.WRITTEN)
def test_saturation(place, kind, dtype):
    """Far from 0 the gate is 0, 1 or b, exactly, and nothing overflows on the way there."""
    # Where the gate is 0 or 1 to the last bit: exp(-b) or the tail of Φ is below the smallest subnormal.
    far = {"float16": 1e3, "bfloat16": 1e30, "float32": 1e30, "float64": 1e300}[dtype.name]
    top = 0.75 * float(np.finfo(dtype).max if dtype.name != "bfloat16" else 3e38)
    b = np.array([far, -far, top, -top]).astype(dtype)
    a, dy = (np.full(4, v).astype(dtype) for v in (0.5, -0.25))
    wide = b.astype(np.float64)
    g = (wide > 0) * (1.0 if kind == "glu" else wide)
    slope = 0.0 if kind == "glu" else (wide > 0) * 1.0
    (y,) = evaluate(place, "forward", kind, a, b)
    np.testing.assert_array_equal(y.astype(np.float64), 0.5 * g)
    da, db = evaluate(place, "backward", kind, dy, a, b)
    np.testing.assert_array_equal(da.astype(np.float64), -0.25 * g)
    np.testing.assert_array_equal(db.astype(np.float64), -0.125 * slope * np.ones(4))


@each_kind
def test_backward_is_the_slope_of_forward(place, kind):
    """Central differences of the float64 forward: as close as those of the oracle's come to its backward."""
    count, step = (40 if place.is_slow else 400), 2.0**-17
    rng = np.random.default_rng(3)
    b = rng.uniform(-6, 6, count)
    b[np.abs(b) < 2 * step] = 1.0  # reglu has a corner at 0
    a, dy = rng.standard_normal((2, count))

    def differences(forward):
        """da and db from the forward alone."""
        along_a = (forward(a + step, b) - forward(a - step, b)) / (2 * step)
        along_b = (forward(a, b + step) - forward(a, b - step)) / (2 * step)
        return dy * along_a, dy * along_b

    ours = differences(lambda a, b: evaluate(place, "forward", kind, a, b)[0])
    theirs = differences(lambda a, b: oracle.evaluate("forward", kind, (a, b), np.float64)[0].value)
    results, expected = evaluate(place, "backward", kind, dy, a, b), oracle.backward(dy, a, b, kind)
    for result, slope, other, exact in zip(results, ours, theirs, expected, strict=True):
        allowed = 2 * np.abs(other - exact).max() + 1e-12
        assert np.abs(result - slope).max() <= allowed


# ---------------------------------------------------------------- results


@each_direction
@each_kind
@each_dtype
def test_the_same_bits_twice(place, direction, kind, dtype):
    call = Call(place, direction, kind, dtype, (3, 11) if place.is_slow else (37, 129))
    first, second = (call.results(call.run())[0] for _ in range(2))
    np.testing.assert_array_equal(bits(first), bits(second))


@each_direction
@single_or_pair
@pytest.mark.parametrize(
    "shape, axis", [((0,), 0), ((0, 4), 1), ((3, 0), 1), ((3, 0), 0), ((2, 0, 3), -1), ((0, 0), 0)]
)
def test_size_zero(place, direction, paired, shape, axis):
    for given_out in (False, True):
        call = Call(place, direction, "geglu", DTYPES[3], shape, paired=paired, axis=axis)
        answer = call.run(out=packed(call.outs()) if given_out else None)
        results = answer if isinstance(answer, tuple) else (answer,)
        assert [r.shape for r in results] == list(call.shapes)
        assert all(r.dtype == DTYPES[3] for r in results)


@each_direction
@each_dtype
def test_results_have_the_dtype_place_and_memory_order_of_x(place, direction, dtype):
    for order, signs in product(permutations(range(3)), [(1, 1, 1), (-1, 2, 1)]):
        layouts = [{"order": order, "steps": signs}] * (1 + (direction == "backward"))
        call = Call(place, direction, "glu", dtype, (2, 3, 4), axis=1, layouts=layouts)
        result = call.run()
        assert type(result) is (np.ndarray if not place.is_device else type(numbacc.zeros(1)))
        assert result.dtype == dtype
        like = call.operands[-1].values
        like = half(like, 1, 0) if direction == "forward" else like
        assert result.shape == like.shape
        assert tuple(result.strides) == np.empty_like(like).strides


# ---------------------------------------------------------------- plans


@each_direction
@single_or_pair
@each_gate
def test_a_plan_gives_the_same_bits_as_the_function(place, direction, paired, gate):
    """Called again and again, with other memory laid out alike; and the same, written to `out`."""
    make = {"kind": "swiglu", "dtype": DTYPES[2], "shape": (4, 9), "paired": paired, "gate": gate}
    call = Call(place, direction, **make)
    outs = call.outs([{"margins": ((0, 1), (1, 0))}] * len(call.shapes))
    plan, plan_out = call.plan(), call.plan(out=packed(outs))
    for seed in range(3):
        again = Call(place, direction, **make, seed=seed)
        for one, two in zip(again.results(plan(*again.arguments)), again.results(again.run()), strict=True):
            np.testing.assert_array_equal(bits(one), bits(two))
        again.run(out=packed(outs))
        expected = [np.array(o.now()) for o in outs]
        plan_out(*again.arguments, out=packed(outs))
        for one, two in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(bits(np.array(one.now())), bits(two))


@each_direction
@each_dtype
def test_plan_info(place, direction, dtype):
    info = Call(place, direction, "geglu_tanh", dtype, (4, 8)).plan().info
    assert info.op == f"gated.{direction}"
    assert info.dtypes == (dtype.name,) * (2 + (direction == "backward"))
    assert info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert info.algorithm and info.workspace_bytes == 0
    assert info.math_dtype == ("float64" if dtype == np.float64 else "float32")
    assert info.accumulator_dtype is None
    assert info.deterministic is True


@each_direction
def test_a_plan_made_for_an_out_refuses_to_be_called_without_one(place, direction):
    """Of the layout of that out it could allocate none."""
    call = Call(place, direction, "glu", DTYPES[0], (4, 6))
    plan = call.plan(out=packed(call.outs([{"steps": (2, -3)}])))
    with pytest.raises(numbacc.LayoutError, match="was made with out: call it with out, too"):
        plan(*call.arguments)


def test_a_plan_outlives_the_cache_of_layouts(place):
    """What layouts were interned as is no business of whoever holds a plan."""
    from numbacc.base.layout import layout

    call = Call(place, "forward", "glu", DTYPES[0], (4, 6))
    plan = call.plan()
    layout.cache_clear()
    again = Call(place, "forward", "glu", DTYPES[0], (4, 6))
    again.verify(again.results(plan(*again.arguments)))


def test_the_cache_of_plans(place):
    call = Call(place, "forward", "glu", DTYPES[0], (4, 6))
    gated.cache_clear()
    assert gated.cache_info()[:2] == (0, 0)
    call.run()
    call.run()
    info = gated.cache_info()
    assert (info.hits, info.misses, info.currsize) == (1, 1, 1)
    assert info.maxsize >= 1
    assert call.plan() is call.plan()
    gated.cache_clear()
    assert gated.cache_info().currsize == 0


@each_kind
def test_kind_is_positional_and_the_rest_is_not(place, kind):
    call = Call(place, "forward", kind, DTYPES[0], (2, 4))
    for one, two in zip(call.results(gated.forward(*call.arguments, kind)), call.results(call.run()), strict=True):
        np.testing.assert_array_equal(bits(one), bits(two))
    with pytest.raises(TypeError):
        gated.forward(*call.arguments, kind, -1)


@pytest.mark.gpu
def test_what_differs_from_the_last_call_with_torchs_tensors(torch):
    """Calls like the last one skip checks. Other layouts, addresses, options, gradients and streams are noticed."""
    flat = torch.randn(6 * 32 + 1, device="cuda")
    x = flat[:-1].view(6, 32)

    def check(x, axis, kind, **where):
        dy = torch.randn_like(torch.nn.functional.glu(x, axis))
        a, b = (each.double().requires_grad_() for each in x.chunk(2, axis))
        exact = a * (b.sigmoid() if kind == "glu" else b.relu())
        exact.backward(dy.double())
        wanted = exact.detach(), torch.cat((a.grad, b.grad), axis)
        torch.cuda.synchronize()
        for function, arguments, result in zip((gated.forward, gated.backward), ((x,), (dy, x)), wanted, strict=True):
            out = torch.full_like(result, torch.nan, dtype=x.dtype)
            torch.cuda.synchronize()
            assert function(*arguments, kind, axis=axis, out=out, **where) is out
            new = function(*arguments, kind, axis=axis, **where)
            torch.cuda.synchronize()
            for each in (out.cpu().numpy(), numbacc.asnumpy(new)):
                np.testing.assert_allclose(each, result.cpu().numpy(), rtol=1e-5, atol=1e-6)

    for each in (x, x, flat[1:].view(6, 32), x.T, x[:, ::2], x[:4], x.double(), x):
        for axis, kind in ((-1, "glu"), (-1, "glu"), (0, "glu"), (-1, "reglu"), (-1, "glu")):
            check(each, axis, kind)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        check(x, -1, "glu", stream=side)
    gated.cache_clear()
    assert not gated.cache_info().currsize
    check(x, -1, "glu")
    assert gated.cache_info().currsize == 4
    dy = torch.randn(6, 16, device="cuda")
    for arguments in ((dy, x.clone().requires_grad_()), (dy.clone().requires_grad_(), x)):
        with pytest.raises(numbacc.DTypeError, match="detach"):
            gated.backward(*arguments, "glu")
    wanted = gated.backward(dy, x, "glu")
    assert gated.backward(dy, x, "glu", out=x) is x
    np.testing.assert_array_equal(x.cpu().numpy(), numbacc.asnumpy(wanted))
