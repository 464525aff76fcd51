"""Run benchmarks on the GPU at hand: `python -m benchmarks gemm fft`, in a checkout of the repository."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

#: What can be benchmarked: the modules of this package that have a `run` function.
SUBJECTS = {
    "arrays": "host time of everyday calls on arrays against torch",
    "attention": "attention and its gradients against torch's cuDNN and flash backends, decoding, calls and plans",
    "blocks": "rope, dropout, gathers, activations of sums and losses against the speed of copies, torch and Liger",
    "conv": "convolutions and their gradients against torch's best, and fused against unfused",
    "distributed": "data-parallel training on a host's GPUs: share of perfect, DistributedDataParallel and FSDP2",
    "elementwise": "elementwise functions and own kernels against the speed of copies, torch, torch.compile and CuPy",
    "fft": "Fourier transforms against torch and CuPy",
    "gated": "gated activations, own gates too, against the speed of copies, torch, torch.compile and Liger",
    "gemm": "matrix products and their epilogues against torch and nvmath",
    "gemm_epilogues": "products with Python epilogues, gated layers and groups against cuBLASLt and torch.compile",
    "gemm_grid": "the part of gemm that takes many shapes: the choice of algorithm, against torch",
    "model": "a transformer's training step, and its last layer with the loss, against torch and Liger",
    "jax": "numbacc.jax: the time of a call in a compiled function, and large arrays, against JAX's own functions",
    "programs": "three programs of notebooks/programs against the same in torch, to their last result",
    "row_gradients": "gradients of softmax, norms, cross entropy and reductions against the speed of copies and torch",
    "rows": "reductions, softmax, norms and cross entropy against the speed of copies, torch, Liger and quack",
    "small": "kernels for small arrays, and scans of one row, against torch",
    "simulate": "users' kernels in the compiled simulator against Numba's own simulator; needs no GPU",
    "random": "random numbers against the speed of filling memory, torch and CuPy",
    "torch": "numbacc.torch: host time of its functions, and a layer of Llama against torch, eager and compiled",
    "startup": "the import and first calls in new processes, from source and from the disk cache",
    "adamw": "AdamW and the norm of gradients over 200 parameters against the speed of copies and torch",
}


def _listed() -> str:
    return "\n".join(["What can be measured:", *(f"  {name:14s} {what}" for name, what in SUBJECTS.items())])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog=_listed(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subjects", nargs="*", metavar="subject", help="what is measured: see below")
    parser.add_argument("--json", help="write every figure to this file")
    parser.add_argument(
        "--only",
        metavar="TEXT",
        nargs="+",
        help="only figures with one of these in their names; of host times all or none",
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and no torch.compile")
    options = parser.parse_args(argv)
    if not options.subjects:
        print(_listed())
        return 0
    if unknown := set(options.subjects) - SUBJECTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SUBJECTS)}")

    from numbacc.base.dispatch import has_gpu, simulated

    on_gpu = set(options.subjects) != {"simulate"}
    if on_gpu and (simulated() or not has_gpu()):
        print("benchmarks need a GPU; `python -m numbacc info` says what is missing")
        return 1
    from .harness import Report

    report = Report(only=options.only, on_gpu=on_gpu)
    try:
        for subject in options.subjects:
            importlib.import_module(f".{subject}", __package__).run(report, quick=options.quick)
    finally:  # what was measured, also where it was interrupted
        if options.json and report.figures:
            report.write(options.json)
    if options.only is not None and not report.figures:
        print(f"no figure of {', '.join(options.subjects)} has {' or '.join(map(repr, options.only))} in its name")
        return 1
    print(report.summary())
    return 0 if report.all_right else 1


if __name__ == "__main__":
    sys.exit(main())
