"""Run by test_cudnn.py with a stub for the driver: why cuDNN rejects an engine."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading

import pytest
import stubbed
from cudnn_graphs import Made, rejected, unread_failure
from threads import run_threads

from numbacc_bindings import cudnn as binding
from numbacc_bindings.cudnn import DataType, cudnn, reasons

stubbed.needed()


@pytest.fixture
def refusal(made):
    """Ask for an engine that a GPU of compute capability 7.5 has not."""
    device, graph = made.device(deviceVer=750), made.graph(DataType.BFLOAT16)
    return lambda: rejected(made, device, graph)


def test_reasons(refusal):
    with reasons() as outer:
        refusal()
        assert "bfloat16" in outer[0]
        assert len(set(outer)) == len(outer)
        assert not [reason for reason in outer if reason.endswith("()") or "\n" in reason]
        before = list(outer)
        with reasons() as inner:
            refusal()
        assert inner == before == outer
        outer.clear()
        refusal()
        assert outer == before
    refusal()
    assert outer == before


def test_nothing_is_rejected(made):
    with reasons() as found:
        device, graph = made.device(), made.graph()
        made.plan(made.configurations(graph, device)[0], device)
    assert found == []


def test_reasons_are_each_threads_own():
    def work(k):
        made = Made()
        device, graph = made.device(deviceVer=750), made.graph(DataType.BFLOAT16)
        start.wait()
        for _ in range(30):
            if k % 2:
                with reasons() as found:
                    rejected(made, device, graph)
                assert "bfloat16" in found[0]
            else:
                with reasons() as found:
                    made.tensor(1, [1, 1, 1, 1])
                assert found == []
                rejected(made, device, graph)
        made.destroy()

    start = threading.Barrier(8)
    run_threads(work)


def test_nothing_is_printed(refusal, capfd):
    with reasons():
        refusal()
        unread_failure()
    refusal()
    unread_failure()
    assert capfd.readouterr() == ("", "")


def listener():
    """The address of what cuDNN calls."""
    mask, data, found = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p()
    cudnn.cudnnGetCallback(ctypes.byref(mask), ctypes.byref(data), ctypes.byref(found))
    return found.value


def test_python_listens_no_longer_than_somebody_wants_to_know():
    with reasons():
        ours = listener()
        with reasons():
            assert listener() == ours
        assert listener() == ours
    nothing = listener()
    assert nothing not in (ours, None)
    with reasons():
        assert listener() == ours
    assert listener() == nothing


def test_what_is_a_reason():
    lines = (
        "CuDNN (v92800 42) function cudnnBackendFinalize() called:",
        "    Warning: CUDNN_STATUS_SUCCESS; Reason: the library is set up",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: a &&\n  b()  ",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: a is \xff",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: too large (a > b)",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: too large (a > b)",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: engine->getStatus()",
        "    Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: status",
        "Time: 2026-01-01T00:00:00.000000 (0d+0h+0m+0s since start)",
    )
    text = ctypes.create_string_buffer(b"".join(line.encode("latin-1") + b"\0" for line in lines))
    with reasons() as found:
        binding._listen(2, 0, 0, ctypes.addressof(text))
    assert found == ["a is \N{REPLACEMENT CHARACTER}", "too large (a > b)"]
    binding._listen(2, 0, 0, ctypes.addressof(text))
    assert len(found) == 2


def in_a_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


THEIRS = """
import ctypes, stubbed
from cudnn_graphs import *
from numbacc_bindings.cudnn import *

heard = []
@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def theirs(severity, data, facts, message):
    heard.append(data)

cudnn.cudnnSetCallback(4, 123, ctypes.cast(theirs, ctypes.c_void_p).value)
made = Made()
device, graph = made.device(deviceVer=750), made.graph(DataType.BFLOAT16)
with reasons() as found:
    rejected(made, device, graph)
assert heard[-1] == 123 and found == [], (heard, found)
rejected(made, device, graph)
assert heard[-2:] == [123, 123]
"""
LOG = """
import stubbed
from cudnn_graphs import *
from numbacc_bindings.cudnn import *

made = Made()
device, graph = made.device(deviceVer=750), made.graph(DataType.BFLOAT16)
with reasons() as found:
    rejected(made, device, graph)
assert found == []
"""
LATE = """
import atexit, stubbed
from cudnn_graphs import *
from numbacc_bindings.cudnn import *

stubbed.needed()

atexit.register(unread_failure)
entered = reasons()
entered.__enter__()
unread_failure()
"""


def test_a_callback_of_others_is_left_alone():
    in_a_process(THEIRS)


def test_a_log_of_others_is_left_alone():
    log = in_a_process(LOG, CUDNN_LOGLEVEL_DBG="2", CUDNN_LOGDEST_DBG="stdout")
    assert "hardware_bfloat16_supported" in log


def test_a_process_may_end_within():
    in_a_process(LATE)
