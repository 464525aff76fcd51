"""Atomic operations of the compiled simulator, against Python's integers and NumPy's floats."""

import math
import threading

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from numbacc.simulator.compiled import atomics

INTEGERS = (np.int32, np.int64, np.uint32, np.uint64)
UNSIGNED = (np.uint32, np.uint64)
NUMBERS = (*INTEGERS, np.float32, np.float64)
TABLES = {"global": atomics.GLOBAL, "shared": atomics.SHARED}


def wrapped(value, dtype):
    """Return an integer modulo the range of a type."""
    bits = np.dtype(dtype).itemsize * 8
    value %= 1 << bits
    return value - (1 << bits) if dtype in (np.int32, np.int64) and value >> (bits - 1) else value


def expected(name, old, value, dtype):
    """Return what an operation leaves, of Python's numbers."""
    if dtype in (np.float32, np.float64):
        if name in ("add", "sub"):
            return float(dtype(old) + dtype(value)) if name == "add" else float(dtype(old) - dtype(value))
        choose = max if name.endswith("max") else min
        if math.isnan(old) or math.isnan(value):
            if not name.startswith("nan"):
                return old
            return value if math.isnan(old) else old
        return choose(old, value)
    rules = {
        "add": lambda: old + value, "sub": lambda: old - value, "max": lambda: max(old, value),
        "min": lambda: min(old, value), "nanmax": lambda: max(old, value), "nanmin": lambda: min(old, value),
        "and_": lambda: old & value, "or_": lambda: old | value, "xor": lambda: old ^ value, "exch": lambda: value,
        "inc": lambda: 0 if old >= value else old + 1, "dec": lambda: value if old == 0 or old > value else old - 1,
    }  # fmt: skip
    return wrapped(rules[name](), dtype)


def names_of(dtype):
    integer = dtype in INTEGERS
    names = ["add", "sub", "max", "min", "nanmax", "nanmin"]
    return names + (["and_", "or_", "xor", "exch"] if integer else []) + (["inc", "dec"] if dtype in UNSIGNED else [])


def compiled(table, names):
    """Return one function that applies operation k to row k of an array: one compilation is faster than twelve."""
    lines = [f"        olds[{k}, i] = f_{n}(array, ({k}, i), values[i])" for k, n in enumerate(names)]
    text = "def run(array, values, olds):\n    for i in range(values.size):\n" + "\n".join(lines)
    space = {f"f_{n}": table[n] for n in names}
    exec(text, space)
    return njit(space["run"])


def samples(dtype):
    """Return pairs of an old value and a value."""
    if dtype in (np.float32, np.float64):
        some = [0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, 1e30, float(np.finfo(dtype).tiny)]
    else:
        information = np.iinfo(dtype)
        some = [
            0,
            1,
            2,
            7,
            int(information.max),
            int(information.max) - 1,
            int(information.min),
            int(information.max) // 3,
        ]
    return [(a, b) for a in some for b in some]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_operations_of_a_type(kind, dtype):
    names, pairs = names_of(dtype), samples(dtype)
    before = np.array([[a for a, _ in pairs]] * len(names), dtype)
    values = np.array([b for _, b in pairs], dtype)
    array, olds = before.copy(), np.full_like(before, 99)
    compiled(TABLES[kind], names)(array, values, olds)
    np.testing.assert_array_equal(olds, before)
    with np.errstate(all="ignore"):
        for k, name in enumerate(names):
            answer = np.array(
                [expected(name, a, b, dtype) for a, b in zip(before[k].tolist(), values.tolist(), strict=True)], dtype
            )
            np.testing.assert_array_equal(array[k], answer, err_msg=name)


@pytest.mark.parametrize("kind", TABLES)
def test_compare_and_swap(kind):
    cas, first = TABLES[kind]["cas"], TABLES[kind]["compare_and_swap"]

    @njit
    def run(array, olds):
        olds[0] = cas(array, 2, 30, 5)
        olds[1] = cas(array, 3, 41, 5)
        olds[2] = cas(array, -1, 50, 6)
        olds[3] = first(array, 0, 10, -7)
        olds[4] = first(array, 0, 10, 8)

    for dtype in INTEGERS:
        array, olds = np.array([10, 20, 30, 40, 50], dtype), np.full(5, 99, dtype)
        run(array, olds)
        assert olds.tolist() == [30, 40, 50, 10, wrapped(-7, dtype)]
        assert array.tolist() == [wrapped(-7, dtype), 20, 5, 40, 6]


@pytest.mark.parametrize("kind", TABLES)
def test_indices(kind):
    add = TABLES[kind]["add"]

    @njit
    def run(vector, matrix, cube):
        old = add(vector, -2, 1.5)
        old += add(vector, np.uint8(1), 2)  # the value is cast to the array's type
        old += add(matrix, (1, -1), 3)
        old += add(matrix, (np.int32(0), 1), 3)
        old += add(cube, (1, 1, -2), 2)
        return old

    vector, matrix = np.ones(4, np.float32), np.asfortranarray(np.ones((2, 3), np.int32))
    cube = np.ones((2, 2, 6))[:, :, ::2]  # strided
    assert run(vector, matrix, cube) == 5
    assert vector.tolist() == [1, 3, 2.5, 1]
    assert matrix.tolist() == [[1, 4, 1], [1, 1, 4]]
    assert cube[1, 1, 1] == 3 and cube.sum() == 14


def test_workers_lose_no_update():
    add, inc, largest, swap = (atomics.GLOBAL[n] for n in ("add", "inc", "max", "cas"))

    @njit(nogil=True)
    def work(floats, counts, best, locked, n, seed):
        for i in range(n):
            add(floats, 0, 1.0)
            inc(counts, 0, 4294967295)
            largest(best, 0, float((i * 7919 + seed) % n))
            while True:
                old = locked[0]
                if swap(locked, 0, old, old + 3) == old:
                    break

    floats, counts, best, locked = np.zeros(1), np.zeros(1, np.uint32), np.zeros(1, np.float32), np.zeros(1, np.int64)
    n = 100_000
    work(floats, counts, best, locked, 0, 0)
    threads = [threading.Thread(target=work, args=(floats, counts, best, locked, n, k)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert floats[0] == counts[0] == 4 * n
    assert best[0] == n - 1
    assert locked[0] == 3 * 4 * n


@pytest.mark.parametrize("kind", TABLES)
def test_operands_that_a_gpu_does_not_accept(kind):
    table = TABLES[kind]
    add, inc, cas = table["add"], table["inc"], table["cas"]
    with pytest.raises(TypingError, match="int32, int64"):
        njit(lambda a: add(a, 0, 1))(np.zeros(3, np.int8))
    with pytest.raises(TypingError, match="uint32, uint64"):
        njit(lambda a: inc(a, 0, 1))(np.zeros(3, np.int32))
    with pytest.raises(TypingError, match="cas needs"):
        njit(lambda a: cas(a, 0, 1, 2))(np.zeros(3))
    with pytest.raises(TypingError, match="2 indices"):
        njit(lambda a: add(a, 0, 1))(np.zeros((3, 3)))


def test_an_operation_is_no_call():
    """An operation is an intrinsic: it adds no function of its own to a kernel."""
    add = atomics.GLOBAL["add"]
    run = njit(lambda a: add(a, 0, 1.0))
    run(np.zeros(1))
    (text,) = run.inspect_llvm().values()
    assert "atomicrmw fadd" in text or "cmpxchg" in text  # x86 has no instruction for floats
