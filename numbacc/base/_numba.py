"""Import `numba.cuda` and its extension API. Only this module and `_compiler` do.

Only these two files change when Numba's CUDA target is replaced by its announced successor; only this module imports
`_compiler`. It provides the `cuda` module, the base class of device arrays, `compile_ptx`, and the parts of the
extension API for intrinsics and rewritten formulas, which only `kernels` and `base.literal_typing` use.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from numba import cuda

from ..errors import DeviceError
from .dispatch import compiles_own_kernels, simulated
from .garbage import no_collections

# Numba's configuration may have changed since `cuda` was imported.
SIMULATED = "numba.cuda.simulator_init" in sys.modules
if simulated() != SIMULATED and not compiles_own_kernels():
    raise DeviceError(
        "NUMBA_ENABLE_CUDASIM changed after numbacc had looked for GPUs and before Numba was imported: "
        f"Numba's CUDA simulator is {'on' if SIMULATED else 'off'} now. Restart, and set it before anything else"
    )

if SIMULATED:
    from numba import types
    from numba.cuda.simulator import kernel as simulator_kernel
    from numba.cuda.simulator import kernelapi as simulator_api
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray as DeviceNDArray

try:
    import numba_cuda
except ImportError:
    numba_cuda = None

#: Whether Numba's CUDA compiler is installed, and the process does not run Numba's simulator.
COMPILES = numba_cuda is not None and not SIMULATED
if not COMPILES and not SIMULATED:
    # Only kernels in Python work, with parts of the simulator that Numba itself has.
    from numba import types
elif COMPILES:
    from llvmlite import ir
    from numba.cuda import cgutils, types
    from numba.cuda.core import ir as numba_ir
    from numba.cuda.core.errors import NumbaError
    from numba.cuda.core.rewrites import Rewrite, register_rewrite
    from numba.cuda.cudadrv import devices, dummyarray, nvvm
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import MemoryPointer, binding
    from numba.cuda.extending import _Intrinsic as Intrinsic
    from numba.cuda.extending import intrinsic

    #: Versions of Numba's CUDA target that `_compiler` supports. With other versions kernels are the same, but
    #: compilation takes twice as long.
    _KNOWN = ("0.30.",)
    if numba_cuda.__version__.startswith(_KNOWN):
        from ._compiler import load_all, short_cuts
    else:

        def load_all() -> bool:
            return False

        @contextmanager
        def short_cuts(capability: tuple[int, int]) -> Iterator[None]:
            yield


__all__ = [
    "COMPILES",
    "SIMULATED",
    "TENSOR_MAP",
    "DeviceNDArray",
    "FakeCUDAArray",
    "Intrinsic",
    "Rewrite",
    "call_in_kernels",
    "capability_compiled_for",
    "compile_like",
    "compile_ltoir",
    "compile_ptx",
    "compiling_for",
    "cuda",
    "device_and_address",
    "dummy_array",
    "external_stream",
    "intrinsic",
    "ir",
    "kernel_signature",
    "memory_pointer",
    "numba_ir",
    "pretend_capability",
    "pretending",
    "register_rewrite",
    "simulator_api",
    "simulator_kernel",
    "types",
    "when_loaded",
]


#: Parts of Numba's simulator: name here -> (module, name there, "" for the module itself).
_SIMULATORS = {
    "simulator_kernel": ("numba.cuda.simulator.kernel", ""),
    "simulator_api": ("numba.cuda.simulator.kernelapi", ""),
    "FakeCUDAArray": ("numba.cuda.simulator.cudadrv.devicearray", "FakeCUDAArray"),
    "InOut": ("numba.cuda.args", "InOut"),
}


def __getattr__(name: str) -> Any:
    # Where Numba's simulator is off, numbacc's interpreter uses parts of it for kernels with device functions.
    if name not in _SIMULATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    path, part = _SIMULATORS[name]
    module = importlib.import_module(path)
    return getattr(module, part) if part else module


def call_in_kernels(call: Callable[[Callable[..., Any], tuple[Any, ...]], Any], is_running: Callable[[], bool]) -> None:
    """Let kernels that run in Python call device functions of `cuda.jit`.

    Args:
        call: called with the Python function and the arguments, while `is_running()`.
    """
    if SIMULATED:
        return
    dispatcher = importlib.import_module("numba.cuda.dispatcher").CUDADispatcher
    before = dispatcher.__call__

    def called(self: Any, *args: Any, **options: Any) -> Any:
        return call(self.py_func, args) if is_running() else before(self, *args, **options)

    dispatcher.__call__ = called


def kernel_signature(groups: Sequence[tuple[str, Any]]) -> Any:
    """Return the Numba signature of a kernel.

    ("uint64", 3) is a tuple of three, ("int32", None) a scalar, ("int32", (2, 3)) a tuple of two tuples of three, and
    ("tensor_map", None) a tensor map.
    """

    def build(name: str, shape: Any) -> Any:
        scalar = TENSOR_MAP if name == "tensor_map" else getattr(types, name)
        if shape is None:
            return scalar
        if isinstance(shape, tuple):
            return types.UniTuple(types.UniTuple(scalar, shape[1]), shape[0])
        return types.UniTuple(scalar, shape)

    return types.void(*(build(name, shape) for name, shape in groups))


# ---------------------------------------------------------------- kernels of one architecture, and tensor maps

#: The type of a kernel's parameter that is a tensor map. Its 128 bytes are part of the launch's arguments.
TENSOR_MAP = types.CPointer(types.UniTuple(types.int64, 16))

if COMPILES:

    class _ByValue(ir.values.ArgumentAttributes):  # type: ignore[misc]
        def _expand(self, name: str, kind: Any) -> str:
            # Before Blackwell, NVVM's LLVM does not accept the type that llvmlite writes after `byval`.
            return str(super()._expand(name, kind)) if capability_compiled_for() >= (10, 0) else name

    _own_launch_bounds = nvvm.set_launch_bounds

    def _grid_constants(kernel: Any, bounds: Any) -> None:
        """Mark the kernel's tensor maps as `__grid_constant__`. Numba calls this last for each kernel.

        The copy engine reads a tensor map at its place among the launch's arguments. Without the mark the compiler
        would copy it to local memory.
        """
        _own_launch_bounds(kernel, bounds)
        kind = ir.ArrayType(ir.IntType(64), 16).as_pointer()
        numbers = [k for k, each in enumerate(kernel.args) if each.type == kind]
        if not numbers:
            return
        for k in numbers:
            kernel.args[k].attributes = _ByValue(["byval"])
            kernel.args[k].attributes.align = 64
        module = kernel.module
        which = module.add_metadata([ir.IntType(32)(k + 1) for k in numbers])
        note = module.add_metadata((kernel, ir.MetaDataString(module, "grid_constant"), which))
        cgutils.get_or_insert_named_metadata(module, "nvvm.annotations").add(note)

    nvvm.set_launch_bounds = _grid_constants


def compile_ltoir(
    kernel: Callable[..., None],
    signature: Any,
    capability: tuple[int, int],
    bounds: tuple[int, ...],
    *,
    is_own: bool = True,
    **options: Any,
) -> list[bytes]:
    """Return the LTO-IR of a kernel for one architecture, such as sm_90a: it may use instructions of this GPU only.

    The first part is the kernel's. Others are C++ code that Numba adds, as for float16 arithmetic.

    Args:
        bounds: the most threads of a block, the fewest blocks of a multiprocessor, and the most blocks of a cluster.
        is_own: compile with the short cuts for numbacc's own kernels.
        options: of `cuda.compile`.
    """
    variant = (*capability, "a") if capability >= (9, 0) else capability
    token = _capability.set(capability)
    options |= {"device": False, "abi": "numba", "cc": variant, "launch_bounds": bounds, "output": "ltoir"}
    try:
        if is_own:
            try:
                with no_collections, short_cuts(capability):
                    return [bytes(cuda.compile(kernel, signature, **options)[0])]
            except NumbaError:
                load_all()
        with no_collections:
            codes, _ = cuda.compile_all(kernel, signature, **options)
            return [bytes(getattr(each, "data", getattr(each, "code", each))) for each in codes]
    finally:
        _capability.reset(token)


_capability: ContextVar[tuple[int, int]] = ContextVar("_capability", default=(8, 0))


def capability_compiled_for() -> tuple[int, int]:
    """Return the target compute capability of the current compilation; some instructions need a newer one."""
    return _capability.get()


@contextmanager
def compiling_for(capability: tuple[int, int]) -> Iterator[None]:
    """Let `capability_compiled_for` return this compute capability for a while."""
    token = _capability.set(capability)
    try:
        yield
    finally:
        _capability.reset(token)


def compile_ptx(
    kernel: Callable[..., None], signature: Any, capability: tuple[int, int], bounds: tuple[int, int]
) -> tuple[str, str]:
    """Return (PTX, entry name) of a kernel for a compute capability.

    `bounds` are the most threads of a block, and the fewest blocks that must fit on a multiprocessor.
    """
    _capability.set(capability)
    try:
        ptx = _compiled(kernel, signature, capability, bounds)
    except NumbaError:
        if not load_all():
            raise
        ptx = _compiled(kernel, signature, capability, bounds)
    entry = re.search(r"\.visible\s+\.entry\s+([\w$]+)", ptx)
    assert entry is not None
    return ptx, entry.group(1)


def _compiled(kernel: Callable[..., None], signature: Any, capability: tuple[int, int], bounds: tuple[int, int]) -> str:
    with no_collections, short_cuts(capability):
        ptx, _ = cuda.compile(kernel, signature, device=False, abi="numba", cc=capability, launch_bounds=bounds)
    return str(ptx)


def when_loaded(context: Any, call: Callable[[int, bool], Any]) -> None:
    """Call a function when Numba loads the kernel that is being compiled.

    Args:
        context: of the code's generation.
        call: called with the driver's handle, and whether it is that of a library and not of a module.
    """
    library = context.active_code_library
    if hasattr(library, "_setup_functions"):

        def loaded(code: Any) -> None:
            call(int(code.handle), type(code.handle).__name__ == "CUlibrary")

        library._setup_functions.append(loaded)


def pretend_capability(capability: tuple[int, int]) -> None:
    """Make Numba treat this process's GPU as one of that compute capability, to compile without such a GPU."""
    pretended = SimpleNamespace(compute_capability=capability)
    importlib.import_module("numba.cuda.dispatcher").get_current_device = lambda: pretended  # type: ignore[attr-defined]


