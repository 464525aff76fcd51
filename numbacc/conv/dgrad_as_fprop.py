"""The gradient of images with stride 1, computed as a convolution of dy with a copy of w.

Start from dx[n, c, i] = Σ_k Σ_(p, r) dy[n, k, p] w[k, c, r], over p + r d - lead = i. With R taps and q = R - 1 - r,

    dx[n, c, i] = Σ_k Σ_q w'[c, k, q] dy[n, k, i + q d - lead'],  w'[c, k, q] = w[k, c, R - 1 - q],
    lead' = (R - 1) d - lead

This is a convolution without a stride. Its padding is (R - 1) d minus the original padding, and its result has the
lengths of x. (Dumoulin and Visin 2016, arXiv:1603.07285, relationships 8 to 10.)
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..base.layout import Layout, View, layout, row_major_strides, view
from ..kernels.elementwise import copy
from .geometry import ConvGeometry
from .operand_copies import Copies, PartCopy
from .problem import ConvProblem

#: In float32 on an H200 with cuDNN 9.19 (64 images of 256 channels at 56 x 56, 256 kernels of 3 x 3), engines for
#: convolutions take 0.90 of the time of those for gradients, with tensor cores (0.57 ms, 0.63) and without (5.7, 6.4).
#: The copy of w costs a launch, so it pays only for many results. In 16 bits, and with Fourier transforms, both take
#: the same time.
_FASTER, _RESULTS, _CHANNELS = ("exact", "tf32"), 2**22, 64


def turned(problem: ConvProblem) -> ConvProblem | None:
    """Return a gradient of images as a convolution with packed kernels in `call.b`; None if that is impossible."""
    call, found = problem.call, problem.geometry
    window = found.window
    if call.direction != "backward_data" or {*window.stride} != {1}:
        return None
    reach = window.reach(found.taps)
    zeros = tuple((n - 1 - a, n - 1 - b) for n, (a, b) in zip(reach, window.padding, strict=True))
    if min(min(pair) for pair in zeros) < 0:
        return None
    shape = window.shape(found.channels, found.filters // window.groups, found.taps)
    kernels = layout(shape, row_major_strides(shape, call.b.itemsize), call.b.dtype, call.b.device)
    geometry = ConvGeometry(
        layout=found.layout,
        window=replace(window, padding=zeros, flip=False),
        x_shape=found.y_shape,
        w_shape=shape,
        y_shape=found.x_shape,
    )
    return replace(problem, call=call._replace(direction="forward", b=kernels, shape=None), geometry=geometry)


def is_faster(problem: ConvProblem) -> bool:
    """Return whether a gradient of images runs as a convolution without a measurement.

    In float64, cuDNN's good engine for gradients supports neither dilation nor three dimensions. 64 channels at 32 x 32
    with dilation 2 took 0.31 ms as a gradient and 0.09 as a convolution; 16 channels at 16 x 16 x 16 0.88 and 0.15, and
    0.14 with another engine (H100, cuDNN 9.19).
    """
    found = problem.geometry
    window = found.window
    if problem.wants.inputs == "double":
        return (max(window.dilation) > 1 or window.dimensions == 3) and prod(found.taps) > 1
    return (
        problem.wants.inputs in _FASTER
        and window.dimensions == 2
        and window.groups == 1
        and {*window.dilation} == {1}
        and prod(found.taps) > 1
        and min(found.channels, found.filters) >= _CHANNELS
        and problem.out.size >= _RESULTS
    )


def may_be_faster(problem: ConvProblem) -> bool:
    """Return whether the convolution is worth measuring."""
    return problem.call.a.dtype.name in ("float32", "float64")


class Turned(Copies):
    """The copies of a gradient that is computed as a convolution."""

    name, title, numbers = "as a convolution of dy", "as a convolution", (1,)

    def __init__(self, problem: ConvProblem):
        self._problem = problem

    def into(self, number: int, own: Layout, dense: Layout) -> list[PartCopy]:
        """Return the copies of an operand; see `Copies.into`."""
        if number == 1:
            return [PartCopy(copy.executable(own, *copied(self._problem, dense)))]
        return super().into(number, own, dense)


def copied(problem: ConvProblem, kernels: Layout) -> tuple[Layout, View]:
    """Return how w is copied to the kernels of `turned`: the written layout, and the view of w that is read.

    Args:
        problem: the gradient.
        kernels: the layout of the convolution's kernels, (C, ..., K/groups) in the axis order of the problem's layout.
    """
    window, w = problem.geometry.window, problem.call.b
    groups = window.groups
    first, second, taps = window.parted(kernels.shape)
    each = first // groups
    shape = (groups, each, second, *taps)
    to_first, to_second, to_taps = window.parted(kernels.strides)
    written = layout(shape, (each * to_first, to_first, to_second, *to_taps), kernels.dtype, kernels.device)
    of_filter, of_channel, of_taps = window.parted(w.strides)
    # Count taps from the last, unless they already are.
    last = 0 if window.flip else sum((n - 1) * step for n, step in zip(taps, of_taps, strict=True))
    steps = of_taps if window.flip else tuple(-step for step in of_taps)
    return written, view(0, last, (second * of_filter, of_channel, of_filter, *steps), shape)
