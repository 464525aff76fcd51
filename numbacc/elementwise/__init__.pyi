# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Elementwise functions of arrays, on the GPU for device arrays, by NumPy for NumPy arrays."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, overload
from typing_extensions import TypeVar
from numbacc.typing import (
    Activation,
    AnyArray,
    Axes,
    DTypeLike,
    DeviceArray,
    LossReduction,
    Merge,
    NumPyArray,
    NumPyOperand,
    Operand,
    Scalar,
    Shape,
)
from numbacc.elementwise.custom_reductions import CustomReducePlan
from numbacc.elementwise.indexing import ScatterPlan
from numbacc.elementwise.joining import JoinPlan
from numbacc.elementwise.losses import LossAndGradientPlan
from numbacc.elementwise.losses import LossGradientPlan
from numbacc.elementwise.losses import LossPlan
from numbacc.elementwise.planning import NumberedPlan
from numbacc.elementwise.reduction_plan import ReducePlan
from numbacc.elementwise.scans import ProductGradientPlan
from numbacc.elementwise.scans import ScanPlan
from numbacc.elementwise.signatures import Benchmark
from numbacc.elementwise.transformer import DropoutPlan
from numbacc.kernels.inspection import Inspection
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
    "add_layer_norm",
    "add_layer_norm_backward",
    "add_rms_norm",
    "add_rms_norm_backward",
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
    "clip_grad_norm",
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
    "cross_entropy_and_gradient",
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

_Numbers = TypeVar("_Numbers", covariant=True, default=Any)
_P = TypeVar("_P", bound=AnyArray | Sequence[AnyArray])
_M = TypeVar("_M", bound=AnyArray | Sequence[AnyArray])
_V = TypeVar("_V", bound=AnyArray | Sequence[AnyArray])

from numbacc.elementwise.operation import ElementwisePlan as ElementwisePlan
from numbacc.elementwise.optimizers import StepPlan as StepPlan

