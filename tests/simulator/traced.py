"""What `numbacc.trace` finds, as plain numbers."""

from __future__ import annotations

import numbacc


def traced(kernel, grid, block, *arrays, **options):
    with numbacc.trace(**options) as t:
        kernel[grid, block](*arrays)
    return t
