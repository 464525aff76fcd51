"""A call of `matmul` after its checks: shapes, dtypes and layouts in the form of matrices.

This module is independent of the library. NumPy and the GPU share its checks and its errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base import dtypes
from ..base.dtypes import Products
from ..base.layout import MAX_RANK, Layout, check_same_device, check_writable, layout, row_major_strides
from ..errors import DTypeError, LayoutError, OptionError, ShapeError, nearest, shown
from .epilogue import Epilogue, epilogue

#: The supported dtypes of a and b, by name.
TYPES = {row.name: row.products for row in dtypes.TABLE.values() if row.products is not None and row.products.outs}
SCALES = ("scale_a", "scale_b", "scale_c", "scale_d")
#: Stands for a scale that is a Python number, which does not have a layout.
NUMBER = "number"


class GemmCall(NamedTuple):
    """Everything that a plan depends on: the layouts of the arrays, None if not given, and the options.

    A scale may also be `NUMBER`. `has_beta` is True if beta is not 0.
    """

    a: Layout
    b: Layout
    c: Layout | None
    bias: Layout | None
    aux: Layout | None
    out: Layout | None
    scale_a: Any
    scale_b: Any
    scale_c: Any
    scale_d: Any
    amax_d: Layout | None
    epilogue: Any
    out_dtype: Any
    compute: str | None
    has_beta: bool
    workspace_limit: int | None
    tune: bool


class GemmProblem(NamedTuple):
    """A checked call. Layouts named matrix_* have the shape (*batch, rows, columns), with stride 0 where broadcast.

    Attributes:
        call: the call before its checks.
        epilogue: the operations after the product.
        types: the dtypes' row.
        compute: one of types.compute.
        batch, m, n, k: the shape of the product.
        out: layout of the result.
        second: layout of aux or bias_grad if the product returns one and the user gave none, else None.
        second_storage: layout of the memory of `second`: the same with padded rows.
        matrix_a, matrix_b, matrix_c, matrix_out, matrix_bias, matrix_aux: the operands; matrix_bias has one row.
        matrix_grad: bias_grad, (*batch, length).
    """

    call: GemmCall
    epilogue: Epilogue
    types: Products
    compute: str
    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    out: Layout
    second: Layout | None
    second_storage: Layout | None
    matrix_a: Layout
    matrix_b: Layout
    matrix_c: Layout | None
    matrix_out: Layout
    matrix_bias: Layout | None
    matrix_aux: Layout | None
    matrix_grad: Layout | None


def resolve(call: GemmCall) -> GemmProblem:
    """Check a call, and return it as a problem.

    Raises:
        ShapeError, DTypeError, LayoutError, OptionError, DeviceError: as `matmul` documents.
    """
    a, b = call.a, call.b
    kind = epilogue(call.epilogue)
    types, compute, out_dtype = _types(call, kind)
    for array, name in zip((a, b, call.c, call.bias, call.aux, call.out, call.amax_d), _NAMES, strict=True):
        if array is not None:
            check_same_device(array, name, a, "a")
            _check_steps(array, name)
    rows, columns, batch = _matrices_of(a, b, types)
    (m, k), n = rows.shape[-2:], columns.shape[-1]
    dropped = [d for d, vector in ((-2, a.ndim == 1), (-1, b.ndim == 1)) if vector]
    out_shape = _without((*batch, m, n), dropped)
    out = call.out or _dense(out_shape, out_dtype, a.device)
    _check_shape(out, out_shape, "out")
    check_writable(out, "out")
    if call.c is not None:
        _check_shape(call.c, out_shape, "c")
    matrix_bias = _bias(call.bias, batch, n)
    grad, second, storage, matrix_aux = None, None, None, None
    bias_dtype, aux_dtype = _second_dtypes(a, out_dtype)
    if kind.produces_bias_grad:
        grad = second = storage = _dense((*batch, m if kind is Epilogue.BGRADA else n), out_dtype, a.device)
    if kind.produces_aux or kind.uses_aux:
        dtype = np.dtype(np.uint8) if kind.activation == "relu" else aux_dtype
        matrix_aux, made = _aux(call, kind, dtype, (*batch, m, n), dropped)
        second, storage = made or (second, storage)
    if call.bias is not None:
        _check_dtype(call.bias, bias_dtype, "bias")
    return GemmProblem(
        call=call,
        epilogue=kind,
        types=types,
        compute=compute,
        batch=batch,
        m=m,
        n=n,
        k=k,
        out=out,
        second=second,
        second_storage=storage,
        matrix_a=_oriented(_broadcast(rows, batch), "a"),
        matrix_b=_oriented(_broadcast(columns, batch), "b"),
        matrix_c=None if call.c is None else _with_axes(call.c, dropped),
        matrix_out=_oriented(_with_axes(out, dropped), "out"),
        matrix_bias=matrix_bias,
        matrix_aux=matrix_aux,
        matrix_grad=grad,
    )


def _matrices_of(a: Layout, b: Layout, types: Products) -> tuple[Layout, Layout, tuple[int, ...]]:
    """Return a and b as matrices, and the shape of the batch.

    By NumPy's rule, a vector on the left is a row and one on the right a column; the result does not have that axis.
    """
    for array, name in ((a, "a"), (b, "b")):
        if not 1 <= array.ndim <= MAX_RANK:
            raise ShapeError(f"{name} has rank {array.ndim} (shape {array.shape}); ranks 1 to {MAX_RANK} are supported")
    rows = a if a.ndim > 1 else _insert(a, 0)
    columns = b if b.ndim > 1 else _insert(b, 1)
    k, (inner, n) = rows.shape[-1], columns.shape[-2:]
    if k != inner:
        raise ShapeError(
            f"a has shape {a.shape} and b {b.shape}: a's {k} columns must equal the number of b's rows, {inner}"
        )
    if types.multiple > 1 and (k % types.multiple or n % types.multiple):
        raise ShapeError(
            f"a product of {a.dtype} needs k and n to be multiples of {types.multiple}; a has shape {a.shape} and "
            f"b {b.shape}. Pad with zeros"
        )
    try:
        return rows, columns, np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    except ValueError:
        raise ShapeError(
            f"a has shape {a.shape} and b {b.shape}: the dimensions before the last two must be equal or 1"
        ) from None


def _with_axes(array: Layout, dropped: Sequence[int]) -> Layout:
    """Return an array as matrices, with the axes that vectors dropped."""
    for axis in sorted(dropped, reverse=True):
        array = _insert(array, array.ndim if axis == -1 else array.ndim - 1)
    return array


def _aux(
    call: GemmCall, kind: Epilogue, dtype: np.dtype[Any], whole: tuple[int, ...], dropped: list[int]
) -> tuple[Layout, tuple[Layout, Layout] | None]:
    """Return aux as matrices; and if the product allocates it, its layout and that of its padded memory.

    Args:
        dtype: aux's dtype; uint8 for a bit mask.
        whole: the shape of the result as matrices.
        dropped: the axes that vectors remove from it.
    """
    bits = kind.activation == "relu"
    *lengths, n = whole
    shape = (*lengths, -(-n // 8)) if bits else whole
    # A bit mask of a single column keeps the axis of its bytes.
    gone = [d for d in dropped if d == -2 or not bits]
    visible = _without(shape, gone)
    if call.aux is not None:
        _check_shape(call.aux, visible, "aux")
        _check_dtype(call.aux, dtype, "aux")
        if kind.produces_aux:
            check_writable(call.aux, "aux")
        return _with_axes(call.aux, gone), None
    # cuBLASLt needs rows of a multiple of 128 bits, or of 8 elements.
    width = -(-n // 128) * 16 if bits else -(-n // 8) * 8
    storage = _dense((*lengths, width), dtype, call.a.device)
    steps = dict(zip(range(-len(shape), 0), storage.strides, strict=True))
    strides = tuple(step for d, step in steps.items() if d not in gone)
    made = layout(visible, strides, dtype, call.a.device)
    return layout(shape, storage.strides, dtype, call.a.device), (made, storage)


_NAMES = ("a", "b", "c", "bias", "aux", "out", "amax_d")


def _types(call: GemmCall, kind: Epilogue) -> tuple[Products, str, np.dtype[Any]]:
    """Return the row of the dtypes, the arithmetic and the result's dtype, after all checks that need no shapes."""
    name = dtypes.info(call.a.dtype, "a").name
    types = TYPES.get(name)
    if types is None:
        raise DTypeError(f"a has dtype {name}; matmul supports {', '.join(TYPES)}")
    float8 = dtypes.info(call.a.dtype).is_scaled
    if call.b.dtype != call.a.dtype and not (float8 and dtypes.info(call.b.dtype).is_scaled):
        raise DTypeError(f"b has dtype {call.b.dtype} but a has {name}; convert one of them")
    compute = types.compute[0] if call.compute is None else call.compute
    if not isinstance(compute, str) or compute not in types.compute:
        allowed = " or ".join(repr(each) for each in types.compute)
        hint = nearest(compute, types.compute)
        raise OptionError(f"compute={shown(compute)} is unknown for {name}; it is {allowed}{hint}")
    if call.out_dtype is not None:
        out_dtype = dtypes.dtype(call.out_dtype, "out_dtype")
    else:
        out_dtype = dtypes.dtype(types.outs[0]) if call.out is None else dtypes.info(call.out.dtype, "out").numpy
    if out_dtype.name not in types.outs:
        what = "out has dtype" if call.out_dtype is None else "out_dtype is"
        raise DTypeError(f"{what} {out_dtype}; the result of {name} can be {', '.join(types.outs)}")
    if call.out is not None and call.out.dtype != out_dtype:
        raise DTypeError(f"out has dtype {call.out.dtype}; the result has dtype {out_dtype}")
    if types.accumulator == "int32" and kind is not Epilogue.NONE:
        raise OptionError(f'epilogue="{kind.value}" is not supported with {name}; use "none"')
    for array, uses, what in (
        (call.bias, kind.uses_bias, "bias"),
        (call.aux, kind.uses_aux, "aux"),
        (call.c, call.has_beta, "c"),
    ):
        why = f'epilogue="{kind.value}"' if what != "c" else "beta"
        if uses and array is None:
            raise OptionError(f"{why} needs {what}, which is missing")
        if array is not None and not uses and not (what == "c" or (what == "aux" and kind.produces_aux)):
            raise OptionError(f"{what} is given, but {why} does not use it; {_remedy(kind, what)}")
    if call.c is not None:
        # The C of a float8 result has 16 bits.
        _check_dtype(call.c, _second_dtypes(call.a, out_dtype)[1], "c")
    limit = call.workspace_limit
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or not 0 < limit < 2**63):
        raise OptionError(f"workspace_limit={shown(limit)}; it must be a positive number of bytes, or None")
    if not isinstance(call.tune, bool):
        raise OptionError(f"tune={shown(call.tune)}; it must be True or False")
    _check_scales(call, float8, out_dtype)
    return types, compute, out_dtype


