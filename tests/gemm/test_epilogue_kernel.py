"""The Hopper kernel for products with epilogues: in the simulator, on a GPU that has it, and its machine code."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from gemm_call import BY_COLUMNS
from skips import needed, skip
from threads import run_threads

import numbacc
from numbacc import gated, gemm
from numbacc.base import dtypes
from numbacc.gemm import product, python_products
from numbacc.gemm.grouped_gradients import GroupSumsPlan
from numbacc.gemm.python_epilogue import python_epilogue
from numbacc.kernels.gemm import launch
from numbacc.kernels.gemm.spec import GemmSpec

pytestmark = pytest.mark.usefixtures("poison")


@pytest.fixture
def kernel_place(device_place, monkeypatch):
    """A place where the kernel runs."""
    if device_place.name == "gpu" and not python_products.has_kernel(0):
        skip("clusters")
    if device_place.name not in ("gpu", "simulator"):
        skip("device")
    monkeypatch.setattr(python_products, "simulates_kernel", True)
    monkeypatch.setattr(python_products, "library_is_faster", lambda product, card: False)
    gemm.cache_clear()
    yield device_place
    gemm.cache_clear()


def normal(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtypes.dtype(dtype))


def bent(x, row, column, whole, scalar, number):
    return max(x * column + row, 0.0) * scalar + whole, x - number


def bent_in_numpy(x, row, column, whole, scalar, number):
    return np.maximum(x * column + row, 0) * scalar + whole, x - number


#: (shape, dtype, batches of a and b, whether columns of a and rows of b are contiguous, tile, results' dtypes)
CASES = [
    ((72, 136, 72), "bfloat16", (), (), False, True, (128, 128), ("bfloat16", "float32")),
    ((130, 72, 200), "float16", (), (), False, False, (64, 64), ("float16", "float16")),
    ((200, 72, 600), "bfloat16", (), (), False, True, (64, 64), ("bfloat16", "float32")),
    ((64, 264, 64), "bfloat16", (), (), True, True, (128, 256), ("float32", "float8_e4m3fn")),
    ((24, 72, 64), "bfloat16", (3,), (), False, True, (64, 128), ("bfloat16", "bfloat16")),
    ((40, 80, 64), "bfloat16", (3,), (3,), False, False, (64, 64), ("bfloat16", "float32")),
    ((40, 80, 64), "bfloat16", (), (2,), True, False, (128, 64), ("float8_e5m2", "bfloat16")),
    ((80, 64, 144), "float8_e4m3fn", (), (), False, False, (64, 64), ("bfloat16", "float8_e4m3fn")),
]
ERRORS = {"float32": 1e-5, "bfloat16": 8e-3, "float16": 1e-3, "float8_e4m3fn": 0.07, "float8_e5m2": 0.14}


@pytest.mark.sampled(99, simulated=1)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}")
def test_every_operand_and_result(kernel_place, monkeypatch, case):
    """Ragged sizes, both storage orders, batches that share a matrix or not; alpha and C; guarded results."""
    place = kernel_place
    (m, n, k), name, batch_a, batch_b, a_down, b_down, tile, outs = case
    turns = 1 if tile == (128, 256) or name == "float16" else 2
    pairs = 1 if tile == (64, 128) else 2  # pairs of blocks share B, also where the second has no rows
    monkeypatch.setattr(launch, "TILES", ((*tile, turns, pairs),))
    monkeypatch.setattr(python_products, "library_is_faster", lambda *args: False)
    a, b = normal((*batch_a, m, k), name, 1), normal((*batch_b, k, n), name, 2)
    axes = lambda array: {"order": (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)}  # noqa: E731
    a_there = place.operand(a, **(axes(a) if a_down else {}))
    b_there = place.operand(b, **({} if b_down else axes(b)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    values = normal((n,), "bfloat16", 3), normal((m, 1), "float32", 4), normal(exact.shape, "float16", 5)
    values = (*values, normal((1,), "float32", 6))
    c = normal(exact.shape, "float32", 7)
    results = [place.empty(exact.shape, dtypes.dtype(each)) for each in outs]
    options = {"out": tuple(each.view for each in results), "c": place.put(c)}
    if name.startswith("float8"):
        options |= {"compute": "fast", "scale_a": place.put(np.full(1, 0.5, np.float32))}
        exact = 0.5 * exact
    operands = (*map(place.put, values), 1.5)
    for alpha, beta in ((1.0, 0.0), (-0.5, 2.0)):
        found = gemm.matmul(
            a_there.view, b_there.view, epilogue=bent, operands=operands, alpha=alpha, beta=beta, **options
        )
        wide = [each.astype(np.float64) for each in values]
        for out, each, right in zip(results, found, bent_in_numpy(alpha * exact + beta * c, *wide, 1.5), strict=True):
            error = np.abs(place.get(each).astype(np.float64) - right).max()
            assert error <= ERRORS[each.dtype.name] * np.abs(right).max(), (alpha, each.dtype)
            out.assert_written_only()
    plan = gemm.matmul.plan(a_there.view, b_there.view, epilogue=bent, operands=operands, beta=2.0, **options)
    assert plan.info.algorithm.startswith(f"wgmma, tiles of {tile[0]} x {tile[1]}"), plan.info
    for each in (a_there, b_there):
        each.assert_untouched()


@pytest.mark.sampled(99, simulated=1)
@pytest.mark.parametrize(
    "tile, a_down, b_down, batch",
    [
        ((128, 80, 1), True, True, ()),
        ((64, 64, 1), False, False, (2,)),
        ((64, 136, 1), False, True, ()),
        ((128, 72, 2), False, True, ()),
        ((256, 72, 1), False, True, ()),
        ((256, 80, 1), True, False, ()),
    ],
    ids=str,
)
def test_transposed_tiles(kernel_place, monkeypatch, tile, a_down, b_down, batch):
    """Rows of the result in parts of 64 and a rest; operands become columns. Misaligned results use another tile."""
    place = kernel_place
    tile = (*tile, 1, 1)
    monkeypatch.setattr(launch, "TILES", (tile, (64, 64)))
    for costs in launch.COSTS.values():
        monkeypatch.setitem(costs, tile, (0.0, 0.0, 0.0))
    a = normal((*batch, 88 if a_down else 85, 72), "bfloat16", 1)
    b = normal((*batch, 72, 136), "bfloat16", 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    axes = lambda array, down: {"order": (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)} if down else {}  # noqa: E731
    a_there, b_there = place.operand(a, **axes(a, a_down)), place.operand(b, **axes(b, not b_down))
    rows = normal((136,), "bfloat16", 3), normal((136,), "float16", 4), normal((136,), "float32", 5)
    # An operand with an element for each row becomes one for each column: the rows must then be even.
    last = normal((88, 1) if a_down else (1,), "float32", 6)
    f = lambda x, p, q, r, s: max(x + p, q) * r + s  # noqa: E731
    wide = [each.astype(np.float64) for each in (*rows, last)]
    wanted = np.maximum(exact + wide[0], wide[1]) * wide[2] + wide[3]
    given = {"epilogue": f, "operands": (*map(place.put, rows), place.put(last))}
    for kind, moved in (("bfloat16", False), ("float16", False), ("bfloat16", True)):
        margins = {"margins": ((0, 0),) * (len(batch) + 1) + ((2, 6),)} if moved else {}
        out = place.empty(exact.shape, dtypes.dtype(kind), **margins)
        plan = gemm.matmul.plan(a_there.view, b_there.view, out=out.view, **given)
        turns = ", alternating warpgroups" * (tile[2] > 1)
        begun = "wgmma, tiles of 64 x 64" if moved else f"wgmma, tiles of {tile[0]} x {tile[1]}{turns}, transposed"
        assert plan.info.algorithm.startswith(begun), plan.info
        found = plan(a_there.view, b_there.view, out=out.view, operands=given["operands"])
        error = np.abs(place.get(found).astype(np.float64) - wanted).max()
        assert error <= ERRORS[kind] * np.abs(wanted).max()
        out.assert_written_only()


@pytest.mark.sampled(98, simulated=0)
def test_reductions_and_bytes(kernel_place, monkeypatch):
    """Reductions of rows, and bytes of float8, by pairs of blocks in turns, and by warpgroups with the most sums."""
    place = kernel_place
    a, b = normal((150, 72), "bfloat16", 1), normal((72, 112), "bfloat16", 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    f = lambda x: (x, abs(x), x - 1.0, 0.5 * x)  # noqa: E731
    outs = [
        place.empty((150, n), dtypes.dtype(each))
        for n, each in ((112, "bfloat16"), (1, "float32"), (1, "float32"), (112, "float8_e4m3fn"))
    ]
    given = {"epilogue": f, "reduce": (None, "max", "sum", None), "out": tuple(each.view for each in outs)}
    right = exact, np.abs(exact).max(-1, keepdims=True), (exact - 1).sum(-1, keepdims=True), 0.5 * exact
    columns = place.operand(b, order=(1, 0)).view
    for tile, second in (((64, 128, 2, 2), place.put(b)), ((128, 192, 2), columns)):
        monkeypatch.setattr(launch, "TILES", (tile,))
        found = gemm.matmul(place.put(a), second, **given)
        for out, each, wanted in zip(outs, found, right, strict=True):
            error = np.abs(place.get(each).astype(np.float64) - wanted).max()
            assert error <= ERRORS[each.dtype.name] * np.abs(wanted).max()
            out.assert_written_only()
        info = gemm.matmul.plan(place.put(a), second, **given).info.algorithm
        assert info.startswith(f"wgmma, tiles of {tile[0]} x {tile[1]}") and info.endswith("then reductions"), info


def test_plain_products_run_in_the_library(kernel_place):
    """A function that returns the sum itself; with C, or a result that the library lacks, the kernel computes it."""
    place = kernel_place
    a, b = normal((24, 64), "bfloat16", 1), normal((64, 32), "bfloat16", 2)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    given = [place.put(a), place.put(b)]
    c, out = place.put(normal((24, 32), "float32", 3)), place.empty((24, 32), dtypes.dtype("bfloat16"))
    for more, fused in (({}, False), ({"c": c, "beta": 1.0}, True), ({"out_dtype": "float8_e5m2"}, True)):
        info = gemm.matmul.plan(*given, epilogue=lambda x: x, **more).info
        assert info.algorithm.startswith("wgmma") == fused, (more, info)
    found = gemm.matmul(*given, epilogue=lambda x: x, alpha=0.5, out=out.view)
    assert np.abs(place.get(found).astype(np.float64) - 0.5 * exact).max() <= 8e-3 * np.abs(exact).max()
    out.assert_written_only()
    assert not place.get(gemm.matmul(*given, epilogue=lambda x: x, alpha=0.0)).any()


def test_the_choice_of_tiles_and_of_the_library(monkeypatch):
    """The measured costs of an H100: few tiles and long sums run in the library."""

    def product(m, n, k, operands=()):
        views = [launch.MatrixView(j, "bfloat16", 2, steps) for j, steps in enumerate(((2 * k, 2), (2, 2 * n)))]
        out = launch.MatrixView(2, "bfloat16", 2, (2 * n, 2))
        return launch.KernelProduct((m, n), k, *views, None, (), operands, (out,), 0, 1, None)

    card = launch.Card(132)
    row, column = launch.MatrixView(3, "bfloat16", 2, (0, 2)), launch.MatrixView(4, "float32", 4, (4, 0))
    whole = row._replace(steps=(1024, 2))
    long = launch.tiles_for(product(16384, 4096, 11008), card._replace(name="H200"))[0]
    assert long.turns == 2  # alternating warpgroups need less power
    best = {shape: launch.tiles_for(product(*shape), card)[0] for shape in ((4096, 4096, 4096), (8192, 8192, 512))}
    assert best[4096, 4096, 4096][:4] == (128, 256, 1, 1) and best[8192, 8192, 512][:3] == (128, 192, 2)
    for operands, fits in (((row, column), True), ((row, row), False), ((whole,), False)):
        assert (launch.Tile(128, 192, 2) in launch.tiles_for(product(512, 512, 512, operands), card)) == fits
    for each in (card, card._replace(name="H200")):
        assert launch.tiles_for(product(777, 4096, 4096), each)[0].transposed  # 4 tiles of rows, not 7
        assert not any(tile.transposed for tile in launch.tiles_for(product(777, 4096, 4096, (whole,)), each))
        assert launch.tiles_for(product(777, 11008, 4096), each)[0][:2] == (256, 136)  # two for each multiprocessor
        for operands, fits in (((row, column), True), ((column, column), False)):  # many take too many registers
            found = launch.tiles_for(product(777, 4096, 4096, operands), each)
            assert any(tile[:2] == (256, 176) for tile in found) == fits
        shapes = (64, 4096, 11008), (256, 4096, 4096), (4096, 4096, 4096)
        assert [launch.library_is_faster(product(*shape), each) for shape in shapes] == [True, False, False]
    monkeypatch.setattr(launch, "TILES", ((64, 64, 2, 2),))  # not measured
    assert not launch.library_is_faster(product(64, 4096, 11008), card)


def test_layouts_that_the_kernel_does_not_support(kernel_place):
    """They run by the library and an elementwise kernel, with the same results."""
    place = kernel_place
    a, b = normal((24, 64), "bfloat16", 1), normal((64, 32), "bfloat16", 2)
    bias = normal(32, "bfloat16", 3)
    f = lambda x, b: x + b  # noqa: E731
    exact = a.astype(np.float64) @ b.astype(np.float64) + bias.astype(np.float64)
    misaligned = place.operand(a, margins=((0, 0), (1, 2)))
    for left, out in ((place.put(a), None), (misaligned.view, None), (place.put(a), BY_COLUMNS)):
        target = None if out is None else place.empty((24, 32), dtypes.dtype("bfloat16"), **out).view
        given = {"epilogue": f, "operands": (place.put(bias),), "out": target}
        found = gemm.matmul(left, place.put(b), **given)
        fused = gemm.matmul.plan(left, place.put(b), **given).info.algorithm.startswith("wgmma")
        assert fused == (left is not misaligned.view and out is None)
        assert np.abs(place.get(found).astype(np.float64) - exact).max() <= 8e-3 * np.abs(exact).max()
    halves = place.put(normal((24, 32), "bfloat16", 4))
    before = place.get(halves).astype(np.float64)
    gemm.matmul(place.put(a), place.put(b), epilogue=f, operands=(halves,), out=halves)  # in place
    wanted = exact - bias.astype(np.float64) + before
    assert np.abs(place.get(halves).astype(np.float64) - wanted).max() <= 8e-3 * np.abs(wanted).max()


def test_groups(kernel_place, monkeypatch):
    """Sizes in memory: whole tiles, parts of tiles, none; rows beyond the groups are not written."""
    place = kernel_place
    monkeypatch.setattr(launch, "TILES", ((64, 64, 2),))
    sizes = np.array([70, 0, 5, 64, 33, -3], np.int32)
    a, b, rows, whole = (
        normal(shape, "bfloat16", k) for k, shape in enumerate(((180, 72), (6, 72, 40), (6, 1, 40), (180, 40)))
    )
    f = lambda x, row, y, s: (max(x * s + row, 0.0) + y, x)  # noqa: E731
    outs = place.empty((180, 40), dtypes.dtype("bfloat16")), place.empty((180, 40), dtypes.dtype("float32"))
    operands = (place.put(rows), place.put(whole), 1.5)
    given = [place.put(each) for each in (a, b, sizes)]
    found = gemm.grouped(*given, epilogue=f, operands=operands, alpha=0.5, out=tuple(each.view for each in outs))
    again = gemm.grouped(*given, alpha=0.5)
    start = 0
    for group, count in enumerate(np.maximum(sizes, 0)):
        part = slice(start, start := start + count)
        sums = 0.5 * a[part].astype(np.float64) @ b[group].astype(np.float64)
        wanted = np.maximum(1.5 * sums + rows[group].astype(np.float64), 0) + whole[part].astype(np.float64)
        for each, right in zip((*found, again), (wanted, sums, sums), strict=True):
            error = np.abs(place.get(each)[part].astype(np.float64) - right).max(initial=0)
            assert error <= 8e-3 * np.abs(right).max(initial=1)
    for out in outs:
        out.assert_written_only(lambda view: view[:start])


@pytest.mark.sampled(98, simulated=0)
def test_gradients_of_groups(kernel_place, monkeypatch):
    """K of each group's product is its number of rows: whole stages, parts, none. NaN in other rows is not read."""
    place = kernel_place
    monkeypatch.setattr(launch, "TILES", ((128, 64, 1), (64, 64, 2)))
    sizes = np.array([70, 0, 5, 64, -3], np.int32)
    a, b, dy = (normal(shape, "bfloat16", k) for k, shape in enumerate(((160, 136), (5, 136, 40), (160, 40))))
    wide = [each.astype(np.float64) for each in (a, b, dy)]
    a[139:], dy[139:] = np.nan, np.nan
    given = [place.put(each) for each in (dy, a, b, sizes)]
    out = place.empty((5, 136, 40), dtypes.dtype("bfloat16"))
    found = *gemm.grouped.backward(*given, alpha=0.5, out=(None, out.view)), *gemm.grouped_backward(*given)
    start, wanted = 0, [np.zeros((160, 136)), np.zeros((5, 136, 40))]
    for group, count in enumerate(np.maximum(sizes, 0)):
        part = slice(start, start := start + count)
        wanted[0][part] = wide[2][part] @ wide[1][group].T
        wanted[1][group] = wide[0][part].T @ wide[2][part]
    for one, right, factor in zip(found, wanted + wanted, (0.5, 0.5, 1, 1), strict=True):
        assert np.abs(place.get(one).astype(np.float64) - factor * right).max() <= 8e-3 * np.abs(right).max()
    out.assert_written_only()
    layouts = tuple(numbacc.arrays.operands.layout_of(each) for each in (given[1], given[0], given[3]))
    kind = dtypes.dtype("bfloat16")
    assert GroupSumsPlan(layouts, None, kind).fits([each._address for each in (given[1], given[0], given[3])])


