"""What cuFFT is not asked to walk, and which addresses are aligned for it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from numbacc.base.layout import layout
from numbacc.fft import arguments, plans
from numbacc.libraries import advanced_layout


def test_frames_that_overlap_are_no_plane():
    """16 elements each, 8 apart: cuFFT's embedding lengths are no shorter than what is transformed."""
    kind, dtype = advanced_layout.TYPES["complex64"]["c2c"], np.dtype(np.complex64)
    frames, dense = (layout((5, 16), (8 * step, 8), dtype, 0) for step in (8, 16))
    assert advanced_layout.walk(kind, frames, dense, (0, 1)) is None
    assert advanced_layout.walk(kind, dense, dense, (0, 1)) is not None
    found = advanced_layout.walk(kind, frames, dense, (1,))
    assert (found.layout.in_dist, found.layout.out_dist, found.layout.batch) == (8, 16, 5)


@pytest.mark.parametrize("axes", [(1,), (0, 1)])
@pytest.mark.parametrize("points, pitch", [(6, 8), (5, 6), (32, 34)])
def test_cufft_gets_no_rows_with_the_pitch_of_a_transform_in_place(axes, points, pitch):
    """It writes behind the ends of such rows."""
    kind, spectrum = advanced_layout.TYPES["complex64"]["c2r"], np.dtype(np.complex64)

    def found(pitch):
        source = layout((4, points // 2 + 1), (8 * (points // 2 + 1), 8), spectrum, 0)
        target = layout((4, points), (4 * pitch, 4), np.dtype(np.float32), 0)
        return advanced_layout.walk(kind, source, target, axes)

    assert found(pitch) is None
    assert found(points) is not None and found(pitch + 2) is not None


@pytest.mark.parametrize("dtype, size", [(np.float32, 8), (np.complex64, 8), (np.float64, 16), (np.complex128, 16)])
def test_arrays_between_two_complex_numbers_are_not_aligned(monkeypatch, dtype, size):
    """cuFFT wants real arrays, too, to start where complex numbers do."""
    made = layout((8,), (np.dtype(dtype).itemsize,), np.dtype(dtype), 0)
    plan = plans.FftPlan(arguments.request("fft", made, (0,), (8,), None, False, None))
    asked = []
    nothing = SimpleNamespace(ready=lambda addresses: None, library_bytes=0, direct=True)
    monkeypatch.setattr(plan, "_make", lambda aligned, trial: asked.append((aligned, place)) or nothing)
    for place in ((size, 0), (size // 2, 0), (0, size // 2), (4096, 3 * size)):
        plan.chosen.made.clear()
        plan.prepare([SimpleNamespace(_address=place[0])], [SimpleNamespace(_address=place[1])])
    assert [aligned for aligned, _ in asked] == [True, False, False, True]
