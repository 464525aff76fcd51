"""What forward functions save for their gradients: no option is forgotten, and none is given twice."""

from __future__ import annotations

import copy
import math
import pickle
import sys

import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import DOUBLE, HALF
from conftest import refused
from oracle import KINDS

import numbacc
from numbacc import attention, conv, gated, gemm
from numbacc import elementwise as ew
from numbacc.errors import ArgumentsError, DTypeError, LayoutError, OptionError, ShapeError, UnsupportedError
from numbacc.functions.digamma import trigamma

pytestmark = pytest.mark.usefixtures("poison")

CASES = [
    {"mask": "causal"},
    {"mask": "causal_window", "scale": 0.7, "dtype": HALF},
    {"bias": (2, 1, 5, 7), "slopes": True, "dtype": DOUBLE},
    {"lengths": ((3, 7), (5, 0)), "mask": "causal_bottom_right"},
    {"dropout": 0.4, "groups": 2},
]


def numbers(place, arrays):
    return [place.get(array) for array in arrays]


@pytest.mark.parametrize("layout", ["BHSD", "BSHD"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_forgets_nothing(place, case, layout):
    call = Call(place, small(**case), layout)
    arrays, options = call.views("q", "k", "v"), call.keywords
    (do,) = call.views("do")
    o, saved = attention.forward(*arrays, **options, return_saved=True)
    again, stats = attention.forward(*arrays, **options, return_stats=True)
    assert np.array_equal(*numbers(place, (o, again)), equal_nan=True)
    wanted = numbers(place, attention.backward(do, *arrays, o, stats, **options))
    plan = attention.backward.plan(do, saved)
    for found in (attention.backward(do, saved), plan(do, saved)):
        for one, other in zip(numbers(place, found), wanted, strict=True):
            assert np.array_equal(one, other)


def test_attention_saves_beside_what_else_is_asked_for(place):
    call = Call(place, small(bias=(2, 1, 5, 7), mask="causal"))
    arrays, options = call.views("q", "k", "v"), call.keywords
    out = tuple(place.put(np.full(shape, np.nan, np.float32)) for shape in ((2, 2, 5, 8), (2, 2, 5)))
    o, stats, saved = attention.forward(*arrays, **options, return_stats=True, return_saved=True, out=out)
    assert o is out[0] and stats is out[1] and saved.arrays["o"] is o
    (do,) = call.views("do")
    *_, dbias = attention.backward(do, saved, bias_grad=True)
    assert dbias.shape == (2, 1, 5, 7)
    assert repr(saved).startswith("<saved by attention.forward: q, k, v, o, stats, mask='causal', bias=")


def test_options_of_the_gradients_are_as_forwards_where_they_are_not_given(place):
    call = Call(place, small())
    (do,) = call.views("do")
    _, saved = attention.forward(
        *call.views("q", "k", "v"), deterministic=True, workspace_limit=2**20, return_saved=True
    )
    plan = attention.backward.plan(do, saved)
    assert plan.problem.options.deterministic and plan.problem.limit == 2**20
    assert attention.backward.plan(do, saved, workspace_limit=2**21).problem.limit == 2**21


def test_what_attention_refuses(place):
    call = Call(place, small(mask="causal"))
    arrays = call.views("q", "k", "v")
    (do,) = call.views("do")
    o, saved = attention.forward(*arrays, mask="causal", return_saved=True)
    for wrong in ({"mask": None}, {"mask": "causal"}, {"seed": 0}, {"layout": "BHSD"}):
        attention.backward(do, saved, **wrong)
    refused(
        OptionError,
        "mask is given, and saved has another mask from attention.forward",
        run=lambda: attention.backward(do, saved, mask="causal_bottom_right"),
    )
    refused(OptionError, "dropout is given", run=lambda: attention.backward.plan(do, saved, dropout=0.5))
    refused(OptionError, "k is given", run=lambda: attention.backward(do, saved, arrays[2]))
    refused(OptionError, "bias is given", run=lambda: attention.backward(do, saved, bias=do))
    refused(
        ArgumentsError, "stats is missing: call backward(do, saved)", run=lambda: attention.backward(do, *arrays, o)
    )
    refused(ArgumentsError, "q is missing", run=lambda: attention.backward(do, None))
    refused(OptionError, "return_saved", run=lambda: attention.forward(*arrays, return_saved=1))
    refused(OptionError, "page_table_k", run=lambda: attention.forward(*arrays, page_table_k=do, return_saved=True))
    refused(OptionError, "return_amax", run=lambda: attention.forward(*arrays, return_amax=True, return_saved=True))
    _, other = gated.forward(do, return_saved=True)
    refused(DTypeError, "saved comes from gated.forward", run=lambda: attention.backward(do, other))
    refused(DTypeError, "saved comes from attention.forward", run=lambda: gated.backward(do, saved))
    refused(DTypeError, "saved comes from gated.forward", run=lambda: plan_of(do, saved)(do, other))
    refused(DTypeError, "saved is a Saved", run=lambda: gemm.linear_backward(do, other))


def plan_of(do, saved):
    return attention.backward.plan(do, saved)


@pytest.mark.parametrize("kind", KINDS)
def test_gated_forgets_nothing(place, kind):
    rng = np.random.default_rng(4)
    x, dy = (place.put(rng.standard_normal(shape)) for shape in ((6, 4), (3, 4)))
    y, saved = gated.forward(x, kind, axis=0, gate="first", return_saved=True)
    assert np.array_equal(*numbers(place, (y, gated.forward(x, kind, axis=0, gate="first"))))
    wanted = place.get(gated.backward(dy, x, kind, axis=0, gate="first"))
    plan = gated.backward.plan(dy, saved)
    for found in (gated.backward(dy, saved), gated.backward(dy, saved, kind), plan(dy, x)):
        assert np.array_equal(place.get(found), wanted)
    halves = x[:3], x[3:]
    _, saved = gated.forward(halves, kind, gate="first", return_saved=True)
    assert np.array_equal(np.concatenate(numbers(place, gated.backward(dy, saved))), wanted)
    # In place, as without.
    assert gated.backward(dy, gated.forward(x, kind, axis=0, return_saved=True)[1], out=x) is x


def test_what_gated_refuses(place):
    x, dy = (place.put(np.ones(shape, np.float32)) for shape in ((2, 4), (2, 2)))
    _, saved = gated.forward(x, "geglu", return_saved=True)
    refused(
        OptionError,
        "kind is given, and saved has another kind from gated.forward",
        run=lambda: gated.backward(dy, saved, "reglu"),
    )
    refused(OptionError, "axis is given", run=lambda: gated.backward(dy, saved, axis=0))
    refused(OptionError, "return_saved", run=lambda: gated.forward(x, return_saved=None))
    refused(LayoutError, "out shares memory with x", run=lambda: gated.forward(x, out=x[:, :2], return_saved=True))


def elementwise_calls(place):
    """(function, its gradient, operands of both, options that are not the defaults)."""
    rng = np.random.default_rng(7)
    x, other, cos, sin = (place.put(rng.standard_normal(n)) for n in ((4, 6), (4, 6), (4, 3), (4, 3)))
    bias = place.put(rng.standard_normal(4))
    return {
        "dropout": (ew.dropout, ew.dropout_backward, x, (), {"p": 0.25, "seed": 3, "offset": 8}),
        "rope": (ew.rope, ew.rope_backward, x, (cos, sin), {"interleaved": True}),
        "bias": (ew.bias_activation, ew.bias_activation_backward, x, (bias,), {"activation": "gelu", "axis": 0}),
        "residual": (ew.residual_activation, ew.residual_activation_backward, x, (other,), {"activation": "silu"}),
    }


@pytest.mark.parametrize("name", ["dropout", "rope", "bias", "residual"])
def test_elementwise_forgets_nothing(place, name):
    forward, backward, x, more, options = elementwise_calls(place)[name]
    y, saved = forward(x, *more, **options, return_saved=True)
    assert np.array_equal(place.get(y), place.get(forward(x, *more, **options)))
    dy = place.put(np.random.default_rng(8).standard_normal((4, 6)))
    first = () if name in ("dropout", "rope") else (x,)
    wanted, forgotten = (
        backward(dy, *first, *more, **options),
        backward(dy, *first, *more, **({"seed": 3} if name == "dropout" else {"axis": 0} if name == "bias" else {})),
    )
    found = backward(dy, saved)
    pairs = zip(found, wanted, strict=True) if name == "bias" else [(found, wanted)]
    for one, two in pairs:
        assert np.array_equal(place.get(one), place.get(two))
    # The case that it is for.
    one, two = (each[0] if name == "bias" else each for each in (wanted, forgotten))
    assert not np.allclose(place.get(one), place.get(two))
    option, wrong = {
        "dropout": ("offset", 4),
        "rope": ("sin", dy),
        "bias": ("axis", 1),
        "residual": ("activation", "elu"),
    }[name]
    refused(OptionError, f"{option} is given", run=lambda: backward(dy, saved, **{option: wrong}))
    refused(OptionError, "return_saved", run=lambda: forward(x, *more, **options, return_saved=1))
    refused(DTypeError, "saved comes from elementwise", run=lambda: gated.backward(dy, saved))


def test_what_elementwise_refuses(place):
    x, dy = (place.put(np.ones((2, 4), np.float32)) for _ in range(2))
    refused(ArgumentsError, "seed is missing", run=lambda: ew.dropout_backward(dy))
    for function, name in (
        (ew.bias_activation_backward, "bias"), (ew.residual_activation_backward, "residual"), (ew.rope_backward, "sin"),
    ):  # fmt: skip
        words = f"{name} is missing: call {function.__name__}(dy, saved), or give"
        refused(ArgumentsError, words, run=lambda function=function: function(dy, x))
    refused(
        LayoutError,
        "out shares memory with residual",
        run=lambda: ew.residual_activation(x, dy, out=dy, return_saved=True),
    )
    refused(LayoutError, "out shares memory with x", run=lambda: ew.bias_activation(x, dy[0], out=x, return_saved=True))
    # What is not kept may be overwritten.
    y, saved = ew.dropout(x, 0.5, seed=1, out=x, return_saved=True)
    assert y is x and place.get(ew.dropout_backward(dy, saved)).shape == (2, 4)


NORMS = [
    ("rms_norm", 0, {"eps": 0.5}),
    ("rms_norm", 1, {"eps": 0.5}),
    ("layer_norm", 0, {"eps": 0.5}),
    ("layer_norm", 1, {"eps": 0.5}),
    ("layer_norm", 2, {"eps": 0.5}),
    ("softmax", 0, {"axis": 0}),
    ("log_softmax", 0, {"axis": 0}),
]


@pytest.mark.parametrize(("name", "weights", "options"), NORMS)
def test_norms_forget_nothing(place, name, weights, options):
    rng = np.random.default_rng(9)
    x, dy = (place.put(rng.standard_normal((4, 6))) for _ in range(2))
    more = [place.put(rng.standard_normal(6)) for _ in range(weights)]
    forward, backward = getattr(ew, name), getattr(ew, f"{name}_backward")
    y, saved = forward(x, *more, **options, return_saved=True)
    assert np.array_equal(*numbers(place, (y, forward(x, *more, **options))))
    first = y if "softmax" in name else x
    flag = {"bias": True} if weights == 2 else {}
    wanted = several(place, backward(dy, first, *more[:1], **flag, **options))
    option, value = next(iter(options.items()))
    again = backward(dy, saved, **options, **flag)
    for found in (backward(dy, saved), again):
        found = several(place, found)
        assert len(found) == len(wanted) == 1 + weights
        assert all(np.array_equal(*pair) for pair in zip(found, wanted, strict=True))
    # The case that it is for.
    assert not np.allclose(several(place, backward(dy, first, *more[:1]))[0], wanted[0])
    refused(OptionError, f"{option} is given", run=lambda: backward(dy, saved, **{option: value + 0.5}))
    refused(OptionError, "return_saved", run=lambda: forward(x, *more, return_saved=1))
    refused(DTypeError, f"saved comes from elementwise.{name}", run=lambda: gated.backward(dy, saved))


def several(place, found):
    return numbers(place, found if isinstance(found, tuple) else (found,))


def test_what_norms_refuse(place):
    x, dy, weight = (place.put(np.ones(shape, np.float32)) for shape in ((2, 4), (2, 4), 4))
    for norm in (ew.rms_norm, ew.layer_norm):
        refused(LayoutError, "out shares memory with x", run=lambda norm=norm: norm(x, out=x, return_saved=True))
    _, saved = ew.rms_norm(x, weight, return_saved=True)
    refused(OptionError, "weight is given", run=lambda: ew.rms_norm_backward(dy, saved, dy[0]))
    refused(DTypeError, "pass the object that", run=lambda: ew.layer_norm_backward(dy, saved))
    refused(OptionError, "axis is given", run=lambda: ew.softmax_backward(dy, softmax_of(dy), axis=0))
    # Softmax keeps its result alone: x may be overwritten.
    y, saved = ew.softmax(x, out=x, return_saved=True)
    assert y is x and saved.arrays["y"] is x


def softmax_of(x):
    return ew.softmax(x, return_saved=True)[1]


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_cross_entropy_forgets_nothing(place, reduction, smoothing):
    rng = np.random.default_rng(10)
    x, target = place.put(rng.standard_normal((5, 5))), place.put(np.array([1, 0, 3, 2, 4]))
    options = {"axis": 0, "reduction": reduction, "ignore_index": 3, "label_smoothing": smoothing}
    loss, stats, saved = ew.cross_entropy(x, target, **options, return_stats=True, return_saved=True)
    again, kept = ew.cross_entropy(x, target, **options, return_saved=True)
    plain = ew.cross_entropy(x, target, **options)
    dy = place.put(rng.standard_normal(5)) if reduction == "none" else 2.0
    wanted = place.get(ew.cross_entropy_backward(dy, x, target, stats=stats, **options))
    assert all(np.array_equal(place.get(loss), place.get(each), equal_nan=True) for each in (again, plain))
    for found in (
        ew.cross_entropy_backward(dy, saved),
        ew.cross_entropy_backward(dy, kept),
        ew.cross_entropy_backward(dy, saved, target, stats=stats, **options),
    ):
        assert np.array_equal(place.get(found), wanted)
    for option in ("axis", "ignore_index"):
        forgotten = {name: value for name, value in options.items() if name != option}
        assert not np.allclose(place.get(ew.cross_entropy_backward(dy, x, target, **forgotten)), wanted)
    assert ew.cross_entropy_backward(dy, saved, out=x) is x
    assert np.array_equal(place.get(x), wanted)


def test_what_cross_entropy_refuses(place):
    x, target = place.put(np.ones((2, 4), np.float32)), place.put(np.array([0, 1]))
    _, saved = ew.cross_entropy(x, target, label_smoothing=0.1, return_saved=True)
    for option, wrong in {"axis": 0, "reduction": "sum", "ignore_index": 1, "label_smoothing": 0.2}.items():
        refused(
            OptionError,
            f"{option} is given",
            run=lambda option=option, wrong=wrong: ew.cross_entropy_backward(1.0, saved, **{option: wrong}),
        )
    refused(OptionError, "target is given", run=lambda: ew.cross_entropy_backward(1.0, saved, x))
    refused(ArgumentsError, "target is missing", run=lambda: ew.cross_entropy_backward(1.0, x))
    refused(OptionError, "return_saved", run=lambda: ew.cross_entropy(x, target, return_saved=1))
    refused(OptionError, "return_stats", run=lambda: ew.cross_entropy(x, target, return_stats=1, return_saved=True))
    refused(DTypeError, "pass the object that", run=lambda: ew.softmax_backward(x, saved))


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_convolutions_forget_nothing(place, layout):
    """Options with which the shapes fit, but for which the gradients differ."""
    rng = np.random.default_rng(5)
    last = layout == "NHWC"
    x, w = (
        place.put(rng.standard_normal(s))
        for s in (((2, 7, 7, 4), (6, 3, 3, 2)) if last else ((2, 4, 7, 7), (6, 2, 3, 3)))
    )
    options = {"stride": 2, "padding": 2, "dilation": 2, "groups": 2, "layout": layout, "flip": True, "alpha": 0.5}
    y, saved = conv.forward(x, w, **options, return_saved=True)
    assert np.array_equal(place.get(y), place.get(conv.forward(x, w, **options)))
    dy = place.put(rng.standard_normal(y.shape))
    wanted = place.get(conv.backward_data(dy, w, x.shape, **options))
    plan = conv.backward_data.plan(dy, saved)
    for found in (conv.backward_data(dy, saved), plan(dy, w), conv.backward_data(dy, saved, x.shape, stride=2)):
        assert np.array_equal(place.get(found), wanted)
    forgotten = conv.backward_data(dy, w, x.shape, **{**options, "flip": False, "alpha": 1.0})
    assert not np.allclose(place.get(forgotten), wanted)
    wanted = place.get(conv.backward_filter(x, dy, w.shape, **options))
    plan = conv.backward_filter.plan(saved, dy)
    for found in (conv.backward_filter(saved, dy), plan(x, dy)):
        assert np.array_equal(place.get(found), wanted)
    out = place.put(np.ones(w.shape))
    conv.backward_filter(saved, dy, beta=1.0, out=out)
    np.testing.assert_allclose(place.get(out), wanted + 1, rtol=1e-12)


def test_what_convolutions_refuse(place):
    x, w = (place.put(np.ones(s, np.float32)) for s in ((1, 2, 6), (3, 2, 3)))
    y, saved = conv.forward(x, w, layout="NCW", padding=1, return_saved=True)
    refused(OptionError, "padding is given", run=lambda: conv.backward_data(y, saved, padding=2))
    refused(OptionError, "x_shape is given", run=lambda: conv.backward_data(y, saved, (1, 2, 7)))
    for run, name, arrays in (
        (conv.backward_data, "x_shape", (y, w)), (conv.backward_data.plan, "x_shape", (y, w)),
        (conv.backward_filter, "w_shape", (x, y)), (conv.backward_filter.plan, "w_shape", (x, y)),
    ):  # fmt: skip
        words = f"{name} is missing: call {run.__qualname__.removesuffix('.plan')}(", "saved", "return_saved=True"
        refused(ArgumentsError, *words, run=lambda run=run, arrays=arrays: run(*arrays, layout="NCW"))
    refused(
        OptionError,
        "relu",
        "elementwise",
        run=lambda: conv.forward(x, w, layout="NCW", activation="relu", return_saved=True),
    )
    refused(OptionError, "return_saved", run=lambda: conv.forward(x, w, layout="NCW", return_saved=None))
    refused(DTypeError, "saved comes from conv.forward", run=lambda: attention.backward(y, saved))
    plan = conv.backward_data.plan(
        y, conv.forward(x, w, layout="NCW", padding=1, deterministic=True, return_saved=True)[1]
    )
    assert plan.info.deterministic


NOTHING_IS_WRITTEN = [
    ("softmax", lambda x, **more: ew.softmax(x, **more)),
    ("log_softmax", lambda x, **more: ew.log_softmax(x, **more)),
    ("dropout", lambda x, **more: ew.dropout(x, 0.5, seed=1, **more)),
    ("rope", lambda x, **more: ew.rope(x, x[:, :2], x[:, 2:], **more)),
    ("rms_norm", lambda x, **more: ew.rms_norm(x, **more)),
    ("layer_norm", lambda x, **more: ew.layer_norm(x, **more)),
    ("bias_activation", lambda x, **more: ew.bias_activation(x, x[0], **more)),
    ("residual_activation", lambda x, **more: ew.residual_activation(x, x, **more)),
    ("gated", lambda x, **more: gated.forward((x, x), **more)),
    (
        "conv",
        lambda x, **more: conv.forward(x.reshape(1, 2, 4), x[:, :2].copy().reshape(2, 2, 1), layout="NCW", **more),
    ),
]


@pytest.mark.parametrize(("name", "call"), NOTHING_IS_WRITTEN, ids=[name for name, _ in NOTHING_IS_WRITTEN])
@pytest.mark.parametrize("wrong", [1, None, "yes"])
def test_nothing_is_written_where_return_saved_is_wrong(place, name, call, wrong):
    x = place.put(np.random.default_rng(11).standard_normal((2, 4)))
    out = place.put(np.full((2, 4) if name != "conv" else (1, 2, 4), np.nan))
    refused(OptionError, f"return_saved={wrong!r}", run=lambda: call(x, out=out, return_saved=wrong))
    assert np.isnan(place.get(out)).all()


def test_attention_writes_nothing_where_return_stats_is_wrong(place):
    q, k, v = Call(place, small()).views("q", "k", "v")
    out = tuple(place.put(np.full(shape, np.nan, np.float32)) for shape in ((2, 2, 5, 8), (2, 2, 5)))
    options = {"return_stats": 1, "return_saved": True, "out": out}
    refused(OptionError, "return_stats=1", run=lambda: attention.forward(q, k, v, **options))
    assert all(np.isnan(each).all() for each in numbers(place, out))


#: (function, number of its arrays, options that are not the defaults, a wrong one).
PARAMETERS = [
    ("leaky_relu", 1, {"negative_slope": 0.3}, {"negative_slope": 0.2}),
    ("elu", 1, {"alpha": 2.5}, {"alpha": 2.0}),
    ("celu", 1, {"alpha": 2.5}, {"alpha": 2.0}),
    ("softplus", 1, {"beta": 0.5, "threshold": 0.2}, {"threshold": 0.1}),
    ("hardtanh", 1, {"min_val": -0.25, "max_val": 0.5}, {"max_val": 2.0}),
    ("softshrink", 1, {"lambd": 1.0}, {"lambd": 2.0}),
    ("hardshrink", 1, {"lambd": 1.0}, {"lambd": 2.0}),
    ("addcmul", 3, {"value": 0.25}, {"value": 2.0}),
    ("addcdiv", 3, {"value": 0.25}, {"value": 2.0}),
]


def slope_of(name, x, options):
    """The derivative of a function of one array, as mathematics has it."""
    if name == "leaky_relu":
        return np.where(x > 0, 1, options["negative_slope"])
    if name == "elu":
        return np.where(x > 0, 1, options["alpha"] * np.exp(x))
    if name == "celu":
        return np.where(x > 0, 1, np.exp(x / options["alpha"]))
    if name == "softplus":
        scaled = options["beta"] * x
        return np.where(scaled > options["threshold"], 1, 1 / (1 + np.exp(-scaled)))
    if name == "hardtanh":
        return (x > options["min_val"]) & (x < options["max_val"])
    return np.abs(x) > options["lambd"]


@pytest.mark.parametrize(("name", "count", "options", "wrong"), PARAMETERS, ids=[each[0] for each in PARAMETERS])
def test_parameters_are_not_forgotten(place, name, count, options, wrong):
    rng = np.random.default_rng(12)
    hosts, seed = [rng.standard_normal((4, 6)) + (k == 2) * 3 for k in range(count)], rng.standard_normal((4, 6))
    arrays, dy = [place.put(each) for each in hosts], place.put(seed)
    forward, backward = getattr(ew, name), getattr(ew, f"{name}_backward")
    y, saved = forward(*arrays, **options, return_saved=True)
    assert np.array_equal(*numbers(place, (y, forward(*arrays, **options))))
    found = several(place, backward(dy, saved))
    value = options.get("value")
    if name == "addcmul":
        wanted = [seed, seed * value * hosts[2], seed * value * hosts[1]]
    elif name == "addcdiv":
        wanted = [seed, seed * value / hosts[2], -seed * value * hosts[1] / hosts[2] ** 2]
    else:
        wanted = [seed * slope_of(name, hosts[0], options)]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    again = several(place, backward(dy, saved, *arrays[1:], **options))
    assert all(np.array_equal(*pair) for pair in zip(found, again, strict=True))
    # The case that it is for.
    forgotten = several(place, backward(dy, *arrays))
    assert not np.allclose(forgotten[-1], wanted[-1])
    (option,) = wrong
    refused(OptionError, f"{option} is given", run=lambda: backward(dy, saved, **wrong))
    refused(OptionError, "return_saved=1", run=lambda: forward(*arrays, return_saved=1))
    refused(DTypeError, f"saved comes from elementwise.{name}", run=lambda: gated.backward(dy, saved))
    # A saved array is not overwritten. Gradients have no `where`.
    for array, called in zip(arrays, ("x", "x1", "x2"), strict=False):
        kept = place.get(array).copy()
        refused(
            LayoutError,
            f"out shares memory with {called}",
            run=lambda array=array: forward(*arrays, out=array, return_saved=True),
        )
        assert np.array_equal(place.get(array), kept)
    mask = place.put(np.ones((4, 6), bool))
    refused(OptionError, "where", run=lambda: forward(*arrays, out=y, where=mask, return_saved=True))
    # In place, as without.
    if count == 1:
        assert backward(dy, saved, out=arrays[0]) is arrays[0]
        np.testing.assert_allclose(place.get(arrays[0]), wanted[0], rtol=1e-12, atol=1e-12)


def test_numbers_among_operands_are_saved(place):
    x = place.put(np.array([[1.0, -2.0]]))
    y, saved = ew.addcmul(x, 3.0, x, value=0.5, out=place.put(np.zeros((1, 2))), return_saved=True)
    dx, dx2 = ew.addcmul_backward(x, saved)
    assert place.get(y).tolist() == [[2.5, -5.0]]
    assert place.get(dx).tolist() == [[1.0, -2.0]] and place.get(dx2).tolist() == [[1.5, -3.0]]
    refused(ArgumentsError, "x1 is missing: call addcmul_backward(dy, saved)", run=lambda: ew.addcmul_backward(x, x))
    refused(ArgumentsError, "x2 is missing", run=lambda: ew.addcdiv_backward(x, x, x))


#: (function, options, those without which the gradient is silently another).
REDUCTIONS = [
    ("var", {"axis": 1, "correction": 1}, ["correction"]),
    ("var", {"axis": (0, 2), "correction": 0.5, "keepdims": True}, ["correction"]),
    ("std", {"axis": -1, "correction": 1}, ["correction"]),
    ("std", {"correction": 2}, ["correction"]),
    ("norm", {"axis": 0, "ord": 3}, ["ord"]),
    ("norm", {"axis": 0, "ord": 1, "keepdims": True}, ["ord"]),
    ("norm", {"ord": float("inf")}, ["ord"]),
    ("logsumexp", {"axis": 2}, []),
    ("logsumexp", {"axis": (1, 0), "keepdims": True}, []),
]


def gradient_of_reduction(name, x, dy, axis=None, keepdims=False, correction=0, ord=2):
    """By the formulas of textbooks, in NumPy."""
    axes = tuple(range(x.ndim)) if axis is None else axis
    if not keepdims:
        dy = np.expand_dims(dy, axes)
    count = x.size // dy.size
    if name == "logsumexp":
        return dy * np.exp(x) / np.exp(x).sum(axes, keepdims=True)
    if name == "norm":
        if ord == float("inf"):
            return dy * np.sign(x) * (np.abs(x) == np.abs(x).max(axes, keepdims=True))
        total = (np.abs(x) ** ord).sum(axes, keepdims=True) ** (1 / ord)
        return dy * np.sign(x) * (np.abs(x) / total) ** (ord - 1)
    distance = x - x.mean(axes, keepdims=True)
    if name == "var":
        return 2 * dy * distance / (count - correction)
    return dy * distance / ((count - correction) * x.std(axes, ddof=correction, keepdims=True))


@pytest.mark.parametrize(("name", "options", "silent"), REDUCTIONS, ids=str)
def test_reductions_forget_nothing(place, name, options, silent):
    rng = np.random.default_rng(13)
    host = rng.standard_normal((3, 4, 5))
    x, forward, backward = place.put(host), getattr(ew, name), getattr(ew, f"{name}_backward")
    y, saved = forward(x, **options, return_saved=True)
    assert np.array_equal(*numbers(place, (y, forward(x, **options))))
    seed = rng.standard_normal(y.shape)
    dy = place.put(seed)
    found = place.get(backward(dy, saved))
    wanted = gradient_of_reduction(name, host, seed, **options)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert np.array_equal(place.get(backward(dy, saved, **options)), found)
    # The case that it is for: without other options shapes differ, and the call raises.
    for option in silent:
        forgotten = {each: value for each, value in options.items() if each != option}
        assert not np.allclose(place.get(backward(dy, x, **forgotten)), wanted)
    for option in options.keys() - set(silent):
        forgotten = {each: value for each, value in options.items() if each != option}
        refused(ShapeError, "dy has shape", run=lambda forgotten=forgotten: backward(dy, x, **forgotten))
        refused(OptionError, f"{option} is given", run=lambda option=option: backward(dy, saved, **{option: 7}))
    refused(OptionError, "return_saved=1", run=lambda: forward(x, return_saved=1))
    refused(DTypeError, f"saved comes from elementwise.{name}", run=lambda: gated.backward(dy, saved))
    assert backward(dy, saved, out=x) is x
    assert np.array_equal(place.get(x), found)


def test_reductions_of_integers_have_no_gradient(place):
    x = place.put(np.array([1, 2]))
    y, saved = ew.norm(x, return_saved=True)
    refused(DTypeError, "x has dtype int64; norm_backward needs floats", run=lambda: ew.norm_backward(y, saved))


def gradient_of_scan(name, x, dy, reverse):
    """Gradients of rows by the definition: every y depends on every x before it."""
    if reverse:
        return gradient_of_scan(name, x[..., ::-1], dy[..., ::-1], False)[..., ::-1]
    dx = np.zeros(x.shape)
    for j in range(x.shape[-1]):
        for i in range(j, x.shape[-1]):
            others = np.delete(x[..., : i + 1], j, -1)
            dx[..., j] += dy[..., i] * (others.prod(-1) if name == "cumprod" else 1)
    return dx


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("axis", [0, -1, None])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_forget_nothing(place, name, axis, reverse):
    rng = np.random.default_rng(14)
    host = rng.standard_normal((3, 4))
    x, forward, backward = place.put(host), getattr(ew, name), getattr(ew, f"{name}_backward")
    options = {"axis": axis, "reverse": reverse}
    y, saved = forward(x, **options, return_saved=True)
    assert np.array_equal(*numbers(place, (y, forward(x, **options))))
    seed = rng.standard_normal(y.shape)
    dy = place.put(seed)
    rows = (host.reshape(-1), seed) if axis is None else (np.moveaxis(each, axis, -1) for each in (host, seed))
    wanted = gradient_of_scan(name, *rows, reverse)
    wanted = wanted.reshape(3, 4) if axis is None else np.moveaxis(wanted, -1, axis)
    out = place.put(np.full((3, 4), np.nan))
    found = backward(dy, saved)
    assert found.shape == (3, 4)
    np.testing.assert_allclose(place.get(found), wanted, rtol=1e-12, atol=1e-12)
    assert np.array_equal(place.get(backward(dy, saved, **options)), place.get(found))
    assert backward(dy, saved, out=out) is out
    assert np.array_equal(place.get(out), place.get(found))
    operands = [] if name == "cumsum" else [x]
    if reverse and axis is not None:
        # The case that it is for.
        assert not np.allclose(place.get(backward(dy, *operands, axis=axis)), wanted)
    if not reverse:
        refused(OptionError, "reverse is given", run=lambda: backward(dy, saved, reverse=True))
    refused(OptionError, "axis is given", run=lambda: backward(dy, saved, axis=1))
    refused(OptionError, "return_saved=1", run=lambda: forward(x, return_saved=1))
    refused(ArgumentsError, f"axis is missing: call {name}_backward(dy, saved)", run=lambda: backward(dy, *operands))
    refused(DTypeError, f"saved comes from elementwise.{name}", run=lambda: gated.backward(dy, saved))
    if axis is None:
        refused(ShapeError, "out has shape (12,)", run=lambda: backward(dy, saved, out=out.reshape(-1)))
        refused(LayoutError, "not C-contiguous", run=lambda: backward(dy, saved, out=place.put(np.ones((4, 3))).T))


def test_scans_save_what_they_need_alone(place):
    host = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    x = place.put(host)
    # The sums need nothing of x but its shape and dtype: it may be overwritten.
    y, saved = ew.cumsum(x, axis=1, dtype="float64", out=None, return_saved=True)
    dx = ew.cumsum_backward(y, saved)
    assert dx.dtype == np.float32 and place.get(dx).tolist() == [[10.0, 9.0, 6.0], [28.0, 24.0, 15.0]]
    assert not saved.arrays
    y, saved = ew.cumsum(x, axis=1, out=x, return_saved=True)
    assert y is x and place.get(ew.cumsum_backward(x, saved)).tolist() == [[10.0, 9.0, 6.0], [28.0, 24.0, 15.0]]
    refused(LayoutError, "out shares memory with x", run=lambda: ew.cumprod(x, out=x, axis=0, return_saved=True))
    # A transposed x in one row, and one element.
    columns = place.put(np.array([[2.0, 3.0], [4.0, 5.0]])).T
    y, saved = ew.cumprod(columns, return_saved=True)
    dx = ew.cumprod_backward(place.put(np.array([0.0, 1.0, 0.0, 0.0])), saved)
    assert place.get(dx).tolist() == [[4.0, 2.0], [0.0, 0.0]]
    y, saved = ew.cumsum(place.put(np.array(2.0)), return_saved=True)
    assert ew.cumsum_backward(y, saved).shape == ()
    y, saved = ew.cumsum(place.put(np.array([1, 2])), axis=0, return_saved=True)
    dy = place.put(np.ones(2))
    refused(DTypeError, "x has dtype int64; cumsum_backward needs", run=lambda: ew.cumsum_backward(dy, saved))
    refused(DTypeError, "saved is a", run=lambda: ew.cumsum_backward(dy, dy, axis=0))
    refused(OptionError, "dtype is given", run=lambda: ew.cumsum_backward(dy, saved, dtype="float32"))


def test_gathers_forget_nothing(place):
    rng = np.random.default_rng(15)
    x, seed, indices = rng.standard_normal((4, 4)), rng.standard_normal((4, 4)), rng.integers(0, 4, (4, 4))
    wanted = np.zeros((4, 4))
    for i, j in np.ndindex(4, 4):
        wanted[indices[i, j], j] += seed[i, j]
    dy, chosen = place.put(seed), place.put(indices)
    y, saved = ew.take_along_axis(place.put(x), chosen, axis=0, return_saved=True)
    assert np.array_equal(place.get(y), np.take_along_axis(x, indices, 0))
    out = place.put(np.full((4, 4), np.nan))
    for found in (
        ew.take_along_axis_backward(dy, saved),
        ew.take_along_axis_backward(dy, saved, chosen, axis=0),
        ew.take_along_axis_backward(dy, saved, out=out),
    ):
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-12, atol=1e-12)
    # The case that it is for.
    assert not np.allclose(place.get(ew.take_along_axis_backward(dy, (4, 4), chosen)), wanted)
    refused(OptionError, "axis is given", run=lambda: ew.take_along_axis_backward(dy, saved, axis=1))
    refused(OptionError, "indices is given", run=lambda: ew.take_along_axis_backward(dy, saved, dy))
    refused(ArgumentsError, "indices is missing", run=lambda: ew.take_along_axis_backward(dy, dy))
    refused(OptionError, "return_saved=1", run=lambda: ew.take_along_axis(dy, chosen, return_saved=1))
    refused(DTypeError, "pass the object that", run=lambda: ew.cumsum_backward(dy, saved))


# ---------------------------------------------------------------- custom kernels and reductions

slope = 2.0


@ew.kernel
def scaled_tanh(x, s, shift=0.0):
    return slope * s * math.tanh(x / s + shift)


@ew.reduction(after=lambda total, count, eps=0.0: math.sqrt(slope * total / count + eps))
def scaled_rms(x):
    return x * x


@ew.kernel
def product_and_sum(a, b):
    return a * b, a + b


def tanh_gradients(dy, x, s, shift, slope=2.0):
    t = np.tanh(x / s + shift)
    return dy * slope * (1 - t * t), dy * slope * (t - (1 - t * t) * x / s)


def rms_gradient(dy, x, axis, eps, slope=2.0):
    count = x.shape[axis]
    y = np.sqrt(slope * np.square(x).sum(axis, keepdims=True) / count + eps)
    return dy * slope * x / count / y


def test_kernels_of_ones_own_forget_nothing(place):
    rng = np.random.default_rng(21)
    x, s, dy = rng.standard_normal((4, 6)), rng.uniform(1, 2, (4, 6)), rng.standard_normal((4, 6))
    a, b, d = map(place.put, (x, s, dy))
    y, saved = scaled_tanh(a, b, shift=0.5, return_saved=True)
    np.testing.assert_allclose(place.get(y), 2 * s * np.tanh(x / s + 0.5), rtol=1e-12)
    assert repr(saved) == "<saved by elementwise.scaled_tanh: x, s, shift=0.5>"
    for found in (
        scaled_tanh.backward(d, saved),
        scaled_tanh.backward(d, saved, b, 0.5),
        scaled_tanh.backward(d, saved, s=b, shift=0.5),
        pickle.loads(pickle.dumps(scaled_tanh)).backward(d, saved),
        copy.deepcopy(scaled_tanh).backward(d, saved),
    ):
        for one, wanted in zip(found, tanh_gradients(dy, x, s, 0.5), strict=True):
            np.testing.assert_allclose(place.get(one), wanted, rtol=1e-11, atol=1e-12)
    # The case that it is for.
    assert not np.allclose(place.get(scaled_tanh.backward(d, a, b)[0]), tanh_gradients(dy, x, s, 0.5)[0])
    # Numbers are kept, too, and the gradients may be written over the arguments.
    _, saved = scaled_tanh(a, 1.5, 0.25, return_saved=True)
    assert saved.arrays["s"] == 1.5 and saved.options == {"shift": 0.25}
    assert scaled_tanh.backward(d, saved, out=(a,))[0] is a
    np.testing.assert_allclose(place.get(a), tanh_gradients(dy, x, 1.5, 0.25)[0], rtol=1e-11, atol=1e-12)
    # Several results.
    (_, _), saved = product_and_sum(d, b, return_saved=True)
    one, two = product_and_sum.backward((d, b), saved)
    np.testing.assert_allclose(place.get(one), dy * s + s, rtol=1e-12)
    np.testing.assert_allclose(place.get(two), dy * dy + s, rtol=1e-12)
    refused(OptionError, "dy is 1 arrays", run=lambda: product_and_sum.backward(d, saved))
    # Integers have no gradient.
    _, saved = product_and_sum(place.put(np.ones((4, 6), np.int32)), b, return_saved=True)
    assert product_and_sum.backward((d, d), saved)[0] is None


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, [-1]], ids=str)
def test_reductions_of_ones_own_forget_nothing(place, axis, keepdims):
    rng = np.random.default_rng(22)
    x = rng.standard_normal((5, 5))
    one = axis if isinstance(axis, int) else axis[0]
    dy = rng.standard_normal(5).reshape((1, 5) if one == 0 else (5, 1))
    a, d = place.put(x), place.put(dy if keepdims else dy.reshape(5))
    y, saved = scaled_rms(a, axis=axis, keepdims=keepdims, eps=0.5, return_saved=True)
    wanted = np.sqrt(2 * np.square(x).mean(one, keepdims=keepdims) + 0.5)
    np.testing.assert_allclose(place.get(y), wanted, rtol=1e-12)
    if isinstance(axis, list):
        axis.clear()  # the user's list is not kept
        axis.append(-1)
    wanted = rms_gradient(dy, x, one, 0.5)
    for (found,) in (
        scaled_rms.backward(d, saved),
        scaled_rms.backward(d, saved, eps=0.5, axis=axis, keepdims=keepdims),
        pickle.loads(pickle.dumps(scaled_rms)).backward(d, saved),
    ):
        np.testing.assert_allclose(place.get(found), wanted, rtol=1e-11, atol=1e-12)
    # The case that it is for: the shapes fit.
    forgotten = {"axis": one, "keepdims": keepdims}
    assert not np.allclose(place.get(scaled_rms.backward(d, a, **forgotten)[0]), wanted)
    refused(OptionError, "axis is given", run=lambda: scaled_rms.backward(d, saved, axis=-1 if one == 0 else 0))
    refused(OptionError, "eps is given", run=lambda: scaled_rms.backward(d, saved, eps=0.25))
    if not keepdims:
        refused(OptionError, "keepdims is given", run=lambda: scaled_rms.backward(d, saved, keepdims=True))
    assert scaled_rms.backward(d, saved, out=(a,))[0] is a
    np.testing.assert_allclose(place.get(a), wanted, rtol=1e-11, atol=1e-12)


