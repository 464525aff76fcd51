"""Where the tests run, and how arrays and calls get there.

A test that takes the fixture `place` runs on NumPy arrays and, if there is a GPU, on its arrays. In a process started
with NUMBA_ENABLE_CUDASIM=1 it runs on simulated arrays, with NUMBACC_PORTABLE=1 on portable arrays.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import signal
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import combinations, compress
from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from skips import REASONS, needed, skip

import numbacc
from numbacc import elementwise, gated
from numbacc.arrays import operands
from numbacc.base.dispatch import has_gpu, runtime, simulated
from numbacc.plan.base import Plan
from numbacc.runtime import workspace
from numbacc.runtime.streams import is_portable

# Tests start a hundred processes. Each would compile numbacc, and its tests, if none wrote bytecode. For those
# processes, and for the workers, which start after this.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# JAX would take three quarters of the GPU's memory from the tests beside it.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
# Each of the processes that tests run in has a core: threads of a product that wait for each other's turn on it take
# ten times as long. For the workers, and for notebooks, which start after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A shell lets programs in the background ignore Ctrl-C. A test that interrupts itself would wait forever there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Where kernels are compiled Python looks for garbage nearly a third of the time, and finds little. On a GPU, what it
# finds late would keep memory.
if simulated() or not has_gpu():
    gc.set_threshold(50_000, 20, 20)

if simulated():
    PLACES = [pytest.param("simulator", marks=pytest.mark.simulator)]
elif has_gpu():
    PLACES = ["numpy", pytest.param("gpu", marks=pytest.mark.gpu)]
elif is_portable():
    PLACES = ["portable"]
else:
    PLACES = ["numpy"]

#: Marks for files of tests without `place` whose kernels run on a GPU, if there is one.
RUNS_KERNELS = [pytest.mark.gpu] if has_gpu() and not simulated() else []

# Where kernels are simulated a call takes up to a second, as does a new kernel on a GPU. The fuzzer draws more calls.
_EXAMPLES = 8 if simulated() else 100
settings.register_profile(
    "numbacc", max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("numbacc")


def in_parts(count, examples=_EXAMPLES):
    """Mark a test with `given`: on a GPU it becomes this many tests, `part`s, which share the examples.

    Most examples compile kernels there. A single test would keep one process busy for a minute after the others end.
    """
    parts = count if has_gpu() and not simulated() else 1

    def mark(test):
        test = settings(max_examples=-(-examples // parts))(test)
        return pytest.mark.parametrize("part", range(parts))(test)

    return mark


#: Files whose tests take up to two minutes: they run whole files, compile many kernels, or run notebooks.
LONGEST = ("test_simulator", "test_compiled_own", "test_notebooks")


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Sort the longest tests to the front, mark combinations of parameters as slow, and leave some tests out.

    No worker must start one of `LONGEST` when others are done. A case of `each_alone` is slow if it differs from the
    first in more than one parameter, and earlier cases have all its values. With `each_alone(paired=True)`, and in the
    simulator, the parameters change together: the fast cases are the few that have each value once. If that leaves more
    cases than `sampled` says, or in the simulator more than one, so many of them are fast, spread evenly. With
    `each_alone(in_pairs=True)`, and in the simulator, a slow case runs only if it has two values that no other case has
    together. At most `MOST_PAIRED` of these cases run, or as many as have each value once. The other slow cases are
    marked `repeated`. Tests that would be skipped are left out.
    """
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))
    tests = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec"):
            tests[item.path, item.originalname].append(item)
    for cases in tests.values():
        mark, sample = map(cases[0].get_closest_marker, ("each_alone", "sampled"))
        if simulated() or mark:
            choose = beyond_pairs if simulated() or mark.kwargs.get("paired", False) else slow_ones
            for number in choose([parameters(case) for case in cases]):
                cases[number].add_marker("slow")
        if simulated() or sample:
            left = [case for case in cases if case.get_closest_marker("slow") is None and not missing(case)]
            for number in beyond_sample(len(left), sample_size(sample)):
                left[number].add_marker("slow")
                left[number].add_marker("sampled")
        if simulated() or (mark and mark.kwargs.get("in_pairs", False)):
            left = [case for case in cases if not missing(case)]
            fast = [case.get_closest_marker("slow") is None for case in left]
            for number in without_new_pairs([parameters(case) for case in left], fast):
                left[number].add_marker("repeated")
            kept = [left[n] for n in range(len(left)) if not (fast[n] or left[n].get_closest_marker("repeated"))]
            more = [*beyond_pairs([parameters(case) for case in kept])]
            for number in beyond_sample(len(more), max(MOST_PAIRED - len(kept) + len(more), 0)):
                kept[more[number]].add_marker("repeated")
    yield
    leave_out(config, items)


