"""Python's operators and NumPy's functions on device arrays: computed on the GPU, never by a copy to the host.

Arrays know no functions: what computes is handed in by `numbacc` itself (`computing`), and found by name when it is
first needed. What has no function is refused; what has one element is a number for `bool`, `int` and `float`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from ..errors import DTypeError, OptionError, shown
from . import protocols

#: What an operator takes beside an array; for others Python asks the other operand, and raises TypeError.
_OPERANDS = (bool, int, float, complex, np.generic, np.ndarray)

_look_up: list[Callable[[str], Any]] = []


def computing(look_up: Callable[[str], Any]) -> None:
    """Set what finds functions by their names: "add", "matmul", "sum"; None where there is none."""
    _look_up[:] = [look_up]
    _found.cache_clear()


@lru_cache(maxsize=512)
def _found(name: str) -> Callable[..., Any] | None:
    return _look_up[0](name) if _look_up else None


def _function(name: str) -> Callable[..., Any]:
    found = _found(name)
    if found is None:
        raise refusal(name)
    return found


def refusal(what: str) -> DTypeError:
    """The error for what is not computed on a GPU."""
    return DTypeError(
        f"{what} is not computed on device arrays, and nothing is copied to the host silently: "
        "numbacc.asnumpy(x) copies; numbacc.elementwise, gemm, fft, gated and random compute on the GPU"
    )


def _computed(what: str, name: str | None, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy calls `what`, computed by the function of that name."""
    return _called(what, None if name is None else _found(name), arguments, options)


