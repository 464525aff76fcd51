"""torch's tensors: their layouts, and checks for tensors whose memory does not hold their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ..base import dtypes
from ..base.layout import Layout, layout
from ..errors import DTypeError
from ..runtime.streams import torch_streams


class TensorClass:
    """A class of torch tensors, with functions of torch that are looked up only once.

    Attributes:
        plain: whether this is torch's own class, so that its attributes describe its memory.
        current_stream: device -> torch's current stream in this thread.
    """

    __slots__ = ("current_stream", "grad_enabled", "plain", "strided")

    def __init__(self, kind: Any):
        torch = sys.modules["torch"]
        self.plain = kind in (torch.Tensor, torch.nn.Parameter)
        self.strided = torch.strided
        self.grad_enabled = torch.is_grad_enabled
        self.current_stream = torch_streams()


@lru_cache(maxsize=256)
def kind_of(kind: Any) -> TensorClass | None:
    """Return the `TensorClass` of a class of torch tensors; None for other classes."""
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__):
        return TensorClass(kind)
    return None


def checked(obj: Any, name: str, kind: TensorClass) -> Any:
    """Return a tensor without its gradients, after checking that its memory holds its values.

    A tensor that requires gradients is accepted if torch currently records none: under `torch.no_grad()` and in an
    `autograd.Function`.

    Raises:
        DTypeError: its memory holds other values than the tensor; the message names the conversion to call.
    """
    if obj.layout is not kind.strided or obj.is_neg() or obj.is_conj():
        check(obj, name)
    if not obj.requires_grad:
        return obj
    if kind.grad_enabled():
        raise DTypeError(
            f"{name} requires gradients, which numbacc does not record: pass {name}.detach(), or call it under "
            "torch.no_grad()"
        )
    return obj.detach()


def check(obj: Any, name: str) -> None:
    """Raise DTypeError with the reason if a torch tensor is unsupported; ignore other arrays."""
    kind = kind_of(obj.__class__)
    if kind is None:
        return
    for found, what, remedy in (
        (obj.is_nested, "is a nested tensor", f"{name}.to_padded_tensor(0)"),
        (obj.layout is not kind.strided, f"has the layout {obj.layout}", f"{name}.to_dense()"),
        (obj.is_quantized, "is quantized", f"{name}.dequantize()"),
        (obj.is_meta, "is on the meta device, without memory", f'torch.empty_like({name}, device="cuda")'),
        (obj.is_conj(), "is conjugated when it is read, not in memory", f"{name}.resolve_conj()"),
        (obj.is_neg(), "is negated when it is read, not in memory", f"{name}.resolve_neg()"),
    ):
        if found:
            raise DTypeError(f"{name} {what}; numbacc reads memory as it is: pass {remedy}")


def guard_of(tensors: Sequence[Any]) -> Callable[..., bool] | None:
    """Return a function that compares as many tensors with these in one step, without keeping them.

    It is torch's own: it compares the class, dispatch keys, dtype, device, shape, strides, and whether gradients are
    recorded. Return None if torch does not have it, if two tensors are one object, or if not all are plain tensors
    without gradients.
    """
    kinds = [kind_of(each.__class__) for each in tensors]
    if not all(kind is not None and kind.plain for kind in kinds) or any(each.requires_grad for each in tensors):
        return None
    if len({*map(id, tensors)}) < len(tensors):
        return None
    dynamo = getattr(sys.modules["torch"]._C, "_dynamo", None)
    guards = getattr(getattr(dynamo, "guards", None), "TensorGuards", None)
    guard = guards and guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    return guard if guard and guard(*tensors) else None


@lru_cache(maxsize=4096)
def layout_of(shape: Any, steps: tuple[int, ...], dtype: Any, device: Any) -> Layout | None:
    """Return the layout of a tensor from its shape, strides in elements, torch's dtype and device.

    Return None if numbacc does not support the dtype, or if the device is not an NVIDIA GPU.
    """
    row = dtypes.TABLE.get(str(dtype).removeprefix("torch."))
    if row is None or device.type != "cuda":
        return None
    return layout(tuple(shape), tuple(step * row.itemsize for step in steps), row.numpy, device.index)
