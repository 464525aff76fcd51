"""torch's tensors: what must not be read as it lies in memory, and the short way to where they lie."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from ..base import dtypes
from ..base.layout import Layout, layout
from ..errors import DTypeError


class Kind:
    """A class of torch tensors, and what is looked up of torch but once.

    Attributes:
        plain: whether its tensors are torch's own, and their attributes tell the truth of their memory.
    """

    __slots__ = ("grad_enabled", "plain", "strided")

    def __init__(self, kind: Any):
        torch = sys.modules["torch"]
        self.plain = kind in (torch.Tensor, torch.nn.Parameter)
        self.strided = torch.strided
        self.grad_enabled = torch.is_grad_enabled


@lru_cache(maxsize=256)
def kind_of(kind: Any) -> Kind | None:
    """What is known of a class of torch tensors; None of other classes."""
    if any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__):
        return Kind(kind)
    return None


def checked(obj: Any, name: str, kind: Kind) -> Any:
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


def place_of(obj: Any, kind: Kind) -> tuple[Any, int, Layout] | None:
    """(owner of its memory, address, layout) of a tensor that is `checked`, by its own attributes.

    None where they do not tell all: a tensor that is not torch's own or on no GPU, a dtype that numbacc has not.
    DLPack says the same in three times the time, and in words that fit where it does not.
    """
    if not kind.plain or not obj.is_cuda:
        return None
    made = _layout(obj.shape, obj.stride(), obj.dtype, obj.get_device())
    # The storage, and not the tensor, which can be given another: `t.data = ...`.
    return None if made is None else (obj.untyped_storage(), obj.data_ptr(), made)


@lru_cache(maxsize=4096)
def _layout(shape: Any, steps: tuple[int, ...], dtype: Any, device: int) -> Layout | None:
    row = dtypes.TABLE.get(str(dtype).removeprefix("torch."))
    if row is None:
        return None
    return layout(tuple(shape), tuple(step * row.itemsize for step in steps), row.numpy, device)
