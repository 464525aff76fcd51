"""The speed of functions of one's own on a GPU, against that of a copy of the same bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arrays import creation
from ..base import checks, dtypes
from ..base.dispatch import has_gpu, simulated
from ..base.layout import lengths_of
from ..errors import DeviceError, DTypeError, Error, OptionError, ShapeError

#: How many numbers are drawn; arrays repeat them.
_DRAWN = 1 << 16
#: Errors that are allowed, in units of the dtype's precision, and the part of truth values that may differ.
_ALLOWED, _ALLOWED_TRUTHS = 64, 1e-3
#: Bytes of a float -> its precision.
_PRECISION = {2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}


@dataclass(frozen=True)
class Benchmark:
    """The time of a call on a GPU, of results that were checked.

    Attributes:
        name, shape, dtype: what was measured.
        ms: median time of a call in milliseconds, the L2 cache flushed before each.
        copy_ms: that of a copy on the GPU that reads and writes as many bytes.
        nbytes: bytes that are read and written.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    ms: float
    copy_ms: float
    nbytes: int

    @property
    def bandwidth(self) -> float:
        """The part of the copy's speed that it has."""
        return self.copy_ms / self.ms

    @property
    def gigabytes_per_second(self) -> float:
        return self.nbytes / self.ms / 1e6

    def __str__(self) -> str:
        return (
            f"{self.name} {self.dtype} {self.shape}: {self.ms:.4g} ms, {self.gigabytes_per_second:.4g} GB/s, "
            f"{self.bandwidth:.2f} of a copy's speed"
        )


def benchmark(
    name: str,
    function: Callable[..., Any],
    names: Sequence[str],
    shape: Any,
    dtype: Any,
    repeats: Any,
    numbers: Mapping[str, Any],
    is_local: bool,
) -> Benchmark:
    """The speed of a function.

    Args:
        name: what it is called.
        function: of arrays and numbers, `out` and `stream`.
        names: of its parameters; those that are not among the numbers are arrays.
        shape, dtype: of the arrays.
        repeats: how often it is run.
        numbers: by name.
        is_local: whether each result is of what lies at its place, so that the first ones can be checked alone.

    Raises:
        DeviceError: there is no GPU. Error: the results are wrong. ShapeError, DTypeError, OptionError: arguments.
    """
    if simulated() or not has_gpu():
        raise DeviceError(f"benchmark of {name} needs a GPU; `python -m numbacc info` tells what is missing")
    from ..runtime.timing import copy_of, gpu_ms

    row = dtypes.info(dtypes.dtype(dtype), "dtype")
    if not row.is_float or row.is_scaled:
        raise DTypeError(f"dtype={row.name}; benchmarks are of floats of 16 bits and more")
    lengths, count = lengths_of(shape, row.itemsize), checks.integer(repeats, "repeats", 1)
    if 0 in lengths:
        raise ShapeError(f"shape={lengths} has no elements")
    hosts = arguments_of(name, names, lengths, row.numpy, numbers)
    given = [creation.asarray(each, stream=0) if isinstance(each, np.ndarray) else each for each in hosts]
    out = function(*given, stream=0)
    outs = out if isinstance(out, tuple) else (out,)
    few = [each.reshape(-1)[:_DRAWN] if is_local and isinstance(each, np.ndarray) else each for each in hosts]
    wanted = function(*few)
    for number, (found, right) in enumerate(zip(outs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True)):
        first = found.reshape(-1)[:_DRAWN] if is_local else found
        check(f"result {number} of {name}", creation.asnumpy(first, stream=0), right)
    nbytes = sum(each.nbytes for each in (*outs, *(each for each in given if getattr(each, "ndim", 0))))
    works = {"ours": lambda: function(*given, out=out, stream=0), "copy": copy_of(nbytes)}
    times = gpu_ms(works, repeats=count)
    return Benchmark(name, lengths, row.name, times["ours"], times["copy"], nbytes)


def arguments_of(
    name: str, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype[Any], numbers: Mapping[str, Any]
) -> list[Any]:
    """Arrays of normal numbers, and numbers where they are given by name.

    Raises:
        OptionError: an unknown name, no number, or numbers alone.
    """
    for each, value in numbers.items():
        if each not in names:
            raise OptionError(f"{each} is no parameter of {name}, which has {', '.join(names)}")
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise OptionError(f"{each} must be a number; benchmarks make the arrays themselves")
    rng = np.random.default_rng(7)
    found = [
        numbers[each] if each in numbers else np.resize(rng.standard_normal(_DRAWN).astype(dtype), shape)
        for each in names
    ]
    if not any(isinstance(each, np.ndarray) for each in found):
        raise OptionError(f"all parameters of {name} are numbers; at least one must be an array")
    return found


def check(name: str, found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Raise Error unless results are NumPy's, but for rounding: in units of the largest."""
    if found.dtype == np.bool_:
        wrong = float(np.mean(found != wanted))
        if wrong > _ALLOWED_TRUTHS:
            raise Error(f"{name} differs from NumPy's in {wrong:.1%} of all places: no time is told")
        return
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    allowed = _ALLOWED * _PRECISION[found.dtype.itemsize] * max(float(finite.max(initial=0.0)), math.ulp(0.0))
    is_near = np.isclose(one, other, rtol=0.0, atol=allowed, equal_nan=True)
    if not is_near.all():
        place = np.unravel_index(int(np.argmin(is_near)), is_near.shape)
        at = tuple(map(int, place))
        raise Error(f"{name} is {one[place]} at {at} where NumPy's is {other[place]}: no time is told")
