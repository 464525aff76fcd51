"""A check whether cuDNN has a plan for a request, on any GPU, including those that this machine lacks."""

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
    """A request for a computation by cuDNN."""

    @property
    def wants(self) -> Wants:
        """The requirements on a plan."""

    def graphs(self) -> Sequence[CudnnGraph]:
        """Return equivalent graphs, best first.

        Raises:
            UnsupportedError: numbacc does not use cuDNN for it; the message says why.
        """


def devices() -> list[str]:
    """Return the names of GPUs that `supports` knows.

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
    """Return whether the installed cuDNN builds a plan for a request on a GPU, and if not, why.

    It builds the plan, for a GPU that this machine may lack. It does not check that the plan's results are right, or
    how long they take: that needs the GPU. A plan can still fail there, if the GPU's driver is too old for the
    installed cuDNN, or if the workspace exceeds its free memory. For cases where cuDNN is known to be wrong, the answer
    is that there is no plan.

    Separate processes make the plans, one at a time. The process for a compute capability starts at its first question,
    in a second or two. At most four are kept, and they end with this process. A plan takes some milliseconds, or
    seconds if its kernel must be compiled.

    Args:
        request: a request; or equivalent graphs of operations: the first one with a plan counts.
        device: the name of a GPU, one of `devices()`, in upper or lower case; or one of this process: a number, or
            "cuda:0".
        deterministic: True to exclude engines that may give other bits another time.
        workspace_limit: bytes of scratch memory that the plan may use; None for the limit of the request.

    Returns:
        A `Support`. It is true if there is a plan, with its `engine`, `workspace_bytes`, whether it is `deterministic`,
        whether its kernel is `compiled` when it is made, and `then`: the parts of a convolution's factor, bias and
        activation that are left to numbacc's kernel. Otherwise it is false, with the `reason`: first the known needs
        that are not met, then cuDNN's reasons for each engine; or that numbacc computes it without cuDNN.

    Raises:
        OptionError: the name of the GPU is unknown, or deterministic or workspace_limit is invalid.
        DTypeError: request is neither a request nor graphs.
        DeviceError: the number of the GPU is out of range.
        UnsupportedError: this is not Linux, the only system where cuDNN plans without a GPU; or there is neither
            NVIDIA's driver nor a C compiler, which builds a stand-in for it.
        CudnnError: cuDNN is not installed, or older than 9.8, or it crashed on the request.

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
        raise DTypeError(
            f"request is a {type(request).__name__}; it must be a request, a cuDNN graph, or a list of graphs"
        )
    return graphs, wants


def _left(request: Any, graph: CudnnGraph) -> str:
    """Return what a convolution's graph leaves to numbacc's kernel; "" for other requests, and for bare graphs."""
    problem: Any = getattr(request, "problem", None)
    if not hasattr(problem, "left"):
        return ""
    modes = [dict(node.settings)["mode"] for node in graph.nodes[1:]]
    # In a fused graph the first sum adds beta times the old values; a convolution without an epilogue does that itself.
    found: str = problem.left(modes.count("ADD") > bool(problem.call.beta), modes[-1:] not in ([], ["ADD"]))
    return found


def _gpu(device: int | str) -> Gpu:
    if not isinstance(device, int) and not str(device).startswith("cuda"):
        return gpu_named(device)
    if simulated():
        raise UnsupportedError(f"device={device!r} is simulated; pass the name of a GPU to plan for: {', '.join(GPUS)}")
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
    """Add the functions `request` and `supports` to a public function, with the parameters of `request` and its own.

    Args:
        function: the public function.
        request: (direction, options by name, its own parameters) -> a request.
        options: names of options; those that the function has are used.
        without: a parameter of `request` that this function does not have.
        shapes: the shapes of an example, as an argument list.
        example: the text that the example's request prints.
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

    Shapes are in the order of `layout`, and `dtype` is the arrays' dtype. Options and errors are the same as in
    `{name}`.

    Example:
        >>> {name}.request({shapes})
        {example}
    """,
    "supports": """Return whether cuDNN has a plan for `{name}` of contiguous arrays of these shapes on a GPU.

    The result is that of `numbacc.cudnn.supports({name}.request(...), device)`.
    `device` is the name of a GPU, which this machine may lack, or a GPU of this process. Arguments and errors are the
    same as in these two functions.

    Example:
        >>> {name}.supports({shapes}, device="H200")
        <... on NVIDIA H200: ...>
    """,
}
