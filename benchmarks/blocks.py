"""What models have beside products and norms, against a copy of the bytes that must be moved, torch and Liger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import Report, add_bandwidth, copy_of, is_close, wide

_SIZE, _LARGE = 2**27, 2**28
#: Rows and columns of a table of embeddings, and how many are taken.
_TABLE, _TOKENS = (32768, 4096), 2**16
#: Of queries: batch, positions, heads, the elements of a head.
_QUERIES = (8, 4096, 32, 128)
#: Columns of a model's layer, and numbers of classes.
_COLUMNS, _CLASSES = 4096, (4096, 131072)
#: Part of copy bandwidth that is aimed at.
_BOUND, _SORTED_BOUND = 0.90, 0.60
#: So many results are looked at, and so many columns of sums of many.
_FEW, _PART = 4, 64
_P, _SEED = 0.1, 11

Makers = dict[str, Callable[[], peers.Work]]


class Case(NamedTuple):
    """What is measured.

    Attributes:
        ours: the call.
        is_right: whether its result is.
        nbytes: what it must read and write.
        theirs: torch -> peer -> what makes its call.
        is_alike: whether a peer's result is right; `is_right` by default.
        bound: part of copy bandwidth that is aimed at, if any.
    """

    ours: Callable[[], Any]
    is_right: Callable[[Any], bool]
    nbytes: int
    theirs: Callable[[Any], Makers]
    is_alike: Callable[[Any], bool] | None = None
    bound: float | None = _BOUND


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of blocks."""
    torch = peers.import_torch()
    for label, make in _cases():
        if report.wants(label):
            _figure(report, label, make(), torch, quick)


def _cases() -> Iterator[tuple[str, Callable[[], Case]]]:
    """(what a figure is called, what makes its case)."""
    rows = f"{_SIZE // _COLUMNS} x {_COLUMNS}"
    for dtype in ("float32", "bfloat16"):
        for order in ("BSHD", "BHSD"):
            for tables in dict.fromkeys(("float32", dtype)):
                label = f"rope {dtype}, {order}, tables {tables}"
                yield label, partial(_rope, dtype, tables, order == "BHSD")
        yield f"dropout {dtype}, {_LARGE}", partial(_dropout, dtype)
        yield f"take {dtype}, {_TOKENS} rows of {_TABLE[1]}", partial(_take, dtype)
        for spread, often in (("evenly", 0.0), ("90 % of one", 0.9)):
            label = f"take_backward {dtype}, {_TOKENS} rows to {_TABLE[0]}, {spread}"
            yield label, partial(_take_backward, dtype, often)
        yield f"one_hot {dtype}, {rows}", partial(_one_hot, dtype)
        yield f"tril {dtype}, {rows}", partial(_tril, dtype)
        for name, activation in (("bias", "gelu"), ("residual", "silu")):
            for backward in (False, True):
                label = f"{name}_activation{'_backward' * backward} {activation} {dtype}, {rows}"
                yield label, partial(_activation, dtype, name, activation, backward)
        for columns in _CLASSES:
            label = f"cross entropy, its mean, {dtype}, {_SIZE // columns} x {columns}"
            yield label, partial(_cross_entropy, dtype, columns)
    yield f"astype bfloat16 to float8_e4m3fn, {_LARGE}", _float8


def _figure(report: Report, label: str, case: Case, torch: Any, quick: bool) -> None:
    if not case.is_right(case.ours()):
        report.add(name=label, right=False)
        return
    makers = {} if torch is None else case.theirs(torch)
    works, missing = peers.those_that_run(makers, case.is_alike or case.is_right)
    works |= {"ours": case.ours, "copy": copy_of(case.nbytes)}
    add_bandwidth(report, label, works, case.bound, 7 if quick else 15, right=True, **peers.told(missing))


def _normal(shape: tuple[int, ...] | int, dtype: str, seed: int = 7) -> Any:
    return Generator("philox", seed=seed).normal(size=shape, dtype=dtype)


