"""Measure how many threads a second Numba's CUDA simulator runs: with numbacc's scheduler, and with its own.

    NUMBA_ENABLE_CUDASIM=1 python -m benchmarks.simulator [--repeats 5] [--processor-time]

Needs no GPU. Both schedulers take turns, and results are compared with NumPy's. The figures are of the fastest launch.
"""

from __future__ import annotations

import argparse
import platform
import time

import numpy as np
from numba.cuda.simulator.kernel import FakeCUDAKernel

_METHODS = ("__call__", "__getitem__", "forall")
#: Numba's simulator, as it is before numbacc is imported.
_NUMBA = {name: vars(FakeCUDAKernel)[name] for name in _METHODS}

import numbacc  # noqa: E402

from .simulate_kernels import USUAL  # noqa: E402

#: Name in the table -> the kernel, how many threads.
CASES = {
    "saxpy": ("saxpy with guard", 2048),
    "block reduction": ("block reduction of 10^7", 2048),
    "scan": ("scan in dynamic shared memory", 1024),
    "transpose": ("tiled transpose, 4 elements a thread", 1024),
    "matmul": ("tiled matmul 512^3", 1024),
    "softmax": ("softmax of rows of 512", 1024),
}


def seconds(clock, kernel, configuration, arguments):
    start = clock()
    kernel[configuration](*arguments)
    return clock() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="launches of each kernel with each scheduler")
    parser.add_argument("--processor-time", action="store_true", help="where other programs use the cores, too")
    options = parser.parse_args()
    repeats, clock = options.repeats, time.process_time if options.processor_time else time.perf_counter
    first = USUAL["saxpy with guard"].make(1)
    first.kernel[first.launch](*first.fresh())  # the first launch installs it
    ours = {name: vars(FakeCUDAKernel)[name] for name in _METHODS}
    assert ours["__call__"] is not _NUMBA["__call__"]
    print(f"Python {platform.python_version()}, numbacc {numbacc.__version__}; threads a second, {clock.__name__}")
    print("| kernel | Numba's scheduler | numbacc's | factor |\n|---|---|---|---|")
    for name, (subject, threads) in CASES.items():
        case = USUAL[subject].make(threads)
        best = dict.fromkeys(("numba", "ours"), np.inf)
        for _ in range(repeats):
            for which, methods in (("numba", _NUMBA), ("ours", ours)):
                for method, function in methods.items():
                    setattr(FakeCUDAKernel, method, function)
                arguments = case.fresh()
                best[which] = min(best[which], seconds(clock, case.kernel, case.launch, arguments))
                assert case.is_right(arguments), name
        speeds = {which: case.threads / each for which, each in best.items()}
        print(f"| {name} | {speeds['numba']:,.0f} | {speeds['ours']:,.0f} | {speeds['ours'] / speeds['numba']:.0f} |")


if __name__ == "__main__":
    main()
