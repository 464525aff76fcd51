"""Attention as cuDNN graphs, with operations in the order that cuDNN needs to find its fused kernels.

cuDNN sees arrays as (batch, heads, sequence, elements) for every layout; the strides express the layout. The last two
axes of k, and backward also of v, are exchanged. Nothing between the two products is stored. Source of the order of
operations: the attention nodes of NVIDIA's cudnn-frontend, as measured with cuDNN 9.8 to 9.28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..base.attention_band import Band
from ..libraries.cudnn_graph import CudnnGraph, Drawing, Place, packed

#: A finite number instead of minus infinity: with -inf, a row without a key would have differences that are NaN.
LOWEST = -3.4028234663852886e38

Shape = tuple[int, ...]


class Form(NamedTuple):
    """An array as cuDNN sees it.

    Attributes:
        dtype: its name.
        shape: (batch, heads, sequence, elements), or lengths of 1 instead.
        strides: in elements.
        starts: the name of the array with the start of each sequence; "" if the strides determine it.
    """

    dtype: str
    shape: Shape
    strides: Shape
    starts: str = ""

    @property
    def turned(self) -> Form:
        """The array with its last two axes exchanged."""
        (*shape, length, width), (*strides, step, unit) = self.shape, self.strides
        return self._replace(shape=(*shape, width, length), strides=(*strides, unit, step))


def dense(dtype: str, *shape: int) -> Form:
    """Return the form of a contiguous array."""
    return Form(dtype, shape, packed(shape))


@dataclass(frozen=True)
class Sketch:
    """The parameters that a graph of attention depends on.

    Attributes:
        scores: (batch, heads, queries, keys).
        band: which keys a query sees.
        arrays: the arrays in memory by name, in the order of the graph's addresses. In addition to the user's arrays
            these are "seed" and "start" of dropout, "lengths_q" and "lengths_kv", "starts_*", and backward "sums" and
            "dq_sums". With float8 all scales are included, and "amax_o".
        scale, dropout: numbers.
        paged: whether k and v are pages.
        hides_again: whether backward masks positions after a sequence's end once more, after subtracting the
            statistics.
        clamps: whether scores with a bias are at least LOWEST.
    """

    scores: tuple[int, int, int, int]
    band: Band
    arrays: tuple[tuple[str, Form], ...]
    scale: float
    dropout: float
    paged: bool = False
    hides_again: bool = False
    clamps: bool = False


class Drawn(NamedTuple):
    """A graph, and the values of the scalars that it reads from host memory."""

    graph: CudnnGraph
    values: tuple[float, ...]


class _Sheet:
    """A builder of a graph of attention."""

    def __init__(self, sketch: Sketch, turned: Sequence[str]):
        self.sketch, self.draw = sketch, Drawing("float32")
        self.forms: Mapping[str, Form] = dict(sketch.arrays)
        self.at: dict[str, Place] = {}
        for name, form in sketch.arrays:
            form = form.turned if name in turned else form
            self.at[name] = self.draw.tensor(
                form.dtype, form.shape, form.strides, offsets=self.at[form.starts] if form.starts else None
            )
        self.dtype = self.forms["q"].dtype
        #: The scores S, as far as they are drawn.
        self.scored: Place = 0

    @cached_property
    def lowest(self) -> Place:
        """The score of a hidden key. cuDNN 9.19 cannot execute a graph with a scalar that it does not read."""
        return self.draw.number(LOWEST)

    def has(self, name: str) -> bool:
        return name in self.at

    def index(self, axis: int, dtype: str = "int32") -> Place:
        """Return the index of each score's row (axis 2) or column (3)."""
        out = self.draw.between(self.sketch.scores, dtype=dtype)
        return self.draw.pointwise("GEN_INDEX", self.scored, out=out, axis=axis, math=dtype)

    def compared(self, mode: str, x: Place, b: Place) -> Place:
        out = self.draw.between(self.sketch.scores, dtype="bool")
        return self.draw.pointwise(mode, x, b, out=out, math="bool")

    def moved(self, mode: str, x: Place, b: Place, dtype: str = "int32") -> Place:
        """Return an index after an addition or subtraction."""
        return self.draw.pointwise(mode, x, b, out=self.draw.between(self.sketch.scores, dtype=dtype), math=dtype)

    def select(self, seen: Place) -> None:
        """Keep the scores only where a key is seen."""
        self.scored = self.draw.pointwise("BINARY_SELECT", self.scored, self.lowest, seen)

    def products(self, keys: Place) -> None:
        """Draw S = scale q kᵀ, add the biases, and mask positions outside of the sequences."""
        draw, sketch = self.draw, self.sketch
        lengths = {"m": self.at["lengths_q"], "n": self.at["lengths_kv"]} if self.has("lengths_q") else {}
        product = draw.matmul(self.at["q"], keys, draw.between(sketch.scores), **lengths)
        self.scored = draw.pointwise("MUL", product, draw.number(sketch.scale))
        for name in ("descale_q", "descale_k"):
            if self.has(name):
                self.scored = draw.pointwise("MUL", self.scored, self.at[name])
        if self.has("bias"):
            self.scored = draw.pointwise("ADD", self.scored, self.at["bias"])
            if sketch.clamps:
                self.scored = draw.pointwise("MAX", self.scored, self.lowest)
        if self.has("alibi"):
            apart = self.moved("SUB", self.index(3), self.index(2))
            slope = draw.pointwise("MUL", apart, self.at["alibi"], out=draw.between(sketch.scores))
            self.scored = draw.pointwise("ADD", self.scored, slope)
        if self.has("lengths_q"):
            self.within()

    def within(self) -> None:
        """Mask S where the query or the key is outside of its sequence."""
        # cuDNN has kernels for these comparisons only with integers.
        row = self.moved("CMP_LT", self.index(2), self.at["lengths_q"])
        column = self.moved("CMP_LT", self.index(3), self.at["lengths_kv"])
        both = self.draw.between(self.sketch.scores, dtype="bool")
        self.select(self.draw.pointwise("LOGICAL_AND", row, column, out=both, math="bool"))

    def banded(self) -> None:
        """Mask S where the band hides a key from a query."""
        band = self.sketch.band
        if band.upper is not None:
            row = self._across(self.index(2), ("ADD", "SUB"), "int32")
            if band.upper:
                row = self.moved("ADD", row, self.draw.number(band.upper, "int32"))
            self.select(self.compared("CMP_GE", row, self.index(3)))
        if band.lower is not None:
            # A query sees keys that are less than this far before it. cuDNN has kernels for windows only with floats.
            before = self.draw.number(1 - band.lower)
            column = self.moved("ADD", self.index(3, "float32"), before, "float32")
            column = self._across(column, ("SUB", "ADD"), "float32")
            self.select(self.compared("CMP_GT", column, self.index(2, "float32")))

    def _across(self, index: Place, modes: tuple[str, str], dtype: str) -> Place:
        """Return an index moved to the start of the diagonal: by the number of keys one way, of queries the other."""
        _, _, queries, keys = self.sketch.scores
        lengths = self.has("lengths_q")
        if not self.sketch.band.bottom_right or (queries == keys and not lengths):
            return index
        for mode, name, most in zip(modes, ("lengths_kv", "lengths_q"), (keys, queries), strict=True):
            index = self.moved(mode, index, self.at[name] if lengths else self.draw.number(most, dtype), dtype)
        return index

    def kept(self, out: Place | None = None) -> Place:
        """Return 1 where dropout keeps a weight, else 0."""
        place = self.draw.between(self.sketch.scores) if out is None else out
        return self.draw.bernoulli(1.0 - self.sketch.dropout, self.at["seed"], self.at["start"], place)


