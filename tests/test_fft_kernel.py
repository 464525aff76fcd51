"""The kernel before and after Fourier transforms, compiled without a GPU: what it touches, and how wide."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import ptx
import pytest
from skips import skip_if

from numbacc.base.backend import simulated
from numbacc.base.dtypes import TABLE
from numbacc.base.layout import layout
from numbacc.fft import arrange
from numbacc.fft.program import ARGUMENT, RESULT, Area, Arrange
from numbacc.kernels.arrange import SCALES
from numbacc.kernels.specs import ArrangeSpec

pytestmark = skip_if(simulated(), "not simulated")

F, D, C, Z = (np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))


def spec(source, target, parts=(2, 2), wide=False, rank=2, **more):
    """A kernel as plans make it for aligned arrays."""
    widths = [n * TABLE[name].itemsize for n, name in zip(parts, (source, target), strict=True)]
    options = {"scale": "reciprocal", "conjugate": False, "padded": True, **more}
    return ArrangeSpec(source, target, *parts, *widths, **options, rank=rank, wide=wide)


SPECS = [
    *(spec(name, name, parts) for name in ("float32", "float64") for parts in [(1, 1), (1, 2), (2, 1), (2, 2)]),
    *(spec("float32", "float32", scale=scale) for scale in SCALES),
    spec("float64", "float64", scale="reciprocal root", conjugate=True, padded=False, rank=1),
    spec("float32", "float32", conjugate=True, padded=False, rank=8, wide=True),
    *(spec(name, "float32", (1, parts)) for name in ("float16", "bfloat16") for parts in (1, 2)),
    *(spec(f"{sign}int{n}", "float64", (1, 2)) for sign in ("", "u") for n in (8, 16, 32, 64)),
    *(spec("float32", "float16", (parts, 1)) for parts in (1, 2)),
]


@pytest.mark.parametrize("kernel", SPECS, ids=str)
@pytest.mark.parametrize("capability", [(8, 0), (9, 0), (10, 0)], ids=str)
def test_one_load_and_one_store(kernel, capability):
    found = ptx.compiled(kernel, capability)
    load, store = found.accesses
    assert store == ptx.Access("st", "global", kernel.target_bytes)
    # The compiler may leave out an imaginary part that is not stored.
    needed = {kernel.source_bytes, kernel.source_bytes // max(kernel.source_parts // kernel.target_parts, 1)}
    assert load[:2] == ("ld", "global") and load.nbytes in needed
    assert ".local" not in found.text and not re.search(r"\bcall\b", found.text)
    assert (".f64" in found.text) == (kernel.target == "float64")
    divisions = set(re.findall(r"\b(?:div|rem)\.[su]\d+\b", found.text))
    assert divisions <= ({"div.u32", "rem.u32"} | ({"div.u64", "rem.u64"} if kernel.wide else set()))


def test_unaligned_numbers_are_taken_one_by_one():
    kernel = spec("float32", "float32")._replace(source_bytes=4, target_bytes=4)
    assert [access.nbytes for access in ptx.compiled(kernel).accesses] == [4, 4, 4, 4]


# ---------------------------------------------------------------- which kernel, on how many elements


class Recorder:
    """Takes the place of a launcher."""

    def __init__(self, order):
        self.order = order


def order_of(source, target, alignment=(0, 0), *, count=1, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrange, "launcher_class", lambda: Recorder)
        step = Arrange(Area(ARGUMENT, source), Area(RESULT, target), options.get("scale", ""), False)
        return partial(arrange.executable(step, count).spec.launcher, None, alignment, 0, ())().order


def dense(shape, dtype):
    return layout(shape, np.empty(shape, dtype).strides if np.prod(shape) < 10**6 else _strides(shape, dtype), dtype, 0)


def _strides(shape, dtype):
    return tuple(int(np.prod(shape[d + 1 :], dtype=object)) * dtype.itemsize for d in range(len(shape)))


def test_what_only_moves_is_copied():
    source, target = layout((40, 50), (8, 320), C, 0), dense((40, 50), C)
    step = Arrange(Area(ARGUMENT, source), Area(RESULT, target), "", False)
    assert arrange.executable(step, 1).spec.op == "copy"
    for other in (step._replace(scale="reciprocal"), step._replace(conjugate=True)):
        assert arrange.executable(other, 1).spec.op == "fft"


def test_dimensions_merge():
    order = order_of(dense((4, 5, 6), C), dense((4, 5, 6), C), scale="reciprocal")
    assert order.kernel.rank == 1 and not order.kernel.padded
    assert order.constants == (2, 2, 120, 120, 120, 1)
    assert order.grid == (1, 1)


def test_padded_dimensions_do_not():
    order = order_of(dense((4, 5, 6), C), dense((4, 5, 9), C))
    assert order.kernel.rank == 2 and order.kernel.padded
    # Steps of the source and the target in numbers, the target's shape, the source's lengths, size and count.
    assert order.constants == (12, 2, 18, 2, 20, 9, 20, 6, 180, 1)


def test_source_without_elements_is_all_zeros():
    order = order_of(dense((3, 0), C), dense((3, 4), C))
    assert order.kernel.padded and order.constants[-4:] == (0, 0, 12, 1)


@pytest.mark.parametrize("place, width", [(0, 8), (8, 8), (4, 4), (12, 4)])
def test_width_follows_alignment(place, width):
    order = order_of(dense((30,), C), dense((30,), C), (place, 0), scale="reciprocal")
    assert (order.kernel.source_bytes, order.kernel.target_bytes) == (width, 8)


@pytest.mark.parametrize("shape", [(2**31,), (2, 2**30 + 1), (2**31 - 1,)])
def test_large_arrays_need_64_bits(shape):
    order = order_of(dense(shape, F), dense(shape, F), scale="reciprocal")
    assert order.kernel.wide
    assert order.grid[0] * order.block[0] >= np.prod(shape, dtype=object)


def test_smaller_arrays_need_32_bits():
    order = order_of(dense((2**31 - 1025,), F), dense((2**31 - 1025,), F), scale="reciprocal")
    assert not order.kernel.wide
    # What is divided by counts too.
    assert order_of(dense((30,), F), dense((30,), F), scale="reciprocal", count=2**31).kernel.wide


def test_bool_is_a_byte():
    assert order_of(dense((3,), np.dtype(bool)), dense((3,), Z)).kernel[:4] == ("uint8", "float64", 1, 2)
