"""Plans of cuDNN for a GPU that this machine lacks, made in a separate process.

A process that has loaded the stand-in for the driver cannot use a GPU, and cuDNN crashes on some graphs. So a worker
process makes the plans. It starts at the first question, answers one question after the other, and ends with the
process that asks. Each compute capability has a separate worker, since cuDNN 9.28 remembers facts about kernels that
are compiled at run time from the first GPU it was asked about: after a question about 7.5, it rejects float32 on tensor
cores for all GPUs. Questions and answers are pickles, each preceded by its length, on the worker's standard input and
output.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from numbacc_bindings.cudnn import CudnnError

from ..base.ownership import NotCopied
from ..errors import UnsupportedError
from . import stand_in
from .cudnn_descriptors import Site
from .cudnn_devices import Gpu
from .cudnn_graph import CudnnGraph, Wants
from .cudnn_plans import Rejected
from .cudnn_search import kept_to, none_left, refuse, search

_LENGTH_BYTES = 8
#: The most characters of the worker's standard error that an error message shows.
_LOG = 2000
#: The most workers; each takes 200 MB. The least recently used one ends to make room for another.
_WORKERS = 4


class Support(NamedTuple):
    """The answer whether cuDNN builds a plan on a GPU: true or false, with the plan or the reason.

    Attributes:
        device: the GPU's name, as its driver reports it.
        engine: the plan's engine and its knobs, "" without a plan.
        workspace_bytes: scratch memory that the plan needs.
        deterministic: whether the same inputs give the same bits.
        compiled: whether its kernel was compiled when the plan was built, which takes a second or more.
        tried: how many configurations were checked.
        rejected: the configurations that were rejected, as pairs of an engine's number (None for a heuristic) and the
            reason.
        reason: why cuDNN cannot build a plan; "" if it can.
        then: the part of a convolution's epilogue that the plan leaves to numbacc's kernel after it, "" for none.

    Example:
        >>> found = numbacc.cudnn.Support("Tesla T4", reason="bfloat16 needs compute capability 8.0")
        >>> bool(found), found
        (False, <no plan: bfloat16 needs compute capability 8.0>)
    """

    device: str
    engine: str = ""
    workspace_bytes: int = 0
    deterministic: bool = False
    compiled: bool = False
    tried: int = 0
    rejected: tuple[Rejected, ...] = ()
    reason: str = ""
    then: str = ""

    def __bool__(self) -> bool:
        return bool(self.engine)

    def __repr__(self) -> str:
        if not self:
            return f"<no plan: {self.reason}>"
        varies = "" if self.deterministic else ", not deterministic"
        behind = f"; then a kernel: {self.then}" if self.then else ""
        return f"<a plan on {self.device}: {self.engine}; {self.workspace_bytes} bytes of workspace{varies}{behind}>"


def ask(graph: CudnnGraph, gpu: Gpu, wants: Wants) -> Support:
    """Ask cuDNN for a plan of a graph on a GPU that this machine may lack.

    The first question for a compute capability takes a second.

    Raises:
        UnsupportedError: this is not Linux, the only system where cuDNN plans without a GPU; or there is neither a
            driver nor a C compiler.
        CudnnError: cuDNN is missing or too old, or it has crashed.
    """
    if sys.platform != "linux":
        raise UnsupportedError("cuDNN can plan for a GPU that this machine lacks only on Linux")
    found = _desk.ask(gpu.capability, (graph, gpu, wants))
    if isinstance(found, Exception):
        raise found
    assert isinstance(found, Support)
    return found


# ---------------------------------------------------------------- in the process that asks


class _Worker(NotCopied):
    """The process that makes plans."""

    def __init__(self) -> None:
        # The worker imports from the same paths as this process, but does not run the user's program.
        path = [each for each in sys.path if isinstance(each, str)]
        program = f"import sys; sys.path[:] = {path!r}; from {__name__} import serve; serve()"
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            # Unbuffered, so that the child of a fork has nothing left to write.
            self._process = subprocess.Popen(
                [sys.executable or "", "-c", program], bufsize=0, stdin=-1, stdout=-1, stderr=self._log
            )
        except OSError as error:
            self._log.close()
            raise UnsupportedError(
                f"planning without a GPU starts a process, but {sys.executable!r} did not start: {error}"
            ) from None

    def ask(self, question: bytes) -> Any:
        """Return the answer to a question, both pickled.

        Raises:
            CudnnError: the worker crashed on the question.
        """
        try:
            _write(self._process.stdin, question)
            answer = _read(self._process.stdout)
        except BrokenPipeError:
            answer = None
        if answer is None:
            raise CudnnError(self._last_words())
        return pickle.loads(answer)

    def _last_words(self) -> str:
        status = self._process.wait()
        how = f"status {status}"
        if status < 0:
            how = f"signal {-status} ({signal.Signals(-status).name})" if -status in {*signal.Signals} else how
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - _LOG))
        said = self._log.read().decode(errors="replace").strip()
        return f"the process that made cuDNN's plans ended with {how}" + (f": {said}" if said else "")

    def end(self) -> None:
        """Stop the worker now."""
        self._process.kill()
        self._process.wait()
        self._close()

    def leave(self) -> None:
        """Close the pipes in the child of a fork: the worker belongs to the parent, and must notice when that ends."""
        self._process.returncode = 0  # this process must not wait for it
        self._close()

    def _close(self) -> None:
        for each in (self._process.stdin, self._process.stdout, self._log):
            if each is not None:
                each.close()


class _Desk(NotCopied):
    """Sends the questions of all threads to workers, one after the other, and starts workers as needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: Subject of the questions -> its worker, the most recently used last.
        self._workers: OrderedDict[Hashable, _Worker] = OrderedDict()

    def ask(self, subject: Hashable, question: Any) -> Any:
        """Return the answer of the worker that only answers questions about this subject."""
        data = pickle.dumps(question)
        with self._lock:
            if subject not in self._workers:
                while len(self._workers) >= _WORKERS:
                    self._workers.popitem(last=False)[1].end()
                self._workers[subject] = _Worker()
            self._workers.move_to_end(subject)
            try:
                return self._workers[subject].ask(data)
            except BaseException:
                # The worker has ended, or an interrupt came: a late answer would be mistaken for that to the next.
                self._workers.pop(subject).end()
                raise

    def end(self) -> None:
        """Stop the workers, even if they are busy."""
        while self._workers:
            self._workers.popitem()[1].end()

    def finish(self) -> None:
        """Stop the workers at the interpreter's end, unless a daemon thread is still asking one."""
        if self._lock.acquire(blocking=False):
            self.end()

    def forked(self) -> None:
        """Start without workers and with a free lock in the child of a fork."""
        workers = list(self._workers.values())
        self.__init__()  # type: ignore[misc]
        for worker in workers:
            worker.leave()