@pytest.mark.parametrize("gate", ["first", "second"])
def test_gated_linear(kernel_place, monkeypatch, gate):
    """Both halves, with the product kept and without, forward and backward."""
    place = kernel_place
    monkeypatch.setattr(launch, "TILES", ((64, 128, 1),))
    x, w, dy = normal((72, 64), "bfloat16", 1), normal((64, 144), "bfloat16", 2), normal((72, 72), "bfloat16", 3)
    product = x.astype(np.float64) @ w.astype(np.float64)
    given = [place.put(each) for each in (x, w, dy)]
    y, saved = gated.linear(*given[:2], "reglu", gate=gate, return_saved=True)
    slopes = gated.backward(dy.astype(np.float64), product, "reglu", gate=gate)
    gradients = [
        *gated.linear_backward(given[2], saved), *gated.linear_backward(given[2], *given[:2], "reglu", gate=gate)
    ]  # fmt: skip
    forward = gated.forward(product, "reglu", gate=gate)
    exact = [slopes @ w.T.astype(np.float64), x.T.astype(np.float64) @ slopes]
    found = [y, gated.linear(*given[:2], "reglu", gate=gate), saved.arrays["product"], *gradients]
    for one, other in zip(found, [forward, forward, product, *exact, *exact], strict=True):
        assert np.abs(place.get(one).astype(np.float64) - other).max() <= 0.012 * np.abs(other).max()