#: The most slow cases of a test that run because of their pairs of values.
MOST_PAIRED = 12
#: Why cases marked `repeated` are left out.
REPEATED = f"has no two values that no other case has together, or {MOST_PAIRED} slow cases of the test run"
#: How many tests a run leaves out, by reason.
LEFT_OUT = pytest.StashKey[Counter[str]]()


def leave_out(config, items):
    """Leave out the tests that are sure to be skipped: each of thousands costs milliseconds.

    A run that consists of such tests alone keeps them, and reports why each is skipped.
    """
    reasons = [*map(missing, items)]
    if None in reasons:
        items[:] = [item for item, reason in zip(items, reasons, strict=True) if reason is None]
        config.stash[LEFT_OUT] = Counter(filter(None, reasons))
        if hasattr(config, "workeroutput"):
            config.workeroutput["left out"] = dict(config.stash[LEFT_OUT])


def missing(item):
    """Return why a test would be skipped or tells nothing new, if that is known before it runs."""
    if item.get_closest_marker("repeated"):
        return REPEATED
    if lacks_gpu(item):
        return REASONS["gpu"]
    if lacks_simulator(item):
        return REASONS["simulator"]
    long = item.get_closest_marker("too_long")
    if long and simulated() and long.args[0](SimpleNamespace(**item.callspec.params)):
        return REASONS["slow"]
    for name, lacks in (("device_place", PLACES == ["numpy"]), ("numpy_place", "numpy" not in PLACES)):
        if lacks and name in item.fixturenames:
            return REASONS[name.removesuffix("_place")]
    marks = item.iter_markers("skipif")
    return next((mark.kwargs["reason"] for mark in marks if mark.args[0] is True), None)


def lacks_gpu(item):
    return item.get_closest_marker("gpu") and (simulated() or not has_gpu())


def lacks_simulator(item):
    return item.get_closest_marker("simulator") and not simulated()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the numbers from a worker of xdist: each has all tests."""
    node.config.stash[LEFT_OUT] = Counter(getattr(node, "workeroutput", {}).get("left out", {}))


def pytest_terminal_summary(terminalreporter, config):
    for reason, count in config.stash.get(LEFT_OUT, Counter()).most_common():
        terminalreporter.write_line(f"LEFT OUT [{count}] {reason}")


def pytest_collection_finish():
    """Leave all that there is by now to no collection: each would look at Numba and thousands of tests."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """Look for garbage whose end raises, once: pytest and Python would look again, for seconds each."""
    gc.collect()
    gc.freeze()


def slow_ones(cases):
    """Yield the numbers of the slow cases, each of which is given as the set of its values."""
    first = seen = cases[0]
    for number, own in enumerate(cases):
        if len(own - first) > 1 and own <= seen:
            yield number
        else:
            seen = seen | own


def beyond_pairs(cases):
    """As `slow_ones`, where the parameters change together.

    A fast case has as many new values as there are; of several the one whose other values were there least often.
    """
    left, missing, seen = [*range(len(cases))], set().union(*cases), Counter()
    while missing:
        best = max(left, key=lambda n: (len(cases[n] & missing), -sum(seen[value] for value in cases[n])))
        missing -= cases[best]
        seen.update(cases[best])
        left.remove(best)
    yield from left


def without_new_pairs(cases, fast):
    """Yield the numbers of slow cases whose pairs of values are all in other cases.

    Cases with the most new pairs are kept first.
    """
    pairs = [frozenset(map(frozenset, combinations(case, 2))) for case in cases]
    seen = set().union(*compress(pairs, fast))
    left = [number for number, each in enumerate(fast) if not each]
    for wanted in range(max(map(len, pairs), default=0), 0, -1):
        others = []
        for number in left:
            if len(pairs[number] - seen) >= wanted:
                seen |= pairs[number]
            else:
                others.append(number)
        left = others
    yield from (number for number in left if pairs[number])


def sample_size(mark):
    """Return how many cases of a test are fast at most, given its mark `sampled` or None."""
    sizes = [] if mark is None else [*mark.args]
    if simulated():
        sizes.append(1 if mark is None else mark.kwargs.get("simulated", 1))
    return min(sizes, default=sys.maxsize)


def beyond_sample(count, size):
    """Return the numbers of the slow cases of a test with `count` cases and `size` fast cases."""
    fast = {round(k * (count - 1) / max(size - 1, 1)) for k in range(size)} if count > size else range(count)
    return [number for number in range(count) if number not in fast]


def parameters(case):
    """Return names and value of each `parametrize` of a test's case, and of its fixtures."""
    mark, found, fixtures = case.get_closest_marker("each_alone"), set(), {*case.callspec.params}
    apart = mark is not None and mark.kwargs.get("names_apart", False)
    for each in case.iter_markers("parametrize"):
        names = each.args[0] if each.args else each.kwargs["argnames"]
        names = [name.strip() for name in names.split(",")] if isinstance(names, str) else [*names]
        fixtures.difference_update(names)
        for group in [[name] for name in names] if apart else [names]:
            found.add((*group, *(id(case.callspec.params[name]) for name in group)))
    found.update((name, id(case.callspec.params[name])) for name in fixtures)
    return found


