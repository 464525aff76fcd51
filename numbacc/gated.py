"""Gated activations: GLU, ReGLU, SwiGLU, GeGLU, forward and backward.

An input x is split in two equal halves (a, b) along one axis; the result is y = a * g(b).

| kind | g(b) |
|---|---|
| glu | σ(b) |
| reglu | max(b, 0) |
| swiglu | b σ(b) |
| geglu | b Φ(b), with the exact normal distribution Φ (by erf) |
| geglu_tanh | b ½(1 + tanh(√(2/π)(b + 0.044715 b³))) |

Sources: Dauphin et al. 2017 (arXiv:1612.08083); Shazeer 2020 (arXiv:2002.05202); Hendrycks and Gimpel 2016
(arXiv:1606.08415).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from .arrays import creation, operands
from .arrays.operands import Array
from .base.dtypes import FLOATS, info
from .base.keywords import explain
from .base.layout import Layout, View, argument_of, check_rank, check_same_device, dense_like, normalize_axis, view
from .errors import DTypeError, OptionError, ShapeError, UnsupportedError, shown, unknown
from .functions.formula import Formula
from .functions.gates import FORMULAS, own_gate
from .functions.symbolic.captured import Outside
from .functions.symbolic.derive import NotDerived, takes_one
from .kernels.elementwise.launch import MapTask
from .plan.base import check_out, outs_of
from .plan.cache import PlanCache, functions_of
from .plan.calls import planned
from .plan.saved import Saved, check_kept, saves
from .plan.tasks import MapPlan
from .reference import gated as reference
from .runtime.streams import handle_of

KINDS = tuple(reference.KINDS)
GATES = ("first", "second")

__all__ = [
    "KINDS",
    "backward",
    "cache_clear",
    "cache_info",
    "cache_limit",
    "forward",
    "linear",
    "linear_backward",
    "register",
]


_plans = PlanCache(lambda *key: _made(*key), count=1024)


def _keep(x: Any, kind: str, axis: int, gate: str, out: Any, stream: Any) -> tuple[Array, Saved]:
    """Return y and the saved object of a call with these arguments."""
    pair = x if isinstance(x, (tuple, list)) else (x,)
    check_kept(("x",) * len(pair), pair, out, handle_of(stream))
    saved = Saved("gated.forward", {"x": x}, {"kind": kind, "axis": axis, "gate": gate})
    return forward(x, kind, axis=axis, gate=gate, out=out, stream=stream), saved


@planned(
    _plans,
    "MapPlan",
    "x",
    keep=_keep,
    keeps_last=True,
    example="""
>>> x = np.array([3.0, -2.0, 1.0, 2.0])
>>> plan = gated.forward.plan(x, "reglu")
>>> plan(x)
array([ 3., -4.])
""",
)
def forward(
    x: Any,
    kind: str = "swiglu",
    *,
    axis: int = -1,
    gate: str = "second",
    return_saved: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute y = a * g(b), where (a, b) are the two halves of x.

    Args:
        x: array of float32, float64, float16 or bfloat16, of rank 1 to 8, with any strides, and with even length along
            `axis`; or a pair (a, b) of arrays of equal shape and dtype.
        kind: "glu", "reglu", "swiglu", "geglu" or "geglu_tanh", or a kind that `register` defined. The docstring of
            `numbacc.gated` shows their formulas of g.
        axis: the axis that is split; ignored for a pair.
        gate: which half passes through g. "second": y = a * g(b). "first": y = g(a) * b, the order used by Liger and
            Hugging Face for packed weights.
        return_saved: whether to return a second object, which carries x and the options to `backward(dy, saved)`. x
            must not change until then.
        out: array for y, of x's dtype and device and half its length along `axis`. It may be the memory of one of the
            halves; other overlap raises LayoutError.

    Returns:
        y, a device array if x is one, a NumPy array if x is one; `out` if given. Without `out`, y has the memory order
        of x. With return_saved, (y, saved).

    Raises:
        ShapeError: the rank, axis or length is unsupported, the halves are unequal, or out has another shape.
        DTypeError: x has an unsupported dtype or is not an array, or the dtypes differ.
        OptionError: kind, gate or stream is unknown.
        LayoutError: out is read-only, overlaps partially, or has elements that share memory; or with return_saved it
            shares memory with x.

    16-bit floats are computed in float32 and rounded once. NaN and infinity follow the formulas. Results are the
    same to the last bit on every run.

    Example:
        >>> gated.forward(np.array([3.0, -2.0, 1.0, 2.0]), "reglu")  # a is [3, -2], b is [1, 2]
        array([ 3., -4.])
    """
    return _find("forward", (x,), kind, axis, gate, out, handle_of(stream))


