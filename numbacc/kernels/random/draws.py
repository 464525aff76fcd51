"""Kernels that convert random words to random numbers. Words come from `philox`, or from memory that cuRAND has filled.

`words` come in groups of four 32-bit words, the smallest unit of Philox's sequence, 16 bytes in memory. A draw makes
one, two or four values of a group. A kernel generates a group's words, draws and stores, all in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...base._numba import cuda
from ...base.dtypes import TABLE, DTypeInfo
from ...runtime.launch_order import WORDS
from ..primitives.instructions import hardware
from ..primitives.operands import accessors
from ..specs import Kernel
from . import philox
from .box_muller import box_muller, box_muller_double
from .philox import high, join, low
from .position import reader
from .spec import DRAW_WORDS, HALVES, DrawSpec

# Numba finds functions by name in a module, not in a namespace.
fma, fma_double, exp = hardware.fma, hardware.fma_double, hardware.exp
product, product_low, product_high = hardware.product, hardware.product_low, hardware.product_high
sum_low = hardware.sum_low
float_of_bits, double_of_bits = hardware.float_of_bits, hardware.double_of_bits

_32 = np.uint64(32)


@cuda.jit(device=True)
def scale(x, most):
    """Return x (most + 1) as its low and high 64 bits; the high ones are a number below most + 1 <= 2^64."""
    lower, upper = product_low(x, most), product_high(x, most)
    total = sum_low(lower, x)
    return total, upper + np.uint64(total < x)


# ---------------------------------------------------------------- one value from its words: u, v integers, a, b reals


def _unit(dtype: DTypeInfo, bits: int, words: int, real: Any) -> Any:
    """Return the top `bits` bits as a number in [0, 1), from a 32-bit word unless more bits exist and are needed."""
    if dtype.compute == "float64" and words > 1:
        shift, factor = np.uint64(64 - bits), real(2.0**-bits)

        def wide(x: Any) -> Any:
            return real(x >> shift) * factor

        return cuda.jit(device=True)(wide)
    bits = min(bits, 32)
    short, small, upper = np.uint32(32 - bits), real(2.0**-bits), _upper(words)

    def narrow(x: Any) -> Any:
        return real(np.uint32(upper(x) >> short)) * small

    return cuda.jit(device=True)(narrow)


def _upper(words: int) -> Any:
    """Return the function that selects the 32 highest bits of a value's words."""
    return high if words > 1 else _same


@cuda.jit(device=True)
def _same(x):
    return x


