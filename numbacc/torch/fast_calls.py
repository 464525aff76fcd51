"""Calls of operators that nothing observes: no compiler, mode, functorch or subclass of Tensor.

torch's dispatcher takes 20 µs to call a Python function. These calls do not pass through it: they look up a plan by the
layouts of their tensors, and run it. Python source is generated for each operator, so that a call has no loop over its
arguments.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad

from ..arrays import operands
from ..base import observing
from ..bridges import LightArray, Ran
from ..runtime import workspace
from ..runtime.streams import foreign
from .tensor_memory import as_layout, borrowed, raw_stream, stream_of

__all__ = [
    "NAMES",
    "Kept",
    "Last",
    "Signature",
    "call_source",
    "forward_source",
    "function_source",
    "gradient_source",
    "is_traced",
    "is_watched",
    "made_from",
    "runner",
    "search_source",
    "traced_source",
]

_empty: Any = torch.Tensor.new_empty_strided
#: (shape, strides, dtype) -> a new tensor on the current GPU. It is None if torch does not have the function.
_allocate_here: Any = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
_empty_like: Any = torch.empty_like
#: Compares tensors with those that it was made for. It is None if torch does not have the class.
_Guards: Any = getattr(torch._C._dynamo.guards, "TensorGuards", None)


class Signature(NamedTuple):
    """The arguments and results of an operator.

    Attributes:
        optional: for each tensor argument, whether it may be None. Tensors come first.
        options: the number of the other arguments.
        seeded: whether the first of these is a seed, which plans do not depend on.
        is_one: whether the operator returns one tensor, rather than several.
        first_only: whether calls return only the first of several results. Gradients need the others.
        has_lists: whether an argument is a list of tensors.
    """

    optional: tuple[bool, ...]
    options: int
    seeded: bool
    is_one: bool
    first_only: bool
    has_lists: bool

    @property
    def tensor_names(self) -> list[str]:
        return [f"t{k}" for k in range(len(self.optional))]

    @property
    def option_names(self) -> list[str]:
        return [f"o{k}" for k in range(self.options)]

    @property
    def run_names(self) -> list[str]:
        """The arguments of the functions that run plans: the tensors, and the seed if any."""
        return [*self.tensor_names, *["o0"] * self.seeded]

    @property
    def is_guarded(self) -> bool:
        """Whether `call_source` compares tensors with those of the last call."""
        return _Guards is not None and not self.has_lists and 0 < sum(self.optional) + 1 < 4

    def key(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return what a plan depends on, given the arguments of a call."""
        count = len(self.optional)
        key = [*arguments[count + self.seeded :]]
        for each, may_be_none in zip(arguments, self.optional, strict=False):
            layout = None if each is None else (each.shape, each.stride(), each.dtype, each.device)
            key += [layout] if layout is None or may_be_none else layout
        return tuple(key)


class Kept:
    """A plan that is kept for further calls with the same layouts.

    Attributes:
        run: computes all results, given tensors (and the seed if any) that need no checks.
        plain: computes the results that calls return.
        recorded: computes them and records the gradient; None before the first such call.
        lines, names, value: the lines of `run`, which compute y0, y1, ..., the objects that they name, and the result;
            empty on the CPU.
        entries: (number of an entry of `Last`, whether gradients are recorded) -> the entry; () if there can be none.
    """

    __slots__ = ("entries", "lines", "names", "plain", "recorded", "run", "value")

    def __init__(
        self,
        run: Callable[..., Any],
        plain: Callable[..., Any],
        lines: Sequence[str] = (),
        names: Mapping[str, Any] | None = None,
        value: str = "",
    ):
        self.run, self.plain, self.recorded = run, plain, None
        self.lines, self.names, self.value = lines, names or {}, value
        self.entries: dict[tuple[int, bool], Any] = {}


# ---------------------------------------------------------------- the last call


def _never(*_: Any) -> bool:
    return False


