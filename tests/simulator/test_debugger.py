"""`numbacc.debug`: one thread of a kernel where debuggers look, and the sessions of docs/debugger.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import refused
from entering import ENTERING, HOW, says
from paths import ROOT
from skips import skip_if

import numbacc
from numbacc.base.dispatch import simulated

in_simulator = skip_if(not simulated(), "simulator")
PAGE = (ROOT / "docs" / "debugger.md").read_text()

if simulated():
    from numba import cuda, float32
    from numba.cuda.extending import intrinsic

    seen: list = []

    def is_in_callers_stack():
        """Whether the launch's caller is among those of the function that asks."""
        frame = sys._getframe()
        while frame is not None and not frame.f_code.co_name.startswith("test_"):
            frame = frame.f_back
        return frame is not None

    @intrinsic
    def halved(typing, x):
        """Never compiled."""

    @cuda.jit
    def reverse(x, y):
        s = cuda.shared.array(64, float32)
        i = cuda.threadIdx.x
        s[i] = x[cuda.grid(1)]
        cuda.syncthreads()
        seen.append((cuda.blockIdx.x, int(i), is_in_callers_stack(), s[63 - i]))
        cuda.syncthreads()
        y[cuda.grid(1)] = s[63 - i]

    @cuda.jit
    def counted(x, y):
        i = cuda.threadIdx.x
        y[i] = cuda.syncthreads_count(x[i] > 3) + cuda.syncthreads_or(i == 7) + cuda.laneid

    @cuda.jit
    def grid_of_blocks(y):
        column, row = cuda.grid(2)
        if is_in_callers_stack():
            seen.append((row, column))
        y[row, column] = 1

    @cuda.jit
    def failing(x):
        i = cuda.grid(1)
        x[i + 60] = 0

    @cuda.jit
    def exchanging(x):
        x[0] = cuda.activemask()

    @cuda.jit
    def with_an_intrinsic(x):
        x[0] = halved(x[0])

    def with_cuda_inside():
        from numba import cuda

        @cuda.jit
        def kernel(x):
            x[cuda.grid(1)] = 0

        return kernel

    @cuda.jit
    def late(x):
        cuda.syncthreads()
        if cuda.threadIdx.x == 9:
            x[100] = 0


@pytest.fixture(autouse=True)
def nothing_seen():
    if simulated():
        seen.clear()


@in_simulator
@pytest.mark.parametrize("thread, block", [(0, 0), (5, 0), (63, 1), ((9, 0, 0), (1,))])
def test_one_thread_runs_in_the_callers(thread, block):
    x, y = np.arange(128, dtype="f4"), np.full(128, np.nan, "f4")
    with numbacc.debug(thread, block):
        reverse[2, 64](x, y)
    np.testing.assert_array_equal(y, x.reshape(2, 64)[:, ::-1].ravel())
    assert len(seen) == 128
    one, of = (value[0] if isinstance(value, tuple) else value for value in (thread, block))
    assert [each for each in seen if each[2]] == [(of, one, True, x[of * 64 + 63 - one])]


@in_simulator
def test_barriers_that_count():
    x, y = np.arange(32, dtype="f4"), np.zeros(32, "f4")
    with numbacc.debug(7):
        counted[1, 32](x, y)
    np.testing.assert_array_equal(y, 28 + 1 + np.arange(32))


@in_simulator
@pytest.mark.parametrize("thread, block, element", [(5, 0, (1, 1)), ((1, 1), (0, 1), (3, 1)), (5, 3, (3, 5))])
def test_numbers_and_indices(thread, block, element):
    y = np.zeros((4, 8), "f4")
    with numbacc.debug(thread, block):
        grid_of_blocks[(2, 2), (4, 2)](y)
    assert seen == [element] and y.all()


@in_simulator
def test_errors_name_the_thread_and_the_line():
    with pytest.raises(IndexError, match=r"tid=\[8, 0, 0\] ctaid=\[0, 0, 0\]: index 68") as caught, numbacc.debug(8):
        failing[1, 32](np.zeros(64, "f4"))
    assert caught.traceback[-1].name == "failing"  # where %debug looks
    with pytest.raises(IndexError, match=r"tid=\[4, 0, 0\]"), numbacc.debug(0):
        failing[1, 32](np.zeros(64, "f4"))
    with pytest.raises(IndexError, match=r"^tid=\[9, 0, 0\] ctaid=\[0, 0, 0\]: index 100") as caught, numbacc.debug(3):
        late[1, 32](np.zeros(32, "f4"))
    assert caught.traceback[-1].name == "late"
    grid_of_blocks[(1, 1), (1, 1)](np.zeros((1, 1)))


@in_simulator
def test_what_there_is_not():
    x = np.zeros(32, "f4")

    def launch(**options):
        with numbacc.debug(**options):
            failing[1, 32](x)

    refused(numbacc.OptionError, "thread=32", "32 of them", run=lambda: launch(thread=32))
    refused(numbacc.OptionError, "block=1", "1 of them", run=lambda: launch(block=1))
    refused(numbacc.OptionError, "block=(0, 1)", run=lambda: launch(block=(0, 1)))
    refused(numbacc.OptionError, "line=1", "failing has code in lines", run=lambda: launch(line=1))
    refused(numbacc.OptionError, "thread=-1", run=lambda: launch(thread=-1))
    refused(numbacc.OptionError, "thread=1.5", run=lambda: launch(thread=1.5))

    def exchange():
        with numbacc.debug():
            exchanging[1, 1](x)

    refused(AttributeError, "cuda.activemask", "scalar form", run=exchange)


