"""Products of groups of rows with a matrix for each group, as in a mixture of experts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import creation
from ..arrays import operands as arrays_of
from ..arrays.operands import Array
from ..base.dtypes import dtype, info
from ..base.layout import Layout, argument_of, check_same_device, layout, row_major_strides
from ..errors import DTypeError, OptionError, ShapeError
from ..kernels.elementwise.launch import MapTask
from ..kernels.gemm.launch import KernelProduct, MatrixView, order_of, steps_of
from ..libraries.products import bits
from ..plan.base import Plan
from ..runtime.streams import handle_of
from .arguments import checked_number
from .epilogue_plans import plans
from .problem import NUMBER, TYPES
from .product import matmul
from .python_epilogue import PythonEpilogue, python_epilogue
from .python_products import FusedKernel, card, epilogue_task, has_kernel, operands_of, outs_of


def grouped(
    a: Any,
    b: Any,
    sizes: Any,
    *,
    epilogue: Any = None,
    operands: Sequence[Any] | None = None,
    alpha: float = 1.0,
    out_dtype: Any = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Multiply groups of rows with a matrix for each group, as in a mixture of experts.

    The first sizes[0] rows of a belong to b[0], the next sizes[1] rows to b[1], and so on. On a GPU of compute
    capability 9.0, one kernel reads the sizes and computes all groups; nothing is copied to the host.

    Args:
        a: (rows, k) of float16 or bfloat16; on other devices than such a GPU, also float32 or float64.
        b: (groups, k, n), of a's dtype. Matrices may be stored row by row or column by column.
        sizes: (groups,) of int32, the number of rows of each group.
        epilogue: a Python function of each sum and of the operands' elements, as in `matmul`; None for none.
        operands: arrays and numbers. Arrays broadcast to (rows, n), or have the shape (groups, 1, n): a row for each
            group.
        alpha: a factor.
        out_dtype: the dtype of the results, or a tuple of them; by default a's.
        out: array (rows, n), or a tuple of arrays for several results. It must not share memory with a or b.

    Returns:
        (rows, n): a device array if a is one, a NumPy array if a is one; `out` if given. A tuple for several results.
        Rows beyond the sum of the sizes are not written.

    Raises:
        ShapeError, DTypeError, OptionError, DeviceError: arguments do not fit.
        LayoutError: `out` is read-only or shares memory with an input.

    If the kernel does not support the GPU or the arrays' layouts, this function copies the sizes to the host, which
    waits for the GPU, and calls `matmul` for each group. That does not work in a capture.

    Example:
        >>> a, b = np.arange(6.0).reshape(3, 2), np.stack([np.eye(2), 10 * np.eye(2)])
        >>> gemm.grouped(a, b, np.array([1, 2], np.int32))
        array([[ 0.,  1.],
               [20., 30.],
               [40., 50.]])
    """
    handle, alpha = handle_of(stream), checked_number(alpha, "alpha")
    made = python_epilogue(_identity if epilogue is None else epilogue)
    a, b, sizes = (arrays_of.as_array(each, name, handle) for each, name in ((a, "a"), (b, "b"), (sizes, "sizes")))
    others, own = operands_of(() if operands is None else operands, handle)
    if len(own) != made.count:
        raise OptionError(f"the epilogue {made.name} takes {made.count} operands after the sum; got {len(own)}")
    outs = None if out is None else outs_of(out, handle)
    several = out_dtype if isinstance(out_dtype, (tuple, list)) else (out_dtype,) * len(made.results)
    wanted = tuple(None if each is None else dtype(each, "out_dtype") for each in several)
    layouts = tuple(map(arrays_of.layout_of, (a, b, sizes)))
    targets = None if outs is None else tuple(map(arrays_of.layout_of, outs))
    plan: GroupedPlan = plans.find((GroupedPlan, made, layouts, own, targets, wanted))
    arrays = [a, b, sizes, *(others[f"operands[{k}]"] for k, each in enumerate(own) if each != NUMBER)]
    if plan.fits([each._address for each in (*arrays, *(outs or ()))] if plan.device >= 0 else []):
        return plan.run(arrays, outs, out, handle, plan.scalars(alpha, others["numbers"]))
    if outs is None:
        where = argument_of(plan.device)
        outs = [creation.empty(each.shape, each.dtype, device=where, stream=handle) for each in plan.outputs]
    numbers = iter(others["numbers"])
    values = [others.get(f"operands[{k}]", None) if each != NUMBER else next(numbers) for k, each in enumerate(own)]
    _one_by_one(a, b, sizes, made, values, alpha, outs, handle)
    return out if out is not None else outs[0] if len(outs) == 1 else tuple(outs)


def _identity(x):  # type: ignore[no-untyped-def]
    return x


def _one_by_one(
    a: Any,
    b: Any,
    sizes: Any,
    epilogue: PythonEpilogue,
    operands: list[Any],
    alpha: float,
    outs: list[Any],
    handle: int,
) -> None:
    """Compute the groups by a product each."""
    counts = creation.asnumpy(sizes, stream=handle)
    start = 0
    for group, count in enumerate(counts.tolist()):
        end = min(start + max(count, 0), a.shape[0])
        if end > start:
            own = [_of_group(each, group, start, end) for each in operands]
            targets = tuple(each[start:end] for each in outs)
            target = targets if len(targets) > 1 else targets[0]
            matmul(a[start:end], b[group], epilogue=epilogue, operands=own, alpha=alpha, out=target, stream=handle)
        start = end


