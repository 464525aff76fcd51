"""What matrix products and their epilogues must give, and how far off a result may be. Independent of numbacc.

**Values.** The formulas are written down once, as functions of arrays, and evaluated twice: the *oracle* in a wider
dtype (float64; long double for float64 inputs), from the exact values of the inputs, and the *trusted* version in the
dtype of the arithmetic by NumPy, its results rounded once. For tf32 the trusted version drops all but ten bits of the
inputs' fractions, as tensor cores do.

**Tolerance.** error(ours, oracle) must stay under 2 x error(trusted, oracle) + two roundings of the arithmetic at the
scale of the sum of |a||b|: sums in another order come apart by that much. Errors count in units of the spacing of
the result's dtype plus that rounding; the trusted error is the largest over the whole result, and for GELU over a
sample, too, so that luck with one element decides nothing.

Where an epilogue is composed of kernels behind a plain product, what they read has been rounded to the result's
dtype: half a spacing there, times the slope of what follows, is allowed on top; where C is added, half a spacing of
the product before that, too.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import oracle
from scipy.special import expit

#: How far off the library's GELU and its derivative may be, as docs/gemm.md says.
GELU_ERROR, GELU_SLOPE_ERROR = 6e-6, 2e-5
#: What tensor cores may lose when they add up float8 products, relative to the sum of |a||b|, by `compute`: they align
#: what they add to the largest term and keep 13 bits of it (DeepSeek-V3, arXiv:2412.19437, 3.3.2). In 9,000 products
#: one element was off by 1.01 of what 2^-12 would allow.
FLOAT8_SUM_ERROR = {None: 2.0**-11, "fast": 2.0**-10}
_PI = np.longdouble("3.14159265358979323846264338327950288")
_WIDE_IS_WIDER = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps


class Inputs(NamedTuple):
    """What a product is given, in NumPy."""

    a: Any
    b: Any
    c: Any = None
    bias: Any = None
    aux: Any = None
    epilogue: str = "none"
    alpha: float = 1.0
    beta: float = 0.0
    scale_a: Any = 1.0
    scale_b: Any = 1.0
    scale_c: Any = 1.0
    scale_d: Any = 1.0


class Term(NamedTuple):
    """A value, the sum of the magnitudes of its terms, and what rounding the plain product shifts it by."""

    value: np.ndarray
    scale: np.ndarray
    shift: np.ndarray


class Results(NamedTuple):
    """`out`, with z, of whose sign ReLU's aux tells; aux or bias_grad; and the largest |out| before scale_d."""

    out: Term
    z: Term
    second: Term | None
    amax: Any


def compute_dtype(dtype):
    return oracle.compute_dtype(dtype)


def shape_of(inputs):
    """The result's shape, as NumPy's own matmul has it."""
    return np.matmul(np.zeros(inputs.a.shape), np.zeros(inputs.b.shape)).shape


def matrices_shape(inputs):
    """The shape (*batch, m, n) of the products."""
    a, b = inputs.a, inputs.b
    a, b = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])


def unpack(mask, columns):
    """The bits of ReLU's aux as booleans."""
    return np.unpackbits(np.ascontiguousarray(mask), axis=-1, bitorder="little")[..., :columns].astype(bool)


def pack(positive):
    """Booleans as ReLU's aux."""
    return np.packbits(positive, axis=-1, bitorder="little")


def to_tf32(x):
    """float32 without the last 13 bits of its fraction."""
    return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def saturate(values, dtype):
    """Values of a float8 result: beyond its range they are its largest number."""
    if dtype.itemsize > 1:
        return values
    largest = float(ml_dtypes.finfo(dtype).max)
    return np.clip(values, -largest, largest)


class Gelu(NamedTuple):
    """GELU's tanh form, its derivative, a bound of that, and what a rounding of the formulas' steps counts in."""

    value: np.ndarray
    slope: np.ndarray
    bound: np.ndarray
    scale: np.ndarray


def gelu(z):
    """½(1 + tanh u) is σ(2u). Beyond |z| = 100 it is constant; the clip keeps z³ finite in every dtype."""
    real = z.dtype.type
    c, cubic, root = np.clip(z, -100, 100), real(np.longdouble("0.044715")), np.sqrt(2 / real(_PI))
    u, du = root * (c + cubic * c**3), root * (1 + 3 * cubic * c * c)
    s, rest = expit(2 * u), expit(-2 * u)
    second = z * s * rest * 2 * du
    # A rounding of u is one of σ by 2u rest, and one of σ's derivative by 2u.
    scale = s * (1 + rest * np.abs(2 * u)) + np.abs(second) * (1 + np.abs(2 * u))
    return Gelu(z * s, s + second, s + np.abs(second), scale)


