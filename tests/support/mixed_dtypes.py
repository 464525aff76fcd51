"""What dtypes meet in, and calls of elementwise functions on arrays of any dtype."""

from __future__ import annotations

import numpy as np

from numbacc.base import dtypes

#: All dtypes but the floats of 8 bits.
NAMES = [name for name, row in dtypes.TABLE.items() if not row.is_scaled]


REAL = [name for name in NAMES if not name.startswith("complex")]


NUMBERS = [name for name in NAMES if name != "bool"]


def dtype(name):
    return dtypes.TABLE[name].numpy


def values(shape, name, seed=0, low=0, high=8):
    """Small whole numbers: sums and products of two are exact in every dtype."""
    found = np.random.default_rng(seed).integers(low, high, shape)
    return np.asarray(found % 2 == 1 if name == "bool" else found).astype(dtype(name))


def one(place, name):
    return place.put(np.ones(2, dtype(name)))


def met(*given):
    """The dtype in which dtypes, by name, and types of Python's numbers meet: NumPy's answer; of bfloat16 torch's."""
    named = [each for each in given if isinstance(each, str)]
    others = [dtype(name) for name in named if name != "bfloat16"]
    found = np.result_type(*others).name if others else "bfloat16"
    if "bfloat16" in named and not found.startswith("complex"):
        found = {"float16": "float32", "float32": "float32", "float64": "float64"}.get(found, "bfloat16")
    for each in given:
        if not isinstance(each, str):
            like = "float32" if found == "bfloat16" else found
            wide = np.result_type(np.dtype(like), each(1)).name
            found = found if wide == like else wide
    return found
