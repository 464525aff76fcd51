"""`numbacc.record`: its entries, tables and files, NVTX ranges, and that calls outside are as they were."""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import inspect
import json
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from html.parser import HTMLParser

import numpy as np
import pytest
from paths import ROOT
from replaced_driver import CC
from skips import skip, skip_if

import numbacc
from numbacc import attention, conv, cuda, device, fft, gated, gemm, random
from numbacc import elementwise as ew
from numbacc.base import observing
from numbacc.base.dispatch import has_gpu, runtime, simulated
from numbacc.elementwise import softmax
from numbacc.errors import OptionError, ShapeError
from numbacc.gated import forward
from numbacc.profiling import CallLog, RecordedCall, observers
from numbacc_bindings import nvtx
from numbacc_bindings.nvtx import Nvtx, is_profiled

X = np.linspace(-2, 2, 32, dtype=np.float32).reshape(4, 8)
real_gpu = has_gpu() and not simulated()


def backend(place):
    return {"numpy": "numpy", "portable": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]


# ---------------------------------------------------------------- entries


def test_an_entry_says_what_ran(place):
    x = place.put(X)
    with numbacc.record() as log:
        y = gated.forward(x, kind="reglu")
    (call,) = log
    assert call.function == "gated.forward" and call.backend == backend(place)
    assert call.algorithm == gated.forward.plan(x, kind="reglu").info.algorithm
    assert [(each.name, each.dtype, each.shape) for each in call.inputs] == [("x", "float32", (4, 8))]
    assert [(each.dtype, each.shape) for each in call.outputs] == [("float32", (4, 4))]
    assert call.nbytes == X.nbytes + X.nbytes // 2
    assert call.host_us > 0 and 0 <= call.setup_us <= call.host_us
    assert call.start_us >= 0 and not call.error and call.thread == threading.get_ident()
    assert (call.gpu_us is None) is (place.name != "gpu") and bool(call.note) is (place.name != "gpu")
    assert call.device == ("cuda:0" if place.name == "gpu" else "cpu")
    (kernel,) = call.kernels
    assert kernel.name == call.function and kernel.nbytes == call.nbytes
    np.testing.assert_array_equal(place.get(y), np.maximum(X[:, 4:], 0) * X[:, :4])


def _image(place):
    return place.put(np.ones((1, 2, 5, 5), np.float32)), place.put(np.ones((3, 2, 3, 3), np.float32))