def test_gradients_are_those_of_the_call_that_saved(place, monkeypatch):
    """Globals change in between: the gradient has the values of the call that saved it."""
    module = sys.modules[__name__]
    x, dy = np.random.default_rng(23).standard_normal((2, 3, 4))
    a, d = place.put(x), place.put(dy)
    saves, totals = [], []
    # The last one is that of before, once more.
    for value in (2.0, 5.0, 2.0):
        monkeypatch.setattr(module, "slope", value)
        saves.append((value, scaled_tanh(a, 2.0, return_saved=True)[1]))
        totals.append((value, scaled_rms(a, axis=1, keepdims=True, return_saved=True)[1]))
    monkeypatch.setattr(module, "slope", 11.0)
    seed = place.put(dy[:, :1])
    for value, saved in saves:
        (found,) = scaled_tanh.backward(d, saved)
        np.testing.assert_allclose(place.get(found), tanh_gradients(dy, x, 2.0, 0.0, value)[0], rtol=1e-11, atol=1e-12)
    for value, saved in totals:
        (found,) = scaled_rms.backward(seed, saved)
        np.testing.assert_allclose(place.get(found), rms_gradient(dy[:, :1], x, 1, 0.0, value), rtol=1e-11, atol=1e-12)
    # Without a saved object, the current values count.
    (found,) = scaled_tanh.backward(d, a, 2.0)
    np.testing.assert_allclose(place.get(found), tanh_gradients(dy, x, 2.0, 0.0, 11.0)[0], rtol=1e-11, atol=1e-12)
    # Values inside a list count as they were, too.
    table = [3.0]
    own = ew.kernel(lambda x: table[0] * x * x)
    _, saved = own(a, return_saved=True)
    table[0] = 100.0
    np.testing.assert_allclose(place.get(own.backward(d, saved)[0]), 6 * x * dy, rtol=1e-12)


