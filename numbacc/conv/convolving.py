"""The functions of `numbacc.conv`: a convolution and its gradients, which share one cache of plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dispatch import graph_library, has_gpu
from ..base.docstrings import like
from ..base.layout import lengths_of
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import planned
from ..plan.saved import Saved
from ..runtime.streams import handle_of
from .plans import ConvPlan
from .problem import OPERANDS, SHAPES, ConvCall, plain
from .saved import check_activation, check_shape, opened, saved

_INTEGERS = frozenset([int])


def _forget() -> None:
    """Forget cuDNN's proposals, too. Without a GPU there is nothing to forget, and Numba may be missing."""
    if has_gpu():
        graph_library().algorithms.clear()


_plans = PlanCache(lambda *key: _made(*key), count=1024, forget=_forget)


def _are_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is tuple and _INTEGERS.issuperset(map(type, value)))


#: Options that are integers, or tuples of them -> a function that checks whether a value is valid.
_GUARDS = {
    "x_shape": _are_whole,
    "w_shape": _are_whole,
    "stride": _are_whole,
    "dilation": _are_whole,
    "padding": lambda padding: type(padding) is str or _are_whole(padding),
}


def _keep(**given: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of a call of `forward` with these arguments."""
    check_activation(given["activation"])
    return forward(**given), saved(given)


def _opened_data(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call of `backward_data` whose w is a saved object."""
    x, w, own = opened(given["w"], given, defaults)
    return {**given, "w": w, "x_shape": tuple(x.shape), **own}


def _opened_filter(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call of `backward_filter` whose x is a saved object."""
    x, w, own = opened(given["x"], given, defaults)
    return {**given, "x": x, "w_shape": tuple(w.shape), **own}


@planned(
    _plans,
    "ConvPlan",
    "x w",
    optional="bias",
    guards=_GUARDS,
    keep=_keep,
    call="plan(x, w, out=None, stream=None)`, or `plan(x, w, bias, ...)",
    example="""
>>> conv.forward.plan(np.ones((1, 1, 5)), np.ones((1, 1, 3)), layout="NCW").info.backend
'numpy'
""",
)
def forward(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    activation: str | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    flip: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    out_dtype: Any = None,
    compute: str | None = None,
    deterministic: bool = False,
    tune: bool = False,
    workspace_limit: int | None = None,
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute a convolution: y = activation(alpha (x * w) + beta out + bias).

        (x * w)[n, k, p] = Σ_c Σ_r w[k, c, r] x[n, c, p stride + r dilation - padding]

    This is a cross-correlation, as in torch and all other deep learning libraries; `flip` makes it a convolution as in
    mathematics. There are one, two or three spatial dimensions.

    Args:
        x: array in the order of `layout`, (N, C, ...) or (N, ..., C), any strides; float32, float64, float16, bfloat16
            or int8. N may be 0.
        w: kernels, in the same order: (K, C/groups, ...) or (K, ..., C/groups), of x's dtype.
        bias: None, or K elements of the result's dtype.
        activation: None, relu, leaky_relu (slope 0.01), gelu, gelu_tanh, silu, sigmoid, tanh or elu (factor 1). Results
            in int32 support only relu.
        stride, padding, dilation, groups, layout: as in `output_shape`.
        flip: whether kernels are flipped along all spatial dimensions.
        alpha, beta: scalars; a beta other than 0 needs `out`. If one of them is 0, the array that it scales is not
            read. A plan is made for one value. For int8, beta must be 0; for int32 results, alpha must be 1.
        out_dtype: dtype of the result. By default it is x's. For int8 it is "int32" or "float32", by default the dtype
            of out, or int32.
        compute: "tf32" lets tensor cores round float32 inputs to 10 bits of mantissa; "float32_fft" allows Fourier
            transforms in float32, with errors that are small relative to the largest sums nearby, not to each sum. By
            default float32 is exact float32. Sums of 16-bit floats are in float32, and sums of int8 in int32.
        deterministic: whether the same arrays must give the same bits on every run.
        tune: whether to measure cuDNN's plans and numbacc's kernels on the first call, wait for the results, and keep
            the fastest, also on disk.
        workspace_limit: bytes of scratch memory that cuDNN may use; 1 GiB if None.
        return_saved: whether to return a second object, which carries x, w and the options to
            `backward_data(dy, saved)` and `backward_filter(saved, dy)`; not with an activation.
        out: where to write the result, with its shape and dtype, any strides; it must not share memory with the other
            arrays.

    Returns:
        y, in the order of `layout`, contiguous; `out` if given. With return_saved (y, saved).

    Raises:
        ShapeError: a rank, a length, the channels or the groups do not fit (see `output_shape`), or bias or out has the
            wrong shape.
        DTypeError: a dtype is not supported, or the dtypes differ.
        OptionError: an option has an invalid value, or does not support this dtype.
        LayoutError: out shares memory with an argument, or its elements share memory.
        UnsupportedError: cuDNN does not support it on this GPU; the message gives the reasons.
        DeviceError: arrays on different devices. CudnnError: cuDNN is missing, or failed.

    A numbacc kernel runs after cuDNN and applies the part of the epilogue that cuDNN does not fuse
    (`forward.plan(...).info.backend` is then "cudnn+kernel"). This is the whole epilogue of float64 and int8; tanh and
    gelu_tanh of float32; and, if channels are not the innermost dimension, everything except a bias with or without
    ReLU. A 16-bit result is then rounded between the two. numbacc's own kernels run depthwise convolutions with
    channels innermost.

    Some cuDNN engines lose NaN: the ReLU that some of them fuse with a bias returns 0 for it, and a few others lose
    some NaN. For engines that are known to do so, `info.algorithm` says it ("its ReLU gives 0 for NaN"). NumPy and
    numbacc's kernels keep NaN. To keep NaN, call `elementwise.relu` after a call without an activation.

    Example:
        >>> x, w = np.arange(5.0).reshape(1, 1, 5), np.array([[[1.0, 0.0, -1.0]]])
        >>> conv.forward(x, w, layout="NCW")
        array([[[-2., -2., -2.]]])
    """
    options = (activation, stride, padding, dilation, groups, layout, flip, alpha, beta, out_dtype, compute)
    return _find("forward", x, w, bias, out, None, (*options, deterministic, tune, workspace_limit), stream)


@planned(
    _plans,
    "ConvPlan",
    "dy w",
    guards=_GUARDS,
    opens=("w", _opened_data),
    of=forward,
    example="""
>>> conv.backward_data.plan(np.ones((1, 1, 3)), np.ones((1, 1, 3)), (1, 1, 5), layout="NCW").info.op
'conv.backward_data'
""",
)
@like(forward)
def backward_data(
    dy: Any,
    w: Any,
    x_shape: Any = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    flip: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    compute: str | None = None,
    deterministic: bool = False,
    tune: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute the gradient with respect to x of a loss whose gradient with respect to y = x * w is dy ("dgrad").

        dx[n, c, i] = alpha Σ_k Σ_(p, r) dy[n, k, p] w[k, c, r] + beta out,  over p stride + r dilation - padding = i

    This is also the transposed convolution of dy. A saved object holds the options stride to alpha, and compute. If
    you do not use a saved object, pass the same options as to `forward`. If you forget one and the shapes fit
    nevertheless, the gradient is wrong and no error is raised.

    Args:
        dy: array with the shape of the output; float32, float64, float16 or bfloat16.
        w: the saved object of `forward(..., return_saved=True)`, as in `backward_data(dy, saved)`. Or the kernels, of
            dy's dtype; then x_shape is required.
        x_shape: the shape of x. If stride is not 1, the shapes of dy and w do not determine it.

    Returns:
        dx, with the shape x_shape, contiguous; `out` if given.

    Raises:
        ShapeError: a rank, a length, the channels or the groups do not fit (see `output_shape`), or dy does not have
            the shape of the output.
        ArgumentsError: neither saved nor x_shape is given.
        DTypeError: a dtype is not supported, or the dtypes differ; gradients do not support int8.

    Example:
        >>> x, w = np.ones((1, 1, 5)), np.array([[[1.0, 0.0, -1.0]]])
        >>> y, saved = conv.forward(x, w, layout="NCW", return_saved=True)
        >>> conv.backward_data(np.ones_like(y), saved)
        array([[[ 1.,  1.,  0., -1., -1.]]])
    """
    check_shape(x_shape, "backward_data")
    options = (None, stride, padding, dilation, groups, layout, flip, alpha, beta, None, compute)
    return _find("backward_data", dy, w, None, out, x_shape, (*options, deterministic, tune, workspace_limit), stream)


@planned(
    _plans,
    "ConvPlan",
    "x dy",
    guards=_GUARDS,
    opens=("x", _opened_filter),
    of=forward,
    example="""
>>> conv.backward_filter.plan(np.ones((1, 1, 5)), np.ones((1, 1, 3)), (1, 1, 3), layout="NCW").info.op
'conv.backward_filter'
""",
)
@like(forward)
def backward_filter(
    x: Any,
    dy: Any,
    w_shape: Any = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    layout: str = "NCHW",
    flip: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    compute: str | None = None,
    deterministic: bool = False,
    tune: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute the gradient with respect to w of a loss whose gradient with respect to y = x * w is dy ("wgrad").

        dw[k, c, r] = alpha Σ_n Σ_p dy[n, k, p] x[n, c, p stride + r dilation - padding] + beta out

    With beta=1, gradients accumulate in `out`. A saved object holds the options stride to alpha, and compute. If
    you do not use a saved object, pass the same options as to `forward`. If you forget one and the shapes fit
    nevertheless, the gradient is wrong and no error is raised.

    Args:
        x: the saved object of `forward(..., return_saved=True)`, as in `backward_filter(saved, dy)`. Or the input;
            float32, float64, float16 or bfloat16.
        dy: array with the shape of the output, of x's dtype.
        w_shape: the shape of w; a saved object holds it.

    Returns:
        dw, with the shape w_shape, contiguous; `out` if given.

    Raises:
        ShapeError: a rank, a length, the channels or the groups do not fit (see `output_shape`), or dy does not have
            the shape of the output.
        ArgumentsError: neither saved nor w_shape is given.
        DTypeError: a dtype is not supported, or the dtypes differ; gradients do not support int8.

    Example:
        >>> x = np.arange(5.0).reshape(1, 1, 5)
        >>> y, saved = conv.forward(x, np.ones((1, 1, 3)), layout="NCW", return_saved=True)
        >>> conv.backward_filter(saved, np.ones_like(y))
        array([[[3., 6., 9.]]])
    """
    check_shape(w_shape, "backward_filter")
    options = (None, stride, padding, dilation, groups, layout, flip, alpha, beta, None, compute)
    return _find("backward_filter", x, dy, None, out, w_shape, (*options, deterministic, tune, workspace_limit), stream)


def _find(
    direction: str, a: Any, b: Any, bias: Any, out: Any, shape: Any, options: tuple[Any, ...], stream: Any
) -> Any:
    """Return the planned call of a function, given its arguments."""
    names, handle = OPERANDS[direction], handle_of(stream)
    inputs = [operands.as_array(array, name, handle) for array, name in zip((a, b), names, strict=True)]
    if bias is not None:
        inputs.append(operands.as_array(bias, "bias", handle))
    outs = None if out is None else [operands.as_array(out, "out", handle)]
    layouts = [operands.layout_of(array) for array in inputs]
    target = None if outs is None else operands.layout_of(outs[0])
    if direction == "forward":
        key = (direction, *plain(*options), target, layouts[2] if bias is not None else None, *layouts[:2])
    else:
        # Gradients have neither an activation nor out_dtype.
        found, lengths = plain(*options), lengths_of(shape, name=SHAPES[direction])
        key = (direction, lengths, *found[1:9], *found[10:], target, *layouts)
    return _plans.find(key), inputs, outs, handle, ()


def _made(direction: str, *parts: Any) -> ConvPlan:
    """Make the plan of a key."""
    if direction == "forward":
        *options, target, bias, a, b = parts
        return ConvPlan(ConvCall(direction, a, b, bias, target, None, *options))
    shape, *options, target, a, b = parts
    return ConvPlan(ConvCall._make((direction, a, b, None, target, shape, None, *options[:8], None, *options[8:])))


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)
