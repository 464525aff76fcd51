"""What gated activations refuse, with which error and message, and that nothing is written then."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import Call, packed, readonly, refused

import numbacc
from numbacc import gated

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BASES = {
    numbacc.ShapeError: ValueError,
    numbacc.LayoutError: ValueError,
    numbacc.OptionError: ValueError,
    numbacc.DTypeError: TypeError,
    numbacc.DeviceError: RuntimeError,
    numbacc.LibraryError: RuntimeError,
}


def ones(place, shape, dtype=F32, **layout):
    return place.operand(np.ones(shape, dtype), **layout)


def refused_everywhere(place, error, *words, x=None, dy=None, **options):
    """Forward (unless dy is what is wrong), backward and their plans refuse, and write to no `out`."""
    backward_only = dy is not None and x is None
    x = ones(place, (4, 6)).view if x is None else x
    dy = ones(place, (4, 3)).view if dy is None else dy
    y, dx = place.empty((4, 3), F32), place.empty((4, 6), F32)
    for function in () if backward_only else (gated.forward, gated.forward.plan):
        refused(error, *words, run=lambda f=function: f(x, **{"out": y.view, **options}))
    for function in (gated.backward, gated.backward.plan):
        refused(error, *words, run=lambda f=function: f(dy, x, **{"out": dx.view, **options}))
    y.assert_untouched()
    dx.assert_untouched()


def test_every_error_is_numbaccs_and_pythons():
    for error, base in BASES.items():
        assert issubclass(error, numbacc.Error)
        assert issubclass(error, base)
    assert not issubclass(numbacc.Error, (ValueError, TypeError, RuntimeError))


# ---------------------------------------------------------------- options


@pytest.mark.parametrize("kind", ["gelu", "SwiGLU", "", None, 3, b"glu", ["glu"], {"kind": "glu"}, ("glu",)], ids=repr)
def test_unknown_kind_names_the_known_ones(place, kind):
    refused_everywhere(place, numbacc.OptionError, "kind", repr(kind), *gated.KINDS, kind=kind)


@pytest.mark.parametrize("function, kind", [("silu", "swiglu"), ("swish", "swiglu"), ("gelu", "geglu")])
def test_the_name_of_a_gates_function_leads_to_the_kind(place, function, kind):
    x = place.put(np.ones((2, 4), np.float32))
    with pytest.raises(numbacc.OptionError, match=f'kind={function!r} is unknown; .*; did you mean "{kind}"'):
        gated.forward(x, function)


@pytest.mark.parametrize("gate", ["third", "Second", None, 1, ["first"], {}], ids=repr)
def test_unknown_gate(place, gate):
    refused_everywhere(place, numbacc.OptionError, "gate", repr(gate), '"first"', '"second"', gate=gate)


@pytest.mark.parametrize("axis", [2, -3, 100, -(2**70)])
def test_axis_out_of_range(place, axis):
    refused_everywhere(place, numbacc.ShapeError, "axis", axis, axis=axis)


@pytest.mark.parametrize("axis", [None, 1.0, "1", (1,), [1], np.float32(1)], ids=repr)
def test_axis_is_no_integer(place, axis):
    refused_everywhere(place, numbacc.ShapeError, "axis", repr(axis), axis=axis)


@pytest.mark.parametrize("axis", [1, -1, np.int64(1), np.uint8(1)], ids=repr)
def test_every_integer_is_an_axis(place, axis):
    assert gated.forward(ones(place, (4, 6)).view, axis=axis).shape == (4, 3)


@pytest.mark.parametrize("stream", ["0", -1, 1.5, True, object], ids=repr)
def test_unknown_stream(place, stream):
    out = place.empty((4, 3), F32)
    x = ones(place, (4, 6)).view
    refused(numbacc.OptionError, "stream", run=lambda: gated.forward(x, out=out.view, stream=stream))
    out.assert_untouched()


# ---------------------------------------------------------------- ranks and shapes


@pytest.mark.parametrize("rank", [0, 9, 12])
def test_rank(place, rank):
    x = place.put(np.ones((2,) * rank, F32))
    words = ("rank", rank, "1 to 8")
    refused_everywhere(place, numbacc.ShapeError, *words, x=x)
    refused_everywhere(place, numbacc.ShapeError, *words, x=(x, x))
    refused_everywhere(place, numbacc.ShapeError, "dy", *words, dy=x)


@pytest.mark.parametrize("shape, axis", [((4, 5), 1), ((5, 4), 0), ((5, 4), -2), ((0, 3), -1), ((1,), 0)])
def test_odd_length(place, shape, axis):
    x = ones(place, shape).view
    refused_everywhere(place, numbacc.ShapeError, "x", shape, "odd", shape[axis], x=x, axis=axis)


@pytest.mark.parametrize("shape", [(4, 6), (3, 4), (4,), (1, 3), (4, 3, 1)])
def test_dy_has_the_shape_of_y(place, shape):
    """No broadcasting behind the scenes: a broadcast view must be made by the caller."""
    x, dy, out = ones(place, (4, 6)), ones(place, shape), place.empty((4, 6), F32)
    run = lambda: gated.backward(dy.view, x.view, out=out.view)  # noqa: E731
    refused(numbacc.ShapeError, "dy", shape, (4, 3), run=run)
    out.assert_untouched()


@pytest.mark.parametrize("shape", [(3, 4), (4,), (4, 1), (4, 3, 1), (4, 4)])
def test_halves_of_a_pair_are_equal_in_shape(place, shape):
    a, b, dy = ones(place, (4, 3)).view, ones(place, shape).view, ones(place, (4, 3)).view
    for pair in ((a, b), (b, a)):
        refused(numbacc.ShapeError, shape, (4, 3), run=lambda pair=pair: gated.forward(pair))
        refused(numbacc.ShapeError, run=lambda pair=pair: gated.backward(dy, pair))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_pair_is_two_arrays(place, count):
    x = tuple(ones(place, (4, 3)).view for _ in range(count))
    for sequence in (x, list(x)):
        refused_everywhere(place, numbacc.ShapeError, "x", count, "pair", x=sequence)


# ---------------------------------------------------------------- what is not an array, and dtypes


@pytest.mark.parametrize("x", [3.0, 2, "x", None, object, {"a": 1}, range(4), np.float32(1), b"1234"], ids=repr)
def test_no_array(place, x):
    a = ones(place, (4, 3)).view
    if x is not None:  # None is how the helper leaves an argument as it should be
        refused_everywhere(place, numbacc.DTypeError, "dy", type(x).__name__, dy=x)
    for error, run in {
        "x": lambda: gated.forward(x),
        "x[0]": lambda: gated.forward((x, a)),
        "x[1]": lambda: gated.forward((a, x)),
    }.items():
        refused(numbacc.DTypeError, error, type(x).__name__, run=run)


def test_a_list_of_numbers_is_no_array(place):
    refused_everywhere(place, numbacc.DTypeError, "float", x=[1.0, 2.0])
    refused_everywhere(place, numbacc.ShapeError, "pair", x=[1.0, 2.0, 3.0, 4.0])
    refused_everywhere(place, numbacc.DTypeError, "float", x=ones(place, (4, 6)).view, out=1.0)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "complex64", "bool", "float8_e5m2", "float8_e4m3fn"])
def test_dtype_that_is_held_but_not_computed(place, dtype):
    bad = place.put(np.ones((4, 6), numbacc.base.dtypes.dtype(dtype)))
    narrow = place.put(np.ones((4, 3), numbacc.base.dtypes.dtype(dtype)))
    refused_everywhere(place, numbacc.DTypeError, dtype, "float32", "bfloat16", x=bad, dy=narrow)


@pytest.mark.parametrize("dtype", [">f4", "datetime64[s]", "O", "S4", "f4,f4", "longdouble"])
def test_dtype_that_is_not_held(numpy_place, dtype):
    bad, narrow = np.zeros((4, 6), dtype), np.zeros((4, 3), dtype)
    refused_everywhere(numpy_place, numbacc.DTypeError, str(np.dtype(dtype)), x=bad, dy=narrow)


def test_dtypes_are_equal(place):
    a, b = ones(place, (4, 3), F32).view, ones(place, (4, 3), F64).view
    x, out = ones(place, (4, 6), F32).view, place.empty((4, 3), F32)
    for run in (
        lambda: gated.forward((a, b), out=out.view),
        lambda: gated.forward((b, a), out=out.view),
        lambda: gated.backward(b, x),
        lambda: gated.backward(b, (a, a), out=(out.view, a)),
        lambda: gated.forward(x, out=b),
        lambda: gated.backward(a, (a, a), out=(out.view, b)),
    ):
        refused(numbacc.DTypeError, "float32", "float64", run=run)
    out.assert_untouched()


# ---------------------------------------------------------------- devices


def test_host_and_device_arrays_do_not_mix(device_place):
    host, there = np.ones((4, 3), F32), ones(device_place, (4, 3)).view
    x, out = ones(device_place, (4, 6)).view, device_place.empty((4, 3), F32)
    for run in (
        lambda: gated.forward((host, there), out=out.view),
        lambda: gated.forward((there, host), out=out.view),
        lambda: gated.backward(host, x),
        lambda: gated.forward(np.ones((4, 6), F32), out=out.view),
        lambda: gated.forward(x, out=host),
        lambda: gated.backward(there, (there, there), out=(out.view, host)),
    ):
        refused(numbacc.DeviceError, "NumPy", "cuda:0", "asarray", run=run)
    out.assert_untouched()
    np.testing.assert_array_equal(host, 1)


# ---------------------------------------------------------------- out


@pytest.mark.parametrize("shape", [(4, 6), (3, 4), (4,), (4, 1), (1, 3), (4, 3, 1), (2, 4, 3), (0,)])
def test_out_has_the_shape_of_the_result(place, shape):
    x, dy, out = ones(place, (4, 6)).view, ones(place, (4, 3)).view, place.empty(shape, F32)
    fine = place.empty((4, 3), F32)
    refused(numbacc.ShapeError, "out", shape, (4, 3), run=lambda: gated.forward(x, out=out.view))
    for pair, name in (((out.view, fine.view), "out[0]"), ((fine.view, out.view), "out[1]")):
        run = lambda pair=pair: gated.backward(dy, (dy, dy), out=pair)  # noqa: E731
        refused(numbacc.ShapeError, name, shape, (4, 3), run=run)
    if shape != (4, 6):
        refused(numbacc.ShapeError, "out", shape, (4, 6), run=lambda: gated.backward(dy, x, out=out.view))
    out.assert_untouched()
    fine.assert_untouched()


def test_out_has_as_many_arrays_as_the_result(place):
    x, half = ones(place, (4, 6)).view, ones(place, (4, 3)).view
    outs = [place.empty((4, 3), F32) for _ in range(3)]
    views = [o.view for o in outs]
    for run in (
        lambda: gated.forward(x, out=tuple(views[:2])),
        lambda: gated.forward((half, half), out=tuple(views[:2])),
        lambda: gated.forward(x, out=()),
        lambda: gated.backward(half, x, out=tuple(views[:2])),
        lambda: gated.backward(half, (half, half), out=views[0]),
        lambda: gated.backward(half, (half, half), out=tuple(views)),
        lambda: gated.backward(half, (half, half), out=()),
    ):
        refused(numbacc.ShapeError, "out must be", run=run)
    for operand in outs:
        operand.assert_untouched()


@pytest.mark.parametrize("steps", [(0, 1), (1, 0), (0, 0)])
def test_out_with_elements_that_share_memory(place, steps):
    out, x, half = place.empty((4, 3), F32, steps=steps), ones(place, (4, 6)).view, ones(place, (4, 3)).view
    refused(numbacc.LayoutError, "out", "share", run=lambda: gated.forward(x, out=out.view))
    refused(numbacc.LayoutError, "out", "share", run=lambda: gated.forward.plan(x, out=out.view))
    fine = place.empty((4, 3), F32)
    run = lambda: gated.backward(half, (half, half), out=(fine.view, out.view))  # noqa: E731
    refused(numbacc.LayoutError, "out[1]", "share", run=run)
    out.assert_untouched()
    fine.assert_untouched()


def test_out_is_read_only(place):
    x, half = ones(place, (4, 6)).view, ones(place, (4, 3)).view
    out, fine = readonly(place, place.empty((4, 3), F32)), place.empty((4, 3), F32)
    plan = gated.forward.plan(x, out=fine.view)
    for run in (
        lambda: gated.forward(x, out=out.view),
        lambda: plan(x, out=out.view),
        lambda: gated.backward(half, (half, half), out=(out.view, fine.view)),
        lambda: gated.backward(half, (half, half), out=(fine.view, out.view)),
    ):
        refused(numbacc.LayoutError, "out", "read-only", run=run)
    out.assert_untouched()
    fine.assert_untouched()


def test_inputs_may_be_read_only(place):
    x = readonly(place, ones(place, (4, 6)))
    assert gated.forward(x.view).shape == (4, 3)


# ---------------------------------------------------------------- overlap


def test_overlap_in_part_is_refused(place):
    """Shifted, transposed, reversed, the wrong half's neighbour: anything but element for element."""
    base = ones(place, (13, 16))
    v = base.view
    x, square, dy = v[:8, :16], v[:8, :8], place.put(np.ones((8, 8), F32))
    fresh = place.empty((8, 8), F32)
    cases = [
        lambda: gated.forward(x, out=v[:8, 1:9]),
        lambda: gated.forward(x, out=v[1:9, :8]),
        lambda: gated.forward(x, out=v[4:12, 8:]),
        lambda: gated.forward(x, out=v[:8, 4:12]),
        lambda: gated.forward(x, out=square.transpose((1, 0))),
        lambda: gated.forward(x, out=v[:8, :8][::-1]),
        lambda: gated.forward(x, out=v[:8, :8][:, ::-1]),
        lambda: gated.forward(x, out=v[:8, ::2]),
        lambda: gated.forward((square, dy), out=v[:8, 7:15]),
        lambda: gated.forward((dy, square), out=square.transpose((1, 0))),
        lambda: gated.backward(dy, x, out=v[1:9, :]),
        lambda: gated.backward(dy, x, out=v[:8][::-1]),
        lambda: gated.backward(square, place.put(np.ones((8, 16), F32)), out=x[:, ::-1]),
        lambda: gated.backward(dy, (square, dy), out=(fresh.view, v[1:9, 1:9])),
        lambda: gated.backward(dy, (square, dy), out=(square.transpose((1, 0)), fresh.view)),
    ]
    for run in cases:
        refused(numbacc.LayoutError, "overlap", run=run)
    base.assert_untouched()
    fresh.assert_untouched()
    plan = gated.forward.plan(x, out=place.empty((8, 16), F32).view[:, :8])
    refused(numbacc.LayoutError, "overlap", run=lambda: plan(x, out=v[:8, 1:9]))
    base.assert_untouched()


