"""What forward functions save for their gradients: no option is forgotten, and none is given twice."""

from __future__ import annotations

import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import DOUBLE, HALF
from conftest import refused
from oracle import KINDS

from numbacc import attention, conv, gated, gemm
from numbacc import elementwise as ew
from numbacc.errors import ArgumentsError, DTypeError, LayoutError, OptionError

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
    plan = attention.backward_plan(do, saved)
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
    plan = attention.backward_plan(do, saved)
    assert plan.problem.options.deterministic and plan.problem.limit == 2**20
    assert attention.backward_plan(do, saved, workspace_limit=2**21).problem.limit == 2**21


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
    refused(OptionError, "dropout is given", run=lambda: attention.backward_plan(do, saved, dropout=0.5))
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
    refused(DTypeError, "saved is what gated.forward returned", run=lambda: attention.backward(do, other))
    refused(DTypeError, "saved is what attention.forward returned", run=lambda: gated.backward(do, saved))
    refused(DTypeError, "saved is what gated.forward returned", run=lambda: plan_of(do, saved)(do, other))
    refused(DTypeError, "saved is a Saved", run=lambda: gemm.linear_backward(do, other))


def plan_of(do, saved):
    return attention.backward_plan(do, saved)


@pytest.mark.parametrize("kind", KINDS)
def test_gated_forgets_nothing(place, kind):
    rng = np.random.default_rng(4)
    x, dy = (place.put(rng.standard_normal(shape)) for shape in ((6, 4), (3, 4)))
    y, saved = gated.forward(x, kind, axis=0, gate="first", return_saved=True)
    assert np.array_equal(*numbers(place, (y, gated.forward(x, kind, axis=0, gate="first"))))
    wanted = place.get(gated.backward(dy, x, kind, axis=0, gate="first"))
    plan = gated.backward_plan(dy, saved)
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
    refused(DTypeError, "saved is what elementwise", run=lambda: gated.backward(dy, saved))


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
    refused(DTypeError, f"saved is what elementwise.{name} returned", run=lambda: gated.backward(dy, saved))


def several(place, found):
    return numbers(place, found if isinstance(found, tuple) else (found,))


def test_what_norms_refuse(place):
    x, dy, weight = (place.put(np.ones(shape, np.float32)) for shape in ((2, 4), (2, 4), 4))
    for norm in (ew.rms_norm, ew.layer_norm):
        refused(LayoutError, "out shares memory with x", run=lambda norm=norm: norm(x, out=x, return_saved=True))
    _, saved = ew.rms_norm(x, weight, return_saved=True)
    refused(OptionError, "weight is given", run=lambda: ew.rms_norm_backward(dy, saved, dy[0]))
    refused(DTypeError, "this function needs", run=lambda: ew.layer_norm_backward(dy, saved))
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
    refused(DTypeError, "this function needs", run=lambda: ew.softmax_backward(x, saved))


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
    plan = conv.backward_data_plan(dy, saved)
    for found in (conv.backward_data(dy, saved), plan(dy, w), conv.backward_data(dy, saved, x.shape, stride=2)):
        assert np.array_equal(place.get(found), wanted)
    forgotten = conv.backward_data(dy, w, x.shape, **{**options, "flip": False, "alpha": 1.0})
    assert not np.allclose(place.get(forgotten), wanted)
    wanted = place.get(conv.backward_filter(x, dy, w.shape, **options))
    plan = conv.backward_filter_plan(saved, dy)
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
        (conv.backward_data, "x_shape", (y, w)), (conv.backward_data_plan, "x_shape", (y, w)),
        (conv.backward_filter, "w_shape", (x, y)), (conv.backward_filter_plan, "w_shape", (x, y)),
    ):  # fmt: skip
        words = f"{name} is missing: call {run.__name__.removesuffix('_plan')}(", "saved", "return_saved=True"
        refused(ArgumentsError, *words, run=lambda run=run, arrays=arrays: run(*arrays, layout="NCW"))
    refused(
        OptionError,
        "relu",
        "elementwise",
        run=lambda: conv.forward(x, w, layout="NCW", activation="relu", return_saved=True),
    )
    refused(OptionError, "return_saved", run=lambda: conv.forward(x, w, layout="NCW", return_saved=None))
    refused(DTypeError, "saved is what conv.forward returned", run=lambda: attention.backward(y, saved))
    plan = conv.backward_data_plan(
        y, conv.forward(x, w, layout="NCW", padding=1, deterministic=True, return_saved=True)[1]
    )
    assert plan.info.deterministic
