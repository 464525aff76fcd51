"""Gated activations: any layout, fresh results, given ones and in place, by the function or its plan."""

from __future__ import annotations

import numpy as np
from conftest import Call, half, packed
from oracle import DTYPES, KINDS

from numbacc import gated

from .operands import anywhere, neighbours

GATES = ("first", "second")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0, 0.75)


def run(case):
    rank = case.pick([1, 2, 2, 2, 3, 3, 4, 5, 8])
    shape, direction, paired = case.shape(rank), case.pick(["forward", "backward"]), case.chance(0.4)
    kind, dtype, gate = case.pick(KINDS), case.pick(DTYPES), case.pick(GATES)
    axis, target = case.integer(-rank, rank - 1), case.pick(["fresh", "given", *GATES])
    in_place = target in GATES
    whole = shape if paired else tuple(2 * n if d == axis % rank else n for d, n in enumerate(shape))
    count = 1 + paired
    layouts = [anywhere(case, whole, in_place, 0 if in_place else 0.1) for _ in range(count)]
    if direction == "backward":
        layouts.insert(0, anywhere(case, shape, False))
    arguments = None
    if case.chance(0.1):
        shapes = [shape] * (direction == "backward") + [whole] * count
        arguments = [case.rng.choice(SPECIAL, s).astype(dtype) for s in shapes]
    call = Call(
        case.place, direction, kind, dtype, shape, gate=gate, paired=paired, axis=axis, layouts=layouts,
        seed=case.seed_of_values(), arguments=arguments,
    )  # fmt: skip
    function = getattr(gated, direction)
    if case.chance(0.2):
        function = planned(direction)

    def answer(**more):
        result = case.call(f"gated.{direction}", function, *call.arguments, **call.options, **more, **case.stream())
        case.place.settle()
        return result

    written = []
    if target == "fresh":
        call.verify(call.results(answer()))
    elif target == "given":
        written = neighbours(case, call.shapes, dtype)
        out = packed(written)
        assert answer(out=out) is out
        call.verify([o.now() for o in written])
        for operand in written:
            operand.assert_written_only()
    elif direction == "forward":
        written = [forward_in_place(call, answer, GATES.index(target))]
    else:
        written = call.x
        answer(out=packed(written))
        call.verify([o.now() for o in written])
        for operand in written:
            operand.assert_written_only()
    for operand in call.operands:
        if operand not in written:
            operand.assert_untouched()


def forward_in_place(call, answer, which):
    """y into one half's own memory."""
    target = call.x[which] if call.paired else call.x[0]

    def part(view):
        return view if call.paired else half(view, call.axis, which)

    answer(out=part(target.view))
    call.verify([part(target.now())])
    target.assert_written_only(part)
    return target


def planned(direction):
    """The function, by way of its plan."""

    def function(*arguments, out=None, stream=None, **options):
        plan = getattr(gated, direction).plan(*arguments, **options, out=out)
        return plan(*arguments, out=out, stream=stream)

    return function