class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class abs(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.abs_backward
        py_func: Callable[..., Any]

    class abs_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class acos(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.acos_backward
        py_func: Callable[..., Any]

    class acos_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class acosh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.acosh_backward
        py_func: Callable[..., Any]

    class acosh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class adamw_step(_Function):
        def __call__(
            self, p: _P, g: AnyArray | Sequence[AnyArray], m: _M, v: _V, step: int | AnyArray, *,
            rate: float | AnyArray = 0.001, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08,
            weight_decay: float | Sequence[float] = 0.01, factor: float | AnyArray | None = None,
            copy: AnyArray | Sequence[AnyArray] | None = None, stream: Any = None,
        ) -> tuple[_P, _M, _V]: ...
        def plan(
            self, p: AnyArray | Sequence[AnyArray], g: AnyArray | Sequence[AnyArray], m: AnyArray | Sequence[AnyArray],
            v: AnyArray | Sequence[AnyArray], step: int | AnyArray, *, rate: float | AnyArray = 0.001,
            beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-08, weight_decay: float | Sequence[float] = 0.01,
            factor: float | AnyArray | None = None, copy: AnyArray | Sequence[AnyArray] | None = None,
        ) -> StepPlan: ...

    class add(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.add_backward
        py_func: Callable[..., Any]

    class add_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class add_layer_norm(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None,
            *, eps: float = 1e-05, return_saved: Literal[False] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *,
            eps: float = 1e-05, return_saved: Literal[False] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None,
            *, eps: float = 1e-05, return_saved: Literal[True],
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[tuple[NumPyArray, NumPyArray], Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *,
            eps: float = 1e-05, return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[tuple[DeviceArray, DeviceArray], Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *,
            eps: float = 1e-05, return_saved: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None,
            *, eps: float = 1e-05, out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *,
            eps: float = 1e-05, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...
        backward: _Functions.add_layer_norm_backward

    class add_layer_norm_backward(_Function):
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: Saved, weight: AnyArray | None = None, *, bias: bool = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def __call__(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: None = None, *,
            bias: bool = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: None = None, *, bias: bool = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            bias: Literal[False] = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *,
            bias: Literal[False] = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            bias: Literal[True], eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *, bias: Literal[True],
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: Saved, weight: AnyArray | None = None, *, bias: bool = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[Any]: ...
        @overload
        def plan(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: None = None, *,
            bias: bool = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: None = None, *, bias: bool = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            bias: Literal[False] = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *,
            bias: Literal[False] = False, eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            bias: Literal[True], eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *, bias: Literal[True],
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray, DeviceArray]]: ...

    class add_rms_norm(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[False] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[False] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[True], out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[tuple[NumPyArray, NumPyArray], Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[tuple[DeviceArray, DeviceArray], Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06,
            return_saved: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray, residual: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06,
            out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, x: AnyArray, residual: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06,
            out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...
        backward: _Functions.add_rms_norm_backward

    class add_rms_norm_backward(_Function):
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> Any: ...
        @overload
        def __call__(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: None = None, *,
            eps: float = 1e-06, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            eps: float = 1e-06, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[Any]: ...
        @overload
        def plan(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: None = None, *,
            eps: float = 1e-06, accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, dtotal: NumPyArray, total: NumPyArray | Saved, weight: NumPyArray, *,
            eps: float = 1e-06, accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, dtotal: AnyArray, total: AnyArray | Saved, weight: AnyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...

    class addcdiv(_Function):
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
            self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
            return_saved: Literal[True], out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
            stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.addcdiv_backward
        py_func: Callable[..., Any]

    class addcdiv_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None,
            x2: NumPyOperand | None = None, *, value: float = 1.0,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, ...]: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
            value: float = 1.0, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, ...]: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None,
            x2: NumPyOperand | None = None, *, value: float = 1.0, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
            value: float = 1.0, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class addcmul(_Function):
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
            self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
            return_saved: Literal[True], out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
            stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, value: float = 1.0,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: Operand, x1: Operand, x2: Operand, *, value: float = 1.0, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.addcmul_backward
        py_func: Callable[..., Any]

    class addcmul_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None,
            x2: NumPyOperand | None = None, *, value: float = 1.0,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, ...]: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
            value: float = 1.0, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, ...]: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, x1: NumPyOperand | None = None,
            x2: NumPyOperand | None = None, *, value: float = 1.0, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, x1: Operand | None = None, x2: Operand | None = None, *,
            value: float = 1.0, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class all(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...

    class angle(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class any(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...

    class argmax(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | None = None, keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...

    class argmin(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | None = None, keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | None = None, keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...

    class asin(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.asin_backward
        py_func: Callable[..., Any]

    class asin_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class asinh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.asinh_backward
        py_func: Callable[..., Any]

    class asinh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class astype(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, dtype: DTypeLike, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, dtype: DTypeLike, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class atan(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.atan_backward
        py_func: Callable[..., Any]

    class atan2(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.atan2_backward
        py_func: Callable[..., Any]

    class atan2_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class atan_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class atanh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.atanh_backward
        py_func: Callable[..., Any]

    class atanh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class bias_activation(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, bias: NumPyArray, *, activation: Activation = 'relu', axis: int = -1,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, bias: AnyArray, *, activation: Activation = 'relu', axis: int = -1,
            out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.bias_activation_backward

    class bias_activation_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, bias: NumPyArray | None = None, *,
            activation: Activation = 'relu', axis: int = -1,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, bias: AnyArray | None = None, *, activation: Activation = 'relu',
            axis: int = -1, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...

    class bitwise_and(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class bitwise_not(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class bitwise_or(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class bitwise_xor(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class cbrt(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.cbrt_backward
        py_func: Callable[..., Any]

    class cbrt_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class ceil(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class celu(_Function):
        @overload
        def __call__(self, x: float, *, alpha: float = 1.0) -> float: ...
        @overload
        def __call__(
            self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, *, alpha: float = 1.0, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, alpha: float = 1.0, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.celu_backward
        py_func: Callable[..., Any]

    class celu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class clamp(_Function):
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
        @overload
        def plan(
            self, x: NumPyOperand, min: NumPyOperand | None = None, max: NumPyOperand | None = None, *,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: Operand, min: Operand | None = None, max: Operand | None = None, *, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.clamp_backward
        py_func: Callable[..., Any]

    class clamp_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, min: NumPyOperand, max: NumPyOperand, *,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand, min: Operand, max: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class concatenate(_Function):
        @overload
        def __call__(
            self, arrays: Sequence[NumPyArray], axis: int | None = 0, *, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, arrays: Sequence[AnyArray], axis: int | None = 0, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, arrays: Sequence[NumPyArray], axis: int | None = 0, *, out: NumPyArray | None = None,
        ) -> JoinPlan[NumPyArray]: ...
        @overload
        def plan(
            self, arrays: Sequence[AnyArray], axis: int | None = 0, *, out: AnyArray | None = None,
        ) -> JoinPlan[DeviceArray]: ...

    class conj(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class copy(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class copysign(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.copysign_backward
        py_func: Callable[..., Any]

    class copysign_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class cos(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.cos_backward
        py_func: Callable[..., Any]

    class cos_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class cosh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.cosh_backward
        py_func: Callable[..., Any]

    class cosh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class cross_entropy(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            return_saved: Literal[False] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            return_saved: Literal[False] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            return_saved: Literal[True], out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            return_saved: Literal[False] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            return_saved: Literal[False] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            return_saved: Literal[True], out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: bool = False,
            return_saved: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            out: NumPyArray | None = None,
        ) -> LossPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[False] = False,
            out: AnyArray | None = None,
        ) -> LossPlan[DeviceArray]: ...
        @overload
        def plan(
            self, x: NumPyArray, target: NumPyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            out: NumPyArray | None = None,
        ) -> LossPlan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: Literal[True],
            out: AnyArray | None = None,
        ) -> LossPlan[tuple[DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, x: AnyArray, target: AnyArray, *, axis: int = -1, reduction: LossReduction = 'mean',
            ignore_index: int = -100, label_smoothing: float = 0.0, return_stats: bool = False,
            out: AnyArray | None = None,
        ) -> LossPlan[Any]: ...
        backward: _Functions.cross_entropy_backward

    class cross_entropy_and_gradient(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, target: NumPyArray, dloss: NumPyArray | float = 1.0, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, x: AnyArray, target: AnyArray, dloss: AnyArray | float = 1.0, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, x: NumPyArray, target: NumPyArray, dloss: NumPyArray | float = 1.0, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            out: NumPyArray | None = None,
        ) -> LossAndGradientPlan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, x: AnyArray, target: AnyArray, dloss: AnyArray | float = 1.0, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            out: AnyArray | None = None,
        ) -> LossAndGradientPlan[tuple[DeviceArray, DeviceArray]]: ...

    class cross_entropy_backward(_Function):
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
        @overload
        def plan(
            self, dy: Scalar, x: Saved, target: AnyArray | None = None, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            stats: AnyArray | None = None, out: AnyArray | None = None,
        ) -> LossGradientPlan[Any]: ...
        @overload
        def plan(
            self, dy: NumPyArray | Scalar, x: NumPyArray | Saved, target: NumPyArray | None = None, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            stats: NumPyArray | None = None, out: NumPyArray | None = None,
        ) -> LossGradientPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray | Scalar, x: AnyArray | Saved, target: AnyArray | None = None, *, axis: int = -1,
            reduction: LossReduction = 'mean', ignore_index: int = -100, label_smoothing: float = 0.0,
            stats: AnyArray | None = None, out: AnyArray | None = None,
        ) -> LossGradientPlan[DeviceArray]: ...

    class cumprod(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
            out: NumPyArray | None = None,
        ) -> ScanPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
            out: AnyArray | None = None,
        ) -> ScanPlan[DeviceArray]: ...
        backward: _Functions.cumprod_backward

    class cumprod_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | None = None, reverse: bool = False,
            out: NumPyArray | None = None,
        ) -> ProductGradientPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | None = None, reverse: bool = False,
            out: AnyArray | None = None,
        ) -> ProductGradientPlan[DeviceArray]: ...

    class cumsum(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
            out: NumPyArray | None = None,
        ) -> ScanPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | None = None, dtype: DTypeLike | None = None, reverse: bool = False,
            out: AnyArray | None = None,
        ) -> ScanPlan[DeviceArray]: ...
        backward: _Functions.cumsum_backward

    class cumsum_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyArray, saved: Saved | None | Saved = None, *, axis: int | None = None,
            dtype: DTypeLike | None = None, reverse: bool = False, out: NumPyArray | None = None,
        ) -> ScanPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, saved: Saved | None | Saved = None, *, axis: int | None = None,
            dtype: DTypeLike | None = None, reverse: bool = False, out: AnyArray | None = None,
        ) -> ScanPlan[DeviceArray]: ...

    class digamma(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.digamma_backward
        py_func: Callable[..., Any]

    class digamma_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class divide(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.divide_backward
        py_func: Callable[..., Any]

    class divide_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class dropout(_Function):
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
            self, x: NumPyArray, p: float = 0.5, *, seed: int, offset: int | NumPyArray = 0,
            return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, p: float = 0.5, *, seed: int, offset: int | NumPyArray = 0,
            out: NumPyArray | None = None,
        ) -> DropoutPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, p: float = 0.5, *, seed: int, offset: int | AnyArray = 0, out: AnyArray | None = None,
        ) -> DropoutPlan[DeviceArray]: ...
        backward: _Functions.dropout_backward

    class dropout_backward(_Function):
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

    class elu(_Function):
        @overload
        def __call__(self, x: float, *, alpha: float = 1.0) -> float: ...
        @overload
        def __call__(
            self, x: NumPyArray, *, alpha: float = 1.0, return_saved: Literal[False] = False,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, *, alpha: float = 1.0, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, alpha: float = 1.0, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.elu_backward
        py_func: Callable[..., Any]

    class elu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, alpha: float = 1.0, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, alpha: float = 1.0, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class equal(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class erf(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.erf_backward
        py_func: Callable[..., Any]

    class erf_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class erfc(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.erfc_backward
        py_func: Callable[..., Any]

    class erfc_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class erfinv(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.erfinv_backward
        py_func: Callable[..., Any]

    class erfinv_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class exp(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.exp_backward
        py_func: Callable[..., Any]

    class exp2(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.exp2_backward
        py_func: Callable[..., Any]

    class exp2_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class exp_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class expm1(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.expm1_backward
        py_func: Callable[..., Any]

    class expm1_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class floor(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class floor_divide(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class fma(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, x3: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, x3: Operand, *, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.fma_backward
        py_func: Callable[..., Any]

    class fma_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, x3: NumPyOperand, *,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, x3: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class fmax(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.fmax_backward
        py_func: Callable[..., Any]

    class fmax_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class fmin(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.fmin_backward
        py_func: Callable[..., Any]

    class fmin_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class fmod(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.fmod_backward
        py_func: Callable[..., Any]

    class fmod_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class frac(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.frac_backward
        py_func: Callable[..., Any]

    class frac_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class gelu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.gelu_backward
        py_func: Callable[..., Any]

    class gelu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class gelu_tanh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.gelu_tanh_backward
        py_func: Callable[..., Any]

    class gelu_tanh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class greater(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class greater_equal(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class hardshrink(_Function):
        @overload
        def __call__(self, x: float, *, lambd: float = 0.5) -> float: ...
        @overload
        def __call__(
            self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, *, lambd: float = 0.5, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, lambd: float = 0.5, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.hardshrink_backward
        py_func: Callable[..., Any]

    class hardshrink_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class hardsigmoid(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.hardsigmoid_backward
        py_func: Callable[..., Any]

    class hardsigmoid_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class hardswish(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.hardswish_backward
        py_func: Callable[..., Any]

    class hardswish_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class hardtanh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, min_val: float = -1.0, max_val: float = 1.0, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, min_val: float = -1.0, max_val: float = 1.0, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.hardtanh_backward
        py_func: Callable[..., Any]

    class hardtanh_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, min_val: float = -1.0, max_val: float = 1.0,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, min_val: float = -1.0, max_val: float = 1.0,
            out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class hypot(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.hypot_backward
        py_func: Callable[..., Any]

    class hypot_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class imag(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class isfinite(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class isinf(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class isnan(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class layer_norm(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None, *,
            eps: float = 1e-05, return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
            return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, x: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None, *,
            eps: float = 1e-05, return_saved: Literal[True], out: NumPyArray | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, weight: NumPyArray | None = None, bias: NumPyArray | None = None, *,
            eps: float = 1e-05, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, weight: AnyArray | None = None, bias: AnyArray | None = None, *, eps: float = 1e-05,
            out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        backward: _Functions.layer_norm_backward

    class layer_norm_backward(_Function):
        @overload
        def __call__(
            self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> Any: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[False] = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[False] = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[True], eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[True], eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[Any]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, bias: bool = False, eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[False] = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[False] = False,
            eps: float = 1e-05, accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, bias: Literal[True], eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, bias: Literal[True], eps: float = 1e-05,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray, DeviceArray]]: ...

    class ldexp(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.ldexp_backward
        py_func: Callable[..., Any]

    class ldexp_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class leaky_relu(_Function):
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
            self, x: AnyArray, *, negative_slope: float = 0.01, return_saved: Literal[True],
            out: AnyArray | None = None, where: AnyArray | bool | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, Saved]: ...
        @overload
        def __call__(
            self, x: AnyArray, *, negative_slope: float = 0.01, return_saved: bool = False, out: AnyArray | None = None,
            where: AnyArray | bool | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, x: NumPyArray, *, negative_slope: float = 0.01, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, negative_slope: float = 0.01, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.leaky_relu_backward
        py_func: Callable[..., Any]

    class leaky_relu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, negative_slope: float = 0.01,
            out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, *, negative_slope: float = 0.01, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, negative_slope: float = 0.01,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, negative_slope: float = 0.01, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class left_shift(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class lerp(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, weight: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, weight: Operand, *, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.lerp_backward
        py_func: Callable[..., Any]

    class lerp_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, weight: NumPyOperand, *,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, weight: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class less(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class less_equal(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class lgamma(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.lgamma_backward
        py_func: Callable[..., Any]

    class lgamma_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.log_backward
        py_func: Callable[..., Any]

    class log10(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.log10_backward
        py_func: Callable[..., Any]

    class log10_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log1p(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.log1p_backward
        py_func: Callable[..., Any]

    class log1p_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log2(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.log2_backward
        py_func: Callable[..., Any]

    class log2_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log_sigmoid(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.log_sigmoid_backward
        py_func: Callable[..., Any]

    class log_sigmoid_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class log_softmax(_Function):
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
        @overload
        def plan(self, x: NumPyArray, *, axis: int = -1, out: NumPyArray | None = None) -> Plan[NumPyArray]: ...
        @overload
        def plan(self, x: AnyArray, *, axis: int = -1, out: AnyArray | None = None) -> Plan[DeviceArray]: ...
        backward: _Functions.log_softmax_backward

    class log_softmax_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...

    class logaddexp(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.logaddexp_backward
        py_func: Callable[..., Any]

    class logaddexp_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class logical_and(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class logical_not(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class logical_or(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class logical_xor(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class logsumexp(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.logsumexp_backward

    class logsumexp_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None,
            keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...

    class max(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.max_backward

    class max_backward(_Function):
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

    class maximum(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.maximum_backward
        py_func: Callable[..., Any]

    class maximum_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class mean(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.mean_backward

    class mean_backward(_Function):
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

    class min(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.min_backward

    class min_backward(_Function):
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

    class minimum(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.minimum_backward
        py_func: Callable[..., Any]

    class minimum_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class mish(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.mish_backward
        py_func: Callable[..., Any]

    class mish_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class multiply(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.multiply_backward
        py_func: Callable[..., Any]

    class multiply_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class negative(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.negative_backward
        py_func: Callable[..., Any]

    class negative_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class nextafter(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class norm(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
            out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, ord: float = 2, keepdims: bool = False,
            out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.norm_backward

    class norm_backward(_Function):
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

    class not_equal(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class one_hot(_Function):
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
        @overload
        def plan(
            self, indices: NumPyArray, num_classes: int, *, axis: int = -1, dtype: DTypeLike = 'float32',
            out: NumPyArray | None = None,
        ) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(
            self, indices: AnyArray, num_classes: int, *, axis: int = -1, dtype: DTypeLike = 'float32',
            out: AnyArray | None = None,
        ) -> NumberedPlan[DeviceArray]: ...

    class pow(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.pow_backward
        py_func: Callable[..., Any]

    class pow_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class prelu(_Function):
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
        @overload
        def plan(
            self, x: NumPyOperand, weight: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: Operand, weight: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.prelu_backward
        py_func: Callable[..., Any]

    class prelu_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, weight: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand, weight: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class prod(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.prod_backward

    class prod_backward(_Function):
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

    class quick_gelu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.quick_gelu_backward
        py_func: Callable[..., Any]

    class quick_gelu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class real(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class reciprocal(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.reciprocal_backward
        py_func: Callable[..., Any]

    class reciprocal_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class relu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.relu_backward
        py_func: Callable[..., Any]

    class relu6(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.relu6_backward
        py_func: Callable[..., Any]

    class relu6_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class relu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class remainder(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.remainder_backward
        py_func: Callable[..., Any]

    class remainder_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class residual_activation(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, residual: NumPyArray, *, activation: Activation = 'relu',
            return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu',
            return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, residual: NumPyArray, *, activation: Activation = 'relu',
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, residual: AnyArray, *, activation: Activation = 'relu', out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.residual_activation_backward

    class residual_activation_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, residual: NumPyArray | None = None, *,
            activation: Activation = 'relu', out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, residual: AnyArray | None = None, *,
            activation: Activation = 'relu', out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...

    class right_shift(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class rms_norm(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[False] = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06,
            return_saved: Literal[False] = False, out: AnyArray | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, weight: NumPyArray | None = None, *, eps: float = 1e-06, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, weight: AnyArray | None = None, *, eps: float = 1e-06, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        backward: _Functions.rms_norm_backward

    class rms_norm_backward(_Function):
        @overload
        def __call__(
            self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> Any: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
            stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: Saved, weight: AnyArray | None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[Any]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, weight: None = None, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Saved, weight: NumPyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: NumPyArray | None = None,
        ) -> Plan[tuple[NumPyArray, NumPyArray]]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Saved, weight: AnyArray, *, eps: float = 1e-06,
            accumulate: bool | Sequence[bool] = False, out: AnyArray | None = None,
        ) -> Plan[tuple[DeviceArray, DeviceArray]]: ...

    class rope(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, cos: NumPyArray, sin: NumPyArray, *, interleaved: bool = False,
            out: NumPyArray | None = None,
        ) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, cos: AnyArray, sin: AnyArray, *, interleaved: bool = False, out: AnyArray | None = None,
        ) -> NumberedPlan[DeviceArray]: ...
        backward: _Functions.rope_backward

    class rope_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyArray, cos: NumPyArray | Saved, sin: NumPyArray | None = None, *, interleaved: bool = False,
            out: NumPyArray | None = None,
        ) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, cos: AnyArray | Saved, sin: AnyArray | None = None, *, interleaved: bool = False,
            out: AnyArray | None = None,
        ) -> NumberedPlan[DeviceArray]: ...

    class round(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class rsqrt(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.rsqrt_backward
        py_func: Callable[..., Any]

    class rsqrt_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class selu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.selu_backward
        py_func: Callable[..., Any]

    class selu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class sigmoid(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.sigmoid_backward
        py_func: Callable[..., Any]

    class sigmoid_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class sign(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class silu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.silu_backward
        py_func: Callable[..., Any]

    class silu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class sin(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.sin_backward
        py_func: Callable[..., Any]

    class sin_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class sinh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.sinh_backward
        py_func: Callable[..., Any]

    class sinh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class softmax(_Function):
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
        @overload
        def plan(self, x: NumPyArray, *, axis: int = -1, out: NumPyArray | None = None) -> Plan[NumPyArray]: ...
        @overload
        def plan(self, x: AnyArray, *, axis: int = -1, out: AnyArray | None = None) -> Plan[DeviceArray]: ...
        backward: _Functions.softmax_backward

    class softmax_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyArray, y: NumPyArray | Saved, *, axis: int = -1, out: NumPyArray | None = None,
        ) -> Plan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, y: AnyArray | Saved, *, axis: int = -1, out: AnyArray | None = None,
        ) -> Plan[DeviceArray]: ...

    class softplus(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, beta: float = 1.0, threshold: float = 20.0, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, beta: float = 1.0, threshold: float = 20.0, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.softplus_backward
        py_func: Callable[..., Any]

    class softplus_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, beta: float = 1.0, threshold: float = 20.0,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, beta: float = 1.0, threshold: float = 20.0,
            out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class softshrink(_Function):
        @overload
        def __call__(self, x: float, *, lambd: float = 0.5) -> float: ...
        @overload
        def __call__(
            self, x: NumPyArray, *, lambd: float = 0.5, return_saved: Literal[False] = False,
            out: NumPyArray | None = None, where: NumPyArray | bool | None = None, stream: Any = None,
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
        @overload
        def plan(
            self, x: NumPyArray, *, lambd: float = 0.5, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, lambd: float = 0.5, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.softshrink_backward
        py_func: Callable[..., Any]

    class softshrink_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
            stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
            stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand | Saved, *, lambd: float = 0.5, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand | Saved, *, lambd: float = 0.5, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class softsign(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.softsign_backward
        py_func: Callable[..., Any]

    class softsign_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class sqrt(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.sqrt_backward
        py_func: Callable[..., Any]

    class sqrt_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class square(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.square_backward
        py_func: Callable[..., Any]

    class square_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class squared_relu(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.squared_relu_backward
        py_func: Callable[..., Any]

    class squared_relu_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class stack(_Function):
        @overload
        def __call__(
            self, arrays: Sequence[NumPyArray], axis: int = 0, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, arrays: Sequence[AnyArray], axis: int = 0, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, arrays: Sequence[NumPyArray], axis: int = 0, *, out: NumPyArray | None = None,
        ) -> JoinPlan[NumPyArray]: ...
        @overload
        def plan(
            self, arrays: Sequence[AnyArray], axis: int = 0, *, out: AnyArray | None = None,
        ) -> JoinPlan[DeviceArray]: ...

    class std(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            correction: float = 0, keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            correction: float = 0, keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.std_backward

    class std_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None,
            correction: float = 0, keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
            keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...

    class subtract(_Function):
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
        @overload
        def plan(
            self, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x1: Operand, x2: Operand, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.subtract_backward
        py_func: Callable[..., Any]

    class subtract_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

    class sum(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.sum_backward

    class sum_backward(_Function):
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

    class take(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, indices: NumPyArray, *, axis: int | None = None, out: NumPyArray | None = None,
        ) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, indices: AnyArray, *, axis: int | None = None, out: AnyArray | None = None,
        ) -> NumberedPlan[DeviceArray]: ...
        backward: _Functions.take_backward

    class take_along_axis(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, indices: NumPyArray, *, axis: int = -1, out: NumPyArray | None = None,
        ) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, indices: AnyArray, *, axis: int = -1, out: AnyArray | None = None,
        ) -> NumberedPlan[DeviceArray]: ...
        backward: _Functions.take_along_axis_backward

    class take_along_axis_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Sequence[int] | Saved, indices: NumPyArray | None = None, *,
            axis: int = -1, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Sequence[int] | Saved, indices: AnyArray | None = None, *, axis: int = -1,
            out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Sequence[int] | Saved, indices: NumPyArray | None = None, *,
            axis: int = -1, out: NumPyArray | None = None,
        ) -> ScatterPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Sequence[int] | Saved, indices: AnyArray | None = None, *, axis: int = -1,
            out: AnyArray | None = None,
        ) -> ScatterPlan[DeviceArray]: ...

    class take_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Sequence[int], indices: NumPyArray, *, axis: int | None = None,
            accumulate: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Sequence[int], indices: AnyArray, *, axis: int | None = None,
            accumulate: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyArray, x: NumPyArray | Sequence[int], indices: NumPyArray, *, axis: int | None = None,
            accumulate: bool = False, out: NumPyArray | None = None,
        ) -> ScatterPlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: AnyArray, x: AnyArray | Sequence[int], indices: AnyArray, *, axis: int | None = None,
            accumulate: bool = False, out: AnyArray | None = None,
        ) -> ScatterPlan[DeviceArray]: ...

    class tan(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.tan_backward
        py_func: Callable[..., Any]

    class tan_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class tanh(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.tanh_backward
        py_func: Callable[..., Any]

    class tanh_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class tanhshrink(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.tanhshrink_backward
        py_func: Callable[..., Any]

    class tanhshrink_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: Operand, x: Operand, *, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, *, out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(self, dy: Operand, x: Operand, *, out: AnyArray | None = None) -> ElementwisePlan[DeviceArray]: ...

    class threshold(_Function):
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
        @overload
        def plan(
            self, x: NumPyOperand, threshold: NumPyOperand, value: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.threshold_backward
        py_func: Callable[..., Any]

    class threshold_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, x: NumPyOperand, threshold: NumPyOperand, value: NumPyOperand, *,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, dy: Operand, x: Operand, threshold: Operand, value: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...

    class tril(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None) -> NumberedPlan[DeviceArray]: ...

    class triu(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def plan(self, x: NumPyArray, *, k: int = 0, out: NumPyArray | None = None) -> NumberedPlan[NumPyArray]: ...
        @overload
        def plan(self, x: AnyArray, *, k: int = 0, out: AnyArray | None = None) -> NumberedPlan[DeviceArray]: ...

    class trunc(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, out: NumPyArray | None = None, where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, out: AnyArray | None = None, where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        py_func: Callable[..., Any]

    class var(_Function):
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
        @overload
        def plan(
            self, x: NumPyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            correction: float = 0, keepdims: bool = False, out: NumPyArray | None = None,
        ) -> ReducePlan[NumPyArray]: ...
        @overload
        def plan(
            self, x: AnyArray, *, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None,
            correction: float = 0, keepdims: bool = False, out: AnyArray | None = None,
        ) -> ReducePlan[DeviceArray]: ...
        backward: _Functions.var_backward

    class var_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, x: NumPyArray | Saved, *, axis: int | Sequence[int] | None = None,
            correction: float = 0, keepdims: bool = False, out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, dy: AnyArray, x: AnyArray | Saved, *, axis: int | Sequence[int] | None = None, correction: float = 0,
            keepdims: bool = False, out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...

    class where(_Function):
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
        @overload
        def plan(
            self, condition: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *, out: NumPyArray | None = None,
            where: NumPyArray | bool | None = None,
        ) -> ElementwisePlan[NumPyArray]: ...
        @overload
        def plan(
            self, condition: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
            where: AnyArray | bool | None = None,
        ) -> ElementwisePlan[DeviceArray]: ...
        backward: _Functions.where_backward
        py_func: Callable[..., Any]

    class where_backward(_Function):
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
        @overload
        def plan(
            self, dy: NumPyOperand, condition: NumPyOperand, x1: NumPyOperand, x2: NumPyOperand, *,
            out: NumPyArray | None = None,
        ) -> ElementwisePlan[tuple[NumPyArray, ...]]: ...
        @overload
        def plan(
            self, dy: Operand, condition: Operand, x1: Operand, x2: Operand, *, out: AnyArray | None = None,
        ) -> ElementwisePlan[tuple[DeviceArray, ...]]: ...

ACTIVATIONS: tuple[Activation, ...]

class Kernel(Generic[_Numbers]):
    """A custom elementwise function, which `kernel` returns. Call it with arrays and scalars."""

    __name__: str
    __qualname__: str
    py_func: Callable[..., _Numbers]
    def __init__(self, function: Callable[..., Any], gradient: Callable[..., Any] | None = None) -> None: ...
    @overload
    def __call__(self, *arguments: float, **options: float) -> _Numbers:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[float], *arguments: NumPyOperand, return_saved: Literal[False] = False,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> NumPyArray:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[float], *arguments: Operand, return_saved: Literal[False] = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, where: AnyArray | bool | None = None,
        stream: Any = None, **options: Operand,
    ) -> DeviceArray:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[tuple[Any, ...]], *arguments: NumPyOperand, return_saved: Literal[False] = False,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> tuple[NumPyArray, ...]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[tuple[Any, ...]], *arguments: Operand, return_saved: Literal[False] = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, where: AnyArray | bool | None = None,
        stream: Any = None, **options: Operand,
    ) -> tuple[DeviceArray, ...]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[float], *arguments: NumPyOperand, return_saved: Literal[True],
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> tuple[NumPyArray, Saved]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[float], *arguments: Operand, return_saved: Literal[True],
        out: AnyArray | Sequence[AnyArray | None] | None = None, where: AnyArray | bool | None = None,
        stream: Any = None, **options: Operand,
    ) -> tuple[DeviceArray, Saved]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[tuple[Any, ...]], *arguments: NumPyOperand, return_saved: Literal[True],
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, where: NumPyArray | bool | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> tuple[tuple[NumPyArray, ...], Saved]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Kernel[tuple[Any, ...]], *arguments: Operand, return_saved: Literal[True],
        out: AnyArray | Sequence[AnyArray | None] | None = None, where: AnyArray | bool | None = None,
        stream: Any = None, **options: Operand,
    ) -> tuple[tuple[DeviceArray, ...], Saved]:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self, *arguments: Operand, return_saved: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
        where: AnyArray | bool | None = None, stream: Any = None, **options: Operand,
    ) -> Any:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def backward(
        self, dy: NumPyArray | Sequence[NumPyArray], *arguments: NumPyOperand | Saved,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None, **options: NumPyOperand,
    ) -> tuple[NumPyArray, ...]:
        """Return the gradients of a loss with respect to array arguments, given those with respect to the results."""
    @overload
    def backward(
        self, dy: AnyArray | Sequence[AnyArray], *arguments: Operand | Saved,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None, **options: Operand,
    ) -> tuple[DeviceArray, ...]:
        """Return the gradients of a loss with respect to array arguments, given those with respect to the results."""
    @overload
    def plan(
        self: Kernel[float], *arguments: NumPyOperand, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
        where: NumPyArray | bool | None = None, **options: NumPyOperand,
    ) -> ElementwisePlan[NumPyArray]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Kernel[float], *arguments: Operand, out: AnyArray | Sequence[AnyArray | None] | None = None,
        where: AnyArray | bool | None = None, **options: Operand,
    ) -> ElementwisePlan[DeviceArray]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Kernel[tuple[Any, ...]], *arguments: NumPyOperand,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, where: NumPyArray | bool | None = None,
        **options: NumPyOperand,
    ) -> ElementwisePlan[tuple[NumPyArray, ...]]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Kernel[tuple[Any, ...]], *arguments: Operand, out: AnyArray | Sequence[AnyArray | None] | None = None,
        where: AnyArray | bool | None = None, **options: Operand,
    ) -> ElementwisePlan[tuple[DeviceArray, ...]]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self, *arguments: Operand, out: AnyArray | Sequence[AnyArray | None] | None = None,
        where: AnyArray | bool | None = None, **options: Operand,
    ) -> ElementwisePlan:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    def inspect(self, *arguments: Operand, **options: Operand) -> Inspection:
        """Return the code that a call with these arguments is compiled to: source, PTX, registers, local memory, bytes."""
    def benchmark(
        self, shape: Shape, dtype: DTypeLike = 'float32', *, repeats: int = 30, **numbers: Operand,
    ) -> Benchmark:
        """Measure the speed of a call on a GPU, and of a copy of the same bytes."""

class Reduction(Generic[_Numbers]):
    """A custom reduction, which `reduction` returns. Call it with arrays and scalars."""

    __name__: str
    __qualname__: str
    def __init__(
        self, function: Callable[..., Any], merge: str | Callable[..., Any] = 'sum',
        start: float | tuple[float, ...] | None = None, after: Callable[..., Any] | None = None,
    ) -> None: ...
    @overload
    def __call__(
        self: Reduction[float], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> NumPyArray:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[float], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None, **options: Operand,
    ) -> DeviceArray:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[tuple[Any, ...]], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None,
        stream: Any = None, **options: NumPyOperand,
    ) -> tuple[NumPyArray, ...]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[tuple[Any, ...]], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[False] = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
        stream: Any = None, **options: Operand,
    ) -> tuple[DeviceArray, ...]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[float], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[True], out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        **options: NumPyOperand,
    ) -> tuple[NumPyArray, Saved]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[float], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        **options: Operand,
    ) -> tuple[DeviceArray, Saved]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[tuple[Any, ...]], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[True], out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        **options: NumPyOperand,
    ) -> tuple[tuple[NumPyArray, ...], Saved]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self: Reduction[tuple[Any, ...]], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        return_saved: Literal[True], out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        **options: Operand,
    ) -> tuple[tuple[DeviceArray, ...], Saved]:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def __call__(
        self, *arguments: Operand, axis: Axes = None, keepdims: bool = False, return_saved: bool = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None, **options: Operand,
    ) -> Any:
        """Reduce arrays and scalars that broadcast. At least one must be an array."""
    @overload
    def backward(
        self, dy: NumPyArray | Sequence[NumPyArray], *arguments: NumPyOperand | Saved, axis: Axes = None,
        keepdims: bool = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        **options: NumPyOperand,
    ) -> tuple[NumPyArray, ...]:
        """Return the gradients of a loss with respect to array arguments: dy · after'(totals) · map'(arguments)."""
    @overload
    def backward(
        self, dy: AnyArray | Sequence[AnyArray], *arguments: Operand | Saved, axis: Axes = None, keepdims: bool = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None, **options: Operand,
    ) -> tuple[DeviceArray, ...]:
        """Return the gradients of a loss with respect to array arguments: dy · after'(totals) · map'(arguments)."""
    @overload
    def plan(
        self: Reduction[float], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, **options: NumPyOperand,
    ) -> CustomReducePlan[NumPyArray]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Reduction[float], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, **options: Operand,
    ) -> CustomReducePlan[DeviceArray]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Reduction[tuple[Any, ...]], *arguments: NumPyOperand, axis: Axes = None, keepdims: bool = False,
        out: NumPyArray | Sequence[NumPyArray | None] | None = None, **options: NumPyOperand,
    ) -> CustomReducePlan[tuple[NumPyArray, ...]]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self: Reduction[tuple[Any, ...]], *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, **options: Operand,
    ) -> CustomReducePlan[tuple[DeviceArray, ...]]:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    @overload
    def plan(
        self, *arguments: Operand, axis: Axes = None, keepdims: bool = False,
        out: AnyArray | Sequence[AnyArray | None] | None = None, **options: Operand,
    ) -> CustomReducePlan:
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
    def inspect(
        self, *arguments: Operand, axis: Axes = None, keepdims: bool = False, **options: Operand,
    ) -> Inspection:
        """Return the code that a call with these arguments is compiled to, as `Kernel.inspect` does."""
    def benchmark(
        self, shape: Shape, dtype: DTypeLike = 'float32', *, axis: Axes = None, repeats: int = 30, **numbers: Operand,
    ) -> Benchmark:
        """Measure the speed of a call on a GPU, as `Kernel.benchmark` does, for arrays that are reduced along `axis`."""

abs: _Functions.abs
"""Return |x|."""

abs_backward: _Functions.abs_backward
"""Return the gradient of abs(x) with respect to x, multiplied by dy."""

acos: _Functions.acos
"""Return the arccosine of x, the angle in [0, π] whose cosine is x."""

acos_backward: _Functions.acos_backward
"""Return the gradient of acos(x) with respect to x, multiplied by dy."""

acosh: _Functions.acosh
"""Return the inverse hyperbolic cosine of x, which is at least 0."""

acosh_backward: _Functions.acosh_backward
"""Return the gradient of acosh(x) with respect to x, multiplied by dy."""

adamw_step: _Functions.adamw_step
"""Make a step of AdamW in place, for one parameter or for lists. One kernel reads and writes everything once."""

add: _Functions.add
"""Return x1 + x2."""

add_backward: _Functions.add_backward
"""Return the gradients of add(x1, x2) with respect to x1 and x2, multiplied by dy."""

add_layer_norm: _Functions.add_layer_norm
"""Return `layer_norm` of x + residual, and x + residual, in one kernel."""

add_layer_norm_backward: _Functions.add_layer_norm_backward
"""Return the gradients of `add_layer_norm`: dtotal + `layer_norm_backward(dy, total, weight)`, in one kernel."""

add_rms_norm: _Functions.add_rms_norm
"""Return `rms_norm` of x + residual, and x + residual, in one kernel."""

add_rms_norm_backward: _Functions.add_rms_norm_backward
"""Return the gradients of `add_rms_norm`: dtotal + `rms_norm_backward(dy, total, weight)`, in one kernel."""

addcdiv: _Functions.addcdiv
"""Return x + value x1 / x2."""

addcdiv_backward: _Functions.addcdiv_backward
"""Return the gradients of addcdiv(x, x1, x2) with respect to x, x1 and x2, multiplied by dy."""

addcmul: _Functions.addcmul
"""Return x + value x1 x2."""

addcmul_backward: _Functions.addcmul_backward
"""Return the gradients of addcmul(x, x1, x2) with respect to x, x1 and x2, multiplied by dy."""

all: _Functions.all
"""Return whether all elements are nonzero, and True for no elements."""

angle: _Functions.angle
"""Return the angle of a complex number in radians, in [-π, π]."""

any: _Functions.any
"""Return whether any element is nonzero, and False for no elements."""

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

argmax: _Functions.argmax
"""Return the index of the largest element along an axis."""

argmin: _Functions.argmin
"""Return the index of the smallest element along an axis."""

asin: _Functions.asin
"""Return the arcsine of x, the angle in [-π/2, π/2] whose sine is x."""

asin_backward: _Functions.asin_backward
"""Return the gradient of asin(x) with respect to x, multiplied by dy."""

asinh: _Functions.asinh
"""Return the inverse hyperbolic sine of x."""

asinh_backward: _Functions.asinh_backward
"""Return the gradient of asinh(x) with respect to x, multiplied by dy."""

astype: _Functions.astype
"""Return x converted to another dtype."""

atan: _Functions.atan
"""Return the arctangent of x, the angle in [-π/2, π/2] whose tangent is x."""

atan2: _Functions.atan2
"""Return the angle of the point (x2, x1) in radians, in [-π, π]."""

atan2_backward: _Functions.atan2_backward
"""Return the gradients of atan2(x1, x2) with respect to x1 and x2, multiplied by dy."""

atan_backward: _Functions.atan_backward
"""Return the gradient of atan(x) with respect to x, multiplied by dy."""

atanh: _Functions.atanh
"""Return the inverse hyperbolic tangent of x."""

atanh_backward: _Functions.atanh_backward
"""Return the gradient of atanh(x) with respect to x, multiplied by dy."""

bias_activation: _Functions.bias_activation
"""Return an activation of x + bias, computed in one pass without rounding the sum."""

bias_activation_backward: _Functions.bias_activation_backward
"""Return the gradients of bias_activation(x, bias) with respect to x and the bias, multiplied by dy."""

bitwise_and: _Functions.bitwise_and
"""Return the bitwise and of x1 and x2."""

bitwise_not: _Functions.bitwise_not
"""Return x with all bits inverted."""

bitwise_or: _Functions.bitwise_or
"""Return the bitwise or of x1 and x2."""

bitwise_xor: _Functions.bitwise_xor
"""Return the bitwise exclusive or of x1 and x2."""

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

cbrt: _Functions.cbrt
"""Return ∛x, the cube root, which has the sign of x."""

cbrt_backward: _Functions.cbrt_backward
"""Return the gradient of cbrt(x) with respect to x, multiplied by dy."""

ceil: _Functions.ceil
"""Return the smallest whole number that is not below x."""

celu: _Functions.celu
"""Return x where it is above 0, else alpha (e^(x/alpha) - 1)."""

celu_backward: _Functions.celu_backward
"""Return the gradient of celu(x) with respect to x, multiplied by dy."""

clamp: _Functions.clamp
"""Return x limited to the range from min to max. Where min is above max, the result is max."""

clamp_backward: _Functions.clamp_backward
"""Return the gradients of clamp(x, min, max) with respect to x, min and max, multiplied by dy."""

@overload
def clip_grad_norm(
    g: NumPyArray | Sequence[NumPyArray], max_norm: float | None, *, factor: float | NumPyArray | None = None,
    write: bool = True, out: Sequence[NumPyArray] | None = None, stream: Any = None,
) -> tuple[NumPyArray, NumPyArray]: ...
@overload
def clip_grad_norm(
    g: AnyArray | Sequence[AnyArray], max_norm: float | None, *, factor: float | AnyArray | None = None,
    write: bool = True, out: Sequence[AnyArray] | None = None, stream: Any = None,
) -> tuple[DeviceArray, DeviceArray]: ...

concatenate: _Functions.concatenate
"""Return arrays joined along an axis that they have."""

conj: _Functions.conj
"""Return the complex conjugate of x."""

copy: _Functions.copy
"""Return a contiguous copy of x in its memory order, or copy x into `out`, in the memory order of `out`."""

copysign: _Functions.copysign
"""Return |x1| with the sign of x2."""

copysign_backward: _Functions.copysign_backward
"""Return the gradients of copysign(x1, x2) with respect to x1 and x2, multiplied by dy."""

cos: _Functions.cos
"""Return the cosine of x, with x in radians."""

cos_backward: _Functions.cos_backward
"""Return the gradient of cos(x) with respect to x, multiplied by dy."""

cosh: _Functions.cosh
"""Return the hyperbolic cosine of x."""

cosh_backward: _Functions.cosh_backward
"""Return the gradient of cosh(x) with respect to x, multiplied by dy."""

cross_entropy: _Functions.cross_entropy
"""Return the cross entropy of logits: -log softmax(x) at the target class, which is log Σ e^x - x_t."""

cross_entropy_and_gradient: _Functions.cross_entropy_and_gradient
"""Return the cross entropy of logits and its gradient with respect to them, in one pass over the logits."""

cross_entropy_backward: _Functions.cross_entropy_backward
"""Return the gradient of the loss with respect to the logits, multiplied by dy: dy (softmax(x) - 1 at the target)."""

cumprod: _Functions.cumprod
"""Return the cumulative product: y[i] is the product of x[j] over all j <= i, or over all j >= i with reverse=True."""

cumprod_backward: _Functions.cumprod_backward
"""Return the gradient of cumprod(x) with respect to x, multiplied by dy."""

cumsum: _Functions.cumsum
"""Return the cumulative sum: y[i] is the sum of x[j] over all j <= i, or over all j >= i with reverse=True."""

cumsum_backward: _Functions.cumsum_backward
"""Return the gradient of cumsum(x) with respect to x, multiplied by dy: dx[i] is the sum of dy[j] over all j >= i."""

digamma: _Functions.digamma
"""Return ψ(x), the derivative of ln Γ(x)."""

digamma_backward: _Functions.digamma_backward
"""Return the gradient of digamma(x) with respect to x, multiplied by dy."""

divide: _Functions.divide
"""Return x1 / x2."""

divide_backward: _Functions.divide_backward
"""Return the gradients of divide(x1, x2) with respect to x1 and x2, multiplied by dy."""

dropout: _Functions.dropout
"""Set elements of x to 0 with probability p, and divide the others by 1 - p."""

dropout_backward: _Functions.dropout_backward
"""Return the gradient of dropout(x) with respect to x: dy with the same elements dropped, divided by 1 - p."""

elu: _Functions.elu
"""Return x where it is above 0, else alpha (e^x - 1)."""

elu_backward: _Functions.elu_backward
"""Return the gradient of elu(x) with respect to x, multiplied by dy."""

equal: _Functions.equal
"""Return whether x1 == x2."""

erf: _Functions.erf
"""Return the error function 2/√π ∫₀ˣ e^(-t²) dt."""

erf_backward: _Functions.erf_backward
"""Return the gradient of erf(x) with respect to x, multiplied by dy."""

erfc: _Functions.erfc
"""Return 1 - erf(x), accurate also where it is close to 0."""

erfc_backward: _Functions.erfc_backward
"""Return the gradient of erfc(x) with respect to x, multiplied by dy."""

erfinv: _Functions.erfinv
"""Return the inverse error function of x, the number y with erf(y) = x."""

erfinv_backward: _Functions.erfinv_backward
"""Return the gradient of erfinv(x) with respect to x, multiplied by dy."""

exp: _Functions.exp
"""Return e^x."""

exp2: _Functions.exp2
"""Return 2^x."""

exp2_backward: _Functions.exp2_backward
"""Return the gradient of exp2(x) with respect to x, multiplied by dy."""

exp_backward: _Functions.exp_backward
"""Return the gradient of exp(x) with respect to x, multiplied by dy."""

expm1: _Functions.expm1
"""Return e^x - 1, accurate also where x is close to 0."""

expm1_backward: _Functions.expm1_backward
"""Return the gradient of expm1(x) with respect to x, multiplied by dy."""

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

floor: _Functions.floor
"""Return the largest whole number that is not above x."""

floor_divide: _Functions.floor_divide
"""Return floor(x1 / x2), the largest whole number that is not above the quotient."""

fma: _Functions.fma
"""Return x1 x2 + x3, rounded once."""

fma_backward: _Functions.fma_backward
"""Return the gradients of fma(x1, x2, x3) with respect to x1, x2 and x3, multiplied by dy."""

fmax: _Functions.fmax
"""Return the larger of x1 and x2."""

fmax_backward: _Functions.fmax_backward
"""Return the gradients of fmax(x1, x2) with respect to x1 and x2, multiplied by dy."""

fmin: _Functions.fmin
"""Return the smaller of x1 and x2."""

fmin_backward: _Functions.fmin_backward
"""Return the gradients of fmin(x1, x2) with respect to x1 and x2, multiplied by dy."""

fmod: _Functions.fmod
"""Return x1 - x2 trunc(x1 / x2), which has the sign of x1."""

fmod_backward: _Functions.fmod_backward
"""Return the gradients of fmod(x1, x2) with respect to x1 and x2, multiplied by dy."""

frac: _Functions.frac
"""Return the fractional part x - trunc(x), which has the sign of x."""

frac_backward: _Functions.frac_backward
"""Return the gradient of frac(x) with respect to x, multiplied by dy."""

gelu: _Functions.gelu
"""Return x Φ(x), where Φ is the normal distribution."""

gelu_backward: _Functions.gelu_backward
"""Return the gradient of gelu(x) with respect to x, multiplied by dy."""

gelu_tanh: _Functions.gelu_tanh
"""Return x ½(1 + tanh(√(2/π)(x + 0.044715 x³)))."""

gelu_tanh_backward: _Functions.gelu_tanh_backward
"""Return the gradient of gelu_tanh(x) with respect to x, multiplied by dy."""

greater: _Functions.greater
"""Return whether x1 > x2."""

greater_equal: _Functions.greater_equal
"""Return whether x1 >= x2."""

hardshrink: _Functions.hardshrink
"""Return x, or 0 where |x| <= lambd."""

hardshrink_backward: _Functions.hardshrink_backward
"""Return the gradient of hardshrink(x) with respect to x, multiplied by dy."""

hardsigmoid: _Functions.hardsigmoid
"""Return x/6 + ½, limited to the range from 0 to 1."""

hardsigmoid_backward: _Functions.hardsigmoid_backward
"""Return the gradient of hardsigmoid(x) with respect to x, multiplied by dy."""

hardswish: _Functions.hardswish
"""Return x hardsigmoid(x)."""

hardswish_backward: _Functions.hardswish_backward
"""Return the gradient of hardswish(x) with respect to x, multiplied by dy."""

hardtanh: _Functions.hardtanh
"""Return x limited to the range from min_val to max_val."""

hardtanh_backward: _Functions.hardtanh_backward
"""Return the gradient of hardtanh(x) with respect to x, multiplied by dy."""

hypot: _Functions.hypot
"""Return √(x1² + x2²)."""

hypot_backward: _Functions.hypot_backward
"""Return the gradients of hypot(x1, x2) with respect to x1 and x2, multiplied by dy."""

imag: _Functions.imag
"""Return the imaginary part of x, which is 0 for real numbers."""

isfinite: _Functions.isfinite
"""Return whether x is neither infinite nor NaN."""

isinf: _Functions.isinf
"""Return whether x is infinite."""

isnan: _Functions.isnan
"""Return whether x is NaN."""

@overload
def kernel(function: Callable[..., _Numbers], *, backward: Callable[..., Any] | None = None) -> Kernel[_Numbers]: ...
@overload
def kernel(
    function: None = None, *, backward: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., _Numbers]], Kernel[_Numbers]]: ...

layer_norm: _Functions.layer_norm
"""Normalize by mean and variance along the last axis: (x - mean) w / √(variance + eps) + b, LayerNorm."""

layer_norm_backward: _Functions.layer_norm_backward
"""Return the gradients of layer_norm(x, weight, bias) with respect to all three, multiplied by dy."""

ldexp: _Functions.ldexp
"""Return x1 2^x2, where x2 holds whole numbers."""

ldexp_backward: _Functions.ldexp_backward
"""Return the gradient of ldexp(x1, x2) with respect to x1, multiplied by dy."""

leaky_relu: _Functions.leaky_relu
"""Return x where it is above 0, else negative_slope x."""

leaky_relu_backward: _Functions.leaky_relu_backward
"""Return the gradient of leaky_relu(x) with respect to x, multiplied by dy."""

left_shift: _Functions.left_shift
"""Return x1 with its bits shifted left by x2."""

lerp: _Functions.lerp
"""Return x1 + weight (x2 - x1), the linear interpolation."""

lerp_backward: _Functions.lerp_backward
"""Return the gradients of lerp(x1, x2, weight) with respect to x1, x2 and weight, multiplied by dy."""

less: _Functions.less
"""Return whether x1 < x2."""

less_equal: _Functions.less_equal
"""Return whether x1 <= x2."""

lgamma: _Functions.lgamma
"""Return ln |Γ(x)|, the logarithm of the gamma function."""

lgamma_backward: _Functions.lgamma_backward
"""Return the gradient of lgamma(x) with respect to x, multiplied by dy."""

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

log: _Functions.log
"""Return ln x, the natural logarithm."""

log10: _Functions.log10
"""Return log₁₀ x, the logarithm to base 10."""

log10_backward: _Functions.log10_backward
"""Return the gradient of log10(x) with respect to x, multiplied by dy."""

log1p: _Functions.log1p
"""Return ln(1 + x), accurate also where x is close to 0."""

log1p_backward: _Functions.log1p_backward
"""Return the gradient of log1p(x) with respect to x, multiplied by dy."""

log2: _Functions.log2
"""Return log₂ x, the logarithm to base 2."""

log2_backward: _Functions.log2_backward
"""Return the gradient of log2(x) with respect to x, multiplied by dy."""

log_backward: _Functions.log_backward
"""Return the gradient of log(x) with respect to x, multiplied by dy."""

log_sigmoid: _Functions.log_sigmoid
"""Return ln σ(x)."""

log_sigmoid_backward: _Functions.log_sigmoid_backward
"""Return the gradient of log_sigmoid(x) with respect to x, multiplied by dy."""

log_softmax: _Functions.log_softmax
"""Return the logarithm of the softmax along an axis: x - max - log Σ e^(x - max)."""

log_softmax_backward: _Functions.log_softmax_backward
"""Return the gradient of y = log_softmax(x) with respect to x, multiplied by dy: dy - e^y Σ dy."""

logaddexp: _Functions.logaddexp
"""Return ln(e^x1 + e^x2)."""

logaddexp_backward: _Functions.logaddexp_backward
"""Return the gradients of logaddexp(x1, x2) with respect to x1 and x2, multiplied by dy."""

logical_and: _Functions.logical_and
"""Return whether x1 and x2 are both nonzero."""

logical_not: _Functions.logical_not
"""Return whether x is 0 or False."""

logical_or: _Functions.logical_or
"""Return whether x1 or x2 is nonzero."""

logical_xor: _Functions.logical_xor
"""Return whether exactly one of x1 and x2 is nonzero."""

logsumexp: _Functions.logsumexp
"""Return log Σ e^x, and -inf for no elements. The exponentials do not overflow."""

logsumexp_backward: _Functions.logsumexp_backward
"""Return dx, the gradient of logsumexp(x) with respect to x, multiplied by dy."""

max: _Functions.max
"""Return the largest element."""

max_backward: _Functions.max_backward
"""Return dx, the gradient of max(x) with respect to x, multiplied by dy."""

maximum: _Functions.maximum
"""Return the larger of x1 and x2, and NaN where either is NaN."""

maximum_backward: _Functions.maximum_backward
"""Return the gradients of maximum(x1, x2) with respect to x1 and x2, multiplied by dy."""

mean: _Functions.mean
"""Return the mean Σ x / n, and NaN for no elements."""

mean_backward: _Functions.mean_backward
"""Return dx, the gradient of mean(x) with respect to x, multiplied by dy."""

min: _Functions.min
"""Return the smallest element."""

min_backward: _Functions.min_backward
"""Return dx, the gradient of min(x) with respect to x, multiplied by dy."""

minimum: _Functions.minimum
"""Return the smaller of x1 and x2, and NaN where either is NaN."""

minimum_backward: _Functions.minimum_backward
"""Return the gradients of minimum(x1, x2) with respect to x1 and x2, multiplied by dy."""

mish: _Functions.mish
"""Return x tanh(ln(1 + e^x))."""

mish_backward: _Functions.mish_backward
"""Return the gradient of mish(x) with respect to x, multiplied by dy."""

multiply: _Functions.multiply
"""Return the product of x1 and x2."""

multiply_backward: _Functions.multiply_backward
"""Return the gradients of multiply(x1, x2) with respect to x1 and x2, multiplied by dy."""

negative: _Functions.negative
"""Return -x."""

negative_backward: _Functions.negative_backward
"""Return the gradient of negative(x) with respect to x, multiplied by dy."""

nextafter: _Functions.nextafter
"""Return the next value of the dtype after x1 towards x2."""

norm: _Functions.norm
"""Return the vector norm (Σ |x|^p)^(1/p) of order p, as `numpy.linalg.norm` does for vectors."""

norm_backward: _Functions.norm_backward
"""Return dx, the gradient of norm(x) with respect to x, multiplied by dy."""

not_equal: _Functions.not_equal
"""Return whether x1 != x2."""

one_hot: _Functions.one_hot
"""Return one-hot codes: 1 at the position along a new axis that an index selects, and 0 at all others."""

pow: _Functions.pow
"""Return x1 to the power of x2."""

pow_backward: _Functions.pow_backward
"""Return the gradients of pow(x1, x2) with respect to x1 and x2, multiplied by dy."""

prelu: _Functions.prelu
"""Return x where it is above 0, else weight x."""

prelu_backward: _Functions.prelu_backward
"""Return the gradients of prelu(x, weight) with respect to x and weight, multiplied by dy."""

prod: _Functions.prod
"""Return the product Π x, and 1 for no elements."""

prod_backward: _Functions.prod_backward
"""Return dx, the gradient of prod(x) with respect to x, multiplied by dy."""

quick_gelu: _Functions.quick_gelu
"""Return x σ(1.702 x)."""

quick_gelu_backward: _Functions.quick_gelu_backward
"""Return the gradient of quick_gelu(x) with respect to x, multiplied by dy."""

real: _Functions.real
"""Return the real part of x."""

reciprocal: _Functions.reciprocal
"""Return 1/x."""

reciprocal_backward: _Functions.reciprocal_backward
"""Return the gradient of reciprocal(x) with respect to x, multiplied by dy."""

@overload
def reduction(
    function: Callable[..., _Numbers], *, merge: Merge | Callable[..., Any] = 'sum',
    start: float | tuple[float, ...] | None = None, after: None = None,
) -> Reduction[_Numbers]: ...
@overload
def reduction(
    function: Callable[..., Any], *, merge: Merge | Callable[..., Any] = 'sum',
    start: float | tuple[float, ...] | None = None, after: Callable[..., _Numbers],
) -> Reduction[_Numbers]: ...
@overload
def reduction(
    function: None = None, *, merge: Merge | Callable[..., Any] = 'sum', start: float | tuple[float, ...] | None = None,
    after: None = None,
) -> Callable[[Callable[..., _Numbers]], Reduction[_Numbers]]: ...
@overload
def reduction(
    function: None = None, *, merge: Merge | Callable[..., Any] = 'sum', start: float | tuple[float, ...] | None = None,
    after: Callable[..., _Numbers],
) -> Callable[[Callable[..., Any]], Reduction[_Numbers]]: ...

relu: _Functions.relu
"""Return max(x, 0)."""

relu6: _Functions.relu6
"""Return min(max(x, 0), 6)."""

relu6_backward: _Functions.relu6_backward
"""Return the gradient of relu6(x) with respect to x, multiplied by dy."""

relu_backward: _Functions.relu_backward
"""Return the gradient of relu(x) with respect to x, multiplied by dy."""

remainder: _Functions.remainder
"""Return x1 - x2 floor(x1 / x2), which has the sign of x2."""

remainder_backward: _Functions.remainder_backward
"""Return the gradients of remainder(x1, x2) with respect to x1 and x2, multiplied by dy."""

residual_activation: _Functions.residual_activation
"""Return an activation of x + residual, computed in one pass without rounding the sum."""

residual_activation_backward: _Functions.residual_activation_backward
"""Return the gradient of residual_activation(x, residual) with respect to x, multiplied by dy."""

right_shift: _Functions.right_shift
"""Return x1 with its bits shifted right by x2."""

rms_norm: _Functions.rms_norm
"""Normalize by the root mean square along the last axis: x w / √(mean of x² + eps), RMSNorm."""

rms_norm_backward: _Functions.rms_norm_backward
"""Return the gradients of rms_norm(x, weight) with respect to x and weight, multiplied by dy."""

rope: _Functions.rope
"""Apply the rotary position embedding: each pair (a, b) in a row becomes (a cos - b sin, b cos + a sin)."""

rope_backward: _Functions.rope_backward
"""Return the gradient of rope(x, cos, sin) with respect to x, multiplied by dy: each pair is rotated back."""

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

round: _Functions.round
"""Return the whole number nearest to x, with ties rounded to even."""

rsqrt: _Functions.rsqrt
"""Return 1/√x."""

rsqrt_backward: _Functions.rsqrt_backward
"""Return the gradient of rsqrt(x) with respect to x, multiplied by dy."""

selu: _Functions.selu
"""Return 1.0507 elu(x, 1.6733)."""

selu_backward: _Functions.selu_backward
"""Return the gradient of selu(x) with respect to x, multiplied by dy."""

sigmoid: _Functions.sigmoid
"""Return σ(x) = 1/(1 + e^(-x))."""

sigmoid_backward: _Functions.sigmoid_backward
"""Return the gradient of sigmoid(x) with respect to x, multiplied by dy."""

sign: _Functions.sign
"""Return the sign of x: -1, 0 or 1."""

silu: _Functions.silu
"""Return x σ(x)."""

silu_backward: _Functions.silu_backward
"""Return the gradient of silu(x) with respect to x, multiplied by dy."""

sin: _Functions.sin
"""Return the sine of x, with x in radians."""

sin_backward: _Functions.sin_backward
"""Return the gradient of sin(x) with respect to x, multiplied by dy."""

sinh: _Functions.sinh
"""Return the hyperbolic sine of x."""

sinh_backward: _Functions.sinh_backward
"""Return the gradient of sinh(x) with respect to x, multiplied by dy."""

softmax: _Functions.softmax
"""Return the softmax along an axis: e^(x - max) / Σ e^(x - max)."""

softmax_backward: _Functions.softmax_backward
"""Return the gradient of y = softmax(x) with respect to x, multiplied by dy: y (dy - Σ dy y)."""

softplus: _Functions.softplus
"""Return ln(1 + e^(beta x))/beta, or x where beta x is above the threshold."""

softplus_backward: _Functions.softplus_backward
"""Return the gradient of softplus(x) with respect to x, multiplied by dy."""

softshrink: _Functions.softshrink
"""Return x moved by lambd toward 0, or 0 where |x| <= lambd."""

softshrink_backward: _Functions.softshrink_backward
"""Return the gradient of softshrink(x) with respect to x, multiplied by dy."""

softsign: _Functions.softsign
"""Return x/(1 + |x|)."""

softsign_backward: _Functions.softsign_backward
"""Return the gradient of softsign(x) with respect to x, multiplied by dy."""

sqrt: _Functions.sqrt
"""Return √x, the square root."""

sqrt_backward: _Functions.sqrt_backward
"""Return the gradient of sqrt(x) with respect to x, multiplied by dy."""

square: _Functions.square
"""Return x²."""

square_backward: _Functions.square_backward
"""Return the gradient of square(x) with respect to x, multiplied by dy."""

squared_relu: _Functions.squared_relu
"""Return max(x, 0)²."""

squared_relu_backward: _Functions.squared_relu_backward
"""Return the gradient of squared_relu(x) with respect to x, multiplied by dy."""

stack: _Functions.stack
"""Return arrays of one shape joined along a new axis."""

std: _Functions.std
"""Return the standard deviation, the square root of `var`."""

std_backward: _Functions.std_backward
"""Return dx, the gradient of std(x) with respect to x, multiplied by dy."""

subtract: _Functions.subtract
"""Return x1 - x2."""

subtract_backward: _Functions.subtract_backward
"""Return the gradients of subtract(x1, x2) with respect to x1 and x2, multiplied by dy."""

sum: _Functions.sum
"""Return the sum Σ x, and 0 for no elements."""

sum_backward: _Functions.sum_backward
"""Return dx, the gradient of sum(x) with respect to x, multiplied by dy."""

take: _Functions.take
"""Return elements of x along an axis, in the order of a list of indices, for example rows of a table."""

take_along_axis: _Functions.take_along_axis
"""Return elements along an axis, with separate indices for each row: y[i, j, k] = x[i, indices[i, j, k], k]."""

take_along_axis_backward: _Functions.take_along_axis_backward
"""Return the gradient of take_along_axis(x, indices) with respect to x, multiplied by dy."""

take_backward: _Functions.take_backward
"""Return the gradient of take(x, indices) with respect to x, multiplied by dy."""

tan: _Functions.tan
"""Return the tangent of x, with x in radians."""

tan_backward: _Functions.tan_backward
"""Return the gradient of tan(x) with respect to x, multiplied by dy."""

tanh: _Functions.tanh
"""Return the hyperbolic tangent of x."""

tanh_backward: _Functions.tanh_backward
"""Return the gradient of tanh(x) with respect to x, multiplied by dy."""

tanhshrink: _Functions.tanhshrink
"""Return x - tanh(x)."""

tanhshrink_backward: _Functions.tanhshrink_backward
"""Return the gradient of tanhshrink(x) with respect to x, multiplied by dy."""

threshold: _Functions.threshold
"""Return x where it is above the threshold, else the value."""

threshold_backward: _Functions.threshold_backward
"""Return the gradient of threshold(x, threshold, value) with respect to x, multiplied by dy."""

tril: _Functions.tril
"""Return the lower triangles of matrices, with zeros above diagonal k."""

triu: _Functions.triu
"""Return the upper triangles of matrices, with zeros below diagonal k."""

trunc: _Functions.trunc
"""Return x without its fractional part."""

var: _Functions.var
"""Return the variance Σ |x - x̄|² / max(n - correction, 0), where x̄ is the mean, and NaN for no elements."""

var_backward: _Functions.var_backward
"""Return dx, the gradient of var(x) with respect to x, multiplied by dy."""

where: _Functions.where
"""Return x1 where the condition is True, else x2."""

where_backward: _Functions.where_backward
"""Return the gradients of where(condition, x1, x2) with respect to x1 and x2, multiplied by dy."""
