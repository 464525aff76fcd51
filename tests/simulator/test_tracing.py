"""`numbacc.trace`: counts against those worked out by hand, races, limits, and what it says where it cannot work."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from conftest import refused
from numba import float32
from skips import skip_if
from traced import traced
from traced_kernels import KERNELS, filled

import numbacc
from numbacc import cuda, elementwise, gated
from numbacc.base.dispatch import simulated

in_simulator = skip_if(not simulated(), "simulator")


@pytest.mark.parametrize(
    "name, kernel, grid, block, shapes, dtypes, wanted", KERNELS, ids=[case[0] for case in KERNELS]
)
def test_counts_by_hand(name, kernel, grid, block, shapes, dtypes, wanted):
    arrays = [filled(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    t = traced(kernel, grid, block, *arrays)
    for what, numbers in wanted.items():
        counts = t.counts(*what.split("_"))
        found = (counts.requests, counts.bytes, counts.sectors, counts.conflicts, counts.races)
        assert found == numbers, f"{name}: {what}\n{t.table(by_line=True)}"
    assert {row.kernel for row in t.table().rows} == {kernel.__name__}
    assert bool(t.races) == any(numbers[-1] for numbers in wanted.values())


def test_there_are_more_than_twenty():
    assert len(KERNELS) >= 20


@pytest.mark.parametrize("name, share", [("neighbours", 1), ("every_second", 1 / 2), ("a_column", 1 / 8)])
def test_share_of_sectors_used(name, share):
    ((_, kernel, grid, block, shapes, _, _),) = [case for case in KERNELS if case[0] == name]
    t = traced(kernel, grid, block, *(filled(shape, "f4") for shape in shapes))
    assert t.counts("x").used == share and t.counts("y").used == 1
    assert f" {share:.0%} " in str(t.table())


def test_results_are_those_of_the_kernel():
    ((_, kernel, grid, block, _, _, _),) = [case for case in KERNELS if case[0] == "transpose"]
    x = np.random.default_rng(0).standard_normal((32, 32)).astype("f4")
    y = np.full_like(x, np.nan)
    traced(kernel, grid, block, x, y)
    np.testing.assert_array_equal(y, x.T)


@cuda.jit
def copied(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@cuda.jit
def transposing(x, y):
    column, row = cuda.grid(2)
    y[column, row] = x[row, column]


@cuda.jit
def reading(x, y):
    i = cuda.threadIdx.x
    y[i] = x[0, i]


@cuda.jit
def down_a_tile(x, y):
    tile = cuda.shared.array((32, 32), float32)
    i = cuda.threadIdx.x
    sum_ = float32(0)
    for k in range(x.shape[1]):
        sum_ += x[i, k]
    tile[0, i] = sum_
    cuda.syncthreads()
    y[i] = tile[i, 0]


@cuda.jit
def racing(y):
    y[0] += 1


@cuda.jit
def unguarded(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@cuda.jit
def some_wait(x, y):
    i = cuda.grid(1)
    if i < 16:
        cuda.syncthreads()
    y[i] = x[i]


@cuda.jit
def early_read(y):
    s = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    y[i] = s[i]


@cuda.jit
def exchanging(y):
    y[0] = cuda.activemask()


@cuda.jit
def endless(y):
    while True:
        y[0] = 1


@cuda.jit
def dynamic(x, y):
    s = cuda.shared.array(0, float32)
    i = cuda.threadIdx.x
    s[i] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = s[cuda.blockDim.x - 1 - i]


@cuda.jit
def fields(x, y):
    i = cuda.grid(1)
    y[i] = x[i].a + x[i]["b"]
    x[i].a = 3


@cuda.jit
def two_at_once(y):
    s, r = cuda.shared.array(32, float32), cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    s[i], r[i] = i, 100 + i
    cuda.syncthreads()
    y[i], y[32 + i] = s[31 - i], r[i]


@cuda.jit
def whole(x, y):
    y[0, :] = x[1]
    y[1] = 5


def test_records_name_thread_element_and_line():
    x, y = np.arange(40, dtype="f4"), np.zeros(40, "f4")
    t = traced(copied, 2, 32, x, y)
    assert t.elements("x") == [(i,) for i in range(40)]
    assert t.elements("y", "write", thread=3, block=1) == [(35,)]
    line = copied.py_func.__code__.co_firstlineno + 4
    assert set(t.records["line"].tolist()) == {line}
    assert t.launches == [("copied", (2, 1, 1), (32, 1, 1))]
    assert [(row.line, row.access) for row in t.table(by_line=True).rows] == [(line, "read"), (line, "write")]


def test_arrays_of_any_kind():
    """Views count from where their allocation starts; those of Numba's, numbacc's and NumPy's are alike."""
    host = np.arange(33, dtype="f4")
    for whole in (cuda.to_device(host), *[numbacc.asarray(host)] * simulated()):
        t = traced(unguarded, 1, 32, whole[1:], np.zeros(32, "f4"))
        assert t.counts("x").sectors == 5
    # NumPy's are copied to the device, to the start of an allocation.
    assert traced(unguarded, 1, 32, host[1:], np.zeros(32, "f4")).counts("x").sectors == 4