@pytest.mark.sampled(99, simulated=1)
@pytest.mark.parametrize("tile, by_columns", [((256, 80, 1, 1, 1), False), ((128, 72, 2, 1, 1), True)], ids=str)
def test_both_halves_of_transposed_tiles(kernel_place, monkeypatch, tile, by_columns):
    """A warpgroup has 64 rows of each half; the last ones of a half do not exist, and the result has a rest."""
    place = kernel_place
    monkeypatch.setattr(launch, "TILES", (tile,))
    x, w = normal((90, 72), "bfloat16", 1), normal((72, 400), "bfloat16", 2)
    w_there = place.operand(w, order=(1, 0) if by_columns else (0, 1))
    out = place.empty((90, 200), dtypes.dtype("bfloat16"))
    found = gated.linear(place.put(x), w_there.view, "swiglu", out=out.view)
    wanted = gated.forward(x.astype(np.float64) @ w.astype(np.float64), "swiglu")
    assert np.abs(place.get(found).astype(np.float64) - wanted).max() <= 8e-3 * np.abs(wanted).max()
    out.assert_written_only()
    plan = list(product._plans.known.values())[-1]
    assert f"tiles of {tile[0]} x {tile[1]}" in plan.info.algorithm and "transposed" in plan.info.algorithm