def test_saved_objects_belong_to_their_kernel(place):
    x = place.put(np.ones((2, 4)))
    _, saved = scaled_tanh(x, 1.0, return_saved=True)
    _, total = scaled_rms(x, axis=0, keepdims=True, return_saved=True)
    words = "saved comes from scaled_tanh", "product_and_sum.backward"
    refused(OptionError, *words, run=lambda: product_and_sum.backward((x, x), saved))
    words = "saved comes from scaled_rms", "scaled_tanh.backward"
    refused(OptionError, *words, run=lambda: scaled_tanh.backward(x, total))
    words = "saved comes from scaled_tanh", "scaled_rms.backward"
    refused(OptionError, *words, run=lambda: scaled_rms.backward(x, saved))
    # A cell of a notebook that ran again made another kernel.
    again = ew.kernel(scaled_tanh.py_func)
    refused(OptionError, "another scaled_tanh", "definition", run=lambda: again.backward(x, saved))
    # And the built-in functions.
    _, other = ew.softmax(x, return_saved=True)
    words = "saved comes from elementwise.softmax", "object that scaled_tanh(..., return_saved=True) returned"
    refused(DTypeError, *words, run=lambda: scaled_tanh.backward(x, other))
    refused(DTypeError, "elementwise.scaled_tanh", "elementwise.softmax", run=lambda: ew.softmax_backward(x, saved))
    refused(DTypeError, "elementwise.scaled_tanh", run=lambda: ew.elu_backward(x, saved))
    refused(OptionError, "s is given", run=lambda: scaled_tanh.backward(x, saved, x))
    refused(OptionError, "shift is given", run=lambda: scaled_tanh.backward(x, saved, shift=1.0))
    refused(ArgumentsError, "backward(dy, saved)", run=lambda: scaled_tanh.backward(x, saved, no_such=1))
    refused(ArgumentsError, "backward(dy, saved)", run=lambda: scaled_tanh.backward(x, saved, x, 1.0, 2.0))


