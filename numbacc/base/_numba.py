"""The only door to `numba.cuda` and its extension API.

When Numba's CUDA target is replaced by its announced successor, this is the file that changes. It offers
the `cuda` module, the class that device arrays derive from, `compile_ptx`, and to `kernels.intrinsics` and
`kernels.instructions`, which alone use them, the parts of the extension API that intrinsics are made of.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import config, cuda

SIMULATED = bool(config.ENABLE_CUDASIM)

if SIMULATED:
    from numba import types
    from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray as DeviceNDArray

else:
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.core import ir as numba_ir
    from numba.cuda.core.rewrites import Rewrite, register_rewrite
    from numba.cuda.cudadrv import devices, dummyarray
    from numba.cuda.cudadrv.devicearray import DeviceNDArray
    from numba.cuda.cudadrv.driver import MemoryPointer, binding
    from numba.cuda.extending import intrinsic

__all__ = [
    "SIMULATED",
    "DeviceNDArray",
    "capability_compiled_for",
    "compile_ptx",
    "cuda",
    "dummy_array",
    "external_stream",
    "intrinsic",
    "ir",
    "kernel_signature",
    "memory_pointer",
    "place_of",
    "pretend_capability",
    "types",
    "with_numbers",
]


def _import_array_functions() -> None:
    """Import the module of numba-cuda that asks for `numpy.row_stack`, which NumPy 2.5 has no more: numba-cuda 0.30.4
    imports it when it compiles for the first time, no matter for whom."""
    if SIMULATED or hasattr(np, "row_stack"):
        return
    np.row_stack = np.vstack  # what it was in NumPy 2.4
    try:
        importlib.import_module("numba.cuda.np.arrayobj")
    finally:
        del np.row_stack


_import_array_functions()


def kernel_signature(groups: Sequence[tuple[str, Any]]) -> Any:
    """The Numba signature of a kernel: ("uint64", 3) is a tuple of three, ("int32", None) a scalar,
    ("int32", (2, 3)) a tuple of two tuples of three."""

    def build(name: str, shape: Any) -> Any:
        scalar = getattr(types, name)
        if shape is None:
            return scalar
        if isinstance(shape, tuple):
            return types.UniTuple(types.UniTuple(scalar, shape[1]), shape[0])
        return types.UniTuple(scalar, shape)

    return types.void(*(build(name, shape) for name, shape in groups))


def with_numbers(function: Callable[..., Any], convert: Callable[[Any], Any]) -> Callable[..., Any]:
    """`function`, to be compiled with `convert(number)` in the place of each Python number written in it.

    Indices, the right sides of powers and shifts, and arguments of `range` stay integers; of powers whole floats become
    such.
    """
    function._numbacc_convert = convert  # type: ignore[attr-defined]
    return function


if not SIMULATED:
    #: Operators whose right side is a count.
    _COUNTED = (operator.pow, operator.ipow, operator.lshift, operator.rshift, operator.ilshift, operator.irshift)
    _POWERS = (operator.pow, operator.ipow)

    @register_rewrite("before-inference")
    class _Numbers(Rewrite):  # type: ignore[misc]
        """See `with_numbers`."""

        def match(self, func_ir: Any, block: Any, typemap: Any, calltypes: Any) -> bool:
            convert = getattr(func_ir.func_id.func, "_numbacc_convert", None)
            if convert is not None and not hasattr(func_ir, "_numbacc_done"):
                func_ir._numbacc_done = True
                kept, powers = _counts(func_ir)
                for each in func_ir.blocks.values():
                    for statement in each.find_insts(numba_ir.Assign):
                        value, name = statement.value, statement.target.name
                        constant = _constant_of_module(func_ir, value)
                        if type(constant) in (int, float):  # math.pi
                            statement.value = numba_ir.Const(convert(constant), value.loc)
                            func_ir._definitions[name] = [statement.value]
                        elif isinstance(value, (numba_ir.Const, numba_ir.Global, numba_ir.FreeVar)):
                            number = value.value
                            if name in powers and type(number) is float and number == int(number):
                                value.value = int(number)
                            elif name not in kept:
                                # In place: the function's definitions hold the same object.
                                value.value = convert(number)
            return False

    def _counts(func_ir: Any) -> tuple[set[str], set[str]]:
        """The names of what is an index, a count or a whole power, and of those the powers."""
        kept: set[str] = set()
        powers: set[str] = set()
        ranges = {
            s.target.name
            for block in func_ir.blocks.values()
            for s in block.find_insts(numba_ir.Assign)
            if isinstance(s.value, numba_ir.Global) and s.value.value is range
        }
        for block in func_ir.blocks.values():
            for expression in block.find_exprs():
                if expression.op in ("getitem", "static_getitem"):
                    index = expression.index if expression.op == "getitem" else expression.index_var
                    if index is not None:
                        kept.add(index.name)
                elif expression.op == "call" and expression.func.name in ranges:
                    kept |= {argument.name for argument in expression.args}
                elif expression.op in ("binop", "inplace_binop"):
                    fn = expression.fn if expression.op == "binop" else expression.immutable_fn
                    if fn in _COUNTED and isinstance(expression.rhs, numba_ir.Var):
                        kept.add(expression.rhs.name)
                        if fn in _POWERS and _is_whole(func_ir, expression.rhs):
                            powers.add(expression.rhs.name)
                        elif fn in _POWERS:
                            kept.discard(expression.rhs.name)
        return kept, powers

    def _constant_of_module(func_ir: Any, value: Any) -> Any:
        """What `module.name` stands for, None where a value is no such expression."""
        if not isinstance(value, numba_ir.Expr) or value.op != "getattr":
            return None
        try:
            return getattr(func_ir.get_definition(value.value).value, value.attr, None)
        except Exception:  # no name of a module
            return None

    def _is_whole(func_ir: Any, variable: Any) -> bool:
        """True for a constant without a fraction, small enough to be multiplied out."""
        try:
            number = func_ir.infer_constant(variable)
        except Exception:  # it is none
            return False
        return type(number) in (int, float) and abs(number) <= _LARGEST_POWER and number == int(number)

    _LARGEST_POWER = 64


_capability: ContextVar[tuple[int, int]] = ContextVar("_capability", default=(8, 0))


def capability_compiled_for() -> tuple[int, int]:
    """The compute capability of the compilation under way: some instructions are newer than others."""
    return _capability.get()


def compile_ptx(
    kernel: Callable[..., None], signature: Any, capability: tuple[int, int], bounds: tuple[int, int]
) -> tuple[str, str]:
    """(PTX, entry name) of a kernel for a compute capability.

    `bounds` are the most threads a block has, and the fewest blocks that shall fit a multiprocessor.
    """
    _capability.set(capability)
    ptx, _ = cuda.compile(kernel, signature, device=False, abi="numba", cc=capability, launch_bounds=bounds)
    entry = re.search(r"\.visible\s+\.entry\s+([\w$]+)", ptx)
    assert entry is not None
    return ptx, entry.group(1)


def pretend_capability(capability: tuple[int, int]) -> None:
    """Make Numba take this process's GPU for one of that compute capability, to compile where there is none."""
    pretended = SimpleNamespace(compute_capability=capability)
    importlib.import_module("numba.cuda.dispatcher").get_current_device = lambda: pretended  # type: ignore[attr-defined]


def dummy_array(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Any:
    """Numba's description of an array's memory, from which `DeviceNDArray.flags` are read."""
    return dummyarray.Array.from_desc(0, shape, strides, itemsize)


def external_stream(handle: int) -> Any:
    """A stream handle as Numba takes it: 0 is its default stream."""
    return cuda.external_stream(handle) if handle else 0


def place_of(array: Any) -> tuple[int, int]:
    """(device, address) of an array that Numba allocated."""
    if SIMULATED:
        return 0, array._ary.ctypes.data
    return array.gpu_data.context.device.id, array.device_ctypes_pointer.value or 0


def memory_pointer(address: int, nbytes: int, device: int, owner: object) -> Any:
    """The memory object that Numba expects in `DeviceNDArray.gpu_data`; it keeps `owner` alive."""
    pointer = MemoryPointer(context=devices.get_context(device), pointer=binding.CUdeviceptr(address), size=nbytes)
    pointer._numbacc_owner = owner  # lives as long as the pointer does
    return pointer
