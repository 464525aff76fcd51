"""float8 products of arrays that start anywhere: small ones are copied, matrices refused, and no context is lost."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Place, refused
from gemm_call import BY_COLUMNS, BY_ROWS, E4, F32, Call, Call8

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.base.dispatch import matmul_library
from numbacc.errors import LayoutError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

#: Elements of 2 bytes before the first of a bias.
STARTS = (0, 1, 2, 3, 4, 7, 8, 16)
#: Numbers of a scale's array before it.
PLACES = (0, 1, 2, 3, 4)


def shapes(place):
    return [(16, 16, 32)] if place.name != "gpu" else [(64, 64, 64), (17, 144, 48), (256, 512, 256)]


def check(call, copied):
    """Run and verify; on a device the plan says what it copied."""
    call.check()
    if call.place.is_device:
        said = call.plan().info.algorithm.partition("aligned copies of ")[2]
        assert said == ", ".join(copied)


# ---------------------------------------------------------------- bias


@pytest.mark.parametrize("kind", ["bias", "relu_bias", "gelu_bias"])
@pytest.mark.parametrize("compute", [None, "fast"])
@pytest.mark.parametrize("start", STARTS)
def test_a_bias_starts_anywhere(place, kind, compute, start):
    for shape in shapes(place):
        layouts = {"bias": {"margins": ((start, 3),)}}
        check(Call8(place, shape, kind, compute=compute, layouts=layouts), ["bias"] * (start % 8 > 0))


@pytest.mark.parametrize("steps", [2, 3, -1])
def test_a_bias_with_steps(place, steps):
    layouts = {"bias": {"steps": (steps,)}}
    check(Call8(place, shapes(place)[0], "relu_bias", layouts=layouts), ["bias"])


@pytest.mark.parametrize("margins", [(0, 0), (0, 1), (8, 8), (8, 7), (1, 7)], ids=str)
@pytest.mark.parametrize("batch", [(3,), (2, 2)], ids=str)
def test_each_matrix_has_its_bias(place, margins, batch):
    """Rows of biases, of which each but the first may start where the library cannot take it."""
    layouts = {"bias": {"margins": ((0, 0),) * len(batch) + (margins,)}}
    call = Call8(
        place, (16, 16, 32), "relu_bias", batch_a=batch, batch_b=batch, batched_bias=True, layouts=layouts,
        compute="fast",
    )  # fmt: skip
    check(call, ["bias"] * (margins[0] % 8 > 0 or sum(margins) % 8 > 0))


def test_one_plan_for_biases_here_and_there(place):
    """Aligned, not, and again: each is read where it is, or copied."""
    plan = None
    for start in (0, 1, 0, 5, 1):
        call = Call8(
            place, (16, 16, 32), "relu_bias", seed=start, layouts={"bias": {"margins": ((start, 16 - start),)}}
        )
        assert plan is None or call.plan() is plan
        plan = call.plan()
        call.check()


# ---------------------------------------------------------------- scales


def numbers(place, values, start):
    """Numbers behind others in memory."""
    return place.put(np.concatenate([np.full(start, np.nan), np.ravel(values)]).astype(F32))[start:]


@pytest.mark.parametrize("name", ["scale_a", "scale_b", "scale_d"])
@pytest.mark.parametrize("start", PLACES)
def test_a_scale_is_one_of_an_array_of_scales(place, name, start):
    out = E4 if name == "scale_d" else "bfloat16"
    call = Call8(place, (16, 16, 32), out=out, scales={name: np.full(1, 0.25, F32)})
    call.options[name] = numbers(place, 0.25, start)
    check(call, [name] * (start % 4 > 0))


def test_all_scales_at_once_with_a_bias(place):
    scales = {"scale_a": np.full(1, 0.5, F32), "scale_b": np.full(1, 4, F32), "scale_d": np.full(1, 2, F32)}
    layouts = {"bias": {"margins": ((1, 1),)}}
    call = Call8(place, (16, 16, 32), "relu_bias", out=E4, scales=scales, layouts=layouts)
    together = numbers(place, [0.5, 4, 2], 1)
    call.options |= {name: together[k : k + 1] for k, name in enumerate(scales)}
    check(call, ["bias", "scale_a", "scale_b", "scale_d"])


@pytest.mark.parametrize("start", [1, 4])
def test_a_scale_a_row_starts_anywhere(place, start):
    rng = np.random.default_rng(0)
    scales = {name: rng.uniform(1, 2, n).astype(F32) for name, n in (("scale_a", 16), ("scale_b", 32))}
    call = Call8(place, (16, 32, 32), scales=scales)
    call.options |= {name: numbers(place, values, start) for name, values in scales.items()}
    call.check(required=not place.is_device or place.is_slow)


@pytest.mark.parametrize("start", PLACES)
def test_amax_goes_anywhere(place, start):
    amax = place.put(np.full(start + 2, -1, F32))
    call = Call8(place, (16, 16, 32), out=E4, options={"amax_d": amax[start : start + 1]})
    check(call, ["amax_d"] * (start % 4 > 0))
    call.check(amax=amax[start : start + 1])
    untouched = np.delete(place.get(amax), start)
    assert (untouched == -1).all()


def test_scales_move_between_calls(place):
    """One plan; a selection for scales at multiples of 16 bytes is not used for others."""
    for start in (0, 1, 4, 3, 0):
        call = Call8(place, (16, 16, 32), scales={"scale_a": np.full(1, 1 + start, F32)}, layouts={"out": BY_ROWS})
        call.options["scale_a"] = numbers(place, 1 + start, start)
        call.check()


def test_the_largest_of_several_calls_is_refused(device_place):
    """Each would write its own."""
    call = Call8(device_place, (16, 16, 32), out=E4, batch_a=(2, 3), batch_b=(3,))
    call.options["amax_d"] = device_place.put(np.zeros(1, F32))
    refused(UnsupportedError, "amax_d", "2 calls", run=call.run)
    merged = Call8(device_place, (16, 16, 32), out=E4, batch_a=(3,), batch_b=(3,))
    merged.options["amax_d"] = device_place.put(np.zeros(1, F32))
    merged.check(required=device_place.is_slow, amax=merged.options["amax_d"])


# ---------------------------------------------------------------- matrices


@pytest.mark.parametrize("name, margin", [("a", 1), ("a", 8), ("b", 1), ("b", 8), ("c", 1), ("c", 4), ("out", 1)])
def test_matrices_that_start_elsewhere_are_refused(device_place, name, margin):
    """When planning, and in a plan made for others."""
    dense = (0, 0), (0, 16)
    layouts = {each: {"margins": dense} for each in ("a", "c", "out")} | {
        "b": {"order": (1, 0), "margins": dense[::-1]}
    }
    if name == "b":
        moved = {"order": (1, 0), "margins": ((margin, 16 - margin), (0, 0))}
        layouts["b"] = {"order": (1, 0), "margins": ((0, 16), (0, 0))}
    else:
        moved = {"margins": ((0, 0), (margin, 16 - margin))}
    good = Call8(device_place, (16, 16, 32), layouts=layouts, beta=1.0)
    plan = good.plan()
    good.check()
    bad = Call8(device_place, (16, 16, 32), layouts={**layouts, name: moved}, beta=1.0)
    words = (f"{name} is aligned to", E4, "16")
    given = {k: v for k, v in bad.arguments.items() if k in ("a", "b", "c", "out", "beta")}
    for run in (bad.run, bad.plan, lambda: plan(**given)):
        refused(LayoutError, *words, run=run)
    bad.out.assert_untouched()


def test_matrices_that_are_not_read_start_anywhere(device_place):
    """With alpha=0. A plan is made before alpha is known, so it is not made for them."""
    layouts = {"a": {"margins": ((0, 0), (2, 14))}, "b": {"order": (1, 0), "margins": ((0, 16), (0, 0))}}
    call = Call8(device_place, (16, 16, 32), layouts=layouts, alpha=0.0)
    refused(LayoutError, "a is aligned to 2 bytes", run=call.plan)
    call.check()


@pytest.mark.parametrize("name", ["a", "c", "out"])
def test_rows_that_are_not_16_bytes_apart_are_refused(device_place, name):
    layouts = {"out": BY_ROWS, name: {"margins": ((0, 0), (0, 1))}}
    call = Call8(device_place, (16, 16, 32), layouts=layouts, beta=1.0)
    for run in (call.run, call.plan):
        refused(LayoutError, f"{name} has strides", "16" if name != "a" else "multiples", run=run)
    call.out.assert_untouched()


@pytest.mark.parametrize("name", ["out", "c"])
def test_a_row_with_gaps_is_refused(device_place, name):
    """It is one of columns, which are not 16 bytes apart."""
    a, b = (device_place.put(np.ones(shape, dtypes.dtype(E4))) for shape in ((1, 32), (16, 32)))
    given = {
        "a": a,
        "b": b.T,
        "out": device_place.put(np.ones((1, 16), np.float16)),
        "beta": 1.0,
        "out_dtype": "float16",
    }
    given["c"] = device_place.put(np.ones((1, 16), np.float16))
    for gaps, wrong in (({"out": 8, "c": 8}, ""), ({name: 2}, name), ({"out": 8, "c": 1}, "c")):
        for which, gap in gaps.items():
            given[which] = device_place.put(np.ones((1, 16 * gap), np.float16))[:, ::gap]
        if wrong:
            refused(LayoutError, f"{wrong} has strides", "16", run=lambda: gemm.matmul(**given))
            continue
        try:
            found = gemm.matmul(**given)
        except UnsupportedError:
            continue  # it may be: cuBLASLt 13.1 has no kernel for it
        assert (device_place.get(found) == 33).all()


@pytest.mark.parametrize("name", ["a", "b", "out"])
def test_matrices_of_a_batch_that_are_not_16_bytes_apart_are_refused(device_place, name):
    """The first starts where it should; in NumPy's terms the memory is a row of elements, seen as a batch."""
    shape, dtype = {"a": ((16, 32), E4), "b": ((32, 16), E4), "out": ((16, 16), "bfloat16")}[name]
    call = Call8(device_place, (16, 16, 32), batch_a=(2,), batch_b=(2,), layouts={"out": BY_ROWS})
    given = {k: v for k, v in call.arguments.items() if k in ("a", "b", "out")}
    elements = shape[0] * shape[1]
    flat = device_place.put(np.ones(2 * (elements + 4), dtypes.dtype(dtype))).reshape(2, elements + 4)[:, :elements]
    rows = flat.reshape(2, *(shape[::-1] if name == "b" else shape))
    given[name] = rows.transpose((0, 2, 1)) if name == "b" else rows
    refused(LayoutError, f"{name} has strides", "16", run=lambda: gemm.matmul(**given))


