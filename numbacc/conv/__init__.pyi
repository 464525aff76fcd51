# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Convolutions in one, two and three dimensions with cuDNN: forward and backward, channels first or last, with groups."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    ConvActivation,
    ConvCompute,
    ConvLayout,
    ConvPadding,
    DTypeLike,
    DeviceArray,
    NumPyArray,
    Shape,
)
from numbacc.conv.plans import ConvPlan
from numbacc.libraries.cudnn_elsewhere import Support
from numbacc.plan.cache import CacheInfo
from numbacc.plan.saved import Saved

__all__ = [
    "Request",
    "backward_data",
    "backward_filter",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "forward",
    "output_shape",
]


from numbacc.conv.requests import Request as Request

class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class backward_data(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, w: NumPyArray | Saved, x_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, w: AnyArray | Saved, x_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyArray, w: NumPyArray | Saved, x_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> ConvPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, w: AnyArray | Saved, x_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> ConvPlan[DeviceArray]: ...
        def request(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, workspace_limit: int | None = None,
        ) -> Request: ...
        def supports(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, workspace_limit: int | None = None,
            device: int | str = 'H200',
        ) -> Support: ...

    class backward_filter(_Function):
        @overload
        def __call__(
            self, x: NumPyArray | Saved, dy: NumPyArray, w_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray | Saved, dy: AnyArray, w_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, x: NumPyArray | Saved, dy: NumPyArray, w_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> ConvPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray | Saved, dy: AnyArray, w_shape: Sequence[int] | None = None, *, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, tune: bool = False,
            workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> ConvPlan[DeviceArray]: ...
        def request(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, workspace_limit: int | None = None,
        ) -> Request: ...
        def supports(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            compute: ConvCompute | None = None, deterministic: bool = False, workspace_limit: int | None = None,
            device: int | str = 'H200',
        ) -> Support: ...

    class forward(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, w: NumPyArray, bias: NumPyArray | None = None, *,
            activation: ConvActivation | None = None, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, return_saved: Literal[False] = False,
            out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, bias: AnyArray | None = None, *, activation: ConvActivation | None = None,
            stride: Shape = 1, padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1,
            groups: int = 1, layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, return_saved: Literal[False] = False,
            out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, x: NumPyArray, w: NumPyArray, bias: NumPyArray | None = None, *,
            activation: ConvActivation | None = None, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, return_saved: Literal[True],
            out: NumPyArray | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, bias: AnyArray | None = None, *, activation: ConvActivation | None = None,
            stride: Shape = 1, padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1,
            groups: int = 1, layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, return_saved: Literal[True],
            out: AnyArray | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, bias: AnyArray | None = None, *, activation: ConvActivation | None = None,
            stride: Shape = 1, padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1,
            groups: int = 1, layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, return_saved: bool = False,
            out: AnyArray | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray, w: NumPyArray, bias: NumPyArray | None = None, *,
            activation: ConvActivation | None = None, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, out: NumPyArray | None = None,
        ) -> ConvPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, w: AnyArray, bias: AnyArray | None = None, *, activation: ConvActivation | None = None,
            stride: Shape = 1, padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1,
            groups: int = 1, layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            tune: bool = False, workspace_limit: int | None = None, out: AnyArray | None = None,
        ) -> ConvPlan[DeviceArray]: ...
        def request(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', bias: bool = False,
            activation: ConvActivation | None = None, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            workspace_limit: int | None = None,
        ) -> Request: ...
        def supports(
            self, x_shape: Sequence[int], w_shape: Sequence[int], *, dtype: DTypeLike = 'float32', bias: bool = False,
            activation: ConvActivation | None = None, stride: Shape = 1,
            padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: Shape = 1, groups: int = 1,
            layout: ConvLayout = 'NCHW', flip: bool = False, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ConvCompute | None = None, deterministic: bool = False,
            workspace_limit: int | None = None, device: int | str = 'H200',
        ) -> Support: ...
        backward_data: _Functions.backward_data
        backward_filter: _Functions.backward_filter

backward_data: _Functions.backward_data
"""Compute the gradient with respect to x of a loss whose gradient with respect to y = x * w is dy ("dgrad")."""

backward_filter: _Functions.backward_filter
"""Compute the gradient with respect to w of a loss whose gradient with respect to y = x * w is dy ("wgrad")."""

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

forward: _Functions.forward
"""Compute a convolution: y = activation(alpha (x * w) + beta out + bias)."""

def output_shape(
    x_shape: Sequence[int], w_shape: Sequence[int], *, stride: int | Sequence[int] = 1,
    padding: ConvPadding | int | Sequence[int | Sequence[int]] = 0, dilation: int | Sequence[int] = 1, groups: int = 1,
    layout: ConvLayout = 'NCHW',
) -> tuple[int, ...]: ...
