"""Python's operators and NumPy's functions on device arrays: refused, so that none copies to the host.

Nothing computes them on the GPU yet; what has one element is a number for `bool`, `int`, `float` and `complex`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..errors import DTypeError

#: What NumPy may ask of any array: attributes.
_QUESTIONS = (np.shape, np.ndim, np.size)


class Operators:
    """Base of device arrays, before the class of Numba's, whose simulated arrays have operators."""

    __slots__ = ()

    # Above every array of the host's, which then leave `host + device` to the refusal here.
    __array_priority__ = 1e6
    __hash__ = None  # type: ignore[assignment]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise _refusal("making a NumPy array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> NoReturn:
        raise _refusal(ufunc.__name__)

    def __array_function__(self, function: Any, types: Any, arguments: tuple[Any, ...], options: Any) -> Any:
        if function in _QUESTIONS and len(arguments) == 1 and not options:
            return getattr(self, function.__name__)
        raise _refusal(f"numpy.{function.__name__}")

    def __contains__(self, value: Any) -> NoReturn:
        raise _refusal("in")

    def __bool__(self) -> bool:
        """The truth of an array of one element. This blocks, as `item` does."""
        return bool(self.item())  # type: ignore[attr-defined]

    def __int__(self) -> int:
        """The element of an array of one. This blocks, as `item` does."""
        return int(self.item())  # type: ignore[attr-defined]

    def __float__(self) -> float:
        """The element of an array of one. This blocks, as `item` does."""
        return float(self.item())  # type: ignore[attr-defined]

    def __complex__(self) -> complex:
        """The element of an array of one. This blocks, as `item` does."""
        return complex(self.item())  # type: ignore[attr-defined]


def _refusal(what: str) -> DTypeError:
    return DTypeError(
        f"{what} is not computed on device arrays, and nothing is copied to the host silently: "
        "numbacc.asnumpy(x) copies, numbacc.gemm, fft, gated and random compute on the GPU"
    )


def _operator(name: str) -> Any:
    def refuse(self: Any, *others: Any) -> NoReturn:
        raise _refusal(name)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_BOTH_SIDES = ["add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"]
_BOTH_SIDES += ["lshift", "rshift", "and", "or", "xor"]
_OTHERS = ["eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "round", "trunc", "floor", "ceil"]
for _name in (*_BOTH_SIDES, *(f"r{name}" for name in _BOTH_SIDES), *_OTHERS):
    setattr(Operators, f"__{_name}__", _operator(f"__{_name}__"))
