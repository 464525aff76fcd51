"""The process in which cuDNN makes plans: it crashes, is interrupted, shared by threads, forked, and ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from c_libraries import compile_library, needs_compiler
from cudnn_cases import CASES, Request, convolution, need_planning
from paths import ROOT
from skips import skip, skip_if
from threads import run_threads

import numbacc
from numbacc import attention, cudnn
from numbacc.base.dispatch import simulated
from numbacc.libraries import cudnn_elsewhere, stand_in
from numbacc.libraries.cudnn_devices import gpu_named
from numbacc.libraries.cudnn_graph import Wants
from numbacc_bindings.cudnn import CudnnError

GRAPH = CASES["forward-float16"]
#: What `GRAPH` is asked for, unless another GPU is named.
SUBJECT = gpu_named("H200").capability


@pytest.fixture
def desk():
    """Where questions are taken; its workers are gone at the end."""
    if simulated():
        skip("not simulated")
    need_planning()
    desk = cudnn_elsewhere._desk
    yield desk
    desk.end()


def pid_of(desk, subject=SUBJECT):
    return desk._workers[subject]._process.pid


def ended(pid):
    """Whether a process is gone, or nothing but its status is left."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_for_end(pid):
    deadline = time.monotonic() + 60
    while not ended(pid):
        assert time.monotonic() < deadline, "the worker lives on"
        time.sleep(0.02)


class Deadly:
    """What ends the process that reads it."""

    def __reduce__(self):
        return signal.raise_signal, (signal.SIGTERM,)


class Nonsense:
    """What no worker understands."""

    def __reduce__(self):
        return str, ("nonsense",)


def test_crashes(desk):
    """After a worker has ended in any way, the next question starts another."""
    before = cudnn.supports(GRAPH)
    pid = pid_of(desk)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)
    with pytest.raises(CudnnError, match="SIGKILL"):
        cudnn.supports(GRAPH)
    with pytest.raises(CudnnError, match=r"ended with signal 15 \(SIGTERM\)$"):
        desk.ask(SUBJECT, Deadly())
    with pytest.raises(CudnnError, match=r"ended with status 1: Traceback(.|\n)*TypeError"):
        desk.ask(SUBJECT, Nonsense())
    assert cudnn.supports(GRAPH) == before


