"""The gradients of `grouped`: of the rows a product of groups, of each group's matrix a product of its rows.

With dz the gradient of the loss with respect to the products, and for the rows of each group:

    da = alpha dz bᵀ,  db = alpha aᵀ dz,  and for the operands as in `matmul_backward`

The rows of the groups follow each other, and their sizes are on the GPU. So K of the products db differs from group to
group: one kernel computes all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arrays import creation
from ..arrays import operands as arrays_of
from ..arrays.operands import Array
from ..base.dtypes import dtype, info
from ..base.layout import Layout, argument_of, check_writable, layout, row_major_strides
from ..errors import DTypeError, ShapeError
from ..kernels.gemm.launch import KernelProduct, MatrixView, order_of, steps_of
from ..libraries.products import bits
from ..plan.base import Plan, check_out
from ..runtime.streams import handle_of
from .arguments import checked_number
from .epilogue_plans import plans
from .gradients import Results, parts_of
from .grouped import _checked, _identity, grouped
from .product import matmul
from .python_epilogue import PythonEpilogue, python_epilogue
from .python_products import FusedKernel, card, has_kernel


def grouped_backward(
    dy: Any,
    a: Any,
    b: Any,
    sizes: Any,
    *,
    epilogue: Any = None,
    operands: Sequence[Any] | None = None,
    alpha: float = 1.0,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array | None, ...]:
    """Return the gradients of a loss with respect to a, b and the operands of `grouped`, given those by its results.

    Args:
        dy: (rows, n), of a's dtype, or a tuple of such arrays if the epilogue has several results. Rows beyond the
            groups are not read.
        a, b, sizes: the arguments of `grouped`, of float32, float64, float16 or bfloat16, and int32.
        epilogue, operands, alpha: the arguments of `grouped`. The derivative is derived by the chain rule.
        out: arrays for the gradients, with None for those that are made.

    Returns:
        da, db, and a gradient for each operand, with the shape and dtype of its argument. The gradient of an operand
        that is a number, or an array of integers or bool, is None. The rows of da beyond the groups are 0, or not
        written if an array was given for it. The gradient of b is 0 for a group without rows.

    Raises:
        ShapeError: dy does not have the result's shape; an array in out does not fit.
        DTypeError: a dtype has no gradient.
        OptionError: dy or out have a wrong number of entries.
        UnsupportedError: no derivative is known; the message names the line of the function.
        The other errors are those of `grouped`.

    On a GPU of compute capability 9.0, db is one kernel if the matrices are 16-bit floats that `grouped` supports, and
    a and dy are stored row by row. Elsewhere the sizes are copied to the host, and each group is a product.

    Example:
        >>> a, b = np.arange(6.0).reshape(3, 2), np.stack([np.eye(2), 10 * np.eye(2)])
        >>> da, db = gemm.grouped_backward(np.ones((3, 2)), a, b, np.array([1, 2], np.int32))
        >>> da
        array([[ 1.,  1.],
               [10., 10.],
               [10., 10.]])
    """
    handle, alpha = handle_of(stream), checked_number(alpha, "alpha")
    made = None if epilogue is None else python_epilogue(epilogue)
    a, b, sizes = (arrays_of.as_array(each, name, handle) for each, name in ((a, "a"), (b, "b"), (sizes, "sizes")))
    _checked(*map(arrays_of.layout_of, (a, b, sizes)))
    others, seeds, outs = parts_of(dy, made, operands, out, handle)
    shape = (a.shape[0], b.shape[2])
    for k, each in enumerate(seeds):
        if tuple(each.shape) != shape:
            name = "dy" if len(seeds) == 1 else f"dy[{k}]"
            raise ShapeError(f"{name} has shape {tuple(each.shape)}; the result has shape {shape}")
    return _GroupedBackward(seeds, a, b, sizes, made, others, alpha, outs, handle).run()


class _GroupedBackward(Results):
    """One call of `grouped_backward`, with its arguments as arrays."""

    def __init__(
        self, seeds: list[Any], a: Any, b: Any, sizes: Any, epilogue: PythonEpilogue | None, operands: list[Any],
        alpha: float, outs: Sequence[Any], handle: int,
    ):  # fmt: skip
        super().__init__(outs, handle)
        self._seeds, self._a, self._b, self._sizes = seeds, a, b, sizes
        self._epilogue, self._operands, self._alpha = epilogue, operands, alpha
        self._shape, self._dtype = (a.shape[0], b.shape[2]), arrays_of.layout_of(a).dtype
        self._where = argument_of(arrays_of.layout_of(a).device)

    def run(self) -> tuple[Any, ...]:
        """Return the gradients."""
        has = [not isinstance(each, float) and info(each.dtype).is_float for each in self._operands]
        by_rows = [one and self._repeats(each) for one, each in zip(has, self._operands, strict=True)]
        dz, parts = self._elementwise(has, by_rows)
        da = self.target(0, self._a)
        if da is None:
            da = creation.zeros(self._a.shape, self._dtype, device=self._where, stream=self.handle)
        grouped(dz, self._b.swapaxes(1, 2), self._sizes, alpha=self._alpha, out=da, stream=self.handle)
        db = sums_by_group(self._a, dz, self._sizes, self._alpha, self.target(1, self._b), self._dtype, self.handle)
        found = [self.given(da, 0), self.given(db, 1)]
        for k, operand in enumerate(self._operands):
            if not has[k]:
                found.append(None)
                continue
            part = parts.get(k, dz)
            if by_rows[k]:
                part = self._summed(part)
                if operand.ndim < 3:
                    part = self.reduced(part.reshape((part.shape[0], self._shape[1])), operand.shape)
            else:
                part = self.reduced(part, operand.shape)
            found.append(self.stored(part, 2 + k, operand))
        return tuple(found)

    def _repeats(self, operand: Any) -> bool:
        """Return whether all rows, or those of a group, share a row of an operand."""
        shape = tuple(operand.shape)
        return len(shape) == 3 or (shape in ((self._shape[1],), (1, self._shape[1])))

    def _elementwise(self, has: list[bool], by_rows: list[bool]) -> tuple[Any, dict[int, Any]]:
        """Return dz, and the gradients of operands before they are summed, except those that equal dz."""
        if self._epilogue is None:
            return self.converted(self._seeds[0], self._dtype), {}
        gradient = self._epilogue.gradient
        wanted = [k for k, one in enumerate(has) if one and not (by_rows[k] and gradient.equal[k])]
        if gradient.is_identity and not wanted:
            return self.converted(self._seeds[0], self._dtype), {}
        chosen = gradient.choosing((0, *(1 + k for k in wanted)), takes_sum=True)
        wide = dtype(info(self._dtype).compute)
        kinds = [self._dtype, *[self._dtype if by_rows[k] else wide for k in wanted]]
        # Rows beyond the groups are not written.
        outs = tuple(creation.zeros(self._shape, kind, device=self._where, stream=self.handle) for kind in kinds)
        grouped(
            self._a, self._b, self._sizes, epilogue=chosen, operands=(*self._seeds, *self._operands),
            alpha=self._alpha, out=outs if len(outs) > 1 else outs[0], stream=self.handle,
        )  # fmt: skip
        return outs[0], dict(zip(wanted, outs[1:], strict=True))

    def _summed(self, part: Any) -> Any:
        """Return the sums over the rows of each group (groups, 1, n), dense, of the sums' dtype."""
        ones = creation.full((self._shape[0], 8), 1.0, self._dtype, device=self._where, stream=self.handle)
        wide = dtype(info(self._dtype).compute)
        found = sums_by_group(ones, part, self._sizes, 1.0, None, wide, self.handle)[:, :1]
        return self.converted(found, wide)


