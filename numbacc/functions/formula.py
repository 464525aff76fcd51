"""Formulas: scalar functions in plain Python that kernels compute for one element of each array.

A formula does not need Numba. Plans are made with it, and it is compiled when a kernel is compiled. Compiled kernels
are cached under a digest of the code of the formula and of all functions that it calls. Two formulas with the same name
therefore never share machine code, and changing one formula does not recompile others.
"""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .symbolic.precision_variants import replacements

#: See `Formula.heavy`.
Heavy = Sequence[int] | Mapping[int, int | None]


class Formula:
    """A scalar function that kernels apply to arrays, element by element.

    Attributes:
        name: for messages and `PlanInfo`.
        function: has as many parameters as there are operands; it returns a number or a tuple of numbers.
        reference: the same function for NumPy arrays; it returns a tuple of arrays. By default, the function itself is
            applied to each element.
        derivative: the formula of its gradients, or None.
        heavy: sizes of elements in bytes. For elements of these sizes, arithmetic takes longer than memory, and each
            thread processes more elements. A mapping gives the largest number of elements of all inputs that a thread
            processes; None stands for the usual number.
        origin: (function, arguments) that make the formula again in another process; None if it cannot be made again.
        kept: the operands that are elements as stored in memory. The results are then tuples: a number, whether it is
            to be stored, and the old element that is kept if not.
    """

    __slots__ = ("derivative", "function", "heavy", "kept", "name", "origin", "reference")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        reference: Callable[..., tuple[Any, ...]] | None = None,
        derivative: Formula | None = None,
        origin: tuple[Callable[..., Formula], tuple[Any, ...]] | None = None,
        heavy: Heavy = (),
        kept: Sequence[int] = (),
    ):
        self.heavy = dict(heavy) if isinstance(heavy, Mapping) else dict.fromkeys(heavy)
        self.kept = tuple(kept)
        self.name, self.function, self.derivative, self.origin = name, function, derivative, origin
        self.reference = reference or _number_by_number(function)

    def __repr__(self) -> str:
        return f"Formula({self.name!r})"

    def __call__(self, *numbers: Any) -> Any:
        """Return the result of the function in double precision."""
        return self.function(*numbers)

    def digest(self, compute: str, narrow: bool) -> str:
        """Return a digest of the code that kernels run, as `specialize` makes it for a precision."""
        found = digest(self.function, compute, narrow)
        return f"{found} {self.kept}" if self.kept else found


def _number_by_number(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    def reference(*operands: Any) -> tuple[Any, ...]:
        arrays = np.broadcast_arrays(*operands)
        with np.errstate(all="ignore"):
            results = [function(*numbers) for numbers in zip(*(a.ravel() for a in arrays), strict=True)]
        rows = [row if isinstance(row, tuple) else (row,) for row in results]
        return tuple(np.array(column).reshape(arrays[0].shape) for column in zip(*rows, strict=True))

    return reference


# ---------------------------------------------------------------- digests


@lru_cache(maxsize=4096)
def digest(function: Callable[..., Any], compute: str, narrow: bool) -> str:
    """Return a digest of a function's code and everything it refers to, for kernels of a precision.

    It is computed from the code, not from the source text: comments, line numbers and the names of other files do not
    change it. References that cannot be followed raise an error, since cached code could differ from their later
    values.

    Raises:
        TypeError: the function refers to something that is not a number, function, type or module.
    """
    found = hashlib.sha256(f"{compute} {narrow}".encode())
    replaced = replacements(compute, narrow)
    seen: dict[int, int] = {}
    for part in _parts(function, replaced, seen):
        found.update(part.encode() + b"\\0")
    return found.hexdigest()


def _parts(value: Any, replaced: Mapping[Any, Any], seen: dict[int, int]) -> Iterator[str]:
    """Yield the text of everything that determines a value's meaning in a kernel."""
    try:
        value = replaced.get(value, value)
    except TypeError:
        pass  # it cannot be hashed, so nothing replaces it
    value = getattr(value, "py_func", value)
    if isinstance(value, FunctionType):
        if id(value) in seen:  # it calls itself, or is called twice
            yield f"again {seen[id(value)]}"
            return
        seen[id(value)] = len(seen)
        yield "function"
        yield from _parts(value.__defaults__, replaced, seen)
        names = value.__globals__
        yield from _code(value.__code__, names, replaced, seen)
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield f"closure {name}"
            yield from _parts(cell.cell_contents, replaced, seen)
    elif isinstance(value, tuple):
        yield f"tuple {len(value)}"
        for item in value:
            yield from _parts(item, replaced, seen)
    elif value is None or isinstance(value, (str, bytes, bool, int, float, complex)):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, np.generic):
        yield f"{value.dtype} {value.tobytes().hex()}"
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, (type, BuiltinFunctionType, np.ufunc, ModuleType)):
        yield f"{getattr(value, '__module__', '')} {value.__name__}"
    else:
        raise TypeError(
            f"a formula refers to {value!r}, a {type(value).__name__}; use numbers, tuples of them, functions, modules"
        )


def _code(code: CodeType, names: dict[str, Any], replaced: Mapping[Any, Any], seen: dict[int, int]) -> Iterator[str]:
    """Yield the instructions of a function, and the constants and globals that they use."""
    yield f"{code.co_code.hex()} {code.co_argcount} {code.co_flags} {code.co_varnames} {code.co_names}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code(constant, names, replaced, seen)
        else:
            yield from _parts(constant, replaced, seen)
    for name in code.co_names:
        if name in names:
            yield f"global {name}"
            yield from _parts(names[name], replaced, seen)


def identity(x):
    """Return (x,): the map that copies strided arrays."""
    return (x,)


def _copy() -> Formula:
    return COPY


#: The formula of copies. It is here because arrays need it and none of the other functions.
COPY = Formula("copy", identity, lambda x: (x,), origin=(_copy, ()))


def reduced(formula: Formula) -> tuple[Any, ...]:
    """Return the pickled form of a formula: the function and arguments that make it again."""
    if formula.origin is None:
        raise TypeError(f"{formula!r} is not one of numbacc's own formulas: it cannot be pickled")
    return formula.origin


copyreg.pickle(Formula, reduced)
