# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""Matrix products with fused epilogues by cuBLASLt, and layers built from them."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    AuxEpilogue,
    BiasGradEpilogue,
    DTypeLike,
    DeviceArray,
    LayerActivation,
    NumPyArray,
    ProductCompute,
    ProductEpilogue,
)
from numbacc.gemm.arguments import WithAux
from numbacc.gemm.arguments import WithBiasGrad
from numbacc.gemm.layers import SavedLinear
from numbacc.gemm.layers import SavedMlp
from numbacc.gemm.plan import MatmulPlan
from numbacc.plan.cache import CacheInfo

__all__ = [
    "Epilogue",
    "algorithms",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "grouped",
    "grouped_backward",
    "linear",
    "linear_backward",
    "matmul",
    "matmul_backward",
    "mlp",
    "mlp_backward",
]


from numbacc.gemm.epilogue import Epilogue as Epilogue

class _Function:
    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

class _Functions:
    class grouped(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, b: NumPyArray, sizes: NumPyArray, *, epilogue: Callable[..., Any] | None = None,
            operands: Sequence[Any] | None = None, alpha: float = 1.0,
            out_dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
            out: NumPyArray | Sequence[NumPyArray] | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, sizes: AnyArray, *, epilogue: Callable[..., Any] | None = None,
            operands: Sequence[Any] | None = None, alpha: float = 1.0,
            out_dtype: DTypeLike | Sequence[DTypeLike | None] | None = None,
            out: AnyArray | Sequence[AnyArray] | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        backward: _Functions.grouped_backward

    class grouped_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray | Sequence[NumPyArray], a: NumPyArray, b: NumPyArray, sizes: NumPyArray, *,
            epilogue: Callable[..., Any] | None = None, operands: Sequence[Any] | None = None, alpha: float = 1.0,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray | None, ...]: ...
        @overload
        def __call__(
            self, dy: AnyArray | Sequence[AnyArray], a: AnyArray, b: AnyArray, sizes: AnyArray, *,
            epilogue: Callable[..., Any] | None = None, operands: Sequence[Any] | None = None, alpha: float = 1.0,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray | None, ...]: ...

    class linear(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, w: NumPyArray, bias: NumPyArray | None = None,
            activation: LayerActivation | None = None, *, residual: NumPyArray | None = None, tune: bool = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, SavedLinear]: ...
        @overload
        def __call__(
            self, x: AnyArray, w: AnyArray, bias: AnyArray | None = None, activation: LayerActivation | None = None, *,
            residual: AnyArray | None = None, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, SavedLinear]: ...
        backward: _Functions.linear_backward

    class linear_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, saved: SavedLinear, *, accumulate: bool | Sequence[bool] = False, tune: bool = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray | None]: ...
        @overload
        def __call__(
            self, dy: AnyArray, saved: SavedLinear, *, accumulate: bool | Sequence[bool] = False, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray | None]: ...

    class matmul(_Function):
        @overload
        def __call__(
            self, a: NumPyArray, b: NumPyArray, *, c: NumPyArray | None = None, bias: NumPyArray | None = None,
            aux: NumPyArray | None = None, epilogue: ProductEpilogue = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ProductCompute | None = None,
            scale_a: NumPyArray | float | None = None, scale_b: NumPyArray | float | None = None,
            scale_c: NumPyArray | float | None = None, scale_d: NumPyArray | float | None = None,
            amax_d: NumPyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: NumPyArray | None = None, stream: Any = None,
        ) -> NumPyArray: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: ProductEpilogue = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | None = None, stream: Any = None,
        ) -> DeviceArray: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: AuxEpilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | None = None, stream: Any = None,
        ) -> WithAux: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: BiasGradEpilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> WithBiasGrad: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: Epilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def __call__(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: Callable[..., Any], operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, beta: float = 0.0,
            out_dtype: DTypeLike | Sequence[DTypeLike | None] | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> Any: ...
        @overload
        def plan(
            self, a: NumPyArray, b: NumPyArray, *, c: NumPyArray | None = None, bias: NumPyArray | None = None,
            aux: NumPyArray | None = None, epilogue: ProductEpilogue = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0, out_dtype: DTypeLike | None = None,
            compute: ProductCompute | None = None, scale_a: NumPyArray | float | None = None,
            scale_b: NumPyArray | float | None = None, scale_c: NumPyArray | float | None = None,
            scale_d: NumPyArray | float | None = None, amax_d: NumPyArray | None = None,
            workspace_limit: int | None = None, tune: bool = False, out: NumPyArray | None = None,
        ) -> MatmulPlan[NumPyArray]: ...
        @overload
        def plan(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: ProductEpilogue = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0, out_dtype: DTypeLike | None = None,
            compute: ProductCompute | None = None, scale_a: AnyArray | float | None = None,
            scale_b: AnyArray | float | None = None, scale_c: AnyArray | float | None = None,
            scale_d: AnyArray | float | None = None, amax_d: AnyArray | None = None, workspace_limit: int | None = None,
            tune: bool = False, out: AnyArray | None = None,
        ) -> MatmulPlan[DeviceArray]: ...
        @overload
        def plan(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: AuxEpilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0, out_dtype: DTypeLike | None = None,
            compute: ProductCompute | None = None, scale_a: AnyArray | float | None = None,
            scale_b: AnyArray | float | None = None, scale_c: AnyArray | float | None = None,
            scale_d: AnyArray | float | None = None, amax_d: AnyArray | None = None, workspace_limit: int | None = None,
            tune: bool = False, out: AnyArray | None = None,
        ) -> MatmulPlan[WithAux]: ...
        @overload
        def plan(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: BiasGradEpilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0, out_dtype: DTypeLike | None = None,
            compute: ProductCompute | None = None, scale_a: AnyArray | float | None = None,
            scale_b: AnyArray | float | None = None, scale_c: AnyArray | float | None = None,
            scale_d: AnyArray | float | None = None, amax_d: AnyArray | None = None, workspace_limit: int | None = None,
            tune: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
        ) -> MatmulPlan[WithBiasGrad]: ...
        @overload
        def plan(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: Epilogue, operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0, out_dtype: DTypeLike | None = None,
            compute: ProductCompute | None = None, scale_a: AnyArray | float | None = None,
            scale_b: AnyArray | float | None = None, scale_c: AnyArray | float | None = None,
            scale_d: AnyArray | float | None = None, amax_d: AnyArray | None = None, workspace_limit: int | None = None,
            tune: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None,
        ) -> MatmulPlan[Any]: ...
        @overload
        def plan(
            self, a: AnyArray, b: AnyArray, *, c: AnyArray | None = None, bias: AnyArray | None = None,
            aux: AnyArray | None = None, epilogue: Callable[..., Any], operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, beta: float = 0.0,
            out_dtype: DTypeLike | Sequence[DTypeLike | None] | None = None, compute: ProductCompute | None = None,
            scale_a: AnyArray | float | None = None, scale_b: AnyArray | float | None = None,
            scale_c: AnyArray | float | None = None, scale_d: AnyArray | float | None = None,
            amax_d: AnyArray | None = None, workspace_limit: int | None = None, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None,
        ) -> MatmulPlan[Any]: ...
        backward: _Functions.matmul_backward

    class matmul_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray | Sequence[NumPyArray], a: NumPyArray, b: NumPyArray, *,
            epilogue: Callable[..., Any] | Epilogue | Literal["none"] = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, compute: ProductCompute | None = None,
            tune: bool = False, out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray | None, ...]: ...
        @overload
        def __call__(
            self, dy: AnyArray | Sequence[AnyArray], a: AnyArray, b: AnyArray, *,
            epilogue: Callable[..., Any] | Epilogue | Literal["none"] = 'none', operands: Sequence[Any] | None = None,
            reduce: str | Sequence[str | None] | None = None, alpha: float = 1.0, compute: ProductCompute | None = None,
            tune: bool = False, out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray | None, ...]: ...

    class mlp(_Function):
        @overload
        def __call__(
            self, x: NumPyArray, w1: NumPyArray, b1: NumPyArray, w2: NumPyArray, b2: NumPyArray,
            activation: LayerActivation = 'gelu', *, tune: bool = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, SavedMlp]: ...
        @overload
        def __call__(
            self, x: AnyArray, w1: AnyArray, b1: AnyArray, w2: AnyArray, b2: AnyArray,
            activation: LayerActivation = 'gelu', *, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, SavedMlp]: ...
        @overload
        def __call__(
            self, *arrays: NumPyArray, activation: LayerActivation = 'gelu', tune: bool = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, SavedMlp]: ...
        @overload
        def __call__(
            self, *arrays: AnyArray, activation: LayerActivation = 'gelu', tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, SavedMlp]: ...
        backward: _Functions.mlp_backward

    class mlp_backward(_Function):
        @overload
        def __call__(
            self, dy: NumPyArray, saved: SavedMlp, *, accumulate: bool | Sequence[bool] = False, tune: bool = False,
            out: NumPyArray | Sequence[NumPyArray | None] | None = None, stream: Any = None,
        ) -> tuple[NumPyArray, NumPyArray, NumPyArray, NumPyArray, NumPyArray]: ...
        @overload
        def __call__(
            self, dy: AnyArray, saved: SavedMlp, *, accumulate: bool | Sequence[bool] = False, tune: bool = False,
            out: AnyArray | Sequence[AnyArray | None] | None = None, stream: Any = None,
        ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, DeviceArray]: ...

