"""What the kernels of gradients of `take` compile to, without a GPU: accesses, precision, registers; on which grid."""

from __future__ import annotations

import re

import pytest
from row_ptx import FLOATS, check, dense, orders_of, widest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.elementwise import indexing
from numbacc.kernels.scan.spec import ScanSpec

pytestmark = [skip_if(simulated(), "not simulated"), pytest.mark.each_alone(paired=True, in_pairs=True)]

#: What is launched for many tokens of a vocabulary of some ten thousand, beside scans.
MANY = [*("count", "place") * 2, "bounds", *["scatter_chunks"] * 4, "scatter_rows"]
TOKENS, TABLE = 1 << 20, (50257, 1024)


def launches(dtype, tokens=TOKENS, table=TABLE, index="int64", addresses=None):
    """Those of a table of embeddings."""
    arrays = dense((tokens, table[1]), dtype), dense((tokens,), index)
    plan = indexing._take_gradient("take_backward", table, 0, False, None, *arrays)
    return [order for order in orders_of(plan, addresses) if not isinstance(order.kernel, ScanSpec)]


def loads(found):
    """The widths of the loads that follow each other without anything between that has to wait for them."""
    return [width for operation, widths in found.runs() if operation == "ld" for width in widths]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.sampled(1)
def test_what_is_launched(dtype, index):
    orders = launches(dtype, index=index)
    assert [order.kernel.algorithm for order in orders] == MANY
    for order in orders:
        found = check(order.kernel)
        assert not re.search(r"\b(atom|red)\.", found.text)
        if order.kernel.algorithm.startswith("scatter"):
            assert widest(found) == widest(found, "st") == order.kernel.access_bytes == 16
            assert order.kernel.compute == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize("dtype", FLOATS)
def test_four_rows_are_under_way_at_once(dtype):
    """Their offsets are loaded, then all of them, before the first is added."""
    found = check(launches(dtype)[-1].kernel)
    assert re.search("4, 4, 4, 4, 16, 16, 16, 16", str(loads(found)))
    first = found.text.index("ld.global.v")
    added = r"add(\.rn)?\.f64" if dtype == "float64" else r"add(\.rn)?\.f32"
    four = list(re.finditer(r"ld\.global\.v\d", found.text))[:4]
    assert not re.search(added, found.text[first : four[-1].start()])


def test_a_warp_sorts_with_one_instruction():
    for order in launches("float32")[:4]:
        found = check(order.kernel)
        assert found.text.count("match.any.sync") == 1 and order.block == (32, 1)
        assert order.grid == (1024, 1)  # of 132 multiprocessors each has eight
        # Digits are counted in shared memory; only their sums, or the sorted entries, are written.
        assert {each.space for each in found.accesses if each.operation == "st"} == {"shared", "global"}


@pytest.mark.parametrize("dtype", FLOATS)
def test_few_tokens_are_one_launch(dtype):
    (order,) = launches(dtype, tokens=32)
    found = check(order.kernel)
    assert order.kernel.algorithm == "scatter_few" and widest(found) == widest(found, "st") == 16
    assert order.grid[0] * order.grid[1] * 128 * order.kernel.width == TABLE[0] * TABLE[1]


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (10, 0)], ids=str)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.sampled(1)
def test_everywhere(dtype, capability):
    for order in launches(dtype):
        check(order.kernel, capability)


def test_the_same_kernels_for_all_tables():
    """Lengths are arguments: another vocabulary, another text compile nothing."""
    kernels = {order.kernel for order in launches("bfloat16")}
    assert {order.kernel for order in launches("bfloat16", 1 << 17, (262144, 4096))} == kernels
    assert len(kernels) == 7


def test_what_starts_anywhere_and_what_is_wide():
    assert launches("float32", addresses=[4, 0, 0])[-1].kernel.width == 1
    assert launches("float32", table=(50257, 1022))[-1].kernel.width == 2
    for order in launches("bfloat16", 1 << 21, (1000, 2048)):
        assert order.kernel.wide
        check(order.kernel)


def test_columns_and_elements_of_their_own():
    """Of a table's columns, and of elements by their number, threads side by side write what is side by side."""
    row, listed = dense((5000,), "float32"), dense((5000,), "int64")
    alone, places = dense((64, 500), "float32"), dense((64, 500), "int64")
    for plan in (
        indexing._take_gradient("take_backward", (64, 300), 1, False, None, dense((64, 5000), "float32"), listed),
        indexing._take_gradient("take_backward", (64, 300), None, False, None, row, listed),
        indexing._along_gradient("take_along_axis_backward", (64, 300), 1, None, alone, places),
    ):
        for order in orders_of(plan):
            check(order.kernel)
        assert order.kernel.algorithm == "scatter_rows" and order.kernel.width == 1
