"""Custom kernels: a scalar Python function becomes an elementwise function of arrays, with gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from types import FunctionType
from typing import Any

from ..base.observing import observable
from ..errors import OptionError, UnsupportedError, shown
from ..functions.symbolic.arithmetic_intensity import calls_math
from ..functions.symbolic.derive import NotDerived, backward, written
from ..functions.symbolic.trace import traced
from ..functions.symbolic.vectorized import vectorized
from ..kernels.inspection import Inspection, inspected
from ..plan.python_functions import meaning_of
from ..plan.saved import Saved, saves
from ..runtime.streams import handle_of
from .gradients import run_backward
from .operation import ElementwisePlan, find, planned, run
from .rows import Meaning, Row
from .signatures import Benchmark, Own, benchmark

#: The length of the arrays that `inspect` assumes by default.
_USUAL_LENGTH = 1 << 20


def kernel(
    function: Callable[..., Any] | None = None, *, backward: Callable[..., Any] | None = None
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Make an elementwise function of arrays from a Python function of numbers. It can be used as a decorator.

    Args:
        function: its parameters and results are numbers: it returns one number or a tuple of numbers. It may use
            arithmetic, comparisons, branches, loops over known ranges, `math`, NumPy's functions of numbers, numbacc's
            elementwise functions, other kernels, and functions that use these. Parameters with defaults are options.
            Globals and closures are compiled into the kernel; after one of them changes, the next call compiles it
            again.
        backward: a function of dy and the arguments that returns a tuple of the gradients with respect to each argument
            that is not an option. dy stands for as many numbers as the function has results. By default, the gradients
            are derived from the function by the chain rule.

    Returns:
        a `Kernel`. Call it with arrays and scalars, like numbacc's own functions. On a GPU it is compiled for each
        combination of dtypes, layouts and broadcasting; NumPy arrays are computed by NumPy. It has the methods
        `backward` (gradients), `plan`, `inspect` (the compiled code) and `benchmark` (the speed). Integers are computed
        as floats, as in NumPy's functions.

    Raises:
        OptionError: `function` is not a Python function with at least one parameter without a default.
        UnsupportedError: raised by the call, not here, if the function uses something that kernels do not support. The
            message names the line.

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
    """A custom elementwise function, which `kernel` returns. Call it with arrays and scalars.

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
        # Formulas that call the kernel find the Python function by this name.
        self.py_func, self._gradient = self._function, gradient

    # ------------------------------------------------------------ the computation

    @cached_property
    def _functions(self) -> tuple[Callable[..., Any], Callable[..., Any] | None]:
        """Copies of the function, and of its gradient if given. They are renewed after each change of their globals."""
        function, gradient = self._frozen(self.py_func, self._gradient)
        return function, gradient

    @cached_property
    def _row(self) -> Row:
        name = self.__name__
        meaning, results = meaning_of(self._functions[0], name)
        names = tuple(self._signature.parameters)
        meeting = range(self._count)
        is_tuple = len(results) > 1
        # In 16 bits, a call of `math` takes longer than the memory accesses.
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
        """Return the formula of the function given as `backward`.

        Raises:
            OptionError: it has the wrong number of parameters or results.
        """
        wanted = seeds + len(self._signature.parameters)
        found = len(inspect.signature(gradient).parameters)
        if found != wanted:
            raise OptionError(
                f"backward has {found} parameters; it must have {wanted}: dy of each result, then the parameters of "
                f"{self.__name__}"
            )
        scalar = written(gradient, f"{self.__name__}'s backward", gradient=False)
        _, ways = traced(gradient)
        if len(ways[0][1]) != self._count:
            raise OptionError(
                f"backward returns {len(ways[0][1])} numbers; it must return {self._count}, one for each argument"
            )
        return scalar

    # ------------------------------------------------------------ calls

    @observable("call", ".__name__")
    def __call__(
        self,
        *arguments: Any,
        return_saved: bool = False,
        out: Any = None,
        where: Any = None,
        stream: Any = None,
        **options: Any,
    ) -> Any:
        """Apply the function to arrays and scalars that broadcast. At least one must be an array.

        Args:
            arguments, options: the arguments of the Python function: arrays of floats or integers, or scalars.
            return_saved: whether to return a second object for `backward(dy, saved)`. It holds the arguments and
                options. Do not change the arrays before that call; globals may change.
            out, where, stream: the same as in `elementwise.add`. For several results, `out` is a tuple.

        Returns:
            an array, or a tuple if the function returns one. With return_saved, (y, saved).

        Raises:
            UnsupportedError: the function uses something that kernels do not support; or, with return_saved, no
                derivative is known.
            ArgumentsError: the function has other parameters.
            LayoutError: with return_saved, out shares memory with an argument.
            OptionError: `where` is given together with return_saved.
            The other errors are the same as in `elementwise.add`.
        """
        bound = self._bound(arguments, options)
        if return_saved is not False and saves(return_saved):
            if where is not None:
                raise OptionError(
                    "return_saved=True does not work with where=, which backward does not support: leave one out"
                )
            saved = self._kept(bound, {}, out, handle_of(stream), self._backward)
            return run(self._row, bound, out, None, stream), saved
        return run(self._row, bound, out, where, stream)

    @observable("call", ".__name__.backward")
    def backward(self, dy: Any, *arguments: Any, out: Any = None, stream: Any = None, **options: Any) -> Any:
        """Return the gradients of a loss with respect to array arguments, given those with respect to the results.

        Args:
            dy: an array with the result's shape, or a tuple of such arrays if there are several results.
            arguments, options: the same as in the call. Or only the object that a call with return_saved=True saved; it
                holds the gradient for the globals and closures of that call.
            out: a tuple of arrays that receive the gradients, with None where the gradients have None.
            stream: the stream to run on; the default stream if None. The call does not wait for the result.

        Returns:
            a tuple with one gradient for each array argument, in its shape and dtype; None for integers and bool. If an
            argument was broadcast, its gradient is summed to its shape.

        Raises:
            UnsupportedError: no derivative is known.
            OptionError: another kernel returned the saved object, or an argument differs from it.
            The other errors are the same as in `elementwise.add`.
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
        """Return the plan of a call with these arguments. Call it with all of them in order, including options."""
        bound = self._bound(arguments, options)
        return find(self._row, bound, out, where)

    # ------------------------------------------------------------ the compiled functions

    def _written(self) -> Sequence[Callable[..., Any]]:
        return [self._row.meanings["f"].scalar]

    def _written_gradients(self) -> Sequence[Callable[..., Any]]:
        return [self._backward.meanings["f"].scalar]

    def inspect(self, *arguments: Any, **options: Any) -> Inspection:
        """Return the code that a call with these arguments is compiled to: source, PTX, registers, local memory, bytes.

        Args:
            arguments, options: the arguments of a call. NumPy arrays stand for arrays on a GPU. By default, each
                argument is an array of 2^20 float32 numbers. Without a GPU, the code is compiled for compute capability
                9.0.

        Returns:
            an `Inspection`. `print` it, or use its attributes: source, ptx, registers, local_bytes, spilled_bytes,
            bytes_per_thread. A value that cannot be determined is None, and the report names the reason.

        Raises:
            The same errors as the call.
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
            shape, dtype: of the arguments, which are contiguous arrays of normally distributed numbers.
            repeats: how often the call and the copy run, alternately. The L2 cache is flushed before each.
            numbers: values of parameters that are scalars, by name. Other options have their defaults.

        Returns:
            a `Benchmark`: ms, copy_ms, bandwidth, gigabytes_per_second. The call waits for the GPU.

        Raises:
            DeviceError: no GPU was found.
            Error: the first 65,536 results differ from NumPy's. Then no time is reported.
            ShapeError, DTypeError, OptionError: no elements, a dtype that is not a float, or an unknown parameter.
        """
        options = {**self._options, **numbers}
        names = list(self._signature.parameters)
        return benchmark(self.__name__, self, names, shape, dtype, repeats, options, is_local=True)
