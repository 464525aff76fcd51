"""Register functions of numbacc as torch operators, and run them on tensors.

An operator has a schema, a function that makes its results, and a function that fills them. torch allocates the
results, so that its CUDA graphs and its memory statistics know them. The function that makes the results also serves as
torch's fake rule, which tells a compiler shapes and dtypes without computing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import update_wrapper
from inspect import getattr_static
from types import GetSetDescriptorType, new_class
from typing import Any, TypeVar

import torch

from ..base import observing
from ..bridges import FunctionCall, ran
from ..errors import UnsupportedError
from .fast_calls import (
    NAMES,
    Kept,
    Last,
    Signature,
    call_source,
    forward_source,
    function_source,
    gradient_source,
    is_watched,
    made_from,
    runner,
    search_source,
    traced_source,
)
from .tensor_memory import SUPPORTED, address, device_of, host, stream_of, taker

__all__ = ["LIBRARY", "Operator", "as_stored", "like"]

Function = TypeVar("Function", bound=Callable[..., Any])

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
        first_only: whether calls return only the first of several results, because the others are for the gradient.

    Attributes:
        op: the operator that torch knows.
        call: calls the operator; see `fast_calls`. Dynamo traces its attribute `_torchdynamo_inline` instead.
    """

    def __init__(
        self,
        schema: str,
        results: Callable[..., tuple[torch.Tensor, ...]],
        call: Callable[..., FunctionCall],
        *,
        autocast: str = "",
        seeded: bool = False,
        first_only: bool = False,
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
            first_only,
            "Tensor[]" in tensors,
        )
        #: The number of tensors, which come before the other arguments.
        self._count = len(tensors)
        #: Calls the operator and records its gradient; None if no gradient is registered.
        self._recorded: Callable[..., Any] | None = None
        #: Makes a function that records the gradient of one plan.
        self._recorder: Callable[..., Any] | None = None
        #: Key of a call -> its plan; None if the plan cannot be kept.
        self._known: dict[Any, Kept | None] = {}
        self._last = Last(self._signature)
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

    def clear(self) -> None:
        """Forget all plans."""
        self._known.clear()
        self._last.clear()

    def _made_call(self) -> Callable[..., Any]:
        names: dict[str, Any] = {
            "general": self._general, "get": self._known.get, "recorder": self._recorder, "keep": self._last.keep,
        }  # fmt: skip
        source = search_source(self._signature, bool(self._autocast), self._recorded is not None)
        search = made_from(source, {**NAMES, **names})
        #: The names in the source of `call` and of the functions of `inlined`.
        self._names = {**NAMES, "search": search, "entries": self._last.entries}
        call: Any = made_from(call_source(self._signature, self._recorded is not None), self._names)
        call._torchdynamo_inline = made_from(traced_source(self._signature), {"op": self.op})
        return call  # type: ignore[no-any-return]

    def inlined(self, function: Function) -> Function:
        """Return a function that does what `function` does, with one Python call less.

        `function` must pass its arguments to `call`, in the same order.
        """
        source = function_source(self._signature, self._recorded is not None, function)
        made: Any = update_wrapper(made_from(source, self._names), function)
        made._torchdynamo_inline = function
        return made  # type: ignore[no-any-return]

    def _general(self, *arguments: Any) -> Any:
        """Call the operator for all kinds of arguments, which `call` does not."""
        found, is_first = self._for_all(arguments)
        return found[0] if self._signature.first_only and not is_first else found

    def _for_all(self, arguments: Sequence[Any]) -> tuple[Any, bool]:
        """Return the result of a call, and whether it is already the first of several, as calls return it."""
        device, tracks = None, False
        for each in arguments[: self._count]:
            kind = type(each)
            if kind is _Tensor or kind is _Parameter:
                if device is None:
                    device = each.device
                elif each.device != device:
                    return self.op(*arguments), False
                tracks |= each.requires_grad
            elif each is not None:
                return self.op(*arguments), False
        if device is None or is_watched():
            return self.op(*arguments), False
        kind = device.type
        if self._autocast and kind in SUPPORTED and torch.is_autocast_enabled(kind):
            lower = _dtype_under_autocast(kind, self._autocast)
            cast = tuple(_cast(each, lower, kind) for each in arguments)
            if any(one is not other for one, other in zip(cast, arguments, strict=True)):
                with torch.autocast(kind, enabled=False):
                    return self.call(*cast), True
        if tracks and self._recorded is not None and _is_grad_enabled():
            run = lambda *_: self._found(arguments)  # noqa: E731
            return self._recorded(*arguments[: self._count], run, arguments[self._count :]), True
        return self._found(arguments), False

    def _found(self, arguments: Sequence[Any]) -> Any:
        """Return the result of a call, or a tuple of the results: by a plan that is known, or by a new one."""
        tensors = arguments[: self._count]
        if self._signature.has_lists or any(each is not None and each.is_neg() for each in tensors):
            return self._compute(arguments, None)
        key = self._signature.key(arguments)
        kept = self._known.get(key)
        if kept is None or observing._observers is not None:
            return self._compute(arguments, key)
        return kept.run(*arguments[: self._count + self._signature.seeded])

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
            self.clear()
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

    def differentiable_by(
        self,
        operator: Operator,
        saved: Sequence[int | None],
        first: int,
        *,
        needs: Sequence[int] = (),
    ) -> None:
        """Register the gradient, which one operator computes: operator(dy, *saved tensors, *options, *needs).

        Calls return one result, and dy is its gradient. The results of `operator` are the gradients of the first tensor
        arguments; the others have none.

        Args:
            saved, first: as in `differentiable`.
            needs: the numbers of arguments; for each, the operator gets whether it needs a gradient.
        """

        def backward(ctx: Any, dy: torch.Tensor, *_: Any) -> tuple[Any, ...]:
            needed = [ctx.needs_input_grad[k] for k in needs]
            found = operator.call(dy, *ctx.saved_tensors, *ctx.options, *needed)
            return (*((found,) if operator._signature.is_one else found), *(None,) * first)[:first]

        def made(options: Sequence[Any], refuse: Callable[[], None]) -> Callable[..., Any]:
            own, seeded = operator._signature, self._signature.seeded
            source = gradient_source(own, len(saved), needs, first + seeded, operator._recorded is not None)
            known = dict(zip(own.option_names, options, strict=False))
            names = {"call": operator.call, "entries": operator._last.entries, "refuse": refuse, **known}
            return made_from(source, {**NAMES, **names})

        self.differentiable(backward, saved, first, of_plan=made)

    def differentiable(
        self,
        backward: Callable[..., Any],
        saved: Sequence[int | None] | Callable[[Sequence[Any]], Sequence[int | None]],
        first: int,
        *,
        needs_first: bool = True,
        of_plan: Callable[..., Callable[..., Any]] | None = None,
    ) -> None:
        """Register the gradient.

        Args:
            backward: returns a gradient for each tensor argument: backward(ctx, *gradients of results). It finds the
                saved tensors in `ctx.saved_tensors` and the other arguments in `ctx.options`. If calls return only the
                first result, it may get only that result's gradient.
            saved: the tensors that `backward` needs: the numbers of arguments, ~k for result k, or None; or a function
                that returns them, given the other arguments.
            first: the number of tensor arguments; they come first.
            needs_first: whether there is no gradient without that of the first result. If False, gradients of results
                may be None.
            of_plan: (options, function that raises an error) -> a faster `backward` for calls of one plan.
        """
        is_list, name, signature = self._is_list, self._name, self._signature
        places = saved if callable(saved) else lambda options: saved

        def keep(ctx: Any, inputs: Any, output: Any) -> None:
            # torch's dispatcher makes lists of tuples.
            inputs = [tuple(each) if isinstance(each, list) else each for each in inputs]
            results, ctx.options = (output,) if signature.is_one else output, tuple(inputs[first:])
            numbers = places(ctx.options)
            ctx.save_for_backward(*[None if k is None else inputs[k] if k >= 0 else results[~k] for k in numbers])
            ctx.set_materialize_grads(is_list)

        def run(ctx: Any, *slopes: Any) -> Any:
            count = len(ctx.options)
            # Some results are only for the gradient itself: without a gradient of the first there is none.
            if needs_first and slopes[0] is None:
                return (None,) * (first + count)
            return (*backward(ctx, *slopes), *([None] * count))

        torch.library.register_autograd(self.op.name(), run, setup_context=keep, lib=LIBRARY)

        def refuse() -> None:
            raise UnsupportedError(
                f"create_graph=True: numbacc.torch.{name} has no second derivatives. Use torch's own function there"
            )

        # torch calls these in eager mode.
        def gradient_with(more: int) -> Callable[..., Any]:
            """Return the gradient of a function that has `more` arguments which are not tensors."""
            nothing, behind = (None,) * (first + more), (None,) * more

            def gradient(ctx: Any, *slopes: Any) -> Any:
                if _is_grad_enabled():
                    refuse()
                if needs_first and slopes[0] is None:
                    return nothing
                found = backward(ctx, list(slopes)) if is_list else backward(ctx, *slopes)
                return (*found, *behind) if more else found

            return gradient

        title = f"Numbacc{name.title().replace('_', '')}"

        def recorder(kept: Kept, options: tuple[Any, ...]) -> Any:
            source = forward_source(signature, places(options), kept)
            forward = made_from(source, {"run": kept.run, "options": options, "is_list": is_list, **kept.names})
            gradient = gradient_with(int(signature.seeded)) if of_plan is None else of_plan(options, refuse)
            kept.recorded = _apply(title, forward, gradient, {"options": options})
            return kept.recorded

        def recorded(*arguments: Any) -> Any:
            """Record the gradient of a call whose plan is not known."""
            numbers = tuple(places(arguments[-1]))
            if numbers not in others:
                forward = made_from(forward_source(signature, numbers, None), {"is_list": is_list})
                others[numbers] = _apply(title, forward, gradient_with(2), {})
            return others[numbers](*arguments)

        others: dict[Any, Any] = {}
        self._recorded, self._recorder = recorded, recorder
        self.call = self._made_call()


