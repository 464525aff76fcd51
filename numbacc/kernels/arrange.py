"""The kernel that brings arrays into and out of the form in which a Fourier transform is computed.

In one pass it converts real numbers to complex ones (or drops imaginary parts), integers and 16-bit floats to the
dtype of the transform, cuts off or pads with zeros, conjugates, scales, and changes strides: each target element is
the source's at the same place, or 0 where the source is shorter.

As in `maps`, a kernel only indexes, loads, calls and stores; what it calls is put together here from the spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base._numba import cuda
from ..base.dtypes import TABLE
from .intrinsics import accessors
from .specs import ArrangeSpec, Kernel

Function = Callable[..., Any]


def _reader(spec: ArrangeSpec, real: Any) -> Function:
    """(addresses, offsets) -> the real and imaginary part there."""
    io = accessors(TABLE[spec.source], spec.source_parts, spec.source_bytes)
    load, load_lanes, zero = io.load, io.load_lanes, real(0)

    def read_real(ins, at):
        (value,) = load(ins, at)
        return real(value), zero

    def read_complex(ins, at):
        (parts,) = load_lanes(ins, at, 1)
        return real(parts[0]), real(parts[1])

    return read_complex if spec.source_parts == 2 else read_real


def _writer(spec: ArrangeSpec) -> Function:
    """(addresses, offsets, real part, imaginary part): stores them, or the real part alone."""
    io = accessors(TABLE[spec.target], spec.target_parts, spec.target_bytes)
    store, store_lanes = io.store, io.store_lanes

    def write_real(outs, at, re, im):
        store(outs, at, (re,))

    def write_complex(outs, at, re, im):
        store_lanes(outs, at, 1, ((re, im),))

    return write_complex if spec.target_parts == 2 else write_real


def _reciprocal(real: Any) -> Function:
    """count -> 1/count."""
    one = real(1)
    return lambda count: one / real(count)


def _reciprocal_root(real: Any) -> Function:
    """count -> 1/√count."""
    one = real(1)
    return lambda count: one / math.sqrt(real(count))


def _one(real: Any) -> Function:
    """count -> 1."""
    one = real(1)
    return lambda count: one


#: What values are multiplied with, given the number of points of the transform.
SCALES = {"": _one, "reciprocal": _reciprocal, "reciprocal root": _reciprocal_root}


def _everywhere(place, inside):
    return True


def _within(place, inside):
    """Whether the source reaches to a place."""
    outside = 0
    for d in range(len(inside)):
        outside += place[d] >= inside[d]
    return outside == 0


def make(spec: ArrangeSpec) -> Kernel:
    """The kernel that `spec` describes, as a Python function ready to be compiled or simulated."""
    real = getattr(np, str(TABLE[spec.target].compute))
    device = cuda.jit(device=True)
    read, write = device(_reader(spec, real)), device(_writer(spec))
    scale = device(SCALES[spec.scale](real))
    is_inside = device(_within if spec.padded else _everywhere)
    zero, sign = real(0), real(-1 if spec.conjugate else 1)
    io = accessors(TABLE[spec.target], spec.target_parts, spec.target_bytes)
    unravel, offsets = io.unravel, io.offsets

    def kernel(ins, outs, in_steps, out_steps, shape, inside, size, count):
        index = cuda.grid(1)
        if index < size:
            place = unravel(index, shape)
            re, im = zero, zero
            if is_inside(place, inside):
                re, im = read(ins, offsets(place, in_steps))
            factor = scale(count)
            write(outs, offsets(place, out_steps), re * factor, im * (sign * factor))

    return kernel


def parameters(spec: ArrangeSpec) -> list[tuple[str, Any]]:
    """The parameters of `make(spec)`, see `registry.parameters`: steps count numbers, not complex ones."""
    integer = "int64" if spec.wide else "int32"
    return [
        ("uint64", 1),
        ("uint64", 1),
        (integer, (1, spec.rank)),
        (integer, (1, spec.rank)),
        (integer, spec.rank),
        (integer, spec.rank),
        (integer, None),
        (integer, None),
    ]
