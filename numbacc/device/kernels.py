"""Kernels of the user's own with device functions: compiled for one architecture, kept on disk, and launched."""

from __future__ import annotations

import hashlib
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..arrays import operands
from ..base.dispatch import has_gpu, names_of_cuda, runtime, simulated
from ..base.dtypes import TABLE
from ..base.observing import observable
from ..errors import ArgumentsError, DeviceError, DTypeError, OptionError, UnsupportedError, shown
from ..runtime.streams import handle_of
from ..simulator.compiled import arguments
from ..simulator.compiled.launches import dimensions, entered
from .maps import TensorMap

__all__ = ["DeviceKernel", "function", "jit"]

#: The most prepared launches that a kernel keeps.
_MOST_CALLS = 256
_LARGEST_BLOCK, _LARGEST_GRID = (1024, 1024, 64), (2**31 - 1, 65_535, 65_535)
#: The most blocks of a cluster. Each GPU that has clusters runs 8.
_LARGEST_CLUSTER = 16


def jit(
    function: Callable[..., Any] | None = None,
    *,
    launch_bounds: int | tuple[int, ...] | None = None,
    fastmath: bool = False,
    reads: Iterable[str] = (),
) -> Any:
    """Make a kernel of a Python function, for functions of `numbacc.device`. It can be used as a decorator.

    The kernel is compiled for the GPU's architecture at the first launch with arguments of new types, and kept on disk.
    Launch it as `kernel[grid, block](...)`, or `kernel[grid, block, stream, shared, cluster](...)` with the bytes of
    dynamic shared memory and the blocks of a cluster. Launches are ordered like numbacc's own operations, and work in
    CUDA graphs. Without a GPU, and inside of `numbacc.simulate()`, the kernel runs in Python.

    Args:
        function: its parameters are arrays, tensor maps (`device.tensor_map`) and numbers. Python's integers become
            int64 and floats float64; NumPy's numbers keep their types. Globals and closures are constants.
        launch_bounds: the most threads of a block; or (threads, blocks) with the blocks that should fit on a
            multiprocessor. By default, the threads of the launch and 1.
        fastmath: allow the compiler less exact divisions and square roots, and other orders of sums.
        reads: names of the parameters that the kernel only reads. All others count as written.

    Returns:
        a `DeviceKernel`.

    Raises:
        OptionError: a wrong option.

    Example:
        >>> @device.jit
        ... def double(x):
        ...     i = cuda.grid(1)
        ...     if i < x.size:
        ...         x[i] *= 2
        >>> x = numbacc.asarray(np.arange(3.0))
        >>> double[1, 32](x)
        >>> numbacc.asnumpy(x)
        array([0., 2., 4.])
    """
    if function is None:
        return lambda each: DeviceKernel(each, launch_bounds, fastmath, reads)
    return DeviceKernel(function, launch_bounds, fastmath, reads)


def function(function: Callable[..., Any]) -> Any:
    """Make an inlined device function, which kernels and other device functions call. Use it as a decorator.

    wgmma needs this: a call of a function that is not inlined makes its instructions wait for each other.

    Example:
        >>> @device.function
        ... def square(x):
        ...     return x * x
    """
    from ..kernels.primitives.device.emitting import composed

    return composed(function)


def _restored(function: Callable[..., Any], *options: Any) -> DeviceKernel:
    return DeviceKernel(function, *options)


