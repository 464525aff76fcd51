"""AdamW's step, of one parameter and of lists of them, against the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import bits, refused
from optimizer_cases import (
    KINDS,
    OPTIONS,
    assert_near,
    assert_same,
    drawn,
    dtype,
    each_kind,
    exact,
    put,
)

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dtypes import TABLE

pytestmark = pytest.mark.usefixtures("small_lists")


@each_kind
def test_a_step_of_lists(place, kinds):
    p, g, m, v = drawn(kinds)
    mine = put(place, (p, g, m, v))
    found = ew.adamw_step(*mine, 3, **OPTIONS)
    assert found[0] is mine[0] and found[1] is mine[2] and found[2] is mine[3]
    for k in range(len(p)):
        wanted = exact(p[k], g[k], m[k], v[k], 3, **OPTIONS)
        for own, want in zip((mine[0][k], mine[2][k], mine[3][k]), wanted, strict=True):
            assert_near(place.get(own), want)
        np.testing.assert_array_equal(bits(place.get(mine[1][k])), bits(g[k]), "gradients are read")


@each_kind
def test_a_list_is_one_by_one_to_the_bit(place, kinds):
    lists = drawn(kinds)
    mine, others = put(place, lists), put(place, lists)
    for t in (1, 2):
        ew.adamw_step(*mine, t, **OPTIONS)
        for row in zip(*others, strict=True):
            ew.adamw_step(*row, t, **OPTIONS)
    assert_same(place, mine, others)


@pytest.mark.parametrize("kinds", KINDS[:2], ids="-".join)
def test_many_steps(place, kinds):
    """Errors add up no faster than roundings do."""
    shapes, steps = [(9,), (4, 5)], 5 if place.is_slow else 40
    p, _, m, v = drawn(kinds, shapes)
    m, v = ([np.zeros_like(x) for x in each] for each in (m, v))
    mine = put(place, (p, p, m, v))
    wanted = [(x.astype(np.float64), 0.0, 0.0) for x in p]
    for t in range(1, steps + 1):
        g = drawn(kinds, shapes, t)[1]
        mine[1] = [place.put(x) for x in g]
        ew.adamw_step(*mine, t)
        wanted = [exact(own[0], x, *own[1:], t) for own, x in zip(wanted, g, strict=True)]
    step = 2.0 ** -TABLE[kinds[0]].significand_bits
    for k, want in enumerate(wanted):
        assert np.abs(place.get(mine[0][k]).astype(np.float64) - want[0]).max() < 4 * steps * step
        assert_near(place.get(mine[2][k]), want[1], factor=4 * steps)
        assert_near(place.get(mine[3][k]), want[2], factor=4 * steps)


@pytest.mark.parametrize("shapes", [[(5, 7), (3,), (0, 4), (61,)], [(130,)]], ids=len)
@pytest.mark.parametrize("has_decays", [False, True])
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_factors_copies_and_decays(place, shapes, half, has_decays):
    """A float32 p with 16-bit gradients and copies: parts of flat buffers, strided ones, and one alone."""
    kinds = ("float32", half, "float32")
    for on_gpu in ("", "factor", "step factor", "step rate factor", "step") if place.is_device else ("",):
        lists = drawn(kinds, shapes)
        # The second parameter is strided. So it has its own launch.
        mine = [[place.put(np.repeat(x, 2, -1))[..., ::2] if k == 1 else place.put(x) for k, x in enumerate(each)]
                for each in lists]  # fmt: skip
        sizes = np.cumsum([0, *(x.size + 1 for x in lists[0])])
        flat = place.put(np.full(sizes[-1], 7, dtype(half)))
        copies = [flat[n : n + x.size].reshape(x.shape) for n, x in zip(sizes, lists[0], strict=False)]
        decays = [0.02 * (k + 1) for k in range(len(shapes))] if has_decays else 0.02
        options, t = {**OPTIONS, "weight_decay": decays, "factor": 0.25}, 3
        for name, value in (("rate", np.float32(0.1)), ("factor", np.float32(0.25))):
            if name in on_gpu:
                options[name] = place.put(np.full(1, value))
        step = place.put(np.full(1, t)) if "step" in on_gpu else t
        given, more = (mine, {"copy": copies}) if len(shapes) > 1 else ([each[0] for each in mine], {"copy": copies[0]})
        if len(shapes) == 1 and has_decays:
            options["weight_decay"] = 0.02
        ew.adamw_step(*given, step, **options, **more)
        for k in range(len(shapes)):
            own = {**OPTIONS, "weight_decay": decays[k] if has_decays else decays}
            p, g, m, v = (each[k] for each in lists)
            wanted = exact(p, g.astype(float) * 0.25, m, v, t, **own)
            for found, want in zip((mine[0][k], mine[2][k], mine[3][k]), wanted, strict=True):
                assert_near(place.get(found), want, factor=16)
            np.testing.assert_array_equal(place.get(copies[k]), place.get(mine[0][k]).astype(dtype(half)))
        assert (place.get(flat)[sizes[1:] - 1] == 7).all()
        # A factor of NaN changes nothing.
        before = [[place.get(x) for x in each] for each in mine]
        options["factor"] = place.put(np.full(1, np.nan, np.float32)) if "factor" in on_gpu else np.nan
        ew.adamw_step(*given, step, **options, **more)
        assert_same(place, mine, [[place.put(x) for x in each] for each in before])


def test_tuples_and_nothing(place):
    lists = put(place, drawn(KINDS[0], [(4,), (0,)]))
    assert ew.adamw_step(*map(tuple, lists), 1)[0] == tuple(lists[0])
    assert ew.adamw_step([], [], [], [], 1) == ([], [], [])
    empty = [[place.put(np.zeros(0, np.float32))] for _ in range(4)]
    assert ew.adamw_step(*empty, 1)[0] is empty[0]
    assert ew.adamw_step.plan(*empty, 1).info.op == "elementwise.adamw_step"


@pytest.mark.parametrize("kinds", [KINDS[0], KINDS[1], KINDS[4]], ids="-".join)
def test_any_alignment(place, kinds):
    """Arrays that start anywhere, each elsewhere, and nothing written beside them."""
    rng = np.random.default_rng(5)
    sizes, starts = (40, 41, 7, 100), ((0, 0, 0, 0), (1, 1, 1, 1), (1, 2, 3, 4), (4, 8, 0, 4))
    values = drawn(kinds, [(n,) for n in sizes])
    lists = []
    for number, each in enumerate(values):
        margins = [(starts[k][number], int(rng.integers(0, 3))) for k in range(len(sizes))]
        lists.append([place.operand(x, margins=[margin]) for x, margin in zip(each, margins, strict=True)])
    others = put(place, values)
    ew.adamw_step(*[[each.view for each in own] for own in lists], 2, **OPTIONS)
    ew.adamw_step(*others, 2, **OPTIONS)
    for number, own in enumerate(lists):
        for operand, other in zip(own, others[number], strict=True):
            np.testing.assert_array_equal(bits(operand.now()), bits(place.get(other)))
            operand.assert_untouched() if number == 1 else operand.assert_written_only()


def test_any_strides(place):
    """Where memory has no gaps and one order a kernel takes it as it lies; others have launches of their own."""
    layouts = [
        ({"order": (1, 0)},) * 4,  # all transposed
        ({"order": (1, 0)}, {}, {"order": (1, 0)}, {"order": (1, 0)}),  # the gradient not
        ({"steps": (2, 1)},) * 4,
        ({}, {"steps": (-1, 1)}, {}, {}),
        ({}, {"steps": (0, 1)}, {}, {}),  # a gradient that is repeated
        ({},) * 4,
    ]
    values = drawn(KINDS[1], [(5, 6)] * len(layouts))
    for k, layout in enumerate(layouts):
        if 0 in layout[1].get("steps", (1,)):
            values[1][k][:] = values[1][k][0]
    lists = [[place.operand(x, **layouts[k][number]) for k, x in enumerate(each)] for number, each in enumerate(values)]
    views, others = [[each.view for each in own] for own in lists], put(place, values)
    for t in (1, 2):
        ew.adamw_step(*views, t, **OPTIONS)
        ew.adamw_step(*others, t, **OPTIONS)
    for number, own in enumerate(lists):
        for operand, other in zip(own, others[number], strict=True):
            np.testing.assert_array_equal(bits(operand.now()), bits(place.get(other)))
    if place.is_device:
        assert "list_maps, 2 of 6" in ew.adamw_step.plan(*views, 1).info.algorithm


# ---------------------------------------------------------------- steps that are counted on the GPU


@pytest.mark.parametrize("counter", ["int64", "int32", "float32", "float64", "uint64"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_counter_on_the_gpu(device_place, counter, alone):
    """And the rate with some."""
    place, shapes = device_place, [(5, 6), (3,)]
    for kinds in (KINDS[0], KINDS[1], KINDS[4]):
        p, g, m, v = drawn(kinds, shapes)
        mine = put(place, (p, g, m, v))
        mine[1][0] = place.put(np.asfortranarray(g[0]))  # not in one memory order with the rest
        count = place.put(np.array([0, 7], dtype(counter)))[1:]
        count = count.reshape(()) if counter == "int64" else count
        rate = {"float32": np.float32, "float64": np.float64}.get(counter)
        options = OPTIONS | ({} if rate is None else {"rate": place.put(np.array([0.1], rate))})
        for row in zip(*mine, strict=True) if alone else [mine]:
            ew.adamw_step(*row, count, **options)
        assert place.get(count).item() == 7, "it is left as it is"
        for k in range(len(shapes)):
            wanted = exact(p[k], g[k], m[k], v[k], 7, **OPTIONS)
            for own, want in zip((mine[0][k], mine[2][k], mine[3][k]), wanted, strict=True):
                if rate is np.float32 and kinds[0] == "float64":
                    np.testing.assert_allclose(place.get(own), want, rtol=1e-7)
                else:
                    assert_near(place.get(own), want, factor=16)


@pytest.mark.parametrize("t", [1, 2, 1000, 10**6])
@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.0), (0.5, 0.99999)])
def test_numbers_of_a_counter(device_place, t, betas):
    """1 - β^t is exact to rounding, β near 1 or not."""
    place = device_place
    options = {"beta1": betas[0], "beta2": betas[1], "rate": 0.5, "weight_decay": 0.0}
    x = [np.full(3, value, np.float32) for value in (0.0, 0.5, 0.25, 0.3)]
    mine = put(place, ([each] for each in x))
    ew.adamw_step(*mine, place.put(np.array(t)), **options)
    wanted = exact(*x, t, **options)[0]
    np.testing.assert_allclose(place.get(mine[0][0]), wanted, rtol=2e-6)


def test_counters_that_are_none(place):
    lists = put(place, drawn(KINDS[0], [(4,)]))
    for step, error, named in [
        (0, numbacc.OptionError, "step=0"),
        (1.5, numbacc.OptionError, "step=1.5"),
        (None, numbacc.OptionError, "step=None"),
        (np.array([0]), numbacc.OptionError, "step=0"),
        (np.array([1, 2]), numbacc.ShapeError, "(2,)"),
        (np.array(["a"]), numbacc.DTypeError, "step"),
        (place.put(np.array([1, 2])), numbacc.ShapeError, "(2,)"),
        (place.put(np.array([1.0], np.float16)), numbacc.DTypeError, "float16"),
        (place.put(np.array([True])), numbacc.DTypeError, "bool"),
    ]:
        refused(error, named, run=lambda step=step: ew.adamw_step(*lists, step))
    for step in (np.int64(2), np.array(2), np.array([2.0])):
        ew.adamw_step(*lists, step)
    for rate, error, named in [
        (np.array([-1.0]), numbacc.OptionError, "rate=-1.0"),
        (np.array([1]), numbacc.DTypeError, "rate has dtype int64"),
        (place.put(np.array([0.1, 0.2])), numbacc.ShapeError, "rate has shape (2,)"),
    ]:
        refused(error, named, run=lambda rate=rate: ew.adamw_step(*lists, 1, rate=rate))
    ew.adamw_step(*lists, 1, rate=np.array(0.1))
    if place.is_device:
        rate, count = place.put(np.array(0.1)), place.put(np.array(2))
        refused(numbacc.OptionError, "rate", "step=3", run=lambda: ew.adamw_step(*lists, 3, rate=rate))
        refused(numbacc.LayoutError, "rate overlaps", run=lambda: ew.adamw_step(*lists, count, rate=lists[3][0][:1]))
        refused(numbacc.LayoutError, "step overlaps m[0]", run=lambda: ew.adamw_step(*lists, lists[2][0][:1]))
        host = drawn(KINDS[0], [(4,)])
        refused(numbacc.DeviceError, "step", run=lambda: ew.adamw_step(*host, place.put(np.array(2))))


# ---------------------------------------------------------------- what is refused


def test_overlap(place):
    shapes = [(4,), (4,), (6,)]
    base = [drawn(KINDS[0], shapes, seed) for seed in range(2)]
    p, g, m, v = put(place, base[0])

    def refuses(*words, p=p, g=g, m=m, v=v):
        before = [place.get(x) for each in (p, m, v) for x in each]
        refused(numbacc.LayoutError, *words, run=lambda: ew.adamw_step(p, g, m, v, 1))
        for x, old in zip((x for each in (p, m, v) for x in each), before, strict=True):
            np.testing.assert_array_equal(place.get(x), old, "nothing is written")

    refuses("p[1] overlaps p[0]", p=[p[0], p[0], p[2]])
    refuses("m[0] overlaps p[1]", m=[p[1], *m[1:]])
    refuses("v[1] overlaps m[1]", v=[v[0], m[1], v[2]])
    refuses("g[0] overlaps p[0]", g=[p[0], *g[1:]])
    refuses("p[1] overlaps p[0]", p=[p[2][:4], p[2][2:], place.put(base[1][0][2])])
    refuses("v[1] overlaps g[0]", g=[g[2][:4], g[1], place.put(base[1][1][2])], v=[v[0], g[2][1:5], v[2]])
    # A gradient may be that of several; parts of one array may follow each other, or take turns.
    ew.adamw_step(p, [g[0], g[0], g[2]], m, v, 1)
    whole = place.put(np.arange(8, dtype=np.float32))
    ew.adamw_step([whole[::2], whole[1::2]], g[:2], m[:2], v[:2], 1)
    assert not (place.get(whole) == np.arange(8)).any()
    halves = place.put(np.arange(8, dtype=np.float32))
    ew.adamw_step([halves[:4], halves[4:]], g[:2], m[:2], v[:2], 1)
    np.testing.assert_array_equal(place.get(halves)[::4] != [0, 4], True)


def test_what_does_not_fit(place):
    p, g, m, v = put(place, drawn(KINDS[0], [(4,), (2, 3)]))
    half, double = (place.put(np.ones(4, kind)) for kind in (np.float16, np.float64))
    whole = place.put(np.ones(4, np.int32))
    for error, words, lists in [
        (numbacc.DTypeError, ("g is a",), (p, g[0], m, v)),
        (numbacc.DTypeError, ("v is a generator",), (p, g, m, (x for x in v))),
        (numbacc.ShapeError, ("m has 1", "p 2"), (p, g, m[:1], v)),
        (numbacc.ShapeError, ("v[1] has shape (4,)", "p[1] has shape (2, 3)"), (p, g, m, [v[0], v[0]])),
        (numbacc.DTypeError, ("p[1]", "p[0]"), ([half, p[1]], g, m, v)),
        (numbacc.DTypeError, ("g[1]", "g[0]", "float64"), (p, [double, g[1]], m, v)),
        (numbacc.DTypeError, ("v[0]", "m[0]"), (p[:1], g[:1], m[:1], [double])),
        (numbacc.DTypeError, ("m[0] has dtype float16", "float32"), (p[:1], g[:1], [half], [half])),
        (numbacc.DTypeError, ("g[0]", "int32"), (p[:1], [whole], m[:1], v[:1])),
    ]:
        refused(error, *words, run=lambda lists=lists: ew.adamw_step(*lists, 1))
    if place.is_device:
        refused(numbacc.DeviceError, "g[0]", run=lambda: ew.adamw_step(p, drawn(KINDS[0], [(4,), (2, 3)])[1], m, v, 1))
        fixed = p[0].broadcast_to((2, 4))
        two = put(place, drawn(KINDS[0], [(2, 4)]))
        refused(numbacc.LayoutError, "p[0]", run=lambda: ew.adamw_step([fixed], *two[1:], 1))
    else:
        m[1].flags.writeable = False
        refused(numbacc.LayoutError, "m[1] is read-only", run=lambda: ew.adamw_step(p, g, m, v, 1))


@pytest.mark.parametrize(
    "options, named",
    [
        ({"step": 0}, "step=0"),
        ({"step": 10**400}, "step=1"),
        ({"beta1": 1.0}, "beta1="),
        ({"rate": -1.0}, "rate="),
        ({"eps": "x"}, "eps="),
        ({"weight_decay": [0.1, 0.2]}, "weight_decay has 2 numbers and p 1"),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_options(place, options, named, listed):
    x = [place.put(np.ones(2)) for _ in range(4)]
    x = [[each] for each in x] if listed else x
    for function in (ew.adamw_step, ew.adamw_step.plan):
        refused(numbacc.OptionError, named, run=lambda run=function: run(*x, **({"step": 1} | options)))
