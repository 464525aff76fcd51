"""numbacc's own kernels in the compiled simulator: equal to Numba's simulator, and to NumPy in float64.

`CASES` of `own_cases` are the kernels that run there. `INTERPRETED` are those that do not.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_launch import three
from llvmlite import ir
from numba import cuda, types
from own_cases import CASES
from paths import ROOT, TESTS
from skips import skip_if

import numbacc
from numbacc.base.dispatch import simulated
from numbacc.errors import UnsupportedError
from numbacc.functions.exponentials import silu
from numbacc.simulator.compiled.kernel import Kernel
from numbacc.simulator.compiled.ptx import instruction
from numbacc.simulator.compiled.versions import split

pytestmark = skip_if(simulated(), "not simulated")

if not simulated():
    from numba.cuda.extending import intrinsic

    from numbacc.kernels.primitives.specialize import specialize

HERE = Path(__file__).parent
FAST = [name for name, case in CASES.items() if not case.is_slow]
SLOW = [name for name, case in CASES.items() if case.is_slow]

#: Kernels that the compiled simulator does not run, and the instruction that it cannot translate.
INTERPRETED = {
    "rows that the blocks of a cluster share": "mapa.u64 $0, $1, $2;",
    "rows one after the other that the blocks of a cluster share": "mbarrier.init.shared::cta.b64 [$0], 1;",
    "copies ahead to shared memory": "cp.async.cg.shared.global [$0], [$1], 16;",
}


@pytest.mark.parametrize("text", INTERPRETED.values(), ids=INTERPRETED)
def test_kernels_that_need_the_interpreter(text):
    with pytest.raises(UnsupportedError, match="NUMBA_ENABLE_CUDASIM=1"):
        instruction(text)


def results(names, folder, **environment):
    """Return the results of cases in a process, by name."""
    file = folder / "found.npz"
    command = [sys.executable, str(HERE / "own_cases.py"), str(file), *names]
    root = HERE.parents[1]
    places = os.pathsep.join([str(root), str(HERE), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        command, env={**os.environ, "PYTHONPATH": places, **environment}, check=True, capture_output=True, text=True
    )
    with np.load(file) as found:
        return {name: found[name] for name in names}


def accurate(found, names):
    """Compare results with NumPy's in float64."""
    for name in names:
        case, found_here = CASES[name], found[name]
        with np.errstate(over="ignore"):
            wanted = case.wanted(*(x.astype(complex if x.dtype.kind == "c" else np.float64) for x in case.inputs))
        if found_here.dtype.kind == "i":
            wanted = wanted.astype(np.int64).astype(found_here.dtype)  # int8 wraps around
        bound = case.tolerance * np.abs(wanted).max()
        assert np.abs(found_here - wanted).max() <= bound, name
        assert found_here.any(), name


def check(names, folder):
    compiled = results(names, folder, NUMBACC_SIMULATE="1")
    interpreted = results(names, folder, NUMBA_ENABLE_CUDASIM="1", NUMBACC_SIMULATE="0")
    for name in names:
        found, other = compiled[name], interpreted[name]
        assert found.dtype == other.dtype and found.shape == other.shape, name
        if CASES[name].exact:
            assert found.tobytes() == other.tobytes(), name
    accurate(compiled, names)


def test_own_kernels(tmp_path):
    check(FAST, tmp_path)


#: Two groups that take equally long. A process imports Numba once, and compiles once what its kernels share.
GROUPS = {
    "rows and maps": [name for name in SLOW if name.startswith(("rows:", "map:"))],
    "others": [name for name in SLOW if not name.startswith(("rows:", "map:"))],
}


@pytest.mark.slow
@pytest.mark.parametrize("names", GROUPS.values(), ids=GROUPS)
def test_more_own_kernels(names, tmp_path):
    check(names, tmp_path)


@pytest.mark.slow
def test_tests_of_kernels_that_need_large_arrays():
    """Tables and copies of windows: plans choose these kernels for large arrays only, and their tests do directly."""
    files = [TESTS / "elementwise" / "test_tabulated.py", TESTS / "conv" / "test_conv_windows.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", *map(str, files)]
    run = subprocess.run(command, env={**os.environ, "NUMBACC_SIMULATE": "1"}, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-1000:]
    assert " passed" in run.stdout


# ---------------------------------------------------------------- checked accesses