def sums_by_group(a: Any, dz: Any, sizes: Any, alpha: float, out: Any, kind: Any, handle: int) -> Any:
    """Return alpha aᵀ dz for the rows of each group: (groups, k, n).

    Args:
        a, dz: (rows, k) and (rows, n), of the same dtype.
        out: an array for the result, or None.
        kind: the result's dtype.
    """
    layouts = tuple(map(arrays_of.layout_of, (a, dz, sizes)))
    target = None if out is None else arrays_of.layout_of(out)
    plan: GroupSumsPlan = plans.find((GroupSumsPlan, layouts, target, dtype(kind)))
    arrays = [a, dz, sizes]
    if plan.fits([each._address for each in (*arrays, *([] if out is None else [out]))] if plan.device >= 0 else []):
        outs = None if out is None else [out]
        return plan.run(arrays, outs, out, handle, (bits(alpha, "float32"), 0))
    if out is None:
        made = plan.outputs[0]
        out = creation.empty(made.shape, made.dtype, device=argument_of(plan.device), stream=handle)
    start = 0
    for group, count in enumerate(creation.asnumpy(sizes, stream=handle).tolist()):
        end = min(start + max(count, 0), a.shape[0])
        matmul(a[start:end].T, dz[start:end], alpha=alpha, out_dtype=kind, out=out[group], stream=handle)
        start = end
    return out


class GroupSumsPlan(Plan[Any]):
    """The plan of products aᵀ dz of the rows of groups by one kernel.

    Args:
        arrays: the layouts of a, dz and sizes.
        out: the layout of the array for the result, if given.
        kind: the result's dtype.
    """

    def __init__(self, arrays: tuple[Layout, Layout, Layout], out: Layout | None, kind: Any):
        a, dz, sizes = arrays
        shape = (sizes.shape[0], a.shape[1], dz.shape[1])
        made = layout(shape, row_major_strides(shape, kind.itemsize), kind, a.device)
        if out is not None:
            check_out((out,), (made,), ("out[1]",))
            check_writable(out, "out[1]")
        if dz.dtype != a.dtype:
            raise DTypeError(f"dy has dtype {dz.dtype} but a has {a.dtype}; convert one of them")
        super().__init__("gemm.grouped.sums", ("a", "dy", "sizes", "db"), arrays, (made if out is None else out,))
        self.out_given, self.math_dtype, self.accumulator_dtype = out is not None, "float32", "float32"
        self._formula = python_epilogue(_identity).formula(())

    def fits(self, addresses: Sequence[int]) -> bool:
        """Return whether the kernel supports arrays at these addresses. A new result does not have one yet."""
        if self.device < 0 or not self.outputs[0].size or not has_kernel(self.device):
            return False
        return self._order(self._key([*addresses, 0][:4])) is not None

    def _order(self, starts: Sequence[int]) -> Any:
        (a, dz, _), (db,) = self.inputs, self.outputs
        return order_of(
            KernelProduct(
                shape=db.shape,
                k=a.shape[0],
                a=MatrixView(0, a.dtype.name, a.itemsize, (0, a.strides[1], a.strides[0])),
                b=MatrixView(1, dz.dtype.name, dz.itemsize, (0, dz.strides[1], dz.strides[0])),
                c=None,
                factors=(),
                operands=(),
                outs=(MatrixView(3, db.dtype.name, db.itemsize, steps_of(db, db.shape)),),
                numbers=0,
                sums=1,
                formula=self._formula,
                sizes=2,
                by_k=True,
            ),
            starts,
            self.device,
            card(self.device),
        )  # fmt: skip

    def _make(self, key: Any, trial: Any) -> Any:
        return FusedKernel(self._order(key), (bits(1.0, "float32"), 0), self.close, key)


grouped.backward = grouped_backward  # type: ignore[attr-defined]
