"""`numbacc.attention.dropout_mask`: the weights that attention's dropout keeps."""

from __future__ import annotations

from typing import Any

from ..arrays.operands import Array
from ..base.docstrings import like
from .attending import forward
from .calling import SHARED_EXTRAS, found, planned_attention


@planned_attention(
    "q k v",
    extras=" ".join(SHARED_EXTRAS),
    defaults="score operands",
    call="plan(q, k, v, seed=..., offset=...)",
    note="The plan's other arrays are passed by name.",
    example="""
>>> q = np.ones((1, 1, 2, 4))
>>> attention.dropout_mask.plan(q, q, q, dropout=0.1).info.op
'attention.dropout_mask'
""",
)
@like(forward)
def dropout_mask(
    q: Any,
    k: Any,
    v: Any,
    *,
    score: Any = None,
    mask: Any = None,
    operands: Any = None,
    bias: Any = None,
    alibi: Any = None,
    scale: float | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    offset: Any = 0,
    seq_len_q: Any = None,
    seq_len_kv: Any = None,
    page_table_k: Any = None,
    page_table_v: Any = None,
    layout: str = "BHSD",
    max_len_q: int | None = None,
    max_len_kv: int | None = None,
    deterministic: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> Array:
    """Return which weights dropout keeps in a call of `forward` with these arguments, and in its `backward`.

    The result takes memory for all scores. The mask depends on seed, offset and the position of a score, and on the
    backend: cuDNN's fused kernels, the unfused path and NumPy each generate their own mask. Pass the arguments of that
    call; the values in arrays do not matter.

    Args:
        out: where to write the result; it must not share memory with the other arrays.

    Returns:
        bool (batch, heads, queries, keys): False where a weight becomes 0. Where a mask or a length hides the key,
        the weight is 0 anyway and the result is arbitrary: fused kernels do not compute the mask there.

    Raises:
        OptionError: an option is invalid (see `forward`), or dropout is 0.

    Example:
        >>> q = np.ones((1, 1, 2, 4))
        >>> attention.dropout_mask(q, q, q, dropout=0.5, seed=3)[0, 0]
        array([[ True, False],
               [ True,  True]])
    """
    return found("dropout_mask", locals())