#: Cases that have each kind of access: vectors, single elements, tiles, shared and dynamic memory, atomic operations.
CHECKED = [
    *FAST, "gated: float16", "map: strided", "map: tiled words", "reduce: blocks", "reduce: argmax of words",
    "rows: rms_norm", "rows: in shared memory", "scan: blocks that wait for each other", "gather", "scatter",
    "conv: depthwise", "conv: weights",
]  # fmt: skip


@pytest.mark.slow
def test_checks_find_nothing_wrong_in_own_kernels(tmp_path):
    # Without LLVM's optimizations, which the same kernels without checks have: compiling takes a quarter less time.
    environment = {"NUMBACC_SIMULATE": "1", "CHECKED": "1", "NUMBA_OPT": "0", "NUMBACC_CACHE_DIR": str(tmp_path)}
    accurate(results(CHECKED, tmp_path, **environment), CHECKED)


#: The message of an error -> what changes in a launch of a kernel. Plans choose kernels for aligned arrays.
MISTAKES = {
    "an address that is not a multiple of 16": "arguments = (tuple(a + 4 for a in arguments[0]), *arguments[1:])",
    "reads 16 bytes at byte 18,928 of an allocation of 18,940 bytes": "memory[x] = memory[x][:-4]",
    "writes 16 bytes at byte 9,456 of an allocation of 9,468 bytes": "memory[y] = memory[y][:-4]",
    "before all memory of the launch": "memory.clear()",
    "a race on 16 bytes from byte ": "arguments = (arguments[0], arguments[0][:1], *arguments[2:])",
}


def test_wrong_addresses_of_own_kernels(tmp_path):
    """Mistakes of a launch: each is found, with the kernel's line, the thread and the block."""
    script = f"""
import numbacc
from own_cases import CASES
from numbacc.kernels.primitives import simulated
from numbacc.simulator import own

real = own.run
for message, change in {MISTAKES!r}.items():
    def run(order, *arguments):
        space = dict(arguments=arguments, memory=simulated.memory, x=arguments[0][0], y=arguments[1][0])
        kept = dict(simulated.memory)
        exec(change, space)
        try:
            real(order, *space["arguments"])
        finally:
            simulated.memory.update(kept)
    case = CASES["gated: vector"]
    own.run = run
    try:
        with numbacc.simulate(checked=True):
            case.call(numbacc.array(case.inputs[0], device="cuda:0"))
    except numbacc.KernelError as error:
        text = str(error)
        assert message in text and "thread (" in text and ".py:" in text and error.line > 0, text
    else:
        raise AssertionError(message)
    print(text)
"""
    places = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": places, "NUMBACC_SIMULATE": "1"},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stderr


def element(context, builder, kind, tile, k):
    data = context.make_array(kind)(context, builder, tile).data
    return builder.gep(data, [k])


@pytest.fixture(scope="module")
def moves():
    """Return the intrinsics `peek(tile, k)` and `poke(tile, k, value)`, which load and store."""

    @intrinsic
    def peek(typing, tile, k):
        def generate(context, builder, signature, args):
            return builder.load(element(context, builder, tile, *args))

        return tile.dtype(tile, k), generate

    @intrinsic
    def poke(typing, tile, k, value):
        def generate(context, builder, signature, args):
            builder.store(args[2], element(context, builder, tile, *args[:2]))
            return context.get_dummy_value()

        return types.void(tile, k, tile.dtype), generate

    return peek, poke


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("stores", "loads", "message"),
    [
        ("poke(tile, k, y)", "cuda.syncthreads()\n    z = peek(tile, 63 - k)", ""),
        ("tile[k] = y", "cuda.syncthreads()\n    z = peek(tile, 63 - k)", ""),
        ("poke(tile, k, y)", "cuda.syncthreads()\n    z = tile[63 - k]", ""),
        ("poke(tile, k, y)", "z = peek(tile, k)", ""),
        ("if k < 63: poke(tile, k, y)", "cuda.syncthreads()\n    z = peek(tile, k)", "before it is written"),
        ("if k < 63: poke(tile, k, y)", "cuda.syncthreads()\n    z = tile[k]", "before it is written"),
        ("poke(tile, k, y)", "z = peek(tile, 63 - k)", "a race on element"),
        ("tile[k] = y", "z = peek(tile, 63 - k)", "a race on element"),
        ("poke(tile, k, y)", "z = tile[63 - k]", "a race on element"),
        ("poke(tile, k // 2, y)", "z = y", "a race on element"),
        ("poke(tile, k + 1, y)", "z = y", "an access writes 8 bytes"),
        ("poke(tile, k, y)", "cuda.syncthreads()\n    z = peek(tile, k - 1)", "an access reads 8 bytes"),
    ],
)
def test_shared_memory_of_intrinsics(stores, loads, message, moves, tmp_path):
    """Intrinsics and index expressions see each other's accesses."""
    peek, poke = moves
    text = f"""
from numba import cuda, float64

def kernel(n):
    tile = cuda.shared.array(64, float64)
    k = cuda.threadIdx.x
    y = n * 1.0
    {stores}
    {loads}
"""
    file = tmp_path / "kernel.py"
    file.write_text(text)
    space = {"peek": peek, "poke": poke}
    exec(compile(text, str(file), "exec"), space)
    made = Kernel(space["kernel"], checked=True, kinds=(types.int64,), memory=dict)
    if not message:
        made.launch(three(2), three(64), 0, (7,))
        return
    with pytest.raises(numbacc.KernelError, match=message) as caught:
        made.launch(three(2), three(64), 0, (7,))
    assert caught.value.thread is not None and text.splitlines()[caught.value.line - 1].strip()