class DeviceKernel:
    """A kernel that `device.jit` makes.

    Attributes:
        py_func: the Python function.
    """

    def __init__(
        self, function: Callable[..., Any], launch_bounds: int | tuple[int, ...] | None, fastmath: bool,
        reads: Iterable[str],
    ):  # fmt: skip
        if not hasattr(function, "__code__"):
            raise OptionError(f"device.jit({shown(function)}): it needs a Python function")
        self.py_func, self.fastmath = function, bool(fastmath)
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self.__wrapped__ = function
        self._parameters = list(inspect.signature(function).parameters)
        self._reads = {reads} if isinstance(reads, str) else {*reads}
        unknown = self._reads - {*self._parameters}
        if unknown:
            raise OptionError(f"reads={sorted(unknown)}: {self.__name__} has no such parameters: {self._parameters}")
        given = (launch_bounds,) if isinstance(launch_bounds, int) else launch_bounds
        if given is not None and not (1 <= len(given) <= 3 and all(isinstance(n, int) and n > 0 for n in given)):
            raise OptionError(f"launch_bounds={shown(launch_bounds)}: write threads, or (threads, blocks)")
        self._bounds = None if given is None else (*given, 1)[: max(len(given), 2)]
        #: (types of the arguments, bounds, device) -> the loaded kernel's handle.
        self._loaded: dict[Any, int] = {}
        #: Everything that a launch depends on -> what `ConfiguredKernel._prepared` returns.
        self._calls: dict[Any, Any] = {}
        self._only_one = threading.RLock()

    def __getitem__(self, configuration: Any) -> ConfiguredKernel:
        if not isinstance(configuration, tuple) or not 2 <= len(configuration) <= 5:
            raise OptionError(
                f"{self.__name__}[{shown(configuration)}]: write kernel[grid, block, stream, shared bytes, cluster]"
            )
        return self.configure(*configuration)

    def configure(
        self, grid: Any, block: Any, stream: Any = None, shared: int = 0, cluster: Any = 1
    ) -> ConfiguredKernel:
        """Return the kernel with a grid, to be called with its arguments.

        Args:
            grid, block: how many blocks, and threads of a block: an integer, or up to three.
            stream: None is the default stream.
            shared: bytes of dynamic shared memory.
            cluster: how many blocks form a cluster, at most 16; they divide the grid. More than 8 need a GPU that has
                room for them, as an H100 has.
        """
        return ConfiguredKernel(self, grid, block, stream, shared, cluster)

    def __reduce__(self) -> Any:
        if getattr(sys.modules.get(self.__module__), self.__name__, None) is self:
            return self.__name__
        return _restored, (self.py_func, self._bounds, self.fastmath, tuple(sorted(self._reads)))

    def __call__(self, *args: Any) -> None:
        raise OptionError(f"{self.__name__} is a kernel: launch it as {self.__name__}[blocks, threads](...)")

    def compile(self, *args: Any, block: int, capability: tuple[int, int] = (9, 0)) -> tuple[str, bytes]:
        """Compile the kernel for arguments like these, without a GPU. Return (its name in the code, the machine code).

        Args:
            args: arrays of any kind, tensor maps and numbers.
            block: threads of a block.
            capability: of the GPU.
        """
        kinds = tuple(_kind(each, name) for each, name in zip(args, self._parameters, strict=True))
        return self._compiled(kinds, self._bounds or (block, 1), capability)

    # ---------------------------------------------------------------- compiling

    def handle(self, kinds: tuple[Any, ...], threads: int, device: int) -> int:
        """Return the kernel's handle on a GPU; compile and load it at the first call."""
        bounds = self._bounds or (threads, 1)
        key = kinds, bounds, device
        found = self._loaded.get(key)
        if found is None:
            from ..runtime import launch

            with self._only_one:
                found = self._loaded.get(key)
                if found is None:
                    made = self._compiled(kinds, bounds, runtime().capability(device))
                    found = self._loaded[key] = launch.load_cubin(*made, device, -1, self.__name__)
        return found

    def _compiled(
        self, kinds: tuple[Any, ...], bounds: tuple[int, ...], capability: tuple[int, int]
    ) -> tuple[str, bytes]:
        from ..base import _numba
        from ..runtime import disk_cache, launch

        if not _numba.COMPILES:
            raise UnsupportedError("this needs numba-cuda, and a process without NUMBA_ENABLE_CUDASIM=1")
        identity = self._identity()
        key = None
        if identity is not None:
            options = f"{identity} {kinds} {bounds} {capability} {self.fastmath}"
            key = hashlib.sha256(disk_cache.fingerprint("kernels/primitives/device") + options.encode()).hexdigest()
            found = disk_cache.load(key)
            if found is not None:
                return found
        assert names_of_cuda().jit  # makes Numba know numbacc.cuda, too
        signature = _numba.types.void(*(_numba_type(each) for each in kinds))
        # Numba compiles device functions for the current GPU, which may be missing.
        with _numba.pretending(None if has_gpu() and not simulated() else capability):
            code = _numba.compile_ltoir(
                self.py_func, signature, capability, bounds, is_own=False, fastmath=self.fastmath
            )
        entry, cubin, is_fast = launch.linked(code, capability, self.__name__)
        if key is not None and is_fast:  # else the next process warns, too
            disk_cache.save(key, entry, cubin)
        return entry, cubin

    def _identity(self) -> str | None:
        """Return a digest of everything that the kernel's code depends on; None if that is not known."""
        try:
            return digest_of(self.py_func)
        except _Unknown:
            return None


