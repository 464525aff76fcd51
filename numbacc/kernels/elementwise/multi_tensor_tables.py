"""The tables that a kernel of lists reads: where the arrays are, and which of them each block takes a part of.

They are on the GPU. That of chunks follows from the arrays' sizes, that of arrays from where they are, too. Each stream
has its own: they are written, read and freed in its order, and need no other. A graph has its own as well, written
beside the capture, once, and kept as long as the graph.
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
from .multi_tensor_spec import ListSpec

#: Tables of arrays that are kept, of all streams: gradients are often new memory, but the same again after few steps.
MOST_TABLES = 16
#: Streams whose table of chunks is kept.
_STREAMS = 4

#: Blocks that a launch is cut into, about: enough to keep an H200 busy to the end. Elements of a chunk.
_BLOCKS = 16384
_SHORTEST, _LONGEST = 1024, 16384


class Tables(NamedTuple):
    """The two tables: allocations."""

    chunks: Any
    arrays: Any

    @property
    def addresses(self) -> tuple[int, int]:
        """Where they are."""
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
        nbytes: of both tables.
    """

    def __init__(self, sizes: Sequence[int], spec: ListSpec, device: int):
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
        #: Reentrant: what is dropped under it is finalized there, and may come back here.
        self._lock = threading.RLock()
        #: What was found last: (stream, addresses, tables).
        self._last: tuple[int, list[int], Tables | None] = (0, [], None)

    def kept(self, stream: int, where: list[int]) -> Tables | None:
        """The tables that were made for a stream and the addresses of all that a call has, None if there are none."""
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

    def make(self, stream: int, where: list[int], addresses: list[int], capture: Any) -> Tables:
        """The tables of arrays at these addresses. The device's context is current.

        Args:
            stream: where they are to be read.
            where: the addresses of all that a call has, which they are kept under.
            addresses: those of the arrays in the table, list after list.
            capture: the one that records the stream's work, None where there is none.
        """
        if capture is not None:
            home = capture.home
            tables = Tables(self._written(self._numbers, home), self._written(self._rows(addresses), home))
            if capture.before is None:
                # Others' graphs are launched where nobody waits for what is queued here.
                runtime().synchronize(home, self._device)
            for table in tables:
                capture.use(table, False, stream)
            return tables
        with self._lock:
            chunks = self._chunks.get(stream)
        if chunks is None:
            chunks = self._written(self._numbers, stream)
        tables = Tables(chunks, self._written(self._rows(addresses), stream))
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

    def _rows(self, addresses: list[int]) -> np.ndarray[Any, Any]:
        """The table of arrays: a row has their addresses, and what `ROW_FIELDS` says."""
        spec, sizes = self._spec, self._sizes
        count = len(spec.operands)
        rows = np.zeros((len(sizes), spec.row_words), np.uint64)
        rows[:, :count] = np.array(addresses, np.uint64).reshape(count, len(sizes)).T
        aligned = np.bitwise_or.reduce(rows[:, :count], axis=1) % VECTOR_BYTES == 0
        rows[:, count] = sizes
        rows[:, count + 1] = self._first
        rows[:, count + 2] = np.where(aligned, sizes // spec.width * spec.width, 0)
        return rows

    def _written(self, host: np.ndarray[Any, Any], stream: int) -> Any:
        """A table on the GPU, copied there in the order of a stream."""
        gpu = runtime()
        storage = gpu.allocate(host.nbytes, self._device, stream)
        gpu.copy_from_host(storage, storage.address, host, stream)
        return storage
