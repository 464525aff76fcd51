"""Register functions of numbacc as torch operators, and run them on tensors.

An operator has a schema, a function that makes its results, and a function that fills them. torch allocates the
results, so that its CUDA graphs and its memory statistics know them. The function that makes the results also serves as
torch's fake rule, which tells a compiler shapes and dtypes without computing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ..arrays.tensors import layout_of
from ..base import dtypes
from ..errors import DeviceError, DTypeError, UnsupportedError
from ..runtime.streams import foreign, handle_of

__all__ = ["LIBRARY", "Operator", "as_stored", "host", "like", "numpy_dtype"]

LIBRARY = torch.library.Library("numbacc", "DEF")
#: torch's name for dispatch keys -> devices.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}
#: The devices that operators run on.
_SUPPORTED = ("cpu", "cuda")
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled


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


def host(tensor: torch.Tensor) -> Any:
    """Return a NumPy array in the memory of a tensor on the CPU, which must live longer.

    Unlike `Tensor.numpy`, it takes bfloat16, and leaves the tensor's storage resizable, which FSDP needs.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg()
    dtype = numpy_dtype(tensor.dtype)
    return np.asarray(_TensorMemory(tensor, dtype)).view(dtype)


def _taker(device: Any, stream: int) -> Callable[[torch.Tensor], Any]:
    """Return a function that returns device arrays in the memory of tensors.

    torch's current stream orders all work on the tensors, and torch's allocator keeps the memory until that work is
    done. So these arrays own nothing and wait for nothing: a graph that torch captures keeps no tensor alive.
    """
    from ..arrays.device_array import DeviceArray
    from ..runtime.sharing import Borrowed

    memory = Borrowed(None, 0, device.index, stream, stream)

    def take(tensor: torch.Tensor) -> Any:
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_conj().resolve_neg()
        made = layout_of(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        address = tensor.data_ptr()
        if made is None or address % made.itemsize:
            raise DTypeError(
                f"a tensor has dtype {tensor.dtype}, or an address that is no multiple of its elements, which numbacc "
                "does not support: convert it, x.to(torch.float32), or clone it"
            )
        return DeviceArray(made, address, memory)

    return take


def numpy_dtype(kind: torch.dtype) -> Any:
    """Return NumPy's dtype of torch's, ml_dtypes' bfloat16 included."""
    name = str(kind).removeprefix("torch.")
    if name not in dtypes.TABLE:
        raise DTypeError(f"a tensor has dtype {kind}, which numbacc does not support: convert it, x.to(torch.float32)")
    return dtypes.TABLE[name].numpy


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    for each in values:
        if type(each) is list:
            yield from each
        else:
            yield each


def _is_observed() -> bool:
    """Return whether a mode, functorch or a tracer wants to see operators."""
    return bool(
        torch._C._len_torch_dispatch_stack()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
    )


class Operator:
    """A torch operator for tensors on CPUs and CUDA GPUs. Call it with the schema's arguments.

    Args:
        schema: the name, the arguments and the results, in the language of torch's operators.
        results: returns new tensors for the results, given the arguments. It may be called with fake tensors.
        fill: computes: fill(results, stream, *arguments), with NumPy arrays and None, or with device arrays
            and a stream's handle.
        autocast: what happens to floats under `torch.autocast`: "lower" casts them to its dtype, "float32" to float32;
            "" leaves them.

    torch's dispatcher takes 20 µs to call a Python function, an `autograd.Function` 5 µs. So a call that nothing
    observes (no compiler, no mode, no functorch, no subclass of Tensor) does not pass through the dispatcher.

    Attributes:
        op: the operator that torch knows.
    """

    def __init__(
        self,
        schema: str,
        results: Callable[..., tuple[torch.Tensor, ...]],
        fill: Callable[..., None],
        *,
        autocast: str = "",
    ):
        name, _, returns = schema.partition("(")[0], *schema.rpartition("->")[1:]
        self._name, self._results, self._fill, self._autocast = name, results, fill, autocast
        self._is_list, self._is_one = returns.strip() == "Tensor[]", returns.strip() == "Tensor"
        self._function: Any = None
        LIBRARY.define(schema, tags=(torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag))
        LIBRARY.impl(name, self._compute, "CPU")
        LIBRARY.impl(name, self._compute, "CUDA")
        # On other devices.
        LIBRARY.impl(name, self._compute, "CompositeExplicitAutograd")
        torch.library.register_fake(f"numbacc::{name}", self._fake, lib=LIBRARY)
        self.op = getattr(torch.ops.numbacc, name).default
        if autocast:
            for key, device in _DEVICES.items():
                LIBRARY.impl(name, self._cast(device), f"Autocast{key}")

    def __call__(self, *arguments: Any) -> Any:
        if _is_compiling():
            return self.op(*arguments)
        device, tracks = None, False
        for each in arguments:
            kind = type(each)
            if kind is _Tensor or kind is _Parameter:
                tracks = tracks or each.requires_grad
                if device is None:
                    device = each.device
            elif kind is list or isinstance(each, _Tensor):
                return self.op(*arguments)
        if device is None or device.type not in _SUPPORTED or _is_observed() or forward_ad._current_level >= 0:
            return self.op(*arguments)
        if self._autocast and torch.is_autocast_enabled(device.type):
            lower = _dtype_under_autocast(device.type, self._autocast)
            arguments = tuple(_as(each, lower, device.type) for each in arguments)
        if tracks and self._function is not None and _is_grad_enabled():
            return self._function.apply(*arguments)
        return self._compute(*arguments)

    def _returned(self, made: tuple[torch.Tensor, ...]) -> Any:
        return made[0] if self._is_one else list(made) if self._is_list else made

    def _fake(self, *arguments: Any) -> Any:
        return self._returned(self._results(*arguments))

    def _compute(self, *arguments: Any) -> Any:
        device = next((each.device for each in _flat(arguments) if isinstance(each, _Tensor)), None)
        if device is None or device.type not in _SUPPORTED:
            raise DeviceError(
                f"numbacc.torch.{self._name} got a tensor on {device}; it runs on CPUs and CUDA GPUs: call x.to('cuda')"
            )
        made = self._results(*arguments)
        if device.type == "cpu":
            stream, take = None, host
        else:
            stream = _stream(device)
            take = _taker(device, stream)
        given = []
        for each in arguments:
            if type(each) is list:
                given.append([self._taken(one, take, device) for one in each])
            else:
                given.append(self._taken(each, take, device))
        self._fill(tuple([take(each) for each in made]), stream, *given)
        return self._returned(made)

    def _taken(self, value: Any, take: Callable[[Any], Any], device: Any) -> Any:
        """Return a tensor as an array, or another value as it is.

        Raises:
            DeviceError: it is not on this device.
        """
        if not isinstance(value, _Tensor):
            return value
        if value.device != device:
            raise DeviceError(
                f"numbacc.torch.{self._name} got tensors on {device} and {value.device}: move them to one device, "
                f"x.to({str(device)!r})"
            )
        return take(value)

    def _cast(self, device: str) -> Callable[..., Any]:
        """Return what the operator does under `torch.autocast`: it casts floats, then runs without autocast."""
        keys = torch._C.DispatchKeySet(
            torch._C.DispatchKey.AutocastCPU if device == "cpu" else torch._C.DispatchKey.AutocastCUDA
        )

        def cast(*arguments: Any) -> Any:
            lower = _dtype_under_autocast(device, self._autocast)
            with torch._C._ExcludeDispatchKeyGuard(keys):
                return self.op(*(_as(each, lower, device) for each in arguments))

        return cast

    def differentiable(
        self,
        backward: Callable[..., Any],
        saved: Callable[[Sequence[Any], Any], Sequence[torch.Tensor | None]],
        first: int,
    ) -> None:
        """Register the gradient.

        Args:
            backward: returns a gradient for each tensor argument: backward(ctx, *gradients of results). It finds the
                saved tensors in `ctx.saved_tensors` and the other arguments in `ctx.options`.
            saved: (arguments, results) -> the tensors that `backward` needs.
            first: the number of tensor arguments; they come first.
        """
        compute, is_list, name = self._compute, self._is_list, self._name

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*saved(inputs, output))
            ctx.options = inputs[first:]
            ctx.set_materialize_grads(is_list)

        def run(ctx: Any, *slopes: Any) -> Any:
            count = len(ctx.options)
            # Some results are only for the gradient itself: without a gradient of the first there is none.
            if slopes[0] is None:
                return (None,) * (first + count)
            return (*backward(ctx, *slopes), *([None] * count))

        def forward(ctx: Any, *arguments: Any) -> Any:
            found = compute(*arguments)
            found = tuple(found) if is_list else found
            keep(ctx, arguments, found)
            return found

        def gradient(ctx: Any, *slopes: Any) -> Any:
            if torch.is_grad_enabled():
                raise UnsupportedError(
                    f"create_graph=True: numbacc.torch.{name} has no second derivatives. Use torch's own function there"
                )
            return run(ctx, list(slopes)) if is_list else run(ctx, *slopes)

        # Its name is that of the results' grad_fn.
        self._function = type(
            f"Numbacc{name.title().replace('_', '')}",
            (torch.autograd.Function,),
            {"forward": staticmethod(forward), "backward": staticmethod(gradient)},
        )
        torch.library.register_autograd(self.op.name(), run, setup_context=keep, lib=LIBRARY)


