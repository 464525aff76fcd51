"""The geometry of convolutions: it normalizes and checks options, and computes shapes.

Sources: the output's length, padding, stride and dilation follow Dumoulin and Visin 2016 (arXiv:1603.07285). "same" is
defined as in TensorFlow and JAX, and as in torch where torch supports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..base.checks import boolean, integer
from ..base.layout import is_sequence, lengths_of, too_large
from ..base.windows import Lengths, Window
from ..errors import OptionError, ShapeError, shown, unknown

#: The layouts of inputs and outputs. In the layout of kernels, N stands for the outputs and C for a group's channels.
LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
#: The largest stride, dilation and padding: they fit in 32 bits.
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class ConvGeometry:
    """A checked convolution: the three shapes, and the window that relates them.

    Attributes:
        layout: one of LAYOUTS; the layout of x and y.
        window: stride, padding, dilation, groups and flip.
        x_shape, w_shape, y_shape: the shapes of input, kernel and output.
    """

    layout: str
    window: Window
    x_shape: Lengths
    w_shape: Lengths
    y_shape: Lengths

    @property
    def batch(self) -> int:
        """N, the number of inputs, which may be 0."""
        return self.x_shape[0]

    @property
    def channels(self) -> int:
        """C, the channels of an input."""
        return self.window.parted(self.x_shape)[1]

    @property
    def filters(self) -> int:
        """K, the channels of an output."""
        return self.w_shape[0]

    @property
    def lengths(self) -> Lengths:
        """The spatial lengths of an input."""
        return self.window.parted(self.x_shape)[2]

    @property
    def taps(self) -> Lengths:
        """The spatial lengths of a kernel."""
        return self.window.parted(self.w_shape)[2]

    @property
    def places(self) -> Lengths:
        """The spatial lengths of an output."""
        return self.window.parted(self.y_shape)[2]

    def check_dy(self, shape: Sequence[int]) -> None:
        """Raise ShapeError unless a gradient has the shape of the output."""
        if tuple(shape) != self.y_shape:
            raise ShapeError(
                f"dy has shape {tuple(shape)}; an input of shape {self.x_shape} and a kernel of shape {self.w_shape} "
                f"give {self.y_shape}, with stride {self.window.stride}, padding {self.window.padding}, dilation "
                f"{self.window.dilation}"
            )


def geometry(
    x_shape: Any,
    w_shape: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    layout: Any,
    flip: Any,
    names: tuple[str, str] = ("x", "w"),
) -> ConvGeometry:
    """Return the geometry of a convolution.

    Args:
        x_shape, w_shape: the shapes of input and kernel.
        stride, padding, dilation, groups, layout, flip: as the user gave them; see `output_shape`.
        names: the user's names of x and w, or "x_shape" and "w_shape" if only the shape is given.

    Raises:
        ShapeError, OptionError: as in `output_shape`; flip is neither True nor False.
    """
    dimensions, channels_last = _layout(layout)
    steps = _of_each(stride, "stride", layout, dimensions)
    apart = _of_each(dilation, "dilation", layout, dimensions)
    parts = integer(groups, "groups", 1, _LARGEST)
    none = Window(steps, ((0, 0),) * dimensions, apart, parts, boolean(flip, "flip"), channels_last)
    x_shape, x_text = _shape(x_shape, names[0], layout, dimensions)
    w_shape, w_text = _shape(w_shape, names[1], layout, dimensions)
    batch, channels, lengths = none.parted(x_shape)
    filters, each, taps = none.parted(w_shape)
    if not min(channels, *lengths):
        raise ShapeError(f"{x_text}, which has a length of 0; only the batch, its first axis, may be empty")
    if not min(w_shape):
        raise ShapeError(f"{w_text}, which has a length of 0; a kernel needs at least one tap, channel and output")
    for count, what, text in ((channels, "channels", x_text), (filters, "outputs", w_text)):
        if count % parts:
            raise ShapeError(f"{text}, whose {count} {what} cannot be divided into groups={parts} equal parts")
    if each != channels // parts:
        raise ShapeError(
            f"{w_text}, whose kernels have {each} channels; {x_text}: its {channels} channels in groups={parts} need "
            f"kernels of {channels // parts}, on axis {-1 if channels_last else 1} of {names[1]}"
        )
    zeros = _padding(padding, layout, lengths, none.reach(taps), steps)
    window = Window(steps, zeros, apart, parts, none.flip, channels_last)
    for d, (room, reach) in enumerate(zip(window.padded(lengths), window.reach(taps), strict=True)):
        if reach > room:
            raise ShapeError(
                f"{w_text}, and {x_text}: in spatial dimension {d} the kernel's {taps[d]} taps reach over {reach} "
                f"elements, with dilation {apart[d]}, but there are only {room}: {lengths[d]} and padding {zeros[d]}. "
                "Pad more, or use a smaller kernel"
            )
    y_shape = window.shape(batch, filters, window.places(lengths, taps))
    if too_large(y_shape, 8):
        raise ShapeError(f"padding={shown(padding)} makes an output of shape {y_shape}, which no memory holds")
    return ConvGeometry(layout, window, x_shape, w_shape, y_shape)


def output_shape(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[Any] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> tuple[int, ...]:
    """Return the shape of the result of `conv.forward`.

    Each spatial dimension has (length + zeros - (taps - 1) dilation - 1) // stride + 1 elements.

    Args:
        x_shape: the input's shape, in the order of `layout`. Only the batch, N, may be 0.
        w_shape: the kernel's shape: (K, C/groups, R, S) for NCHW, (K, R, S, C/groups) for NHWC, likewise for others.
        stride: step from one window to the next in elements: an integer, or one for each spatial dimension; at least 1.
        padding: zeros around the input. An integer applies to all sides. Otherwise, give an integer or a pair (before,
            after) for each spatial dimension. "valid" is 0. "same" gives outputs of length ⌈length / stride⌉; if the
            number of zeros is odd, as with kernels of even length, the extra zero is at the end.
        dilation: step from one tap to the next in elements, in the same form as stride; 1 for adjacent taps.
        groups: number of parts that C and K are divided into; outputs of a part depend on the channels of that part
            alone. groups=C gives a depthwise convolution.
        layout: one of NCW, NWC, NCHW, NHWC, NCDHW and NDHWC.

    Returns:
        (N, K, ...), in the order of `layout`.

    Raises:
        ShapeError: wrong ranks; lengths of 0; channels that do not match w, or cannot be divided into groups; a kernel
            that is larger than the padded input; a result that is too large.
        OptionError: an unknown layout or padding; numbers that are out of range, or not one for each spatial dimension.

    Example:
        >>> conv.output_shape((8, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
        (8, 64, 112, 112)
        >>> conv.output_shape((8, 1000, 32), (32, 4, 1), layout="NWC", groups=32, padding="same")
        (8, 1000, 32)
    """
    return geometry(
        x_shape,
        w_shape,
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
        layout=layout,
        flip=False,
        names=("x_shape", "w_shape"),
    ).y_shape


def _layout(layout: Any) -> tuple[int, bool]:
    """Return the number of spatial dimensions, and whether channels come last."""
    if not isinstance(layout, str) or layout not in LAYOUTS:
        raise unknown("layout", layout, LAYOUTS, f"the layouts are {', '.join(LAYOUTS)}")
    return len(layout) - 2, layout.endswith("C")


def _shape(shape: Any, name: str, layout: str, dimensions: int) -> tuple[Lengths, str]:
    """Return a shape as integers, and its text for messages."""
    lengths = lengths_of(shape, name=name)
    text = f"{name}={lengths}" if name.endswith("_shape") else f"{name} has shape {lengths}"
    if len(lengths) != dimensions + 2:
        raise ShapeError(f'{text}, of rank {len(lengths)}; with layout="{layout}" it must have rank {dimensions + 2}')
    return lengths, text


def _parts(value: Any, name: str, layout: str, dimensions: int, hint: str = "") -> Sequence[Any]:
    """Return the values of an option for each spatial dimension."""
    if not is_sequence(value):
        return (value,) * dimensions
    if len(value) != dimensions:
        raise OptionError(
            f'{name}={shown(value)} is for {len(value)} spatial dimensions; layout="{layout}" has {dimensions}{hint}'
        )
    parts: Sequence[Any] = value
    return parts


def _of_each(value: Any, name: str, layout: str, dimensions: int) -> Lengths:
    """Return a stride or dilation for each spatial dimension."""
    return tuple(integer(n, name, 1, _LARGEST) for n in _parts(value, name, layout, dimensions))


def _padding(value: Any, layout: str, lengths: Lengths, reach: Lengths, stride: Lengths) -> tuple[tuple[int, int], ...]:
    """Return the zeros on both sides of each spatial dimension."""
    if isinstance(value, str):
        if value == "valid":
            return ((0, 0),) * len(lengths)
        if value == "same":
            return tuple(map(_same, lengths, reach, stride))
        raise unknown("padding", value, ("same", "valid"), 'it is "same", "valid" or numbers')
    hint = "; write a pair as [(before, after)]" if len(lengths) == 1 else ""
    return tuple(_sides(part) for part in _parts(value, "padding", layout, len(lengths), hint))


def _same(length: int, reach: int, stride: int) -> tuple[int, int]:
    """Return the zeros that give ⌈length / stride⌉ outputs: equal on both sides, or one more at the end."""
    outputs = -(-length // stride)
    zeros = max((outputs - 1) * stride + reach - length, 0)
    return zeros // 2, zeros - zeros // 2


def _sides(part: Any) -> tuple[int, int]:
    if not is_sequence(part):
        zeros = integer(part, "padding", 0, _LARGEST)
        return zeros, zeros
    if len(part) != 2:
        raise OptionError(f"padding has {shown(part)} for a spatial dimension; it needs an integer or (before, after)")
    before, behind = (integer(n, "padding", 0, _LARGEST) for n in part)
    return before, behind
