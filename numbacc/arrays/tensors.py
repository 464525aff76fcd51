"""torch's tensors: what must not be read as it lies in memory, and how they lie there."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from ..base import dtypes
from ..base.layout import Layout, layout
from ..errors import DTypeError
from ..runtime.streams import torch_streams


class TensorClass:
    """A class of torch tensors, and what is looked up of torch but once.

    Attributes:
        plain: whether its tensors are torch's own, and their attributes tell the truth of their memory.
        current_stream: device -> the stream that torch works on now, in this thread.
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
    """The facts about a class of torch tensors; None for other classes."""
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__):
        return TensorClass(kind)
    return None


def checked(obj: Any, name: str, kind: TensorClass) -> Any:
    """A tensor without its gradients, where what is in memory is what it means.

    A tensor that requires gradients is taken where torch records none itself: under `torch.no_grad()` and in an
    `autograd.Function`.

    Raises:
        DTypeError: its memory holds other values than the tensor; the message says what to call.
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
    """Raise the DTypeError that says why a torch tensor cannot be taken; of other arrays nothing is said."""
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


@lru_cache(maxsize=4096)
def layout_of(shape: Any, steps: tuple[int, ...], dtype: Any, device: Any) -> Layout | None:
    """The layout of a tensor of that shape, strides in elements, torch's dtype and device.

    None where numbacc has no such dtype, and where the device is not an NVIDIA GPU.
    """
    row = dtypes.TABLE.get(str(dtype).removeprefix("torch."))
    if row is None or device.type != "cuda":
        return None
    return layout(tuple(shape), tuple(step * row.itemsize for step in steps), row.numpy, device.index)
