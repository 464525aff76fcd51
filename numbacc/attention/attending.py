"""The functions of `numbacc.attention`: attention and its gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..arrays.operands import Array
from ..base.docstrings import like
from .calling import SHARED_EXTRAS, found, planned_attention
from .problem import EXTRAS
from .saved import ARRAYS, check_complete, check_saved, opened, saved


def _keep(**given: Any) -> tuple[Any, ...]:
    """Return the results and the saved object of a call of `forward` with these arguments."""
    with_stats = check_saved(given)
    given["return_stats"] = True
    results = forward(**given)
    kept = saved(results, given)
    return (*results, kept) if with_stats else (results[0], kept)


def _opened(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call of `backward` whose q is a saved object."""
    arrays, own = opened(given, defaults)
    return {**given, **dict(zip(ARRAYS, arrays, strict=True)), **own}


@planned_attention(
    "q k v",
    extras=" ".join(EXTRAS),
    keep=_keep,
    defaults="score operands",
    note="The plan's other arrays and seed are passed by name.",
    example="""
>>> q = np.ones((1, 1, 2, 4))
>>> attention.forward.plan(q, q, q).info.backend
'numpy'
""",
)
def forward(
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
    return_stats: bool = False,
    descale_q: Any = None,
    descale_k: Any = None,
    descale_v: Any = None,
    scale_s: Any = None,
    descale_s: Any = None,
    scale_o: Any = None,
    return_amax: bool = False,
    return_saved: bool = False,
    deterministic: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> Array | tuple[Any, ...]:
    """Compute attention for each sequence and head: o = softmax(scale q kᵀ + bias, masked) v.

        S[i, j] = scale q[i] · k[j] + bias[i, j] + alibi (j - i)     where query i may see key j, else -inf
        stats[i] = log Σ_j exp S[i, j]
        o[i] = Σ_j M[i, j] exp(S[i, j] - stats[i]) v[j]

    M is 1 without dropout; with it, M is 0 for a dropped weight, else 1 / (1 - dropout). In float16 and bfloat16,
    cuDNN's fused kernels compute o without storing the matrix of all scores.

    Sources: Vaswani et al. 2017 (arXiv:1706.03762); Dao et al. 2022 (arXiv:2205.14135).

    Args:
        q: queries (batch, heads, queries, d) in the order of `layout`, of float32, float64, float16 or bfloat16; any
            strides; or of float8, with scales. d is 1 to 256. The batch may be empty.
        k, v: keys (batch, heads_kv, keys, d) and values (batch, heads_kv, keys, d_v), of q's dtype. heads must be a
            multiple of heads_kv; neighbouring heads then share keys and values (GQA, MQA).
        score: None, or a Python function (score, batch, head, query, key, *elements) that returns the score before
            biases and slopes are added. Positions are integers. It is written like a function of `elementwise.kernel`.
        mask: None; "causal": query i sees key j if j <= i; "causal_bottom_right": j <= i + keys - queries, with the
            actual lengths of each sequence; `SlidingWindow(n)` or `CausalSlidingWindow(n)`. Or a Python function
            (batch, head, query, key) that returns whether the query sees the key. If it reads arrays by position, it
            is called once with NumPy arrays of positions. The value of a masked key is multiplied by 0, so a NaN or
            infinity in v reaches queries that may not see it. Convert a boolean array to a bias:
            `numbacc.elementwise.where(mask, 0.0, -numpy.inf).astype(q.dtype)`.
        operands: a tuple of the arrays whose elements `score` receives. Each broadcasts to (batch, heads, queries,
            keys) and is real. Floats are converted to float32, or to float64 if q is float64.
        bias: array that broadcasts to (batch, heads, queries, keys), of q's dtype, or of float32 if q has 16 bits;
            -inf masks.
        alibi: (heads,) slopes of float32, or of float64 if q is float64. Slopes add the bias alibi[h] (j - i) (Press
            et al. 2021).
        scale: factor of the scores; 1/√d if None. It must be finite in float32, or in float64 if q is float64. A plan
            is made for one value.
        dropout: the probability that a weight becomes 0; the others are divided by 1 - dropout. A plan is made for one
            value.
        seed, offset: select the dropout mask. `backward` generates the same mask from the same numbers, and
            `dropout_mask` returns it. seed is 0 to 2^64 - 1. offset is a multiple of 4 from 0 to 2^62, or an array with
            one such int64 on q's device. An array on a GPU is read when the GPU runs, so its value is not checked: a
            number that is negative or not a multiple of 4 silently drops other weights, and different ones on each
            path.
        seq_len_q, seq_len_kv: (batch,) lengths of the sequences, int32 or int64, on q's device. Elements after the end
            of a sequence are ignored, but must be finite; o is 0 there. With layout "THD" (batch + 1,): the start of
            each sequence, followed by the end of the last.
        page_table_k, page_table_v: (batch, pages) page numbers, int32 or int64. k then has shape (all pages, heads_kv,
            keys of a page, d), in the order of `layout`, and v likewise. seq_len_kv is required.
        layout: "BHSD"; "BSHD": (batch, sequence, heads, d); "THD": (tokens, heads, d), with the sequences packed one
            after the other.
        max_len_q, max_len_kv: with "THD", the lengths of the longest sequences; by default the number of all tokens.
        return_stats: whether to also return `stats`. With a score function they are (2, batch, heads,
            queries): the largest S of a row, and log Σ_j exp(S[i, j] - largest); -inf and 0 without a key.
        descale_q, descale_k, descale_v: factors of q, k and v for float8, each an array of one float32; 1 if None.
        scale_s, descale_s: factors around the second product for float8. scale_s multiplies the weights before they
            are rounded to float8, and descale_s multiplies the product. With n keys, weights are about 1/n: a scale_s
            of 1 loses the small ones.
        scale_o: factor of o before it is rounded to float8.
        return_amax: whether to also return the largest weight, and the largest |o| before scale_o.
        return_saved: whether to return one more object, which carries operands and options to `backward(do, saved)`.
        deterministic: whether the same arrays must give the same bits on every run; forward always does.
        workspace_limit: bytes of scratch memory that may be used; 1 GiB if None. The unfused path processes heads in
            slices to stay below it. The limit does not count the memory of fused kernels that grows linearly with
            the lengths.
        out: where to write the result, or a tuple for several results; any strides. It must not share memory with
            the other arrays. With return_saved it is (o, stats).

    Returns:
        o, (batch, heads, queries, d_v) in the order of `layout`; or (o, stats), with stats (batch, heads, queries) in
        float32, or in float64 for float64 arrays. A query that sees no key has o = 0 and stats = -inf. return_amax
        appends amax_s and amax_o, float32 (1,). return_saved appends the object for `backward`.

    Raises:
        ShapeError: ranks, heads, lengths or widths do not fit; the bias does not broadcast.
        DTypeError: a dtype is not one of those listed above.
        OptionError: an invalid mask, scale, dropout, seed, offset or layout; a window that is not positive; page
            tables that are incomplete or lack seq_len_kv; scales without float8; float8 with a bias, slopes, dropout,
            lengths, pages, packed sequences, functions, a scale that is not above 0, or a mask that leaves a query
            without a key. On the CPU also lengths beyond the arrays or the page table. Lengths on a GPU cannot be read
            here; the GPU replaces each by the nearest possible one.
        LayoutError: out shares memory with an argument, or its elements share memory.
            Also a function with the wrong parameters or results, or operands that do not fit it.
        UnsupportedError: neither cuDNN nor the unfused path can run it; the message gives the reasons. Or a function
            uses something that kernels do not support; the message names the line.
        DeviceError: arrays on different devices. CudnnError: cuDNN is missing, or failed.

    float8 needs compute capability 9.0, and supports forward only. With the names of `reference.attention`, o = scale_o
    descale_s descale_v Σ_j round(scale_s P[i, j]) v[j], where the scores use descale_q q and descale_k k.

    float32 and float64 run unfused: `gemm` computes the matrix products, and numbacc's kernels run between them. 16-bit
    floats run in cuDNN's fused kernels if these support the call, else in numbacc's flash kernels, and else unfused.
    Calls with score functions and most mask functions run in flash kernels. `forward.plan(...).info` shows the backend,
    "cudnn", "kernel" or "cublasLt+kernel", and the workspace.

    Example:
        >>> q, k = np.zeros((1, 1, 2, 4)), np.zeros((1, 1, 3, 4))
        >>> v = np.arange(3.0).reshape(1, 1, 3, 1)
        >>> attention.forward(q, k, v, mask="causal")[0, 0]
        array([[0. ],
               [0.5]])
    """
    return found("forward", locals())


@planned_attention(
    "do q k v o stats",
    extras=" ".join(SHARED_EXTRAS),
    opens=("q", _opened),
    defaults="score operands operand_grads",
    of=forward,
    call="plan(do, saved, out=None)`, or `plan(do, q, k, v, o, stats)",
    note="""The plan's other arrays and seed are passed by name; a saved object holds them.""",
    example="""
>>> q = np.ones((1, 1, 2, 4))
>>> attention.backward.plan(q, q, q, q, q, q[..., 0]).info.op
'attention.backward'
""",
)
@like(forward)
def backward(
    do: Any,
    q: Any,
    k: Any = None,
    v: Any = None,
    o: Any = None,
    stats: Any = None,
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
    bias_grad: bool = False,
    operand_grads: bool | Sequence[int] = False,
    deterministic: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, ...]:
    """Compute the gradients with respect to q, k and v, and optionally the bias.

    They follow from do, the gradient of a loss with respect to o:

        dv[j] = Σ_i M[i, j] P[i, j] do[i]                     P[i, j] = exp(S[i, j] - stats[i])
        dS[i, j] = P[i, j] (M[i, j] do[i] · v[j] - do[i] · o[i])
        dq[i] = scale Σ_j dS[i, j] k[j]        dk[j] = scale Σ_i dS[i, j] q[i]        dbias = dS

    dk and dv are summed over the query heads that share a key head, and dbias over the scores that share an element of
    the bias. seed and offset generate M again. Without a saved object, pass the same options as to `forward`. If you
    forget one, the gradients are wrong and no error is raised. Pages are not supported.

    Sources: Vaswani et al. 2017 (arXiv:1706.03762); Dao et al. 2022 (arXiv:2205.14135).

    Args:
        do: array of o's shape and dtype: the gradient of the loss with respect to o.
        q: the saved object of `forward(..., return_saved=True)`, as in `backward(do, saved)`. It holds all arguments
            that follow, up to max_len_kv. Or the queries; then k, v, o and stats are required.
        k, v: the same arrays as in `forward`, if no saved object is given.
        score, mask, operands: the same as in `forward`.
        o, stats: the results of `forward(..., return_stats=True)`, if no saved object is given.
        bias_grad: whether to also return the bias's gradient. cuDNN's kernel then needs memory that is quadratic in
            the sequence length: see deterministic.
        operand_grads: whether to also return the gradients of all operands of floats; or a tuple of the numbers of some
            operands. They are summed over axes along which an operand broadcasts.
        deterministic: whether the same arrays must give the same bits on every run. Calls with score or mask functions
            then run unfused. cuDNN's kernel needs 2 · batch · heads · queries · keys bytes, which
            `backward.plan(...).info.workspace_bytes` reports. If that exceeds workspace_limit, heads are processed in
            slices; with dropout, the call raises UnsupportedError instead.
        out: (dq, dk, dv), or (dq, dk, dv, dbias), and then the gradients of operands: arrays to write the results to,
            with their shapes and dtypes.

    Returns:
        (dq, dk, dv), or (dq, dk, dv, dbias), and then the gradients of operands, each with the shape and dtype of the
        array that it belongs to.

    Raises:
        ShapeError: ranks, heads, lengths or widths do not fit; the bias does not broadcast; or do, o or stats does not
            have the shape that `forward` returns.
        OptionError: operand_grads names an array that is not of floats, or none.
        UnsupportedError: no derivative of `score` is known; the message names the line.

    Example:
        >>> q = np.ones((1, 1, 2, 4))
        >>> o, saved = attention.forward(q, q, q, mask="causal", return_saved=True)
        >>> dq, dk, dv = attention.backward(np.ones_like(o), saved)
        >>> dv[0, 0]
        array([[1.5, 1.5, 1.5, 1.5],
               [0.5, 0.5, 0.5, 0.5]])
    """
    if k is None or v is None or o is None or stats is None:
        check_complete(locals())
    return found("backward", locals())
