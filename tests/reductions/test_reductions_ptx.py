"""What kernels that reduce and normalize compile to, without a GPU: accesses, precision, registers; on which grid."""

from __future__ import annotations

import math
import re
from itertools import product

import numpy as np
import pytest
from reduction_oracle import ORACLES
from row_ptx import check, dense, orders_of, widest
from skips import skip_if

from numbacc import elementwise
from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout
from numbacc.elementwise import custom_reductions, norms, reduction_plan
from numbacc.kernels.reduce.spec import ReduceSpec
from numbacc.kernels.rows.spec import RowSpec, SumsSpec

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(paired=True, in_pairs=True)]

REDUCTIONS = {
    **dict.fromkeys(ORACLES),
    "mean": None,
    "prod": None,
    "max": None,
    "argmin": None,
    "any": None,
    "var": 0.0,
    "norm": 2.0,
}


OTHERS = list(dict.fromkeys(["sum", *REDUCTIONS, "all", "argmax"]))


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.sampled(1)
def test_reductions_of_matrices(function, dtype, axis):
    """Rows are read 16 bytes at a time, four times before the first is used; columns too, unless parts are many."""
    plan = reduction_plan.planned(function, dense((8192, 4096), dtype), axis, REDUCTIONS[function])
    first = orders_of(plan)[0].kernel
    # Four parts of float64 are more than 64 registers hold beside all else.
    found = check(first, spilled=32 if (function, dtype) == ("var", "float64") else 0)
    assert widest(found) == first.access_bytes
    if axis == 1:
        assert first.algorithm == "reduce_contiguous" and first.access_bytes == 16
    elif function in ("sum", "mean", "max", "norm") and dtype != "float64":
        assert first.access_bytes == 16


@pytest.mark.each_alone(names_apart=True, paired=True, in_pairs=True)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "order, dtype",
    [
        *product([0.0, 1.0, 3.0, math.inf], ["bfloat16", "complex64"]),
        *product([3.0, -math.inf], ["float32", "float64"]),  # other orders only join two parts in another way
    ],
)
@pytest.mark.sampled(1)
def test_norms_of_other_orders(order, dtype, axis):
    for launch in orders_of(reduction_plan.planned("norm", dense((8192, 1024), dtype), axis, order)):
        check(launch.kernel, spilled=96, calls=(order, dtype) == (3.0, "float64"))


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("axis", [1, 0])
@pytest.mark.parametrize("function", ["sum", "argmin", "var"])
@pytest.mark.sampled(1)
def test_reductions_everywhere(function, axis, capability):
    plan = reduction_plan.planned(function, dense((64, 1 << 20), "float16"), axis, REDUCTIONS[function])
    for order in orders_of(plan):
        check(order.kernel, capability)


@pytest.mark.each_alone(names_apart=True, paired=True, in_pairs=True)
@pytest.mark.parametrize(
    "function, dtype",
    [
        # A part is made of an element in the compute dtype: elements of 1 and of 8 bytes are most in an access and in
        # registers. Signs and other widths change how an element is loaded, which is the same for all functions.
        *product(OTHERS, ["int8", "uint64"]),
        *product(["sum", "var", "argmin"], ["uint16", "int32", "bool"]),
        *product(["sum", "all", "var", "norm"], ["complex64", "complex128"]),
    ],
)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.sampled(1)
def test_reductions_of_other_dtypes(function, dtype, axis):
    for order in orders_of(reduction_plan.planned(function, dense((512, 1024), dtype), axis, REDUCTIONS.get(function))):
        # Parts wider than elements: some wait in memory for a place in a register, four of float64 for each of
        # 16 bytes, and six for each complex number of 16 bytes, most of all.
        most = 192 if dtype == "complex128" else 160 if order.kernel.width == 16 else 64
        check(order.kernel, spilled={"var": most, "mean": 96}.get(function, 64))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.sampled(1)
