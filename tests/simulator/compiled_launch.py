"""Launches of compiled kernels, as tests write them: with grids and blocks of one to three dimensions."""

from __future__ import annotations

import numpy as np


def three(size):
    return tuple(int(n) for n in (*np.atleast_1d(size), 1, 1))[:3]


def launch(kernel, configuration, arguments, **options):
    """Run a compiled kernel for a configuration as `kernel[...]` takes it."""
    grid, block, *rest = configuration
    kernel.launch(three(grid), three(block), rest[1] if len(rest) > 1 else 0, tuple(arguments), **options)