def test_numpy_takes_them_all(numpy_place):
    layouts = {name: {"margins": ((0, 0), (1, 2))} for name in ("a", "out", "c")}
    Call8(numpy_place, (16, 16, 32), layouts=layouts, beta=1.0).check()


# ---------------------------------------------------------------- what the heuristics are told


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("margin, wanted", [(0, 32), (1, 1), (2, 2), (4, 4), (8, 8)])
def test_the_heuristics_are_told_of_every_bias(device_place, monkeypatch, dtype, margin, wanted):
    """Of a batch's biases the first may start at a multiple of 256 bytes, and the second anywhere; of one in 16 bits
    that starts where no kernel takes it there is a copy, which starts better."""
    told, library = [], matmul_library()
    choose = library.choose
    monkeypatch.setattr(library, "choose", lambda *given: told.append(given[1]) or choose(*given))
    size, batch = dtypes.dtype(dtype).itemsize, (3,)
    a, b = (device_place.put(np.ones((3, 16, 16), dtypes.dtype(dtype))) for _ in range(2))
    bias = device_place.put(np.ones((*batch, 32 + margin), dtypes.dtype(dtype)))[:, :16]
    gemm.cache_clear()
    gemm.matmul(a, b, bias=bias, epilogue="bias")
    if (dtype, margin) == ("bfloat16", 1):
        assert told[0][4] >= 16
    elif device_place.is_slow:  # whose memory may start at less
        assert min(wanted * size, 256) >= told[0][4] == min(told[0][4], wanted * size)
    else:
        assert told[0][4] == min(wanted * size, 256)


