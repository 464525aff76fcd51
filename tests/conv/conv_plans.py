"""Calls of convolutions whose plans are looked at, and the engines that they take."""

from __future__ import annotations

from numbacc.base import dtypes
from numbacc.base.layout import layout, row_major_strides
from numbacc.conv.lowering import Way, lower, ways
from numbacc.conv.problem import ConvCall, plain, resolve


def engine_of(found):
    """The number of a plan's engine."""
    return int(found.engine.split(",")[0].removeprefix("engine "))


NOTHING = Way(False, False)


#: The shapes of x, w and y.
SHAPES = {
    "NCW": ((8, 16, 9), (32, 16, 3), (8, 32, 7)),
    "NWC": ((8, 9, 16), (32, 3, 16), (8, 7, 32)),
    "NCHW": ((8, 16, 10, 12), (32, 16, 3, 5), (8, 32, 8, 8)),
    "NHWC": ((8, 10, 12, 16), (32, 3, 5, 16), (8, 8, 8, 32)),
    "NDHWC": ((8, 4, 9, 11, 16), (32, 2, 3, 5, 16), (8, 3, 7, 7, 32)),
}


def graphs_of(problem):
    """The graphs of each way, for arrays that start on multiples of 16 bytes."""
    aligned = (True,) * (len(problem.inputs) + 1)
    return [lower(problem, way, aligned).graphs for way in ways(problem)]


def array(shape, dtype, steps=None):
    info = dtypes.TABLE[dtype]
    strides = row_major_strides(shape, info.itemsize)
    if steps is not None:
        strides = tuple(s * step for s, step in zip(strides, steps, strict=True))
    return layout(shape, strides, info.numpy, 0)


def call_of(direction, named="NCHW", dtype="float32", out_dtype=None, biased=False, steps=None, bias_step=1, **options):
    """A call, the strides of whose operands and result are multiplied by `steps`."""
    x, w, y = SHAPES[named]
    a, b, result = {"forward": (x, w, y), "backward_data": (y, w, x), "backward_filter": (x, y, w)}[direction]
    given = {
        "activation": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": named, "flip": False,
        "alpha": 1.0, "beta": 0.0, "out_dtype": None, "compute": None, "deterministic": False, "tune": False,
        "workspace_limit": None, **options,
    }  # fmt: skip
    bias = array((y[-1] if named.endswith("C") else y[1],), dtype, (bias_step,)) if biased else None
    out = array(result, out_dtype or dtype, steps)
    shape = None if direction == "forward" else result
    return ConvCall(direction, array(a, dtype, steps), array(b, dtype, steps), bias, out, shape, *plain(**given))


def kinds(graph):
    return [dict(node.settings).get("mode", node.kind) for node in graph.nodes]


def modes(**options):
    """The operations of the graphs that are asked for, in order."""
    return [kinds(graphs[0]) for graphs in graphs_of(resolve(call_of("forward", **options)))]


PLAIN = ["convolve_forward"]
