"""Convolutions of images with few channels that are computed as others, of many."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from conv_call import Call
from conv_oracle import FLOATS, Case
from requested import requested

from numbacc import conv
from numbacc.conv import space_to_depth, windowed

_SINGLE, _DOUBLE, HALF, BFLOAT16 = FLOATS
WINDOWS, DEPTH = "windows as channels", "space to depth"
#: Direction -> what plans say of those that are computed as others.
NAMES = {"forward": WINDOWS, "backward_data": DEPTH, "backward_filter": WINDOWS}
FIRST_LAYER = ((64, 224, 224, 3), (64, 7, 7, 3), {"stride": 2, "padding": 3})


def request(x, w, **options):
    return requested(conv, x, w, **{"layout": "NHWC", "dtype": "float16", **options}).problem


@contextmanager
def preferring():
    """Inside it every convolution that can be computed as another is."""
    with pytest.MonkeyPatch.context() as changed:
        for module in (windowed, space_to_depth):
            changed.setattr(module, "is_faster", lambda problem, other: True)
        conv.cache_clear()
        yield
    conv.cache_clear()


def few(direction="forward", **more):
    """A convolution of two images of three channels, uneven in its lengths; gradients of images need a stride."""
    fixed = {"batch": 2, "groups": 1, "channels": 3, "filters": 5, "lengths": (9, 8), "taps": (3, 2), "seed": 3}
    dtype = {"dtype": more.get("dtype", HALF), "out_dtype": more.get("dtype", HALF)}
    stride = {"stride": 2} if direction == "backward_data" else {}
    return Case(direction, "NHWC", **{**fixed, "padding": 1, **stride, **more, **dtype})


def is_other(call):
    """Whether a call's plan computes another convolution."""
    return call.plan().info.algorithm.startswith(f"{NAMES[call.case.direction]}: ")


def check(place, case, layouts=None, taken=True, **options):
    """Check a call, and that it was computed as another convolution, or was not."""
    call = Call(place, case, layouts, **options)
    call.check()
    assert is_other(call) == (taken and place.is_device)
    return call
