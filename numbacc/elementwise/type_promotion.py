"""Type promotion: the common dtype of a call's arguments and the dtype of its result, also for reductions.

It follows NumPy (NEP 50): arrays promote by their dtypes alone, and a Python scalar counts only by its kind. NumPy does
not define a result for bfloat16 with float16 or with wide integers; there torch's rule applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.dtypes import TABLE, DTypeInfo, info, real_of
from ..errors import DTypeError, shown

#: The types of Python scalars, which never widen a dtype of the same kind.
WEAK = (bool, int, float, complex)
#: Kinds from the narrowest to the widest: truth values, integers, floats, complex numbers.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_WEAK_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}
#: Kind -> its name in messages.
KINDS = {"b": "bool", "u": "unsigned integers", "i": "signed integers", "f": "floats", "c": "complex numbers"}


class Types(NamedTuple):
    """The dtypes of a call, by name.

    Attributes:
        common: the promoted dtype of the arguments.
        result: the dtype of the result.
        mixed: "m" if signed integers are compared with unsigned 64-bit integers, "w" if the unsigned ones come first.
            Both are then read as int64, with unchanged bits. Otherwise "".
        copied: True if results are elements of the arguments.
    """

    common: str
    result: str
    mixed: str = ""
    copied: bool = False

    @property
    def compute(self) -> str:
        """The dtype of the arithmetic."""
        return TABLE[self.common].bits_name if self.as_bits else str(TABLE[self.common].number)

    @property
    def as_bits(self) -> bool:
        """True if 8-bit and 16-bit floats are copied unchanged.

        Through a wider float, NaN would lose its bits, and 8-bit floats their infinities.
        """
        is_narrow = self.kind == "8" or (self.copied and self.kind == "f" and TABLE[self.common].bits == 16)
        return self.common == self.result and is_narrow

    @property
    def kind(self) -> str:
        """The kind of the common dtype, as `kind_of` returns it, or `mixed` if that is set."""
        return self.mixed or kind_of(self.common)


def kind_of(name: str) -> str:
    """Return the kind of a dtype: "b", "u", "i", "f" or "c", or "8" for 8-bit floats."""
    row = TABLE[name]
    if row.is_scaled:
        return "8"
    return "f" if row.is_float else row.numpy.kind


@lru_cache(maxsize=4096)
def promoted(given: tuple[Any, ...]) -> str:
    """Return the promoted dtype of arrays with these dtypes and scalars of these types.

    Args:
        given: names of dtypes, and members of `WEAK`.

    Raises:
        DTypeError: the dtypes cannot be promoted to a common one.
    """
    names = [each for each in given if isinstance(each, str)]
    found = names[0] if names else "bool"
    # Promote all NumPy dtypes at once: the result for three may differ from promoting two and then the third.
    numpys = [name for name in names if name != "bfloat16" and kind_of(name) != "8"]
    others = [name for name in names if name not in numpys]
    if numpys:
        found = info(np.result_type(*(TABLE[name].numpy for name in numpys))).name
    for name in others:
        found = _of_two(found, name)
    for each in given:
        if not isinstance(each, str):
            found = _with_number(found, each)
    return found


def _of_two(one: str, other: str) -> str:
    if one == other:
        return one
    for name in (one, other):
        if kind_of(name) == "8":
            raise DTypeError(
                f"{one} and {other} cannot be promoted to a common dtype: convert {name} with elementwise.astype"
            )
    try:
        return info(np.promote_types(TABLE[one].numpy, TABLE[other].numpy)).name
    except (TypeError, DTypeError):  # ml_dtypes does not promote bfloat16 with this dtype
        kinds = {kind_of(one), kind_of(other)}
        return "float32" if kinds == {"f"} else "bfloat16"


def _with_number(name: str, number: type) -> str:
    own, kind = kind_of(name), _WEAK_KINDS[number]
    if own == "8":
        raise DTypeError(f"scalars and {name} cannot be promoted to a common dtype: convert it with elementwise.astype")
    if _ORDER[kind] <= _ORDER[own]:
        return name
    if kind == "i":
        return "int64"
    if kind == "f":
        return "float64"
    return "complex64" if own == "f" and TABLE[name].compute == "float32" else "complex128"


def mixed_integers(given: Sequence[Any]) -> str:
    """Return `Types.mixed` for two dtypes, or types of Python scalars, that are compared."""
    kinds = [kind_of(each) if isinstance(each, str) else "" for each in given]
    if sorted(kinds) != ["i", "u"] or TABLE[given[kinds.index("u")]].bits < 64:
        return ""
    return "m" if kinds[0] == "i" else "w"


# ---------------------------------------------------------------- rules


def _keep(common: str) -> Types:
    return Types(common, common)


def _floating(common: str) -> Types:
    """Turn integers into floats, as NumPy does: 8 bits into float16, 16 bits into float32, more bits into float64."""
    if kind_of(common) in "bui":
        common = {1: "float16", 2: "float32"}.get(TABLE[common].itemsize, "float64")
    return _keep(common)


def as_floats(given: list[Any]) -> list[Any]:
    """Return several integer dtypes as the floats that NumPy casts each to: int8 and uint8 then promote to float16."""
    if len(given) > 1 and all(isinstance(each, str) and kind_of(each) in "bui" for each in given):
        return [_floating(each).common for each in given]
    return given


def _dividing(common: str) -> Types:
    """Turn integers and bool into float64."""
    return _keep("float64" if kind_of(common) in "bui" else common)


def _asking(common: str) -> Types:
    return Types(common, "bool")


def _real(common: str) -> Types:
    """Complex numbers become the dtype of their parts."""
    return Types(common, real_of(common))


def _angle(common: str) -> Types:
    return _real(_floating(common).common)


#: Rule -> (common dtype -> dtypes of the call).
RULES = {
    "keep": _keep,
    "float": _floating,
    "divide": _dividing,
    "bool": _asking,
    "real": _real,
    "angle": _angle,
}


def refused(function: str, names: Sequence[str], given: Sequence[Any], kinds: str) -> DTypeError:
    """Return the error of a function that does not support the arguments' common dtype."""
    told = ", ".join(
        f"{name} has dtype {each}" if isinstance(each, str) else f"{name} is a Python {each.__name__}"
        for name, each in zip(names, given, strict=True)
    )
    known = [KINDS[kind] for kind in "buifc" if kind in kinds]
    takes = known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"
    return DTypeError(f"{told}; {function} supports {takes}: convert with elementwise.astype")