def test_what_kernels_of_ones_own_refuse(place):
    host = np.arange(8.0).reshape(2, 4)
    x, y = place.put(host), place.put(host + 1)
    where = place.put(np.ones((2, 4), bool))
    own = ew.kernel(lambda a, b: a * b)
    total = ew.reduction(lambda a, b: a * b)
    for name, out in (("a", x), ("b", y), ("a", x[:, ::-1])):
        words = f"out shares memory with {name}, which backward needs"
        refused(LayoutError, words, run=lambda out=out: own(x, y, out=out, return_saved=True))
    refused(
        LayoutError, "out shares memory with b", run=lambda: product_and_sum(x, y, out=(where, y), return_saved=True)
    )
    refused(LayoutError, "shares memory with b", run=lambda: total(x, y, axis=0, out=y[0], return_saved=True))
    refused(OptionError, "where=", run=lambda: own(x, y, out=where, where=where, return_saved=True))
    for made in (own, total):
        refused(OptionError, "return_saved=1", run=lambda made=made: made(x, y, return_saved=1))
    # Nothing was written.
    assert np.array_equal(place.get(x), host) and np.array_equal(place.get(y), host + 1)
    # A kernel without a gradient raises before it computes anything.
    out = place.put(np.zeros((2, 4)))
    rounds = ew.kernel(lambda a: trigamma(a))
    refused(UnsupportedError, "derivative", run=lambda: rounds(y, out=out, return_saved=True))
    most = ew.reduction(lambda a: a, merge="prod")
    refused(
        UnsupportedError, "does not support gradients", run=lambda: most(y, axis=1, out=out[:, 0], return_saved=True)
    )
    assert not place.get(out).any()
    for make in (ew.kernel, ew.reduction):
        words = "return_saved is a parameter of <lambda> and of every call"
        refused(OptionError, words, run=lambda make=make: make(lambda x, return_saved=1.0: x))
        refused(OptionError, words, run=lambda make=make: make(lambda return_saved: return_saved))
    after = lambda total, return_saved=1.0: total  # noqa: E731
    refused(OptionError, "return_saved is a parameter", run=lambda: ew.reduction(lambda x: x, after=after))


