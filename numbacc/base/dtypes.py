"""The table of dtypes: their NumPy names, compute dtypes and DLPack codes.

Everything that depends on a dtype is a column of this table, so no other module needs tests such as "is it a float16?".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from ..errors import DTypeError, nearest, shown
from .casts import cast

#: DLPack's type codes (dlpack.h, DLDataTypeCode).
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_FLOAT8_E4M3FN, _FLOAT8_E5M2 = 10, 12


class Conversion(NamedTuple):
    """The PTX instructions between a 16-bit or 8-bit float and the float32 that kernels compute in.

    Attributes:
        widen: to float32; "" if the number is the upper half of a float32. For 8-bit floats, a pair to float16.
        narrow: from float32, rounded to nearest, ties to even; "" if only the instruction for pairs exists.
        narrow_pair: from two float32; the first becomes the low half of a word.
        narrow_double: from float64; "" if no such instruction exists.
        pairs_from: the lowest compute capability with the instructions for pairs.
    """

    widen: str
    narrow: str
    narrow_pair: str
    narrow_double: str
    pairs_from: tuple[int, int] = (8, 0)


class Products(NamedTuple):
    """The properties of matrix products of a dtype.

    Attributes:
        code: CUDA's number of the dtype (library_types.h, cudaDataType_t).
        compute: the values that `compute` may have; the first is the default.
        outs: the dtypes that the result may have; the first is the default.
        accumulator: dtype of the sums of products.
        multiple: k and n must be multiples of this.
        oldest_capability: the lowest compute capability with tensor cores for it; (0, 0) if none are needed.
    """

    code: int
    compute: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    accumulator: str = "float32"
    multiple: int = 1
    oldest_capability: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class DTypeInfo:
    """One row of the table.

    Attributes:
        name: the NumPy (or ml_dtypes) name.
        numpy: the NumPy dtype.
        compute: name of the dtype that kernels compute in; None if they only copy and convert it.
        dlpack_code: DLPack's type code.
        oldest_capability: the lowest compute capability with hardware conversions to and from it.
        conversion: how kernels convert it to `number`, if that is another dtype.
        products: how cuBLASLt multiplies matrices of it; None if cuBLASLt does not support it.
        parts: numbers of an element: 2 if it is complex, else 1.
    """

    name: str
    numpy: np.dtype[Any]
    compute: str | None
    dlpack_code: int
    oldest_capability: tuple[int, int] = (5, 0)
    conversion: Conversion | None = None
    products: Products | None = None

    @property
    def parts(self) -> int:
        return 2 if self.dlpack_code == _COMPLEX else 1

    @property
    def number(self) -> str | None:
        """Name of the dtype of its numbers in kernels; None if kernels only copy it."""
        return self.compute or (None if self.conversion is None else "float32")

    @property
    def is_converted(self) -> bool:
        """True if kernels must convert an element in memory to get a number."""
        return self.conversion is not None or self.name == "bool"

    @property
    def is_scaled(self) -> bool:
        """True for 8-bit floats, whose arrays come with a scale."""
        return self.bits == 8 and self.dlpack_code in (_FLOAT8_E4M3FN, _FLOAT8_E5M2)

    @property
    def is_float(self) -> bool:
        """True for real floats that kernels compute with."""
        return self.compute in ("float32", "float64")

    @property
    def itemsize(self) -> int:
        return int(self.numpy.itemsize)

    @property
    def bits(self) -> int:
        return 8 * self.itemsize

    @property
    def bits_name(self) -> str:
        """Name of the integer dtype that kernels copy elements as; for 32-bit floats and others, the dtype's own."""
        return f"uint{self.bits}" if self.is_scaled or (self.is_float and self.bits == 16) else self.name

    @property
    def significand_bits(self) -> int:
        """Bits of a float's precision: multiples of 2 to minus that number are exact in [0, 1]."""
        return int(ml_dtypes.finfo(self.numpy).nmant) + 1


def _row(
    scalar: Any,
    compute: str | None,
    code: int,
    oldest: tuple[int, int] = (5, 0),
    *,
    ptx: Conversion | None = None,
    products: Products | None = None,
) -> DTypeInfo:
    dtype = np.dtype(scalar)
    return DTypeInfo(dtype.name, dtype, compute, code, oldest, ptx, products)


_HALF = Conversion(
    "cvt.f32.f16 $0, $1;", "cvt.rn.f16.f32 $0, $1;", "cvt.rn.f16x2.f32 $0, $2, $1;", "cvt.rn.f16.f64 $0, $1;"
)
_BRAIN = Conversion("", "cvt.rn.bf16.f32 $0, $1;", "cvt.rn.bf16x2.f32 $0, $2, $1;", "")
_E4M3 = Conversion("cvt.rn.f16x2.e4m3x2 $0, $1;", "", "cvt.rn.satfinite.e4m3x2.f32 $0, $2, $1;", "", pairs_from=(8, 9))
_E5M2 = Conversion("cvt.rn.f16x2.e5m2x2 $0, $1;", "", "cvt.rn.satfinite.e5m2x2.f32 $0, $2, $1;", "", pairs_from=(8, 9))
_FLOAT8_OUTS = ("bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e5m2")


def _float8(code: int) -> Products:
    return Products(code, ("float32", "fast"), _FLOAT8_OUTS, multiple=16, oldest_capability=(8, 9))


