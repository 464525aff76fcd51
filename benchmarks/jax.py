"""numbacc.jax: the time of a call in a compiled function, and large arrays, against JAX's own compiled functions."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .harness import RESOLUTION, Report

#: How many calls, each on the result of the one before, are compiled into one function.
_CHAIN = 200
#: The kind of JAX's device.
_DEVICE = "cuda"
#: Lengths are divided by this.
_SHRINK = 1


class Pair(NamedTuple):
    """A function of ours and the same in JAX.

    Attributes:
        ours: the function.
        theirs: name -> the same in JAX; the first is exact for float32 arrays.
        shapes: of the arrays.
        dtype: of the arrays of a call.
    """

    ours: Callable[..., Any]
    theirs: dict[str, Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of JAX programs."""
    try:
        import jax

        device = jax.devices(_DEVICE)[0]
    except (ImportError, RuntimeError):
        print("no figure of jax: JAX is not installed, or does not see the GPU")
        return
    with jax.default_device(device):
        for name, pair in _calls():
            label = f"time of a call, {name}"
            if report.wants(label):
                _call(report, label, pair, quick)
        for name, pair in _large():
            for direction in ("forward", "forward and backward"):
                label = f"{name}, {direction}"
                if report.wants(label):
                    _compare(report, label, pair, direction != "forward", quick)


# ---------------------------------------------------------------- the time of a call


def _calls() -> Iterator[tuple[str, Pair]]:
    """Yield functions whose result is like their first array, which is small."""
    import jax
    import jax.numpy as jnp

    import numbacc.jax as nj

    matrix = (64, 256)
    yield "softmax", Pair(nj.softmax, {"jax": jax.nn.softmax}, (matrix,))
    yield "rms_norm", Pair(nj.rms_norm, {"jax": _rms_norm}, (matrix, (256,)))
    yield "linear", Pair(nj.linear, {"jax": lambda x, w: x @ w.T}, (matrix, (256, 256)))
    yield (
        "linear, relu",
        Pair(
            lambda x, w, b: nj.linear(x, w, b, "relu"),
            {"jax": lambda x, w, b: jax.nn.relu(x @ w.T + b)},
            (matrix, (256, 256), (256,)),
        ),
    )
    yield "attention", Pair(_attention, {"jax": _jax_attention("xla")}, ((1, 4, 64, 64),), "bfloat16")
    yield "gated", Pair(
        lambda x: nj.gated((x, x)), {"jax": lambda x: x * jax.nn.silu(jnp.asarray(x))}, (matrix,)
    )  # fmt: skip


def _call(report: Report, label: str, pair: Pair, quick: bool) -> None:
    """Report what one more call adds to a compiled function."""
    import jax
    import jax.numpy as jnp

    given = _arrays(pair.shapes, pair.dtype)
    exact = pair.theirs["jax"](*[each.astype(jnp.float32) for each in given])
    error = _error(pair.ours(*given), exact)
    if error > (5e-3 if pair.dtype == "float32" else 2e-2):  # JAX's products may round to TF32
        report.add(name=label, right=False, error=error)
        return

    def chain(function: Callable[..., Any], count: int) -> Callable[[], Any]:
        def chained(x: Any, *rest: Any) -> Any:
            for _ in range(count):
                x = jax.lax.optimization_barrier(function(x, *rest))
            return x

        compiled = jax.jit(chained)
        return lambda: compiled(*given)

    times = {}
    for name, function in {"ours": pair.ours, **pair.theirs}.items():
        short, long = (_us(chain(function, count), 7 if quick else 30) for count in (1, 1 + _CHAIN))
        times[name] = (long - short) / _CHAIN
    ratio = times["ours"] / times["jax"]
    report.add(name=label, right=True, us=times.pop("ours"), ratio=ratio, peers=times)


def _us(work: Callable[[], Any], repeats: int) -> float:
    """Return the median of the microseconds until the work is done."""
    import jax

    for _ in range(3):
        jax.block_until_ready(work())
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        jax.block_until_ready(work())
        found.append(1e6 * (time.perf_counter() - start))
    return statistics.median(found)


# ---------------------------------------------------------------- large arrays


