"""What formulas cannot do with numbers that are only known when a kernel runs: each says so, and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

_WHEN = "a number that is only known when it runs"
#: What else there is to say where Python says that a number is no sequence.
ELEMENTS = "a formula is given one number of each array: pass other elements as arguments, x[1:] beside x[:-1]"
#: What is said of & | ^ where they are not of truth values.
COMBINES = (
    "it combines bits of numbers: of truth values write `and`, `or`, `!=`; of arrays of integers call "
    "elementwise.bitwise_and and the like"
)
_SHIFTS = "multiply by a power of 2.0, or call elementwise.left_shift or right_shift with arrays"
_MATRICES = "* multiplies numbers, and gemm.matmul arrays"

#: Special method -> what it does, and what to do instead.
_REFUSED = {
    "float": f"makes a Python float of {_WHEN}: leave float() out, it is one in the kernel",
    "int": f"makes a Python integer of {_WHEN}: math.trunc, math.floor and round are for kernels",
    "index": f"takes an index, or the length of a loop, from {_WHEN}: choose with comparisons, or elementwise.where",
    "complex": f"makes a complex number of {_WHEN}: formulas are of real numbers",
    "call": "calls a number",
    "enter": "enters a number, as if it were a context",
    "hash": f"looks up {_WHEN}, in a set, a dict or a cache: compare with ==",
    "str": f"writes out {_WHEN}: call the Python function itself, its py_func, to see numbers",
    "format": f"writes out {_WHEN}: call the Python function itself, its py_func, to see numbers",
    "invert": "takes ~ of a number: of a truth value write `not`; of integers call elementwise.bitwise_not with arrays",
    **dict.fromkeys(("lshift", "rlshift", "rshift", "rrshift"), f"shifts bits of numbers: {_SHIFTS}"),
    **dict.fromkeys(("matmul", "rmatmul"), f"multiplies matrices with @: {_MATRICES}"),
}
_REDUCTIONS = "elementwise.reduction makes reductions of formulas"
#: Attribute -> what to do instead.
_INSTEAD = {
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "any", "all", "std", "var"), _REDUCTIONS),
    **dict.fromkeys(("real", "conjugate", "conj", "copy", "item", "astype"), "leave it out"),
    "is_integer": "compare x == math.floor(x)",
    "clip": "elementwise.clamp takes numbers",
    "round": "round takes numbers",
}
#: Function of `math` that kernels do not have -> what to do instead.
OTHERS = {
    "fsum": "sum takes numbers",
    "sumprod": "sum takes numbers",
    "dist": "math.hypot takes differences",
    "isclose": "compare abs(x - y) <= tolerance",
    "modf": "math.trunc(x) is the whole part, x - math.trunc(x) the rest",
    "frexp": "math.floor(math.log2(abs(x))) is the exponent",
    "ldexp": "multiply by 2.0 ** n",
    **dict.fromkeys(("nextafter", "ulp"), "elementwise.nextafter gives the neighbours of arrays' numbers"),
    "factorial": "math.gamma(x + 1) is for kernels",
    "isqrt": "math.floor(math.sqrt(x)) is for kernels",
    "hypot": "of more than three take math.sqrt of the sum of squares",
}


class Refused(TypeError, AttributeError):
    """A formula does what kernels cannot. `hasattr` finds no attribute."""


class Unknown:
    """A number that is only known when a kernel runs."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        hint = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
        raise Refused(f"it takes .{name} of a number, which kernels do not have{hint}")

    def __repr__(self) -> str:
        return f"<{_WHEN}>"


def _refusing(does: str) -> Callable[..., NoReturn]:
    def refuse(*given: Any) -> NoReturn:
        raise Refused(f"it {does}")

    return refuse


for _name, _does in _REFUSED.items():
    setattr(Unknown, f"__{_name}__", _refusing(_does))
