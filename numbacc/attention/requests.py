"""Requests: attention without arrays, for `numbacc.cudnn.supports` to ask about and `prepare` to plan ahead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..base.checks import boolean, integer
from ..base.dispatch import graph_library, has_gpu
from ..base.dtypes import dtype as dtype_of
from ..base.layout import Layout, lengths_of
from ..errors import DeviceError, DTypeError, OptionError, UnsupportedError, shown
from ..libraries.cudnn_graph import CudnnGraph, Wants
from ..libraries.cudnn_support import asked
from ..runtime.streams import target_of
from .attending import backward, forward
from .calling import OPTIONS
from .fused_calls import needed
from .fusing import is_worth_trying
from .geometry import check_rank, ordered
from .problem import EXTRAS, OPERANDS, AttentionCall, AttentionOptions, AttentionProblem, options_of, plain, resolve
from .staging import dense

#: A bound on sequences, or on pages of a sequence: more do not fit into any memory.
_MOST = 2**31 - 1


class Request:
    """A description of attention, or of its gradients, without arrays.

    Attributes:
        problem: the call, checked.
        wants: the requirements on its plan.

    Example:
        >>> len(attention.forward.request((1, 8, 512, 64), (1, 8, 512, 64), dtype="float16").graphs())
        1
    """

    def __init__(self, problem: AttentionProblem):
        self.problem = problem
        self.wants = Wants()

    def graphs(self) -> list[CudnnGraph]:
        """Return cuDNN's graph of the request, for aligned arrays; if it runs in slices, the graph of one slice.

        Raises:
            UnsupportedError: numbacc does not use cuDNN for it: float32 and float64 run unfused, and so do gradients
                that would need more than workspace_limit; the cuDNN version is known to be wrong for it; or the batch
                is empty.
        """
        return [self._asked()[0]]

    def _asked(self, device: int | None = None) -> list[CudnnGraph]:
        """Return the graphs whose plans a call needs, its own first; with a device, those for that GPU."""
        problem = self.problem
        if not problem.geometry.batch:
            raise UnsupportedError("the batch is empty, so cuDNN does not run")
        if not is_worth_trying(problem):
            raise UnsupportedError(
                f"attention of {problem.dtype} runs unfused; cuDNN runs float16, bfloat16 and float8"
            )
        return needed(problem, device)

    def __repr__(self) -> str:
        call, inputs = self.problem.call, self.problem.inputs
        shapes = ", ".join(f"{name} {each.shape}" for name, each in inputs.items())
        return f"<attention.{call.direction} of {self.problem.dtype}, {call.options.layout}: {shapes}>"


def request(
    direction: str,
    options: Mapping[str, Any],
    q_shape: Any,
    k_shape: Any,
    v_shape: Any = None,
    *,
    dtype: Any = "bfloat16",
    bias_shape: Any = None,
    bias_dtype: Any = None,
    alibi: bool = False,
    lengths: bool = False,
    pages: int = 0,
    batch: int | None = None,
) -> Request:
    """Make the request of `forward.request` or `backward.request`.

    Args:
        direction: the function's name.
        options: its options.
        q_shape, k_shape, v_shape: in the order of `layout`; v's is k's by default.
        dtype: dtype of the arrays.
        bias_shape: None, or the shape of a bias.
        bias_dtype: dtype of the bias; by default `dtype`.
        alibi: whether the call has slopes.
        lengths: whether sequences may be shorter than their arrays (seq_len_q and seq_len_kv).
        pages: number of pages of a sequence, if k and v are pages; else 0.
        batch: number of sequences, with layout "THD".

    Requests of float8 always include the scales. Arrays with other strides, such as q, k and v in one array, need
    separate plans: `forward.plan(q, k, v).prepare([q, k, v])`.
    """
    alibi, lengths, pages = boolean(alibi, "alibi"), boolean(lengths, "lengths"), integer(pages, "pages", 0, _MOST)
    own, kind = plain(options_of(options)), dtype_of(dtype)
    given = {"q": q_shape, "k": k_shape, "v": k_shape if v_shape is None else v_shape}
    shapes = {name: lengths_of(shape, kind.itemsize, f"{name}_shape") for name, shape in given.items()}
    for name, shape in shapes.items():
        check_rank(shape, name, own.layout)
    made = {name: dense(shape, kind, 0) for name, shape in shapes.items()}
    is_packed = own.layout == "THD"
    if is_packed and batch is None:
        raise OptionError('layout="THD" needs batch, the number of sequences')
    if batch is not None and not is_packed:
        raise OptionError('batch needs layout="THD"; with other layouts the shapes give the batch size')
    count = integer(batch, "batch", 0, _MOST) if is_packed else shapes["q"][0]
    extras: dict[str, Layout | None] = dict.fromkeys(EXTRAS)
    if bias_shape is not None:
        extras["bias"] = dense(
            lengths_of(bias_shape, name="bias_shape"), kind if bias_dtype is None else dtype_of(bias_dtype), 0
        )
    elif bias_dtype is not None:
        raise OptionError("bias_dtype is given without bias_shape")
    if lengths or is_packed or pages:
        for name in ("seq_len_q", "seq_len_kv"):
            extras[name] = dense((count + is_packed,), np.int32, 0)
    if pages:
        for name in ("page_table_k", "page_table_v"):
            extras[name] = dense((count, pages), np.int32, 0)
    if alibi:
        extras["alibi"] = dense((ordered(made["q"], own.layout).shape[-3],), np.float32, 0)

    def problem(way: str, options: AttentionOptions) -> AttentionProblem:
        arrays = tuple(made[name] for name in OPERANDS[way])
        return resolve(AttentionCall(way, arrays, tuple(extras.values()), None, options))

    if direction != "forward":
        outputs = problem("forward", own._replace(return_stats=True, bias_grad=False)).outputs
        made |= {"o": outputs["out"], "do": outputs["out"], "stats": outputs["stats"]}
    return Request(problem(direction, own))


def prepare(requests: Request | Iterable[Request], *, device: int | str | None = None, threads: int = 4) -> None:
    """Make cuDNN's plans of several requests in threads, and store them on disk, where calls find them.

    cuDNN takes 0.5 to 2 seconds for a plan. Restoring a stored one takes milliseconds, in other processes too.

    Args:
        requests: one or several, as `forward.request` and `backward.request` make them.
        device: the GPU; the current one if None.
        threads: how many plans are made at once.

    Raises:
        DTypeError: an argument or one of its elements is not a request. DeviceError: no GPU was found.
        UnsupportedError: cuDNN does not support one of them.

    Example:
        >>> attention.prepare([]) is None
        True
    """
    if isinstance(requests, Request):
        requests = (requests,)
    if not isinstance(requests, Iterable):
        raise DTypeError(
            f"requests={shown(requests)} is neither a request nor a list of them: make one with "
            "attention.forward.request"
        )
    found = tuple(requests)  # a generator can be iterated only once
    for each in found:
        if not isinstance(each, Request):
            raise DTypeError(f"requests has a {type(each).__name__}; make requests with attention.forward.request")
    count = integer(threads, "threads", 1)
    if not found:
        return
    if not has_gpu():
        raise DeviceError("prepare makes plans for a GPU, but no GPU was found")
    number, library = target_of(device), graph_library()
    graphs = dict.fromkeys(graph for each in found for graph in each._asked(number))
    with ThreadPoolExecutor(count) as pool:
        for made in [pool.submit(library.choose, graph, Wants(), number) for graph in graphs]:
            made.result()


for _each, _first in ((forward, ""), (backward, "do (2, 32, 4096, 128), ")):
    asked(
        _each,
        request,
        OPTIONS[_each.__name__],
        shapes='(2, 32, 4096, 128), (2, 8, 4096, 128), mask="causal"',
        example=f"<attention.{_each.__name__} of bfloat16, BHSD: {_first}q (2, 32, 4096, 128), ...>",
    )
