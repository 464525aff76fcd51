"""Start the processes of a program on this host, forward their output, and end all of them when one fails."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import BinaryIO

from ..base import checks
from ..base.dispatch import has_gpu, runtime, simulated
from ..errors import OptionError

#: Seconds that the other processes get to end by themselves when one has failed, and after SIGTERM.
_GRACE, _LAST = 6.0, 2.0
#: Bytes of a process's error output that are kept for the report.
_KEPT = 16384


class _Process:
    """A process of the program, and threads that pass on its output."""

    def __init__(self, rank: int, command: Sequence[str], environment: dict[str, str]):
        self.rank, self.errors = rank, b""
        self.ended_at: float | None = None
        self.was_stopped = False
        self.popen = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        prefix = b"" if rank == 0 else f"[rank {rank}] ".encode()
        assert self.popen.stdout is not None and self.popen.stderr is not None
        self._threads = [
            threading.Thread(target=self._pass_on, args=(source, target, prefix, kept), daemon=True)
            for source, target, kept in (
                (self.popen.stdout, sys.stdout, False), (self.popen.stderr, sys.stderr, True)
            )
        ]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def _pass_on(self, source: BinaryIO, target: object, prefix: bytes, kept: bool) -> None:
        """Write the process's output by lines. Lines of ranks other than 0 begin with the rank.

        A line of rank 0 that does not end, such as a progress bar or a question, is written after a moment.
        """
        rest = b""
        while True:
            # Windows has no select for pipes.
            if rest and not prefix and os.name != "nt" and not select.select([source], [], [], 0.2)[0]:
                _write(target, rest)
                rest = b""
            data = os.read(source.fileno(), 65536)
            if not data:
                break
            if kept:
                self.errors = (self.errors + data)[-_KEPT:]
            *lines, rest = (rest + data).split(b"\n")
            if lines:
                _write(target, b"".join(prefix + line + b"\n" for line in lines))
        if rest:
            _write(target, prefix + rest + (b"\n" if prefix else b""))

    def has_ended(self) -> bool:
        """Return whether the process has ended; the first call that finds it notes the time."""
        if self.ended_at is None and self.popen.poll() is not None:
            self.ended_at = time.monotonic()
        return self.ended_at is not None

    def stop(self, number: int) -> None:
        if not self.has_ended():
            self.was_stopped = True
            with contextlib.suppress(ProcessLookupError):
                self.popen.send_signal(number)

    def drain(self) -> None:
        """Wait until all output is passed on. A grandchild may keep it open."""
        for thread in self._threads:
            thread.join(1.0)


_writing = threading.Lock()


def _write(target: object, data: bytes) -> None:
    with _writing, contextlib.suppress(OSError, ValueError):
        buffer = getattr(target, "buffer", None)
        if buffer is None:  # a notebook's stream takes text only
            target.write(data.decode(errors="replace"))  # type: ignore[attr-defined]
        else:
            buffer.write(data)
        target.flush()  # type: ignore[attr-defined]


def _gpus() -> int:
    return 0 if simulated() or not has_gpu() else int(runtime().device_count())


def launch(
    command: Sequence[str],
    processes: int | None = None,
    *,
    hosts: int = 1,
    host_rank: int = 0,
    address: str | None = None,
) -> int:
    """Start a program in several processes on this host, and wait for them.

    Each process gets the environment variables of torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR
    and MASTER_PORT. If the host has enough GPUs, each process sees one of them. If a process fails, the others are
    ended within 10 seconds, and the report names the first one.

    Args:
        command: the program and its arguments, as for `subprocess`: `[sys.executable, "train.py"]`.
        processes: the number of processes on this host; by default one for each GPU, or one without a GPU.
        hosts: the number of hosts. Start the launcher on each of them.
        host_rank: the number of this host, from 0.
        address: "host:port" of the first host; needed for several hosts.

    Returns:
        the exit status: 0, or that of the process that failed first.

    Raises:
        OptionError: a number is out of range, or the address is missing for several hosts.

    Example:
        >>> import sys
        >>> numbacc.distributed.launch([sys.executable, "-c", "import os; assert os.environ['WORLD_SIZE'] == '2'"], 2)
        0
    """
    gpus = _gpus()
    count = max(gpus, 1) if processes is None else checks.integer(processes, "processes", 1, 4096)
    checks.integer(hosts, "hosts", 1, 2**20)
    checks.integer(host_rank, "host_rank", 0, hosts - 1)
    if hosts > 1 and address is None:
        raise OptionError('several hosts need the address of the first one: address="host:port"')
    host, _, port = (address or f"127.0.0.1:{_free_port()}").rpartition(":")
    if not host or not port.isdecimal():
        raise OptionError(f'address={address!r} must be "host:port", as "10.0.0.1:29500"')
    shared = {
        "WORLD_SIZE": str(hosts * count),
        "LOCAL_WORLD_SIZE": str(count),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
    }
    # The launchers of several hosts share no random text; the address identifies the run.
    shared["NUMBACC_RUN_ID"] = secrets.token_hex(8) if hosts == 1 else f"{host}:{port}"
    shared.setdefault("PYTHONUNBUFFERED", "1")
    visible = _visible(gpus)
    running: list[_Process] = []
    try:
        for local in range(count):
            own = {**os.environ, **shared, "RANK": str(host_rank * count + local), "LOCAL_RANK": str(local)}
            if 1 < count <= gpus:
                own["CUDA_VISIBLE_DEVICES"] = visible[local]
            running.append(_Process(host_rank * count + local, command, own))
        return _wait(running)
    finally:
        _end(running)


def _visible(gpus: int) -> list[str]:
    """Return the names of the GPUs, for CUDA_VISIBLE_DEVICES."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return [each.strip() for each in named.split(",")] if named else [str(k) for k in range(gpus)]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _have_ended(running: list[_Process]) -> bool:
    # A list: each of them is asked.
    return all([each.has_ended() for each in running])  # noqa: C419


