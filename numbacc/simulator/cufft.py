"""Replace cuFFT in Numba's simulator: NumPy with the same layouts and the same side effects."""

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
    """Run a transform, like `cufft.Transform`."""

    backend = "simulator"
    work_bytes = 0
    stream = 0

    def __init__(self, layout: AdvancedLayout, inverse: bool, device: int):
        self.direction = 1 if inverse else -1
        self._layout = layout

    def execute(self, stream: int, source: int, target: int, direction: int) -> int:
        """Transform by `execute_unchecked`, which the simulator always checks."""
        return -1

    def execute_unchecked(self, stream: int, source: int, target: int, direction: int) -> int:
        """Transform the array at one address into another."""
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
            x[...] = np.nan  # cuFFT may leave anything there
        elif direction < 0:
            y[...] = np.fft.fftn(x, axes=axes)
        else:
            y[...] = np.fft.ifftn(x, axes=axes, norm="forward")

    def set_stream(self, stream: int) -> None:
        """Do nothing: the simulator has no queues."""

    def set_area(self, address: int) -> None:
        """Do nothing: the simulator needs no work area."""

    def check(self, status: int) -> None:
        """Do nothing: a simulated call fails by raising."""


def _leak(x: np.ndarray[Any, Any], lengths: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return how nonzero imaginary parts that must be 0 affect each row: some cuFFT kernels read them."""
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
    """Return the elements of a layout, as an array (batch, *lengths) within one allocation."""
    steps = [stride]
    for size in reversed(embed[1:]):
        steps.insert(0, steps[0] * size)
    strides = tuple(dtype.itemsize * step for step in (dist, *steps))
    return view_at(address, (batch, *lengths), strides, dtype)
