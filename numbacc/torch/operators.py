"""Register functions of numbacc as torch operators, and run them on tensors.

An operator has a schema, a function that makes its results, and a function that fills them. torch allocates the
results, so that its CUDA graphs and its memory statistics know them. The function that makes the results also serves as
torch's fake rule, which tells a compiler shapes and dtypes without computing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import new_class
from typing import Any

import torch

from ..base import observing
from ..bridges import FunctionCall, ran
from ..errors import UnsupportedError
from .fast_calls import NAMES, Signature, call_source, forward_source, is_watched, made_from, runner
from .tensor_memory import SUPPORTED, address, device_of, host, stream_of, taker

__all__ = ["LIBRARY", "Operator", "as_stored", "like"]

LIBRARY = torch.library.Library("numbacc", "DEF")
#: torch's name for dispatch keys -> devices.
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}
_Tensor, _Parameter = torch.Tensor, torch.nn.Parameter
_is_grad_enabled = torch.is_grad_enabled
#: An operator keeps so many plans.
_KEPT = 1024


class Operator:
    """A torch operator for tensors on CPUs and CUDA GPUs. Call it with the schema's arguments.

    Args:
        schema: the name, the arguments (tensors first) and the results, in the language of torch's operators. Lists of
            numbers are passed as tuples.
        results: returns new tensors for the results, given the arguments. It may be called with fake tensors.
        call: (results, *arguments) -> the call of numbacc's that computes, given NumPy arrays or device arrays.
        autocast: the conversion of floats under `torch.autocast`: "lower" to its dtype, "float32" to float32; "" for
            none.
        seeded: whether the first argument after the tensors is a seed, and `call` passes it as its plan's first scalar.

    Attributes:
        op: the operator that torch knows.
        call: calls the operator; see `fast_calls`.
    """

    def __init__(
        self,
        schema: str,
        results: Callable[..., tuple[torch.Tensor, ...]],
        call: Callable[..., FunctionCall],
        *,
        autocast: str = "",
        seeded: bool = False,
    ):
        name, _, returns = schema.partition("(")[0], *schema.rpartition("->")[1:]
        self._name, self._results, self._call, self._autocast = name, results, call, autocast
        self._is_list = returns.strip() == "Tensor[]"
        kinds = re.findall(r"([\w\[\]?]+) \w+", schema.rpartition("->")[0])
        tensors = [each for each in kinds if each.startswith("Tensor")]
        self._signature = Signature(
            tuple(each.endswith("?") for each in tensors),
            len(kinds) - len(tensors),
            seeded,
            returns.strip() == "Tensor",
            "Tensor[]" in tensors,
        )
        #: The number of tensors, which come before the other arguments.
        self._count = len(tensors)
        #: Calls the operator and records its gradient; None if no gradient is registered.
        self._recorded: Callable[..., Any] | None = None
        #: Key of a call -> a function that runs its plan; None if the plan cannot be kept.
        self._known: dict[Any, Callable[..., Any] | None] = {}
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
        self.call = self._made_call()

    def __call__(self, *arguments: Any) -> Any:
        return self.call(*arguments)

    def _made_call(self) -> Callable[..., Any]:
        names = {"op": self.op, "general": self._general, "get": self._known.get, "recorded": self._recorded}
        source = call_source(self._signature, bool(self._autocast), self._recorded is not None)
        return made_from(source, {**NAMES, **names})

    def _general(self, *arguments: Any) -> Any:
        """Call the operator for all kinds of arguments, which `call` does not."""
        device, tracks = None, False
        for each in arguments[: self._count]:
            kind = type(each)
            if kind is _Tensor or kind is _Parameter:
                if device is None:
                    device = each.device
                elif each.device != device:
                    return self.op(*arguments)
                tracks |= each.requires_grad
            elif each is not None:
                return self.op(*arguments)
        if device is None or is_watched():
            return self.op(*arguments)
        kind = device.type
        if self._autocast and kind in SUPPORTED and torch.is_autocast_enabled(kind):
            lower = _dtype_under_autocast(kind, self._autocast)
            cast = tuple(_cast(each, lower, kind) for each in arguments)
            if any(one is not other for one, other in zip(cast, arguments, strict=True)):
                with torch.autocast(kind, enabled=False):
                    return self.call(*cast)
        if tracks and self._recorded is not None and _is_grad_enabled():
            run = lambda *_: self._found(arguments)  # noqa: E731
            return self._recorded(*arguments[: self._count], run, arguments[self._count :])
        return self._found(arguments)

    def _found(self, arguments: Sequence[Any]) -> Any:
        """Return the result of a call, or a tuple of the results: by a plan that is known, or by a new one."""
        tensors = arguments[: self._count]
        if self._signature.has_lists or any(each is not None and each.is_neg() for each in tensors):
            return self._compute(arguments, None)
        key = self._signature.key(arguments)
        run = self._known.get(key)
        if run is None or observing._observers is not None:
            return self._compute(arguments, key)
        return run(*arguments[: self._count + self._signature.seeded])

    def _fake(self, *arguments: Any) -> Any:
        made = self._results(*arguments)
        return made[0] if self._signature.is_one else list(made) if self._is_list else made

    def _run(self, *arguments: Any) -> Any:
        """Compute, given arguments that torch's dispatcher has passed on, as in compiled models."""
        tensors, options = arguments[: self._count], arguments[self._count :]
        if not self._signature.has_lists:
            device_of([each for each in tensors if each is not None], self._name)
        found = self._found((*tensors, *[tuple(each) if isinstance(each, list) else each for each in options]))
        return list(found) if self._is_list else found

    def _compute(self, arguments: Sequence[Any], key: Any) -> Any:
        """Return a result, or a tuple of results; keep the plan under a key of the call if that is not None."""
        tensors = [
            one for each in arguments for one in (each if type(each) is list else (each,)) if isinstance(one, _Tensor)
        ]
        device = device_of(tensors, self._name)
        stream = 0 if device.type == "cpu" else stream_of(device)
        made = self._results(*arguments)
        take = host if device.type == "cpu" else taker(device, stream)
        result = made[0] if self._signature.is_one else made
        taken = {id(each): take(each) for each in (*tensors, *made)}
        given = [
            [taken.get(id(one), one) for one in each] if type(each) is list else taken.get(id(each), each)
            for each in arguments
        ]
        called = self._call(tuple([taken[id(each)] for each in made]), *given)
        # See `call_source`: without a length, `torch.jit.trace` would find a plan.
        if key is None or key in self._known or not any(each.ndim for each in tensors):
            called.function(*called.arguments, **called.options, stream=stream)
            return result
        if len(self._known) >= _KEPT:
            self._known.clear()
        given_places = [k for k, each in enumerate(arguments[: self._count]) if each is not None]
        behind = self._count + self._signature.seeded
        places = [*given_places, *range(behind, behind + len(made))]
        addresses = [address(taken[id(each)]) for each in (*tensors, *made)]
        found = ran(called, stream)
        numbers = None if found is None else _numbers(found.arrays, addresses)
        if found is not None and numbers is not None:
            order = [places[k] for k in numbers]
            self._known[key] = runner(found, order, places[0], tensors[0], made, self._signature)
        elif len({*addresses}) == len(addresses):
            # Where tensors share memory, it is not known which is which; for others there may be a plan.
            self._known[key] = None
        return result

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
        is_list, name = self._is_list, self._name

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            # torch's dispatcher makes lists of tuples.
            inputs = [tuple(each) if isinstance(each, list) else each for each in inputs]
            ctx.save_for_backward(*saved(inputs, output))
            ctx.options = tuple(inputs[first:])
            ctx.set_materialize_grads(is_list)

        def run(ctx: Any, *slopes: Any) -> Any:
            count = len(ctx.options)
            # Some results are only for the gradient itself: without a gradient of the first there is none.
            if needs_first and slopes[0] is None:
                return (None,) * (first + count)
            return (*backward(ctx, *slopes), *([None] * count))

        # torch calls these in eager mode.
        names = {"saved": saved, "is_list": is_list}
        forward = made_from(forward_source(self._signature), names)

        def gradient(ctx: Any, *slopes: Any) -> Any:
            if _is_grad_enabled():
                raise UnsupportedError(
                    f"create_graph=True: numbacc.torch.{name} has no second derivatives. Use torch's own function there"
                )
            if needs_first and slopes[0] is None:
                return (None,) * (first + 2)
            return (*(backward(ctx, list(slopes)) if is_list else backward(ctx, *slopes)), None, None)

        # Its name is that of the results' grad_fn.
        members = {"forward": staticmethod(forward), "backward": staticmethod(gradient)}
        title = f"Numbacc{name.title().replace('_', '')}"
        function: Any = new_class(title, (torch.autograd.Function,), {}, lambda space: space.update(members))
        # `Function.apply` itself looks for functorch, which `__call__` has done: that takes a tenth of a recorded call.
        # torch's `apply` of the backward pass looks for another function, too.
        # Where the documentation is built without torch, a stand-in replaces its classes.
        if hasattr(function, "_backward_cls"):
            function._backward_cls.apply = gradient
        base: Any = torch.autograd.Function
        owner: Any = super(base, function) if isinstance(base, type) else function
        self._recorded = getattr(owner, "apply", None)
        self.call = self._made_call()
        torch.library.register_autograd(self.op.name(), run, setup_context=keep, lib=LIBRARY)


def _numbers(arrays: Sequence[Any], addresses: Sequence[int]) -> list[int] | None:
    """Return the numbers of a plan's arrays among all addresses; None if they are not certain."""
    numbers = []
    for each in arrays:
        start = 0 if each is None else address(each)
        if not start or addresses.count(start) != 1:
            return None
        numbers.append(addresses.index(start))
    return numbers


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
