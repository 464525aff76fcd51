"""The flash attention kernels, with wgmma and with mma.sync: in the simulator, on a GPU, and their machine code."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
import warnings

import ml_dtypes
import numpy as np
import ptx
import pytest
from conftest import RUNS_KERNELS
from skips import skip, skip_if

import numbacc
from numbacc.base import _numba
from numbacc.base.dispatch import has_gpu, runtime, simulated, tensor_launcher_class
from numbacc.functions.formula import Formula
from numbacc.kernels.attention import flash_launch as flash
from numbacc.kernels.attention.flash_spec import WARP_TILES, warp_tiles
from numbacc.runtime import launch

pytestmark = RUNS_KERNELS

BF16, F16 = ml_dtypes.bfloat16, np.float16


#: The kernels: with wgmma, or which of the tiles of those with mma.sync.
KERNELS = {"wgmma": None, "mma.sync": 0, "mma.sync, 99 KiB": 1}


@pytest.fixture
def some_device():
    """A place where kernels run."""
    if not has_gpu():
        skip("device")


@pytest.fixture(params=KERNELS)
def kernels(request, some_device):
    """Kernels that run here."""
    if not simulated() and request.param == "wgmma" and runtime().capability(0) != (9, 0):
        skip("clusters")
    return request.param


def tiles_of(kernels, direction, dim):
    """The tiles of kernels with mma.sync, or None."""
    number = KERNELS[kernels]
    return None if number is None else WARP_TILES[direction, dim][number]


# ---------------------------------------------------------------- score functions and masks


def cap(s, b, h, q, k):
    return (2 * math.tanh(s / 2),)


def cap_gradient(g, s, b, h, q, k):
    t = math.tanh(s / 2)
    return (g * (1 - t * t),)


def alibi(s, slope, b, h, q, k):
    return (s + slope * (k - q),)


def alibi_gradient(g, s, slope, b, h, q, k):
    return g, g * (k - q)


def relative(s, bias, slope, b, h, q, k):
    return (s * slope + bias,)


def relative_gradient(g, s, bias, slope, b, h, q, k):
    return g * slope, g, g * s


def same_document(first, second, b, h, q, k):
    return (first == second,)


def unchanged(s, b, h, q, k):
    return (s,)


def unchanged_gradient(g, s, b, h, q, k):
    return (g,)


SLOPES = {cap: cap_gradient, alibi: alibi_gradient, relative: relative_gradient, unchanged: unchanged_gradient}
#: Score functions in float64.
NUMPY = {
    None: lambda s, q, k: s,
    unchanged: lambda s, q, k: s,
    cap: lambda s, q, k: 2 * np.tanh(s / 2),
    alibi: lambda s, q, k, slope: s + slope * (k - q),
    relative: lambda s, q, k, bias, slope: s * slope + bias,
}


def normal(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def documents(n, axis, seed):
    values = np.sort(np.random.default_rng(seed).integers(0, 3, n)).astype(np.int32)
    return values.reshape([-1 if d == axis else 1 for d in range(4)])


def block_map(visible, size=128):
    """Lists of blocks of 128 rows and `size` columns of a mask: (counts, lists)."""
    high, wide = -(-len(visible) // 128), -(-visible.shape[1] // size)
    counts, lists = np.zeros((1, 1, high), np.int32), np.ones((1, 1, high, wide), np.int32)
    for i in range(high):
        blocks = [visible[128 * i : 128 * i + 128, size * j : size * j + size] for j in range(wide)]
        found = [2 * j + (not each.all()) for j, each in enumerate(blocks) if each.any()]
        counts[0, 0, i], lists[0, 0, i, : len(found)] = len(found), found
    return counts, lists


class Case:
    """A problem with its arrays, and the exact results."""

    def __init__(
        self, shape, dtype=BF16, *, score=None, operands=(), mask=None, mask_operands=(), causal=False, shift=0,
        right=0, lengths=None, has_map=False, low=0.0, is_real=True,
    ):  # fmt: skip
        batch, heads, kv_heads, queries, keys, dim = self.shape = shape
        self.dtype, self.score, self.mask, self.operands = dtype, score, mask, [*operands, *mask_operands]
        self.causal, self.shift, self.right, self.lengths = causal, shift, right, lengths
        self.q = normal((batch, heads, queries, dim), dtype, 1)
        self.k, self.v = normal((batch, kv_heads, keys, dim), dtype, 2), normal((batch, kv_heads, keys, dim), dtype, 3)
        self.skipped, self.is_real = int(low > 0), is_real
        if low:  # all scores are near -low; sums of products are exact in float32
            self.q[...], self.k[...] = np.sign(self.q.astype(float)), np.sign(self.k.astype(float))
            self.q[..., 0], self.k[..., 0] = -math.sqrt(low), math.sqrt(low) * math.sqrt(dim)
        self.dout = normal(self.q.shape, dtype, 4)
        self.scale, self.taken = 1 / math.sqrt(dim), len(operands)
        self._solve()
        self.map = self.map_down = ()
        if has_map:
            self.map, self.map_down = block_map(self.visible[0, 0]), block_map(self.visible[0, 0].T, 64)

    def _solve(self):
        batch, heads, kv_heads, queries, keys, _ = self.shape
        q, k, v = (each.astype(float) for each in (self.q, self.k, self.v))
        k, v = (np.repeat(each, heads // kv_heads, 1) for each in (k, v))
        s = np.einsum("bhqd,bhkd->bhqk", q, k) * self.scale
        b, _, i, j = np.indices(s.shape)
        many_q, many_k = (np.array(each) for each in self.lengths or ([queries] * batch, [keys] * batch))
        visible = (i < many_q[b]) & (j < many_k[b])
        if self.causal:
            visible &= j <= i + self.shift + self.right * (many_k - many_q)[b]
        if self.mask is not None:
            visible = visible & (self.operands[self.taken] == self.operands[self.taken + 1])
        self.s, self.visible, self.positions = s, visible, (i, j)
        self.x = NUMPY[self.score](s, i, j, *[each.astype(float) for each in self.operands[: self.taken]])
        x = np.where(visible, self.x, -np.inf)
        top = x.max(-1, keepdims=True)
        self.top = np.where(np.isfinite(top), top, 0)
        weights = np.exp(x - self.top)
        self.total = weights.sum(-1, keepdims=True)
        self.p = weights / np.where(self.total > 0, self.total, 1)
        self.out = np.einsum("bhqk,bhkd->bhqd", self.p, v)
        self.wide = q, k, v

    def problem(self, first, is_backward=False):
        """The problem whose operands, map and lengths are arrays number `first` and following, and these arrays.

        In the backward pass, gradients of operands come first.
        """
        sums = [np.zeros(each.shape, np.float32) for each in self.operands[: self.taken]] if is_backward else []
        arrays, taken, down = [*sums, *self.operands], len(sums), is_backward
        every = [flash.Elements(first + number, each.dtype.name, steps_of(each)) for number, each in enumerate(arrays)]
        gradients, views = tuple(enumerate(every[:taken])), every[taken:]
        blocks = lengths = None
        found = self.map_down if down else self.map
        if found:
            place = first + len(arrays)
            blocks = flash.BlockMap(flash.AddressOf(place), flash.AddressOf(place + 1), (0, 0), found[1].shape[-1])
            arrays += found
        if self.lengths:
            lengths = first + len(arrays), first + len(arrays) + 1
            arrays += [np.array(each, np.int32) for each in self.lengths]
        made = flash.FlashProblem(
            np.dtype(self.dtype).name, self.shape, self.scale, formula(self.score), formula(SLOPES.get(self.score)),
            formula(self.mask), self.causal, self.shift, self.right, tuple(views), gradients, blocks, lengths,
            None, self.is_real,
        )  # fmt: skip
        return made, arrays


def steps_of(array):
    return tuple(int(step) if n > 1 else 0 for step, n in zip(array.strides, array.shape, strict=True))


def formula(function):
    return None if function is None else Formula(function.__name__, function)


def views(arrays):
    return [flash.Matrices(number, each.strides[:3]) for number, each in enumerate(arrays)]


def poisoned(shape, dtype=np.float32):
    return np.full((*shape, np.dtype(dtype).itemsize), 0xFF, np.uint8).view(dtype)[..., 0]


def run(order, arrays, written):
    launcher = tensor_launcher_class()(order)
    reads = [each for number, each in enumerate(arrays) if number not in written]
    with runtime().using(0, 0, reads, [arrays[number] for number in written]):
        launcher.check(launcher.launch(0, 0, tuple(each._address for each in arrays), ()))
    return [numbacc.asnumpy(arrays[number]) for number in written]


def forward(case, tiles=None):
    batch, heads, _, queries, *_ = case.shape
    problem, more = case.problem(5)
    matrices = [case.q, case.k, case.v, poisoned(case.q.shape, case.dtype)]
    stats = poisoned((2, batch, heads, queries) if case.score else (batch, heads, queries))
    arrays = [numbacc.asarray(each) for each in (*matrices, stats, *more)]
    return run(flash.forward_order(problem, *views(matrices), 4, 0, tiles), arrays, (3, 4))


def close(found, exact, dtype, factor=1):
    error = np.abs(found.astype(float) - exact).max()
    assert error <= factor * (8e-3 if dtype is BF16 else 1.5e-3) * np.abs(exact).max(), (error, np.abs(exact).max())


def backward(case, out, stats, tiles=None):
    """dq, dk, dv and the gradients of operands."""
    batch, heads, _, queries, _, dim = case.shape
    problem, more = case.problem(12, True)
    matrices = [case.q, case.k, case.v, case.dout, out]
    matrices += [poisoned(each.shape, case.dtype) for each in (case.q, case.k, case.v)]
    prepared = poisoned((batch, heads, -(-queries // 128), 2, 3, 64))
    whole = [*matrices, stats, prepared, poisoned((batch, heads, -(-queries // 128) * 128, dim)), np.zeros(1), *more]
    arrays = [numbacc.asarray(each) for each in whole]
    q, k, v, dout, out, dq, dk, dv = views(matrices)
    run(flash.prepare_order(problem, out, dout, 8, 9, 10, 0), arrays, (9, 10))
    gradients = range(12, 12 + len(problem.gradients))
    run(flash.backward_order(problem, q, k, v, dout, dk, dv, 9, 10, 0, tiles), arrays, (6, 7, 10, *gradients))
    run(flash.finish_order(problem, 10, dq, 0, tiles), arrays, (5,))
    return [numbacc.asnumpy(arrays[number]) for number in (5, 6, 7, *gradients)]


def exact_gradients(case, out):
    q, k, v = case.wide
    batch, _, kv_heads, *_ = case.shape
    dout = case.dout.astype(float)
    dp = np.einsum("bhqd,bhkd->bhqk", dout, v)
    # The kernel uses rowsum(dO * O) of the rounded O, as all flash attention does.
    dx = case.p * (dp - (dout * out.astype(float)).sum(-1, keepdims=True))
    i, j = case.positions
    operands = [each.astype(float) for each in case.operands[: case.taken]]
    ds, more = dx, []
    if case.score is cap:
        ds = dx * (1 - np.tanh(case.s / 2) ** 2)
    elif case.score is alibi:
        more = [dx * (j - i)]
    elif case.score is relative:
        ds, more = dx * operands[1], [dx, dx * case.s]
    together = lambda x: x.reshape(batch, kv_heads, -1, *x.shape[2:]).sum(2)  # noqa: E731
    yield case.scale * np.einsum("bhqk,bhkd->bhqd", ds, k)
    yield together(case.scale * np.einsum("bhqk,bhqd->bhkd", ds, q))
    yield together(np.einsum("bhqk,bhqd->bhkd", case.p, dout))
    for operand, each in zip(operands, more, strict=True):
        yield each.sum(tuple(d for d in range(4) if operand.shape[d] == 1), keepdims=True)


CASES = {
    "soft-cap": lambda: Case((1, 2, 2, 70, 70, 64), F16, score=cap),
    "full": lambda: Case((1, 4, 2, 70, 130, 64)),
    "causal": lambda: Case((1, 1, 1, 200, 200, 128), causal=True),
    "alibi of whole positions": lambda: Case(
        (1, 2, 1, 70, 140, 64), score=alibi, operands=[normal((1, 2, 1, 1))], is_real=False
    ),
    "relative": lambda: Case(
        (2, 1, 1, 70, 70, 64), score=relative, operands=[normal((1, 1, 70, 70), BF16), normal((2, 1, 1, 70), F16)]
    ),
    "wide": lambda: Case((1, 2, 1, 70, 130, 256), causal=True, score=alibi, operands=[normal((1, 2, 1, 1))]),
    "wide documents": lambda: Case(
        (1, 1, 1, 150, 200, 256), F16, mask=same_document, has_map=True,
        mask_operands=[documents(150, 2, 1), documents(200, 3, 2)],
    ),
    "rows without keys": lambda: Case((1, 1, 1, 130, 200, 64), causal=True, shift=-40),
    "alibi": lambda: Case((1, 2, 1, 70, 200, 64), score=alibi, operands=[normal((1, 2, 1, 1))]),
    "documents": lambda: Case(
        (1, 1, 1, 150, 300, 64), mask=same_document, mask_operands=[documents(150, 2, 1), documents(300, 3, 2)],
        has_map=True,
    ),
    "lengths": lambda: Case((2, 1, 1, 70, 150, 64), causal=True, right=1, lengths=([70, 30], [100, 150])),
    "very negative": lambda: Case((1, 1, 1, 64, 128, 64), F16, score=unchanged, low=2.0**20),
}  # fmt: skip


def has_other_tiles(case):
    """True for one of the two tiles of the kernels with mma.sync: the simulator runs each case on the other."""
    number = KERNELS[case.kernels]
    return number is not None and number != [*CASES].index(case.name) % 2


@pytest.mark.sampled(98, simulated=2)
@pytest.mark.too_long(lambda case: has_other_tiles(case))
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(kernels, name):
    case = CASES[name]()
    dim = case.shape[-1]
    out, stats = forward(case, tiles_of(kernels, "forward", dim))
    close(out, case.out, case.dtype)
    top, total = case.top[..., 0], case.total[..., 0]
    seen = total > 0
    wanted = (top, np.log(np.where(seen, total, 1))) if case.score else (top + np.log(np.where(seen, total, 1)),)
    for found, exact in zip(stats if case.score else (stats,), wanted, strict=True):
        assert (np.abs(found - exact)[seen] <= 2e-6 * np.maximum(np.abs(exact[seen]), 5)).all()
    first = stats[0] if case.score else stats
    assert np.isneginf(first[~seen]).all() and (not case.score or (stats[1][~seen] == 0).all())
    if kernels != "wgmma" and ("backward", dim) not in WARP_TILES:
        return
    found_gradients = backward(case, out, stats, tiles_of(kernels, "backward", dim))
    for found, exact in zip(found_gradients, exact_gradients(case, out), strict=True):
        # The first column of very large keys has what rounding leaves of the sum of a row's gradients, which is 0.
        close(found[..., case.skipped :], exact[..., case.skipped :], case.dtype, 2)


# ---------------------------------------------------------------- lists of blocks


def expected_map(visible, size):
    """Counts, lists and bits of blocks of 128 rows and `size` columns."""
    _, _, rows, columns = visible.shape
    padded = np.pad(visible, [(0, 0), (0, 0), (0, -rows % 128), (0, -columns % 128)])
    high, wide = padded.shape[2] // 128, padded.shape[3] // size
    thread, half, k = np.ogrid[:256, : size // 64, :32]
    row = 64 * (thread >> 7) + 16 * (thread >> 5 & 3) + (thread & 31) // 4 + k % 4 // 2 * 8
    column = 64 * half + k // 4 * 8 + k % 2 + 2 * (thread & 3)
    outer = padded.shape[:2]
    counts, lists = np.zeros((*outer, high), np.int32), np.ones((*outer, high, wide), np.int32)
    bits = np.zeros((*outer, high, wide, 256, size // 64), np.uint32)
    for b, h, i in np.ndindex(*outer, high):
        for j in range(wide):
            block = padded[b, h, 128 * i : 128 * i + 128, size * j : size * j + size]
            bits[b, h, i, j] = (block[row, column].astype(np.uint64) << k.astype(np.uint64)).sum(-1)
            if block.any():
                lists[b, h, i, counts[b, h, i]] = 2 * j + (not block.all())
                counts[b, h, i] += 1
    return counts, lists, bits.view(np.int32).reshape(*outer, high, -1)


def near(b, h, q, k):
    return ((q - k < 70) & (k - q < 90 * (h + 1)),)


@pytest.mark.sampled(98, simulated=1)
@pytest.mark.parametrize("is_backward", [False, True])
@pytest.mark.parametrize(
    ("what", "queries", "keys"), [("all", 150, 304), ("all", 256, 256), ("keys", 140, 200), ("mask", 200, 150)]
)
def test_lists_of_blocks(some_device, what, queries, keys, is_backward):
    """An array of truth values and a mask function give the same lists and bits as NumPy."""
    scores = 1, 2, queries, keys
    given = np.random.default_rng(0).random((1, 1, 1, keys) if what == "keys" else scores) < 0.7
    if what == "mask":
        _, h, q, k = np.indices(scores)
        (given,) = near(0, h, q, k)
    elif what == "all":  # empty and full blocks, too
        given[:, 0, :128, :128], given[:, 0, 128:, :128], given[:, 1, :64, 128:] = False, True, False
    dependent = False, given.shape[1] > 1
    shape = flash.map_shape(scores, dependent, is_backward)
    words = (*shape[:3], flash.map_words(shape, is_backward))
    kept = [given, np.zeros(shape, np.int32), np.zeros(shape[:3], np.int32), np.ones(shape, np.int32)]
    arrays = [numbacc.asarray(each) for each in (*kept, np.zeros(words, np.int32))]
    cells = None if what == "mask" else flash.Elements(0, "uint8", steps_of(given))
    blocks = flash.block_map(shape, *map(flash.AddressOf, (2, 3, 4)))
    mask = formula(near)
    for order in flash.map_orders(mask, scores, shape, cells, flash.AddressOf(1), blocks, is_backward, 0):
        run(order, arrays, (1, 2, 3, 4))
    visible = np.broadcast_to(given, (1, shape[1], queries, keys))
    exact = expected_map(visible.swapaxes(2, 3) if is_backward else visible, 64 if is_backward else 128)
    counts, lists, bits = (numbacc.asnumpy(each) for each in arrays[2:])
    if is_backward:  # words of a tile of 64 queries
        bits = bits.reshape(exact[2].shape)
    np.testing.assert_array_equal(counts, exact[0])
    for row in np.ndindex(counts.shape):
        np.testing.assert_array_equal(lists[row][: counts[row]], exact[1][row][: counts[row]])
    np.testing.assert_array_equal(bits, exact[2])


# ---------------------------------------------------------------- machine code

COMPILED = skip_if(simulated(), "not simulated")


def code_of(problem, direction, tiles=None, capability=(9, 0)):
    """The instructions of a kernel, without a GPU; None without a disassembler. Slow code is an error."""
    with warnings.catch_warnings(), _numba.pretending(capability):
        warnings.simplefilter("error")
        _, cubin = launch.compile_cubin(flash.spec_of(problem, direction, tiles), capability)
    program = shutil.which("nvdisasm")
    if program is None:
        return None
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([program, "-c", file.name], capture_output=True, text=True, check=True).stdout


def plain(dim, **options):
    return flash.FlashProblem("bfloat16", (1, 1, 1, 128, 128, dim), 0.1, **options)


@COMPILED
@pytest.mark.sampled(1)
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_machine_code_of_forward(dim):
    """Products are not serialized, and no sums are spilled."""
    text = code_of(plain(dim, is_causal=True), "forward")
    if text is None:
        return
    assert len(re.findall(r"\bHGMMA\b", text)) == 2 * (dim // 16 + (8 if dim < 256 else 4))
    assert "USETMAXREG" in text and not re.search(r"\b(STL|LDL)\b", text)
    assert text.count("RZ, !UPT") == 2, "sums of scores are not set to zero before the products"
    assert "UTMALDG" in text and "UTMASTG" in text


@COMPILED
@pytest.mark.parametrize("dim", [64, 128])
def test_machine_code_of_backward(dim):
    """Five products: exponentials and dV stand before the wait for dP, and additions to dQ before that for dK."""
    text = code_of(plain(dim, is_causal=True), "backward")
    if text is None:
        return
    names = re.findall(r"\b(HGMMA|MUFU\.EX2|DEPBAR\.LE gsb0, 0x\d|REDG)\b", text)
    kept = [name for k, name in enumerate(names) if k == 0 or name != names[k - 1]]
    assert names.count("HGMMA") == 2 * (dim // 16) + 8 + (8 if dim == 128 else 4)
    waits = [f"DEPBAR.LE gsb0, 0x{n}" for n in (dim // 64, 1, 1, 0)]
    assert kept == ["HGMMA", waits[0], "MUFU.EX2", "HGMMA", waits[1], "HGMMA", waits[2], "REDG", waits[3]]
    assert not re.search(r"\b(STL|LDL)\b", text)


@COMPILED
def test_machine_code_of_wide_backward():
    """A warpgroup has a product of scores, one of results and dQ. Weights stand before the wait for dP."""
    text = code_of(plain(256, is_causal=True), "backward")
    if text is None:
        return
    names = re.findall(r"\b(HGMMA|MUFU\.EX2|DEPBAR\.LE gsb0, 0x\d|REDG)\b", text)
    kept = [name for k, name in enumerate(names) if k == 0 or name != names[k - 1]]
    assert names.count("HGMMA") == 2 * 256 // 16 + 4 + 4
    assert re.search("HGMMA,MUFU.EX2,DEPBAR.LE gsb0, 0x0", ",".join(kept)), kept
    assert not re.search(r"\b(STL|LDL)\b", text)


@COMPILED
@pytest.mark.slow
def test_machine_code_of_score_functions():
    """Products are not serialized with any score function: that would be a warning, which is an error here."""
    views = tuple(flash.Elements(number, "float32", (0, 4, 4 * number, 4)) for number in range(2))
    options = {"score": formula(relative), "slopes": formula(relative_gradient), "operands": views}
    for direction in ("forward", "backward"):
        text = code_of(plain(128, is_causal=True, gradients=tuple(enumerate(views)), **options), direction)
        assert text is None or "HGMMA" in text


#: Bytes of shared memory that a block may have.
SHARED = {(8, 0): 163, (8, 6): 99, (8, 9): 99, (9, 0): 227, (10, 0): 227, (12, 0): 99}


@COMPILED
@skip_if(ptx.ptxas() is None, "ptxas")
@pytest.mark.parametrize("capability", SHARED)
@pytest.mark.parametrize(("direction", "dim"), [pytest.param(*key, marks=pytest.mark.slow) for key in WARP_TILES])
def test_warps_fit(direction, dim, capability):
    """Blocks fit the registers and the shared memory of every GPU with mma.sync for these dtypes.

    The kernel with the most registers spills the addresses of copies, which it reads again once a tile.
    """
    tiles = warp_tiles(direction, dim, 1024 * SHARED[capability])
    spec = flash.spec_of(plain(dim, is_causal=True), direction, tiles)
    assert spec.shared_bytes <= 1024 * SHARED[capability]
    found = ptx.compiled(spec, capability)
    registers, spilled = found.usage(capability)
    assert spilled <= (40 if registers == 255 and direction == "forward" else 0)
    assert registers * spec.threads * spec.launch_bounds[1] <= 65536
    assert len(re.findall(r"\bmma\.sync\.", found.text)) == products_of(spec)
    assert not re.search(r"wgmma|mbarrier|bulk|stmatrix|\.f64", found.text)


def products_of(spec):
    """The number of products of 16 x 8 x 16 in the code of a warp's tile."""
    tiles, dim = spec.tiles, spec.head_dim
    own = tiles.rows * tiles.columns * dim // (16 * 8 * 16)
    return 2 * own if spec.direction == "forward" else 5 * own


@COMPILED
def test_machine_code_of_warps():
    """Products stand between loads of factors; keys and values of the next tile arrive meanwhile."""
    text = code_of(plain(64), "forward", WARP_TILES["forward", 64][1], (8, 6))
    if text is None:
        return
    assert len(re.findall(r"\bHMMA\.16816\.F32\.BF16\b", text)) == 128
    assert len(re.findall(r"\bLDSM\.16\.MT?88\.4\b", text)) == 40
    assert re.search(r"\bLDGSTS\.E\.BYPASS\.128\b", text) and not re.search(r"\b(STL|LDL)\b", text)
