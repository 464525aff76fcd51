"""The kernels of unfused attention, compiled without a GPU."""

from __future__ import annotations

import ptx
import pytest

from numbacc.kernels.attention_specs import AttentionSpec


def spec(algorithm, dtype="float32", lengths=True, extras=True, dropout=True):
    """The spec of a kernel with all that it may have, or nothing of it."""
    real = "float64" if dtype == "float64" else "float32"
    more = [("bias", dtype), ("alibi", "float32")] if extras else []
    more += [("lengths_q", "int32"), ("lengths_kv", "int32")] if lengths else []
    more += [("offset", "int64")] if dropout and extras else []
    inputs, outputs = {
        "softmax": ([("scores", real), *more], [("weights", dtype), ("stats", real)]),
        "weights": ([("scores", real), *more, ("level", real)], [("weights", dtype)]),
        "slopes": (
            [("scores", real), *more, ("level", real), ("spread", real), ("do", dtype), ("o", dtype)],
            [("slopes", dtype), ("sums", real)],
        ),
        "sums": ([("slopes", real), ("before", real)], [("after", real)]),
        "mend": ([("level", "float32"), *more[:0], *more[2:4]], [("out", dtype), ("stats", "float32")]),
    }[algorithm]
    scalars = ("uint64", "uint64", "uint64", real) if dropout and algorithm in ("softmax", "weights", "slopes") else ()
    return AttentionSpec(algorithm, tuple(inputs), tuple(outputs), real, scalars)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("algorithm", ["softmax", "weights", "slopes", "sums", "mend"])
def test_they_compile_to_their_own_precision(algorithm, dtype):
    for some in ((True, True, True), (False, False, False)):
        found = ptx.compiled(spec(algorithm, dtype, *some))
        assert dtype == "float64" or ".f64" not in found.text
        assert {access.nbytes for access in found.accesses if access.space == "global"} <= {2, 4, 8}


@pytest.mark.parametrize("algorithm", ["softmax", "weights", "slopes"])
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)])
def test_nothing_is_spilled(algorithm, capability):
    _, spilled = ptx.compiled(spec(algorithm), capability).usage(capability)
    assert spilled == 0
