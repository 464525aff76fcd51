"""Calls of operators that nothing observes: no compiler, mode, functorch or subclass of Tensor.

torch's dispatcher takes 20 µs to call a Python function. These calls do not pass through it: they look up a plan by the
layouts of their tensors, and run it. Python source is generated for each operator, so that a call has no loop over its
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from ..arrays import operands
from ..base import observing
from ..bridges import LightArray, Ran
from ..runtime.streams import foreign
from .tensor_memory import as_layout, borrowed, raw_stream, stream_of

__all__ = ["NAMES", "Signature", "call_source", "forward_source", "is_traced", "is_watched", "made_from", "runner"]

_empty: Any = torch.Tensor.new_empty_strided
#: (shape, strides, dtype) -> a new tensor on the current GPU. It is None if torch does not have the function.
_allocate_here: Any = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
current_device: Any = getattr(torch._C, "_cuda_getDevice", None)
_empty_like: Any = torch.empty_like


class Signature(NamedTuple):
    """The arguments and results of an operator.

    Attributes:
        optional: for each tensor argument, whether it may be None. Tensors come first.
        options: the number of the other arguments.
        seeded: whether the first of these is a seed, which plans do not depend on.
        is_one: whether the operator returns one tensor, rather than several.
        has_lists: whether an argument is a list of tensors.
    """

    optional: tuple[bool, ...]
    options: int
    seeded: bool
    is_one: bool
    has_lists: bool

    @property
    def tensor_names(self) -> list[str]:
        return [f"t{k}" for k in range(len(self.optional))]

    @property
    def option_names(self) -> list[str]:
        return [f"o{k}" for k in range(self.options)]

    def key(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return what a plan depends on, given the arguments of a call."""
        count = len(self.optional)
        key = [*arguments[count + self.seeded :]]
        for each, may_be_none in zip(arguments, self.optional, strict=False):
            layout = None if each is None else (each.shape, each.stride(), each.dtype, each.device)
            key += [layout] if layout is None or may_be_none else layout
        return tuple(key)


# ---------------------------------------------------------------- source of an operator's functions


