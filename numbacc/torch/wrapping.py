"""One's own kernels as torch functions with gradients."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..elementwise.custom_kernels import Kernel
from .operators import Operator, host, like, numpy_dtype

__all__ = ["wrap"]

_numbers = itertools.count()


def wrap(kernel: Kernel) -> Callable[..., Any]:
    """Return a function of tensors that runs a kernel, with the kernel's gradients.

    The function is a torch operator, so that `torch.compile(fullgraph=True)` does not break the graph. Call
    `wrap` once, outside of compiled functions.

    Args:
        kernel: what `numbacc.elementwise.kernel` returned.

    Returns:
        a function of the kernel's arguments: tensors that broadcast, or numbers; at least one tensor. Options are
        given by name, and are numbers.

    Raises:
        TypeError: kernel is none of `numbacc.elementwise.kernel`.

    Example:
        >>> import math, torch, numbacc.torch
        >>> cap = numbacc.torch.wrap(numbacc.elementwise.kernel(lambda x, s: s * math.tanh(x / s)))
        >>> x = torch.tensor([0.0, 300.0], requires_grad=True)
        >>> cap(x, 30.0).sum().backward()
        >>> x.grad
        tensor([1., 0.])
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"wrap takes what numbacc.elementwise.kernel returns, not {type(kernel).__name__}")
    parameters = inspect.signature(kernel.py_func).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty]
    options = {p.name: p.default for p in parameters if p.default is not p.empty}
    name = f"own{next(_numbers)}_{re.sub('[^a-z0-9_]', '', kernel.__name__.lower())}"
    given = ", ".join(f"Tensor? x{k}" for k in range(len(names)))
    count = len(names)

    def joined(tensors: Sequence[Any], numbers: Sequence[float]) -> list[Any]:
        rest = iter(numbers)
        return [next(rest) if each is None else each for each in tensors]

    def results(*arguments: Any) -> tuple[Tensor, ...]:
        *tensors, numbers, values = arguments
        there = [t for t in tensors if t is not None]
        small = [None if t is None else np.ones(1, numpy_dtype(t.dtype)) for t in tensors]
        shape = torch.broadcast_shapes(*(t.shape for t in there))
        found = kernel.plan(*joined(small, numbers), **dict(zip(options, values, strict=False))).outputs
        return tuple(there[0].new_empty(shape, dtype=_torch_dtype(each.dtype)) for each in found)

    def fill(outs: Any, stream: Any, *arguments: Any) -> None:
        *tensors, numbers, values = arguments
        kernel(
            *joined(tensors, numbers), out=outs if len(outs) > 1 else outs[0], stream=stream,
            **dict(zip(options, values, strict=False)),
        )  # fmt: skip

    forward = Operator(f"{name}({given}, float[] numbers, float[] options) -> Tensor[]", results, fill)

    def slopes(dys: Any, *arguments: Any) -> tuple[Tensor, ...]:
        return like(*(t for t in arguments[:count] if t is not None and t.is_floating_point()))

    def fill_slopes(outs: Any, stream: Any, dys: Any, *arguments: Any) -> None:
        *tensors, numbers, values = arguments
        dys = [host(dy) for dy in dys] if stream is None else list(dys)
        rest = iter(outs)
        out = tuple(next(rest) if _is_float(each) else None for each in tensors if each is not None)
        kernel.backward(
            dys[0] if len(dys) == 1 else tuple(dys), *joined(tensors, numbers), out=out, stream=stream,
            **dict(zip(options, values, strict=False)),
        )  # fmt: skip

    backward = Operator(
        f"{name}_backward(Tensor[] dy, {given}, float[] numbers, float[] options) -> Tensor[]", slopes, fill_slopes
    )

    def gradients(ctx: Any, dys: Sequence[Tensor]) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors
        found = iter(backward(list(dys), *tensors, *ctx.options))
        return tuple(next(found) if t is not None and t.is_floating_point() else None for t in tensors)

    forward.differentiable(gradients, lambda inputs, _: inputs[:count], count)

    def call(*arguments: Any, **given: Any) -> Any:
        tensors = [each if isinstance(each, Tensor) else None for each in arguments]
        numbers = [float(each) for each in arguments if not isinstance(each, Tensor)]
        values = [float(given.pop(each, value)) for each, value in options.items()]
        if len(arguments) != count or given:
            raise TypeError(f"{call.__name__} takes {', '.join(names)} and the options {', '.join(options) or 'none'}")
        # torch takes an empty list for a list of tensors.
        found = forward(*tensors, [*numbers, 0.0], [*values, 0.0])
        return found[0] if len(found) == 1 else tuple(found)

    call.__name__ = call.__qualname__ = kernel.__name__
    call.__doc__ = kernel.__doc__
    return call


def _is_float(value: Any) -> bool:
    if isinstance(value, Tensor):
        return bool(value.is_floating_point())
    return value.dtype.name in ("float16", "float32", "float64", "bfloat16")


def _torch_dtype(dtype: Any) -> torch.dtype:
    found: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return found
