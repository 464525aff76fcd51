"""Convolutions and their gradients: geometry, dtypes, what follows, results fresh and given, by functions and plans."""

from __future__ import annotations

import conv_oracle
import numpy as np
from conv_call import LIBRARY_ERROR, shape_of_gradient, taken
from conv_oracle import ACTIVATIONS, DIRECTIONS, FLOATS, INT8, LAYOUTS, Case, Inputs

from numbacc import conv

from .operands import anywhere


def run(case):
    drawn = geometry(case)
    values = conv_oracle.inputs(drawn)
    operands = [case.place.operand(array, **anywhere(case, array.shape, False)) for array in values[:2]]
    bias = None
    if drawn.biased:
        bias = case.place.operand(values.bias, **anywhere(case, values.bias.shape, False))
    out = None
    if drawn.beta:
        out = case.place.operand(values.before, **anywhere(case, drawn.result_shape, True))
    elif case.chance(0.4):
        out = case.place.empty(drawn.result_shape, drawn.out_dtype, **anywhere(case, drawn.result_shape, True))
    options = options_of(case, drawn)
    if bias is not None:
        options["bias"] = bias.view
    if out is not None:
        options["out"] = out.view
    answer, composed = called(case, drawn, [operand.view for operand in operands], options)
    case.place.settle()
    if out is not None:
        assert answer is out.view, "not `out` is returned"
        out.assert_untouched_around()
        answer = out.ours
    given = Inputs(*(np.array(operand.values) for operand in operands), bias and np.array(bias.values), values.before)
    on_library = case.place.name == "gpu" and drawn.activation not in (None, "relu")
    conv_oracle.assert_right(
        drawn, given, np.array(case.place.get(answer)), compute=options.get("compute"), composed=composed,
        slack=LIBRARY_ERROR if on_library else 0.0, in_any_order=case.place.is_device,
    )  # fmt: skip
    for operand in (*operands, *([bias] if bias else [])):
        operand.assert_untouched()


def called(case, drawn, views, options):
    """(what a function or its plan returns, whether a kernel of ours may have rounded, too)."""
    shape = shape_of_gradient(drawn)
    name = drawn.direction
    plan = getattr(conv, f"{name}_plan")
    if case.chance(0.75):
        answer = case.call(f"conv.{name}", getattr(conv, name), *views, *shape, **options, **case.stream())
        found = plan(*views, *shape, **options)
    else:
        found = case.call(f"conv.{name}_plan", plan, *views, *shape, **options)
        more = [options["bias"]] if "bias" in options else []
        given = {"out": options["out"]} if "out" in options else {}
        answer = found(*views, *more, **given, **case.stream())
    return answer, case.place.is_device and "kernel" in found.info.backend


def options_of(case, drawn):
    """Keywords of the function, but for arrays."""
    options = {**drawn.geometry, "alpha": drawn.alpha, "beta": drawn.beta}
    if drawn.direction == "forward":
        options["activation"] = drawn.activation
        if drawn.out_dtype != drawn.dtype:
            options["out_dtype"] = drawn.out_dtype
    if case.chance(0.1):
        options["deterministic"] = True
    if case.chance(0.05):
        options["tune"] = True
    if case.chance(0.1):
        options["workspace_limit"] = case.pick([1 << 20, 1 << 25])
    if drawn.dtype == FLOATS[0] and case.chance(0.2):
        options["compute"] = "tf32"
    return options


def geometry(case):
    """A convolution that is one."""
    layout = case.pick(LAYOUTS)
    count = len(layout) - 2
    dtype = case.pick([*FLOATS, *FLOATS, INT8])
    direction = "forward" if dtype == INT8 else case.pick(DIRECTIONS)
    longest = {1: 12, 2: 6, 3: 3}[count] if case.place.is_slow else {1: 40, 2: 12, 3: 6}[count]
    if case.place.name == "gpu" and case.chance(0.2):
        longest = {1: 1000, 2: 40, 3: 12}[count]
    taps = tuple(case.integer(1, {1: 7, 2: 4, 3: 3}[count]) for _ in range(count))
    apart = tuple(case.integer(1, 3) for _ in range(count)) if case.chance(0.3) else 1
    stride = tuple(case.integer(1, 3) for _ in range(count)) if case.chance(0.4) else case.integer(1, 2)
    padding = case.pick(["same", "valid", 0, 1, 2, tuple((case.integer(0, 3), case.integer(0, 3)) for _ in taps)])
    steps = apart if isinstance(apart, tuple) else (apart,) * count
    reach = [1 + (r - 1) * d for r, d in zip(taps, steps, strict=True)]
    is_forward = direction == "forward"
    channels = case.integer(1, 8)
    return taken(
        Case(
            direction=direction,
            layout=layout,
            batch=0 if case.chance(0.05) else case.integer(1, 3),
            groups=case.pick([1, 1, 1, 2, 3]),
            channels=1 if case.chance(0.2) else channels,
            filters=case.integer(1, 8),
            lengths=tuple(n + case.integer(0, longest) for n in reach),
            taps=taps,
            stride=stride,
            padding=padding,
            dilation=apart,
            flip=case.chance(0.2),
            dtype=dtype,
            out_dtype=np.dtype(case.pick(["int32", "float32"])) if dtype == INT8 else dtype,
            alpha=case.pick([1.0, 1.0, 1.0, 0.5, -2.0, 0.0]),
            beta=case.pick([0.0, 0.0, 1.0, -0.5]),
            activation=case.pick([None, *ACTIVATIONS]) if is_forward else None,
            biased=is_forward and case.chance(0.5),
            seed=case.seed_of_values(),
        )
    )
