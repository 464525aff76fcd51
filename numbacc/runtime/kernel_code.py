"""Find the code of a kernel by its spec, to compile or to simulate it.

A spec names the module that makes its kernel. That module has two functions: `make(spec)` returns the kernel as a
Python function, and `parameters(spec)` describes the kernel's parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ..base._numba import kernel_signature
from .launch_order import WORDS, Spec


def module_of(spec: Spec) -> Any:
    """Return the module of a kernel. It is imported now, because that takes as long as compiling a kernel."""
    return import_module(f"numbacc.{spec.module.replace('/', '.')}")


def make(spec: Spec) -> Any:
    """Return the kernel that `spec` describes: a Python function, ready to be compiled or simulated."""
    return module_of(spec).make(spec)


def parameters(spec: Spec) -> Sequence[tuple[str, Any]]:
    """Return the types and shapes of the parameters of `make(spec)`, as `_numba.kernel_signature` takes them."""
    found: Sequence[tuple[str, Any]] = module_of(spec).parameters(spec)
    return found


def signature(spec: Spec) -> Any:
    """Return the Numba signature of `make(spec)`."""
    return kernel_signature([("int64" if name == WORDS else name, shape) for name, shape in parameters(spec)])