@pytest.mark.slow
def test_machine_code():
    """Four products in a row, one wait in the loop and one after it, no local memory, and no warning of the assembler.

    A warning would say that wgmma instructions wait for each other, or that registers are not moved. A warpgroup with
    128 rows has two of each.
    """
    if numbacc.base.dispatch.simulated():
        skip("not simulated")
    from numbacc.base._numba import pretending
    from numbacc.runtime import launch as loader

    def gelu(x, b):
        return 0.5 * (x + b) * (1 + math.erf((x + b) * math.sqrt(0.5)))

    formula = python_epilogue(gelu).formula((True,))
    cases = ((128, 256), "row", 1, 2), ((64, 256), "whole", 2, 1), ((256, 136), "column", 1, 1)
    for tile, operand, turns, cluster in cases:
        spec = GemmSpec(
            dtype="bfloat16", a_down=operand == "column", b_down=operand != "column", tile=tile, formula=formula,
            operands=((operand, "bfloat16"),), outs=(("bfloat16", True),), turns=turns, cluster=cluster,
            transposed=operand == "column",
        )  # fmt: skip
        with warnings.catch_warnings(), pretending((9, 0)):
            warnings.simplefilter("error")
            _, code = loader.compile_cubin(spec, (9, 0))
            ptx, _ = loader.ptx_of(spec, (9, 0))
        assert code.startswith(b"\x7fELF")
        rows, stores = spec.halves, spec.parts + (spec.rest > 0)  # a store for 64 columns
        assert ptx.count("wgmma.mma_async") == 4 * rows and ptx.count("wgmma.wait_group") == 2 * rows
        assert ptx.count("cp.async.bulk.tensor.3d.global") == stores * rows and "__local_depot" not in ptx
        assert "arrive.release.cluster.shared" not in ptx  # a fence of the whole GPU for each stage