def test_strided_views_are_indexed_by_their_own_shape():
    x = cuda.to_device(np.arange(64, dtype="f4"))[::2]
    t = traced(unguarded, 1, 32, x, np.zeros(32, "f4"))
    assert t.elements("x") == [(i,) for i in range(32)] and t.counts("x").sectors == 8


def test_dynamic_shared_memory():
    x, y = np.arange(64, dtype="f4"), np.full(64, np.nan, "f4")
    with numbacc.trace() as t:
        dynamic[2, 32, 0, 128](x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 32)[:, ::-1].ravel())
    assert t.counts("s", "write").requests == 2 and not t.races


def test_structured_arrays():
    x = np.zeros(32, [("a", "f4"), ("b", "f8")])
    x["a"], x["b"], y = 1, np.arange(32), np.zeros(32, "f4")
    t = traced(fields, 1, 32, x, y)
    np.testing.assert_array_equal(y, 1 + np.arange(32))
    assert (x["a"] == 3).all()
    assert t.counts("x", "read").bytes == 32 * 12 and t.counts("x", "write").bytes == 32 * 4


def test_whole_rows_are_loops():
    x, y = np.arange(8, dtype="f4").reshape(2, 4), np.zeros((2, 4), "f4")
    t = traced(whole, 1, 1, x, y)
    np.testing.assert_array_equal(y, [[4, 5, 6, 7], [5] * 4])
    assert t.counts("x", "read").accesses == 4 and t.counts("y", "write").accesses == 8


def test_a_race_is_named():
    ((_, kernel, grid, block, shapes, _, _),) = [case for case in KERNELS if case[0] == "race"]
    t = traced(kernel, grid, block, *(filled(shape, "f4") for shape in shapes))
    first, line = t.races[0], kernel.py_func.__code__.co_firstlineno + 5
    assert len(t.races) == 64
    assert first[1:] == ("s", (0,), (0, 0), (0, 63), ("write", "read"), (line, line + 1))
    text = str(t.table())
    assert f"thread 0 of block 0 writes s[0] in line {line}, thread 63 of block 0 reads it in line {line + 1}" in text
    assert "and 61 more races" in text


def test_blocks_that_race_are_named():
    ((_, kernel, grid, _, shapes, _, _),) = [case for case in KERNELS if case[0] == "blocks_at_one_element"]
    t = traced(kernel, grid, 1, *(filled(shape, "f4") for shape in shapes))
    assert t.races[0].blocks[0] != t.races[0].blocks[1] and "nothing orders blocks" in str(t.table())


