"""The tables that a kernel of lists reads: the arrays' addresses, and the arrays that each block processes.

They are in GPU memory. The table of chunks follows from the arrays' sizes, the table of arrays also from their
addresses. Each stream has its own tables: they are written, read and freed in stream order and need no other
synchronization. Each graph has its own tables, too. They are written once, outside the capture, and kept as long as
the graph.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.dispatch import runtime
from ...runtime.launch_order import VECTOR_BYTES
from .geometry import power_of_two
from .multi_tensor_spec import ListSpec, ListSumSpec

#: Tables of arrays to keep over all streams: gradients often have new addresses, which repeat after a few steps.
MOST_TABLES = 16
#: Number of streams whose table of chunks is kept.
_STREAMS = 4

#: Approximate number of blocks of a launch, enough to keep an H200 busy to the end; and limits of a chunk's elements.
_BLOCKS = 16384
_SHORTEST, _LONGEST = 1024, 16384


class Tables(NamedTuple):
    """The allocations of the two tables."""

    chunks: Any
    arrays: Any

    @property
    def addresses(self) -> tuple[int, int]:
        """The tables' addresses."""
        return self.chunks.address, self.arrays.address


class ListTables:
    """The tables of lists of arrays of given sizes.

    Args:
        sizes: elements of the arrays of each row.
        spec: the kernel that reads the tables.
        device: the GPU.

    Attributes:
        chunk: elements of a chunk.
        blocks: how many chunks there are.
        nbytes: bytes of both tables.
    """

    def __init__(self, sizes: Sequence[int], spec: ListSpec | ListSumSpec, device: int):
        self._spec, self._device = spec, device
        self._sizes = np.array(sizes, np.int64)
        self.chunk = min(max(power_of_two(sum(sizes) // _BLOCKS), _SHORTEST), _LONGEST)
        chunks = -(-self._sizes // self.chunk)
        self.blocks = int(chunks.sum())
        self._first = np.cumsum(chunks) - chunks
        self._numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), chunks)
        self.nbytes = self._numbers.nbytes + 8 * spec.row_words * len(sizes)
        self._arrays: OrderedDict[Hashable, Any] = OrderedDict()
        self._chunks: OrderedDict[int, Any] = OrderedDict()
        #: Reentrant: objects that are dropped under the lock run their finalizers there, which may call this class
        #: again.
        self._lock = threading.RLock()
        #: The most recent result: (stream, addresses, tables).
        self._last: tuple[int, list[int], Tables | None] = (0, [], None)

    def kept(self, stream: int, where: list[int]) -> Tables | None:
        """Return the tables that were made for a stream and a call's addresses; None if they do not exist."""
        before, known, tables = self._last
        if stream == before and where == known:
            return tables
        key = (stream, *where)
        with self._lock:
            arrays, chunks = self._arrays.get(key), self._chunks.get(stream)
            if arrays is None or chunks is None:
                return None
            self._arrays.move_to_end(key)
            self._chunks.move_to_end(stream)
        return self._noted(stream, where, Tables(chunks, arrays))

    def make(self, stream: int, where: list[int], addresses: list[int], own: Sequence[int], capture: Any) -> Tables:
        """Make and return the tables of arrays at these addresses. The device's context must be current.

        Args:
            stream: the stream that reads them.
            where: all addresses of the call, the key under which the tables are kept.
            addresses: the addresses of the arrays in the table, list after list.
            own: the word of each row's own scalar; () for none.
            capture: the capture that records the stream's work, or None.
        """
        if capture is not None:
            home = capture.home
            tables = Tables(self._written(self._numbers, home), self._written(self._rows(addresses, own), home))
            if capture.before is None:
                # Graphs of other libraries are launched without waiting for the copy that is queued here.
                runtime().synchronize(home, self._device)
            for table in tables:
                capture.use(table, False, stream)
            return tables
        with self._lock:
            chunks = self._chunks.get(stream)
        if chunks is None:
            chunks = self._written(self._numbers, stream)
        tables = Tables(chunks, self._written(self._rows(addresses, own), stream))
        with self._lock:
            self._chunks[stream] = tables.chunks
            self._arrays[(stream, *where)] = tables.arrays
            while len(self._chunks) > _STREAMS:
                self._chunks.popitem(last=False)
            while len(self._arrays) > MOST_TABLES:
                self._arrays.popitem(last=False)
        return self._noted(stream, where, tables)

    def _noted(self, stream: int, where: list[int], tables: Tables) -> Tables:
        self._last = stream, where, tables
        return tables

    def _rows(self, addresses: list[int], own: Sequence[int] = ()) -> np.ndarray[Any, Any]:
        """Return the table of arrays: each row has their addresses, then the fields of `ROW_FIELDS`."""
        spec, sizes = self._spec, self._sizes
        count = len(spec.operands)
        rows = np.zeros((len(sizes), spec.row_words), np.uint64)
        rows[:, :count] = np.array(addresses, np.uint64).reshape(count, len(sizes)).T
        aligned = np.bitwise_or.reduce(rows[:, :count], axis=1) % VECTOR_BYTES == 0
        rows[:, count] = sizes
        rows[:, count + 1] = self._first
        rows[:, count + 2] = np.where(aligned, sizes // spec.width * spec.width, 0)
        if own:
            rows[:, count + 3] = np.array(own, np.uint64)
        return rows

    def _written(self, host: np.ndarray[Any, Any], stream: int) -> Any:
        """Return a table in GPU memory, copied there in stream order."""
        gpu = runtime()
        storage = gpu.allocate(host.nbytes, self._device, stream)
        gpu.copy_from_host(storage, storage.address, host, stream)
        return storage
