"""Types for annotations in your own code: arrays, and the names that options accept.

```
import numbacc
from numbacc import elementwise as ew
from numbacc.typing import Activation, DeviceArray

def layer(x: DeviceArray, bias: DeviceArray, activation: Activation = "relu") -> DeviceArray:
    return ew.bias_activation(x, bias, activation=activation)
```

Type checkers read these types in numbacc's stubs. Functions return NumPy arrays for NumPy arrays, and device arrays for
arrays of other libraries. For type checkers, `numbacc.asarray` and the other functions that make arrays return a device
array, except with device="cpu". At run time they return a NumPy array on a machine without a GPU, too.

Plans, custom kernels, custom reductions and generators have a type parameter. For plans it is the result of a call:
`elementwise.ElementwisePlan[DeviceArray]`. For kernels and reductions it is the result of the Python function:
`elementwise.Kernel[float]` returns an array, `Kernel[tuple[float, float]]` a tuple of arrays. If the function has no
annotations, type checkers assume that the result is an array. For generators it is the type of the random numbers:
`random.Generator[NumPyArray]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, NewType, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .base.keywords import list_only

#: A scalar.
Scalar: TypeAlias = complex | np.number[Any] | np.bool_
#: Anything that names a dtype, for NumPy; numbacc also accepts "bfloat16", "float8_e4m3fn" and "float8_e5m2".
DTypeLike: TypeAlias = npt.DTypeLike
#: A shape: one length, or the lengths of all axes.
Shape: TypeAlias = int | Sequence[int]
#: A NumPy array of any dtype and shape.
NumPyArray: TypeAlias = np.ndarray[Any, Any]
_Part: TypeAlias = int | np.integer[Any] | slice | EllipsisType | None


class SupportsDLPack(Protocol):
    """An array of a library with DLPack, such as torch, CuPy and JAX."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the array's DLPack capsule."""


class SupportsCudaArrayInterface(Protocol):
    """An array of a library with the CUDA array interface, such as Numba."""

    @property
    def __cuda_array_interface__(self) -> Any:
        """The description of the array's memory."""