@lru_cache(maxsize=256)
def _geometry(grid: Any, block: Any, shared: Any, cluster: Any) -> tuple[Any, Any, int, Any]:
    """Return the grid, the block, the bytes of shared memory and the cluster of a launch, checked."""
    blocks = dimensions(grid, "the grid", _LARGEST_GRID)
    threads = dimensions(block, "the block", _LARGEST_BLOCK)
    together = dimensions(cluster, "the cluster", (_LARGEST_CLUSTER,) * 3)
    if together[0] * together[1] * together[2] > _LARGEST_CLUSTER:
        raise OptionError(f"the cluster {shown(cluster)} has more than {_LARGEST_CLUSTER} blocks")
    if threads[0] * threads[1] * threads[2] > 1024:
        raise OptionError(f"the block {shown(block)} has more than 1024 threads")
    if any(n % k for n, k in zip(blocks, together, strict=True)):
        raise OptionError(f"the grid {shown(grid)} is not divisible by clusters of {shown(cluster)} blocks")
    if not isinstance(shared, (int, np.integer)) or not 0 <= shared <= 232448:
        raise OptionError(f"{shown(shared)} bytes of shared memory: a block has at most 232448")
    return blocks, threads, int(shared), together


@lru_cache(maxsize=1)
def _has_real_gpu() -> bool:
    return has_gpu() and not simulated()


class Prepared(NamedTuple):
    """The data of a launch, without its arrays.

    Attributes:
        function: the kernel's handle on the GPU.
        call: the driver call.
        names: of the arrays that the kernel reads, and of those that it writes.
    """

    function: int
    call: Any
    device: int
    names: tuple[list[str], list[str]]


