"""Kernels of one's own: a scalar Python function becomes an elementwise function of arrays, with its gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from ..errors import OptionError, UnsupportedError, shown
from ..functions.symbolic.arithmetic_intensity import calls_math
from ..functions.symbolic.derive import NotDerived, backward, written
from ..functions.symbolic.trace import traced
from ..functions.symbolic.vectorized import vectorized
from ..kernels.inspection import Inspection, inspected
from ..plan.saved import Saved, saves
from ..runtime.streams import handle_of
from .gradients import run_backward
from .operation import ElementwisePlan, find, planned, run
from .rows import Meaning, Row
from .signatures import Benchmark, Own, benchmark, meaning_of

#: How many numbers arrays have that need not exist.
_USUAL_LENGTH = 1 << 20


def kernel(
    function: Callable[..., Any] | None = None, *, backward: Callable[..., Any] | None = None
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make an elementwise function of arrays of a Python function of numbers: a decorator.

    Args:
        function: of numbers; it returns one, or a tuple of several. It may do arithmetic, compare, branch, loop over
            known ranges, call `math`, NumPy's functions of numbers, numbacc's own elementwise functions, other kernels
            and such functions. Parameters with defaults are options. Globals and closures are compiled in; after a
            change of one the next call compiles it again.
        backward: (dy, arguments) -> the gradient with respect to each argument that is not an option, as a tuple; dy is
            as many numbers as the function has results. By default it is derived from the function, by the chain rule.

    Returns:
        a `Kernel`: call it with arrays and numbers, as numbacc's own functions. On a GPU it is compiled for each dtype,
        layout and broadcast as they are; of NumPy arrays it is computed by NumPy. Its `backward` has the gradients,
        `plan` its plan, `inspect` what it was compiled to, `benchmark` its speed. Integers are computed as floats, as
        NumPy's functions do it.

    Raises:
        OptionError: it is not a Python function with at least one parameter without a default.
        UnsupportedError: when it is called, not here: it does what kernels cannot; the message names the line.

    Example:
        >>> import math
        >>> cap = elementwise.kernel(lambda x, s: s * math.tanh(x / s))
        >>> cap(np.array([0.0, 300.0]), 30.0).round(3)
        array([ 0., 30.])
        >>> cap.backward(np.ones(2), np.array([0.0, 300.0]), 30.0)[0].round(3)
        array([1., 0.])
    """
    if function is None:
        return lambda each: Kernel(each, backward)
    return Kernel(function, backward)