def test_interrupts(desk, monkeypatch):
    """The answer to a question that nobody waits for is not taken for the next one's."""
    first = cudnn.supports(GRAPH)
    pid = pid_of(desk)
    os.kill(pid, signal.SIGINT)  # as Ctrl-C does with a program and all that it has started
    assert cudnn.supports(GRAPH) == first and pid_of(desk) == pid
    with monkeypatch.context() as patch:
        patch.setattr(cudnn_elsewhere, "_read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cudnn.supports(CASES["forward-float64"])
    assert ended(pid) and not desk._workers
    assert cudnn.supports(GRAPH) == first


def interrupted(pipe):
    raise KeyboardInterrupt


# ---------------------------------------------------------------- a worker for each compute capability


@pytest.mark.slow
def test_answers_do_not_depend_on_what_was_asked_first(desk):
    """What a process has looked at for one GPU decides what it takes for others."""
    narrow = convolution("bfloat16", pixels=(8, 8, 8), epilogue=("bias", "SWISH_FWD"))
    wide = Request((convolution("float32", epilogue=("bias", "GELU_FWD")),), Wants(inputs="tf32"))
    asked = Request((CASES["backward_data-float32"],), Wants(inputs="tf32"))
    devices = ("A100", "H200", "B200")
    first = [cudnn.supports(asked, device) for device in devices]
    assert all(first)
    for other in (narrow, wide):
        desk.end()
        cudnn.supports(other, "T4")
        assert [cudnn.supports(asked, device) for device in devices] == first


def test_each_compute_capability_has_its_worker_and_few_are_kept(desk):
    desk.end()
    first = cudnn.supports(GRAPH, "A10")
    pid = pid_of(desk, (8, 6))
    assert cudnn.supports(GRAPH, "RTX3090") and pid_of(desk, (8, 6)) == pid and len(desk._workers) == 1
    for device in ("T4", "A100", "L4", "RTX5090"):
        assert cudnn.supports(GRAPH, device)
        assert cudnn.supports(GRAPH, "A10") == first and pid_of(desk, (8, 6)) == pid
        assert len(desk._workers) <= cudnn_elsewhere._WORKERS
    kept = [pid_of(desk, subject) for subject in desk._workers]
    assert len(kept) == cudnn_elsewhere._WORKERS == len({*kept})
    assert [*desk._workers][-1] == (8, 6) and (12, 0) in desk._workers and (7, 5) not in desk._workers
    # One that ends takes no other with it.
    with pytest.raises(CudnnError, match="SIGTERM"):
        desk.ask((8, 6), Deadly())
    assert (8, 6) not in desk._workers and [pid_of(desk, subject) for subject in desk._workers] == kept[:-1]
    assert not any(map(ended, kept[:-1])) and cudnn.supports(GRAPH, "A10") == first
    desk.end()
    assert all(map(ended, kept)) and not desk._workers


def test_threads_are_served_one_after_the_other(desk):
    names = [name for name in CASES if name.startswith("backward")][:8]
    found = {}

    def work(k):
        for name in (names[k], names[0]):
            found[k, name] = cudnn.supports(CASES[name])

    run_threads(work)
    assert len(found) == 15
    for (_, name), each in found.items():
        assert each == cudnn.supports(CASES[name])


PROGRAM = """
import os, sys
sys.path[:0] = {path!r}
import threading
from numbacc import cudnn
from numbacc.libraries import cudnn_elsewhere
from numbacc.libraries.cudnn_graph import Drawing, Spatial

draw = Drawing("float64")
x, w = draw.tensor("float64", (1, 8, 9, 9)), draw.tensor("float64", (8, 8, 1, 1))
once = Spatial((1, 1), (1, 1), (0, 0), (0, 0))
draw.convolve("forward", x, w, once, draw.tensor("float64", (1, 8, 9, 9)))
graph = draw.graph()

def forever():
    while True:
        cudnn.supports(graph)

if __name__ == "__main__":
    assert cudnn.supports(graph)
    assert cudnn.supports(graph, "A100")
    print(*(each._process.pid for each in cudnn_elsewhere._desk._workers.values()), flush=True)
    {ending}
"""
FORK = """
    desk = cudnn_elsewhere._desk
    workers, first = [each._process.pid for each in desk._workers.values()], cudnn.supports(graph)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(1), os.close(2)
        good = not desk._workers and cudnn.supports(graph) == first
        (own,) = [each._process.pid for each in desk._workers.values()]
        os.write(writing, b"good" if good and own not in workers else b"bad")
        threading.Event().wait()
    assert os.read(reading, 4) == b"good" and cudnn.supports(graph) == first
    print(child, flush=True)
"""
#: How programs end -> their last lines, and their status.
ENDINGS = {
    "at its end": ("", 0),
    "killed": ("os.kill(os.getpid(), 9)", -9),
    "in the midst of a question": ("threading.Thread(target=forever, daemon=True).start()", 0),
    "before a forked child": (FORK.strip(), 0),
}


def test_it_ends_with_the_process_that_asks(desk, tmp_path):
    """From a source tree that no variable names, with a library that prints to the output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"CUDNN_LOGLEVEL_DBG": "3", "CUDNN_LOGDEST_DBG": "stdout", "PYTHONWARNINGS": "error"}
    path = [str(ROOT), str(ROOT / "bindings")]
    running = {}
    for name, (ending, status) in ENDINGS.items():
        program = tmp_path / f"{name.replace(' ', '_')}.py"
        program.write_text(PROGRAM.format(path=path, ending=ending))
        running[name] = (
            status,
            subprocess.Popen(
                [sys.executable, program], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            ),
        )
    for name, (status, process) in running.items():
        said, errors = process.communicate(timeout=120)
        assert process.returncode == status, (name, errors.decode())
        assert not errors, (name, errors.decode())
        first, other, *children = map(int, said.split())
        wait_for_end(first)
        wait_for_end(other)
        for child in children:
            assert not ended(child)
            os.kill(child, signal.SIGKILL)


def test_no_python_to_start(desk, monkeypatch):
    desk.end()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(numbacc.UnsupportedError, match="'/nowhere/python'"):
        cudnn.supports(GRAPH)
    assert not desk._workers


# ---------------------------------------------------------------- the stand-in for the driver


@skip_if(sys.platform != "linux", "linux")
def test_the_stand_in_is_compiled_once(monkeypatch, tmp_path):
    if not any(map(stand_in.shutil.which, ("cc", "gcc", "clang"))):
        skip("compiler")
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "kept"))
    made = stand_in._built()
    assert made.parent == tmp_path / "kept" and made.stat().st_size > 0
    assert [each.name for each in made.parent.iterdir()] == [made.name]
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CC", "nothing")
    assert stand_in._built() == made
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "other"))
    words = r"needs a C compiler, to build a stand-in for NVIDIA's driver, or the driver itself \(libcuda.so.1\)"
    with pytest.raises(numbacc.UnsupportedError, match=words):
        stand_in._built()


@skip_if(sys.platform != "linux", "linux")
def test_a_compiler_that_fails(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(stand_in, "source", lambda: "no C at all")
    if not any(map(stand_in.shutil.which, ("cc", "gcc", "clang"))):
        skip("compiler")
    with pytest.raises(numbacc.UnsupportedError, match="could not build a stand-in"):
        stand_in._built()
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_a_driver_that_rejects_other_gpus_kernels_is_not_asked(desk, monkeypatch, tmp_path):
    """The driver of a newer GPU finds no image (error 209) in a kernel that was compiled for an A100."""
    library = "int cuLibraryLoadData(void **made) { *made = 0; return 209; }"
    others = [line for line in stand_in.source().splitlines() if "cuLibraryLoadData" not in line]
    compile_library("\n".join([library, *others]), tmp_path / "libcuda.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path), prepend=os.pathsep)
    (graph,) = attention.forward.request((2, 4, 128, 64), (2, 4, 128, 64), dtype="float16").graphs()
    desk.end()
    found = cudnn.supports(graph, "A100")
    assert found and found.compiled, found
    desk.end()
    with monkeypatch.context() as patch:  # without a compiler the driver is asked, and rejects
        patch.setenv("PATH", "")
        patch.setenv("CC", "nothing")
        patch.setenv("NUMBACC_CACHE_DIR", str(tmp_path / "empty"))
        assert not cudnn.supports(graph, "A100")
