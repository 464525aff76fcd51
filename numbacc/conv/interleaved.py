"""Dilated convolutions, computed as convolutions of interleaved images with less dilation.

Let the dilation be f e and the padding before an image f q, along rows, and f' e' and f' q' along columns. Let

    x'[(n, a, b), i, j, c] = x[n, f i + a, f' j + b, c],  0 <= a < f,  0 <= b < f'

and y' likewise. Then y' is the convolution of x' and w with dilation e, e' and padding q, q', because all taps of a
window are in one of the f f' interleaved images. x and gradients of y are 0 after their last row and column; results
there are dropped. cuDNN's fastest engines support little dilation.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import gcd, prod

from ..base.layout import Layout, layout, row_major_strides
from ..base.windows import Window
from ..kernels.elementwise import copy
from .geometry import ConvGeometry
from .operand_copies import Copies, PartCopy, divided
from .problem import ConvProblem

#: The largest dilation that remains.
_DILATION = 4
#: Direction -> cuDNN's engines (9.19) for the tensor cores of an H100, which support little dilation.
FAST = {"forward": (62,), "backward_data": (67,), "backward_filter": (65,)}
#: With fewer rows or columns of an interleaved image, the fast engines are slow: for 33 x 33 pixels with dilation 36,
#: and thus images of 4 x 4, the form took 2.2 times as long.
_LENGTH = 8
#: This form is used if it saves more time than copies take, counted in products: for each byte, and for the launches.
#: For 8 images of 2048 channels at 33 x 33 and 256 kernels of 3 x 3 with dilation 12, the gradient of kernels took
#: 0.273 ms, and with dilation 4 0.133 ms (H100).
_EACH, _LAUNCHES = 200, 2**31


def interleaved(problem: ConvProblem) -> ConvProblem | None:
    """Return a convolution of interleaved images with less dilation; None if that is impossible or useless.

    Its images are packed. They take the operand numbers of the images.
    """
    call, found = problem.call, problem.geometry
    window, size = found.window, call.a.itemsize
    is_flat = window.dimensions == 2 and window.channels_last and window.groups == 1
    if size != 2 or not is_flat or max(window.stride) > 1 or max(window.dilation) <= _DILATION:
        return None
    every = factors(found)
    dilation = tuple(d // f for d, f in zip(window.dilation, every, strict=True))
    lengths, places = (
        tuple(-(-n // f) for n, f in zip(ns, every, strict=True)) for ns in (found.lengths, found.places)
    )
    before = tuple(p // f for (p, _), f in zip(window.padding, every, strict=True))
    reach = tuple((t - 1) * e for t, e in zip(found.taps, dilation, strict=True))
    after = tuple(p - n - q + r for p, n, q, r in zip(places, lengths, before, reach, strict=True))
    if max(dilation) > _DILATION or min(after) < 0:
        return None
    batch = found.batch * prod(every)
    geometry = ConvGeometry(
        layout=found.layout,
        window=Window((1, 1), tuple(zip(before, after, strict=True)), dilation, 1, window.flip, True),
        x_shape=(batch, *lengths, found.channels),
        w_shape=found.w_shape,
        y_shape=(batch, *places, found.filters),
    )
    x, y = (
        layout(shape, row_major_strides(shape, size), call.a.dtype, call.a.device)
        for shape in (geometry.x_shape, geometry.y_shape)
    )
    if call.direction == "forward":
        return replace(problem, call=call._replace(a=x, out=None), geometry=geometry, out=y)
    if call.direction == "backward_data":
        return replace(problem, call=call._replace(a=y, shape=x.shape, out=None), geometry=geometry, out=x)
    return replace(problem, call=call._replace(a=x, b=y), geometry=geometry)


def factors(found: ConvGeometry) -> tuple[int, ...]:
    """Return by how many images rows and columns are interleaved: those that add the fewest zeros, else the fewest."""
    window = found.window

    def factor(dilation: int, lead: int, length: int) -> int:
        common = gcd(dilation, lead)
        some = [f for f in range(1, common + 1) if common % f == 0 and dilation // f <= _DILATION]
        return min(some or [1], key=lambda f: (-(-length // f) * f, f))

    leads = [before for before, _ in window.padding]
    return tuple(map(factor, window.dilation, leads, found.lengths))


def pays(problem: ConvProblem) -> bool:
    """Return whether a faster engine would probably save more time than the copies take."""
    found = problem.geometry
    if min(n // f for n, f in zip(found.lengths, factors(found), strict=True)) < _LENGTH:
        return False
    products = prod(found.y_shape) * found.channels * prod(found.taps)
    return products >= _EACH * sum(array.nbytes for array in problem.images) + _LAUNCHES


class Interleaved(Copies):
    """The copies of images for a convolution that is computed with less dilation."""

    name, title = "interleaved images", "of interleaved images"

    def __init__(self, problem: ConvProblem):
        found = problem.geometry
        self._factors = factors(found)
        last = len(problem.inputs)
        is_filter = problem.call.direction == "backward_filter"
        self.numbers = (0, 1) if is_filter else (0, last)
        read = [found.lengths] * (problem.call.direction != "backward_data")
        read += [found.places] * (problem.call.direction != "forward")
        is_whole = all(n % f == 0 for ns in read for n, f in zip(ns, self._factors, strict=True))
        self.filled = () if is_whole else tuple(n for n in self.numbers if n < last)

    def into(self, number: int, own: Layout, dense: Layout) -> list[PartCopy]:
        """Return the copies of an operand; see `Copies`."""
        if number not in self.numbers:
            return super().into(number, own, dense)
        return [PartCopy(copy.executable(one, other), offsets) for one, other, offsets in self._parts(own, dense)]

    def back(self, number: int, dense: Layout, own: Layout) -> list[PartCopy]:
        """Return the copies of the result; see `Copies`."""
        if number not in self.numbers:
            return super().back(number, dense, own)
        parts = self._parts(own, dense)
        return [PartCopy(copy.executable(other, one), (there, here)) for one, other, (here, there) in parts]

    def _parts(self, own: Layout, dense: Layout) -> list[tuple[Layout, Layout, tuple[int, int]]]:
        """Return the parts of an image: its layout there, that of its copy, and the offsets of both in bytes."""
        down, across = self._factors
        (images, height, width, channels), (first, row, column, channel) = own.shape, own.strides
        image, up, left, inner = dense.strides
        parts = []
        for (i, rows, tall), (j, columns, wide) in product(divided(height, down), divided(width, across)):
            shape = (images, rows, tall, columns, wide, channels)
            steps = (first, down * row, row, across * column, column, channel)
            mine = layout(shape, steps, own.dtype, own.device)
            steps = (down * across * image, up, across * image, left, image, inner)
            copied = layout(shape, steps, own.dtype, own.device)
            parts.append((mine, copied, (i * down * row + j * across * column, i * up + j * left)))
        return parts
