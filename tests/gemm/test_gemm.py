"""Matrix products with every epilogue against the oracle: dtypes, layouts, batches, C."""

from __future__ import annotations

import gemm_oracle
import numpy as np
import pytest
from gemm_call import (
    BY_COLUMNS,
    BY_ROWS,
    DTYPES,
    EPILOGUES,
    PADDED,
    PADDED_COLUMNS,
    Call,
    combinations,
    is_fused,
    run_and_verify,
    thinned,
)

import numbacc
from numbacc import gemm

pytestmark = pytest.mark.usefixtures("poison")

#: Where a, b, out and c lie. `out` is a fresh array if it is not named, c is stored by rows.
LAYOUTS = (
    {},
    {"a": BY_COLUMNS, "b": BY_ROWS},
    {"a": BY_ROWS, "b": BY_COLUMNS, "out": BY_ROWS, "c": BY_COLUMNS},
    {"a": BY_COLUMNS, "b": BY_COLUMNS, "out": BY_COLUMNS},
    {"a": PADDED, "b": PADDED, "out": PADDED, "c": PADDED, "aux": PADDED, "bias": {"margins": ((3, 2),)}},
    {"a": PADDED_COLUMNS, "b": PADDED, "out": PADDED_COLUMNS, "c": BY_COLUMNS, "aux": BY_COLUMNS},
    {"a": PADDED, "b": PADDED_COLUMNS, "out": PADDED, "aux": PADDED_COLUMNS, "bias": {"steps": (-2,)}},
)


@combinations(3, kind=EPILOGUES, dtypes=DTYPES)
def test_every_combination(place, kind, dtypes):
    """Epilogues, dtypes and layouts; aligned and ragged sizes; with C and without."""
    index = EPILOGUES.index(kind) + list(DTYPES.values()).index(dtypes)
    shapes = [(3, 9, 4)] if place.is_slow else [(24, 64, 32), (17, 35, 23)]
    for layouts in thinned(place, LAYOUTS, index, 1):
        for shape in shapes:
            run_and_verify(place, shape, kind, *dtypes, layouts=layouts)
            if not place.is_slow:
                run_and_verify(place, shape, kind, *dtypes, layouts=layouts, alpha=-0.5, beta=2.0, seed=1)


@combinations(3, kind=EPILOGUES, dtypes={name: DTYPES[name] for name in ("float32", "bfloat16 to float32")})
def test_c_in_place_and_apart(place, kind, dtypes):
    shape = (3, 10, 4) if place.is_slow else (33, 40, 16)
    for c, out in [(BY_ROWS, BY_ROWS), (BY_COLUMNS, PADDED), (PADDED, BY_COLUMNS), (PADDED_COLUMNS, PADDED_COLUMNS)]:
        in_place = c == out
        layouts = {"c": c, "out": out, "a": PADDED}
        run_and_verify(place, shape, kind, *dtypes, layouts=layouts, alpha=0.75, beta=-1.5, in_place=in_place)
        if place.is_slow and not in_place:
            break


@pytest.mark.parametrize("c", [BY_ROWS, BY_COLUMNS], ids=["like out", "unlike out"])
def test_c_is_not_written_unless_it_is_out(place, c):
    call = Call(place, (5, 6, 7), beta=1.0, layouts={"c": c, "out": BY_ROWS})
    call.verify(call.run())
    call.operands["c"].assert_untouched()


def test_c_is_not_read_where_beta_is_0(place):
    call = Call(place, (5, 6, 7), layouts={"out": PADDED})
    c = place.operand(np.full((5, 6), np.nan, np.float32))
    call.verify(call.run(c=c.view))
    call.verify(call.run(c=call.out.view))


def test_alpha_0(place):
    """Only beta C and the bias are left."""
    run_and_verify(place, (5, 6, 7), "bias", alpha=0.0)
    run_and_verify(place, (5, 6, 7), "gelu_bias", alpha=0.0, beta=1.0)
    # cuBLASLt's kernels for one column would leave D as it was, and C without the bias.
    run_and_verify(place, (5, 1, 2), alpha=0.0, beta=1.0, layouts={"c": PADDED})
    run_and_verify(place, (1, 1, 1), "bias", alpha=0.0, beta=1.0, vectors="ab")
    run_and_verify(place, (5, 6, 7), "bgrada", alpha=0.0, beta=1.0)
    run_and_verify(place, (5, 1, 2), alpha=1e-50, beta=1.0, layouts={"c": PADDED})
    run_and_verify(place, (5, 6, 7), "bgradb", alpha=0.0, batch_a=(2,), batch_b=(2,))


