# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Fourier transforms with NumPy's names and semantics, by cuFFT on a GPU and by `numpy.fft` on the CPU."""

from collections.abc import Callable
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    Axes,
    DeviceArray,
    FftNorm,
    NumPyArray,
    Shape,
)
from numbacc.fft.plans import FftPlan
from numbacc.plan.cache import CacheInfo

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


class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class fft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class fft2(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class fftn(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class hfft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class ifft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class ifft2(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class ifftn(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class ihfft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class irfft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class irfft2(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class irfftn(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class rfft(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, n: int | None = None, axis: int = -1, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class rfft2(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes = (-2, -1), norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

    class rfftn(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, a: NumPyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: NumPyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, s: Shape | None = None, axes: Axes | None = None, norm: FftNorm | None = None,
            out: AnyArray | None = None, *, overwrite_input: bool = False,
        ) -> FftPlan[DeviceArray]: ...

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

fft: _Functions.fft
"""Compute the discrete Fourier transform along one axis: X[k] = Σ_j x[j] exp(-2πi jk/n), scaled by `norm`."""

fft2: _Functions.fft2
"""Compute the discrete Fourier transform along two axes, by default the last two."""

@overload
def fftfreq(n: int, d: float = 1.0, *, device: Literal["cpu"], stream: Any = None) -> NumPyArray: ...
@overload
def fftfreq(n: int, d: float = 1.0, device: int | str | None = None, *, stream: Any = None) -> DeviceArray: ...

fftn: _Functions.fftn
"""Compute the discrete Fourier transform along several axes."""

@overload
def fftshift(
    x: NumPyArray, axes: Axes | None = None, out: NumPyArray | None = None, *, stream: Any = None,
) -> NumPyArray: ...
@overload
def fftshift(
    x: AnyArray, axes: Axes | None = None, out: AnyArray | None = None, *, stream: Any = None,
) -> DeviceArray: ...

hfft: _Functions.hfft
"""Compute the real `fft` of a signal that equals its own mirrored conjugate, given the signal's first half, a."""

ifft: _Functions.ifft
"""Compute the inverse of `fft`: x[j] = 1/n Σ_k X[k] exp(+2πi jk/n), scaled by `norm`."""

ifft2: _Functions.ifft2
"""Compute the inverse of `fft2`, by default along the last two axes."""

ifftn: _Functions.ifftn
"""Compute the inverse of `fftn`, the discrete Fourier transform along several axes."""

@overload
def ifftshift(
    x: NumPyArray, axes: Axes | None = None, out: NumPyArray | None = None, *, stream: Any = None,
) -> NumPyArray: ...
@overload
def ifftshift(
    x: AnyArray, axes: Axes | None = None, out: AnyArray | None = None, *, stream: Any = None,
) -> DeviceArray: ...

ihfft: _Functions.ihfft
"""Compute the inverse of `hfft`: the first n//2 + 1 elements of the `ifft` of a real array."""

irfft: _Functions.irfft
"""Compute the inverse of `rfft`: n real numbers from n//2 + 1 complex ones."""

irfft2: _Functions.irfft2
"""Compute the inverse of `rfft2`, by default along the last two axes."""

irfftn: _Functions.irfftn
"""Compute the inverse of `rfftn`: a real array from the first half of its spectrum."""

rfft: _Functions.rfft
"""Compute the Fourier transform of a real array: the first n//2 + 1 elements of its `fft`."""

rfft2: _Functions.rfft2
"""Compute the Fourier transform of a real array along two axes, by default the last two."""

@overload
def rfftfreq(n: int, d: float = 1.0, *, device: Literal["cpu"], stream: Any = None) -> NumPyArray: ...
@overload
def rfftfreq(n: int, d: float = 1.0, device: int | str | None = None, *, stream: Any = None) -> DeviceArray: ...

rfftn: _Functions.rfftn
"""Compute the Fourier transform of a real array along several axes: `rfft` along the last, `fft` along the others."""
