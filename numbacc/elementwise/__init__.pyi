# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Elementwise functions of arrays, on the GPU for device arrays, by NumPy for NumPy arrays."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    Activation,
    AnyArray,
    DTypeLike,
    DeviceArray,
    LossReduction,
    NumPyArray,
    NumPyOperand,
    Operand,
    Scalar,
)
from numbacc.elementwise.indexing import ScatterPlan
from numbacc.elementwise.joining import JoinPlan
from numbacc.elementwise.losses import LossGradientPlan
from numbacc.elementwise.losses import LossPlan
from numbacc.elementwise.planning import NumberedPlan
from numbacc.elementwise.reduction_plan import ReducePlan
from numbacc.elementwise.scans import ProductGradientPlan
from numbacc.elementwise.scans import ScanPlan
from numbacc.elementwise.transformer import DropoutPlan
from numbacc.plan.base import Plan
from numbacc.plan.cache import CacheInfo
from numbacc.plan.saved import Saved

__all__ = [
    "ACTIVATIONS",
    "ElementwisePlan",
    "Kernel",
    "Reduction",
    "StepPlan",
    "abs",
    "abs_backward",
    "acos",
    "acos_backward",
    "acosh",
    "acosh_backward",
    "adamw_step",
    "add",
    "add_backward",
    "addcdiv",
    "addcdiv_backward",
    "addcmul",
    "addcmul_backward",
    "all",
    "angle",
    "any",
    "arange",
    "argmax",
    "argmin",
    "asin",
    "asin_backward",
    "asinh",
    "asinh_backward",
    "astype",
    "atan",
    "atan2",
    "atan2_backward",
    "atan_backward",
    "atanh",
    "atanh_backward",
    "bias_activation",
    "bias_activation_backward",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "cbrt",
    "cbrt_backward",
    "ceil",
    "celu",
    "celu_backward",
    "clamp",
    "clamp_backward",
    "concatenate",
    "conj",
    "copy",
    "copysign",
    "copysign_backward",
    "cos",
    "cos_backward",
    "cosh",
    "cosh_backward",
    "cross_entropy",
    "cross_entropy_backward",
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "cumsum_backward",
    "digamma",
    "digamma_backward",
    "divide",
    "divide_backward",
    "dropout",
    "dropout_backward",
    "elu",
    "elu_backward",
    "equal",
    "erf",
    "erf_backward",
    "erfc",
    "erfc_backward",
    "erfinv",
    "erfinv_backward",
    "exp",
    "exp2",
    "exp2_backward",
    "exp_backward",
    "expm1",
    "expm1_backward",
    "eye",
    "fill",
    "floor",
    "floor_divide",
    "fma",
    "fma_backward",
    "fmax",
    "fmax_backward",
    "fmin",
    "fmin_backward",
    "fmod",
    "fmod_backward",
    "frac",
    "frac_backward",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "greater",
    "greater_equal",
    "hardshrink",
    "hardshrink_backward",
    "hardsigmoid",
    "hardsigmoid_backward",
    "hardswish",
    "hardswish_backward",
    "hardtanh",
    "hardtanh_backward",
    "hypot",
    "hypot_backward",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "kernel",
    "layer_norm",
    "layer_norm_backward",
    "ldexp",
    "ldexp_backward",
    "leaky_relu",
    "leaky_relu_backward",
    "left_shift",
    "lerp",
    "lerp_backward",
    "less",
    "less_equal",
    "lgamma",
    "lgamma_backward",
    "linspace",
    "log",
    "log10",
    "log10_backward",
    "log1p",
    "log1p_backward",
    "log2",
    "log2_backward",
    "log_backward",
    "log_sigmoid",
    "log_sigmoid_backward",
    "log_softmax",
    "log_softmax_backward",
    "logaddexp",
    "logaddexp_backward",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "logsumexp_backward",
    "max",
    "max_backward",
    "maximum",
    "maximum_backward",
    "mean",
    "mean_backward",
    "min",
    "min_backward",
    "minimum",
    "minimum_backward",
    "mish",
    "mish_backward",
    "multiply",
    "multiply_backward",
    "negative",
    "negative_backward",
    "nextafter",
    "norm",
    "norm_backward",
    "not_equal",
    "one_hot",
    "pow",
    "pow_backward",
    "prelu",
    "prelu_backward",
    "prod",
    "prod_backward",
    "quick_gelu",
    "quick_gelu_backward",
    "real",
    "reciprocal",
    "reciprocal_backward",
    "reduction",
    "relu",
    "relu6",
    "relu6_backward",
    "relu_backward",
    "remainder",
    "remainder_backward",
    "residual_activation",
    "residual_activation_backward",
    "right_shift",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "rope_backward",
    "rope_tables",
    "round",
    "rsqrt",
    "rsqrt_backward",
    "selu",
    "selu_backward",
    "sigmoid",
    "sigmoid_backward",
    "sign",
    "silu",
    "silu_backward",
    "sin",
    "sin_backward",
    "sinh",
    "sinh_backward",
    "softmax",
    "softmax_backward",
    "softplus",
    "softplus_backward",
    "softshrink",
    "softshrink_backward",
    "softsign",
    "softsign_backward",
    "sqrt",
    "sqrt_backward",
    "square",
    "square_backward",
    "squared_relu",
    "squared_relu_backward",
    "stack",
    "std",
    "std_backward",
    "subtract",
    "subtract_backward",
    "sum",
    "sum_backward",
    "take",
    "take_along_axis",
    "take_along_axis_backward",
    "take_backward",
    "tan",
    "tan_backward",
    "tanh",
    "tanh_backward",
    "tanhshrink",
    "tanhshrink_backward",
    "threshold",
    "threshold_backward",
    "tril",
    "triu",
    "trunc",
    "var",
    "var_backward",
    "where",
    "where_backward",
]

from numbacc.elementwise.operation import ElementwisePlan as ElementwisePlan
from numbacc.elementwise.custom_kernels import Kernel as Kernel
from numbacc.elementwise.custom_reductions import Reduction as Reduction
from numbacc.elementwise.optimizers import StepPlan as StepPlan
from numbacc.elementwise.custom_kernels import kernel as kernel
from numbacc.elementwise.custom_reductions import reduction as reduction

class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

ACTIVATIONS: tuple[Activation, ...]

