"""`numbacc.conv`'s functions: a convolution and its gradients, each over one cache of plans."""

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
    """Forget what cuDNN proposed, too, where there is a GPU: without Numba there is nothing that could."""
    if has_gpu():
        graph_library().algorithms.clear()


_plans = PlanCache(lambda *key: _made(*key), count=1024, forget=_forget)


def _are_whole(value: Any) -> bool:
    return type(value) is int or (type(value) is tuple and _INTEGERS.issuperset(map(type, value)))


#: Options that are integers, or tuples of them -> whether a value is one.
_GUARDS = {
    "x_shape": _are_whole,
    "w_shape": _are_whole,
    "stride": _are_whole,
    "dilation": _are_whole,
    "padding": lambda padding: type(padding) is str or _are_whole(padding),
}


def _keep(**given: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of a call with these arguments."""
    check_activation(given["activation"])
    return forward(**given), saved(given)


def _opened_data(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a gradient in which w is a saved object."""
    x, w, own = opened(given["w"], given, defaults)
    return {**given, "w": w, "x_shape": tuple(x.shape), **own}


def _opened_filter(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a gradient in which x is a saved object."""
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
    """Convolve: y = activation(alpha (x * w) + beta out + bias), where

        (x * w)[n, k, p] = Σ_c Σ_r w[k, c, r] x[n, c, p stride + r dilation - padding]

    is a cross-correlation, as in torch and every other library of the field; `flip` makes it a convolution as in
    mathematics. One, two or three spatial dimensions.

    Args:
        x: array in the order of `layout`, (N, C, ...) or (N, ..., C), any strides; float32, float64, float16, bfloat16
            or int8. N may be 0.
        w: kernels, in the same order: (K, C/groups, ...) or (K, ..., C/groups), of x's dtype.
        bias: None, or K numbers of the result's dtype.
        activation: None, relu, leaky_relu (slope 0.01), gelu, gelu_tanh, silu, sigmoid, tanh or elu (factor 1). Of
            int32 relu alone.
        stride, padding, dilation, groups, layout: as in `output_shape`.
        flip: whether kernels are flipped along all spatial dimensions.
        alpha, beta: numbers; beta other than 0 needs `out`. Where one is 0, what it would scale is not read. A plan is
            made for each. Of int8 beta is 0, and of int32 alpha is 1.
        out_dtype: of the result: x's; of int8 "int32" or "float32", by default that of out, or int32.
        compute: "tf32" lets tensor cores shorten products of float32 to 10 bits; "float32_fft" lets Fourier transforms
            of float32 be multiplied, whose errors are small beside the largest sums around, not beside each. By default
            float32 is float32; 16-bit floats are added up in float32, and int8 in int32.
        deterministic: whether the same arrays must give the same bits on every run.
        tune: measure cuDNN's plans, and kernels of ours, the first time, wait for that, and keep the fastest, also on
            disk.
        workspace_limit: bytes of scratch memory that cuDNN may use; 1 GiB if None.
        return_saved: whether to return a second object, which carries x, w and the options to
            `backward_data(dy, saved)` and `backward_filter(saved, dy)`; not with an activation.
        out: where to write the result, of its shape and dtype, any strides; it shares no memory with the others.

    Returns:
        y, in the order of `layout`, contiguous; `out` if given. With return_saved (y, saved).

    Raises:
        ShapeError: as `output_shape`; bias or out has another shape.
        DTypeError: dtypes other than these, or not one dtype.
        OptionError: an option is not one of these, or not for this dtype.
        LayoutError: out shares memory with an argument, or its elements share memory.
        UnsupportedError: cuDNN has no engine for it on this GPU; the message says what each lacks.
        DeviceError: arrays on different devices. CudnnError: cuDNN is missing, or failed.

    What cuDNN does not fuse a kernel of ours does behind it (`forward.plan(...).info.backend` is "cudnn+kernel"):
    all that follows float64 and int8, tanh and gelu_tanh of float32, and where channels are not the
    innermost dimension all but ReLU behind a bias; a 16-bit result is then rounded between the two. Depthwise
    convolutions with channels innermost are our kernels'.

    NaN is lost where cuDNN loses it: the ReLU that some of its engines fuse with a bias gives 0 for it, and few others
    lose some of it. `info.algorithm` says so of engines that were seen to do it ("its ReLU gives 0 for NaN"). NumPy and
    our kernels keep NaN: so does `elementwise.relu` behind a call without an activation.

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
    """The gradient with respect to x of a loss whose gradient with respect to y = x * w is dy ("dgrad"):

        dx[n, c, i] = alpha Σ_k Σ_(p, r) dy[n, k, p] w[k, c, r] + beta out,  over p stride + r dilation - padding = i

    which is also the transposed convolution of dy.

    Args:
        dy: array of the shape of the output; floats as in `forward`.
        w: the saved object of `forward(..., return_saved=True)`, as in `backward_data(dy, saved)`. Or the kernels, with
        x_shape: the shape of x, which does not follow from those of dy and w where stride is not 1.
        The others: the same as in `forward`; a saved object holds stride to alpha, and compute. If one is forgotten,
            and the shapes fit nevertheless, the gradient is wrong and nothing reports it.

    Returns:
        dx, of x_shape, contiguous; `out` if given.

    Raises:
        ShapeError: dy has another shape than the output. ArgumentsError: there is neither saved nor x_shape. The
        others as in `forward`; int8 has no gradients.

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
    """The gradient with respect to w of a loss whose gradient with respect to y = x * w is dy ("wgrad"):

        dw[k, c, r] = alpha Σ_n Σ_p dy[n, k, p] x[n, c, p stride + r dilation - padding] + beta out

    Args:
        x: the saved object of `forward(..., return_saved=True)`, as in `backward_filter(saved, dy)`. Or the input,
            floats as in `forward`.
        dy: array of the shape of the output.
        w_shape: the shape of w, which a saved object holds.
        The others: as in `backward_data`. With beta=1 and out gradients add up.

    Returns:
        dw, of w_shape, contiguous; `out` if given.

    Raises:
        ShapeError: dy has another shape than the output. ArgumentsError: there is neither saved nor w_shape. The
        others as in `forward`; int8 has no gradients.

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
    """Return the planned call of a function."""
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
    """Return the plan of a key."""
    if direction == "forward":
        *options, target, bias, a, b = parts
        return ConvPlan(ConvCall(direction, a, b, bias, target, None, *options))
    shape, *options, target, a, b = parts
    return ConvPlan(ConvCall._make((direction, a, b, None, target, shape, None, *options[:8], None, *options[8:])))


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)