def _wait(running: list[_Process]) -> int:
    """Wait for the processes, or until one fails; return its status after a report."""
    while not _have_ended(running):
        if any(each.ended_at is not None and each.popen.returncode for each in running):
            _end_together(running)
            break
        time.sleep(0.05)
    failed = [each for each in running if each.popen.returncode]
    if not failed:
        return 0
    for each in running:
        each.drain()
    # Those that end because another one failed say so; those that were stopped here did nothing wrong.
    causes = [each for each in failed if not each.was_stopped and b"RankError" not in each.errors] or failed
    first = min(causes, key=lambda each: each.ended_at or 0.0)
    _report(first, len(running))
    status = first.popen.returncode
    return status if status > 0 else 128 - status


def _report(failed: _Process, count: int) -> None:
    status = failed.popen.returncode
    how = f"ended with status {status}" if status > 0 else f"was ended by {signal.Signals(-status).name}"
    text = failed.errors.decode(errors="replace").rstrip()
    _, found, trace = text.rpartition("Traceback (most recent call last):")
    lines = [f"\nnumbacc launch: rank {failed.rank} of {count} {how} first; all others were ended."]
    if text and failed.rank:  # rank 0's own words stand above
        lines += ["Its last words:", found + trace if found else text[-2000:]]
    _write(sys.stderr, ("\n".join(lines) + "\n").encode())


def _end_together(running: list[_Process]) -> None:
    """Give the processes time to end by themselves, which they do if they use `numbacc.distributed`."""
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline and not _have_ended(running):
        time.sleep(0.05)
    _end(running)


def _end(running: list[_Process]) -> None:
    """End the processes that still run."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for each in running:
            each.stop(number)
        deadline = time.monotonic() + _LAST
        while time.monotonic() < deadline and not _have_ended(running):
            time.sleep(0.02)


USAGE = """usage: numbacc launch [--gpus N | --processes N] [--hosts H --host-rank K --address HOST:PORT] script.py ...
       numbacc launch [options] -m module ...

  --gpus, --processes   processes on this host; by default one for each GPU
  --hosts               hosts, of which each runs this command with its own number --host-rank, from 0
  --address             where the first host can be reached, and a free port there

script.py calls numbacc.distributed.init() to find the other processes.
"""


#: Signals of job managers and closed terminals, which end the launcher and its processes.
_STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _stop(number: int, _: object) -> None:
    # Once: a second signal must not interrupt the end of the processes.
    for each in _STOPS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(arguments: Sequence[str]) -> int:
    """Run the command `numbacc launch`, and return its exit status."""
    options: dict[str, str] = {}
    rest = list(arguments)
    names = {"--gpus": "processes", "--processes": "processes", "--hosts": "hosts", "--host-rank": "host_rank"}
    names["--address"] = "address"
    while rest and rest[0].startswith("--"):
        name, equals, value = rest.pop(0).partition("=")
        if name not in names or (not equals and not rest):
            print(USAGE, end="")
            return 0 if name == "--help" else 2
        options[names[name]] = value if equals else rest.pop(0)
    if not rest or rest[0] == "-h":
        print(USAGE, end="")
        return 0 if rest else 2
    if any(not value.isdecimal() for name, value in options.items() if name != "address"):
        print("numbacc launch: processes, hosts and the host's rank are whole numbers")
        return 2
    numbers = {name: int(value) for name, value in options.items() if name != "address"}
    for number in _STOPS:
        signal.signal(number, _stop)
    try:
        return launch([sys.executable, *rest], address=options.get("address"), **numbers)
    except KeyboardInterrupt:
        return 130
