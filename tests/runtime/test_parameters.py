"""The parameters that compiled kernels have, against the bytes that a launch hands over."""

from __future__ import annotations

import re

import ptx
import pytest
from skips import skip_if

from numbacc import compiling
from numbacc.base.dispatch import simulated
from numbacc.functions.epilogues import SUM
from numbacc.functions.formula import Formula
from numbacc.kernels.specs import KernelSpec
from numbacc.runtime import kernel_code

pytestmark = skip_if(simulated(), "not simulated")

SIZES = {"int32": 4, "int64": 8, "uint64": 8, "words": 8, "float32": 4, "float64": 8}


def handed_over(spec):
    """Where a launch puts each number: pointers, then constants, then words at a multiple of 8."""
    (_, inputs), (_, outputs), *rest = kernel_code.parameters(spec)
    offsets, end = [8 * k for k in range(inputs + outputs)], 8 * (inputs + outputs)
    for name, shape in rest:
        count = 1 if shape is None else shape if isinstance(shape, int) else shape[0] * shape[1]
        size = SIZES[name]
        if count:
            end = -(-end // size) * size
        offsets += [end + size * k for k in range(count)]
        end += size * count
    return offsets


def compiled(spec):
    """Where the kernel expects them, by the PTX: each aligned to its own size, as in C."""
    text = ptx.compiled(spec).source
    entry = re.search(r"\.visible \.entry [^(]+\((.*?)\)", text, re.DOTALL).group(1)
    offsets, end = [], 0
    for bits in re.findall(r"\.param \.[a-z](\d+) ", entry):
        size = int(bits) // 8
        end = -(-end // size) * size
        offsets.append(end)
        end += size
    return offsets


@pytest.mark.each_alone(paired=True, in_pairs=True)
@pytest.mark.parametrize("scalars", [(), ("float32",), ("int32", "float64", "bool"), ("complex64",)], ids=str)
@pytest.mark.parametrize("algorithm, rank", [("scalar", 1), ("vector", 2), ("uneven", 3), ("strided", 3), ("tiled", 2)])
@pytest.mark.parametrize("wide", [False, True])
def test_maps(algorithm, rank, wide, scalars):
    formula = {0: lambda x, y: x + y, 1: lambda x, y, a: x + y, 3: lambda x, y, a, b, c: x + y}[len(scalars)]
    transposed = (0,) if algorithm == "tiled" else ()
    spec = KernelSpec(
        algorithm, Formula("own", formula), ("float32", "int32"), ("float64",), rank, wide, 2, 2,
        transposed, compute="float64", scalars=scalars,
    )  # fmt: skip
    assert compiled(spec) == handed_over(spec)


@pytest.mark.parametrize("wide", [False, True])
def test_reductions_and_masks(wide):
    for spec in (
        KernelSpec(
            "reduce_rows",
            SUM,
            ("float16",),
            ("float32",),
            2,
            wide,
            1,
            compute="float32",
            module="kernels/elementwise/bias_grad",
        ),
        KernelSpec(
            "pack_bits",
            None,
            ("float16",),
            ("uint8",),
            1,
            wide,
            1,
            compute="float32",
            module="kernels/elementwise/sign_masks",
        ),
    ):
        assert compiled(spec) == handed_over(spec)


@pytest.mark.parametrize("family", ["fft", "random"])
def test_what_everyday_calls_launch(family):
    for spec in compiling.kernels([family])[::8]:
        assert compiled(spec) == handed_over(spec), spec
