"""The public functions: `matmul`, its plan, and its caches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..arrays import operands
from ..arrays.operands import Array
from ..base.backend import matmul_library
from ..device.streams import handle_of
from ..errors import Error
from .arguments import array_or_number, checked_number
from .plan import NO_SCALES, MatmulPlan
from .problem import NUMBER, SCALES, Call
from .results import as_given

if TYPE_CHECKING:
    from functools import _CacheInfo

#: What alpha and beta are by default, known again without a comparison of numbers.
_ONE, _ZERO = 1.0, 0.0


def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    bias: Any = None,
    aux: Any = None,
    epilogue: Any = "none",
    alpha: float = _ONE,
    beta: float = _ZERO,
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
    """D = epilogue(alpha A B + beta C (+ bias)), by cuBLASLt.

    Args:
        a: (..., m, k), or (k,): a row. Matrices may be stored row by row or column by column (transposed views are
            read where they are), of float32, float64, float16, bfloat16, float8_e4m3fn, float8_e5m2 or int8.
        b: (..., k, n), or (k,): a column; of a's dtype, or the other float8. Leading dimensions are broadcast.
        c: array of D's shape and dtype (bfloat16 where D is float8), read where beta is not 0; it may be `out` itself:
            in place.
        bias: (n,), or (..., n) with one bias per matrix: it runs along D's last axis. In cuBLASLt's words, which see a
            row-major D as column-major Dᵀ, it has one number for each of its rows. Of D's dtype; for float8 inputs
            float16 where D is, else bfloat16.
        aux: for "drelu" and "dgelu" forms, what the forward product gave; for "aux" forms, memory for it, if it is to
            be reused. ReLU's aux is (..., m, ceil(n/8)) uint8, a bit per element, the least significant first, 0 where
            z < 0: `np.unpackbits(aux, axis=-1, count=n, bitorder="little")` (of NaN see `Epilogue`), and bits behind a
            row's last column mean nothing. GELU's is (..., m, n) of D's dtype.
        epilogue: an `Epilogue` or its name; see there. GELU is the tanh form.
        alpha, beta: numbers.
        out_dtype: D's dtype: by default a's; bfloat16 for float8, int32 for int8. float16 and bfloat16 can give
            float32; float8 can give bfloat16, float16, float32 and float8.
        compute: "tf32" lets float32 products round their inputs to 10 bits; "fast" lets float8 products be added up
            with fewer bits. By default all is added up in float32, float64 or int32.
        scale_a, scale_b: of float8 inputs: numbers, or float32 arrays of one element; or both arrays of one number per
            row of a (m,) and column of b (n,). The product is that of the scaled matrices.
        scale_c: of c, likewise. scale_d: a float8 D is multiplied by it before it is rounded.
        amax_d: float32 array of one element that the largest |D| before scale_d is written to.
        workspace_limit: bytes of scratch memory that the library may use; 32 MiB if None.
        tune: True measures the algorithms that the library proposes, once for each kind of product, and keeps the
            fastest, also on disk. That first call waits for the GPU; inside a graph capture nothing is measured.
        out: array for D, row by row or column by column, sharing no memory with a or b.
        stream: where the work is queued; the default stream if None. Nothing waits for it.

    Returns:
        D: a device array if a is one, a NumPy array if a is; `out` if given. A named tuple (out, aux) or
        (out, bias_grad) for epilogues with a second result; bias_grad is (..., n), for "bgrada" (..., m): one per
        matrix of the batch.

    Raises:
        ShapeError: shapes that do not fit; k or n not a multiple of 16 for float8, of 4 for int8.
        DTypeError: a dtype not named above, or not that of its partner.
        LayoutError: neither rows nor columns gapless; `out` read-only or sharing memory with an input; float8 or int8
            matrices stored as the GPU cannot read them.
        OptionError: unknown epilogue or compute; bias, aux, c or scales missing or unexpected; workspace_limit or tune;
            a factor that is not a number.
        UnsupportedError: the library or the GPU lacks the combination, and no composition of kernels replaces it.
        DeviceError: arrays on different devices; not enough memory.

    Matrices of float8 must start at multiples of 16 bytes, and so must their rows. A bias, a scale and amax_d may lie
    anywhere: where cuBLASLt cannot take them there it is given a copy, as `matmul_plan(...).info.algorithm` tells.

    The same arrays give the same bits on every call on one GPU model with one version of cuBLASLt, unless
    `matmul_plan(...).info.deterministic` is False: then parts of a sum over k are added up in `out` itself. With `tune`
    that holds as long as what was measured is kept. Arrays that start at multiples of another power of two may get
    another algorithm. Where cuBLASLt does not fuse an epilogue (`matmul_plan(...).info.backend` is
    "cublasLt+kernel"), our own kernels follow the product. A 16-bit result is then rounded between the two; cuBLASLt
    itself does so with some of its algorithms. Its float32 GELU is within 6e-6 of the exact one, its derivative within
    2e-5; of float64 ours is used, exact to float64.

    `numbacc.graph` captures it whole: plans are made and results allocated inside, and the graph keeps both. Factors
    that are numbers are those of the capture; arrays of scales are read at every launch.

    Example:
        >>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [-4.0]])
        >>> gemm.matmul(a, b, bias=np.array([6.0]), epilogue="relu_bias")
        array([[1.]])
    """
    handle = handle_of(stream)
    # The short way, for numbacc's own arrays and neither scales nor factors; all else is looked at in `_find`.
    if scale_a is None is scale_b is scale_c is scale_d is amax_d is c is workspace_limit:
        try:
            layouts = (
                a._numbacc_layout,
                b._numbacc_layout,
                None,
                None if bias is None else bias._numbacc_layout,
                None if aux is None else aux._numbacc_layout,
                None if out is None else out._numbacc_layout,
            )
        except Exception:  # NumPy's arrays have none, and of what is foreign an attribute may raise anything
            layouts = None
        if (
            layouts is not None
            # Arrays are equal to numbers, and 1 to True.
            and (alpha is _ONE or (type(alpha) is float and alpha == 1.0))
            and (beta is _ZERO or (type(beta) is float and beta == 0.0))
            and (tune is False or tune is True)
        ):
            plan = None
            try:
                plan = _plan(*layouts, *NO_SCALES, epilogue, out_dtype, compute, False, None, tune)
            except Error:
                raise  # some are TypeErrors, too
            except TypeError:
                pass  # an option that cannot be hashed: `_find` says which
            if plan is not None:
                return plan.run_plain(a, b, out, bias, aux, handle)
    options = (epilogue, out_dtype, compute, checked_number(beta, "beta") != 0.0, workspace_limit, tune)
    given = (scale_a, scale_b, scale_c, scale_d, amax_d)
    plan, arrays, scales = _find((a, b, c, out, bias, aux), given, options, handle)
    types = plan.problem.types
    result = plan.run(
        arrays, scales, checked_number(alpha, "alpha", types), checked_number(beta, "beta", types), handle
    )
    return as_given(result, out, aux)


def matmul_plan(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    bias: Any = None,
    aux: Any = None,
    epilogue: Any = "none",
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
) -> MatmulPlan:
    """The plan that `matmul` runs for these arrays; its `info` says what was decided.

    Arguments and errors are those of `matmul`. Of beta it matters whether it is 0. Call it as
    `plan(a, b, c=..., bias=..., aux=..., alpha=..., beta=..., scale_a=..., out=..., stream=...)`.

    Example:
        >>> a, b = np.array([[1.0, 2.0]]), np.array([[3.0], [-4.0]])
        >>> plan = gemm.matmul_plan(a, b, epilogue="relu")
        >>> plan.info.op, plan(a, b).tolist()
        ('gemm.matmul.relu', [[0.0]])
    """
    options = (epilogue, out_dtype, compute, checked_number(beta, "beta") != 0.0, workspace_limit, tune)
    given = (scale_a, scale_b, scale_c, scale_d, amax_d)
    plan, arrays, factors = _find((a, b, c, out, bias, aux), given, options, handle_of(None))
    plan.prepare_for(arrays, factors)
    return plan


def cache_info() -> _CacheInfo:
    """Hits, misses, maximum and current size of the cache of plans, as `functools.lru_cache` names them.

    Example:
        >>> gemm.cache_clear()
        >>> gemm.cache_info()
        CacheInfo(hits=0, misses=0, maxsize=4096, currsize=0)
    """
    return _plan.cache_info()


def cache_clear() -> None:
    """Forget all plans and algorithms. Compiled kernels, and what `tune` measured on disk, stay.

    Example:
        >>> gemm.cache_clear()
        >>> gemm.cache_info().currsize
        0
    """
    _plan.cache_clear()
    matmul_library().algorithms.clear()


def algorithms() -> list[tuple[Any, Any]]:
    """The algorithms chosen so far, the one used longest ago first: pairs of a purpose and an algorithm.

    The first has the fields product, alignment, device, capability and limit; the product has all that cuBLASLt was
    told: matrices, dtypes, layouts, batch, epilogue. None stands for products that cuBLASLt does not offer.

    Example:
        >>> gemm.cache_clear()
        >>> gemm.algorithms()
        []
    """
    return list(matmul_library().algorithms.items())


@lru_cache(maxsize=4096)
def _plan(*fields: Any) -> MatmulPlan:
    a, b, c, bias, aux, out, *rest = fields
    return MatmulPlan(Call(a, b, c, bias, aux, out, *rest))


def _find(
    arrays: Sequence[Any], scales: Sequence[Any], options: tuple[Any, ...], handle: int
) -> tuple[MatmulPlan, list[Any], Sequence[Any]]:
    """The plan for these arguments (a, b, c, out, bias, aux), and the arguments as arrays."""
    names = ("a", "b", "c", "out", "bias", "aux")
    found = [
        array if array is None and name not in "ab" else operands.as_array(array, name, handle)
        for array, name in zip(arrays, names, strict=True)
    ]
    a, b, c, out, bias, aux = (None if array is None else operands.layout_of(array) for array in found)
    factors = [array_or_number(value, name, handle) for value, name in zip(scales, (*SCALES, "amax_d"), strict=True)]
    keys = [NUMBER if isinstance(f, float) else f if f is None else operands.layout_of(f) for f in factors]
    *_, limit, tune = options
    # The cache would take 1.0 and True for 1.
    known = (limit is None or type(limit) is int) and type(tune) is bool
    try:
        plan = (_plan if known else _plan.__wrapped__)(a, b, c, bias, aux, out, *keys, *options)
    except Error:
        raise
    except TypeError:
        # An option that cannot be hashed is none that we know, and is named where it is looked at.
        plan = MatmulPlan(Call(a, b, c, bias, aux, out, *keys, *options))  # type: ignore[arg-type]
    return plan, found, NO_SCALES if all(f is None for f in factors) else factors
