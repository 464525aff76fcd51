"""Compile kernels for a GPU in a process without the simulator: `python -m numbacc.tracing.compiler`.

It reads one job from `compile_errors` per line, and writes an answer to each: ("compiled", ""), ("error", its text), or
("unable", the reason) if this machine cannot compile kernels.
"""

from __future__ import annotations

import base64
import builtins
import importlib
import marshal
import os
import pickle
import sys
import threading
import types
from typing import Any

#: The compute capability to compile for.
CAPABILITY = (9, 0)
#: Seconds without a job after which the process ends; the next job starts another.
_IDLE_S = 300.0


def answer(job: dict[str, Any]) -> tuple[str, str]:
    """Compile a job's kernel and return the answer."""
    from ..base import _numba

    try:
        made = _Unpacked(job["functions"], _numba.cuda)
        kernel, samples = made.function(0), [pickle.loads(each) for each in job["samples"]]
    except Exception as error:  # a value that exists only in the other process
        return "unable", f"{type(error).__name__}: {error}"
    try:
        _numba.compile_like(kernel, samples, CAPABILITY)
    except Exception as error:  # Numba raises exceptions of many classes
        return "error", f"{type(error).__name__}: {error}"
    return "compiled", ""


class _Unpacked:
    """Functions that `compile_errors.packed` has packed."""

    def __init__(self, functions: list[dict[str, Any]], cuda: Any):
        self._packed, self._cuda = functions, cuda
        self._made: dict[int, types.FunctionType] = {}

    def function(self, number: int) -> types.FunctionType:
        if number not in self._made:
            packed = self._packed[number]
            names: dict[str, Any] = {"__builtins__": builtins, "__name__": "__main__"}
            cells = tuple(types.CellType() for _ in packed["closure"])
            code = marshal.loads(packed["code"])
            made = types.FunctionType(code, names, packed["name"], pickle.loads(packed["defaults"]), cells)
            self._made[number] = made
            for cell, value in zip(cells, packed["closure"], strict=True):
                cell.cell_contents = self._value(*value)
            names.update({name: self._value(*value) for name, value in packed["globals"].items()})
        return self._made[number]

    def _value(self, kind: str, value: Any) -> Any:
        if kind == "module":
            return importlib.import_module(value)
        if kind == "pickled":
            return pickle.loads(value)
        made = self.function(value)
        return made if kind == "function" else self._cuda.jit(device=True)(made)


def _trial(x: Any) -> None:
    x[0] = 1.0


def _unable() -> str:
    """Return why this machine cannot compile kernels; "" if it can."""
    try:
        import numpy as np

        from ..base import _numba

        _numba.pretend_capability(CAPABILITY)
        sys.modules["scipy.linalg"] = None  # type: ignore[assignment]
        _numba.compile_like(_trial, [np.ones(1, np.float32)], CAPABILITY)
    except Exception as error:  # libraries are missing or of other versions
        return f"{type(error).__name__}: {error}"
    finally:
        sys.modules.pop("scipy.linalg", None)  # numba.cuda only tests whether SciPy is installed, by an import of 0.3 s
    return ""


def main() -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # compilers may print, and stdout has the answers
    unable = _unable()
    for line in sys.stdin.buffer:
        found = ("unable", unable) if unable else answer(pickle.loads(base64.b64decode(line)))
        answers.write(base64.b64encode(pickle.dumps(found)) + b"\n")
        answers.flush()
        _end_when_idle()


_timers: list[threading.Timer] = []


def _end_when_idle() -> None:
    while _timers:
        _timers.pop().cancel()
    _timers.append(threading.Timer(_IDLE_S, os._exit, [0]))
    _timers[0].daemon = True
    _timers[0].start()


if __name__ == "__main__":
    main()
