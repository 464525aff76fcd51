"""What the kernels of random numbers compile to, without a GPU: stores, arithmetic, and how arguments are packed."""

from __future__ import annotations

import re

import ptx
import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.kernels.random.draws import GROUP_FORMULAS
from numbacc.kernels.random.spec import DRAW_WORDS, HALVES, AdvanceSpec, DrawSpec, groups_of

pytestmark = [
    skip_if(simulated(), "not simulated"),
    pytest.mark.each_alone(names_apart=True, paired=True, in_pairs=True),
]

H200 = (9, 0)
CAPABILITIES = ((7, 5), (8, 0), H200, (10, 0))
FLOATS = ("float64", "float32", "float16", "bfloat16")
WORDS = ("uint8", "uint16", "uint32", "uint64")

#: Formula -> (words a value, dtype) that it is used with.
USES = {
    "bits": [(1, "uint32"), (2, "uint64"), (2, "uint32")],
    "random": [(1, dtype) for dtype in FLOATS] + [(2, dtype) for dtype in FLOATS],
    "uniform": [(1, dtype) for dtype in FLOATS] + [(2, dtype) for dtype in FLOATS],
    "mask": [(n, dtype) for n in (1, 2) for dtype in (*FLOATS, "uint8")],
    "integers": [(n, dtype) for n in (1, 2, 4) for dtype in WORDS],
    "few_integers": [(2, dtype) for dtype in WORDS],
    "stored": [(1, "float32"), (1, "float16"), (1, "bfloat16"), (2, "float64"), (1, "uint32"), (1, "uint64")],
    "normal": [(1, "float32"), (1, "float16"), (1, "bfloat16"), (2, "float64")],
    "lognormal": [(1, "float32"), (1, "float16"), (1, "bfloat16"), (2, "float64")],
}
CASES = [(formula, words, dtype) for formula, uses in USES.items() for words, dtype in uses]


def spec(source, formula, words, dtype, dense=True, rank=1):
    size = TABLE[dtype].itemsize
    widest = 2 if dtype in ("uint8", "uint16") else 16
    access = max(min(widest, 4 // words * size), size) if dense else size
    turns = " in turns" if source == "philox" and formula in GROUP_FORMULAS and words == 2 else ""
    return DrawSpec(source + turns, formula, words, dtype, dense, rank, access, groups_of(formula, words))


def check(kernel, capability=H200):
    found = ptx.compiled(kernel, capability)
    assert ".local" not in found.text
    assert not re.search(r"\bcall\b", found.text), "a function is not inlined"
    assert {access.space for access in found.accesses} == {"global"}
    if kernel.dtype != "float64":
        assert ".f64" not in found.text
    assert not re.search(r"\b(div|rem)\.s", found.text)
    return found


def sources(formula):
    return {"stored": ("memory",), "normal": ("philox",), "lognormal": ("philox",)}.get(formula, ("philox", "memory"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formula, words, dtype", CASES)
def test_dense(formula, words, dtype):
    """A group's values in one store, or as wide as small integers go; one by one at the ends."""
    for source in sources(formula):
        kernel = spec(source, formula, words, dtype)
        found = check(kernel)
        stores = {access.nbytes for access in found.accesses if access.operation == "st"}
        loads = {access.nbytes for access in found.accesses if access.operation == "ld"}
        assert stores == {TABLE[dtype].itemsize, kernel.access_bytes}
        assert loads == ({16} if source == "memory" else set())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formula, words, dtype", CASES)
def test_strided(formula, words, dtype):
    found = check(spec(sources(formula)[0], formula, words, dtype, dense=False, rank=3))
    assert {access.nbytes for access in found.accesses if access.operation == "st"} == {TABLE[dtype].itemsize}


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
@pytest.mark.parametrize("formula", ["random", "normal"])
def test_philox_is_ten_rounds_of_two_multiplications(formula, capability):
    """Each is one 32 x 32 -> 64-bit instruction, and all beside it has 32 bits."""
    found = check(spec("philox", formula, 1, "float32"), capability)
    # For 10.0 the compiler also computes addresses so, and leaves it to the assembler to drop unused halves.
    newer = capability == (10, 0)
    # Once for each group that a thread makes at a time, and again where some of a block's values are not wanted.
    products = len(re.findall(r"mul\.wide\.u32", found.text))
    assert products >= 40 and products % 20 <= (8 if newer else 0)
    assert not re.search(r"mul\.hi\.[su]64", found.text)
    # A last round's exclusive or may be joined with its neighbour.
    assert newer or len(re.findall(r"xor\.b64", found.text)) <= products // 20
    assert len(re.findall(r"mul\.lo\.[su]64", found.text)) <= 8  # of a block's bounds, not a group's
    assert not re.search(r"\bdiv\b|\brem\b", found.text)
    sines = len(re.findall(r"(?:sin|cos)\.approx\.f32", found.text))
    assert sines == (products // 20 * 4 if formula == "normal" else 0)
    if ptx.ptxas() is not None:
        registers, spilled = found.usage(capability)
        assert registers <= 64 and spilled == 0


def test_uniforms_round_twice_as_numpy_does():
    """A fused multiply-add would differ from the CPU in the last bit."""
    for dtype in FLOATS:
        text = check(spec("philox", "uniform", 2 if dtype == "float64" else 1, dtype)).text
        real = "f64" if dtype == "float64" else "f32"
        assert f"mul.rn.{real}" in text and f"add.rn.{real}" in text and "fma" not in text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("formula, words, dtype", [case for case in CASES if case[0] != "stored"])
def test_positions_on_the_gpu_are_two_loads(formula, words, dtype):
    """The seed and where the draw starts; all else as in kernels that are told so."""
    told = spec("philox", formula, words, dtype)
    found, known = check(told._replace(positioned=True)), check(told)
    loads = [access.nbytes for access in found.accesses if access.operation == "ld"]
    assert loads and set(loads) == {8} and len(loads) <= 4
    stores = [[access.nbytes for access in each.accesses if access.operation == "st"] for each in (found, known)]
    assert set(stores[0]) == set(stores[1])
    products = [len(re.findall(r"mul\.wide\.u32", each.text)) for each in (found, known)]
    assert products[0] == products[1]
    if ptx.ptxas() is not None:
        registers, spilled = found.usage(H200)
        assert registers <= 64 and spilled == 0


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_a_position_is_moved_by_one_thread(capability):
    found = ptx.compiled(AdvanceSpec(), capability)
    assert ".local" not in found.text and not re.search(r"\bcall\b|\.f64", found.text)
    assert [(access.operation, access.nbytes) for access in found.accesses] == [("ld", 8), ("st", 8), ("st", 8)]
    entry, cubin = ptx.cubin(AdvanceSpec(), capability)
    assert cubin.startswith(b"\x7fELF") and entry.encode() in cubin


@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8"])
def test_arguments_are_words(dtype, rank):
    """As many words of 64 bits as launchers pack: the address, what stays, what changes from call to call."""
    kernel = spec("philox", "integers" if dtype == "uint8" else "random", 2, dtype, dense=False, rank=rank)
    widths = re.findall(r"^\s*\.param \.[a-z](\d+) ", ptx.compiled(kernel).text, re.MULTILINE)
    assert widths == ["64"] * (1 + 3 + HALVES + 2 * rank + 1 + DRAW_WORDS) and kernel.wide


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_machine_code_is_made_without_a_gpu(capability):
    entry, cubin = ptx.cubin(spec("philox", "normal", 1, "float16"), capability)
    assert cubin.startswith(b"\x7fELF") and entry.encode() in cubin