def test_where_alpha_is_0_nothing_is_multiplied(place):
    """As in BLAS: what is not finite in A and B does not come through."""
    c = np.arange(12, dtype=np.float32).reshape(3, 4)
    a, b = (place.put(np.full(shape, value, np.float32)) for shape, value in (((3, 2), np.nan), ((2, 4), np.inf)))
    np.testing.assert_array_equal(place.get(gemm.matmul(a, b, c=place.put(c), alpha=0.0, beta=2.0)), 2 * c)
    np.testing.assert_array_equal(place.get(gemm.matmul(a, b, alpha=0.0)), 0 * c)


@pytest.mark.parametrize("number", [2, np.float32(0.5), np.float64(-1.25), np.int64(3)], ids=repr)
def test_alpha_and_beta_are_any_numbers(place, number):
    run_and_verify(place, (3, 4, 5), alpha=number, beta=number)


# ---------------------------------------------------------------- batches

#: Leading dimensions of a and of b.
BATCHES = {
    "one": ((3,), (3,)),
    "two": ((2, 3), (2, 3)),
    "broadcast b": ((3,), ()),
    "broadcast a": ((), (2,)),
    "size one": ((1, 3), (2, 1)),
    "outer of b missing": ((2, 3), (3,)),
    "all ones": ((1, 1), (1,)),
}


@combinations(
    11, kind=EPILOGUES, batches=BATCHES, dtypes={name: DTYPES[name] for name in ("float32", "float64", "bfloat16")}
)
def test_batches(place, kind, batches, dtypes):
    index = EPILOGUES.index(kind) + list(BATCHES.values()).index(batches) + len(dtypes[0])
    shape = (2, 5, 3) if place.is_slow else (9, 24, 8)
    a, b = batches
    for layouts in thinned(place, LAYOUTS, index, 1):
        for beta, batched_bias in thinned(place, [(0.0, False), (0.5, True)], index, 1):
            run_and_verify(
                place, shape, kind, *dtypes, batch_a=a, batch_b=b, layouts=layouts, beta=beta,
                batched_bias=batched_bias,
            )  # fmt: skip


def strided(count, swapped=False):
    """Matrices with gaps in between, along each of `count` dimensions, whose steps do not multiply."""
    order = (*range(count), count, count + 1)
    if swapped:
        order = (1, 0, *order[2:])
    return {"order": order, "steps": (2,) * count + (1, 1), "margins": ((0, 1),) * count + ((0, 0), (0, 0))}


@pytest.mark.parametrize("kind", ["none", "gelu_aux_bias", "relu_aux", "drelu", "dgelu_bgrad", "bgradb"])
def test_batches_that_cannot_be_merged(place, kind):
    """Gaps between matrices, and dimensions swapped in memory, in every operand."""
    m, n, k = 2, 5, 3
    rng = np.random.default_rng(0)
    a, b, out = (
        place.operand(rng.standard_normal(shape).astype(np.float32), **strided(2, swapped))
        for shape, swapped in (((2, 3, m, k), True), ((2, 3, k, n), False), ((2, 3, m, n), True))
    )
    uses = gemm.Epilogue(kind)
    inputs = gemm_oracle.Inputs(a.values, b.values, epilogue=kind)
    more = {}
    if uses.uses_bias:
        more["bias"] = rng.standard_normal((2, 3, n)).astype(np.float32)
    if uses.uses_aux:
        bits = uses.activation == "relu"
        more["aux"] = rng.integers(0, 256, (2, 3, m, 1), np.uint8) if bits else out.values.copy()
    given = {name: place.put(array) for name, array in more.items()}
    answer = gemm.matmul(a.view, b.view, epilogue=kind, out=out.view, **given)
    second = place.get(answer[1]) if isinstance(answer, tuple) else None
    gemm_oracle.assert_product(
        inputs._replace(**more), out.now(), second, composed=place.is_device,
        fused_gelu=place.name == "gpu",
    )  # fmt: skip
    out.assert_written_only()