def at(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


@pytest.fixture(scope="module")
def words():
    """Return intrinsics that access memory at an address, of 1 to 16 bytes, some of them atomic operations."""
    wide = ir.VectorType(ir.IntType(32), 4)

    def store(kind):
        def define(typing, address):
            def generate(context, builder, signature, args):
                builder.store(kind(None), at(builder, args[0], kind), align=kind.get_abi_size(context.target_data))
                return context.get_dummy_value()

            return types.void(address), generate

        return intrinsic(define)

    def load(typing, address):
        def generate(context, builder, signature, args):
            return builder.load(at(builder, args[0], ir.IntType(32)))

        return types.int32(address), generate

    counted, published, publish = (
        assembly(text, constraints, kinds)
        for text, constraints, kinds in (
            ("atom.relaxed.gpu.global.add.u32 $0, [$1], 1;", "=r,l", (u32, types.int64)),
            ("ld.relaxed.gpu.global.u64 $0, [$1];", "=l,l", (types.int64, types.int64)),
            ("st.relaxed.gpu.global.u64 [$0], $1;", "l,l", (types.void, types.int64, types.int64)),
        )
    )
    names = {"store1": ir.IntType(8), "store4": ir.IntType(32), "store16": wide}
    made = {name: store(kind) for name, kind in names.items()}
    return {**made, "load4": intrinsic(load), "count": counted, "published": published, "publish": publish}


@pytest.mark.parametrize(
    ("block_0", "block_1", "message"),
    [
        (
            "store16(p)",
            "z = load4(p + 12)",
            r"reads it, and thread .* of block \(0, 0, 0\) writes it in line 6",
        ),
        (
            "z = load4(p + 4)",
            "store1(p + 7)",
            "a race on 1 byte from byte 23 of an allocation of 64 bytes",
        ),
        ("store16(p)\n        store1(p + 16)", "store1(p + 17)\n        z = load4(p + 20)", ""),
        ("store4(p)", "store4(p)", "a race on 4 bytes from byte 16"),
        ("z = count(p)", "z = count(p)", ""),
        ("z = count(p)", "store4(p)", "writes it, and .* of block .* changes it in line 6"),
        ("store4(p)\n        z = count(p + 8)", "if count(p + 8) == 1:\n            z = load4(p)", ""),
        ("store4(p)\n        publish(p + 8, 1)", "if published(p + 8):\n            z = load4(p)", ""),
        ("store4(p)\n        publish(p + 8, 1)", "z = load4(p)", "a race on 4 bytes from byte 16"),
    ],
)
@pytest.mark.sampled(1)
def test_races_of_blocks_at_addresses(block_0, block_1, message, words, tmp_path):
    """Two blocks access bytes of an allocation from byte 16, and an atomic operation may order them."""
    file = tmp_path / "kernel.py"
    file.write_text(
        f"""
from numba import cuda

def kernel(p):
    if cuda.blockIdx.x == 0:
        {block_0}
    else:
        {block_1}
"""
    )
    space = dict(words)
    exec(compile(file.read_text(), str(file), "exec"), space)
    memory = np.zeros(64, np.uint8)
    start = memory.ctypes.data
    made = Kernel(space["kernel"], checked=True, kinds=(types.int64,), memory=lambda: {start: memory})
    if not message:
        made.launch(three(2), three(1), 0, (start + 16,))
        return
    with pytest.raises(numbacc.KernelError, match=message) as caught:
        made.launch(three(2), three(1), 0, (start + 16,))
    assert caught.value.thread == (0, 0, 0) and caught.value.block == (1, 0, 0)


# ---------------------------------------------------------------- kernels of users


def test_scalar_functions_are_device_functions():
    gate = specialize(silu, "float32", False)

    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = gate(x[i]) * x[i]

    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    y = np.full(1000, np.nan, np.float32)
    with numbacc.simulate():
        kernel[8, 128](x, y)
    wide = x.astype(np.float64)
    wanted = wide * wide / (1 + np.exp(-wide))
    assert np.abs(y - wanted).max() <= 1e-6 * np.abs(wanted).max()


def assembly(text, constraints, kinds):
    """Return an intrinsic of one PTX instruction, given the types of the result and of the operands."""
    result, *operands = kinds

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(context.get_value_type(result), [arg.type for arg in args])
        return builder.call(ir.InlineAsm(kind, text, constraints), list(args))

    if len(operands) == 1:
        return intrinsic(lambda typing, x: (result(*operands), generate))
    return intrinsic(lambda typing, x, y: (result(*operands), generate))


f32, f64, u16, u32, i32 = (
    (types.float32, types.float64, types.uint16, types.uint32, types.int32) if not simulated() else range(5)
)
RNG = np.random.default_rng(4)
with np.errstate(over="ignore"):
    HALVES = np.float16([65520.0, *RNG.standard_normal(63), np.inf])[:64]
FLOATS = np.float32([0.0, -0.0, 1.0, -2.5, 65504.0, 65520.0, 1e-8, 3e-5, np.inf, -np.inf, *RNG.standard_normal(54)])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "constraints", "kinds", "given", "wanted"),
    [
        ("cvt.rn.f16.f32 $0, $1;", "=h,f", (u16, f32), (FLOATS,), lambda x: x.astype(np.float16).view(np.uint16)),
        (
            "cvt.f32.f16 $0, $1;", "=f,h", (f32, u16), (HALVES.view(np.uint16),),
            lambda x: x.view(np.float16).astype(np.float32),
        ),
        (
            "cvt.rn.f16x2.f32 $0, $2, $1;", "=r,f,f", (u32, f32, f32), (FLOATS, FLOATS[::-1]),
            lambda x, y: np.stack([x, y], 1).astype(np.float16).view(np.uint32)[:, 0],
        ),
        (
            "cvt.rzi.s32.f32 $0, $1;", "=r,f", (i32, f32), (FLOATS * np.float32(1e6),),
            lambda x: np.clip(np.trunc(x.astype(np.float64)), -(2.0**31), 2.0**31 - 1).astype(np.int32),
        ),
        (
            "cvt.rz.f32.f64 $0, $1;", "=f,d", (f32, f64), (FLOATS * np.float64(1 / 3),),
            lambda x: np.where(
                np.abs(x.astype(np.float32).astype(np.float64)) > np.abs(x),
                np.nextafter(x.astype(np.float32), np.float32(0)), x.astype(np.float32),
            ),
        ),
        (
            "prmt.b32 $0, $1, $1, 0x1032;", "=r,r", (u32, u32), (RNG.integers(0, 2**32, 64, np.uint32),),
            lambda x: (x >> 16) | (x << 16),
        ),
        (
            "bfind.shiftamt.u32 $0, $1;", "=r,r", (u32, u32), (np.uint32([0, 1, 2, 255, 2**31]),),
            lambda x: np.uint32([2**32 - 1, 31, 30, 24, 0]),
        ),
        (
            "min.NaN.f16x2 $0, $1, $2;", "=r,r,r", (u32, u32, u32),
            (HALVES.view(np.uint32), np.ascontiguousarray(HALVES[::-1]).view(np.uint32)),
            lambda x, y: np.minimum(x.view(np.float16), y.view(np.float16)).view(np.uint32),
        ),
    ],
)  # fmt: skip
def test_inline_ptx(text, constraints, kinds, given, wanted):
    made, several = assembly(text, constraints, kinds), len(given) > 1

    @cuda.jit
    def kernel(out, x, y):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = made(x[i])

    @cuda.jit
    def kernel_of_two(out, x, y):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = made(x[i], y[i])

    x, y = (np.ascontiguousarray(given[k]) for k in (0, -1))
    out = np.full(x.size, 7, np.dtype(str(kinds[0])))
    Kernel(kernel_of_two if several else kernel).launch(three(1), three(x.size), 0, (out, x, y))
    with np.errstate(over="ignore"):
        expected = wanted(*given)
    assert out.tobytes() == expected.astype(out.dtype).tobytes()


