"""Epilogues that are Python functions: their form for kernels and NumPy, and their derived gradients."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import cached_property
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from ..errors import OptionError, UnsupportedError
from ..functions.formula import Formula, digest
from ..functions.symbolic.arithmetic_intensity import calls_math
from ..functions.symbolic.captured import Outside
from ..functions.symbolic.derive import backward
from ..functions.symbolic.vectorized import vectorized
from ..plan.python_functions import choosing, choosing_results, frozen, meaning_of, python_function, taken_by


class PythonEpilogue:
    """A function (sums, *elements of operands) -> results, for one element of a product.

    Two epilogues are equal if kernels compile the same code for them, so calls with equal lambdas share their plans.

    Attributes:
        name: for messages.
        sums: the number of sums that it takes: 2 if it combines two halves of the product's columns, 0 if it does not
            need the product.
        count: the number of operands.
        results: "bool" or "" for each result.
        scalar, numpy: the function for numbers and for NumPy arrays; both return tuples.
        function: the Python function that gradients are derived from; None if there are none.
    """

    def __init__(
        self,
        name: str,
        scalar: Callable[..., Any],
        numpy: Callable[..., Any],
        count: int,
        results: tuple[str, ...],
        sums: int = 1,
        function: Callable[..., Any] | None = None,
    ):
        self.name, self.scalar, self.numpy, self.function = name, scalar, numpy, function
        self.count, self.results, self.sums = count, results, sums
        self.digest = f"{sums} {digest(scalar, 'float32', False)}"
        self._hash = hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PythonEpilogue) and self.digest == other.digest

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<epilogue {self.name}>"

    def formula(self, arrays: tuple[bool, ...]) -> Formula:
        """Return the formula for kernels, whose operands are the sums, then the arrays, then the scalars.

        Args:
            arrays: for each operand, whether it is an array.
        """
        sums, names = [f"sum{k}" for k in range(self.sums)], [f"x{k}" for k in range(self.count)]
        first = [name for name, is_array in zip(names, arrays, strict=True) if is_array]
        given = [*sums, *first, *(name for name in names if name not in first)]
        scalar, numpy = (choosing(each, given, [*sums, *names]) for each in (self.scalar, self.numpy))
        return Formula(f"gemm.epilogue.{self.name}", scalar, numpy)

    @property
    def is_heavy(self) -> bool:
        """Whether it calls a function of `math`, which takes longer than the rest of an epilogue."""
        return calls_math(self.scalar)

    @cached_property
    def is_identity(self) -> bool:
        """Whether it returns the sum itself and takes no operands."""
        try:
            body = ast.parse(inspect.getsource(self.scalar)).body[0]
        except (OSError, TypeError, SyntaxError):
            return False
        if self.count or self.sums != 1 or not isinstance(body, ast.FunctionDef):
            return False
        name = body.args.args[0].arg
        return [ast.unparse(each) for each in body.body] in ([f"return ({name},)"], [f"return {name}"])

    @cached_property
    def gradient(self) -> EpilogueGradient:
        """The gradients of the results with respect to the sum and the operands.

        Raises:
            UnsupportedError: a derivative is unknown.
        """
        assert self.function is not None
        try:
            scalar = backward(self.function, self.name, wanted=1 + self.count)
        except TypeError as error:
            raise UnsupportedError(str(error)) from None
        return EpilogueGradient(self, scalar)


class EpilogueGradient:
    """The gradients of an epilogue.

    Attributes:
        epilogue: (sum, *gradients of the results, *operands) -> gradients of the sum and of each operand. The sum is
            left out if it is not used.
        uses_sum: whether these depend on the sum.
        equal: for each operand, whether its gradient always equals that of the sum, as for a bias.
        is_identity: whether the gradient of the sum always equals that of the only result.
    """

    def __init__(self, of: PythonEpilogue, scalar: Callable[..., Any]):
        seeds, elements = [f"dy{k}" for k in range(len(of.results))], [f"x{k}" for k in range(1 + of.count)]
        given, own = [elements[0], *seeds, *elements[1:]], [*seeds, *elements]
        name = f"{of.name}'s gradient"
        numpy = vectorized(scalar, name, rounds_numbers=True)
        self._chosen: dict[tuple[Any, ...], PythonEpilogue] = {}
        tree = ast.parse(inspect.getsource(scalar))
        names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        self.uses_sum = elements[0] in names
        if not self.uses_sum:
            given, own = given[1:], ["0.0" if each == elements[0] else each for each in own]
        forms = choosing(scalar, given, own), choosing(numpy, given, own)
        self.epilogue = PythonEpilogue(name, *forms, len(seeds) + of.count, ("",) * (1 + of.count), int(self.uses_sum))
        returned = [
            [ast.unparse(each) for each in node.value.elts]
            for node in ast.walk(tree)
            if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple)
        ]
        self.equal = tuple(all(each[0] == each[1 + k] for each in returned) for k in range(of.count))
        self.is_identity = len(seeds) == 1 and all(each[0] == seeds[0] for each in returned)

    def choosing(self, numbers: tuple[int, ...], takes_sum: bool = False) -> PythonEpilogue:
        """Return the epilogue of some of the gradients: 0 is that of the sum, 1 that of the first operand.

        Args:
            takes_sum: whether it takes the sum even if it does not use it.
        """
        own = self.epilogue
        adds, key = takes_sum and not own.sums, (numbers, takes_sum)
        found = self._chosen.get(key)
        if found is None:
            scalar, numpy = (choosing_results(each, numbers) for each in (own.scalar, own.numpy))
            if adds:
                names = [f"x{k}" for k in range(own.count)]
                scalar, numpy = (choosing(each, ["total", *names], names) for each in (scalar, numpy))
            found = PythonEpilogue(own.name, scalar, numpy, own.count, ("",) * len(numbers), own.sums + adds)
            self._chosen[key] = found
        return found


#: Function -> its epilogue, and the values that it read from outside.
_known: WeakKeyDictionary[Any, tuple[PythonEpilogue, Outside]] = WeakKeyDictionary()


def python_epilogue(given: Any) -> PythonEpilogue:
    """Return the epilogue of a Python function, with the current values of its globals and closures.

    Raises:
        OptionError: it is not a Python function, or its parameters are not numbers.
        UnsupportedError: it uses something that kernels do not support; the message names the line.
    """
    if isinstance(given, PythonEpilogue):
        return given
    function = python_function(given, "epilogue")
    found = _known.get(function)
    if found is None or found[1].changed():
        name = function.__name__
        numbers, options = taken_by(function, name)
        if not numbers:
            raise OptionError(f"the epilogue {name} needs a parameter for the elements of the product")
        # First, so that a change during the tracing is noticed, too.
        outside, fixed = Outside([function]), frozen(function)
        assert isinstance(fixed, FunctionType)
        fixed.__defaults__ = tuple(options.values()) or None
        meaning, results = meaning_of(fixed, name)
        made = PythonEpilogue(name, *meaning, len(numbers) - 1, tuple(results), function=fixed)
        found = _known[function] = made, outside
    return found[0]


def outside_of(given: Any) -> Outside:
    """Return the values that a function read from outside when its epilogue was made."""
    return _known[python_function(given, "epilogue")][1]