def forward(sketch: Sketch) -> Drawn:
    """Draw the graph of the output, and of the statistics and the dropout mask if the arrays name them."""
    sheet = _Sheet(sketch, () if sketch.paged else ("k",))
    draw, (batch, heads, queries, _) = sheet.draw, sketch.scores
    column = (batch, heads, queries, 1)
    k, v = sheet.at["k"], sheet.at["v"]
    if sketch.paged:
        k, v = (_paged(sheet, name) for name in ("k", "v"))
    sheet.products(k)
    sheet.banded()
    top = draw.reduce("MAX", sheet.scored, draw.between(column))
    weights = draw.pointwise("EXP", draw.pointwise("SUB", sheet.scored, top))
    total = draw.reduce("ADD", weights, draw.between(column))
    # cuDNN only supports graphs with these two operations, even if nothing reads their result.
    stats = sheet.at["stats"] if sheet.has("stats") else draw.between(column)
    draw.pointwise("ADD", top, draw.pointwise("LOG", total), out=stats)
    narrow = draw.between(sketch.scores, dtype=sheet.dtype)
    if sketch.dropout:
        shares = draw.pointwise("DIV", weights, total)
        kept = sheet.kept(sheet.at.get("kept"))
        shares = draw.pointwise("MUL", shares, kept)
        shares = draw.pointwise("MUL", shares, draw.number(1.0 / (1.0 - sketch.dropout)), out=narrow)
    elif sheet.has("scale_s"):
        return _scaled(sheet, draw.pointwise("DIV", weights, total), narrow, v)
    else:
        shares = draw.pointwise("DIV", weights, total, out=narrow)
    lengths = {"m": sheet.at["lengths_q"], "k": sheet.at["lengths_kv"]} if sheet.has("lengths_q") else {}
    draw.matmul(shares, v, sheet.at["out"], **lengths)
    return Drawn(draw.graph(), tuple(draw.values))


