"""Attention and its gradients: masks, biases, lengths, packing, dropout, strides, results fresh and given, plans."""

from __future__ import annotations

import attention_oracle
import numpy as np
from attention_call import LIBRARY_ERROR, mask_of
from attention_oracle import FLOATS, MASKS, Case

from numbacc import attention

from .attention_memory import packed, paged
from .operands import anywhere, assert_written, neighbours, result_of


def run(case):
    case.pick([whole] * 7 + [packed] * 2 + [paged])(case)


def whole(case):
    """Sequences in arrays that are as long as the longest."""
    drawn, layout = geometry(case), case.pick(["BHSD", "BHSD", "BSHD"])
    values = attention_oracle.inputs(drawn)
    options = {"deterministic": True} if case.chance(0.1) else {}

    def turned(array):
        return array if layout == "BHSD" else array.swapaxes(1, 2)

    def operand(array):
        return case.place.operand(array, **anywhere(case, array.shape, False))

    rows = {name: operand(turned(getattr(values, name))) for name in ("q", "k", "v", "do")}
    keywords = {"mask": mask_of(drawn), "scale": drawn.scale, "layout": layout, **options}
    more = {}
    if drawn.bias is not None:
        more["bias"] = operand(values.bias)
    if drawn.slopes:
        more["alibi"] = operand(values.slopes)
    if drawn.lengths is not None:
        for number, name in enumerate(("seq_len_q", "seq_len_kv")):
            numbers = np.array([pair[number] for pair in drawn.lengths], case.pick([np.int32, np.int64]))
            more[name] = operand(numbers)
    keywords |= {name: each.view for name, each in more.items()}
    seeds = {}
    if drawn.dropout:
        keywords["dropout"] = drawn.dropout
        seeds = {"seed": case.seed_of_values(), "offset": 4 * case.integer(0, 1000)}
    kept = None
    views = [rows[name].view for name in ("q", "k", "v")]
    if drawn.dropout:
        kept = case.place.get(attention.dropout_mask(*views, **keywords, **seeds))
    out = None
    if case.where.chance(0.4):
        shape = turned(np.empty((*drawn.scores[:3], drawn.value_width), np.bool_)).shape
        real = np.dtype(attention_oracle.oracle.compute_dtype(drawn.dtype))
        kinds = ((shape, drawn.dtype), (drawn.scores[:3], real))
        out = [case.place.empty(s, kind, **anywhere(case, s, True)) for s, kind in kinds]
    o, stats = forward(case, drawn, views, out, keywords, seeds, more)
    shapes = [rows[name].values.shape for name in ("q", "k", "v")]
    grads = backward(case, drawn, [rows["do"].view, *views, o, stats], keywords, seeds, shapes)
    case.place.settle()
    for each in out or ():
        each.assert_untouched_around()
        assert_written(np.array(each.now()))
    o, stats = (o, stats) if out is None else (each.ours for each in out)
    found = {"o": turned(np.array(case.place.get(o))), "stats": np.array(case.place.get(stats))}
    for name, each in grads.items():
        array = each if isinstance(each, np.ndarray) else np.array(case.place.get(each))
        found[name] = array if name == "dbias" else turned(array)
    given = values._replace(**{name: turned(np.array(each.values)) for name, each in rows.items()})
    given = given._replace(bias=None if drawn.bias is None else np.array(more["bias"].values))
    given = given._replace(slopes=np.array(more["alibi"].values) if drawn.slopes else None)
    if drawn.lengths is not None:
        pairs = zip(*(np.array(more[name].values).tolist() for name in ("seq_len_q", "seq_len_kv")), strict=True)
        drawn = drawn._replace(lengths=tuple(pairs))
    attention_oracle.assert_right(
        drawn, given, found, kept=kept, o=found["o"], narrow=case.place.is_device and drawn.dtype.itemsize == 2,
        slack=LIBRARY_ERROR if case.place.name == "gpu" else 0.0,
    )  # fmt: skip
    for each in (*rows.values(), *more.values()):
        each.assert_untouched()


def forward(case, drawn, views, out, keywords, seeds, more):
    """(o, stats), by the function or its plan."""
    given = {}
    if out is not None:
        given["out"] = tuple(each.view for each in out)
    if case.chance(0.75):
        options = {**keywords, **seeds, **given}
        return case.call("attention.forward", attention.forward, *views, return_stats=True, **options, **case.stream())
    plan = case.call("attention.forward.plan", attention.forward.plan, *views, return_stats=True, **keywords, **given)
    arrays = {name: each.view for name, each in more.items()}
    return plan(*views, **arrays, **seeds, **given, **case.stream())


def backward(case, drawn, arrays, keywords, seeds, shapes):
    """The gradients by name."""
    names = ["dq", "dk", "dv", *["dbias"] * (drawn.bias is not None)]
    options, outs = {**keywords, **seeds, "bias_grad": drawn.bias is not None}, None
    if case.where.chance(0.5):
        outs = neighbours(case, [*shapes, *[drawn.bias] * (drawn.bias is not None)], drawn.dtype)
        options["out"] = tuple(each.view for each in outs)
    found = case.call("attention.backward", attention.backward, *arrays, **options, **case.stream())
    if outs is not None:
        found = [result_of(case, one, out) for one, out in zip(found, outs, strict=True)]
    return dict(zip(names, found, strict=True))


def geometry(case):
    """Attention of few elements."""
    longest = 5 if case.place.is_slow else 24
    if case.place.name == "gpu" and case.chance(0.3):
        longest = 400
    batch, heads, groups = case.integer(0, 3), case.integer(1, 3), case.pick([1, 1, 2, 3])
    queries, keys = case.integer(1, longest), case.integer(1, longest)
    bias = lengths = None
    if case.chance(0.3):
        bias = tuple(case.pick([1, n]) for n in (batch, heads * groups, queries, keys))
    if case.chance(0.4):
        # Where an operand repeats its first element, all have its length: any of these will do.
        lengths = tuple((case.integer(0, queries), case.integer(0, keys)) for _ in range(batch))
    return Case(
        batch=batch,
        heads=heads,
        groups=groups,
        queries=queries,
        keys=keys,
        width=case.pick([1, 5, 8, 8, 16, 24]),
        value_width=case.pick([1, 3, 8, 8, 16]),
        dtype=case.pick(FLOATS),
        mask=case.pick(MASKS),
        window=case.integer(1, 6),
        bias=bias,
        slopes=case.chance(0.2),
        scale=case.pick([None, None, 1.0, -0.4]),
        lengths=lengths,
        dropout=case.pick([0.0, 0.0, 0.3]),
        seed=case.seed_of_values(),
    )
