"""Softmax of whole rows as one flat kernel, against `elementwise.softmax`: an experiment.

numbacc's kernels for rows are trees of device functions. The kernel here is one function over a few primitives. It must
answer whether that compiles faster, and whether it is as fast:

    python -m benchmarks.flat_softmax --json flat.json     on a GPU: time, bits, compile time
    python -m benchmarks.flat_softmax --ptx                without a GPU: instructions of both kernels, compile time

`threads` threads share a row. Each loads `runs` accesses of 16 bytes, all before it uses the first. The warps of a row
exchange their maximum and their sum once, so that a row costs one barrier. A block takes `groups` rows at a time. It
either takes no more, or stays and loads the next rows before it works on these (`ahead`). Rows are short enough for
registers, and a power of two times 16 bytes long.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import compiling, elementwise
from numbacc.base import _numba
from numbacc.base._numba import SIMULATED, cuda
from numbacc.base.dispatch import launching_by
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout, row_major_strides
from numbacc.elementwise import norms
from numbacc.functions.arithmetic import exp
from numbacc.kernels.inspection import DEFAULT_CAPABILITY, Noted
from numbacc.kernels.primitives.block_reduce import swap
from numbacc.kernels.primitives.operands import operands
from numbacc.kernels.primitives.packed_16bit import in_words
from numbacc.kernels.primitives.partials import parts_intrinsics
from numbacc.kernels.primitives.runs import runs_of
from numbacc.kernels.primitives.specialize import specialize
from numbacc.kernels.reduce.functions import add, larger
from numbacc.runtime import device as runtime
from numbacc.runtime.launch import address_of, ptx_of
from numbacc_bindings.driver import DeviceAttribute, LaunchConfig, driver

#: Elements of the arrays that are timed.
_SIZE = 2**26
_DTYPES = ("float32", "bfloat16")
#: Lengths of rows, in the order in which they are measured.
_COLUMNS = (4096, 1024, 256, 16384)
_ALL_COLUMNS = (*_COLUMNS, 512, 2048, 8192)
#: What first calls are of.
_FIRST = (("float32", 4096), ("bfloat16", 4096))
_WARP, _ACCESS_BYTES = 32, 16
#: Threads that a block has at least.
_LEAST = 128
#: So many results at each end are looked at.
_FEW = 2**18
#: CU_FUNC_ATTRIBUTE_NUM_REGS.
_NUM_REGS = 4
_LOWEST = float(np.finfo(np.float32).min)


class Way(NamedTuple):
    """How rows are shared out.

    Attributes:
        threads: threads of a row, a power of two; whole warps where they are more than one warp.
        runs: accesses of 16 bytes that each of them has.
        groups: rows that a block takes at once.
        ahead: True where blocks stay and load the next row early.
        blocks: how many blocks a multiprocessor shall have at once, at least.
    """

    threads: int
    runs: int
    groups: int
    ahead: bool
    blocks: int

    def __str__(self) -> str:
        form = "ahead" if self.ahead else "once"
        return f"{form}, {self.groups} x {self.threads} threads, {self.runs} loads"


#: (Loads of a thread, whether blocks stay, threads of a multiprocessor): as many threads as registers allow without
#: spills.
_FORMS = {
    "float32": ((8, False, 1024), (4, False, 1536), (4, True, 1024), (8, True, 512)),
    "bfloat16": ((8, False, 640), (4, False, 1024), (4, True, 768), (8, True, 512)),
}


def ways(dtype: str, columns: int) -> list[Way]:
    """The ways that are tried: 64 or 128 bytes in flight for each thread, and twice that where blocks stay."""
    accesses = columns * TABLE[dtype].itemsize // _ACCESS_BYTES
    found = []
    for runs, ahead, at_once in _FORMS[dtype]:
        threads = max(accesses // runs, 1)
        if threads <= min(at_once, 1024):
            groups = max(_LEAST // threads, 1)
            found.append(Way(threads, runs, groups, ahead, max(at_once // (threads * groups), 1)))
    return found


def exponential(x: Any, largest: Any) -> Any:
    """(e^(x - max),)."""
    return (exp(x - largest),)


def product(x: Any, factor: Any) -> Any:
    """(x factor,)."""
    return (x * factor,)


def _places(runs: int) -> Any:
    """The device function (item, step) -> the offsets of so many runs, each in a tuple."""

    def last(item, step):
        return ((item,),)

    one = cuda.jit(device=True)(last)
    if runs == 1:
        return one
    others = _places(runs - 1)

    def places(item, step):
        return one(item, step) + others(item + step, step)

    return cuda.jit(device=True)(places)


def primitives(dtype: str, runs: int) -> SimpleNamespace:
    """What the kernel is made of: loads, numbers of what was loaded, stores, reductions and maps of numbers."""
    width, narrow = _ACCESS_BYTES // TABLE[dtype].itemsize, dtype != "float32"
    moves, parts = runs_of((dtype,), "float32", width, runs), parts_intrinsics(("float32",), (0.0,), "float32")
    if narrow:
        # What is on its way takes half the registers of its numbers.
        words = in_words(dtype, "float32", width, runs)
        load, numbers = words.words, words.numbers
    else:
        load_runs = moves.load_runs
        load = cuda.jit(device=True)(lambda addresses, at: load_runs(addresses, at, 0))
        numbers = cuda.jit(device=True)(lambda loaded: loaded)
    functions = {each.__name__: specialize(each, "float32", narrow) for each in (larger, add, exponential, product)}
    return SimpleNamespace(
        width=width, load=load, numbers=numbers, store=moves.store_runs, places=_places(runs),
        fold=parts.reduce_lanes(1), map=operands((TABLE["float32"],), 1, 1, "float32").map_lanes, **functions,
    )  # fmt: skip


def make(dtype: str, columns: int, way: Way) -> Callable[..., None]:
    """The flat kernel (address of x, address of y, rows): softmax of each row; rows are a multiple of `groups`."""
    use = primitives(dtype, way.runs)
    load, numbers, store, places, fold, each = use.load, use.numbers, use.store, use.places, use.fold, use.map
    larger, add, exponential, product, width = use.larger, use.add, use.exponential, use.product, use.width
    threads, groups, ahead = way.threads, way.groups, way.ahead
    lanes, warps, step = min(threads, _WARP), max(threads // _WARP, 1), threads * width
    shift, in_all = threads.bit_length() - 1, warps * groups
    lowest, one = np.float32(_LOWEST), np.float32(1)

    def softmax(x, y, rows):
        cells = cuda.shared.array((4, in_all), np.float32)
        thread, group = cuda.threadIdx.x & (threads - 1), cuda.threadIdx.x >> shift
        first, apart = cuda.blockIdx.x * groups, cuda.gridDim.x * groups
        item, side, cell = thread * width, 0, group * warps
        loaded = load((x,), places((first + group) * columns + item, step))
        while first < rows:
            values, at = numbers(loaded), places((first + group) * columns + item, step)
            first += apart
            if ahead and first < rows:
                loaded = load((x,), places((first + group) * columns + item, step))
            largest, half = fold(larger, values)[0][0], lanes // 2
            while half > 0:
                largest = larger(largest, swap(((largest,),), half)[0][0])[0]
                half //= 2
            # Infinity minus infinity is NaN: a warp of which all is -infinity adds 0.
            base = largest if largest != -np.inf else lowest
            powers = each(exponential, values, (base,))
            total, half = fold(add, powers)[0][0], lanes // 2
            while half > 0:
                total += swap(((total,),), half)[0][0]
                half //= 2
            if warps == 1:
                factor = one / total
            else:
                if thread & (lanes - 1) == 0:
                    cells[side, cell + (thread >> 5)] = base
                    cells[side + 1, cell + (thread >> 5)] = total
                cuda.syncthreads()
                # There is no second barrier, as the next row has other cells.
                place, half = cell + (thread & (warps - 1)), warps // 2
                own_base, own = cells[side, place], cells[side + 1, place]
                base_of_all = own_base
                while half > 0:
                    base_of_all = larger(base_of_all, swap(((base_of_all,),), half)[0][0])[0]
                    half //= 2
                total, half = own * exponential(own_base, base_of_all)[0], warps // 2
                while half > 0:
                    total += swap(((total,),), half)[0][0]
                    half //= 2
                factor = exponential(base, base_of_all)[0] / total
                side = 2 - side
            store((y,), at, each(product, powers, (factor,)), 0, 0)
            if not ahead:
                first = rows

    return softmax


# ---------------------------------------------------------------- compiled and launched


def signature() -> Any:
    """The types of the kernel's arguments."""
    types = _numba.types
    return types.void(types.uint64, types.uint64, types.int64)


