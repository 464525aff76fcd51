"""Matrix products of every shape: NumPy's rules, lengths 0 and 1, and any layout drawn at random."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from conftest import memory_layouts
from gemm_call import BY_COLUMNS, DTYPES, EPILOGUES, combinations, run_and_verify, thinned
from hypothesis import given
from hypothesis import strategies as st

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.base.dispatch import simulated

pytestmark = pytest.mark.usefixtures("poison")

each_epilogue = pytest.mark.parametrize("kind", EPILOGUES)

# ---------------------------------------------------------------- NumPy's rules

#: Shapes of a and b.
SHAPES = {
    "matrix, matrix": ((3, 4), (4, 5)),
    "vector, vector": ((4,), (4,)),
    "vector, matrix": ((4,), (4, 5)),
    "matrix, vector": ((3, 4), (4,)),
    "batch, vector": ((2, 3, 4), (4,)),
    "vector, batch": ((4,), (2, 4, 5)),
    "batch, matrix": ((2, 3, 4), (4, 5)),
    "ones": ((1, 1), (1, 1)),
    "a row and a column": ((1, 4), (4, 1)),
    "outer product": ((3, 1), (1, 5)),
    "ranks three and four": ((3, 2, 4), (2, 1, 4, 5)),
    "rank eight": ((1, 2, 1, 1, 2, 1, 3, 4), (2, 1, 4, 5)),
}


@pytest.mark.parametrize("a, b", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shapes_are_those_of_numpys_matmul(place, a, b, dtype):
    rng = np.random.default_rng(0)
    one, two = (rng.integers(-3, 4, shape).astype(dtypes.dtype(dtype)) for shape in (a, b))
    want = np.matmul(one.astype(np.float32), two.astype(np.float32))
    result = gemm.matmul(place.put(one), place.put(two))
    assert (result.shape, result.dtype) == (want.shape, one.dtype)
    assert type(result) is type(place.put(one))
    # Small integers are multiplied and added up exactly.
    np.testing.assert_array_equal(place.get(result).astype(np.float32), want)


@pytest.mark.parametrize("vectors", ["a", "b", "ab"])
@each_epilogue
def test_vectors(place, kind, vectors):
    """A row on the left, a column on the right: their axis is not in the result, nor in aux but for bits."""
    batch = {"a": (), "b": (2,), "ab": ()}[vectors]
    shape = (1 if "a" in vectors else 3, 1 if "b" in vectors else 10, 4)
    run_and_verify(place, shape, kind, vectors=vectors, batch_a=batch)
    layouts = {name: {"steps": (2,)} for name in vectors}
    run_and_verify(place, shape, kind, vectors=vectors, batch_a=batch, layouts=layouts, beta=0.5)


def test_shapes_of_second_results_of_vectors(place):
    row, column, matrix = (place.put(np.ones(shape, np.float32)) for shape in ((4,), (4,), (4, 10)))
    assert gemm.matmul(row, matrix, epilogue="relu_aux").aux.shape == (2,)
    assert gemm.matmul(matrix.T, column, epilogue="relu_aux").aux.shape == (10, 1)
    assert gemm.matmul(row, column, epilogue="relu_aux").aux.shape == (1,)
    assert gemm.matmul(row, matrix, epilogue="gelu_aux").aux.shape == (10,)
    assert gemm.matmul(matrix.T, column, epilogue="gelu_aux").aux.shape == (10,)
    assert gemm.matmul(row, column, epilogue="gelu_aux").aux.shape == ()
    assert gemm.matmul(row, matrix, epilogue="bgradb").bias_grad.shape == (10,)
    assert gemm.matmul(row, matrix, epilogue="bgrada").bias_grad.shape == (1,)


# ---------------------------------------------------------------- nothing to multiply, nothing to return


@combinations(3, kind=EPILOGUES, beta={"without c": 0.0, "with c": 0.5})
def test_k_of_0(place, kind, beta):
    """What is left is epilogue(beta C + bias)."""
    index = EPILOGUES.index(kind)
    for dtype, batch in thinned(place, product(("float32", "float64", "bfloat16"), [(), (2,)]), index, 1):
        run_and_verify(place, (3, 9, 0), kind, dtype, batch_a=batch, beta=beta)
    run_and_verify(place, (3, 9, 0), kind, layouts={"out": BY_COLUMNS, "a": BY_COLUMNS, "c": BY_COLUMNS}, beta=beta)
    if beta:
        run_and_verify(place, (3, 9, 0), kind, layouts={"out": BY_COLUMNS}, beta=beta, in_place=True)


@each_epilogue
@pytest.mark.parametrize("shape", [(0, 9, 4), (3, 0, 4), (0, 0, 4), (0, 9, 0), (3, 0, 0), (0, 0, 0)], ids=str)
def test_an_empty_result(place, kind, shape):
    """Its bias_grad is a sum of nothing, or of an array that is not empty."""
    for batch in ((), (2,), (0,)):
        run_and_verify(place, shape, kind, batch_a=batch, beta=0.5)
        run_and_verify(place, shape, kind, batch_a=batch, layouts={"out": BY_COLUMNS})


def test_a_batch_of_none(place):
    for kind in ("none", "gelu_aux_bias", "relu_aux", "dgelu_bgrad", "bgrada", "bgradb"):
        run_and_verify(place, (3, 9, 4), kind, batch_a=(0, 2), batch_b=(2,))


# ---------------------------------------------------------------- any shape, any layout

_LONGEST, _BATCH = (6, 2) if simulated() else (40, 3)
_lengths = st.one_of(st.integers(1, _LONGEST), st.sampled_from([0, 1, 1, 8, 16]))


@st.composite
def matrix_layouts(draw, shape, writable):
    """Where matrices may lie: a dimension of the last two is gapless, all others are anywhere."""
    rank = len(shape)
    if rank == 1:
        return {"steps": (draw(st.integers(1, 3)),), "margins": ((draw(st.integers(0, 3)), 1),)}
    inner = draw(st.sampled_from([rank - 1, rank - 2]))
    others = draw(st.permutations([d for d in range(rank) if d != inner]))
    batch_steps = [1, 1, 2, -1] + ([] if writable else [0])
    count = rank - 2
    margins = st.tuples(st.integers(0, 3), st.integers(0, 3))
    # The other of the two may have gaps, but no other direction.
    steps = draw(st.lists(st.sampled_from(batch_steps), min_size=count, max_size=count))
    last = [draw(st.sampled_from([1, 1, 2])) if d != inner else 1 for d in (rank - 2, rank - 1)]
    return {
        "order": (*others, inner),
        "steps": (*steps, *last),
        "margins": draw(st.lists(margins, min_size=rank, max_size=rank)),
    }


@st.composite
def calls(draw):
    """Arguments for `Call`."""
    kind, (dtype, out_dtype, compute) = draw(st.sampled_from(EPILOGUES)), draw(st.sampled_from([*DTYPES.values()]))
    m, n, k = draw(st.tuples(_lengths, _lengths, _lengths))
    vectors = draw(st.sampled_from(["", "", "", "", "a", "b", "ab"]))
    m, n = 1 if "a" in vectors else m, 1 if "b" in vectors else n
    batch = draw(st.lists(st.integers(1, _BATCH), max_size=2))

    def own_batch(vector):
        mine = [n if draw(st.booleans()) else 1 for n in batch]
        return () if vector else tuple(mine[draw(st.integers(0, len(mine))) :])

    batch_a, batch_b = own_batch("a" in vectors), own_batch("b" in vectors)
    together = np.broadcast_shapes(batch_a, batch_b)
    shape_a = (k,) if "a" in vectors else (*batch_a, m, k)
    shape_b = (k,) if "b" in vectors else (*batch_b, k, n)
    dropped = (m,) * ("a" not in vectors) + (n,) * ("b" not in vectors)
    shape = (*together, *dropped)
    layouts = {"a": draw(matrix_layouts(shape_a, False)), "b": draw(matrix_layouts(shape_b, False))}
    if len(dropped) == 2:
        if draw(st.booleans()):
            layouts["out"] = draw(matrix_layouts(shape, True))
        layouts["c"] = draw(memory_layouts(len(shape), False))
        activation = gemm.Epilogue(kind).activation
        if draw(st.booleans()) and (activation != "relu" or not gemm.Epilogue(kind).uses_aux):
            layouts["aux"] = draw(memory_layouts(len(shape), gemm.Epilogue(kind).produces_aux))
    layouts["bias"] = draw(memory_layouts(1, False))
    beta = draw(st.sampled_from([0.0, 0.0, 1.0, -0.75]))
    return {
        "shape": (m, n, k),
        "kind": kind,
        "dtype": dtype,
        "out_dtype": out_dtype,
        "compute": compute,
        "batch_a": batch_a,
        "batch_b": batch_b,
        "layouts": layouts,
        "alpha": draw(st.sampled_from([1.0, 1.0, -0.5, 0.0])),
        "beta": beta,
        "in_place": beta != 0 and "out" in layouts and draw(st.booleans()),
        "batched_bias": draw(st.booleans()) and prod(together) != 0,
        "vectors": vectors,
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


@given(calls())
def test_any_shape_and_layout(place, drawn):
    run_and_verify(place, **drawn)


def is_stored_by(matrix, outer, inner):
    """True if the vectors along `inner` are gapless, and follow each other forwards."""
    (length, count), (step, distance) = ((t[inner], t[outer]) for t in (matrix.shape, matrix.strides))
    size = matrix.itemsize
    return (length <= 1 or step == size) and (count <= 1 or distance >= length * size)


def is_readable(array):
    if array.ndim < 2:
        return array.size <= 1 or array.strides[0] > 0
    return array.size == 0 or is_stored_by(array, -2, -1) or is_stored_by(array, -1, -2)


@given(st.data())
def test_any_view_of_two_arrays(place, data):
    """As NumPy's matmul of the same slices, or refused where NumPy refuses or no dimension is gapless."""
    host = np.random.default_rng(0).integers(-2, 3, (3, 4, 4)).astype(np.float32)
    device = place.put(host)
    ends = st.one_of(st.none(), st.integers(-4, 4))
    part = st.one_of(st.integers(0, 2), st.builds(slice, ends, ends, st.sampled_from([None, None, 1, 2, -1])))

    def view():
        index = tuple(data.draw(st.lists(part, max_size=2)))
        axes = data.draw(st.permutations(range(host[(*index, ...)].ndim)))
        return [array[(*index, ...)].transpose(axes) for array in (host, device)]

    (a, first), (b, second) = view(), view()
    try:
        want = np.matmul(a, b)
    except ValueError:
        want = None
    # In a batch of no matrices there is nothing to read.
    if want is None:
        with pytest.raises(numbacc.ShapeError):
            gemm.matmul(first, second)
    elif (is_readable(a) and is_readable(b)) or 0 in np.broadcast_shapes(a.shape[:-2], b.shape[:-2]):
        np.testing.assert_array_equal(place.get(gemm.matmul(first, second)), want)
    else:
        with pytest.raises(numbacc.LayoutError, match="are contiguous"):
            gemm.matmul(first, second)