class _abs(_Function):
    """Return |x|."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _abs_backward
    py_func: Callable[..., Any]

abs: _abs

class _abs_backward(_Function):
    """Return the gradient of abs(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

abs_backward: _abs_backward

class _acos(_Function):
    """Return the arccosine of x, the angle in [0, π] whose cosine is x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _acos_backward
    py_func: Callable[..., Any]

acos: _acos

class _acos_backward(_Function):
    """Return the gradient of acos(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

acos_backward: _acos_backward

class _acosh(_Function):
    """Return the inverse hyperbolic cosine of x, which is at least 0."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _acosh_backward
    py_func: Callable[..., Any]

acosh: _acosh

class _acosh_backward(_Function):
    """Return the gradient of acosh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

acosh_backward: _acosh_backward

class _adamw_step(_Function):
    """Make a step of AdamW in place, for one parameter or for lists. One kernel reads and writes everything once."""

    def __call__(
        self, p: Any, g: Any, m: Any, v: Any, step: Any, *, rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-08, weight_decay: float = 0.01, stream: Any = None,
    ) -> tuple[Any, Any, Any]: ...
    def plan(
        self, p: Any, g: Any, m: Any, v: Any, step: Any, *, rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999,
        eps: float = 1e-08, weight_decay: float = 0.01,
    ) -> StepPlan: ...

adamw_step: _adamw_step

class _add(_Function):
    """Return x1 + x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _add_backward
    py_func: Callable[..., Any]

add: _add

class _add_backward(_Function):
    """Return the gradients of add(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

add_backward: _add_backward

class _addcdiv(_Function):
    """Return x + value x1 / x2."""

    @overload
    def __call__(self, x: float, x1: float, x2: float, *, value: float = 1.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: Literal[False] = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0, return_saved: Literal[True],
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: Literal[True],
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: bool = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _addcdiv_backward
    py_func: Callable[..., Any]

addcdiv: _addcdiv

class _addcdiv_backward(_Function):
    """Return the gradients of addcdiv(x, x1, x2) with respect to x, x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None, x2: NumPyOperand | None = None,
        *, value: float = 1.0, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
        value: float = 1.0, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
        value: float = 1.0, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

addcdiv_backward: _addcdiv_backward

class _addcmul(_Function):
    """Return x + value x1 x2."""

    @overload
    def __call__(self, x: float, x1: float, x2: float, *, value: float = 1.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: Literal[False] = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0, return_saved: Literal[True],
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: Literal[True],
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, return_saved: bool = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _addcmul_backward
    py_func: Callable[..., Any]

addcmul: _addcmul

class _addcmul_backward(_Function):
    """Return the gradients of addcmul(x, x1, x2) with respect to x, x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None, x2: NumPyOperand | None = None,
        *, value: float = 1.0, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
        value: float = 1.0, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
        value: float = 1.0, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

addcmul_backward: _addcmul_backward

class _all(_Function):
    """Return whether all elements are nonzero, and True for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...

all: _all

class _angle(_Function):
    """Return the angle of a complex number in radians, in [-π, π]."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

angle: _angle

class _any(_Function):
    """Return whether any element is nonzero, and False for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...

any: _any

@overload
def arange(
    start: float, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None, device: Literal["cpu"],
    stream: Any = None,
) -> NumPyArray: ...
@overload
def arange(
    start: float, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None,
    device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

class _argmax(_Function):
    """Return the index of the largest element along an axis."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, keepdims: bool = False, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...

argmax: _argmax

class _argmin(_Function):
    """Return the index of the smallest element along an axis."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, keepdims: bool = False, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...

argmin: _argmin

class _asin(_Function):
    """Return the arcsine of x, the angle in [-π/2, π/2] whose sine is x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _asin_backward
    py_func: Callable[..., Any]

asin: _asin

class _asin_backward(_Function):
    """Return the gradient of asin(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

asin_backward: _asin_backward

class _asinh(_Function):
    """Return the inverse hyperbolic sine of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _asinh_backward
    py_func: Callable[..., Any]

asinh: _asinh

class _asinh_backward(_Function):
    """Return the gradient of asinh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

asinh_backward: _asinh_backward

class _astype(_Function):
    """Return x converted to another dtype."""

    @overload
    def __call__(
        self, x: NumPyArray, dtype: DTypeLike, *, copy: bool = True, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, dtype: DTypeLike, *, copy: bool = True, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, dtype: DTypeLike, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

astype: _astype

class _atan(_Function):
    """Return the arctangent of x, the angle in [-π/2, π/2] whose tangent is x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _atan_backward
    py_func: Callable[..., Any]

atan: _atan

class _atan2(_Function):
    """Return the angle of the point (x2, x1) in radians, in [-π, π]."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _atan2_backward
    py_func: Callable[..., Any]

atan2: _atan2

class _atan2_backward(_Function):
    """Return the gradients of atan2(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

atan2_backward: _atan2_backward

class _atan_backward(_Function):
    """Return the gradient of atan(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

atan_backward: _atan_backward

class _atanh(_Function):
    """Return the inverse hyperbolic tangent of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _atanh_backward
    py_func: Callable[..., Any]

atanh: _atanh

class _atanh_backward(_Function):
    """Return the gradient of atanh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

atanh_backward: _atanh_backward

class _bias_activation(_Function):
    """Return an activation of x + bias, computed in one pass without rounding the sum."""

    @overload
    def __call__(
        self, x: NumPyArray, bias: NumPyArray, *, activation: Activation = 'relu', axis: int = -1,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, bias: AnyArray, *, activation: Activation = 'relu', axis: int = -1,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, bias: NumPyArray, *, activation: Activation = 'relu', axis: int = -1,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, bias: AnyArray, *, activation: Activation = 'relu', axis: int = -1,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, bias: AnyArray, *, activation: Activation = 'relu', axis: int = -1,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, bias: AnyArray, *, activation: Activation = 'relu', axis: int = -1,
        out: AnyArray | None = None,
    ) -> ElementwisePlan: ...
    backward: _bias_activation_backward

bias_activation: _bias_activation

class _bias_activation_backward(_Function):
    """Return the gradients of bias_activation(x, bias) with respect to x and the bias, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, bias: NumPyArray | None = None, *, activation: Activation = 'relu',
        axis: int = -1, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, bias: AnyArray | None = None, *, activation: Activation = 'relu',
        axis: int = -1, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray]: ...

bias_activation_backward: _bias_activation_backward

class _bitwise_and(_Function):
    """Return the bitwise and of x1 and x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

bitwise_and: _bitwise_and

class _bitwise_not(_Function):
    """Return x with all bits inverted."""

    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

bitwise_not: _bitwise_not

class _bitwise_or(_Function):
    """Return the bitwise or of x1 and x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

bitwise_or: _bitwise_or

class _bitwise_xor(_Function):
    """Return the bitwise exclusive or of x1 and x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

bitwise_xor: _bitwise_xor

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

class _cbrt(_Function):
    """Return ∛x, the cube root, which has the sign of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _cbrt_backward
    py_func: Callable[..., Any]

cbrt: _cbrt

class _cbrt_backward(_Function):
    """Return the gradient of cbrt(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

cbrt_backward: _cbrt_backward

class _ceil(_Function):
    """Return the smallest whole number that is not below x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

ceil: _ceil

class _celu(_Function):
    """Return x where it is above 0, else alpha (e^(x/alpha) - 1)."""

    @overload
    def __call__(self, x: float, *, alpha: float = 1.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[True], out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: Literal[True], out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: bool = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, alpha: float = 1.0, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _celu_backward
    py_func: Callable[..., Any]

celu: _celu

class _celu_backward(_Function):
    """Return the gradient of celu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

celu_backward: _celu_backward

class _clamp(_Function):
    """Return x limited to the range from min to max. Where min is above max, the result is max."""

    @overload
    def __call__(self, x: float, min: float | None = None, max: float | None = None) -> float: ...
    @overload
    def __call__(
        self, x: NumPyOperand, min: NumPyOperand | None = None, max: NumPyOperand | None = None, *,
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: Operand, min: Operand | None = None, max: Operand | None = None, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: Operand, min: Operand | None = None, max: Operand | None = None, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _clamp_backward
    py_func: Callable[..., Any]

clamp: _clamp

class _clamp_backward(_Function):
    """Return the gradients of clamp(x, min, max) with respect to x, min and max, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, min: NumPyOperand, max: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand, min: Operand, max: Operand, *,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, x: Operand, min: Operand, max: Operand, *, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

clamp_backward: _clamp_backward

class _concatenate(_Function):
    """Return arrays joined along an axis that they have."""

    @overload
    def __call__(
        self, arrays: Sequence[NumPyArray], axis: int | None = 0, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, arrays: Sequence[AnyArray], axis: int | None = 0, *, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(self, arrays: Sequence[AnyArray], axis: int | None = 0, *, out: AnyArray | None = None) -> JoinPlan: ...

concatenate: _concatenate

class _conj(_Function):
    """Return the complex conjugate of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

conj: _conj

class _copy(_Function):
    """Return a contiguous copy of x in its memory order, or copy x into `out`, in the memory order of `out`."""

    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

copy: _copy

class _copysign(_Function):
    """Return |x1| with the sign of x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _copysign_backward
    py_func: Callable[..., Any]

copysign: _copysign

class _copysign_backward(_Function):
    """Return the gradients of copysign(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

copysign_backward: _copysign_backward

class _cos(_Function):
    """Return the cosine of x, with x in radians."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _cos_backward
    py_func: Callable[..., Any]

cos: _cos

class _cos_backward(_Function):
    """Return the gradient of cos(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

cos_backward: _cos_backward

class _cosh(_Function):
    """Return the hyperbolic cosine of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _cosh_backward
    py_func: Callable[..., Any]

cosh: _cosh

class _cosh_backward(_Function):
    """Return the gradient of cosh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

cosh_backward: _cosh_backward

class _cross_entropy(_Function):
    """Return the cross entropy of logits: -log softmax(x) at the target class, which is log Σ e^x - x_t."""

    @overload
    def __call__(
        self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
        return_saved: Literal[False] = False, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
        return_saved: Literal[False] = False, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
        return_saved: Literal[True], stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
        return_saved: Literal[True], stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
        return_saved: Literal[False] = False, stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
        return_saved: Literal[False] = False, stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    def __call__(
        self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
        return_saved: Literal[True], stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
        return_saved: Literal[True], stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: bool = False, return_saved: bool = False,
        stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
        ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: bool = False,
    ) -> LossPlan: ...
    backward: _cross_entropy_backward

cross_entropy: _cross_entropy

class _cross_entropy_backward(_Function):
    """Return the gradient of the loss with respect to the logits, multiplied by dy: dy (softmax(x) - 1 at the target)."""

    @overload
    def __call__(
        self, dy: Scalar, x: Saved, target: AnyArray | None = None, *, axis: int = -1,
        reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
        stats: AnyArray | None = None, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    @overload
    def __call__(
        self, dy: NumPyArray | Scalar, x: NumPyArray | Saved, target: NumPyArray | None = None, *, axis: int = -1,
        reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
        stats: NumPyArray | None = None, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray | Scalar, x: AnyArray | Saved, target: AnyArray | None = None, *, axis: int = -1,
        reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
        stats: AnyArray | None = None, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray | Scalar, x: AnyArray | Saved, target: AnyArray | None = None, *, axis: int = -1,
        reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
        stats: AnyArray | None = None, out: AnyArray | None = None,
    ) -> LossGradientPlan: ...

cross_entropy_backward: _cross_entropy_backward

class _cumprod(_Function):
    """Return the cumulative product: y[i] is the product of x[j] over all j <= i, or over all j >= i with reverse=True."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        out: AnyArray | None = None,
    ) -> ScanPlan: ...
    backward: _cumprod_backward

cumprod: _cumprod

class _cumprod_backward(_Function):
    """Return the gradient of cumprod(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | None = None, reverse: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | None = None, reverse: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | None = None, reverse: bool = False,
        out: AnyArray | None = None,
    ) -> ProductGradientPlan: ...

cumprod_backward: _cumprod_backward

class _cumsum(_Function):
    """Return the cumulative sum: y[i] is the sum of x[j] over all j <= i, or over all j >= i with reverse=True."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
        out: AnyArray | None = None,
    ) -> ScanPlan: ...
    backward: _cumsum_backward

cumsum: _cumsum

class _cumsum_backward(_Function):
    """Return the gradient of cumsum(x) with respect to x, multiplied by dy: dx[i] is the sum of dy[j] over all j >= i."""

    @overload
    def __call__(
        self, dy: NumPyArray, saved: Saved | None | Saved = None, *, axis: int | None = None,
        dtype: DTypeLike | None = None, reverse: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, saved: Saved | None | Saved = None, *, axis: int | None = None,
        dtype: DTypeLike | None = None, reverse: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray, saved: Saved | None | Saved = None, *, axis: int | None = None,
        dtype: DTypeLike | None = None, reverse: bool = False, out: AnyArray | None = None,
    ) -> ScanPlan: ...

cumsum_backward: _cumsum_backward

class _digamma(_Function):
    """Return ψ(x), the derivative of ln Γ(x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _digamma_backward
    py_func: Callable[..., Any]

digamma: _digamma

class _digamma_backward(_Function):
    """Return the gradient of digamma(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

digamma_backward: _digamma_backward

class _divide(_Function):
    """Return x1 / x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _divide_backward
    py_func: Callable[..., Any]

divide: _divide

class _divide_backward(_Function):
    """Return the gradients of divide(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

divide_backward: _divide_backward

class _dropout(_Function):
    """Set elements of x to 0 with probability p, and divide the others by 1 - p."""

    @overload
    def __call__(
        self, x: NumPyArray, p: float = 0.5, *, seed: int, offset: int | NumPyArray = 0,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, p: float = 0.5, *, seed: int, offset: int | AnyArray = 0,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, p: float = 0.5, *, seed: int, offset: int | NumPyArray = 0, return_saved: Literal[True],
        out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, p: float = 0.5, *, seed: int, offset: int | AnyArray = 0, return_saved: Literal[True],
        out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, p: float = 0.5, *, seed: int, offset: int | AnyArray = 0, return_saved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, p: float = 0.5, *, seed: int, offset: int | AnyArray = 0, out: AnyArray | None = None,
    ) -> DropoutPlan: ...
    backward: _dropout_backward

dropout: _dropout

class _dropout_backward(_Function):
    """Return the gradient of dropout(x) with respect to x: dy with the same elements dropped, divided by 1 - p."""

    @overload
    def __call__(
        self, dy: NumPyArray, p: float | Saved = 0.5, *, seed: int | None = None, offset: int | NumPyArray = 0,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, p: float | Saved = 0.5, *, seed: int | None = None, offset: int | AnyArray = 0,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

dropout_backward: _dropout_backward

class _elu(_Function):
    """Return x where it is above 0, else alpha (e^x - 1)."""

    @overload
    def __call__(self, x: float, *, alpha: float = 1.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[True], out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: Literal[True], out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, alpha: float = 1.0, return_saved: bool = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, alpha: float = 1.0, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _elu_backward
    py_func: Callable[..., Any]

elu: _elu

class _elu_backward(_Function):
    """Return the gradient of elu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

elu_backward: _elu_backward

class _equal(_Function):
    """Return whether x1 == x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

equal: _equal

class _erf(_Function):
    """Return the error function 2/√π ∫₀ˣ e^(-t²) dt."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _erf_backward
    py_func: Callable[..., Any]

erf: _erf

class _erf_backward(_Function):
    """Return the gradient of erf(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

erf_backward: _erf_backward

class _erfc(_Function):
    """Return 1 - erf(x), accurate also where it is close to 0."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _erfc_backward
    py_func: Callable[..., Any]

erfc: _erfc

class _erfc_backward(_Function):
    """Return the gradient of erfc(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

erfc_backward: _erfc_backward

class _erfinv(_Function):
    """Return the inverse error function of x, the number y with erf(y) = x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _erfinv_backward
    py_func: Callable[..., Any]

erfinv: _erfinv

class _erfinv_backward(_Function):
    """Return the gradient of erfinv(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

erfinv_backward: _erfinv_backward

class _exp(_Function):
    """Return e^x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _exp_backward
    py_func: Callable[..., Any]

exp: _exp

class _exp2(_Function):
    """Return 2^x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _exp2_backward
    py_func: Callable[..., Any]

exp2: _exp2

class _exp2_backward(_Function):
    """Return the gradient of exp2(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

exp2_backward: _exp2_backward

class _exp_backward(_Function):
    """Return the gradient of exp(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

exp_backward: _exp_backward

class _expm1(_Function):
    """Return e^x - 1, accurate also where x is close to 0."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _expm1_backward
    py_func: Callable[..., Any]

expm1: _expm1

class _expm1_backward(_Function):
    """Return the gradient of expm1(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

expm1_backward: _expm1_backward

@overload
def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: DTypeLike | None = None, device: Literal["cpu"],
    stream: Any = None,
) -> NumPyArray: ...
@overload
def eye(
    n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: DTypeLike | None = None,
    device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

@overload
def fill(
    x: NumPyArray, value: NumPyOperand, *, where: NumPyArray | bool | None = None, stream: Any = None,
) -> NumPyArray: ...
@overload
def fill(x: AnyArray, value: Operand, *, where: AnyArray | bool | None = None, stream: Any = None) -> DeviceArray: ...

class _floor(_Function):
    """Return the largest whole number that is not above x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

floor: _floor

class _floor_divide(_Function):
    """Return floor(x1 / x2), the largest whole number that is not above the quotient."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

floor_divide: _floor_divide

class _fma(_Function):
    """Return x1 x2 + x3, rounded once."""

    @overload
    def __call__(self, x1: float, x2: float, x3: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, x3: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, x3: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, x3: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _fma_backward
    py_func: Callable[..., Any]

fma: _fma

class _fma_backward(_Function):
    """Return the gradients of fma(x1, x2, x3) with respect to x1, x2 and x3, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, x3: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, x3: Operand, *,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, x1: Operand, x2: Operand, x3: Operand, *, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

fma_backward: _fma_backward

class _fmax(_Function):
    """Return the larger of x1 and x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _fmax_backward
    py_func: Callable[..., Any]

fmax: _fmax

class _fmax_backward(_Function):
    """Return the gradients of fmax(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

fmax_backward: _fmax_backward

class _fmin(_Function):
    """Return the smaller of x1 and x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _fmin_backward
    py_func: Callable[..., Any]

fmin: _fmin

class _fmin_backward(_Function):
    """Return the gradients of fmin(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

fmin_backward: _fmin_backward

class _fmod(_Function):
    """Return x1 - x2 trunc(x1 / x2), which has the sign of x1."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _fmod_backward
    py_func: Callable[..., Any]

fmod: _fmod

class _fmod_backward(_Function):
    """Return the gradients of fmod(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

fmod_backward: _fmod_backward

class _frac(_Function):
    """Return the fractional part x - trunc(x), which has the sign of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _frac_backward
    py_func: Callable[..., Any]

frac: _frac

class _frac_backward(_Function):
    """Return the gradient of frac(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

frac_backward: _frac_backward

class _gelu(_Function):
    """Return x Φ(x), where Φ is the normal distribution."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _gelu_backward
    py_func: Callable[..., Any]

gelu: _gelu

class _gelu_backward(_Function):
    """Return the gradient of gelu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

gelu_backward: _gelu_backward

class _gelu_tanh(_Function):
    """Return x ½(1 + tanh(√(2/π)(x + 0.044715 x³)))."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _gelu_tanh_backward
    py_func: Callable[..., Any]

gelu_tanh: _gelu_tanh

class _gelu_tanh_backward(_Function):
    """Return the gradient of gelu_tanh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

gelu_tanh_backward: _gelu_tanh_backward

class _greater(_Function):
    """Return whether x1 > x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

greater: _greater

class _greater_equal(_Function):
    """Return whether x1 >= x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

greater_equal: _greater_equal

class _hardshrink(_Function):
    """Return x, or 0 where |x| <= lambd."""

    @overload
    def __call__(self, x: float, *, lambd: float = 0.5) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[True], out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: Literal[True], out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: bool = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, lambd: float = 0.5, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _hardshrink_backward
    py_func: Callable[..., Any]

hardshrink: _hardshrink

class _hardshrink_backward(_Function):
    """Return the gradient of hardshrink(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

hardshrink_backward: _hardshrink_backward

class _hardsigmoid(_Function):
    """Return x/6 + ½, limited to the range from 0 to 1."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _hardsigmoid_backward
    py_func: Callable[..., Any]

hardsigmoid: _hardsigmoid

class _hardsigmoid_backward(_Function):
    """Return the gradient of hardsigmoid(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

hardsigmoid_backward: _hardsigmoid_backward

class _hardswish(_Function):
    """Return x hardsigmoid(x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _hardswish_backward
    py_func: Callable[..., Any]

hardswish: _hardswish

class _hardswish_backward(_Function):
    """Return the gradient of hardswish(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

hardswish_backward: _hardswish_backward

class _hardtanh(_Function):
    """Return x limited to the range from min_val to max_val."""

    @overload
    def __call__(self, x: float, *, min_val: float = -1.0, max_val: float = 1.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, min_val: float = -1.0, max_val: float = 1.0, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, min_val: float = -1.0, max_val: float = 1.0, return_saved: Literal[False] = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, min_val: float = -1.0, max_val: float = 1.0, return_saved: Literal[True],
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, min_val: float = -1.0, max_val: float = 1.0, return_saved: Literal[True],
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, min_val: float = -1.0, max_val: float = 1.0, return_saved: bool = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, min_val: float = -1.0, max_val: float = 1.0, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _hardtanh_backward
    py_func: Callable[..., Any]

hardtanh: _hardtanh

class _hardtanh_backward(_Function):
    """Return the gradient of hardtanh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, min_val: float = -1.0, max_val: float = 1.0,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, min_val: float = -1.0, max_val: float = 1.0,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, min_val: float = -1.0, max_val: float = 1.0,
        out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

hardtanh_backward: _hardtanh_backward

class _hypot(_Function):
    """Return √(x1² + x2²)."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _hypot_backward
    py_func: Callable[..., Any]

hypot: _hypot

class _hypot_backward(_Function):
    """Return the gradients of hypot(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

hypot_backward: _hypot_backward

class _imag(_Function):
    """Return the imaginary part of x, which is 0 for real numbers."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

imag: _imag

class _isfinite(_Function):
    """Return whether x is neither infinite nor NaN."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

isfinite: _isfinite

class _isinf(_Function):
    """Return whether x is infinite."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

isinf: _isinf

class _isnan(_Function):
    """Return whether x is NaN."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

isnan: _isnan

class _layer_norm(_Function):
    """Normalize by mean and variance along the last axis: (x - mean) w / √(variance + eps) + b, LayerNorm."""

    @overload
    def __call__(
        self, x: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None, *, eps: float = 1e-05,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None, *, eps: float = 1e-05,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
        out: AnyArray | None = None,
    ) -> Plan: ...
    backward: _layer_norm_backward

layer_norm: _layer_norm

class _layer_norm_backward(_Function):
    """Return the gradients of layer_norm(x, weight, bias) with respect to all three, multiplied by dy."""

    @overload
    def __call__(
        self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, bias: bool = False, eps: float = 1e-05,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> Any: ...
    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[False] = False,
        eps: float = 1e-05, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[False] = False, eps: float = 1e-05,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[True], eps: float = 1e-05,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[True], eps: float = 1e-05,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
    def plan(
        self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray | None = None, *, bias: bool = False,
        eps: float = 1e-05, out: AnyArray | None = None,
    ) -> Plan: ...

layer_norm_backward: _layer_norm_backward

class _ldexp(_Function):
    """Return x1 2^x2, where x2 holds whole numbers."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _ldexp_backward
    py_func: Callable[..., Any]

ldexp: _ldexp

class _ldexp_backward(_Function):
    """Return the gradient of ldexp(x1, x2) with respect to x1, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

ldexp_backward: _ldexp_backward

class _leaky_relu(_Function):
    """Return x where it is above 0, else negative_slope x."""

    @overload
    def __call__(self, x: float, *, negative_slope: float = 0.01) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, negative_slope: float = 0.01, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, negative_slope: float = 0.01, return_saved: Literal[False] = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, negative_slope: float = 0.01, return_saved: Literal[True],
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, negative_slope: float = 0.01, return_saved: Literal[True], out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, negative_slope: float = 0.01, return_saved: bool = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, negative_slope: float = 0.01, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _leaky_relu_backward
    py_func: Callable[..., Any]

leaky_relu: _leaky_relu

class _leaky_relu_backward(_Function):
    """Return the gradient of leaky_relu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, negative_slope: float = 0.01, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, negative_slope: float = 0.01, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, negative_slope: float = 0.01, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

leaky_relu_backward: _leaky_relu_backward

class _left_shift(_Function):
    """Return x1 with its bits shifted left by x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

left_shift: _left_shift

class _lerp(_Function):
    """Return x1 + weight (x2 - x1), the linear interpolation."""

    @overload
    def __call__(self, x1: float, x2: float, weight: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, weight: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, weight: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, weight: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _lerp_backward
    py_func: Callable[..., Any]

lerp: _lerp

class _lerp_backward(_Function):
    """Return the gradients of lerp(x1, x2, weight) with respect to x1, x2 and weight, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, weight: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, weight: Operand, *,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, x1: Operand, x2: Operand, weight: Operand, *, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

lerp_backward: _lerp_backward

class _less(_Function):
    """Return whether x1 < x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

less: _less

class _less_equal(_Function):
    """Return whether x1 <= x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

less_equal: _less_equal

class _lgamma(_Function):
    """Return ln |Γ(x)|, the logarithm of the gamma function."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _lgamma_backward
    py_func: Callable[..., Any]

lgamma: _lgamma

class _lgamma_backward(_Function):
    """Return the gradient of lgamma(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

lgamma_backward: _lgamma_backward

@overload
def linspace(
    start: float, stop: float, num: int = 50, *, endpoint: bool = True, dtype: DTypeLike | None = None,
    device: Literal["cpu"], stream: Any = None,
) -> NumPyArray: ...
@overload
def linspace(
    start: float, stop: float, num: int = 50, *, endpoint: bool = True, dtype: DTypeLike | None = None,
    device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

class _log(_Function):
    """Return ln x, the natural logarithm."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _log_backward
    py_func: Callable[..., Any]

log: _log

class _log10(_Function):
    """Return log₁₀ x, the logarithm to base 10."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _log10_backward
    py_func: Callable[..., Any]

log10: _log10

class _log10_backward(_Function):
    """Return the gradient of log10(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

log10_backward: _log10_backward

class _log1p(_Function):
    """Return ln(1 + x), accurate also where x is close to 0."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _log1p_backward
    py_func: Callable[..., Any]

log1p: _log1p

class _log1p_backward(_Function):
    """Return the gradient of log1p(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

log1p_backward: _log1p_backward

class _log2(_Function):
    """Return log₂ x, the logarithm to base 2."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _log2_backward
    py_func: Callable[..., Any]

log2: _log2

class _log2_backward(_Function):
    """Return the gradient of log2(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

log2_backward: _log2_backward

class _log_backward(_Function):
    """Return the gradient of log(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

log_backward: _log_backward

class _log_sigmoid(_Function):
    """Return ln σ(x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _log_sigmoid_backward
    py_func: Callable[..., Any]

log_sigmoid: _log_sigmoid

class _log_sigmoid_backward(_Function):
    """Return the gradient of log_sigmoid(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

log_sigmoid_backward: _log_sigmoid_backward

class _log_softmax(_Function):
    """Return the logarithm of the softmax along an axis: x - max - log Σ e^(x - max)."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int = -1, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: Literal[False] = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int = -1, return_saved: Literal[True], out: NumPyArray | None = None,
        stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: Literal[True], out: AnyArray | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any: ...
    def plan(self, x: AnyArray, *, axis: int = -1, out: AnyArray | None = None) -> Plan: ...
    backward: _log_softmax_backward

log_softmax: _log_softmax

class _log_softmax_backward(_Function):
    """Return the gradient of y = log_softmax(x) with respect to x, multiplied by dy: dy - e^y Σ dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None) -> Plan: ...

log_softmax_backward: _log_softmax_backward

class _logaddexp(_Function):
    """Return ln(e^x1 + e^x2)."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _logaddexp_backward
    py_func: Callable[..., Any]

logaddexp: _logaddexp

class _logaddexp_backward(_Function):
    """Return the gradients of logaddexp(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

logaddexp_backward: _logaddexp_backward

class _logical_and(_Function):
    """Return whether x1 and x2 are both nonzero."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

logical_and: _logical_and

class _logical_not(_Function):
    """Return whether x is 0 or False."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

logical_not: _logical_not

class _logical_or(_Function):
    """Return whether x1 or x2 is nonzero."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

logical_or: _logical_or

class _logical_xor(_Function):
    """Return whether exactly one of x1 and x2 is nonzero."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

logical_xor: _logical_xor

class _logsumexp(_Function):
    """Return log Σ e^x, and -inf for no elements. The exponentials do not overflow."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _logsumexp_backward

logsumexp: _logsumexp

class _logsumexp_backward(_Function):
    """Return dx, the gradient of logsumexp(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

logsumexp_backward: _logsumexp_backward

class _max(_Function):
    """Return the largest element."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _max_backward

max: _max

class _max_backward(_Function):
    """Return dx, the gradient of max(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

max_backward: _max_backward

class _maximum(_Function):
    """Return the larger of x1 and x2, and NaN where either is NaN."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _maximum_backward
    py_func: Callable[..., Any]

maximum: _maximum

class _maximum_backward(_Function):
    """Return the gradients of maximum(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

maximum_backward: _maximum_backward

class _mean(_Function):
    """Return the mean Σ x / n, and NaN for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _mean_backward

mean: _mean

class _mean_backward(_Function):
    """Return dx, the gradient of mean(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

mean_backward: _mean_backward

class _min(_Function):
    """Return the smallest element."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _min_backward

min: _min

class _min_backward(_Function):
    """Return dx, the gradient of min(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

min_backward: _min_backward

class _minimum(_Function):
    """Return the smaller of x1 and x2, and NaN where either is NaN."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _minimum_backward
    py_func: Callable[..., Any]

minimum: _minimum

class _minimum_backward(_Function):
    """Return the gradients of minimum(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

minimum_backward: _minimum_backward

class _mish(_Function):
    """Return x tanh(ln(1 + e^x))."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _mish_backward
    py_func: Callable[..., Any]

mish: _mish

class _mish_backward(_Function):
    """Return the gradient of mish(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

mish_backward: _mish_backward

class _multiply(_Function):
    """Return the product of x1 and x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _multiply_backward
    py_func: Callable[..., Any]

multiply: _multiply

class _multiply_backward(_Function):
    """Return the gradients of multiply(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

multiply_backward: _multiply_backward

class _negative(_Function):
    """Return -x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _negative_backward
    py_func: Callable[..., Any]

negative: _negative

class _negative_backward(_Function):
    """Return the gradient of negative(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

negative_backward: _negative_backward

class _nextafter(_Function):
    """Return the next value of the dtype after x1 towards x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

nextafter: _nextafter

class _norm(_Function):
    """Return the vector norm (Σ |x|^p)^(1/p) of order p, as `numpy.linalg.norm` does for vectors."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        return_saved: Literal[True], out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        return_saved: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
        out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _norm_backward

norm: _norm

class _norm_backward(_Function):
    """Return dx, the gradient of norm(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None, ord: float = 2,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, ord: float = 2,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

norm_backward: _norm_backward

class _not_equal(_Function):
    """Return whether x1 != x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

not_equal: _not_equal

class _one_hot(_Function):
    """Return one-hot codes: 1 at the position along a new axis that an index selects, and 0 at all others."""

    @overload
    def __call__(
        self, indices: NumPyArray, num_classes: int, *, axis: int = -1, dtype: DTypeLike = 'float32',
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, indices: AnyArray, num_classes: int, *, axis: int = -1, dtype: DTypeLike = 'float32',
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, indices: AnyArray, num_classes: int, *, axis: int = -1, dtype: DTypeLike = 'float32',
        out: AnyArray | None = None,
    ) -> NumberedPlan: ...

one_hot: _one_hot

class _pow(_Function):
    """Return x1 to the power of x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _pow_backward
    py_func: Callable[..., Any]

pow: _pow

class _pow_backward(_Function):
    """Return the gradients of pow(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

pow_backward: _pow_backward

class _prelu(_Function):
    """Return x where it is above 0, else weight x."""

    @overload
    def __call__(self, x: float, weight: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyOperand, weight: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: Operand, weight: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: Operand, weight: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _prelu_backward
    py_func: Callable[..., Any]

prelu: _prelu

class _prelu_backward(_Function):
    """Return the gradients of prelu(x, weight) with respect to x and weight, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, weight: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand, weight: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x: Operand, weight: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

prelu_backward: _prelu_backward

class _prod(_Function):
    """Return the product Π x, and 1 for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _prod_backward

prod: _prod

class _prod_backward(_Function):
    """Return dx, the gradient of prod(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

prod_backward: _prod_backward

class _quick_gelu(_Function):
    """Return x σ(1.702 x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _quick_gelu_backward
    py_func: Callable[..., Any]

quick_gelu: _quick_gelu

class _quick_gelu_backward(_Function):
    """Return the gradient of quick_gelu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

quick_gelu_backward: _quick_gelu_backward

class _real(_Function):
    """Return the real part of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

real: _real

class _reciprocal(_Function):
    """Return 1/x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _reciprocal_backward
    py_func: Callable[..., Any]

reciprocal: _reciprocal

class _reciprocal_backward(_Function):
    """Return the gradient of reciprocal(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

reciprocal_backward: _reciprocal_backward

class _relu(_Function):
    """Return max(x, 0)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _relu_backward
    py_func: Callable[..., Any]

relu: _relu

class _relu6(_Function):
    """Return min(max(x, 0), 6)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _relu6_backward
    py_func: Callable[..., Any]

relu6: _relu6

class _relu6_backward(_Function):
    """Return the gradient of relu6(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

relu6_backward: _relu6_backward

class _relu_backward(_Function):
    """Return the gradient of relu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

relu_backward: _relu_backward

class _remainder(_Function):
    """Return x1 - x2 floor(x1 / x2), which has the sign of x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _remainder_backward
    py_func: Callable[..., Any]

remainder: _remainder

class _remainder_backward(_Function):
    """Return the gradients of remainder(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

remainder_backward: _remainder_backward

class _residual_activation(_Function):
    """Return an activation of x + residual, computed in one pass without rounding the sum."""

    @overload
    def __call__(
        self, x: NumPyArray, residual: NumPyArray, *, activation: Activation = 'relu',
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu', return_saved: Literal[False] = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, residual: NumPyArray, *, activation: Activation = 'relu', return_saved: Literal[True],
        out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu', return_saved: Literal[True],
        out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu', return_saved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu', out: AnyArray | None = None,
    ) -> ElementwisePlan: ...
    backward: _residual_activation_backward

residual_activation: _residual_activation

class _residual_activation_backward(_Function):
    """Return the gradient of residual_activation(x, residual) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, residual: NumPyArray | None = None, *,
        activation: Activation = 'relu', out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, residual: AnyArray | None = None, *, activation: Activation = 'relu',
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

residual_activation_backward: _residual_activation_backward

class _right_shift(_Function):
    """Return x1 with its bits shifted right by x2."""

    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...

right_shift: _right_shift

class _rms_norm(_Function):
    """Normalize by the root mean square along the last axis: x w / √(mean of x² + eps), RMSNorm."""

    @overload
    def __call__(
        self, x: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06, return_saved: Literal[False] = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06, return_saved: Literal[True],
        out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06, return_saved: Literal[True],
        out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06, return_saved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06, out: AnyArray | None = None,
    ) -> Plan: ...
    backward: _rms_norm_backward

rms_norm: _rms_norm

class _rms_norm_backward(_Function):
    """Return the gradients of rms_norm(x, weight) with respect to x and weight, multiplied by dy."""

    @overload
    def __call__(
        self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> Any: ...
    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, eps: float = 1e-06,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, eps: float = 1e-06,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, eps: float = 1e-06,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, NumPyArray]: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, eps: float = 1e-06,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, DeviceArray]: ...
    def plan(
        self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
        out: AnyArray | None = None,
    ) -> Plan: ...

rms_norm_backward: _rms_norm_backward

class _rope(_Function):
    """Apply the rotary position embedding: each pair (a, b) in a row becomes (a cos - b sin, b cos + a sin)."""

    @overload
    def __call__(
        self, x: NumPyArray, cos: NumPyArray, sin: NumPyArray, *, interleaved: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, cos: AnyArray, sin: AnyArray, *, interleaved: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, cos: NumPyArray, sin: NumPyArray, *, interleaved: bool = False,
        return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, cos: AnyArray, sin: AnyArray, *, interleaved: bool = False, return_saved: Literal[True],
        out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, cos: AnyArray, sin: AnyArray, *, interleaved: bool = False, return_saved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, cos: AnyArray, sin: AnyArray, *, interleaved: bool = False, out: AnyArray | None = None,
    ) -> NumberedPlan: ...
    backward: _rope_backward

rope: _rope

class _rope_backward(_Function):
    """Return the gradient of rope(x, cos, sin) with respect to x, multiplied by dy: each pair is rotated back."""

    @overload
    def __call__(
        self, dy: NumPyArray, cos: NumPyArray | Saved, sin: NumPyArray | None = None, *, interleaved: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, cos: AnyArray | Saved, sin: AnyArray | None = None, *, interleaved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray, cos: AnyArray | Saved, sin: AnyArray | None = None, *, interleaved: bool = False,
        out: AnyArray | None = None,
    ) -> NumberedPlan: ...

rope_backward: _rope_backward

@overload
def rope_tables(
    length: int, dim: int, *, base: float = 10000.0, first: int = 0, dtype: DTypeLike = 'float32',
    device: Literal["cpu"], stream: Any = None,
) -> tuple[NumPyArray, NumPyArray]: ...
@overload
def rope_tables(
    length: int, dim: int, *, base: float = 10000.0, first: int = 0, dtype: DTypeLike = 'float32',
    device: int | str | None = None, stream: Any = None,
) -> tuple[DeviceArray, DeviceArray]: ...

class _round(_Function):
    """Return the whole number nearest to x, with ties rounded to even."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

round: _round

class _rsqrt(_Function):
    """Return 1/√x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _rsqrt_backward
    py_func: Callable[..., Any]

rsqrt: _rsqrt

class _rsqrt_backward(_Function):
    """Return the gradient of rsqrt(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

rsqrt_backward: _rsqrt_backward

class _selu(_Function):
    """Return 1.0507 elu(x, 1.6733)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _selu_backward
    py_func: Callable[..., Any]

selu: _selu

class _selu_backward(_Function):
    """Return the gradient of selu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

selu_backward: _selu_backward

class _sigmoid(_Function):
    """Return σ(x) = 1/(1 + e^(-x))."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _sigmoid_backward
    py_func: Callable[..., Any]

sigmoid: _sigmoid

class _sigmoid_backward(_Function):
    """Return the gradient of sigmoid(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

sigmoid_backward: _sigmoid_backward

class _sign(_Function):
    """Return the sign of x: -1, 0 or 1."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

sign: _sign

class _silu(_Function):
    """Return x σ(x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _silu_backward
    py_func: Callable[..., Any]

silu: _silu

class _silu_backward(_Function):
    """Return the gradient of silu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

silu_backward: _silu_backward

class _sin(_Function):
    """Return the sine of x, with x in radians."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _sin_backward
    py_func: Callable[..., Any]

sin: _sin

class _sin_backward(_Function):
    """Return the gradient of sin(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

sin_backward: _sin_backward

class _sinh(_Function):
    """Return the hyperbolic sine of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _sinh_backward
    py_func: Callable[..., Any]

sinh: _sinh

class _sinh_backward(_Function):
    """Return the gradient of sinh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

sinh_backward: _sinh_backward

class _softmax(_Function):
    """Return the softmax along an axis: e^(x - max) / Σ e^(x - max)."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int = -1, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: Literal[False] = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int = -1, return_saved: Literal[True], out: NumPyArray | None = None,
        stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: Literal[True], out: AnyArray | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int = -1, return_saved: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any: ...
    def plan(self, x: AnyArray, *, axis: int = -1, out: AnyArray | None = None) -> Plan: ...
    backward: _softmax_backward

softmax: _softmax

class _softmax_backward(_Function):
    """Return the gradient of y = softmax(x) with respect to x, multiplied by dy: y (dy - Σ dy y)."""

    @overload
    def __call__(
        self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None) -> Plan: ...

softmax_backward: _softmax_backward

class _softplus(_Function):
    """Return ln(1 + e^(beta x))/beta, or x where beta x is above the threshold."""

    @overload
    def __call__(self, x: float, *, beta: float = 1.0, threshold: float = 20.0) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, beta: float = 1.0, threshold: float = 20.0, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, beta: float = 1.0, threshold: float = 20.0, return_saved: Literal[False] = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, beta: float = 1.0, threshold: float = 20.0, return_saved: Literal[True],
        out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, beta: float = 1.0, threshold: float = 20.0, return_saved: Literal[True],
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, beta: float = 1.0, threshold: float = 20.0, return_saved: bool = False,
        out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, beta: float = 1.0, threshold: float = 20.0, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _softplus_backward
    py_func: Callable[..., Any]

softplus: _softplus

class _softplus_backward(_Function):
    """Return the gradient of softplus(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, beta: float = 1.0, threshold: float = 20.0,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, beta: float = 1.0, threshold: float = 20.0,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, beta: float = 1.0, threshold: float = 20.0,
        out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

softplus_backward: _softplus_backward

class _softshrink(_Function):
    """Return x moved by lambd toward 0, or 0 where |x| <= lambd."""

    @overload
    def __call__(self, x: float, *, lambd: float = 0.5) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[True], out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: Literal[True], out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, lambd: float = 0.5, return_saved: bool = False, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, lambd: float = 0.5, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _softshrink_backward
    py_func: Callable[..., Any]

softshrink: _softshrink

class _softshrink_backward(_Function):
    """Return the gradient of softshrink(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

softshrink_backward: _softshrink_backward

class _softsign(_Function):
    """Return x/(1 + |x|)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _softsign_backward
    py_func: Callable[..., Any]

softsign: _softsign

class _softsign_backward(_Function):
    """Return the gradient of softsign(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

softsign_backward: _softsign_backward

class _sqrt(_Function):
    """Return √x, the square root."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _sqrt_backward
    py_func: Callable[..., Any]

sqrt: _sqrt

class _sqrt_backward(_Function):
    """Return the gradient of sqrt(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

sqrt_backward: _sqrt_backward

class _square(_Function):
    """Return x²."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _square_backward
    py_func: Callable[..., Any]

square: _square

class _square_backward(_Function):
    """Return the gradient of square(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

square_backward: _square_backward

class _squared_relu(_Function):
    """Return max(x, 0)²."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _squared_relu_backward
    py_func: Callable[..., Any]

squared_relu: _squared_relu

class _squared_relu_backward(_Function):
    """Return the gradient of squared_relu(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

squared_relu_backward: _squared_relu_backward

class _stack(_Function):
    """Return arrays of one shape joined along a new axis."""

    @overload
    def __call__(
        self, arrays: Sequence[NumPyArray], axis: int = 0, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, arrays: Sequence[AnyArray], axis: int = 0, *, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(self, arrays: Sequence[AnyArray], axis: int = 0, *, out: AnyArray | None = None) -> JoinPlan: ...

stack: _stack

class _std(_Function):
    """Return the standard deviation, the square root of `var`."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[False] = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[True], out: NumPyArray | None = None,
        stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[True], out: AnyArray | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _std_backward

std: _std

class _std_backward(_Function):
    """Return dx, the gradient of std(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

std_backward: _std_backward

class _subtract(_Function):
    """Return x1 - x2."""

    @overload
    def __call__(self, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _subtract_backward
    py_func: Callable[..., Any]

subtract: _subtract

class _subtract_backward(_Function):
    """Return the gradients of subtract(x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

subtract_backward: _subtract_backward

class _sum(_Function):
    """Return the sum Σ x, and 0 for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _sum_backward

sum: _sum

class _sum_backward(_Function):
    """Return dx, the gradient of sum(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

sum_backward: _sum_backward

class _take(_Function):
    """Return elements of x along an axis, in the order of a list of indices, for example rows of a table."""

    @overload
    def __call__(
        self, x: NumPyArray, indices: NumPyArray, *, axis: int | None = None, out: NumPyArray | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, indices: AnyArray, *, axis: int | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, indices: AnyArray, *, axis: int | None = None, out: AnyArray | None = None,
    ) -> NumberedPlan: ...
    backward: _take_backward

take: _take

class _take_along_axis(_Function):
    """Return elements along an axis, with separate indices for each row: y[i, j, k] = x[i, indices[i, j, k], k]."""

    @overload
    def __call__(
        self, x: NumPyArray, indices: NumPyArray, *, axis: int = -1, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, indices: AnyArray, *, axis: int = -1, return_saved: Literal[False] = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, indices: NumPyArray, *, axis: int = -1, return_saved: Literal[True],
        out: NumPyArray | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, indices: AnyArray, *, axis: int = -1, return_saved: Literal[True],
        out: AnyArray | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, indices: AnyArray, *, axis: int = -1, return_saved: bool = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> Any: ...
    def plan(self, x: AnyArray, indices: AnyArray, *, axis: int = -1, out: AnyArray | None = None) -> NumberedPlan: ...
    backward: _take_along_axis_backward

take_along_axis: _take_along_axis

class _take_along_axis_backward(_Function):
    """Return the gradient of take_along_axis(x, indices) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, indices: NumPyArray | None = None, *, axis: int = -1,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, indices: AnyArray | None = None, *, axis: int = -1,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray, x: AnyArray | Saved, indices: AnyArray | None = None, *, axis: int = -1,
        out: AnyArray | None = None,
    ) -> ScatterPlan: ...

take_along_axis_backward: _take_along_axis_backward

class _take_backward(_Function):
    """Return the gradient of take(x, indices) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray, indices: NumPyArray, *, axis: int | None = None,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray, indices: AnyArray, *, axis: int | None = None, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: AnyArray, x: AnyArray, indices: AnyArray, *, axis: int | None = None, out: AnyArray | None = None,
    ) -> ScatterPlan: ...

take_backward: _take_backward

class _tan(_Function):
    """Return the tangent of x, with x in radians."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _tan_backward
    py_func: Callable[..., Any]

tan: _tan

class _tan_backward(_Function):
    """Return the gradient of tan(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

tan_backward: _tan_backward

class _tanh(_Function):
    """Return the hyperbolic tangent of x."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _tanh_backward
    py_func: Callable[..., Any]

tanh: _tanh

class _tanh_backward(_Function):
    """Return the gradient of tanh(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

tanh_backward: _tanh_backward

class _tanhshrink(_Function):
    """Return x - tanh(x)."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _tanhshrink_backward
    py_func: Callable[..., Any]

tanhshrink: _tanhshrink

class _tanhshrink_backward(_Function):
    """Return the gradient of tanhshrink(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan: ...

tanhshrink_backward: _tanhshrink_backward

class _threshold(_Function):
    """Return x where it is above the threshold, else the value."""

    @overload
    def __call__(self, x: float, threshold: float, value: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyOperand, threshold: NumPyOperand, value: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _threshold_backward
    py_func: Callable[..., Any]

threshold: _threshold

class _threshold_backward(_Function):
    """Return the gradient of threshold(x, threshold, value) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, x: NumPyOperand, threshold: NumPyOperand, value: NumPyOperand, *,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: Operand, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
        stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, dy: Operand, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

threshold_backward: _threshold_backward

class _tril(_Function):
    """Return the lower triangles of matrices, with zeros above diagonal k."""

    @overload
    def __call__(
        self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None) -> NumberedPlan: ...

tril: _tril

class _triu(_Function):
    """Return the upper triangles of matrices, with zeros below diagonal k."""

    @overload
    def __call__(
        self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None, stream: Any = None) -> DeviceArray: ...
    def plan(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None) -> NumberedPlan: ...

triu: _triu

class _trunc(_Function):
    """Return x without its fractional part."""

    @overload
    def __call__(self, x: float) -> float: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    py_func: Callable[..., Any]

trunc: _trunc

class _var(_Function):
    """Return the variance Σ |x - x̄|² / max(n - correction, 0), where x̄ is the mean, and NaN for no elements."""

    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[False] = False,
        out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[False] = False,
        out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    @overload
    def __call__(
        self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[True], out: NumPyArray | None = None,
        stream: Any = None,
    ) -> tuple[NumPyArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: Literal[True], out: AnyArray | None = None,
        stream: Any = None,
    ) -> tuple[DeviceArray, Saved]: ...
    @overload
    def __call__(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, return_saved: bool = False, out: AnyArray | None = None,
        stream: Any = None,
    ) -> Any: ...
    def plan(
        self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
        correction: float = 0, keepdims: bool = False, out: AnyArray | None = None,
    ) -> ReducePlan: ...
    backward: _var_backward

var: _var

class _var_backward(_Function):
    """Return dx, the gradient of var(x) with respect to x, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
        keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
        keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
    ) -> DeviceArray: ...

var_backward: _var_backward

class _where(_Function):
    """Return x1 where the condition is True, else x2."""

    @overload
    def __call__(self, condition: float, x1: float, x2: float) -> float: ...
    @overload
    def __call__(
        self, condition: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        where: NumPyArray | bool | None = None, stream: Any = None,
    ) -> NumPyArray: ...
    @overload
    def __call__(
        self, condition: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None, stream: Any = None,
    ) -> DeviceArray: ...
    def plan(
        self, condition: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        where: AnyArray | bool | None = None,
    ) -> ElementwisePlan: ...
    backward: _where_backward
    py_func: Callable[..., Any]

where: _where

class _where_backward(_Function):
    """Return the gradients of where(condition, x1, x2) with respect to x1 and x2, multiplied by dy."""

    @overload
    def __call__(
        self, dy: NumPyOperand, condition: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
    ) -> tuple[NumPyArray, ...]: ...
    @overload
    def __call__(
        self, dy: Operand, condition: Operand, x1: Operand, x2: Operand, *,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
    ) -> tuple[DeviceArray, ...]: ...
    def plan(
        self, dy: Operand, condition: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
    ) -> ElementwisePlan: ...

where_backward: _where_backward
