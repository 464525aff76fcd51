"""Plans of convolutions and their cache, options, and what cuDNN has no engine for."""

from __future__ import annotations

import copy
import pickle

import conv_oracle
import numpy as np
import pytest
from conftest import bits, refused
from conv_call import Call, small
from conv_oracle import DIRECTIONS, FLOATS, LAYOUTS

from numbacc import conv
from numbacc.base.dispatch import graph_library
from numbacc.errors import DTypeError, LayoutError, UnsupportedError

pytestmark = pytest.mark.usefixtures("poison")

each_direction = pytest.mark.parametrize("direction", DIRECTIONS)
SINGLE, DOUBLE, HALF, BFLOAT16 = FLOATS


@pytest.fixture
def anew():
    """An empty cache, with its usual limits again afterwards."""
    limits = conv.cache_limit()
    conv.cache_clear()
    yield
    conv.cache_limit(*limits)
    conv.cache_clear()


# ---------------------------------------------------------------- plans


@each_direction
def test_a_plan_gives_the_same_bits_as_the_function(place, direction):
    """Of other arrays, too, whether `out` is given or not."""
    biased = direction == "forward"
    case = small(direction, biased=biased, activation="gelu" if biased else None, dtype=DOUBLE, out_dtype=DOUBLE)
    plan, with_out = Call(place, case).plan(deterministic=True), Call(place, case, {"out": {}}).plan(deterministic=True)
    for seed in (1, 2):
        call = Call(place, case._replace(seed=seed), {"out": {}})
        call.check(deterministic=True)
        wanted = bits(call.out.now())
        np.testing.assert_array_equal(bits(place.get(plan(*call.views))), wanted)
        again = Call(place, case._replace(seed=seed), {"out": {}})
        assert with_out(*again.views, out=again.out.view, stream=None) is again.out.view
        np.testing.assert_array_equal(bits(again.out.now()), wanted)


@each_direction
def test_a_plan_of_accumulation(place, direction):
    """out += dw, say: again and again into one array."""
    case = small(direction, beta=1.0, dtype=DOUBLE, out_dtype=DOUBLE)
    call = Call(place, case)
    plan, before = call.plan(), call.given.before.copy()
    added = place.get(Call(place, case._replace(beta=0.0)).run())
    for _ in range(3):
        plan(*call.views, out=call.out.view)
    np.testing.assert_allclose(call.out.now(), before + 3 * added, rtol=1e-12, atol=1e-12)


@each_direction
def test_a_plan_refuses_other_arrays(place, direction):
    case = small(direction)
    call = Call(place, case, {"out": {}})
    a, b = call.views
    plan, with_out = call.plan(out=None), call.plan()
    others = (case._replace(batch=3), case._replace(dtype=DOUBLE, out_dtype=DOUBLE))
    for other in (
        *(Call(place, each) for each in others),
        Call(place, case, {n: {"steps": (1, 1, 2, 1)} for n in call.operands}),
    ):
        refused(LayoutError, "was made for", run=lambda o=other: plan(*o.views))
    refused(LayoutError, "made without out", run=lambda: plan(a, b, out=call.out.view))
    refused(LayoutError, "made with out", run=lambda: with_out(a, b))
    moved = place.empty(case.result_shape, SINGLE, steps=(1, 1, 1, 2))
    refused(LayoutError, "was made for", run=lambda: with_out(a, b, out=moved.view))
    refused(LayoutError, "it was called with 1 arrays", run=lambda: plan(a))
    refused(LayoutError, "it was called with 3 arrays", run=lambda: plan(a, b, a))
    refused(DTypeError, "is a list", run=lambda: plan(a, [1.0]))
    call.out.assert_untouched()
    moved.assert_untouched()


def test_info(place):
    info = Call(place, small("forward", dtype=HALF, out_dtype=HALF)).plan().info
    assert info.op == "conv.forward" and info.dtypes == ("float16",) * 3
    assert info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "cudnn"}[place.name]
    assert (info.math_dtype, info.accumulator_dtype) == ("float32", "float32")
    info = Call(place, small("backward_filter", dtype=DOUBLE, out_dtype=DOUBLE), deterministic=True).plan().info
    assert info.op == "conv.backward_filter" and info.math_dtype == "float64" and info.deterministic
    info = Call(place, small("forward", batch=0)).plan().info
    assert info.algorithm == ("no launch: the result is empty" if place.is_device else "reference")
    info = Call(place, small("backward_filter", batch=0)).plan().info
    assert info.algorithm == ("nothing is summed" if place.is_device else "reference")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
