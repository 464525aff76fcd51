"""Python's operators and NumPy's functions on device arrays. They compute on the GPU, and never copy to the host.

Each finds its function by name when it is first needed (`lookup`). Functions without a GPU version raise an error.
`bool`, `int` and `float` read the value of an array with one element.
"""

from __future__ import annotations

import operator
from typing import Any, NoReturn

import numpy as np

from ..errors import DTypeError, OptionError, ShapeError, shown
from . import protocols
from .lookup import called, find, function, made_of_others, refusal

#: Other types of operands than arrays. For any further type, Python tries the other operand, and then raises TypeError.
_OPERANDS = (bool, int, float, complex, np.generic, np.ndarray)


class Operators:
    """A base class of device arrays. It precedes Numba's class, whose simulated arrays define operators, too."""

    __slots__ = ()

    # Higher than any host array's priority: these leave `host + device` to the operators here.
    __array_priority__ = 1e6
    __hash__ = None  # type: ignore[assignment]

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return numbacc's functions of the array API standard (2024.12); see `numbacc.array_api`.

        Raises:
            OptionError: api_version is another version.
        """
        found: Any = function("__array_namespace__")
        if api_version not in (None, found.__array_api_version__, "2023.12", "2022.12", "2021.12"):
            raise OptionError(f"api_version={shown(api_version)} is not {found.__array_api_version__} or an older one")
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise refusal("making a NumPy array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute a ufunc of NumPy or SciPy by numbacc's function of that name, and return a device array."""
        what = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        # NumPy passes its own scalars as arrays.
        inputs = tuple([each[()] if type(each) is np.ndarray and not each.ndim else each for each in inputs])
        if ufunc is np.divmod and method == "__call__" and not options:
            return function("floor_divide")(*inputs), function("remainder")(*inputs)
        name, given, more = protocols.of_ufunc(ufunc, method, inputs, options)
        found = None if name is None else find(name)
        if found is None and method == "__call__":
            found = made_of_others(ufunc)
        return called(what, found, given, more)

    def __array_function__(self, theirs: Any, types: Any, arguments: tuple[Any, ...], options: Any) -> Any:
        """Compute a function of NumPy, and return a device array, or an attribute."""
        answer = protocols.answer(theirs, arguments, options)
        if answer is not protocols.UNKNOWN:
            return answer
        what, (name, given, more) = f"numpy.{theirs.__name__}", protocols.of_function(theirs, arguments, options)
        return called(what, made_of_others(theirs) if name is None else find(name), given, more)

    def __contains__(self, value: Any) -> NoReturn:
        raise refusal("in")

    def __bool__(self) -> bool:
        """Return the truth value of an array with one element. This blocks, as `item` does.

        Raises:
            ShapeError: it has more elements, or none.
        """
        if self.size != 1:  # type: ignore[attr-defined]
            raise ShapeError(
                f"the truth value of an array of shape {self.shape} is ambiguous: use x.any() or x.all()"  # type: ignore[attr-defined]
            )
        return bool(self.item())  # type: ignore[attr-defined]

    def __int__(self) -> int:
        """Return the element of an array with one element. This blocks, as `item` does."""
        return int(self.item())  # type: ignore[attr-defined]

    def __index__(self) -> int:
        """Return the element of an array with one integer. This blocks, as `item` does."""
        return operator.index(self.item())  # type: ignore[attr-defined]

    def __float__(self) -> float:
        """Return the element of an array with one element. This blocks, as `item` does."""
        return float(self.item())  # type: ignore[attr-defined]

    def __complex__(self) -> complex:
        """Return the element of an array with one element. This blocks, as `item` does."""
        return complex(self.item())  # type: ignore[attr-defined]

    def __format__(self, spec: str) -> str:
        """Format an array of rank 0 like a number. This blocks, as `item` does."""
        if spec and not self.ndim:  # type: ignore[attr-defined]
            return format(self.item(), spec)  # type: ignore[attr-defined]
        return super().__format__(spec)

    def __pos__(self) -> Any:
        return function("copy")(self)

    def __divmod__(self, other: Any) -> Any:
        if not _computes_with(other):
            return NotImplemented
        return function("floor_divide")(self, other), function("remainder")(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        if not _computes_with(other):
            return NotImplemented
        return function("floor_divide")(other, self), function("remainder")(other, self)

    def __pow__(self, other: Any) -> Any:
        # NumPy does the same: a square is one product, a root one instruction.
        if type(other) in (int, float) and other in _POWERS:
            if protocols.is_float(self):
                return function(_POWERS[other])(self)
            if type(other) is int and self.dtype == np.bool_:  # type: ignore[attr-defined]
                raise DTypeError(f"an array of bool to the power of {other}: convert it by x.astype(dtype)")
        if not _computes_with(other):
            return NotImplemented
        protocols.check_power(self, other)
        return function("pow")(self, other)

    def __ipow__(self, other: Any) -> Any:
        if not _computes_with(other):
            return NotImplemented
        protocols.check_power(self, other)
        return function("pow")(self, other, out=self)


_POWERS = {2: "square", 1: "copy", 0.5: "sqrt", -1: "reciprocal"}


def _takes(other: Any) -> bool:
    """Return True for arrays of any library, and for scalars."""
    return isinstance(other, (Operators, *_OPERANDS)) or hasattr(other, "__dlpack__")


def _computes_with(other: Any) -> bool:
    """Return True for operands of operators that compute: arrays of any library, and scalars.

    Raises:
        DTypeError: the operand is a list or a text. (Python would repeat it, as arrays of one integer can be an index.)
    """
    kind = type(other)
    if kind is float or kind is int or isinstance(other, Operators):
        return True
    if isinstance(other, (list, tuple)):
        raise _no_array("combined", other)
    if isinstance(other, (str, bytes, bytearray)):
        raise DTypeError(f"an array is combined with {type(other).__name__}; operators accept arrays and numbers")
    return _takes(other)


def _no_array(does: str, other: Any) -> DTypeError:
    kind = type(other).__name__
    return DTypeError(f"an array is {does} with a {kind}; numbacc.asarray makes an array of it")


_EQUALITY = ("equal", "not_equal")


def _is_no_number(other: Any) -> bool:
    """Return True for values that no element equals: None, text, and objects that do not define equality themselves."""
    if other is None or isinstance(other, (str, bytes)):
        return True
    says_nothing: Any = object.__eq__
    return type(other).__eq__ is says_nothing and not _takes(other)


def _add_operators() -> None:
    for name, computed in protocols.OPERATORS.items():

        def forward(self: Any, other: Any, computed: str = computed) -> Any:
            return function(computed)(self, other) if _computes_with(other) else NotImplemented

        def reflected(self: Any, other: Any, computed: str = computed) -> Any:
            return function(computed)(other, self) if _computes_with(other) else NotImplemented

        def in_place(self: Any, other: Any, computed: str = computed) -> Any:
            return function(computed)(self, other, out=self) if _computes_with(other) else NotImplemented

        setattr(Operators, f"__r{name}__", reflected)
        if name != "pow":
            setattr(Operators, f"__{name}__", forward)
            setattr(Operators, f"__i{name}__", in_place)
    for name, computed in protocols.COMPARISONS.items():

        def compare(self: Any, other: Any, computed: str = computed) -> Any:
            if isinstance(other, (list, tuple)):
                raise _no_array("compared", other)
            if computed in _EQUALITY and _is_no_number(other):
                namespace: Any = function("__array_namespace__")
                return namespace.full_like(self, computed == "not_equal", dtype=np.bool_)
            return function(computed)(self, other) if _takes(other) else NotImplemented

        setattr(Operators, f"__{name}__", compare)
    for name, computed in protocols.UNARY.items():
        setattr(Operators, f"__{name}__", lambda self, computed=computed: function(computed)(self))


_add_operators()
