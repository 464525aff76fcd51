"""The draws of a generator's methods, after their arguments have been checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base import checks
from ..errors import OptionError, UnsupportedError
from ..libraries.curand import MAX_POISSON_MEAN, SequenceKind
from .draw import Draw, of_values, of_words

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")

#: Method -> the supported dtypes, the default first.
DTYPES = {
    "bits": ("uint32", "uint64"),
    "random": FLOATS,
    "uniform": FLOATS,
    "integers": INTEGERS,
    "dropout_mask": (*FLOATS, "bool"),
    "normal": FLOATS,
    "lognormal": FLOATS,
    "poisson": ("int64", "int32", "uint64", "uint32"),
}

Dtype = np.dtype[Any]


def _bits(sequence: SequenceKind, dtype: Dtype) -> Draw:
    words = dtype.itemsize // 4
    return _words(sequence, "bits", words, dtype, (0, 0, 0.0, 0.0), 32 * words)


def _random(sequence: SequenceKind, dtype: Dtype) -> Draw:
    return _words(sequence, "random", 1 + (dtype == np.float64), dtype)


def _uniform(sequence: SequenceKind, dtype: Dtype, low: float, high: float) -> Draw:
    first, last = checks.real(low, "low"), checks.real(high, "high")
    if not first < last:
        raise OptionError(f"low={low} and high={high}: low must be below high")
    span = checks.real(last - first, "high - low")
    largest = float(np.finfo(np.float64 if dtype == np.float64 else np.float32).max)
    if max(-first, last, span) > largest:
        raise OptionError(f"low={low} and high={high} are too far apart for {dtype}: use float64")
    return _words(sequence, "uniform", 1 + (dtype == np.float64), dtype, (0, 0, first, span))


def _integers(sequence: SequenceKind, dtype: Dtype, low: int, high: int, endpoint: bool) -> Draw:
    first, last = low, high - (not endpoint)
    if first > last:
        raise OptionError(f"low={low} and high={high}: low must be below high")
    bounds = np.iinfo(dtype)
    if first < bounds.min or last > bounds.max:
        raise OptionError(f"low={low} and high={high} reach beyond {dtype}, which holds {bounds.min} to {bounds.max}")
    most = last - first
    few = most < 2**32
    return _words(sequence, "integers", 2 if few else 4, dtype, (most, first % 2**64, 0.0, 0.0), most.bit_length())


def _dropout_mask(sequence: SequenceKind, dtype: Dtype, p: float) -> Draw:
    dropped = checks.real(p, "p")
    if not 0 <= dropped <= 1:
        raise OptionError(f"p={p} is not a probability: it must be from 0 to 1")
    kept = 1 / (1 - dropped) if dropped < 1 else 0.0
    return _words(sequence, "mask", 1, dtype, (round(dropped * 2**32), 0, kept, 0.0))


def _normal(sequence: SequenceKind, dtype: Dtype, loc: float, scale: float) -> Draw:
    mean, deviation = checks.real(loc, "loc"), checks.at_least_0(scale, "scale")
    return _normals(sequence, "normal", "curandGenerateNormal", mean, deviation, dtype)


def _lognormal(sequence: SequenceKind, dtype: Dtype, mean: float, sigma: float) -> Draw:
    location, deviation = checks.real(mean, "mean"), checks.at_least_0(sigma, "sigma")
    return _normals(sequence, "lognormal", "curandGenerateLogNormal", location, deviation, dtype)


def _poisson(sequence: SequenceKind, dtype: Dtype, lam: float) -> Draw:
    mean = checks.real(lam, "lam")
    if not 0 < mean <= MAX_POISSON_MEAN:
        raise OptionError(f"lam={lam} is out of range: it must be above 0 and at most {MAX_POISSON_MEAN}")
    return of_values(sequence, "curandGeneratePoisson", (mean,), "uint32", "")


#: Method -> a function of (sequence, dtype, the method's own arguments) that returns the draw.
DRAWS: dict[str, Callable[..., Draw]] = {
    "bits": _bits,
    "random": _random,
    "uniform": _uniform,
    "integers": _integers,
    "dropout_mask": _dropout_mask,
    "normal": _normal,
    "lognormal": _lognormal,
    "poisson": _poisson,
}


def _words(
    sequence: SequenceKind,
    formula: str,
    words: int,
    dtype: Dtype,
    parameters: tuple[int, int, float, float] = (0, 0, 0.0, 0.0),
    bits: int = 0,
) -> Draw:
    """Describe values that a formula makes of `words` outputs each, or of one output of a quasi-random kind."""
    kind = sequence.row
    if kind.quasi and kind.bits < bits:
        raise UnsupportedError(f"{kind.name} has outputs of 32 bits, not of {bits}: use sobol64")
    return of_words(sequence, formula, words, dtype, parameters)


def _normals(sequence: SequenceKind, name: str, function: str, mean: float, deviation: float, dtype: Dtype) -> Draw:
    double = dtype == np.float64
    # Adding 0.0 turns -0.0 into 0.0, since they share a plan.
    arguments = mean + 0.0, deviation + 0.0
    native = "float64" if double else "float32"
    return of_values(sequence, function + "Double" * double, arguments, native, name)
