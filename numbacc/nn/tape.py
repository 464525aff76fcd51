"""A tape of closures: a list of computations, each with a function for its gradients.

While a `Tape` records, each function that gets a variable returns a variable, and puts an entry on the tape: its
results, its inputs, and a closure that computes the inputs' gradients from the results' gradients. `Tape.backward`
calls the closures in reverse order. Without a tape, the same functions take and return ordinary arrays.

Each variable owns the memory of its gradient, so that later gradients are added to it in place. A parameter's gradient
lies in a flat buffer; the first function that computes it overwrites it, and the others add to it.

The tape keeps the gradients of variables, but not their arrays: those stay in memory only as long as the user or a
closure needs them.
"""

from __future__ import annotations

import inspect
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

from .. import elementwise
from ..arrays import creation, operands
from ..arrays.operands import Array
from ..base import checks
from ..base.layout import Layout, argument_of
from ..errors import DTypeError, LayoutError, OptionError, ShapeError, UnsupportedError

#: An array, or a variable while a tape records. Type checkers cannot know which of them it is.
ArrayOrVariable: TypeAlias = Any


class _State(threading.local):
    """The tape that records in this thread, and the tape whose backward pass runs; None at other times."""

    recording: Tape | None = None
    running: Tape | None = None


_state = _State()


class _Holder:
    """Hold the gradient of a variable, which is None before one is computed, and the layout of the variable's array."""

    __slots__ = ("array", "like")

    def __init__(self, like: Layout):
        self.array: Any = None
        self.like = like

    def take(self) -> Any:
        """Return the gradient, and forget it."""
        array, self.array = self.array, None
        return array

    def receive(self, gradient: Any) -> None:
        """Keep a gradient, or add it to the one from before."""
        if self.array is None:
            self.array = gradient
        elif gradient is not self.array:
            elementwise.add(self.array, gradient, out=self.array)