class Last:
    """What the last calls of an operator ran. Most calls have the tensors' layouts and the options of the last one.

    torch's guard compares tensors with those of that call in one step: class, dispatch keys (so also autocast, modes
    and functorch), dtype, device, whether gradients are recorded, shape and strides.

    Attributes:
        entries: for each set of optional tensors that are None, without and with gradient mode: the guard, the options,
            and what runs the plan.
    """

    def __init__(self, signature: Signature):
        self._nothing = (_never, *[None] * (signature.options - signature.seeded), None)
        self.entries: list[Any] = [self._nothing] * 2 ** (1 + sum(signature.optional))
        # Observed calls find no entry, so that each call need not ask whether somebody observes.
        observing.watchers.append(lambda _: self.clear())

    def clear(self) -> None:
        """Forget the last calls."""
        self.entries[:] = [self._nothing] * len(self.entries)

    def keep(self, number: int, kept: Kept, is_recorded: bool, tensors: Sequence[Any], options: Sequence[Any]) -> None:
        """Note a call. `number` is that of the entry, and the tensors are those that are not None."""
        entry = kept.entries.get((number, is_recorded))
        if entry is None or entry is self.entries[number]:
            # In the second case the layouts are the same, but for example other tensors have gradients.
            # Whether torch's comparison expects gradients where none are recorded depends on torch's version. It fails
            # for a tensor that is given twice: then `call_source` finds no entry of this plan.
            for same in (tensors, [_without_gradient(each) for each in tensors]):
                guard = _Guards(*same, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
                is_usable = guard(*tensors)
                if is_usable:
                    break
            entry = (guard, *options, kept.recorded if is_recorded else kept.plain) if is_usable else ()
            kept.entries[number, is_recorded] = entry
        if entry:
            self.entries[number] = entry
            if observing._observers is not None:  # another thread has just begun to observe
                self.clear()


def _without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of the same class and layout that needs no gradient."""
    if not tensor.requires_grad:
        return tensor
    plain = tensor.detach()
    return torch.nn.Parameter(plain, requires_grad=False) if type(tensor) is torch.nn.Parameter else plain


# ---------------------------------------------------------------- source of an operator's functions


@lru_cache(maxsize=1024)
def _code(source: str) -> Any:
    return compile(source, "<numbacc.torch>", "exec")


def made_from(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """Return the function that a source defines, given the objects that it names."""
    kept = ", ".join(names)
    space: dict[str, Any] = {}
    body = source.replace("\n", "\n    ")
    name = source[len("def ") : source.index("(")]
    exec(_code(f"def make({kept}):\n    {body}\n    return {name}\n"), space)
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


#: The names that `call_source` and `search_source` use.
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


def _number_of_entry(signature: Signature, is_recorded: bool) -> str:
    """Return an expression for the number of the entry of `Last` for a call."""
    maybe = [name for name, each in zip(signature.tensor_names, signature.optional, strict=True) if each]
    terms = ["records()"] * is_recorded + [f"{2**k} * ({name} is None)" for k, name in enumerate(maybe, 1)]
    return " + ".join(terms) or "0"


def _guarded(signature: Signature, done: int = 0, given: tuple[str, ...] = ()) -> str:
    """Return an expression that calls the guard with the tensors that are not None."""
    for k in range(done, len(signature.optional)):
        name = f"t{k}"
        if signature.optional[k]:
            without, there = (_guarded(signature, k + 1, each) for each in (given, (*given, name)))
            return f"({without} if {name} is None else {there})"
        given = (*given, name)
    return f"guard({', '.join(given)})"


def call_source(signature: Signature, is_recorded: bool) -> str:
    """Return the source of a function that calls an operator.

    The function uses `NAMES` and two more names: `entries` belong to `Last`, and `search` handles all other calls.

    Args:
        signature: of the operator.
        is_recorded: whether a gradient is registered.
    """
    arguments = ", ".join([*signature.tensor_names, *signature.option_names])
    lines = [f"def call({arguments}):"]
    if signature.is_guarded:
        lines += _from_last(signature, is_recorded, "return")
    return "\n".join([*lines, f"    return search({arguments})"])


def function_source(signature: Signature, is_recorded: bool, function: Callable[..., Any]) -> str:
    """Return `call_source` with the name and the parameters of a function, which has one for each argument."""
    parameters = inspect.signature(function).parameters.values()
    texts = [each.name if each.default is each.empty else f"{each.name}={each.default!r}" for each in parameters]
    positional = sum(each.kind is not each.KEYWORD_ONLY for each in parameters)
    if positional < len(texts):
        texts.insert(positional, "*")
    own = (*signature.tensor_names, *signature.option_names)
    names = dict(zip(own, [each.name for each in parameters], strict=True))
    body = call_source(signature, is_recorded).partition("\n")[2]
    body = re.sub(r"\b[to]\d+\b", lambda found: names[found[0]], body)
    return f"def {function.__name__}({', '.join(texts)}):\n{body}"


def traced_source(signature: Signature) -> str:
    """Return the source of the function that Dynamo traces instead of the one of `call_source`.

    It uses one name: `op` is torch's operator.
    """
    arguments = ", ".join([*signature.tensor_names, *signature.option_names])
    return f"def call({arguments}):\n    return op({arguments}){'[0]' * signature.first_only}"


def _from_last(signature: Signature, is_recorded: bool, then: str, also: str = "") -> list[str]:
    """Return lines that run what the last call ran, if this call has the same layouts and options.

    Args:
        signature: of the operator.
        is_recorded: whether a gradient is registered.
        then: the text before the call of the plan.
        also: a further condition.
    """
    options = signature.option_names[signature.seeded :]
    same = [_guarded(signature), *[f"{each} == {each}_" for each in options]]
    others = "forward_ad._current_level < 0"
    return [
        f"    {', '.join(['guard', *[f'{each}_' for each in options], 'run'])} = "
        f"entries[{_number_of_entry(signature, is_recorded)}]",
        f"    if {also}{' and '.join(same)} and {others}:",
        f"        {then} run({', '.join(signature.run_names)})",
    ]


def search_source(signature: Signature, casts: bool, is_recorded: bool) -> str:
    """Return the source of a function that calls an operator, and finds the plan by the layouts of tensors.

    The function uses `NAMES` and four more names: `general` handles all other calls, `get` finds the `Kept` of a key,
    `recorder` makes the function that records the gradient, and `keep` is that of `Last`.

    Args:
        signature: of the operator.
        casts: whether the operator casts tensors under autocast.
        is_recorded: whether a gradient is registered.
    """
    tensors, options = signature.tensor_names, signature.option_names
    arguments = ", ".join([*tensors, *options])
    if signature.has_lists:
        return f"def search({arguments}):\n    return general({arguments})"
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
    values = "".join(f"{each}, " for each in options)
    lines = [
        f"def search({arguments}):",
        f"    if {' and '.join(is_plain)}:",
        f"        kept = get(({', '.join(key)},))",
        f"        if kept is not None and observing._observers is None and not ({' or '.join(special)}):",
    ]
    if is_recorded:
        lines += [
            f"            if tracks := ({' or '.join(tracks)}) and records():",
            f"                run = kept.recorded or recorder(kept, ({values}))",
            "            else:",
            "                run = kept.plain",
        ]
    else:
        lines.append("            run, tracks = kept.plain, False")
    if signature.is_guarded:
        given = ", ".join(tensors)
        if any(signature.optional):
            given = f"*[each for each in ({given},) if each is not None]"
        own = "".join(f"{each}, " for each in options[signature.seeded :])
        lines.append(f"            keep({_number_of_entry(signature, is_recorded)}, kept, tracks, ({given},), ({own}))")
    lines += [
        f"            return run({', '.join(signature.run_names)})",
        f"    return general({arguments})",
    ]
    return "\n".join(lines)


def forward_source(signature: Signature, saved: Sequence[int | None], kept: Kept | None) -> str:
    """Return the source of the function that computes and saves what a gradient needs.

    It is the `forward` of a `torch.autograd.Function`. It uses `is_list`, `run` and `options`, and the names of `kept`.
    Without `kept`, `run` and `options` are its last arguments.

    Args:
        signature: of the operator.
        saved: the tensors that the gradient needs, as in `Operator.differentiable`.
        kept: the plan that the function runs, so that `options` are known but for a seed; None for any plan.
    """
    names = [*signature.tensor_names, "run", "options"] if kept is None else signature.run_names
    given = ", ".join([*signature.tensor_names, *(["options[0]" if kept is None else "o0"] * signature.seeded)])
    lines = [f"def forward(ctx, {', '.join(names)}):"]
    if kept is not None and kept.lines:
        # The lines save a call of `run`.
        lines += kept.lines
        result = "y{}".format
        value = "y0" if signature.is_one or signature.first_only else kept.value
    else:
        lines.append(f"    found = run({given})")
        result = "found".format if signature.is_one else "found[{}]".format
        value = f"found{'[0]' * signature.first_only}"
    tensors = [None if k is None else f"t{k}" if k >= 0 else result(~k) for k in saved]
    if tensors:
        lines.append(f"    ctx.to_save = ({', '.join(map(str, tensors))},)")
    if kept is None:
        lines.append("    ctx.options = options")
    elif signature.seeded:
        lines.append("    ctx.options = (o0, *options[1:])")
    if not signature.is_one and not signature.first_only:
        lines.append("    ctx.materialize_grads = is_list")
    return "\n".join([*lines, f"    return {value}"])


def gradient_source(signature: Signature, saved: int, needs: Sequence[int], count: int, is_recorded: bool) -> str:
    """Return the source of the function that computes gradients by one operator, for calls of one plan.

    It is the `backward` of a `torch.autograd.Function` with one result. It uses `NAMES` and more names: `entries` and
    `call` belong to the operator, `o0`, `o1`, ... are its options, and `refuse` raises an error.

    Args:
        signature: of the operator that computes gradients.
        saved: the number of saved tensors, which follow the result's gradient.
        needs: the arguments of the forward operator for which the last options say whether they need a gradient.
        count: the number of gradients that the function returns.
        is_recorded: whether the operator has a gradient itself.
    """
    options = signature.option_names
    lines = ["def gradient(ctx, t0):", "    if records(): refuse()", f"    if t0 is None: return {(None,) * count}"]
    if saved:
        lines.append(f"    {''.join(f'{name}, ' for name in signature.tensor_names[1:])}= ctx.saved_tensors")
    if signature.seeded:
        lines.append("    o0 = ctx.options[0]")
    if needs:
        lines.append("    needed = ctx.needs_input_grad")
        lines += [f"    {name} = needed[{k}]" for name, k in zip(options[-len(needs) :], needs, strict=True)]
    called = f"call({', '.join([*signature.tensor_names, *options])})"
    if not signature.is_one:
        called = f"tuple({called})"
    if signature.is_guarded:
        lines += [
            *_from_last(signature, is_recorded, "found =", "not traced() and "),
            "    else:",
            f"        found = {called}",
        ]
    else:
        lines.append(f"    found = {called}")
    if signature.is_one:
        return "\n".join([*lines, f"    return found{', None' * (count - 1)}"])
    nothing = ", ".join(["None"] * (count - 1))
    return "\n".join([*lines, f"    return found if len(found) == {count} else (*found, {nothing})[:{count}]"])


# ---------------------------------------------------------------- plans


def runner(
    found: Ran,
    numbers: Sequence[int],
    lead: int,
    first: torch.Tensor,
    made: Sequence[torch.Tensor],
    signature: Signature,
) -> Kept:
    """Return functions that run a plan, given tensors that need no checks: a call's tensors, and the seed if any.

    They return the result, or a tuple of the results.

    Args:
        found: the plan.
        numbers: the numbers of its inputs, then of its outputs, among the arguments of the function and the results.
        lead, first: the number of the first argument that is not None, and that tensor.
        made: the results.
        signature: of the operator.
    """
    is_one, seeded, plan, scalars = signature.is_one, signature.seeded, found.plan, found.scalars
    new = _allocator(first, made, is_one)
    if plan.device < 0 or found.is_several:
        run_on_arrays = _on_arrays(found)

        def run_slowly(*given: Any) -> Any:
            result = new(given[lead])
            words = (given[-1], *scalars[1:]) if seeded else scalars
            every = (*given, result) if is_one else (*given, *result)
            run_on_arrays([every[k] for k in numbers], words)
            return result

        return Kept(run_slowly, (lambda *given: run_slowly(*given)[0]) if signature.first_only else run_slowly)

    index, count = plan.device, len(plan.inputs)
    # The same scalars as in `Operation.queued`.
    scalars = scalars or plan._scalars

    def run_again(addresses: Sequence[int], stream: int, words: Any) -> None:
        if not plan.queued(addresses, stream, words):
            memory = borrowed(index, stream)
            lights = [LightArray(address, memory) for address in addresses]
            plan.run(lights[:count], lights[count:], True, stream, words)

    names: dict[str, Any] = {
        "new": new, "allocate": _allocate_here, "index": index,
        "raw_stream": raw_stream, "foreign": foreign, "stream_of": stream_of, "chosen": plan.chosen,
        "scalars": scalars, "others": scalars[1:], "run_again": run_again,
        "held": workspace.held, "clear": plan.clear,
    }  # fmt: skip
    for k, each in enumerate(made):
        # torch's compiler allocates by `allocate`, too: it does not pass through the dispatcher.
        names |= {f"shape{k}": tuple(each.shape), f"steps{k}": each.stride(), f"dtype{k}": each.dtype}
    for k, each in enumerate(scalars):
        names[f"s{k}"] = each
    lines = _run_lines(signature, numbers, lead, len(made), len(scalars), plan.chosen)
    head = f"def run({', '.join(signature.run_names)}):"
    value = "y0" if signature.is_one else f"({''.join(f'y{k}, ' for k in range(len(made)))})"
    returned = [value] + ["y0"] * signature.first_only
    run, *only = [made_from("\n".join([head, *lines, f"    return {each}"]), names) for each in returned]
    return Kept(run, only[0] if only else run, lines, names, value)


def _run_lines(
    signature: Signature, numbers: Sequence[int], lead: int, count: int, scalars: int, chosen: Any
) -> list[str]:
    """Return the lines of a function that runs a plan on a GPU and makes the results y0, y1, ...

    `runner` describes the names in these lines.

    Args:
        signature: of the operator.
        numbers, lead: as in `runner`.
        count, scalars: the numbers of results and of scalars.
        chosen: the plan's executables, which tell how it will probably run.
    """
    given = signature.run_names
    results = [f"y{k}" for k in range(count)]
    every = [*given, *results]
    made = ", ".join(results) + "," * (not signature.is_one)
    allocated = ", ".join(f"allocate(shape{k}, steps{k}, dtype{k})" for k in range(count)) + "," * (
        not signature.is_one
    )
    addresses = ", ".join(f"{every[k]}.data_ptr()" for k in numbers)
    words = "(o0, *others)" if signature.seeded else "scalars"
    direct = chosen.direct
    if chosen.launch_words is not None:
        own = "".join(f", {'o0' if signature.seeded and not k else f's{k}'}" for k in range(scalars))
        launched = [
            "    launch = chosen.launch_words",
            f"    if launch is None or launch(stream, 0, {addresses}{own}):",
            f"        run_again([{addresses}], stream, {words})",
        ]
    else:
        # `queued` does the same, but needs a call.
        launched = [
            f"    addresses = [{addresses}]",
            f"    words = {words}",
            "    direct = chosen.direct",
            "    if direct is None or direct.workspace_bytes or direct.launch(stream, 0, addresses, words):",
            "        run_again(addresses, stream, words)",
        ]
        if direct is not None and direct.workspace_bytes > 0:
            launched[3:] = [
                "    # The variable `block` keeps the block alive until the work is queued.",
                "    block = None if direct is None else held(direct.workspace_bytes, index, stream, clear)",
                "    if block is None or direct.launch(stream, block.address, addresses, words):",
                "        run_again(addresses, stream, words)",
            ]
    fresh = [f"    {made} = new(t{lead})"]
    if _allocate_here is not None:
        # It allocates on the current GPU, which may be another one.
        others = ["    if y0.get_device() != index:", f"    {fresh[0]}"] if torch.cuda.device_count() > 1 else []
        fresh = [f"    {made} = {allocated}", *others]
    return [
        *fresh,
        "    stream = raw_stream(index)",
        "    if stream and stream not in foreign:",
        f"        stream_of(t{lead}.device)",
        *launched,
    ]


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
