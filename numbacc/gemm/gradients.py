"""The gradient of `matmul` with a Python function as epilogue, derived from the function.

With P = alpha A B and (y, ...) = f(P, *operands):

    dz = alpha ∂f/∂P · dy,  da = dz Bᵀ,  db = Aᵀ dz,  and for each operand dy · ∂f/∂operand, summed where it is repeated

If dz depends on P, the product is computed again, with the derivative as its epilogue: one pass that writes dz and the
operands' gradients. Otherwise one elementwise kernel computes them. If an operand's gradient equals dz, as for a bias
along the columns, its sum over rows is part of the product db.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..arrays import operands as arrays_of
from ..arrays.operands import Array
from ..base.dtypes import dtype, info
from ..base.layout import Layout, layout, row_major_strides
from ..errors import DTypeError, OptionError, ShapeError, UnsupportedError
from ..plan.tasks import MapPlan
from ..runtime.streams import handle_of
from .arguments import checked_number
from .epilogue import Epilogue
from .epilogue import epilogue as named_epilogue
from .epilogue_plans import cast_plan, plans, sum_plan
from .layers import as_matrix
from .problem import NUMBER
from .product import matmul
from .python_epilogue import EpilogueGradient, PythonEpilogue, python_epilogue
from .python_products import epilogue_task, operands_of, reductions_of


def matmul_backward(
    dy: Any,
    a: Any,
    b: Any,
    *,
    epilogue: Any = "none",
    operands: Sequence[Any] | None = None,
    reduce: str | Sequence[str | None] | None = None,
    alpha: float = 1.0,
    compute: str | None = None,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array | None, ...]:
    """Return the gradients of a loss with respect to a, b and the operands of `matmul`, given those by its results.

    Args:
        dy: array of the result's shape, or a tuple of such arrays if the epilogue has several results. An array of
            another float dtype than a's is converted.
        a, b: the matrices of `matmul`, of float32, float64, float16 or bfloat16.
        epilogue: the Python function of `matmul`, whose derivative is derived by the chain rule, or "none". For layers
            with the library's epilogues, see `linear_backward`.
        operands: the operands of `matmul`. Pass C as an operand, if there was one.
        reduce: that of `matmul`, if its entries are "sum" and None. The gradient of a sum of rows has the shape
            (..., m, 1).
        alpha: the factor of `matmul`.
        compute: "tf32" lets float32 products round their inputs to 10 bits; None for the default.
        tune: whether to measure the library's algorithms, see `matmul`.
        out: arrays for the gradients, with None for those that are made.

    Returns:
        da, db, and a gradient for each operand, with the shape and dtype of its argument. The gradient of an operand
        that is a number, or an array of integers or bool, is None.

    Raises:
        ShapeError: dy does not have the result's shape; an array in out does not fit.
        DTypeError: a dtype has no gradient.
        OptionError: the epilogue is one of the library's, dy or out have a wrong number of entries.
        UnsupportedError: no derivative is known; the message names the line of the function. Or reduce has "max" or
            "min".
        The other errors are those of `matmul`.

    A gradient that is summed over a batch or over rows is summed in float32, or float64 if a is. dz is rounded to a's
    dtype before the products. The product is computed again if the derivative depends on it. To save that, return the
    sum as another result of the function, and pass it to a function of your own.

    Example:
        >>> a, b, bias = np.array([[1.0, 2.0]]), np.array([[3.0], [-1.0]]), np.array([1.0])
        >>> squared = lambda x, bias: (x + bias) ** 2
        >>> da, db, dbias = gemm.matmul_backward(np.ones((1, 1)), a, b, epilogue=squared, operands=(bias,))
        >>> da, dbias
        (array([[12., -4.]]), array([4.]))
    """
    handle = handle_of(stream)
    alpha = checked_number(alpha, "alpha")
    a, b = arrays_of.as_array(a, "a", handle), arrays_of.as_array(b, "b", handle)
    own = arrays_of.layout_of(a)
    if not info(own.dtype, "a").is_float:
        raise DTypeError(f"a has dtype {own.dtype}; gradients need float32, float64, float16 or bfloat16")
    made = None
    if not isinstance(epilogue, (str, Epilogue)):
        made = python_epilogue(epilogue)
    elif (kind := named_epilogue(epilogue)) is not Epilogue.NONE:
        raise OptionError(
            f'epilogue="{kind.value}" has no gradient here: use linear_backward or mlp_backward, or pass '
            "a Python function"
        )
    others, seeds, outs = parts_of(dy, made, operands, out, handle)
    reduces = () if reduce is None or made is None else reductions_of(reduce, made)
    for each in reduces:
        if each not in ("", "sum"):
            raise UnsupportedError(
                f'reduce="{each}" has no derived gradient: pass no reduce, and use elementwise.{each} of the result'
            )
    options = {"compute": compute, "tune": tune, "stream": handle}
    return _Backward(seeds, a, b, made, others, reduces, alpha, options, outs, handle).run()


def parts_of(dy: Any, epilogue: PythonEpilogue | None, operands: Any, out: Any, handle: int) -> tuple[Any, Any, Any]:
    """Return (operands, gradients of the results, arrays given for the gradients) of a call, after their checks.

    Args:
        epilogue: of the product, None if there is none. The others are arguments of `matmul_backward`.
    """
    given, _ = operands_of(() if operands is None else operands, handle)
    numbers = iter(given.pop("numbers"))
    others = [
        given[f"operands[{k}]"] if f"operands[{k}]" in given else next(numbers) for k in range(len(operands or ()))
    ]
    if len(others) != (0 if epilogue is None else epilogue.count):
        raise OptionError(f"the epilogue takes {0 if epilogue is None else epilogue.count} operands; got {len(others)}")
    seeds = [
        arrays_of.as_array(each, f"dy[{k}]", handle)
        for k, each in enumerate(dy if isinstance(dy, (tuple, list)) else (dy,))
    ]
    if len(seeds) != (wanted := 1 if epilogue is None else len(epilogue.results)):
        raise OptionError(f"dy is {len(seeds)} arrays; the epilogue has {wanted} results")
    outs = [None] * (2 + len(others)) if out is None else out
    if not isinstance(outs, (tuple, list)) or len(outs) != 2 + len(others):
        raise OptionError(f"out must have {2 + len(others)} entries, each an array or None")
    return others, seeds, outs


class Results:
    """The results of a backward pass.

    Args:
        outs: the arrays that were given for them, with None for those that are made.
        handle: the stream.
    """

    def __init__(self, outs: Sequence[Any], handle: int):
        self.outs, self.handle = outs, handle

    def target(self, number: int, like: Any) -> Any:
        """Return the array that was given for a result, after its checks; None if there is none."""
        given = self.outs[number]
        if given is None:
            return None
        array = arrays_of.as_array(given, f"out[{number}]", self.handle)
        if tuple(array.shape) != tuple(like.shape):
            raise ShapeError(f"out[{number}] has shape {tuple(array.shape)}; it must have {tuple(like.shape)}")
        if array.dtype != like.dtype:
            raise DTypeError(f"out[{number}] has dtype {array.dtype}; it must have {like.dtype}")
        return array

    def given(self, found: Any, number: int) -> Any:
        """Return the array that was given for a result, else the result."""
        return found if self.outs[number] is None else self.outs[number]

    def stored(self, found: Any, number: int, like: Any) -> Any:
        """Return a result in the dtype of its argument, in the array that was given for it if there is one."""
        found, target = found.reshape(tuple(like.shape)), self.target(number, like)
        if target is None:
            return self.converted(found, like.dtype)
        cast_plan(arrays_of.layout_of(found), arrays_of.layout_of(target)).run([found], [target], None, self.handle)
        return self.outs[number]

    def converted(self, array: Any, wanted: Any) -> Any:
        """Return an array, dense by rows, in a dtype: a copy if it is not."""
        given = arrays_of.layout_of(array)
        made = dense(given.shape, wanted, given.device)
        if given.dtype == made.dtype and given.strides == made.strides:
            return array
        return cast_plan(given, made).run([array], None, None, self.handle)

    def reduced(self, full: Any, shape: tuple[int, ...]) -> Any:
        """Return a dense array, summed to a shape that broadcasts to its own."""
        whole = tuple(full.shape)
        padded = (*(1,) * (len(whole) - len(shape)), *shape)
        axis = len(whole)
        while axis:
            axis -= 1
            if padded[axis] == whole[axis]:
                continue
            last = axis
            while axis and padded[axis - 1] == 1:  # adjacent axes are summed together
                axis -= 1
            before, rows, behind = prod(whole[:axis]), prod(whole[axis : last + 1]), prod(padded[last + 1 :])
            along = -2 if behind > 1 else -1
            seen = full.reshape((before, rows, behind) if behind > 1 else (before, rows))
            given = arrays_of.layout_of(seen)
            made = dense((before, behind) if behind > 1 else (before,), given.dtype, given.device)
            full = sum_plan(given, along, made).run([seen], None, None, self.handle)
        return full.reshape(shape)


class _Backward(Results):
    """One call of `matmul_backward`, with its arguments as arrays."""

    def __init__(
        self, seeds: list[Any], a: Any, b: Any, epilogue: PythonEpilogue | None, operands: list[Any],
        reduces: tuple[str, ...], alpha: float, options: dict[str, Any], outs: Sequence[Any], handle: int,
    ):  # fmt: skip
        self._seeds, self._operands, self._alpha, self._epilogue = seeds, operands, alpha, epilogue
        self._options, self._reduces = options, any(reduces)
        super().__init__(outs, handle)
        self._a, self._b = a, b
        # Vectors as matrices.
        self._rows = a if a.ndim > 1 else a.reshape((1, -1))
        self._columns = b if b.ndim > 1 else b.reshape((-1, 1))
        *batch_a, m, k = self._rows.shape
        *batch_b, inner, n = self._columns.shape
        if k != inner:
            raise ShapeError(f"a has shape {a.shape} and b {b.shape}: a's columns must equal the number of b's rows")
        self._batch = np.broadcast_shapes(tuple(batch_a), tuple(batch_b))
        self._matrices = (*self._batch, m, n)
        self._shape = (*self._batch, *[m] * (a.ndim > 1), *[n] * (b.ndim > 1))
        self._dtype = arrays_of.layout_of(a).dtype
        for j, each in enumerate(seeds):
            shape = (*self._shape[:-1], 1) if reduces and reduces[j] else self._shape
            if tuple(each.shape) != shape:
                name = "dy" if len(seeds) == 1 else f"dy[{j}]"
                raise ShapeError(f"{name} has shape {tuple(each.shape)}; the result has shape {shape}")

    def run(self) -> tuple[Any, ...]:
        """Return the gradients."""
        gradient = None if self._epilogue is None else self._epilogue.gradient
        has = [not isinstance(each, float) and info(each.dtype).is_float for each in self._operands]
        sums = [self._is_bias(k, gradient) if has[k] else False for k in range(len(has))]
        dz, parts = self._elementwise(gradient, [one and not other for one, other in zip(has, sums, strict=True)])
        da, db, total = self._products(dz, any(sums))
        found = [da, db]
        for k, operand in enumerate(self._operands):
            if not has[k]:
                found.append(None)
            elif sums[k]:
                found.append(self.stored(total, 2 + k, operand))
            else:
                found.append(self.stored(self.reduced(parts[k], operand.shape), 2 + k, operand))
        return tuple(found)

    def _is_bias(self, k: int, gradient: EpilogueGradient | None) -> bool:
        """Return whether the gradient of an operand is the sum of dz over the rows of one matrix."""
        if gradient is None or not gradient.equal[k] or self._alpha != 1 or self._a.ndim != 2 or self._b.ndim != 2:
            return False
        operand = self._operands[k]
        return tuple(operand.shape) in ((self._shape[-1],), (1, self._shape[-1])) and operand.dtype == self._dtype

    def _elementwise(self, gradient: EpilogueGradient | None, wanted: list[bool]) -> tuple[Any, dict[int, Any]]:
        """Return dz, and the gradients of the wanted operands before they are summed."""
        (seed, *more), handle = self._seeds, self.handle
        if gradient is None or (gradient.is_identity and not any(wanted) and not self._reduces):
            return self.converted(seed, self._dtype), {}
        wide = dtype(info(self._dtype).compute)
        chosen = gradient.choosing((0, *(1 + k for k, each in enumerate(wanted) if each)))
        # Sums are computed from parts that are not rounded.
        kinds = [self._dtype] + [
            operand.dtype if tuple(operand.shape) == self._shape else wide
            for operand, each in zip(self._operands, wanted, strict=True)
            if each
        ]
        arguments = (seed, *more, *self._operands)
        if gradient.uses_sum:
            options = {**self._options, "alpha": self._alpha, "out_dtype": tuple(kinds)}
            found = matmul(self._a, self._b, epilogue=chosen, operands=arguments, **options)
        else:
            found = mapped(chosen, arguments, self._shape, tuple(kinds), handle)
        several = found if isinstance(found, tuple) else (found,)
        rest = iter(several[1:])
        return several[0], {k: next(rest) for k, each in enumerate(wanted) if each}

    def _products(self, dz: Any, with_sum: bool) -> tuple[Any, Any, Any]:
        """Return da, db, and the sum of dz over rows if it is wanted."""
        dz = dz.reshape(self._matrices)
        da = self._product(dz, self._columns.swapaxes(-1, -2), 0, self._a)
        total = None
        if with_sum:
            target = self.target(1, self._b)
            db, total = matmul(
                self._rows.swapaxes(-1, -2), dz, epilogue="bgradb", alpha=self._alpha, out=target, **self._options
            )
            return da, self.given(db, 1), total
        a, own = self._rows, self._b
        if self._columns.ndim == 2 and a.ndim > 2 and (flat := as_matrix(a)) is not None:
            # One product sums over the batch.
            a, dz = flat, dz.reshape((-1, self._matrices[-1]))
        return da, self._product(a.swapaxes(-1, -2), dz, 1, own), total

    def _product(self, left: Any, right: Any, number: int, like: Any) -> Any:
        """Return a product summed over the batch dimensions that an argument does not have, in its shape."""
        options = {**self._options, "alpha": self._alpha}
        batch = np.broadcast_shapes(tuple(left.shape[:-2]), tuple(right.shape[:-2]))
        shape = (*batch, left.shape[-2], right.shape[-1])
        if prod(shape) == like.size:
            target = self.target(number, like)
            if target is not None:
                matmul(left, right, out=target.reshape(shape), **options)
                return self.outs[number]
            return matmul(left, right, **options).reshape(tuple(like.shape))
        wide = matmul(left, right, out_dtype=info(self._dtype).compute, **options)
        shape = (1, *like.shape) if like is self._a and like.ndim == 1 else tuple(like.shape)
        shape = (*shape, 1) if like is self._b and like.ndim == 1 else shape
        return self.stored(self.reduced(wide, shape).reshape(tuple(like.shape)), number, like)


def mapped(
    epilogue: PythonEpilogue, operands: tuple[Any, ...], shape: tuple[int, ...], kinds: tuple[Any, ...], handle: int
) -> Any:
    """Return the results of an epilogue that does not need the product."""
    from ..base.dtypes import words

    arrays = [each for each in operands if not isinstance(each, float)]
    keys = tuple(NUMBER if isinstance(each, float) else arrays_of.layout_of(each) for each in operands)
    plan = plans.find((_map_plan, epilogue, keys, shape, kinds))
    numbers = [each for each in operands if isinstance(each, float)]
    scalars: Any = numbers
    if plan.device >= 0:
        scalars = [word for each in numbers for word in words(each, plan.math_dtype)]
    return plan.run(arrays, None, None, handle, scalars)


def _map_plan(
    epilogue: PythonEpilogue, operands: tuple[Any, ...], shape: tuple[int, ...], kinds: tuple[Any, ...]
) -> MapPlan:
    first = next(each for each in operands if each != NUMBER)
    made = tuple(dense(shape, kind, first.device) for kind in kinds)
    compute = info(np.dtype(kinds[0])).compute
    return MapPlan(epilogue_task(epilogue, None, operands, shape, made, None, str(compute)))


def dense(shape: tuple[int, ...], kind: Any, device: int) -> Layout:
    found = np.dtype(kind)
    return layout(tuple(shape), row_major_strides(shape, found.itemsize), found, device)


matmul.backward = matmul_backward