def test_kernels_of_ones_own_save_views(place):
    """Strided, broadcast and permuted arguments: the views are kept as they are."""
    whole = np.random.default_rng(24).standard_normal((6, 8)).astype(np.float32)
    a = place.put(whole)
    for view in (lambda x: x[::2, 1::3], lambda x: x[::-1, ::-2].T, lambda x: x[:, :1]):
        x, seed = view(whole).astype(np.float64), np.broadcast_to(view(whole), view(whole).shape).astype(np.float64)
        y, saved = scaled_tanh(view(a), 2.0, return_saved=True)
        assert saved.arrays["x"].strides == view(a).strides
        (found,) = scaled_tanh.backward(view(a), saved)
        np.testing.assert_allclose(place.get(found), tanh_gradients(seed, x, 2.0, 0.0)[0], rtol=2e-5, atol=1e-6)
        _, saved = scaled_rms(view(a), axis=0, return_saved=True)
        (found,) = scaled_rms.backward(y[0], saved)
        wanted = rms_gradient(place.get(y)[:1].astype(float), x, 0, 0.0)
        np.testing.assert_allclose(place.get(found), wanted, rtol=2e-5, atol=1e-6)


@pytest.mark.gpu
def test_kernels_of_ones_own_save_across_streams():
    one, two = numbacc.stream(), numbacc.stream()
    x, dy = np.random.default_rng(25).standard_normal((2, 1024, 1024))
    a, d = numbacc.asarray(x, stream=one), numbacc.asarray(dy, stream=two)
    for _ in range(4):
        _, saved = scaled_tanh(ew.add(a, 0.0, stream=one), 2.0, return_saved=True, stream=one)
        (found,) = scaled_tanh.backward(d, saved, stream=two)
        _, saved = scaled_rms(ew.add(a, 0.0, stream=two), axis=1, keepdims=True, return_saved=True, stream=two)
        (total,) = scaled_rms.backward(d[:, :1], saved, stream=one)
        # The sums are freed only after the gradients have read them.
        del saved
        np.testing.assert_allclose(numbacc.asnumpy(found), tanh_gradients(dy, x, 2.0, 0.0)[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(numbacc.asnumpy(total), rms_gradient(dy[:, :1], x, 1, 0.0), rtol=1e-10, atol=1e-12)