def bounds(way: Way) -> tuple[int, int]:
    """Threads of a block, at most, and blocks that shall fit a multiprocessor together."""
    return way.threads * way.groups, way.blocks


def flat_ptx(dtype: str, columns: int, way: Way) -> str:
    """The flat kernel's PTX. Needs no GPU."""
    with _numba.pretending(DEFAULT_CAPABILITY):
        return _numba.compile_ptx(make(dtype, columns, way), signature(), DEFAULT_CAPABILITY, bounds(way))[0]


def their_ptx(dtype: str, columns: int) -> str:
    """The PTX of the kernel that `elementwise.softmax` launches for as many elements as are timed. Needs no GPU."""
    row, shape = TABLE[dtype], (_SIZE // columns, columns)
    x = layout(shape, row_major_strides(shape, row.itemsize), row.numpy, 0)
    found: list[Any] = []
    with launching_by(Noted.into(found)):
        norms.planned("softmax", (x,)).choose((0, 0))
    (kernel,) = found
    return _ptx_of(kernel)


def _ptx_of(kernel: Any) -> str:
    with _numba.pretending(DEFAULT_CAPABILITY):
        return ptx_of(kernel, DEFAULT_CAPABILITY)[0]


def instructions(ptx: str) -> int:
    """How many instructions a PTX text has."""
    lines = [line.strip() for line in ptx.splitlines()]
    return sum(line.endswith(";") and not line.startswith((".", "//", "{", "}")) for line in lines)


def counts(case: tuple[str, int]) -> dict[str, int]:
    """The instructions of all ways, and of numbacc's kernel as "numbacc", given a dtype and a length of rows."""
    found = {str(way): instructions(flat_ptx(*case, way)) for way in ways(*case)}
    return {**found, "numbacc": instructions(their_ptx(*case))}


def all_counts(columns: Sequence[int]) -> dict[tuple[str, int], dict[str, int]]:
    """(dtype, length) -> `counts`, by as many processes as there are cores, at most 8."""
    cases = [(dtype, count) for count in columns for dtype in _DTYPES]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 8), mp_context=context) as pool:
        return dict(zip(cases, pool.map(counts, cases), strict=True))