# ---------------------------------------------------------------- what ended the context, or was refused late


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["gelu_aux", "gelu_aux_bias", "dgelu", "dgelu_bgrad"])
@pytest.mark.parametrize("start", [1, 2, 4])
def test_an_aux_of_16_bits_starts_anywhere(place, kind, dtype, start):
    aux = {"margins": ((0, 0), (start, 8 - start))}
    for shape in shapes(place):
        call = Call(place, shape, kind, dtype, layouts={"aux": aux, "out": {}})
        call.verify(call.run())
        if place.name == "gpu":
            assert "kernel" in call.plan().info.backend


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["bias", "gelu_bias", "relu_aux_bias"])
@pytest.mark.parametrize("start", [1, 3])
def test_a_bias_of_16_bits_starts_anywhere(place, kind, dtype, start):
    for shape in shapes(place):
        call = Call(place, shape, kind, dtype, layouts={"bias": {"margins": ((start, 0),)}})
        call.verify(call.run())
        if place.name == "gpu":
            assert "aligned copies of bias" in call.plan().info.algorithm


@pytest.mark.parametrize("out_dtype", ["same", "float32"])
@pytest.mark.parametrize("kind", ["none", "gelu", "gelu_bias", "drelu"])
@pytest.mark.parametrize("apart", [1, 2])
def test_rows_of_c_may_be_better_aligned_than_those_of_out(place, kind, out_dtype, apart):
    for dtype in ("float16", "bfloat16"):
        for shape in shapes(place):
            layouts = {"out": {"margins": ((0, 0), (0, apart))}, "c": {"margins": ((0, 0), (0, 16))}}
            to = dtype if out_dtype == "same" else out_dtype
            call = Call(place, shape, kind, dtype, to, layouts=layouts, beta=0.5)
            call.verify(call.run())