def _large() -> Iterator[tuple[str, Pair]]:
    """Yield functions with the sizes of a layer of Llama 3 8B, in bfloat16."""
    import jax
    import jax.numpy as jnp

    import numbacc.jax as nj

    rows, width, inner, classes = 4096 // _SHRINK, 4096 // _SHRINK, 14336 // _SHRINK, 32000 // _SHRINK
    length = 2048 // _SHRINK
    target = jnp.arange(rows) * 101 % classes
    heads = ((2, 32, length, 128), (2, 8, length, 128), (2, 8, length, 128))
    yield f"rms_norm, {rows} x {width}", Pair(nj.rms_norm, {"jax": _rms_norm}, ((rows, width), (width,)))
    yield f"gated, 2 of {rows} x {inner}", Pair(
        lambda a, b: nj.gated((a, b)), {"jax": lambda a, b: a * jax.nn.silu(b)}, ((rows, inner),) * 2
    )  # fmt: skip
    yield f"softmax, {rows} x {classes}", Pair(nj.softmax, {"jax": jax.nn.softmax}, ((rows, classes),))
    yield (
        f"cross_entropy, {rows} x {classes}",
        Pair(
            lambda x: nj.cross_entropy(x, target),
            {"jax": lambda x: -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], 1).mean()},
            ((rows, classes),),
        ),
    )
    yield (
        f"linear, gelu, {rows} x {width} to {inner}",
        Pair(
            lambda x, w, b: nj.linear(x, w, b, "gelu"),
            {"jax": lambda x, w, b: jax.nn.gelu(x @ w.T + b)},
            ((rows, width), (inner, width), (inner,)),
        ),
    )
    yield (
        f"attention, 2 x {length}, 32 heads of 128",
        Pair(
            lambda *t: nj.attention(*t, mask="causal"),
            {"jax": _jax_attention("xla", True), "jax, cudnn": _jax_attention("cudnn", True)},
            heads,
        ),
    )


def _rms_norm(x: Any, weight: Any) -> Any:
    import jax
    import jax.numpy as jnp

    wide = x.astype(jnp.float32)
    normalized = wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)
    return (normalized * weight.astype(jnp.float32)).astype(x.dtype)


def _attention(q: Any) -> Any:
    import numbacc.jax as nj

    return nj.attention(q, q, q)


def _jax_attention(implementation: str, is_causal: bool = False) -> Callable[..., Any]:
    """Return JAX's attention, with the heads before the positions."""
    import jax

    def call(q: Any, *rest: Any) -> Any:
        k, v = rest or (q, q)
        turned = [each.swapaxes(1, 2) for each in (q, k, v)]
        found = jax.nn.dot_product_attention(*turned, is_causal=is_causal, implementation=implementation)
        return found.swapaxes(1, 2)

    return call


def _compare(report: Report, label: str, pair: Pair, backward: bool, quick: bool) -> None:
    """Report the time of a function of large arrays, after a check of its result and gradients."""
    import jax
    import jax.numpy as jnp

    given = _arrays(pair.shapes, jnp.bfloat16)

    def step(function: Callable[..., Any]) -> Callable[..., Any]:
        def both(slope: Any, *arrays: Any) -> Any:
            if not backward:
                return (function(*arrays),)
            y, pull = jax.vjp(function, *arrays)
            return y, *pull(slope.astype(y.dtype))

        compiled: Callable[..., Any] = jax.jit(both)
        return compiled

    # The gradient is an argument, so that XLA cannot compute with a constant.
    shape = jax.eval_shape(pair.theirs["jax"], *given).shape
    slope = jax.random.normal(jax.random.key(4), shape).astype(jnp.bfloat16)
    exact = step(pair.theirs["jax"])(slope, *[each.astype(jnp.float32) for each in given])
    ours, (name, *_) = step(pair.ours), pair.theirs
    limits = [_error(*both) for both in zip(step(pair.theirs[name])(slope, *given), exact, strict=True)]
    errors = [_error(*both) for both in zip(ours(slope, *given), exact, strict=True)]
    if not all(error <= 2 * limit + 1e-3 for error, limit in zip(errors, limits, strict=True)):
        report.add(name=label, right=False, errors=errors, limits=limits)
        return
    del exact
    count, repeats = 10, 3 if quick else 10

    def several(compiled: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: [compiled(slope, *given) for _ in range(count)][-1]

    times, missing = {"ours": _us(several(ours), repeats) / count / 1000}, {}
    for name, function in pair.theirs.items():
        try:
            times[name] = _us(several(step(function)), repeats) / count / 1000
        except Exception as error:
            missing[name] = f"{type(error).__name__}: {error}"[:80]
    mine = times.pop("ours")
    ratio = mine / min(times.values())
    report.add(
        name=label, right=True, ms=mine, ratio=ratio, peers=times, missing=missing, bound=1.0,
        holds=ratio <= 1.0 + RESOLUTION,
    )  # fmt: skip


def _arrays(shapes: tuple[tuple[int, ...], ...], dtype: Any) -> list[Any]:
    """Return random arrays. Matrices after the first array are weights, and have small values."""
    import jax

    keys = jax.random.split(jax.random.key(3), len(shapes))
    return [
        (jax.random.normal(key, shape) * (shape[-1] ** -0.5 if k and len(shape) == 2 else 1.0)).astype(dtype)
        for k, (key, shape) in enumerate(zip(keys, shapes, strict=True))
    ]


def _error(found: Any, wanted: Any) -> float:
    """Return ‖found - wanted‖ / ‖wanted‖."""
    import jax.numpy as jnp

    found, wanted = found.astype(jnp.float32).ravel(), wanted.astype(jnp.float32).ravel()
    return float(jnp.linalg.norm(found - wanted) / jnp.linalg.norm(wanted))
