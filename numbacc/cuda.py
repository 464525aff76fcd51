"""The names of numba.cuda for writing kernels, also if numba.cuda is not installed.

```
from numbacc import cuda

@cuda.jit
def add(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += x[i]

x = cuda.to_device([1.0, 2.0])
add[1, 32](x, x)
print(x.copy_to_host())
```

On a GPU this is numba.cuda. Without a GPU, `cuda.to_device`, `cuda.stream` and similar functions work on host memory,
and kernels run in the compiled simulator; see docs/simulator.md. In Numba's simulator (NUMBA_ENABLE_CUDASIM=1) this
module is numba.cuda.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .base.dispatch import simulated
from .errors import DeviceError, OptionError, shown
from .simulator.compiled import host, launches

if TYPE_CHECKING:
    from numba.cuda import *  # noqa: F403

# ---------------------------------------------------------------- numba.cuda

#: Numba's module, or None if it is missing; the list is empty before the first search.
_found: list[ModuleType | None] = []
_only_one = threading.RLock()


def _numbas() -> ModuleType | None:
    """Return numba.cuda, or None if it is not installed or its requirements are missing."""
    with _only_one:
        if not _found:
            try:
                _found.append(import_module("numba.cuda"))
            except ImportError:
                _found.append(None)
            else:
                _register(_found[0])
    return _found[0]


def _register(own: Any) -> None:
    """Make Numba compile kernels that use this module under the name `cuda`."""
    try:
        declarations = import_module("numba.cuda.cudadecl")
        declarations.register_global(sys.modules[__name__], declarations.types.Module(own))
    except (ImportError, AttributeError):  # a version of Numba that only the simulator supports
        pass


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    numbas = _numbas()
    if name in host.FUNCTIONS and launches.runs_on_host(numbas is not None):
        return host.FUNCTIONS[name]
    if numbas is None:
        return _stub(name)
    try:
        return getattr(numbas, name)
    except AttributeError:
        if name == "types" or name in _TYPES:  # Numba's own CUDA target lacks these
            return _stub(name)
        try:
            return import_module(f"numba.cuda.{name}")
        except ImportError:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}, nor does numba.cuda") from None


def __dir__() -> list[str]:
    numbas = _numbas()
    return host.names(dir(numbas) if numbas is not None else [*_NAMES, "jit"], [*_TYPES, "types"])


# ---------------------------------------------------------------- without numba.cuda

#: Functions and namespaces for kernels; and types.
_FOR_KERNELS = """
activemask all_sync any_sync atomic ballot_sync blockDim blockIdx brev cbrt cg clz const eq_sync ffs fma grid gridDim
gridsize laneid lanemask_lt libdevice local match_all_sync match_any_sync nanosleep popc selp shared shfl_down_sync
shfl_sync shfl_up_sync shfl_xor_sync syncthreads syncthreads_and syncthreads_count syncthreads_or syncwarp threadIdx
threadfence threadfence_block threadfence_system warpsize fp16 bf16 ldca ldcg ldcs ldlu ldcv stcg stcs stwb stwt
"""
#: The elements of vectors: float32x4 and, as in CUDA C, float4.
_ELEMENTS = {
    "int8": "char", "int16": "short", "int32": "int", "int64": "longlong", "uint8": "uchar", "uint16": "ushort",
    "uint32": "uint", "uint64": "ulonglong", "float32": "float", "float64": "double",
}  # fmt: skip
_VECTORS = [f"{name}{n}" for long, short in _ELEMENTS.items() for name in (f"{long}x", short) for n in range(1, 5)]
_KINDS = """
b1 bool_ boolean byte c16 c8 char complex128 complex64 double f4 f8 float32 float64 i1 i2 i4 i8 int16 int32 int64 int8
int_ intc intp long_ longlong none short size_t ssize_t u1 u2 u4 u8 uchar uint uint16 uint32 uint64 uint8 uintc uintp
ulong ulonglong ushort void
"""
_NAMES, _TYPES = frozenset([*_FOR_KERNELS.split(), *_VECTORS]), frozenset(_KINDS.split())


class Stub:
    """A name of numba.cuda that works only inside kernels."""

    def __init__(self, path: str):
        self.numbacc_path, self.__name__ = path, path.rpartition(".")[2]

    def __getattr__(self, name: str) -> Stub:
        if name.startswith("_"):
            raise AttributeError(f"{self.numbacc_path} has no attribute {name}")
        return Stub(f"{self.numbacc_path}.{name}")

    def __call__(self, *args: Any, **options: Any) -> Any:
        raise DeviceError(f"{self.numbacc_path} works only inside a kernel: call it in a function with @cuda.jit")

    def __repr__(self) -> str:
        return f"<{self.numbacc_path}, for kernels>"

    def __reduce__(self) -> Any:
        return Stub, (self.numbacc_path,)


class StubKernel:
    """A kernel or a device function of `cuda.jit`, if numba.cuda is not installed.

    Attributes:
        py_func: the Python function.
    """

    def __init__(self, function: Callable[..., Any], device: bool, signatures: Sequence[Any], options: dict[str, Any]):
        self.py_func, self.targetoptions, self.is_device = function, options, device
        self.__name__, self.__doc__, self.__wrapped__ = function.__name__, function.__doc__, function
        self._numbacc_signatures = [
            arguments for arguments in map(_argument_types, signatures) if arguments is not None
        ]

    def configure(self, griddim: Any, blockdim: Any, stream: Any = 0, sharedmem: int = 0) -> launches.Configured:
        """Return the kernel with a grid and blocks, to be called with its arguments."""
        return launches.Configured(self, "", self._never, griddim, blockdim, stream, sharedmem)

    def __getitem__(self, configuration: Any) -> launches.Configured:
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 4:
            raise OptionError(
                f"{self.__name__}[{shown(configuration)}]: write kernel[grid, block, stream, shared bytes]"
            )
        return self.configure(*configuration)

    def forall(self, ntasks: int, tpb: int = 0, stream: Any = 0, sharedmem: int = 0) -> launches.Configured:
        """Return the kernel with a thread for each of `ntasks` tasks."""
        return launches.for_all(self, "", self._never, ntasks, tpb, stream, sharedmem)

    def specialize(self, *args: Any) -> StubKernel:
        """Return the kernel itself."""
        return self

    def __call__(self, *args: Any) -> Any:
        if self.is_device:
            raise DeviceError(f"{self.__name__} is a device function: call it in a kernel")
        raise OptionError(f"{self.__name__} is a kernel: launch it as {self.__name__}[blocks, threads](...)")

    def _never(self) -> Any:
        raise DeviceError(f"{self.__name__}: this needs numba.cuda and a GPU")

    def __repr__(self) -> str:
        return f"<{'device function' if self.is_device else 'kernel'} {self.__name__}, simulated on the CPU>"


def _argument_types(signature: Any) -> tuple[Any, ...] | None:
    """Return the types of a signature's arguments, as text or as Numba's types; None if they are unknown."""
    if isinstance(signature, str):
        signature = import_module("numba.core.sigutils").normalize_signature(signature)[0]
    found = getattr(signature, "args", signature)
    return tuple(found) if isinstance(found, tuple) else None


def _jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """Make a kernel or a device function of a Python function, as numba.cuda's `jit` does."""
    if callable(func_or_sig) and hasattr(func_or_sig, "__code__"):
        return StubKernel(func_or_sig, device, (), options)
    signatures = func_or_sig if isinstance(func_or_sig, list) else [] if func_or_sig is None else [func_or_sig]
    return lambda function: StubKernel(function, device, signatures, options)


def _stub(name: str) -> Any:
    if name == "jit":
        return _jit
    if name in _NAMES:
        return Stub(f"cuda.{name}")
    if name == "types" or name in _TYPES:
        types = import_module("numba.types" if name == "types" else "numba")
        return types if name == "types" else getattr(types, name, None) or getattr(types.types, name)
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; numba.cuda, which may have it, is not installed"
    )


if simulated() and (_simulator := _numbas()) is not None:
    sys.modules[__name__] = _simulator
