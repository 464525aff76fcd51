"""What every kernel compiles to, without a GPU: how wide it accesses memory, in which order and precision."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, groupby

import ptx
import pytest
from oracle import DTYPES
from skips import skip, skip_if

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import MAX_RANK
from numbacc.functions.epilogues import FORMULAS, SUM
from numbacc.kernels.specs import TILE, TILE_STEP, KernelSpec, compute_dtype
from numbacc.runtime import launch
from numbacc.runtime.launch_order import VECTOR_BYTES

pytestmark = [
    skip_if(simulated(), "not simulated"),
    pytest.mark.each_alone(names_apart=True, paired=True, in_pairs=True),
]

H200 = (9, 0)
CAPABILITIES = ((7, 5), (8, 0), H200, (10, 0))
FLOATS = tuple(dtype.name for dtype in DTYPES)
WORDS = ("uint8", "uint16", "uint32", "uint64")
FORWARD, BACKWARD = "gated.forward.swiglu", "gated.backward.geglu"
#: Formulas whose kernels are looked at for every compute capability; the others are more of the same.
EVERYWHERE = [name for name in FORMULAS if not name.startswith("epilogue") or name == "epilogue.gelu_aux_bias"]
#: A formula for each number of inputs and of outputs. A formula is one function, which all algorithms call with
#: elements in the compute dtype. Tests of vector kernels look at the code of each formula. The loads, stores and
#: offsets that the other algorithms add depend on the number of operands and on the dtype, not on the formula.
BY_OPERANDS = (FORWARD, BACKWARD, "epilogue.gelu", "epilogue.gelu_aux", "epilogue.gelu_aux_bias", "copy")


def dtypes_of(formula):
    return WORDS if formula == "copy" else FLOATS


def pairs(formulas):
    """Each formula with each of its dtypes."""
    return [(formula, dtype) for formula in formulas for dtype in dtypes_of(formula)]


def capabilities_of(dtype):
    return [capability for capability in CAPABILITIES if capability >= TABLE[dtype].oldest_capability]


def check(kernel, capability=H200, spaces=("global",)):
    """What holds for every kernel; its PTX, for more."""
    found = ptx.compiled(kernel, capability)
    assert found.target == "sm_{}{}".format(*capability)
    assert {access.space for access in found.accesses} == set(spaces)
    assert ".local" not in found.text
    assert not re.search(r"\bcall\b", found.text), "a function is not inlined"
    if kernel.reads[0] != "float64":
        assert ".f64" not in found.text
    return found


def check_batches(kernel, found, *batches):
    """Each thread loads all it needs, then stores its results: `batches` are (accesses an operand, width)."""
    runs = found.runs()
    assert [operation for operation, _ in runs] == ["ld", "st"] * (len(runs) // 2)
    got = {(tuple(loads), tuple(stores)) for (_, loads), (_, stores) in zip(runs[::2], runs[1::2], strict=True)}
    wanted = {((nbytes,) * n * len(kernel.reads), (nbytes,) * n * len(kernel.writes)) for n, nbytes in batches}
    assert got == wanted


# ---------------------------------------------------------------- vector


def check_division(kernel, found):
    """Indices are unravelled by unsigned division, of 32 bits where those do: the others cost far more."""
    divisions = set(re.findall(r"\b(?:div|rem)\.[su]\d+\b", found.text))
    # For 10.0 the compiler unrolls the row loop of small kernels, and divides once for its trip count.
    unrolled = ["div.u64"] if ".target sm_100" in found.text else []
    assert divisions <= {"div.u32", "rem.u32", *unrolled, *(["div.u64", "rem.u64"] if kernel.wide else [])}


def check_vector(kernel, capability):
    found = check(kernel, capability)
    check_division(kernel, found)
    element = (1, TABLE[kernel.reads[0]].itemsize)
    check_batches(kernel, found, (kernel.lanes // kernel.width, VECTOR_BYTES), (1, VECTOR_BYTES), element)


each_capability = pytest.mark.parametrize(
    "formula, dtype, capability",
    [
        (*pair, capability)
        for pair in pairs(FORMULAS)
        for capability in capabilities_of(pair[1])
        if capability == H200 or pair[0] in EVERYWHERE
    ],
    ids=str,
)


@each_capability
@pytest.mark.sampled(4)
def test_vector_moves_16_bytes_at_a_time(formula, dtype, capability):
    check_vector(ptx.spec("vector", formula, dtype), capability)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rank", [2, MAX_RANK - 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_vector_over_more_dimensions(dtype, rank, wide):
    check_vector(ptx.spec("vector", BACKWARD, dtype, rank, wide), H200)


@each_capability
@pytest.mark.sampled(4)
def test_vector_assembles_to_few_registers_and_spills_none(formula, dtype, capability):
    if ptx.ptxas() is None:
        skip("ptxas")
    registers, spilled = ptx.compiled(ptx.spec("vector", formula, dtype), capability).usage(capability)
    assert registers <= 128
    assert spilled == 0


def test_formulas_of_all_numbers_of_operands_are_tested():
    def operands(formula):
        spec = ptx.spec("scalar", formula, dtypes_of(formula)[0])
        return len(spec.reads), len(spec.writes)

    assert {*map(operands, BY_OPERANDS)} == {*map(operands, FORMULAS)}


# ---------------------------------------------------------------- the others


@pytest.mark.parametrize("formula, dtype", pairs(BY_OPERANDS))
@pytest.mark.sampled(4)
def test_scalar(formula, dtype):
    kernel = ptx.spec("scalar", formula, dtype)
    check_batches(kernel, check(kernel), (1, TABLE[dtype].itemsize))


@pytest.mark.parametrize("formula, dtype", pairs(BY_OPERANDS))
@pytest.mark.sampled(4)
def test_uneven_has_all_its_loads_under_way(formula, dtype):
    """Those of a piece, of what is left of a row, and of what rows share."""
    kernel = ptx.spec("uneven", formula, dtype)
    found, size = check(kernel), TABLE[dtype].itemsize
    inputs, runs = len(kernel.reads), kernel.lanes // kernel.width
    # The last run of small elements ends in the word behind it.
    piece = [4] * ((runs + 1) * inputs) if kernel.width > 1 else [size] * (runs * inputs)
    loads = {tuple(widths) for operation, widths in found.runs() if operation == "ld"}
    assert loads == {tuple(piece), (size,) * (kernel.lanes // 2 * inputs), (size,) * inputs}
    assert max(access.nbytes for access in found.accesses if access.operation == "st") == max(size, 4)
    if kernel.width > 1:
        assert len(re.findall(r"shfl\.sync\.idx", found.text)) == runs * (inputs + len(kernel.writes))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
def test_uneven_loads_what_is_repeated_from_one_address(dtype):
    """Whichever piece of the row it is."""
    found = check(ptx.spec("uneven", "copy", dtype, repeated=(0,)))
    loaded = re.findall(r"ld\.global\S* \S+ \[(%rd\d+)(?:\+(\d+))?\]", re.sub(r"[ \t]+", " ", found.text))
    # The compiler spells the loop over pieces out, twice.
    assert max(Counter(register for register, _ in loaded).values()) == 2
    assert not any(behind for _, behind in loaded)


@pytest.mark.parametrize("formula, dtype", pairs((FORWARD, BACKWARD, "copy")))
@pytest.mark.sampled(2)
def test_uneven_and_tiled_spill_no_registers(formula, dtype):
    """But for a tile's three inputs in eight bytes."""
    if ptx.ptxas() is None:
        skip("ptxas")
    width = 2 if TABLE[dtype].itemsize == 2 else 1
    tiled = ptx.spec("tiled", formula, dtype, 2, transposed=(0,), width=width, lanes=TILE // TILE_STEP * width)
    for kernel, allowed in ((ptx.spec("uneven", formula, dtype), 0), (tiled, 80 * (dtype == "float64"))):
        assert ptx.compiled(kernel).usage(H200)[1] <= allowed


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("rank", range(1, MAX_RANK + 1))
@pytest.mark.parametrize("formula, dtype", [(FORWARD, "bfloat16"), (BACKWARD, "float32"), ("copy", "uint8")])
@pytest.mark.sampled(2)
def test_strided(formula, dtype, rank, wide):
    kernel = ptx.spec("strided", formula, dtype, rank, wide)
    found = check(kernel)
    check_division(kernel, found)
    check_batches(kernel, found, (1, TABLE[dtype].itemsize))


@pytest.mark.parametrize("formula, dtype", pairs(BY_OPERANDS))
@pytest.mark.sampled(4)
def test_strided_with_any_number_of_operands(formula, dtype):
    kernel = ptx.spec("strided", formula, dtype, 2)
    check_batches(kernel, check(kernel), (1, TABLE[dtype].itemsize))


def subsets(inputs):
    """Every choice of inputs that lie transposed, but none."""
    return [transposed for n in range(1, inputs + 1) for transposed in combinations(range(inputs), n)]


@pytest.mark.parametrize(
    "formula, dtype, transposed, width",
    [
        (formula, dtype, transposed, width)
        for formula, dtype in pairs((FORWARD, BACKWARD, "copy"))
        for transposed in subsets(len(ptx.spec("tiled", formula, dtype).reads))
        for width in ((1, 2) if TABLE[dtype].itemsize == 2 else (1,))
    ],
    ids=str,
)
@pytest.mark.sampled(4)
def test_tiled_goes_through_shared_memory(formula, dtype, transposed, width):
    """A whole tile: all is loaded, what is transposed goes into the tile and out of it, and results are stored."""
    count = TILE // TILE_STEP
    kernel = ptx.spec("tiled", formula, dtype, transposed=transposed, width=width, lanes=count * width)
    found = check(kernel, spaces=("global", "shared"))
    size = TABLE[dtype].itemsize
    assert {access.nbytes for access in found.accesses} == {size, width * size}
    # Elements of a tile at an edge are taken one by one, in groups that are shorter.
    groups = [
        (*kind, len(list(group)))
        for kind, group in groupby(found.accesses, key=lambda access: (access.operation, access.space, access.nbytes))
    ]
    whole = [
        ("ld", "global", width * size, len(kernel.reads) * count),
        ("st", "shared", width * size, len(transposed) * count),
        ("ld", "shared", width * size, len(transposed) * count),
        ("st", "global", width * size, len(kernel.writes) * count),
    ]
    assert any(groups[k : k + 4] == whole for k in range(len(groups)))
    assert found.text.count("bar.sync") == 2


# ---------------------------------------------------------------- masks of bits, and sums

#: Algorithm -> how many inputs, and the outputs' dtype where it is another.
OTHERS = {"pack_bits": (1, "uint8"), "select_bits": (2, ""), "reduce_rows": (1, "")}
each_other = pytest.mark.parametrize("algorithm", OTHERS)


def other(algorithm, dtype, wide, nbytes, rank=1):
    inputs, out_dtype = OTHERS[algorithm]
    reads = (dtype, "uint8")[:inputs]
    writes, width = (out_dtype or dtype,), nbytes // TABLE[dtype].itemsize
    formula = SUM if algorithm == "reduce_rows" else None
    module = f"kernels/elementwise/{'bias_grad' if algorithm == 'reduce_rows' else 'sign_masks'}"
    compute = compute_dtype(reads[:1], ())
    return KernelSpec(algorithm, formula, reads, writes, rank, wide, width, compute=compute, module=module)


def check_other(kernel, capability=H200):
    """Numbers are loaded in the width asked for, as many before the first is used as there shall be."""
    found = check(kernel, capability, ("global", "shared") if kernel.algorithm == "reduce_rows" else ("global",))
    size, nbytes = TABLE[kernel.reads[0]].itemsize, kernel.access_bytes
    (_, loads), (_, stores), *_ = found.runs()
    if kernel.algorithm == "pack_bits":
        # The whole byte's in a few accesses, and the columns of the last byte of a row one by one.
        assert loads.count(nbytes) >= 8 * size // nbytes
        assert set(loads) == {nbytes, size} and set(stores) == {1}
    elif kernel.algorithm == "select_bits":
        # Where arrays are not aligned it is columns one by one, too.
        loads, stores = ([a.nbytes for a in found.accesses if a.operation == what] for what in ("ld", "st"))
        assert set(loads) == {1, nbytes, size} and set(stores) == {nbytes, size}
        assert nbytes == size or loads.count(nbytes) == stores.count(nbytes)
    else:
        assert set(loads) == {nbytes, size} and loads.count(nbytes) > 8
        written = [access.nbytes for access in found.accesses if access[:2] == ("st", "global")]
        assert written == [size] * (nbytes // size)


@each_other
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(
    "dtype, capability", [(dtype, capability) for dtype in FLOATS for capability in capabilities_of(dtype)], ids=str
)
def test_masks_and_sums(algorithm, dtype, capability, wide):
    check_other(other(algorithm, dtype, wide, VECTOR_BYTES), capability)


@each_other
@pytest.mark.parametrize(
    "dtype, nbytes", [(dtype, n) for dtype in FLOATS for n in (2, 4, 8) if n >= TABLE[dtype].itemsize]
)
def test_masks_and_sums_in_the_width_asked_for(algorithm, dtype, nbytes):
    check_other(other(algorithm, dtype, False, nbytes, rank=2))


@each_other
@pytest.mark.parametrize("dtype", FLOATS)
def test_masks_and_sums_assemble_to_few_registers_and_spill_none(algorithm, dtype):
    if ptx.ptxas() is None:
        skip("ptxas")
    registers, spilled = ptx.compiled(other(algorithm, dtype, False, VECTOR_BYTES)).usage(H200)
    assert registers <= 64
    assert spilled == 0


# ---------------------------------------------------------------- compiling


def test_compute_capabilities_do_not_get_in_each_others_way():
    """Numba caches device functions: a kernel must not depend on what was compiled before it."""
    kernel = ptx.spec("vector", BACKWARD, "float16")
    compile_anew = ptx.compiled.__wrapped__
    first = {capability: compile_anew(kernel, capability) for capability in CAPABILITIES}
    for capability in reversed(CAPABILITIES):
        again = compile_anew(kernel, capability)
        assert again.target == "sm_{}{}".format(*capability)
        assert again.text == first[capability].text


@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
@pytest.mark.parametrize(
    "algorithm, formula, dtype, options",
    [
        ("vector", BACKWARD, "float16", {}),
        ("uneven", FORWARD, "float16", {}),
        ("tiled", BACKWARD, "float64", {"transposed": (1, 2)}),
        ("strided", "copy", "uint16", {"rank": 3, "wide": True}),
    ],
)
def test_machine_code_is_made_without_a_gpu(algorithm, formula, dtype, options, capability):
    entry, cubin = ptx.cubin(ptx.spec(algorithm, formula, dtype, **options), capability)
    assert cubin.startswith(b"\x7fELF")
    assert entry.encode() in cubin


#: A kernel that calls a function of 150 numbers under way at once.
_CALLING = """
.version 8.0
.target sm_90
.address_size 64
.weak .func (.param .f32 result) gather(.param .u64 from) {{
    .reg .u64 %p; .reg .f32 %r<151>;
    ld.param.u64 %p, [from];
    {loads}
    bar.sync 0;
    mov.f32 %r150, 0f00000000;
    {sums}
    st.param.f32 [result], %r150;
    ret;
}}
.visible .entry kernel(.param .u64 x) .maxntid 128, 1, 1 .minnctapersm 8 {{
    .reg .u64 %x; .reg .f32 %y;
    ld.param.u64 %x, [x];
    {{
        .param .u64 from; .param .f32 result;
        st.param.u64 [from], %x;
        call.uni (result), gather, (from);
        ld.param.f32 %y, [result];
    }}
    st.global.f32 [%x], %y;
    ret;
}}
""".format(
    loads="\n".join(f"ld.volatile.global.f32 %r{k}, [%p+{4 * k}];" for k in range(150)),
    sums="\n".join(f"fma.rn.f32 %r150, %r150, %r150, %r{k};" for k in reversed(range(150))),
)


def test_functions_that_stay_functions_keep_to_the_kernels_registers(monkeypatch):
    """Of formulas so long that the compiler does not write them out where they are called."""
    monkeypatch.setattr(launch, "ptx_of", lambda spec, capability: (_CALLING, "kernel"))
    assert launch.compile_cubin(ptx.spec("vector", FORWARD, "float32"), H200)[1].startswith(b"\x7fELF")
    monkeypatch.setattr(launch, "most_registers", lambda spec, text: None)
    with pytest.raises(Exception, match="regcount"):
        launch.compile_cubin(ptx.spec("vector", FORWARD, "float32"), H200)