def _scaled(sheet: _Sheet, shares: Place, narrow: Place, v: Place) -> Drawn:
    """Draw the float8 graph from the weights on. cuDNN requires amax_o in it."""
    draw, at = sheet.draw, sheet.at
    if sheet.has("amax_s"):
        draw.reduce("AMAX", shares, at["amax_s"])
    stored = draw.pointwise("MUL", shares, at["scale_s"], out=narrow)
    sums = draw.matmul(stored, v, draw.between(sheet.forms["out"].shape))
    for name in ("descale_s", "descale_v"):
        sums = draw.pointwise("MUL", sums, at[name])
    draw.pointwise("MUL", sums, at["scale_o"], out=at["out"])
    draw.reduce("AMAX", sums, at["amax_o"])
    return Drawn(draw.graph(), tuple(draw.values))


def _paged(sheet: _Sheet, name: str) -> Place:
    """Return the whole kᵀ or v, gathered from pages."""
    batch, _, _, keys = sheet.sketch.scores
    form = sheet.forms[name]
    whole = dense(form.dtype, batch, form.shape[1], keys, form.shape[3])
    whole = whole.turned if name == "k" else whole
    out = sheet.draw.between(whole.shape, whole.strides, form.dtype)
    return sheet.draw.pages(sheet.at[name], sheet.at[f"page_table_{name}"], sheet.at["lengths_kv"], out)


def backward(sketch: Sketch, direct: bool) -> Drawn:
    """Draw the graph of the gradients.

    Args:
        direct: whether the product writes dq itself. This is needed if dq must be deterministic, or if the bias has a
            gradient, since cuDNN then keeps the gradients of all scores. Otherwise dq is accumulated in "dq_sums".
    """
    sheet = _Sheet(sketch, ("k", "v"))
    draw, (batch, heads, queries, keys), at = sheet.draw, sketch.scores, sheet.at
    dtype, group = sheet.dtype, heads // sheet.forms["k"].shape[1]
    width, value_width = sheet.forms["q"].shape[3], sheet.forms["v"].shape[3]
    lengths = sheet.has("lengths_q")

    def limits(**names: str) -> dict[str, Place]:
        return {name: at[f"lengths_{which}"] for name, which in names.items()} if lengths else {}

    product = draw.pointwise("MUL", at["do"], at["o"], out=draw.between((batch, heads, queries, value_width)))
    sums = draw.reduce("ADD", product, draw.between((batch, heads, queries, 1)))
    draw.pointwise("MUL", sums, draw.number(1.0 - sketch.dropout), out=at["sums"])
    sheet.products(at["k"])
    sheet.scored = draw.pointwise("SUB", sheet.scored, at["stats"])
    if lengths and sketch.hides_again:
        sheet.within()
    sheet.banded()
    shares = draw.pointwise("EXP", sheet.scored)
    kept = sheet.kept() if sketch.dropout else None
    weights = shares
    if kept is not None:
        weights = draw.pointwise("MUL", shares, kept)
        weights = draw.pointwise("MUL", weights, draw.number(1.0 / (1.0 - sketch.dropout)))
    turned = Form(dtype, sketch.scores, packed(sketch.scores)).turned

    def across(x: Place) -> Place:
        return draw.reshape(x, draw.between(turned.shape, turned.strides, dtype))

    def gathered(a: Place, b: Place, name: str, length: int) -> None:
        """Multiply a by b, and sum over heads that share a key or value."""
        if group == 1:
            draw.matmul(a, b, at[name], **limits(m="kv", k="q"))
            return
        whole = draw.between((batch, heads, keys, length), dtype=dtype)
        draw.reduce("ADD", draw.matmul(a, b, whole, **limits(m="kv", k="q")), at[name])

    gathered(across(weights), at["do"], "dv", value_width)
    spread = draw.matmul(at["do"], at["v"], draw.between(sketch.scores), **limits(m="q", n="kv"))
    if kept is not None:
        spread = draw.pointwise("MUL", spread, kept)
    slopes = draw.pointwise("MUL", draw.pointwise("SUB", spread, at["sums"]), shares)
    if kept is not None:
        slopes = draw.pointwise("MUL", slopes, draw.number(1.0 / (1.0 - sketch.dropout)))
    if sheet.has("dbias"):
        draw.reduce("ADD", slopes, at["dbias"])
    slopes = draw.pointwise("MUL", slopes, draw.number(sketch.scale), out=draw.between(sketch.scores, dtype=dtype))
    gathered(across(slopes), at["q"], "dk", width)
    form = sheet.forms["k"]
    back = draw.reshape(at["k"], draw.between(form.shape, form.strides, dtype))
    if direct:
        draw.matmul(slopes, back, at["dq"], **limits(m="q", k="kv"))
    else:
        draw.matmul(slopes, back, at["dq_sums"], **limits(m="q", k="kv"))
        draw.pointwise("IDENTITY", at["dq_sums"], out=at["dq"])
    return Drawn(draw.graph(), tuple(draw.values))
