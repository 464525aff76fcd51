"""What convolutions must give, how far off a result may be, and random ones. Independent of numbacc.

**Values.** The sums are made tap by tap: the elements that all windows have there, found by their indices, times the
kernels' elements. A test compares them with loops over every index. They are evaluated twice: the *oracle* in a wider
dtype (float64; long double for float64 inputs), from the exact values of the inputs, the *trusted* version in the dtype
of the arithmetic.

**Tolerance.** As for matrix products (`gemm_oracle`): error(ours, oracle) must stay under 2 x error(trusted, oracle) +
two roundings of the arithmetic at the scale of the sum of the magnitudes. Results of integers are exact. An engine of
cuDNN's may add up n products one by one: then √n roundings at that scale are allowed (the probabilistic bound of
N. J. Higham and T. Mary, "A new approach to probabilistic rounding error analysis", 2019, with λ = 1).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import gemm_oracle
import numpy as np
import oracle
from hypothesis import strategies as st

DIRECTIONS = ("forward", "backward_data", "backward_filter")
LAYOUTS = ("NCW", "NWC", "NCHW", "NHWC", "NCDHW", "NDHWC")
FLOATS = oracle.DTYPES
INT8 = np.dtype(np.int8)
ACTIVATIONS = ("relu", "leaky_relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "elu")


class Case(NamedTuple):
    """A convolution without its arrays.

    Attributes:
        direction: one of DIRECTIONS.
        layout: one of LAYOUTS.
        batch, groups: numbers; 0 and more, 1 and more.
        channels, filters: those of a group: C/G and K/G.
        lengths, taps: the spatial lengths of input and kernel.
        stride, padding, dilation, flip: as they are given to numbacc.
        dtype, out_dtype: of the operands and of the result.
        alpha, beta, activation: as they are given to numbacc; the last for "forward" only, and None for none.
        biased: whether there is a bias; for "forward" only.
        seed: of the values.
    """

    direction: str
    layout: str
    batch: int
    groups: int
    channels: int
    filters: int
    lengths: tuple[int, ...]
    taps: tuple[int, ...]
    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    flip: bool = False
    dtype: Any = FLOATS[0]
    out_dtype: Any = FLOATS[0]
    alpha: float = 1.0
    beta: float = 0.0
    activation: str | None = None
    biased: bool = False
    seed: int = 0

    @property
    def steps(self):
        return _each(self.stride, len(self.lengths))

    @property
    def apart(self):
        return _each(self.dilation, len(self.lengths))

    @property
    def reach(self):
        return tuple(1 + d * (r - 1) for r, d in zip(self.taps, self.apart, strict=True))

    @property
    def zeros(self):
        """(before, behind) for each spatial dimension."""
        if self.padding == "valid":
            return [(0, 0)] * len(self.lengths)
        if self.padding != "same":
            return [_each(sides, 2) for sides in _each(self.padding, len(self.lengths))]
        found = []
        for n, reach, step in zip(self.lengths, self.reach, self.steps, strict=True):
            # The last window starts at the last multiple of the stride below n.
            missing = max((n - 1) // step * step + reach - n, 0)
            found.append((missing // 2, (missing + 1) // 2))
        return found

    @property
    def padded(self):
        return tuple(n + sum(sides) for n, sides in zip(self.lengths, self.zeros, strict=True))

    @property
    def places(self):
        """The output's spatial lengths: so many windows start where they still fit."""
        rooms = zip(self.padded, self.reach, self.steps, strict=True)
        return tuple(len(range(0, n - reach + 1, step)) for n, reach, step in rooms)

    @property
    def shapes(self):
        """The shapes of x, w and y, in the layout's order."""
        whole = (self.batch, self.groups * self.channels, *self.lengths)
        kernel = (self.groups * self.filters, self.channels, *self.taps)
        result = (self.batch, self.groups * self.filters, *self.places)
        return tuple(_ordered(shape, self.layout) for shape in (whole, kernel, result))

    @property
    def terms(self):
        """How many products make an element of the result."""
        taps = int(np.prod(self.taps))
        pixels = self.batch * int(np.prod(self.places))
        return {"forward": self.channels * taps, "backward_data": self.filters * taps, "backward_filter": pixels}[
            self.direction
        ]

    @property
    def result_shape(self):
        x, w, y = self.shapes
        return {"forward": y, "backward_data": x, "backward_filter": w}[self.direction]

    @property
    def geometry(self):
        """The options that shapes follow from, by numbacc's names."""
        names = ("stride", "padding", "dilation", "groups", "layout", "flip")
        return {name: getattr(self, name) for name in names}


class Inputs(NamedTuple):
    """What a convolution is given, in NumPy: two of x, w and dy; bias and what lay in the result's place, or None."""

    first: Any
    second: Any
    bias: Any = None
    before: Any = None


