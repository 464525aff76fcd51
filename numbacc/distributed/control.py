"""Connections between ranks for small messages: the meeting at the start, and news of ranks that end.

Rank 0 runs a server in a thread. All ranks, including rank 0, connect to it and keep the connection until they end. So
the server notices at once when a process dies, and tells the others. Messages are JSON; nothing that arrives is run.

A connection reports the death of a process at once, and TCP's keepalive reports that of a host after seconds. Both do
not depend on the Python threads of a rank. A process that hangs is noticed by its number of calls: each rank reports
this number, and rank 0 ends the run if one rank has made fewer calls than another for too long. Calls with arrays and
calls that wait for all ranks count separately, so ranks that wait in calls of different kinds are noticed, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import selectors
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.ownership import NotCopied
from ..errors import DeviceError, RankError
from .environment import ATTEMPTS, Ranks

_LENGTH = struct.Struct("!I")
#: The most bytes of a message. Longer ones do not come from numbacc.
_MOST_BYTES = 1 << 24
#: Seconds after which a host that does not answer counts as gone.
_SILENCE = 6
#: Seconds that a rank gets to notice the exception that ends it, before its process is ended.
_GRACE = 4.0
_INSTEAD = "each process has one connection"


def pack(message: Any) -> bytes:
    """Return a message as bytes."""
    text = json.dumps(message).encode()
    return _LENGTH.pack(len(text)) + text


def unpack(received: bytearray) -> list[Any]:
    """Return the complete messages at the start of `received`, and remove them from it.

    Raises:
        ValueError: the bytes are not messages.
    """
    found = []
    while len(received) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(received)
        if length > _MOST_BYTES:
            raise ValueError(f"a message of {length} bytes")
        if len(received) < _LENGTH.size + length:
            break
        found.append(json.loads(received[_LENGTH.size : _LENGTH.size + length]))
        del received[: _LENGTH.size + length]
    return found


def watched(connection: socket.socket) -> socket.socket:
    """Make a connection report after seconds that the other host is gone, and send small messages at once."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("KEEPIDLE", 2),
        ("KEEPINTVL", 1),
        ("KEEPCNT", _SILENCE - 2),
        ("USER_TIMEOUT", 1000 * _SILENCE),
    ):
        option = getattr(socket, f"TCP_{name}", None)  # macOS lacks some of them
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
    return connection


def receive(connection: socket.socket, received: bytearray, deadline: float) -> Any:
    """Return the next message of a blocking connection, before `deadline` (of `time.monotonic`)."""
    while True:
        messages = unpack(received)
        if messages:
            if len(messages) > 1:
                raise ValueError("more messages than expected")
            return messages[0]
        connection.settimeout(max(deadline - time.monotonic(), 0.01))
        data = connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the connection was closed")
        received += data


# ---------------------------------------------------------------- the server, in rank 0