def test_int8_matrices_that_start_elsewhere_are_refused(device_place):
    a, b = (device_place.put(np.ones((16, 20), np.int8))[:, start : start + 16] for start in (2, 0))
    refused(LayoutError, "a is aligned to", "multiple of 4", run=lambda: gemm.matmul(a, b.T))


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
def test_copies_are_captured_into_a_graph():
    """At every replay the bias and the scale of then are read, and amax_d is written."""
    from graphs import captured, overwrite

    place, stream = Place("gpu"), numbacc.stream()
    rng = np.random.default_rng(0)
    a, w = (numbacc.asarray(rng.standard_normal((64, 64)).astype(dtypes.dtype(E4)), stream=stream) for _ in range(2))
    biases = numbacc.zeros(65, "bfloat16", stream=stream)
    scales = numbacc.full((3,), 1.0, stream=stream)
    amax = numbacc.zeros(3, stream=stream)
    out = numbacc.empty((64, 64), E4, stream=stream)
    given = {"bias": biases[1:], "scale_a": scales[1:2], "amax_d": amax[1:2], "out": out, "epilogue": "relu_bias"}
    gemm.matmul.plan(a, w.T, **given)
    with captured(stream) as graph:
        gemm.matmul(a, w.T, stream=stream, **given)
    for scale in (1.0, 0.5, 0.25):
        bias = rng.standard_normal(65).astype(dtypes.dtype("bfloat16"))
        overwrite(biases, bias, stream)
        overwrite(scales, np.full(3, scale, F32), stream)
        amax._fill(-1, stream.handle)
        graph.replay()
        # The same product outside, with all at multiples of 256 bytes.
        largest = numbacc.zeros(1, stream=stream)
        want = gemm.matmul(
            a, w.T, bias=numbacc.asarray(bias[1:], stream=stream), scale_a=numbacc.full((1,), scale, stream=stream),
            amax_d=largest, out_dtype=E4, epilogue="relu_bias", stream=stream,
        )  # fmt: skip
        np.testing.assert_array_equal(place.get(out).view(np.uint8), place.get(want).view(np.uint8))
        assert place.get(amax).tolist() == [-1, place.get(largest)[0], -1]


@pytest.mark.gpu
def test_a_copied_scale_is_waited_for_on_another_stream():
    from gpu_work import slow_down

    rng = np.random.default_rng(0)
    a, w = (numbacc.asarray(rng.standard_normal((64, 64)).astype(dtypes.dtype(E4))) for _ in range(2))
    expected = numbacc.asnumpy(gemm.matmul(a, w.T, scale_a=4.0)).astype(np.float32)
    for _ in range(3):
        stream = numbacc.stream()
        scales = numbacc.full((2,), 1.0, stream=stream)
        busy = slow_down(stream)
        scales._fill(4.0, stream.handle)
        found = gemm.matmul(a, w.T, scale_a=scales[1:])
        np.testing.assert_array_equal(numbacc.asnumpy(found).astype(np.float32), expected)
        del busy


@pytest.mark.gpu
@pytest.mark.parametrize("start", [0, 1])
def test_tuned_products_copy_too(start, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    gemm.cache_clear()
    layouts = {"bias": {"margins": ((start, 3),)}}
    call = Call8(Place("gpu"), (64, 64, 64), "relu_bias", layouts=layouts, options={"tune": True})
    call.options["scale_a"] = numbers(call.place, 1.0, start)
    call.check()
    call.check()
    gemm.cache_clear()


def test_columns_are_no_rows(device_place):
    """A result stored by columns whose columns are not multiples of 16 bytes."""
    call = Call8(device_place, (5, 16, 32), layouts={"out": BY_COLUMNS})
    refused(LayoutError, "out has strides", run=call.run)