def _each(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def _ordered(shape, layout):
    """A shape with its channels where the layout has them."""
    return (shape[0], *shape[2:], shape[1]) if layout.endswith("C") else shape


def inputs(case):
    """Random values for a case."""
    rng = np.random.default_rng(case.seed)

    def values(shape, dtype):
        drawn = rng.integers(-9, 10, shape) if dtype.kind == "i" else rng.standard_normal(shape)
        return drawn.astype(dtype)

    x, w, y = case.shapes
    first, second = {"forward": (x, w), "backward_data": (y, w), "backward_filter": (x, y)}[case.direction]
    filters = case.groups * case.filters
    return Inputs(
        values(first, case.dtype),
        values(second, case.dtype),
        values((filters,), case.out_dtype) if case.biased else None,
        values(case.result_shape, case.out_dtype) if case.beta else None,
    )


# ---------------------------------------------------------------- sums


def sums(case, first, second):
    """The sums of products of arrays in the case's layout, without what follows them."""
    last = case.layout.endswith("C")
    first, second = (np.moveaxis(a, -1, 1) if last else a for a in (first, second))
    batch, groups, channels, filters = case.batch, case.groups, case.channels, case.filters
    starts = (before for before, _ in case.zeros)
    inside = (..., *(slice(start, start + n) for start, n in zip(starts, case.lengths, strict=True)))
    whole = np.zeros((batch, groups, channels, *case.padded), first.dtype)
    kernels = np.zeros((groups, filters, channels, *case.taps), first.dtype)
    slopes = np.zeros((batch, groups, filters, math.prod(case.places)), first.dtype)
    if case.direction != "backward_data":
        whole[inside] = first.reshape(whole[inside].shape)
    if case.direction != "backward_filter":
        kernels[...] = second.reshape(kernels.shape)
    if case.direction != "forward":
        slopes[...] = (first if case.direction == "backward_data" else second).reshape(slopes.shape)
    for tap in np.ndindex(*case.taps):
        # Where the windows have this tap: those elements of each dimension.
        walks = zip(tap, case.places, case.steps, case.apart, strict=True)
        met = (..., *np.ix_(*(np.arange(places) * step + t * apart for t, places, step, apart in walks)))
        own = (..., *(n - 1 - t if case.flip else t for n, t in zip(case.taps, tap, strict=True)))
        if case.direction == "forward":
            slopes += kernels[own] @ whole[met].reshape(batch, groups, channels, slopes.shape[-1])
        elif case.direction == "backward_data":
            whole[met] += (kernels[own].swapaxes(1, 2) @ slopes).reshape(whole[met].shape)
        else:
            pixels = whole[met].reshape(batch, groups, channels, slopes.shape[-1])
            kernels[own] = (slopes @ pixels.swapaxes(2, 3)).sum(0)
    found = {"forward": slopes, "backward_data": whole[inside], "backward_filter": kernels}[case.direction]
    shape = {
        "forward": (batch, groups * filters, *case.places),
        "backward_data": (batch, groups * channels, *case.lengths),
    }
    found = found.reshape(shape.get(case.direction, (groups * filters, channels, *case.taps)))
    return np.moveaxis(found, 1, -1) if last else found


# ---------------------------------------------------------------- what follows the sums


def activated(name, z):
    """An activation of z, in z's dtype."""
    gates = {"gelu": "geglu", "gelu_tanh": "geglu_tanh", "silu": "swiglu", "sigmoid": "glu"}
    if name in gates:
        return oracle.gate(gates[name], z).value
    below = {"relu": np.zeros_like, "leaky_relu": lambda b: b * b.dtype.type("0.01"), "elu": np.expm1}
    return np.tanh(z) if name == "tanh" else np.where(z > 0, z, below[name](np.minimum(z, 0)))


def evaluate(case, given, real):
    """The result, with every step in the dtype `real`."""

    def cast(array):
        return np.asarray(array).astype(real)

    first, second = cast(given.first), cast(given.second)
    z = real(case.alpha) * sums(case, first, second)
    scale = abs(case.alpha) * sums(case, np.abs(first), np.abs(second))

    def rounding():
        """That of what there is so far, which may be where a library stops and a kernel of ours goes on."""
        return oracle.spacing(z, case.out_dtype) if case.out_dtype.kind != "i" else np.zeros_like(z)

    shift = rounding()
    if case.beta:
        added = real(case.beta) * cast(given.before)
        z, scale = z + added, scale + np.abs(added)
        shift = np.maximum(shift, rounding())
    if case.biased:
        lengths = (1,) * len(case.lengths)
        added = cast(given.bias).reshape(_ordered((1, -1, *lengths), case.layout))
        z, scale = z + added, scale + np.abs(added)
        shift = np.maximum(shift, rounding())
    value = z
    if case.activation is not None:
        value = activated(case.activation, z)
        # No slope is above 1.13, and every formula has a few steps.
        scale = 1.13 * scale + 4 * (np.abs(z) + np.abs(value))
        shift = 1.13 * shift
    return gemm_oracle.Term(value, scale.astype(value.dtype), shift)


def assert_right(case, given, result, *, compute=None, composed=False, in_any_order=False, slack=0.0):
    """Check a result against the oracle, by the rule at the top.

    Args:
        case, given: what was computed.
        result: a NumPy array.
        compute: "tf32" where the operands may be rounded so.
        composed: whether the result's dtype may have been rounded to before the last step, too.
        in_any_order: whether products may have been added up one by one.
        slack: what the library's own activation may be off.
    """
    assert (result.shape, result.dtype) == (case.result_shape, case.out_dtype)
    expected = evaluate(case, given, oracle.wide_dtype(case.dtype).type)
    if case.out_dtype.kind == "i":
        np.testing.assert_array_equal(result, expected.value)
        return
    narrow = given
    if compute == "tf32":
        narrow = given._replace(first=gemm_oracle.to_tf32(given.first), second=gemm_oracle.to_tf32(given.second))
    trusted = evaluate(case, narrow, oracle.compute_dtype(case.dtype).type)
    allowed = gemm_oracle.allowed_error(expected, trusted, case.out_dtype, composed)
    if in_any_order:
        half = np.finfo(trusted.value.dtype).eps / 2
        allowed = allowed + math.sqrt(case.terms) * half * expected.scale
    gemm_oracle.assert_close(f"{case}", result, expected.value, allowed + slack)


# ---------------------------------------------------------------- random ones


@st.composite
def cases(draw, dimensions=(1, 2, 3), directions=DIRECTIONS, dtypes=(*FLOATS, INT8), largest=12):
    """Convolutions of few elements, of every kind; int8 only forward, to int32 or float32.

    Args:
        dimensions, directions, dtypes: those that are drawn from.
        largest: the greatest spatial length of an input in one dimension; in several it is less.
    """
    count = draw(st.sampled_from(dimensions))
    dtype = draw(st.sampled_from(dtypes))
    direction = "forward" if dtype == INT8 else draw(st.sampled_from(directions))
    out_dtype = dtype
    if dtype == INT8:
        out_dtype = np.dtype(draw(st.sampled_from([np.int32, np.float32])))
    whole = out_dtype.kind == "i"
    depthwise = draw(st.booleans())
    taps = tuple(draw(st.integers(1, 5 if count == 1 else 3)) for _ in range(count))
    apart = draw(_option(st.integers(1, 3 if count < 3 else 2), count))
    steps = draw(_option(st.integers(1, 3), count))
    sides = st.integers(0, 3 if count < 3 else 2)
    padding = draw(st.sampled_from(["same", "valid"]) | _option(sides, count, sides | st.tuples(sides, sides)))
    reach = [1 + d * (r - 1) for r, d in zip(taps, _each(apart, count), strict=True)]
    room = [0] * count if isinstance(padding, str) else [sum(_each(p, 2)) for p in _each(padding, count)]
    least = [1 if padding == "same" else max(n - zeros, 1) for n, zeros in zip(reach, room, strict=True)]
    more = max(largest // count**2, 1)
    factors = st.sampled_from([1.0, 1.0, 2.0, -3.0, 0.0] if whole else [1.0, 1.0, 0.5, -1.7, 0.0])
    is_forward = direction == "forward"
    activations = [None, "relu"] if whole else [None, *ACTIVATIONS]
    return Case(
        direction=direction,
        layout=draw(st.sampled_from([name for name in LAYOUTS if len(name) == count + 2])),
        batch=draw(st.integers(0, 3)),
        groups=draw(st.integers(1, 4)),
        channels=1 if depthwise else draw(st.integers(1, 3)),
        filters=draw(st.integers(1, 2 if depthwise else 3)),
        lengths=tuple(draw(st.integers(n, n + more)) for n in least),
        taps=taps,
        stride=steps,
        padding=padding,
        dilation=apart,
        flip=draw(st.booleans()),
        dtype=dtype,
        out_dtype=out_dtype,
        alpha=draw(factors),
        beta=draw(st.sampled_from([0.0, 0.0, 1.0, 2.0 if whole else -0.3])),
        activation=draw(st.sampled_from(activations)) if is_forward else None,
        biased=draw(st.booleans()) if is_forward else False,
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def _option(one, count, part=None):
    """One number for all dimensions, or one of `part` for each."""
    part = one if part is None else part
    return one | st.tuples(*(part,) * count) | st.lists(part, min_size=count, max_size=count)