def _remedy(kind: Epilogue, what: str) -> str:
    """Return a hint for an operand that an epilogue does not use."""
    if what == "bias" and (name := kind.with_bias()):
        return f'pass epilogue="{name}", which adds it'
    if what == "aux" and kind.activation and not kind.uses_bias:
        return f'pass epilogue="d{kind.activation}" for the gradient, or "{kind.activation}_aux" to write aux'
    return "leave it out"


def _check_scales(call: GemmCall, float8: bool, out_dtype: np.dtype[Any]) -> None:
    scales = (call.scale_a, call.scale_b, call.scale_c, call.scale_d, call.amax_d)
    given = [(name, value) for name, value in zip((*SCALES, "amax_d"), scales, strict=True) if value is not None]
    if given and not float8:
        raise OptionError(f"{given[0][0]} needs float8 inputs, and a has dtype {call.a.dtype}; use alpha and beta")
    m = call.a.shape[-2] if call.a.ndim > 1 else 1
    n = call.b.shape[-1] if call.b.ndim > 1 else 1
    for name, value in given:
        if name in ("scale_d", "amax_d") and out_dtype.itemsize != 1:
            raise OptionError(f"{name} needs a float8 result; out has dtype {out_dtype}")
        if name == "scale_c" and call.c is None:
            raise OptionError("scale_c is given without c")
        if value == NUMBER:
            continue
        check_same_device(value, name, call.a, "a")
        _check_dtype(value, np.dtype(np.float32), name)
        vector = {"scale_a": ((m,), (m, 1)), "scale_b": ((n,), (1, n))}.get(name, ())
        if value.size != 1 and value.shape not in vector:
            needs = "one element" + (f", or the shape {vector[0]} or {vector[1]}" if vector else "")
            raise ShapeError(f"{name} has shape {value.shape}; it must have {needs}")
        steps = [step for n, step in zip(value.shape, value.strides, strict=True) if n > 1]
        if value.size > 1 and steps != [value.itemsize]:
            raise LayoutError(f"{name} has strides {value.strides}; it must be contiguous")
    if scales_rows(call):
        sizes = [each.size if isinstance(each, Layout) else 0 for each in (call.scale_a, call.scale_b)]
        if sizes != [m, n]:
            raise OptionError(
                "scale_a and scale_b must both have one element, or both one element per row of a and column of b"
            )
        if out_dtype.itemsize == 1:
            raise OptionError("with a float8 result, scale_a and scale_b must have one element each")