def algorithms() -> list[tuple[Any, Any]]: ...

def cache_clear() -> None: ...

def cache_info() -> CacheInfo: ...

def cache_limit(count: int | None = None, nbytes: int | None = None) -> tuple[int, int | None]: ...

grouped: _Functions.grouped
"""Multiply groups of rows with a matrix for each group, as in a mixture of experts."""

grouped_backward: _Functions.grouped_backward
"""Return the gradients of a loss with respect to a, b and the operands of `grouped`, given those by its results."""

linear: _Functions.linear
"""Compute y = act(x w + bias) + residual, as one product with its epilogue."""

linear_backward: _Functions.linear_backward
"""Return the gradients of a loss with respect to x, w and bias, given dy, the gradient with respect to y."""

matmul: _Functions.matmul
"""Compute a matrix product with an epilogue: D = epilogue(alpha A B + beta C (+ bias))."""

matmul_backward: _Functions.matmul_backward
"""Return the gradients of a loss with respect to a, b and the operands of `matmul`, given those by its results."""

mlp: _Functions.mlp
"""Compute y = act(x w1 + b1) w2 + b2 with two products and no other kernel."""

mlp_backward: _Functions.mlp_backward
"""Return the gradients of a loss with respect to x, w1, b1, w2 and b2, given dy: four products, no other kernel."""
