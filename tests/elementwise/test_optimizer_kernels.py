"""The kernel of AdamW's step over lists: the tables that it reads, and what it compiles to."""

from __future__ import annotations

import re

import numpy as np
import ptx
import pytest
from optimizer_cases import each_kind
from skips import skip_if

from numbacc import compiling
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.kernels.elementwise import multi_tensor_tables
from numbacc.kernels.elementwise.multi_tensor_spec import ListSpec, ListSumSpec
from numbacc.kernels.elementwise.optimizers import ADAMW, ADAMW_COUNTED, ADAMWS, SQUARE


@pytest.mark.parametrize("sizes", [(1,), (5, 100), (1 << 20, 3, 1 << 14), (1 << 28, 1 << 28)])
def test_chunks_cover_every_element_once(sizes):
    spec = ListSpec(ADAMW, ("float32",) * 4, (0, 2, 3), (), "float32", ("float32",) * 6, 4)
    tables = multi_tensor_tables.ListTables(sizes, spec, 0)
    assert tables.chunk % spec.width == 0 and tables.blocks == len(tables._numbers)
    rows = tables._rows([16 * (k + 1) for k in range(4 * len(sizes))])
    count = np.bincount(tables._numbers, minlength=len(sizes))
    for k, size in enumerate(sizes):
        assert rows[k, 4] == size and (count[k] - 1) * tables.chunk < size <= count[k] * tables.chunk
        assert rows[k, 5] == count[:k].sum() and rows[k, 6] == size // spec.width * spec.width
        assert list(rows[k, :4]) == [16 * (n * len(sizes) + k + 1) for n in range(4)]
    rows = tables._rows([16 * (k + 1) + 4 * (k == 0) for k in range(4 * len(sizes))])
    assert rows[0, 6] == 0, "not all are aligned"


# ---------------------------------------------------------------- what is compiled


@pytest.mark.sampled(2)
@skip_if(simulated(), "not simulated")
@pytest.mark.each_alone(paired=True, in_pairs=True)
@pytest.mark.parametrize("capability", [(9, 0), (8, 0)])
@pytest.mark.parametrize("singles", [(), ("int64",), ("int64", "float32")], ids=["numbers", "step", "step and rate"])
@each_kind
def test_the_kernel(kinds, singles, capability):
    """16 bytes at a time, all loads of a thread under way before the first store, in registers."""
    names = (*kinds, kinds[2])
    compute = "float64" if "float64" in names else "float32"
    formula, scalars = (ADAMW_COUNTED, 8 - len(singles)) if singles else (ADAMW, 6)
    spec = ListSpec(formula, names, (0, 2, 3), singles, compute, (compute,) * scalars, 4)
    found = ptx.compiled(spec, capability)
    assert found.target == "sm_{}{}".format(*capability)
    assert ".local" not in found.text and not re.search(r"\bcall\b", found.text)
    assert {access.space for access in found.accesses} == {"global"}
    if compute == "float32":
        assert ".f64" not in found.text
    runs = [[min(n, 16)] * -(-n // 16) for n in (TABLE[name].itemsize * spec.width for name in names)]
    (_, loads), (_, stores) = found.runs()[:2]
    assert loads[-sum(map(len, runs)) :] == [n for run in runs for n in run]
    assert stores == [n for k in (0, 2, 3) for n in runs[k]]
    if ptx.ptxas() is not None and capability == (9, 0):
        registers, spilled = found.usage(capability)
        assert registers <= 64 and spilled <= (64 if compute == "float64" else 0)


#: The options that are arrays on the GPU -> the dtypes of these arrays.
SINGLES = {
    "": (), "step": ("int64",), "scaled": (), "factor": ("float32",), "step factor": ("int64", "float32"),
    "step rate factor": ("int64", "float32", "float32"),
}  # fmt: skip


@pytest.mark.sampled(2)
@skip_if(simulated(), "not simulated")
@pytest.mark.each_alone(paired=True, in_pairs=True)
@pytest.mark.parametrize("kind", SINGLES)
@pytest.mark.parametrize("has_copies", [False, True])
@pytest.mark.parametrize("has_decays", [False, True])
def test_kernels_with_factors_copies_and_decays(kind, has_copies, has_decays):
    """A float32 p with 16-bit gradients: each array is read or written once, in the widest accesses."""
    names = ("float32", "bfloat16", "float32", "float32", *["bfloat16"] * has_copies)
    written, singles = (0, 2, 3, 4)[: 3 + has_copies], SINGLES[kind]
    scalars = (8 if "step" in kind else 6) + (kind not in ("", "step")) - len(singles)
    spec = ListSpec(ADAMWS[kind, has_copies, has_decays], names, written, singles, "float32", ("float32",) * scalars, 4)
    found = ptx.compiled(spec)
    assert ".local" not in found.text and ".f64" not in found.text and not re.search(r"\bcall\b", found.text)
    runs = [[min(n, 16)] * -(-n // 16) for n in (TABLE[name].itemsize * spec.width for name in names)]
    (_, loads), (_, stores) = found.runs()[:2]
    assert loads[-sum(map(len, runs[:4])) :] == [n for run in runs[:4] for n in run]
    assert stores == [n for k in written for n in runs[k]]
    if ptx.ptxas() is not None:
        registers, spilled = found.usage((9, 0))
        assert registers <= 64 and spilled == 0


@skip_if(simulated(), "not simulated")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_the_kernel_of_sums(dtype):
    """Four accesses of 16 bytes of a thread are under way before the first is used."""
    compute = "float64" if dtype == "float64" else "float32"
    found = ptx.compiled(ListSumSpec(SQUARE, (dtype,), compute))
    assert ".local" not in found.text and not re.search(r"\bcall\b", found.text)
    assert any(loads.count(16) >= 4 for operation, loads in found.runs() if operation == "ld")
    if ptx.ptxas() is not None:
        registers, spilled = found.usage((9, 0))
        assert registers <= 64 and spilled == 0


@skip_if(simulated(), "not simulated")
def test_everyday_kernels_are_compiled_ahead():
    ahead = {spec for spec in compiling.kernels(["elementwise"]) if isinstance(spec, ListSpec)}
    for name, moments in (("float32", "float32"), ("bfloat16", "float32"), ("bfloat16", "bfloat16")):
        for formula in (ADAMW, ADAMW_COUNTED):
            assert any(spec.formula is formula and spec.operands == (name, name, moments, moments) for spec in ahead)