def scales_rows(call: GemmCall) -> bool:
    """Return True if A has a scale for each row and B one for each column, instead of one for each matrix."""
    return any(isinstance(each, Layout) and each.size > 1 for each in (call.scale_a, call.scale_b))


def _second_dtypes(a: Layout, out_dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """Return the dtypes of bias, and of aux and c: the result's, but 16 bits where cuBLASLt needs that for float8."""
    if not dtypes.info(a.dtype).is_scaled:
        return out_dtype, out_dtype
    half = out_dtype if out_dtype.itemsize == 2 else dtypes.dtype("bfloat16")
    return half, half if out_dtype.itemsize == 1 else out_dtype


def _dense(shape: tuple[int, ...], dtype: np.dtype[Any], device: int) -> Layout:
    return layout(shape, row_major_strides(shape, dtype.itemsize), dtype, device)


def _insert(array: Layout, axis: int) -> Layout:
    """Return the layout with an axis of length 1 inserted."""
    shape = (*array.shape[:axis], 1, *array.shape[axis:])
    return layout(shape, (*array.strides[:axis], 0, *array.strides[axis:]), array.dtype, array.device)


def _without(shape: tuple[int, ...], axes: list[int]) -> tuple[int, ...]:
    return tuple(n for d, n in enumerate(shape, -len(shape)) if d not in axes)


def _broadcast(array: Layout, batch: tuple[int, ...]) -> Layout:
    """Return matrices broadcast over a batch without a copy, with stride 0."""
    own = array.ndim - 2
    steps = [0] * (len(batch) - own)
    steps += [0 if n == 1 else step for n, step in zip(array.shape[:own], array.strides, strict=False)]
    return layout((*batch, *array.shape[own:]), (*steps, *array.strides[own:]), array.dtype, array.device)


def _bias(bias: Layout | None, batch: tuple[int, ...], n: int) -> Layout | None:
    """Return bias as matrices of one row."""
    if bias is None:
        return None
    if bias.shape not in ((n,), (*batch, n)):
        needs = f"({n},)" + (f" or {(*batch, n)}, one bias per matrix" if batch else "")
        raise ShapeError(f"bias has shape {bias.shape}; it runs along the result's last axis and must have {needs}")
    return _broadcast(_insert(bias, bias.ndim - 1), batch)


def _check_shape(array: Layout, wanted: tuple[int, ...], name: str) -> None:
    if array.shape != wanted:
        raise ShapeError(f"{name} has shape {array.shape}; it must have {wanted}")


def _check_dtype(array: Layout, wanted: np.dtype[Any], name: str) -> None:
    if array.dtype != wanted:
        raise DTypeError(f"{name} has dtype {array.dtype}; it must be {wanted}")


def pitch(array: Layout, by_rows: bool) -> int | None:
    """Return the distance in elements between rows (or columns) of row-major (column-major) matrices; None if not."""
    outer, inner = (-2, -1) if by_rows else (-1, -2)
    length, step, size = array.shape[inner], array.strides[inner], array.itemsize
    if length > 1 and step != size:
        return None
    if array.shape[outer] <= 1:
        return max(length, 1)
    distance = array.strides[outer]
    return distance // size if distance % size == 0 and distance >= max(length, 1) * size else None


def _oriented(array: Layout, name: str) -> Layout:
    """Return the layout if its matrices are stored row by row or column by column.

    Raises:
        LayoutError: they are not.
    """
    if array.size and pitch(array, True) is None and pitch(array, False) is None:
        raise LayoutError(
            f"{name} has strides {array.strides} for elements of {array.itemsize} bytes: neither its rows nor its "
            "columns are contiguous, or they overlap. Copy it into numbacc.empty first"
        )
    return array


def _check_steps(array: Layout, name: str) -> None:
    if any(step % array.itemsize for step in array.strides):
        raise LayoutError(f"{name} has strides {array.strides}, which are not multiples of {array.itemsize} bytes")