class Variable:
    """An array that a tape follows. Functions of `numbacc.nn` take variables and arrays, and operators work on both.

    Attributes:
        value: the array. Read it, but do not change it before the backward pass.
        gradient: the gradient of the loss, after the backward pass, if no computation has made this variable.

    Example:
        >>> with nn.Tape() as tape:
        ...     x = nn.Variable(np.array([1.0, 2.0]))
        ...     tape.backward((x * x).sum())
        >>> x.gradient
        array([2., 4.])
    """

    #: NumPy arrays leave operators with a variable to it.
    __array_ufunc__ = None
    __slots__ = ("holder", "value")
    value: Any
    #: Holds the gradient, for the tape.
    holder: Any

    def __init__(self, value: Array):
        self.value, self.holder = value, _Holder(operands.layout_of(value))

    @property
    def gradient(self) -> Any:
        """The gradient, or None."""
        return self.holder.array

    @gradient.setter
    def gradient(self, array: Any) -> None:
        self.holder.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The array's dtype."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def destination(self) -> tuple[Array | None, bool]:
        """Return where the next gradient goes: an array or None, and whether it must be added to that array.

        A closure that asks for it must write or add its gradient there, and return the array.
        """
        return self.gradient, self.gradient is not None

    def __float__(self) -> float:
        """Return the only element, after waiting for it."""
        return float(creation.asnumpy(self.value))

    def reshape(self, *shape: Any) -> Any:
        """Return the same elements in another shape, without a copy if possible."""
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        shape = self.shape
        return record(_reshaped(self.value, wanted), (self,), lambda dy: (_reshaped(dy, shape),))

    def transpose(self, *axes: int) -> Any:
        """Return the same elements with the axes in another order, by default reversed, without a copy."""
        order = axes or tuple(reversed(range(self.ndim)))
        back = tuple(sorted(range(len(order)), key=lambda k: order[k] % self.ndim))
        return record(self.value.transpose(order), (self,), lambda dy: (dy.transpose(back),))

    @property
    def T(self) -> Any:
        """The transpose: the same elements with reversed axes."""
        return self.transpose()

    def __getitem__(self, index: Any) -> Any:
        """Return a part, selected by integers and slices, without a copy."""
        parts = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(each, (int, slice, type(None), type(...))) for each in parts):
            raise OptionError("variables are indexed by integers and slices; use nn.wrap(elementwise.take) for arrays")
        if len(parts) == self.ndim and all(isinstance(each, int) for each in parts):
            # A device array would return its element as a number of the host.
            return self[tuple(slice(each, each + 1 or None) for each in parts)].reshape(())

        like = self.holder.like

        def backward(dy: Any) -> Sequence[Any]:
            dx = creation.zeros(like.shape, like.dtype, device=argument_of(like.device))
            dx[index] = dy
            return (dx,)

        return record(self.value[index], (self,), backward)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
        """Return the sum along axes."""
        return wrap(elementwise.sum)(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
        """Return the mean along axes."""
        return wrap(elementwise.mean)(self, axis=axis, keepdims=keepdims)

    def __add__(self, other: Any) -> Any:
        if getattr(other, "shape", None) == self.shape and other.dtype == self.dtype:
            # A residual connection: its gradient needs neither array.
            return record(elementwise.add(self.value, value_of(other)), (self, other), lambda dy: (dy, dy))
        return wrap(elementwise.add)(self, other)

    def __radd__(self, other: Any) -> Any:
        return wrap(elementwise.add)(other, self)

    def __sub__(self, other: Any) -> Any:
        return wrap(elementwise.subtract)(self, other)

    def __rsub__(self, other: Any) -> Any:
        return wrap(elementwise.subtract)(other, self)

    def __mul__(self, other: Any) -> Any:
        return wrap(elementwise.multiply)(self, other)

    def __rmul__(self, other: Any) -> Any:
        return wrap(elementwise.multiply)(other, self)

    def __truediv__(self, other: Any) -> Any:
        return wrap(elementwise.divide)(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return wrap(elementwise.divide)(other, self)

    def __neg__(self) -> Any:
        return wrap(elementwise.negative)(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def _reshaped(array: Array, shape: Any) -> Array:
    """Return an array in another shape: a view, or a copy if its strides allow none."""
    try:
        return array.reshape(shape)
    except LayoutError:
        made = creation.empty(array.shape, array.dtype, device=operands.device_of(array))
        return elementwise.copy(array, out=made).reshape(shape)


class Parameter(Variable):
    """A variable that is trained. Its value and its gradient are views of flat buffers.

    Args:
        shape: its shape.
        initial: a number, or a function of (rng, shape) that returns a NumPy array, as `nn.normal` makes one.
        decay: whether optimizers apply weight decay; by default to parameters with two or more dimensions.

    Attributes:
        value, gradient: the arrays, once `Module.initialize` has made them.
        span: the slice of the flat buffers.

    Example:
        >>> factor = nn.Parameter((2,), 1.0)
        >>> factor.shape, factor.decay
        ((2,), False)
    """

    # `value` and `gradient` are not pickled: the buffers set them.
    __slots__ = ("__dict__", "gradient")

    def __init__(self, shape: Sequence[int], initial: Any = 0.0, *, decay: bool | None = None):
        self._shape = tuple(shape)
        self.initial = initial
        self.decay = len(self._shape) > 1 if decay is None else decay
        self.buffers: Any = None
        self.span = slice(0, 0)

    @property
    def holder(self) -> Parameter:
        """The parameter itself: it owns its gradient."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's shape."""
        return self._shape

    def destination(self) -> tuple[Array | None, bool]:
        tape = _state.running
        if tape is None:
            raise OptionError("a parameter's destination is known during a backward pass only")
        return self.gradient, tape.writes(self)

    def receive(self, gradient: Array) -> None:
        """Write or add a gradient to the flat buffer, unless it was computed there."""
        if gradient is self.gradient:
            return
        out, adds = self.destination()
        if adds:
            elementwise.add(out, gradient, out=out)
        else:
            elementwise.copy(gradient, out=out)

    def __getattr__(self, name: str) -> Any:
        if name in ("value", "gradient"):
            raise OptionError(f"this parameter has no {name} yet: call initialize() of the model first")
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __repr__(self) -> str:
        return f"Parameter({self._shape})"


def value_of(x: Any) -> Array:
    """Return the array of a variable; anything else as it is.

    Example:
        >>> nn.value_of(nn.Variable(np.ones(2))), nn.value_of(3.0)
        (array([1., 1.]), 3.0)
    """
    return x.value if isinstance(x, Variable) else x


class _Computation(NamedTuple):
    """A call on the tape: its results, its inputs (variables and others), and the closure for their gradients.

    Variables are represented by their gradients. The closures of losses take numbers, too: `takes_number` says so.
    """

    made: tuple[_Holder, ...]
    inputs: tuple[Any, ...]
    backward: Callable[..., Sequence[Any]]
    takes_number: bool

    def run(self) -> None:
        """Compute the inputs' gradients, if there is a gradient of a result."""
        slopes = [each.take() for each in self.made]
        if all(each is None for each in slopes):
            return
        if not self.takes_number:
            slopes = [_as_array(slope, each.like) for slope, each in zip(slopes, self.made, strict=True)]
        taken: list[Array] = []
        for each, gradient in zip(self.inputs, self.backward(*slopes), strict=True):
            if gradient is None or not isinstance(each, (_Holder, Parameter)):
                continue
            if isinstance(each, _Holder) and gradient is not each.array:
                # Two variables must not own the same memory.
                if any(operands.overlap(gradient, other) for other in taken):
                    gradient = elementwise.copy(gradient)
                taken.append(gradient)
            each.receive(gradient)


def _as_array(slope: Any, like: Layout) -> Array:
    """Return a gradient as an array with the shape of `like`. None is 0."""
    if getattr(slope, "shape", None) == like.shape:
        return slope
    value = 0.0 if slope is None else slope
    if hasattr(value, "shape"):
        raise ShapeError(f"dloss has shape {value.shape}; the loss has shape {like.shape}")
    return creation.full(like.shape, value, like.dtype, device=argument_of(like.device))


class Tape:
    """Record what is computed in a `with` block, and compute gradients.

    Each thread has its own tape. The tape keeps arrays until `backward`, which can be called once.

    Attributes:
        calls: object -> how often it was called while this tape recorded. Modules with random numbers use it.
        after: object -> a function that is called at the end of the backward pass.

    Example:
        >>> model = nn.Linear(2, 1).initialize(seed=1, device="cpu")
        >>> with nn.Tape() as tape:
        ...     loss = nn.mean_squared_error(model(np.ones((3, 2), "float32")), np.zeros((3, 1), "float32"))
        >>> tape.backward(loss)
        >>> model.weight.gradient.shape
        (2, 1)
    """

    def __init__(self) -> None:
        self.calls: Counter[Any] = Counter()
        self.after: dict[Any, Callable[[], None]] = {}
        self._entries: list[_Computation] = []
        #: Parameter -> in how many entries its gradient is still to be computed.
        self._uses: Counter[Parameter] = Counter()
        self._written: set[Parameter] = set()
        self._accumulates = False
        self._keeps = True
        self._outer: Tape | None = None

    def __enter__(self) -> Tape:
        self._outer, _state.recording = _state.recording, self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _state.recording, self._outer = self._outer, None

    def add(self, entry: _Computation) -> None:
        """Note a call."""
        self._uses.update(_parameters(entry.inputs))
        if self._keeps:
            self._entries.append(entry)

    def writes(self, parameter: Parameter) -> bool:
        """Note that a parameter's gradient is computed, and return whether it must be added to the one before."""
        adds = self._accumulates or parameter in self._written
        self._written.add(parameter)
        return adds

    def backward(
        self,
        loss: Any,
        dloss: Any = 1.0,
        *,
        accumulate: bool = False,
        ready: Callable[[Parameter], None] | None = None,
    ) -> None:
        """Compute the gradients of all variables and parameters that the loss depends on.

        Args:
            loss: the variable to differentiate.
            dloss: the gradient with respect to it: a number, or an array of floats with the loss's shape.
            accumulate: True adds to the parameters' gradients, as for several batches before a step. False overwrites
                them. Parameters in the same buffers that the loss does not depend on then get the gradient 0.
            ready: a function that is called with each parameter when the last kernel that writes its gradient has been
                queued, for example to send it to other GPUs during the rest of the pass.

        Raises:
            OptionError: the loss depends on no variable, or the tape was used before.
            ShapeError: dloss is an array of another shape.
        """
        if not isinstance(loss, Variable) or isinstance(loss, Parameter):
            raise OptionError("loss is no variable: compute it from parameters or variables while the tape records")
        if not self._entries:
            raise OptionError("this tape is empty: it recorded nothing, or its backward pass has run")
        self._accumulates = checks.boolean(accumulate, "accumulate")
        loss.holder.array = dloss
        owners = {id(each.buffers): each.buffers for each in self._uses if each.buffers is not None}
        others = [each for owner in owners.values() for each in owner.parameters if not self._uses[each]]
        self.run(ready)
        for each in others:
            if not accumulate:
                each.gradient[...] = 0
            if ready is not None:
                ready(each)
        for advance in self.after.values():
            advance()

    def run(self, ready: Callable[[Parameter], None] | None = None) -> None:
        """Call the closures, the last one first."""
        outer, _state.running = _state.running, self
        try:
            with no_grad():
                while self._entries:
                    entry = self._entries.pop()
                    entry.run()
                    for each in _parameters(entry.inputs):
                        self._uses[each] -= 1
                        if not self._uses[each] and ready is not None:
                            ready(each)
        finally:
            _state.running = outer
            self._entries.clear()

    def part(self, calls: Counter[Any], *, keeps: bool) -> Tape:
        """Return a tape for a part of the computation, for `checkpoint`."""
        tape = Tape()
        tape.calls, tape.after, tape._keeps = calls, self.after, keeps
        tape._written, tape._accumulates = self._written, self._accumulates
        return tape


def _parameters(inputs: Sequence[Any]) -> list[Parameter]:
    """Return the parameters, each once, in one order on all ranks: they communicate in it. A set has its own order."""
    return list(dict.fromkeys(each for each in inputs if isinstance(each, Parameter)))


def recording() -> Tape | None:
    """Return the tape that records in this thread, or None."""
    return _state.recording


@contextmanager
def no_grad() -> Iterator[None]:
    """Record nothing in a `with` block, where a tape would: functions return arrays.

    Example:
        >>> with nn.Tape() as tape, nn.no_grad():
        ...     y = nn.Variable(np.ones(2)) * 3.0
        >>> y
        array([3., 3.])
    """
    outer, _state.recording = _state.recording, None
    try:
        yield
    finally:
        _state.recording = outer


def record(
    y: Any, inputs: Sequence[Any], backward: Callable[..., Sequence[Any]], *, takes_number: bool = False
) -> ArrayOrVariable:
    """Put a computation on the tape, so that it takes part in the backward pass.

    Args:
        y: the result: an array, or a tuple of arrays.
        inputs: the variables, parameters and other objects that it was computed from.
        backward: a function that gets the gradient with respect to each array of y. It returns one gradient for each
            input, or None for no gradient. Each is a new array, or one that it got: the tape may change it later.
        takes_number: whether `backward` also takes a number for the gradient of an array of rank 0.

    Returns:
        y as a variable, or as a tuple of variables; y itself if no tape records, or no input is a variable.

    Example:
        >>> def cube(x):
        ...     v = nn.value_of(x)
        ...     return nn.record(v**3, (x,), lambda dy: (3 * v**2 * dy,))
        >>> x = nn.Variable(np.array([2.0]))
        >>> with nn.Tape() as tape:
        ...     tape.backward(cube(x).sum())
        >>> x.gradient
        array([12.])
    """
    tape = _state.recording
    if tape is None or not any(isinstance(each, Variable) for each in inputs):
        return y
    made = tuple(map(Variable, y if isinstance(y, tuple) else (y,)))
    kept = [each.holder if isinstance(each, Variable) else each for each in inputs]
    tape.add(_Computation(tuple(each.holder for each in made), tuple(kept), backward, takes_number))
    return made if isinstance(y, tuple) else made[0]


def wrap(function: Any) -> Callable[..., Any]:
    """Return a function of variables that runs a kernel, a reduction or another function of numbacc with its gradient.

    Args:
        function: an object made by `elementwise.kernel` or `elementwise.reduction`, or a function of numbacc that has
            an attribute `backward`, as `elementwise.gelu`, `elementwise.softmax` and `gated.forward`.

    Returns:
        a function with the same arguments, of variables, arrays and numbers. It does not take `out` and `where`.

    Raises:
        DTypeError: the function has no `backward`.

    Example:
        >>> import math
        >>> cap = nn.wrap(elementwise.kernel(lambda x, s: s * math.tanh(x / s)))
        >>> x = nn.Variable(np.array([0.0, 300.0]))
        >>> with nn.Tape() as tape:
        ...     tape.backward(cap(x, 30.0).sum())
        >>> x.gradient.round(3)
        array([1., 0.])
    """
    if not callable(getattr(function, "backward", None)):
        raise DTypeError(
            "wrap takes a function of numbacc with an attribute `backward`, or what elementwise.kernel or "
            f"elementwise.reduction returns, not {getattr(function, '__name__', type(function).__name__)}"
        )
    return _wrapped(function)


@lru_cache(maxsize=256)
def _wrapped(function: Any) -> Callable[..., Any]:
    names = inspect.signature(function).parameters
    saves = "return_saved" in names
    takes = inspect.signature(function.backward).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values())

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if options.keys() & {"out", "where", "return_saved"}:
            raise OptionError("a function of variables does not take out, where and return_saved")
        values = [value_of(each) for each in arguments]
        if _state.recording is None or not any(isinstance(each, Variable) for each in arguments):
            return function(*values, **options)
        if saves:
            y, saved = function(*values, return_saved=True, **options)
            given, kept = (saved,), {}
        else:
            y = function(*values, **options)
            given = tuple(values)
            kept = {name: value for name, value in options.items() if takes_all or name in takes}
        inputs = [each for each in arguments if hasattr(each, "shape")]
        followed, several = [isinstance(each, Variable) for each in inputs], isinstance(y, tuple)

        def backward(*slopes: Any) -> Sequence[Any]:
            made = function.backward(slopes if several else slopes[0], *given, **kept)
            found = list(made) if isinstance(made, tuple) else [made]
            if any(followed[len(found) :]):
                raise UnsupportedError(f"{function.__name__} has gradients of its first {len(found)} arrays only")
            return [*found, *[None] * (len(followed) - len(found))]

        return record(y, inputs, backward)

    wrapped.__name__ = wrapped.__qualname__ = function.__name__
    wrapped.__doc__ = function.__doc__
    return wrapped


def checkpoint(function: Callable[..., Any], *arguments: Any, **options: Any) -> ArrayOrVariable:
    """Call a function whose intermediate results are not kept: the backward pass computes them again.

    This saves memory: of a model whose layers are called by it, only the inputs of all layers and the intermediate
    results of one are kept. It takes the time of one more forward pass. Dropout drops the same elements again.

    Args:
        function: a module or a function that returns one variable.
        arguments, options: its arguments. They must not change before the backward pass.

    Raises:
        UnsupportedError: the function returns several variables.

    Example:
        >>> layer = nn.Linear(2, 2).initialize(device="cpu")
        >>> with nn.Tape() as tape:
        ...     tape.backward(nn.checkpoint(layer, np.ones((1, 2), "float32")).sum())
        >>> layer.weight.gradient
        array([[1., 1.],
               [1., 1.]], dtype=float32)
    """
    tape = _state.recording
    if tape is None:
        return function(*arguments, **options)
    before = Counter(tape.calls)
    first = tape.part(tape.calls, keeps=False)
    with first:
        y = function(*arguments, **options)
    if isinstance(y, (tuple, list)) and any(isinstance(each, Variable) for each in y):
        raise UnsupportedError("checkpoint got several variables from the function; it must return one")
    if not isinstance(y, Variable):
        return y
    variables = [each for each in arguments if isinstance(each, Variable)]

    def backward(dy: Any) -> Sequence[Any]:
        running = _state.running
        assert running is not None  # it calls this function
        again = running.part(Counter(before), keeps=True)
        with again:
            result = function(*arguments, **options)
        result.holder.receive(dy)
        # The variables receive their gradients from the entries of this tape.
        again.run()
        return [None] * (len(variables) + len(first._uses))

    made: Variable = record(y.value, (*variables, *first._uses), backward)
    return made