def _rope(dtype: str, tables: str, heads_first: bool) -> Case:
    batch, positions, heads, width = _QUERIES
    shape = (batch, heads, positions, width) if heads_first else _QUERIES
    x, out = _normal(shape, dtype), numbacc.empty(shape, dtype)
    cos, sin = elementwise.rope_tables(positions, width, dtype=tables)
    last = (slice(1), slice(None), slice(-_FEW, None))  # whose angles are the largest
    if not heads_first:
        cos, sin, last = cos[:, None], sin[:, None], (last[0], last[2], last[1])
    wanted = elementwise.rope(wide(x[last]), wide(cos[-_FEW:]), wide(sin[-_FEW:]))

    def is_alike(found: Any, size: float = 8.0) -> bool:
        part = found[last]
        return is_close(part, wanted[:, :, : part.shape[2]], size)

    return Case(
        lambda: elementwise.rope(x, cos, sin, out=out),
        partial(is_alike, size=1.0),
        2 * x.nbytes,
        lambda torch: peers.rope(torch, *map(torch.from_dlpack, (x, cos, sin))),
        is_alike,
    )


def _dropout(dtype: str) -> Case:
    x = _normal(_LARGE, dtype)
    out, part = numbacc.empty_like(x), slice(1 << 16)
    host = wide(x[part])
    wanted = elementwise.dropout(host, _P, seed=_SEED)

    def is_alike(found: Any) -> bool:
        """Others drop others: as many, to the error of their number."""
        kept = wide(found[part])
        share = 1.0 - np.count_nonzero(kept) / kept.size
        return is_close(found[part], np.where(kept, host / (1.0 - _P), 0.0)) and abs(share - _P) < kept.size**-0.5

    return Case(
        lambda: elementwise.dropout(x, _P, seed=_SEED, out=out),
        lambda found: is_close(found[part], wanted),
        2 * x.nbytes,
        lambda torch: {"torch": lambda: partial(torch.nn.functional.dropout, torch.from_dlpack(x), _P)},
        is_alike,
    )


def _indices(high: int, count: int) -> tuple[Any, Any]:
    """(in NumPy, on the GPU)."""
    host = np.random.default_rng(9).integers(0, high, count)
    return host, numbacc.asarray(host)


def _take(dtype: str) -> Case:
    table = _normal(_TABLE, dtype)
    host, tokens = _indices(_TABLE[0], _TOKENS)
    out = numbacc.empty((_TOKENS, _TABLE[1]), dtype)
    wanted = np.stack([wide(table[int(k)]) for k in host[-_FEW:]])
    return Case(
        lambda: elementwise.take(table, tokens, axis=0, out=out),
        lambda found: bool((wide(found[-_FEW:]) == wanted).all()),
        2 * out.nbytes + tokens.nbytes,
        lambda torch: {
            "torch": lambda: partial(torch.nn.functional.embedding, *map(torch.from_dlpack, (tokens, table)))
        },
    )


def _take_backward(dtype: str, often: float) -> Case:
    """Of tokens of which so many are the last one."""
    host, _ = _indices(_TABLE[0], _TOKENS)
    host[: round(often * _TOKENS)] = _TABLE[0] - 1
    dy, tokens, out = _normal((_TOKENS, _TABLE[1]), dtype), numbacc.asarray(host), numbacc.empty(_TABLE, dtype)
    part = wide(dy[:, :_PART])
    last = range(_TABLE[0] - _FEW, _TABLE[0])
    wanted = np.stack([part[host == k].sum(axis=0) for k in last])
    # What sums of many numbers of either sign reach on the way.
    size = max(16.0, (often * _TOKENS) ** 0.5)
    return Case(
        lambda: elementwise.take_backward(dy, _TABLE, tokens, axis=0, out=out),
        lambda found: is_close(found[-_FEW:, :_PART], wanted, size),
        dy.nbytes + out.nbytes + tokens.nbytes,
        lambda torch: {
            "torch": lambda: partial(
                torch.ops.aten.embedding_dense_backward, *map(torch.from_dlpack, (dy, tokens)), _TABLE[0], -1, False
            )
        },
        # Some libraries add 16-bit numbers up in 16 bits.
        lambda found: is_close(found[-_FEW:, :_PART], wanted, _TOKENS**0.5),
        _SORTED_BOUND,
    )


