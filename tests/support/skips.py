"""Everything that may be skipped, by name, with its reason. `test_skips` holds that nothing is skipped otherwise."""

from __future__ import annotations

import pytest

REASONS = {
    # what is missing here
    "gpu": "needs a CUDA GPU",
    "two gpus": "needs two GPUs",
    "gpu memory": "needs more GPU memory than there is",
    "device": "needs device arrays: a GPU, or NUMBA_ENABLE_CUDASIM=1",
    "simulator": "needs a process started with NUMBA_ENABLE_CUDASIM=1",
    "compiler": "needs a C compiler, cc",
    "ptxas": "needs ptxas, from NVIDIA's compiler wheel",
    "library": 'needs what pip install "numbacc[cu12]" brings',
    "nvtx": "needs NVTX's library, of the CUDA toolkit or of the package nvidia-nvtx",
    "sanitizer": "needs compute-sanitizer, of the CUDA toolkit",
    "headers": "needs headers that numbacc's extras bring",
    "parser": "needs libclang",
    "setuptools": "needs setuptools, to build",
    "greenlet": "needs greenlet",
    "array api": "needs array-api-compat",
    "mypy": 'needs what pip install "numbacc[dev]" brings',
    "pyright": 'needs basedpyright, which pip install "numbacc[dev]" brings',
    "sphinx": 'needs what pip install "numbacc[docs]" brings',
    "node": "needs Node.js",
    "safetensors": "needs safetensors",
    "successor": "needs numba-cuda-mlir",
    "torch": "needs torch",
    "cupy": "needs CuPy",
    "jax": "needs JAX",
    "jax with a gpu": "needs JAX with a GPU",
    "nccl": 'needs nccl4py and NCCL, which pip install "numbacc[nccl12]" brings',
    "clusters": "needs a GPU with clusters of blocks",
    "long double": "needs a long double wider than float64",
    "linux": "needs Linux's /proc",
    "posix": "is about POSIX users, directories and limits",
    "no root": "nothing is read-only for root",
    # what a test is not about
    "numpy": "is about NumPy arrays",
    "no gpu": "is about machines without a GPU",
    "no driver": "is about machines without a CUDA driver",
    "no product": "this GPU's cuBLASLt has no such product",
    "has product": "is about products that this GPU's cuBLASLt has not",
    "younger library": "is about a younger cuBLASLt",
    "foreign dtype": "the other library has no such dtype",
    # what the simulator is not for
    "not simulated": "is about real kernels and libraries; this is the simulator",
    "slow": "takes too long in the simulator",
}


def skip(name, **options):
    """Skip the test that runs, or with allow_module_level=True the module."""
    pytest.skip(REASONS[name], **options)


def skip_if(condition, name):
    """A mark of tests that are skipped if the condition holds."""
    return pytest.mark.skipif(condition, reason=REASONS[name])


def needed(module, name, **options):
    """A module of that name; without it the test is skipped."""
    return pytest.importorskip(module, reason=REASONS[name], **options)