class DeviceArray(Protocol):
    """The attributes and methods of numbacc's arrays on a GPU; see `numbacc.arrays`.

    This is a type for annotations. To test whether an object is a NumPy array, use `isinstance(x, numpy.ndarray)`.
    """

    # ------------------------------------------------------------ attributes

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> int: ...
    @property
    def T(self) -> DeviceArray: ...
    @property
    def mT(self) -> DeviceArray: ...
    @property
    def real(self) -> DeviceArray: ...
    @real.setter
    def real(self, value: Operand) -> None: ...
    @property
    def imag(self) -> DeviceArray: ...
    @imag.setter
    def imag(self, value: Operand) -> None: ...

    # ------------------------------------------------------------ parts and views

    def __getitem__(self, index: _Part | tuple[_Part, ...], /) -> Any: ...
    def __setitem__(self, index: _Part | tuple[_Part, ...], value: Operand | Sequence[Any], /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def getitem(self, item: Any, stream: Any = 0) -> Any: ...
    def setitem(self, key: Any, value: Any, stream: Any = 0) -> None: ...
    def transpose(self, *order_of_axes: Any, axes: Sequence[int] | None = None) -> DeviceArray: ...
    def reshape(self, *shape: Any, order: Literal["C"] = "C", copy: bool | None = None) -> DeviceArray: ...
    def ravel(self, order: Literal["C"] = "C") -> DeviceArray: ...
    def squeeze(self, axis: int | Sequence[int] | None = None) -> DeviceArray: ...
    def broadcast_to(self, shape: Shape) -> DeviceArray: ...
    def view(self, dtype: DTypeLike | None = None) -> DeviceArray: ...
    def swapaxes(self, axis1: int, axis2: int) -> DeviceArray: ...
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> DeviceArray: ...
    def is_c_contiguous(self) -> bool: ...
    def is_f_contiguous(self) -> bool: ...

    # ------------------------------------------------------------ copies

    def copy_to_host(self, ary: NumPyArray | None = None, stream: Any = 0) -> NumPyArray: ...
    def copy_to_device(self, ary: Any, stream: Any = 0) -> None: ...
    def astype(
        self,
        dtype: DTypeLike,
        order: Literal["K"] = "K",
        casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "unsafe",
        subok: bool = True,
        copy: bool = True,
        *,
        stream: Any = None,
    ) -> DeviceArray: ...
    def copy(self, order: Literal["K", "C"] = "K", *, stream: Any = None) -> DeviceArray: ...
    def flatten(self, order: Literal["C", "F"] = "C") -> DeviceArray: ...
    def to_device(self, device: Any, /, *, stream: Any = None) -> Any: ...
    def item(self, *index: Any) -> Any: ...
    def bind(self, stream: Any = 0) -> DeviceArray: ...
    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceArray]: ...
    def fill(self, value: Scalar) -> None: ...

    # ------------------------------------------------------------ computations

    def clip(
        self, min: Operand | None = None, max: Operand | None = None, out: Any = None, *, stream: Any = None
    ) -> DeviceArray: ...
    def round(self, decimals: int = 0, out: Any = None) -> DeviceArray: ...
    def conj(self, *, stream: Any = None) -> DeviceArray: ...
    def conjugate(self, *, stream: Any = None) -> DeviceArray: ...
    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: Any = None
    ) -> DeviceArray: ...
    def take(self, indices: Any, axis: int | None = None, out: Any = None) -> DeviceArray: ...
    def repeat(self, repeats: int, axis: int | None = None) -> DeviceArray: ...
    def dot(self, b: Operand, out: Any = None) -> DeviceArray: ...
    def sum(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        *,
        stream: Any = None,
    ) -> DeviceArray: ...
    def prod(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        *,
        stream: Any = None,
    ) -> DeviceArray: ...
    def mean(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        keepdims: bool = False,
        *,
        stream: Any = None,
    ) -> DeviceArray: ...
    def max(
        self, axis: Axes = None, out: AnyArray | None = None, keepdims: bool = False, *, stream: Any = None
    ) -> DeviceArray: ...
    def min(
        self, axis: Axes = None, out: AnyArray | None = None, keepdims: bool = False, *, stream: Any = None
    ) -> DeviceArray: ...
    def any(
        self, axis: Axes = None, out: AnyArray | None = None, keepdims: bool = False, *, stream: Any = None
    ) -> DeviceArray: ...
    def all(
        self, axis: Axes = None, out: AnyArray | None = None, keepdims: bool = False, *, stream: Any = None
    ) -> DeviceArray: ...
    def var(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float = 0,
        stream: Any = None,
    ) -> DeviceArray: ...
    def std(
        self,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        correction: float = 0,
        stream: Any = None,
    ) -> DeviceArray: ...
    def argmax(
        self, axis: int | None = None, out: AnyArray | None = None, *, keepdims: bool = False, stream: Any = None
    ) -> DeviceArray: ...
    def argmin(
        self, axis: int | None = None, out: AnyArray | None = None, *, keepdims: bool = False, stream: Any = None
    ) -> DeviceArray: ...
    def cumsum(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        *,
        reverse: bool = False,
        stream: Any = None,
    ) -> DeviceArray: ...
    def cumprod(
        self,
        axis: int | None = None,
        dtype: DTypeLike | None = None,
        out: AnyArray | None = None,
        *,
        reverse: bool = False,
        stream: Any = None,
    ) -> DeviceArray: ...

    # ------------------------------------------------------------ operators

    def __add__(self, other: Operand, /) -> DeviceArray: ...
    def __radd__(self, other: Operand, /) -> DeviceArray: ...
    def __sub__(self, other: Operand, /) -> DeviceArray: ...
    def __rsub__(self, other: Operand, /) -> DeviceArray: ...
    def __mul__(self, other: Operand, /) -> DeviceArray: ...
    def __rmul__(self, other: Operand, /) -> DeviceArray: ...
    def __truediv__(self, other: Operand, /) -> DeviceArray: ...
    def __rtruediv__(self, other: Operand, /) -> DeviceArray: ...
    def __floordiv__(self, other: Operand, /) -> DeviceArray: ...
    def __rfloordiv__(self, other: Operand, /) -> DeviceArray: ...
    def __mod__(self, other: Operand, /) -> DeviceArray: ...
    def __rmod__(self, other: Operand, /) -> DeviceArray: ...
    def __pow__(self, other: Operand, /) -> DeviceArray: ...
    def __rpow__(self, other: Operand, /) -> DeviceArray: ...
    def __matmul__(self, other: Operand, /) -> DeviceArray: ...
    def __rmatmul__(self, other: Operand, /) -> DeviceArray: ...
    def __lshift__(self, other: Operand, /) -> DeviceArray: ...
    def __rlshift__(self, other: Operand, /) -> DeviceArray: ...
    def __rshift__(self, other: Operand, /) -> DeviceArray: ...
    def __rrshift__(self, other: Operand, /) -> DeviceArray: ...
    def __and__(self, other: Operand, /) -> DeviceArray: ...
    def __rand__(self, other: Operand, /) -> DeviceArray: ...
    def __or__(self, other: Operand, /) -> DeviceArray: ...
    def __ror__(self, other: Operand, /) -> DeviceArray: ...
    def __xor__(self, other: Operand, /) -> DeviceArray: ...
    def __rxor__(self, other: Operand, /) -> DeviceArray: ...
    def __divmod__(self, other: Operand, /) -> tuple[DeviceArray, DeviceArray]: ...
    def __rdivmod__(self, other: Operand, /) -> tuple[DeviceArray, DeviceArray]: ...
    def __eq__(self, other: object, /) -> DeviceArray: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> DeviceArray: ...  # type: ignore[override]
    def __lt__(self, other: Operand, /) -> DeviceArray: ...
    def __le__(self, other: Operand, /) -> DeviceArray: ...
    def __gt__(self, other: Operand, /) -> DeviceArray: ...
    def __ge__(self, other: Operand, /) -> DeviceArray: ...
    def __neg__(self) -> DeviceArray: ...
    def __pos__(self) -> DeviceArray: ...
    def __abs__(self) -> DeviceArray: ...
    def __invert__(self) -> DeviceArray: ...
    def __trunc__(self) -> DeviceArray: ...
    def __floor__(self) -> DeviceArray: ...
    def __ceil__(self) -> DeviceArray: ...
    def __round__(self, digits: int | None = None) -> DeviceArray: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __index__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...

    # ------------------------------------------------------------ other libraries

    @property
    def stream(self) -> Any: ...
    @stream.setter
    def stream(self, stream: Any) -> None: ...
    @property
    def __cuda_array_interface__(self) -> Any: ...
    def __array_namespace__(self, *, api_version: str | None = None) -> Any: ...
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumPyArray: ...
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