def test_barriers_that_some_do_not_reach():
    x, y = np.zeros(32, "f4"), np.zeros(32, "f4")
    if not simulated():
        words = ("only 16 of 32 threads", "block (0, 0, 0)", f":{some_wait.py_func.__code__.co_firstlineno + 4}: ")
        refused(numbacc.KernelError, *words, run=lambda: traced(some_wait, 1, 32, x, y))
        return
    t = traced(some_wait, 1, 32, x, y)
    assert [(block, came, threads) for _, block, came, threads in t.split_barriers] == [(0, 16, 32)]
    assert "16 of the 32 threads of block 0" in str(t.table())


def test_shared_memory_is_poisoned():
    y = np.zeros(32, "f4")
    t = traced(early_read, 1, 32, y)
    assert np.isnan(y).all()
    line = early_read.py_func.__code__.co_firstlineno + 4
    found = [(each.line, each.thread, each.block) for each in t.unwritten]
    assert found == ([] if simulated() else [(line, (0, 0, 0), (0, 0, 0))])
    assert simulated() or "s, shared memory, is read at element 0 before it is written" in str(t.table())


def test_an_index_outside():
    def run():
        traced(unguarded, 1, 32, np.zeros(10, "f4"), np.zeros(32, "f4"))

    if simulated():
        refused(IndexError, "tid=[10, 0, 0]", "reads x[10]", "(10,)", "Put the access inside an if", run=run)
    else:
        line = unguarded.py_func.__code__.co_firstlineno + 3
        words = (
            f"test_tracing.py:{line}: index 10 is out of bounds of axis 0 of x",
            "thread (10, 0, 0) of block (0, 0, 0)",
        )
        refused(numbacc.KernelError, *words, run=run)


@in_simulator
def test_what_the_simulator_lacks():
    words = ("cuda.activemask", "scalar form", "x[i]")
    refused(AttributeError, *words, run=lambda: traced(exchanging, 1, 1, np.zeros(1, "f4")))


def test_limits():
    refused(numbacc.OptionError, "max_threads=0", run=lambda: numbacc.trace(max_threads=0))
    x = np.zeros(64, "f4")
    words = ("2 blocks of 32 threads", "64", "50", "smaller array", "max_threads")
    refused(numbacc.UnsupportedError, *words, run=lambda: traced(copied, 2, 32, x, x.copy(), max_threads=50))


@in_simulator
def test_launches_that_are_too_large():
    x = np.zeros(1, "f4")
    words = ("4,096 blocks of 256 threads", "1,048,576", "65,536", "smaller array", "max_threads")
    refused(numbacc.UnsupportedError, *words, run=lambda: traced(copied, 4096, 256, x, x))
    words = ("more than 100 times", "smaller array", "max_accesses")
    refused(numbacc.UnsupportedError, *words, run=lambda: traced(endless, 1, 1, x, max_accesses=100))


def test_a_thousand_elements_take_less_than_ten_seconds():
    ((_, kernel, *_),) = [case for case in KERNELS if case[0] == "transpose"]
    start = time.process_time()
    t = traced(kernel, 1, (32, 32), np.zeros((32, 32), "f4"), np.zeros((32, 32), "f4"))
    str(t.table())
    assert time.process_time() - start < 10


@in_simulator
def test_the_simulator_is_as_before_afterwards():
    from numbacc.kernels.primitives import simulated as intrinsics
    from numbacc.simulator import calls

    def state():
        return calls._way, intrinsics.watcher

    before = state()
    with numbacc.trace() as t:
        assert state() != before
    assert state() == before
    with pytest.raises(IndexError):
        traced(unguarded, 1, 32, np.zeros(1, "f4"), np.zeros(1, "f4"))
    assert state() == before
    unguarded[1, 4](np.zeros(4, "f4"), np.zeros(4, "f4"))
    assert str(t.table()) == "no kernel has accessed an array"


def test_unknown_names():
    t = traced(copied, 1, 32, np.zeros(3, "f4"), np.zeros(3, "f4"))
    refused(numbacc.OptionError, "array='z'", "x, y", run=lambda: t.counts("z"))
    refused(numbacc.OptionError, "access='load'", "atomic, read, write", run=lambda: t.counts("x", "load"))
    refused(numbacc.OptionError, "array='z'", "x, y", run=lambda: t.plot("z"))
    refused(numbacc.OptionError, "launch=1", run=lambda: t.plot(launch=1))


