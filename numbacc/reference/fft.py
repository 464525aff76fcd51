"""Fourier transforms in NumPy: what every function of `numbacc.fft` means.

With N points along an axis and W = exp(-2πi/N), forward and inverse transform are

    X[k] = f Σ_j x[j] W^(jk)            x[j] = g Σ_k X[k] W^(-jk)

where (f, g) is (1, 1/N) for norm="backward", (1/√N, 1/√N) for "ortho" and (1/N, 1) for "forward". Several axes are
transformed one after the other. The spectrum of real numbers has X[N-k] = conj(X[k]), so `rfft` gives, and `irfft`
takes, only its first N//2 + 1 elements along the last axis; `hfft` and `ihfft` are the same with the two sides
exchanged. An array that is longer than asked for is cut off, a shorter one is padded with zeros.

Source: J. W. Cooley and J. W. Tukey, Math. Comput. 19 (1965) 297; the definitions are NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def math_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype that an array's transform is computed in, as NumPy 2 promotes: double for integers."""
    single = dtype in _NARROW or dtype in (np.float32, np.complex64)
    return np.dtype(np.complex64 if single else np.complex128)


def real_dtype(dtype: np.dtype[Any], axes: int) -> np.dtype[Any]:
    """The dtype of a transform to real numbers along so many axes.

    NumPy 2 keeps float16 where the transform along one axis is all there is. For bfloat16 it has no rule; here its
    results are float32.
    """
    if dtype == np.float16 and axes == 1:
        return dtype
    return np.dtype(np.float32 if math_dtype(dtype) == np.complex64 else np.float64)


def transform(function: str, a: Array, lengths: Sequence[int], axes: Sequence[int], norm: str | None) -> Array:
    """A transform of `numpy.fft`, single precision kept.

    Args:
        function: a name of `numbacc.fft`.
        a: the array.
        lengths: points along each of `axes`.
        axes: the transformed axes, counted from 0.
        norm: as above; None is "backward".
    """
    wide = a.astype(np.float32) if a.dtype in _NARROW else a
    if not a.size:
        # Padded, it is all zeros; NumPy's irfft would read what is not there.
        wide = np.zeros([max(n, int(d in axes)) for d, n in enumerate(a.shape)], wide.dtype)
    if function.rstrip("2n") == function:
        result = getattr(np.fft, function)(wide, lengths[0], axes[0], norm)
    else:
        result = getattr(np.fft, function.rstrip("2n") + "n")(wide, tuple(lengths), tuple(axes), norm)
    if result.dtype.kind == "f":
        result = result.astype(real_dtype(a.dtype, len(axes)), copy=False)
    answer: Array = result
    return answer
