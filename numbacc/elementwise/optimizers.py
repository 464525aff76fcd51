"""A step of AdamW: one kernel for all parameters, their gradients and their two moments.

For lists, this module checks the arrays and decides which parameters one launch updates together. The others are
updated one by one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..arrays import operands
from ..base import checks, dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import CPU, Layout, check_same_device, check_writable, read_only, same_layout
from ..base.observing import observable
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import DTypeError, LayoutError, OptionError, ShapeError
from ..functions.symbolic.vectorized import vectorized
from ..kernels.elementwise.multi_tensor_launch import Apart, ListExecutable, ListTask, Work
from ..kernels.elementwise.optimizers import ADAMW, ADAMW_COUNTED, adamw, adamw_counted
from ..plan.base import PlanInfo, plan_html
from ..plan.calls import planned
from ..runtime.streams import handle_of
from .calling import plans
from .casting import astype
from .operation import find as find_one
from .operation import run as run_one
from .rows import Meaning, Row

#: Each an array, or a list of arrays.
_P = TypeVar("_P")
_M = TypeVar("_M")
_V = TypeVar("_V")


def _row(function: Callable[..., Any]) -> Row:
    """Return the step of one parameter with any strides, as an elementwise function: bitwise equal to that of lists."""
    name, names = "adamw_step", tuple(inspect.signature(function).parameters)
    meanings = {"f": Meaning(function, vectorized(function, name))}
    return Row(name, names, "float", meanings, results=("",) * 3, is_tuple=True, heavy=(2,))


#: The step with all options as scalars; and the step that reads the step number, and possibly the rate, on the GPU.
ONE, _ONE_COUNTED = _row(adamw), _row(adamw_counted)

_OP, _NAMES = "elementwise.adamw_step", ("p", "g", "m", "v")
#: The indices of the arrays that are written, in the order of the formula's results.
_WRITTEN = (0, 2, 3)
#: The dtypes of arrays with one element. A float counter represents all relevant whole numbers exactly.
_SINGLES = {
    "step": ("int32", "int64", "uint32", "uint64", "float32", "float64"),
    "rate": ("float32", "float64"),
}
#: Types that are not arrays, whether they are valid or not.
_NUMBERS = (int, float, complex, str, np.generic, type(None))
_layout, _is_read_only = attrgetter("_numbacc_layout"), attrgetter("_readonly")


class Options(NamedTuple):
    """The options of a step, named as in `adamw_step`: η, β₁, β₂, ε, λ. η may be a GPU array with one element."""

    rate: Any = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01

    def checked(self, handle: int) -> Options:
        """Return the options in a unique form. Raise OptionError if one is out of range."""
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0.0 <= checks.real(beta, name) < 1.0:
                raise OptionError(f"{name}={beta} is out of range: it must be at least 0 and below 1")
        small, decay = checks.at_least_0(self.eps, "eps"), checks.at_least_0(self.weight_decay, "weight_decay")
        eta = self.rate if isinstance(self.rate, _NUMBERS) else _single(self.rate, "rate", handle)
        eta = checks.at_least_0(eta, "rate") if isinstance(eta, _NUMBERS) else eta
        return Options(eta, float(self.beta1), float(self.beta2), small, decay)

    def at(self, t: int) -> tuple[float, ...]:
        """Return the scalars of `kernels.elementwise.optimizers.adamw` at step t."""
        pace, scale = self.rate / (1.0 - self.beta1**t), 1.0 / math.sqrt(1.0 - self.beta2**t)
        return 1.0 - self.beta1, 1.0 - self.beta2, pace, scale, self.eps, 1.0 - self.rate * self.weight_decay

    def counted(self) -> tuple[Any, ...]:
        """Return the scalars of `adamw_numbers` that follow the step."""
        logs = [math.log(beta) if beta else -math.inf for beta in (self.beta1, self.beta2)]
        return self.rate, *logs, 1.0 - self.beta1, 1.0 - self.beta2, self.eps, self.weight_decay


def counted(step: Any, handle: int) -> Any:
    """Return a step as an integer of at least 1, or as the GPU array that holds it.

    Raises:
        OptionError: it is not such an integer. DTypeError, ShapeError: it is not an array with one element.
    """
    if not isinstance(step, _NUMBERS):
        step = _single(step, "step", handle)
        if not isinstance(step, _NUMBERS):
            return step
        step = int(step) if isinstance(step, float) and step.is_integer() else step
    return checks.integer(step, "step", 1, 2**63 - 1)


def _single(obj: Any, name: str, handle: int) -> Any:
    """Return a GPU array with one element, or the number in a NumPy array."""
    array = operands.as_array(obj, name, handle)
    own = operands.layout_of(array)
    if own.dtype.name not in _SINGLES[name]:
        raise DTypeError(
            f"{name} has dtype {own.dtype}; an array must have one of the dtypes {', '.join(_SINGLES[name])}"
        )
    if own.size != 1:
        raise ShapeError(f"{name} has shape {own.shape}; it must be a number or an array with one element")
    return array.item() if own.device < 0 else array


def run(lists: tuple[Any, ...], step: Any, options: Options, stream: Any, *, alone: bool = False) -> None:
    """Make a step for lists of parameters.

    Args:
        lists: p, g, m and v, as lists or tuples.
        step: the result of `counted`.
        options: the options of the step.
        stream: the stream to run on.
        alone: True if each list holds a single array that was given instead of a list.
    """
    handle = handle_of(stream)
    _check_lists(lists)
    # This is the fast path for device arrays. `_find` handles all other arguments and reports errors.
    try:
        plan = plans.hit((_made, alone, *[tuple(map(_layout, each)) for each in lists]))
    except Exception:  # NumPy arrays lack such a layout, and other libraries' arrays may raise any error
        plan = None
    if plan is None:
        plan, arrays = _find(lists, handle, alone)
    else:
        arrays = [array for each in lists for array in each]
    plan.run(arrays, step, options, handle)


def find(lists: tuple[Any, ...], step: Any, options: Options, *, alone: bool) -> StepPlan:
    """Return the plan of a step, ready to run."""
    handle = handle_of(None)
    _check_lists(lists)
    plan, arrays = _find(lists, handle, alone)
    plan.prepare(arrays, step, options)
    return plan


def _check_lists(lists: tuple[Any, ...]) -> None:
    """Raise DTypeError if lists are mixed with single arrays."""
    for name, each in zip(_NAMES, lists, strict=True):
        if not isinstance(each, (list, tuple)):
            raise DTypeError(f"{name} is a {type(each).__name__} and p a list; pass lists, or one array of each")


def _find(lists: tuple[Any, ...], handle: int, alone: bool) -> tuple[StepPlan, list[Any]]:
    arrays, layouts = [], []
    for name, each in zip(_NAMES, lists, strict=True):
        found = [operands.as_array(x, name if alone else f"{name}[{k}]", handle) for k, x in enumerate(each)]
        arrays += found
        layouts.append(tuple(map(operands.layout_of, found)))
    return plans.find((_made, alone, *layouts)), arrays


def _made(alone: bool, *lists: tuple[Layout, ...]) -> StepPlan:
    """Validate layouts and return the plan. Everything here depends only on layouts."""
    rows = len(lists[0])
    for name, each in zip(_NAMES, lists, strict=True):
        if len(each) != rows:
            raise ShapeError(f"{name} has {len(each)} arrays and p {rows}; pass as many of each")
    task = ListTask(_NAMES, tuple(own for each in lists for own in each), rows, (), _WRITTEN, alone)
    for number, own in enumerate(task.layouts):
        name, first = task.name(number), number % rows
        row = info(own.dtype, name)
        if not row.is_float:
            raise DTypeError(f"{name} has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
        check_same_device(own, name, task.layouts[0], task.name(0))
        if own.shape != task.layouts[first].shape:
            raise ShapeError(f"{name} has shape {own.shape}; {task.name(first)} has shape {task.layouts[first].shape}")
        head = 2 * rows if number >= 2 * rows else number - first
        if own.dtype != task.layouts[head].dtype:
            raise DTypeError(
                f"{name} has dtype {own.dtype} and {task.name(head)} {task.layouts[head].dtype}; all of p must have "
                "one dtype, all of g one dtype, and all of m and v one dtype"
            )
        if task.is_written(number):
            check_writable(own, name)
    names = tuple(each[0].dtype.name for each in lists) if rows else ("float32",) * len(lists)
    if names[2] not in (names[0], "float32"):
        raise DTypeError(f"{task.name(2 * rows)} has dtype {names[2]}; moments must have float32 or p's dtype")
    return StepPlan(task._replace(operands=names), task.layouts[0].device if rows else CPU)


def everyday_elementwise(vector: Layout, moments: Layout) -> None:
    """Compile the kernels of steps for parameters and moments with these layouts."""
    plan = _made(False, (vector,), (vector,), (moments,), (moments,))
    for singles in ((), ("int64",), ("int32",), ("float32",), ("int64", "float32")):
        plan.kernel(singles, (0,) * len(singles))


class StepPlan(NotCopied):
    """A planned step of AdamW. Call it with arrays that have the layouts it was made for: one of each, or lists.

    Attributes:
        used, cache, library_bytes: the same as in every plan.

    Example:
        >>> p, g, m, v = ([np.ones(3)] for _ in range(4))
        >>> elementwise.adamw_step.plan(p, [np.ones(3)], [np.zeros(3)], [np.zeros(3)], 1).info.backend
        'numpy'
    """

    _instead = PLAN_INSTEAD
    used, library_bytes = 0, 0
    cache: Any = None

    def __init__(self, task: ListTask, device: int):
        self.op, self.device, self._task = _OP, device, task
        compute = task.compute
        #: The index is the number of arrays among step and rate.
        self._works = (
            Work(ADAMW, (compute,) * 6),
            Work(ADAMW_COUNTED, (compute,) * 7, ("step",)),
            Work(ADAMW_COUNTED, (compute,) * 6, ("step", "rate")),
        )
        if device < 0:
            self._apart, self._rest = Apart(task), list(range(task.rows))
            return
        self._lists = ListExecutable(task, device)
        together = {*self._lists.flat}
        self._rest = [k for k in range(task.rows) if k not in together and task.layouts[k].size]

    @observable("call", ".op")
    def __call__(
        self, p: _P, g: Any, m: _M, v: _V, step: Any, *, stream: Any = None, **options: Any
    ) -> tuple[_P, _M, _V]:
        """Make a step as `adamw_step` does, with its options. The arrays must have the layouts of the plan.

        Raises:
            LayoutError: an array has another layout. The other errors are the same as in `adamw_step`.
        """
        handle = handle_of(stream)
        lists: tuple[Any, ...] = ([p], [g], [m], [v]) if self._task.alone else (p, g, m, v)
        _check_lists(lists)
        arrays = [operands.as_array(x, name, handle) for name, each in zip(_NAMES, lists, strict=True) for x in each]
        found = list(map(operands.layout_of, arrays))
        if len(found) != len(self._task.layouts) or not all(map(same_layout, found, self._task.layouts)):
            raise LayoutError(
                f"this plan of {self.op} was made for other arrays. Make a plan for these, or call the function, "
                "which does"
            )
        self.run(arrays, counted(step, handle), Options(**options).checked(handle), handle)
        return p, m, v

    def run(self, arrays: list[Any], step: Any, options: Options, handle: int) -> None:
        """Make a step. The arrays have the plan's layouts and are given list after list."""
        singles = self._singles(step, options)
        if not self._task.rows:
            return
        self._check_writable(arrays)
        if self.device < 0:
            self._apart.check(
                [array.ctypes.data if isinstance(array, np.ndarray) else array._address for array in arrays]
            )
            self._one_by_one(ONE, arrays, options.at(step), handle)
        elif not singles:
            numbers = options.at(step)
            self._lists.run(self._works[0], arrays, (), handle, self._words(numbers))
            self._one_by_one(ONE, arrays, numbers, handle)
        else:
            numbers = options.counted()[len(singles) - 1 :]
            self._lists.run(self._works[len(singles)], arrays, singles, handle, self._words(numbers))
            if self._rest:
                self._one_by_one(_ONE_COUNTED, arrays, (*self._computed(singles, handle), *numbers), handle)

    def prepare(self, arrays: list[Any], step: Any, options: Options) -> None:
        """Compile and load everything that a run on these arrays needs."""
        if self.device < 0:
            return
        singles = self._singles(step, options)
        if self._lists.flat:
            self.kernel([each.dtype.name for each in singles], [each._address for each in singles])
        if not self._rest:
            return
        one, numbers = ONE, () if singles else options.at(step)
        if singles:
            numbers = (*self._computed(singles, handle_of(None)), *options.counted()[len(singles) - 1 :])
            one = _ONE_COUNTED
        for k in self._rest:
            p, g, m, v = arrays[k :: self._task.rows]
            find_one(one, (p, g, m, v, *numbers), (p, m, v), None)

    def kernel(self, singles: Sequence[str] = (), starts: Sequence[int] = ()) -> Any:
        """Return the kernel of lists, given dtypes and addresses of the arrays among step and rate."""
        return self._lists.kernel(self._works[len(singles)], tuple(singles), starts)

    def _singles(self, step: Any, options: Options) -> tuple[Any, ...]:
        """Return the arrays with one element: none, step, or step and rate."""
        found = [("step", step)] if type(step) is not int else []
        if not isinstance(options.rate, float):
            if not found:
                raise OptionError(f"rate is on the GPU and step={step} is not: count steps there, too")
            found.append(("rate", options.rate))
        for name, array in found:
            if self._task.rows:
                check_same_device(operands.layout_of(array), name, self._task.layouts[0], self._task.name(0))
        return tuple([array for _, array in found])

    def _computed(self, singles: Sequence[Any], handle: int) -> list[Any]:
        """Return these arrays in the compute dtype, so that promotion with a parameter's arrays keeps that dtype."""
        compute = self._task.compute
        return [astype(each.reshape(()), compute, copy=False, stream=handle) for each in singles]

    def _words(self, numbers: Sequence[float]) -> list[int]:
        compute = self._works[0].scalars[0]
        return [word for number in numbers for word in dtypes.words(number, compute)]

    def _one_by_one(self, row: Row, arrays: list[Any], numbers: Sequence[Any], handle: int) -> None:
        """Update the parameters that are not updated together."""
        for k in self._rest:
            p, g, m, v = arrays[k :: self._task.rows]
            run_one(row, (p, g, m, v, *numbers), (p, m, v), None, handle)

    def _check_writable(self, arrays: list[Any]) -> None:
        rows = self._task.rows
        written = [*arrays[:rows], *arrays[2 * rows :]]
        if self.device < 0:
            fixed = [
                not array.flags.writeable if isinstance(array, np.ndarray) else array._readonly for array in written
            ]
        else:
            fixed = list(map(_is_read_only, written))
        if True in fixed:
            number = fixed.index(True)
            raise read_only(self._task.name(number if number < rows else number + rows))

    @property
    def info(self) -> PlanInfo:
        """The decisions of the plan. The scratch memory holds tables of the arrays' addresses."""
        backend, algorithm, nbytes = "numpy", "reference", 0
        if self.device >= 0:
            backend, algorithm = "kernel", "no launch: all parameters are empty"
            if self._rest:
                algorithm = f"{len(self._rest)} launches of one parameter each"
            if self._lists.flat:
                found = self._lists.last or self.kernel()
                backend, algorithm, nbytes = found.backend, found.algorithm, self._lists.tables.nbytes
        return PlanInfo(self.op, self._task.operands, backend, algorithm, nbytes, self._task.compute, None, True)

    def __repr__(self) -> str:
        where = "NumPy" if self.device < 0 else f"{self.info.backend} on cuda:{self.device}"
        of = "one parameter" if self._task.alone else f"{self._task.rows} parameters"
        return f"<plan of {self.op}: {of} of {self._task.operands[0]}, {where}>"

    def _repr_html_(self) -> str:
        return plan_html(self, ())


