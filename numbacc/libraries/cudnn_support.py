"""Whether cuDNN has a plan for a request, on any GPU: without that GPU, or without any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..base.checks import boolean, integer
from ..base.dispatch import simulated
from ..base.keywords import Parameters, define, hidden, wrong
from ..errors import DTypeError, UnsupportedError
from ..runtime.streams import target_of
from .cudnn_devices import GPUS, Gpu, gpu_here, gpu_named
from .cudnn_elsewhere import Support, ask
from .cudnn_graph import CudnnGraph, Wants


class GraphRequest(Protocol):
    """What is asked of cuDNN."""

    @property
    def wants(self) -> Wants:
        """What a plan must keep to."""

    def graphs(self) -> Sequence[CudnnGraph]:
        """The ways to compute it, best first.

        Raises:
            UnsupportedError: cuDNN is not asked for it; the message says why.
        """


def devices() -> list[str]:
    """The names of GPUs that `supports` knows.

    Example:
        >>> "H200" in numbacc.cudnn.devices()
        True
    """
    return list(GPUS)


def supports(
    request: GraphRequest | CudnnGraph | Sequence[CudnnGraph],
    device: int | str = "H200",
    *,
    deterministic: bool = False,
    workspace_limit: int | None = None,
) -> Support:
    """Whether the cuDNN that is installed here builds a plan for a request on a GPU, and if not, why not.

    It builds the plan, for a GPU that need not be there. So much is certain; that the plan's results are right, or how
    long they take, is not: that takes the GPU. A plan on a GPU's driver older than the installed cuDNN asks for, and
    one with more workspace than the GPU has memory free, fails there. Of what numbacc knows to be wrong in cuDNN it
    says no plan.

    Processes of their own make the plans, one at a time: that of a compute capability starts at its first question, in
    a second or two, and at most four are kept, which end with this one. A plan takes some milliseconds; where its
    kernel must be compiled, seconds.

    Args:
        request: what is asked of cuDNN; or graphs of operations that compute the same thing, of which the first with a
            plan counts.
        device: the name of a GPU, one of `devices()`, in whatever case; or one of this process: a number, or "cuda:0".
        deterministic: True to take no engine that may give other bits another time.
        workspace_limit: bytes of scratch memory that the plan may use; None for what the request allows.

    Returns:
        A `Support`: true if there is a plan, with its `engine`, `workspace_bytes`, whether it is `deterministic`, and
        whether its kernel is `compiled` when it is made, and `then`, what of a convolution's factor, bias and
        activation it leaves to a kernel of ours; false with the `reason` otherwise: first the needs that are known not
        to be met, then what cuDNN says of its engines; or that numbacc computes it without cuDNN.

    Raises:
        OptionError: no GPU of that name is known; deterministic or workspace_limit.
        DTypeError: request is none.
        DeviceError: there is no GPU of that number.
        UnsupportedError: this is not Linux, the only system on which cuDNN plans without a GPU; or there is neither
            NVIDIA's driver nor a C compiler, which makes a stand-in for it.
        CudnnError: cuDNN is not installed, or older than 9.8, or it crashed over the request.

    Example:
        >>> from numbacc.libraries.cudnn_graph import Drawing
        >>> draw = Drawing("float32")
        >>> _ = draw.matmul(*[draw.tensor("float16", (8, 64, 64)) for _ in ("a", "b", "result")])
        >>> numbacc.cudnn.supports(draw.graph(), "A100")
        <a plan on NVIDIA A100-SXM4-80GB: engine ...>
    """
    gpu, repeats = _gpu(device), boolean(deterministic, "deterministic")
    limit = None if workspace_limit is None else integer(workspace_limit, "workspace_limit", 0)
    try:
        graphs, wants = _asked(request)
    except UnsupportedError as error:
        return Support(gpu.name, reason=str(error))
    given = [each for each in (wants.workspace_limit, limit) if each is not None]
    wants = wants._replace(
        deterministic=repeats or wants.deterministic,
        workspace_limit=min(given) if given else None,
    )
    refused = []
    for graph in graphs:
        found = ask(graph, gpu, wants)
        if found:
            return found._replace(then=_left(request, graph))
        refused.append(found)
    return refused[0]


def _asked(request: Any) -> tuple[Sequence[CudnnGraph], Wants]:
    if isinstance(request, CudnnGraph):
        return (request,), Wants()
    if hasattr(request, "graphs") and hasattr(request, "wants"):
        graphs, wants = request.graphs(), request.wants
    else:
        graphs, wants = request, Wants()
    if not (isinstance(graphs, Sequence) and graphs and all(isinstance(each, CudnnGraph) for each in graphs)):
        raise DTypeError(f"request is a {type(request).__name__}; it must have graphs, or be one, or a list of them")
    return graphs, wants


def _left(request: Any, graph: CudnnGraph) -> str:
    """What a graph of a convolution leaves to our kernel; "" of other requests, and of graphs alone."""
    problem: Any = getattr(request, "problem", None)
    if not hasattr(problem, "left"):
        return ""
    modes = [dict(node.settings)["mode"] for node in graph.nodes[1:]]
    # Of a fused graph the first sum is with what beta is the factor of; a convolution alone does that itself.
    found: str = problem.left(modes.count("ADD") > bool(problem.call.beta), modes[-1:] not in ([], ["ADD"]))
    return found


def _gpu(device: int | str) -> Gpu:
    if not isinstance(device, int) and not str(device).startswith("cuda"):
        return gpu_named(device)
    if simulated():
        raise UnsupportedError(f"device={device!r} is simulated; cuDNN plans for one of {', '.join(GPUS)}")
    return gpu_here(target_of(device))


def asked(
    function: Any,
    request: Callable[..., Any],
    options: Sequence[str],
    *,
    without: str = "",
    shapes: str,
    example: str,
) -> None:
    """Give a public function its `request` and `supports`: of the parameters of `request`, and its own options.

    Args:
        function: the public function.
        request: (direction, options by name, its own parameters) -> a request.
        options: names of options, which count where the function has them.
        without: a parameter of `request` that is not for this function.
        shapes: of an example, as an argument list.
        example: the text that the request of the example prints.
    """
    name, family, asks = function.__name__, function.__module__.split(".")[1], Parameters(request)  # type: ignore[arg-type]
    has = Parameters(function.__wrapped__)
    own = [each for each in asks.names if each not in ("direction", "options", without)]
    chosen = [each for each in has.names if each in options]
    space: dict[str, Any] = {
        "__name__": function.__module__, "make": request, "ask": supports, "wrong": wrong, **has.defaults,
        **asks.defaults,
    }  # fmt: skip
    given = ", ".join(f"{each!r}: {each}" for each in chosen)
    call = f"make({name!r}, {{{given}}}, {asks.passed(own)})"
    takes = ", ".join([asks.taken(own), *(f"{each}=default_{each}" for each in chosen)])
    lines = []
    for part, more, answer in (("request", "", call), ("supports", ", device='H200'", f"ask({call}, device)")):
        lines += [
            f"def {part}({takes}{more}, **others):",
            f"    if others:\n        raise wrong({part}, others, '{name}.{part}')",
            f"    return {answer}",
        ]
    define("\n".join([*lines, ""]), f"<numbacc.{name}.request of {function.__module__}>", space)
    notes = {each: asks.annotations[each] for each in own} | {each: has.annotations[each] for each in chosen}
    for part, also, returned in (("request", {}, "Request"), ("supports", {"device": "int | str"}, "Support")):
        made = space[part]
        made.__qualname__, made.__module__ = f"{name}.{part}", function.__module__
        made.__annotations__ = {**notes, **also, "return": returned}
        made.__doc__ = _ASKING[part].format(name=f"{family}.{name}", family=family, shapes=shapes, example=example)
        hidden(made)
        setattr(function, part, made)


_ASKING = {
    "request": """Return a request: `{name}` of contiguous arrays of these shapes, for `numbacc.cudnn.supports`.

    Shapes are in the order of `layout`, `dtype` is that of the arrays; the options are those of `{name}`.
    Errors are those of `{name}`.

    Example:
        >>> {name}.request({shapes})
        {example}
    """,
    "supports": """Return whether cuDNN has a plan for `{name}` of contiguous arrays of these shapes on a GPU.

    The result is that of `numbacc.cudnn.supports`, of `{name}.request` and device: the name of a GPU that need
    not be there, or one of this process. Arguments and errors are those of the two.

    Example:
        >>> {name}.supports({shapes}, device="H200")
        <... on NVIDIA H200: ...>
    """,
}