class _Client:
    """A rank, as the server sees it."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.received = bytearray()
        self.rank = -1
        #: True once the rank has said that it is done, or has reported an error.
        self.done = False
        #: The number of its last call.
        self.calls = 0
        #: The numbers of calls with arrays, and of calls of `gather`, that it has made. While another rank has made
        #: more of one kind: these numbers, and since when.
        self.made: tuple[int, ...] = (0, 0)
        self.behind: tuple[tuple[int, ...], float] | None = None


class Server(NotCopied, threading.Thread):
    """The thread of rank 0 that all ranks are connected to.

    Attributes:
        port: where it listens.
        empty: an event that is set when all ranks have ended.
    """

    _instead = _INSTEAD

    def __init__(self, ranks: Ranks):
        super().__init__(name="numbacc.distributed server", daemon=True)
        self._ranks = ranks
        self._listener = _listener(ranks)
        self.port = int(self._listener.getsockname()[1])
        self.empty = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._clients: dict[int, _Client] = {}
        #: Key -> the values of the ranks that have sent one.
        self._gathered: dict[str, dict[int, Any]] = {}
        #: Number of a call -> its text, the first rank that made it, and how many ranks did.
        self._calls: dict[int, tuple[str, int, int]] = {}
        self._failed = False
        #: Seconds for which a rank may have made fewer calls than another; None if ranks do not report their calls.
        self._limit: float | None = None

    def run(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        while not self.empty.is_set():
            for key, _ in self._selector.select(1.0 if self._limit is None else min(self._limit / 8, 1.0)):
                if key.fileobj is self._listener:
                    connection, _ = self._listener.accept()
                    self._selector.register(watched(connection), selectors.EVENT_READ, _Client(connection))
                else:
                    self._serve(key.data)
            self._check_behind()
        self._selector.close()
        self._listener.close()

    def _serve(self, client: _Client) -> None:
        try:
            data = client.connection.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self._lost(client)
            return
        client.received += data
        try:
            for message in unpack(client.received):
                self._handle(client, message)
        except (ValueError, KeyError, TypeError, IndexError):
            self._close(client)  # not one of ours

    def _handle(self, client: _Client, message: Any) -> None:
        kind = message["kind"]
        if kind == "hello":
            self._welcome(client, message)
        elif client.rank < 0:
            raise ValueError("a message before the greeting")
        elif kind == "gather":
            values = self._gathered.setdefault(message["key"], {})
            values[client.rank] = message["value"]
            if len(values) == self._ranks.world_size:
                del self._gathered[message["key"]]
                self._tell({"kind": "gathered", "key": message["key"], "values": [values[k] for k in sorted(values)]})
            else:
                self._check_pending()
        elif kind == "call":
            client.calls = message["number"]
            self._compare(client.rank, message["number"], message["text"])
            self._check_pending()
        elif kind == "made":
            client.made, self._limit = tuple(message["numbers"]), float(message["limit"])
            client.connection.sendall(pack({"kind": "heard"}))
        elif kind == "failed":
            client.done = True
            self._report(client.rank, message["text"])
        elif kind == "done":
            client.done, client.made = True, tuple(message["numbers"])
            self._check_pending()
            self._left()

    def _welcome(self, client: _Client, message: Any) -> None:
        rank, size, own = int(message["rank"]), int(message["world_size"]), self._ranks
        problem = ""
        if message["run"] != own.run:
            problem = "another run"
        elif size != own.world_size:
            problem = f"rank {rank} counts {size} ranks, and rank 0 counts {own.world_size}"
        elif rank in self._clients:
            problem = f"two processes have rank {rank}"
        elif not 0 <= rank < size:
            problem = f"rank {rank} of {size} does not exist"
        client.connection.sendall(pack({"kind": "welcome", "problem": problem}))
        if problem:
            self._close(client)
        else:
            client.rank = rank
            self._clients[rank] = client

    def _compare(self, rank: int, number: int, text: str) -> None:
        """Compare a call with the calls of the same number that other ranks have made."""
        first, who, count = self._calls.get(number, (text, rank, 0))
        if first != text:
            self._report(rank, f"call {number} differs between ranks: rank {who} called {first}, rank {rank} {text}")
            return
        if count + 1 == self._ranks.world_size:
            self._calls.pop(number, None)
        else:
            self._calls[number] = first, who, count + 1

    def _check_pending(self) -> None:
        """Report a call that waits for a rank which has ended."""
        for client in list(self._clients.values()):
            waiting = [number for number in self._calls if client.done and number > client.calls]
            if waiting:
                text, rank, _ = self._calls[min(waiting)]
                self._report(rank, f"rank {rank} called {text}, and rank {client.rank} has already ended")
            for values in self._gathered.values():
                if client.done and client.rank not in values:
                    self._report(client.rank, f"it has already ended, and rank {min(values)} waits for all ranks")

    def _check_behind(self) -> None:
        """Report a rank that has made fewer calls than another one for too long."""
        if self._limit is None or len(self._clients) < self._ranks.world_size:
            return
        most = [max(numbers) for numbers in zip(*(each.made for each in self._clients.values()), strict=True)]
        now = time.monotonic()
        for client in self._clients.values():
            lacking = [k for k, number in enumerate(client.made) if number < most[k]]
            if not lacking:
                client.behind = None
            elif client.behind is None or client.behind[0] != client.made:
                client.behind = client.made, now
            elif now - client.behind[1] > self._limit:
                why = "it hangs, waits in another call, or works alone for longer than call_timeout"
                if client.done:
                    why = "it has ended"
                client.done = True  # nobody waits for it
                first = next(each for each in self._clients.values() if each.made[lacking[0]] == most[lacking[0]])
                self._report(
                    client.rank, f"it has not made a call that rank {first.rank} made {self._limit:g} s ago: {why}"
                )
                return

    def _lost(self, client: _Client) -> None:
        if client.rank >= 0 and not client.done:
            client.done = True
            self._report(client.rank, "the process ended without a message: a signal or a crash ended it")
        self._close(client)
        self._left()

    def _report(self, rank: int, text: str) -> None:
        """Tell all ranks about the first failure."""
        if not self._failed:
            self._failed = True
            self._tell({"kind": "ended", "rank": rank, "text": text})
        self._left()

    def _tell(self, message: Any) -> None:
        data = pack(message)
        for client in list(self._clients.values()):
            with contextlib.suppress(OSError):
                client.connection.sendall(data)

    def _close(self, client: _Client) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.connection)
        client.connection.close()

    def _left(self) -> None:
        if len(self._clients) == self._ranks.world_size and all(each.done for each in self._clients.values()):
            self.empty.set()


def _listener(ranks: Ranks) -> socket.socket:
    """Return a socket that listens at the run's address, or at the next free port."""
    if ranks.file:
        host = _own_host()
        made = socket.create_server((host, 0), backlog=ranks.world_size)
        path = Path(ranks.file)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"host": host, "port": made.getsockname()[1], "run": ranks.run}))
        temporary.replace(path)
        return made
    problem: OSError | None = None
    for port in range(ranks.port, min(ranks.port + ATTEMPTS, 2**16)):
        for host in (ranks.host, ""):  # all interfaces, if the host's name is that of a router
            try:
                return socket.create_server((host, port), backlog=ranks.world_size)
            except OSError as error:
                problem = error
                if host and error.errno == errno.EADDRINUSE:
                    break
    raise DeviceError(
        f"rank 0 cannot listen at {ranks.host}, ports {ranks.port} to {ranks.port + ATTEMPTS - 1}: {problem}. Set "
        "MASTER_ADDR to this host and MASTER_PORT to a free port"
    )


