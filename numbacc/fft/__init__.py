"""Fourier transforms with NumPy's names and semantics, by cuFFT on a GPU and by `numpy.fft` on the CPU.

float32 and complex64 are transformed in single precision, float64 and complex128 in double. Other input promotes as in
NumPy 2. `numbacc.reference.fft` defines the functions; `program` chooses how to use cuFFT.
"""

from ..base.keywords import explain
from .grids import fftfreq, fftshift, ifftshift, rfftfreq
from .transforms import (
    cache_clear,
    cache_info,
    cache_limit,
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "cache_clear",
    "cache_info",
    "cache_limit",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

explain(__name__, __all__)
