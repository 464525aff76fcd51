"""Collective operations on NumPy arrays: each rank has a connection to every other one.

Laptops and tests use it, and programs with small arrays on the host. Each rank adds the ranks'
values in the order of the ranks, so that all ranks get the same bits. Floats of 16 and 8 bits are added in float32 and
rounded once.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..base.ownership import NotCopied
from ..errors import RankError, ShapeError
from .control import Control, pack, receive, watched

Host = np.ndarray[Any, Any]
_HEADER = struct.Struct("!QI")
#: Bytes that one call of the socket receives at most.
_CHUNK = 1 << 20

_REDUCTIONS: dict[str, Callable[[Host, Host], Host]] = {
    "sum": np.add, "mean": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


def reduced(values: list[Host], op: str) -> Host:
    """Return the reduction of arrays of one dtype, in their order."""
    dtype = values[0].dtype
    wide = np.dtype(np.float32) if dtype.kind in "fV" and dtype.itemsize < 4 else dtype
    total = values[0].astype(wide)
    for other in values[1:]:
        total = _REDUCTIONS[op](total, other.astype(wide, copy=False))
    if op == "mean":
        total = total / wide.type(len(values))
    return total.astype(dtype, copy=False)


class Mesh(NotCopied):
    """The connections of this rank to all others."""

    _instead = "each process has one"

    def __init__(self, control: Control, timeout: float):
        self._control, self._rank, self._size = control, control.ranks.rank, control.ranks.world_size
        self._lock = threading.Lock()
        self._peers = self._connect(time.monotonic() + timeout)
        for connection in self._peers.values():
            connection.setblocking(False)
        control.on_finish.append(self._finish)

    def _connect(self, deadline: float) -> dict[int, socket.socket]:
        """Connect to the ranks below this one, and accept those above."""
        listener = socket.create_server((self._control.host, 0), backlog=self._size)
        own = {"host": self._control.host, "port": listener.getsockname()[1], "token": secrets.token_hex(16)}
        everyone = self._control.gather(own)
        peers = {}
        for peer in range(self._rank):
            address = everyone[peer]
            made = socket.create_connection((address["host"], address["port"]), max(deadline - time.monotonic(), 0.1))
            made.sendall(pack({"rank": self._rank, "token": address["token"]}))
            peers[peer] = watched(made)
        while len(peers) < self._size - 1:
            listener.settimeout(max(deadline - time.monotonic(), 0.1))
            made, _ = listener.accept()
            greeting = receive(made, bytearray(), time.monotonic() + 5)
            if greeting.get("token") == own["token"]:
                peers[int(greeting["rank"])] = watched(made)
            else:
                made.close()
        listener.close()
        return peers

    def _finish(self) -> None:
        """Let ranks that still wait for this one notice that nothing will come."""
        for connection in self._peers.values():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)

    # ------------------------------------------------------------ messages

    def exchange(self, text: str, sent: Mapping[int, Host], received: Mapping[int, Host]) -> None:
        """Send an array to some ranks, and receive one from some. Arrays are contiguous.

        Args:
            text: the call, with shape and dtype. It must be the same for the rank at the other end.
            sent, received: rank -> array.

        Raises:
            ShapeError: a rank at the other end makes another call.
            RankError: a rank has ended.
        """
        with self._lock, selectors.DefaultSelector() as selector:
            for peer in {*sent, *received}:
                work = _Transfer(text, peer, sent.get(peer), received.get(peer))
                if work.events:
                    selector.register(self._peers[peer], work.events, work)
            while selector.get_map():
                for key, events in selector.select(0.2):
                    self._progress(selector, key, events)
                self._control.check()

    def _progress(self, selector: Any, key: Any, events: int) -> None:
        work, connection = key.data, key.fileobj
        try:
            if events & selectors.EVENT_WRITE:
                work.send(connection)
            if events & selectors.EVENT_READ:
                work.receive(connection)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            # The server tells in a moment whether the rank has failed.
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                if self._control.failure:
                    raise RankError(self._control.notice()) from None
                time.sleep(0.05)
            raise RankError(
                f"rank {self._rank} called {work.text}, and rank {work.peer} has already ended ({error})"
            ) from None
        if not work.events:
            selector.unregister(connection)
        elif work.events != key.events:
            selector.modify(connection, work.events, work)

    # ------------------------------------------------------------ operations, on contiguous arrays

    def all_gather(self, text: str, x: Host, out: Host) -> None:
        """Write the arrays of all ranks to the rows of `out`."""
        others = [k for k in range(self._size) if k != self._rank]
        self.exchange(text, dict.fromkeys(others, x), {k: out[k] for k in others})
        out[self._rank] = x

    def reduce_scatter(self, text: str, x: Host, op: str) -> Host:
        """Return this rank's row of the reduction of all ranks' arrays `x`; `x` has a row for each rank."""
        others = [k for k in range(self._size) if k != self._rank]
        got = np.empty_like(x)
        self.exchange(text, {k: x[k] for k in others}, {k: got[k] for k in others})
        return reduced([x[k] if k == self._rank else got[k] for k in range(self._size)], op)

    def all_reduce(self, text: str, x: Host, op: str) -> Host:
        """Return the reduction of all ranks' arrays: each rank reduces a part, and sends it to all."""
        length = -(-x.size // self._size)
        padded = np.zeros((self._size, length), x.dtype)
        padded.reshape(-1)[: x.size] = x.reshape(-1)
        own = self.reduce_scatter(text, padded, op)
        self.all_gather(text, own, padded)
        return padded.reshape(-1)[: x.size].reshape(x.shape)

    def broadcast(self, text: str, x: Host, root: int) -> None:
        """Write the array of the rank `root` to `x` of the others."""
        if self._rank == root:
            self.exchange(text, {k: x for k in range(self._size) if k != root}, {})
        else:
            self.exchange(text, {}, {root: x})


class _Transfer:
    """The data to send to and receive from one rank, and the progress."""

    def __init__(self, text: str, peer: int, sent: Host | None, received: Host | None):
        self.peer, self.text = peer, text
        name = text.encode()
        self._parts: list[memoryview] = []
        if sent is not None:
            self._parts = [memoryview(_HEADER.pack(sent.nbytes, len(name)) + name), _bytes(sent)]
        self._target = None if received is None else _bytes(received)
        self._header, self._filled, self._checked = bytearray(), 0, received is None

    @property
    def events(self) -> int:
        """The selectors' events that the transfer still waits for; 0 at its end."""
        sends = selectors.EVENT_WRITE if self._parts else 0
        unfilled = self._target is not None and (not self._checked or self._filled < len(self._target))
        return sends | (selectors.EVENT_READ if unfilled else 0)

    def send(self, connection: socket.socket) -> None:
        while self._parts:
            part = self._parts[0]
            count = connection.send(part[:_CHUNK]) if len(part) else 0
            self._parts[0] = part[count:]
            if not len(self._parts[0]):
                self._parts.pop(0)

    def receive(self, connection: socket.socket) -> None:
        assert self._target is not None
        while not self._checked:
            wanted = _HEADER.size
            if len(self._header) >= wanted:
                wanted += _HEADER.unpack_from(self._header)[1]
            if len(self._header) == wanted and wanted > _HEADER.size:
                self._check(self._header)
                break
            data = connection.recv(wanted - len(self._header))
            if not data:
                raise ConnectionError("it was closed")
            self._header += data
        while self._filled < len(self._target):
            count = connection.recv_into(self._target[self._filled : self._filled + _CHUNK])
            if not count:
                raise ConnectionError("it was closed")
            self._filled += count

    def _check(self, header: bytearray) -> None:
        assert self._target is not None
        nbytes, _ = _HEADER.unpack_from(header)
        text = header[_HEADER.size :].decode(errors="replace")
        if text != self.text or nbytes != len(self._target):
            raise ShapeError(f"the ranks make different calls: rank {self.peer} {text}, this rank {self.text}")
        self._checked = True


def _bytes(array: Host) -> memoryview:
    """Return the bytes of a contiguous array."""
    flat: Any = array.reshape(-1).view(np.uint8)
    return memoryview(flat) if array.size else memoryview(bytearray())