def _own_host() -> str:
    """Return an address of this host that other hosts can reach; 127.0.0.1 without a network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address of documentation; a datagram socket sends nothing here
        return str(probe.getsockname()[0])
    return "127.0.0.1"


# ---------------------------------------------------------------- the connection of each rank


class Control(NotCopied):
    """A rank's connection to the server.

    Attributes:
        ranks: this process's place.
        host: the address of this process that other ranks can reach.
        failure: the text about the rank that failed first; "" while all is well.
    """

    _instead = _INSTEAD

    def __init__(self, ranks: Ranks, timeout: float):
        self.ranks, self.failure = ranks, ""
        self._server: Server | None = None
        deadline = time.monotonic() + timeout
        if ranks.rank == 0:
            self._server = Server(ranks)
            self._server.start()
        self._connection = self._connect(deadline)
        self._connection.settimeout(None)
        self.host = str(self._connection.getsockname()[0])
        self._changed = threading.Condition()
        self._sending = threading.Lock()
        self._gathers = 0
        self._answers: dict[str, list[Any]] = {}
        self._done = self._broken = False
        #: Returns the number of calls with arrays that this rank has made.
        self._made: Callable[[], int] = lambda: 0
        self._noticed = False
        #: Called after another rank has failed, in a new thread.
        self.on_failure: list[Callable[[], None]] = []
        #: Called when this rank is done.
        self.on_finish: list[Callable[[], None]] = []
        self._aborting: threading.Thread | None = None
        #: True if this process ends before a failure is known: nothing is to be aborted any more.
        self._left = False
        self._main = threading.main_thread()
        self._heard = time.monotonic()
        threading.Thread(target=self._watch, name="numbacc.distributed watch", daemon=True).start()

    # ------------------------------------------------------------ the start

    def _connect(self, deadline: float) -> socket.socket:
        """Connect to the server, which may not have started yet."""
        problem: object = "nothing listens there"
        while True:
            for host, port in self._addresses():
                try:
                    connection = socket.create_connection((host, port), max(deadline - time.monotonic(), 0.1))
                except OSError as error:
                    problem = error
                    continue
                try:
                    return self._greet(connection, deadline)
                except (OSError, ValueError, KeyError, TypeError) as error:
                    connection.close()
                    problem = error
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        own = self.ranks
        where = own.file or f"{own.host}:{own.port}"
        raise DeviceError(
            f"rank {own.rank} of {own.world_size} did not find rank 0 at {where}: {problem}. Start all ranks, and set "
            "MASTER_ADDR and MASTER_PORT to the same values for all"
        )

    def _addresses(self) -> list[tuple[str, int]]:
        own = self.ranks
        if self._server is not None:
            return [(own.host or _own_host(), self._server.port)]
        if not own.file:
            return [(own.host, port) for port in range(own.port, min(own.port + ATTEMPTS, 2**16))]
        try:
            found = json.loads(Path(own.file).read_text())
        except (OSError, ValueError):
            return []
        # A file of an earlier run may still be there.
        return [(found["host"], found["port"])] if found.get("run") == own.run else []

    def _greet(self, connection: socket.socket, deadline: float) -> socket.socket:
        own = self.ranks
        watched(connection)
        connection.sendall(pack({"kind": "hello", "rank": own.rank, "world_size": own.world_size, "run": own.run}))
        # Another program that listens at one of the ports may never answer.
        answer = receive(connection, bytearray(), min(deadline, time.monotonic() + 2))
        if answer["kind"] != "welcome" or answer["problem"] == "another run":
            raise ValueError("another program listens there")
        if answer["problem"]:
            connection.close()
            raise DeviceError(f"the ranks do not fit together: {answer['problem']}")
        return connection

    # ------------------------------------------------------------ messages

    def watch_calls(self, made: Callable[[], int], limit: float) -> None:
        """Report the number of calls again and again, so that a rank is noticed that hangs.

        Args:
            made: returns the number. It must not wait for anything.
            limit: seconds for which a rank may have made fewer calls than another, and rank 0 may not answer.
        """

        self._made = made

        def report() -> None:
            self._heard = time.monotonic()
            while not (self._done or self.failure):
                self.send(kind="made", numbers=self._numbers(), limit=limit)
                time.sleep(min(limit / 8, 10.0))
                if time.monotonic() - self._heard > limit:
                    self._ended(0, f"it has not answered for {limit:g} s: it hangs")

        threading.Thread(target=report, name="numbacc.distributed calls", daemon=True).start()

    def _numbers(self) -> tuple[int, int]:
        """Return the numbers of calls with arrays, and of `gather`, that this rank has made."""
        return self._made(), self._gathers

    def send(self, **message: Any) -> None:
        """Send a message to the server. A broken connection is noticed by the watching thread."""
        with contextlib.suppress(OSError), self._sending:
            self._connection.sendall(pack(message))

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in their order. All ranks call this equally often. This blocks.

        Raises:
            RankError: another rank has ended.
        """
        self._gathers += 1
        key = str(self._gathers)
        self.send(kind="gather", key=key, value=value)
        with self._changed:
            while key not in self._answers:
                self.check()
                # A timeout lets Ctrl-C through.
                self._changed.wait(0.5)
            return self._answers.pop(key)

    def check(self) -> None:
        """Raise RankError if a rank has failed."""
        if self.failure:
            raise RankError(self.notice())

    def fail(self, text: str) -> None:
        """Report an error of this rank to the others."""
        if not self._done:
            self._done = self._broken = True
            self.send(kind="failed", text=text)

    def finish(self) -> None:
        """Report that this rank is done. Rank 0 waits for the others, because they are connected to it."""
        with self._changed:
            self._left = not self.failure
        if not self._done:
            self._done = True
            self.send(kind="done", numbers=self._numbers())
            for function in self.on_finish:
                function()
        last = None
        while self._server is not None and not self._server.empty.wait(0.2):
            if last is None and (self._broken or self.failure):
                last = time.monotonic() + _GRACE + 2  # all will have heard of it
            if last is not None and time.monotonic() > last:
                break
        if not self._left:
            self._wait_for_abort()

    def _wait_for_abort(self) -> None:
        """Wait until libraries have ended their work, which must not go on while the interpreter ends."""
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline and (self._aborting is None or self._aborting.is_alive()):
            time.sleep(0.02)
        if self._aborting is not None and self._aborting.is_alive():
            # NCCL waits for the end of graphs, which the interpreter keeps until its own end.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)

    def forget(self) -> None:
        """Close the connection in a forked child, so that the death of its parent is noticed."""
        self._done, self._server = True, None
        self._connection.close()

    def _watch(self) -> None:
        received = bytearray()
        while True:
            try:
                data = self._connection.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                self._ended(0, "the process ended without a message: a signal or a crash ended it")
                return
            received += data
            try:
                messages = unpack(received)
            except ValueError:
                messages = []
            for message in messages:
                if message["kind"] == "gathered":
                    with self._changed:
                        self._answers[message["key"]] = message["values"]
                        self._changed.notify_all()
                elif message["kind"] == "heard":
                    self._heard = time.monotonic()
                elif message["kind"] == "ended":
                    self._ended(message["rank"], message["text"])

    def _ended(self, rank: int, text: str) -> None:
        """End this rank, because another one has failed."""
        if self._done or self.failure:
            return
        own = self.ranks
        self.failure = f"rank {rank} of {own.world_size} has failed, so rank {own.rank} ends.\n{text}".rstrip()
        with self._changed:
            self._changed.notify_all()
        time.sleep(0.2)  # calls that look for a failure raise it in their own words
        with self._changed:
            if self._left:
                return
            if not self._noticed:
                _interrupt(self._main)
            # After the interruption: a call that waits for a GPU then raises RankError as soon as its wait ends. In
            # another thread, since a library's call may hang.
            self._aborting = threading.Thread(target=self._abort, daemon=True)
            self._aborting.start()
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            time.sleep(0.1)
            if self._noticed or self._done or not self._main.is_alive():
                return
        print(f"numbacc.distributed: {self.failure}", file=sys.stderr, flush=True)
        os._exit(1)

    def _abort(self) -> None:
        for function in self.on_failure:
            with contextlib.suppress(Exception):
                function()

    def notice(self) -> str:
        """Return the failure's text, and remember that the program has been told."""
        self._noticed = True
        return self.failure


def _interrupt(thread: threading.Thread) -> None:
    """Raise RankError in a thread as soon as it runs Python code."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(RankError))