def _apply(title: str, forward: Callable[..., Any], backward: Callable[..., Any], members: dict[str, Any]) -> Any:
    """Return the `apply` of a new `torch.autograd.Function`.

    Args:
        title: its name, which is that of the results' grad_fn.
        forward, backward: its functions.
        members: attributes of `ctx`.
    """
    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    base: Any = torch.autograd.Function
    function: Any = new_class(title, (base,), {}, lambda space: space.update(functions))
    # Where the documentation is built without torch, a stand-in replaces its classes.
    if not hasattr(function, "_backward_cls"):
        return getattr(function, "apply", None)
    # torch's `apply` of the backward pass looks for another function, too.
    function._backward_cls.apply = backward
    # Each recorded call looks up attributes by new strings, and so empties Python's cache of attributes, also that of
    # `ctx`. Classes whose own dictionaries have the attributes take the least time.
    common = torch._C._FunctionBase
    own = {name: each for name, each in vars(common).items() if isinstance(each, GetSetDescriptorType)}
    for name, each in {**own, **members}.items():
        setattr(function._backward_cls, name, each)
    # This class has `type` as its metaclass. Its `apply` is the one that `Function.apply` calls after it has looked for
    # functorch, which `call` has done.
    found = {each: getattr_static(function, each) for each in dir(function) if not hasattr(common, each)}
    quick: Any = type(title, (common,), {**found, "_backward_cls": function._backward_cls})
    return quick.apply


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