# ---------------------------------------------------------------- the public function

_EXAMPLE = """
>>> p, g = ([np.ones(3), np.ones(2)] for _ in range(2))
>>> m, v = ([np.zeros(3), np.zeros(2)] for _ in range(2))
>>> elementwise.adamw_step.plan(p, g, m, v, 1)(p, g, m, v, 1, rate=0.5)[0][1].round(4)
array([0.495, 0.495])
"""


def _run(given: tuple[Any, ...], t: Any, options: Options, stream: Any) -> tuple[Any, Any, Any]:
    """Make the step in place."""
    p, _, m, v = given
    if isinstance(p, (list, tuple)):
        run(given, t, options, stream)
    elif type(t) is int and isinstance(options.rate, float):
        run_one(ONE, (*given, *options.at(t)), (p, m, v), None, stream)
    else:
        run(tuple([each] for each in given), t, options, stream, alone=True)
    return p, m, v


def _planned(given: tuple[Any, ...], t: Any, options: Options, stream: Any) -> StepPlan:
    """Return the plan of a step."""
    alone = not isinstance(given[0], (list, tuple))
    return find(tuple([each] for each in given) if alone else given, t, options, alone=alone)


@planned(
    plans,
    "StepPlan",
    "p g m v",
    call="plan(p, g, m, v, step)",
    note="Options may differ from call to call.",
    short=False,
    run=_run,
    prepare=_planned,
    example=_EXAMPLE,
)
def adamw_step(
    p: _P,
    g: Any,
    m: _M,
    v: _V,
    step: Any,
    *,
    rate: Any = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    stream: Any = None,
) -> tuple[_P, _M, _V]:
    """Make a step of AdamW in place, for one parameter or for lists. One kernel reads and writes everything once.

        m ← m + (1 - β₁)(g - m),  v ← v + (1 - β₂)(g² - v)
        p ← p - η (m/(1 - β₁ᵗ) / (√(v/(1 - β₂ᵗ)) + ε) + λ p)

    Source: Loshchilov and Hutter 2017 (arXiv:1711.05101). As in torch, the weight decay is multiplied by the rate.

    Args:
        p: the parameter, an array of floats; or a list or tuple of such arrays, of any shapes and one dtype. The arrays
            are written.
        g: the gradient of the loss with respect to p, with p's shape. If p is a list, a list of the same length, with
            one dtype.
        m, v: the moments, with p's shape, initially 0. They are written. For a 16-bit parameter, float32 moments are
            better. In lists, all moments have one dtype, float32 or p's.
        step: t, counted from 1. Or an array on the GPU with one integer or float, which must be at least 1 when the
            kernel reads it. The kernel does not change it: a captured graph that adds 1 before the step makes a new
            step at each launch. A NumPy array is read at the call.
        rate, beta1, beta2, eps, weight_decay: η, β₁, β₂, ε, λ. If step is on the GPU, rate may be on the GPU, too: an
            array with one float.
        stream: the stream to run on; the default stream if None. The call does not wait for the result.

    Returns:
        (p, m, v).

    Raises:
        OptionError: step is below 1, a β is not in [0, 1), or the rate, ε or the decay is negative.
        ShapeError, DTypeError: the arrays do not fit together.
        LayoutError: an array that is written overlaps another array, also one of another parameter, or is read-only.
        DeviceError: the arrays are on different devices.

    In lists, parameters without elements are skipped. Parameters whose four arrays are contiguous in the same memory
    order are updated together by one launch. It accesses 16 bytes at a time if all four arrays start at multiples of
    16. Each other parameter has its own launch. The arrays' addresses are written to a table on the GPU, unless one of
    the last calls used the same addresses. The results are bitwise equal to those of one call for each parameter; with
    `step` on the GPU, they differ by rounding.

    Example:
        >>> p, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
        >>> elementwise.adamw_step(p, np.array([0.5]), m, v, 1, rate=0.1)[0].round(4)
        array([0.899])
        >>> g = np.ones(3)
        >>> elementwise.adamw_step([np.ones(3)], [g], [np.zeros(3)], [np.zeros(3)], 1, rate=0.1)[0][0].round(4)
        array([0.899, 0.899, 0.899])
    """
    handle = handle_of(stream)
    t, options = counted(step, handle), Options(rate, beta1, beta2, eps, weight_decay).checked(handle)
    return (p, g, m, v), t, options, stream  # type: ignore[return-value]