def cubin(dtype: str, columns: int, way: Way, capability: tuple[int, int]) -> tuple[str, bytes]:
    """(entry point, machine code) of the flat kernel, as numbacc makes it of its own. Needs no GPU."""
    from cuda.core import Program, ProgramOptions

    ptx, entry = _numba.compile_ptx(make(dtype, columns, way), signature(), capability, bounds(way))
    options = ProgramOptions(arch="sm_{}{}".format(*capability))
    return entry, bytes(Program(ptx, "ptx", options).compile("cubin").code)


class Flat:
    """A compiled flat kernel: called with x and y."""

    def __init__(self, dtype: str, columns: int, way: Way):
        self.columns, self.way, self._threads = columns, way, way.threads * way.groups
        if SIMULATED:
            self._kernel = cuda.jit(make(dtype, columns, way))
            return
        device = runtime.current_device()
        entry, code = cubin(dtype, columns, way, runtime.capability(device))
        with runtime.on_device(device):
            module = runtime.call(driver.cuModuleLoadData, address_of(code))
            self._function = runtime.call(driver.cuModuleGetFunction, module, entry.encode())

    def __call__(self, x: Any, y: Any) -> None:
        """On the legacy default stream."""
        rows = x.size // self.columns
        assert rows % self.way.groups == 0
        grid = rows // self.way.groups
        if self.way.ahead:
            grid = min(grid, self.way.blocks * multiprocessors())
        if SIMULATED:
            self._kernel[grid, self._threads](_address(x), _address(y), rows)
            return
        config = LaunchConfig(grid, 1, 1, self._threads, 1, 1, 0, None, None, 0)
        arguments = ctypes.c_uint64(_address(x)), ctypes.c_uint64(_address(y)), ctypes.c_int64(rows)
        pointers = (ctypes.c_void_p * 3)(*map(ctypes.addressof, arguments))
        with runtime.on_device(runtime.current_device()):
            driver.cuLaunchKernelEx(ctypes.addressof(config), self._function, ctypes.addressof(pointers), 0)

    @property
    def registers(self) -> int | None:
        """Of a thread; None in the simulator."""
        return None if SIMULATED else runtime.call(driver.cuFuncGetAttribute, _NUM_REGS, self._function)


def _address(array: Any) -> int:
    return int(array._address)


