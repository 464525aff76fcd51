"""The masks of the public interface, which say which keys a query sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..base.attention_band import Band
from ..base.checks import boolean, integer
from ..errors import OptionError, nearest, shown

#: The longest supported sequence: its length fits in 32 bits.
_LONGEST = 2**31 - 1


@dataclass(frozen=True)
class SlidingWindow:
    """A mask: query i sees the keys that are less than `length` away from it on either side, |i - j| < length.

    Attributes:
        length: 1 or more; with 1, a query sees only the key at its own position.
        bottom_right: whether the last query is aligned with the last key, as when the queries are the end of a longer
            sequence; by default the first query is aligned with the first key.

    Raises:
        OptionError: length is not a positive integer; bottom_right is neither True nor False.

    Example:
        >>> q = np.ones((1, 1, 4, 8))
        >>> attention.forward(q, q, q, mask=attention.SlidingWindow(2)).shape
        (1, 1, 4, 8)
    """

    length: int
    bottom_right: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", integer(self.length, f"{type(self).__name__} length", 1, _LONGEST))
        object.__setattr__(self, "bottom_right", boolean(self.bottom_right, "bottom_right"))


@dataclass(frozen=True)
class CausalSlidingWindow(SlidingWindow):
    """A mask: query i sees the key at its own position and the `length` - 1 before it, 0 <= i - j < length.

    Attributes:
        length: 1 or more; with 1, a query sees only the key at its own position.
        bottom_right: whether the last query is aligned with the last key, as when the queries are the end of a longer
            sequence; by default the first query is aligned with the first key.

    Raises:
        OptionError: length is not a positive integer; bottom_right is neither True nor False.

    Example:
        >>> q = np.ones((1, 1, 4, 8))
        >>> attention.forward(q, q, q, mask=attention.CausalSlidingWindow(2)).shape
        (1, 1, 4, 8)
    """


#: How to convert an array of booleans, which torch calls attn_mask.
FROM_BOOLEANS = (
    "Convert an array of booleans, True where a query sees a key, to a bias: "
    "bias=numbacc.elementwise.where(mask, 0.0, -numpy.inf).astype(q.dtype)"
)
_ADDED = "An array that is added to the scores is a bias: pass it as bias="
NAMED = {"causal": Band(None, 0), "causal_bottom_right": Band(None, 0, bottom_right=True)}


def band_of(mask: Any) -> Band:
    """Return the band of a mask.

    Raises:
        OptionError: the mask is unknown.
    """
    if mask is None:
        return Band()
    if isinstance(mask, SlidingWindow):
        upper = 0 if isinstance(mask, CausalSlidingWindow) else mask.length - 1
        return Band(1 - mask.length, upper, mask.bottom_right)
    if isinstance(mask, str) and mask in NAMED:
        return NAMED[mask]
    raise OptionError(
        f"mask={shown(mask)} is unknown; it is None, {', '.join(map(repr, NAMED))}, SlidingWindow(n) or "
        f"CausalSlidingWindow(n). {FROM_BOOLEANS if _is_boolean(mask) else _ADDED}{nearest(mask, NAMED)}"
    )


def _is_boolean(mask: Any) -> bool:
    """Return whether an object is an array of booleans, of any library."""
    return str(getattr(mask, "dtype", "")).rpartition(".")[2] == "bool"
