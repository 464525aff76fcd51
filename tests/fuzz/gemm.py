"""Matrix products: every epilogue, dtype, batch, layout, factor and scale; and what no layout of matrices is."""

from __future__ import annotations

import gemm_call
import numpy as np

import numbacc
from numbacc import gemm
from numbacc.base import dtypes

from .operands import anywhere, foreign_kinds, in_a_buffer, result_of

E4, E5 = "float8_e4m3fn", "float8_e5m2"
#: In the order of how often they are drawn: dtype of A and B, of D, compute.
TYPES = list(gemm_call.DTYPES.values())
FLOAT8_OUTS = ("bfloat16", "float16", "float32", E4, E5)


class FuzzCall(gemm_call.Call):
    """A call whose `layouts` are functions from a shape to keywords of `FuzzOperand`; float8 has its scales.

    Args:
        b_dtype: B's dtype, where it is not A's.
        scales: for "scale_a" and the like numbers or NumPy arrays.
    """

    def __init__(self, *arguments, b_dtype=None, scales=None, **options):
        super().__init__(*arguments, **options)
        if b_dtype:
            values = self.inputs.b.astype(dtypes.dtype(b_dtype))
            self.operands["b"] = self._put("b", values)
            self.inputs = self.inputs._replace(b=self.operands["b"].values)
        scales = scales or {}
        self.inputs = self.inputs._replace(**scales)
        self.options |= {k: self.place.put(v) if isinstance(v, np.ndarray) else v for k, v in scales.items()}

    def _put(self, name, array):
        where = "out" if name == "c" and self.in_place else name
        return self.place.operand(array, **self.layouts[where](array.shape))

    def fits(self):
        """Whether a, b and out are stored as matmul's docstring asks for: row by row, or column by column."""
        named = [self.operands["a"].values, self.operands["b"].values]
        matrices = [array if array.ndim > 1 else np.expand_dims(array, d) for d, array in enumerate(named)]
        if self.out is not None:
            out = self.out.values
            if named[1].ndim == 1:
                out = np.expand_dims(out, -1)
            matrices.append(np.expand_dims(out, -2) if named[0].ndim == 1 else out)
        return all(map(is_stored, matrices))


