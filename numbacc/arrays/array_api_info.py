"""What `numbacc.array_api` says of itself, as the array API standard (2024.12) asks: dtypes, devices, what it can."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..base.dispatch import runtime
from ..base.layout import MAX_RANK
from ..errors import unknown
from ..runtime.streams import is_portable

_REAL, _COMPLEX = ("float32", "float64"), ("complex64", "complex128")
_SIGNED, _UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
_KINDS = {
    "bool": ("bool",), "signed integer": _SIGNED, "unsigned integer": _UNSIGNED, "integral": (*_SIGNED, *_UNSIGNED),
    "real floating": _REAL, "complex floating": _COMPLEX, "numeric": (*_SIGNED, *_UNSIGNED, *_REAL, *_COMPLEX),
}  # fmt: skip
#: The dtypes that the standard asks for by default, as functions here make arrays.
DEFAULTS = {"real floating": "float32", "complex floating": "complex64", "integral": "int64", "indexing": "int64"}


class FloatLimits(NamedTuple):
    """The limits of a float dtype, or of a complex one's parts, as Python's numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype in which arrays, dtypes and numbers meet."""
    return np.result_type(*(getattr(each, "dtype", each) for each in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether one dtype's numbers are held by another."""
    return np.can_cast(getattr(from_, "dtype", from_), to)


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a float dtype."""
    dtype = np.dtype(getattr(type, "dtype", type))
    found = ml_dtypes.finfo(dtype)
    return FloatLimits(
        int(found.bits),
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        np.dtype(found.dtype),
    )


def iinfo(type: Any, /) -> Any:
    """The limits of an integer dtype."""
    return np.iinfo(getattr(type, "dtype", type))


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is of a kind, or one of several; bfloat16 and float8 are real floating ones."""
    if np.dtype(dtype).type.__module__ == "numpy":
        return np.isdtype(dtype, kind)
    kinds = kind if type(kind) is tuple else (kind,)
    return any(each in ("real floating", "numeric", dtype) for each in kinds)


class NamespaceInfo:
    """What `numbacc.array_api` has. Devices are the GPUs' numbers, as arrays have them."""

    def capabilities(self) -> dict[str, Any]:
        """No indexing by masks, no shapes that depend on numbers; the most dimensions that functions take."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": MAX_RANK}

    def default_device(self) -> int | None:
        """The GPU that arrays are made on; None without one."""
        found = self.devices()
        return runtime().current_device() if runtime().device_count() else found[0] if found else None

    def devices(self) -> list[int]:
        """The numbers of all GPUs, and without one 0 where arrays are portable."""
        return list(range(runtime().device_count())) or [0] * is_portable()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays that are made without one."""
        return {kind: np.dtype(name) for kind, name in DEFAULTS.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes of a kind, of one of several in a tuple, or all.

        Raises:
            OptionError: there is no such kind.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for each in kinds:
            if each not in _KINDS:
                raise unknown("kind", each, _KINDS, f"it is {', '.join(_KINDS)}")
        return {name: np.dtype(name) for each in kinds for name in _KINDS[each]}
