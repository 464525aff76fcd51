"""The sizes of attention's axes, derived from the shapes of its arrays, and checks that these fit together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.layout import Layout, layout
from ..errors import OptionError, ShapeError, unknown

#: Layout -> the axes of an array in the order batch, heads, sequence, elements. Packed sequences lack a batch axis.
LAYOUTS = {"BHSD": (0, 1, 2, 3), "BSHD": (0, 2, 1, 3), "THD": (1, 0, 2)}
#: The longest vectors of queries, keys and values.
MAX_WIDTH = 256


@dataclass(frozen=True)
class AttentionGeometry:
    """The sizes of attention's axes.

    Attributes:
        layout: one of LAYOUTS.
        batch: number of sequences; may be 0.
        heads, heads_kv: number of query heads, and of key and value heads; the first is a multiple of the second.
        queries, keys: the longest possible length of a sequence.
        width, value_width: elements of a query or key, and of a value.
        tokens, tokens_kv: total number of tokens in packed sequences; else 0.
        page, pages, sheets: keys in a page, pages of a sequence, and the number of all pages; 0 without pages.
    """

    layout: str
    batch: int
    heads: int
    heads_kv: int
    queries: int
    keys: int
    width: int
    value_width: int
    tokens: int = 0
    tokens_kv: int = 0
    page: int = 0
    pages: int = 0
    sheets: int = 0

    @property
    def group(self) -> int:
        """Number of query heads that share one key head."""
        return self.heads // self.heads_kv

    @property
    def is_packed(self) -> bool:
        """Whether sequences are packed one after the other."""
        return self.layout == "THD"

    @property
    def scores(self) -> tuple[int, int, int, int]:
        """The shape of all scores."""
        return self.batch, self.heads, self.queries, self.keys

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array in its layout, by its name."""
        if name in ("q", "dq"):
            sizes = (self.batch, self.heads, self.queries, self.width)
        elif name in ("o", "do", "out"):
            sizes = (self.batch, self.heads, self.queries, self.value_width)
        elif name in ("k", "dk"):
            sizes = (self.batch, self.heads_kv, self.keys, self.width)
        else:
            sizes = (self.batch, self.heads_kv, self.keys, self.value_width)
        batch, heads, length, width = sizes
        if self.is_packed:
            return (self.tokens if name in ("q", "dq", "o", "do", "out") else self.tokens_kv), heads, width
        return (batch, heads, length, width) if self.layout == "BHSD" else (batch, length, heads, width)

    @property
    def stats_shape(self) -> tuple[int, int, int]:
        """The shape of the statistics, the same for every layout."""
        return self.batch, self.heads, self.queries


def check_layout(name: Any) -> str:
    """Return the name of a layout after a check.

    Raises:
        OptionError: the layout is unknown.
    """
    if not isinstance(name, str) or name not in LAYOUTS:
        raise unknown("layout", name, LAYOUTS, f"the layouts are {', '.join(LAYOUTS)}")
    return name


def check_rank(shape: tuple[int, ...], what: str, name: str) -> None:
    """Raise ShapeError unless an array has as many axes as its layout requires."""
    rank = len(LAYOUTS[name])
    if len(shape) != rank:
        raise ShapeError(
            f'{what} has shape {shape}, of rank {len(shape)}; with layout="{name}" it must have rank {rank}'
        )


def ordered(array: Layout, name: str) -> Layout:
    """Return an array as (batch, heads, sequence, elements), or, if packed, as (heads, tokens, elements)."""
    axes = LAYOUTS[name]
    shape, strides = (tuple(each[axis] for axis in axes) for each in (array.shape, array.strides))
    return layout(shape, strides, array.dtype, array.device)


