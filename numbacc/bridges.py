"""The shared part of the bridges to torch and JAX: calls of numbacc's functions, their plans, and options.

A bridge computes by a call of `CALLS`, which takes arrays for the results, then the arguments: arrays first. The arrays
are NumPy arrays, or device arrays in the other library's memory.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from . import attention as _attention
from . import conv as _conv
from . import elementwise as _ew
from . import gated as _gated
from . import gemm as _gemm
from . import nn as _nn
from .arrays import operands
from .elementwise import losses as _losses
from .elementwise.calling import plans
from .elementwise.custom_kernels import Kernel
from .elementwise.custom_reductions import Reduction
from .elementwise.operation import WithNumbers
from .elementwise.planning import SeveralPlan
from .errors import ShapeError
from .functions.formula import digest
from .gemm import matmul
from .runtime.operation import Operation

# ---------------------------------------------------------------- calls


class FunctionCall(NamedTuple):
    """A call of a function of numbacc's, without the stream."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: dict[str, Any]


def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> FunctionCall:
    """Return a call that has not been made."""
    return FunctionCall(function, arguments, options)


#: Name -> (results, *arguments) -> the call that computes them.
CALLS: dict[str, Callable[..., FunctionCall]] = {}
F = TypeVar("F", bound=Callable[..., FunctionCall])


def _named(function: F) -> F:
    CALLS[function.__name__] = function
    return function


@_named
def gated(outs: Any, x: Any, kind: str, axis: int, gate: str) -> FunctionCall:
    return call(_gated.forward, x, kind, axis=axis, gate=gate, out=outs[0])


@_named
def gated_backward(outs: Any, dy: Any, x: Any, kind: str, axis: int, gate: str) -> FunctionCall:
    return call(_gated.backward, dy, x, kind, axis=axis, gate=gate, out=outs[0])


@_named
def gated_pair(outs: Any, a: Any, b: Any, kind: str, gate: str) -> FunctionCall:
    return call(_gated.forward, (a, b), kind, gate=gate, out=outs[0])


@_named
def gated_pair_backward(outs: Any, dy: Any, a: Any, b: Any, kind: str, gate: str) -> FunctionCall:
    return call(_gated.backward, dy, (a, b), kind, gate=gate, out=outs)


@_named
def matmul_of(outs: Any, a: Any, b: Any) -> FunctionCall:
    return call(_gemm.matmul, a, b, out=outs[0])


@_named
def linear(outs: Any, x: Any, w: Any, bias: Any, activation: str) -> FunctionCall:
    kind = "_".join(each for each in (activation, "" if bias is None else "bias") if each) or "none"
    return call(_gemm.matmul, x, w.T, bias=bias, epilogue=kind, out=outs[0])


@_named
def linear_gelu(outs: Any, x: Any, w: Any, bias: Any) -> FunctionCall:
    """Two results: the activation's, and its argument."""
    kind = "gelu_aux" if bias is None else "gelu_aux_bias"
    return call(_gemm.matmul, x, w.T, bias=bias, aux=outs[1], epilogue=kind, out=outs[0])


@_named
def linear_weight_backward(outs: Any, dz: Any, x: Any) -> FunctionCall:
    """The gradients with respect to weight and bias."""
    return call(_gemm.matmul, dz.T, x, epilogue="bgrada", out=outs)


@_named
def activation_backward(outs: Any, dy: Any, z: Any, activation: str) -> FunctionCall:
    function = _ew.relu_backward if activation == "relu" else _ew.gelu_tanh_backward
    return call(function, dy, z, out=outs[0])


@_named
def attention(
    outs: Any, q: Any, k: Any, v: Any, bias: Any, offset: Any, mask: str, window: int, scale: float, p: float
) -> FunctionCall:
    """The second result, which gradients need, may be left out: the statistics of the rows."""
    more = {"return_stats": True, "out": outs} if len(outs) > 1 else {"out": outs[0]}
    return call(
        _attention.forward, q, k, v, mask=mask_of(mask, window), bias=bias, scale=scale, dropout=p,
        offset=0 if offset is None else offset, **more,
    )  # fmt: skip


