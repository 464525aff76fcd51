"""Graphs of convolutions for tests of plans, and whether this machine can plan at all."""

from __future__ import annotations

import ctypes
import shutil
import sys
from typing import NamedTuple

from skips import skip

from numbacc.libraries.cudnn_graph import CudnnGraph, Drawing, Spatial, Wants, packed
from numbacc_bindings.cudnn import CudnnError, cudnn


def need_planning():
    """Skip the test where nothing can be planned."""
    if sys.platform != "linux":
        skip("linux")
    try:
        cudnn.load()
    except CudnnError:
        skip("library")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        if not any(map(shutil.which, ("cc", "gcc", "clang"))):
            skip("compiler")


class Request(NamedTuple):
    """What families ask."""

    drawn: tuple[CudnnGraph, ...]
    wants: Wants = Wants()

    def graphs(self):
        return self.drawn


def strides_of(shape, last):
    """Of an image, packed, with its channels last or first."""
    if not last:
        return packed(shape)
    batch, *pixels, channels = packed((shape[0], *shape[2:], shape[1]))
    return (batch, channels, *pixels)


def convolution(
    dtype="float16", direction="forward", *, pixels=(14, 14), channels=32, filters=32, groups=1, kernel=3, stride=1,
    dilation=1, before=1, after=1, last=True, out=None, math="float32", epilogue=(), batch=4, alpha=1.0, alignment=16,
):  # fmt: skip
    """The graph of a convolution; `epilogue` is of "add", "bias" and modes of cuDNN's pointwise operations."""
    window = kernel if isinstance(kernel, tuple) else (kernel,) * len(pixels)
    spatial = Spatial(*((each,) * len(pixels) for each in (stride, dilation, before, after)))
    lengths = [(n + before + after - dilation * (t - 1) - 1) // stride + 1 for n, t in zip(pixels, window, strict=True)]
    shapes = {
        "x": (batch, channels, *pixels),
        "w": (filters, channels // groups, *window),
        "y": (batch, filters, *lengths),
    }
    if len(pixels) == 1:
        # cuDNN's lines are images of one row.
        shapes = {name: (*shape[:2], 1, shape[2]) for name, shape in shapes.items()}
        spatial = Spatial((1, stride), (1, dilation), (0, before), (0, after))
    reads, result = {
        "forward": (("x", "w"), "y"),
        "backward_data": (("y", "w"), "x"),
        "backward_filter": (("x", "y"), "w"),
    }[direction]
    draw = Drawing(math)

    def tensor(name, dtype=dtype):
        return draw.tensor(dtype, shapes[name], strides_of(shapes[name], last), alignment=alignment)

    a, b = map(tensor, reads)
    steps = []
    for each in epilogue:
        if each == "add":
            steps.append(("ADD", tensor("y")))
        elif each == "bias":
            ones = (1,) * (len(shapes["y"]) - 2)
            steps.append(("ADD", draw.tensor(dtype, (1, filters, *ones), (filters, 1, *(filters for _ in ones)))))
        else:
            steps.append((each, None))
    y = tensor(result, out or dtype)
    sums = draw.convolve(direction, a, b, spatial, draw.like(y) if steps else y, alpha=alpha)
    for number, (mode, other) in enumerate(steps):
        sums = draw.pointwise(mode, sums, other, out=y if number == len(steps) - 1 else None)
    return draw.graph()


#: Convolutions that cuDNN has engines for everywhere but bfloat16 below 8.0: name -> the graph.
CASES = {
    f"{direction}-{dtype}": convolution(dtype, direction, math="float64" if dtype == "float64" else "float32")
    for direction in ("forward", "backward_data", "backward_filter")
    for dtype in ("float16", "bfloat16", "float32", "float64")
}
CASES |= {
    f"{direction}-{name}": convolution(direction=direction, **options)
    for direction in ("forward", "backward_data", "backward_filter")
    for name, options in {
        "line": {"pixels": (64,)},
        "volume": {"pixels": (6, 6, 6)},
        "channels first": {"last": False},
        "groups": {"groups": 4},
        "depthwise": {"groups": 32},
        "dilated": {"dilation": 2, "before": 2, "after": 2},
        "strided": {"stride": 2},
        "uneven padding": {"before": 0, "after": 2},
        "odd channels": {"channels": 3, "filters": 7},
        "unaligned": {"alignment": 2},
    }.items()
}
CASES |= {
    f"{'+'.join(epilogue)}-{dtype}": convolution(dtype, epilogue=epilogue)
    for epilogue in (("bias",), ("bias", "RELU_FWD"), ("add", "bias", "RELU_FWD"))
    for dtype in ("float16", "float32")
}
CASES |= {
    "bias, channels first": convolution(epilogue=("bias",), last=False),
    "int8": convolution("int8", math="int32"),
    "int8 to int32": convolution("int8", math="int32", out="int32"),
}
