"""Requests: convolutions without arrays, for `numbacc.cudnn.supports` to ask about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.checks import boolean
from ..base.dtypes import dtype as dtype_of
from ..base.layout import Layout, layout, row_major_strides
from ..errors import UnsupportedError
from ..libraries.cudnn_graph import CudnnGraph, Wants
from ..libraries.cudnn_support import asked
from .convolving import backward_data, backward_filter, forward
from .geometry import geometry
from .lowering import Way, forms, lower, room, widened
from .problem import OPERANDS, OPTIONS, ConvCall, ConvProblem, plain, resolve


class Request:
    """A description of a convolution, or of a gradient, without arrays.

    Attributes:
        problem: the convolution, checked.
        wants: the requirements on its plan.

    Example:
        >>> len(conv.forward.request((8, 64, 56, 56), (64, 64, 3, 3)).graphs())
        2
    """

    def __init__(self, problem: ConvProblem):
        self.problem = problem
        self.wants: Wants = problem.wants

    def graphs(self) -> list[CudnnGraph]:
        """Return cuDNN's graphs of the request, best first.

        A graph with a fused epilogue is followed by graphs that leave more of it to numbacc's kernel; or they come
        first, if the fused graph's engines are slow. Graphs of copies with the channels moved in memory are next.
        Equivalent convolutions come before all others if they are faster, else after them: a convolution for a gradient
        of images, and windows or deeper images for images with few channels. For int8, the graph in floats is last.

        Raises:
            UnsupportedError: nothing is summed, so cuDNN does not run.
        """
        problem, aligned = self.problem, (True,) * (len(self.problem.inputs) + 1)
        if problem.sums_nothing:
            raise UnsupportedError("with an empty batch or alpha=0 nothing is summed, so cuDNN does not run")
        found = [form for form in forms(problem, aligned) if room(problem, form) >= 0]
        if problem.call.a.dtype.name == "int8":
            found.append(lower(widened(problem), Way(False, False), (True,) * 3))
        return [graph for form in found for graph in form.graphs]

    def __repr__(self) -> str:
        call, found = self.problem.call, self.problem.geometry
        more = ["bias"] * (call.bias is not None)
        more += [f"activation {call.activation}"] * (call.activation is not None)
        text = f"conv.{call.direction} of {call.a.dtype}, {call.layout}: x {found.x_shape}, w {found.w_shape}"
        return f"<{', '.join([text, f'y {found.y_shape}', *more])}>"


def request(
    direction: str,
    options: Mapping[str, Any],
    x_shape: Any,
    w_shape: Any,
    *,
    dtype: Any = "float32",
    bias: bool = False,
) -> Request:
    """Make the request of `forward.request`, `backward_data.request` or `backward_filter.request`.

    Args:
        direction: the function's name.
        options: its options.
        x_shape, w_shape: shapes of input and kernels, in the order of `layout`.
        dtype: dtype of the operands.
        bias: whether the call has a bias; it has the result's dtype.
    """
    given = dict.fromkeys(OPTIONS) | {"tune": False} | dict(options)
    window = {name: given[name] for name in ("stride", "padding", "dilation", "groups", "layout", "flip")}
    found = geometry(x_shape, w_shape, **window, names=("x_shape", "w_shape"))
    kind = dtype_of(dtype)
    shapes = {"x": found.x_shape, "w": found.w_shape, "dy": found.y_shape}
    first, second = (_contiguous(shapes[name], kind) for name in OPERANDS[direction])
    whole = {"forward": found.y_shape, "backward_data": found.x_shape, "backward_filter": found.w_shape}[direction]
    result = kind if kind.name != "int8" else dtype_of(given["out_dtype"] or "int32")
    call = ConvCall(
        direction,
        first,
        second,
        _contiguous((found.filters,), result) if boolean(bias, "bias") else None,
        _contiguous(whole, result),
        None if direction == "forward" else whole,
        *plain(**given),
    )
    return Request(resolve(call))


def _contiguous(shape: tuple[int, ...], kind: np.dtype[Any]) -> Layout:
    return layout(shape, row_major_strides(shape, int(kind.itemsize)), kind, 0)


for _each in (forward, backward_data, backward_filter):
    asked(
        _each,
        request,
        [name for name in OPTIONS if name != "tune"],
        without="" if _each is forward else "bias",
        shapes='(8, 56, 56, 64), (64, 3, 3, 64), layout="NHWC", dtype="float16", padding=1',
        example=f"<conv.{_each.__name__} of float16, NHWC: x (8, 56, 56, 64), w (64, 3, 3, 64), y (8, 56, 56, 64)>",
    )
