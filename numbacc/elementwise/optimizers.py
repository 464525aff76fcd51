"""A step of AdamW: one kernel for all parameters, their gradients and their two moments.

For lists, this module checks the arrays and decides which parameters one launch updates together. The others are
updated one by one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..arrays import creation, operands
from ..base import checks, dtypes
from ..base.dtypes import FLOATS, info
from ..base.layout import CPU, Layout, check_same_device, check_writable, read_only, same_layout
from ..base.observing import observable
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import DTypeError, LayoutError, OptionError, ShapeError
from ..functions.symbolic.vectorized import vectorized
from ..kernels.elementwise.multi_tensor_launch import Apart, ListExecutable, ListTask, Work
from ..kernels.elementwise.optimizers import ADAMWS, COUNTED_STEPS, STEPS
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


def _row(function: Callable[..., Any], has_copies: bool) -> Row:
    """Return the step of one parameter with any strides, as an elementwise function: bitwise equal to that of lists."""
    name, names = "adamw_step", tuple(inspect.signature(function).parameters)
    meanings = {"f": Meaning(function, vectorized(function, name))}
    return Row(name, names, "float", meanings, results=("",) * (3 + has_copies), is_tuple=True, heavy=(2,))


#: (whether there is a factor, whether there are copies) -> the step with all options as scalars; and the step that
#: reads the step number, and possibly the rate, on the GPU.
_ONES, _COUNTED_ONES = ({key: _row(each, key[1]) for key, each in table.items()} for table in (STEPS, COUNTED_STEPS))
ONE = _ONES[False, False]

#: The names of the lists. The last one may be missing.
_OP, _NAMES = "elementwise.adamw_step", ("p", "g", "m", "v", "copy")
#: The indices of the arrays that are written, in the order of the formula's results; and how many lists are read.
_WRITTEN, _READ = (0, 2, 3, 4), 4
#: The dtypes of arrays with one element. A float counter represents all relevant whole numbers exactly.
_SINGLES = {
    "step": ("int32", "int64", "uint32", "uint64", "float32", "float64"),
    "rate": ("float32", "float64"),
    "factor": ("float32", "float64"),
}
#: Types that are not arrays, whether they are valid or not.
NUMBERS = (int, float, complex, str, np.generic, type(None))
_layout, _is_read_only = attrgetter("_numbacc_layout"), attrgetter("_readonly")


@lru_cache(maxsize=64)
def _decays(decays: Sequence[Any]) -> tuple[float, ...] | float:
    """Return decays in a unique form: a tuple, or one number if several are equal."""
    found = tuple([checks.at_least_0(each, f"weight_decay[{k}]") for k, each in enumerate(decays)])
    return found[0] if len({*found}) == 1 and len(found) > 1 else found


@lru_cache(maxsize=64)
def _words_of(decays: tuple[float, ...], compute: str) -> list[int]:
    return [word for each in decays for word in dtypes.words(each, compute)]


class Options(NamedTuple):
    """The options of a step, named as in `adamw_step`: η, β₁, β₂, ε, λ, and the gradient's factor.

    η and the factor may be GPU arrays with one element. There may be one λ for each parameter.
    """

    rate: Any = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: Any = 0.01
    factor: Any = None

    def checked(self, handle: int) -> Options:
        """Return the options in a unique form. Raise OptionError if one is out of range."""
        for name, beta in (("beta1", self.beta1), ("beta2", self.beta2)):
            if not 0.0 <= checks.real(beta, name) < 1.0:
                raise OptionError(f"{name}={beta} is out of range: it must be at least 0 and below 1")
        small, decay = checks.at_least_0(self.eps, "eps"), self.weight_decay
        if isinstance(decay, (list, tuple)):
            try:
                decay = _decays(tuple(decay))
            except TypeError:  # an entry cannot be hashed
                decay = _decays.__wrapped__(decay)
        else:
            decay = checks.at_least_0(decay, "weight_decay")
        eta = self.rate if isinstance(self.rate, NUMBERS) else single(self.rate, "rate", handle)
        eta = checks.at_least_0(eta, "rate") if isinstance(eta, NUMBERS) else eta
        factor = None if self.factor is None else factor_of(self.factor, handle)
        return Options(eta, float(self.beta1), float(self.beta2), small, decay, factor)

    def of(self, k: int) -> Options:
        """Return the options of parameter number k."""
        return self._replace(weight_decay=self.weight_decay[k]) if self.has_decays else self

    @property
    def is_plain(self) -> bool:
        """Whether there is one decay and no factor."""
        return self.factor is None and not self.has_decays

    @property
    def has_decays(self) -> bool:
        """Whether there is a decay for each parameter."""
        return isinstance(self.weight_decay, tuple)

    def at(self, t: int) -> tuple[float, ...]:
        """Return the scalars of `kernels.elementwise.optimizers.adamw` at step t; the rate is last if decays differ."""
        pace, scale = self.rate / (1.0 - self.beta1**t), 1.0 / math.sqrt(1.0 - self.beta2**t)
        kept = self.rate if self.has_decays else 1.0 - self.rate * self.weight_decay
        return 1.0 - self.beta1, 1.0 - self.beta2, pace, scale, self.eps, kept

    def counted(self) -> tuple[Any, ...]:
        """Return the scalars of `adamw_numbers` that follow the step."""
        logs = [math.log(beta) if beta else -math.inf for beta in (self.beta1, self.beta2)]
        decay = 0.0 if self.has_decays else self.weight_decay
        return self.rate, *logs, 1.0 - self.beta1, 1.0 - self.beta2, self.eps, decay

    @property
    def scale(self) -> tuple[Any, ...]:
        """The factor, if there is one."""
        return () if self.factor is None else (self.factor,)


def counted(step: Any, handle: int) -> Any:
    """Return a step as an integer of at least 1, or as the GPU array that holds it.

    Raises:
        OptionError: it is not such an integer. DTypeError, ShapeError: it is not an array with one element.
    """
    if not isinstance(step, NUMBERS):
        step = single(step, "step", handle)
        if not isinstance(step, NUMBERS):
            return step
        step = int(step) if isinstance(step, float) and step.is_integer() else step
    return checks.integer(step, "step", 1, 2**63 - 1)


def single(obj: Any, name: str, handle: int) -> Any:
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


def factor_of(factor: Any, handle: int) -> Any:
    """Return a gradient's factor as a number, which may be NaN, or as the GPU array that holds it; 1 for None.

    Raises:
        OptionError: it is infinite, or not a number. DTypeError, ShapeError: it is not an array with one element.
    """
    if factor is None:
        return 1.0
    if not isinstance(factor, NUMBERS):
        factor = single(factor, "factor", handle)
    factor = factor.item() if isinstance(factor, np.generic) else factor
    return checks.real(factor, "factor") if isinstance(factor, NUMBERS) and factor == factor else factor


def run(lists: tuple[Any, ...], step: Any, options: Options, stream: Any, *, alone: bool = False) -> None:
    """Make a step for lists of parameters.

    Args:
        lists: p, g, m, v, and the copies if there are any, as lists or tuples.
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
    for name, each in zip(_NAMES, lists, strict=False):
        if not isinstance(each, (list, tuple)):
            raise DTypeError(f"{name} is a {type(each).__name__} and p a list; pass lists, or one array of each")


