"""`numbacc.attention`'s functions: attention and its gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..arrays.operands import Array
from ..base.docstrings import like
from .calling import SHARED_EXTRAS, found, planned_attention
from .problem import EXTRAS
from .saved import ARRAYS, check_complete, check_saved, opened, saved


def _keep(**given: Any) -> tuple[Any, ...]:
    """Return the results and the saved object of a call with these arguments."""
    with_stats = check_saved(given)
    given["return_stats"] = True
    results = forward(**given)
    kept = saved(results, given)
    return (*results, kept) if with_stats else (results[0], kept)


def _opened(defaults: Mapping[str, Any], /, **given: Any) -> dict[str, Any]:
    """Return the arguments of a call of the gradients in which q is a saved object."""
    arrays, own = opened(given, defaults)
    return {**given, **dict(zip(ARRAYS, arrays, strict=True)), **own}


@planned_attention(
    "q k v",
    extras=" ".join(EXTRAS),
    keep=_keep,
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
    mask: Any = None,
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
    """Attend: o = softmax(scale q kᵀ + bias, masked) v, for each sequence and each head; in float16 and bfloat16
    without a matrix of all scores in memory, by cuDNN's fused kernels.

        S[i, j] = scale q[i] · k[j] + bias[i, j] + alibi (j - i)     where query i may see key j, else -inf
        stats[i] = log Σ_j exp S[i, j]
        o[i] = Σ_j M[i, j] exp(S[i, j] - stats[i]) v[j]

    Sources: Vaswani et al. 2017 (arXiv:1706.03762); Dao et al. 2022 (arXiv:2205.14135).

    Args:
        q: queries (batch, heads, queries, d) in the order of `layout`, of float32, float64, float16 or bfloat16; any
            strides; or of float8, with scales. d is 1 to 256. The batch may be empty.
        k, v: keys (batch, heads_kv, keys, d) and values (batch, heads_kv, keys, d_v), of q's dtype; heads are a
            multiple of heads_kv, and heads that are neighbours share one (GQA, MQA).
        mask: None; "causal": query i sees key j if j <= i; "causal_bottom_right": j <= i + keys - queries, of the
            lengths that a sequence really has; `SlidingWindow(n)` and `CausalSlidingWindow(n)`. A value at a masked
            key is multiplied by 0, so a NaN or infinity in v reaches queries that may not see it. Of an array of
            booleans make a bias: `numbacc.elementwise.where(mask, 0.0, -numpy.inf).astype(q.dtype)`.
        bias: array that broadcasts to (batch, heads, queries, keys), of q's dtype, or of float32
            where that has 16 bits; -inf masks.
        alibi: (heads,) slopes of float32, or of float64 as q (Press et al. 2021): the bias alibi[h] (j - i).
        scale: a factor of the scores; 1/√d if None. It must be finite in float32, of float64 in float64. A number of
            the plan.
        dropout: the probability with which a weight becomes 0; others are divided by 1 - dropout. A number of the plan.
        seed, offset: of dropout's mask, which `backward` makes again from the same, and `dropout_mask` shows: seed
            is 0 to 2^64 - 1, offset a multiple of 4 from 0 to 2^62, or an array of one such int64 on q's device. A
            GPU's is read when the GPU runs: what is in it cannot be checked here without a copy, so that a number that
            is negative or no multiple of 4 drops other weights in silence, and not the same ones on every path.
        seq_len_q, seq_len_kv: (batch,) lengths of the sequences, int32 or int64, on q's device. What lies behind has no
            weight, but must be finite; o is 0 there. With layout "THD" (batch + 1,): where each sequence starts, and
            the last ends.
        page_table_k, page_table_v: (batch, pages) numbers of pages, int32 or int64: k is then (all pages, heads_kv,
            keys of a page, d), in the order of `layout`, and v alike; seq_len_kv is needed.
        layout: "BHSD"; "BSHD": (batch, sequence, heads, d); "THD": (tokens, heads, d), sequences packed one behind the
            other.
        max_len_q, max_len_kv: with "THD", the lengths of the longest sequences; by default all tokens.
        return_stats: whether `stats` is returned, too.
        descale_q, descale_k, descale_v: for float8, arrays of one float32, 1 where they are None: what q, k and v are
            multiplied by.
        scale_s, descale_s: the same for the weights, which are rounded to float8 between the products: what they are
            multiplied by before, and their product behind it. Weights of n keys are about 1/n: with a scale_s of 1 the
            small ones are lost.
        scale_o: what o is multiplied by before it is rounded to float8.
        return_amax: whether the largest weight, and the largest |o| before scale_o, are returned, too.
        return_saved: whether to return one more object, which carries operands and options to `backward(do, saved)`.
        deterministic: whether the same arrays must give the same bits on every run; forward always does.
        workspace_limit: bytes of scratch memory that may be used; 1 GiB if None. The unfused path takes its heads in
            slices that keep to it. What fused kernels need that is linear in the lengths they take in any case.
        out: where to write the result, or of several results a tuple; any strides. It shares no memory with the others.
            With return_saved it is (o, stats).

    Returns:
        o, (batch, heads, queries, d_v) in the order of `layout`; or (o, stats), stats (batch, heads, queries) in
        float32, of float64 in float64. A query that sees no key has o = 0 and stats = -inf. With return_amax behind
        them amax_s and amax_o, float32 (1,); with return_saved the object for `backward` comes last.

    Raises:
        ShapeError: ranks, heads, lengths and widths that do not fit; a bias that does not broadcast.
        DTypeError: dtypes other than these.
        OptionError: mask, scale, dropout, seed, offset, layout; a window that is not positive; pages without their
            companions; scales of what is not float8; with float8 a bias, slopes, dropout, lengths, pages, packed
            sequences, a scale that is not above 0, a mask that leaves a query without a key; on the CPU, lengths beyond
            the arrays' or the page table's (a GPU's cannot be read here: there each counts as the nearest that is
            possible).
        LayoutError: out shares memory with an argument, or its elements share memory.
        UnsupportedError: neither cuDNN nor the unfused path can run it; the message says what each lacks.
        DeviceError: arrays on different devices. CudnnError: cuDNN is missing, or failed.

    float8 needs compute capability 9.0, and has no gradients. In the names of `reference.attention`, o = scale_o
    descale_s descale_v Σ_j round(scale_s P[i, j]) v[j], of scores of descale_q q and descale_k k.

    float32 and float64, and 16-bit floats where cuDNN has no fused kernel, run unfused: matrix products by `gemm`, and
    kernels of ours between them. `forward.plan(...).info` tells: backend "cudnn", or "cublasLt+kernel", and the
    workspace.

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
    mask: Any = None,
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
    deterministic: bool = False,
    workspace_limit: int | None = None,
    out: Any = None,
    stream: Any = None,
) -> tuple[Array, ...]:
    """The gradients with respect to q, k and v, and to the bias, of a loss whose gradient with respect to o is do:

        dv[j] = Σ_i M[i, j] P[i, j] do[i]                     P[i, j] = exp(S[i, j] - stats[i])
        dS[i, j] = P[i, j] (M[i, j] do[i] · v[j] - do[i] · o[i])
        dq[i] = scale Σ_j dS[i, j] k[j]        dk[j] = scale Σ_i dS[i, j] q[i]        dbias = dS

    summed over what shares a key, a value or a bias. M is made again from seed and offset.

    Args:
        do: of o's shape and dtype.
        q: the saved object of `forward(..., return_saved=True)`, as in `backward(do, saved)`. It holds all arguments
            that follow, up to max_len_kv. Or q itself, with
        k, v: the same as in `forward`.
        o, stats: the results of `forward(..., return_stats=True)`.
        The others: the same as in `forward`. If one is forgotten, the gradients are wrong and nothing reports it.
            Pages are not supported.
        bias_grad: whether the bias's gradient is asked for, too. cuDNN's kernel then needs memory that is quadratic in
            the sequence length: see deterministic.
        deterministic: whether the same arrays must give the same bits on every run. cuDNN's kernel then needs 2 batch
            heads queries keys bytes, which `backward.plan(...).info.workspace_bytes` tells; where that is more than
            workspace_limit, heads are taken in slices, but with dropout the call is refused.
        out: (dq, dk, dv), or (dq, dk, dv, dbias), where to write the results.

    Returns:
        (dq, dk, dv), or (dq, dk, dv, dbias), each of the shape and dtype of what it belongs to.

    Raises:
        As `forward`. ShapeError: do, o or stats has another shape than forward gives.

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