def _random(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    unit = _unit(dtype, dtype.significand_bits, words, real)

    def random(x, u, v, a, b):
        return unit(x)

    return random


def _uniform(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    unit = _unit(dtype, TABLE[str(dtype.compute)].significand_bits, words, real)
    multiply_add = hardware.multiply_add_double if dtype.compute == "float64" else hardware.multiply_add

    def uniform(x, u, v, a, b):
        return multiply_add(unit(x), b, a)

    return uniform


def _bits(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    part = _upper(words) if dtype.itemsize == 4 else _same

    def bits(x, u, v, a, b):
        return part(x)

    return bits


def _mask(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    upper = _upper(words)

    def mask(x, u, v, a, b):
        return a if np.uint64(upper(x)) >= u else real(0.0)

    def flags(x, u, v, a, b):
        return np.uint8(np.uint64(upper(x)) >= u)

    return flags if dtype.name == "uint8" else mask


def _integers(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    if words == 1:

        def short(x, u, v, a, b):
            return real(sum_low((np.uint64(x) * u + np.uint64(x)) >> _32, v))

        return short

    def integers(x, u, v, a, b):
        return real(sum_low(scale(x, u)[1], v))

    def long(x, u, v, a, b):
        carried = scale(x[0], u)[1]
        lower, upper = scale(x[1], u)
        return real(sum_low(upper + np.uint64(sum_low(lower, carried) < carried), v))

    return integers if words == 2 else long


def _few_integers(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    """Return 64-bit `_integers` for u < 2^32: x (u + 1) from two products of 32-bit halves; no sum overflows."""

    def few(x, u, v, a, b):
        most = low(u)
        lower = product(low(x), most) + np.uint64(low(x))
        upper = product(high(x), most) + np.uint64(high(x)) + (lower >> _32)
        return real(sum_low(upper >> _32, v))

    return few


def _stored(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
    """Return a function that reinterprets words as a float32, a float64 or an integer."""
    convert = {"float32": float_of_bits, "float64": double_of_bits}.get(str(dtype.compute), _same)

    def stored(x, u, v, a, b):
        return real(convert(x))

    return stored


# ---------------------------------------------------------------- groups


def _normal(after: Callable[..., Any]) -> Callable[..., Any]:
    def make(dtype: DTypeInfo, words: int, real: Any) -> Callable[..., Any]:
        finish = cuda.jit(device=True)(after)

        def normal(w, u, v, a, b):
            p, q = box_muller(w[0], w[1])
            r, s = box_muller(w[2], w[3])
            return finish(fma(b, p, a)), finish(fma(b, q, a)), finish(fma(b, r, a)), finish(fma(b, s, a))

        def double(w, u, v, a, b):
            p, q = box_muller_double(w[0], w[1], w[2], w[3])
            return finish(fma_double(b, p, a)), finish(fma_double(b, q, a))

        return normal if words == 1 else double

    return make


def _each(formula: Any) -> Callable[..., Any]:
    def four(w, u, v, a, b):
        return (
            formula(w[0], u, v, a, b),
            formula(w[1], u, v, a, b),
            formula(w[2], u, v, a, b),
            formula(w[3], u, v, a, b),
        )

    return four


def _pairs(formula: Any) -> Callable[..., Any]:
    def two(w, u, v, a, b):
        return formula(join(w[0], w[1]), u, v, a, b), formula(join(w[2], w[3]), u, v, a, b)

    return two


def _all(formula: Any) -> Callable[..., Any]:
    def one(w, u, v, a, b):
        return (formula((join(w[0], w[1]), join(w[2], w[3])), u, v, a, b),)

    return one


#: Words per value -> the function that applies a one-value formula to a group.
_GROUPS = {1: _each, 2: _pairs, 4: _all}

#: Name -> (dtype, words per value, type of the result) -> the function of a value's words.
FORMULAS = {
    "random": _random,
    "uniform": _uniform,
    "bits": _bits,
    "mask": _mask,
    "integers": _integers,
    "few_integers": _few_integers,
    "stored": _stored,
}
#: Name -> (dtype, words per value, type of the result) -> the function of a group's words.
GROUP_FORMULAS = {"normal": _normal(lambda x: x), "lognormal": _normal(lambda x: exp(x))}


def _draw(spec: DrawSpec, dtype: DTypeInfo, real: Any) -> Any:
    """Return the device function (group's words, u, v, a, b) -> tuple of values."""
    if spec.formula in GROUP_FORMULAS:
        return cuda.jit(device=True)(GROUP_FORMULAS[spec.formula](dtype, spec.words, real))
    formula = cuda.jit(device=True)(FORMULAS[spec.formula](dtype, spec.words, real))
    return cuda.jit(device=True)(_GROUPS[spec.words](formula))


# ---------------------------------------------------------------- kernels


def _source(spec: DrawSpec) -> Any:
    """Return the device function (identifier of the source, number of a group) -> the group's four words."""
    if spec.source != "memory":
        return {"philox": philox.words, "philox in turns": philox.words_in_turns}[spec.source]
    load = accessors(TABLE["uint32"], 4, 16).load_lanes

    def loaded(address, group):
        return load((address,), (group << np.uint64(2),), 0)[0]

    return cuda.jit(device=True)(loaded)


def _real_of(dtype: DTypeInfo) -> Any:
    """Return the device function that combines two halves to a formula's parameter, in the dtype of its arithmetic."""

    def single(lower, upper):
        return float_of_bits(np.uint32(lower))

    def double(lower, upper):
        return double_of_bits(join(np.uint32(lower), np.uint32(upper)))

    return cuda.jit(device=True)(double if dtype.compute == "float64" else single)


def _put(spec: DrawSpec, io: SimpleNamespace) -> Any:
    """Return the device function that stores one value at position `index` in C order."""
    store, offsets, unravel = io.store, io.offsets, io.unravel
    if spec.dense:

        def put(out, index, value, steps, shape):
            store((out,), (index,), (value,))

    else:

        def put(out, index, value, steps, shape):
            store((out,), offsets(unravel(index, shape), (steps,)), (value,))

    return cuda.jit(device=True)(put)


def _put_some(spec: DrawSpec, put: Any) -> Any:
    """Return the device function that stores those values of a group whose positions are in [0, count)."""

    def one(out, index, count, values, steps, shape):
        if 0 <= index < count:
            put(out, index, values[0], steps, shape)

    def two(out, index, count, values, steps, shape):
        if 0 <= index < count:
            put(out, index, values[0], steps, shape)
        if 0 <= index + 1 < count:
            put(out, index + 1, values[1], steps, shape)

    def four(out, index, count, values, steps, shape):
        two_jit(out, index, count, (values[0], values[1]), steps, shape)
        two_jit(out, index + 2, count, (values[2], values[3]), steps, shape)

    two_jit = cuda.jit(device=True)(two)
    return {1: cuda.jit(device=True)(one), 2: two_jit, 4: cuda.jit(device=True)(four)}[4 // spec.words]


def _is_aligned(spec: DrawSpec) -> Any:
    """Return the device function that checks whether the first value's position allows full accesses."""
    inside = spec.access_bytes // TABLE[spec.dtype].itemsize - 1

    def always(index):
        return True

    def looked_at(index):
        return index & inside == 0

    return cuda.jit(device=True)(looked_at if spec.positioned else always)


def make(spec: DrawSpec) -> Kernel:
    """Return the kernel that `spec` describes: a thread makes `spec.groups` groups of values, a block's width apart.

    A single bounds check serves a whole block. A thread makes its groups two at a time, in explicit code: two
    independent instruction chains are in flight and share constants. Left alone, the compiler would generate long
    formulas one after the other, which takes a fifth longer.

    The kernel's arguments are: no inputs; (address of the result); the number of groups, the position in C order of the
    first group's first value, which may be negative, and the bound of positions; the integers and reals of the formula
    in halves, the lower first; the result's strides in elements, and its shape; 0 if values are stored one by one,
    because the result need not be aligned; and words that change from call to call. These words are the identifier of
    the source (the seed or the memory's address) and the first group; or the address of a position on the GPU, which
    holds both.
    """
    dtype = TABLE[spec.dtype]
    real = np.dtype(dtype.compute).type
    each, pairs = 4 // spec.words, spec.groups // 2
    io = accessors(dtype, each, spec.access_bytes)
    store_lanes, source, draw, number = io.store_lanes, _source(spec), _draw(spec, dtype, real), _real_of(dtype)
    put_some, position, is_aligned = _put_some(spec, _put(spec, io)), reader(spec), _is_aligned(spec)
    step = io.width

    @cuda.jit(device=True)
    def opened(halves):
        u, v = join(halves[0], halves[1]), join(halves[2], halves[3])
        return u, v, number(halves[4], halves[5]), number(halves[6], halves[7])

    @cuda.jit(device=True)
    def make_some(item, out, name, first, groups, index, count, u, v, a, b, steps, shape):
        for _ in range(2 * pairs):
            if item < groups:
                values = draw(source(name, first + np.uint64(item)), u, v, a, b)
                put_some(out, index + item * each, count, values, steps, shape)
            item += cuda.blockDim.x

    def dense(ins, outs, groups, index, count, halves, steps, shape, whole, words):
        name, first, index = position(words, index)
        u, v, a, b = opened(halves)
        out = outs[0]
        width = np.int64(cuda.blockDim.x)
        work = width * 2 * pairs
        block = cuda.blockIdx.x * work
        item = block + cuda.threadIdx.x
        inside = index + block * each >= 0 and index + (block + work) * each <= count and block + work <= groups
        if whole and inside and is_aligned(index):
            for _ in range(pairs):
                values = draw(source(name, first + np.uint64(item)), u, v, a, b)
                others = draw(source(name, first + np.uint64(item + width)), u, v, a, b)
                store_lanes((out,), (index + item * each,), step, (values,))
                store_lanes((out,), (index + (item + width) * each,), step, (others,))
                item += 2 * width
        else:
            make_some(item, out, name, first, groups, index, count, u, v, a, b, steps, shape)

    def strided(ins, outs, groups, index, count, halves, steps, shape, whole, words):
        name, first, index = position(words, index)
        u, v, a, b = opened(halves)
        item = np.int64(cuda.blockIdx.x) * cuda.blockDim.x * 2 * pairs + cuda.threadIdx.x
        make_some(item, outs[0], name, first, groups, index, count, u, v, a, b, steps, shape)

    return dense if spec.dense else strided


def parameters(spec: DrawSpec) -> list[tuple[str, Any]]:
    """Return the parameters of `make(spec)`, in the form of `kernel_code.parameters`."""
    return [
        ("uint64", 0),
        ("uint64", 1),
        *[("int64", None)] * 3,
        ("int64", HALVES),
        *[("int64", spec.rank)] * 2,
        ("int64", None),
        (WORDS, DRAW_WORDS),
    ]
