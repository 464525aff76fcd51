"""Random numbers in CUDA graphs: each launch draws what the next call would have drawn."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from conftest import bits
from threads import run_threads

import numbacc
from numbacc.base.dtypes import dtype as dtype_of
from numbacc.random import KINDS, Generator
from numbacc.random.methods import DTYPES, FLOATS

pytestmark = pytest.mark.usefixtures("poison")

#: Method -> its first arguments.
METHODS = {
    "bits": (),
    "random": (),
    "uniform": (-2.0, 3.0),
    "integers": (-3, 100),
    "dropout_mask": (0.3,),
    "normal": (1.0, 2.0),
    "lognormal": (0.1, 0.5),
}
CASES = [
    (name, dtype) for name in METHODS for dtype in DTYPES[name] if name != "integers" or not dtype.startswith("uint")
]
#: Methods whose numbers are the same to the last bit on the CPU.
EXACT = ("bits", "random", "uniform", "integers", "dropout_mask")


def draw(g, name, *args, **kw):
    return getattr(g, name)(*METHODS[name], *args, **kw)


def at(position, seed=5, **kw):
    """A generator somewhere in its sequence."""
    g = Generator("philox", seed, **kw)
    g.state = g.state._replace(position=position)
    return g


def equal(place, got, want):
    np.testing.assert_array_equal(bits(place.get(got)), bits(place.get(want)))


# ---------------------------------------------------------------- launch k is call k


@pytest.mark.parametrize("position", [0, 3])
@pytest.mark.parametrize("name, dtype", CASES)
def test_launches_are_the_next_calls(device_place, name, dtype, position):
    """Of an odd number of values, so that each begins at another word of a group."""
    g, calls = at(position), at(position)
    out = device_place.empty((7,), dtype_of(dtype))
    with numbacc.graph() as graph:
        assert draw(g, name, out=out.view) is out.view
        made = draw(g, name, (3, 5), dtype=dtype)
    assert g.state == calls.state, "a capture draws nothing"
    for _ in range(3):
        graph.launch()
        equal(device_place, out.view, draw(calls, name, 7, dtype=dtype))
        equal(device_place, made, draw(calls, name, (3, 5), dtype=dtype))
        assert g.state == calls.state
    equal(device_place, draw(g, name, 9, dtype=dtype), draw(calls, name, 9, dtype=dtype))


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [0, 2**32 + 17, 2**63 + 21, 2**64 - 1])
def test_launches_are_the_cpus_numbers(device_place, name, seed):
    """As NumPy has them, which has no graphs: there one calls the function again."""
    g, host = Generator("philox", seed, 2**40 + 1), Generator("philox", seed, 2**40 + 1, "cpu")
    with numbacc.graph() as graph:
        made = draw(g, name, 11)
    for _ in range(4):
        graph.launch()
        equal(device_place, made, draw(host, name, 11))
    assert g.state == host.state


@pytest.mark.parametrize("skipped", range(4))
@pytest.mark.parametrize(
    "name, dtype, words", [("random", "float32", 1), ("random", "float16", 1), ("bits", "uint64", 2)]
)
def test_blocks_from_any_word_of_a_group(device_place, name, dtype, words, skipped):
    """Whole blocks are stored in wide accesses where the group's first value is the array's; both ends are odd."""
    count = 2100 if device_place.is_slow else 100_003
    g, host = at(skipped), at(skipped, device="cpu")
    outs = [
        device_place.empty((count,), dtype_of(dtype), margins=[(moved, 4)])
        for moved in ((0, 1) if device_place.is_slow else range(4))
    ]
    with numbacc.graph() as graph:
        for out in outs:
            draw(g, name, out=out.view)
    graph.launch()
    for out in outs:
        want = draw(host, name, count, dtype=dtype)
        np.testing.assert_array_equal(bits(out.now()), bits(want))
        out.within(out._initial)[...] = want
        np.testing.assert_array_equal(bits(device_place.get(out.base)), bits(out._initial))


LAYOUTS = {
    "in a flat buffer": {"margins": ((1, 0), (0, 0), (0, 0))},
    "permuted": {"order": (2, 0, 1)},
    "backwards": {"steps": (-1, 1, -2)},
    "apart": {"steps": (1, 2, 3), "margins": ((0, 0), (1, 0), (2, 1))},
}


@pytest.mark.parametrize("how", LAYOUTS)
@pytest.mark.parametrize("name, dtype", [("random", "float16"), ("normal", "float64"), ("integers", "int8")])
def test_arrays_of_any_strides(device_place, name, dtype, how):
    g, calls = at(1), at(1)
    out = device_place.empty((2, 3, 5), dtype_of(dtype), **LAYOUTS[how])
    with numbacc.graph() as graph:
        draw(g, name, out=out.view)
    for _ in range(2):
        graph.launch()
        equal(device_place, np.ascontiguousarray(out.now()), draw(calls, name, (2, 3, 5), dtype=dtype))
    outside = np.ones(out._initial.shape, bool)
    out.within(outside)[...] = False
    np.testing.assert_array_equal(bits(device_place.get(out.base))[outside], bits(out._initial)[outside])


def test_draws_of_nothing_and_of_one_number(device_place):
    g, calls = at(2), at(2)
    with numbacc.graph() as graph:
        nothing = g.random((3, 0))
        one = g.random(())
        with pytest.raises(numbacc.UnsupportedError, match=r"pass size=\(\)"):
            g.random()
    assert nothing.shape == (3, 0)
    for _ in range(3):
        graph.launch()
        equal(device_place, one, calls.random(()))
    assert g.random() == calls.random() and g.state == calls.state
    # The other way round: the generator's first draw in the capture is of nothing.
    empty = Generator(1)
    with numbacc.graph() as graph:
        empty.bits(0)
    graph.launch()
    assert empty.bits() == Generator(1).bits()


# ---------------------------------------------------------------- several graphs, generators, streams


def test_a_program_draws_the_same_with_graphs_and_without(device_place):
    """Two graphs and two generators, launched in turn on several streams, with calls and a state between."""

    def program(is_captured):
        a, b = Generator(1), Generator(2, device=0)
        outs = [numbacc.empty(n, dtype) for n, dtype in ((5, "float32"), (3, "float64"), (6, "uint32"), (2, "int64"))]

        def first():
            a.random(out=outs[0])
            b.normal(out=outs[1])

        def second():
            b.bits(out=outs[2])
            a.integers(9, out=outs[3])
            a.random(out=outs[0])

        streams, steps = [numbacc.stream() for _ in range(3)], [first, second]
        if is_captured:
            graphs = [numbacc.graph(), numbacc.graph()]
            for graph, step in zip(graphs, steps, strict=True):
                with graph:
                    step()
            steps = [graph.launch for graph in graphs]
        found = []
        for turn, which in enumerate((0, 1, 1, 0, 1, 0)):
            with streams[turn % 3]:
                steps[which]()
            found += [device_place.get(out).tolist() for out in outs[:2] if which == 0]
            found += [device_place.get(out).tolist() for out in (outs[2], outs[3], outs[0]) if which == 1]
            if turn == 1:
                found.append(device_place.get(a.normal(size=3, stream=streams[0])).tolist())
                found.append(device_place.get(a.random((), stream=streams[1])).tolist())
            if turn == 3:
                b.state = b.state._replace(position=1)
        return found, a.state, b.state

    outs = program(False)
    assert str(program(True)) == str(outs)  # as text, since memory that nothing has written yet holds NaN


def test_a_capture_on_two_streams(device_place):
    g, calls, side = Generator(3), Generator(3), numbacc.stream()
    with numbacc.graph() as graph:
        side.wait(graph.stream)
        parts = [g.random(5, stream=stream) for stream in (graph.stream, side, graph.stream, side)]
        graph.stream.wait(side)
    for _ in range(2):
        graph.launch()
        for part in parts:
            equal(device_place, part, calls.random(5))


def test_a_graph_in_a_graph(device_place):
    g, calls = Generator(3), Generator(3)
    with numbacc.graph() as inner:
        x = g.random(5)
    with numbacc.graph() as outer:
        inner.launch()
        first = copy.deepcopy(x)
        inner.launch()
        y = g.random(2)
    for _ in range(2):
        outer.launch()
        for got, n in ((first, 5), (x, 5), (y, 2)):
            equal(device_place, got, calls.random(n))
    inner.launch()
    equal(device_place, x, calls.random(5))


def test_an_error_ends_a_capture_and_draws_nothing(device_place):
    g, calls = Generator(3), Generator(3)
    calls.random(3)
    g.random(3)
    with pytest.raises(ZeroDivisionError), numbacc.graph():
        g.random(5)
        _ = 1 / 0
    equal(device_place, g.random(5), calls.random(5))


def test_a_dropped_graph_leaves_the_generator_and_the_other_way_round(device_place):
    g, calls = Generator(3), Generator(3)
    with numbacc.graph() as graph:
        g.random(5)
    graph.launch()
    del graph
    calls.random(5)
    equal(device_place, g.random(5), calls.random(5))
    with numbacc.graph() as graph:
        x = g.random(5)
    numbacc.random.cache_clear()
    del g
    for _ in range(2):
        graph.launch()
        equal(device_place, x, calls.random(5))


def test_threads_share_a_generator_and_its_graph(device_place):
    """Whoever draws, every number is drawn once."""
    turns, n = (2, 4) if device_place.is_slow else (30, 100)
    g, found = Generator(4), [[] for _ in range(8)]
    graphs = [numbacc.graph() for _ in range(4)]
    outs = []
    for graph in graphs:
        with graph:
            outs.append(g.bits(n))

    def work(k):
        out = numbacc.empty(n, "uint32")
        for _ in range(turns):
            if k < 4:
                graphs[k].launch()
                found[k].append(device_place.get(outs[k]).tobytes())
            else:
                found[k].append(device_place.get(g.bits(out=out)).tobytes())

    run_threads(work)
    whole = Generator(4, device="cpu").bits((8 * turns, n))
    assert sorted(part for row in found for part in row) == sorted(row.tobytes() for row in whole)
    assert g.state.position == 8 * turns * n


# ---------------------------------------------------------------- states and copies


def test_a_state_set_between_launches_counts_for_the_graph(device_place):
    g = at(7)
    with numbacc.graph() as graph:
        x = g.random(5)
    graph.launch()
    saved, first = g.state, device_place.get(x)
    assert saved.position == 12 and pickle.loads(pickle.dumps(saved)) == saved
    graph.launch()
    second = device_place.get(x)
    assert (first != second).any()
    g.state = saved
    graph.launch()
    equal(device_place, x, second)
    g.state = Generator("philox", 2**64 - 1, 9).state  # another seed
    graph.launch()
    want = Generator("philox", 2**64 - 1, 9, "cpu")
    equal(device_place, x, want.random(5))
    assert g.state == want.state and "seed=18446744073709551615" in repr(g) and "position=14" in repr(g)
    other = Generator("sobol32", device="cpu").state
    with pytest.raises(numbacc.OptionError, match=r"'sobol32'.*captured into a graph.*another Generator"):
        g.state = other
    assert g.state == want.state


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_of_a_captured_generator_are_their_own(device_place, how):
    g, calls = Generator(3), Generator(3)
    with numbacc.graph() as graph:
        x = g.random(5)
        inside = how(g)
    graph.launch()
    after = how(g)
    graph.launch()
    assert (inside.state.position, after.state.position, g.state.position) == (0, 5, 10)
    equal(device_place, inside.random(5), calls.random(5))
    want = device_place.get(calls.random(5))
    equal(device_place, after.random(5), want)
    equal(device_place, x, want)
    children, same = g.spawn(2), Generator(3).spawn(2)
    assert [child.state for child in children] == [child.state for child in same]
    assert g.state.spawned == 2


def test_a_capture_of_a_new_state_is_not_recorded(device_place):
    """Python runs once: what is set inside is what the first launch begins with."""
    g = Generator(3)
    with numbacc.graph() as graph:
        g.bits(1)
        g.state = g.state._replace(position=100)
        x = g.bits(2)
    graph.launch()
    equal(device_place, x, Generator("philox", 3, 101, "cpu").bits(2))
    graph.launch()
    equal(device_place, x, Generator("philox", 3, 104, "cpu").bits(2))


def test_the_end_of_a_sequence_is_not_for_graphs(device_place):
    g = at(2**63 + 4)
    with numbacc.graph(), pytest.raises(numbacc.UnsupportedError, match="at most at 9223372036854775808"):
        g.random(3)
    equal(device_place, g.random(3), at(2**63 + 4, device="cpu").random(3))
    g = at(2**63)
    with numbacc.graph() as graph:
        x = g.random(3)
    graph.launch()
    equal(device_place, x, at(2**63, device="cpu").random(3))
    with pytest.raises(numbacc.UnsupportedError, match="Use another seed"):
        g.state = g.state._replace(position=2**64)
    assert g.state.position == 2**63 + 3


# ---------------------------------------------------------------- what goes through cuRAND


def test_draws_of_curand_raise_in_a_capture_and_go_on_outside(device_place):
    g, calls = Generator(3), Generator(3)
    with numbacc.graph() as graph:
        for kind in KINDS:
            if kind != "philox":
                with pytest.raises(numbacc.UnsupportedError, match=f"random of kind '{kind}'.*make.*kind \"philox\""):
                    Generator(kind).random(3)
        with pytest.raises(numbacc.UnsupportedError, match=r"poisson of kind 'philox'.*draw before the capture"):
            g.poisson(3.0, 5)
        x = g.random(5)
        with pytest.raises(numbacc.UnsupportedError, match="poisson of kind 'philox'"):
            g.poisson(3.0, 5)
    for _ in range(2):
        graph.launch()
        equal(device_place, x, calls.random(5))
        equal(device_place, g.poisson(3.0, 5), calls.poisson(3.0, 5))
        assert g.state == calls.state


def test_what_numpy_draws_is_not_recorded(device_place):
    """A generator of the CPU draws at once, also where a graph is being captured."""
    host = Generator(3, device="cpu")
    with numbacc.graph():
        x = host.random(4)
    assert host.state.position == 4 and isinstance(x, np.ndarray)


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_by_a_mask(device_place, dtype):
    """What a training step captures: other elements are dropped at every launch."""
    g, calls = Generator(8), Generator(8)
    x = numbacc.full(50, 1.0, dtype)
    with numbacc.graph() as graph:
        y = numbacc.elementwise.multiply(x, g.dropout_mask(0.5, 50, dtype=dtype))
    found = []
    for _ in range(3):
        graph.launch()
        found.append(device_place.get(y).astype("f4").tolist())
        equal(device_place, y, calls.dropout_mask(0.5, 50, dtype=dtype))
    assert found[0] != found[1] != found[2]