def test_ptx_without_a_form_on_a_cpu():
    made = assembly("bar.sync 0;", "=r,r", (u32, u32))

    @cuda.jit
    def kernel(out):
        out[0] = made(out[1])

    with pytest.raises(UnsupportedError, match=r"bar\.sync 0;.*NUMBA_ENABLE_CUDASIM=1"):
        Kernel(kernel).launch(three(1), three(1), 0, (np.zeros(2, np.uint32),))


# ---------------------------------------------------------------- what the simulator learned for them


def test_a_variable_of_two_types():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        if x[i] > 0:
            pair = (x[i], x[i] + 1)
            y[i] = pair[0] + pair[1]
        else:
            pair = (x[i], x[i], x[i])
            y[i] = pair[0] + pair[1] + pair[2]
        cuda.syncthreads()
        pair = y[i]
        y[i] = pair + 1

    x = np.arange(-3.0, 5.0)
    y = np.full(8, np.nan)
    Kernel(kernel).launch(three(1), three(8), 0, (x, y))
    np.testing.assert_array_equal(y, np.where(x > 0, 2 * x + 1, 3 * x) + 1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a = 1\nb = a\na = 2.0\nc = a", 2),
        ("if c:\n a = 1\n b = a\nelse:\n a = 2\n b = a", 2),
        ("a = 1\nif c:\n a = 2\nb = a", 1),
        ("a = 1\nif c:\n a = 2\n b = a\na = 3\nb = a", 3),
        ("for i in c:\n if i:\n  a = 1\n b = a", 1),
        ("for i in c:\n a = 1\n b = a\n a = 2\n b = a", 2),
        ("while c:\n a = 1\n if c: break\n a = 2\nb = a", 1),
        ("a = 1\nwhile True:\n a = 2\n break\nb = a", 2),
        ("a = 1\nfor i in c:\n if i: continue\n a = 2\n b = a\n a = 3\nb = a", 2),
        ("a = 1\nfor a in c:\n b = a\na = 2\nb = a", 3),
        ("a = 1\nfor i in c:\n a += 1\na = 2\na += a", 2),
        ("if c:\n a = 1\n return\nelse:\n a = 2\nb = a", 2),
        ("for i in c:\n b = a\n a = 2\n b = a\n a = 3", 2),
    ],
)
def test_versions_of_a_variable(text, names):
    made, _ = split(ast.parse(text).body, {"b", "c", "i"})
    found = {n.id for s in made for n in ast.walk(s) if isinstance(n, ast.Name)} - {"b", "c", "i"}
    assert len(found) == names


def test_shuffles_of_tuples():
    @cuda.jit
    def kernel(x, y):
        i = cuda.grid(1)
        mine = ((x[i], x[i] * 2), i)
        other = cuda.shfl_xor_sync(0xFFFFFFFF, mine, 1)
        y[i] = other[0][1] + other[1]

    x = np.arange(32.0)
    y = np.full(32, np.nan)
    Kernel(kernel).launch(three(1), three(32), 0, (x, y))
    other = np.arange(32) ^ 1
    np.testing.assert_array_equal(y, 2 * x[other] + other)


def test_functions_as_arguments_of_intrinsics():
    @cuda.jit(device=True)
    def twice(a):
        return 2 * a

    @intrinsic
    def applied(typing, function, number):
        call = function.get_call_type(typing, (number,), {})

        def generate(context, builder, signature, args):
            return context.get_function(function, call)(builder, [args[1]])

        return call.return_type(function, number), generate

    @cuda.jit
    def kernel(x):
        i = cuda.grid(1)
        x[i] = applied(twice, x[i])

    x = np.arange(8.0)
    Kernel(kernel).launch(three(1), three(8), 0, (x,))
    np.testing.assert_array_equal(x, 2 * np.arange(8.0))