# ---------------------------------------------------------------- what only a GPU shows


def large(place, m, n, k):
    """A product that takes a while, its bias, and the exact result of `shifted`."""
    a, b, bias = (normal(shape, "bfloat16", j) for j, shape in enumerate(((m, k), (k, n), (n,))))
    exact = np.maximum(a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32), 0)
    return [place.put(each) for each in (a, b, bias)], exact


def shifted(x, bias):
    return max(x + bias, 0.0)


def near(found, exact):
    error = np.abs(numbacc.asnumpy(found).astype(np.float32) - exact).max()
    assert error <= 8e-3 * np.abs(exact).max()


@pytest.mark.gpu
def test_streams_threads_and_graphs(kernel_place):
    """In order on other streams and in other threads; a replayed graph; results that are views of one buffer."""
    place = kernel_place
    (a, b, bias), exact = large(place, 512, 256, 1024)
    stream = numbacc.stream()
    first = gemm.matmul(a, b, epilogue=shifted, operands=(bias,), stream=stream)
    second = gemm.matmul(first, numbacc.asarray(np.eye(256, dtype=first.dtype)), epilogue=shifted, operands=(bias,))
    near(first, exact), near(second, np.maximum(exact + place.get(bias).astype(np.float32), 0))
    run_threads(lambda number: near(gemm.matmul(a, b, epilogue=shifted, operands=(bias,)), exact), 4)
    flat = numbacc.zeros(512 * 256 + 64, "bfloat16")
    out = flat[64:].reshape((512, 256))
    with numbacc.graph() as captured:
        made = gemm.matmul(a, b, epilogue=shifted, operands=(bias,))
        gemm.matmul(a, b, epilogue=shifted, operands=(bias,), out=out)
    for _ in range(2):
        out[...] = 0
        captured.launch()
        near(out, exact), near(made, exact)
    assert not numbacc.asnumpy(flat[:64]).any()
    y, saved = gated.linear(a, b, return_saved=True)
    near(gated.linear(a, b), numbacc.asnumpy(y).astype(np.float32))
    assert gated.linear.backward(y, saved)[0].shape == a.shape


