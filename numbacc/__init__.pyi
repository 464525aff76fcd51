# Written by `python -m tools.stubs`: do not edit.
# mypy: disable-error-code="overload-overlap"
"""numbacc: GPU kernels and vendor libraries for Numba device arrays."""

from collections.abc import Sequence
from typing import Any, Literal, overload
from numbacc.typing import (
    AnyArray,
    DTypeLike,
    DeviceArray,
    NumPyArray,
)

__all__ = [
    "CacheWarning",
    "Compiled",
    "CompiledWarning",
    "DTypeError",
    "DeviceError",
    "Error",
    "Event",
    "Graph",
    "KernelError",
    "LayoutError",
    "LibraryError",
    "OptionError",
    "PerformanceWarning",
    "RankError",
    "ShapeError",
    "Stream",
    "UnsupportedError",
    "__version__",
    "array",
    "asarray",
    "asnumpy",
    "attention",
    "bfloat16",
    "compiled",
    "conv",
    "cuda",
    "cudnn",
    "current_stream",
    "debug",
    "distributed",
    "elementwise",
    "empty",
    "empty_like",
    "event",
    "fft",
    "float8_e4m3fn",
    "float8_e5m2",
    "from_dlpack",
    "from_pointer",
    "full",
    "gated",
    "gemm",
    "graph",
    "has_gpu",
    "load",
    "load_metadata",
    "nn",
    "peak_memory",
    "portable",
    "random",
    "record",
    "release_memory",
    "save",
    "scratch_limit",
    "simulate",
    "stream",
    "to_torch",
    "trace",
    "zeros",
]


from . import attention as attention
from . import conv as conv
from . import cuda as cuda
from . import cudnn as cudnn
from . import distributed as distributed
from . import elementwise as elementwise
from . import fft as fft
from . import gated as gated
from . import gemm as gemm
from . import nn as nn
from . import random as random
from numbacc.errors import CacheWarning as CacheWarning
from numbacc.compiled_steps import Compiled as Compiled
from numbacc.errors import CompiledWarning as CompiledWarning
from numbacc.errors import DTypeError as DTypeError
from numbacc.errors import DeviceError as DeviceError
from numbacc_bindings.errors import Error as Error
from numbacc.runtime.events import Event as Event
from numbacc.runtime.graphs import Graph as Graph
from numbacc.errors import KernelError as KernelError
from numbacc.errors import LayoutError as LayoutError
from numbacc_bindings.errors import LibraryError as LibraryError
from numbacc.errors import OptionError as OptionError
from numbacc.errors import PerformanceWarning as PerformanceWarning
from numbacc.errors import RankError as RankError
from numbacc.errors import ShapeError as ShapeError
from numbacc.runtime.streams import Stream as Stream
from numbacc.errors import UnsupportedError as UnsupportedError
from numbacc.arrays.creation import asnumpy as asnumpy
from numbacc.compiled_steps import compiled as compiled
from numbacc.runtime.streams import current_stream as current_stream
from numbacc.tracing import debug as debug
from numbacc.runtime.events import event as event
from numbacc.runtime.graphs import graph as graph
from numbacc.base.dispatch import has_gpu as has_gpu
from numbacc.arrays.files import load as load
from numbacc.arrays.files import load_metadata as load_metadata
from numbacc.arrays.creation import peak_memory as peak_memory
from numbacc.runtime.streams import portable as portable
from numbacc.profiling import record as record
from numbacc.arrays.creation import release_memory as release_memory
from numbacc.arrays.files import save as save
from numbacc.arrays.creation import scratch_limit as scratch_limit
from numbacc.simulator.compiled.launches import simulate as simulate
from numbacc.runtime.streams import stream as stream
from numbacc.arrays.exchange import to_torch as to_torch
from numbacc.tracing import trace as trace
from . import jax as jax
from . import torch as torch

__version__: str

bfloat16: type[Any]

float8_e4m3fn: type[Any]

float8_e5m2: type[Any]

@overload
def array(obj: Any, dtype: DTypeLike | None = None, *, device: Literal["cpu"], stream: Any = None) -> NumPyArray: ...
@overload
def array(
    obj: Any, dtype: DTypeLike | None = None, *, device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

@overload
def asarray(
    obj: Any, dtype: DTypeLike | None = None, *, device: Literal["cpu"], copy: bool | None = None, stream: Any = None,
) -> NumPyArray: ...
@overload
def asarray(
    obj: Any, dtype: DTypeLike | None = None, *, device: int | str | None = None, copy: bool | None = None,
    stream: Any = None,
) -> DeviceArray: ...

@overload
def empty(
    shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, device: Literal["cpu"], stream: Any = None,
) -> NumPyArray: ...
@overload
def empty(
    shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

@overload
def empty_like(
    obj: Any, *, dtype: DTypeLike | None = None, device: Literal["cpu"], stream: Any = None,
) -> NumPyArray: ...
@overload
def empty_like(
    obj: NumPyArray, *, dtype: DTypeLike | None = None, device: None = None, stream: Any = None,
) -> NumPyArray: ...
@overload
def empty_like(
    obj: Any, *, dtype: DTypeLike | None = None, device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...

@overload
def from_dlpack(obj: NumPyArray, *, stream: Any = None) -> NumPyArray: ...
@overload
def from_dlpack(obj: AnyArray, *, stream: Any = None) -> DeviceArray: ...

@overload
def from_pointer(
    address: int, shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, strides: Sequence[int] | None = None,
    owner: object | None = None, device: Literal["cpu"], stream: Any = None, readonly: bool = False,
) -> NumPyArray: ...
@overload
def from_pointer(
    address: int, shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, strides: Sequence[int] | None = None,
    owner: object | None = None, device: int | str | None = None, stream: Any = None, readonly: bool = False,
) -> DeviceArray: ...

@overload
def full(
    shape: int | Sequence[int], fill_value: Any, dtype: DTypeLike = 'float32', *, device: Literal["cpu"],
    stream: Any = None,
) -> NumPyArray: ...
@overload
def full(
    shape: int | Sequence[int], fill_value: Any, dtype: DTypeLike = 'float32', *, device: int | str | None = None,
    stream: Any = None,
) -> DeviceArray: ...

@overload
def zeros(
    shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, device: Literal["cpu"], stream: Any = None,
) -> NumPyArray: ...
@overload
def zeros(
    shape: int | Sequence[int], dtype: DTypeLike = 'float32', *, device: int | str | None = None, stream: Any = None,
) -> DeviceArray: ...
