"""Calls of `gemm.matmul` with operands anywhere in memory, and the check of what they return."""

from __future__ import annotations

from itertools import product

import gemm_oracle
import numpy as np
import pytest
from conftest import bits, sentinel
from gemm_oracle import Inputs

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.base.dispatch import simulated

EPILOGUES = tuple(kind.value for kind in gemm.Epilogue)

#: dtype of A and B, of D, and compute: the table in the issue.
DTYPES = {
    "float32": ("float32", "float32", None),
    "tf32": ("float32", "float32", "tf32"),
    "float64": ("float64", "float64", None),
    "float16": ("float16", "float16", None),
    "bfloat16": ("bfloat16", "bfloat16", None),
    "float16 to float32": ("float16", "float32", None),
    "bfloat16 to float32": ("bfloat16", "float32", None),
}
#: How a matrix may lie in memory, as keywords of `Operand` for its last two dimensions.
BY_ROWS, BY_COLUMNS = {}, {"order": (1, 0)}
PADDED = {"margins": ((0, 0), (3, 5))}  # rows that start anywhere, further apart than they are long
PADDED_COLUMNS = {"order": (1, 0), "margins": ((1, 2), (1, 0))}


def in_batch(layout, rank):
    """The layout of the last dimensions as that of `rank` dimensions; a vector lies as it likes."""
    own = max(map(len, layout.values()), default=0)
    count = rank - own
    if count < 0 or not own:
        return {}
    outer = {"order": tuple(range(count)), "steps": (1,) * count, "margins": ((0, 0),) * count}
    inner = {**layout, "order": [count + d for d in layout.get("order", range(own))]}
    return {key: (*outer[key], *value) for key, value in inner.items()}


