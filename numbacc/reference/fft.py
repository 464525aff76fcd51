"""The definition of every function of `numbacc.fft`, in NumPy.

With N points along an axis and W = exp(-2πi/N), the forward and inverse transforms are

    X[k] = f Σ_j x[j] W^(jk)            x[j] = g Σ_k X[k] W^(-jk)

where (f, g) is (1, 1/N) for norm="backward", (1/√N, 1/√N) for "ortho" and (1/N, 1) for "forward". Several axes are
transformed one after the other. The spectrum of real numbers has X[N-k] = conj(X[k]). So `rfft` returns only its first
N//2 + 1 elements along the last axis, and `irfft` accepts these; `hfft` and `ihfft` are the same with the two sides
exchanged. An array that is longer than the number of points is truncated, and a shorter one is padded with zeros.

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
    """Return the complex dtype of a transform's computation, by NumPy 2's promotion: double precision for integers."""
    single = dtype in _NARROW or dtype in (np.float32, np.complex64)
    return np.dtype(np.complex64 if single else np.complex128)


def real_dtype(dtype: np.dtype[Any], axes: int) -> np.dtype[Any]:
    """Return the dtype of the result of a transform to real numbers along `axes` axes.

    NumPy 2 keeps float16 only in transforms along one axis. It does not support bfloat16; here the result is float32.
    """
    if dtype == np.float16 and axes == 1:
        return dtype
    return np.dtype(np.float32 if math_dtype(dtype) == np.complex64 else np.float64)


def transform(function: str, a: Array, lengths: Sequence[int], axes: Sequence[int], norm: str | None) -> Array:
    """Compute a transform of `numpy.fft` that keeps single precision.

    Args:
        function: a name of `numbacc.fft`.
        a: the array.
        lengths: number of points along each of `axes`.
        axes: the transformed axes, counted from 0.
        norm: as above; None means "backward".
    """
    wide = a.astype(np.float32) if a.dtype in _NARROW else a
    if not a.size:
        # The padded array is all zeros. NumPy's irfft would read outside of it.
        wide = np.zeros([max(n, int(d in axes)) for d, n in enumerate(a.shape)], wide.dtype)
    if function.rstrip("2n") == function:
        result = getattr(np.fft, function)(wide, lengths[0], axes[0], norm)
    else:
        result = getattr(np.fft, function.rstrip("2n") + "n")(wide, tuple(lengths), tuple(axes), norm)
    if result.dtype.kind == "f":
        result = result.astype(real_dtype(a.dtype, len(axes)), copy=False)
    answer: Array = result
    return answer
