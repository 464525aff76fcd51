"""Run by test_cudnn.py with a stub for the driver: why cuDNN rejects an engine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import stubbed
from cudnn_graphs import Made, rejected, unread_failure
from threads import run_threads

if not stubbed.installed():
    pytest.skip("runs in a process of its own, started by test_cudnn.py", allow_module_level=True)

from numbacc_bindings import cudnn as binding
from numbacc_bindings.cudnn import (
    DataType,
    DescriptorType,
    cudnn,
    reasons,
)

if not cudnn.knows(DescriptorType.DEVICEPROP_DESCRIPTOR):
    pytest.skip("needs cuDNN 9.8 or newer, which makes plans without a handle", allow_module_level=True)


# ---------------------------------------------------------------- reasons


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


def test_nobody_listens_afterwards(refusal, monkeypatch):
    heard = []
    monkeypatch.setattr(binding._said, "reasons", None, raising=False)
    monkeypatch.setattr(binding.ctypes, "string_at", heard.append)
    with reasons():
        pass
    refusal()
    assert heard == []


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
