"""What Fourier transforms must give, and how far off a result may be. Independent of numbacc.

Tolerance: the error of the whole result, against SciPy in long double (double for single precision), must stay under
2 x that of SciPy in the dtype itself, plus a few of its rounding errors. A GPU may add the terms of a prime factor up
to 127 one by one, where SciPy adds pairs: a plain sum of 103 equal float64 terms is off by 5.4 roundings, SciPy by 0.4.
So the tolerance grows with the root of the number of terms.
"""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import scipy.fft

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
NORMS = (None, "backward", "ortho", "forward")
FLOATS = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))
OTHERS = tuple(
    np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
                          np.uint32, np.uint64, np.bool_)
)  # fmt: skip
SINGLE = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32), np.dtype(np.complex64))


def takes(function, dtype):
    """Whether a function takes a dtype: those from real numbers take no complex ones."""
    return dtype.kind != "c" or not function.startswith(("rfft", "ihfft"))


def to_real(function):
    return function.startswith(("irfft", "hfft"))


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = 3 * rng.standard_normal(shape)
    if dtype.kind == "c":
        return (x + 3j * rng.standard_normal(shape)).astype(dtype)
    return (x > 0 if dtype.kind == "b" else np.abs(x) if dtype.kind == "u" else x).astype(dtype)


def scipys(function, x, n, axes, norm):
    return getattr(scipy.fft, function)(x, n, axes, norm=norm)


def largest_prime(n):
    """The largest prime factor of a number; 1 of 1."""
    found, factor = 1, 2
    while n > 1:
        if n % factor:
            factor += 1 if factor * factor <= n else n - factor
        else:
            found, n = factor, n // factor
    return found


def points(function, x, n, axes):
    """The lengths of the transforms."""
    if n is not None:
        return np.atleast_1d(n).tolist()
    if axes is None:
        axes = range(x.ndim)
    lengths = [x.shape[axis] for axis in np.atleast_1d(axes)]
    return [*lengths[:-1], 2 * (lengths[-1] - 1)] if to_real(function) else lengths


def verify(function, result, x, n=None, axes=None, norm=None):
    """Dtype, shape and accuracy of a result."""
    axes = (-1 if function in ONE else (-2, -1) if function.endswith("2") else None) if axes is None else axes
    single = x.dtype in SINGLE
    # What is computed with is exact in the narrower dtype already.
    narrow, wide = (np.float32, np.float64) if single else (np.float64, np.longdouble)
    if x.dtype.kind == "c":
        narrow, wide = (np.complex64, np.complex128) if single else (np.complex128, np.clongdouble)
    trusted = scipys(function, x.astype(narrow), n, axes, norm)
    exact = scipys(function, x.astype(wide), n, axes, norm)
    count = 1 if function in ONE else np.size(axes) if axes is not None else np.size(n) if n is not None else x.ndim
    kept = to_real(function) and x.dtype == np.float16 and count == 1
    expected = np.dtype(np.float16) if kept else trusted.dtype
    assert (result.dtype, result.shape) == (expected, exact.shape)
    eps = np.finfo(expected).eps

    def error(array):
        return float(np.linalg.norm((array.astype(exact.dtype) - exact).ravel()))

    terms = min(max(map(largest_prime, points(function, x, n, axes)), default=1), 127)
    size = float(np.linalg.norm(exact.ravel()))
    found, theirs, room = error(result), error(trusted), (4 + math.sqrt(terms)) * eps * size
    assert found <= 2 * theirs + room, (
        f"{found / (eps * size or 1):.2f} roundings off, SciPy {theirs / (eps * size or 1):.2f}; terms {terms}"
    )