def test_info_tells_what_is_fused(device_place, layout, dtype):
    """On GPUs whose cuDNN has engines for what it is asked; the simulator's has one for everything."""
    for activation, biased in ((None, True), ("relu", True), ("relu", False), ("silu", True), ("silu", False)):
        case = small("forward", layout, dtype=dtype, out_dtype=dtype, activation=activation, biased=biased)
        fused = dtype != DOUBLE and (layout == "NHWC" or (biased and activation in (None, "relu")))
        backend = Call(device_place, case).plan().info.backend
        if device_place.name == "simulator" or layout == "NCHW" or dtype == DOUBLE:
            assert backend.endswith("+kernel") is not fused, (activation, biased)


def test_plans_say_what_they_are(place):
    text = repr(Call(place, small("forward", biased=True)).plan())
    assert text.startswith(
        "<plan of conv.forward: x float32 (2, 6, 7, 6), w float32 (4, 3, 3, 2), bias float32 (4,) -> "
    )


@each_direction
def test_plans_are_neither_copied_nor_pickled(place, direction):
    plan = Call(place, small(direction)).plan()
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        refused(DTypeError, "ConvPlan cannot be", run=lambda act=act: act(plan))


# ---------------------------------------------------------------- the cache


@each_direction
def test_hits_and_misses(place, anew, direction):
    first, second = Call(place, small(direction)), Call(place, small(direction, seed=9))
    first.run()
    second.run()
    first.run(alpha=1, workspace_limit=None)
    info = conv.cache_info()
    assert (info.hits, info.misses, info.currsize) == (2, 1, 1)
    for options in (
        {"alpha": 2.0},
        {"padding": (1, 1)},
        {"flip": True},
        {"workspace_limit": 1 << 20},
        {"deterministic": True},
    ):
        first.run(**options)
    assert conv.cache_info().misses == 6
    # Lists and arrays of integers are tuples.
    for padding in ([1, 1], np.array([1, 1]), (np.int64(1), 1)):
        first.run(padding=padding)
    assert conv.cache_info().misses == 6
    assert first.plan() is first.plan() is second.plan()
    conv.cache_clear()
    assert conv.cache_info()[:2] == (0, 0) and conv.cache_info().currsize == 0


@each_direction
def test_plans_outlive_the_cache(place, anew, direction):
    call = Call(place, small(direction), {"out": {}})
    plan = call.plan()
    conv.cache_clear()
    conv.cache_limit(0)
    call.verify(plan(*call.views, out=call.out.view))
    Call(place, small(direction)).check()
    assert conv.cache_info().currsize == 0


def test_the_longest_unused_go_first(place, anew):
    assert conv.cache_limit(2) == (2, None)
    a, b, c = (Call(place, small(batch=n)) for n in (1, 2, 3))
    first, second = a.plan(), b.plan()
    assert a.plan() is first
    c.run()
    assert conv.cache_info().currsize == 2
    assert a.plan() is first and b.plan() is not second


# ---------------------------------------------------------------- options


@each_direction
def test_lists_as_options(place, direction):
    uneven = small(direction, stride=(2, 1), dilation=(1, 2), padding=((1, 0), (2, 1)))
    as_lists = uneven._replace(stride=[2, 1], dilation=np.array([1, 2]), padding=[[1, 0], (2, np.int64(1))])
    one, other = (
        place.get(Call(place, uneven, given=conv_oracle.inputs(uneven)).run(**options))
        for options in ({}, as_lists.geometry)
    )
    np.testing.assert_array_equal(one, other)
    call = Call(place, uneven)
    (a, b, *shape), options = call.arguments
    call.verify(getattr(conv, direction)(a, b, *map(list, shape), **options))


@each_direction
@pytest.mark.parametrize("options", [{"tune": True}, {"deterministic": True}, {"workspace_limit": 1 << 22}], ids=str)
def test_how_plans_are_chosen_changes_no_value(place, direction, options):
    for layout in ("NCHW", "NWC"):
        for dtype in (SINGLE, BFLOAT16):
            case = small(direction, layout, dtype=dtype, out_dtype=dtype)
            Call(place, case, **options).check()
            Call(place, case, {"out": {}}, **options).check()
            assert not options.get("deterministic") or Call(place, case, **options).plan().info.deterministic


def test_numbers_of_numpy(place):
    case = small(alpha=0.5, padding=2, stride=2)
    call = Call(place, case)
    call.check(alpha=np.float32(0.5), beta=np.int8(0), groups=np.int64(2), flip=np.False_, stride=np.uint8(2))
    call.check(alpha=np.array(0.5))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_output_shape_is_that_of_the_result(place, layout):
    case = small(layout=layout, stride=2, padding="same")
    options = {name: value for name, value in case.geometry.items() if name != "flip"}
    assert Call(place, case).run().shape == conv.output_shape(*case.shapes[:2], **options)


