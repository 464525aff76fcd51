"""The kernels of tests and benchmarks, made by numba_cuda_mlir, as a process: `python compiled_successor.py FOLDER`.

Their sources import `numba_cuda_mlir` instead of `numba`. Nothing else is changed.
"""

from __future__ import annotations

import copy
import importlib
import re
import sys
from pathlib import Path

import numpy as np
from numba_cuda_mlir import cuda

import numbacc

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def imported(path, folder):
    """A module, with the names of the other package."""

    def exchanged(line):
        names = [name for name in line[1].split(", ") if name != "cuda"]
        return f"from numba_cuda_mlir import cuda\nfrom numba_cuda_mlir.types import {', '.join(names)}"

    text, count = re.subn(r"^from numba import (cuda, .*)$", exchanged, path.read_text(), flags=re.MULTILINE)
    assert count == 1 and not re.search(r"^ *(from numba |import numba$)", text, re.MULTILINE)
    made = folder / f"successor_{path.name}"
    made.write_text(text)
    return importlib.import_module(made.stem)


def main(folder):
    sys.path[:0] = [folder, str(HERE), str(ROOT)]
    subjects = imported(ROOT / "benchmarks" / "simulate_kernels.py", Path(folder)).SUBJECTS
    for name, subject in subjects.items():
        case = subject.make(min(1024, subject.threads))
        assert type(case.kernel) is type(cuda.jit(lambda x: None)), type(case.kernel)
        for checked in (False, True):
            args = case.fresh()
            with numbacc.simulate(checked=checked):
                case.kernel[case.launch](*args)
            assert case.is_right(args), name
    cases = imported(HERE / "compiled_language.py", Path(folder)).CASES
    for make, grid, block, dynamic in cases.values():
        kernel, arguments, answer = make()
        arguments = copy.deepcopy(arguments)
        with numbacc.simulate():
            kernel[grid, block, 0, dynamic](*arguments)
        np.testing.assert_allclose(arguments[-1], answer, rtol=1e-6)
    print(len(subjects), len(cases))


if __name__ == "__main__":
    main(*sys.argv[1:])
