"""Fourier transforms with NumPy's names and meanings: cuFFT on a GPU, `numpy.fft` on the CPU.

float32 and complex64 stay in single precision, float64 and complex128 in double; other input promotes as NumPy 2 does.
What the functions mean is written down in `numbacc.reference.fft`; `program` decides how cuFFT is used.
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