@planned(
    _plans,
    "MapPlan",
    "dy x",
    opens="x kind axis gate",
    of=forward,
    keeps_last=True,
    example="""
>>> x, dy = np.array([3.0, -2.0, 1.0, 2.0]), np.ones(2)
>>> plan = gated.backward.plan(dy, x, "reglu")
>>> plan(dy, x)
array([ 1.,  2.,  3., -2.])
""",
)
def backward(
    dy: Any,
    x: Any,
    kind: str = "swiglu",
    *,
    axis: int = -1,
    gate: str = "second",
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute the gradient of a loss with respect to x, given dy, its gradient with respect to y = forward(x).

    With (a, b) the halves of x, the halves of dx are da = dy * g(b) and db = dy * a * g'(b).

    | kind | da | db |
    |---|---|---|
    | glu | dy σ(b) | dy a σ(b)(1 - σ(b)) |
    | reglu | b > 0 ? dy b : 0 | b > 0 ? dy a : 0 |
    | swiglu | dy b σ(b) | dy a σ(b)(1 + b(1 - σ(b))) |
    | geglu | dy b Φ(b) | dy a (Φ(b) + b φ(b)), with the normal density φ |
    | geglu_tanh | by the product rule | by the product rule |

    Args:
        dy: array of y's shape, and x's dtype and device.
        x: the saved object of `forward(..., return_saved=True)`, as in `backward(dy, saved)`. It holds x, kind, axis
            and gate. Or x itself, or the pair (a, b).
        kind, axis, gate: the same values as in `forward`, if no saved object is given. If you forget one, the gradient
            is wrong and no error is raised.
        out: array for dx, of x's shape, dtype and device; for a pair x, a pair. It may be x itself, in place.

    Returns:
        dx; for a pair x = (a, b), the pair (da, db); `out` if given.

    Raises:
        ShapeError: the rank, axis or length is unsupported, the halves are unequal, or dy does not have y's shape.
        DTypeError: an array has an unsupported dtype or is not an array, or the dtypes differ.
        OptionError: kind, gate or stream is unknown, or an argument differs from the saved one.

    Example:
        >>> y, saved = gated.forward(np.array([3.0, -2.0, 1.0, 2.0]), "reglu", return_saved=True)
        >>> gated.backward(np.ones(2), saved)
        array([ 1.,  2.,  3., -2.])
    """
    return _find("backward", (dy, x), kind, axis, gate, out, handle_of(stream))


def backward_and_forward(
    dy: Any, x: Any, kind: str = "swiglu", *, axis: int = -1, gate: str = "second", out: Any = None, stream: Any = None
) -> tuple[Array, Array]:
    """Return (dx, y), the results of `backward` and `forward`, computed by one kernel: y need not be saved until then.

    Args:
        dy, x, kind, axis, gate: as in `backward`. x is one array.
        out: arrays for both results, or None. dx may be written over x, and y over dy.
    """
    plan, inputs, outs, handle, _ = _find("both", (dy, x), kind, axis, gate, out, handle_of(stream))
    results: tuple[Array, Array] = plan.run(inputs, outs, out, handle)
    return results


def linear(
    x: Any,
    w: Any,
    kind: str = "swiglu",
    *,
    gate: str = "second",
    return_saved: bool = False,
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Compute y = a * g(b), where (a, b) are the two halves of the columns of x w.

    On a GPU of compute capability 9.0, one kernel computes the product and the gate of 16-bit floats, and the product
    is not written to memory unless `return_saved` is True. Elsewhere the library's product is followed by one
    elementwise kernel. Both apply the gate to unrounded sums.

    Args:
        x: (..., in) of float32, float64, float16 or bfloat16, as `gemm.matmul` reads it.
        w: (in, 2 * features), of x's dtype: the weights of a, then the weights of b. Pass a weight (2 * features, in),
            as torch's Linear has it, as w.T.
        kind, gate: as in `forward`.
        return_saved: whether to return a second object for `linear_backward(dy, saved)`. It holds x, w, the product and
            the options. x and w must not change until then.
        tune: whether to measure the library's algorithms, see `gemm.matmul`.
        out: array for y, (..., features), of x's dtype.

    Returns:
        y; `out` if given. With return_saved, (y, saved).

    Raises:
        ShapeError: the shapes do not fit, or w has an odd number of columns.
        DTypeError, LayoutError, DeviceError: see `gemm.matmul`; with return_saved, out shares memory with x or w.
        OptionError: kind, gate, tune or stream is unknown.

    Example:
        >>> x, w = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0], [0.0, 1.0]])
        >>> gated.linear(x, w, "reglu")  # a is [3], b is [3]
        array([[9.]])
    """
    handle = handle_of(stream)
    rows, weights = _checked_product(x, w, kind, gate, handle)
    if not saves(return_saved):
        found = _product(rows, weights, _forward_epilogue(kind, gate, False), (), out, tune, handle)
        return found if out is None else out
    check_kept(("x", "w"), (rows, weights), out, handle)
    shape = (*rows.shape[:-1], weights.shape[1])
    half = shape[-1] // 2
    where = argument_of(operands.layout_of(rows).device)
    product = creation.empty(shape, rows.dtype, device=where, stream=handle)
    y = out
    if y is None:
        y = creation.empty((*shape[:-1], half), rows.dtype, device=where, stream=handle)
    outs = (y, product[..., :half], product[..., half:])
    _product(rows, weights, _forward_epilogue(kind, gate, True), (), outs, tune, handle)
    options = {"kind": kind, "gate": gate}
    return y, Saved("gated.linear", {"x": rows, "w": weights, "product": product}, options)


def linear_backward(
    dy: Any,
    x: Any,
    w: Any = None,
    kind: str = "swiglu",
    *,
    gate: str = "second",
    tune: bool = False,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, Array]:
    """Return the gradients of a loss with respect to x and w, given dy, its gradient with respect to y = linear(x, w).

    With (da, db) the gradients of the two halves of the product, dx = (da, db) wᵀ and dw = xᵀ (da, db).

    Args:
        dy: array of y's shape, and x's dtype and device.
        x: the saved object of `linear(..., return_saved=True)`, as in `linear_backward(dy, saved)`. Or x itself: then
            the product is computed again, and its epilogue computes (da, db).
        w, kind, gate: the same values as in `linear`, if no saved object is given.
        tune: whether to measure the library's algorithms, see `gemm.matmul`.
        out: arrays for (dx, dw). One of them may be None.

    Returns:
        dx, dw, with the shapes and the dtype of x and w.

    Raises:
        ShapeError: dy does not have y's shape, or the shapes of x and w do not fit.
        OptionError: w is missing, out does not have two entries, or an argument differs from the saved one.
        `linear` documents the other errors.

    Example:
        >>> x, w = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0], [0.0, 1.0]])
        >>> y, saved = gated.linear(x, w, "reglu", return_saved=True)
        >>> dx, dw = gated.linear_backward(np.ones((1, 1)), saved)
        >>> dx
        array([[12.,  3.]])
    """
    handle, product = handle_of(stream), None
    if type(x) is Saved:
        given = {"w": w, "kind": kind, "gate": gate}
        x.check("gated.linear", given, {"w": None, "kind": "swiglu", "gate": "second"})
        w, product, kind, gate = x.arrays["w"], x.arrays["product"], x.options["kind"], x.options["gate"]
        x = x.arrays["x"]
    elif w is None:
        raise OptionError("w is missing: pass w, or the saved object of linear(..., return_saved=True) instead of x")
    rows, weights = _checked_product(x, w, kind, gate, handle)
    seed = operands.as_array(dy, "dy", handle)
    shape = (*rows.shape[:-1], weights.shape[1] // 2)
    if tuple(seed.shape) != shape:
        raise ShapeError(f"dy has shape {tuple(seed.shape)}; y = linear(x, w) has shape {shape}")
    if seed.dtype != rows.dtype:
        raise DTypeError(f"dy has dtype {seed.dtype} but x has {rows.dtype}; convert one of them")
    if product is not None:
        slopes = backward(seed, product, kind, gate=gate, stream=handle)
    else:
        where = argument_of(operands.layout_of(rows).device)
        slopes = creation.empty((*shape[:-1], 2 * shape[-1]), rows.dtype, device=where, stream=handle)
        halves = slopes[..., : shape[-1]], slopes[..., shape[-1] :]
        _product(rows, weights, _backward_epilogue(kind, gate), (seed,), halves, tune, handle)
    from .gemm.gradients import matmul_backward

    dx, dw = matmul_backward(slopes, rows, weights, tune=tune, out=out, stream=handle)
    assert dx is not None and dw is not None
    return dx, dw


linear.backward = linear_backward  # type: ignore[attr-defined]


def _checked_product(x: Any, w: Any, kind: Any, gate: Any, handle: int) -> tuple[Any, Any]:
    """Return x and w as arrays, after the checks that name them."""
    _notice(kind)
    _check_options(kind, gate)
    rows, weights = operands.as_array(x, "x", handle), operands.as_array(w, "w", handle)
    one, other = operands.layout_of(rows), operands.layout_of(weights)
    _check_arrays((other, one), ("w", "x"))
    if not one.ndim or other.ndim != 2 or one.shape[-1] != other.shape[0]:
        hint = "; pass a weight (out, in), as torch's Linear has it, as w.T" * (other.shape[-1:] == one.shape[-1:])
        raise ShapeError(f"x has shape {one.shape} and w {other.shape}; they must be (..., in) and (in, out){hint}")
    if other.shape[1] % 2:
        raise ShapeError(f"w has shape {other.shape}: its {other.shape[1]} columns cannot be split into two halves")
    return rows, weights


def _product(x: Any, w: Any, epilogue: Any, others: tuple[Any, ...], out: Any, tune: bool, handle: int) -> Any:
    """Return the results of a product with an epilogue of its two halves."""
    from .gemm.product import matmul

    return matmul(x, w, epilogue=epilogue, operands=others, tune=tune, out=out, stream=handle)


@lru_cache(maxsize=256)
def _epilogue(direction: str, formula: Formula, gate: str, keeps: bool) -> Any:
    """Return an epilogue of the sums of both halves: of `linear`, with the sums as results too if it keeps them."""
    from .gemm.python_epilogue import PythonEpilogue

    is_first, name = gate == "first", formula.name.rpartition(".")[2]
    scalar, numpy = (_of_halves(each, direction, is_first, keeps) for each in (formula.function, formula.reference))
    count, results = (1, 2) if direction == "backward" else (0, 1 + 2 * keeps)
    return PythonEpilogue(name, scalar, numpy, count, ("",) * results, sums=2)


def _of_halves(function: Callable[..., Any], direction: str, is_first: bool, keeps: bool) -> Callable[..., Any]:
    """Return a gate's function with its arguments in the order of epilogues: both sums, then dy."""

    def forward(a, b):  # type: ignore[no-untyped-def]
        return function(b, a) if is_first else function(a, b)

    def keeping(a, b):  # type: ignore[no-untyped-def]
        return forward(a, b)[0], a, b

    def backward(a, b, dy):  # type: ignore[no-untyped-def]
        if is_first:
            db, da = function(dy, b, a)
            return da, db
        return function(dy, a, b)

    return backward if direction == "backward" else keeping if keeps else forward


def _forward_epilogue(kind: str, gate: str, keeps: bool) -> Any:
    return _epilogue("forward", _formula("forward", kind), gate, keeps)


def _backward_epilogue(kind: str, gate: str) -> Any:
    return _epilogue("backward", _formula("backward", kind), gate, False)


def _formula(direction: str, kind: str) -> Formula:
    if direction == "both":
        return _of_both(kind, _formula("backward", kind), _formula("forward", kind))
    return _own[kind][direction] if kind in _own else FORMULAS[f"gated.{direction}.{kind}"]


@lru_cache(maxsize=64)
def _of_both(kind: str, backward: Formula, forward: Formula) -> Formula:
    """Return the formula (dy, a, b) -> (da, db, y)."""
    slopes, value = backward.function, forward.function

    def both(dy, a, b):  # type: ignore[no-untyped-def]
        da, db = slopes(dy, a, b)
        (y,) = value(a, b)
        return da, db, y

    def of_arrays(dy: Any, a: Any, b: Any) -> tuple[Any, ...]:
        return (*backward.reference(dy, a, b), *forward.reference(a, b))

    return Formula(f"gated.backward_and_forward.{kind}", both, of_arrays)


def register(kind: str, gate: Callable[[float], float], slope: Callable[[float], float] | None = None) -> None:
    """Define a custom kind of gated unit, y = a * g(b), for `forward` and `backward`.

    Args:
        kind: its name. It must not be one of numbacc's own kinds. A kind that was registered before is replaced, so
            that you can run a notebook cell again.
        gate: g, a Python function of one number. It may use arithmetic, comparisons, branches, loops over known ranges,
            `math`, and calls of such functions and of numbacc's. On a GPU it is compiled for each dtype, like the
            built-in kinds. On NumPy arrays it is computed in float64.
        slope: g', by default derived from `gate` by the chain rule. Pass it if the derived one is inaccurate. For
            example, the derivative of b / (1 + exp(-b)) is inf · 0 where exp overflows.

    Raises:
        OptionError: kind is not a new name, or gate or slope is not a function of one number.
        UnsupportedError: gate uses something that a kernel does not support, or something without a known derivative.
            The message shows the line.

    Example:
        >>> import math
        >>> gated.register("sineglu", lambda b: b * math.sin(b))
        >>> gated.forward(np.array([3.0, -2.0, 0.0, math.pi / 2]), "sineglu").round(4)
        array([ 0.    , -3.1416])
    """
    if not isinstance(kind, str) or not kind or kind in KINDS:
        raise OptionError(f"kind={shown(kind)} is not a new name; numbacc's own kinds are {', '.join(KINDS)}")
    for name, function in (("gate", gate), ("slope", slope)):
        if not takes_one(function) and not (name == "slope" and function is None):
            raise OptionError(f"{name}={shown(function)} is not a Python function of one number")
    # First, so that a change during the tracing of the functions is noticed, too.
    outside = Outside([gate] if slope is None else [gate, slope])
    try:
        _own[kind] = own_gate(kind, gate, slope)
    except TypeError as error:
        hint = "; give it as slope=" if isinstance(error, NotDerived) else ""
        raise UnsupportedError(f"{error}{hint}") from None
    _outside.pop(kind, None)
    if outside:
        _outside[kind] = outside, partial(register, kind, gate, slope)
    # Forget plans of the kind that had this name before.
    _plans.clear()


#: Registered kind -> direction -> formula.
_own: dict[str, dict[str, Formula]] = {}
#: Kind whose functions use globals or closures -> these values, and a function that registers the kind again.
_outside: dict[str, tuple[Outside, Callable[[], None]]] = {}


class _Changing(NamedTuple):
    """A kind whose functions use globals or closures, in the cache's keys."""

    kind: str


def _notice(kind: Any) -> None:
    """Register a kind again if a global or closure of its functions has changed."""
    outside, again = _outside.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
    if outside is not None and again is not None and outside.changed():
        again()


def _find(direction: str, arguments: tuple[Any, ...], kind: str, axis: int, gate: str, out: Any, handle: int) -> Any:
    """Return the plan and the arguments of a function's call."""
    _notice(kind)
    x = arguments[-1]
    paired = isinstance(x, (tuple, list))
    if paired and len(x) != 2:
        raise ShapeError(
            f"x is a {type(x).__name__} of {len(x)}; pass one array (numbacc.asarray makes one), or a pair of arrays"
        )
    names = _PAIR_NAMES[direction] if paired else _NAMES[direction]
    flat = (*arguments[:-1], *x) if paired else arguments
    inputs = [operands.as_array(a, name, handle) for a, name in zip(flat, names, strict=True)]
    layouts = tuple([operands.layout_of(a) for a in inputs])
    outs = outs_of(out, handle)
    out_layouts = None if outs is None else tuple([operands.layout_of(a) for a in outs])
    if type(axis) is not int:  # the cache would find 1.0 and True under 1
        axis = normalize_axis(axis, max(layouts[-1].ndim, 1), names[-1])
    # A single layout is not put into a tuple, which saves time in each call.
    target = out_layouts[0] if out_layouts is not None and len(out_layouts) == 1 else out_layouts
    # The fast path does not find kinds whose functions may have changed. Their calls come here, where changes are
    # noticed.
    own: Any = _Changing(kind) if _outside and isinstance(kind, str) and kind in _outside else kind
    plan = _plans.find((direction, own, axis, gate, target, *layouts))
    return plan, inputs, outs, handle, ()


_NAMES = {"forward": ("x",), "backward": ("dy", "x"), "both": ("dy", "x")}
_PAIR_NAMES = {"forward": ("x[0]", "x[1]"), "backward": ("dy", "x[0]", "x[1]")}


def _check_options(kind: Any, gate: Any) -> None:
    if not isinstance(kind, str) or (kind not in KINDS and kind not in _own):
        known = [*KINDS, *_own]
        raise unknown("kind", kind, known, f"the kinds are {', '.join(known)}")
    if not isinstance(gate, str) or gate not in GATES:
        raise unknown("gate", gate, GATES, 'it is "first" or "second"')


def _plan(
    direction: str, kind: str, axis: int, gate: str, paired: bool, inputs: tuple[Layout, ...],
    outs: tuple[Layout, ...] | None,
) -> MapPlan:  # fmt: skip
    """Check the arguments, and make a plan with the two halves as operands. It depends only on layouts and options."""
    _check_options(kind, gate)
    names = (_PAIR_NAMES if paired else _NAMES)[direction]
    x = inputs[-1]
    _check_arrays(inputs, names)
    number = 0 if paired else normalize_axis(axis, x.ndim, names[-1])
    first = len(inputs) - 1 - paired
    if paired:
        if inputs[first].shape != x.shape:
            raise ShapeError(f"x[0] has shape {inputs[first].shape} and x[1] {x.shape}; they must be equal")
        shape = x.shape
        halves = [view(k, 0, inputs[k].strides, shape) for k in (first, first + 1)]
    else:
        halves, shape = _split(x, number, first)
    if gate == "first":
        halves.reverse()
    reads = list(halves)
    results: tuple[Layout, ...] = (dense_like(x, shape),)
    if direction != "forward":
        dy = inputs[0]
        if dy.shape != shape:
            raise ShapeError(f"dy has shape {dy.shape}; y = forward(x) has shape {shape}")
        reads.insert(0, view(0, 0, dy.strides, shape))
        results = (*(dense_like(a, a.shape) for a in inputs[1:]), *results[: direction == "both"])
    outputs = results if outs is None else outs
    out_names = ("out",) if len(results) == 1 else ("out[0]", "out[1]")
    check_out(outputs, results, out_names)
    writes = [view(k, 0, a.strides, shape) for k, a in enumerate(outputs)]
    if direction != "forward" and not paired:
        writes[:1] = _split(outputs[0], number, 0)[0]
    if gate == "first":
        writes[:2] = reversed(writes[:2])
    formula = _formula(direction, kind)
    return MapPlan(
        MapTask(
            op="gated.backward_and_forward" if direction == "both" else f"gated.{direction}",
            formula=formula,
            reference=formula.reference,
            names=(*names, *out_names),
            inputs=inputs,
            outputs=tuple(outputs),
            shape=shape,
            reads=tuple(reads),
            writes=tuple(writes),
            out_given=outs is not None,
        )
    )


def _check_arrays(inputs: Sequence[Layout], names: Sequence[str]) -> None:
    """Raise an error unless all arrays are floats of one dtype on one device."""
    x = inputs[-1]
    for array, name in zip(inputs, names, strict=True):
        check_same_device(array, name, x, names[-1])
        check_rank(array.shape, name)
        row = info(array.dtype, name)
        if not row.is_float:
            known = f"{', '.join(FLOATS[:-1])} and {FLOATS[-1]}"
            raise DTypeError(f"{name} has dtype {row.name}; gated activations support {known}")
        if array.dtype != x.dtype:
            raise DTypeError(f"{name} has dtype {array.dtype} but {names[-1]} has {x.dtype}; convert one of them")


def _split(x: Layout, axis: int, argument: int) -> tuple[list[View], tuple[int, ...]]:
    """Return the two halves of an array along an axis, and their shape."""
    length = x.shape[axis]
    if length % 2:
        raise ShapeError(
            f"x has shape {x.shape}: its length along axis {axis} is {length}, which is odd, so it cannot be split "
            "into two equal halves"
        )
    shape = (*x.shape[:axis], length // 2, *x.shape[axis + 1 :])
    second = length // 2 * x.strides[axis]
    return [view(argument, offset, x.strides, shape) for offset in (0, second)], shape


def plan_of(direction: str, kind: str, inputs: tuple[Layout, ...], outs: tuple[Layout, ...]) -> MapPlan:
    """Return a plan for layouts, without arrays and without the cache."""
    return _plan(direction, kind, -1, "second", False, inputs, outs)


def _made(direction: str, kind: Any, axis: int, gate: str, target: Any, *inputs: Layout) -> MapPlan:
    """Return the plan of a key."""
    paired = len(inputs) > len(_NAMES[direction])
    own = kind.kind if type(kind) is _Changing else kind
    return _plan(direction, own, axis, gate, paired, inputs, (target,) if isinstance(target, Layout) else target)


cache_info, cache_clear, cache_limit = functions_of(_plans, __name__)
explain(__name__, __all__)
