"""The public functions `matmul` and `algorithms`, and the cache of plans."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base.dispatch import has_gpu, matmul_library
from ..errors import OptionError
from ..plan.cache import PlanCache, functions_of
from ..plan.calls import planned
from ..runtime.streams import handle_of
from . import epilogue_plans
from .arguments import array_or_number, as_given, bias_grad_out, checked_number, is_pair
from .epilogue import Epilogue
from .epilogue import epilogue as named_epilogue
from .plan import MatmulPlan
from .problem import NUMBER, SCALES, GemmCall

#: Arguments that may be a number instead of an array.
_NUMBERS = frozenset(SCALES)
_NO_SCALES = [None] * 5


def _plan(name: str, *key: Any) -> Any:
    """Make the plan of a key."""
    if name == "python":
        from .python_products import EpiloguePlan

        return EpiloguePlan(*key)
    return _library_plan(*key)


def _library_plan(
    epilogue: Any, out_dtype: Any, compute: Any, tune: Any, out: Any, bias: Any, a: Any, b: Any,
    aux: Any = None, c: Any = None, scales: tuple[Any, Any, Any, Any, Any] = (None,) * 5, has_beta: bool = False,
    limit: Any = None,
) -> MatmulPlan:  # fmt: skip
    """Make the plan of a product with one of the library's epilogues."""
    return MatmulPlan(GemmCall(a, b, c, bias, aux, out, *scales, epilogue, out_dtype, compute, has_beta, limit, tune))


def _forget() -> None:
    """Forget the algorithms that were chosen for the plans, and the plans of the kernels after products."""
    epilogue_plans.plans.clear()
    epilogue_plans.quick_products.clear()
    if has_gpu():  # without a GPU no algorithm was chosen, and without Numba the library cannot be loaded
        matmul_library().algorithms.clear()


_plans = PlanCache(_plan, count=4096, forget=_forget)


def _run(plan: MatmulPlan, found: dict[str, Any], alpha: Any, beta: Any, out: Any, aux: Any, handle: int) -> Any:
    """Run the plan of a call."""
    types = plan.problem.types
    result = plan.run_on(found, checked_number(alpha, "alpha", types), checked_number(beta, "beta", types), handle)
    return as_given(result, out, aux)


def _prepare(plan: MatmulPlan, found: dict[str, Any], *_: Any) -> MatmulPlan:
    plan.prepare_for(found)
    return plan