def test_matrices_in_reversed_order(place):
    """A batch may run backwards; the rows and columns of its matrices may not."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 4, 5), (3, 5, 6)))
    out = place.empty((3, 4, 6), np.dtype(np.float32), steps=(-1, 1, 1))
    gemm.matmul(place.put(a)[::-1], place.put(b), out=out.view)
    gemm_oracle.assert_product(gemm_oracle.Inputs(a[::-1], b), out.now())
    out.assert_written_only()


# ---------------------------------------------------------------- second results


@pytest.mark.parametrize("kind", ["relu_aux", "relu_aux_bias"])
@pytest.mark.parametrize("n", [1, 8, 13, 127, 129])
def test_the_mask_is_numpys_packed_bits(place, kind, n):
    """Bits behind the last column mean nothing."""
    call = Call(place, (3, n, 4), kind)
    out, mask = call.results(call.run())
    assert (mask.dtype, mask.shape) == (np.uint8, (3, -(-n // 8)))
    np.testing.assert_array_equal(gemm_oracle.unpack(mask, n), out > 0)


def test_bits_behind_the_last_column_are_not_read(place):
    aux = np.array([[0b10101], [0b01010], [0b11111]], np.uint8)
    results = []
    for fill in (0, 0b11100000):
        call = Call(place, (3, 5, 4), "drelu_bgrad", inputs={"aux": aux | fill})
        answer = call.run()
        call.verify(answer)
        results.append(call.results(answer))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_drelu_selects(place):
    """Where the mask has a 0 the result is 0, even of infinity and NaN."""
    a = place.put(np.array([[np.inf], [np.nan], [2.0]], np.float32))
    b = place.put(np.ones((1, 2), np.float32))
    aux = place.put(np.array([[0b01], [0b10], [0b00]], np.uint8))
    got = place.get(gemm.matmul(a, b, aux=aux, epilogue="drelu"))
    np.testing.assert_array_equal(got, np.array([[np.inf, 0], [0, np.nan], [0, 0]]))


def test_names_of_second_results(place):
    call = Call(place, (3, 8, 4), "gelu_aux")
    answer = call.run()
    out, aux = answer
    assert answer.out is out and answer.aux is aux
    call = Call(place, (3, 8, 4), "bgrada", batch_a=(2,))
    assert call.run().bias_grad.shape == (2, 3)
    call = Call(place, (3, 8, 4), "bgradb", batch_b=(2,))
    assert call.run().bias_grad.shape == (2, 8)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_aux_goes_from_forward_to_backward_whatever_its_rows(place, activation, dtype):
    """As the forward product returned it, as memory to be reused, and copied."""
    m, n, k = 3, 21, 4
    forward = Call(place, (m, n, k), f"{activation}_aux_bias", dtype)
    aux = forward.run().aux
    given = Call(place, (m, n, k), f"{activation}_aux_bias", dtype, layouts={"aux": PADDED})
    given.verify(given.run())
    values = place.get(aux)
    meant = (lambda mask: gemm_oracle.unpack(mask, n)) if activation == "relu" else np.asarray
    np.testing.assert_array_equal(meant(place.get(given.aux.view)), meant(values))
    backward = Call(place, (m, n, 5), f"d{activation}_bgrad", dtype, inputs={"aux": values})
    for each in (aux, given.aux.view, place.put(values)):
        backward.verify(backward.run(aux=each))


@pytest.mark.parametrize("kind", ["none", "bias", "gelu_aux_bias", "dgelu_bgrad", "bgrada"])
@pytest.mark.parametrize("layouts", [{}, {"out": BY_ROWS}, {"out": PADDED}], ids=["fresh", "out", "padded out"])
def test_the_same_bits_twice(place, kind, layouts):
    """Also by the short way that a plan takes when it has been run before."""
    call = Call(place, (4, 11, 6), kind, "float16", layouts=layouts)
    want = call.results(call.run())
    for _ in range(2):
        if call.out is not None:
            call.out.view[...] = np.zeros(call.shape, call.out_dtype)
        answer = call.run()
        for one, two in zip(want, call.results(answer), strict=True):
            assert one is None or one.tobytes() == two.tobytes()
    call.verify(answer)


def test_epilogues_have_names_and_properties(place):
    call = Call(place, (3, 8, 4), "relu_bias")
    call.verify(call.run(epilogue=gemm.Epilogue.RELU_BIAS))
    table = {
        "none": "", "relu": "", "bias": "b", "relu_bias": "b", "relu_aux": "p", "relu_aux_bias": "bp", "gelu": "",
        "gelu_aux": "p", "gelu_bias": "b", "gelu_aux_bias": "bp", "drelu": "u", "drelu_bgrad": "ug", "dgelu": "u",
        "dgelu_bgrad": "ug", "bgrada": "g", "bgradb": "g",
    }  # fmt: skip
    assert set(table) == set(EPILOGUES)
    for name, letters in table.items():
        kind = gemm.Epilogue(name)
        found = {"b": kind.uses_bias, "p": kind.produces_aux, "u": kind.uses_aux, "g": kind.produces_bias_grad}
        assert {letter for letter, has in found.items() if has} == set(letters), name


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_nan_and_infinity_go_through(place, dtype):
    a = np.array([[np.nan, 1], [np.inf, 1], [-np.inf, 1], [1, 1]]).astype(numbacc.base.dtypes.dtype(dtype))
    a, b = place.put(a), place.put(np.array([[1], [0.5]]).astype(a.dtype))
    want = {"none": [np.nan, np.inf, -np.inf, 1.5], "relu": [np.inf, 0, 1.5], "gelu": [np.inf]}
    for kind, values in want.items():
        plan = gemm.matmul.plan(a, b, epilogue=kind)
        got = place.get(plan(a, b)).astype(np.float64)[:, 0]
        # What the library's ReLU makes of NaN is its own business.
        assert np.isnan(got[0]) or (kind == "relu" and is_fused(plan))
        np.testing.assert_array_equal(got[4 - len(values) :] if kind != "gelu" else got[1:2], values)