def _called(what: str, function: Callable[..., Any] | None, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function's answer; refused where there is none, or with arguments that are NumPy's alone."""
    if function is None:
        raise refusal(what)
    try:
        return function(*arguments, **options)
    except TypeError:
        # Asked only now, as the answer takes longer than the call.
        if protocols.fits(function, arguments, options):
            raise
    raise refusal(f"{what} with {protocols.unknown(function, options)}")


class Operators:
    """Base of device arrays, before the class of Numba's, whose simulated arrays have operators of their own."""

    __slots__ = ()

    # Above every array of the host's, which then leave `host + device` to the functions here.
    __array_priority__ = 1e6
    __hash__ = None  # type: ignore[assignment]

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard (2024.12) that numbacc has: see `numbacc.array_api`.

        Raises:
            OptionError: another version is asked for.
        """
        found: Any = _function("__array_namespace__")
        if api_version not in (None, found.__array_api_version__, "2023.12", "2022.12", "2021.12"):
            raise OptionError(f"api_version={shown(api_version)} is not {found.__array_api_version__} or an older one")
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise refusal("making a NumPy array")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's ufunc, and those of SciPy that have a namesake: a device array."""
        what = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        # NumPy hands its own numbers over as arrays.
        inputs = tuple([each[()] if type(each) is np.ndarray and not each.ndim else each for each in inputs])
        if ufunc is np.divmod and method == "__call__" and not options:
            return _function("floor_divide")(*inputs), _function("remainder")(*inputs)
        return _computed(what, *protocols.of_ufunc(ufunc, method, inputs, options))

    def __array_function__(self, function: Any, types: Any, arguments: tuple[Any, ...], options: Any) -> Any:
        """NumPy's function of arrays: a device array, or an attribute."""
        answer = protocols.answer(function, arguments, options)
        if answer is not protocols.UNKNOWN:
            return answer
        what, (name, given, more) = f"numpy.{function.__name__}", protocols.of_function(function, arguments, options)
        if name is not None:
            return _computed(what, name, given, more)
        others: Any = _found("__numpy_functions__") or {}
        return _called(what, others.get(function), arguments, options)

    def __contains__(self, value: Any) -> NoReturn:
        raise refusal("in")

    def __bool__(self) -> bool:
        """The truth of an array of one element. This blocks, as `item` does."""
        return bool(self.item())  # type: ignore[attr-defined]

    def __int__(self) -> int:
        """The element of an array of one. This blocks, as `item` does."""
        return int(self.item())  # type: ignore[attr-defined]

    def __index__(self) -> int:
        """The element of an array of one integer. This blocks, as `item` does."""
        return operator.index(self.item())  # type: ignore[attr-defined]

    def __float__(self) -> float:
        """The element of an array of one. This blocks, as `item` does."""
        return float(self.item())  # type: ignore[attr-defined]

    def __complex__(self) -> complex:
        """The element of an array of one. This blocks, as `item` does."""
        return complex(self.item())  # type: ignore[attr-defined]

    def __format__(self, spec: str) -> str:
        """As a number's, of an array of rank 0. This blocks, as `item` does."""
        if spec and not self.ndim:  # type: ignore[attr-defined]
            return format(self.item(), spec)  # type: ignore[attr-defined]
        return super().__format__(spec)

    def __pos__(self) -> Any:
        return _function("copy")(self)

    def __divmod__(self, other: Any) -> Any:
        if not _takes(other):
            return NotImplemented
        return _function("floor_divide")(self, other), _function("remainder")(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        if not _takes(other):
            return NotImplemented
        return _function("floor_divide")(other, self), _function("remainder")(other, self)

    def __pow__(self, other: Any) -> Any:
        # As NumPy has it: a square is one product, a root one instruction.
        if type(other) in (int, float) and other in _POWERS and protocols.is_float(self):
            return _function(_POWERS[other])(self)
        return _function("pow")(self, other) if _takes(other) else NotImplemented

    def __round__(self, digits: Any = None) -> Any:
        if digits not in (None, 0):
            raise OptionError(f"digits={shown(digits)} is not supported: only whole numbers are rounded to")
        return _function("round")(self)

    def astype(self, dtype: Any, *, copy: bool = True, stream: Any = None) -> Any:
        """A copy in another dtype: see `numbacc.elementwise.astype`. With copy=False itself where it has that dtype."""
        return _function("astype")(self, dtype, copy=copy, stream=stream)

    def copy(self, *, stream: Any = None) -> Any:
        """A gapless copy on the same GPU, in this memory order: see `numbacc.elementwise.copy`."""
        return _function("copy")(self, stream=stream)

    def clip(self, min: Any = None, max: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        """As `numbacc.elementwise.clamp`."""
        return _function("clamp")(self, min, max, out=out, stream=stream)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """As `numbacc.asarray(x, device=device)`: itself, or a copy by way of the host, a NumPy array for "cpu"."""
        return _function("asarray")(self, device=device, stream=stream)

    def conj(self, *, stream: Any = None) -> Any:
        """As `numbacc.elementwise.conj`."""
        return _function("conj")(self, stream=stream)

    @property
    def real(self) -> Any:
        """As `numbacc.elementwise.real`: a copy."""
        return _function("real")(self)

    @property
    def imag(self) -> Any:
        """As `numbacc.elementwise.imag`: a copy."""
        return _function("imag")(self)


_POWERS = {2: "square", 1: "copy", 0.5: "sqrt", -1: "reciprocal"}


def _takes(other: Any) -> bool:
    """True for arrays of any library, and numbers."""
    return isinstance(other, (Operators, *_OPERANDS)) or hasattr(other, "__dlpack__")


def _add_operators() -> None:
    for name, computed in protocols.OPERATORS.items():

        def forward(self: Any, other: Any, computed: str = computed) -> Any:
            return _function(computed)(self, other) if _takes(other) else NotImplemented

        def reflected(self: Any, other: Any, computed: str = computed) -> Any:
            return _function(computed)(other, self) if _takes(other) else NotImplemented

        def in_place(self: Any, other: Any, computed: str = computed) -> Any:
            return _function(computed)(self, other, out=self) if _takes(other) else NotImplemented

        if name != "pow":
            setattr(Operators, f"__{name}__", forward)
        setattr(Operators, f"__r{name}__", reflected)
        setattr(Operators, f"__i{name}__", in_place)
    for name, computed in protocols.COMPARISONS.items():

        def compare(self: Any, other: Any, computed: str = computed) -> Any:
            if isinstance(other, (list, tuple)):
                kind = type(other).__name__
                raise DTypeError(f"an array is compared with a {kind}; numbacc.asarray makes an array of it")
            return _function(computed)(self, other) if _takes(other) else NotImplemented

        setattr(Operators, f"__{name}__", compare)
    for name, computed in protocols.UNARY.items():
        setattr(Operators, f"__{name}__", lambda self, computed=computed: _function(computed)(self))
    for name in protocols.METHODS:

        def method(self: Any, *arguments: Any, name: str = name, **options: Any) -> Any:
            if arguments or options:
                return _computed(name, name, (self,), protocols.of_method(name, arguments, options))
            return _function(name)(self)

        order = ", ".join(protocols.METHODS[name])
        method.__name__ = name
        method.__doc__ = f"As `numbacc.elementwise.{name}` of this array; {order} in NumPy's order, too."
        setattr(Operators, name, method)


_add_operators()
