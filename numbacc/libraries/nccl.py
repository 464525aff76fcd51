"""Collective operations of GPUs by NCCL, through NVIDIA's binding nccl4py.

Calls here take addresses and handles; the caller orders them. NCCL itself looks whether the stream is being captured,
and adds its kernels to that graph.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ..base.ownership import NotCopied
from ..errors import DeviceError, LibraryError, RankError
from ..runtime.contexts import on_device, relaxed

#: NCCL's number of a dtype (ncclDataType_t).
DTYPES = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9, "float8_e4m3fn": 10, "float8_e5m2": 11,
}  # fmt: skip
#: NCCL's number of a reduction (ncclRedOp_t).
REDUCTIONS = {"sum": 0, "product": 1, "max": 2, "min": 3, "mean": 4}
#: Registered memory has a multiple of so many bytes.
_GRANULARITY = 1 << 21
#: NCCL_CTA_POLICY_ZERO.
_BY_COPIES = 2
#: The oldest NCCL with copy engines, as its number.
_WITH_COPIES = 22800
#: NCCL_WIN_COLL_SYMMETRIC: all ranks register memory of one size.
_SYMMETRIC = 1


@lru_cache(maxsize=1)
def bindings() -> Any:
    """Load nccl4py and NCCL.

    Raises:
        DeviceError: one of them is missing.
    """
    # Multicast over NVLink (NVLS) is off unless the user turns it on. A program that dies while it uses multicast can
    # leave the GPUs of a host unusable until the host restarts.
    os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
    try:
        from nccl.bindings import nccl as found

        found.get_version()
    except Exception as error:
        raise DeviceError(
            f"NCCL, which connects GPUs, was not found ({error}): pip install 'numbacc[nccl12]', or 'numbacc[nccl13]' "
            "for CUDA 13"
        ) from error
    return found


def version() -> str:
    """Return NCCL's version, as in 2.28.9."""
    number = int(bindings().get_version())
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def has_copies() -> bool:
    """Return whether NCCL can use the GPU's copy engines."""
    return int(bindings().get_version()) >= _WITH_COPIES


def unique_id() -> bytes:
    """Return a new identifier. The ranks of a communicator find each other with it."""
    with _checked("ncclGetUniqueId"):
        return bytes(bindings().get_unique_id())


@contextmanager
def _checked(function: str) -> Iterator[None]:
    """Raise numbacc's error for an error of the binding."""
    try:
        yield
    except bindings().NCCLError as error:
        status = getattr(error, "status", None)
        raise LibraryError(f"{function} failed: {error}", function=function, status=status) from error


class NcclCommunicator(NotCopied):
    """A communicator of NCCL: one rank, on one GPU.

    Args:
        rank, world_size: the number of this rank, and of all.
        identifier: of rank 0's `unique_id`.
        device: the GPU.
        by_copies: whether `all_gather` and `all_to_all` of registered memory use the GPU's copy engines, which take no
            multiprocessor away from kernels.

    Attributes:
        calls: the number of calls that all ranks make together, launches of graphs included.
    """

    _instead = "make another, on all ranks"

    def __init__(self, rank: int, world_size: int, identifier: bytes, device: int, *, by_copies: bool = False):
        self.device = device
        #: NCCL allows one call at a time. It is reentrant for finalizers.
        self._lock = threading.RLock()
        self._library = bindings()
        self._aborted = False
        self.calls, self._counting = 0, threading.Lock()
        #: The registrations of memory.
        self._windows: list[Any] = []
        # The binding reads the options when it makes the communicator.
        options = self._library.Config()
        if by_copies:
            options.cta_policy = _BY_COPIES
        with on_device(device), relaxed(), _checked("ncclCommInitRankScalable"):
            self._comm = self._library.comm_init_rank_scalable(
                world_size, rank, 1, bytearray(identifier), options.ptr if by_copies else 0
            )

    def allocate(self, nbytes: int) -> int:
        """Allocate memory that NCCL registers with all ranks, and return its address. All ranks call this together.

        The memory is never freed: its registration belongs to all ranks, which cannot agree on its end.
        """
        size = -(-nbytes // _GRANULARITY) * _GRANULARITY
        with self._lock, on_device(self.device), relaxed():
            with _checked("ncclMemAlloc"):
                address = int(self._library.mem_alloc(size))
            with _checked("ncclCommWindowRegister"):
                self._windows.append(self._library.comm_window_register(self._comm, address, size, _SYMMETRIC))
        return address

    def add(self, number: int) -> None:
        """Count calls."""
        with self._counting:
            self.calls += number

    def _call(self, name: str, *arguments: Any) -> None:
        with self._lock, _checked(name):
            if self._aborted:
                raise RankError
            getattr(self._library, name)(*arguments)
        self.add(name not in ("send", "recv"))

    def all_reduce(self, source: int, target: int, count: int, dtype: int, op: int, stream: int) -> None:
        self._call("all_reduce", source, target, count, dtype, op, self._comm, stream)

    def reduce_scatter(self, source: int, target: int, count: int, dtype: int, op: int, stream: int) -> None:
        """Queue a reduction. Each rank gets `count` elements of the result."""
        self._call("reduce_scatter", source, target, count, dtype, op, self._comm, stream)

    def all_gather(self, source: int, target: int, count: int, dtype: int, stream: int) -> None:
        """Queue a gathering of `count` elements of each rank."""
        self._call("all_gather", source, target, count, dtype, self._comm, stream)

    def all_to_all(self, source: int, target: int, count: int, dtype: int, stream: int) -> None:
        """Queue an exchange: each rank sends `count` elements to every rank."""
        self._call("allto_all", source, target, count, dtype, self._comm, stream)

    def broadcast(self, source: int, target: int, count: int, dtype: int, root: int, stream: int) -> None:
        self._call("broadcast", source, target, count, dtype, root, self._comm, stream)

    def send(self, source: int, count: int, dtype: int, peer: int, stream: int) -> None:
        self._call("send", source, count, dtype, peer, self._comm, stream)

    def receive(self, target: int, count: int, dtype: int, peer: int, stream: int) -> None:
        self._call("recv", target, count, dtype, peer, self._comm, stream)

    @contextmanager
    def group(self) -> Iterator[None]:
        """Queue the calls inside together."""
        with self._lock:
            with _checked("ncclGroupStart"):
                self._library.group_start()
            try:
                yield
            finally:
                with _checked("ncclGroupEnd"):
                    self._library.group_end()

    def abort(self) -> None:
        """End all operations, also those that wait for a rank that has gone."""
        if self._aborted:
            return
        self._aborted = True
        # A call that is being made must end first, for NCCL frees what it uses. But a call may hang.
        has_lock = self._lock.acquire(timeout=1.0)
        try:
            with on_device(self.device), _checked("ncclCommAbort"):
                self._library.comm_abort(self._comm)
        finally:
            if has_lock:
                self._lock.release()