class ConfiguredKernel:
    """A kernel with a grid, blocks and a stream. DriverCall it with the kernel's arguments."""

    def __init__(self, kernel: DeviceKernel, grid: Any, block: Any, stream: Any, shared: int, cluster: Any):
        self.kernel, self.stream = kernel, stream
        try:
            found = _geometry(grid, block, shared, cluster)
        except TypeError:  # lists, which have no hash
            found = _geometry.__wrapped__(grid, block, shared, cluster)
        self.grid, self.block, self.shared, self.cluster = found

    def __call__(self, *args: Any) -> None:
        kernel = self.kernel
        wanted = len(kernel._parameters)
        if len(args) != wanted:
            names = ", ".join(kernel._parameters)
            raise ArgumentsError(f"{kernel.__name__}({names}) takes {wanted} arguments, and was given {len(args)}")
        if entered() is not None or not _has_real_gpu():
            self._simulate(args)
        else:
            self._launch(args)

    def _simulate(self, args: Sequence[Any]) -> None:
        """Run the kernel in Python."""
        try:
            from ..simulator import device_kernels
        except ImportError as error:
            raise UnsupportedError(f"kernels run in Python with greenlet: pip install greenlet ({error})") from error

        arrays = [each.array if isinstance(each, TensorMap) else each for each in args]
        with arguments.on_host(arrays) as hosts:
            given: list[Any] = []
            for own, host in zip(args, hosts, strict=True):
                if isinstance(own, TensorMap):
                    given.append(device_kernels.MapArgument(own.fields._replace(address=host.ctypes.data), host))
                elif isinstance(host, np.ndarray) and host.dtype.name.startswith("float8"):
                    given.append(host.view(np.uint8))
                else:
                    # A product of an int32 and a constant is an int64 on a GPU, and would overflow in NumPy.
                    given.append(int(host) if isinstance(host, np.integer) else host)
            device_kernels.run(self.kernel.py_func, self.grid, self.block, self.cluster, self.shared, given)

    def _launch(self, args: Sequence[Any]) -> None:
        """Queue the kernel on a GPU."""
        kernel, stream = self.kernel, handle_of(self.stream)
        values, key = list[Any](), [self.grid, self.block, self.cluster, self.shared, stream]
        reads, writes = list[Any](), list[Any]()
        for name, given in zip(kernel._parameters, args, strict=True):
            value = given
            if isinstance(given, TensorMap):
                key.append(given.fields)  # not the map, which keeps its array alive
                (reads if name in kernel._reads else writes).append(given.array)
            elif isinstance(given, (int, float, np.generic)):
                # As text, 0.0 and -0.0 differ.
                key += type(given), given if isinstance(given, int) else repr(given)
            else:
                value = operands.as_array(given, name, stream)
                if isinstance(value, np.ndarray):
                    raise DeviceError(f"{name} is in host memory: numbacc.asarray({name}) copies it to the GPU")
                key += value._numbacc_layout, value._address
                (reads if name in kernel._reads else writes).append(value)
            values.append(value)
        whole = tuple(key)
        found = kernel._calls.get(whole)
        if found is None:
            found = self._prepared(values, [*reads, *writes], stream)
            if len(kernel._calls) >= _MOST_CALLS:
                kernel._calls.clear()
            kernel._calls[whole] = found
        self._queue(found, stream, reads, writes)

    @observable("device_kernel")
    def _queue(self, prepared: Prepared, stream: int, reads: Sequence[Any], writes: Sequence[Any]) -> None:
        """Queue the kernel in the order of its arrays' memory."""
        function, call, device, _ = prepared
        with runtime().using(stream, device, reads, writes) as capture:
            if capture is not None:
                capture.keep(self.kernel)
            runtime().check_launch(call.launch(function))

    def _prepared(self, values: Sequence[Any], arrays: Sequence[Any], stream: int) -> Prepared:
        """Prepare the launch for these arguments."""
        from ..runtime.tensor_launch import DriverCall, check_cluster

        kernel = self.kernel
        devices = {each._numbacc_layout.device for each in arrays} or {runtime().current_device()}
        if len(devices) > 1:
            raise DeviceError(f"the arguments of {kernel.__name__} are on several GPUs: {sorted(devices)}")
        device = devices.pop()
        kinds = tuple(_kind(value, name) for value, name in zip(values, kernel._parameters, strict=True))
        threads = self.block[0] * self.block[1] * self.block[2]
        function = kernel.handle(kinds, threads, device)
        parts = [part for value, kind in zip(values, kinds, strict=True) for part in _bytes_of(value, kind)]
        call = DriverCall(self.grid, self.block, self.cluster, self.shared, stream, parts)
        blocks = self.cluster[0] * self.cluster[1] * self.cluster[2]
        if blocks > 1:
            with runtime().on_device(device):
                check_cluster(function, call, blocks, kernel.__name__, device)
        names = [name for name, (first, *more) in zip(kernel._parameters, kinds, strict=True) if more or first == _MAP]
        return Prepared(
            function,
            call,
            device,
            ([n for n in names if n in kernel._reads], [n for n in names if n not in kernel._reads]),
        )


# ---------------------------------------------------------------- arguments

#: The kind of a tensor map.
_MAP = "tensor_map"
_NUMBERS = {bool: "bool", int: "int64", float: "float64"}


def _kind(value: Any, name: str) -> tuple[Any, ...]:
    """Return a description of an argument's type, which is the same in all processes."""
    if isinstance(value, TensorMap):
        return (_MAP,)
    if type(value) in _NUMBERS:
        return (_NUMBERS[type(value)],)
    if isinstance(value, np.generic):
        return (value.dtype.name,)
    made = operands.layout_of(operands.as_array(value, name, handle_of(None)))
    order = "C" if _is_contiguous(made.shape, made.strides, made.itemsize) else "A"
    if order == "A" and _is_contiguous(made.shape[::-1], made.strides[::-1], made.itemsize):
        order = "F"
    return made.dtype.name, made.ndim, order


