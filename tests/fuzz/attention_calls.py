"""A valid call of each kind of function of `attention`, for `calls`."""

from __future__ import annotations

import numpy as np

from numbacc import attention
from numbacc.base import dtypes

#: (batch, heads, queries or keys, elements) of queries and of keys; values are shorter.
Q, K, V = (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6)
O, STATS = (2, 4, 5, 6), (2, 4, 5)  # noqa: E741
DTYPES = ("float32", "float64", "float16", "bfloat16")


def numbers(call, case, name, values, kind):
    """Integers that an array has: lengths, starts, numbers of pages."""
    operand = call.place.operand(np.array(values, case.pick(["int32", "int64"])))
    call.operands.append(operand)
    call.add(name, kind, operand.view)


def named(call, case, name, planned=0.2):
    """The call is of this function, or of its plan's."""
    return call.of_plan_or(f"attention.{name}", getattr(attention, name), planned)


def options(call, case, is_planned, dropped=False):
    """Those that all functions have."""
    masks = [None, "causal", "causal_bottom_right", attention.SlidingWindow(3), attention.CausalSlidingWindow(2)]
    masks += [kind(2, bottom_right=True) for kind in (attention.SlidingWindow, attention.CausalSlidingWindow)]
    call.add("mask", "band", case.pick(masks))
    call.add("scale", "finite or None", case.pick([None, 0.5]))
    call.add("dropout", "share", 0.25 if dropped else case.pick([0.0, 0.25]))
    if not is_planned:
        # Plans have neither.
        call.add("seed", "seed", 3)
        call.add("offset", "number or array", 8)
    call.add("deterministic", "flag", False)
    call.add("workspace_limit", "limit or 0", None)


def biased(call, case, dtype):
    if case.chance(0.4):
        call.array("bias", (1, 4, 5, 7), dtype, "array of any rank", required=False)
    if case.chance(0.3):
        call.array("alibi", (4,), "float32", required=False)


def a_forward(call, case):
    dtype, is_dump = case.pick(DTYPES), case.chance(0.2)
    is_planned = named(call, case, "dropout_mask" if is_dump else "forward")
    call.array("q", Q, dtype, fixed=False)  # more queries than that may be had
    call.array("k", K, dtype)
    call.array("v", V, dtype, fixed=False)
    options(call, case, is_planned, is_dump)
    call.add("layout", "option", "BHSD")
    biased(call, case, dtype)
    if case.chance(0.5):
        numbers(call, case, "seq_len_q", [5, 3], "numbers")
        numbers(call, case, "seq_len_kv", [0, 7], "numbers")
    if not is_dump:
        call.add("return_stats", "flag", False)
    call.maybe_out((2, 4, 5, 7) if is_dump else O, "bool" if is_dump else dtype)


def a_gradient(call, case):
    dtype = case.pick(DTYPES)
    is_planned = named(call, case, "backward")
    for name, shape in (("do", O), ("q", Q), ("k", K), ("v", V), ("o", O)):
        call.array(name, shape, dtype)
    call.array("stats", STATS, "float64" if dtype == "float64" else "float32")
    options(call, case, is_planned)
    call.add("layout", "option", "BHSD")
    biased(call, case, dtype)
    call.add("bias_grad", "flag", False)
    if case.chance(0.4):
        numbers(call, case, "seq_len_kv", [2, 7], "numbers")


def of_pages(call, case):
    """Keys and values in pages."""
    dtype = case.pick(DTYPES)
    is_planned = named(call, case, "forward")
    call.array("q", (2, 4, 1, 8), dtype, fixed=False)
    for name in ("k", "v"):
        call.array(name, (6, 2, 4, 8), dtype, fixed=False)
    for name in ("page_table_k", "page_table_v"):
        numbers(call, case, name, [[4, 0, 2], [1, 3, 3]], "needed numbers")
    numbers(call, case, "seq_len_kv", [12, 5], "needed numbers")
    options(call, case, is_planned)
    call.add("layout", "option", "BHSD")


def of_tokens(call, case):
    """Sequences one behind the other."""
    dtype, is_backward = case.pick(DTYPES), case.chance(0.4)
    is_planned = named(call, case, "backward" if is_backward else "forward")
    rows = {"do": (9, 4, 8), "q": (9, 4, 8), "k": (11, 2, 8), "v": (11, 2, 8), "o": (9, 4, 8)}
    for name in rows if is_backward else ("q", "k", "v"):
        call.array(name, rows[name], dtype, fixed=is_backward)
    if is_backward:
        call.array("stats", (2, 4, 5), "float64" if dtype == "float64" else "float32")
    numbers(call, case, "seq_len_q", [0, 5, 9], "needed numbers")
    numbers(call, case, "seq_len_kv", [1, 8, 11], "needed numbers")
    call.add("max_len_q", "count or None", 5)
    call.add("max_len_kv", "count or None", 7)
    options(call, case, is_planned)
    call.add("layout", "option", "THD")


def a_window(call, case):
    name = case.pick(["SlidingWindow", "CausalSlidingWindow"])
    call.of(f"attention.{name}", getattr(attention, name))
    call.add("length", "count", 3, True)
    call.add("bottom_right", "flag", False)


def a_request(call, case):
    """Attention without arrays."""
    direction = case.pick(["forward", "backward"])
    call.of(f"attention.{direction}.request", getattr(attention, direction).request)
    for name, shape in (("q_shape", Q), ("k_shape", K)):
        call.add(name, "lengths", shape, True)
    call.add("dtype", "dtype", dtypes.dtype(case.pick(DTYPES)))
    call.add("mask", "band", "causal")
    call.add("scale", "finite or None", None)
    call.add("dropout", "share", 0.0)
    for name in ("alibi", "lengths", "deterministic", *["return_stats"] * (direction == "forward")):
        call.add(name, "flag", False)


BUILDERS = (a_forward, a_forward, a_gradient, a_gradient, of_pages, of_tokens, a_window, a_request)
#: What takes no stream.
NO_STREAM = (
    "attention.SlidingWindow",
    "attention.CausalSlidingWindow",
    "attention.forward.request",
    "attention.backward.request",
)
