"""AdamW's step, of one parameter and of lists of them, against the formula in float64."""

from __future__ import annotations

import re

import numpy as np
import ptx
import pytest
from conftest import bits, refused
from oracle import spacing
from skips import skip_if
from threads import run_threads

import numbacc
from numbacc import compiling
from numbacc import elementwise as ew
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.device import list_executable, list_tables
from numbacc.kernels.list_specs import ListSpec
from numbacc.kernels.optimizers import ADAMW, ADAMW_COUNTED

#: dtypes of parameters, gradients, and moments.
KINDS = [
    ("float32", "float32", "float32"),
    ("bfloat16", "bfloat16", "float32"),
    ("float16", "float32", "float32"),
    ("float16", "float16", "float16"),
    ("float64", "float64", "float64"),
    ("float64", "float32", "float32"),
]
each_kind = pytest.mark.parametrize("kinds", KINDS, ids="-".join)
OPTIONS = {"rate": 0.1, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.02}
SHAPES = [(5, 7), (3,), (0, 4), (), (2, 3, 4), (61,), (130,)]


@pytest.fixture(autouse=True, scope="module")
def small_chunks():
    """Chunks of few elements, so that small parameters have several; in the simulator few threads, each of which takes
    a millisecond."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(list_tables, "_SHORTEST", 32)
        patch.setattr(list_tables, "_LONGEST", 32)
        if simulated():
            patch.setattr(list_executable, "MAX_THREADS", 4)
        ew.cache_clear()
        yield
        ew.cache_clear()


def dtype(name):
    return TABLE[name].numpy


def drawn(kinds, shapes=SHAPES, seed=0):
    """Parameters, gradients, and moments as they may be after some steps, in NumPy."""
    rng = np.random.default_rng(seed)
    p, g = ([rng.normal(size=shape).astype(dtype(kind)) for shape in shapes] for kind in kinds[:2])
    m = [np.asarray(0.1 * rng.normal(size=shape)).astype(dtype(kinds[2])) for shape in shapes]
    v = [np.asarray(0.1 * rng.random(size=shape)).astype(dtype(kinds[2])) for shape in shapes]
    return p, g, m, v


def put(place, lists):
    return [[place.put(x) for x in each] for each in lists]


def exact(p, g, m, v, t, rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
    """A step in float64, as torch's documentation has it."""
    p, g, m, v = (np.asarray(x).astype(np.float64) for x in (p, g, m, v))
    p = p - rate * weight_decay * p
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    return p - rate * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps), m, v


def assert_near(found, wanted, size=1.0, factor=8):
    """Within a few units of what is computed in, and one of what is stored."""
    found, kind = np.asarray(found), np.asarray(found).dtype
    compute = np.dtype(np.float64 if kind == np.float64 else np.float32)
    limit = spacing(wanted, kind) + factor * np.finfo(compute).eps * np.maximum(np.abs(wanted), size)
    np.testing.assert_array_less(np.abs(found.astype(np.float64) - wanted), limit + 1e-300)


def assert_same(place, lists, others):
    for each, other in zip(lists, others, strict=True):
        for x, y in zip(each, other, strict=True):
            np.testing.assert_array_equal(bits(place.get(x)), bits(place.get(y)))


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


def test_tuples_and_nothing(place):
    lists = put(place, drawn(KINDS[0], [(4,), (0,)]))
    assert ew.adamw_step(*map(tuple, lists), 1)[0] == tuple(lists[0])
    assert ew.adamw_step([], [], [], [], 1) == ([], [], [])
    empty = [[place.put(np.zeros(0, np.float32))] for _ in range(4)]
    assert ew.adamw_step(*empty, 1)[0] is empty[0]
    assert ew.adamw_step_plan(*empty, 1).info.op == "elementwise.adamw_step"


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
        assert "list_maps, 2 of 6" in ew.adamw_step_plan(*views, 1).info.algorithm


# ---------------------------------------------------------------- steps that are counted on the GPU


@pytest.mark.parametrize("counter", ["int64", "int32", "float32", "float64", "uint64"])
@pytest.mark.parametrize("alone", [False, True])
def test_a_counter_on_the_gpu(device_place, counter, alone):
    place, shapes = device_place, [(5, 6), (3,)]
    for kinds in (KINDS[0], KINDS[1], KINDS[4]):
        p, g, m, v = drawn(kinds, shapes)
        mine = put(place, (p, g, m, v))
        mine[1][0] = place.put(np.asfortranarray(g[0]))  # not in one memory order with the rest
        count = place.put(np.array([0, 7], dtype(counter)))[1:]
        count = count.reshape(()) if counter == "int64" else count
        for row in zip(*mine, strict=True) if alone else [mine]:
            ew.adamw_step(*row, count, **OPTIONS)
        assert place.get(count).item() == 7, "it is left as it is"
        for k in range(len(shapes)):
            wanted = exact(p[k], g[k], m[k], v[k], 7, **OPTIONS)
            for own, want in zip((mine[0][k], mine[2][k], mine[3][k]), wanted, strict=True):
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
    if place.is_device:
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
    [({"step": 0}, "step=0"), ({"beta1": 1.0}, "beta1="), ({"rate": -1.0}, "rate="), ({"eps": "x"}, "eps=")],
)
@pytest.mark.parametrize("listed", [False, True])
def test_options(place, options, named, listed):
    x = [place.put(np.ones(2)) for _ in range(4)]
    x = [[each] for each in x] if listed else x
    refused(numbacc.OptionError, named, run=lambda: ew.adamw_step(*x, **({"step": 1} | options)))