def _stream(device: Any) -> int:
    """Return the handle of torch's current stream."""
    handle: int = torch._C._cuda_getCurrentRawStream(device.index)
    # A stream that torch did not make must live as long as numbacc uses it.
    return handle if not handle or handle in foreign else handle_of(torch.cuda.current_stream(device))


def _dtype_under_autocast(device: str, how: str) -> torch.dtype:
    return torch.get_autocast_dtype(device) if how == "lower" else torch.float32


def _as(value: Any, kind: torch.dtype, device: str) -> Any:
    """Return a tensor of another dtype, as autocast does: float64 and other devices are left alone."""
    if isinstance(value, torch.Tensor) and value.is_floating_point() and value.device.type == device:
        return value if value.dtype in (kind, torch.float64) else value.to(kind)
    return value


def like(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return new contiguous tensors of the same shapes and dtypes."""
    return tuple(torch.empty_like(each, memory_format=torch.contiguous_format) for each in tensors)


def as_stored(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return a new dense tensor whose dimensions have the order in memory that x's have, but the last stays the last.

    So queries that were transposed from (batch, length, heads, d) give results that transpose back without a copy.
    """
    rank = x.ndim
    strides = x.stride()
    order = sorted(range(rank - 1), key=lambda d: -strides[d]) + [rank - 1]
    if order == [*range(rank)]:
        return x.new_empty(shape)
    back = [order.index(d) for d in range(rank)]
    return x.new_empty([shape[d] for d in order]).permute(back)
