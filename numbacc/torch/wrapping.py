"""One's own kernels as torch functions with gradients."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import bridges
from ..elementwise.custom_kernels import Kernel
from ..elementwise.custom_reductions import Reduction
from .operators import Operator, like
from .tensor_memory import numpy_dtype

__all__ = ["wrap"]

_numbers = itertools.count()


def wrap(kernel: Kernel | Reduction) -> Callable[..., Any]:
    """Return a function of tensors that runs a kernel or a reduction, with its gradients.

    The function is a torch operator, so that `torch.compile(fullgraph=True)` does not break the graph. Call `wrap`
    once, outside of compiled functions. The values of globals that the kernel reads should not change afterwards.

    Args:
        kernel: an object made by `numbacc.elementwise.kernel` or `numbacc.elementwise.reduction`.

    Returns:
        a function of the kernel's arguments: tensors that broadcast, or numbers; at least one tensor. Options are
        given by name, and are numbers. That of a reduction has the options `axis` and `keepdims`, too.

    Raises:
        TypeError: kernel is neither.

    Example:
        >>> import math, torch, numbacc.torch
        >>> cap = numbacc.torch.wrap(numbacc.elementwise.kernel(lambda x, s: s * math.tanh(x / s)))
        >>> x = torch.tensor([0.0, 3000.0], requires_grad=True)
        >>> cap(x, 30.0).sum().backward()
        >>> x.grad
        tensor([1., 0.])
    """
    own = bridges.OwnKernel(kernel, "a tensor")
    count, reduces = own.count, own.reduces
    name = f"own{next(_numbers)}_{own.name}"
    given = ", ".join(f"Tensor? x{k}" for k in range(count))
    given += ", float[] numbers, float[] options" + ", int[]? axis, bool keepdims" * reduces
    known: dict[Any, list[torch.dtype]] = {}

    def dtypes_of(arguments: Sequence[Any]) -> list[torch.dtype]:
        """Return the dtypes of the results."""
        key = tuple(None if t is None else t.dtype for t in arguments[:count])
        if key not in known:
            small = [None if dtype is None else np.ones(1, numpy_dtype(dtype)) for dtype in key]
            positional, keywords = own.split(
                [*small, *arguments[count : count + 2], *([None, False] if reduces else [])]
            )
            known[key] = [_torch_dtype(each.dtype) for each in kernel.plan(*positional, **keywords).outputs]
        return known[key]

    def results(*arguments: Any) -> tuple[Tensor, ...]:
        there = [t for t in arguments[:count] if t is not None]
        shape: Sequence[int] = torch.broadcast_shapes(*(t.shape for t in there))
        if reduces:
            shape = bridges.reduced(shape, *arguments[count + 2 :])
        return tuple(there[0].new_empty(shape, dtype=dtype) for dtype in dtypes_of(arguments))

    forward = Operator(f"{name}({given}) -> Tensor[]", results, own.forward)

    def slopes(dys: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return like(*(t for t in arguments[:count] if t is not None and t.is_floating_point()))

    backward = Operator(f"{name}_backward(Tensor[] dy, {given}) -> Tensor[]", slopes, own.backward)

    def gradients(ctx: Any, dys: Sequence[Tensor]) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        found = iter(backward(list(dys), *tensors, *ctx.options))
        return tuple(next(found) if t is not None and t.is_floating_point() else None for t in tensors)

    forward.differentiable(gradients, tuple(range(count)), count)

    def wrapped(*arguments: Any, **given: Any) -> Any:
        found = own.arguments(arguments, given, lambda each: isinstance(each, Tensor))
        tensors, (numbers, values, *how) = found[:count], found[count:]
        # torch takes an empty list for a list of tensors.
        made = forward(*tensors, (*numbers, 0.0), (*values, 0.0), *how)
        return made[0] if len(made) == 1 else tuple(made)

    wrapped.__name__ = wrapped.__qualname__ = kernel.__name__
    wrapped.__doc__ = kernel.__doc__
    return wrapped


def _torch_dtype(dtype: Any) -> torch.dtype:
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found