#: An array that numbacc returns: a device array, or a NumPy array for NumPy arrays.
Array: TypeAlias = NumPyArray | DeviceArray
#: An array of any library: NumPy, numbacc, torch, CuPy, JAX, Numba; or a NumPy scalar.
AnyArray: TypeAlias = SupportsDLPack | SupportsCudaArrayInterface | np.generic
#: An array of any library, or a scalar.
Operand: TypeAlias = AnyArray | Scalar
#: A NumPy array or a scalar.
NumPyOperand: TypeAlias = NumPyArray | Scalar
#: Axes to reduce: one, several, or None for all.
Axes: TypeAlias = int | Sequence[int] | None
#: A kind of gated unit that `gated.register` defined: `gated.forward(x, RegisteredKind("sineglu"))`.
RegisteredKind = NewType("RegisteredKind", str)

# The names that options accept, and this module's names, written by `python -m tools.stubs`.
# generated
GatedKind: TypeAlias = Literal["glu", "reglu", "swiglu", "geglu", "geglu_tanh"]
Gate: TypeAlias = Literal["first", "second"]
Activation: TypeAlias = Literal[
    "tanh",
    "relu",
    "leaky_relu",
    "relu6",
    "elu",
    "selu",
    "celu",
    "gelu",
    "gelu_tanh",
    "quick_gelu",
    "silu",
    "mish",
    "softplus",
    "softsign",
    "sigmoid",
    "log_sigmoid",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "squared_relu",
]
LossReduction: TypeAlias = Literal["mean", "sum", "none"]
Merge: TypeAlias = Literal["sum", "prod", "max", "min"]
ProductEpilogue: TypeAlias = Literal["none", "relu", "bias", "relu_bias", "gelu", "gelu_bias", "drelu", "dgelu"]
AuxEpilogue: TypeAlias = Literal["relu_aux", "relu_aux_bias", "gelu_aux", "gelu_aux_bias"]
BiasGradEpilogue: TypeAlias = Literal["drelu_bgrad", "dgelu_bgrad", "bgrada", "bgradb"]
ProductCompute: TypeAlias = Literal["float32", "tf32", "float64", "fast", "int32"]
LayerActivation: TypeAlias = Literal["relu", "gelu"]
ConvLayout: TypeAlias = Literal["NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC"]
ConvPadding: TypeAlias = Literal["same", "valid"]
ConvActivation: TypeAlias = Literal["relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "elu"]
ConvCompute: TypeAlias = Literal["float32", "tf32", "float64", "int32", "float32_fft"]
AttentionLayout: TypeAlias = Literal["BHSD", "BSHD", "THD"]
AttentionMask: TypeAlias = Literal["causal", "causal_bottom_right"]
FftNorm: TypeAlias = Literal["backward", "ortho", "forward"]
RandomKind: TypeAlias = Literal[
    "philox", "xorwow", "mrg32k3a", "mtgp32", "mt19937", "sobol32", "scrambled_sobol32", "sobol64", "scrambled_sobol64"
]
RandomOrdering: TypeAlias = Literal["default", "legacy", "best", "seeded"]

__all__ = [
    "Activation",
    "AnyArray",
    "Array",
    "AttentionLayout",
    "AttentionMask",
    "AuxEpilogue",
    "Axes",
    "BiasGradEpilogue",
    "ConvActivation",
    "ConvCompute",
    "ConvLayout",
    "ConvPadding",
    "DTypeLike",
    "DeviceArray",
    "FftNorm",
    "Gate",
    "GatedKind",
    "LayerActivation",
    "LossReduction",
    "Merge",
    "NumPyArray",
    "NumPyOperand",
    "Operand",
    "ProductCompute",
    "ProductEpilogue",
    "RandomKind",
    "RandomOrdering",
    "RegisteredKind",
    "Scalar",
    "Shape",
    "SupportsCudaArrayInterface",
    "SupportsDLPack",
]
# end

list_only(__name__, __all__)