def test_plots():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = traced(copied, 2, 32, np.zeros(40, "f4"), np.zeros(40, "f4"))
    figure = t.plot()
    assert [panel.get_title() for panel in figure.axes] == ["x (global)", "y (global)"]
    assert legend_is_outside(figure)
    places, threads = figure.axes[0].lines[0].get_data()
    assert places.tolist() == threads.tolist() == list(range(40))
    assert [panel.get_title() for panel in t.plot("y").axes] == ["y (global)"]
    assert t.plot("x", threads=7).axes[0].lines[0].get_data()[1].tolist() == list(range(7))
    ((_, kernel, *_),) = [case for case in KERNELS if case[0] == "loop"]
    first, later = traced(kernel, 1, 32, np.zeros(96, "f4"), np.zeros(32, "f4")).plot("x").axes[0].lines[:2]
    assert first.get_xdata().tolist() == list(range(32)) and sorted(later.get_xdata()) == list(range(32, 96))
    pyplot.close("all")


def cells(panel):
    """The (row, column) -> thread of a panel's large elements, and the number of its sectors."""
    (outlines,) = [each for each in panel.collections if each.get_label() == "sectors"] or [None]
    drawn = [each for each in panel.collections if each.get_array() is not None][-1]
    middles = [path.vertices[:4].mean(axis=0) for path in drawn.get_paths()]
    lanes = {(round(row), round(column)): int(k) for (column, row), k in zip(middles, drawn.get_array(), strict=True)}
    return lanes, 0 if outlines is None else len(outlines.get_paths())


def legend_is_outside(figure):
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    return not any(each.get_legend() or box.overlaps(each.get_window_extent()) for each in figure.axes)


def test_plots_of_rows_and_columns():
    """A coalesced warp lies in few sectors, a strided one in as many as it has threads."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = traced(transposing, (2, 3), (32, 32), np.zeros((96, 64), "f4"), np.zeros((64, 96), "f4"))
    figure = t.plot()
    x, y, _ = figure.axes
    assert x.get_title() == "x (global), read\nfirst request: 32 elements in 4 sectors, 100% used"
    assert y.get_title() == "y (global), write\nfirst request: 32 elements in 32 sectors, 12% used"
    assert cells(x) == ({(0, k): k for k in range(32)}, 4)
    assert cells(y) == ({(k, 0): k for k in range(32)}, 32)
    assert (x.get_xlabel(), x.get_ylabel()) == ("column", "row") and x.get_ylim()[0] > x.get_ylim()[1]
    assert legend_is_outside(figure)
    assert [len(cells(panel)[0]) for panel in t.plot("x", threads=8).axes[:1]] == [8]
    pyplot.close("all")


@pytest.mark.parametrize(
    "view, drawn, sectors",
    [
        (lambda x: x.T, {(0, k): k for k in range(32)}, 32),
        (lambda x: x[::-1], {(0, k): k for k in range(32)}, 4),
        (lambda x: x[:, ::-1], {(0, k): k for k in range(32)}, 4),
        (lambda x: x[::2, ::2], {(0, k): k for k in range(32)}, 8),
    ],
    ids=["transposed", "rows reversed", "columns reversed", "every second"],
)
def test_plots_of_views(view, drawn, sectors):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x = view(numbacc.asarray(np.zeros((64, 64), "f4")))
    t = traced(reading, 1, 32, x, np.zeros(32, "f4"))
    assert cells(t.plot("x").axes[0]) == (drawn, sectors)
    assert t.elements("x") == [(0, k) for k in range(32)]
    pyplot.close("all")


def test_plots_of_shared_rows_and_of_loops():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    t = traced(down_a_tile, 1, 32, np.zeros((32, 40), "f4"), np.zeros(32, "f4"))
    written, read, *_ = t.plot("tile").axes
    assert written.get_title() == "tile (shared), write\nfirst request: 32 elements, 0 conflicts"
    assert read.get_title() == "tile (shared), read\nfirst request: 32 elements, 31 conflicts"
    assert cells(read) == ({(k, 0): k for k in range(32)}, 0)
    figure = t.plot("x")
    assert cells(figure.axes[0]) == ({(k, 0): k for k in range(32)}, 32)  # of the loop's first round
    small = next(each for each in figure.axes[0].collections if each.get_array() is not None)
    assert len(small.get_paths()) == 32 * 40
    assert legend_is_outside(t.plot()) and len(t.plot().axes) == 5
    pyplot.close("all")


@skip_if(simulated(), "not simulated")
def test_plots_of_overlapping_rows_show_addresses():
    """An element of such an array is in several rows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    x = np.lib.stride_tricks.sliding_window_view(np.zeros(95, "f4"), 32)
    (panel,) = traced(reading, 1, 32, x, np.zeros(32, "f4")).plot("x").axes
    assert panel.get_ylabel() == "thread"
    pyplot.close("all")


