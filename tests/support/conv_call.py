"""Calls of `numbacc.conv` with operands anywhere in memory, and the check of what they return."""

from __future__ import annotations

import conv_oracle
import numpy as np
from conv_oracle import INT8, Case

import numbacc
from numbacc import conv
from numbacc.base.dispatch import graph_library

#: What cuDNN's functions of float32 may be off: how exact they are it does not say.
LIBRARY_ERROR = 1e-5


def taken(case):
    """A drawn case as numbacc takes it: int8 is added to nothing; in int32 there are no factors, and only ReLU."""
    if case.dtype != INT8:
        return case
    if case.out_dtype.kind != "i":
        return case._replace(beta=0.0)
    return case._replace(beta=0.0, alpha=1.0, activation="relu" if case.activation else None)


def small(direction="forward", layout="NCHW", **more):
    """A convolution of two images of six channels in two groups, uneven in its lengths."""
    dimensions = len(layout) - 2
    fixed = {"batch": 2, "groups": 2, "channels": 3, "filters": 2, "padding": 1, "seed": 3}
    fixed |= {"lengths": (7, 6, 5)[:dimensions], "taps": (3, 2, 3)[:dimensions]}
    return Case(direction, layout, **{**fixed, **more})


def shape_of_gradient(case):
    """The third argument of a gradient's function, in a list; none forward."""
    x, w, _ = case.shapes
    return {"forward": [], "backward_data": [x], "backward_filter": [w]}[case.direction]


def assert_around(operand):
    """Nothing but an operand's view was written."""
    now, around = operand.place.get(operand.base), np.ones(operand._initial.shape, bool)
    operand.within(around)[...] = False
    np.testing.assert_array_equal(now[around], operand._initial[around])


class Call:
    """One call: its operands in place, and what it must give.

    Args:
        case: the convolution.
        layouts: for the names of operands, "bias" and "out" keywords of `Operand`; out is given if it is named, and
            where the case has a beta.
        given: values instead of random ones, as `conv_oracle.inputs` has them.
        options: passed on.
    """

    def __init__(self, place, case, layouts=None, given=None, **options):
        self.place, self.case, self.options = place, case, options
        values, layouts = given or conv_oracle.inputs(case), layouts or {}
        first, second = {"forward": "xw", "backward_data": ("dy", "w"), "backward_filter": ("x", "dy")}[case.direction]
        self.operands = {
            first: place.operand(values.first, **layouts.get(first, {})),
            second: place.operand(values.second, **layouts.get(second, {})),
        }
        if case.biased:
            self.operands["bias"] = place.operand(values.bias, **layouts.get("bias", {}))
        self.out = None
        if case.beta:
            self.out = place.operand(values.before, **layouts.get("out", {}))
        elif "out" in layouts:
            self.out = place.empty(case.result_shape, case.out_dtype, **layouts["out"])
        # Broadcast operands repeat their first elements.
        bias = self.operands["bias"].values if case.biased else None
        self.given = conv_oracle.Inputs(self.operands[first].values, self.operands[second].values, bias, values.before)

    @property
    def views(self):
        return [operand.view for operand in self.operands.values()]

    @property
    def arguments(self):
        """(positional arguments, keywords) of the function and of its plan."""
        case, (a, b, *bias) = self.case, self.views
        keywords = {**case.geometry, "alpha": case.alpha, "beta": case.beta, **self.options}
        if case.direction == "forward":
            keywords |= {"activation": case.activation, "bias": bias[0] if bias else None}
            if case.out_dtype != case.dtype:
                keywords["out_dtype"] = case.out_dtype
        if self.out is not None:
            keywords["out"] = self.out.view
        return [a, b, *shape_of_gradient(case)], keywords

    def run(self, **more):
        positional, keywords = self.arguments
        return getattr(conv, self.case.direction)(*positional, **{**keywords, **more})

    def plan(self, **more):
        positional, keywords = self.arguments
        return getattr(conv, self.case.direction).plan(*positional, **{**keywords, **more})

    def verify(self, answer):
        """Check what a call returned, and what it left alone."""
        if self.out is not None:
            assert answer is self.out.view
            # Of integers -1 is a number like any other; values tell whether all were written.
            is_float = self.case.out_dtype.kind != "i"
            self.out.assert_written_only() if is_float else assert_around(self.out)
            result = self.out.now()
        else:
            result = self.place.get(answer)
        for operand in self.operands.values():
            operand.assert_untouched()
        # Copies round nothing.
        kernel = self.place.is_device and "then a kernel" in self.plan().info.algorithm
        on_library = self.place.name == "gpu" and self.case.activation not in (None, "relu")
        conv_oracle.assert_right(
            self.case, self.given, np.array(result), compute=self.options.get("compute"), composed=kernel,
            in_any_order=self.place.name == "gpu", slack=LIBRARY_ERROR if on_library else 0.0,
        )  # fmt: skip

    def check(self, **more):
        self.verify(self.run(**more))


def without_engines(monkeypatch, refused):
    """Let cuDNN have no engine for a graph if `refused(graph)` is true."""
    choose = graph_library().choose

    def chosen(graph, wants, device):
        if refused(graph):
            raise numbacc.UnsupportedError("no engine")
        return choose(graph, wants, device)

    monkeypatch.setattr(graph_library(), "choose", chosen)
    conv.cache_clear()