@_named
def attention_backward(
    outs: Any, do: Any, q: Any, k: Any, v: Any, bias: Any, offset: Any, o: Any, stats: Any,
    mask: str, window: int, scale: float, p: float, needs_bias: bool,
) -> FunctionCall:  # fmt: skip
    return call(
        _attention.backward, do, q, k, v, o, stats, mask=mask_of(mask, window), bias=bias, scale=scale, dropout=p,
        offset=0 if offset is None else offset, bias_grad=needs_bias, out=outs,
    )  # fmt: skip


@_named
def conv(outs: Any, x: Any, w: Any, bias: Any, *how: Any) -> FunctionCall:
    return call(_conv.forward, x, w, bias, **_geometry(x, *how), out=outs[0])


@_named
def conv_backward_data(outs: Any, dy: Any, w: Any, x: Any, *how: Any) -> FunctionCall:
    return call(_conv.backward_data, dy, w, tuple(x.shape), **_geometry(x, *how), out=outs[0])


@_named
def conv_backward_filter(outs: Any, dy: Any, w: Any, x: Any, *how: Any) -> FunctionCall:
    return call(_conv.backward_filter, x, dy, tuple(w.shape), **_geometry(x, *how), out=outs[0])


@_named
def rms_norm(outs: Any, x: Any, weight: Any, eps: float) -> FunctionCall:
    return call(_ew.rms_norm, x, weight, eps=eps, out=outs[0])


@_named
def rms_norm_backward(outs: Any, dy: Any, x: Any, weight: Any, eps: float) -> FunctionCall:
    return call(_ew.rms_norm_backward, dy, x, weight, eps=eps, out=outs if weight is not None else outs[0])


@_named
def add_rms_norm(outs: Any, x: Any, residual: Any, weight: Any, eps: float) -> FunctionCall:
    """Two results: the norm, and the sum."""
    return call(_ew.add_rms_norm, x, residual, weight, eps=eps, out=outs)


@_named
def add_rms_norm_backward(outs: Any, dy: Any, dtotal: Any, total: Any, weight: Any, eps: float) -> FunctionCall:
    out = outs if weight is not None else outs[0]
    return call(_ew.add_rms_norm_backward, dy, dtotal, total, weight, eps=eps, out=out)


@_named
def add_layer_norm(outs: Any, x: Any, residual: Any, weight: Any, bias: Any, eps: float) -> FunctionCall:
    """Two results: the norm, and the sum."""
    return call(_ew.add_layer_norm, x, residual, weight, bias, eps=eps, out=outs)


@_named
def add_layer_norm_backward(
    outs: Any, dy: Any, dtotal: Any, total: Any, weight: Any, bias: Any, eps: float
) -> FunctionCall:
    out = outs if weight is not None else outs[0]
    options = {"bias": bias is not None, "eps": eps, "out": out}
    return call(_ew.add_layer_norm_backward, dy, dtotal, total, weight, **options)


@_named
def layer_norm(outs: Any, x: Any, weight: Any, bias: Any, eps: float) -> FunctionCall:
    return call(_ew.layer_norm, x, weight, bias, eps=eps, out=outs[0])


@_named
def layer_norm_backward(outs: Any, dy: Any, x: Any, weight: Any, bias: Any, eps: float) -> FunctionCall:
    return call(
        _ew.layer_norm_backward, dy, x, weight, bias=bias is not None, eps=eps,
        out=outs if weight is not None else outs[0],
    )  # fmt: skip


@_named
def softmax(outs: Any, x: Any, axis: int) -> FunctionCall:
    return call(_ew.softmax, x, axis=axis, out=outs[0])


@_named
def softmax_backward(outs: Any, dy: Any, y: Any, axis: int) -> FunctionCall:
    return call(_ew.softmax_backward, dy, y, axis=axis, out=outs[0])


@_named
def log_softmax(outs: Any, x: Any, axis: int) -> FunctionCall:
    return call(_ew.log_softmax, x, axis=axis, out=outs[0])


