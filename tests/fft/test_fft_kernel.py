"""The kernel before and after Fourier transforms, compiled without a GPU: what it touches, and how wide."""

from __future__ import annotations

import re

import numpy as np
import ptx
import pytest
from skips import skip_if

from numbacc.base.dispatch import simulated
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout
from numbacc.fft import repacking
from numbacc.fft.steps import ARGUMENT, RESULT, Area, Repack
from numbacc.kernels.fft.layout import SCALES
from numbacc.kernels.fft.spec import RepackSpec

pytestmark = skip_if(simulated(), "not simulated")

F, D, C, Z = (np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def spec(source, target, parts=(2, 2), wide=False, rank=2, algorithm="straight", lanes=1, pieces=1, **more):
    """A kernel as plans make it for aligned arrays."""
    widths = [lanes * n * TABLE[name].itemsize for n, name in zip(parts, (source, target), strict=True)]
    options = {"scale": "reciprocal", "conjugate": False, "padded": True, **more}
    return RepackSpec(
        algorithm, source, target, *parts, *widths, lanes=lanes, pieces=pieces, **options, rank=rank, wide=wide
    )


SPECS = [
    *(spec(name, name, parts) for name in ("float32", "float64") for parts in [(1, 1), (1, 2), (2, 1), (2, 2)]),
    *(spec("float32", "float32", scale=scale) for scale in SCALES),
    spec("float64", "float64", scale="reciprocal root", conjugate=True, padded=False, rank=1),
    spec("float32", "float32", conjugate=True, padded=False, rank=8, wide=True),
    *(spec(name, "float32", (1, parts)) for name in ("float16", "bfloat16") for parts in (1, 2)),
    *(spec(f"{sign}int{n}", "float64", (1, 2)) for sign in ("", "u") for n in (8, 16, 32, 64)),
    *(spec("float32", "float16", (parts, 1)) for parts in (1, 2)),
    spec("float32", "float32", lanes=2, padded=False, rank=1),
    spec("float32", "float32", (1, 1), lanes=4),
    *(spec(name, "float32", (1, 2), lanes=2) for name in ("float16", "bfloat16", "float32")),
    spec("float32", "float16", (1, 1), lanes=4),
    *(spec(name, name, padded=False, ends=(1, ends)) for name in ("float32", "float64") for ends in (1, 2)),
]


def check_code(found, kernel):
    """Nothing spills, is called, or computed in another precision; divisions of each element are as cheap as can be."""
    assert ".local" not in found.text and not re.search(r"\bcall\b", found.text)
    assert (".f64" in found.text) == (kernel.target == "float64")
    if kernel.algorithm == "tiled":  # where blocks divide, too
        return
    divisions = set(re.findall(r"\b(?:div|rem)\.[su]\d+\b", found.text))
    # Where a thread has several pieces the last block counts its rounds.
    long = kernel.wide or kernel.pieces > 1
    assert divisions <= ({"div.u32", "rem.u32"} | ({"div.u64", "rem.u64"} if long else set()))


@pytest.mark.each_alone(paired=True)
@pytest.mark.parametrize("kernel", SPECS, ids=str)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
@pytest.mark.sampled(3)
def test_one_load_and_one_store(kernel, capability):
    found = ptx.compiled(kernel, capability)
    loads, stores = ([a.nbytes for a in found.accesses if a[:2] == (what, "global")] for what in ("ld", "st"))
    assert len(loads) + len(stores) == len(found.accesses)
    # The compiler may leave out an imaginary part that is not stored.
    needed = {kernel.source_bytes, kernel.source_bytes // max(kernel.source_parts // kernel.target_parts, 1)}
    one, other = (TABLE[name].itemsize for name in (kernel.source, kernel.target))
    if kernel.needs_alignment:
        # Where arrays are not aligned their numbers are taken one by one.
        assert stores.count(kernel.target_bytes) == 1 or kernel.target_bytes == other
        assert stores.count(other) >= kernel.target_bytes // other
        assert max(loads) in needed and (loads.count(max(loads)) == 1 or max(loads) == one)
        assert {*loads, *stores} <= {max(loads), one, kernel.target_bytes, other}
    else:
        assert stores == [kernel.target_bytes] and len(loads) == 1 and loads[0] in needed
    check_code(found, kernel)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("source, target, parts, lanes", [
    ("float32", "float32", (2, 2), 2),
    ("float32", "float32", (1, 1), 4),
    ("float64", "float64", (2, 2), 1),
    ("float16", "float32", (1, 2), 2),
])  # fmt: skip
@pytest.mark.parametrize("padded", [False, True])
def test_all_loads_of_a_thread_are_under_way_before_a_store(source, target, parts, lanes, padded):
    kernel = spec(source, target, parts, lanes=lanes, pieces=4, padded=padded)
    found = ptx.compiled(kernel)
    first = [(access.operation, access.nbytes) for access in found.accesses[:8]]
    assert first == 4 * [("ld", kernel.source_bytes)] + 4 * [("st", kernel.target_bytes)]
    check_code(found, kernel)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("parts", [(1, 1), (2, 2)])
@pytest.mark.parametrize("padded", [False, True])
def test_tiles_go_through_shared_memory(name, parts, padded):
    kernel = spec(name, name, parts, algorithm="tiled", rank=3, padded=padded)
    found = ptx.compiled(kernel)
    spaces = {(access.operation, access.space, access.nbytes) for access in found.accesses}
    number = TABLE[name].itemsize
    assert spaces == {
        *(("ld", "global", n) for n in {kernel.source_bytes, number}),
        ("st", "shared", number),
        ("ld", "shared", number),
        *(("st", "global", n) for n in {kernel.target_bytes, number}),
    }
    check_code(found, kernel)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_ends_are_made_hermitian_in_place(name):
    kernel = spec(name, name, algorithm="hermitian", rank=3, scale="", padded=False)
    found = ptx.compiled(kernel)
    assert {access.nbytes for access in found.accesses} == {kernel.target_bytes, TABLE[name].itemsize}
    check_code(found, kernel)


def test_unaligned_numbers_are_taken_one_by_one():
    kernel = spec("float32", "float32")._replace(source_bytes=4, target_bytes=4)
    assert [access.nbytes for access in ptx.compiled(kernel).accesses] == [4, 4, 4, 4]


# ---------------------------------------------------------------- which kernel, on how many elements


def order_of(source, target, alignment=(0, 0), *, count=1, **options):
    scale, ends, mirrored = options.get("scale", ""), options.get("ends", ()), options.get("mirrored")
    step = Repack(Area(ARGUMENT, source), Area(RESULT, target), scale, False, ends, mirrored)
    return repacking.executable(step, count).task.order(None, alignment)


def dense(shape, dtype):
    return layout(shape, np.empty(shape, dtype).strides if np.prod(shape) < 10**6 else _strides(shape, dtype), dtype, 0)


def _strides(shape, dtype):
    return tuple(int(np.prod(shape[d + 1 :], dtype=object)) * dtype.itemsize for d in range(len(shape)))


def test_dimensions_merge():
    order = order_of(dense((4, 5, 6), C), dense((4, 5, 6), C), scale="reciprocal")
    assert (order.kernel.algorithm, order.kernel.rank, order.kernel.lanes) == ("straight", 1, 2)
    assert not order.kernel.padded and order.kernel.source_bytes == order.kernel.target_bytes == 16
    # Steps of groups in numbers, groups, size in groups, count; the arrays are aligned.
    assert order.constants == (4, 4, 60, 60, 60, 1, 1)
    assert order.grid == (1, 1)


def test_padded_dimensions_do_not():
    order = order_of(dense((4, 5, 6), C), dense((4, 5, 9), C))
    assert order.kernel.rank == 2 and order.kernel.padded and order.kernel.lanes == 1
    # Steps of the source and the target in numbers, the target's shape, the source's lengths, size and count.
    assert order.constants == (12, 2, 18, 2, 20, 9, 20, 6, 180, 1, 1)
    order = order_of(dense((4, 5, 6), C), dense((4, 5, 10), C))
    assert order.kernel.lanes == 2 and order.constants == (12, 4, 20, 4, 20, 5, 20, 3, 100, 1, 1)


def test_the_halved_dimension_does_not_merge():
    array = dense((4, 5, 6), C)
    order = order_of(array, array, ends=(2, 10))
    assert (order.kernel.rank, order.kernel.lanes, order.kernel.ends) == (2, 1, (1, 2))
    assert order.constants == (12, 2, 12, 2, 20, 6, 20, 6, 120, 1, 1)
    assert order_of(array, array, ends=(2, 11)).kernel.ends == (1, 1)
    assert order_of(array, array, ends=(0, 6)).kernel.ends == (0, 2)
    # Where the last element is padded it is 0.
    assert order_of(dense((4, 5, 5), C), array, ends=(2, 10)).kernel.ends == (1, 1)


@pytest.mark.parametrize("dtype", [F, D, C, Z])
def test_transposed_arrays_go_in_tiles(dtype):
    numbers = 2 if dtype.kind == "c" else 1
    source, target = layout((40, 50), (dtype.itemsize, 40 * dtype.itemsize), dtype, 0), dense((40, 50), dtype)
    order = order_of(source, target)
    assert (order.kernel.algorithm, order.kernel.rank) == ("tiled", 3)
    assert (order.grid, order.block) == ((2 * 2, 1), (32, 4))
    assert order.constants == (
        *(0, numbers, 40 * numbers),
        *(0, 50 * numbers, numbers),
        *(1, 40, 50, 1, 40, 50, 2000, 1, 1),
    )
    narrow = layout((15, 50), (dtype.itemsize, 15 * dtype.itemsize), dtype, 0)
    assert order_of(narrow, dense((15, 50), dtype)).kernel.algorithm == "straight"


def test_batches_of_tiles():
    source = layout((6, 40, 50), (16000, 8, 320), C, 0)
    order = order_of(source, dense((6, 40, 50), C), ends=(2, 98))
    assert order.kernel.algorithm == "tiled" and order.kernel.ends == (2, 2)
    assert order.grid == (6 * 2 * 2, 1) and order.constants[:6] == (4000, 2, 80, 4000, 100, 2)


def test_ends_of_a_spectrum():
    array = dense((4, 5, 6), C)
    order = order_of(array, array, ends=(2, 10), mirrored=(1,))
    assert (order.kernel.algorithm, order.kernel.rank) == ("hermitian", 3)
    # The steps twice, the shape of the ends, the lengths of mirrored axes, elements.
    assert order.constants == (*2 * (60, 12, 10), 4, 5, 2, 0, 5, 0, 40, 1, 1)


def test_large_arrays_have_several_groups_a_thread():
    order = order_of(dense((1 << 20,), C), dense((1 << 20,), C), scale="reciprocal")
    assert (order.kernel.pieces, order.grid) == (4, (1024, 1))
    assert order_of(dense((1 << 18,), C), dense((1 << 18,), C), scale="reciprocal").kernel.pieces == 1


def test_source_without_elements_is_all_zeros():
    order = order_of(dense((3, 0), C), dense((3, 4), C))
    assert order.kernel.padded and order.constants[-5:] == (0, 0, 12, 1, 1)


@pytest.mark.parametrize("place, width, lanes", [(0, 16, 2), (8, 8, 1), (4, 4, 1), (12, 4, 1)])
def test_width_follows_alignment(place, width, lanes):
    order = order_of(dense((30,), C), dense((30,), C), (place, 0), scale="reciprocal")
    assert (order.kernel.source_bytes, order.kernel.target_bytes) == (width, 8 * lanes)
    assert order.kernel.lanes == lanes


@pytest.mark.parametrize("columns, strides, lanes", [(30, (240, 8), 2), (31, (248, 8), 1), (30, (248, 8), 1)])
def test_width_follows_rows(columns, strides, lanes):
    source = layout((3, columns), strides, C, 0)
    assert order_of(source, dense((3, columns + 2), C)).kernel.lanes == lanes


@pytest.mark.parametrize("shape", [(2**31 + 4,), (2, 2**30 + 1), (2**31 - 1,)])
def test_large_arrays_need_64_bits(shape):
    order = order_of(dense(shape, F), dense(shape, F), scale="reciprocal")
    assert order.kernel.wide
    threads = order.grid[0] * order.block[0]
    assert threads * order.kernel.lanes * order.kernel.pieces >= np.prod(shape, dtype=object)


def test_smaller_arrays_need_32_bits():
    order = order_of(dense((2**31 - 1025,), F), dense((2**31 - 1025,), F), scale="reciprocal")
    assert not order.kernel.wide
    # What is divided by counts too.
    assert order_of(dense((30,), F), dense((30,), F), scale="reciprocal", count=2**31).kernel.wide


def test_bool_is_a_byte():
    assert order_of(dense((3,), np.dtype(bool)), dense((3,), Z)).kernel[1:5] == ("uint8", "float64", 1, 2)
