"""Register functions of numbacc as torch operators, and run them on tensors.

An operator has a schema, a function that makes its results, and a function that fills them. torch allocates the
results, so that its CUDA graphs and its memory statistics know them. The function that makes the results also serves as
torch's fake rule, which tells a compiler shapes and dtypes without computing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from types import new_class
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ..arrays import operands
from ..arrays.tensors import layout_of
from ..base import dtypes, observing
from ..bridges import FunctionCall, LightArray, ran
from ..errors import DeviceError, DTypeError, UnsupportedError
from ..runtime.streams import foreign, handle_of, torch_streams

__all__ = ["LIBRARY", "Operator", "as_stored", "host", "like", "numpy_dtype", "taken"]

LIBRARY = torch.library.Library("numbacc", "DEF")
#: torch's name for dispatch keys -> devices.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}
#: The devices that operators run on.
_SUPPORTED = ("cpu", "cuda")
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_is_compiling, _is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
_empty, _empty_like = torch.Tensor.new_empty_strided, torch.empty_like
_raw_stream = torch_streams()
#: An operator keeps so many plans.
_KEPT = 1024


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
    make, memory = _device_array(), _memory(device.index, stream)

    def take(tensor: torch.Tensor) -> Any:
        if tensor.is_neg() or tensor.is_conj():
            tensor = tensor.resolve_conj().resolve_neg()
        made = layout_of(tensor.shape, tensor.stride(), tensor.dtype, tensor.device)
        address = tensor.data_ptr()
        if made is None or address % made.itemsize:
            raise DTypeError(
                f"a tensor has dtype {tensor.dtype} and starts at {address:#x}: numbacc does not support the dtype, or "
                "the address is not a multiple of the element size. Convert it, x.to(torch.float32), or clone it"
            )
        return make(made, address, memory)

    return take


def _memory(device: int, stream: int) -> Any:
    """Return memory that a stream orders, and that numbacc does not own."""
    return _classes()[1](None, 0, device, stream, stream)


def _device_array() -> Any:
    return _classes()[0]


@cache
def _classes() -> tuple[Any, Any]:
    """Return the classes of device arrays and of borrowed memory, which load Numba."""
    from ..runtime.sharing import Borrowed

    return operands.device_array(), Borrowed


def numpy_dtype(kind: torch.dtype) -> Any:
    """Return NumPy's dtype of torch's, ml_dtypes' bfloat16 included."""
    name = str(kind).removeprefix("torch.")
    if name not in dtypes.TABLE:
        raise DTypeError(f"a tensor has dtype {kind}, which numbacc does not support: convert it, x.to(torch.float32)")
    return dtypes.TABLE[name].numpy


# Whether a mode, functorch or a tracer wants to see operators.
_modes = torch._C._len_torch_dispatch_stack
_transforms = torch._C._are_functorch_transforms_active
_tracing = torch._C._get_tracing_state
_any_autocast = torch._C._is_any_autocast_enabled


class _Prepared:
    """A plan, for tensors that need no checks.

    Attributes:
        plan: the plan.
        numbers: the numbers of its inputs, then of its outputs, among the tensors of a call and its results.
        count: how many inputs it has.
        scalars: of its runs.
        made: for each result its shape, its strides, and its dtype by name, if it is not the first tensor's.
        alike: whether there is one result, like the first tensor.
        layouts: the arrays' layouts, if the plan consists of several; else ().
        is_list: whether such a plan takes a list of arrays for its results, rather than one.
    """

    __slots__ = ("alike", "count", "is_list", "layouts", "made", "numbers", "plan", "scalars")

    def __init__(
        self,
        plan: Any,
        numbers: tuple[int, ...],
        scalars: Any,
        first: torch.Tensor,
        made: Sequence[torch.Tensor],
        layouts: tuple[Any, ...],
        is_list: bool,
    ):
        self.plan, self.numbers, self.count, self.scalars = plan, numbers, len(plan.inputs), scalars
        self.made = tuple(
            (each.shape, each.stride(), {} if each.dtype is first.dtype else {"dtype": each.dtype}) for each in made
        )
        dense = first.is_contiguous()
        self.alike = dense and self.made == ((first.shape, first.stride(), {}),)
        self.layouts, self.is_list = layouts, is_list

    def run(self, tensors: Sequence[torch.Tensor], device: Any) -> tuple[torch.Tensor, ...]:
        """Run the plan on the tensors of a call, and return the results."""
        first = tensors[0]
        if self.alike:
            made: tuple[torch.Tensor, ...] = (_empty_like(first),)
        elif len(self.made) == 1:
            ((shape, steps, more),) = self.made
            made = (_empty(first, shape, steps, **more) if more else _empty(first, shape, steps),)
        else:
            made = tuple([_empty(first, shape, steps, **more) for shape, steps, more in self.made])
        tensors = (*tensors, *made)
        plan, count = self.plan, self.count
        if plan.device < 0:
            arrays = [
                _as(tensors[k], each, None)
                for k, each in zip(self.numbers, self.layouts or (*plan.inputs, *plan.outputs), strict=True)
            ]
            if self.layouts:
                plan.run(arrays[:count], arrays[count:] if self.is_list else arrays[-1], 0)
            else:
                plan.run(arrays[:count], arrays[count:], True, 0, self.scalars)
            return made
        index = plan.device
        stream = _raw_stream(index)
        if stream and stream not in foreign:
            _stream(device)
        if self.layouts:
            memory = _memory(index, stream)
            arrays = [_as(tensors[k], each, memory) for k, each in zip(self.numbers, self.layouts, strict=True)]
            plan.run(arrays[:count], arrays[count:] if self.is_list else arrays[-1], stream)
            return made
        addresses = [tensors[k].data_ptr() for k in self.numbers]
        if not plan.queued(addresses, stream, self.scalars):
            memory = _memory(index, stream)
            lights = [LightArray(address, memory) for address in addresses]
            plan.run(lights[:count], lights[count:], True, stream, self.scalars)
        return made