def geometry(
    q: Layout,
    k: Layout,
    v: Layout,
    name: str,
    starts: tuple[Layout | None, Layout | None],
    table: Layout | None,
    longest: tuple[int | None, int | None],
) -> AttentionGeometry:
    """Return the geometry of three arrays.

    Args:
        q, k, v: as the user gave them.
        name: their layout.
        starts: the arrays with the start of each sequence, for packed sequences.
        table: the page table, if k and v are pages.
        longest: the lengths of the longest sequences, if sequences are packed; None for the number of tokens.

    Raises:
        ShapeError: ranks, heads, lengths or widths do not fit.
    """
    for each, what in ((q, "q"), (k, "k"), (v, "v")):
        check_rank(each.shape, what, name)
    q_sizes, k_sizes, v_sizes = (ordered(each, name).shape for each in (q, k, v))
    heads, queries, width = q_sizes[-3:]
    heads_kv, keys, _ = k_sizes[-3:]
    if k_sizes[:-1] != v_sizes[:-1]:
        raise ShapeError(f"k has shape {k.shape} and v {v.shape}; all but the last length must be the same")
    if k_sizes[-1] != width:
        raise ShapeError(f"q has shape {q.shape} and k {k.shape}; their vectors must have the same length")
    # A packed batch may be empty; then it does not have tokens, either.
    batch = _packed_batch(starts) if name == "THD" else q_sizes[0]
    tokens = ((queries, "q"), (keys, "k")) if name != "THD" or batch else ()
    for count, what in ((heads, "q"), (heads_kv, "k"), *tokens):
        if not count:
            raise ShapeError(f"{what} has shape {(q if what == 'q' else k).shape}; only the batch may be empty")
    if heads % heads_kv:
        raise ShapeError(f"q has {heads} heads and k {heads_kv}; the first must be a multiple of the second")
    for length, what in ((width, "q and k"), (v_sizes[-1], "v")):
        if not 1 <= length <= MAX_WIDTH:
            raise ShapeError(f"vectors of {what} have {length} elements; 1 to {MAX_WIDTH} are supported")
    found = {"heads": heads, "heads_kv": heads_kv, "width": width, "value_width": v_sizes[-1]}
    if name == "THD":
        limits = [
            total if given is None else _longest(given, total, what)
            for given, total, what in zip(longest, (queries, keys), ("max_len_q", "max_len_kv"), strict=True)
        ]
        return AttentionGeometry(
            name, batch, queries=limits[0], keys=limits[1], tokens=queries, tokens_kv=keys, **found
        )
    if table is not None:
        if table.ndim != 2 or table.shape[0] != batch or not table.shape[1]:
            raise ShapeError(
                f"page_table_k has shape {table.shape}; it needs a row for each of the {batch} sequences of q, "
                "with the numbers of its pages"
            )
        if batch and not k_sizes[0]:
            raise ShapeError(f"k has shape {k.shape}; it must have at least one page, because page_table_k is given")
        pages = table.shape[1]
        more = {"page": keys, "pages": pages, "sheets": k_sizes[0]}
        return AttentionGeometry(name, batch, queries=queries, keys=keys * pages, **more, **found)
    if k_sizes[0] != batch:
        raise ShapeError(f"q has shape {q.shape} and k {k.shape}; they must have the same batch size")
    return AttentionGeometry(name, batch, queries=queries, keys=keys, **found)


def _packed_batch(starts: tuple[Layout | None, Layout | None]) -> int:
    """Return the number of sequences that arrays of starts describe."""
    one, other = starts
    if one is None or other is None:
        raise OptionError(
            'layout="THD" needs seq_len_q and seq_len_kv: the start of each sequence, then the end of the last one'
        )
    for each, name in ((one, "seq_len_q"), (other, "seq_len_kv")):
        if each.ndim != 1 or each.size < 1 or each.size != one.size:
            raise ShapeError(
                f'{name} has shape {each.shape}; with layout="THD" it and seq_len_{"kv" if each is one else "q"} have '
                "one element more than there are sequences"
            )
    return one.size - 1


def _longest(given: int, total: int, name: str) -> int:
    if not 1 <= given <= total:
        raise OptionError(f"{name}={given}; it must be 1 to the number of tokens, {total}")
    return given
