"""Which kernel a map runs and on what grid, for arrays that need not exist."""

from __future__ import annotations

from math import ceil, gcd, prod

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from numbacc.base.dtypes import TABLE
from numbacc.base.layout import View, layout
from numbacc.functions.epilogues import FORMULAS
from numbacc.kernels.elementwise import geometry
from numbacc.kernels.elementwise.launch import MapTask
from numbacc.kernels.elementwise.map import _INNER, _SCALARS
from numbacc.kernels.specs import TILE, TILE_STEP, pieces_each
from numbacc.runtime.launch_order import VECTOR_BYTES, WARP

DTYPES = ("float64", "float32", "bfloat16", "uint8")
ROWS = ("vector", "uneven", "scalar")


class Map:
    """A map over arrays with given strides, and what was decided for it.

    Args:
        shape: of all arrays.
        steps: for each array its strides, in elements; the last `outputs` are outputs.
        places: the arrays' addresses modulo 16, in elements.
        starts: where in the arrays the map begins, in elements.
    """

    def __init__(self, shape, steps, dtype="float32", places=None, outputs=1, starts=None):
        self.shape, self.steps, self.size = tuple(shape), [tuple(s) for s in steps], TABLE[dtype].itemsize
        self.places = [self.size * n for n in places or [0] * len(steps)]
        made = [layout(self.shape, tuple(self.size * n for n in s), TABLE[dtype].numpy, 0) for s in self.steps]
        inputs = len(made) - outputs
        starts = starts or [0] * len(made)
        views = [View(k - inputs * (k >= inputs), self.size * starts[k], a.strides) for k, a in enumerate(made)]
        spec = MapTask(
            op="test", formula=FORMULAS["copy"], reference=None, names=("x",) * len(made),
            inputs=tuple(made[:inputs]), outputs=tuple(made[inputs:]), shape=self.shape,
            reads=tuple(views[:inputs]), writes=tuple(views[inputs:]), out_given=True,
        )  # fmt: skip
        self.order = geometry.make_order(spec, tuple(self.places))
        self.kernel, self.grid, self.block = self.order.kernel, self.order.grid, self.order.block
        self.algorithm = self.kernel.algorithm
        self._decode()

    def _decode(self):
        """The constants as the kernel's signature has them."""
        inner = _INNER[self.algorithm]
        dimensions, rest = self.kernel.rank + inner, list(self.order.constants)
        count = len(self.steps) * dimensions
        self.kernel_steps = np.reshape(rest[:count], (len(self.steps), dimensions))
        self.outer, self.scalars = tuple(rest[count:][: self.kernel.rank]), rest[count + self.kernel.rank :]
        assert len(self.scalars) == _SCALARS[self.algorithm]
        lengths = {"tiled": self.scalars[:2], "strided": []}.get(self.algorithm, self.scalars[1:2])
        self.outer, self.tiles = (self.outer[:-2], self.outer[-2:]) if self.algorithm == "tiled" else (self.outer, None)
        self.kernel_shape = (*self.outer, *lengths)

    @property
    def reach(self):
        """The farthest that an array reaches from its first element, in elements."""
        return max(sum((n - 1) * abs(s) for n, s in zip(self.shape, steps, strict=True)) for steps in self.steps)


def offsets(shape, steps):
    """For each element of a shape its offset in every array, in an order of their own."""
    places = np.indices(shape).reshape(len(shape), -1)
    table = np.asarray(steps).reshape(len(steps), len(shape)) @ places
    return table[:, np.lexsort(table)]


# ---------------------------------------------------------------- what holds for every map

FEW, MANY = 20_000, 2**34
LENGTHS = [1, 2, 3, 5, 8, 16, 17, 33, 64, 255, 1024, 4100, 65536, 10**6, 2**24 + 1, 2**31 + 7]