@in_simulator
@pytest.mark.parametrize("inside", [lambda: numbacc.debug(1), lambda: numbacc.trace()], ids=["debug", "trace"])
def test_errors_of_the_simulator_say_what_to_do(inside):
    x = np.zeros(4, "f4")

    def launch(kernel):
        with inside():
            kernel[1, 4](x)

    words = ("not usable in pure-python", "scalar form", "x[i]")
    refused(NotImplementedError, *words, run=lambda: launch(with_an_intrinsic))
    words = ("no attribute 'grid'", "at the top of the file")
    refused(AttributeError, *words, run=lambda: launch(with_cuda_inside()))


@pytest.mark.parametrize("simulate", ["0", "1"])
def test_without_a_simulator(simulate):
    printed = says("import sys; sys.modules['numba'] = None; import numbacc" + ENTERING, simulate)
    assert "numbacc.debug() needs Numba" in printed and HOW in printed


# ---------------------------------------------------------------- sessions with pdb


def between(start):
    """The fenced text behind a comment of the page."""
    (text,) = re.findall(rf"<!-- {start} -->\n```\n(.*?)```\n<!-- end -->", PAGE, re.DOTALL)
    return text


@pytest.mark.parametrize("name, change", [("-m pdb", ""), ("line=13", "thread=5, line=13")])
def test_sessions_of_the_page(name, change, tmp_path):
    script = tmp_path / "reverse.py"
    script.write_text(between("script").replace("thread=5", change or "thread=5"))
    command, session = between(f"session {name}").split("\n", 1)
    assert command.startswith("$ NUMBA_ENABLE_CUDASIM=1 python ")
    typed = re.findall(r"^\(Pdb\) (.*)$", session, re.MULTILINE)
    run = subprocess.run(
        [sys.executable, *command.split()[3:-1], str(script)],
        input="\n".join(typed) + "\n", env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    # What is typed shows on a terminal alone.
    expected = re.sub(r"^\(Pdb\) .*\n", "(Pdb) ", session, flags=re.MULTILINE)
    assert run.stdout.replace(f"{tmp_path}{os.sep}", "").strip() == expected.strip()


def test_quitting_goes_on_behind_the_with(tmp_path):
    script = tmp_path / "reverse.py"
    script.write_text(between("script").replace("thread=5", "thread=5, line=13"))
    run = subprocess.run(
        [sys.executable, str(script)], input="quit\n", env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert run.returncode == 0 and run.stdout.endswith("(Pdb) [0. 0. 0.]\n"), run.stdout + run.stderr


def test_a_breakpoint_is_met_by_one_thread(tmp_path):
    script = tmp_path / "reverse.py"
    script.write_text(between("script").replace("    value =", "    breakpoint()\n    value ="))
    run = subprocess.run(
        [sys.executable, str(script)], input="p i, s[58]\ncontinue\n", timeout=120, capture_output=True, text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    # From Python 3.13 on pdb stops at the breakpoint itself, before at the line behind it.
    where = "(13)reverse()\n-> breakpoint()" if sys.version_info >= (3, 13) else "(14)reverse()\n-> value = s[63 - i]"
    assert run.stdout.count("(Pdb)") == 2 and f"{where}\n" in run.stdout
    assert "(5, np.float32(58.0))" in run.stdout and run.stdout.endswith("[63. 62. 61.]\n")


def test_a_breakpoint_in_a_plain_kernel(tmp_path):
    """Without `numbacc.debug`: all threads run where the debugger looks, and `next` comes back after a barrier."""
    script = tmp_path / "reverse.py"
    text = between("script").replace("with numbacc.debug(thread=5):\n    ", "")
    text = text.replace("    cuda.syncthreads()\n", "    if i == 5:\n        breakpoint()\n    cuda.syncthreads()\n")
    script.write_text(text)
    typed = ["next"] * (sys.version_info >= (3, 13)) + ["p i, s[5], s[58]", "next", "p i, s[58]", "continue"]
    run = subprocess.run(
        [sys.executable, str(script)], input="\n".join(typed) + "\n", timeout=120, capture_output=True, text=True,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    first, second = re.findall(r"^\(Pdb\) \(5, .*$", run.stdout, re.MULTILINE)
    assert "np.float32(5.0), " in first and second == "(Pdb) (5, np.float32(58.0))"
    assert "-> cuda.syncthreads()" in run.stdout and "-> value = s[63 - i]" in run.stdout
    assert run.stdout.endswith("[63. 62. 61.]\n"), run.stdout


def test_breakpoints_of_another_debugger():
    """What the user has chosen is called, still by one thread; afterwards it is as before."""
    own = "import sys\nsys.breakpointhook = own = lambda: print('here', cuda.threadIdx.x)\n"
    text = between("script").replace("    value =", "    breakpoint()\n    value =").replace("with", own + "with")
    assert "here 5\n[63. 62. 61.]" in says(text + "assert sys.breakpointhook is own\n", simulate="1")


def test_in_a_notebook():
    """The script as a cell; what is typed is asked for as `input` asks."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"})
    printed, commands = [], iter(["p i, s[58]", "continue"])
    try:
        reply = client.execute_interactive(
            between("script").replace("thread=5", "thread=5, line=13"),
            allow_stdin=True,
            timeout=120,
            stdin_hook=lambda message: client.input(next(commands)),
            output_hook=lambda message: printed.append(message["content"].get("text", "")),
        )
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert reply["content"]["status"] == "ok", reply
    text = re.sub(r"\x1b\[[\d;]*m", "", "".join(printed))
    assert "(13)reverse()" in text and "(5, np.float32(58.0))" in text and text.endswith("[63. 62. 61.]\n"), text