class Kernel(Own):
    """An elementwise function of one's own: what `kernel` makes. Call it with arrays and numbers.

    Attributes:
        py_func: the Python function.

    Example:
        >>> square = elementwise.kernel(lambda x: x * x)
        >>> square.backward(np.ones(2), np.array([1.0, 3.0]))
        (array([2., 6.]),)
    """

    _kind = "kernel"

    def __init__(self, function: Callable[..., Any], gradient: Callable[..., Any] | None = None):
        super().__init__(function)
        if gradient is not None and not isinstance(gradient, FunctionType):
            raise OptionError(f"backward={shown(gradient)} is not a Python function")
        # By this name formulas that call it find the function itself.
        self.py_func, self._gradient = self._function, gradient

    # ------------------------------------------------------------ what it computes

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """The function, and its gradient where that is given: as they are at the first call, and after each change."""
        function, gradient = self._frozen(self.py_func, self._gradient)
        return function, gradient

    @cached_property
    def _row(self) -> Row:
        name = self.__name__
        meaning, results = meaning_of(self._functions[0], name)
        names = tuple(self._signature.parameters)
        meeting = range(self._count)
        is_tuple = len(results) > 1
        # Of 16 bits a call of `math` takes longer than the memory.
        heavy = (2,) if calls_math(meaning.scalar) else ()
        return Row(
            name,
            names,
            "float",
            {"f": meaning},
            meeting=meeting,
            results=results,
            is_tuple=is_tuple,
            heavy=heavy,
            options=len(self._options),
        )

    @cached_property
    def _backward(self) -> Row:
        row, name, wanted = self._row, self.__name__, self._count
        try:
            function, gradient = self._functions
            if gradient is None:
                scalar = backward(function, name, wanted=wanted)
            else:
                scalar = self._given(gradient, len(row.results or ()))
            meaning = Meaning(scalar, vectorized(scalar, f"{name}'s backward", rounds_numbers=True))
        except TypeError as error:
            hint = "; give it as backward=" if isinstance(error, NotDerived) else ""
            raise UnsupportedError(f"{error}{hint}") from None
        seeds = len(row.results or ())
        dys = ("dy",) if seeds == 1 else tuple(f"dy[{k}]" for k in range(seeds))
        meeting = range(seeds + wanted)
        by = range(seeds, seeds + wanted)
        return Row(
            f"{name}.backward",
            (*dys, *row.names),
            "keep",
            {"f": meaning},
            meeting=meeting,
            results=by,
            is_tuple=True,
            options=row.options,
        )

    def _given(self, gradient: Callable[..., Any], seeds: int) -> Callable[..., Any]:
        """The function given as `backward`, written down.

        Raises:
            OptionError: it takes or returns another number of numbers than it must.
        """
        wanted = seeds + len(self._signature.parameters)
        found = len(inspect.signature(gradient).parameters)
        if found != wanted:
            raise OptionError(
                f"backward takes {found} numbers; it must take {wanted}: dy of each result, then {self.__name__}'s"
            )
        scalar = written(gradient, f"{self.__name__}'s backward", gradient=False)
        _, ways = traced(gradient)
        if len(ways[0][1]) != self._count:
            raise OptionError(
                f"backward returns {len(ways[0][1])} numbers; it must return {self._count}, one for each argument"
            )
        return scalar

    # ------------------------------------------------------------ calls

    def __call__(
        self,
        *arguments: Any,
        return_saved: bool = False,
        out: Any = None,
        where: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """The function of arrays and numbers, at least one an array, that broadcast.

        Args:
            arguments, options: as the Python function takes them: arrays of floats or integers, or numbers.
            return_saved: whether to return a second object, which carries arguments and options to
                `backward(dy, saved)`. The arrays must not change until then; globals may.
            out, where, stream: as in `elementwise.add`; of several results `out` is a tuple.

        Returns:
            an array; a tuple where the function returns one. With return_saved, (y, saved).

        Raises:
            UnsupportedError: the function does what kernels cannot; with return_saved, it has no derivative.
            ArgumentsError: it has other parameters. With return_saved, LayoutError: out shares memory with an argument.
            OptionError: `where` is given. As `elementwise.add` besides.
        """
        bound = self._bound(arguments, options)
        if return_saved is not False and saves(return_saved):
            if where is not None:
                raise OptionError("return_saved=True with where=: backward has no where=. Leave one of the two out")
            saved = self._kept(bound, {}, out, handle_of(stream), self._backward)
            return run(self._row, bound, out, None, stream), saved
        return run(self._row, bound, out, where, stream)

    def backward(self, dy: Any, *arguments: Any, out: Any = None, stream: Any = None, **options: Any) -> Any:
        """The gradients of a loss with respect to the arguments that are arrays, given those with respect to results.

        Args:
            dy: an array of the result's shape; a tuple of them where there are several results.
            arguments, options: those of the call; or the saved object of a call with return_saved=True instead of all.
                It has the gradient of that call: globals and closures count as they were then.
            out: a tuple of arrays for the gradients, with None where these are.
            stream: as everywhere.

        Returns:
            a tuple: of each argument that is an array, in its shape and dtype; None of integers and bool. What was
            repeated gets the sum.

        Raises:
            UnsupportedError: no derivative is known. OptionError: another kernel returned the saved object, or an
            argument differs from it. As `elementwise.add` besides.
        """
        if arguments and type(arguments[0]) is Saved:
            bound, gradient = self._opened(arguments[0], arguments[1:], options)
        else:
            bound = self._bound(arguments, options)
            gradient = self._backward
        seeds = tuple(dy) if isinstance(dy, (tuple, list)) else (dy,)
        wanted = gradient.gradients[0]
        if len(seeds) != wanted:
            raise OptionError(f"dy is {len(seeds)} arrays; {self.__name__} has {wanted} results")
        return run_backward(gradient, (*seeds, *bound), out, stream)

    def plan(self, *arguments: Any, out: Any = None, where: Any = None, **options: Any) -> ElementwisePlan:
        """The plan of a call with these arguments: call it with all of them in order, options too."""
        bound = self._bound(arguments, options)
        return find(self._row, bound, out, where)

    # ------------------------------------------------------------ what it became

    def _written(self) -> Sequence[Callable[..., Any]]:
        return [self._row.meanings["f"].scalar]

    def _written_gradients(self) -> Sequence[Callable[..., Any]]:
        return [self._backward.meanings["f"].scalar]

    def inspect(self, *arguments: Any, **options: Any) -> Inspection:
        """What a call with these arguments is compiled to: source, PTX, registers, local memory, bytes a thread.

        Args:
            arguments, options: those of a call, NumPy arrays standing for such on a GPU; by default a million numbers
                of float32 each. Without a GPU it is compiled for compute capability 9.0.

        Returns:
            an `Inspection`; `print` it, or take its attributes: source, ptx, registers, local_bytes, spilled_bytes,
            bytes_per_thread. What cannot be found out is None, and the report says why.

        Raises:
            As the call.
        """
        self._notice()
        row = self._row
        keys, addresses = self._inspected(row, arguments, options, (_USUAL_LENGTH,))
        return inspected(self.__name__, self._source(), planned(row, keys), addresses)

    def benchmark(
        self, shape: int | Sequence[int], dtype: Any = "float32", *, repeats: int = 30, **numbers: float
    ) -> Benchmark:
        """Measure the speed of a call on a GPU, and of a copy of the same bytes.

        Args:
            shape, dtype: of the arguments: arrays of normal numbers, without gaps.
            repeats: how often call and copy are run, in turns; the L2 cache is flushed before each.
            numbers: parameters that are numbers, by name; options have their defaults unless they are among these.

        Returns:
            a `Benchmark`: ms, copy_ms, bandwidth, gigabytes_per_second. It waits for the GPU.

        Raises:
            DeviceError: there is no GPU. Error: the first 65,536 results are not NumPy's: no time is told.
            ShapeError, DTypeError, OptionError: no elements, no floats, a parameter that there is not.
        """
        options = {**self._options, **numbers}
        names = list(self._signature.parameters)
        return benchmark(self.__name__, self, names, shape, dtype, repeats, options, is_local=True)
