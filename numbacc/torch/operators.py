"""Register functions of numbacc as torch operators, and run them on tensors.

An operator has a schema, a function that makes its results, and a function that fills them. torch allocates the
results, so that its CUDA graphs and its memory statistics know them. The function that makes the results also serves as
torch's fake rule, which tells a compiler shapes and dtypes without computing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..base import dtypes

__all__ = ["LIBRARY", "differentiable", "host", "like", "numpy_dtype", "operator"]

LIBRARY = torch.library.Library("numbacc", "DEF")
#: torch's name for dispatch keys -> devices.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}


class _TensorMemory:
    """The memory of a tensor on the CPU, for NumPy."""

    def __init__(self, tensor: torch.Tensor, dtype: Any):
        self.tensor = tensor  # NumPy keeps this object, and with it the memory
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), False),
            "shape": tuple(tensor.shape),
            "strides": tuple(each * dtype.itemsize for each in tensor.stride()),
            "typestr": f"V{dtype.itemsize}" if dtype.kind == "V" else dtype.str,
        }


def host(value: Any) -> Any:
    """Return a NumPy array in the memory of a tensor on the CPU, which must live longer; other values as they are.

    Unlike `Tensor.numpy`, it takes bfloat16, and leaves the tensor's storage resizable, which FSDP needs.
    """
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().resolve_conj().resolve_neg()
    dtype = numpy_dtype(tensor.dtype)
    return np.asarray(_TensorMemory(tensor, dtype)).view(dtype)


def numpy_dtype(kind: torch.dtype) -> Any:
    """Return NumPy's dtype of torch's, ml_dtypes' bfloat16 included."""
    return dtypes.TABLE[str(kind).removeprefix("torch.")].numpy


def operator(
    schema: str,
    results: Callable[..., tuple[torch.Tensor, ...]],
    fill: Callable[..., None],
    *,
    autocast: str = "",
) -> Any:
    """Register an operator for CPU and CUDA tensors, and return it.

    Args:
        schema: the name, the arguments and the results, in the language of torch's operators.
        results: returns new tensors for the results, given the arguments. It may be called with fake tensors.
        fill: computes: fill(results, stream, *arguments), with NumPy arrays and None, or with tensors and a stream.
        autocast: what happens to floats under `torch.autocast`: "lower" casts them to its dtype, "float32" to float32;
            "" leaves them.
    """
    name = schema.partition("(")[0]
    LIBRARY.define(schema, tags=(torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag))

    several = schema.rpartition("->")[2].strip() != "Tensor"

    def returned(made: tuple[torch.Tensor, ...]) -> Any:
        return (list(made) if schema.endswith("[]") else made) if several else made[0]

    def on_cpu(*arguments: Any) -> Any:
        made = results(*arguments)
        fill(tuple(map(host, made)), None, *map(host, arguments))
        return returned(made)

    def on_cuda(*arguments: Any) -> Any:
        made = results(*arguments)
        fill(made, torch.cuda.current_stream(made[0].device), *arguments)
        return returned(made)

    def fake(*arguments: Any) -> Any:
        return returned(results(*arguments))

    LIBRARY.impl(name, on_cpu, "CPU")
    LIBRARY.impl(name, on_cuda, "CUDA")
    torch.library.register_fake(f"numbacc::{name}", fake, lib=LIBRARY)
    made = getattr(torch.ops.numbacc, name).default
    if autocast:
        for key in _DEVICES:
            LIBRARY.impl(name, _cast(made, _DEVICES[key], autocast), f"Autocast{key}")
    return made


def _cast(called: Any, device: str, how: str) -> Callable[..., Any]:
    """Return what an operator does under `torch.autocast`: it casts floats, and calls the operator without autocast."""
    keys = torch._C.DispatchKeySet(
        torch._C.DispatchKey.AutocastCPU if device == "cpu" else torch._C.DispatchKey.AutocastCUDA
    )

    def cast(*arguments: Any) -> Any:
        kind = torch.get_autocast_dtype(device) if how == "lower" else torch.float32
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return called(*(_as(each, kind, device) for each in arguments))

    return cast


def _as(value: Any, kind: torch.dtype, device: str) -> Any:
    """Return a tensor of another dtype, as autocast does: float64 and other devices are left alone."""
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.device.type == device:
        return value if value.dtype in (kind, torch.float64) else value.to(kind)
    return value


def differentiable(
    of: Any,
    backward: Callable[..., Any],
    saved: Callable[[Sequence[Any], Any], Sequence[torch.Tensor | None]],
    first: int,
) -> None:
    """Register an operator's gradient.

    Args:
        of: the operator.
        backward: returns a gradient for each tensor argument: backward(ctx, dy, *saved tensors, *other arguments).
        saved: (arguments, results) -> the tensors that `backward` needs.
        first: the number of tensor arguments; they come first.
    """

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*saved(inputs, output))
        ctx.options = inputs[first:]

    def run(ctx: Any, *slopes: Any) -> Any:
        found = backward(ctx, *slopes)
        return (*found, *([None] * len(ctx.options)))

    torch.library.register_autograd(of.name(), run, setup_context=keep, lib=LIBRARY)


def like(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return new contiguous tensors of the same shapes and dtypes."""
    return tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in tensors)
