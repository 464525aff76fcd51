"""Attention of float8: any of its scales, masks, strides, results fresh and given, maxima, plans."""

from __future__ import annotations

import attention_float8_oracle as oracle
import numpy as np

from numbacc import attention

from .operands import lay, result_of, target_of

_RESULTS = ("o", "stats", "amax_s", "amax_o")


def run(case):
    name, values, layout = drawn(case)

    def turned(array):
        return array if layout == "BHSD" else array.swapaxes(1, 2)

    # Libraries beside ours have no float8, or none of the same name.
    rows = {each: lay(case, turned(getattr(values, each)), foreign=0.0) for each in ("q", "k", "v")}
    values = values._replace(**{each: turned(np.array(row.values)) for each, row in rows.items()})
    scales = {each: lay(case, np.array([number], np.float32)) for each, number in values.scales.items()}
    views = [row.view for row in rows.values()]
    options = {"mask": values.mask, "layout": layout}
    more = {each: operand.view for each, operand in scales.items()}
    # cuDNN is not asked for maxima with a window on both sides, unless the window hides nothing.
    is_cut = name == "window" and values.mask.length < max(values.q.shape[2], values.k.shape[2])
    maxima = case.chance(0.5) and not (case.place.name == "gpu" and is_cut)
    wants = {"return_stats": case.chance(0.5), "return_amax": maxima}
    shape = turned(np.empty((*values.q.shape[:3], values.v.shape[3]), np.bool_)).shape
    out, given = (None, {}) if any(wants.values()) else target_of(case, shape, values.q.dtype)
    if case.chance(0.75):
        found = case.call(
            "attention.forward", attention.forward, *views, **options, **wants, **more, **given, **case.stream()
        )
    else:
        plan = attention.forward.plan(*views, **options, **wants, **more, **given)
        found = plan(*views, **more, **given, **case.stream())
    results = found if isinstance(found, tuple) else (found,)
    asked = (True, wants["return_stats"], maxima, maxima)
    arrays = dict(zip((each for each, is_asked in zip(_RESULTS, asked, strict=True) if is_asked), results, strict=True))
    o = turned(result_of(case, arrays.pop("o"), out))
    oracle.check(case.place, values, o, **{each: case.place.get(array) for each, array in arrays.items()})
    for each in (*rows.values(), *scales.values()):
        each.assert_untouched()


def drawn(case):
    """(name of the mask, operands of few elements, layout)."""
    longest = 5 if case.place.is_slow else 40
    name = case.pick(oracle.MASKS)
    queries = case.integer(2, longest)
    # With a window each query must have a key.
    keys = case.integer(queries if "window" in name else 1, longest)
    groups, heads = case.pick([1, 2, 3]), case.integer(1, 2)
    scales = {each: number for each, number in oracle.SCALES.items() if case.chance(0.7)}
    values = oracle.values(
        case.pick(oracle.DTYPES), oracle.MASKS[name], heads=(heads * groups, heads), queries=queries, keys=keys,
        width=case.pick([5, 16, 24]), value_width=case.pick([3, 16, 32]), scales=scales, seed=case.seed_of_values(),
    )  # fmt: skip
    return name, values, case.pick(["BHSD", "BSHD"])
