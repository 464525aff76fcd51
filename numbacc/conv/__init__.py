"""Convolutions of one, two and three dimensions, forward and backward, channels first or last, in groups.

What they mean is written down in `numbacc.reference.conv`; `geometry` checks options and gives the shapes.
"""

from .geometry import output_shape

__all__ = ["output_shape"]