@lru_cache(maxsize=1024)
def is_stored_as(result: str, out: str) -> bool:
    """Return whether results of one dtype may be stored in an array of another: of the same kind, or of a wider one."""
    own, other = kind_of(result), kind_of(out)
    if "8" in (own, other) or (own, other) == ("i", "u"):
        return False
    return _ORDER[own] <= _ORDER[other]


def dtype_of(spec: Any) -> Any:
    """Return the option `dtype` in a unique form: None, or a NumPy dtype."""
    return None if spec is None else dtypes.dtype(spec)


def types_of(
    name: str, row: DTypeInfo, asked: Any, own: str = "x", *, rule: str = "total", takes_complex: bool = True
) -> tuple[np.dtype[Any], str]:
    """Return (the result's dtype, the name of the compute dtype) of a function of one array.

    Args:
        name: the function's name.
        row: the array's dtype.
        asked: the option `dtype`, or None.
        own: the array's name.
        rule: a rule of `kernels.reduce.functions.ReductionFunction`. Or "index" for int64; or "real", which is like
            "mean", but real for complex numbers.
        takes_complex: whether the array may be complex.

    Raises:
        DTypeError: the function does not support the array's dtype, or results of the requested dtype.
    """
    kind = _kind(row) if row.compute is not None else None
    if kind is None or (kind == "complex" and not takes_complex):
        raise DTypeError(
            f"{own} has dtype {row.name}; {name} needs floats of 16 bits and more, integers"
            f"{', complex numbers' if takes_complex else ''} and bool"
        )
    if rule == "bool":
        return np.dtype(bool), str(row.compute)
    if rule == "index":
        return np.dtype(np.int64), "uint8" if kind == "bool" else str(row.compute)
    if rule == "keep":
        return row.numpy, str(row.compute)
    if kind == "complex" and rule == "real":
        if asked is not None:
            raise DTypeError(
                f"dtype={shown(asked)} is not supported for complex {own}: convert {own}, or leave dtype out"
            )
        return np.dtype(real_of(str(row.compute))), str(row.compute)
    if asked is None:
        asked = row.numpy
        if rule == "total":
            wide = {"bool": "int64", "integer": "uint64" if row.numpy.kind == "u" else "int64"}.get(kind)
        else:
            wide = "float64" if kind in ("bool", "integer") else None
        asked = row.numpy if wide is None else np.dtype(wide)
    wanted = info(asked, "dtype")
    known = ("float", *["complex"] * (takes_complex and rule != "real"), *["integer"] * (rule == "total"))
    if wanted.compute is None or _kind(wanted) not in known:
        raise DTypeError(
            f"dtype={wanted.name} is not supported for results of {name}: use one of {', '.join(known)} dtypes"
        )
    if kind == "complex" and _kind(wanted) != "complex":
        raise DTypeError(f"dtype={wanted.name} is real, but {own} is {row.name}: pass {own}.real, or leave dtype out")
    return wanted.numpy, str(wanted.compute)


def _kind(row: DTypeInfo) -> str:
    """Return the kind of a dtype: "float", "complex", "integer" or "bool"."""
    if row.parts == 2:
        return "complex"
    return "float" if row.is_float else "bool" if row.name == "bool" else "integer"