def _find(lists: tuple[Any, ...], handle: int, alone: bool) -> tuple[StepPlan, list[Any]]:
    arrays, layouts = [], []
    for name, each in zip(_NAMES, lists, strict=False):
        found = [operands.as_array(x, name if alone else f"{name}[{k}]", handle) for k, x in enumerate(each)]
        arrays += found
        layouts.append(tuple(map(operands.layout_of, found)))
    return plans.find((_made, alone, *layouts)), arrays


def _made(alone: bool, *lists: tuple[Layout, ...]) -> StepPlan:
    """Validate layouts and return the plan. Everything here depends only on layouts."""
    rows = len(lists[0])
    names_given = _NAMES[: len(lists)]
    for name, each in zip(names_given, lists, strict=True):
        if len(each) != rows:
            raise ShapeError(f"{name} has {len(each)} arrays and p {rows}; pass as many of each")
    layouts = tuple(own for each in lists for own in each)
    task = ListTask(names_given, layouts, rows, (), _WRITTEN[: len(lists) - 1], _READ, alone)
    for number, own in enumerate(task.layouts):
        name, first = task.name(number), number % rows
        row = info(own.dtype, name)
        if not row.is_float:
            raise DTypeError(f"{name} has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
        check_same_device(own, name, task.layouts[0], task.name(0))
        if own.shape != task.layouts[first].shape:
            raise ShapeError(f"{name} has shape {own.shape}; {task.name(first)} has shape {task.layouts[first].shape}")
        head = 2 * rows if 2 * rows <= number < 4 * rows else number - first
        if own.dtype != task.layouts[head].dtype:
            raise DTypeError(
                f"{name} has dtype {own.dtype} and {task.name(head)} {task.layouts[head].dtype}; all of p must have "
                "one dtype, all of g one dtype, all of m and v one dtype, and all copies one dtype"
            )
        if task.is_written(number):
            check_writable(own, name)
    names = tuple(each[0].dtype.name for each in lists) if rows else ("float32",) * len(lists)
    if names[2] not in (names[0], "float32"):
        raise DTypeError(f"{task.name(2 * rows)} has dtype {names[2]}; moments must have float32 or p's dtype")
    return StepPlan(task._replace(operands=names), task.layouts[0].device if rows else CPU)


def everyday_elementwise(vector: Layout, moments: Layout) -> None:
    """Compile the kernels of steps for parameters and moments with these layouts, and of their float32 masters."""
    plan = _made(False, (vector,), (vector,), (moments,), (moments,))
    if vector.itemsize == 2:
        mixed = _made(False, (moments,), (vector,), (moments,), (moments,), (vector,))
        for decays in (0.0, (0.0, 0.0)):
            for names, dtypes_of in ((("step", "factor"), ("int64", "float32")), (("step",), ("int64",))):
                options = Options(weight_decay=decays, factor=None if len(names) < 2 else names)
                work = mixed._work([(name, None) for name in names], options)
                mixed._lists.kernel(work, dtypes_of, (0,) * len(names))
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
        self._has_copies = len(task.names) > _READ
        self._works: dict[Any, Work] = {}
        if device < 0:
            self._apart, self._rest = Apart(task), list(range(task.rows))
            return
        self._lists = ListExecutable(task, device)
        together = {*self._lists.flat}
        self._rest = [k for k in range(task.rows) if k not in together and task.layouts[k].size]

    def _work(self, singles: Sequence[tuple[str, Any]], options: Options) -> Work:
        """Return the computation, given the names and arrays on the GPU."""
        names, has_factor = tuple([name for name, _ in singles]), options.factor is not None
        key = names, has_factor, options.has_decays
        found = self._works.get(key)
        if found is None:
            kind = " ".join(names) if has_factor and "rate" in names else "step" if names else ""
            if has_factor and "rate" not in names:
                kind = "step factor" if "step" in names else "factor" if names else "scaled"
            count = (8 if "step" in names else 6) + has_factor - len(names)
            formula = ADAMWS[kind, self._has_copies, options.has_decays]
            found = self._works[key] = Work(formula, (self._task.compute,) * count, names)
        return found

    def _numbers(self, step: Any, options: Options) -> tuple[float, ...]:
        """Return the scalars of a computation: those that are not on the GPU."""
        if type(step) is int:
            found = (*options.scale, *options.at(step))
            return found[1:] if options.scale and not isinstance(options.factor, float) else found
        rate, *others = options.counted()
        first = [rate, *options.scale] if not isinstance(rate, float) else [*options.scale, rate]
        return (*[each for each in first if isinstance(each, float)], *others)

    @observable("call", ".op")
    def __call__(
        self, p: _P, g: Any, m: _M, v: _V, step: Any, *, copy: Any = None, stream: Any = None, **options: Any
    ) -> tuple[_P, _M, _V]:
        """Make a step as `adamw_step` does, with its options. The arrays must have the layouts of the plan.

        Raises:
            LayoutError: an array has another layout. The other errors are the same as in `adamw_step`.
        """
        handle = handle_of(stream)
        lists: tuple[Any, ...] = (p, g, m, v) if copy is None else (p, g, m, v, copy)
        lists = tuple([[each] for each in lists]) if self._task.alone else lists
        _check_lists(lists)
        arrays = [operands.as_array(x, name, handle) for name, each in zip(_NAMES, lists, strict=False) for x in each]
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
        else:
            work = self._work(singles, options)
            own: Sequence[int] = ()
            if options.has_decays:
                own = _words_of(options.weight_decay, self._task.compute)
            words = self._words(self._numbers(step, options))
            self._lists.run(work, arrays, [array for _, array in singles], handle, words, own)
        if self._rest:
            self._one_by_one(arrays, step, options, handle)

    def prepare(self, arrays: list[Any], step: Any, options: Options) -> None:
        """Check the options, and compile and load everything that a run on these arrays needs."""
        singles = self._singles(step, options)
        if self.device < 0:
            return
        if self._lists.flat:
            found = [array for _, array in singles]
            self._lists.kernel(
                self._work(singles, options),
                tuple([each.dtype.name for each in found]),
                [each._address for each in found],
            )
        handle = handle_of(None)
        for k in self._rest:
            find_one(*self._one(k, arrays, step, options, handle), None)

    def kernel(self, singles: Sequence[str] = (), starts: Sequence[int] = ()) -> Any:
        """Return the kernel of lists without factor and decays, given dtypes and addresses of step and rate."""
        named = [(name, None) for name in ("step", "rate")[: len(singles)]]
        return self._lists.kernel(self._work(named, Options()), tuple(singles), starts)

    def _singles(self, step: Any, options: Options) -> list[tuple[str, Any]]:
        """Return the arrays with one element by name, in the order of the formula."""
        found = [("step", step)] if type(step) is not int else []
        if not isinstance(options.rate, float):
            if not found:
                raise OptionError(f"rate is on the GPU and step={step} is not: count steps there, too")
            found.append(("rate", options.rate))
        if options.factor is not None and not isinstance(options.factor, float):
            found.append(("factor", options.factor))
        if options.has_decays and len(options.weight_decay) != self._task.rows:
            raise OptionError(
                f"weight_decay has {len(options.weight_decay)} numbers and p {self._task.rows} arrays; pass one number "
                "for each, or one for all"
            )
        for name, array in found:
            if self._task.rows:
                check_same_device(operands.layout_of(array), name, self._task.layouts[0], self._task.name(0))
        return found

    def _computed(self, number: Any, handle: int) -> Any:
        """Return an array in the compute dtype, so that promotion with a parameter's arrays keeps that dtype."""
        if isinstance(number, (int, float)):
            return number
        return astype(number.reshape(()), self._task.compute, copy=False, stream=handle)

    def _words(self, numbers: Sequence[float]) -> list[int]:
        compute = self._task.compute
        return [word for number in numbers for word in dtypes.words(number, compute)]

    def _one(
        self, k: int, arrays: list[Any], step: Any, options: Options, handle: int
    ) -> tuple[Row, tuple[Any, ...], tuple[Any, ...]]:
        """Return the function of parameter number k alone, its arguments and its outputs."""
        own, options = arrays[k :: self._task.rows], options.of(k)
        numbers = options.at(step) if type(step) is int else (step, *options.counted())
        numbers = tuple([self._computed(each, handle) for each in (*options.scale, *numbers)])
        rows = _ONES if type(step) is int else _COUNTED_ONES
        outs = tuple([own[number] for number in self._task.written])
        return rows[options.factor is not None, self._has_copies], (*own[:_READ], *numbers), outs

    def _one_by_one(self, arrays: list[Any], step: Any, options: Options, handle: int) -> None:
        """Update the parameters that are not updated together."""
        for k in self._rest:
            row, arguments, outs = self._one(k, arrays, step, options, handle)
            run_one(row, arguments, outs, None, handle)

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
    p, _, m, v = given[:_READ]
    if isinstance(p, (list, tuple)):
        run(given, t, options, stream)
    elif len(given) == _READ and type(t) is int and isinstance(options.rate, float) and options.is_plain:
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
    weight_decay: Any = 0.01,
    factor: Any = None,
    copy: Any = None,
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
            array with one float. For lists, weight_decay may be a list with one number for each parameter.
        factor: a number, or an array on the GPU with one float, such as the one of `clip_grad_norm`. The gradients are
            multiplied by it. If it is NaN, the step changes nothing.
        copy: an array of floats with p's shape, or a list of such arrays, of one dtype. It receives the new p: the
            16-bit weights of a float32 p.
        stream: the stream to run on; the default stream if None. The call does not wait for the result.

    Returns:
        (p, m, v).

    Raises:
        OptionError: step is below 1, a β is not in [0, 1), the rate, ε or a decay is negative, or there are not as many
            decays as parameters.
        ShapeError, DTypeError: the arrays do not fit together.
        LayoutError: an array that is written overlaps another array, also one of another parameter, or is read-only.
        DeviceError: the arrays are on different devices.

    In lists, parameters without elements are skipped. Parameters whose arrays are contiguous in the same memory
    order are updated together by one launch. It accesses up to 16 bytes at a time if all arrays start at multiples of
    16. Each other parameter has its own launch. The arrays' addresses are written to a table on the GPU, unless one of
    the last calls used the same addresses. The results are bitwise equal to those of one call for each parameter; with
    `step` on the GPU or several decays, they differ by rounding.

    Example:
        >>> p, m, v = np.array([1.0]), np.zeros(1), np.zeros(1)
        >>> elementwise.adamw_step(p, np.array([0.5]), m, v, 1, rate=0.1)[0].round(4)
        array([0.899])
        >>> g = np.ones(3)
        >>> elementwise.adamw_step([np.ones(3)], [g], [np.zeros(3)], [np.zeros(3)], 1, rate=0.1)[0][0].round(4)
        array([0.899, 0.899, 0.899])
    """
    handle = handle_of(stream)
    t = counted(step, handle)
    options = Options(rate, beta1, beta2, eps, weight_decay, factor).checked(handle)
    given = (p, g, m, v) if copy is None else (p, g, m, v, copy)
    return given, t, options, stream  # type: ignore[return-value]


class AdamWState:
    """The state of an AdamW on flat arrays. A step can be captured in a CUDA graph: all that changes is an array.

    Args:
        parameters: the array of all parameters.
        size: the number of elements of the moments.
        rate, beta1, beta2, eps, weight_decay: as in `adamw_step`.
        max_norm: the largest norm of the gradients; None for any.
    """

    def __init__(
        self,
        parameters: Any,
        size: int,
        rate: float,
        beta1: float,
        beta2: float,
        eps: float,
        weight_decay: float,
        max_norm: float | None,
    ):
        self.options = {"beta1": beta1, "beta2": beta2, "eps": eps}
        self.weight_decay, self.max_norm = weight_decay, max_norm
        self.norm: Any = None
        #: The dtype of the moments and of the parameters that are updated.
        self._wide = "float64" if parameters.dtype == "float64" else "float32"
        device = operands.device_of(parameters)
        self.m, self.v = (creation.zeros(size, self._wide, device=device) for _ in "mv")
        self.count = creation.zeros(1, "int64", device=device)
        self._rate = creation.full(1, rate, self._wide, device=device)

    @property
    def rate(self) -> Any:
        """The learning rate, an array with one element. A number that is assigned is written to it."""
        return self._rate

    @rate.setter
    def rate(self, value: Any) -> None:
        self._rate[...] = value


def check_state(state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that a saved state has arrays of these shapes, by name.

    Raises:
        OptionError: names are missing. ShapeError: an array has another shape.
    """
    if missing := sorted(shapes.keys() - state.keys()):
        raise OptionError(f"state lacks {missing}; pass what state_dict() of an AdamW returned")
    for name, shape in shapes.items():
        if tuple(state[name].shape) != shape:
            raise ShapeError(f"{name} has shape {tuple(state[name].shape)}; it must have shape {shape}")