def _is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    step = itemsize
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1 and stride != step:
            return False
        step *= n
    return True


def _numba_type(kind: tuple[Any, ...]) -> Any:
    """Return Numba's type of an argument. Float8 elements are uint8."""
    from ..base import _numba

    types, name = _numba.types, kind[0]
    if name == _MAP:
        return _numba.TENSOR_MAP
    if name.startswith("float8"):
        name = "uint8"
    found = getattr(types, "boolean" if name == "bool" else name, None)
    if found is None:
        raise DTypeError(f"Numba's kernels do not support {name}")
    return found if len(kind) == 1 else types.Array(found, kind[1], kind[2])


def _bytes_of(value: Any, kind: tuple[Any, ...]) -> list[bytes]:
    """Return the kernel's parameters for an argument. An array has several in Numba's convention."""
    if kind[0] == _MAP:
        return [value.encoded()]
    if len(kind) == 1:
        return [np.asarray(value, TABLE[kind[0]].numpy if kind[0] in TABLE else kind[0]).tobytes()]
    made = value._numbacc_layout
    numbers = [0, 0, made.size, made.itemsize, value._address, *made.shape, *made.strides]
    return [int(n).to_bytes(8, "little", signed=True) for n in numbers]


# ---------------------------------------------------------------- what a kernel's code depends on


class _Unknown(Exception):
    """A global or a closure variable of a kernel has no digest."""


def digest_of(function: Callable[..., Any]) -> str:
    """Return a digest of a function's code, and of the globals and closure variables that it uses."""
    found = hashlib.sha256()
    _add(found, function, set())
    return found.hexdigest()


def _add(found: Any, value: Any, seen: set[int]) -> None:
    """Add a value to a digest."""
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)):
        found.update(f"{type(value).__name__} {value!r} ".encode())
    elif isinstance(value, (tuple, list)):
        found.update(f"{type(value).__name__} {len(value)} ".encode())
        for each in value:
            _add(found, each, seen)
    elif isinstance(value, np.ndarray):
        found.update(f"{value.dtype} {value.shape} ".encode() + value.tobytes())
    elif inspect.ismodule(value):
        found.update(f"module {value.__name__} ".encode())
    elif hasattr(value, "capability") and hasattr(value, "__wrapped__"):  # a device function
        found.update(f"device {value.__name__} ".encode())
    elif hasattr(value, "__code__") or hasattr(value, "py_func"):
        inner = getattr(value, "py_func", value)
        if id(inner) in seen:
            return
        seen.add(id(inner))
        _add_code(found, inner.__code__, seen)
        names = inspect.getclosurevars(inner)
        used = {**names.globals, **names.nonlocals}
        for name, each in sorted(used.items()):
            found.update(f"{name} ".encode())
            _add(found, each, seen)
        called = [*inner.__code__.co_names, *(str(getattr(each, "__name__", "")) for each in used.values())]
        if any("_wait_parity" in name for name in called):  # the machine code has the lines of waits
            found.update(repr(list(inner.__code__.co_lines())).encode())
        _add(found, inner.__defaults__, seen)
    elif isinstance(value, type):
        found.update(f"type {value.__module__}.{value.__qualname__} ".encode())
    elif type(value).__module__.startswith(("numba.", "builtins")):
        found.update(f"{type(value).__name__} {value!r} ".encode())
    else:
        raise _Unknown(type(value).__name__)


def _add_code(found: Any, code: Any, seen: set[int]) -> None:
    found.update(code.co_code + repr((code.co_names, code.co_varnames)).encode())
    for each in code.co_consts:
        if inspect.iscode(each):
            _add_code(found, each, seen)
        elif isinstance(each, frozenset):
            found.update(repr(sorted(map(repr, each))).encode())
        else:
            _add(found, each, seen)
