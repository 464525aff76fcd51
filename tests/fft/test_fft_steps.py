"""Which way a Fourier transform takes: its steps, and the memory order of its result. No GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest

from numbacc.base.layout import layout, row_major_strides
from numbacc.fft import arguments
from numbacc.fft.program import build
from numbacc.fft.steps import Repack
from numbacc.libraries import advanced_layout, cufft

F, C, D = np.dtype(np.float32), np.dtype(np.complex64), np.dtype(np.complex128)


def kinds(function, shape, strides, axes, dtype=C, n=None, **options):
    """The steps of a transform of an array of these strides (in elements), into a fresh result."""
    a = layout(shape, tuple(dtype.itemsize * s for s in strides), dtype, 0)
    found, lengths = arguments.axes_and_lengths(function, a, n, axes)
    options = {"norm": None, "overwrite": False, "out": None, **options}
    steps = build(arguments.request(function, a, found, lengths, **options), True).steps
    return [
        ("repack" if s.mirrored is None else "hermitian")
        if isinstance(s, Repack)
        else (s.walk.layout.type.name, s.walk.layout.rank, len(s.walk.starts))
        for s in steps
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("fft", (64,), (1,), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (4096, 1), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (1, 4096), -1), [("C2C", 1, 1)]),
        (("fft", (4096, 4096), (4096, 1), 0), [("C2C", 1, 1)]),
        (("fft", (100, 64), (200, 2), -1), [("C2C", 1, 1)]),
        (("fft", (7, 5, 64), (5 * 64, 64, 1), -1), [("C2C", 1, 1)]),
        (("fft", (70000, 8), (8, 1), -1), [("C2C", 1, 1)]),
        (("fft", (8192, 2048), (2048, 1), 0), ["repack", ("C2C", 1, 1)]),
        (("fft", (1000, 10000), (10000, 1), 0), [("C2C", 1, 1)]),
        (("fft", (3000, 5000), (5000, 1), 0), ["repack", ("C2C", 1, 1)]),
        (("fft", (64, 2**18), (2**18, 1), 0), [("C2C", 1, 1)]),
        (("ifft", (4096, 4096), (4096, 1), 0), ["repack", ("C2C", 1, 1)]),
        (("rfft", (4096, 8192), (8192, 1), 0, F), ["repack", ("R2C", 1, 1)]),
        (("rfft", (64, 2**19), (2**19, 1), 0, F), [("R2C", 1, 1)]),
        (("irfft", (2049, 8192), (8192, 1), 0), ["repack", ("C2R", 1, 1)]),
        (("fft", (4, 64, 1000), (64000, 1000, 1), 1), ["repack", ("C2C", 1, 1)]),
        (("fft", (512, 512, 512), (2**18, 512, 1), 1), ["repack", ("C2C", 1, 1)]),
        (("fft", (16, 1024, 4096), (2**22, 4096, 1), 1), [("C2C", 1, 16)]),
        (("fft", (100, 8, 100), (800, 100, 1), 1), ["repack", ("C2C", 1, 1), "repack"]),
        (("fft", (1000, 256), (32, 1), -1), [("C2C", 1, 1)]),  # overlapping frames
        (("fftn", (512, 512, 512), (2**18, 512, 1), None), [("C2C", 3, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (0, 2)), [("C2C", 2, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (2, 0)), [("C2C", 2, 1)]),
        (("fftn", (8, 9, 10), (90, 10, 1), (0, 1)), [("C2C", 2, 1)]),
        (("fftn", (4, 5, 6, 7), (210, 42, 7, 1), None), [("C2C", 3, 1), ("C2C", 1, 1)]),
        (("rfftn", (8192, 8192), (8192, 1), None, F), [("R2C", 2, 1)]),
        (("rfft", (9, 101), (101, 1), -1, F), [("R2C", 1, 1)]),
        (("irfft", (9, 51), (51, 1), -1), ["repack", ("C2R", 1, 1)]),
        (("irfftn", (50, 9, 51), (459, 51, 1), (1, 2)), ["repack", "hermitian", ("C2R", 2, 1)]),
        (("hfft", (9, 51), (51, 1), -1), ["repack", ("C2R", 1, 1)]),
        (("ihfft", (9, 51), (51, 1), -1, F), [("R2C", 1, 1), "repack"]),
        (("fft", (9, 64), (64, 1), -1, C, 50), [("C2C", 1, 1)]),
        (("fft", (9, 64), (64, 1), -1, C, 70), ["repack", ("C2C", 1, 1)]),
        (("fft", (9, 64), (64, 1), -1, F), ["repack", ("C2C", 1, 1)]),
        (("rfft", (9, 64), (64, 1), -1, F, 70), ["repack", ("R2C", 1, 1)]),
        (("fft", (2, 2**23), (-(2**23), 1), -1), [("C2C", 1, 2)]),
        (("fft", (90, 64), (-64, 1), -1), ["repack", ("C2C", 1, 1)]),
        (("fft", (9, 64), (64, -1), -1), ["repack", ("C2C", 1, 1)]),
        (("fft", (9, 1), (1, 1), -1), ["repack"]),
    ],
)  # fmt: skip
def test_steps(arguments, expected):
    assert kinds(*arguments) == expected


def test_input_that_may_be_lost_is_not_copied():
    lost = {"overwrite": True, "norm": "forward"}
    assert kinds("irfft", (9, 51), (51, 1), -1, **lost) == ["hermitian", ("C2R", 1, 1)]
    assert kinds("irfft", (9, 51), (51, 1), -1, overwrite=True) == ["repack", ("C2R", 1, 1)]  # which scales, too
    assert kinds("irfftn", (9, 9, 51), (459, 51, 1), None, **lost) == ["hermitian", ("C2R", 3, 1)]
    assert kinds("irfft", (9, 51), (3, 1), -1, **lost)[0] == "repack"  # its rows overlap


def steps_into(function, shape, axis, dtype=C, order="a", norm=None):
    """The steps of a transform of a C-contiguous array, and the order of its result's axes in memory."""
    a = layout(shape, row_major_strides(shape, dtype.itemsize), dtype, 0)
    found, lengths = arguments.axes_and_lengths(function, a, None, axis)
    out = arguments.request(function, a, found, lengths, norm, False, None).result
    if order == "C":
        out = layout(out.shape, row_major_strides(out.shape, out.itemsize), out.dtype, 0)
    program = build(arguments.request(function, a, found, lengths, norm, False, out), True)
    return "".join(type(step).__name__[0] for step in program.steps), tuple(np.argsort(out.strides)[::-1])


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "steps", "order"),
    [
        ((64, 2**18), 0, C, "E", (0, 1)),
        ((512, 2**15), 0, C, "E", (1, 0)),
        ((4096, 4096), 0, C, "E", (1, 0)),
        ((4096, 4096), 0, D, "E", (1, 0)),
        ((2**16, 256), 0, C, "RE", (1, 0)),
        ((64, 4096, 256), 1, C, "RE", (0, 2, 1)),
        ((64, 64), 0, C, "E", (0, 1)),  # small
        ((4096, 4096), 1, C, "E", (0, 1)),
        ((512, 512, 64), (0, 1), C, "RE", (2, 0, 1)),
        ((512, 512, 64), (1, 0), C, "RE", (2, 0, 1)),
        ((256, 256, 256), (0, 2), C, "E", (1, 0, 2)),
        ((64, 512, 512), (2, 1), C, "E", (0, 1, 2)),
        ((512, 512, 512), None, C, "E", (0, 1, 2)),
    ],
)
def test_memory_order_of_results(shape, axis, dtype, steps, order):
    function = "fft" if isinstance(axis, int) else "fftn"
    assert steps_into(function, shape, axis, dtype) == (steps, order)