_ROWS = (
    _row(np.float32, "float32", _FLOAT, products=Products(0, ("float32", "tf32"), ("float32",))),
    _row(np.float64, "float64", _FLOAT, products=Products(1, ("float64",), ("float64",), "float64")),
    _row(np.float16, "float32", _FLOAT, ptx=_HALF, products=Products(2, ("float32",), ("float16", "float32"))),
    _row(
        ml_dtypes.bfloat16,
        *("float32", _BFLOAT, (8, 0)),
        ptx=_BRAIN,
        products=Products(14, ("float32",), ("bfloat16", "float32")),
    ),
    _row(ml_dtypes.float8_e4m3fn, None, _FLOAT8_E4M3FN, ptx=_E4M3, products=_float8(28)),
    _row(ml_dtypes.float8_e5m2, None, _FLOAT8_E5M2, ptx=_E5M2, products=_float8(29)),
    _row(np.int8, "int8", _INT, products=Products(3, ("int32",), ("int32",), "int32", 4, (7, 5))),
    _row(np.int16, "int16", _INT),
    _row(np.int32, "int32", _INT, products=Products(10)),
    _row(np.int64, "int64", _INT),
    *(_row(f"uint{n}", f"uint{n}", _UINT) for n in (8, 16, 32, 64)),
    _row(np.complex64, "complex64", _COMPLEX),
    _row(np.complex128, "complex128", _COMPLEX),
    _row(np.bool_, "bool", _BOOL),
)

TABLE: dict[str, DTypeInfo] = {row.name: row for row in _ROWS}
#: The real floats that kernels compute with.
FLOATS = tuple(name for name, row in TABLE.items() if row.is_float)
_BY_NUMPY: dict[np.dtype[Any], DTypeInfo] = {row.numpy: row for row in _ROWS}
_BY_DLPACK: dict[tuple[int, int], DTypeInfo] = {(row.dlpack_code, row.bits): row for row in _ROWS}


def dtype(spec: Any, name: str = "dtype") -> np.dtype[Any]:
    """Return the NumPy dtype of `spec`: a name, a NumPy or ml_dtypes scalar type, or a dtype.

    Args:
        spec: the value of an argument.
        name: the argument's name, for the message.

    Raises:
        DTypeError: numbacc does not support arrays of that dtype.
    """
    try:
        return _dtype(spec)
    except DTypeError as error:
        # Other libraries' dtypes have names such as torch.float32.
        called = spec if isinstance(spec, str) else "" if isinstance(spec, (int, type, np.dtype)) else repr(spec)
        raise DTypeError(f"{name}={shown(spec)} {error}{nearest(called, TABLE)}") from None
    except TypeError:  # a value that cannot be hashed is not a dtype
        raise DTypeError(f"{name}={shown(spec)} {_UNKNOWN}") from None


_UNKNOWN = f"is not a dtype that NumPy or ml_dtypes knows; numbacc supports {', '.join(TABLE)}"


@lru_cache(maxsize=256)
def _dtype(spec: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of `spec`; errors describe the problem without the argument's name."""
    found = None
    # NumPy would accept None as float64, and a number as its dtype. Also, equal numbers such as 1, True and 1.0 would
    # share an entry of the cache.
    if isinstance(spec, (str, type, np.dtype)):
        try:
            found = np.dtype(TABLE[spec].numpy if isinstance(spec, str) and spec in TABLE else spec)
        except Exception:
            found = None
    if found is None:
        raise DTypeError(_UNKNOWN)
    if found not in _BY_NUMPY:
        raise DTypeError(f"is {found}, which numbacc does not support; use one of {', '.join(TABLE)}")
    return _BY_NUMPY[found].numpy


def info(numpy_dtype: np.dtype[Any], name: str = "") -> DTypeInfo:
    """Return the table's row for a NumPy dtype, which is that of the argument `name`.

    Raises:
        DTypeError: the dtype is not in the table.
    """
    row = _BY_NUMPY.get(numpy_dtype)
    if row is None:
        which = f"{name} has dtype {numpy_dtype}, which" if name else f"dtype {numpy_dtype}"
        raise DTypeError(f"{which} is not supported in a numbacc array; use one of {', '.join(TABLE)}")
    return row


def real_of(name: str) -> str:
    """Return the dtype of a complex dtype's parts; return another dtype unchanged."""
    return f"float{TABLE[name].bits // 2}" if TABLE[name].parts == 2 else name


def words(value: Any, name: str) -> tuple[int, ...]:
    """Return a number of dtype `name` as the 64-bit words that kernels receive: the bits of each of its parts."""
    # 0.0 and -0.0 are equal but have different words.
    return _words(value, repr(value), name)


@lru_cache(maxsize=4096)
def _words(value: Any, written: str, name: str) -> tuple[int, ...]:
    data = cast(value, TABLE[name].numpy).tobytes()
    size = len(data) // TABLE[name].parts
    return tuple(int.from_bytes(data[k : k + size], "little", signed=True) for k in range(0, len(data), size))


def from_dlpack(code: int, bits: int, lanes: int, name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a DLPack type triple; `name` is the argument's name, for the message.

    Raises:
        DTypeError: the table does not contain that triple.
    """
    row = _BY_DLPACK.get((code, bits))
    if row is None or lanes != 1:
        raise DTypeError(
            f"{name} has DLPack's type code {code}, {bits} bits, {lanes} lanes; numbacc supports {', '.join(TABLE)}"
        )
    return row.numpy