def is_stored(array):
    """Whether matrices are stored row by row or column by column, without gaps in a row or column."""
    (m, n), (down, across) = array.shape[-2:], (s // array.itemsize for s in array.strides[-2:])
    by_rows = (n <= 1 or across == 1) and (m <= 1 or down >= max(n, 1))
    by_columns = (m <= 1 or down == 1) and (n <= 1 or across >= max(m, 1))
    return array.size == 0 or by_rows or by_columns


def layout_of_matrix(case, writable, batch=True):
    """A function from a shape to a layout, mostly one that matrices may have."""
    draws = case.where
    if draws.chance(0.05):
        return lambda shape: anywhere(case, shape, writable)
    style, foreign = draws.pick(["dense", "rows", "columns", "columns", "padded"]), draws.chance(0.1)

    def layout(shape):
        rank = len(shape)
        options = {"foreign": draws.pick(foreign_kinds(case.place))} if foreign else {}
        if draws.chance(0.6):
            options["memory"] = in_a_buffer(case)
        if style == "dense" or rank < 2:
            return {**options, **({"steps": (draws.integer(1, 3),)} if rank == 1 and draws.chance(0.3) else {})}
        last = rank - 2 if style == "columns" else rank - 1
        others = [d for d in range(rank) if d != last]
        batches = list(range(rank - 2))
        order = others + [last]
        if batch and draws.chance(0.3):
            order = [int(d) for d in draws.rng.permutation(others)] + [last]
        steps = [1] * rank
        if batch and draws.chance(0.3):
            for d in batches:
                steps[d] = draws.pick([1, 2, 3, -1] + [0] * (not writable))
        gap = (lambda: (draws.integer(0, 3), draws.integer(0, 5))) if style != "rows" else lambda: (0, 0)
        return {**options, "order": order, "steps": steps, "margins": [gap() for _ in range(rank)]}

    return layout


def lying(case, writable):
    """A function from a shape to a layout, for arrays that may lie anywhere."""
    return lambda shape: anywhere(case, shape, writable)


def run(case):
    chance = case.rng.random()
    if chance < 0.1:
        integers(case)
    elif chance < 0.2:
        product(case, float8=True)
    else:
        product(case)


def sizes(case, multiple=1):
    longest = 6 if case.place.is_slow else 40
    if case.place.name == "gpu" and case.chance(0.2):
        longest = 300
    m, n, k = (1 if case.chance(0.1) else case.integer(1, longest) for _ in range(3))
    if multiple > 1:
        n, k = (-(-x // multiple) * multiple for x in (n, k))
    if case.chance(0.05):
        which = case.integer(0, 2)
        m, n, k = (0 if which == d else x for d, x in enumerate((m, n, k)))
    return m, n, k


def batches(case):
    """Leading dimensions of a and b that may be broadcast."""
    if case.chance(0.6):
        return (), ()
    rank = case.integer(1, 3)
    full = [case.integer(1, 2 if case.place.is_slow else 3) for _ in range(rank)]
    drawn = [tuple(1 if case.chance(0.3) else n for n in full) for _ in range(2)]
    return tuple(one[case.integer(0, rank) if case.chance(0.4) else 0 :] for one in drawn)


def product(case, float8=False):
    kind = case.pick(gemm_call.EPILOGUES)
    batch_a, batch_b = batches(case)
    vectors = "".join(v for v, batch in (("a", batch_a), ("b", batch_b)) if not batch and case.chance(0.08))
    m, n, k = sizes(case, 16 if float8 else 1)
    if float8:
        vectors = vectors.replace("b", "")
        dtype, out_dtype, compute = case.pick([E4, E4, E5]), case.pick(FLOAT8_OUTS), case.pick([None, None, "fast"])
    else:
        dtype, out_dtype, compute = case.pick(TYPES)
    shape = (1 if "a" in vectors else m, 1 if "b" in vectors else n, k)
    beta = case.pick([0.0, 0.0, 1.0, -0.5])
    in_place = bool(beta) and out_dtype not in (E4, E5) and case.chance(0.4)
    layouts = {name: layout_of_matrix(case, False) for name in "ab"}
    layouts |= {name: lying(case, False) for name in ("c", "bias")}
    if in_place or case.chance(0.5):
        layouts["out"] = layout_of_matrix(case, True)
    if kind.startswith("d") or case.chance(0.5):
        layouts["aux"] = lying(case, not kind.startswith("d"))
    if float8 and case.place.is_device and case.chance(0.9):  # what Hopper takes
        start = {"memory": in_a_buffer(case)} if case.chance(0.3) else {}
        layouts["a"] = lambda shape: {**start}
        layouts["b"] = lambda shape: {"order": (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2), **start}
    scales = scales_for(case, shape, out_dtype, bool(beta)) if float8 else {}
    options = {"workspace_limit": case.pick([1, 4096, 2**25])} if case.chance(0.1) else {}
    call = FuzzCall(
        case.place, shape, kind, dtype, out_dtype, compute, batch_a=batch_a, batch_b=batch_b, layouts=layouts,
        alpha=case.pick([1.0, 1.0, 1.0, 0.0, -0.5, 2, np.float32(3)]), beta=beta, in_place=in_place,
        batched_bias=case.chance(0.3), vectors=vectors, seed=case.seed_of_values(), options=options,
        b_dtype=case.pick([E4, E5]) if float8 else None, scales=scales,
    )  # fmt: skip
    amax = None
    if float8 and out_dtype in (E4, E5) and case.chance(0.3):
        amax = call.options["amax_d"] = case.place.put(np.full(1, np.nan, np.float32))
    arguments = {**call.arguments, "alpha": call.alpha, **case.stream()}
    a, b = arguments.pop("a"), arguments.pop("b")
    try:
        answer = case.call("gemm.matmul", gemm.matmul, a, b, **arguments)
    except (numbacc.UnsupportedError, numbacc.LayoutError) as error:
        lacking = float8 and case.place.is_device
        apart = out_dtype in (E4, E5) and beta and "c must be stored as out is" in str(error)
        assert lacking or (isinstance(error, numbacc.LayoutError) and (apart or not call.fits())), error
        case.refused(error)
        for operand in (*call.operands.values(), *(o for o in (call.out, call.aux) if o is not None)):
            operand.assert_untouched()
        return
    case.place.settle()
    assert call.fits() or (case.place.is_device and float8), "strides of no matrix were taken"
    if amax is not None:
        amax = case.place.get(amax)[0]
    if call.in_place:  # it has been overwritten, but it is no result of another library's to be read
        assert (answer if not isinstance(answer, tuple) else answer[0]) is call.out.view
    call.verify(answer, amax)


def scales_for(case, shape, out_dtype, has_c):
    m, n, _ = shape
    number = lambda: float(2.0 ** case.integer(-2, 2))  # noqa: E731
    found = {}
    if out_dtype not in (E4, E5) and m and n and case.chance(0.25):
        for name, length in (("scale_a", m), ("scale_b", n)):
            found[name] = np.exp2(case.rng.integers(-2, 3, length)).astype(np.float32)
            if case.chance(0.3):
                found[name] = found[name].reshape((-1, 1) if name == "scale_a" else (1, -1))
    else:
        for name in ("scale_a", "scale_b"):
            if case.chance(0.5):
                shape_of_one = case.pick([(1,), (), (1, 1)])
                found[name] = number() if case.chance(0.5) else np.full(shape_of_one, number(), np.float32)
    if has_c and case.chance(0.3):
        found["scale_c"] = number()
    if out_dtype in (E4, E5) and case.chance(0.4):
        found["scale_d"] = number() if case.chance(0.5) else np.full(1, number(), np.float32)
    return found


def integers(case):
    """Products of int8, exact."""
    m, n, k = sizes(case, 4)
    batch_a, batch_b = batches(case)
    a, b = (case.rng.integers(-128, 128, s).astype(np.int8) for s in ((*batch_a, m, k), (*batch_b, k, n)))
    style = None if case.place.is_device and case.chance(0.9) else layout_of_matrix(case, False)
    left = case.place.operand(a, **(style(a.shape) if style else {}))
    columns = {"order": (*range(b.ndim - 2), b.ndim - 1, b.ndim - 2)}
    right = case.place.operand(b, **(style(b.shape) if style else columns))
    want = left.values.astype(np.int64) @ right.values.astype(np.int64)
    options, operands = {}, [left, right]
    alpha, beta = case.pick([1, 1, 3, -1]), case.pick([0, 0, 2, -1])
    want = alpha * want
    if beta:
        c = case.rng.integers(-1000, 1000, want.shape).astype(np.int32)
        operands.append(case.place.operand(c, **anywhere(case, c.shape, False)))
        options["c"] = operands[-1].view
        want = want + beta * operands[-1].values
    fits, out = is_stored(left.values) and is_stored(right.values), None
    if case.chance(0.5):
        out = case.place.empty(want.shape, np.dtype(np.int32), **layout_of_matrix(case, True)(want.shape))
        options["out"] = out.view
        fits = fits and is_stored(out.values)
    options |= case.stream()
    try:
        answer = case.call("gemm.matmul", gemm.matmul, left.view, right.view, alpha=alpha, beta=beta, **options)
    except numbacc.LayoutError as error:
        assert case.place.is_device or not fits, error
        case.refused(error)
        return
    np.testing.assert_array_equal(result_of(case, answer, out), want.astype(np.int32), strict=True)
    for operand in operands:
        operand.assert_untouched()