@st.composite
def any_maps(draw, elements):
    """Maps of up to so many elements: arrays in different orders of dimensions, with gaps, backwards, repeated, at
    different places."""
    shape = []
    for n in draw(st.lists(st.sampled_from(LENGTHS), min_size=1, max_size=4)):
        shape.append(min(n, elements))
        elements //= shape[-1]
    size = TABLE[dtype := draw(st.sampled_from(DTYPES))].itemsize
    inputs, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    usual = draw(st.permutations(range(len(shape))))
    plain = draw(st.booleans())

    def steps(is_input):
        order = usual if plain or draw(st.integers(0, 2)) else draw(st.permutations(usual))
        found, step = [0] * len(shape), 1
        for d in reversed(order):
            if is_input and not draw(st.integers(0, 5)):
                continue
            found[d] = step * (1 if plain else draw(st.sampled_from([1, 1, 1, 1, -1, 2])))
            step = abs(found[d]) * shape[d] + draw(st.sampled_from([0, 0, 0, 1, 16 // size, 16]))
        return found

    arrays = [steps(k < inputs) for k in range(inputs + outputs)]
    place = st.integers(0, VECTOR_BYTES // size - 1)
    places = [draw(place)] * len(arrays) if draw(st.booleans()) else [draw(place) for _ in arrays]
    return Map(shape, arrays, dtype, places, outputs)


@given(any_maps(MANY))
def test_grids_are_within_cudas_limits(found):
    event(found.algorithm)
    (grid_x, grid_y), (block_x, block_y) = found.grid, found.block
    assert 1 <= grid_x < 2**31
    assert 1 <= grid_y <= 65535
    # A block has no more threads than the kernel is compiled for.
    assert 1 <= block_x * block_y <= found.kernel.launch_bounds[0]


@given(any_maps(FEW))
def test_the_kernel_is_given_each_element_once(found):
    """The dimensions and steps that it walks give the same offsets in all arrays together as the shape."""
    event(found.algorithm)
    np.testing.assert_array_equal(offsets(found.kernel_shape, found.kernel_steps), offsets(found.shape, found.steps))


@given(any_maps(MANY))
def test_the_grid_covers_the_work_and_no_block_is_idle(found):
    event(found.algorithm)
    (grid_x, grid_y), (block_x, block_y) = found.grid, found.block
    total, piece = prod(found.shape), found.kernel.width if found.algorithm == "vector" else None
    if found.algorithm == "strided":
        items, each, lines = total, 1, None
        assert found.scalars == [total]
    elif found.algorithm == "tiled":
        rows, columns, whole = found.scalars
        assert whole == 1 and found.tiles == (ceil(rows / (TILE * found.kernel.width)), ceil(columns / TILE))
        assert prod(found.outer) * rows * columns == total
        items, each, lines = prod(found.outer) * prod(found.tiles), 1, None
        block_x = 1  # a block is a tile
    else:
        rows, columns = found.scalars[:2]
        assert rows == prod(found.outer) and rows * columns == total
        items, lines = columns, rows
        each = found.kernel.lanes // piece if piece else 1
        if found.algorithm == "vector":
            vectors = found.scalars[3]
            items = vectors + columns - vectors * (VECTOR_BYTES // found.size)
        elif found.algorithm == "uneven":
            pieces, rest = found.scalars[2:]
            assert (pieces, rest) == divmod(columns, WARP * found.kernel.lanes) and pieces
            kernel = found.kernel
            turns = pieces_each(len(kernel.reads) - len(kernel.repeated), kernel.width)
            items = (ceil(pieces / turns) + (rest > WARP)) * WARP
    assert (grid_x - 1) * block_x * each < items <= grid_x * block_x * each
    if lines is None:
        assert grid_y == 1
    else:
        assert grid_y == min(ceil(lines / block_y), 65535)


@given(any_maps(MANY))
def test_indices_have_64_bits_where_they_need_them(found):
    event(f"{found.algorithm}, wide={found.kernel.wide}")
    if max(found.reach, prod(found.shape)) >= 2**31:
        assert found.kernel.wide
    if not found.kernel.wide:
        assert all(abs(n) < 2**31 for n in found.order.constants)


@given(any_maps(MANY))
def test_the_algorithm_follows_from_strides_and_places(found):
    """As `maps` documents it; steps along the kernel's last dimension, which is the outputs' own, tell rows apart."""
    event(found.algorithm)
    steps, size = found.kernel_steps, found.size
    repeated = (steps[:, -1] == 0) & (np.arange(len(steps)) < len(found.kernel.reads))
    contiguous = ((steps[:, -1] == 1) | repeated).all()
    assert (found.algorithm in ROWS) == contiguous
    straight = np.flatnonzero(~repeated)
    if not contiguous:
        transposed = tuple(np.flatnonzero(steps[:, -1] != 1).tolist())
        turnable = transposed[-1] < len(found.kernel.reads) and any(
            (steps[list(transposed), d] == 1).all() and min(found.kernel_shape[d], found.kernel_shape[-1]) >= TILE // 2
            for d in range(steps.shape[1] - 1)
        )
        assert found.algorithm == ("tiled" if turnable else "strided")
        assert found.kernel.transposed == (transposed if turnable else ())
        assert not turnable or (steps[list(transposed), -2] == 1).all()
        return
    # What is the same all along a row may lie anywhere.
    assert found.kernel.repeated == (() if found.algorithm == "scalar" else tuple(np.flatnonzero(repeated)))
    places = [found.places[k] for k in straight]
    pitches = gcd(0, *(int(n) * size for n in steps[straight, :-1].ravel()))
    in_step = len(set(places)) == 1 and pitches % VECTOR_BYTES == 0
    columns, width = found.scalars[1], VECTOR_BYTES // size
    head = -places[0] % VECTOR_BYTES // size
    assert (found.algorithm == "vector") == (in_step and columns >= head + width)
    if found.algorithm == "vector":
        assert found.scalars[2:] == [head, (columns - head) // width]
        assert found.kernel.access_bytes == VECTOR_BYTES
    elif found.algorithm == "uneven":
        assert found.kernel.access_bytes == max(size, 4)
        assert found.block[0] % WARP == 0


# ---------------------------------------------------------------- one by one


@pytest.mark.parametrize(
    "algorithm, shape, steps, places",
    [
        ("vector", (1000, 1000), [(1000, 1)] * 3, None),
        ("vector", (1000, 1000), [(1000, 1)] * 3, (3, 3, 3)),
        ("vector", (7, 8), [(16, 1), (8, 1)], None),
        ("vector", (7, 8), [(-16, 1), (8, 1)], None),
        ("vector", (7, 8), [(0, 1), (8, 1)], None),
        ("vector", (4,), [(1,), (1,)], None),
        ("uneven", (1000, 1000), [(1001, 1), (1000, 1)], None),
        ("uneven", (100000,), [(1,), (1,)], (0, 1)),
        ("scalar", (1000, 100), [(101, 1), (100, 1)], None),
        ("scalar", (3,), [(1,), (1,)], None),
        ("scalar", (6,), [(1,), (1,)], (1, 1)),
        ("scalar", (1, 1), [(1, 1), (1, 1)], None),
        ("tiled", (1000, 1000), [(1, 1000), (1000, 1)], None),
        ("tiled", (1000, 1000), [(1000, 1), (1, 1000), (1000, 1)], None),
        ("tiled", (1000, 1000), [(1, 1000), (0, 1), (1000, 1)], None),
        ("vector", (1000, 1000), [(1, 0), (1000, 1)], None),
        ("vector", (1000, 1000), [(0, 0), (1000, 1), (1000, 1)], (1, 0, 0)),
        ("uneven", (1000, 1000), [(1, 0), (1001, 1), (1000, 1)], None),
        ("scalar", (1000, 3), [(1, 0), (3, 1)], (0, 1)),
        ("tiled", (3, 16, 16), [(256, 1, 16), (256, 16, 1)], None),
        ("strided", (1000, 15), [(1, 1000), (15, 1)], None),
        ("strided", (15, 1000), [(1, 15), (1000, 1)], None),
        ("strided", (1000, 1000), [(-1, 1000), (1000, 1)], None),
        ("strided", (1000, 1000), [(2000, 2), (1000, 1)], None),
        ("strided", (1000, 1000), [(1000, -1), (1000, 1)], None),
        ("strided", (1000, 1000), [(1000, 1), (2000, 2)], None),
        ("strided", (100, 100, 100), [(10000, 1, 100), (1, 10000, 100), (10000, 100, 1)], None),
    ],
    ids=str,
)  # fmt: skip
def test_algorithms(algorithm, shape, steps, places):
    assert Map(shape, steps, places=places).algorithm == algorithm


@pytest.mark.parametrize(
    "dtype, place", [(dtype, n) for dtype in DTYPES for n in range(VECTOR_BYTES // TABLE[dtype].itemsize)]
)
def test_head_vectors_and_tail(dtype, place):
    """The head ends at a 16-byte boundary, whole vectors follow, and less than one is left."""
    size = TABLE[dtype].itemsize
    width = VECTOR_BYTES // size
    for columns in range(2 * width, 4 * width + 1):
        found = Map((columns,), [(1,), (1,)], dtype, [place, place])
        rows, length, head, vectors = found.scalars
        assert (found.algorithm, rows, length) == ("vector", 1, columns)
        assert (place + head) % width == 0 and 0 <= head < width
        assert 0 <= columns - head - vectors * width < width


@pytest.mark.parametrize("start, place, algorithm", [(4, 0, "vector"), (2, 0, "uneven"), (2, 2, "vector")])
def test_what_counts_is_where_the_parts_begin(start, place, algorithm):
    """A half of an array may begin elsewhere within 16 bytes than the array does."""
    found = Map((100, 1000), [(2000, 1), (1000, 1)], places=(place, 0), starts=(start, 0))
    assert found.algorithm == algorithm
    assert found.order.alignment == (4 * place, 0)
    assert found.order.pointers == ((0, 4 * start), (1, 0))


@pytest.mark.parametrize(
    "dtype, place, step, width",
    [("bfloat16", 0, 1000, 2), ("bfloat16", 1, 1000, 1), ("bfloat16", 0, 1001, 1), ("float32", 0, 1000, 1)],
)
def test_elements_of_two_bytes_are_turned_in_pairs_where_they_lie_on_words(dtype, place, step, width):
    for places, transposed, out in (((place, 0), step, 1000), ((0, place), 1000, step)):
        found = Map((1000, 1000), [(1, transposed), (out, 1)], dtype, places)
        assert (found.algorithm, found.kernel.width) == ("tiled", width)
        assert found.kernel.lanes == TILE // TILE_STEP * width


def test_dimensions_that_all_arrays_walk_alike_are_one():
    assert Map((20, 30, 40), [(1200, 40, 1)] * 2).scalars[:2] == [1, 24000]
    assert Map((20, 30, 40), [(1200, 40, 1), (2400, 80, 1)]).scalars[:2] == [600, 40]
    assert Map((20, 30, 40), [(1, 20, 600)] * 2).scalars[:2] == [1, 24000]


@pytest.mark.parametrize("rows, wide", [(2**15, False), (2**16, True)])
@pytest.mark.parametrize(
    "algorithm, steps",
    [
        ("vector", (2**15 + 16, 1)),
        ("uneven", (2**15 + 1, 1)),
        ("tiled", (1, 2**16 + 1)),
        ("strided", (2**15 + 16, 2)),
    ],
)
def test_64_bit_indices_from_2_31_on(algorithm, steps, rows, wide):
    """Of an array of 2^30 or 2^31 elements of one byte; the strided ones reach as far with half as many."""
    columns = 2**14 if algorithm == "strided" else 2**15
    found = Map((rows, columns), [steps, (columns, 1)], "uint8")
    assert found.algorithm == algorithm
    assert found.kernel.wide == wide


def test_there_may_be_more_rows_than_the_grid_has():
    """The blocks then take further rows."""
    found = Map((10**7, 3), [(4, 1), (3, 1)])
    assert found.algorithm == "scalar"
    assert found.grid[1] == 65535 and found.grid[1] * found.block[1] < 10**7


def test_the_choice_is_told():
    info = Map((1000, 1000), [(1001, 1), (1000, 1)], places=(2, 0)).order.described
    for word in ("uneven", "32-bit accesses", "32-bit indices", "grid", "block"):
        assert word in info
    wide = Map((2**20, 2**12), [(2**13, 2), (2**12, 1)]).order.described
    assert "strided" in wide and "64-bit indices" in wide