def test_a_trace_shows_its_table():
    t = numbacc.trace()
    assert repr(t) == "no kernel has accessed an array" in t._repr_html_()
    t = traced(copied, 2, 32, np.zeros(40, "f4"), np.zeros(40, "f4"))
    assert repr(t) == str(t.table()) and t._repr_html_() == t.table()._repr_html_()
    assert ">copied</td>" in t._repr_html_() and ">conflicts</th>" in t._repr_html_()
    t = traced(racing, 1, 32, np.zeros(1, "f4"))
    assert "<p" in t._repr_html_() and "race in racing" in t._repr_html_()


def test_plots_without_matplotlib(monkeypatch):
    t = traced(copied, 1, 1, np.zeros(1, "f4"), np.zeros(1, "f4"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused(ImportError, 'pip install "numbacc[notebooks]"', run=t.plot)


@in_simulator
def test_kernels_of_numbacc():
    """They take addresses: 16 bytes at once, of both halves of x and of y."""
    x = numbacc.asarray(np.ones((8, 64), "f4"))
    with numbacc.trace() as t:
        gated.forward(x)
    rows = {(row.array, row.access): row for row in t.table().rows}
    assert sorted(rows) == [("ins[0]", "read"), ("ins[1]", "read"), ("outs[0]", "write")]
    assert {row.bytes for row in rows.values()} == {8 * 32 * 4}
    assert {row.used for row in rows.values()} == {1.0} and {*t.records["nbytes"].tolist()} == {16}


@in_simulator
def test_kernels_of_numbacc_element_by_element():
    """Every second element, by `strided`: 64 bytes of each array make a request of 32 threads' 4 bytes, 8 sectors."""
    x = numbacc.asarray(np.ones((8, 128), "f4"))[:, ::2]
    with numbacc.trace() as t:
        gated.forward(x)
    rows = {row.array: row for row in t.table().rows}
    assert [(row.requests, row.sectors) for row in rows.values()] == [(8, 64), (8, 64), (8, 32)]


@in_simulator
@pytest.mark.parametrize("name", ["softmax", "sum", "cumsum", "layer_norm"])
def test_rows_come_out_right_under_a_trace(name):
    """Their threads work together, through shared memory that notes what is done to it."""
    x = np.random.default_rng(0).standard_normal((4, 40)).astype("f4")
    operation = getattr(elementwise, name)
    with numbacc.trace() as t:
        y = numbacc.asnumpy(operation(numbacc.asarray(x)))
    np.testing.assert_allclose(y, operation(x), rtol=1e-4, atol=1e-5)
    assert {row.memory for row in t.table().rows} == {"global", "shared"} and not t.races


def test_two_shared_arrays_of_one_line_are_two():
    y = np.zeros(64, "f4")
    t = traced(two_at_once, 1, 32, y)
    np.testing.assert_array_equal(y, [*range(31, -1, -1), *range(100, 132)])
    written = [row.bytes for row in t.table().rows if (row.memory, row.access) == ("shared", "write")]
    assert sum(written) == 2 * 128 and not t.races
