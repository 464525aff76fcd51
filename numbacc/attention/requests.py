"""Attention without arrays: what `numbacc.cudnn.supports` is asked about, and what `prepare` plans ahead."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ..base.checks import boolean, integer
from ..base.dispatch import graph_library, has_gpu
from ..base.dtypes import dtype as dtype_of
from ..base.layout import Layout, lengths_of
from ..errors import DeviceError, DTypeError, OptionError, UnsupportedError, shown, unknown
from ..libraries.cudnn_graph import CudnnGraph, Wants
from ..runtime.streams import target_of
from .fused_calls import needed
from .fusing import is_worth_trying
from .geometry import check_rank, ordered
from .problem import EXTRAS, OPERANDS, AttentionCall, AttentionOptions, AttentionProblem, plain, resolve
from .staging import dense

#: More sequences, or pages of one, than any memory holds.
_MOST = 2**31 - 1


class Request:
    """Attention, or its gradients, that is asked about.

    Attributes:
        problem: what it is, checked.
        wants: what its plan must keep to.

    Example:
        >>> len(attention.forward.request((1, 8, 512, 64), (1, 8, 512, 64), dtype="float16").graphs())
        1
    """

    def __init__(self, problem: AttentionProblem):
        self.problem = problem
        self.wants = Wants()

    def graphs(self) -> list[CudnnGraph]:
        """cuDNN's graph of it, on arrays that are aligned; of some heads where they are taken in slices.

        Raises:
            UnsupportedError: cuDNN is not asked for it: float32 and float64 run unfused, and gradients that would need
                more than workspace_limit; its version is known to be wrong there; in an empty batch there is nothing
                to do.
        """
        return [self._asked()[0]]

    def _asked(self, device: int | None = None) -> list[CudnnGraph]:
        """The graphs of which a call needs plans, its own first; those of a GPU, where one is named."""
        problem = self.problem
        if not problem.geometry.batch:
            raise UnsupportedError("the batch is empty: cuDNN is not asked")
        if not is_worth_trying(problem):
            raise UnsupportedError(
                f"attention of {problem.dtype} runs unfused; cuDNN is asked for float16, bfloat16 and float8"
            )
        return needed(problem, device)

    def __repr__(self) -> str:
        call, inputs = self.problem.call, self.problem.inputs
        shapes = ", ".join(f"{name} {each.shape}" for name, each in inputs.items())
        return f"<attention.{call.direction} of {self.problem.dtype}, {call.options.layout}: {shapes}>"


def request(
    q_shape: Any,
    k_shape: Any,
    v_shape: Any = None,
    *,
    direction: str = "forward",
    dtype: Any = "bfloat16",
    mask: Any = None,
    bias_shape: Any = None,
    bias_dtype: Any = None,
    alibi: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    lengths: bool = False,
    pages: int = 0,
    layout: str = "BHSD",
    batch: int | None = None,
    max_len_q: int | None = None,
    max_len_kv: int | None = None,
    return_stats: bool = False,
    return_amax: bool = False,
    bias_grad: bool = False,
    deterministic: bool = False,
    workspace_limit: int | None = None,
) -> Request:
    """Attention of contiguous arrays of these shapes, for `numbacc.cudnn.supports` and `prepare`.

    Args:
        q_shape, k_shape, v_shape: in the order of `layout`; v's is k's by default.
        direction: "forward" or "backward".
        dtype: of the arrays.
        bias_shape: None, or the shape of a bias.
        alibi: whether there are slopes.
        lengths: whether sequences may be shorter than they can be (seq_len_q and seq_len_kv).
        pages: of a sequence, where k and v are pages; 0 where they are not.
        batch: with layout "THD", how many sequences there are.
        bias_dtype: of the bias; dtype by default.
        The others: as in `forward` and `backward`. Scales of float8 are always reckoned with.

    Arrays that lie otherwise, such as q, k and v in one, have plans of their own:
    `forward.plan(q, k, v).prepare([q, k, v])`.

    Raises:
        As `forward` and `backward`.
    """
    return Request(
        _problem(
            0, direction, q_shape, k_shape, v_shape, dtype, bias_shape, bias_dtype, boolean(alibi, "alibi"),
            boolean(lengths, "lengths"), integer(pages, "pages", 0, _MOST), batch,
            AttentionOptions(
                mask, scale, dropout, layout, max_len_q, max_len_kv, boolean(return_stats, "return_stats"), bias_grad,
                deterministic, workspace_limit, return_amax,
            ),
        )
    )  # fmt: skip


def _problem(
    device: int, direction: str, q_shape: Any, k_shape: Any, v_shape: Any, dtype: Any, bias_shape: Any,
    bias_dtype: Any, alibi: bool, lengths: bool, pages: int, batch: int | None, options: AttentionOptions,
) -> AttentionProblem:  # fmt: skip
    if not isinstance(direction, str) or direction not in ("forward", "backward"):
        raise unknown("direction", direction, ("forward", "backward"), 'it is "forward" or "backward"')
    options, kind = plain(options), dtype_of(dtype)
    if options.bias_grad and direction == "forward":
        raise OptionError('bias_grad=True is for direction="backward"')
    options = options._replace(return_stats=options.return_stats and direction == "forward")
    given = {"q": q_shape, "k": k_shape, "v": k_shape if v_shape is None else v_shape}
    shapes = {name: lengths_of(shape, kind.itemsize, f"{name}_shape") for name, shape in given.items()}
    for name, shape in shapes.items():
        check_rank(shape, name, options.layout)
    made = {name: dense(shape, kind, device) for name, shape in shapes.items()}
    is_packed = options.layout == "THD"
    if is_packed and batch is None:
        raise OptionError('layout="THD" needs batch: how many sequences there are')
    if batch is not None and not is_packed:
        raise OptionError('batch is for layout="THD"; elsewhere the shapes say it')
    count = integer(batch, "batch", 0, _MOST) if is_packed else shapes["q"][0]
    extras: dict[str, Layout | None] = dict.fromkeys(EXTRAS)
    if bias_shape is not None:
        extras["bias"] = dense(
            lengths_of(bias_shape, name="bias_shape"), kind if bias_dtype is None else dtype_of(bias_dtype), device
        )
    elif bias_dtype is not None:
        raise OptionError("bias_dtype is of a bias, and bias_shape is None")
    if lengths or is_packed or pages:
        for name in ("seq_len_q", "seq_len_kv"):
            extras[name] = dense((count + is_packed,), np.int32, device)
    if pages:
        for name in ("page_table_k", "page_table_v"):
            extras[name] = dense((count, pages), np.int32, device)
    if alibi:
        extras["alibi"] = dense((ordered(made["q"], options.layout).shape[-3],), np.float32, device)

    def call(way: str) -> AttentionProblem:
        arrays = tuple(made[name] for name in OPERANDS[way])
        return resolve(
            AttentionCall(way, arrays, tuple(extras.values()), None, options if way == direction else plain_options)
        )

    plain_options = options._replace(return_stats=True, bias_grad=False)
    if direction == "forward":
        return call("forward")
    found = call("forward").outputs
    made |= {"o": found["out"], "do": found["out"], "stats": found["stats"]}
    return call("backward")


def prepare(requests: Request | Iterable[Request], *, device: int | str | None = None, threads: int = 4) -> None:
    """Make cuDNN's plans of several requests, in threads, and keep them on disk: calls find them there.

    A plan takes cuDNN half a second to two; what is kept is restored in milliseconds, by other processes too.

    Args:
        requests: as `request` makes them; or one of them.
        device: the GPU; the current one if None.
        threads: how many plans are made at once.

    Raises:
        DTypeError: requests are none, or something else is among them. DeviceError: there is no GPU.
        UnsupportedError: cuDNN has no plan for one of them.

    Example:
        >>> attention.prepare([]) is None
        True
    """
    if isinstance(requests, Request):
        requests = (requests,)
    if not isinstance(requests, Iterable):
        raise DTypeError(
            f"requests={shown(requests)} is no request, nor a list of them: attention.forward.request makes them"
        )
    asked = tuple(requests)  # what makes them one by one can be asked but once
    for each in asked:
        if not isinstance(each, Request):
            raise DTypeError(f"requests has a {type(each).__name__}; attention.forward.request makes them")
    count = integer(threads, "threads", 1)
    if not asked:
        return
    if not has_gpu():
        raise DeviceError("prepare makes plans for a GPU, and there is none")
    number, library = target_of(device), graph_library()
    graphs = dict.fromkeys(graph for each in asked for graph in each._asked(number))
    with ThreadPoolExecutor(count) as pool:
        for made in [pool.submit(library.choose, graph, Wants(), number) for graph in graphs]:
            made.result()