def pytest_runtest_setup(item):
    if lacks_gpu(item):
        skip("gpu")
    if lacks_simulator(item):
        skip("simulator")


@pytest.fixture
def torch():
    return needed("torch", "torch")


@pytest.fixture
def cupy():
    return needed("cupy", "cupy")


@pytest.fixture
def busy_collector():
    """Garbage is collected again and again, in the middle of whatever goes on."""
    kept = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*kept)


@pytest.fixture(autouse=True)
def share_of_memory(request):
    """Tests in other processes use the same GPU: one that fills its memory waits until it is alone there."""
    if not request.node.get_closest_marker("gpu"):
        yield
        return
    alone = request.node.get_closest_marker("fills_memory")
    with open(os.path.join(tempfile.gettempdir(), f"numbacc-tests-{os.getuid()}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
        if alone:
            numbacc.release_memory()


class Place:
    """Where operations run: "numpy", "portable", "simulator" or "gpu"."""

    def __init__(self, name):
        self.name = name
        self.is_device = name != "numpy"
        self.is_slow = name == "simulator"

    def put(self, array):
        """A copy of a dense NumPy array, here."""
        return numbacc.asarray(array) if self.is_device else array.copy(order="K")

    def get(self, array):
        """A copy of an array from here, in NumPy, with its memory order."""
        return np.array(numbacc.asnumpy(array), order="K")

    def operand(self, values, **layout):
        return Operand(self, values, **layout)

    def empty(self, shape, dtype, **layout):
        """Memory to write to: the sentinel everywhere."""
        return Operand(self, np.broadcast_to(sentinel(dtype), shape), **layout)


@pytest.fixture(scope="session", params=PLACES)
def place(request):
    return Place(request.param)


@pytest.fixture(scope="session")
def device_place(place):
    if not place.is_device:
        skip("device")
    return place


@pytest.fixture(scope="session")
def numpy_place(place):
    if place.is_device:
        skip("numpy")
    return place


def sentinel(dtype):
    """A NaN that no arithmetic makes: all bits set."""
    return np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]


def bits(array):
    """The elements of an array as integers; those of 16 bytes as pairs of them."""
    if array.dtype.itemsize == 16:
        return np.ascontiguousarray(array).reshape(*array.shape, 1).view(np.uint64)
    return array.view(f"u{array.dtype.itemsize}")


def any_bits(shape, dtype, seed=0):
    """Numbers whose bytes are random, and differ from the sentinel's."""
    nbytes = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(seed).integers(0, 127, nbytes, np.uint8).view(dtype).reshape(shape)


class Operand:
    """An array with chosen strides, and the memory around it, which holds the sentinel.

    Args:
        values: NumPy array; along broadcast dimensions its first element counts.
        order: the dimensions from the outermost in memory to the innermost.
        steps: for each dimension, how many elements apart in memory its neighbours are. A negative number
            runs backwards; 0 broadcasts.
        margins: for each dimension, how many elements lie in memory before the first and after the last.

    Attributes:
        view: the array, to be passed to operations.
        values: its values at first, as NumPy array.
    """

    def __init__(self, place, values, order=None, steps=None, margins=None):
        rank = values.ndim
        self.place, self.shape = place, values.shape
        self._order = tuple(range(rank)) if order is None else tuple(order)
        self._steps = (1,) * rank if steps is None else tuple(steps)
        self._margins = ((0, 0),) * rank if margins is None else tuple(margins)
        lengths = [
            before + ((n - 1) * abs(step) + 1 if n else 0) + after
            for n, step, (before, after) in zip(self.shape, self._steps, self._margins, strict=True)
        ]
        self._initial = np.full([lengths[d] for d in self._order], sentinel(values.dtype))
        window = self._window(self._initial)
        window[...] = values[tuple(slice(n) for n in window.shape)]
        self.base = self._put(self._initial)
        self.view = self.within(self.base)
        self.values = self.within(self._initial)

    def _put(self, array):
        """The base: a copy of an array, on the place."""
        return self.place.put(array)

    def _window(self, base):
        """The view before broadcasting."""
        view = base.transpose(tuple(int(d) for d in np.argsort(self._order)))
        places = zip(self.shape, self._steps, self._margins, strict=True)
        spans = [(before, (n - 1) * abs(step) + 1 if n else 0, step) for n, step, (before, _) in places]
        view = view[tuple(slice(start, start + n, max(abs(step), 1)) for start, n, step in spans)]
        return view[tuple(slice(None, None, -1 if step < 0 else 1) for step in self._steps)]

    def within(self, base):
        """The view in a base, whether of NumPy or on a device."""
        view = self._window(base)
        if 0 not in self._steps:
            return view
        return np.broadcast_to(view, self.shape) if isinstance(view, np.ndarray) else view.broadcast_to(self.shape)

    def now(self):
        """The view's present values, in NumPy."""
        return self.within(self.place.get(self.base))

    def assert_untouched(self):
        np.testing.assert_array_equal(bits(self.place.get(self.base)), bits(self._initial))

    def assert_written_only(self, part=lambda view: view):
        """Every element of a part of the view was written, and nothing else in the base."""
        now, mask = self.place.get(self.base), np.zeros(self._initial.shape, bool)
        part(self.within(mask))[...] = True
        np.testing.assert_array_equal(bits(now)[~mask], bits(self._initial)[~mask])
        assert not (bits(now)[mask] == bits(np.asarray(sentinel(now.dtype)))).any(), "an element was not written"


@st.composite
def memory_layouts(draw, rank, writable):
    reach = 3 if rank < 4 else 1
    steps = [1, 1, 1, 1, -1, 2, -2, 3] + ([] if writable else [0])
    margin = st.tuples(st.integers(0, reach), st.integers(0, reach))
    return {
        "order": draw(st.permutations(range(rank))),
        "steps": draw(st.lists(st.sampled_from(steps), min_size=rank, max_size=rank)),
        "margins": draw(st.lists(margin, min_size=rank, max_size=rank)),
    }


@contextmanager
def poisoned():
    """Fresh results start out as sentinels, so that an element which is not written shows."""
    on_host, on_device = operands.empty_layout, operands.empty_device

    def empty_layout(layout):
        array = on_host(layout)
        array[...] = sentinel(layout.dtype)
        return array

    def empty_device(layout, stream):
        array = on_device(layout, stream)
        if layout.size:
            pattern = b"\xff" * layout.itemsize
            runtime().fill(array._address, pattern, layout.size, layout.device, stream)
        return array

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operands, "empty_layout", empty_layout)
        patch.setattr(operands, "empty_device", empty_device)
        patch.setattr(Plan, "_memory", staticmethod(empty_device))  # bound when the class was made
        if simulated() or has_gpu():
            from numbacc.arrays import device_array

            patch.setattr(device_array, "_empty", empty_device)  # what copies are made into
        yield


