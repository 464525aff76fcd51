"""cuFFT in NumPy, on the memory of Numba's simulator: the same layouts, the same effects."""

from __future__ import annotations

from typing import Any

import numpy as np

from numbacc_bindings.cufft import Type

from ..libraries.advanced_layout import AdvancedLayout
from .device import queued, view_at

#: Type -> dtypes of input and output.
_DTYPES = {
    Type.C2C: (np.complex64, np.complex64),
    Type.R2C: (np.float32, np.complex64),
    Type.C2R: (np.complex64, np.float32),
    Type.Z2Z: (np.complex128, np.complex128),
    Type.D2Z: (np.float64, np.complex128),
    Type.Z2D: (np.complex128, np.float64),
}


class Transform:
    """As `cufft.Transform`."""

    backend = "simulator"
    work_bytes = 0
    stream = 0

    def __init__(self, layout: AdvancedLayout, inverse: bool, device: int):
        self.direction = 1 if inverse else -1
        self._layout = layout

    def execute(self, stream: int, source: int, target: int, direction: int) -> int:
        """Leave it to `execute_unchecked`, behind a closer look."""
        return -1

    def execute_unchecked(self, stream: int, source: int, target: int, direction: int) -> int:
        """Transform what is at an address to another."""
        queued(stream, lambda: self._transform(source, target, direction))
        return 0

    def _transform(self, source: int, target: int, direction: int) -> None:
        layout, axes = self._layout, range(1, self._layout.rank + 1)
        kinds = [np.dtype(kind) for kind in _DTYPES[layout.type]]
        halved = (*layout.lengths[:-1], layout.lengths[-1] // 2 + 1)
        real_to_complex, complex_to_real = kinds[0].kind == "f", kinds[1].kind == "f"
        lengths_in = halved if complex_to_real else layout.lengths
        lengths_out = halved if real_to_complex else layout.lengths
        x = _view(source, kinds[0], layout.batch, lengths_in, layout.in_embed, layout.in_stride, layout.in_dist)
        y = _view(target, kinds[1], layout.batch, lengths_out, layout.out_embed, layout.out_stride, layout.out_dist)
        if real_to_complex:
            y[...] = np.fft.rfftn(x, axes=axes)
        elif complex_to_real:
            y[...] = np.fft.irfftn(x, s=layout.lengths, axes=axes, norm="forward")
            y += _leak(x, layout.lengths)
            x[...] = np.nan  # what cuFFT may leave there
        elif direction < 0:
            y[...] = np.fft.fftn(x, axes=axes)
        else:
            y[...] = np.fft.ifftn(x, axes=axes, norm="forward")

    def set_stream(self, stream: int) -> None:
        """Everything is done at once."""

    def set_area(self, address: int) -> None:
        """No work area is needed."""

    def check(self, status: int) -> None:
        """Nothing fails but by an exception."""


def _leak(x: np.ndarray[Any, Any], lengths: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The effect of imaginary parts that spectra of real numbers cannot have, per row: some cuFFT kernels see them."""
    ends = x[..., : 1 if lengths[-1] % 2 else None : max(lengths[-1] // 2, 1)]
    if x.ndim > 2:
        ends = np.fft.ifftn(ends, axes=range(1, x.ndim - 1), norm="forward")
    leak: np.ndarray[Any, Any] = ends.imag.sum(axis=-1, keepdims=True)
    return leak


def _view(
    address: int,
    dtype: np.dtype[Any],
    batch: int,
    lengths: tuple[int, ...],
    embed: tuple[int, ...],
    stride: int,
    dist: int,
) -> np.ndarray[Any, Any]:
    """The elements that a layout names, as an array (batch, *lengths), within one allocation."""
    steps = [stride]
    for size in reversed(embed[1:]):
        steps.insert(0, steps[0] * size)
    strides = tuple(dtype.itemsize * step for step in (dist, *steps))
    return view_at(address, (batch, *lengths), strides, dtype)
