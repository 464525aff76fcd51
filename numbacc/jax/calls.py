"""Calls of numbacc as JAX functions: shapes and dtypes of results, XLA's custom call, batches, derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..base import dtypes
from ..base.layout import row_major_strides
from ..errors import DTypeError, UnsupportedError
from .ffi import TARGET, Description, as_operand, attributes, register_gpu

__all__ = ["Batch", "Call", "differentiable", "to_front"]

#: (size of the batch, whether each array has the batch as its first axis, arrays or None, options) -> the results, with
#: the batch as their first axis; None to compute one after the other.
Batch = Callable[[int, Sequence[bool], Sequence[Any], tuple[Any, ...]], "Sequence[Any] | None"]


class Call:
    """A call of numbacc for JAX arrays. Call it with arrays or None, then with options, and get a tuple of results.

    Args:
        name: of one of `bridges.CALLS`.
        arrays: the number of arrays, which come before the options.
        batch: how `jax.vmap` computes.
        of: the user's function that it is a part of; by default `name`.
        results: the number of results; None for all results of the plan; or a function that returns the number:
            (whether each array is given, options) -> number.
        shapes: (arrays or None, options) -> shapes of the first results, if the plan has other shapes.
        like: (arrays or None) -> arrays with the shapes and dtypes of the results, if there is no plan.
    """

    def __init__(
        self,
        name: str,
        arrays: int,
        batch: Batch | None = None,
        *,
        of: str = "",
        results: int | Callable[..., int] | None = 1,
        shapes: Callable[..., Sequence[tuple[int, ...]]] | None = None,
        like: Callable[..., Sequence[Any]] | None = None,
    ):
        self.name, self._arrays, self._batch, self._of = name, arrays, batch, of or name
        self._results, self._shapes, self._like = results, shapes, like
        # JAX caches compiled functions by function and options, so calls outside of `jax.jit` are short, too.
        self._run = jax.jit(self._bind, static_argnums=0)

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        return tuple(self._run(arguments[self._arrays :], *arguments[: self._arrays]))

    def _bind(self, options: tuple[Any, ...], *given: Any) -> tuple[Any, ...]:
        register_gpu()
        present = tuple(each is not None for each in given)
        found: tuple[Any, ...] = self._function(present, options)(*[each for each in given if each is not None])
        return found

    @lru_cache(maxsize=256)  # noqa: B019 - calls live until the process ends
    def _function(self, present: tuple[bool, ...], options: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the function of the arrays that are present."""
        described = Description(self.name, present, options)
        results = self._results(present, options) if callable(self._results) else self._results

        def complete(arrays: Sequence[Any]) -> list[Any]:
            rest = iter(arrays)
            return [next(rest) if each else None for each in present]

        @jax.custom_batching.custom_vmap
        def compute(*arrays: Any) -> tuple[Any, ...]:
            if self._like is None:
                made = results_of(described, arrays, results)
            else:
                made = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in self._like(complete(arrays))]
            if self._shapes is not None:
                own = self._shapes(complete(arrays), options)
                made[: len(own)] = [jax.ShapeDtypeStruct(shape, made[k].dtype) for k, shape in enumerate(own)]
            found = jax.ffi.ffi_call(TARGET, made)(*arrays, **attributes(described))
            axes = tuple(sorted(_varying(arrays[0])))
            return tuple(jax.lax.pcast(each, axes, to="varying") if axes else each for each in found)

        @compute.def_vmap
        def batched(size: int, is_batched: Sequence[bool], *arrays: Any) -> Any:
            found = None
            if self._batch is not None:
                is_own = [bool(each) for each in complete(is_batched)]
                found = self._batch(size, is_own, complete(arrays), options)
            if found is None:
                found = _one_by_one(compute, is_batched, arrays)
            return tuple(found), (True,) * len(found)

        made = jax.custom_jvp(compute)

        @made.defjvp
        def slope(primals: Any, tangents: Any) -> Any:
            raise UnsupportedError(
                f"numbacc.jax.{self._of} has no second derivatives: use a function of jax.numpy or jax.nn there"
            )

        found: Callable[..., Any] = made
        return found


def _one_by_one(compute: Callable[..., Any], is_batched: Sequence[bool], arrays: Sequence[Any]) -> Any:
    def one(mapped: Sequence[Any]) -> Any:
        rest = iter(mapped)
        return compute(*[next(rest) if is_own else each for is_own, each in zip(is_batched, arrays, strict=True)])

    return jax.lax.map(one, [each for is_own, each in zip(is_batched, arrays, strict=True) if is_own])


def results_of(described: Description, arrays: Sequence[Any], count: int | None) -> list[jax.ShapeDtypeStruct]:
    """Return shapes and dtypes of a call's results, or of `count` of them.

    A plan for NumPy arrays with these shapes gives them, so that a call raises its errors when JAX traces it.

    Raises:
        numbacc's errors of such a call.
    """
    called = described.call((None,) * (count or 1), [as_operand(_stand_in(each)) for each in arrays])
    options = {name: each for name, each in called.options.items() if name != "out"}
    plan: Any = called.function.plan(*called.arguments, **options)  # type: ignore[attr-defined]
    return [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in plan.outputs[:count]]


def _stand_in(array: Any) -> Any:
    """Return a NumPy array with an array's shape and dtype, whose elements must not be used."""
    name = np.dtype(array.dtype).name
    if name not in dtypes.TABLE:
        raise DTypeError(
            f"an array has dtype {name}, which numbacc does not support: convert it, x.astype(jnp.float32)"
        )
    dtype = dtypes.TABLE[name].numpy
    return np.lib.stride_tricks.as_strided(
        np.empty(1, dtype), array.shape, row_major_strides(array.shape, dtype.itemsize)
    )


def _varying(array: Any) -> frozenset[str]:
    """Return the axes of the mesh of `jax.shard_map` along which an array has different values."""
    kind = getattr(jax.typeof(array), "manual_axis_type", None)
    return frozenset() if kind is None else frozenset(kind.varying)


def _alike(arrays: Sequence[Any]) -> list[Any]:
    """Return arrays that vary along the same axes of a mesh. So their gradients are summed over these axes."""
    own = [frozenset() if each is None else _varying(each) for each in arrays]
    every = frozenset().union(*own)
    pairs = zip(arrays, own, strict=True)
    return [
        each if each is None or has == every else jax.lax.pcast(each, tuple(sorted(every - has)), to="varying")
        for each, has in pairs
    ]


def to_front(size: int, is_batched: bool, array: Any) -> Any:
    """Return an array with the batch as its first axis, repeated if `is_batched` is False."""
    return array if is_batched else jnp.broadcast_to(array, (size, *array.shape))


def differentiable(
    forward: Callable[..., Any],
    saved: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    symbolic_zeros: bool = False,
) -> Any:
    """Return a function(options, *arrays or None) with a gradient.

    Args:
        forward: (options, *arrays) -> the result.
        saved: the same arguments -> (the result, the arrays that backward needs).
        backward: (options, these arrays, gradient of the result) -> gradients, or None.
        symbolic_zeros: as in `jax.custom_vjp`, which then says which gradients are needed.
    """
    made = jax.custom_vjp(forward, nondiff_argnums=(0,))
    made.defvjp(saved, backward, symbolic_zeros=symbolic_zeros)
    return jax.jit(lambda options, *arrays: made(options, *_alike(arrays)), static_argnums=0)