@pytest.fixture(scope="module")
def poison():
    with poisoned():
        yield


def _small(in_simulator, everywhere=None):
    """A fixture: in the simulator, where threads run one by one, blocks have few (see `simulated_blocks`)."""

    @pytest.fixture(scope="module")
    def small():
        with pytest.MonkeyPatch.context() as patch:
            for subject in (everywhere, in_simulator if simulated() else None):
                if subject is not None:
                    getattr(importlib.import_module("simulated_blocks"), subject)(patch.setattr)
            elementwise.cache_clear()
            yield
            elementwise.cache_clear()

    return small


small_reductions, small_rows, small_scans, small_scatters = map(_small, ("reductions", "rows", "scans", "scatters"))
small_lists, small_everywhere = _small("lists", everywhere="chunks"), _small("shrink")


@contextmanager
def host_never_waits():
    """Inside, nothing is copied to the host, and it waits for nothing."""
    from numbacc.arrays.device_array import DeviceArray

    def blocked(*arguments, **options):
        raise AssertionError("the host waits")

    with pytest.MonkeyPatch.context() as patch:
        for name in ("copy_to_host", "item", "__array__"):
            patch.setattr(DeviceArray, name, blocked)
        patch.setattr(runtime(), "synchronize", blocked)
        yield


def refused(error, *words, run):
    """`run` raises `error`, whose message has all the words."""
    with pytest.raises(error) as caught:
        run()
    # An axis or index that is out of range is one kind of wrong shape.
    assert type(caught.value) in (error, *error.__subclasses__())
    for word in words:
        assert str(word) in str(caught.value), f"{word!r} is missing in: {caught.value}"


