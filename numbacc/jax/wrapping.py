"""One's own kernels as JAX functions with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from .. import bridges
from ..elementwise.custom_kernels import Kernel
from ..elementwise.custom_reductions import Reduction
from .calls import Call, differentiable, to_front

__all__ = ["wrap"]


def wrap(kernel: Kernel | Reduction) -> Callable[..., Any]:
    """Return a function of JAX arrays that runs a kernel or a reduction, with its gradients.

    The function works under `jax.jit`, `jax.grad` and `jax.vmap`. The values of globals that the kernel reads should
    not change afterwards.

    Args:
        kernel: an object made by `numbacc.elementwise.kernel` or `numbacc.elementwise.reduction`.

    Returns:
        a function of the kernel's arguments: arrays that broadcast, or Python numbers; at least one array. Options are
        given by name, and are numbers. That of a reduction has the options `axis` and `keepdims`, too.

    Raises:
        TypeError: kernel is neither.

    Example:
        >>> import math, jax, numbacc.jax
        >>> cap = numbacc.jax.wrap(numbacc.elementwise.kernel(lambda x, s: s * math.tanh(x / s)))
        >>> jax.grad(lambda x: cap(x, 30.0).sum())(jax.numpy.array([0.0, 3000.0]))
        Array([1., 0.], dtype=float32)
    """
    own = bridges.OwnKernel(kernel, "an array")
    count = own.count
    # The name is the same in every process, since JAX may cache compiled functions on disk.
    name = f"own_{own.name}_{own.digest()}"

    def call_of_gradient(outs: Any, *given: Any) -> bridges.FunctionCall:
        results = len(given) - count - (4 if own.reduces else 2)
        return own.backward(outs, given[:results], *given[results:])

    bridges.CALLS[name], bridges.CALLS[f"{name}_backward"] = own.forward, call_of_gradient

    def batch(size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]) -> Any:
        rank = _rank(is_batched, arrays)
        return forward(*_spread(1, rank, is_batched, arrays), *moved(rank, options))

    def batch_of_gradients(
        size: int, is_batched: Sequence[bool], arrays: Sequence[Any], options: tuple[Any, ...]
    ) -> Any:
        results = len(arrays) - count
        dys = [
            to_front(size, is_own, each) for is_own, each in zip(is_batched[:results], arrays[:results], strict=True)
        ]
        rank = _rank(is_batched[results:], arrays[results:])
        given = _spread(size, rank, is_batched[results:], arrays[results:])
        found = gradient(results)(*dys, *given, *moved(rank, options))
        pairs = zip(is_batched[results:], arrays[results:], strict=True)
        own_shapes = [each.shape[is_own:] for is_own, each in pairs if each is not None and own.has_gradient(each)]
        return [slope.reshape(size, *shape) for slope, shape in zip(found, own_shapes, strict=True)]

    def moved(rank: int, options: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the options for arrays with one more axis in front."""
        if not own.reduces:
            return options
        numbers, values, axis, keepdims = options
        axes = range(rank) if axis is None else [each + rank if each < 0 else each for each in axis]
        return numbers, values, tuple(each + 1 for each in axes), keepdims

    forward = Call(name, count, batch, of=kernel.__name__, results=None)

    @cache
    def gradient(results: int) -> Call:
        """Return the call of the gradient, given the number of the kernel's results."""
        return Call(
            f"{name}_backward", results + count, batch_of_gradients, of=kernel.__name__, results=None,
            like=lambda arrays: [each for each in arrays[results:] if each is not None and own.has_gradient(each)],
        )  # fmt: skip

    def one_or_all(found: Sequence[Any]) -> Any:
        return found[0] if len(found) == 1 else tuple(found)

    def gradients(options: tuple[Any, ...], arrays: Sequence[Any], dys: Any) -> tuple[Any, ...]:
        dys = dys if isinstance(dys, tuple) else (dys,)
        found = iter(gradient(len(dys))(*dys, *arrays, *options))
        return tuple(next(found) if each is not None and own.has_gradient(each) else None for each in arrays)

    run = differentiable(
        lambda options, *arrays: one_or_all(forward(*arrays, *options)),
        lambda options, *arrays: (one_or_all(forward(*arrays, *options)), arrays),
        gradients,
    )

    def wrapped(*arguments: Any, **given: Any) -> Any:
        found = own.arguments(arguments, given, lambda each: not isinstance(each, (bool, int, float)))
        return run(tuple(found[count:]), *found[:count])

    wrapped.__name__ = wrapped.__qualname__ = kernel.__name__
    wrapped.__doc__ = kernel.__doc__
    return wrapped


def _rank(is_batched: Sequence[bool], arrays: Sequence[Any]) -> int:
    """Return the rank that the arrays of one example broadcast to."""
    return max(int(each.ndim - is_own) for is_own, each in zip(is_batched, arrays, strict=True) if each is not None)


def _spread(size: int, rank: int, is_batched: Sequence[bool], arrays: Sequence[Any]) -> list[Any]:
    """Return arrays with the batch in front of `rank` axes; an array without a batch is repeated `size` times."""
    found: list[Any] = []
    for is_own, each in zip(is_batched, arrays, strict=True):
        if each is None:
            found.append(None)
            continue
        front = to_front(size, is_own, each)
        found.append(front.reshape(front.shape[0], *[1] * (rank - front.ndim + 1), *front.shape[1:]))
    return found