def test_second_passes_are_small(function, dtype):
    plan = reduction_plan.planned(function, dense((1 << 24,), dtype), None, REDUCTIONS[function])
    first, second = (order.kernel for order in orders_of(plan))
    assert isinstance(first, ReduceSpec) and (first.stage, second.stage) == ("first", "second")
    check(second, spilled=32)


def test_indices_of_64_bits_where_they_are_needed():
    for shape, wide in (((1 << 30,), False), ((1 << 33,), True)):
        order = orders_of(reduction_plan.planned("argmax", dense(shape, "uint8"), None, None))[0]
        assert order.kernel.wide is wide and order.kernel.parts[1] == ("int64" if wide else "int32")
    check(order.kernel, spilled=64)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "shape", [(1 << 28, 1), (1, 1 << 28), (131072, 128), (128, 131072), (8192, 8192), (1 << 22, 64)]
)
def test_many_blocks_have_equal_shares(shape, axis):
    """A GPU of 132 multiprocessors, eight blocks each, is busy, and no block has much more to do than another."""
    for dtype in ("float32", "bfloat16"):
        order = orders_of(reduction_plan.planned("sum", dense(shape, dtype), axis, None))[0]
        blocks = order.grid[0] * order.grid[1]
        results = shape[1 - axis]
        if shape[axis] > 1:
            assert blocks >= 500 or results * shape[axis] < 1 << 20, (order.grid, order.block)
        assert order.block[0] * order.block[1] <= 128


# ---------------------------------------------------------------- rows

#: Bytes: addresses that are the same for every row wait in memory, not in registers.
SUMS_SPILLED = 256


def rows_of(name, dtype, columns=4096, weight="float32", rows=1000):
    x, w = dense((rows, columns), dtype), dense((columns,), weight)
    return dict(norms.everyday(x, w))[name]


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "softmax_backward", "rms_norm", "layer_norm", "rms_norm_backward",
             "layer_norm_backward"],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_normalizations(name, dtype):
    """What is kept is read 16 bytes at a time, and results are written so."""
    plan = norms.planned(name, rows_of(name, dtype))
    for order in orders_of(plan):
        found = check(order.kernel, spilled=SUMS_SPILLED if isinstance(order.kernel, SumsSpec) else 0)
        if isinstance(order.kernel, RowSpec):
            assert widest(found) == widest(found, "st") == 16