# ---------------------------------------------------------------- plans, threads, streams, graphs


def test_plans(place):
    lists = drawn(KINDS[1], [(5,), (2, 3)])
    mine, others = put(place, lists), put(place, lists)
    plan = ew.adamw_step_plan(*mine, 1)
    assert plan(*mine, 2, **OPTIONS)[0] is mine[0]
    ew.adamw_step(*others, 2, **OPTIONS)
    assert_same(place, mine, others)
    assert plan.info.dtypes == ("bfloat16", "bfloat16", "float32", "float32") and plan.info.math_dtype == "float32"
    assert plan.info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert "2 parameters of bfloat16" in repr(plan) and "elementwise.adamw_step" in repr(plan)
    refused(numbacc.LayoutError, "adamw_step", run=lambda: plan(*[each[:1] for each in mine], 1))
    row = [each[1] for each in mine]
    single = ew.adamw_step_plan(*row, 1)
    assert single(*row, 3, **OPTIONS)[1] is row[2] and "one parameter" in repr(single)
    ew.adamw_step(*[each[1] for each in others], 3, **OPTIONS)
    assert_same(place, mine, others)
    if place.is_device:
        step = place.put(np.array(4))
        ew.adamw_step_plan(*mine, step)(*mine, step, **OPTIONS)


def test_the_plan_of_arrays_laid_out_alike_is_found_again(place):
    ew.cache_clear()
    for seed in range(3):
        ew.adamw_step(*put(place, drawn(KINDS[0], [(5,), (2, 3)], seed)), 1)
    assert ew.cache_info().misses == 1 + (2 if place.name == "numpy" else 0)


def test_eight_threads(place):
    """Each with its own parameters, of which all have the plan in common."""
    rounds = 2 if place.is_slow else 20

    def work(k):
        lists = drawn(KINDS[0], [(33,), (5,)], k)
        mine, wanted = put(place, lists), list(zip(*lists, strict=True))
        stream = numbacc.stream() if k % 2 else None
        for t in range(1, rounds + 1):
            ew.adamw_step(*mine, t, stream=stream)
            wanted = [(w[0], row[1], *w[1:]) for w, row in zip([exact(*row, t) for row in wanted], wanted, strict=True)]
        for own, row in zip(mine[0], wanted, strict=True):
            np.testing.assert_allclose(place.get(own), row[0], rtol=1e-4, atol=1e-5)

    run_threads(work)


def test_streams(place):
    streams = [None, numbacc.stream(), numbacc.stream()]
    lists = drawn(KINDS[0], [(5,), (2, 3)])
    mine, others = put(place, lists), put(place, lists)
    for t in range(1, 7):
        ew.adamw_step(*mine, t, stream=streams[t % 3])
        ew.adamw_step(*others, t)
    assert_same(place, mine, others)


