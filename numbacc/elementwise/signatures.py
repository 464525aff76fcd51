"""The base of custom kernels and reductions: the parameters of Python functions, and the functions as formulas.

Positional parameters are numbers, and parameters with defaults are options. `Benchmark` holds the speed on a GPU
compared to a copy of the same number of bytes.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from types import FunctionType, GenericAlias, MappingProxyType
from typing import Any

import numpy as np

from ..arrays import creation
from ..base import checks, dtypes
from ..base.dispatch import has_gpu, simulated
from ..base.layout import layout, lengths_of, row_major_strides
from ..errors import ArgumentsError, DeviceError, DTypeError, Error, OptionError, ShapeError, UnsupportedError
from ..functions.symbolic.captured import Outside
from ..kernels.inspection import on_gpu
from ..plan.python_functions import frozen, python_function, taken_by
from ..plan.saved import Saved, check_kept
from ..runtime.streams import handle_of
from .operation import is_number, sorted_out
from .rows import Row

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Own:
    """The base of objects that are made from Python functions of numbers and called with arrays."""

    __name__: str
    __qualname__: str
    _kind = ""
    #: The parameters of every call. The function must not have these.
    _reserved: tuple[str, ...] = ("return_saved",)
    #: The values that the functions read from outside, once they are copied; None if they read no such values.
    _outside: Outside | None = None

    #: For annotations: `Kernel[float]` is a kernel whose Python function returns a number.
    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(self, function: Callable[..., Any], more: Mapping[str, Any] = _NOTHING):
        plain = python_function(function, "function")
        update_wrapper(self, plain)  # type: ignore[arg-type]
        self._function = plain
        numbers, options = taken_by(plain, plain.__name__)
        if not numbers:
            raise OptionError(f"{plain.__name__} needs at least one parameter without a default")
        self._count, self._options = len(numbers), {**options, **more}
        signature = inspect.signature(plain)
        by_name = any(each.kind is _KEYWORD for each in signature.parameters.values())
        kind = _KEYWORD if by_name else inspect.Parameter.POSITIONAL_OR_KEYWORD
        added = [inspect.Parameter(name, kind, default=more[name]) for name in more if name not in options]
        self._signature = signature.replace(parameters=[*signature.parameters.values(), *added])
        # The number of arguments that may be passed on unchanged, in order.
        self._in_order = -1 if by_name else len(self._signature.parameters)
        if taken := [name for name in self._signature.parameters if name in self._reserved]:
            raise OptionError(f"{taken[0]} is a parameter of {plain.__name__} and of every call: rename it")

    def __repr__(self) -> str:
        return f"<elementwise {self._kind} {self.__name__}{self._signature}>"

    def __reduce__(self) -> str:
        """Return the name: copies are the object itself, and a pickle holds its name, as for a function."""
        return str(self.__qualname__)

    def _frozen(self, *functions: FunctionType | None) -> tuple[Any, ...]:
        """Return copies of functions with their current values. Calls notice changes of these values (`_bound`)."""
        # This comes first, so that a change during the copy is noticed, too.
        outside = Outside(each for each in functions if each is not None)
        self._outside = outside if outside else None
        return tuple(None if each is None else frozen(each) for each in functions)

    def _notice(self) -> None:
        """Discard everything that was made of the functions if a value that they read from outside has changed."""
        if self._outside is not None and self._outside.changed():
            for name in list(vars(self)):
                if isinstance(getattr(type(self), name, None), cached_property):
                    vars(self).pop(name, None)

    def _bound(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """Return all arguments in order, including options with their defaults. Every call starts with this.

        Raises:
            ArgumentsError: the function has other parameters.
        """
        if self._outside is not None:
            self._notice()
        if len(arguments) == self._in_order and not options:
            return arguments
        try:
            bound = self._signature.bind(*arguments, **options)
        except TypeError as error:
            raise ArgumentsError(f"{self.__name__}{self._signature} cannot be called like this: {error}") from None
        bound.apply_defaults()
        return tuple(bound.arguments.values())

    # ------------------------------------------------------------ saved objects

    def _kept(self, arguments: tuple[Any, ...], more: Mapping[str, Any], out: Any, handle: int, gradient: Any) -> Saved:
        """Return the saved object of a call. Call this before anything is written.

        Args:
            arguments: all arguments of the call, in order.
            more: other options of the call, by name.
            out, handle: the call's `out` and stream.
            gradient: the gradient that `backward` computes from the saved object, even after globals have changed.

        Raises:
            LayoutError: out shares memory with an argument.
        """
        names, count = tuple(self._signature.parameters), self._count
        check_kept(names, [None if is_number(each) else each for each in arguments], out, handle)
        arrays = dict(zip(names[:count], arguments[:count], strict=True))
        options = dict(zip(names[count:], arguments[count:], strict=True))
        return Saved(f"elementwise.{self.__name__}", arrays, {**options, **more}, (self, gradient))

    def _opened(
        self, saved: Saved, arguments: tuple[Any, ...], options: dict[str, Any], more: Mapping[str, Any] = _NOTHING
    ) -> tuple[tuple[Any, ...], Any]:
        """Return (all arguments in order, the gradient) of a saved object.

        Args:
            saved: the first argument of `backward`.
            arguments, options: the other arguments.
            more: other options of the call that differ from their defaults, by name.

        Raises:
            DTypeError, OptionError: the object was saved by another function. OptionError: an argument differs.
        """
        if saved.maker is None:
            raise DTypeError(f"saved comes from {saved.op}; {self.__name__}.backward needs {self._needed()}")
        maker, gradient = saved.maker
        if maker is not self:
            other = maker.__name__
            if other == self.__name__:
                other = f"another {other}, or from {other} before its definition ran again"
            raise OptionError(f"saved comes from {other}; {self.__name__}.backward needs {self._needed()}")
        try:
            bound = self._signature.bind_partial(saved, *arguments, **options).arguments
        except TypeError as error:
            raise ArgumentsError(f"{self.__name__}.backward(dy, saved) cannot be called like this: {error}") from None
        given = {**dict(list(bound.items())[1:]), **more}
        saved.check(saved.op, given, dict.fromkeys(given, inspect.Parameter.empty))
        kept = {**saved.arrays, **saved.options}
        return tuple([kept[name] for name in self._signature.parameters]), gradient

    def _needed(self) -> str:
        return f"the object that {self.__name__}(..., return_saved=True) returned"

    # ------------------------------------------------------------ the compiled functions

    def _written(self) -> Sequence[Callable[..., Any]]:
        """Return the scalar functions, as they are compiled."""
        raise NotImplementedError

    def _written_gradients(self) -> Sequence[Callable[..., Any]]:
        """Return the scalar functions of the gradients."""
        raise NotImplementedError

    def _source(self) -> str:
        """Return the source text of all these functions, or the reason why gradients are not available."""
        texts = [inspect.getsource(function) for function in self._written()]
        try:
            texts += [inspect.getsource(function) for function in self._written_gradients()]
        except UnsupportedError as error:
            texts.append(f"# {error}\n")
        return "\n".join(texts)

    def _inspected(
        self, row: Row, arguments: tuple[Any, ...], options: dict[str, Any], shape: tuple[int, ...]
    ) -> tuple[tuple[Any, ...], list[int]]:
        """Return (the key of a plan on a GPU, the arrays' addresses) of a call; by default float32 of this shape."""
        if not (arguments or options):
            dense = layout(shape, row_major_strides(shape, 4), np.dtype(np.float32), 0)
            return tuple([dense] * self._count + [float] * len(self._options)), []
        keys, arrays, _ = sorted_out(row, self._bound(arguments, options), handle_of(None))
        return tuple(map(on_gpu, keys)), [getattr(array, "_address", 0) for array in arrays]


# ---------------------------------------------------------------- benchmarks

#: The number of random numbers that are drawn. Arrays repeat them.
_DRAWN = 1 << 16
#: The allowed error, in units of the dtype's precision, and the fraction of truth values that may differ.
_ALLOWED, _ALLOWED_TRUTHS = 64, 1e-3
#: Bytes of a float -> its precision.
_PRECISION = {2: 2.0**-7, 4: 2.0**-23, 8: 2.0**-52}


@dataclass(frozen=True)
class Benchmark:
    """The time of a call on a GPU whose results were checked.

    Attributes:
        name, shape, dtype: the name of the function, and the shape and dtype of its arrays.
        ms: the median time of a call in milliseconds. The L2 cache is flushed before each call.
        copy_ms: the median time of a copy on the GPU that reads and writes the same number of bytes.
        nbytes: the number of bytes that are read and written.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    ms: float
    copy_ms: float
    nbytes: int

    @property
    def bandwidth(self) -> float:
        """The speed as a fraction of the copy's speed."""
        return self.copy_ms / self.ms

    @property
    def gigabytes_per_second(self) -> float:
        return self.nbytes / self.ms / 1e6

    def __str__(self) -> str:
        return (
            f"{self.name} {self.dtype} {self.shape}: {self.ms:.4g} ms, {self.gigabytes_per_second:.4g} GB/s, "
            f"{self.bandwidth:.2f} of a copy's speed"
        )


def benchmark(
    name: str,
    function: Callable[..., Any],
    names: Sequence[str],
    shape: Any,
    dtype: Any,
    repeats: Any,
    numbers: Mapping[str, Any],
    is_local: bool,
) -> Benchmark:
    """Measure the speed of a function.

    Args:
        name: the name of the function, for messages.
        function: takes arrays and scalars, `out` and `stream`.
        names: the names of its parameters. Those that are not among the numbers are arrays.
        shape, dtype: the shape and dtype of the arrays.
        repeats: how often it runs.
        numbers: the scalars by name.
        is_local: whether each result depends only on the elements at its position. Then only the first ones are
            checked.

    Raises:
        DeviceError: no GPU was found. Error: the results are wrong. ShapeError, DTypeError, OptionError: arguments.
    """
    if simulated() or not has_gpu():
        raise DeviceError(f"benchmark of {name} needs a GPU; `python -m numbacc info` shows what is missing")
    from ..runtime.timing import copy_of, gpu_ms

    row = dtypes.info(dtypes.dtype(dtype), "dtype")
    if not row.is_float or row.is_scaled:
        raise DTypeError(f"dtype={row.name}; benchmarks support floats of 16 bits or more")
    lengths, count = lengths_of(shape, row.itemsize), checks.integer(repeats, "repeats", 1)
    if 0 in lengths:
        raise ShapeError(f"shape={lengths} is empty; at least one element is needed")
    hosts = arguments_of(name, names, lengths, row.numpy, numbers)
    given = [creation.asarray(each, stream=0) if isinstance(each, np.ndarray) else each for each in hosts]
    out = function(*given, stream=0)
    outs = out if isinstance(out, tuple) else (out,)
    few = [each.reshape(-1)[:_DRAWN] if is_local and isinstance(each, np.ndarray) else each for each in hosts]
    wanted = function(*few)
    for number, (found, right) in enumerate(zip(outs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True)):
        first = found.reshape(-1)[:_DRAWN] if is_local else found
        check(f"result {number} of {name}", creation.asnumpy(first, stream=0), right)
    nbytes = sum(each.nbytes for each in (*outs, *(each for each in given if getattr(each, "ndim", 0))))
    works = {"ours": lambda: function(*given, out=out, stream=0), "copy": copy_of(nbytes)}
    times = gpu_ms(works, repeats=count)
    return Benchmark(name, lengths, row.name, times["ours"], times["copy"], nbytes)


def arguments_of(
    name: str, names: Sequence[str], shape: tuple[int, ...], dtype: np.dtype[Any], numbers: Mapping[str, Any]
) -> list[Any]:
    """Return arrays of normally distributed numbers, and the scalars that are given by name.

    Raises:
        OptionError: a name is unknown, a value is not a number, or there are only scalars.
    """
    for each, value in numbers.items():
        if each not in names:
            raise OptionError(f"{each} is not a parameter of {name}, which has {', '.join(names)}")
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise OptionError(f"{each} must be a number; benchmarks make the arrays themselves")
    rng = np.random.default_rng(7)
    found = [
        numbers[each] if each in numbers else np.resize(rng.standard_normal(_DRAWN).astype(dtype), shape)
        for each in names
    ]
    if not any(isinstance(each, np.ndarray) for each in found):
        raise OptionError(f"all parameters of {name} are numbers; at least one must be an array")
    return found


def check(name: str, found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Raise Error if results differ from NumPy's by more than rounding, relative to the largest result."""
    if found.dtype == np.bool_:
        wrong = float(np.mean(found != wanted))
        if wrong > _ALLOWED_TRUTHS:
            raise Error(f"{name} differs from NumPy's in {wrong:.1%} of all elements: no time is reported")
        return
    one, other = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(other[np.isfinite(other)])
    allowed = _ALLOWED * _PRECISION[found.dtype.itemsize] * max(float(finite.max(initial=0.0)), math.ulp(0.0))
    is_near = np.isclose(one, other, rtol=0.0, atol=allowed, equal_nan=True)
    if not is_near.all():
        place = np.unravel_index(int(np.argmin(is_near)), is_near.shape)
        at = tuple(map(int, place))
        raise Error(f"{name} is {one[place]} at {at} where NumPy's is {other[place]}: no time is reported")