# ---------------------------------------------------------------- calls of gated activations


def doubled(shape, axis):
    return tuple(2 * n if d == axis % len(shape) else n for d, n in enumerate(shape))


def half(array, axis, which):
    """The first (0) or second (1) half of an array of any library, as a view."""
    n = array.shape[axis] // 2
    return array[(*[slice(None)] * (axis % array.ndim), slice(which * n, (which + 1) * n))]


class Call:
    """One call: its operands in place, their halves, and what follows from both.

    Args:
        shape: y's shape.
        layouts: for dy (backward only), then x or a and b: keywords of `Operand`.
        arguments: values instead of random ones, likewise.
    """

    def __init__(
        self, place, direction, kind, dtype, shape, *, gate="second", paired=False, axis=-1, layouts=None,
        seed=0, arguments=None,
    ):  # fmt: skip
        self.place, self.direction, self.kind, self.dtype = place, direction, kind, dtype
        self.gate, self.paired, self.axis = gate, paired, axis
        whole = [shape, shape] if paired else [doubled(shape, axis)]
        shapes = [shape, *whole] if direction == "backward" else whole
        if arguments is None:
            rng = np.random.default_rng(seed)
            arguments = [(3 * rng.standard_normal(s)).astype(dtype) for s in shapes]
        layouts = layouts or [{}] * len(shapes)
        self.operands = [place.operand(values, **layout) for values, layout in zip(arguments, layouts, strict=True)]
        self.x = self.operands[direction == "backward" :]
        self.shapes = [shape] if direction == "forward" else whole

    @property
    def arguments(self):
        views = [o.view for o in self.operands]
        dy, x = views[: -len(self.x)], tuple(views[-len(self.x) :])
        return (*dy, x if self.paired else x[0])

    @property
    def options(self):
        return {"kind": self.kind, "axis": self.axis, "gate": self.gate}

    def run(self, **more):
        return getattr(gated, self.direction)(*self.arguments, **self.options, **more)

    def plan(self, **more):
        return getattr(gated, self.direction).plan(*self.arguments, **self.options, **more)

    def halves(self, arrays):
        """[x] or [a, b] as [a, b]."""
        return list(arrays) if self.paired else [half(arrays[0], self.axis, k) for k in (0, 1)]

    def values(self):
        """(a, b) or (dy, a, b) in NumPy, as they were before the call."""
        dy = [o.values for o in self.operands[: -len(self.x)]]
        return [*dy, *self.halves([o.values for o in self.x])]

    def results(self, answer):
        """The answer in NumPy, as a list of arrays."""
        return [self.place.get(a) for a in (answer if isinstance(answer, tuple) else (answer,))]

    def verify(self, results):
        """Check the results, [y] or [dx] or [da, db] in NumPy, against the oracle."""
        assert [r.shape for r in results] == list(self.shapes)
        pieces = results if self.direction == "forward" else self.halves(results)
        oracle.assert_accurate(self.direction, self.kind, pieces, self.values(), self.gate)

    def outs(self, layouts=None):
        """Operands for `out`."""
        layouts = layouts or [{}] * len(self.shapes)
        return [self.place.empty(s, self.dtype, **layout) for s, layout in zip(self.shapes, layouts, strict=True)]


def packed(outs):
    """Operands as the argument `out`."""
    views = tuple(o.view for o in outs)
    return views[0] if len(views) == 1 else views


def held_bytes(device):
    """Bytes of scratch memory kept on a device."""
    return sum(block.nbytes for (where, *_), block in workspace._held.items() if where == device)


def readonly(place, operand):
    if place.is_device:
        operand.view._readonly = True  # as an array from a library that exported it so
    else:
        operand.view.flags.writeable = False
    return operand