@_named
def log_softmax_backward(outs: Any, dy: Any, y: Any, axis: int) -> FunctionCall:
    return call(_ew.log_softmax_backward, dy, y, axis=axis, out=outs[0])


@_named
def cross_entropy(
    outs: Any, x: Any, target: Any, axis: int, reduction: str, ignore_index: int, smoothing: float
) -> FunctionCall:
    """Two results: the loss, and the statistics of the rows, which gradients need."""
    return call(
        _ew.cross_entropy, x, target, axis=axis, reduction=reduction, ignore_index=ignore_index,
        label_smoothing=smoothing, return_stats=True, out=outs,
    )  # fmt: skip


@_named
def cross_entropy_backward(
    outs: Any, dy: Any, x: Any, target: Any, stats: Any, axis: int, reduction: str, ignore_index: int, smoothing: float
) -> FunctionCall:
    return call(
        _ew.cross_entropy_backward, dy, x, target, stats=stats, axis=axis, reduction=reduction,
        ignore_index=ignore_index, label_smoothing=smoothing, out=outs[0],
    )  # fmt: skip


@_named
def cross_entropy_share(outs: Any, dy: Any, target: Any, ignore_index: int) -> FunctionCall:
    """The gradient of a mean of losses with respect to each of them."""
    return call(_share, dy, target, ignore_index=ignore_index, out=outs[0])


def _share(dy: Any, target: Any, *, ignore_index: int, out: Any, stream: Any = None) -> None:
    _share_plan(dy, target, ignore_index, out).run((dy, target), (out,), True, stream)


def _share_plan(dy: Any, target: Any, ignore_index: int, out: Any) -> Any:
    one, other, result = map(operands.layout_of, (dy, target, out))
    return plans.find((_losses.share_of, (one, other), result, ignore_index, result.dtype))


@_named
def linear_cross_entropy(
    outs: Any,
    x: Any,
    w: Any,
    target: Any,
    bias: Any,
    reduction: str,
    ignore_index: int,
    smoothing: float,
    gradients: bool,
) -> FunctionCall:
    """The results are the loss and, if requested, the gradients with respect to x, w and bias."""
    return call(
        _fill_loss, outs, x, w.T, target, bias, gradients, reduction=reduction, ignore_index=ignore_index,
        label_smoothing=smoothing,
    )  # fmt: skip


def _fill_loss(
    outs: Any, x: Any, w: Any, target: Any, bias: Any, gradients: bool, *, stream: Any = None, **options: Any
) -> None:
    loss, dx, dw, dbias = outs
    given = (dx, dw.T, None if bias is None else dbias) if gradients else None
    found, _ = _nn.linear_cross_entropy(x, w, target, bias, **options, gradients=gradients, out=given, stream=stream)
    _ew.copy(found, out=loss, stream=stream)


@_named
def rope(outs: Any, x: Any, cos: Any, sin: Any, interleaved: bool) -> FunctionCall:
    return call(_ew.rope, x, cos, sin, interleaved=interleaved, out=outs[0])


@_named
def rope_backward(outs: Any, dy: Any, cos: Any, sin: Any, interleaved: bool) -> FunctionCall:
    return call(_ew.rope_backward, dy, cos, sin, interleaved=interleaved, out=outs[0])


@_named
def dropout(outs: Any, x: Any, offset: Any, p: float) -> FunctionCall:
    return call(_ew.dropout, x, p, seed=0, offset=offset, out=outs[0])


def dropout_by_seed(outs: Any, x: Any, seed: int, p: float) -> FunctionCall:
    return call(_ew.dropout, x, p, seed=seed, out=outs[0])


# ---------------------------------------------------------------- options of users


def check_activation(activation: Any) -> None:
    """Raise ValueError unless `linear` has the activation."""
    if activation not in (None, "relu", "gelu"):
        raise ValueError(f'activation is {activation!r}; it is None, "relu" or "gelu"')