@pytest.mark.parametrize(
    "dtype, columns, form, blocks, whole",
    [("bfloat16", 128, "registers", 1, True), ("float32", 4096, "registers", 1, True),
     ("float32", 4100, "shared", 1, True), ("float64", 128, "shared", 1, True), ("float32", 16384, "shared", 1, True),
     ("float64", 32768, "shared", 4, True), ("bfloat16", 131072, "shared", 4, True),
     ("float32", 131072, "shared", 8, True), ("float32", 1 << 19, "shared", 8, False)],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_where_rows_are_kept(dtype, columns, form, blocks, whole):
    """Read once, but for those that are longer than eight multiprocessors keep."""
    (order,) = orders_of(norms.planned("softmax", rows_of("softmax", dtype, columns)))
    kernel, held = order.kernel, order.constants[-1]
    assert (kernel.form, order.cluster, kernel.is_cluster) == (form, blocks, blocks > 1)
    threads = order.block[0] * blocks
    assert (held * threads * kernel.width >= columns) is whole or form == "registers"
    assert order.shared <= 232448 - 8192 and order.grid[0] % blocks == 0
    found = check(kernel)
    # All of a row that is kept is under way at once; its largest number and the sum are found together.
    assert ("cp.async.cg.shared.global" in found.source) is (form == "shared")
    assert len(kernel.formula.stages) == (1 if form == "shared" else 2)


@pytest.mark.parametrize(
    "name, dtype, columns, blocks, sides, depth, held",
    [("rms_norm", "bfloat16", 131072, 8, 2, 3, 1), ("rms_norm", "float32", 131072, 8, 2, 1, 0),
     ("layer_norm", "bfloat16", 131072, 8, 2, 2, 0), ("layer_norm", "float32", 131072, 8, 1, 1, 1),
     ("layer_norm", "bfloat16", 16384, 1, 1, 4, 1), ("layer_norm", "float32", 16384, 1, 1, 1, 1)],
)  # fmt: skip
@pytest.mark.sampled(1)
def test_long_rows_one_after_the_other(name, dtype, columns, blocks, sides, depth, held):
    """Weights are brought once, the next rows are on their way, and nothing waits for those but who needs them."""
    (order,) = orders_of(norms.planned(name, rows_of(name, dtype, columns, dtype, 2**27 // columns)))
    kernel = order.kernel
    assert isinstance(kernel, SumsSpec) and not kernel.parts and kernel.whole
    assert (order.cluster, order.block[1], kernel.depth, kernel.held) == (blocks, sides, depth, held)
    assert 116 <= order.grid[0] <= 132 and order.shared <= 232448 - 2048
    # The mean in two parts needs registers; of 64 numbers and as many weights a few wait in memory.
    found = check(kernel, spilled=192 if name == "layer_norm" else 64)
    assert order.shared + found.shared_bytes <= 232448
    assert found.source.count("cp.async.cg.shared.global") > 0 and "st.global.v4" in found.text
    # A barrier of the cluster, or a fence, waits for all that is under way: once, before the first row.
    assert found.source.count("barrier.cluster.arrive") == (blocks > 1) and "membar" not in found.source
    assert ("st.async" in found.source) == (blocks > 1)
    assert len(kernel.rows.formula.stages) == (2 if name == "layer_norm" else 1)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("columns, runs, whole", [(128, 4, True), (4096, 4, True), (768, 3, True), (2560, 2, True),
    (104, 4, False), (4000, 4, False)])  # fmt: skip
def test_what_is_inside_a_row_is_not_looked_at(columns, runs, whole):
    """Where all threads have all their accesses there, results are written in one go."""
    (order,) = orders_of(norms.planned("softmax", rows_of("softmax", "bfloat16", columns, rows=1 << 17)))
    kernel = order.kernel
    assert (kernel.form, kernel.runs, kernel.whole) == ("registers", runs, whole)
    blocks = re.split(r"^\$L\w+:", check(kernel).text, flags=re.MULTILINE)
    assert max(block.count("st.global.v4") for block in blocks) == (runs if whole else 1)


def test_normalizations_without_slow_paths():
    """Neither division nor root has a branch for what is very small: it would be the longest part of short rows."""
    for dtype in ("float32", "bfloat16"):
        (order,) = orders_of(norms.planned("layer_norm", rows_of("layer_norm", dtype)))
        assert not re.search(r"\b(div|sqrt)\.rn", check(order.kernel).source)


@pytest.mark.parametrize("capability", [(7, 5), (8, 0)], ids=str)
@pytest.mark.parametrize("columns, starts", [(16384, (0, 0)), (20001, (2, 2)), (20001, (2, 4))])
@pytest.mark.sampled(1)
def test_copies_into_shared_memory(capability, columns, starts):
    """GPUs with this instruction use it for accesses of 4 bytes and more. Arrays that start differently have 2."""
    (order,) = orders_of(norms.planned("softmax", rows_of("softmax", "float16", columns)), starts)
    copied = capability >= (8, 0) and starts[0] == starts[1]
    assert ("cp.async" in check(order.kernel, capability, spilled=64).source) is copied


@pytest.mark.parametrize("dtype, columns, rows, together", [("bfloat16", 128, 1 << 16, True),
    ("float32", 4096, 4096, True), ("float32", 4097, 4096, True), ("float32", 4096, 400, False),
    ("float64", 1024, 4096, False), ("bfloat16", 16384, 8192, True), ("float32", 16384, 8192, True),
    ("bfloat16", 1 << 17, 1024, True), ("float32", 1 << 17, 1024, True), ("float32", 1 << 18, 4096, False),
    ("float32", 1 << 17, 40, False)])  # fmt: skip
@pytest.mark.parametrize("name, sums", [("layer_norm_backward", 2), ("rms_norm_backward", 1)])
@pytest.mark.sampled(1)
def test_gradients_of_weights_come_of_one_pass(name, sums, dtype, columns, rows, together):
    """Where a block or a cluster has a row, and rows are many: the next ones are on their way into shared memory."""
    orders = orders_of(norms.planned(name, rows_of(name, dtype, columns, rows=rows)))
    first = orders[0]
    assert [isinstance(order.kernel, SumsSpec) for order in orders].count(True) == together
    if together:
        assert first.grid[0] >= 100 and first.block[0] * first.block[1] <= 1024
        kernel, nbytes = first.kernel, TABLE[dtype].itemsize * columns // first.cluster
        assert (2 * kernel.depth + 1) * nbytes <= first.shared <= 232448 - 2048
        assert first.grid[0] % first.cluster == 0 and kernel.is_cluster == (first.cluster > 1)
        found = check(kernel, spilled=200 if kernel.is_cluster else 32 if kernel.threads == 512 else SUMS_SPILLED)
        assert found.text.count("cp.async.cg.shared.global" if kernel.rows.width > 1 else "cp.async.ca") > 0
        # Rows side by side do not wait for each other; blocks of a cluster do.
        assert ("bar.sync" in found.text) and (("barrier.cluster" in found.text) == kernel.is_cluster)
        # One reduction of all sums follows.
        assert all(len(order.pointers) >= 2 * sums for order in orders[1:]) and len(orders) <= 3


@pytest.mark.parametrize("dtype, columns, blocks, ahead", [("bfloat16", 1 << 17, 8, True), ("bfloat16", 50000, 4, True),
    ("float32", 1 << 17, 8, False), ("float32", 1 << 14, 2, False), ("bfloat16", 20001, 8, False),
    ("bfloat16", 1 << 14, 1, False)])  # fmt: skip
@pytest.mark.parametrize("name, stages", [("layer_norm_backward", 2), ("rms_norm_backward", 1)])
@pytest.mark.sampled(1)
def test_blocks_that_share_a_row_send_once(name, stages, dtype, columns, blocks, ahead):
    """What they have of both stages, where there is room for a third row while the one before is written."""
    first = orders_of(norms.planned(name, rows_of(name, dtype, columns, dtype, rows=8192)))[0]
    kernel = first.kernel
    assert (first.cluster, kernel.is_ahead) == (blocks, ahead and stages == 2)
    found = check(kernel, spilled=64)
    # Beside the rows is what threads and blocks send each other: together no more than a block may have.
    assert first.shared + found.shared_bytes <= 232448
    # A loop waits, and looks before it begins.
    assert found.source.count("mbarrier.try_wait") == 2 * (blocks > 1) * (1 if kernel.is_ahead else stages)


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("name", ["layer_norm_backward", "softmax"])
@pytest.mark.parametrize("columns", [64, 16384])
@pytest.mark.parametrize("rows", [1 << 16, 1000])
@pytest.mark.sampled(1)
def test_normalizations_everywhere(capability, name, columns, rows):
    for order in orders_of(norms.planned(name, rows_of(name, "float16", columns, rows=rows))):
        found = check(order.kernel, capability, spilled=64)
        if isinstance(order.kernel, SumsSpec):
            assert ("cp.async" in found.text) == (capability >= (8, 0))


def test_a_weight_of_another_width_narrows_nothing():
    for weight in ("bfloat16", "float32", "float64"):
        (order,) = orders_of(norms.planned("rms_norm", rows_of("rms_norm", "bfloat16", weight=weight)))
        assert order.kernel.width == 8


def test_arrays_that_are_not_aligned_alike_are_read_element_by_element():
    (order,) = orders_of(norms.planned("softmax", rows_of("softmax", "float32")), (4, 8))
    assert order.kernel.width == 1
    strided = layout((64, 4096), (8 * 4096, 8), np.dtype(np.float32), 0)
    (order,) = orders_of(norms.planned("softmax", (strided,)))
    assert order.kernel.width == 1


@pytest.mark.parametrize("dtype, columns", [("bfloat16", 50257), ("float16", 50258), ("float32", 4099)])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmax_backward"])
@pytest.mark.sampled(1)
def test_unaligned_rows_in_full_accesses(name, dtype, columns):
    """Their elements before and after aligned accesses are the only ones that are read and written one by one."""
    (order,) = orders_of(norms.planned(name, rows_of(name, dtype, columns)))
    kernel = order.kernel
    assert kernel.is_unaligned and kernel.width * TABLE[dtype].itemsize == 16
    found = check(kernel)
    assert widest(found) == widest(found, "st") == 16
    single = [each for each in found.accesses if each.space == "global" and each.nbytes == TABLE[dtype].itemsize]
    assert len(single) == len(kernel.reads) + len(kernel.writes)
    assert "cp.async.cg.shared.global" in found.source


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.sampled(1)
def test_unaligned_rows_everywhere(capability):
    (order,) = orders_of(norms.planned("softmax", rows_of("softmax", "float16", 50257)))
    check(order.kernel, capability, spilled=64)


# ---------------------------------------------------------------- of one's own

OWN = {
    "rms": (elementwise.reduction(lambda x: x * x, after=lambda t, n, eps=1e-6: math.sqrt(t / n + eps)), 1),
    "dot": (elementwise.reduction(lambda x, y: x * y), 2),
    "cosine": (
        elementwise.reduction(lambda x, y: (x * y, x * x, y * y), after=lambda xy, xx, yy: xy / math.sqrt(xx * yy)),
        2,
    ),
    "farthest": (elementwise.reduction(lambda x, y: abs(x - y), merge="max"), 2),
    "share": (elementwise.reduction(lambda x, limit=1.0: abs(x) > limit, after=lambda k, n: k / n), 1),
    "own merge": (
        elementwise.reduction(lambda x: (x, 1.0), merge=lambda a, n, b, m: (max(a, b), n + m), start=(-math.inf, 0.0)),
        1,
    ),
}


def own_orders(name, dtype, axis, shape=(8192, 4096), second=None):
    own, count = OWN[name]
    given = [dense(shape, dtype), *[second or dense(shape, dtype)] * (count - 1)]
    options = len(own._reducer.row.names) - count
    return orders_of(custom_reductions.planned(own._reducer, (*given, *[float] * options), axis))


@pytest.mark.parametrize("axis", [1, 0, None])
@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.sampled(1)
def test_reductions_of_ones_own(name, dtype, axis):
    """As those that numbacc brings: wide loads, no float64, nothing called, nothing spilled."""
    for order in own_orders(name, dtype, axis):
        found = check(order.kernel)
        if order.kernel.algorithm == "reduce_contiguous":
            assert widest(found) == order.kernel.access_bytes == 16


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.sampled(1)
def test_reductions_of_ones_own_everywhere(capability, axis):
    for order in own_orders("cosine", "float16", axis, (64, 1 << 16)):
        check(order.kernel, capability)


def test_rows_beside_what_is_the_same_along_them():
    """They are loaded as if they were alone, wherever they start."""
    for dtype in ("float32", "bfloat16"):
        (order,) = own_orders("dot", dtype, -1, second=dense((8192, 1), "float32"))
        assert order.kernel.repeated == (1,) and order.kernel.algorithm == "reduce_contiguous"
        assert widest(check(order.kernel)) == 16
        (order,) = own_orders("dot", dtype, -1, second=dense((4096,), dtype))
        assert order.kernel.repeated == () and widest(check(order.kernel)) == 16