@pytest.mark.gpu
def test_the_library_where_it_should_be_faster(kernel_place, monkeypatch):
    """On another stream, and in a graph."""
    monkeypatch.setattr(python_products, "library_is_faster", lambda product, card: True)
    (a, b, bias), exact = large(kernel_place, 64, 256, 1024)
    given = {"epilogue": shifted, "operands": (bias,)}
    assert gemm.matmul.plan(a, b, **given).info.algorithm.endswith("numbacc's kernel should be slower")
    near(gemm.matmul(a, b, **given, stream=numbacc.stream()), exact)
    with numbacc.graph() as captured:
        made = gemm.matmul(a, b, **given)
    captured.launch()
    near(made, exact)


@pytest.mark.gpu
def test_tuning(kernel_place, monkeypatch, tmp_path):
    """The fastest tile, or the library, measured once and kept on disk; C in place keeps its value meanwhile."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    place = kernel_place
    (a, b, bias), exact = large(place, 256, 128, 320)
    out = place.put(np.ones((256, 128), np.float32))
    given = {"epilogue": shifted, "operands": (bias,), "tune": True, "c": out, "beta": 0.0, "out": out}
    gemm.matmul(a, b, **given | {"beta": 2.0})
    product = place.get(a).astype(np.float32) @ place.get(b).astype(np.float32)
    near(out, np.maximum(product + 2 + place.get(bias).astype(np.float32), 0))
    near(gemm.matmul(a, b, epilogue=shifted, operands=(bias,), tune=True), exact)
    info = gemm.matmul.plan(a, b, epilogue=shifted, operands=(bias,), tune=True).info
    assert info.algorithm.startswith("wgmma") or info.algorithm.endswith("as measured")


@pytest.mark.gpu
def test_arrays_of_torch(kernel_place):
    torch = needed("torch", "torch")
    (a, b, bias), exact = large(kernel_place, 256, 128, 192)
    given = [torch.from_dlpack(each) for each in (a, b, bias)]
    out = torch.empty(256, 128, dtype=torch.bfloat16, device="cuda")
    found = gemm.matmul(*given[:2], epilogue=shifted, operands=(given[2],), out=out)
    assert found is out
    near(numbacc.asarray(out), exact)