FAMILIES = {
    "attention.forward": lambda place: attention.forward(*[place.put(np.ones((1, 2, 4, 8), np.float32))] * 3),
    "conv.forward": lambda place: conv.forward(*_image(place)),
    "elementwise.cumsum": lambda place: ew.cumsum(place.put(X), axis=1),
    "elementwise.layer_norm_backward": lambda place: ew.layer_norm_backward(
        place.put(X), place.put(X), place.put(X[0])
    ),
    "fft.rfft": lambda place: fft.rfft(place.put(X)),
    "gated.backward": lambda place: gated.backward(place.put(X[:, :4]), place.put(X)),
    "gemm.mlp": lambda place: gemm.mlp(*map(place.put, (X, X.T.copy(), X[:, 0].copy(), X, X[0]))),
    "random.Generator.normal": lambda place: random.Generator(1, device=place.put(X).device).normal(
        size=8, dtype="float32"
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_recorded(place, name):
    FAMILIES[name](place)
    with numbacc.record() as log:
        FAMILIES[name](place)
    call = log[-1]
    assert call.function == name and call.backend and call.algorithm and call.nbytes
    assert [each.function for each in log if each.backend != "copy"] == [name]
    assert bool(call.note) is (place.name != "gpu")


def test_a_call_that_runs_several_kernels_is_one_entry(place):
    x, target = place.put(X), place.put(np.array([1, 0, 7, 3]))
    with numbacc.record() as log:
        ew.cross_entropy(x.astype(np.float64), target)
        ew.concatenate([x, x[:1]])
    *_, loss, joined = log
    assert loss.function == "elementwise.cross_entropy" and joined.function == "elementwise.concatenate"
    assert len(loss.kernels) > 1 and len(joined.kernels) == 2
    assert loss.nbytes == sum(each.nbytes for each in loss.kernels)
    assert [str(each) for each in loss.inputs] == ["x float64 (4, 8)", "target int64 (4,)"]
    assert [each.shape for each in loss.outputs] == [()]
    assert [each.name for each in joined.inputs] == ["arrays[0]", "arrays[1]"]
    assert joined.outputs[0].shape == (5, 8)


def test_operators_plans_and_methods_are_entries(device_place):
    x = device_place.put(X)
    plan = gated.forward.plan(x)
    with numbacc.record() as log:
        _ = x + x
        plan(x)
        x.sum(axis=1)
        _ = x @ x.T
        x[0] = 1
        x.copy()
    names = [call.function for call in log]
    assert names[:4] == ["elementwise.add", "gated.forward", "elementwise.sum", "gemm.matmul"]
    assert len(names) == (5 if device_place.name == "portable" else 6)


def test_copies_to_and_from_the_host_are_entries(device_place):
    if device_place.name == "portable":
        skip("device")
    with numbacc.record() as log:
        x = numbacc.asarray(X)
        numbacc.zeros((3, 5))
        numbacc.asnumpy(x)
        x.copy_to_host()
        numbacc.current_stream().synchronize()
    first, zeros, second, third, waits = log
    assert (first.function, first.backend, first.nbytes) == ("numbacc.asarray", "copy", X.nbytes)
    assert first.algorithm == "from the host to the GPU" and second.algorithm == "from the GPU to the host"
    assert (zeros.function, zeros.algorithm, zeros.nbytes) == ("numbacc.zeros", "fill", 60)
    assert (second.function, second.nbytes, third.nbytes) == ("numbacc.asnumpy", X.nbytes, X.nbytes)
    assert waits.function == "Stream.synchronize" and not waits.kernels and waits.host_us > 0


def test_broadcast_elements_count_once_and_what_changes_in_place_twice(place):
    x, row = place.put(X), place.put(X[0])
    p, g, m, v = (place.put(np.ones(8, np.float32)) for _ in range(4))
    with numbacc.record() as log:
        ew.add(x, row)
        ew.adamw_step(p, g, m, v, 1)
    assert log[0].nbytes == 2 * X.nbytes + 32
    assert log[1].function == "elementwise.adamw_step" and log[1].nbytes == 7 * 32


def test_your_own_kernels_are_entries_by_their_names(place):
    @ew.kernel
    def squared(x):
        return x * x

    @ew.reduction
    def length(x):
        return x * x

    x = place.put(X)
    with numbacc.record() as log:
        y, saved = squared(x, return_saved=True)
        squared.backward(y, saved)
        length(x, axis=1)
    assert [call.function for call in log] == ["squared", "squared.backward", "length"]
    assert {call.backend for call in log} == {backend(place)}


def test_simulated_launches_are_entries():
    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= 2

    x = np.ones(48, np.float32)
    with numbacc.simulate(), numbacc.record() as log:
        double[2, 32](x)
    (call,) = log
    assert (call.function, call.backend) == ("double", "simulator") and call.algorithm.startswith("grid ")
    assert [str(each) for each in call.inputs] == ["x float32 (48,)"] and call.nbytes == 192
    assert (x == 2).all() and 0 < call.setup_us < call.host_us, "it was compiled"


def test_observers_take_the_arguments_of_their_functions():
    """Else a call fails only while somebody observes."""
    assert len(observing._observables) > 300
    for each in observing._observables:
        observer = inspect.signature(observers.OBSERVERS[each.kind](each.function, each.label))
        parameters = inspect.signature(each.function).parameters.values()
        own = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        for count in (len(own), sum(p.default is p.empty for p in own)):
            observer.bind(*range(count))  # raises TypeError


@device.jit(reads="x")
def tripled(x, y):
    y[cuda.threadIdx.x] = 3 * x[cuda.threadIdx.x]


def test_kernels_of_device_jit_are_entries(place):
    """Also inside of NVTX ranges, which a profiler and compute-sanitizer turn on."""
    x, y = place.put(np.arange(32, dtype=np.float32)), place.put(np.zeros(32, np.float32))
    with numbacc.simulate() if place.name != "gpu" else nullcontext(), numbacc.record() as log:
        tripled[1, 32](x, y)
        tripled[1, 32](x, y)
    assert np.array_equal(place.get(y), 3 * np.arange(32, dtype=np.float32))
    for call in log:
        assert (call.function, call.nbytes) == ("tripled", 256)
        assert call.backend == ("kernel" if place.name == "gpu" else "simulator")
        assert call.algorithm == "grid (1, 1, 1), block (32, 1, 1)"
        assert {str(each) for each in (*call.inputs, *call.outputs)} == {"x float32 (32,)", "y float32 (32,)"}
    if place.name == "gpu":
        assert [str(each) for each in call.outputs] == ["y float32 (32,)"] and call.gpu_us > 0
    assert len(log) == 2


@skip_if(real_gpu, "no gpu")
def test_launches_without_a_gpu_are_entries_and_traced_ones_too():
    @cuda.jit
    def add_one(x):
        i = cuda.grid(1)
        x[i] += 1

    x = np.zeros(32, np.float32)
    with numbacc.record() as log:
        add_one[1, 32](x)
        with numbacc.trace() as trace:
            add_one[2, 16](x)
    assert [(call.function, call.backend, call.nbytes) for call in log] == [("add_one", "simulator", 128)] * 2
    assert (x == 2).all() and trace.counts("x", "read").accesses == 32


def test_adding_a_list_of_parameters_is_one_entry(place):
    lists = [[place.put(np.ones(n, np.float32)) for n in (8, 64)] for _ in range(4)]
    with numbacc.record() as log:
        ew.adamw_step(*lists, 1)
    (call,) = log
    assert call.function == "elementwise.adamw_step" and call.nbytes == 7 * 4 * (8 + 64)


def test_an_error_is_noted_and_raised():
    with numbacc.record() as log:
        with pytest.raises(ShapeError):
            ew.add(X, np.ones(3, np.float32))
        gated.forward(X)
        with pytest.raises(ZeroDivisionError), numbacc.record() as inner:
            gated.forward(X)
            _ = 1 / 0
    assert [(call.function, call.error) for call in log] == [
        ("elementwise.add", "ShapeError"),
        ("gated.forward", ""),
        ("gated.forward", ""),
    ]
    assert len(inner) == 1 and "elementwise.add (ShapeError)" in str(log.table())


def test_the_first_call_makes_a_plan():
    x = np.ones((3, 22), np.float32)
    gated.cache_clear()
    with numbacc.record() as log:
        gated.forward(x)
        gated.forward(x)
    first, second = log
    assert first.setup_us > 0 and second.setup_us == 0
    assert "setup us" in str(log.table())


# ---------------------------------------------------------------- logs


def test_a_log_is_a_sequence_of_frozen_entries():
    log = numbacc.record()
    assert isinstance(log, CallLog) and len(log) == 0 and [*log] == [] and str(log) == "no calls were recorded"
    with log:
        gated.forward(X)
        assert len(log) == 1 and log[0].function == "gated.forward"
        softmax(X)
    assert [call.function for call in log] == ["gated.forward", "elementwise.softmax"]
    assert log[-1] is log[1] and log[:1] == [log[0]] and isinstance(log[0], RecordedCall)
    with pytest.raises(dataclasses.FrozenInstanceError):
        log[0].function = "another"
    with pytest.raises(IndexError):
        log[2]
    with log:  # it goes on
        gated.forward(X)
    assert len(log) == 3
    with log, pytest.raises(OptionError, match="records already"):
        log.__enter__()
    with pytest.raises(OptionError, match="not begun"):
        log.__exit__()


def test_a_call_is_in_all_logs_around_it():
    with numbacc.record() as outer:
        gated.forward(X)
        with numbacc.record() as inner:
            softmax(X)
        gated.forward(X)
    assert [call.function for call in inner] == ["elementwise.softmax"]
    assert [call.function for call in outer] == ["gated.forward", "elementwise.softmax", "gated.forward"]


def test_nothing_is_noted_that_runs_nothing():
    with numbacc.record() as log:
        gated.cache_info()
        numbacc.has_gpu()
        numbacc.scratch_limit()
        gated.forward.plan(X)
    assert len(log) == 0


def test_functions_that_were_imported_before_are_recorded_and_are_then_as_they_were():
    codes = [each.function.__code__ for each in observing._observables]
    with numbacc.record() as log:
        forward(X)
        softmax(X)
        with numbacc.record():
            pass
        assert forward.__code__ not in codes
        forward(X)
    assert [call.function for call in log] == ["gated.forward", "elementwise.softmax", "gated.forward"]
    now = [each.function.__code__ for each in observing._observables]
    assert all(one is other for one, other in zip(codes, now, strict=False))
    forward(X)
    assert len(log) == 3


def test_calls_of_other_threads_are_not_in_the_log():
    inside, done = threading.Event(), threading.Event()
    found = []

    def other():
        inside.wait()
        gated.forward(X)
        with numbacc.record() as log:
            softmax(X)
        found.append(log)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with numbacc.record() as log:
        inside.set()
        done.wait()
        gated.forward(X)
    thread.join()
    assert [call.function for call in log] == ["gated.forward"]
    assert [call.function for call in found[0]] == ["elementwise.softmax"]


def test_a_copied_context_and_tasks_have_the_log_until_it_ends():
    async def task(count):
        for _ in range(count):
            gated.forward(X)
            await asyncio.sleep(0)

    async def alone():
        with numbacc.record() as log:
            await asyncio.gather(task(2), task(3))
        await task(1)
        return log

    assert len(asyncio.run(alone())) == 5
    with numbacc.record() as log:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(gated.forward, X))
        thread.start()
        thread.join()
    with numbacc.record():
        context.run(gated.forward, X)
    assert len(log) == 1 and log[0].thread != threading.get_ident()


def test_families_that_are_imported_inside_are_recorded():
    code = (
        "import numpy as np, numbacc\n"
        "with numbacc.record() as log:\n"
        "    from numbacc import fft\n"
        "    fft.rfft(np.ones(8))\n"
        "assert [call.function for call in log] == ['fft.rfft'], log\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------- tables and files


@pytest.fixture(scope="module")
def log():
    with numbacc.record() as log:
        gated.forward(X)
        for _ in range(2):
            softmax(np.ones((64, 64)))
        with pytest.raises(ShapeError):
            gemm.matmul(X, X)
    return log


def test_tables_have_totals_and_shares(log):
    lines = str(log.table()).splitlines()
    head, rule, first, *_, last, note = lines
    assert head.split()[:4] == ["function", "backend", "arrays", "bytes"] and set(rule) == {"-", " "}
    assert first.startswith("gated.forward") and "float32 (4, 8) -> float32 (4, 4)" in first
    assert last.split() == ["total", f"{sum(call.nbytes for call in log):,}", *last.split()[2:]]
    assert "100%" in last and note == "No time on a GPU for 3 calls: it ran on the CPU."
    assert "GPU us" not in head, "nothing ran on a GPU"
    assert repr(log) == str(log.table())
    assert all(len(line) == len(line.rstrip()) for line in lines)


@pytest.mark.parametrize(
    "sort, value",
    [
        ("start", lambda call: call.start_us),
        ("function", lambda call: call.function),
        ("host", lambda call: -call.host_us),
        ("bytes", lambda call: -call.nbytes),
        ("setup", lambda call: -call.setup_us),
        ("gpu", lambda call: 0),
    ],
)
def test_tables_are_sorted(log, sort, value):
    assert [row[0] for row in log.table(sort).rows] == sorted(log, key=value)


def test_calls_of_a_function_are_one_row(log):
    table = log.table("calls", by_function=True)
    assert [len(row) for row in table.rows] == [2, 1, 1]
    assert str(table).splitlines()[2].split()[:2] == ["elementwise.softmax", "2"]
    with pytest.raises(OptionError, match=r"sort='time' is unknown.*'host'"):
        log.table("time")


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.rows = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data):
        if self.tags[-1] in ("td", "th"):
            self.rows[-1].append(data)


def test_the_html_form_is_the_table():
    @ew.kernel
    def bigger(x):
        return x + 1

    bigger.__name__ = "a<b"
    with numbacc.record() as log:
        bigger(X)
    parser = _Cells()
    parser.feed(log._repr_html_())
    head, row, total = parser.rows
    assert head[0] == "function" and row[0] == "a<b" and total[0] == "total"
    assert "a<b" not in log._repr_html_()
    assert ">no calls were recorded</p>" in numbacc.record()._repr_html_()


def test_traces_are_in_chromes_format(log, tmp_path):
    log.save(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(each["pid"], each["tid"]): each["args"]["name"] for each in found if each["name"] == "thread_name"}
    calls = [each for each in found if each["ph"] == "X"]
    assert [each["name"] for each in calls] == [call.function for call in log]
    for each, call in zip(calls, log, strict=True):
        assert (each["ts"], each["dur"]) == (call.start_us, call.host_us)
        assert names[each["pid"], each["tid"]].startswith("thread ")
        assert each["args"]["bytes"] == call.nbytes
    assert calls[-1]["args"]["error"] == "ShapeError"


def test_work_on_a_gpu_is_never_before_it_was_queued(tmp_path):
    """Events are compared to the first; the GPU's rows are shifted to the host's."""

    class Timed:
        def __init__(self, ms):
            self.ms = ms

        def synchronize(self):
            pass

        def elapsed_ms(self, start):
            return self.ms - start.ms

    made = numbacc.record()
    base, queued, started = Timed(0), [1000, 3000], [0, 9]
    for name, at, ms in zip("ab", queued, started, strict=True):
        kernel = observers.OpenKernel(name, 0, 16, "kernel", "map", nbytes=4000)
        kernel.device, kernel.start, kernel.end = 0, at, at + 100
        kernel.events = (base if not ms else Timed(ms), Timed(ms + 0.002))
        kernel.base = base
        call = observers.OpenCall(name, [made])
        call.start, call.end, call.kernels = at - 500, at + 500, [kernel]
        made.add(call)
    assert [call.gpu_us for call in made] == pytest.approx([2, 2])
    assert made[0].gigabytes_per_second == pytest.approx(2)
    assert [call.kernels[0].gpu_start_us for call in made] == pytest.approx([1, 9001])
    head = str(made.table()).splitlines()[0].split()
    assert "GB/s" in head
    made.save(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = [each["args"]["name"] for each in found if each["name"] == "process_name"]
    assert "host" in rows and len({each["pid"] for each in found}) == 2
    assert len([each for each in found if each["ph"] == "X"]) == 4


# ---------------------------------------------------------------- NVTX


@pytest.fixture
def ranges():
    found = []
    observers.name_ranges(Nvtx(lambda name: found.append(name.decode()), lambda: found.append("pop")))
    yield found
    observers.name_ranges(None)


def test_ranges_have_the_names_of_calls(ranges):
    gated.forward(X)
    ew.cross_entropy(X, np.zeros(4, int))
    with pytest.raises(ShapeError):
        gemm.matmul(X, X)
    with numbacc.record() as log:
        numbacc.asnumpy(numbacc.asarray(X))
    assert ranges[1::2] == ["pop"] * (len(ranges) // 2), "they are not nested"
    names = [each for each in ranges[::2] if each != "numbacc.profiling.record"]
    assert names[:3] == ["numbacc.gated.forward", "numbacc.elementwise.cross_entropy", "numbacc.gemm.matmul"]
    assert names[3:] == ["numbacc.asarray", "numbacc.asnumpy"]
    assert len(log) == (2 if numbacc.has_gpu() else 0)


@pytest.mark.parametrize(
    "environment, expected",
    [
        ({}, False),
        ({"NVTX_INJECTION64_PATH": "/opt/nsys/libToolsInjectionProxy64.so"}, True),
        ({"NVTX_INJECTION64_PATH": ""}, False),
        ({"NVTX_INJECTION64_PATH": "/a.so", "NUMBACC_NVTX": "0"}, False),
        ({"NUMBACC_NVTX": "1"}, True),
    ],
)
def test_profilers_are_found_by_the_environment(environment, expected):
    assert is_profiled(environment) is expected


NVTX = """
#include <stdio.h>
int nvtxRangePushA(const char *name) { printf("push %s\\n", name); fflush(stdout); return 0; }
int nvtxRangePop(void) { printf("pop\\n"); fflush(stdout); return 0; }
"""


@skip_if(CC is None, "compiler")
def test_a_process_under_a_profiler_pushes_ranges(tmp_path):
    (tmp_path / "nvtx.c").write_text(NVTX)
    library = tmp_path / "libnvtx3interop.so.1"
    subprocess.run([CC, "-shared", "-fPIC", "-w", tmp_path / "nvtx.c", "-o", library], check=True)
    code = "import numpy as np; from numbacc import gated; gated.forward(np.ones(4, 'f4'), 'reglu')"
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "NVTX_INJECTION64_PATH": "/nothing.so"}

    def printed(**changes):
        command = [sys.executable, "-c", code]
        environment.update(changes)
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert printed() == "push numbacc.gated.forward\npop\n"
    assert printed(NUMBACC_NVTX="0") == ""


#: A profiler's library: NVTX calls `InitializeInjectionNvtx2`, which puts its functions into NVTX's table.
PROFILER = """
#include <stdio.h>
#include <stdint.h>
typedef void (*function)(void);
struct callbacks { size_t size; int (*table_of)(int module, function ***table, unsigned *size); };
static int push(const char *name) { printf("push %s\\n", name); fflush(stdout); return 0; }
static int pop(void) { printf("pop\\n"); fflush(stdout); return 0; }
int InitializeInjectionNvtx2(const struct callbacks *(*get)(uint32_t)) {
    function **table; unsigned size = 0;
    if (!get(1)->table_of(1, &table, &size) || size < 12) return 0;
    *table[9] = (function)push; *table[11] = (function)pop;
    return 1;
}
"""


@skip_if(CC is None, "compiler")
@skip_if(nvtx.load() is None, "nvtx")
def test_a_profiler_gets_the_ranges_from_nvtx(tmp_path):
    (tmp_path / "profiler.c").write_text(PROFILER)
    library = tmp_path / "profiler.so"
    subprocess.run([CC, "-shared", "-fPIC", "-w", tmp_path / "profiler.c", "-o", library], check=True)
    code = "import numpy as np; from numbacc import gated; gated.forward(np.ones(4, 'f4'), 'reglu')"
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(library)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "push numbacc.gated.forward\npop\n"


# ---------------------------------------------------------------- streams and graphs


def test_launches_of_graphs_are_entries(device_place):
    if device_place.name == "portable":
        skip("device")
    x = device_place.put(X)
    with numbacc.record() as log:
        with numbacc.graph() as graph:
            y = gated.forward(x, kind="reglu")
        graph.launch()
    captured, launched = [call for call in log if call.function in ("gated.forward", "Graph.launch")]
    assert captured.gpu_us is None and captured.note
    assert (launched.function, launched.backend) == ("Graph.launch", "graph")
    assert (launched.gpu_us is not None) is real_gpu
    if real_gpu:
        assert "captured into a graph" in captured.note and not launched.note
    np.testing.assert_array_equal(device_place.get(y), np.maximum(X[:, 4:], 0) * X[:, :4])


def test_draws_whose_position_is_on_the_gpu_are_entries(device_place):
    if device_place.name == "portable":
        skip("device")
    generator = random.Generator(1)
    with numbacc.record() as log:
        with numbacc.graph() as graph:
            generator.normal(size=8, dtype="float32")
        graph.launch()
        generator.normal(size=8, dtype="float32")
    captured, _, after = (call for call in log if call.backend != "copy")
    assert captured.function == after.function == "random.Generator.normal"
    assert captured.algorithm and after.algorithm and captured.backend == backend(device_place)
    assert captured.gpu_us is None and (after.gpu_us is not None) is real_gpu
    if real_gpu:
        assert "captured into a graph" in captured.note


def test_a_recorded_call_computes_the_same_on_any_stream(device_place):
    if device_place.name == "portable":
        skip("device")
    x, s = device_place.put(X), numbacc.stream()
    expected = device_place.get(gated.forward(x))
    with numbacc.record() as log:
        first = gated.forward(x, stream=s)
        with s:
            second = gated.forward(x)
        third = gated.forward(x)
    for each in (first, second, third):
        np.testing.assert_array_equal(device_place.get(each), expected)
    assert [call.kernels[0].stream for call in log] == [s.handle, s.handle, 0]


@pytest.mark.gpu
def test_times_on_a_gpu_are_those_of_the_work():
    """512 MB take at least 50 microseconds at 10 TB/s."""
    x = numbacc.zeros(1 << 26)
    ew.exp(x)
    with numbacc.record() as log:
        for _ in range(3):
            ew.exp(x)
    for call in log:
        assert call.gpu_us > 50 and not call.note
        assert call.kernels[0].gpu_start_us >= call.kernels[0].start_us - 1
    starts = [call.kernels[0].gpu_start_us for call in log]
    assert starts == sorted(starts)
    assert "GB/s" in str(log.table("gpu")).splitlines()[0]


@pytest.mark.gpu
def test_library_calls_and_tensors_are_recorded(torch):
    a = torch.ones(64, 64, device="cuda")
    with numbacc.record() as log:
        gemm.matmul(a, a)
        ew.softmax(a)
        fft.rfft(a)
        random.Generator(seed=1).normal(size=(8, 8), dtype="float32")
    product, rows, transform, draw = log
    assert "cublasLt" in product.backend and rows.backend == "kernel" and "cufft" in transform.backend.lower()
    assert draw.backend in ("kernel", "cuRAND")
    assert all(call.gpu_us > 0 for call in log)
    assert product.inputs[0].dtype == "float32" and product.nbytes == 3 * 64 * 64 * 4


@pytest.mark.gpu
def test_a_second_gpu_has_its_own_row(tmp_path):
    if runtime().device_count() < 2:
        skip("two gpus")
    with numbacc.record() as log:
        for device in (0, 1, 0):
            ew.exp(numbacc.zeros(1 << 20, device=device))
    computed = [call for call in log if call.function == "elementwise.exp"]
    assert [call.device for call in computed] == ["cuda:0", "cuda:1", "cuda:0"]
    assert all(call.gpu_us > 0 for call in computed)
    log.save(tmp_path / "trace.json")
    found = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {each["args"]["name"] for each in found if each["name"] == "process_name"} == {"host", "cuda:0", "cuda:1"}


@pytest.mark.gpu
def test_cupys_arrays_are_described(cupy):
    with numbacc.record() as log:
        ew.exp(cupy.ones((3, 4), "float32"))
    assert str(log[0].inputs[0]) == "x float32 (3, 4)"


def test_numba_is_not_needed():
    """NumPy calls that are recorded load nothing that calls do not load."""
    code = (
        "import sys, numpy as np, numbacc\n"
        "from numbacc import gated\n"
        "with numbacc.record() as log:\n"
        "    gated.forward(np.ones(8), 'reglu')\n"
        "log.table()\n"
        "assert len(log) == 1 and 'numba' not in sys.modules\n"
    )
    if real_gpu or simulated():
        skip("no gpu")
    subprocess.run([sys.executable, "-c", code], check=True)
