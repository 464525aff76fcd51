"""Kernels for the tracer, each with what it does to memory worked out by hand. Plain Numba, as a learner writes it.

A warp's 32 threads read 128 bytes of neighbouring float32: 4 sectors of 32 bytes. Arrays start at multiples of 256.
"""

from __future__ import annotations

import numpy as np
from numba import complex128, cuda, float32, float64, int32, uint8

KERNELS = []


def case(grid, block, *shapes, dtypes="f4", **wanted):
    """A kernel's launch: arrays of those shapes, of zeros and ones in turn; and for each "array access" its counts.

    Counts are (requests, bytes, sectors, conflicts, races).
    """

    def put(function):
        names = dtypes.split() * (len(shapes) if " " not in dtypes else 1)
        KERNELS.append((function.__name__, function, grid, block, shapes, names, wanted))
        return function

    return put


@case(2, 64, 128, 128, x_read=(4, 512, 16, 0, 0), y_write=(4, 512, 16, 0, 0))
@cuda.jit
def neighbours(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@case(1, 32, 64, 32, x_read=(1, 128, 8, 0, 0), y_write=(1, 128, 4, 0, 0))
@cuda.jit
def every_second(x, y):
    """Elements 0 to 62: 256 bytes, of which 4 in 8 are used."""
    i = cuda.grid(1)
    y[i] = x[2 * i]


@case(1, 32, 1024, 32, x_read=(1, 128, 32, 0, 0), y_write=(1, 128, 4, 0, 0))
@cuda.jit
def a_column(x, y):
    """128 bytes apart: a sector for each thread."""
    i = cuda.grid(1)
    y[i] = x[32 * i]


@case(1, 32, 33, 32, x_read=(1, 128, 5, 0, 0), y_write=(1, 128, 4, 0, 0))
@cuda.jit
def misaligned(x, y):
    """Bytes 4 to 131: a fifth sector."""
    i = cuda.grid(1)
    y[i] = x[i + 1]


@case(1, 64, 8, 64, x_read=(2, 256, 2, 0, 0), y_write=(2, 256, 8, 0, 0))
@cuda.jit
def broadcast(x, y):
    """All threads of a warp read the same 4 bytes: one sector."""
    y[cuda.grid(1)] = x[3]


@case(1, 32, 32, 32, dtypes="f8", x_read=(1, 256, 8, 0, 0), y_write=(1, 256, 8, 0, 0))
@cuda.jit
def doubles(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@case(1, 32, 64, 32, dtypes="u1", x_read=(1, 32, 1, 0, 0), y_write=(1, 32, 1, 0, 0))
@cuda.jit
def bytes_(x, y):
    i = cuda.grid(1)
    y[i] = x[i]


@case(1, 32, 32, 32, dtypes="c16", x_read=(2, 512, 32, 0, 0), y_write=(2, 512, 32, 0, 0))
@cuda.jit
def complex_numbers(x, y):
    """Numba moves real and imaginary parts one after the other, each 8 of every 16 bytes: all 16 sectors twice."""
    i = cuda.grid(1)
    y[i] = x[i]


@case(2, 32, 40, 40, x_read=(2, 160, 5, 0, 0), y_write=(2, 160, 5, 0, 0))
@cuda.jit
def guarded(x, y):
    """40 of 64 threads: the second warp's first eight, which is one sector."""
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


@case(1, 32, 32, 32, x_read=(2, 128, 8, 0, 0), y_write=(2, 128, 8, 0, 0))
@cuda.jit
def divergent(x, y):
    """Even threads at one line, odd ones at another: each touches all four sectors."""
    i = cuda.grid(1)
    if i % 2:
        y[i] = x[i]
    else:
        y[i] = -x[i]


@case(1, (8, 8), (8, 8), (8, 8), x_read=(2, 256, 8, 0, 0), y_write=(2, 256, 16, 0, 0))
@cuda.jit
def two_dimensions(x, y):
    """A warp is four rows of threads: it reads 128 bytes in a row, and writes to 4 elements of each of eight rows."""
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    y[j, i] = x[i, j]


@case(1, 32, 96, 32, x_read=(3, 384, 12, 0, 0), y_write=(1, 128, 4, 0, 0))
@cuda.jit
def loop(x, y):
    """Each round of a loop is a request."""
    i = cuda.grid(1)
    total = float32(0)
    for k in range(3):
        total += x[i + 32 * k]
    y[i] = total


@case(1, 32, 32, 1, x_read=(1, 128, 4, 0, 0), y_atomic=(1, 128, 1, 31, 0))
@cuda.jit
def atomics(x, y):
    """32 threads at one address take turns: 31 wait."""
    cuda.atomic.add(y, 0, x[cuda.grid(1)])


@case(1, 32, 32, 1, x_read=(1, 128, 4, 0, 0), y_read=(1, 128, 1, 0, 1), y_write=(1, 128, 1, 0, 1))
@cuda.jit
def lost_updates(x, y):
    """The same without atomics: one element, and 32 threads read and write it."""
    y[0] += x[cuda.grid(1)]


@case(4, 32, 128, 1, x_read=(4, 512, 16, 0, 0), y_write=(4, 512, 4, 0, 1))
@cuda.jit
def blocks_at_one_element(x, y):
    y[0] = x[cuda.grid(1)]


@case(1, 64, 64, 64, s_write=(2, 256, 0, 0, 64), s_read=(2, 256, 0, 0, 64), y_write=(2, 256, 8, 0, 0))
@cuda.jit
def race(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    y[i] = s[63 - i]


@case(1, 64, 64, 64, s_write=(2, 256, 0, 0, 0), s_read=(2, 256, 0, 0, 0), y_write=(2, 256, 8, 0, 0))
@cuda.jit
def repaired(x, y):
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[63 - i]


@case(1, 32, 32, 32, s_write=(1, 128, 0, 1, 0), s_read=(1, 128, 0, 1, 0))
@cuda.jit
def two_ways(x, y):
    """Two apart: threads 0 and 16 want words 0 and 32, which lie in one bank."""
    s = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    s[2 * i] = x[i]
    y[i] = s[2 * i]


@case(1, (32, 32), (32, 32), (32, 32), s_write=(32, 4096, 0, 0, 0), s_read=(32, 4096, 0, 992, 0),
      x_read=(32, 4096, 128, 0, 0), y_write=(32, 4096, 128, 0, 0))  # fmt: skip
@cuda.jit
def transpose(x, y):
    """A column of the tile lies in one bank: 32 passes instead of one, for each of 32 warps."""
    s = cuda.shared.array((32, 32), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = x[i, j]
    cuda.syncthreads()
    y[i, j] = s[j, i]


@case(1, (32, 32), (32, 32), (32, 32), s_write=(32, 4096, 0, 0, 0), s_read=(32, 4096, 0, 0, 0),
      x_read=(32, 4096, 128, 0, 0), y_write=(32, 4096, 128, 0, 0))  # fmt: skip
@cuda.jit
def transpose_padded(x, y):
    """A row of 33: the words of a column lie in 32 banks."""
    s = cuda.shared.array((32, 33), float32)
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    s[i, j] = x[i, j]
    cuda.syncthreads()
    y[i, j] = s[j, i]


@case(1, 32, 32, 32, dtypes="f8", s_write=(1, 256, 0, 0, 0), s_read=(1, 256, 0, 2, 0))
@cuda.jit
def doubles_in_banks(x, y):
    """Half a warp at once: neighbouring doubles fill the banks; two apart, two share a bank in each half."""
    s = cuda.shared.array(64, float64)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[2 * i] if i < 32 else 0


@case(1, 32, 32, 32, dtypes="c16", s_write=(2, 512, 0, 4, 0), s_read=(2, 512, 0, 4, 0))
@cuda.jit
def complex_numbers_in_banks(x, y):
    """8 of every 16 bytes: of half a warp, two threads share a bank; so one pass too many for each half and part."""
    s = cuda.shared.array(32, complex128)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[31 - i]


@case(1, 32, 128, 32, dtypes="u1", s_write=(4, 128, 0, 0, 0), s_read=(1, 32, 0, 0, 0))
@cuda.jit
def bytes_in_banks(x, y):
    """Four threads share a word, and are served together."""
    s = cuda.shared.array(128, uint8)
    i = cuda.threadIdx.x
    for k in range(4):
        s[i + 32 * k] = x[i + 32 * k]
    cuda.syncthreads()
    y[i] = s[i]


@case(1, 32, 32, 32, s_write=(1, 128, 0, 0, 0), s_read=(1, 128, 0, 0, 0))
@cuda.jit
def broadcast_in_shared(x, y):
    """One word for all: no conflict."""
    s = cuda.shared.array(32, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    y[i] = s[7]


@case(1, 64, 64, 4, dtypes="i4 i4", x_read=(2, 256, 8, 0, 0), s_write=(1, 16, 0, 0, 0), s_atomic=(2, 256, 0, 14, 0),
      s_read=(1, 16, 0, 0, 0), y_atomic=(1, 16, 1, 0, 0))  # fmt: skip
@cuda.jit
def histogram(x, y):
    """Four bins: eight threads of a warp at each, so seven wait, in both warps."""
    s = cuda.shared.array(4, int32)
    i = cuda.threadIdx.x
    if i < 4:
        s[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, i % 4, x[i])
    cuda.syncthreads()
    if i < 4:
        cuda.atomic.add(y, i, s[i])


@cuda.jit(device=True)
def twice(values, k):
    return values[k] + values[k]


@case(1, 32, 32, 32, x_read=(4, 512, 16, 0, 0), y_write=(1, 128, 4, 0, 0))
@cuda.jit
def device_function(x, y):
    """Reached by two calls, the same line is two instructions."""
    i = cuda.grid(1)
    y[i] = twice(x, i) + twice(x, 31 - i)


@case(1, 32, (32, 4), (32, 4), x_read=(4, 512, 64, 0, 0), y_write=(4, 512, 64, 0, 0))
@cuda.jit
def rows_of_threads(x, y):
    """A row of 16 bytes a thread, element by element: all 512 bytes, 16 sectors, four times."""
    row, target = x[cuda.grid(1)], y[cuda.grid(1)]
    for k in range(4):
        target[k] = row[k]


def filled(shape, dtype):
    """Ones: no kernel's indices depend on values."""
    return np.ones(shape, dtype)
