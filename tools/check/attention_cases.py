"""Attention whose engines are checked: of several tiles, and of every kind that cuDNN's graphs tell apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from numbacc.attention import CausalSlidingWindow, SlidingWindow

DIRECTIONS = ("forward", "backward")
DTYPES = ("float16", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
#: Of neither is a tile's length a divisor.
QUERIES, KEYS = 141, 205


class Case(NamedTuple):
    """Attention.

    Attributes:
        name: to choose it by.
        direction, dtype: one of DIRECTIONS and of DTYPES; or "forward" and one of FLOAT8.
        q, k, v: shapes in the order of the layout.
        asked: keywords of `attention.forward.request` and of `attention.backward.request`.
        lengths: (queries, keys) of each sequence, where they may be shorter than they can be.
        together: whether q, k and v lie in one array.
        scales: of float8, by name; 1 where one is not named.
    """

    name: str
    direction: str
    dtype: str
    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    asked: dict[str, Any]
    lengths: tuple[tuple[int, int], ...] = ()
    together: bool = False
    scales: Mapping[str, float] = {}


_WINDOWS = {"window": SlidingWindow, "causal window": CausalSlidingWindow}
MASKS: dict[str, Any] = {"full": None, "causal": "causal", "bottom right": "causal_bottom_right"}
MASKS |= {name: kind(40) for name, kind in _WINDOWS.items()}
MASKS |= {f"{name} bottom right": kind(40, bottom_right=True) for name, kind in _WINDOWS.items()}
#: Of two sequences; of three that are packed, one of them empty.
_PADDED, _PACKED = ((QUERIES, KEYS), (77, 130)), ((77, 130), (0, 60), (64, 15))
_THD: dict[str, Any] = {"layout": "THD", "batch": 3, "max_len_q": 77, "max_len_kv": 130}

Sizes = tuple[int, int, int, int, int, int]


def _sizes(
    heads: int = 4, heads_kv: int = 2, queries: int = QUERIES, keys: int = KEYS, width: int = 64, value_width: int = 0
) -> Sizes:
    return heads, heads_kv, queries, keys, width, value_width or width


#: What is asked for beside the mask: name -> (sizes, keywords of the request, lengths, whether in one array).
_KINDS: dict[str, tuple[Sizes, dict[str, Any], tuple[tuple[int, int], ...], bool]] = {
    "own heads": (_sizes(heads_kv=4), {}, (), False),
    "one head of keys": (_sizes(heads_kv=1), {}, (), False),
    "more queries": (_sizes(queries=KEYS, keys=QUERIES), {}, (), False),
    "one query": (_sizes(queries=1), {}, (), False),
    "one key": (_sizes(keys=1), {}, (), False),
    "BSHD": (_sizes(), {"layout": "BSHD"}, (), False),
    "BSHD in one array": (_sizes(keys=QUERIES), {"layout": "BSHD"}, (), True),
    "bias": (_sizes(), {"bias_shape": (2, 4, QUERIES, KEYS)}, (), False),
    "bias of all heads": (_sizes(), {"bias_shape": (1, 1, QUERIES, KEYS)}, (), False),
    "bias of all queries": (_sizes(), {"bias_shape": (2, 1, 1, KEYS)}, (), False),
    "bias of all keys": (_sizes(), {"bias_shape": (1, 4, QUERIES, 1)}, (), False),
    "bias of heads": (_sizes(), {"bias_shape": (2, 4, 1, 1)}, (), False),
    "slopes": (_sizes(), {"alibi": True}, (), False),
    "slopes, bias, lengths": (_sizes(), {"alibi": True, "bias_shape": (4, QUERIES, KEYS)}, _PADDED, False),
    "dropout": (_sizes(), {"dropout": 0.25}, (), False),
    "dropout, lengths": (_sizes(), {"dropout": 0.25}, _PADDED, False),
    "dropout, bias": (_sizes(), {"dropout": 0.25, "bias_shape": (1, 4, QUERIES, KEYS)}, (), False),
    "no keys": (_sizes(), {}, ((QUERIES, 0), (99, KEYS)), False),
    **{f"vectors of {n}": (_sizes(width=n), {}, (), False) for n in (8, 20, 32, 40, 80, 96, 128, 256)},
    "vectors of 64 and 128": (_sizes(value_width=128), {}, (), False),
    "vectors of 192 and 128": (_sizes(width=192, value_width=128), {}, (), False),
}
#: What is combined with every mask.
_EACH_MASK: dict[str, tuple[Sizes, dict[str, Any], tuple[tuple[int, int], ...], bool]] = {
    "": (_sizes(), {}, (), False),
    "lengths": (_sizes(), {}, _PADDED, False),
    "packed": (_sizes(), _THD, _PACKED, False),
}
#: Sizes of those that have the gradient of a bias, along which axis it is repeated, if along any, and what else is
#: asked for.
_BIASED: dict[str, tuple[Sizes, int | None, dict[str, Any]]] = {
    "": (_sizes(), 0, {}),
    "own heads": (_sizes(heads_kv=4), None, {}),
    "of all heads": (_sizes(), 1, {}),
    "of all queries": (_sizes(), 2, {}),
    "of all keys": (_sizes(), 3, {}),
    "dropout": (_sizes(), None, {"dropout": 0.25}),
    **{f"keys {n}": (_sizes(keys=n), None, {}) for n in (1, 2, 7, 8, 64)},
    **{f"queries {n}": (_sizes(queries=n), None, {}) for n in (1, 2, 7, 8, 64)},
    "one of each": (_sizes(queries=1, keys=1), None, {}),
    "one of each, own heads": (_sizes(heads_kv=4, queries=1, keys=1), None, {}),
    "few of each, vectors of 8": (_sizes(queries=3, keys=5, width=8), None, {}),
}


def _repeated(shape: Sequence[int], axis: int | None) -> tuple[int, ...]:
    return tuple(1 if k == axis else n for k, n in enumerate(shape))


#: Of gradients alone: what makes their memory quadratic.
_GRADIENTS: dict[str, tuple[Sizes, dict[str, Any], tuple[tuple[int, int], ...], bool]] = {
    "deterministic": (_sizes(), {"deterministic": True}, (), False),
    **{
        f"gradient of a bias{', ' * bool(kind)}{kind}": (
            sizes,
            {"bias_shape": _repeated((2, sizes[0], *sizes[2:4]), axis), "bias_grad": True, **more},
            (),
            False,
        )
        for kind, (sizes, axis, more) in _BIASED.items()
    },
}
#: Those of float8 that most cases have: weights are far from the least number, and results from the largest.
_SCALES = {
    "descale_q": 0.5, "descale_k": 2.0, "descale_v": 0.25, "scale_s": 256.0, "descale_s": 1 / 256, "scale_o": 16.0,
}  # fmt: skip
#: What is asked for of float8 beside the mask: name -> (sizes, keywords of the request, whether in one array, scales).
#: One query, and a diagonal that ends at the last of more keys, need compute capability 10.0. Vectors of more than 128
#: are refused: cuDNN 9.19 reads beyond those of 192 and 256 on an H200, and ends the context.
_NARROW: dict[str, tuple[Sizes, dict[str, Any], bool, dict[str, float]]] = {
    "own heads": (_sizes(heads_kv=4), {}, False, _SCALES),
    "one head of keys": (_sizes(heads_kv=1), {}, False, _SCALES),
    "as many keys": (_sizes(keys=QUERIES), {}, False, _SCALES),
    "two queries": (_sizes(queries=2), {}, False, _SCALES),
    "one key": (_sizes(keys=1), {}, False, _SCALES),
    "BSHD": (_sizes(), {"layout": "BSHD"}, False, _SCALES),
    "BSHD in one array": (_sizes(keys=QUERIES), {"layout": "BSHD"}, True, _SCALES),
    "a scale": (_sizes(), {"scale": 0.3}, False, _SCALES),
    "no scales": (_sizes(), {}, False, {}),
    "results beyond the largest": (_sizes(), {}, False, {**_SCALES, "scale_o": 1e6}),
    "no maxima": (_sizes(), {"return_amax": False}, False, _SCALES),
    **{f"vectors of {n}": (_sizes(width=n), {}, False, _SCALES) for n in (16, 20, 32, 80, 96, 128)},
    "vectors of 64 and 128": (_sizes(value_width=128), {}, False, _SCALES),
}


def cases() -> Iterator[Case]:
    """All of them."""
    for direction, dtype in product(DIRECTIONS, DTYPES):
        for mask, kind in product(MASKS, _EACH_MASK):
            yield _case(direction, dtype, mask, kind, *_EACH_MASK[kind])
        more = {**_KINDS, **(_GRADIENTS if direction == "backward" else {})}
        for kind in more:
            yield _case(direction, dtype, "full" if dtype == "float16" else "causal", kind, *more[kind])
    for dtype, page, queries in product(DTYPES, (16, 64, 128), (1, 8)):
        count = 256 // page
        asked = {"pages": count, "lengths": True, "mask": "causal_bottom_right"}
        name = f"forward {dtype} bottom right, pages of {page}, {queries} queries"
        rows = (2 * count + 1, 2, page, 64)
        yield Case(name, "forward", dtype, (2, 4, queries, 64), rows, rows, asked, ((queries, KEYS), (queries, 100)))
    for dtype in FLOAT8:
        for mask, kind in MASKS.items():
            # As many keys as queries: every query sees one, wherever the diagonal starts.
            maxima = {"return_amax": not has_two_sides(kind)}
            yield _case("forward", dtype, mask, "", _sizes(keys=QUERIES), maxima, (), False, _SCALES)
        mask = "full" if dtype == FLOAT8[0] else "causal"
        for kind, (sizes, asked, together, scales) in _NARROW.items():
            yield _case("forward", dtype, mask, kind, sizes, {"return_amax": True, **asked}, (), together, scales)


def has_two_sides(mask: Any) -> bool:
    """Whether a query sees keys up to a number before it and behind it: of float8 numbacc refuses its maxima."""
    return isinstance(mask, SlidingWindow) and not isinstance(mask, CausalSlidingWindow)


def _case(
    direction: str, dtype: str, mask: str, kind: str, sizes: Sizes, asked: dict[str, Any],
    lengths: tuple[tuple[int, int], ...], together: bool, scales: Mapping[str, float] = {},
) -> Case:  # fmt: skip
    heads, heads_kv, queries, keys, width, value_width = sizes
    layout = asked.get("layout", "BHSD")

    def shape(count: int, length: int, elements: int) -> tuple[int, ...]:
        return {
            "BHSD": (2, count, length, elements),
            "BSHD": (2, length, count, elements),
            "THD": (length, count, elements),
        }[layout]

    whole = {**asked, "mask": MASKS[mask], "lengths": bool(lengths) and layout != "THD"}
    return Case(
        f"{direction} {dtype} {mask}{', ' * bool(kind)}{kind}", direction, dtype, shape(heads, queries, width),
        shape(heads_kv, keys, width), shape(heads_kv, keys, value_width), whole, lengths, together, scales,
    )  # fmt: skip
