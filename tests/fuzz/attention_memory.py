"""Attention of sequences that lie one after the other, and of keys and values in pages."""

from __future__ import annotations

import attention_oracle
import numpy as np
from attention_call import LIBRARY_ERROR, mask_of
from attention_oracle import FLOATS, MASKS, Case

from numbacc import attention

from .operands import lay, neighbours, result_of, target_of

_BOTTOM_RIGHT = tuple(name for name in MASKS if name is None or name.endswith("bottom_right"))


def assert_right(case, drawn, given, found, o):
    attention_oracle.assert_right(
        drawn, given, found, o=o, narrow=case.place.is_device and drawn.dtype.itemsize == 2,
        slack=LIBRARY_ERROR if case.place.name == "gpu" else 0.0,
    )  # fmt: skip


def drawn_case(case, lengths, masks, **more):
    longest = [max(pair[own] for pair in lengths) for own in range(2)]
    return Case(
        batch=len(lengths), heads=case.integer(1, 2), groups=case.pick([1, 1, 2, 3]), queries=longest[0],
        keys=longest[1], width=case.pick([1, 5, 8, 8, 16]), value_width=case.pick([3, 8, 8, 16]),
        dtype=case.pick(FLOATS), mask=case.pick(masks), window=case.integer(1, 6), lengths=tuple(lengths),
        seed=case.seed_of_values(), **more,
    )  # fmt: skip


def reach(case):
    return 4 if case.place.is_slow else 200 if case.place.name == "gpu" and case.chance(0.3) else 12


def packed(case):
    """Output, statistics and gradients of sequences, some of them empty."""
    longest = reach(case)
    lengths = [(case.integer(0, longest), case.integer(0, longest)) for _ in range(case.integer(0, 2))]
    lengths.insert(case.integer(0, len(lengths)), (case.integer(1, longest), case.integer(1, longest)))
    drawn = drawn_case(case, lengths, MASKS, slopes=case.chance(0.2))
    given = attention_oracle.inputs(drawn)
    # The packed arrays leave out the padding.
    parts = {name: [getattr(given, name)[b, :, : pair[name in "kv"]] for b, pair in enumerate(lengths)]
             for name in ("do", "q", "k", "v")}  # fmt: skip
    rows = {name: lay(case, np.concatenate(each, 1).swapaxes(0, 1)) for name, each in parts.items()}
    starts = [np.cumsum([0, *(pair[own] for pair in lengths)]) for own in range(2)]
    if any(0 in operand._steps for operand in rows.values()):
        values = {name: np.array(operand.values) for name, operand in rows.items()}
        given = given._replace(**{name: padded(drawn, values[name], starts[name in "kv"], name) for name in values})
    numbers = {name: lay(case, each.astype(case.pick([np.int32, np.int64]))) for name, each in
               zip(("seq_len_q", "seq_len_kv"), starts, strict=True)}  # fmt: skip
    if any(0 in operand._steps for operand in numbers.values()):
        return  # all starts alike: sequences of no length
    more = {name: each.view for name, each in numbers.items()}
    if drawn.slopes:
        numbers["alibi"] = lay(case, given.slopes)
        more["alibi"] = numbers["alibi"].view
        given = given._replace(slopes=np.array(numbers["alibi"].values))
    options = {"mask": mask_of(drawn), "layout": "THD", "max_len_q": drawn.queries, "max_len_kv": drawn.keys, **more}
    do, *triple = (each.view for each in rows.values())
    o, stats = case.call("attention.forward", attention.forward, *triple, **options, return_stats=True, **case.stream())
    names, outs = ("dq", "dk", "dv"), None
    if case.where.chance(0.5):
        outs = neighbours(case, [rows[name].values.shape for name in ("q", "k", "v")], drawn.dtype)
        options["out"] = tuple(each.view for each in outs)
    grads = case.call("attention.backward", attention.backward, do, *triple, o, stats, **options, **case.stream())
    grads = [result_of(case, one, out) for one, out in zip(grads, outs or [None] * 3, strict=True)]
    o, stats = result_of(case, o, None), np.array(case.place.get(stats))
    found = {"o": padded(drawn, o, starts[0], "o"), "stats": stats}
    found |= {name: padded(drawn, each, starts[name != "dq"], name) for name, each in zip(names, grads, strict=True)}
    assert_right(case, drawn, given, found, found["o"])
    for each in (*rows.values(), *numbers.values()):
        each.assert_untouched()


def padded(drawn, tokens, starts, name):
    """(tokens, heads, elements) as (batch, heads, longest, elements), with zeros after the sequences."""
    longest = drawn.keys if name.lstrip("d") in ("k", "v") else drawn.queries
    found = np.zeros((drawn.batch, tokens.shape[1], longest, tokens.shape[2]), tokens.dtype)
    for b in range(drawn.batch):
        part = tokens[starts[b] : starts[b + 1]]
        found[b, :, : len(part)] = part.swapaxes(0, 1)
    return found


def paged(case):
    """Keys and values in pages; some pages are shared."""
    page, count, batch = case.pick([1, 2, 4, 16]), case.integer(1, 3), case.integer(1, 3)
    lengths = [(case.integer(1, 3), case.integer(1, page * count)) for _ in range(batch)]
    lengths = [(max(q for q, _ in lengths), keys) for _, keys in lengths]
    drawn = drawn_case(case, lengths, _BOTTOM_RIGHT)._replace(keys=page * count)
    given = attention_oracle.inputs(drawn)
    pool = case.integer(1, 6)
    widths = {"k": drawn.width, "v": drawn.value_width}
    q = lay(case, given.q)
    pages = {name: lay(case, case.rng.standard_normal((pool, drawn.heads, page, n)).astype(drawn.dtype))
             for name, n in widths.items()}  # fmt: skip
    tables = {name: lay(case, case.rng.integers(0, pool, (batch, count)).astype(np.int32)) for name in widths}
    keys = lay(case, np.array([pair[1] for pair in lengths], np.int32))
    whole = {name: np.stack([np.concatenate(pages[name].values[row], 1) for row in np.array(tables[name].values)])
             for name in widths}  # fmt: skip
    given = given._replace(q=np.array(q.values), **whole)
    drawn = drawn._replace(lengths=tuple((drawn.queries, int(n)) for n in np.array(keys.values)))
    options = {"mask": mask_of(drawn), "seq_len_kv": keys.view,
               **{f"page_table_{name}": table.view for name, table in tables.items()}}  # fmt: skip
    shape = (*drawn.scores[:3], drawn.value_width)
    out, target = target_of(case, shape, drawn.dtype)
    answer = case.call(
        "attention.forward", attention.forward, q.view, pages["k"].view, pages["v"].view, **options, **target,
        **case.stream(),
    )  # fmt: skip
    o = result_of(case, answer, out)
    assert_right(case, drawn, given, {"o": o}, o)
    for each in (q, keys, *pages.values(), *tables.values()):
        each.assert_untouched()