@cache
def formula_error(kind, dtype):
    """The largest error of NumPy's GELU or its derivative over thousands of values, in roundings of their terms."""
    which = {"gelu": 0, "dgelu": 1}.get(kind.split("_")[0])
    if which is None:
        return 0.0
    z = np.linspace(-8, 8, 4000).astype(dtype)
    wide = z.astype(oracle.wide_dtype(dtype))
    exact = gelu(wide)
    scale = exact.scale * np.abs(wide) if which == 0 else exact.scale
    error = np.abs(gelu(z)[which].astype(wide.dtype) - exact[which])
    return float((error / (np.finfo(dtype).eps * scale)).max())


def evaluate(inputs, real, out_dtype):
    """All results, every step in the dtype `real`; `shift` counts in roundings to `out_dtype`."""
    a, b, c, bias, aux, kind, alpha, beta, *scales = inputs

    def cast(x):
        return np.asarray(x).astype(real)

    a, b = cast(a), cast(b)
    a, b = (a[None, :] if a.ndim == 1 else a), (b[:, None] if b.ndim == 1 else b)
    shape = matrices_shape(inputs)
    scale_a, scale_b, scale_c, scale_d = (cast(s) for s in scales)
    factor = cast(alpha) * scale_a.reshape(-1, 1) * scale_b.reshape(1, -1)
    z, scale = factor * (a @ b), np.abs(factor) * (np.abs(a) @ np.abs(b))
    shift = 0
    if beta:
        # cuBLASLt's fused DGELU of float8 rounds the product before it adds C, and once more before the slope.
        shift = oracle.spacing(z, out_dtype) / 2
        added = cast(beta) * scale_c * cast(c).reshape(shape)
        z, scale = z + added, scale + np.abs(added)
    shift = shift + oracle.spacing(z, out_dtype) / 2
    if bias is not None:
        added = cast(bias)[..., None, :]
        z, scale = z + added, scale + np.abs(added)
    plain = Term(z, scale, shift)
    out, second = plain, None
    if kind.startswith("relu"):
        out = Term(np.where(z > 0, z, 0), scale, shift)
    elif kind.startswith("gelu"):
        g = gelu(z)
        # Far below 0 the slope changes much within a rounding: the steepest counts.
        bound = np.maximum(gelu(z - shift).bound, gelu(z + shift).bound)
        out = Term(g.value, scale * g.scale, shift * bound)
        second = plain if "_aux" in kind else None
    elif kind.startswith("drelu"):
        keep = unpack(aux, shape[-1]).reshape(shape)
        out = Term(*(np.where(keep, x, 0) for x in plain))
    elif kind.startswith("dgelu"):
        g = gelu(cast(aux).reshape(shape))
        out = Term(z * g.slope, scale * g.scale, shift * g.bound)
    if kind == "bgrada":
        second = _sum(Term(a, np.abs(a), 0 * a), -1, shape[:-2])
    elif kind == "bgradb":
        second = _sum(Term(b, np.abs(b), 0 * b), -2, shape[:-2])
    elif kind.endswith("bgrad"):
        # The sum may be of rounded elements: before the last kernel, and as they are stored.
        rounding = out.shift + oracle.spacing(out.value, out_dtype) / 2
        second = _sum(out._replace(shift=rounding), -2, shape[:-2])
    amax = np.abs(out.value).max(initial=0)
    out = Term(saturate(out.value * scale_d, out_dtype), out.scale * np.abs(scale_d), out.shift)
    return Results(out, plain, second, amax)


def _sum(term, axis, batch):
    value, scale = (x.sum(axis=axis) for x in term[:2])
    # Roundings go either way: they add up as their squares do.
    shift = np.minimum(term.shift.sum(axis=axis), 3 * np.sqrt((term.shift**2).sum(axis=axis)))
    return Term(*(np.broadcast_to(x, (*batch, x.shape[-1])) for x in (value, scale, shift)))


def allowed_error(expected, trusted, dtype, composed, kind="none"):
    """What a result may be off, element by element, by the rule at the top.

    Args:
        expected: the oracle's Term.
        trusted: the same by NumPy, in the dtype of its arithmetic.
        dtype: the result's.
        composed: whether `expected.shift` counts.
        kind: the epilogue whose formula was evaluated: in few elements the trusted version may be right by luck.
    """
    real = expected.value.dtype.type
    # Where long double is no wider, the oracle is itself a few roundings off.
    roundings = 1 if _WIDE_IS_WIDER or real == np.float64 else 5
    roundings += 2 * formula_error(kind, trusted.value.dtype)
    rounding = roundings * real(np.finfo(trusted.value.dtype).eps) * expected.scale
    # What is smaller than the smallest normal number may be rounded to 0.
    tiny = real(np.finfo(trusted.value.dtype).tiny)
    unit = oracle.spacing(expected.value, dtype) + rounding + tiny
    stored = saturate(trusted.value, dtype).astype(dtype).astype(real)
    worst = (np.abs(stored - expected.value) / unit).max(initial=0.25)  # what correct rounding takes
    return 2 * worst * unit + 2 * rounding + tiny + (expected.shift if composed else 0)