_desk = _Desk()
atexit.register(_desk.finish)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_desk.forked)


def _write(pipe: Any, data: bytes) -> None:
    rest = memoryview(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    while rest:
        rest = rest[pipe.write(rest) :]


def _read(pipe: Any) -> bytes | None:
    """Return the next pickle; None if the other end was closed."""
    head = _read_bytes(pipe, _LENGTH_BYTES)
    return None if head is None else _read_bytes(pipe, int.from_bytes(head, "little"))


def _read_bytes(pipe: Any, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        more = pipe.read(count - len(found))
        if not more:
            return None
        found += more
    return found


# ---------------------------------------------------------------- in the worker


def serve() -> None:
    """Answer questions until the input ends."""
    # Ctrl-C is for the process that asks, which ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    questions, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb", 0)
    # Text that the library prints must not get between the answers.
    os.dup2(2, 1)
    while (question := _read(questions)) is not None:
        _write(answers, pickle.dumps(_answer(*pickle.loads(question))))
    # The library's own shutdown could crash, since the stand-in is incomplete.
    os._exit(0)


def _answer(graph: CudnnGraph, gpu: Gpu, wants: Wants) -> Support | Exception:
    try:
        stand_in.load()
        site = Site(None, gpu)
    except (CudnnError, UnsupportedError) as error:
        return error
    return _support(graph, gpu, wants, site)


def _support(graph: CudnnGraph, gpu: Gpu, wants: Wants, site: Site) -> Support:
    rejected: list[Rejected] = []
    try:
        refuse(graph, gpu.capability)
        found = next(search(graph, site, kept_to(graph, wants), rejected), None)
    except (CudnnError, UnsupportedError) as error:
        return Support(gpu.name, reason=str(error))
    tried = sum(each.engine is not None for each in rejected)
    if found is None:
        reason = none_left(graph, gpu.name, gpu.capability, rejected)
        return Support(gpu.name, tried=tried, rejected=tuple(rejected), reason=reason)
    configuration, built = found
    return Support(
        gpu.name,
        str(configuration),
        built.workspace_bytes,
        configuration.deterministic,
        configuration.compiled_late,
        tried + 1,
        tuple(rejected),
    )
