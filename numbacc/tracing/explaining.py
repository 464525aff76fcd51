"""What the simulator cannot do, said where a kernel asks for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentsError
from .warps import ModuleWithWarps


class ExplainingModule(ModuleWithWarps):
    """What `cuda` is inside of a kernel: the simulator's, which says what to do about what it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"Numba's simulator has no cuda.{name}: it runs one thread after the other in Python, and knows no "
            "intrinsics. Trace or debug a scalar form of the kernel, with x[i], shared memory and cuda.syncthreads() "
            f"in place of cuda.{name}; it shows the same indices"
        )


def check_arguments(kernel: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise ArgumentsError unless a kernel takes as many arguments as it was given."""
    parameters = inspect.signature(kernel)
    try:
        parameters.bind(*args)
    except TypeError:
        wanted = len(parameters.parameters)
        raise ArgumentsError(
            f"{kernel.__name__}{parameters} takes {wanted} argument{'s' * (wanted != 1)}, and was given {len(args)}"
        ) from None


#: What the simulator's errors say -> what to do.
_REMEDIES = {
    "is not usable in pure-python": (
        "an intrinsic is code for a GPU, and the simulator runs Python. Give it a form in Python for the simulator, "
        "`if numba.config.ENABLE_CUDASIM:`, or trace and debug a scalar form of the kernel, with x[i] in its place"
    ),
    "module 'numba.cuda' has no attribute": (
        "the simulator exchanges `cuda` among the globals of a kernel's file while the kernel runs. Import it at the "
        "top of the file, `from numba import cuda`, not inside of a function"
    ),
}


@contextmanager
def explaining() -> Iterator[None]:
    """Inside, errors of the simulator's say what to do."""
    try:
        yield
    except (AttributeError, NotImplementedError) as error:
        for words, remedy in _REMEDIES.items():
            if words in str(error):
                error.args = (f"{error}: {remedy}",)  # the error itself goes on, for debuggers to look at
        raise