def _as(tensor: torch.Tensor, layout: Any, memory: Any) -> Any:
    """Return a tensor as an array of a layout that starts where the tensor does."""
    if memory is None:
        return np.lib.stride_tricks.as_strided(host(tensor), layout.shape, layout.strides)
    return _device_array()(layout, tensor.data_ptr(), memory)


def _prepared(
    called: FunctionCall, arrays: Sequence[Any], made: Sequence[torch.Tensor], first: torch.Tensor, stream: int
) -> _Prepared | None:
    """Make a call, and return its plan for further runs; None if a plan does not describe the whole call.

    Args:
        called: the call.
        arrays: the arrays of the tensors and of the results.
        made: the results.
        first: the first tensor.
        stream: the stream's handle.
    """
    found = ran(called, stream)
    if found is None:
        return None
    layouts = tuple(operands.layout_of(each) for each in found.arrays) if found.is_several else ()
    addresses = [_address(each) for each in arrays]
    numbers = []
    for each in found.arrays:
        address = 0 if each is None else _address(each)
        if not address or addresses.count(address) != 1:
            return None
        numbers.append(addresses.index(address))
    return _Prepared(found.plan, tuple(numbers), found.scalars, first, made, layouts, found.is_list)


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array._address)


def taken(tensors: Sequence[torch.Tensor], name: str) -> tuple[list[Any], int]:
    """Return arrays in the memory of tensors, and the handle of the stream that orders work on them.

    Raises:
        DeviceError: the tensors are on several devices, or on none that is supported; `name` is that of the function.
    """
    device = _device_of(tensors, name)
    stream = 0 if device.type == "cpu" else _stream(device)
    take = host if device.type == "cpu" else _taker(device, stream)
    return [take(each) for each in tensors], stream


def _device_of(tensors: Sequence[torch.Tensor], name: str) -> Any:
    """Return the device of tensors, for `taken`."""
    device = tensors[0].device if tensors else None
    if device is None or device.type not in _SUPPORTED:
        raise DeviceError(
            f"numbacc.torch.{name} got a tensor on {device}; it runs on CPUs and CUDA GPUs: call x.to('cuda')"
        )
    for each in tensors:
        if each.device != device:
            raise DeviceError(
                f"numbacc.torch.{name} got tensors on {device} and {each.device}: move them to one device, "
                f"x.to({str(device)!r})"
            )
    return device