def test_one_half_shifted_against_the_other(place):
    """In place in a, but a is also, shifted, b: what is written is still to be read."""
    base = ones(place, (9,))
    v = base.view
    run = lambda: gated.forward((v[:8], v[1:]), out=v[:8])  # noqa: E731
    refused(numbacc.LayoutError, "overlap", "x[1]", run=run)
    base.assert_untouched()


def test_outs_that_overlap_each_other(place):
    dy, out = ones(place, (8,)).view, place.empty((12,), F32)
    for second in (out.view[:8], out.view[4:12], out.view[7::-1]):
        run = lambda second=second: gated.backward(dy, (dy, dy), out=(out.view[:8], second))  # noqa: E731
        refused(numbacc.LayoutError, "out", "overlap", run=run)
    out.assert_untouched()


def test_interleaved_memory_is_no_overlap(place):
    """The same stretch of memory, but no byte in common."""
    memory = place.operand(np.arange(1, 25, dtype=F32))
    v = memory.view
    gated.forward(v[::2], kind="reglu", out=v[1:12:2])
    a, b = memory.values[::2][:6], memory.values[::2][6:]
    np.testing.assert_array_equal(memory.now()[1:12:2], a * b)
    np.testing.assert_array_equal(memory.now()[::2], memory.values[::2])


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_plan_rejects_other_layouts(place, direction):
    make = {"place": place, "direction": direction, "kind": "glu"}
    plan = Call(dtype=F32, shape=(4, 6), **make).plan()
    others = [
        Call(dtype=F32, shape=(4, 7), **make),
        Call(dtype=F64, shape=(4, 6), **make),
        Call(
            dtype=F32,
            shape=(4, 6),
            layouts=[{"order": (1, 0)}] * (1 + (direction == "backward")),
            **make,
        ),
    ]
    for other in others:
        with pytest.raises(numbacc.LayoutError, match="plan"):
            plan(*other.arguments)
    call = Call(dtype=F32, shape=(4, 6), **make)
    with pytest.raises(numbacc.LayoutError):
        plan(*call.arguments[:-1])
    with pytest.raises(numbacc.LayoutError):
        plan(*call.arguments, out=packed(call.outs([{"steps": (1, 2)}])))


def test_messages_fit_what_was_done(place):
    """A refused call names the argument, what it got and what it needs."""
    with pytest.raises(numbacc.ShapeError, match=r"x has shape \(4, 5\).*axis 1.*5.*odd"):
        gated.forward(ones(place, (4, 5)).view)
    with pytest.raises(numbacc.DTypeError, match=r"out has dtype float64.*float32"):
        gated.forward(ones(place, (4, 6)).view, out=ones(place, (4, 3), F64).view)
