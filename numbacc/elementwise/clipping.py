"""The norm of all gradients, and the factor that limits it, without a copy to the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import operands
from ..arrays.operands import Array
from ..base import checks
from ..base.casts import cast
from ..base.dtypes import FLOATS, TABLE, info, words
from ..base.layout import Layout, check_same_device, layout, read_only, view
from ..base.observing import observable
from ..base.ownership import PLAN_INSTEAD, NotCopied
from ..errors import DTypeError, OptionError
from ..functions.reduction_formula import ReductionFormula
from ..kernels.elementwise.multi_tensor_launch import Apart, ListExecutable, ListTask, Work
from ..kernels.elementwise.optimizers import CLIPPED, SCALED, SQUARE, clipped, square
from ..kernels.reduce.functions import add, same
from ..kernels.reduce.launch import ReduceExecutable, ReduceTask
from ..plan.base import check_out, outs_of
from ..runtime.streams import handle_of
from .calling import plans
from .operation import run as run_one
from .optimizers import factor_of
from .rows import NAMED

#: The sum of squares of an array that is not dense.
_SQUARES = ReductionFormula("squares", square, start=(0.0,), merge=add, finish=same)


@observable("call", "elementwise.clip_grad_norm")
def clip_grad_norm(
    g: Any, max_norm: float | None, *, factor: Any = None, write: bool = True, out: Any = None, stream: Any = None
) -> tuple[Array, Array]:
    """Return the norm of all gradients together, and the factor that limits it to `max_norm`.

    The norm is √(Σ g²) over all elements of all arrays. The factor is min(1, max_norm / (norm + 1e-6)), as in torch. It
    is NaN if the norm is not finite; `adamw_step` then changes nothing. Neither is copied to the host.

    Args:
        g: array of float32, float64, float16 or bfloat16, with any shape and strides, or a list or tuple of such
            arrays. Pass the flat buffer of all gradients if there is one.
        max_norm: the largest norm that is left as it is. None for any: the factor is then 1, or NaN.
        factor: a number, or an array on the GPU with one float, that the gradients stand to be multiplied by, such as 1
            / (loss scale). The norm is that of the products, and the returned factor contains it.
        write: whether to multiply the gradients by the factor. With False they are only read: pass the factor to
            `adamw_step`.
        out: a pair of arrays of rank 0 for the norm and the factor.

    Returns:
        (the norm, the factor): arrays of rank 0 of float32 (float64 if a gradient is), on the device of g; or `out`.

    Raises:
        DTypeError: g is not an array or a list of arrays, or has a dtype not named above.
        OptionError: max_norm is negative, factor is not finite, or write is not a bool.
        LayoutError: with write=True, an array is read-only or overlaps another.
        DeviceError: the arrays are on different devices.

    Squares are summed in float32 or float64, in an order that is fixed on one GPU model. With write=True and a factor
    of 1, the gradients are not read again.

    Example:
        >>> g = [np.array([3.0, 0.0]), np.array([[4.0]])]
        >>> norm, factor = elementwise.clip_grad_norm(g, 1.0)
        >>> float(norm), g[1].round(3)
        (5.0, array([[0.8]]))
    """
    handle = handle_of(stream)
    most = math.inf if max_norm is None else checks.at_least_0(max_norm, "max_norm")
    writes = checks.boolean(write, "write")
    factor = factor_of(factor, handle)
    given = g if isinstance(g, (list, tuple)) else [g]
    if not given:
        raise OptionError("g is empty: pass at least one array")
    names = [f"g[{k}]" if given is g else "g" for k in range(len(given))]
    arrays = [operands.as_array(each, name, handle) for each, name in zip(given, names, strict=True)]
    plan = plans.find((_made, given is not g, *map(operands.layout_of, arrays)))
    outs = None if out is None else _outs(out, plan, handle)
    found: tuple[Array, Array] = plan.run(arrays, most, factor, writes, outs, handle)
    return found if out is None else out


def _outs(out: Any, plan: NormPlan, handle: int) -> list[Any]:
    """Return `out` as two arrays, after checks."""
    outs = outs_of(out, handle) or []
    made = plan.result
    check_out([operands.layout_of(each) for each in outs], (made, made), ("out[0]", "out[1]"))
    return outs


def _made(alone: bool, *layouts: Layout) -> NormPlan:
    """Validate layouts and return the plan. Everything here depends only on layouts."""
    for k, own in enumerate(layouts):
        name = "g" if alone else f"g[{k}]"
        row = info(own.dtype, name)
        if not row.is_float:
            raise DTypeError(f"{name} has dtype {row.name}; it must be one of {', '.join(FLOATS)}")
        check_same_device(own, name, layouts[0], "g" if alone else "g[0]")
    return NormPlan(layouts, alone)


class NormPlan(NotCopied):
    """The executables of a norm of arrays with given layouts.

    Attributes:
        used, cache, library_bytes: the same as in every plan.
    """

    _instead = PLAN_INSTEAD
    used, library_bytes = 0, 0
    cache: Any = None

    def __init__(self, layouts: Sequence[Layout], alone: bool):
        self._layouts, self._alone, self.device = tuple(layouts), alone, layouts[0].device
        kinds = [info(each.dtype).name for each in layouts]
        self._compute = compute = "float64" if "float64" in kinds else "float32"
        row = TABLE[compute]
        #: The layout of the norm and of the factor.
        self.result = layout((), (), row.numpy, self.device)
        task = ListTask(("g",), self._layouts, len(layouts), (), (0,), 1, alone)
        self._apart = Apart(task)
        if self.device < 0:
            return
        #: (the numbers of arrays of one dtype, their sums, their products with the factor).
        self._groups: list[tuple[list[int], ListExecutable, ListExecutable]] = []
        #: Arrays that are not dense.
        self._rest: list[tuple[int, ReduceExecutable]] = []
        count = 0
        for kind in dict.fromkeys(kinds):
            group = [k for k, name in enumerate(kinds) if name == kind]
            own = tuple([layouts[k] for k in group])
            task = ListTask(("g",), own, len(own), (kind,), (), 1, alone, compute)
            sums = ListExecutable(task, self.device)
            self._groups.append((group, sums, ListExecutable(task._replace(written=(0,)), self.device)))
            count += sums.tables.blocks
            flat = {group[k] for k in sums.flat}
            self._rest += [(k, self._squares(layouts[k])) for k in group if k not in flat and layouts[k].size]
        self._sums = layout((max(count + len(self._rest), 1),), (row.itemsize,), row.numpy, self.device)
        self._is_empty = not count and not self._rest
        self._totals: dict[Any, ReduceExecutable] = {}

    def _squares(self, own: Layout) -> ReduceExecutable:
        return ReduceExecutable(
            ReduceTask(
                op="elementwise.clip_grad_norm",
                formula=_SQUARES,
                reference=np.sum,
                names=("g", "sum"),
                inputs=(own,),
                outputs=(self.result,),
                shape=own.shape,
                axes=tuple(range(own.ndim)),
                reads=(view(0, 0, own.strides, own.shape),),
                writes=(view(0, 0, (), ()),),
                out_given=True,
                compute=self._compute,
            )
        )

    def _total(self, factor: Layout | None) -> ReduceExecutable:
        """Return the reduction of all sums, given the layout of a factor on the GPU."""
        found = self._totals.get(factor)
        if found is None:
            sums, shape = self._sums, self._sums.shape
            more = () if factor is None else (view(1, 0, (0,), shape),)
            found = self._totals[factor] = ReduceExecutable(
                ReduceTask(
                    op="elementwise.clip_grad_norm",
                    formula=CLIPPED[factor is not None],
                    reference=np.sum,
                    names=("sums", *["factor"] * len(more), "norm", "factor"),
                    inputs=(sums, *([] if factor is None else [factor])),
                    outputs=(self.result, self.result),
                    shape=shape,
                    axes=(0,),
                    reads=(view(0, 0, sums.strides, shape), *more),
                    writes=(view(0, 0, (), ()), view(1, 0, (), ())),
                    out_given=True,
                    compute=self._compute,
                    scalars=(self._compute,) * (2 - len(more)),
                )
            )
        return found

    def run(
        self, arrays: list[Any], most: float, factor: Any, writes: bool, outs: Sequence[Any] | None, handle: int
    ) -> tuple[Any, Any]:
        """Return the norm and the factor of arrays with the plan's layouts, in `outs` if given."""
        if writes:
            self._apart.check([x.ctypes.data if isinstance(x, np.ndarray) else x._address for x in arrays])
            for k, array in enumerate(arrays):
                fixed = not array.flags.writeable if isinstance(array, np.ndarray) else array._readonly
                if fixed:
                    raise read_only("g" if self._alone else f"g[{k}]")
        if self.device < 0:
            results = self._on_host(arrays, most, factor, writes)
            for made, target in zip(results, outs or (), strict=False):
                np.copyto(target, made)
            return results
        sums = operands.empty_device(self._sums, handle)
        norm, found = outs or [operands.empty_device(self.result, handle) for _ in range(2)]
        place = 0
        for group, total, _ in self._groups:
            if total.flat:
                work, own = Work(SQUARE, is_sum=True), [arrays[k] for k in group]
                total.run(work, own, (), handle, (), outs=[sums[place : place + total.tables.blocks]])
                place += total.tables.blocks
        for k, squares in self._rest:
            squares.run([arrays[k]], [sums[place : place + 1].reshape(())], sums, handle)
            place += 1
        if self._is_empty:
            run_one(NAMED["multiply"], (sums, 0.0), sums, None, handle)
        is_here = not isinstance(factor, float)
        numbers = [most] if is_here else [most, factor]
        scalars = [word for each in numbers for word in words(each, self._compute)]
        total_of = self._total(operands.layout_of(factor) if is_here else None)
        total_of.run([sums, factor] if is_here else [sums], [norm, found], norm, handle, scalars)
        if writes:
            work = Work(SCALED, names=("factor",))
            for group, _, products in self._groups:
                if products.flat:
                    products.run(work, [arrays[k] for k in group], [found], handle, ())
            for k, _ in self._rest:
                run_one(NAMED["multiply"], (arrays[k], found), arrays[k], None, handle)
        return norm, found

    def _on_host(self, arrays: list[Any], most: float, factor: float, writes: bool) -> tuple[Any, Any]:
        compute = np.dtype(self._compute)
        with np.errstate(all="ignore"):
            total = sum((np.sum(np.square(cast(each, np.dtype(np.float64)))) for each in arrays), np.float64(0))
            results = clipped(cast(total, compute)[()], compute.type(most), compute.type(factor))
            norm, found = (np.asarray(each, compute) for each in results)
            if writes:
                for array in arrays:
                    np.copyto(array, cast(cast(array, compute) * found, array.dtype))
        return norm, found
