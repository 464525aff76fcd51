"""Scalar functions that kernels call by names of CUDA, for the CPU."""

from __future__ import annotations

from typing import Any

from numba import njit

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


@njit(**OPTIONS)
def _popc(x):  # type: ignore[no-untyped-def]
    count = 0
    while x:
        x &= x - 1
        count += 1
    return count


@njit(**OPTIONS)
def _ffs(x):  # type: ignore[no-untyped-def]
    return 0 if x == 0 else _popc((x & -x) - 1) + 1


@njit(**OPTIONS)
def _clz(x):  # type: ignore[no-untyped-def]
    count, x = 32, x & 0xFFFFFFFF
    while x:
        x >>= 1
        count -= 1
    return count


FUNCTIONS: dict[str, Any] = {
    "cuda.popc": _popc,
    "cuda.ffs": _ffs,
    "cuda.clz": _clz,
    "cuda.selp": njit(lambda c, a, b: a if c else b),
    "cuda.fma": njit(lambda a, b, c: a * b + c),
}
