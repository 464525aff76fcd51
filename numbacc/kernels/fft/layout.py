"""The kernels that convert arrays to and from the layout that a Fourier transform is computed in.

In one pass they convert real numbers to complex ones (or drop imaginary parts), convert integers and 16-bit floats to
the dtype of the transform, truncate or pad with zeros, conjugate, scale, and change strides. Each target element is
the source's element with the same coordinates, or 0 where the source is shorter.

`straight` is for arrays with the same memory order, `tiled` for arrays that are transposed relative to each other.
`hermitian` makes a half spectrum Hermitian in place, as that of a real signal is. As in `map`, a kernel only indexes,
loads, calls and stores; the functions that it calls are put together here from the spec. The numbers of a complex
array are its real and imaginary parts alternately. If `whole` is 0, arrays need not be aligned: these parts are then
processed one by one.

Blocks run backwards, with the first block at an array's end: the data that cuFFT wrote last is then still in the L2
cache, and the data that cuFFT will read first is written last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE
from ...runtime.launch_order import MAX_THREADS
from ..primitives.operands import accessors
from ..specs import TILE, Kernel
from .spec import RepackSpec

Function = Callable[..., Any]


def _reciprocal(real: Any) -> Function:
    """Return the function count -> 1/count."""
    one = real(1)
    return lambda count: one / real(count)


def _reciprocal_root(real: Any) -> Function:
    """Return the function count -> 1/√count."""
    one = real(1)
    return lambda count: one / math.sqrt(real(count))


def _one(real: Any) -> Function:
    """Return the function count -> 1."""
    one = real(1)
    return lambda count: one


#: The factor of values, given the number of points of the transform.
SCALES = {"": _one, "reciprocal": _reciprocal, "reciprocal root": _reciprocal_root}


def _everywhere(coordinates, inside):
    return True


def _within(dimension: int) -> Function:
    """Return a function that checks whether coordinates are inside the source, up to this dimension."""
    device = cuda.jit(device=True)
    before = _within(dimension - 1) if dimension else device(_everywhere)

    def within(coordinates, inside):
        return before(coordinates, inside) and coordinates[dimension] < inside[dimension]

    on_device: Function = device(within)
    return on_device


def _joined(functions: Sequence[Function]) -> Function:
    """Return a function that concatenates the tuples that several functions of the same three arguments return."""
    if len(functions) == 1:
        return functions[0]
    half = len(functions) // 2
    first, second = _joined(functions[:half]), _joined(functions[half:])

    def both(x, y, z):
        return first(x, y, z) + second(x, y, z)

    both_on_device: Function = cuda.jit(device=True)(both)
    return both_on_device


def _in_turn(functions: Sequence[Function]) -> Function:
    """Return a function that calls several functions with the same three arguments."""
    if len(functions) == 1:
        return functions[0]
    half = len(functions) // 2
    first, second = _in_turn(functions[:half]), _in_turn(functions[half:])

    def both(x, y, z):
        first(x, y, z)
        second(x, y, z)

    both_on_device: Function = cuda.jit(device=True)(both)
    return both_on_device


def _always(function: Function) -> Function:
    """Return a function of three arguments that ignores a fourth."""

    def call(x, y, z, flag):
        return function(x, y, z)

    on_device: Function = cuda.jit(device=True)(call)
    return on_device


def _either(first: Function, second: Function) -> Function:
    """Return a function of three arguments that calls the first if a fourth is not 0, else the second."""

    def call(x, y, z, flag):
        return first(x, y, z) if flag else second(x, y, z)

    on_device: Function = cuda.jit(device=True)(call)
    return on_device


def _converter(spec: RepackSpec, real: Any, lane: int) -> Function:
    """Return (source's numbers, factors of real and of imaginary parts) -> the numbers of one target element."""
    zero, at = real(0), lane * spec.source_parts
    behind = at + 1

    def real_part(numbers, factor, turned):
        return (real(numbers[at]) * factor,)

    def real_to_complex(numbers, factor, turned):
        return real(numbers[at]) * factor, zero * turned

    def both_parts(numbers, factor, turned):
        return real(numbers[at]) * factor, real(numbers[behind]) * turned

    if spec.target_parts == 1:
        chosen: Function = real_part
    else:
        chosen = both_parts if spec.source_parts == 2 else real_to_complex
    on_device: Function = cuda.jit(device=True)(chosen)
    return on_device


def _kept(numbers, coordinates, inside):
    return numbers


def _dropper(spec: RepackSpec, real: Any) -> Function:
    """Return a function that drops imaginary parts of elements at the ends of the halved dimension."""
    zero, (dimension, ends) = real(0), spec.ends

    def drop_first(numbers, coordinates, inside):
        return numbers[0], zero if coordinates[dimension] == 0 else numbers[1]

    def drop_both(numbers, coordinates, inside):
        at = coordinates[dimension]
        return numbers[0], zero if at == 0 or at == inside[dimension] - 1 else numbers[1]

    return drop_both if ends == 2 else drop_first


class _Parts:
    """The device functions that all kernels here use.

    Attributes:
        read: (addresses, coordinates, (strides, lengths of the source, factors)) -> numbers of `lanes` target elements.
        write: (addresses, offsets, numbers) stores this many elements.
        read_any, write_any: the same, with a flag for aligned accesses; if it is 0, they access numbers one by one.
        factors: count -> the factors of real and imaginary parts.
        unravel, offsets: as in `operands.accessors`.
    """

    def __init__(self, spec: RepackSpec):
        device = cuda.jit(device=True)
        self.real = real = getattr(np, str(TABLE[spec.target].compute))
        source, target = TABLE[spec.source], TABLE[spec.target]
        ins_io = accessors(source, spec.lanes * spec.source_parts, spec.source_bytes)
        outs_io = accessors(target, spec.lanes * spec.target_parts, spec.target_bytes)
        self.unravel, self.offsets = outs_io.unravel, outs_io.offsets
        scale, sign = device(SCALES[spec.scale](real)), real(-1 if spec.conjugate else 1)
        convert = _joined([_converter(spec, real, lane) for lane in range(spec.lanes)])
        is_inside = _within(spec.rank - 1) if spec.padded else device(_everywhere)
        drop_imaginary = device(_dropper(spec, real)) if spec.ends else device(_kept)
        self.zeros = zeros = (real(0),) * (spec.lanes * spec.target_parts)

        def reader(io: Any) -> Function:
            load, offsets, width = io.load_lanes, io.offsets, io.width

            def read(ins, coordinates, more):
                in_steps, inside, factors = more
                numbers = zeros
                if is_inside(coordinates, inside):
                    (found,) = load(ins, offsets(coordinates, in_steps), width)
                    numbers = drop_imaginary(convert(found, factors[0], factors[1]), coordinates, inside)
                return numbers

            on_device: Function = device(read)
            return on_device

        def writer(io: Any) -> Function:
            store, width = io.store_lanes, io.width

            def write(outs, at, numbers):
                store(outs, at, width, (numbers,))

            on_device: Function = device(write)
            return on_device

        def factors_of(count):
            factor = scale(count)
            return factor, sign * factor

        self.read, self.write, self.factors = reader(ins_io), writer(outs_io), device(factors_of)
        read_one = reader(accessors(source, spec.lanes * spec.source_parts, source.itemsize))
        write_one = writer(accessors(target, spec.lanes * spec.target_parts, target.itemsize))
        self.read_any = _either(self.read, read_one) if spec.needs_alignment else _always(read_one)
        self.write_any = _either(self.write, write_one) if spec.needs_alignment else _always(write_one)


def straight(spec: RepackSpec) -> Kernel:
    """Return the kernel in memory order: a thread handles `pieces` groups of `lanes` adjacent elements.

    The groups are a block's width apart. All loads are in flight before the first is used, which keeps memory busy. The
    last dimension of `shape` and `inside`, and the strides along it, count groups.
    """
    parts, device, pieces = _Parts(spec), cuda.jit(device=True), spec.pieces
    read, write, unravel, offsets, factors_of = parts.read, parts.write, parts.unravel, parts.offsets, parts.factors
    read_any, write_any = parts.read_any, parts.write_any
    each = spec.lanes * spec.target_parts

    def small_kernel(ins, outs, in_steps, out_steps, shape, inside, size, count, whole):
        index = (cuda.gridDim.x - 1 - cuda.blockIdx.x) * cuda.blockDim.x + cuda.threadIdx.x
        if index < size:
            coordinates = unravel(index, shape)
            numbers = read_any(ins, coordinates, (in_steps, inside, factors_of(count)), whole)
            write_any(outs, offsets(coordinates, out_steps), numbers, whole)

    if pieces == 1:
        return small_kernel

    def reader(piece: int) -> Function:
        def read_piece(ins, index, more):
            shape, rest = more
            return read(ins, unravel(index + piece * cuda.blockDim.x, shape), rest)

        on_device: Function = device(read_piece)
        return on_device

    def writer(piece: int) -> Function:
        low, high = piece * each, (piece + 1) * each

        def write_piece(outs, index, more):
            shape, out_steps, numbers = more
            coordinates = unravel(index + piece * cuda.blockDim.x, shape)
            write(outs, offsets(coordinates, out_steps), numbers[low:high])

        on_device: Function = device(write_piece)
        return on_device

    read_all = _joined([reader(piece) for piece in range(pieces)])
    write_all = _in_turn([writer(piece) for piece in range(pieces)])

    def kernel(ins, outs, in_steps, out_steps, shape, inside, size, count, whole):
        threads = cuda.blockDim.x
        start = (cuda.gridDim.x - 1 - cuda.blockIdx.x) * threads * pieces + cuda.threadIdx.x
        rest = (in_steps, inside, factors_of(count))
        if whole and start + (pieces - 1) * threads < size:
            numbers = read_all(ins, start, (shape, rest))
            write_all(outs, start, (shape, out_steps, numbers))
        else:
            index = start
            while index < size:
                coordinates = unravel(index, shape)
                write_any(outs, offsets(coordinates, out_steps), read_any(ins, coordinates, rest, whole), whole)
                index += threads

    return kernel


def tiled(spec: RepackSpec) -> Kernel:
    """Return the kernel that transposes square tiles in shared memory, from consecutive rows to consecutive columns.

    The last two dimensions count tiles. Numbers are converted when they are loaded.
    """
    parts = _Parts(spec)
    read, write, unravel, offsets, factors_of = parts.read, parts.write, parts.unravel, parts.offsets, parts.factors
    read_any, write_any = parts.read_any, parts.write_any
    real, many = parts.real, spec.target_parts
    # The padding avoids bank conflicts: threads that read a column of the tile access different banks.
    pitch, step = TILE + 1, MAX_THREADS // TILE

    def put(tile, coordinates, numbers):
        for part in range(many):
            tile[part, coordinates[0], coordinates[1]] = numbers[part]

    def get_real(tile, row, column):
        return (tile[0, row, column],)

    def get_complex(tile, row, column):
        return tile[0, row, column], tile[1, row, column]

    device = cuda.jit(device=True)
    put, get = device(put), device(get_complex if many == 2 else get_real)

    def kernel(ins, outs, in_steps, out_steps, shape, inside, size, count, whole):
        tile = cuda.shared.array((many, TILE, pitch), real)
        rest = (in_steps, inside, factors_of(count))
        rows, columns = shape[-2], shape[-1]
        across, down = (columns + TILE - 1) // TILE, (rows + TILE - 1) // TILE
        block = cuda.gridDim.x - 1 - cuda.blockIdx.x
        first = unravel(block // (across * down), shape[:-2])
        left, top = block % across * TILE, block // across % down * TILE
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        if whole and top + TILE <= rows and left + TILE <= columns:
            for k in range(0, TILE, step):
                put(tile, (y + k, x), read(ins, first + (top + x, left + y + k), rest))
            cuda.syncthreads()
            for k in range(0, TILE, step):
                coordinates = first + (top + y + k, left + x)
                write(outs, offsets(coordinates, out_steps), get(tile, x, y + k))
        else:
            for k in range(0, TILE, step):
                if top + x < rows and left + y + k < columns:
                    put(tile, (y + k, x), read_any(ins, first + (top + x, left + y + k), rest, whole))
            cuda.syncthreads()
            for k in range(0, TILE, step):
                if top + y + k < rows and left + x < columns:
                    coordinates = first + (top + y + k, left + x)
                    write_any(outs, offsets(coordinates, out_steps), get(tile, x, y + k), whole)

    return kernel


def _opposite(dimension: int) -> Function:
    """Return a function that computes the coordinates of the opposite frequencies, up to this dimension.

    For length n, the opposite of k is n - k, and of 0 it is 0. Dimensions whose length is given as 0 are unchanged.
    """
    device = cuda.jit(device=True)

    def first(coordinates, lengths):
        at, n = coordinates[dimension], lengths[dimension]
        return (n - at if n > 0 and at > 0 else at,)

    here: Function = device(first)
    if not dimension:
        return here
    before = _opposite(dimension - 1)

    def opposite(coordinates, lengths):
        return before(coordinates, lengths) + here(coordinates, lengths)

    on_device: Function = device(opposite)
    return on_device


def hermitian(spec: RepackSpec) -> Kernel:
    """Return the kernel that computes X[k] = (X[k] + conj X[-k]) / 2 in place, for k inside `shape`.

    Each thread handles two elements, at k and at -k. `inside` holds the dimensions' lengths, or 0 where k is kept.
    """
    parts = _Parts(spec)
    real, load_factors, read_any, write_any = parts.real, parts.factors, parts.read_any, parts.write_any
    unravel, offsets = parts.unravel, parts.offsets
    half, zero, opposite = real(0.5), real(0), _opposite(spec.rank - 1)

    def kernel(ins, outs, in_steps, out_steps, shape, inside, size, count, whole):
        index = cuda.grid(1)
        if index < size:
            coordinates = unravel(index, shape)
            other = opposite(coordinates, inside)
            here, there = offsets(coordinates, out_steps), offsets(other, out_steps)
            if here[0] <= there[0]:
                rest = (in_steps, inside, load_factors(count))
                one, two = read_any(ins, coordinates, rest, whole), read_any(ins, other, rest, whole)
                re = half * one[0] + half * two[0]
                im = half * one[1] - half * two[1] if here[0] < there[0] else zero
                write_any(outs, here, (re, im), whole)
                write_any(outs, there, (re, -im), whole)

    return kernel


_MAKERS = {f.__name__: f for f in (straight, tiled, hermitian)}


def make(spec: RepackSpec) -> Kernel:
    """Return the kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    return _MAKERS[spec.algorithm](spec)


def parameters(spec: RepackSpec) -> list[tuple[str, Any]]:
    """Return the parameters of `make(spec)`, as in `kernel_code.parameters`; strides count real numbers."""
    integer = "int64" if spec.wide else "int32"
    return [
        ("uint64", 1),
        ("uint64", 1),
        (integer, (1, spec.rank)),
        (integer, (1, spec.rank)),
        (integer, spec.rank),
        (integer, spec.rank),
        *[(integer, None)] * 3,
    ]
