"""What outlives what, on a real GPU: processes that end with arrays, tensors and graphs alive, and forked ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.gpu

KEEPERS = {
    "module": "import types; m = sys.modules['kept'] = types.ModuleType('kept'); m.value = value",
    "class": "class Keeper: value = value",
    "class in a module": "sys.modules['kept'] = type('Module', (type(sys),), {'value': value})('kept')",
    "torch's own module": "import torch; torch.kept = value",
    "numpy's own module": "np.kept = value",
    "atexit": "import atexit; atexit.register(lambda kept=value: None)",
    "cycle": "value = [value]; value.append(value)",
    "thread": "import threading as t; e = t.Event(); t.Thread(target=lambda v=value: e.wait(), daemon=True).start()",
    "thread local": "import threading; local = threading.local(); local.value = value",
    "nothing": "del value",
}
VALUES = {
    "array": "value = numbacc.zeros((4, 8))",
    "tensor": "import torch; value = torch.from_dlpack(numbacc.zeros((4, 8)))",
    "cupy array": "import cupy; value = cupy.from_dlpack(numbacc.zeros((4, 8)))",
    "capsule": "value = numbacc.zeros((4, 8)).__dlpack__(stream=1, max_version=(1, 0))",
    "old capsule": "value = numbacc.zeros((4, 8)).__dlpack__(stream=1)",
    "graph": "x = numbacc.zeros((4, 8))\nwith numbacc.graph() as g: y = gated.forward(x)\ng.launch(); value = g, y",
    "compiled step": (
        "x, e = numbacc.zeros((4, 8)), numbacc.event().record(numbacc.stream(priority=-1))\n"
        "step = numbacc.compiled(gated.forward); value = step, e, [step(x) for _ in range(3)]"
    ),
    "open capture": "g = numbacc.graph(); g.__enter__(); value = g, gated.forward(numbacc.zeros((4, 8)))",
    "plans": "x = numbacc.zeros((8, 8)); value = fft.fft.plan(x), gemm.matmul.plan(x, x)",
    "convolutions": (
        "x, w = numbacc.zeros((2, 8, 16, 16)), numbacc.zeros((8, 8, 3, 3)); y = conv.forward(x, w, activation='relu')\n"
        "with numbacc.graph() as g: dw = conv.backward_filter(x, y, w.shape)\n"
        "g.launch(); value = g, dw, conv.forward.plan(x, w), conv.backward_data.plan(y, w, x.shape, tune=True)"
    ),
    "attention": (
        "x = numbacc.zeros((1, 2, 64, 64), 'bfloat16'); o, stats = attention.forward(x, x, x, return_stats=True)\n"
        "with numbacc.graph() as g: grads = attention.backward(o, x, x, x, o, stats)\n"
        "g.launch(); value = g, grads, attention.forward.plan(x, x, x), attention.forward(x, x, x, dropout=0.5), \\\n"
        "    attention.forward.plan(*[numbacc.zeros((1, 2, 64, 64))] * 3, mask='causal')"
    ),
    "taken": "import torch; t = torch.zeros(4, 8, device='cuda'); value = numbacc.from_dlpack(t), t",
    "elementwise, in flight": (
        "x, value = numbacc.zeros((1 << 12, 1 << 12)), []\n"
        "own, spread = ew.kernel(lambda x: x * x + 1.0), ew.reduction(lambda x: x * x)\n"
        "for k in range(3):\n"
        "    with numbacc.stream() as s:\n"
        "        y = own(x); value += [s, y, spread(y), ew.softmax(y), ew.cumsum(y)]\n"
        "        value += [ew.take(y, ew.argmax(y, axis=1), axis=1)]\n"
        "        for _ in range(500): own(y, out=y)"
    ),
    "elementwise plans": (
        "x = numbacc.zeros((8, 8)); lists = [[x + k] for k in range(4)]; ew.adamw_step(*lists, 1)\n"
        "value = ew.exp.plan(x), ew.sum.plan(x), ew.softmax.plan(x), ew.adamw_step.plan(*lists, 1), lists"
    ),
    "elementwise graph": (
        "x, offset = numbacc.zeros((64, 64)), numbacc.zeros(1, 'int64')\n"
        "with numbacc.graph() as g: y = ew.dropout(ew.softmax(x), seed=1, offset=offset).sum()\n"
        "g.launch(); value = g, y"
    ),
    "generator": "value = random.Generator('xorwow'); value.random(8)",
}


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done


START = (
    "import sys, numpy as np, numbacc; "
    "from numbacc import attention, conv, elementwise as ew, fft, gated, gemm, random; "
)


def keepers_of(value):
    """All keepers of an array and of a graph; of other values one in three, each time others."""
    return [*KEEPERS] if value in ("array", "graph") else [*KEEPERS][[*VALUES].index(value) % 3 :: 3]


@pytest.mark.parametrize("value", VALUES)
def test_a_process_ends_well_whoever_keeps_what(value):
    """Each keeper in a process of its own; they run side by side."""
    processes = {}
    for name in keepers_of(value):
        keep = KEEPERS[name]
        code = "\n".join([START, VALUES[value], keep, "print('done')"])
        processes[name] = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    wrong = {}
    for name, process in processes.items():
        out, errors = process.communicate(timeout=300)
        if process.returncode or "done" not in out or "Exception ignored" in errors:
            wrong[name] = process.returncode, errors[-600:]
    assert not wrong


def test_a_forked_child_is_told():
    code = (
        START
        + """
import os
x = numbacc.zeros((4, 8))
pid = os.fork()
if not pid:
    code = 1
    try:
        assert gated.forward(np.ones((2, 4), 'f4')).shape == (2, 2)
        for call in ('gated.forward(x)', 'numbacc.zeros(3)', 'numbacc.asnumpy(x)', 'numbacc.stream()'):
            try:
                eval(call)
            except numbacc.DeviceError as error:
                assert 'fork' in str(error), error
            else:
                raise AssertionError('not refused')
        del x
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
numbacc.asnumpy(gated.forward(x))
"""
    )
    run(code)


def test_a_fork_before_the_first_use_is_fine():
    code = (
        START
        + """
import os
pid = os.fork()
if not pid:
    numbacc.asnumpy(gated.forward(numbacc.zeros((4, 8))))
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
numbacc.asnumpy(gated.forward(numbacc.zeros((4, 8))))
"""
    )
    run(code)