class Operator:
    """A torch operator for tensors on CPUs and CUDA GPUs. Call it with the schema's arguments.

    Args:
        schema: the name, the arguments (tensors first) and the results, in the language of torch's operators. Lists of
            numbers are passed as tuples.
        results: returns new tensors for the results, given the arguments. It may be called with fake tensors.
        call: (results, *arguments) -> the call of numbacc's that computes, given NumPy arrays or device arrays.
        autocast: the conversion of floats under `torch.autocast`: "lower" to its dtype, "float32" to float32; "" for
            none.

    torch's dispatcher takes 20 µs to call a Python function, an `autograd.Function` 5 µs. So a call that nothing
    observes (no compiler, no mode, no functorch, no subclass of Tensor) does not pass through the dispatcher.

    Attributes:
        op: the operator that torch knows.
    """

    def __init__(
        self,
        schema: str,
        results: Callable[..., tuple[torch.Tensor, ...]],
        call: Callable[..., FunctionCall],
        *,
        autocast: str = "",
    ):
        name, _, returns = schema.partition("(")[0], *schema.rpartition("->")[1:]
        self._name, self._results, self._call, self._autocast = name, results, call, autocast
        self._is_list, self._is_one = returns.strip() == "Tensor[]", returns.strip() == "Tensor"
        #: The number of tensors, which come before the other arguments.
        self._count = len(re.findall(r"\bTensor(?:\[\]|\?)? ", schema.rpartition("->")[0]))
        #: Calls the operator and records its gradient; None if no gradient is registered.
        self._recorded: Callable[..., Any] | None = None
        #: Layouts of tensors, and options -> the plan of such a call; None if it cannot be kept.
        self._known: dict[Any, _Prepared | None] = {}
        LIBRARY.define(schema, tags=(torch.Tag.needs_fixed_stride_order, torch.Tag.pt2_compliant_tag))
        LIBRARY.impl(name, self._run, "CPU")
        LIBRARY.impl(name, self._run, "CUDA")
        # On other devices.
        LIBRARY.impl(name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"numbacc::{name}", self._fake, lib=LIBRARY)
        self.op = getattr(torch.ops.numbacc, name).default
        if autocast:
            for key, device in _DEVICES.items():
                LIBRARY.impl(name, self._cast(device), f"Autocast{key}")

    def __call__(self, *arguments: Any) -> Any:
        if _is_compiling():
            return self.op(*arguments)
        # The fast path, where a microsecond matters.
        device, tracks = None, False
        tensors: list[torch.Tensor] = []
        parts: list[Any] = [arguments[self._count :]]
        for each in arguments[: self._count]:
            kind = type(each)
            if kind is _Tensor or kind is _Parameter:
                own = each.device
                if device is None:
                    device = own
                elif own != device:
                    return self.op(*arguments)
                if each.requires_grad:
                    tracks = True
                tensors.append(each)
                parts += (each.shape, each.stride(), each.dtype, each.is_neg())
            elif each is None:
                parts.append(None)
            else:
                return self.op(*arguments)
        if device is None or _modes() or _transforms() or forward_ad._current_level >= 0 or _tracing() is not None:
            return self.op(*arguments)
        if self._autocast and _any_autocast() and device.type in _SUPPORTED and torch.is_autocast_enabled(device.type):
            lower = _dtype_under_autocast(device.type, self._autocast)
            cast = tuple(_cast(each, lower, device.type) for each in arguments)
            if any(one is not other for one, other in zip(cast, arguments, strict=True)):
                with torch.autocast(device.type, enabled=False):
                    return self(*cast)
        parts.append(device)
        key = tuple(parts)
        prepared = self._known.get(key) if observing._observers is None else None
        if tracks and self._recorded is not None and _is_grad_enabled():
            return self._recorded(*arguments[: self._count], (prepared, tensors, device, arguments, key))
        if prepared is not None:
            made = prepared.run(tensors, device)
            return made[0] if self._is_one else self._returned(made)
        return self._compute(arguments, key)

    def _returned(self, made: tuple[torch.Tensor, ...]) -> Any:
        return made[0] if self._is_one else list(made) if self._is_list else made

    def _fake(self, *arguments: Any) -> Any:
        return self._returned(self._results(*arguments))

    def _run(self, *arguments: Any) -> Any:
        """Compute, given arguments that torch's dispatcher has passed on, as in compiled models."""
        options = tuple([tuple(each) if isinstance(each, list) else each for each in arguments[self._count :]])
        tensors: list[torch.Tensor] = []
        parts: list[Any] = [options]
        for each in arguments[: self._count]:
            if isinstance(each, _Tensor):
                tensors.append(each)
                parts += (each.shape, each.stride(), each.dtype, each.is_neg())
            elif each is None:
                parts.append(None)
            else:
                return self._compute(arguments, None)
        device = self._device(tensors)
        parts.append(device)
        key = tuple(parts)
        prepared = self._known.get(key)
        if prepared is not None and observing._observers is None:
            return self._returned(prepared.run(tensors, device))
        return self._compute(arguments, key)

    def _compute(self, arguments: Sequence[Any], key: Any) -> Any:
        """Compute, and keep the plan under a key of the call if that is not None."""
        tensors = [
            one for each in arguments for one in (each if type(each) is list else (each,)) if isinstance(one, _Tensor)
        ]
        device = self._device(tensors)
        stream = 0 if device.type == "cpu" else _stream(device)
        made = self._results(*arguments)
        take = host if device.type == "cpu" else _taker(device, stream)
        taken = {id(each): take(each) for each in (*tensors, *made)}
        given = [
            [taken.get(id(one), one) for one in each] if type(each) is list else taken.get(id(each), each)
            for each in arguments
        ]
        called = self._call(tuple([taken[id(each)] for each in made]), *given)
        if key is None or key in self._known or any(each.is_neg() for each in tensors):
            called.function(*called.arguments, **called.options, stream=stream)
            return self._returned(made)
        arrays = [taken[id(each)] for each in (*tensors, *made)]
        if len(self._known) >= _KEPT:
            self._known.clear()
        found = _prepared(called, arrays, made, tensors[0], stream)
        # Where tensors share memory, it is not known which is which; for others there may be a plan.
        if found is not None or len({_address(each) for each in arrays}) == len(arrays):
            self._known[key] = found
        return self._returned(made)

    def _device(self, tensors: Sequence[torch.Tensor]) -> Any:
        return _device_of(tensors, self._name)

    def _cast(self, device: str) -> Callable[..., Any]:
        """Return what the operator does under `torch.autocast`: it casts floats, then runs without autocast."""
        keys = torch._C.DispatchKeySet(
            torch._C.DispatchKey.AutocastCPU if device == "cpu" else torch._C.DispatchKey.AutocastCUDA
        )

        def cast(*arguments: Any) -> Any:
            lower = _dtype_under_autocast(device, self._autocast)
            with torch._C._ExcludeDispatchKeyGuard(keys):
                return self.op(*(_cast(each, lower, device) for each in arguments))

        return cast

    def differentiable(
        self,
        backward: Callable[..., Any],
        saved: Callable[[Sequence[Any], Any], Sequence[torch.Tensor | None]],
        first: int,
        *,
        needs_first: bool = True,
    ) -> None:
        """Register the gradient.

        Args:
            backward: returns a gradient for each tensor argument: backward(ctx, *gradients of results). It finds the
                saved tensors in `ctx.saved_tensors` and the other arguments in `ctx.options`.
            saved: (arguments, results) -> the tensors that `backward` needs.
            first: the number of tensor arguments; they come first.
            needs_first: whether there is no gradient without that of the first result. If False, gradients of results
                may be None.
        """
        compute, is_one, is_list, name = self._compute, self._is_one, self._is_list, self._name

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*saved(inputs, output))
            ctx.options = tuple(inputs[first:])
            ctx.set_materialize_grads(is_list)

        def keep_passed_on(ctx: Any, inputs: Any, output: Any) -> None:
            # torch's dispatcher makes lists of tuples.
            keep(ctx, [tuple(each) if isinstance(each, list) else each for each in inputs], output)

        def run(ctx: Any, *slopes: Any) -> Any:
            count = len(ctx.options)
            # Some results are only for the gradient itself: without a gradient of the first there is none.
            if needs_first and slopes[0] is None:
                return (None,) * (first + count)
            return (*backward(ctx, *slopes), *([None] * count))

        # torch calls these in eager mode. The last argument of `forward` describes the call.
        def forward(ctx: Any, *given: Any) -> Any:
            prepared, tensors, device, arguments, key = given[-1]
            if prepared is not None:
                made = prepared.run(tensors, device)
                found = made[0] if is_one else made
            else:
                found = compute(arguments, key)
                found = tuple(found) if is_list else found
            ctx.save_for_backward(*saved(arguments, found))
            ctx.options = arguments[first:]
            if not is_one:
                ctx.set_materialize_grads(is_list)
            return found

        def gradient(ctx: Any, *slopes: Any) -> Any:
            if _is_grad_enabled():
                raise UnsupportedError(
                    f"create_graph=True: numbacc.torch.{name} has no second derivatives. Use torch's own function there"
                )
            if needs_first and slopes[0] is None:
                return (None,) * (first + 1)
            return (*(backward(ctx, list(slopes)) if is_list else backward(ctx, *slopes)), None)

        # Its name is that of the results' grad_fn.
        members = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
        title = f"Numbacc{name.title().replace('_', '')}"
        function: Any = new_class(title, (torch.autograd.Function,), {}, lambda space: space.update(members))
        # `Function.apply` itself looks for functorch, which `__call__` has done: that takes a tenth of a recorded call.
        # Where the documentation is built without torch, a stand-in replaces its classes.
        base: Any = torch.autograd.Function
        owner: Any = super(base, function) if isinstance(base, type) else function
        self._recorded = getattr(owner, "apply", None)
        torch.library.register_autograd(self.op.name(), run, setup_context=keep_passed_on, lib=LIBRARY)


def _stream(device: Any) -> int:
    """Return the handle of torch's current stream."""
    handle = _raw_stream(device.index)
    # A stream that torch did not make must live as long as numbacc uses it.
    return handle if not handle or handle in foreign else handle_of(torch.cuda.current_stream(device))


def _dtype_under_autocast(device: str, how: str) -> torch.dtype:
    return torch.get_autocast_dtype(device) if how == "lower" else torch.float32


def _cast(value: Any, kind: torch.dtype, device: str) -> Any:
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
