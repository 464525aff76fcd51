"""One's own kernels as torch functions with gradients."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..elementwise.custom_kernels import Kernel
from ..elementwise.custom_reductions import Reduction
from .operators import FunctionCall, Operator, call, like, numpy_dtype

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
    if not isinstance(kernel, (Kernel, Reduction)):
        raise TypeError(
            "wrap takes what numbacc.elementwise.kernel or numbacc.elementwise.reduction returns, not "
            f"{type(kernel).__name__}"
        )
    reduces = isinstance(kernel, Reduction)
    options = dict(kernel._options)
    names = [each for each in kernel._signature.parameters if each not in options]
    count = len(names)
    name = f"own{next(_numbers)}_{re.sub('[^a-z0-9_]', '', kernel.__name__.lower())}"
    given = ", ".join(f"Tensor? x{k}" for k in range(count))
    given += ", float[] numbers, float[] options" + ", int[]? axis, bool keepdims" * reduces

    def split(arguments: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments and the keywords of the kernel's call, given the operator's arguments."""
        numbers, values, *how = arguments[count:]
        rest = iter(numbers)
        positional = [next(rest) if each is None else each for each in arguments[:count]]
        keywords = dict(zip(options, values, strict=False))
        if reduces:
            axis, keepdims = how
            keywords |= {"axis": None if axis is None else tuple(axis), "keepdims": keepdims}
        return positional, keywords

    known: dict[Any, list[torch.dtype]] = {}

    def dtypes_of(arguments: Sequence[Any]) -> list[torch.dtype]:
        """Return the dtypes of the results."""
        key = tuple(None if t is None else t.dtype for t in arguments[:count])
        if key not in known:
            small = [None if dtype is None else np.ones(1, numpy_dtype(dtype)) for dtype in key]
            positional, keywords = split([*small, *arguments[count : count + 2], *([None, False] if reduces else [])])
            known[key] = [_torch_dtype(each.dtype) for each in kernel.plan(*positional, **keywords).outputs]
        return known[key]

    def results(*arguments: Any) -> tuple[Tensor, ...]:
        there = [t for t in arguments[:count] if t is not None]
        shape: Sequence[int] = torch.broadcast_shapes(*(t.shape for t in there))
        if reduces:
            shape = _reduced(shape, *arguments[count + 2 :])
        return tuple(there[0].new_empty(shape, dtype=dtype) for dtype in dtypes_of(arguments))

    def run(outs: Any, *arguments: Any) -> FunctionCall:
        positional, keywords = split(arguments)
        return call(kernel, *positional, out=outs if len(outs) > 1 else outs[0], **keywords)

    forward = Operator(f"{name}({given}) -> Tensor[]", results, run)

    def slopes(dys: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return like(*(t for t in arguments[:count] if t is not None and t.is_floating_point()))

    def run_back(outs: Any, dys: Any, *arguments: Any) -> FunctionCall:
        positional, keywords = split(arguments)
        rest = iter(outs)
        out = tuple(next(rest) if _is_float(each) else None for each in arguments[:count] if each is not None)
        return call(kernel.backward, dys[0] if len(dys) == 1 else tuple(dys), *positional, out=out, **keywords)

    backward = Operator(f"{name}_backward(Tensor[] dy, {given}) -> Tensor[]", slopes, run_back)

    def gradients(ctx: Any, dys: Sequence[Tensor]) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        found = iter(backward(list(dys), *tensors, *ctx.options))
        return tuple(next(found) if t is not None and t.is_floating_point() else None for t in tensors)

    forward.differentiable(gradients, lambda inputs, _: inputs[:count], count)

    def wrapped(*arguments: Any, **given: Any) -> Any:
        tensors = [each if isinstance(each, Tensor) else None for each in arguments]
        numbers = [float(each) for each in arguments if not isinstance(each, Tensor)]
        values = [float(given.pop(each, value)) for each, value in options.items()]
        how = [_axes(given.pop("axis", None)), given.pop("keepdims", False)] if reduces else []
        if len(arguments) != count or given:
            listed = [*options, *(["axis", "keepdims"] if reduces else [])]
            raise TypeError(
                f"{wrapped.__name__} takes {', '.join(names)} and the options {', '.join(listed) or 'none'}"
            )
        if not any(isinstance(each, Tensor) for each in arguments):
            raise TypeError(f"{wrapped.__name__} got only numbers; it needs a tensor")
        # torch takes an empty list for a list of tensors.
        found = forward(*tensors, (*numbers, 0.0), (*values, 0.0), *how)
        return found[0] if len(found) == 1 else tuple(found)

    wrapped.__name__ = wrapped.__qualname__ = kernel.__name__
    wrapped.__doc__ = kernel.__doc__
    return wrapped


def _axes(axis: int | Sequence[int] | None) -> tuple[int, ...] | None:
    return axis if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _reduced(shape: Sequence[int], axis: Sequence[int] | None, keepdims: bool) -> list[int]:
    """Return the shape of a reduction's result."""
    axes = range(len(shape)) if axis is None else [each % len(shape) for each in axis if -len(shape) <= each]
    return [1 if d in axes else n for d, n in enumerate(shape) if keepdims or d not in axes]


def _is_float(value: Any) -> bool:
    return value.dtype.name in ("float16", "float32", "float64", "bfloat16")


def _torch_dtype(dtype: Any) -> torch.dtype:
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found
