"""Fourier transforms with NumPy's names and meanings: cuFFT on a GPU, `numpy.fft` on the CPU.

float32 and complex64 stay in single precision, float64 and complex128 in double; other input promotes as NumPy 2 does.
What the functions mean is written down in `numbacc.reference.fft`; `program` decides how cuFFT is used.
"""

from ..base.keywords import explain
from .grids import fftfreq, fftshift, ifftshift, rfftfreq
from .planned import (
    fft2_plan,
    fft_plan,
    fftn_plan,
    hfft_plan,
    ifft2_plan,
    ifft_plan,
    ifftn_plan,
    ihfft_plan,
    irfft2_plan,
    irfft_plan,
    irfftn_plan,
    rfft2_plan,
    rfft_plan,
    rfftn_plan,
)
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
    "fft2_plan",
    "fft_plan",
    "fftfreq",
    "fftn",
    "fftn_plan",
    "fftshift",
    "hfft",
    "hfft_plan",
    "ifft",
    "ifft2",
    "ifft2_plan",
    "ifft_plan",
    "ifftn",
    "ifftn_plan",
    "ifftshift",
    "ihfft",
    "ihfft_plan",
    "irfft",
    "irfft2",
    "irfft2_plan",
    "irfft_plan",
    "irfftn",
    "irfftn_plan",
    "rfft",
    "rfft2",
    "rfft2_plan",
    "rfft_plan",
    "rfftfreq",
    "rfftn",
    "rfftn_plan",
]

explain(__name__, __all__)