def multiprocessors() -> int:
    """How many the current GPU has."""
    return int(runtime.device_attribute(DeviceAttribute.MULTIPROCESSOR_COUNT, runtime.current_device()))


# ---------------------------------------------------------------- right or wrong


def oracle(x: Any) -> Any:
    """Softmax in float64, by NumPy."""
    wide = np.asarray(x).astype(np.float64)
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def errors(found: Any, wanted: Any, dtype: str) -> float:
    """The largest distance to the oracle, in units in the last place of the dtype, of what is not subnormal."""
    eps = {"float32": 2.0**-23, "bfloat16": 2.0**-7}[dtype]
    unit = eps * 2.0 ** np.floor(np.log2(np.maximum(wanted, 2.0**-126)))
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / unit))


def bits(array: Any) -> Any:
    """An array's floats as integers."""
    return array.view({2: np.int16, 4: np.int32}[array.dtype.itemsize]).astype(np.int64)


def ends_of(array: Any) -> Any:
    """The first and the last rows of an array, in NumPy."""
    few = max(min(_FEW // array.shape[1], array.shape[0] // 2), 1)
    return np.concatenate([numbacc.asnumpy(array[:few]), numbacc.asnumpy(array[-few:])])


def check(flat: Flat, x: Any, y: Any, theirs: Any, dtype: str) -> dict[str, Any]:
    """Figures of a flat kernel's results: those of the first and last rows against float64 and numbacc's.

    It is right where their errors are about as large as numbacc's, and all others were written, too.
    """
    y[...] = np.nan
    flat(x, y)
    found, expected, wanted = ends_of(y), ends_of(theirs), oracle(ends_of(x))
    ours, other = (errors(each, wanted, dtype) for each in (found, expected))
    total = float(numbacc.asnumpy(elementwise.sum(y)))
    apart = np.abs(bits(found) - bits(expected))
    return {
        "ulp_flat": ours,
        "ulp_numbacc": other,
        "most_bits_apart": int(apart.max()),
        "part_other_bits": float((apart != 0).mean()),
        "right": bool(ours <= 2 * other + 4 and abs(total - x.shape[0]) <= 0.05 * x.shape[0]),
    }


# ---------------------------------------------------------------- first calls


@contextmanager
def _no_cache() -> Iterator[dict[str, str]]:
    """The environment of a process that finds no compiled kernels."""
    with tempfile.TemporaryDirectory() as folder:
        yield {**os.environ, "NUMBACC_CACHE_DIR": folder}


def first_call(which: str, dtype: str, columns: int) -> float:
    """Seconds of this process's first call, after the first of another function, whose kernel is compiled, too."""
    x = numbacc.asarray(np.ones((256, columns), np.float32)).astype(dtype)
    y = elementwise.sqrt(x)
    numbacc.asnumpy(y)
    start = time.perf_counter()
    if which == "numbacc":
        elementwise.softmax(x, out=y)
    else:
        Flat(dtype, columns, ways(dtype, columns)[0])(x, y)
    numbacc.asnumpy(y)
    return time.perf_counter() - start


def first_ptx(which: str, dtype: str, columns: int) -> float:
    """Seconds that this process takes for its first softmax's PTX, after that of another function. Needs no GPU."""
    _ptx_of(compiling.kernels(["gated"])[0])
    start = time.perf_counter()
    if which == "numbacc":
        their_ptx(dtype, columns)
    else:
        flat_ptx(dtype, columns, ways(dtype, columns)[0])
    return time.perf_counter() - start


def compile_times(how: str, repeats: int) -> list[dict[str, Any]]:
    """Medians of new processes, with nothing in their caches. They run one after the other, as time is measured."""
    figures = []
    for dtype, columns in _FIRST:
        found: dict[str, list[float]] = {"flat": [], "numbacc": []}
        for _ in range(repeats):
            for which, times in found.items():
                with _no_cache() as environment:
                    command = [
                        sys.executable,
                        "-m",
                        "benchmarks.flat_softmax",
                        "--first",
                        how,
                        which,
                        dtype,
                        str(columns),
                    ]
                    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                times.append(float(run.stdout.split()[-1]))
        flat, numbaccs = (statistics.median(found[which]) for which in ("flat", "numbacc"))
        figures.append({
            "name": f"first {how}, {dtype}, rows of {columns}", "flat_s": flat, "numbacc_s": numbaccs,
            "ratio": flat / numbaccs,
        })  # fmt: skip
        print(f"{figures[-1]['name']:36s} flat {flat:5.2f} s, numbacc {numbaccs:5.2f} s, ratio {flat / numbaccs:.2f}")
    return figures


# ---------------------------------------------------------------- figures


def measure(dtype: str, columns: int, whole: Sequence[Any], ends: float) -> Iterator[dict[str, Any]]:
    """The figures of all ways for rows of a length; `whole` are inputs that take turns, and a result."""
    from .harness import copy_of, gpu_ms

    *inputs, y = [each.reshape(_SIZE // columns, columns) for each in whole]
    theirs = elementwise.softmax(inputs[0])
    turn = [0]

    def rotated(work: Callable[[Any, Any], Any]) -> None:
        turn[0] += 1
        work(inputs[turn[0] % len(inputs)], y)

    works: dict[str, Callable[[], Any]] = {
        "numbacc": partial(rotated, lambda x, y: elementwise.softmax(x, out=y)),
        "copy": copy_of(2 * y.nbytes),
    }
    figures = []
    for way in ways(dtype, columns):
        if time.perf_counter() > ends:
            break
        flat = Flat(dtype, columns, way)
        figure = {
            "name": f"{dtype}, rows of {columns}: {way}", **check(flat, inputs[0], y, theirs, dtype),
            "registers": flat.registers, "way": str(way),
        }  # fmt: skip
        figures.append(figure)
        works[figure["name"]] = partial(rotated, flat)
    times = gpu_ms(works, repeats=15)
    for figure in figures:
        own = times[figure["name"]]
        tbs = 2 * y.nbytes / own / 1e9
        figure |= {"ms": own, "tb_s": tbs, "over_numbacc": own / times["numbacc"], "copy": times["copy"] / own}
        yield {**figure, "numbacc_ms": times["numbacc"], "numbacc_tb_s": 2 * y.nbytes / times["numbacc"] / 1e9}


def _print(figure: dict[str, Any]) -> None:
    print(
        f"{figure['name']:58s} {figure['tb_s']:4.2f} TB/s, numbacc {figure['numbacc_tb_s']:4.2f}, time over numbacc's "
        f"{figure['over_numbacc']:.3f}; ulp {figure['ulp_flat']:.2f} and {figure['ulp_numbacc']:.2f}; PTX "
        f"{figure['ptx_flat']} and {figure['ptx_numbacc']}; registers {figure['registers']}"
        f"{'' if figure['right'] else '; WRONG'}",
        flush=True,
    )


def on_gpu(columns: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """All figures, of as many lengths as there is time for."""
    from numbacc.random import Generator

    ends = time.perf_counter() + seconds
    figures, found = compile_times("call", 1), all_counts(columns)
    for count in columns:
        for dtype in _DTYPES:
            if time.perf_counter() > ends:
                print(f"no time left for {dtype}, rows of {count}")
                continue
            draw, own = Generator("philox", seed=7), found[dtype, count]
            inputs = [draw.normal(size=_SIZE, dtype=dtype) for _ in range(2)]
            for figure in measure(dtype, count, [*inputs, numbacc.empty_like(inputs[0])], ends):
                figure |= {"ptx_flat": own[figure["way"]], "ptx_numbacc": own["numbacc"]}
                figures.append(figure)
                _print(figure)
    return figures


def without_gpu(columns: Sequence[int]) -> list[dict[str, Any]]:
    """Instructions of both kernels, and seconds to compile them to PTX."""
    figures = []
    for (dtype, count), found in all_counts(columns).items():
        for way in ways(dtype, count):
            name, own, other = f"{dtype}, rows of {count}: {way}", found[str(way)], found["numbacc"]
            figures.append({"name": name, "ptx_flat": own, "ptx_numbacc": other})
            print(f"{name:58s} PTX {own} and {other}", flush=True)
    return figures + compile_times("ptx", 3)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flat_softmax",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument("--ptx", action="store_true", help="compile only: needs no GPU")
    parser.add_argument("--all", action="store_true", help="all lengths of rows from 256 to 16384")
    parser.add_argument("--seconds", type=float, default=45, help="begin no further kernel after so long")
    parser.add_argument("--first", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.first:
        how, which, dtype, count = options.first
        print({"call": first_call, "ptx": first_ptx}[how](which, dtype, int(count)))
        return 0
    columns = _ALL_COLUMNS if options.all else _COLUMNS
    figures = without_gpu(columns) if options.ptx else on_gpu(columns, options.seconds)
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if all(figure.get("right", True) for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