def assert_close(name, result, expected, allowed):
    """Each element of a result is as near to the oracle's as allowed; NaN is not."""
    error = np.abs(result.astype(expected.dtype) - expected)
    wrong = ~(error <= allowed)
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{name} is wrong in {wrong.sum()} of {wrong.size} elements; at {where} it is {result[where]!r}, should be "
            f"{expected[where]!r}: error {error[where]:.3g}, allowed {np.broadcast_to(allowed, error.shape)[where]:.3g}"
        )


def assert_product(
    inputs,
    out,
    second=None,
    amax=None,
    *,
    second_dtype=None,
    compute=None,
    composed=False,
    fused_gelu=False,
    sum_error=0.0,
):
    """Check the results of a product against the oracle, by the rule at the top.

    Args:
        inputs: what it was given.
        out: its result.
        second: aux or bias_grad.
        amax: the largest |out| before scale_d.
        second_dtype: what the dtype of aux or bias_grad must be; out's by default.
        compute: "tf32" where the inputs may be rounded so.
        composed: whether what follows the product may have read it rounded.
        fused_gelu: whether GELU may be the library's.
        sum_error: the error of sums, relative to the sum of the magnitudes of their terms.
    """
    kind, dtype = inputs.epilogue, out.dtype
    arithmetic = compute_dtype(inputs.a.dtype)
    narrow = inputs._replace(a=to_tf32(inputs.a), b=to_tf32(inputs.b)) if compute == "tf32" else inputs
    expected = evaluate(inputs, oracle.wide_dtype(inputs.a.dtype), dtype)
    trusted = evaluate(narrow, arithmetic, dtype)
    assert out.shape == shape_of(inputs), f"out has shape {out.shape}, should have {shape_of(inputs)}"
    shape = matrices_shape(inputs)
    allowed = allowed_error(expected.out, trusted.out, dtype, composed, kind)
    slack = np.asarray(sum_error * expected.out.scale)
    if fused_gelu and kind.startswith("gelu"):
        slack = slack + GELU_ERROR
    elif fused_gelu and kind.startswith("dgelu"):
        slack = slack + GELU_SLOPE_ERROR * np.abs(expected.z.value)
    assert_close(f"{kind}: out", out.reshape(shape), expected.out.value, allowed + slack)
    if amax is not None:
        rounding = 2 * np.finfo(arithmetic).eps * expected.out.scale.max(initial=0) / np.abs(inputs.scale_d).max()
        assert abs(float(amax) - expected.amax) <= rounding + slack.max(initial=0)
    if kind in ("relu_aux", "relu_aux_bias"):
        _assert_mask(second, inputs, expected.z, allowed_error(expected.z, trusted.z, dtype, composed) + slack, shape)
    elif expected.second is not None:
        wanted = dtype if second_dtype is None else second_dtype
        assert second.dtype == wanted, f"the second result has dtype {second.dtype}, should have {wanted}"
        assert second.shape == (shape_of(inputs) if "_aux" in kind else expected.second.value.shape)
        formula = kind if kind == "dgelu_bgrad" else "none"
        allowed = allowed_error(expected.second, trusted.second, wanted, composed, formula)
        if "bgrad" in kind:
            slack = slack.sum(axis=-2) if kind.startswith("d") else 0
        found = second.reshape(expected.second.value.shape)
        assert_close(f"{kind}: the second result", found, expected.second.value, allowed + slack)


def _assert_mask(mask, inputs, z, allowed, shape):
    """ReLU's bits are those of z >= 0, unless z is too near to 0 to tell."""
    rows = (*shape[:-1], -(-shape[-1] // 8))
    visible = rows if inputs.a.ndim > 1 else (*rows[:-2], rows[-1])
    assert (mask.shape, mask.dtype) == (visible, np.uint8)
    wrong = (unpack(mask.reshape(rows), shape[-1]) != (z.value >= 0)) & (np.abs(z.value) > allowed)
    assert not wrong.any(), f"{wrong.sum()} bits of the mask are wrong, the first at {np.argwhere(wrong)[0]}"
