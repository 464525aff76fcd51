"""In which dtype the arguments of an elementwise function meet, and which its result has; and that of reductions.

As NumPy has it (NEP 50): arrays by their dtypes alone, of Python's numbers only the kind. Where NumPy has no answer
(bfloat16 beside float16 or wide integers) torch's holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.dtypes import TABLE, DTypeInfo, info, real_of
from ..errors import DTypeError, shown

#: Python's numbers, whose dtype is that of the arrays beside them.
WEAK = (bool, int, float, complex)
#: From the narrowest kind to the widest: truth values, integers, floats, complex numbers.
_ORDER = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_WEAK_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}
#: Kind -> how messages call it.
KINDS = {"b": "bool", "u": "unsigned integers", "i": "signed integers", "f": "floats", "c": "complex numbers"}


class Types(NamedTuple):
    """The dtypes of a call, by name.

    Attributes:
        common: that in which the arguments meet.
        result: that of the result.
        mixed: "m" where signed integers are compared with unsigned ones of 64 bits, "w" where these are the first;
            both as int64, with their bits. "" else.
    """

    common: str
    result: str
    mixed: str = ""

    @property
    def compute(self) -> str:
        """That of the arithmetic."""
        return "uint8" if self.as_bits else str(TABLE[self.common].number)

    @property
    def as_bits(self) -> bool:
        """True where floats of 8 bits stay what they are: as numbers they would lose infinities and NaN's bits."""
        return self.common == self.result and self.kind == "8"

    @property
    def kind(self) -> str:
        """The kind of the common dtype, as `kind_of` has it; or what `mixed` says."""
        return self.mixed or kind_of(self.common)


def kind_of(name: str) -> str:
    """The kind of a dtype: "b", "u", "i", "f" or "c"; "8" of floats of 8 bits."""
    row = TABLE[name]
    if row.is_scaled:
        return "8"
    return "f" if row.is_float else row.numpy.kind


@lru_cache(maxsize=4096)
def promoted(given: tuple[Any, ...]) -> str:
    """The dtype in which arrays of these dtypes and Python's numbers of these types meet.

    Args:
        given: names of dtypes, and members of `WEAK`.

    Raises:
        DTypeError: they do not meet.
    """
    names = [each for each in given if isinstance(each, str)]
    found = names[0] if names else "bool"
    # All of NumPy's at once: of three it does not say what it says of two and then the third.
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
            raise DTypeError(f"{one} and {other} do not meet: elementwise.astype converts {name}")
    try:
        return info(np.promote_types(TABLE[one].numpy, TABLE[other].numpy)).name
    except (TypeError, DTypeError):  # bfloat16 beside what ml_dtypes leaves open
        kinds = {kind_of(one), kind_of(other)}
        return "float32" if kinds == {"f"} else "bfloat16"


def _with_number(name: str, number: type) -> str:
    own, kind = kind_of(name), _WEAK_KINDS[number]
    if own == "8":
        raise DTypeError(f"numbers and {name} do not meet: elementwise.astype converts it")
    if _ORDER[kind] <= _ORDER[own]:
        return name
    if kind == "i":
        return "int64"
    if kind == "f":
        return "float64"
    return "complex64" if own == "f" and TABLE[name].compute == "float32" else "complex128"


def mixed_integers(given: Sequence[Any]) -> str:
    """`Types.mixed` of two dtypes, or types of Python's numbers, that are to be compared."""
    kinds = [kind_of(each) if isinstance(each, str) else "" for each in given]
    if sorted(kinds) != ["i", "u"] or TABLE[given[kinds.index("u")]].bits < 64:
        return ""
    return "m" if kinds[0] == "i" else "w"


# ---------------------------------------------------------------- rules


def _keep(common: str) -> Types:
    return Types(common, common)


def _floating(common: str) -> Types:
    """Integers become the float that holds them, as NumPy has it: 8 bits float16, 16 float32, more float64."""
    if kind_of(common) in "bui":
        common = {1: "float16", 2: "float32"}.get(TABLE[common].itemsize, "float64")
    return _keep(common)


def as_floats(given: list[Any]) -> list[Any]:
    """Dtypes of several arrays of integers as the floats that NumPy casts each to: int8 and uint8 meet in float16."""
    if len(given) > 1 and all(isinstance(each, str) and kind_of(each) in "bui" for each in given):
        return [_floating(each).common for each in given]
    return given


def _dividing(common: str) -> Types:
    """Of integers float64."""
    return _keep("float64" if kind_of(common) in "bui" else common)


def _asking(common: str) -> Types:
    return Types(common, "bool")


def _real(common: str) -> Types:
    """Of complex numbers the dtype of their parts."""
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
    """The error where a function does not take what the arguments meet in."""
    told = ", ".join(
        f"{name} has dtype {each}" if isinstance(each, str) else f"{name} is a Python {each.__name__}"
        for name, each in zip(names, given, strict=True)
    )
    known = [KINDS[kind] for kind in "buifc" if kind in kinds]
    takes = known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"
    return DTypeError(f"{told}; {function} takes {takes}: elementwise.astype converts")


@lru_cache(maxsize=1024)
def is_stored_as(result: str, out: str) -> bool:
    """True if results of one dtype may be written to an array of another: one of its kind, or of a wider one."""
    own, other = kind_of(result), kind_of(out)
    if "8" in (own, other) or (own, other) == ("i", "u"):
        return False
    return _ORDER[own] <= _ORDER[other]


def dtype_of(spec: Any) -> Any:
    """The option `dtype` in one form: None, or a NumPy dtype."""
    return None if spec is None else dtypes.dtype(spec)


def types_of(
    name: str, row: DTypeInfo, asked: Any, own: str = "x", *, rule: str = "total", takes_complex: bool = True
) -> tuple[np.dtype[Any], str]:
    """(the result's dtype, the name of the one that is computed in), of a function of an array that it calls `own`.

    Args:
        name: the function's.
        row: the array's dtype.
        asked: the option dtype, or None.
        own: the array's name.
        rule: as in `kernels.reduce.functions.ReductionFunction`; "index": int64; "real": as "mean", but real of
            complex numbers.
        takes_complex: whether the array may be complex.

    Raises:
        DTypeError: the function does not take x's dtype, or has no result of the one that is asked for.
    """
    kind = _kind(row) if row.compute is not None else None
    if kind is None or (kind == "complex" and not takes_complex):
        raise DTypeError(
            f"{own} has dtype {row.name}; {name} takes floats of 16 bits and more, integers"
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
            raise DTypeError(f"dtype={shown(asked)}: {own} is complex, its {name} real; convert {own}, leave dtype out")
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
            f"dtype={wanted.name} is none that {name} has results of: use one of {', '.join(known)} dtypes"
        )
    if kind == "complex" and _kind(wanted) != "complex":
        raise DTypeError(f"dtype={wanted.name} is real, and {own} is {row.name}: sum {own}.real, or leave dtype out")
    return wanted.numpy, str(wanted.compute)


def _kind(row: DTypeInfo) -> str:
    """What a dtype is of: "float", "complex", "integer" or "bool"."""
    if row.parts == 2:
        return "complex"
    return "float" if row.is_float else "bool" if row.name == "bool" else "integer"