_pretending = threading.RLock()


@contextmanager
def pretending(capability: tuple[int, int] | None) -> Iterator[None]:
    """Apply `pretend_capability` for a while, in one thread at a time; do nothing if it is None."""
    if capability is None:
        yield
        return
    with _pretending:
        module: Any = importlib.import_module("numba.cuda.dispatcher")
        before = module.get_current_device
        pretend_capability(capability)
        try:
            yield
        finally:
            module.get_current_device = before


def dummy_array(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Any:
    """Return Numba's description of an array's memory; `DeviceNDArray.flags` reads it."""
    return dummyarray.Array.from_desc(0, shape, strides, itemsize)


def external_stream(handle: int) -> Any:
    """Return a stream handle in Numba's form: 0 is its default stream."""
    if not handle:
        return 0
    # Numba's simulator does not support external streams.
    return cuda.stream() if SIMULATED else cuda.external_stream(handle)


def device_and_address(array: Any) -> tuple[int, int]:
    """Return (device, address) of an array that Numba allocated."""
    if SIMULATED:
        return 0, array._ary.ctypes.data
    return array.gpu_data.context.device.id, array.device_ctypes_pointer.value or 0


def memory_pointer(address: int, nbytes: int, device: int, owner: object) -> Any:
    """Return the memory object that Numba expects in `DeviceNDArray.gpu_data`; it keeps `owner` alive."""
    pointer = MemoryPointer(context=devices.get_context(device), pointer=binding.CUdeviceptr(address), size=nbytes)
    pointer._numbacc_owner = owner  # lives as long as the pointer does
    return pointer


def compile_like(kernel: Callable[..., None], samples: Sequence[Any], capability: tuple[int, int]) -> str:
    """Return the PTX of a kernel for arguments like these, compiled as Numba compiles users' kernels."""
    typeof = importlib.import_module("numba.cuda.typing.typeof").typeof
    ptx, _ = cuda.compile(kernel, types.void(*map(typeof, samples)), device=False, abi="numba", cc=capability)
    return str(ptx)
