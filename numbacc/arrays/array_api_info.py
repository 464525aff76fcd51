"""Inspection functions of `numbacc.array_api`, from the array API standard (2024.12): dtypes, devices, capabilities."""

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
#: The default dtypes of new arrays here, by the standard's names.
DEFAULTS = {"real floating": "float32", "complex floating": "complex64", "integral": "int64", "indexing": "int64"}


class FloatLimits(NamedTuple):
    """The limits of a float dtype, or of a complex dtype's parts, as Python numbers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


def result_type(*arrays_and_dtypes: Any) -> Any:
    """Return the dtype that arrays, dtypes and scalars promote to."""
    return np.result_type(*(getattr(each, "dtype", each) for each in arrays_and_dtypes))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Return whether a cast from one dtype to another keeps all values."""
    return np.can_cast(getattr(from_, "dtype", from_), to)


def finfo(type: Any, /) -> FloatLimits:
    """Return the limits of a float dtype."""
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
    """Return the limits of an integer dtype."""
    return np.iinfo(getattr(type, "dtype", type))


def isdtype(dtype: Any, kind: Any) -> Any:
    """Return whether a dtype is of a kind, or of one of several. bfloat16 and float8 are real floating dtypes."""
    if np.dtype(dtype).type.__module__ == "numpy":
        return np.isdtype(dtype, kind)
    kinds = kind if type(kind) is tuple else (kind,)
    return any(each in ("real floating", "numeric", dtype) for each in kinds)


class NamespaceInfo:
    """The capabilities, devices and dtypes of `numbacc.array_api`. A device is a GPU's number, as in arrays."""

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: no boolean indexing, no data-dependent shapes, and the largest supported rank."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": MAX_RANK}

    def default_device(self) -> int | None:
        """Return the GPU that new arrays are on; None without a GPU."""
        found = self.devices()
        return runtime().current_device() if runtime().device_count() else found[0] if found else None

    def devices(self) -> list[int]:
        """Return the numbers of all GPUs; without a GPU [0] if arrays are portable."""
        return list(range(runtime().device_count())) or [0] * is_portable()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes of new arrays that are made without one."""
        return {kind: np.dtype(name) for kind, name in DEFAULTS.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the standard's dtypes: all of them, one kind, or several kinds given as a tuple.

        Raises:
            OptionError: the kind is unknown.
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for each in kinds:
            if each not in _KINDS:
                raise unknown("kind", each, _KINDS, f"it is {', '.join(_KINDS)}")
        return {name: np.dtype(name) for each in kinds for name in _KINDS[each]}