_MASKS = (None, "causal", "causal_bottom_right")
_WINDOWS = {"window": _attention.SlidingWindow, "causal_window": _attention.CausalSlidingWindow}


def named_mask(mask: Any) -> tuple[str, int]:
    """Return a mask of attention as the name and the length that `CALLS` take.

    Raises:
        TypeError, ValueError: it is none.
    """
    if mask is None:
        return "", 0
    for name, kind in _WINDOWS.items():
        if type(mask) is kind:
            return name + "_bottom_right" * mask.bottom_right, mask.length
    if hasattr(mask, "shape"):
        where = "torch" if type(mask).__module__.partition(".")[0] == "torch" else "jnp"
        what = "a tensor" if where == "torch" else "an array"
        raise TypeError(
            f"mask is {what}; numbacc adds bias= to the scores instead: bias={where}.where(mask, 0.0, -math.inf)"
        )
    if mask not in _MASKS:
        raise ValueError(f"mask is {mask!r}; it is one of {', '.join(map(repr, _MASKS))}, or a window")
    return mask or "", 0


def mask_of(name: str, window: int) -> Any:
    """Return the mask that `named_mask` named."""
    if not window:
        return name or None
    return _WINDOWS[name.removesuffix("_bottom_right")](window, bottom_right=name.endswith("_bottom_right"))


_LAYOUTS = {3: "NCW", 4: "NCHW", 5: "NCDHW"}