def test_a_graph_makes_a_new_step_at_each_launch(device_place):
    """Gradients change, and the counter that the graph itself moves on."""
    place, shapes = device_place, [(5, 6), (3,), (40,)]
    p, g, m, v = put(place, drawn(KINDS[0], shapes))
    others = put(place, drawn(KINDS[0], shapes))
    count = place.put(np.array(0))
    with numbacc.graph() as graph:
        ew.add(count, 1, out=count)
        ew.adamw_step(p, g, m, v, count, **OPTIONS)
    ew.cache_clear()
    for t in range(1, 4):
        fresh = drawn(KINDS[0], shapes, t)[1]
        for own, x in zip(g, fresh, strict=True):
            own[...] = x
        graph.launch()
        others[1] = [place.put(x) for x in fresh]
        ew.adamw_step(*others, t, **OPTIONS)
    assert place.get(count).item() == 3
    for own, other in zip((p, m, v), (others[0], *others[2:]), strict=True):
        for x, y in zip(own, other, strict=True):
            np.testing.assert_allclose(place.get(x), place.get(y), rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
def test_gradients_of_another_stream_are_waited_for():
    from gpu_work import Slow, poison

    slow, s = Slow(), numbacc.stream()
    lists = drawn(KINDS[0], [(1000,), (37,)])
    for stream in (None, s):
        mine = [[numbacc.asarray(x) for x in each] for each in lists]
        others = [[numbacc.asarray(x) for x in each] for each in lists]
        good = [numbacc.asarray(x) for x in lists[1]]
        for x in mine[1]:
            poison(x, s)
        slow(s)
        for x, y in zip(mine[1], good, strict=True):
            ew.copy(y, out=x, stream=s)
        ew.adamw_step(*mine, 1, stream=stream)
        ew.adamw_step(*others, 1)
        for x, y in zip(mine[0], others[0], strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(x), numbacc.asnumpy(y))


@pytest.mark.gpu
def test_a_graph_that_torch_captures(torch):
    lists = drawn(KINDS[0], [(100,), (7, 5)])
    tensors = [[torch.tensor(x, device="cuda") for x in each] for each in lists]
    others = [[numbacc.asarray(x) for x in each] for each in lists]
    count = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        count += 1
        ew.adamw_step(*tensors, count, stream=torch.cuda.current_stream())
    for t in (1, 2):
        graph.replay()
        torch.cuda.synchronize()
        ew.adamw_step(*others, t)
    for x, y in zip(tensors[0], others[0], strict=True):
        np.testing.assert_allclose(x.cpu().numpy(), numbacc.asnumpy(y), rtol=1e-5, atol=1e-6)


def test_as_torch_has_it(place, torch):
    """Twenty steps of two parameters, on the CPU in torch."""
    host = drawn(KINDS[0], [(50,), (6, 7)])
    parameters = [torch.nn.Parameter(torch.tensor(x)) for x in host[0]]
    optimizer = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
    zeros = [[np.zeros_like(x) for x in host[0]] for _ in range(2)]
    mine = put(place, (host[0], host[1], *zeros))
    for t in range(1, 3 if place.is_slow else 21):
        g = drawn(KINDS[0], [(50,), (6, 7)], t)[1]
        for parameter, x in zip(parameters, g, strict=True):
            parameter.grad = torch.tensor(x)
        optimizer.step()
        mine[1] = [place.put(x) for x in g]
        ew.adamw_step(*mine, t, rate=0.01, weight_decay=0.1)
    for own, parameter in zip(mine[0], parameters, strict=True):
        np.testing.assert_allclose(place.get(own), parameter.detach().numpy(), rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("sizes", [(1,), (5, 100), (1 << 20, 3, 1 << 14), (1 << 28, 1 << 28)])
def test_chunks_cover_every_element_once(sizes, monkeypatch):
    monkeypatch.setattr(list_tables, "_SHORTEST", 1024)
    monkeypatch.setattr(list_tables, "_LONGEST", 16384)
    spec = ListSpec(ADAMW, ("float32",) * 4, (0, 2, 3), (), "float32", ("float32",) * 6)
    tables = list_tables.ListTables(sizes, spec, 0)
    assert tables.chunk % spec.width == 0 and tables.blocks == len(tables._numbers)
    rows = tables._rows([16 * (k + 1) for k in range(4 * len(sizes))])
    count = np.bincount(tables._numbers, minlength=len(sizes))
    for k, size in enumerate(sizes):
        assert rows[k, 4] == size and (count[k] - 1) * tables.chunk < size <= count[k] * tables.chunk
        assert rows[k, 5] == count[:k].sum() and rows[k, 6] == size // spec.width * spec.width
        assert list(rows[k, :4]) == [16 * (n * len(sizes) + k + 1) for n in range(4)]
    rows = tables._rows([16 * (k + 1) + 4 * (k == 0) for k in range(4 * len(sizes))])
    assert rows[0, 6] == 0, "not all are aligned"


# ---------------------------------------------------------------- what is compiled


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("capability", [(9, 0), (8, 0)])
@pytest.mark.parametrize("formula", [ADAMW, ADAMW_COUNTED], ids=["number", "counter"])
@each_kind
def test_the_kernel(kinds, formula, capability):
    """16 bytes at a time, all loads of a thread under way before the first store, in registers."""
    names = (*kinds, kinds[2])
    compute = "float64" if "float64" in names else "float32"
    singles = () if formula.numbers is None else ("int64",)
    spec = ListSpec(formula, names, (0, 2, 3), singles, compute, (compute,) * (6 + len(singles)))
    found = ptx.compiled(spec, capability)
    assert found.target == "sm_{}{}".format(*capability)
    assert ".local" not in found.text and not re.search(r"\bcall\b", found.text)
    assert {access.space for access in found.accesses} == {"global"}
    if compute == "float32":
        assert ".f64" not in found.text
    runs = [[min(n, 16)] * -(-n // 16) for n in (TABLE[name].itemsize * spec.width for name in names)]
    (_, loads), (_, stores) = found.runs()[:2]
    assert loads[-sum(map(len, runs)) :] == [n for run in runs for n in run]
    assert stores == [n for k in (0, 2, 3) for n in runs[k]]
    if ptx.ptxas() is not None and capability == (9, 0):
        registers, spilled = found.usage(capability)
        assert registers <= 64 and spilled <= (64 if compute == "float64" else 0)


@skip_if(simulated(), "not simulated")
def test_everyday_kernels_are_compiled_ahead():
    ahead = {spec for spec in compiling.kernels(["elementwise"]) if isinstance(spec, ListSpec)}
    for name, moments in (("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")):
        for formula in (ADAMW, ADAMW_COUNTED):
            assert any(spec.formula is formula and spec.operands == (name, name, moments, moments) for spec in ahead)
