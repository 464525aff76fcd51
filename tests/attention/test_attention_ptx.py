"""The kernels of unfused attention, compiled without a GPU."""

from __future__ import annotations

import math

import numpy as np
import ptx
import pytest

from numbacc.attention.score_functions import parsed
from numbacc.attention.unfused import score_task
from numbacc.base.layout import layout, row_major_strides
from numbacc.kernels.attention.spec import AttentionSpec
from numbacc.kernels.attention.varlen import between, clamped, kept, negated, raised
from numbacc.kernels.elementwise.geometry import make_order
from numbacc.kernels.specs import KernelSpec

pytestmark = pytest.mark.each_alone(paired=True, in_pairs=True)
#: Kernels that know what dropout keeps.
_DROPPING = ("softmax", "weights", "kept", "slopes")
ALGORITHMS = (*_DROPPING, "sums", "mend", "join", "unpack", "pack", "unpage")


def spec(algorithm, dtype="float32", lengths=True, extras=True, dropout=True):
    """The spec of a kernel with all that it may have, or nothing of it."""
    real = "float64" if dtype == "float64" else "float32"
    more = [("bias", dtype), ("alibi", "float32")] if extras else []
    more += [("lengths_q", "int32"), ("lengths_kv", "int32")] if lengths else []
    more += [("offset", "int64")] if dropout and extras else []
    starts = [("starts", "int64")] if lengths else []
    inputs, outputs = {
        "softmax": ([("scores", real), *more], [("weights", dtype), ("stats", real)]),
        "weights": ([("scores", real), *more, ("level", real)], [("weights", dtype)]),
        "slopes": (
            [("scores", real), *more, ("level", real), ("spread", real), ("do", dtype), ("o", dtype)],
            [("slopes", dtype), ("sums", real)],
        ),
        "kept": ([("scores", real), *more], [("kept", "bool")]),
        "unpack": ([("source", dtype), ("lengths", "int32"), *starts], [("target", dtype)]),
        "pack": ([("source", dtype), ("lengths", "int32"), ("starts", "int64")], [("target", dtype)]),
        "unpage": ([("source", dtype), ("lengths", "int32"), ("table", "int32")], [("target", dtype)]),
        "sums": ([("slopes", real), ("before", real)], [("after", real)]),
        "mend": (
            [("level", "float32"), *[each for each in more if each[0].startswith("lengths")], *starts],
            [("out", dtype), ("stats", "float32")],
        ),
        "join": (
            [("parts", dtype), ("levels", real)],
            # With all extras, results are written in whole accesses.
            [("vectors" if extras else "out", dtype), *([("stats", real)] if lengths else [])],
        ),
    }[algorithm]
    scalars = ("uint64", "uint64", "uint64", real) if dropout and algorithm in _DROPPING else ()
    return AttentionSpec(algorithm, tuple(inputs), tuple(outputs), real, scalars)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_they_compile_to_their_own_precision(algorithm, dtype):
    for some in ((True, True, True), (False, False, False)):
        found = ptx.compiled(spec(algorithm, dtype, *some))
        assert dtype == "float64" or ".f64" not in found.text
        widths = {access.nbytes for access in found.accesses if access.space == "global"}
        assert widths <= {1, 2, 4, 8} or algorithm == "join"


@pytest.mark.parametrize("algorithm", ["softmax", "weights", "slopes"])
def test_statistics_in_two_parts(algorithm):
    plain = spec(algorithm, dropout=False)
    rest = (("rest", "float32"),)
    changed = {"outputs": (*plain.outputs, *rest)} if algorithm == "softmax" else {"inputs": (*plain.inputs, *rest)}
    one, two = ptx.compiled(plain), ptx.compiled(plain._replace(**changed))
    assert ".f64" not in two.text
    wide = "st" if algorithm == "softmax" else "ld"
    counts = [sum(access[:2] == (wide, "global") for access in each.accesses) for each in (one, two)]
    assert counts[1] == counts[0] + 1


def test_functions_of_scores_compile_to_single_precision():
    """Positions are integers, but products of them and of scores are computed in float32."""
    shape, slopes, device = (2, 4, 128, 128), (1, 4, 1, 1), 0
    scoring, *_ = parsed(
        lambda s, b, h, i, j, m: 5 * math.tanh(s / 5) + m * (j - i),
        lambda b, h, i, j: j <= i and i - j < 100,
        (np.ones((4, 1, 1), np.float32),), True, lambda: shape, -1, 0,
    )  # fmt: skip

    def lies(shape, dtype):
        return layout(shape, row_major_strides(shape, np.dtype(dtype).itemsize), np.dtype(dtype), device)

    scores, half, single = lies(shape, "float32"), lies(shape, "float16"), lies(slopes, "float32")
    for formula, inputs, outputs in (
        (scoring.function.formula, (scores, single), (scores,)),
        (scoring.function.gradient_formula((0,)), (scores, scores, single), (half, scores)),
    ):
        found = ptx.compiled(make_order(score_task(formula, inputs, outputs, shape, "float32"), (0,) * 5, ()).kernel)
        assert ".f64" not in found.text
        accesses = [access.nbytes for access in found.accesses if access.space == "global"]
        assert max(accesses) == 16


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_parts_are_joined_in_full_accesses(dtype):
    """Each thread requests four parts before it waits for one."""
    for extras in (False, True):
        found = ptx.compiled(spec("join", dtype, extras=extras))
        loads = [access.nbytes for access in found.accesses if access[:2] == ("ld", "global")]
        assert sorted(loads) == [4] * 4 + [16] * 4
        stores = [access.nbytes for access in found.accesses if access[:2] == ("st", "global")]
        assert sorted(stores) == ([4, 16] if extras else [2] * 8 + [4])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("algorithm", ["softmax", "weights", "slopes", "join"])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
def test_nothing_is_spilled(algorithm, capability):
    _, spilled = ptx.compiled(spec(algorithm), capability).usage(capability)
    assert spilled == 0


@pytest.mark.parametrize(
    ("formula", "reads", "writes", "compute"),
    [
        (clamped(0, 77), ("int32",), ("int32",), "int64"),
        (clamped(0, 2**31, 4096), ("int64",), ("int64",), "int64"),
        (between(100, 7), ("int32", "int32"), ("int32",), "int64"),
        (raised, ("float32",), ("float32",), "float32"),
        (kept, ("float32",), ("bool",), "float32"),
        (negated, ("bfloat16",), ("bfloat16",), "float32"),
    ],
    ids=["clamped", "multiplied", "between", "raised", "kept", "negated"],
)
def test_formulas_of_lengths_and_statistics(formula, reads, writes, compute):
    spec = KernelSpec("scalar", formula, reads, writes, 1, False, compute=compute)
    assert ".f64" not in ptx.compiled(spec).text
    assert formula.digest(compute, False)