def _pairs(numbers: Sequence[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _geometry(x: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    return {
        "stride": tuple(stride), "padding": _pairs(padding), "dilation": tuple(dilation), "groups": groups,
        "layout": _LAYOUTS[x.ndim],
    }  # fmt: skip


def conv_options(
    x: Any, weight: Any, stride: int | Sequence[int], padding: int | str | Sequence[int], dilation: int | Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return stride, padding and dilation of a convolution as `CALLS` take them.

    Args:
        x, weight: objects with shapes (N, C, ...) and (K, C/groups, ...).
        stride, dilation: an integer, or one for each spatial dimension.
        padding: zeros on both sides: an integer, or one for each spatial dimension; "valid" or "same".

    Returns:
        strides; zeros before and after each spatial dimension, in one row; dilations.

    Raises:
        ShapeError: a rank that no convolution has.
    """
    rank = x.ndim - 2
    if x.ndim not in _LAYOUTS or weight.ndim != x.ndim:
        raise ShapeError(
            f"x has rank {x.ndim} and weight rank {weight.ndim}; both must be 3 (N, C, W), 4 (N, C, H, W) or 5: "
            "x[None] adds a batch axis"
        )

    def each(value: int | Sequence[int]) -> tuple[int, ...]:
        return (value,) * rank if isinstance(value, int) else tuple(value)

    strides, dilations = each(stride), each(dilation)
    if padding == "same":
        zeros = [d * (taps - 1) for d, taps in zip(dilations, weight.shape[2:], strict=True)]
        both = tuple(n for total in zeros for n in (total // 2, total - total // 2))
    else:
        both = tuple(n for n in each(0 if padding == "valid" else padding) for _ in "ab")  # type: ignore[arg-type]
    return strides, both, dilations


def conv_lengths(x: Any, w: Any, stride: Any, padding: Any, dilation: Any) -> list[int]:
    """Return the lengths of a convolution's result in its spatial dimensions."""
    return [
        (n + a + b - (taps - 1) * d - 1) // s + 1
        for n, taps, s, (a, b), d in zip(x.shape[2:], w.shape[2:], stride, _pairs(padding), dilation, strict=True)
    ]


def axes_of(axis: int | Sequence[int] | None) -> tuple[int, ...] | None:
    """Return the axes of a reduction as a tuple; None for all."""
    return axis if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def reduced(shape: Sequence[int], axis: Sequence[int] | None, keepdims: bool) -> list[int]:
    """Return the shape of a reduction's result."""
    axes = range(len(shape)) if axis is None else [each % len(shape) for each in axis if -len(shape) <= each]
    return [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]


# ---------------------------------------------------------------- plans


class LightArray:
    """The address and the storage of a device array, which is all that a plan needs to run."""

    __slots__ = ("_address", "_storage")
    _readonly = False

    def __init__(self, address: int, storage: Any):
        self._address, self._storage = address, storage


def planned(called: FunctionCall, stream: int) -> tuple[Any, Sequence[Any], Any, Any] | None:
    """Return the plan of a call, its inputs, the arrays for its results, and its scalars; None if it is not known."""
    function: Any = called.function
    arguments, options = called.arguments, called.options
    if isinstance(function, (Kernel, Reduction)):
        return _planned_kernel(called)
    # The function that `plan.calls.planned` has made public returns its plan and its arrays.
    if function is _share:
        return _share_plan(*arguments, **options), arguments, [options["out"]], ()
    body = getattr(function, "__wrapped__", None)
    if not isinstance(function, FunctionType) or body is None:
        return None
    found = body(*arguments, **options, stream=stream)
    if function is matmul:
        plan, given, *_ = found
        arrays = [given.get(name) for name in plan.names]
        count = len(plan.inputs)
        return plan, arrays[:count], arrays[count:], (1.0, 0.0, {}) if plan.device < 0 else ()
    if found is None and hasattr(function, "plan") and [*options] == ["out"]:
        # A function of arrays alone: the plan takes them in order.
        plan = function.plan(*arguments, **options)
        return plan, arguments, [options["out"]], plan.scalars(()) if isinstance(plan, WithNumbers) else ()
    if type(found) is tuple and len(found) == 5 and found[2] is not None:
        if isinstance(found[0], SeveralPlan):
            return (*found[:3], ())
        if isinstance(found[0], Operation):
            return (*found[:3], found[4])
    return None


def _planned_kernel(called: FunctionCall) -> tuple[Any, Sequence[Any], Any, Any] | None:
    """Return what `planned` does, for a user's kernel."""
    kernel: Any = called.function
    out = called.options["out"]
    plan: Any = kernel.plan(*called.arguments, **called.options)
    if isinstance(plan, SeveralPlan):
        return None
    own = {name: each for name, each in called.options.items() if name in kernel._options}
    inputs, scalars = plan._split(kernel._bound(called.arguments, own))
    return plan, inputs, out if isinstance(out, (tuple, list)) else [out], scalars


class Ran(NamedTuple):
    """A plan that has run.

    Attributes:
        plan: the plan.
        inputs, outs: its arrays; `outs` is a list, or one array.
        scalars: of its runs.
        is_several: whether the plan consists of several, so that it runs on arrays rather than addresses.
    """

    plan: Any
    inputs: Sequence[Any]
    outs: Any
    scalars: Any
    is_several: bool

    @property
    def is_list(self) -> bool:
        """Whether a plan of several takes a list of arrays for its results, rather than one."""
        return isinstance(self.outs, (list, tuple))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """Inputs and results."""
        return (*self.inputs, *(self.outs if self.is_list else [self.outs]))


def ran(called: FunctionCall, stream: int) -> Ran | None:
    """Make a call, and return its plan; None if no plan describes the whole call."""
    function, arguments, options = called
    found = planned(called, stream)
    if found is None:
        function(*arguments, **options, stream=stream)
        return None
    plan, inputs, outs, scalars = found
    if not isinstance(plan, SeveralPlan):
        plan.run(inputs, outs, True, stream, scalars)
        return Ran(plan, inputs, outs, scalars, False)
    plan.run(inputs, outs, stream)
    (only, *more), names = plan.plans, plan.names
    if plan.order:
        inputs = [inputs[k] for k in plan.order]
    elif more or only.names[: len(names)] != names:
        return Ran(plan, inputs, outs, scalars, True)
    return Ran(only, inputs, outs, scalars, False)  # which takes the same arrays


# ---------------------------------------------------------------- users' kernels


class OwnKernel:
    """A user's kernel or reduction, whose calls take arrays first.

    The arguments of a call are: for each argument of the kernel an array, or None for a number; these numbers; the
    values of all options; and for a reduction `axis` (a tuple or None) and `keepdims`.

    Args:
        kernel: an object made by `numbacc.elementwise.kernel` or `numbacc.elementwise.reduction`.
        noun: the library's word for an array.

    Attributes:
        count: the number of the kernel's arguments.
        reduces: whether it is a reduction.
        options: option -> default.
        name: its name, as an identifier.

    Raises:
        TypeError: kernel is neither.
    """

    def __init__(self, kernel: Any, noun: str):
        if not isinstance(kernel, (Kernel, Reduction)):
            raise TypeError(
                "wrap takes what numbacc.elementwise.kernel or numbacc.elementwise.reduction returns, not "
                f"{type(kernel).__name__}"
            )
        self.kernel: Any = kernel
        self._noun, self.reduces = noun, isinstance(kernel, Reduction)
        self.options: dict[str, Any] = dict(kernel._options)
        self._names = [each for each in kernel._signature.parameters if each not in self.options]
        self.count = len(self._names)
        self.name = re.sub("[^a-z0-9_]", "", kernel.__name__.lower())

    def digest(self) -> str:
        """Return a digest of the kernel's functions, the same in every process; a unique text if there is none."""
        kernel = self.kernel
        parts = (kernel._function, kernel._merge, kernel._after) if self.reduces else (kernel.py_func, kernel._gradient)
        try:
            texts = [digest(each, "float64", False) if callable(each) else repr(each) for each in parts]
        except TypeError:
            return uuid.uuid4().hex
        return hashlib.sha256(f"{texts} {getattr(kernel, '_start', '')!r}".encode()).hexdigest()[:32]

    def split(self, arguments: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments and the keywords of the kernel's call."""
        numbers, values, *how = arguments[self.count :]
        rest = iter(numbers)
        positional = [next(rest) if each is None else each for each in arguments[: self.count]]
        keywords = dict(zip(self.options, values, strict=False))
        if self.reduces:
            axis, keepdims = how
            keywords |= {"axis": None if axis is None else tuple(axis), "keepdims": keepdims}
        return positional, keywords

    def forward(self, outs: Any, *arguments: Any) -> FunctionCall:
        """Return the kernel's call."""
        positional, keywords = self.split(arguments)
        return call(self.kernel, *positional, out=outs if len(outs) > 1 else outs[0], **keywords)

    def backward(self, outs: Any, dys: Sequence[Any], *arguments: Any) -> FunctionCall:
        """Return the call of its gradient. `outs` are for the arrays of floats."""
        positional, keywords = self.split(arguments)
        rest = iter(outs)
        given = [each for each in arguments[: self.count] if each is not None]
        out = tuple(next(rest) if self.has_gradient(each) else None for each in given)
        return call(self.kernel.backward, dys[0] if len(dys) == 1 else tuple(dys), *positional, out=out, **keywords)

    @staticmethod
    def has_gradient(array: Any) -> bool:
        """Return whether an array holds floats."""
        return array.dtype.name in ("float16", "float32", "float64", "bfloat16")

    def arguments(self, given: Sequence[Any], options: dict[str, Any], is_array: Callable[[Any], bool]) -> list[Any]:
        """Return the arguments of a call, given a user's.

        Raises:
            TypeError: the kernel has other arguments, or no array is among them.
        """
        arrays = [each if is_array(each) else None for each in given]
        numbers = tuple(float(each) for each in given if not is_array(each))
        rest = dict(options)
        values = tuple(float(rest.pop(each, value)) for each, value in self.options.items())
        how = [axes_of(rest.pop("axis", None)), bool(rest.pop("keepdims", False))] if self.reduces else []
        if len(given) != self.count or rest:
            listed = [*self.options, *(["axis", "keepdims"] if self.reduces else [])]
            raise TypeError(
                f"{self.kernel.__name__} takes {', '.join(self._names)} and the options {', '.join(listed) or 'none'}"
            )
        if all(each is None for each in arrays):
            raise TypeError(f"{self.kernel.__name__} got only numbers; it needs {self._noun}")
        return [*arrays, numbers, values, *how]