@planned(
    _plans,
    "MatmulPlan",
    "a b",
    optional="bias",
    defaults="operands reduce c aux scale_a scale_b scale_c scale_d amax_d workspace_limit alpha beta",
    calls_only="alpha",
    pair=True,
    run=_run,
    prepare=_prepare,
    note="It matters whether beta is 0.",
    call="plan(a, b, c=..., bias=..., aux=..., alpha=..., beta=..., scale_a=..., out=..., stream=...)",
    example="""
>>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [-4.0]])
>>> plan = gemm.matmul.plan(a, b, epilogue="relu")
>>> plan.info.op, plan(a, b).tolist()
('gemm.matmul.relu', [[0.0]])
""",
)
def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    bias: Any = None,
    aux: Any = None,
    epilogue: Any = "none",
    operands: Sequence[Any] | None = None,
    reduce: str | Sequence[str | None] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    out_dtype: Any = None,
    compute: str | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    scale_c: Any = None,
    scale_d: Any = None,
    amax_d: Any = None,
    workspace_limit: int | None = None,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute a matrix product with an epilogue: D = epilogue(alpha A B + beta C (+ bias)).

    Args:
        a: (..., m, k), or (k,): a row. Matrices may be stored row by row or column by column (transposed views are
            not copied), of float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2 or int8.
        b: (..., k, n), or (k,): a column; of a's dtype, or the other float8. Leading dimensions are broadcast.
        c: array of D's shape and dtype (bfloat16 if D is float8), read if beta is not 0. It may be `out` itself, for
            an update in place.
        bias: (n,), or (..., n) with one bias per matrix, along D's last axis. (cuBLASLt sees a row-major D as
            column-major Dᵀ, and documents one bias element for each row.) Of D's dtype; for float8 inputs float16 if D
            is, else bfloat16.
        aux: for "drelu" and "dgelu" forms, the array that the forward product returned; for "aux" forms, an optional
            array for it, to reuse memory. ReLU's aux is (..., m, ceil(n/8)) uint8, a bit per element, the least
            significant first, 0 if z < 0: `np.unpackbits(aux, axis=-1, count=n, bitorder="little")` (for NaN see
            `Epilogue`); bits after a row's last column are arbitrary. GELU's is (..., m, n) of D's dtype.
        epilogue: an `Epilogue` or its name; see there. GELU is the tanh form. Or a Python function f(x, *elements) of
            numbers, which is applied to each element x of alpha A B + beta C and to the elements of the operands at its
            position. It returns a number, or a tuple for several results. It may use what the functions of
            `elementwise.kernel` may use: branches, `math`, and numbacc's elementwise functions. Parameters with
            defaults are constants.
        operands: for a Python function: a tuple with one array or number for each of its other parameters. Arrays
            broadcast to the result's shape: (n,) is a row with one element per column, (m, 1) a column.
        reduce: for a Python function: "sum", "max" or "min" replaces the function's result by the reduction of its
            rows, (..., m, 1) in float32 (float64 for float64), from unrounded numbers. For several results a tuple,
            with None for those that are kept. NaN stays NaN.
        alpha, beta: scalars.
        out_dtype: D's dtype. By default a's; bfloat16 for float8, int32 for int8. float16 and bfloat16 can give
            float32; float8 can give bfloat16, float16, float32 and float8. A Python function's results can be any
            float, float8 too, or bool if they are truth values; the default is a's dtype, bfloat16 for float8, float32
            for int8. A tuple holds one dtype for each result.
        compute: "tf32" lets float32 products round their inputs to 10 bits; "fast" lets float8 products accumulate
            with fewer bits. By default sums are in float32, float64 or int32.
        scale_a, scale_b: for float8 inputs: numbers, or float32 arrays of one element; or both arrays with one element
            per row of a (m,) and column of b (n,). The product is that of the scaled matrices.
        scale_c: for c, likewise.
        scale_d: factor of a float8 D before it is rounded.
        amax_d: float32 array of one element that receives the largest |D| before scale_d.
        workspace_limit: bytes of scratch memory that the library may use; 32 MiB if None.
        tune: True measures the algorithms that the library proposes, once for each kind of product, and keeps the
            fastest, also on disk. That first call waits for the GPU. Nothing is measured inside a graph capture.
        out: array for D, row by row or column by column; it must not share memory with a or b. For epilogues with
            bias_grad also a pair of arrays, for D and, contiguous, for bias_grad; either may be None. For a Python
            function with several results a tuple of arrays, with any strides.

    Returns:
        D: a device array if a is one, a NumPy array if a is; `out` if given. A named tuple (out, aux) or
        (out, bias_grad) for epilogues with a second result; bias_grad is (..., n), for "bgrada" (..., m): one per
        matrix of the batch. A tuple for a Python function with several results.

    Raises:
        ShapeError: shapes that do not fit; k or n not a multiple of 16 for float8, of 4 for int8.
        DTypeError: a dtype not listed above, or dtypes that do not go together.
        LayoutError: neither rows nor columns are contiguous; `out` is read-only or shares memory with an input; float8
            or int8 matrices are stored so that the GPU cannot read them.
        OptionError: unknown epilogue or compute; bias, aux, c, operands or scales missing or unexpected;
            workspace_limit or tune; a factor that is not a number.
        UnsupportedError: the library or the GPU does not support the combination, and numbacc's kernels do not replace
            it. Or a Python function uses something that kernels do not support; the message names the line.

    Matrices of float8, and their rows, must start at multiples of 16 bytes. If D is float8, c must be stored as D is:
    both row by row, or both column by column. A bias, a scale and amax_d may have any alignment: if cuBLASLt does not
    support it, numbacc passes an aligned copy, and `matmul.plan(...).info.algorithm` says so.

    The same arrays give the same bits on every call on one GPU model with one version of cuBLASLt, unless
    `matmul.plan(...).info.deterministic` is False: then parts of a sum over k are accumulated in `out` itself. With
    `tune` this holds as long as the measured choice is kept. Arrays of another alignment may get another algorithm.

    If cuBLASLt does not fuse an epilogue (`matmul.plan(...).info.backend` is "cublasLt+kernel"), numbacc's own kernels
    run after the product. A 16-bit result is then rounded between the two; cuBLASLt itself does so with some of its
    algorithms. Its float32 GELU is within 6e-6 of the exact one, and the derivative within 2e-5. For float64, numbacc's
    GELU is used, which is exact to float64.

    A Python function gets sums that are not rounded, in float32 (float64 for float64), and its results are rounded
    once. `matmul.plan(...).info` shows whether one kernel computes everything, or the library's product and an
    elementwise kernel. Gradients are derived: see `matmul.backward`.

    `numbacc.graph` captures the whole call: plans are made and results allocated inside, and the graph keeps both.
    Factors that are numbers keep the values of the capture; arrays of scales are read at every launch.

    Example:
        >>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [-4.0]])
        >>> gemm.matmul(a, b, bias=np.array([6.0]), epilogue="relu_bias")
        array([[1.]])
        >>> gemm.matmul(a, b, epilogue=lambda x, bias: max(x + bias, 0.0) ** 2, operands=(np.array([8.0]),))
        array([[9.]])
    """
    if operands is not None or reduce is not None or isinstance(getattr(epilogue, "py_func", epilogue), FunctionType):
        return _find_python(
            {
                "a": a, "b": b, "c": c, "bias": bias, "aux": aux, "scale_a": scale_a, "scale_b": scale_b,
                "scale_c": scale_c, "scale_d": scale_d, "amax_d": amax_d,
            },
            epilogue, operands,
            (out_dtype, compute, checked_number(beta, "beta") != 0.0, workspace_limit, tune, reduce),
            alpha, beta, out, handle_of(stream),
        )  # fmt: skip
    options = (epilogue, out_dtype, compute, checked_number(beta, "beta") != 0.0, workspace_limit, tune)
    arrays = (a, b, c, bias, aux, out, scale_a, scale_b, scale_c, scale_d, amax_d)
    return _find(arrays, options, alpha, beta, handle_of(stream))


def _find_python(
    given: dict[str, Any], epilogue: Any, operands: Any, options: tuple[Any, ...], alpha: Any, beta: Any, out: Any,
    handle: int,
) -> Any:  # fmt: skip
    """Return the arguments of `_run` for an epilogue that is a Python function.

    Raises:
        OptionError: operands are given, but the epilogue is one of the library's.
    """
    if isinstance(epilogue, (str, Epilogue)):
        name = named_epilogue(epilogue).value
        what = "reduce needs" if operands is None else "operands need"
        raise OptionError(f'{what} a Python function as epilogue, and epilogue is "{name}"')
    from .python_products import find

    plan, found = find(_plans, given, epilogue, operands, options, out, handle)
    return plan, found, alpha, beta, out, None, handle


def algorithms() -> list[tuple[Any, Any]]:
    """Return the algorithms chosen so far, least recently used first, as pairs of a problem and an algorithm.

    A problem has the fields product, alignment, device, capability and limit. Its product describes everything that
    cuBLASLt gets: matrices, dtypes, layouts, batch, epilogue. An algorithm is None if cuBLASLt does not support the
    product.

    Example:
        >>> gemm.cache_clear()
        >>> gemm.algorithms()
        []
    """
    return list(matmul_library().algorithms.items())


def _find(arguments: Sequence[Any], options: tuple[Any, ...], alpha: Any, beta: Any, handle: int) -> Any:
    """Return the arguments of `_run`, from the arguments of `GemmCall`: arrays by name; scales may be numbers."""
    found: dict[str, Any] = {}
    layouts: list[Any] = []
    whole = arguments[5]
    if is_pair(whole):
        arguments = (*arguments[:5], whole[0], *arguments[6:])
    for name, value in zip(GemmCall._fields, arguments, strict=False):
        if value is None and name not in "ab":
            array = layout = None
        elif name in _NUMBERS:
            array = array_or_number(value, name, handle)
            layout = NUMBER if isinstance(array, float) else operands.layout_of(array)
        else:
            array = operands.as_array(value, name, handle)
            layout = operands.layout_of(array)
        found[name] = array
        layouts.append(layout)
    a, b, c, bias, aux, out, *scales = layouts
    epilogue, out_dtype, compute, has_beta, limit, tune = options
    key: tuple[Any, ...] = ("matmul", epilogue, out_dtype, compute, tune, out, bias, a, b)
    # Most calls use none of these arguments, and find their plan with the shorter key.
    if has_beta or limit is not None or aux is not None or c is not None or scales != _NO_SCALES:
        key = (*key, aux, c, tuple(scales), has_beta, limit)
    # The cache would not distinguish 1.0 and True from 1.
    known = (limit is None or type(limit) is int) and type(tune) is bool
    plan = _plans.find(key) if known else _plan(*key)
    if is_pair(whole):
        found["bias_grad"] = bias_grad_out(plan.problem, whole[1], handle)
    return plan, found, alpha, beta, whole, arguments[4], handle


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)