@pytest.mark.parametrize(
    ("function", "shape", "axis", "dtype", "norm", "steps"),
    [
        ("fft", (4096, 4096), 0, C, None, "E"),
        ("fft", (2**16, 256), 0, C, None, "RER"),
        ("ifft", (4096, 4096), 0, C, None, "ER"),
        ("fft", (64, 4096, 256), 1, C, None, "RER"),
        ("fft", (16, 1024, 4096), 1, C, None, "E"),
        ("rfft", (4096, 8192), 0, F, None, "RER"),
        ("rfft", (64, 2**19), 0, F, None, "E"),
        ("irfft", (2049, 8192), 0, C, None, "RER"),
        ("irfft", (33, 2**19), 0, C, None, "RE"),
        ("fftn", (512, 512, 64), (0, 1), C, None, "RER"),
        ("rfftn", (512, 512, 64), (0, 1), F, None, "RER"),
        ("irfftn", (512, 257, 64), (0, 1), C, None, "RRER"),
    ],
)
def test_steps_into_an_array_in_c_order(function, shape, axis, dtype, norm, steps):
    assert steps_into(function, shape, axis, dtype, "C", norm)[0] == steps


def test_sizes_beyond_32_bits():
    found = layout((3, 2**31 + 5), (8 * (2**31 + 5), 8), C, 0)
    walk = advanced_layout.walk(cufft.Type.C2C, found, found, [1])
    assert walk.layout.lengths == (2**31 + 5,) and walk.layout.in_dist == 2**31 + 5 and walk.layout.batch == 3