def _one_hot(dtype: str) -> Case:
    host, tokens = _indices(_COLUMNS, _SIZE // _COLUMNS)
    out = numbacc.empty((_SIZE // _COLUMNS, _COLUMNS), dtype)
    wanted = host[-_FEW:, None] == np.arange(_COLUMNS)

    def torchs(torch: Any) -> Makers:
        numbers, kind = torch.from_dlpack(tokens), getattr(torch, dtype)
        return {"torch": lambda: lambda: torch.nn.functional.one_hot(numbers, _COLUMNS).to(kind)}

    return Case(
        lambda: elementwise.one_hot(tokens, _COLUMNS, dtype=dtype, out=out),
        lambda found: bool((wide(found[-_FEW:]) == wanted).all()),
        out.nbytes + tokens.nbytes,
        torchs,
    )


def _tril(dtype: str) -> Case:
    x = _normal((_SIZE // _COLUMNS, _COLUMNS), dtype)
    out, few = numbacc.empty_like(x), min(x.shape)
    wanted = np.tril(wide(x[:few]))
    return Case(
        lambda: elementwise.tril(x, out=out),
        lambda found: bool((wide(found[:few]) == wanted).all()),
        2 * x.nbytes,
        lambda torch: {"torch": lambda: partial(torch.tril, torch.from_dlpack(x))},
    )


def _activation(dtype: str, name: str, activation: str, backward: bool) -> Case:
    shape = (_SIZE // _COLUMNS, _COLUMNS)
    x, other = _normal(shape, dtype), _normal(_COLUMNS if name == "bias" else shape, dtype, 8)
    out = numbacc.empty_like(x)
    few = slice(_FEW)
    host = wide(x[few]) + wide(other if name == "bias" else other[few])
    nbytes = (2 if name == "bias" else 3) * x.nbytes
    if not backward:
        function = partial(getattr(elementwise, f"{name}_activation"), x, other, activation=activation, out=out)
        wanted = getattr(elementwise, activation)(host)

        def forward(torch: Any) -> Makers:
            a, b = map(torch.from_dlpack, (x, other))
            return {"torch": lambda: lambda: getattr(torch.nn.functional, activation)(a + b)}

        return Case(function, lambda found: is_close(found[few], wanted), nbytes, forward, _loosely(few, wanted))
    dy = _normal(shape, dtype, 9)
    wanted = getattr(elementwise, f"{activation}_backward")(wide(dy[few]), host)
    outs = (out, numbacc.empty_like(other)) if name == "bias" else out
    function = partial(
        getattr(elementwise, f"{name}_activation_backward"), dy, x, other, activation=activation, out=outs
    )

    def torchs(torch: Any) -> Makers:
        slope, a, b = map(torch.from_dlpack, (dy, x, other))
        of_sum = getattr(torch.ops.aten, f"{activation}_backward")

        def work() -> Any:
            dx = of_sum(slope, a + b)
            return (dx, dx.sum(0)) if name == "bias" else dx

        return {"torch": lambda: work}

    def first(found: Any) -> Any:
        return found[0] if name == "bias" else found

    # The bias's gradient is summed in a pass of its own: dx is read again.
    return Case(
        function,
        lambda found: is_close(first(found)[few], wanted),
        nbytes + x.nbytes,
        torchs,
        lambda found: _loosely(few, wanted)(first(found)),
        None if name == "bias" else _BOUND,
    )


def _loosely(part: Any, wanted: Any) -> Callable[[Any], bool]:
    """Whether a result is right that was rounded more than once."""
    return lambda found: is_close(found[part], wanted, 4.0)


def _cross_entropy(dtype: str, columns: int) -> Case:
    x = _normal((_SIZE // columns, columns), dtype)
    host, target = _indices(columns, _SIZE // columns)
    losses = elementwise.cross_entropy(x, target, reduction="none")
    wanted = elementwise.cross_entropy(wide(x[:_FEW]), host[:_FEW], reduction="none")
    mean = wide(losses).mean()
    is_right = is_close(losses[:_FEW], wanted)
    return Case(
        lambda: elementwise.cross_entropy(x, target),
        lambda found: is_right and is_close(found, mean, abs(mean)),
        x.nbytes,
        lambda torch: {
            "torch": lambda: partial(torch.nn.functional.cross_entropy, *map(torch.from_dlpack, (x, target)))
        },
        # A mean in 16 bits, where that is the logits' dtype.
        lambda found: bool(np.isclose(wide(found), mean, rtol=2.0**-6)),
    )


def _float8() -> Case:
    x = _normal(_LARGE, "bfloat16")
    out, part = numbacc.empty(_LARGE, "float8_e4m3fn"), slice(1 << 16)
    wanted = wide(elementwise.astype(numbacc.asnumpy(x[part]), "float8_e4m3fn"))

    def torchs(torch: Any) -> Makers:
        given = torch.from_dlpack(x)
        return {"torch": lambda: lambda: given.to(torch.float8_e4m3fn)}

    return Case(
        lambda: elementwise.astype(x, "float8_e4m3fn", out=out),
        lambda found: bool((wide(found[part]) == wanted).all()),
        x.nbytes + out.nbytes,
        torchs,
        lambda found: bool((wide(found[part].float()) == wanted).all()),
    )