def made_from(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that a source defines, given the objects that it names."""
    kept = ", ".join(names)
    space: dict[str, Any] = {}
    body = source.replace("\n", "\n    ")
    name = source[len("def ") : source.index("(")]
    exec(f"def make({kept}):\n    {body}\n    return {name}\n", space)
    function: Callable[..., Any] = space["make"](**names)
    return function


#: Whether Dynamo traces this function. Other tracers have modes, or their own tensors.
is_traced = torch.compiler.is_dynamo_compiling


def is_watched() -> bool:
    """Return whether a mode, functorch, a tracer or forward-mode differentiation wants to see operators."""
    return bool(
        NAMES["modes"]()
        or NAMES["transforms"]()
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


#: The names that `call_source` uses.
NAMES: dict[str, Any] = {
    "Tensor": torch.Tensor,
    "Parameter": torch.nn.Parameter,
    "traced": is_traced,
    "modes": torch._C._len_torch_dispatch_stack,
    "transforms": torch._C._are_functorch_transforms_active,
    "any_autocast": torch._C._is_any_autocast_enabled,
    "records": torch.is_grad_enabled,
    "forward_ad": forward_ad,
    "observing": observing,
}


def call_source(signature: Signature, casts: bool, is_recorded: bool) -> str:
    """Return the source of a function that calls an operator.

    The function uses `NAMES` and four more names: `op` is torch's operator, `general` handles all other calls, `get`
    finds the plan of a key, and `recorded` records the gradient.

    Args:
        signature: of the operator.
        casts: whether the operator casts tensors under autocast.
        is_recorded: whether a gradient is registered.
    """
    tensors, options = signature.tensor_names, signature.option_names
    arguments, given = ", ".join([*tensors, *options]), ", ".join(tensors)
    if signature.has_lists:
        return f"def call({arguments}):\n    return general({arguments})"
    is_plain, key, special, tracks = [], [*options[signature.seeded :]], [], []
    for name, may_be_none in zip(tensors, signature.optional, strict=True):
        layout = f"{name}.shape, {name}.stride(), {name}.dtype, {name}.device"
        is_tensor = f"(kind := type({name})) is Tensor or kind is Parameter"
        is_plain.append(f"({name} is None or {is_tensor})" if may_be_none else f"({is_tensor})")
        key.append(f"None if {name} is None else ({layout})" if may_be_none else layout)
        there = f"{name} is not None and " * may_be_none
        special.append(f"{there}{name}.is_neg()")
        tracks.append(f"{there}{name}.requires_grad")
    # `torch.jit.trace` needs no check: it makes lengths tensors, so that no plan is found.
    special += ["modes()", "transforms()", "forward_ad._current_level >= 0"]
    special += ["any_autocast()"] * casts
    lines = [
        f"def call({arguments}):",
        f"    if traced(): return op({arguments})",
        f"    if {' and '.join(is_plain)}:",
        f"        run = get(({', '.join(key)},))",
        f"        if run is not None and observing._observers is None and not ({' or '.join(special)}):",
    ]
    if is_recorded:
        kept = f"({', '.join(options)},)" if options else "()"
        lines += [
            f"            if ({' or '.join(tracks)}) and records():",
            f"                return recorded({given}, run, {kept})",
        ]
    lines += [
        f"            return run({given}{', o0' * signature.seeded})",
        f"    return general({arguments})",
    ]
    return "\n".join(lines)


def forward_source(signature: Signature) -> str:
    """Return the source of the function that computes and saves what a gradient needs.

    It is the `forward` of a `torch.autograd.Function`, whose last arguments are a function that computes, and the
    options. It uses `saved`, as in `Operator.differentiable`, and `is_list`.
    """
    given = ", ".join(signature.tensor_names)
    lines = [
        f"def forward(ctx, {given}, run, options):",
        f"    found = run({given}{', options[0]' * signature.seeded})",
        f"    ctx.to_save = saved(({given}, *options), found)",
        "    ctx.options = options",
    ]
    if not signature.is_one:
        lines.append("    ctx.materialize_grads = is_list")
    return "\n".join([*lines, "    return found"])


# ---------------------------------------------------------------- plans


def runner(
    found: Ran,
    numbers: Sequence[int],
    lead: int,
    first: torch.Tensor,
    made: Sequence[torch.Tensor],
    signature: Signature,
) -> Callable[..., Any]:
    """Return a function that runs a plan, given tensors that need no checks: a call's tensors, and the seed if any.

    It returns the result, or a tuple of the results.

    Args:
        found: the plan.
        numbers: the numbers of its inputs, then of its outputs, among the arguments of the function and the results.
        lead, first: the number of the first argument that is not None, and that tensor.
        made: the results.
        signature: of the operator.
    """
    is_one, seeded, plan, scalars = signature.is_one, signature.seeded, found.plan, found.scalars
    if plan.device < 0 or found.is_several:
        new, run_on_arrays = _allocator(first, made, is_one), _on_arrays(found)

        def run_slowly(*given: Any) -> Any:
            result = new(given[lead])
            words = (given[-1], *scalars[1:]) if seeded else scalars
            every = (*given, result) if is_one else (*given, *result)
            run_on_arrays([every[k] for k in numbers], words)
            return result

        return run_slowly

    index, chosen, count, new = plan.device, plan.chosen, len(plan.inputs), _allocator(first, made, is_one)
    # The same scalars as in `Operation.queued`.
    scalars = scalars or plan._scalars
    others = scalars[1:]
    # torch's compiler allocates by this function, too: it does not pass through the dispatcher.
    allocate, kinds = _allocate_here, [(tuple(each.shape), each.stride(), each.dtype) for each in made]
    shape, steps, dtype = kinds[0]

    def run(*given: Any) -> Any:
        if allocate is None or current_device() != index:
            result = new(given[lead])
        elif is_one:
            result = allocate(shape, steps, dtype)
        else:
            result = tuple([allocate(*each) for each in kinds])
        words = (given[-1], *others) if seeded else scalars
        given += (result,) if is_one else result
        stream = raw_stream(index)
        if stream and stream not in foreign:
            stream_of(given[lead].device)
        addresses = [given[k].data_ptr() for k in numbers]
        direct = chosen.direct
        # `queued` does the same, but needs a call.
        if direct is not None and not direct.workspace_bytes and not direct.launch(stream, 0, addresses, words):
            return result
        if not plan.queued(addresses, stream, words):
            memory = borrowed(index, stream)
            lights = [LightArray(address, memory) for address in addresses]
            plan.run(lights[:count], lights[count:], True, stream, words)
        return result

    return run


def _on_arrays(found: Ran) -> Callable[[Sequence[torch.Tensor], Any], None]:
    """Return a function that runs a plan on NumPy arrays or device arrays in the memory of tensors."""
    # The function keeps no array of the first call alive.
    plan, is_several, is_list = found.plan, found.is_several, found.is_list
    count = len(plan.inputs)
    layouts = [operands.layout_of(each) for each in found.arrays] if found.is_several else (*plan.inputs, *plan.outputs)

    def run(tensors: Sequence[torch.Tensor], scalars: Any) -> None:
        stream, memory = 0, None
        if plan.device >= 0:
            stream = stream_of(tensors[0].device)
            memory = borrowed(plan.device, stream)
        arrays = [as_layout(one, each, memory) for one, each in zip(tensors, layouts, strict=True)]
        if is_several:
            plan.run(arrays[:count], arrays[count:] if is_list else arrays[-1], stream)
        else:
            plan.run(arrays[:count], arrays[count:], True, stream, scalars)

    return run


def _allocator(first: torch.Tensor, made: Sequence[torch.Tensor], is_one: bool) -> Callable[[torch.Tensor], Any]:
    """Return a function that allocates tensors like `made`, given a tensor like `first`.

    The function returns a tensor if `is_one`, else a tuple.
    """
    kinds = [(each.shape, each.stride(), {} if each.dtype is first.dtype else {"dtype": each.dtype}) for each in made]
    if not is_one:
        return lambda like: tuple([_empty(like, shape, steps, **more) for shape, steps, more in kinds])
    ((shape, steps, more),) = kinds
    if first.is_contiguous() and (shape, steps, more) == (first.shape, first.stride(), {}):
        return _empty_like  # type: ignore[no-any-return]
    return (lambda like: _empty(like, shape, steps, **more)) if more else lambda like: _empty(like, shape, steps)