class Call:
    """One call: its operands in place, and what it must give.

    Args:
        shape: m, n, k.
        kind: the epilogue.
        dtype: of A and B.
        out_dtype: of D.
        compute: as in `matmul`.
        batch_a, batch_b: leading dimensions.
        layouts: for a, b, c, out, bias, aux keywords of `Operand`; `out` and a produced `aux` are given if named.
        beta: c is given if it is not 0, and is `out` itself if `in_place`.
        batched_bias: whether each matrix has a bias of its own.
        inputs: values for a, b, c, bias or aux instead of random ones.
        options: passed on.
    """

    def __init__(
        self, place, shape, kind="none", dtype="float32", out_dtype=None, compute=None, *, batch_a=(), batch_b=(),
        layouts=None, alpha=1.0, beta=0.0, in_place=False, batched_bias=False, vectors=(), seed=0, inputs=None,
        options=None,
    ):  # fmt: skip
        m, n, k = shape
        self.place, self.kind, self.compute, self.in_place = place, kind, compute, in_place
        self.dtype, self.out_dtype = dtypes.dtype(dtype), dtypes.dtype(out_dtype or dtype)
        self.alpha, self.beta, self.options = alpha, beta, options or {}
        self.layouts, given = layouts or {}, inputs or {}
        rng = np.random.default_rng(seed)

        def values(name, shape, dtype, scale=1.0):
            if name in given:
                return np.asarray(given[name]).astype(dtype)
            return (scale * rng.standard_normal(shape)).astype(dtype)

        # z is spread as GELU's bend is wide.
        a = values("a", (k,) if "a" in vectors else (*batch_a, m, k), self.dtype, 1.5 / np.sqrt(max(k, 1)))
        b = values("b", (k,) if "b" in vectors else (*batch_b, k, n), self.dtype)
        self.inputs = Inputs(a, b, epilogue=kind, alpha=alpha, beta=beta)
        self.shape = gemm_oracle.shape_of(self.inputs)
        batch = gemm_oracle.matrices_shape(self.inputs)[:-2]
        uses = gemm.Epilogue(kind)
        more = {}
        # Of float8, what is not multiplied has 16 bits where D has no more.
        half, narrow = dtypes.dtype("bfloat16"), self.out_dtype.itemsize == 1
        self.bias_dtype = (
            half if self.dtype.name.startswith("float8") and self.out_dtype.itemsize != 2 else self.out_dtype
        )
        self.c_dtype = half if narrow else self.out_dtype
        if beta:
            more["c"] = values("c", self.shape, self.c_dtype)
        if uses.uses_bias:
            more["bias"] = values("bias", (*batch, n) if batched_bias else (n,), self.bias_dtype)
        if uses.uses_aux and uses.activation == "gelu":
            more["aux"] = values("aux", self.shape, self.c_dtype, 2.0)
        elif uses.uses_aux:
            more["aux"] = given.get("aux", rng.integers(0, 256, self.mask_shape, np.uint8))
        self.operands = {name: self._put(name, array) for name, array in [("a", a), ("b", b), *more.items()]}
        # Broadcast operands repeat their first elements.
        self.inputs = self.inputs._replace(**{name: operand.values for name, operand in self.operands.items()})
        if in_place:
            self.out = self.operands.pop("c")
        else:
            self.out = self._empty("out", self.shape, self.out_dtype) if "out" in self.layouts else None
        self.aux = None
        if uses.produces_aux and "aux" in self.layouts:
            bits = uses.activation == "relu"
            shape, dtype = (self.mask_shape, np.dtype(np.uint8)) if bits else (self.shape, self.c_dtype)
            self.aux = self._empty("aux", shape, dtype)

    @property
    def mask_shape(self):
        """The shape of ReLU's aux."""
        shape = gemm_oracle.matrices_shape(self.inputs)
        rows = shape[:-1] if self.inputs.a.ndim > 1 else shape[:-2]
        return (*rows, -(-shape[-1] // 8))

    def _put(self, name, array):
        where = "out" if name == "c" and self.in_place else name
        if array.ndim:
            return self.place.operand(array, **in_batch(self.layouts.get(where, {}), array.ndim))
        operand = self.place.operand(array[None])
        operand.view, operand.values = operand.view.reshape(()), operand.values.reshape(())
        return operand

    def _empty(self, name, shape, dtype):
        return self._put(name, np.broadcast_to(sentinel(dtype), shape))

    @property
    def arguments(self):
        """Keywords of `matmul` but for alpha."""
        found = {name: operand.view for name, operand in self.operands.items()}
        if self.out is not None:
            found["out"] = self.out.view
        if self.in_place:
            found["c"] = self.out.view
        if self.aux is not None:
            found["aux"] = self.aux.view
        if self.out is None and (self.out_dtype != self.dtype or self.dtype.itemsize == 1):
            found["out_dtype"] = self.out_dtype
        if self.compute:
            found["compute"] = self.compute
        return {"epilogue": self.kind, "beta": self.beta, **found, **self.options}

    def run(self, **more):
        return gemm.matmul(**{**self.arguments, "alpha": self.alpha, **more})

    def plan(self):
        return gemm.matmul.plan(**self.arguments)

    def results(self, answer):
        """out and the second result, None where there is none, in NumPy."""
        pair = answer if isinstance(answer, tuple) else (answer, None)
        return [None if array is None else self.place.get(array) for array in pair]

    def verify(self, answer, amax=None):
        """Check everything about a call: names, values, and that nothing else was written."""
        uses = gemm.Epilogue(self.kind)
        names = ("out", "aux") if uses.produces_aux else ("out", "bias_grad") if uses.produces_bias_grad else None
        assert getattr(answer, "_fields", None) == names
        out, second = self.results(answer)
        assert out.dtype == self.out_dtype
        composed, slack = False, {}
        if self.place.is_device:
            # The plan does not say what follows an empty product or alpha=0; a sum may be of rounded results.
            unsaid = self.inputs.a.shape[-1] == 0 or self.alpha == 0 or self.kind in ("drelu_bgrad", "dgelu_bgrad")
            composed = unsaid or self.plan().info.backend.endswith("+kernel")
        if self.place.name == "gpu":
            slack["fused_gelu"] = True
            # Some of cuBLASLt's algorithms round 16-bit products before the epilogue, as our kernels must.
            composed = composed or self.out_dtype.itemsize == 2
            if self.dtype.name.startswith("float8"):
                slack["sum_error"] = gemm_oracle.FLOAT8_SUM_ERROR[self.compute]
        gemm_oracle.assert_product(
            self.inputs, out, second, amax, compute=self.compute, composed=composed,
            second_dtype=self.c_dtype if uses.produces_aux else self.out_dtype, **slack,
        )  # fmt: skip
        first = answer if names is None else answer[0]
        if self.out is not None:
            assert first is self.out.view
            self.out.assert_written_only()
        if self.aux is not None:
            assert answer.aux is self.aux.view
            assert_untouched_around(self.aux)
        for operand in self.operands.values():
            operand.assert_untouched()


def assert_untouched_around(operand):
    """Nothing but the view of what `Place.empty` made was written."""
    now = operand.place.get(operand.base)
    around = np.ones(now.shape, bool)
    operand.within(around)[...] = False
    assert (bits(now)[around] == bits(np.asarray(sentinel(now.dtype)))).all(), "memory around an array was written"


def run_and_verify(place, *arguments, **keywords):
    """One call, checked."""
    call = Call(place, *arguments, **keywords)
    call.verify(call.run())
    return call


def thinned(place, items, index, count):
    """All items; where a call is slow `count` of them, others with each index, so that all of them have their turn."""
    items = list(items)
    if not place.is_slow:
        return items
    start = index * count
    return [items[(start + k) % len(items)] for k in range(count)]


def combinations(every, **choices):
    """Parametrization by all combinations of named choices.

    One in `every` is fast; where a call is slow there are no others.

    Args:
        every: has no divisor in common with the numbers of choices, so that each choice has its turn.
        choices: for each argument a sequence of values, or a dict that names them.
    """
    named = [each if isinstance(each, dict) else {str(value): value for value in each} for each in choices.values()]
    cases = list(enumerate(product(*(each.items() for each in named))))[:: every if simulated() else 1]
    values = [
        pytest.param(
            *(value for _, value in case),
            id="-".join(name for name, _ in case),
            marks=pytest.mark.slow if number % every else (),
        )
        for number, case in cases
    ]
    return pytest.mark.parametrize(",".join(choices), values)


def is_fused(plan):
    """True if the library does all of it."""
    return plan.info.backend == "cublasLt"


E4, E5 = "float8_e4m3fn", "float8_e5m2"


F32 = np.dtype(np.float32)


class Call8(Call):
    """A call on float8 matrices, b column by column, with scales.

    Args:
        scales: for "scale_a" and the like numbers, or arrays, which are put where the others are.
    """

    def __init__(self, place, shape=(32, 48, 64), kind="none", a=E4, b=E4, out="bfloat16", scales=None, **more):
        layouts = {"b": BY_COLUMNS, **more.pop("layouts", {})}
        super().__init__(place, shape, kind, a, out, layouts=layouts, **more)
        if a != b:
            narrow = self.inputs.b.astype(dtypes.dtype(b))
            self.operands["b"] = place.operand(narrow, **BY_COLUMNS)
            self.inputs = self.inputs._replace(b=narrow)
        scales = scales or {}
        self.inputs = self.inputs._replace(**scales)
        self.options |= {k: place.put(v) if isinstance(v, np.ndarray) else v for k, v in scales.items()}

    def check(self, required=True, amax=None):
        """Run and verify; what the library or GPU lacks it must say, and it must not lack what is required."""
        try:
            answer = self.run()
        except (numbacc.UnsupportedError, numbacc.LibraryError) as error:
            assert self.place.is_device and not required, error
            assert "cuBLASLt" in str(error)
        else:
            self.verify(answer, None if amax is None else self.place.get(amax)[0])
