"""The communicator: operations of all ranks on NumPy arrays, by sockets, and on device arrays, by NCCL."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np

from ..arrays import creation, operands
from ..arrays.operands import Array
from ..base import checks, dtypes
from ..base.dispatch import has_gpu, runtime, simulated
from ..base.layout import (
    Layout,
    argument_of,
    check_writable,
    layout,
    lengths_of,
    overlap,
    read_only,
    row_major_strides,
)
from ..base.ownership import NotCopied
from ..errors import DeviceError, DTypeError, LayoutError, OptionError, RankError, ShapeError, shown
from ..runtime.streams import handle_of
from .control import Control
from .environment import Ranks, ranks
from .mesh import Mesh

#: Calls of a communicator that rank 0 compares between the ranks.
_COMPARED = 1000
_OPS = ("sum", "mean", "product", "max", "min")


class Communicator(NotCopied):
    """All processes of a program, and their operations. `numbacc.distributed.init` makes it.

    All ranks call the same operations in the same order, with arrays of one shape and dtype. NumPy arrays are sent
    through sockets, and the call returns when it is done. Device arrays are sent by NCCL: the call queues the operation
    on a stream, in the order of the arrays' memory, also while a graph is captured. With one rank, operations copy.

    Attributes:
        rank: the number of this process, from 0.
        world_size: the number of processes.
        local_rank: the number of this process on its host.
        device: the `device=` argument for this rank's arrays: its GPU, or "cpu" without one.

    Example:
        >>> team = numbacc.distributed.init()
        >>> team.rank, team.world_size
        (0, 1)
        >>> team.all_reduce(np.array([1.0, 2.0]), "mean")
        array([1., 2.])
    """

    _instead = "each process has one"

    def __init__(self, place: Ranks, timeout: float, call_timeout: float | None = None):
        self.rank, self.world_size, self.local_rank = place.rank, place.world_size, place.local_rank
        #: Calls that rank 0 compares, and calls with NumPy arrays.
        self._calls = self._on_host = 0
        self._control: Control | None = None
        self._mesh: Mesh | None = None
        #: NCCL's communicator, or None and the reason why there is none.
        self._nccl: Any = None
        self._without = ""
        #: Whether memory can be registered, and a communicator for it, once `registered_empty` has made some.
        self._can_register, self._copier = False, cast(Any, None)
        self._gpu = self._select() if has_gpu() else None
        self.device = "cpu" if self._gpu is None else argument_of(self._gpu)
        if self.world_size > 1:
            self._control = Control(place, timeout)
            self._mesh = Mesh(self._control, timeout)
            self._connect_gpus()
            if call_timeout is not None:
                self._control.watch_calls(self._made_calls, call_timeout)

    def __repr__(self) -> str:
        by = "" if self.world_size == 1 else ", NCCL" if self._nccl is not None else ", sockets"
        return f"numbacc.distributed.Communicator(rank {self.rank} of {self.world_size}, {self.device}{by})"

    # ------------------------------------------------------------ the start

    def _select(self) -> int:
        """Make this rank's GPU current, and return its number."""
        count = runtime().device_count()
        if self.world_size == 1 or count == 1:
            return int(runtime().current_device())
        if self.local_rank >= count:
            raise DeviceError(
                f"local rank {self.local_rank} has no GPU: this host has {count}. Start at most {count} ranks here, or "
                "hide the GPUs with CUDA_VISIBLE_DEVICES= to run on NumPy"
            )
        runtime().select_device(self.local_rank)
        return self.local_rank

    def _connect_gpus(self) -> None:
        """Make NCCL's communicator, if all ranks have a GPU of their own."""
        assert self._control is not None
        own = {"gpu": None, "host": socket.gethostname(), "problem": ""}
        if self._gpu is None:
            own["problem"] = "it has no GPU"
        elif simulated():
            own["problem"] = "its GPU is simulated"
        else:
            own["gpu"] = f"{own['host']}/{runtime().pci_address(self._gpu)}"
            try:
                _nccl().bindings()
            except DeviceError as error:
                own["problem"] = str(error)
        everyone = self._control.gather(own)
        problems = [f"rank {rank}: {each['problem']}" for rank, each in enumerate(everyone) if each["problem"]]
        gpus = [each["gpu"] for each in everyone]
        if not problems and len(set(gpus)) < len(gpus):
            problems = [f"two ranks share the GPU {next(gpu for gpu in gpus if gpus.count(gpu) > 1)}"]
        if problems:
            self._without = "; ".join(problems)
            return
        self._nccl = self._communicator()
        self._can_register = len({each["host"] for each in everyone}) == 1 and _nccl().has_copies()

    def _communicator(self, **options: Any) -> Any:
        """Make a communicator of NCCL, on all ranks together."""
        assert self._control is not None
        (identifier, *_) = self._control.gather(_nccl().unique_id().hex() if self.rank == 0 else None)
        made = _nccl().NcclCommunicator(self.rank, self.world_size, bytes.fromhex(identifier), self._gpu, **options)
        self._control.on_failure.append(made.abort)
        return made

    def _made_calls(self) -> int:
        """Return the number of calls that this rank has made, and that all ranks make."""
        libraries = [each for each in (self._nccl, self._copier) if each is not None]
        return self._on_host + sum(int(each.calls) for each in libraries)

    # ------------------------------------------------------------ operations

    def all_reduce(self, x: Array, op: str = "sum", *, out: Array | None = None, stream: Any = None) -> Array:
        """Reduce the arrays of all ranks element by element, and give the result to all of them.

        Args:
            x: array of any shape, the same on all ranks.
            op: "sum", "mean" (floats and complex numbers only), "product", "max" or "min". Sums of 16-bit floats on a
                GPU are rounded in each step of NCCL's.
            out: array of x's shape and dtype for the result; `out=x` is in place.
            stream: the stream that a GPU's work is queued on.

        Returns:
            array of x's shape and dtype, or `out`.

        Raises:
            DTypeError: op does not support x's dtype, or out has another one.
            ShapeError: out has another shape, or NumPy arrays differ between ranks.
            LayoutError: out is read-only, or overlaps x in part.
            OptionError: op is unknown, or stream is not a stream.
            DeviceError: the arrays are on a GPU, and NCCL or another rank's GPU is missing.
            RankError: another rank has ended, or makes another call.

        Example:
            >>> numbacc.distributed.init().all_reduce(np.arange(3), "max")
            array([0, 1, 2])
        """
        call = _Collective(self, "all_reduce", x, stream, _checked(op))
        return call.run(call.own.shape, out, self._all_reduce)

    def reduce_scatter(self, x: Array, op: str = "sum", *, out: Array | None = None, stream: Any = None) -> Array:
        """Reduce the arrays of all ranks element by element, and give each rank its part of the result.

        Args:
            x: array of shape (world_size · n, ...), the same on all ranks.
            op: as of `all_reduce`.
            out: array of shape (n, ...) for the result; it may be this rank's part of x, from row rank · n on.
            stream: the stream that a GPU's work is queued on.

        Returns:
            array of shape (n, ...), rows rank · n to (rank + 1) · n of the reduction, or `out`.

        Raises:
            ShapeError: the length of x is not a multiple of the number of ranks. The other errors are as in
                `all_reduce`.

        Example:
            >>> numbacc.distributed.init().reduce_scatter(np.arange(4.0))
            array([0., 1., 2., 3.])
        """
        call = _Collective(self, "reduce_scatter", x, stream, _checked(op))
        return call.run(call.part_shape(), out, self._reduce_scatter)

    def all_gather(self, x: Array, *, out: Array | None = None, stream: Any = None) -> Array:
        """Join the arrays of all ranks along the first axis, and give the result to all of them.

        Args:
            x: array of shape (n, ...) and any dtype, the same on all ranks.
            out: array of shape (world_size · n, ...) for the result; x may be this rank's part of it.
            stream: the stream that a GPU's work is queued on.

        Returns:
            array of shape (world_size · n, ...), or `out`.

        Raises:
            ShapeError: x has rank 0. The other errors are as in `all_reduce`.

        Example:
            >>> numbacc.distributed.init().all_gather(np.arange(3))
            array([0, 1, 2])
        """
        call = _Collective(self, "all_gather", x, stream, None)
        if not call.own.shape:
            raise ShapeError("x has rank 0; all_gather joins arrays along their first axis: pass x.reshape(1)")
        rows, *rest = call.own.shape
        return call.run((self.world_size * rows, *rest), out, self._all_gather)

    def broadcast(self, x: Array, root: int = 0, *, out: Array | None = None, stream: Any = None) -> Array:
        """Give the array of one rank to all of them.

        Args:
            x: array of any dtype; on ranks other than `root` its shape and dtype count, and its values do not.
            root: the rank whose values are sent.
            out: array of x's shape and dtype for the result; `out=x` is in place.
            stream: the stream that a GPU's work is queued on.

        Returns:
            array of x's shape and dtype, or `out`.

        Raises:
            OptionError: there is no rank `root`. The other errors are as in `all_reduce`.

        Example:
            >>> numbacc.distributed.init().broadcast(np.arange(3))
            array([0, 1, 2])
        """
        self._check_rank(root, "root")
        call = _Collective(self, "broadcast", x, stream, None, f"root {root}")
        return call.run(call.own.shape, out, partial(self._broadcast, root=root))

    def send(self, x: Array, to: int, *, stream: Any = None) -> None:
        """Send an array to another rank, which calls `receive`.

        Args:
            x: array of any shape and dtype.
            to: the rank that receives it.
            stream: the stream that a GPU's work is queued on. Work on it waits until the other rank receives.

        Raises:
            OptionError: there is no other rank `to`. The other errors are as in `all_reduce`.
        """
        self._check_other(to, "to")
        call = _Collective(self, "send", x, stream, None)
        if call.on_host:
            assert self._mesh is not None
            self._mesh.exchange(call.message, {to: call.contiguous(call.x)}, {})
            return
        source = call.contiguous(call.x)
        with call.ordered((source,), ()):
            self._nccl.send(source._address, call.nbytes, _BYTES, to, call.handle)

    def receive(self, source: int, *, out: Array, stream: Any = None) -> Array:
        """Receive the array that another rank sends.

        Args:
            source: the rank that sends it.
            out: array of the sent array's shape and dtype.
            stream: the stream that a GPU's work is queued on.

        Returns:
            `out`.

        Raises:
            OptionError: there is no other rank `source`. The other errors are as in `all_reduce`.
        """
        self._check_other(source, "source")
        call = _Collective(self, "send", out, stream, None, argument="out")
        return call.run(call.own.shape, out, partial(self._receive, sender=source), reads=False)

    def registered_empty(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> Array:
        """Return an uninitialized array that other ranks' GPUs access, for gradients and parameters of `DataParallel`.

        `DataParallel` with `shard=True` moves such arrays with the GPU's copy engines, so that products and other
        kernels keep all multiprocessors. All ranks call this together, with the same arguments. The memory is not freed
        before the process ends, so make such arrays once. `numbacc.peak_memory` does not count it.

        Args:
            shape: the array's shape, or its length.
            dtype: its dtype.

        Returns:
            array in memory that NCCL 2.28 or newer has registered with all ranks. An ordinary array if NCCL is older,
            if the ranks are on several hosts, or without NCCL.

        Raises:
            RankError: another rank has ended.

        Example:
            >>> numbacc.distributed.init().registered_empty((2, 3)).shape
            (2, 3)
        """
        lengths, own = lengths_of(shape), dtypes.dtype(dtype)
        if not self._can_register or 0 in lengths:
            return creation.empty(lengths, own, device=self.device)
        made = layout(lengths, row_major_strides(lengths, own.itemsize), own, self._nccl.device)
        if self._copier is None:
            self._copier = self._communicator(by_copies=True)
        address, handle = self._copier.allocate(made.nbytes), handle_of(None)
        storage = runtime().borrow(self._copier, address, made.device, handle, None, "memory")
        return operands.device_array()(made, address, storage)

    def barrier(self) -> None:
        """Wait until all ranks have called this. The host waits; it does not wait for work on GPUs.

        Raises:
            RankError: another rank has ended.
        """
        if self._control is not None:
            self._control.gather(None)

    def check(self) -> None:
        """Raise RankError if another rank has ended.

        Other calls do so, too, and a rank that computes for long is interrupted. A loop that catches errors needs this.
        """
        if self._control is not None:
            self._control.check()

    # ------------------------------------------------------------ on contiguous arrays

    def _all_reduce(self, call: _Collective, source: Any, target: Any) -> None:
        if call.on_host:
            assert self._mesh is not None
            target[...] = self._mesh.all_reduce(call.message, source, call.op)
        else:
            self._nccl.all_reduce(source._address, target._address, call.count, call.code, call.number, call.handle)

    def _reduce_scatter(self, call: _Collective, source: Any, target: Any) -> None:
        if call.on_host:
            assert self._mesh is not None
            rows = source.reshape(self.world_size, -1)
            target[...] = self._mesh.reduce_scatter(call.message, rows, call.op).reshape(target.shape)
        else:
            count = call.count // self.world_size
            self._nccl.reduce_scatter(source._address, target._address, count, call.code, call.number, call.handle)

    def _all_gather(self, call: _Collective, source: Any, target: Any) -> None:
        if call.on_host:
            assert self._mesh is not None
            self._mesh.all_gather(call.message, source, target.reshape(self.world_size, *source.shape))
        else:
            self._nccl.all_gather(source._address, target._address, call.nbytes, _BYTES, call.handle)

    def _broadcast(self, call: _Collective, source: Any, target: Any, root: int) -> None:
        if call.on_host:
            assert self._mesh is not None
            if self.rank == root:
                target[...] = source
            self._mesh.broadcast(call.message, target, root)
        else:
            self._nccl.broadcast(source._address, target._address, call.nbytes, _BYTES, root, call.handle)

    def _receive(self, call: _Collective, _: Any, target: Any, sender: int) -> None:
        if call.on_host:
            assert self._mesh is not None
            self._mesh.exchange(call.message, {}, {sender: target})
        else:
            self._nccl.receive(target._address, call.nbytes, _BYTES, sender, call.handle)

    # ------------------------------------------------------------ for data-parallel training, in the caller's order

    def _reduce_mean(self, array: Any, own: Any, is_shared: bool, stream: int) -> None:
        """Queue the mean of a contiguous device array: in place, or with each rank's own part only."""
        code, number = _nccl().DTYPES[array.dtype.name], _nccl().REDUCTIONS["mean"]
        if is_shared:
            self._nccl.reduce_scatter(array._address, own._address, own.size, code, number, stream)
        else:
            self._nccl.all_reduce(array._address, array._address, array.size, code, number, stream)

    def _gather_parts(self, own: Any, array: Any, stream: int) -> None:
        """Queue the gathering of all ranks' parts of a contiguous device array, in place."""
        library = self._copier if self._is_registered(array) else self._nccl
        library.all_gather(own._address, array._address, own.nbytes, _BYTES, stream)

    def _exchange_parts(self, array: Any, out: Any, stream: int) -> None:
        """Queue an exchange: row k of the result is rank k's values of this rank's part. Both arrays are registered."""
        self._copier.all_to_all(array._address, out._address, array.nbytes // self.world_size, _BYTES, stream)

    def _is_registered(self, array: Any) -> bool:
        """Return whether an array is in memory that `registered_empty` has made."""
        return self._copier is not None and getattr(array._storage, "_owner", None) is self._copier

    # ------------------------------------------------------------ checks

    def _check_rank(self, rank: int, name: str) -> None:
        checks.integer(rank, name, 0, self.world_size - 1)

    def _check_other(self, rank: int, name: str) -> None:
        self._check_rank(rank, name)
        if rank == self.rank:
            raise OptionError(f"{name}={rank} is this rank itself")

    def _note(self, text: str) -> None:
        """Let rank 0 compare a call of NCCL with those of the other ranks: NCCL itself would wait for ever."""
        assert self._control is not None
        self._control.check()
        self._calls += 1
        if self._calls <= _COMPARED:
            self._control.send(kind="call", number=self._calls, text=text)

    def _check_gpu(self, own: Layout) -> None:
        """Raise DeviceError unless NCCL can send arrays of this layout."""
        if self._nccl is None:
            raise DeviceError(
                f"these ranks have no connection between GPUs, because of {self._without}. NumPy arrays can be sent: "
                "numbacc.asnumpy(x)"
            )
        if own.device != self._nccl.device:
            raise DeviceError(f"x is on cuda:{own.device}, and rank {self.rank} works on cuda:{self._nccl.device}")


#: NCCL's number of uint8, in which arrays are moved whose elements are not computed with.
_BYTES = 1


def _checked(op: str) -> str:
    """Return the name of a reduction, or raise OptionError."""
    if op not in _OPS:
        raise OptionError(f"op={shown(op)} is unknown; the operations are {', '.join(_OPS)}")
    return op


class _Collective:
    """One call of an operation: its checked arguments.

    Attributes:
        x, own: the array, and its layout.
        op, number: the reduction, and NCCL's number of it.
        count, code: the number of elements as NCCL counts them, and NCCL's number of their dtype.
        nbytes: bytes of x.
        handle: the stream.
        on_host: whether the array is in host memory.
        message: the call's text, which is compared between the ranks.
    """

    def __init__(
        self, team: Communicator, name: str, x: Any, stream: Any, op: str | None, more: str = "", *, argument: str = "x"
    ):
        self._team, self.handle = team, handle_of(stream)
        self.x = operands.as_input(x, argument, self.handle)
        self.own = operands.layout_of(self.x)
        dtypes.info(self.own.dtype, argument)
        self.op = op or ""
        self.on_host = self.own.device < 0
        self.nbytes = self.own.nbytes
        self.count, self.code, self.number = self.own.size, _BYTES, 0
        if op is not None:
            self._resolve(op)
        details = ", ".join(filter(None, (f"{self.own.dtype} {self.own.shape}", op, more)))
        self.message = f"{name}({details})"
        self._is_made_by_all = name != "send"
        if team.world_size > 1 and not self.on_host:
            team._check_gpu(self.own)
            if self._is_made_by_all:
                team._note(self.message)
        elif self._is_made_by_all:
            team._on_host += 1

    def _resolve(self, op: str) -> None:
        """Find NCCL's numbers of a reduction and a dtype."""
        dtype = self.own.dtype
        name, is_complex = dtype.name, dtype.kind == "c"
        if is_complex:
            name, self.count = f"float{4 * dtype.itemsize}", 2 * self.own.size
        elif name == "bool" and op in ("max", "min"):
            name = "uint8"
        is_float = name.startswith(("float", "bfloat"))
        if name not in _nccl().DTYPES or (is_complex and op not in ("sum", "mean")) or (op == "mean" and not is_float):
            raise DTypeError(
                f"x has dtype {dtype}, which op={op!r} does not support; convert it with elementwise.astype"
            )
        self.code, self.number = _nccl().DTYPES[name], _nccl().REDUCTIONS[op]

    def part_shape(self) -> tuple[int, ...]:
        """Return the shape of one rank's part of x."""
        size, shape = self._team.world_size, self.own.shape
        if not shape or shape[0] % size:
            raise ShapeError(f"x has shape {shape}; its first axis must be a multiple of the {size} ranks")
        return (shape[0] // size, *shape[1:])

    def contiguous(self, array: Any) -> Any:
        """Return an array, or a copy of it, whose elements lie one after the other."""
        own = operands.layout_of(array)
        if own.strides == row_major_strides(own.shape, own.itemsize) or not own.size:
            return _host(array) if self.on_host else array
        if self.on_host:
            return np.ascontiguousarray(_host(array))
        return copy(array, self._empty(own.shape), self.handle)

    def _empty(self, shape: tuple[int, ...]) -> Any:
        own = self.own
        made = layout(shape, row_major_strides(shape, own.itemsize), own.dtype, own.device)
        return operands.empty_host(made) if self.on_host else operands.empty_device(made, self.handle)

    def run(self, shape: tuple[int, ...], out: Any, work: Callable[..., None], *, reads: bool = True) -> Any:
        """Do the work, and return the result.

        Args:
            shape: of the result.
            out: the user's array for it, or None.
            work: queues the operation, called with this call and two contiguous arrays.
            reads: whether x is read.
        """
        if out is None:
            given = result = self._empty(shape)
        else:
            given, result = out, operands.as_array(out, "out", self.handle)
            self._check_out(result, shape, reads)
        source = self.contiguous(self.x) if reads else None
        is_direct = _is_contiguous(result)
        if self._team.world_size == 1:
            self._copy(source, result)
        elif self.on_host:
            host = _host(result)
            target = host if is_direct else np.empty(shape, self.own.dtype)
            work(self, source, target)
            if not is_direct:
                host[...] = target
        elif self.own.size:
            target = result if is_direct else self._empty(shape)
            with self.ordered(() if source is None else (source,), (target,)):
                work(self, source, target)
            if not is_direct:
                copy(target, result, self.handle)
        return given

    def ordered(self, reads: Any, writes: Any) -> Any:
        """Return a context manager that orders NCCL's work on the arrays, and keeps what a graph uses."""
        return _Ordered(self._team._nccl, self.handle, self.own.device, reads, writes, self._is_made_by_all)

    def _copy(self, source: Any, result: Any) -> None:
        if self.on_host:
            _host(result)[...] = source
        elif source._address != result._address and self.own.size:
            copy(source, result, self.handle)

    def _check_out(self, out: Any, shape: tuple[int, ...], reads: bool) -> None:
        other = operands.layout_of(out)
        if other.device != self.own.device:
            raise DeviceError(f"out is on {argument_of(other.device)} and x on {argument_of(self.own.device)}")
        if other.shape != shape:
            raise ShapeError(f"out has shape {other.shape}; it must have shape {shape}")
        if other.dtype != self.own.dtype:
            raise DTypeError(f"out has dtype {other.dtype}; it must have x's dtype, {self.own.dtype}")
        check_writable(other, "out")
        if not (out.flags.writeable if isinstance(out, np.ndarray) else not out._readonly):
            raise read_only("out")
        if not reads or not self.own.size:
            return
        # NCCL allows one place: where the rank's part of the longer array is.
        first, second = _address(self.x), _address(out)
        part = self._team.rank * min(self.own.nbytes, other.nbytes)
        exact = second - first == (part if self.own.nbytes > other.nbytes else 0)
        exact |= self.own.nbytes < other.nbytes and first - second == part
        if overlap(first, self.own, second, other) and not (exact and _is_contiguous(out) and _is_contiguous(self.x)):
            same = first == second and self.own == other
            if not same:
                raise LayoutError("out overlaps x in part: pass out=x, the rank's own part, or separate memory")


class _Ordered:
    """The order of memory around a call of NCCL. A captured call's graph keeps the communicator."""

    def __init__(self, library: Any, stream: int, device: int, reads: Any, writes: Any, is_counted: bool):
        self._library, self._is_counted = library, is_counted
        self._using = runtime().using(stream, device, reads, writes)

    def __enter__(self) -> Any:
        capture = self._using.__enter__()
        if capture is not None:
            capture.keep(self._library)
            if self._is_counted:
                capture.count(self._library)
        return capture

    def __exit__(self, *error: Any) -> None:
        self._using.__exit__(*error)


def _host(array: Any) -> np.ndarray[Any, Any]:
    """Return an array in host memory as a NumPy array."""
    return array if isinstance(array, np.ndarray) else array.host


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)


def _is_contiguous(array: Any) -> bool:
    own = operands.layout_of(array)
    return own.strides == row_major_strides(own.shape, own.itemsize)


def copy(source: Any, target: Any, stream: int) -> Any:
    """Queue a copy between device arrays, and return the target. This loads Numba, which NumPy arrays do not need."""
    from ..kernels.elementwise import copy as copies

    return copies.copy(source, target, stream)


def _nccl() -> Any:
    """Return the module that calls NCCL."""
    from ..libraries import nccl

    return nccl


# ---------------------------------------------------------------- the communicator of the process

_made: list[Communicator] = []
_lock = threading.Lock()


def init(
    *,
    rank: int | None = None,
    world_size: int | None = None,
    local_rank: int | None = None,
    address: str | None = None,
    timeout: float = 60.0,
    call_timeout: float | None = 600.0,
) -> Communicator:
    """Connect this process with the other processes of the program, and return their communicator.

    Each process works on one GPU: number `local_rank` of its host, which becomes the current one of this thread. The
    first call makes the connections, and later calls return the same communicator. Without a launcher there is one
    rank, and all operations work on its arrays alone.

    The arguments come from the launcher's environment variables if they are None: those of torchrun and of
    `python -m numbacc launch` (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), of Open MPI and MPICH, or of
    Slurm's srun.

    Args:
        rank, world_size: the number of this process, from 0, and of all processes.
        local_rank: the number of this process on its host; `rank` if None.
        address: where the processes meet: "host:port" of rank 0, or "file:///path" of a new file that all processes
            share. NUMBACC_RENDEZVOUS or MASTER_ADDR and MASTER_PORT if None.
        timeout: seconds to wait for the other processes.
        call_timeout: seconds after which a rank that has not made a call which another rank has made counts as failed:
            it hangs. Choose more than the longest work that one rank does alone, such as writing a checkpoint; None for
            no limit. Calls of `send` and `receive` do not count.

    Returns:
        Communicator.

    Raises:
        OptionError: a number is out of range, or the address is unknown.
        DeviceError: not all processes came before `timeout`, or there is no GPU for this rank.

    If a rank ends with an error, or its process dies, the other ranks end with RankError within seconds. Its message
    has the traceback of the rank that failed.

    Example:
        >>> numbacc.distributed.init().world_size
        1
    """
    if call_timeout is not None and not call_timeout > 0:
        raise OptionError(f"call_timeout={shown(call_timeout)} must be a positive number of seconds, or None")
    with _lock:
        if not _made:
            made = Communicator(ranks(rank, world_size, local_rank, address), timeout, call_timeout)
            if made._control is not None:
                _report_errors(made._control)
            _made.append(made)
        return _made[0]


def _report_errors(control: Control) -> None:
    """Report an uncaught exception, and the end of this process, to the other ranks."""
    RankError.news = staticmethod(control.notice)
    before = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        control.fail("".join(traceback.format_exception(kind, error, trace)))
        before(kind, error, trace)

    sys.excepthook = report
    atexit.register(control.finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=control.forget)