# ---------------------------------------------------------------- what cuDNN has no engine for


@pytest.fixture
def library(device_place, monkeypatch):
    """A cuDNN that refuses some graphs, and notes which it was asked for."""
    module = graph_library()
    choose = module.choose

    class Library:
        asked = []

        def refuse(self, when):
            def choosing(graph, wants, device):
                self.asked.append(graph)
                if when(graph):
                    raise UnsupportedError(f"no engine, asked {len(self.asked)} times")
                return choose(graph, wants, device)

            monkeypatch.setattr(module, "choose", choosing)

    conv.cache_clear()
    yield Library()
    conv.cache_clear()


def is_fused(graph):
    return len(graph.nodes) > 1


def test_what_cannot_be_fused_is_left_to_our_kernel(device_place, library):
    library.refuse(is_fused)
    for dtype in (SINGLE, BFLOAT16):
        for activation, biased, beta in (
            (None, True, 0.0),
            ("relu", True, 0.5),
            ("elu", False, 1.0),
            ("gelu", True, 0.0),
        ):
            case = small(
                "forward", "NHWC", dtype=dtype, out_dtype=dtype, activation=activation, biased=biased, beta=beta
            )
            call = Call(device_place, case)
            assert call.plan().info.backend.endswith("+kernel")
            call.check()


@pytest.mark.parametrize("activation", ["sigmoid", "elu"])
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
def test_what_is_fused_slowly_is_measured_beside_our_kernel(device_place, monkeypatch, activation, dtype):
    """Unmeasured it comes behind; with `tune` either may win, and is what then runs."""
    library = graph_library()
    # Of few channels more is measured.
    more = {"groups": 1, "channels": 8, "dtype": dtype, "out_dtype": dtype}
    case = small("forward", "NHWC", activation=activation, biased=True, **more)
    ours = f"; then a kernel: {activation}"
    conv.cache_clear()
    call = Call(device_place, case)
    call.check()
    assert call.plan().info.algorithm.endswith(ours)
    seen = []

    def tune(graphs, wants, device, stream, trial, others=()):
        seen[:] = [[dict(node.settings).get("mode") for node in graph.nodes[1:]] for graph in graphs]
        winner = next(number for number, modes in enumerate(seen) if len(modes) == wanted)
        found = library.choose(graphs[winner], wants[winner], device)._replace(kind=(winner, 2 * winner))
        trial(found)()
        return found

    monkeypatch.setattr(library, "tune", tune)
    monkeypatch.setattr(library, "number_of", lambda algorithm: algorithm.kind[1] // 2)
    for wanted in (1, 2):
        conv.cache_clear()
        call = Call(device_place, case, tune=True)
        call.check()
        assert call.plan().info.algorithm.endswith(ours) is (wanted == 1)
    assert seen[:2] == [["ADD"], ["ADD", f"{activation.upper()}_FWD"]]
    # What is fused at first is asked for once.
    conv.cache_clear()
    Call(device_place, case._replace(activation="silu"), tune=True).check()
    assert seen[0] == ["ADD", "SWISH_FWD"] and seen.count(seen[0]) == 1
    conv.cache_clear()


def test_where_only_the_bias_can_be_fused(device_place, library):
    library.refuse(lambda graph: any(dict(node.settings).get("mode", "ADD") != "ADD" for node in graph.nodes))
    Call(device_place, small("forward", "NHWC", activation="silu", biased=True, beta=0.5)).check()
    assert is_fused(library.asked[-1])


@each_direction
def test_where_there_is_no_engine_for_arrays_that_start_anywhere(device_place, library, direction):
    """cuDNN is asked for aligned copies alone."""
    library.refuse(lambda graph: any(graph.tensors[place].alignment < 16 for place in graph.memory))
    layouts = {name: {"margins": ((0, 0), (0, 0), (0, 0), (1, 0))} for name in ("x", "w", "dy", "out")}
    Call(device_place, small(direction, beta=0.5), layouts).check()
    assert len(library.asked) == 1


@each_direction
def test_where_there_is_no_engine(device_place, library, direction):
    """The message is that of what was asked for first."""
    library.refuse(lambda graph: True)
    case = small(direction)
    if direction == "forward":
        case = case._replace(biased=True, activation="relu")
    refused(UnsupportedError, "no engine, asked 1 times", run=Call(device_place, case).run)
    refused(UnsupportedError, "no engine", run=Call(device_place, case).plan)
