"""Calls of `numbacc.attention` with operands anywhere in memory, and the check of what they return."""

from __future__ import annotations

import attention_oracle
import numpy as np
from attention_oracle import Case

from numbacc import attention

#: What cuDNN's exponentials and its order of sums may be off, at the scale of an element.
LIBRARY_ERROR = 1e-5


def small(**more):
    """Attention of two sequences, uneven in its lengths."""
    return Case(**{"batch": 2, "heads": 2, "queries": 5, "keys": 7, "width": 8, "value_width": 8, "seed": 3, **more})


def mask_of(case):
    """A case's mask as numbacc takes it."""
    if case.mask is None or "window" not in case.mask:
        return case.mask
    kind = attention.CausalSlidingWindow if case.mask.startswith("causal") else attention.SlidingWindow
    return kind(case.window, bottom_right=case.mask.endswith("bottom_right"))


class Call:
    """One call forward, and one backward: their operands in place, and what they must give.

    Args:
        layout: "BHSD" or "BSHD".
        layouts: for the names of arrays keywords of `Operand`; results that are named are given.
        values: instead of random ones, as `attention_oracle.inputs` has them.
        bias_grad: whether the gradient of a bias is asked for, where there is one.
        options: passed on.
    """

    def __init__(self, place, case, layout="BHSD", layouts=None, values=None, bias_grad=True, **options):
        self.bias_grad = bias_grad and case.bias is not None
        self.place, self.case, self.layout, self.options = place, case, layout, options
        self.layouts = layouts or {}
        self.given = values or attention_oracle.inputs(case)
        self.operands = {}
        for name in ("q", "k", "v", "do"):
            self.operands[name] = place.operand(self.turned(getattr(self.given, name)), **self.layouts.get(name, {}))
        if case.bias is not None:
            self.operands["bias"] = place.operand(self.given.bias, **self.layouts.get("bias", {}))
        if case.slopes:
            self.operands["alibi"] = place.operand(self.given.slopes)
        if case.lengths is not None:
            for number, name in enumerate(("seq_len_q", "seq_len_kv")):
                numbers = np.array([pair[number] for pair in case.lengths], np.int32)
                self.operands[name] = place.operand(numbers)
        # Broadcast operands repeat their first elements.
        arrays = {name: self.turned(self.operands[name].values) for name in ("q", "k", "v", "do")}
        self.given = self.given._replace(**arrays)
        if case.bias is not None:
            self.given = self.given._replace(bias=self.operands["bias"].values)

    def turned(self, array):
        """To the layout, or back."""
        return array if self.layout == "BHSD" else array.swapaxes(1, 2)

    def views(self, *names):
        return [self.operands[name].view for name in names]

    @property
    def keywords(self):
        names = ("bias", "alibi", "seq_len_q", "seq_len_kv")
        arrays = {name: self.operands[name].view for name in names if name in self.operands}
        case = self.case
        random = {"seed": 5, "offset": 8, "dropout": case.dropout} if case.dropout else {}
        return {"mask": mask_of(case), "scale": case.scale, "layout": self.layout, **arrays, **random, **self.options}

    def shape(self, name):
        case = self.case
        rows, columns = (case.batch, case.query_heads, case.queries), (case.batch, case.heads, case.keys)
        whole = {
            "out": (*rows, case.value_width),
            "stats": rows,
            "dq": (*rows, case.width),
            "dk": (*columns, case.width),
            "dv": (*columns, case.value_width),
            "dbias": case.bias,
        }[name]
        return whole if name in ("stats", "dbias") or self.layout == "BHSD" else tuple(whole[k] for k in (0, 2, 1, 3))

    def results(self, *names):
        """Operands for results, where one of them is named in the layouts."""
        if not any(name in self.layouts for name in names):
            return None
        real = np.dtype(np.float64) if self.case.dtype == attention_oracle.DOUBLE else np.dtype(np.float32)
        kinds = {name: real if name == "stats" else self.case.dtype for name in names}
        return [self.place.empty(self.shape(name), kinds[name], **self.layouts.get(name, {})) for name in names]

    def forward(self, **more):
        """(o, stats) as the function returns them."""
        outs = self.results("out", "stats")
        given = None if outs is None else tuple(each.view for each in outs)
        answer = attention.forward(
            *self.views("q", "k", "v"), **{**self.keywords, "return_stats": True, "out": given, **more}
        )
        if outs is not None:
            assert answer is given
            for each in outs:
                each.assert_written_only()
        return answer

    def backward(self, o, stats, **more):
        """The gradients by name, as the function returns them."""
        names = ["dq", "dk", "dv", *["dbias"] * self.bias_grad]
        outs = self.results(*names)
        given = None if outs is None else tuple(each.view for each in outs)
        keywords = {**self.keywords, "bias_grad": self.bias_grad, "out": given, **more}
        answer = attention.backward(*self.views("do", "q", "k", "v"), o, stats, **keywords)
        if outs is not None:
            assert answer is given
            for each in outs:
                each.assert_written_only()
        return dict(zip(names, answer, strict=True))

    def kept(self):
        """What dropout keeps, None where there is none."""
        if not self.case.dropout:
            return None
        return self.place.get(attention.dropout_mask(*self.views("q", "k", "v"), **self.keywords))

    def check(self, gradients=True):
        """Run both ways and check all results."""
        o, stats = self.forward()
        found = {"o": self.turned(self.place.get(o)), "stats": self.place.get(stats)}
        if gradients:
            gradients = {name: self.place.get(each) for name, each in self.backward(o, stats).items()}
            found |= {name: each if name == "dbias" else self.turned(each) for name, each in gradients.items()}
        for operand in self.operands.values():
            operand.assert_untouched()
        narrow = self.place.is_device and self.case.dtype.itemsize == 2
        attention_oracle.assert_right(
            self.case, self.given, found, kept=self.kept(), o=found["o"], narrow=narrow,
            slack=LIBRARY_ERROR if self.place.name == "gpu" else 0.0,
        )  # fmt: skip
        return found