def _of_group(operand: Any, group: int, start: int, end: int) -> Any:
    if isinstance(operand, float):
        return operand
    if operand.ndim == 3:
        return operand[group]
    return operand[start:end] if operand.ndim == 2 and operand.shape[0] > 1 else operand


class GroupedPlan(Plan[Any]):
    """The plan of a product of groups by one kernel.

    Args:
        epilogue: the function.
        arrays: the layouts of a, b and sizes.
        operands: the layouts of the operands, or `NUMBER`.
        outs, out_dtypes: the layouts of the arrays for the results, and the dtypes of the results, if given.
    """

    def __init__(
        self,
        epilogue: PythonEpilogue,
        arrays: tuple[Layout, Layout, Layout],
        operands: tuple[Any, ...],
        outs: tuple[Layout, ...] | None,
        out_dtypes: tuple[np.dtype[Any] | None, ...],
    ):
        a, b, sizes = arrays
        self._epilogue = epilogue
        types = _checked(a, b, sizes)
        shape, groups = (a.shape[0], b.shape[2]), b.shape[0]
        made = []
        for k, each in enumerate(out_dtypes):
            own = each if each is not None else a.dtype if outs is None else outs[k].dtype
            made.append(layout(shape, row_major_strides(shape, own.itemsize), own, a.device))
        compute = "float64" if types.accumulator == "float64" else "float32"
        sums = layout(shape, row_major_strides(shape, 4), dtype(compute), a.device)
        own_rows = [k for k, each in enumerate(operands) if each != NUMBER and each.ndim == 3]
        for k in own_rows:
            if operands[k].shape != (groups, 1, shape[1]):
                raise ShapeError(f"operands[{k}] has shape {operands[k].shape}; it must be {(groups, 1, shape[1])}")
        rows = [operands[k] if k not in own_rows else _row_of(operands[k]) for k in range(len(operands))]
        #: Operands and results have the same checks as in an elementwise kernel.
        self._task: MapTask = epilogue_task(epilogue, sums, rows, shape, tuple(made), outs, compute)
        given = [each for each in operands if each != NUMBER]
        names = ("a", "b", "sizes", *self._task.names[1:])
        super().__init__(f"gemm.grouped.{epilogue.name}", names, (*arrays, *given), self._task.outputs)
        self.out_given, self.math_dtype, self.accumulator_dtype = outs is not None, compute, types.accumulator
        self._groups, self._count = groups, len(operands) - len(given)
        self.empty = not (a.shape[0] and groups and shape[1])

    def fits(self, addresses: Sequence[int]) -> bool:
        """Return whether the kernel supports arrays at these addresses. New results do not have one yet."""
        unknown = len(self.inputs) + len(self.outputs) - len(addresses)
        if self.device < 0 or self.empty or not has_kernel(self.device):
            return False
        return self._order(self._key([*addresses, *[0] * unknown])) is not None

    def _order(self, starts: Sequence[int]) -> Any:
        a, b, _, *operands = self.inputs
        shape, numbers = (self._groups, a.shape[0], b.shape[2]), {name: k for k, name in enumerate(self.names)}

        def seen(number: int, array: Layout, steps: Sequence[int] = ()) -> MatrixView:
            return MatrixView(number, array.dtype.name, array.itemsize, tuple(steps) or steps_of(array, shape))

        (across, down), (matrix, k, n) = a.strides, b.strides
        return order_of(
            KernelProduct(
                shape=shape,
                k=a.shape[1],
                a=seen(0, a, (0, across, down)),
                b=seen(1, b, (matrix, n, k)),
                c=None,
                factors=(),
                operands=tuple(seen(number, each) for number, each in enumerate(operands, 3)),
                outs=tuple(seen(numbers[name], each) for name, each in zip(self._task.names[-len(self.outputs) :],
                                                                          self.outputs, strict=True)),
                numbers=self._count,
                sums=1,
                formula=self._task.formula,
                is_heavy=self._epilogue.is_heavy,
                sizes=2,
            ),
            starts,
            self.device,
            card(self.device),
        )  # fmt: skip

    def _make(self, key: Any, trial: Any) -> Any:
        return FusedKernel(self._order(key), (bits(1.0, "float32"), 0), self.close, key)

    def scalars(self, alpha: float, numbers: Sequence[float]) -> tuple[int, ...]:
        """Return alpha and the operands that are numbers, as `run` takes them."""
        return (bits(alpha, "float32"), 0, *[bits(each, "float32") for each in numbers])


def _row_of(operand: Layout) -> Layout:
    return layout(operand.shape[1:], operand.strides[1:], operand.dtype, operand.device)


def _checked(a: Layout, b: Layout, sizes: Layout) -> Any:
    """Return the row of a's dtype after the checks of a, b and sizes."""
    check_same_device(b, "b", a, "a")
    check_same_device(sizes, "sizes", a, "a")
    row = info(a.dtype, "a")
    if not row.is_float:
        raise DTypeError(f"a has dtype {row.name}; grouped supports float32, float64, float16 and bfloat16")
    if b.dtype != a.dtype:
        raise DTypeError(f"b has dtype {b.dtype} but a has {row.name}; convert one of them")
    if a.ndim != 2 or b.ndim != 3 or a.shape[1] != b.shape[1]:
        raise ShapeError(f"a has shape {a.shape} and b {b.shape}; they must be (rows, k) and (groups, k, n)")
    if sizes.dtype != np.int32:
        raise DTypeError(f"sizes has dtype {sizes.dtype}; it must be int32")
    if sizes.shape != b.shape[:1] or sizes.strides != (4,):
        raise ShapeError(f"sizes has shape {sizes.shape}; it must be contiguous, and {b.shape[:1]}")
    return TYPES[row.name]
