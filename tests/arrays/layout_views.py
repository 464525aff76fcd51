"""Views of arrays and of layouts, side by side."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import strategies as st


@st.composite
def views(draw, base=None, broadcast=True, max_rank=4):
    """A view of a NumPy array: transposed, sliced, with gaps, reversed, with new axes, broadcast."""
    if base is None:
        lengths = draw(st.lists(st.integers(0, 4) | st.integers(1, 4), min_size=1, max_size=max_rank))
        base = np.arange(prod(lengths), dtype=draw(st.sampled_from(["u1", "f2", "f4", "f8", "c16"]))).reshape(lengths)
    view = base.transpose(draw(st.permutations(range(base.ndim))))
    index = []
    for n in view.shape:
        start, stop = sorted((draw(st.integers(0, n)), draw(st.integers(0, n) | st.just(n))))
        step = draw(st.sampled_from([1, 1, 1, 2, 3]))
        index.append(slice(start, stop, step))
    view = view[tuple(index)][tuple(slice(None, None, draw(st.sampled_from([1, 1, -1]))) for _ in index)]
    if broadcast and draw(st.booleans()):
        view = np.broadcast_to(view[None], (draw(st.integers(1, 3)), *view.shape))
    return view
