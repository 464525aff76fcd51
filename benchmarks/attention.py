"""Attention and its gradients against torch's cuDNN and flash backends, decoding, and the time of calls and plans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import attention

from . import attention_scores, peers
from .harness import RESOLUTION, Report, add_bandwidth, add_host_times, copy_of, gpu_ms

#: What ours may take of the time of torch's backends, at most; two medians of one work differ by RESOLUTION.
_BOUNDS = {"torch cuDNN": 1.0, "torch flash": 0.6}
#: Rows of a head that are compared with torch's float64.
ROWS = 64


class Shape(NamedTuple):
    """Attention that is measured, in bfloat16.

    Attributes:
        batch, heads, heads_kv, length, width: lengths.
        causal: whether it is.
        window: of a causal sliding window; 0 for none. Of torch's backends flash has one.
        layout: "BHSD" or "BSHD", of which q, k and v lie packed in one array.
    """

    batch: int
    heads: int
    heads_kv: int
    length: int
    width: int
    causal: bool
    window: int = 0
    layout: str = "BHSD"

    @property
    def name(self) -> str:
        heads = f"{self.heads}({self.heads_kv})" if self.heads != self.heads_kv else f"{self.heads}"
        kind = f"window {self.window}" if self.window else "causal" if self.causal else "full"
        packed = ", packed BSHD" if self.layout == "BSHD" else ""
        return f"{self.batch}x{heads}x{self.length}x{self.width} {kind}{packed}"

    @property
    def mask(self) -> Any:
        if self.window:
            return attention.CausalSlidingWindow(self.window)
        return "causal" if self.causal else None

    def tflops(self, ms: float, backward: bool) -> float:
        """4 B H S² D operations forward, half of them when causal, 2.5 times as many backward; of windows their own."""
        scores = self.length**2 / (2 if self.causal else 1)
        if self.window:
            scores = self.window * (self.length - self.window / 2)
        return 4e-9 * self.batch * self.heads * scores * self.width * (2.5 if backward else 1) / ms


def shapes() -> Iterator[Shape]:
    """All that are measured."""
    yield Shape(4, 32, 32, 4096, 128, True)
    yield Shape(4, 32, 32, 4096, 128, True, layout="BSHD")
    yield Shape(2, 32, 8, 8192, 128, True)
    yield Shape(1, 32, 8, 2048, 128, True)
    yield Shape(16, 16, 16, 1024, 64, False)
    yield Shape(1, 64, 8, 16384, 128, True)
    yield Shape(1, 64, 8, 16384, 128, False)
    yield Shape(1, 64, 8, 16384, 128, True, window=1024)


def narrow_shapes() -> Iterator[Shape]:
    """Those that are measured in float8, too: forward."""
    yield Shape(4, 32, 32, 4096, 128, False)
    yield Shape(4, 32, 32, 4096, 128, True)
    yield Shape(1, 64, 8, 16384, 128, True)


class Few(NamedTuple):
    """Few queries on many keys, in bfloat16 without a mask, which torch's flash kernels split."""

    batch: int
    heads: int
    heads_kv: int
    queries: int
    keys: int
    width: int

    @property
    def name(self) -> str:
        heads = f"{self.heads}({self.heads_kv})" if self.heads != self.heads_kv else f"{self.heads}"
        return f"forward {self.batch}x{heads}, {self.queries} queries on {self.keys} keys, x{self.width}"


def few_queries() -> Iterator[Few]:
    """Those that leave most multiprocessors idle unless keys are split."""
    yield Few(1, 8, 8, 128, 16384, 128)
    yield Few(1, 32, 32, 128, 16384, 128)
    yield Few(1, 32, 8, 128, 16384, 128)
    yield Few(1, 8, 8, 128, 16383, 128)
    yield Few(1, 8, 8, 128, 4096, 128)
    yield Few(1, 32, 8, 128, 4096, 128)
    yield Few(2, 4, 4, 128, 8192, 64)
    yield Few(4, 8, 8, 128, 16384, 128)
    yield Few(1, 8, 8, 2, 16384, 128)
    yield Few(1, 16, 16, 200, 16384, 256)


#: Batch, heads, length and elements of T5's attention, whose bias is the same for all sequences.
_BIASED = ((16, 8, 512, 64), (8, 12, 500, 64))


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of attention."""
    torch = peers.import_torch()
    if torch is None:
        return
    repeats = 10 if quick else 40
    for shape in shapes():
        for backward in (False, True):
            _measure(report, torch, shape, backward, repeats)
    for few in few_queries():
        _few(report, torch, few, repeats)
    for lengths in _BIASED:
        _biased(report, torch, lengths, repeats)
    for shape in narrow_shapes():
        _narrow(report, torch, shape, repeats)
    attention_scores.run(report, quick=quick)
    _decoding(report, torch, repeats)
    _plans(report)
    if report.wants("host time"):
        _host(report, torch)


def drawn(rng: np.random.Generator, lengths: tuple[int, ...]) -> Any:
    """Random numbers in bfloat16. Each array has its own: were keys the queries, each query would see little but its
    own place, and its gradient be a difference that the rounding of o decides.
    """
    block = rng.standard_normal(999_983, np.float32).astype(numbacc.bfloat16)
    return numbacc.asarray(np.resize(block, lengths))


def last_weights(torch: Any, shape: Shape, q: Any, k: Any) -> Any:
    """The softmax of the last rows of one head, by torch in float64.

    Args:
        q, k: (sequence, elements), in float64.
    """
    rows = torch.arange(shape.length - ROWS, shape.length, device=q.device)[:, None]
    columns = torch.arange(shape.length, device=q.device)
    hidden = torch.zeros(ROWS, shape.length, dtype=torch.bool, device=q.device)
    if shape.causal:
        hidden |= columns > rows
    if shape.window:
        hidden |= rows - columns >= shape.window
    return (shape.width**-0.5 * q[-ROWS:] @ k.T).masked_fill(hidden, -torch.inf).softmax(-1)


class Problem:
    """Random arrays of a shape; torch gets the same memory."""

    def __init__(self, torch: Any, shape: Shape):
        self.shape, self.torch = shape, torch
        heads, rng = shape.heads + 2 * shape.heads_kv, np.random.default_rng(7)

        def normal(*lengths: int) -> Any:
            return drawn(rng, lengths)

        if shape.layout == "BSHD":
            together = normal(shape.batch, shape.length, heads, shape.width)
            ends = (0, shape.heads, shape.heads + shape.heads_kv, heads)
            self.q, self.k, self.v = (together[:, :, ends[n] : ends[n + 1]] for n in range(3))
            self.do = normal(shape.batch, shape.length, shape.heads, shape.width)
        else:
            counts = (shape.heads, shape.heads_kv, shape.heads_kv, shape.heads)
            self.q, self.k, self.v, self.do = (normal(shape.batch, n, shape.length, shape.width) for n in counts)
        self.given = {"mask": shape.mask, "layout": shape.layout}
        self.o, self.stats = attention.forward(self.q, self.k, self.v, return_stats=True, **self.given)
        self.grads = attention.backward(self.do, self.q, self.k, self.v, self.o, self.stats, **self.given)
        self.tensors = [self.seen(each) for each in (self.q, self.k, self.v, self.do)]

    def seen(self, array: Any) -> Any:
        """An array as torch's (batch, heads, sequence, elements)."""
        tensor = self.torch.from_dlpack(array)
        return tensor.transpose(1, 2) if self.shape.layout == "BSHD" else tensor

    def ours(self, backward: bool) -> Callable[[], Any]:
        """The call."""
        if backward:
            arrays = (self.do, self.q, self.k, self.v, self.o, self.stats)
            return partial(attention.backward, *arrays, **self.given, out=self.grads)
        out = (self.o, self.stats)
        return partial(attention.forward, self.q, self.k, self.v, **self.given, return_stats=True, out=out)

    def theirs(self, backward: bool, backend: str) -> Callable[[], Any]:
        """torch's call by one backend, what its gradients need kept."""
        aten, (q, k, v, do), shape = self.torch.ops.aten, self.tensors, self.shape
        group = shape.heads // shape.heads_kv
        if shape.window:
            # What is below the function takes (batch, sequence, heads, elements), and windows by what is seen around.
            q, k, v, do = (each.transpose(1, 2) for each in (q, k, v, do))
            seen = {"window_size_left": shape.window - 1, "window_size_right": 0}
            rest = (None, None, shape.length, shape.length, 0.0, False)
            forward = partial(aten._flash_attention_forward, q, k, v, *rest, False, **seen)
            if not backward:
                return forward
            o, logsumexp, state, unused, _ = forward()
            return partial(aten._flash_attention_backward, do, q, k, v, o, logsumexp, *rest, state, unused, **seen)
        if backend == "flash":
            found = aten._scaled_dot_product_flash_attention
            # It knows no heads that are shared.
            k, v = (each.repeat_interleave(group, 1) if group > 1 else each for each in (k, v))
            forward = partial(found, q, k, v, 0.0, shape.causal, False)
            if not backward:
                return forward
            o, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward()
            back = aten._scaled_dot_product_flash_attention_backward
            return partial(back, do, q, k, v, o, logsumexp, cum_q, cum_k, max_q, max_k, 0.0, shape.causal, seed, offset)
        forward = partial(aten._scaled_dot_product_cudnn_attention, q, k, v, None, True, 0.0, shape.causal, False)
        if not backward:
            return forward
        o, logsumexp, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward()
        back = aten._scaled_dot_product_cudnn_attention_backward
        return partial(
            back, do, q, k, v, o, logsumexp, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, shape.causal
        )

    def errors(self) -> dict[str, float]:
        """‖ours - exact‖ / ‖exact‖ of the output's and dq's last rows of one head, exact by torch in float64."""
        torch, shape = self.torch, self.shape
        q, k, v, do = (each[0, 0].double() for each in self.tensors)
        p = last_weights(torch, shape, q, k)
        o = p @ v
        slopes = p * (do[-ROWS:] @ v.T - (do[-ROWS:] * o).sum(-1, keepdim=True))
        exact = {"o": o, "dq": shape.width**-0.5 * slopes @ k}
        found = {"o": self.seen(self.o), "dq": self.seen(self.grads[0])}
        return {
            name: float((found[name][0, 0, -ROWS:].double() - wanted).norm() / wanted.norm())
            for name, wanted in exact.items()
        }


def _measure(report: Report, torch: Any, shape: Shape, backward: bool, repeats: int) -> None:
    """A shape in one direction, over torch's backends."""
    name = f"{'backward' if backward else 'forward'} {shape.name}"
    if not report.wants(name):
        return
    problem = Problem(torch, shape)
    error = problem.errors()["dq" if backward else "o"]
    right = error <= 1e-2
    works = {"ours": problem.ours(backward)}
    if shape.window:
        # The same without its window: the time must fall with what is seen.
        whole = Problem(torch, shape._replace(window=0))
        works |= {"causal": whole.ours(backward), "torch flash": problem.theirs(backward, "flash")}
        bounds = {"causal": 0.25, "torch flash": _BOUNDS["torch flash"]}
    else:
        works |= {"torch cuDNN": problem.theirs(backward, "cudnn"), "torch flash": problem.theirs(backward, "flash")}
        bounds = _BOUNDS
    times = gpu_ms(works, repeats=repeats)
    for peer, bound in bounds.items():
        _add(report, name, shape.tflops(times["ours"], backward), times, peer, bound, error, right)


def _replayed(torch: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call in a CUDA graph: the choice of torch's backend takes the host longer than the GPU works."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.no_grad():
        call()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            call()
    return graph.replay  # type: ignore[no-any-return]


def _by(torch: Any, backend: str, *arrays: Any, **options: Any) -> Callable[[], Any]:
    """torch's attention function with one of its backends."""
    function, choice = torch.nn.functional.scaled_dot_product_attention, getattr(torch.nn.attention.SDPBackend, backend)

    def call() -> Any:
        with torch.nn.attention.sdpa_kernel(choice):
            return function(*arrays, **options)

    return call


def _few(report: Report, torch: Any, few: Few, repeats: int) -> None:
    """Few queries on many keys, over torch's flash and cuDNN backends."""
    if not report.wants(few.name):
        return
    rng, group = np.random.default_rng(7), few.heads // few.heads_kv
    q = drawn(rng, (few.batch, few.heads, few.queries, few.width))
    k, v = (drawn(rng, (few.batch, few.heads_kv, few.keys, few.width)) for _ in range(2))
    out = numbacc.empty(q.shape, q.dtype)
    tensors = [torch.from_dlpack(each) for each in (q, k, v)]
    works: dict[str, Callable[[], Any]] = {"ours": partial(attention.forward, q, k, v, out=out)}
    works["ours"]()
    row, keys, values = tensors[0][-1, -1].double(), *(each[-1, -1].double() for each in tensors[1:])
    exact = (few.width**-0.5 * row @ keys.T).softmax(-1) @ values
    error = float((torch.from_dlpack(out)[-1, -1].double() - exact).norm() / exact.norm())
    for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        works[backend] = _replayed(torch, _by(torch, backend, *tensors, enable_gqa=group > 1))
    times = gpu_ms(works, repeats=repeats)
    tflops = 4e-9 * few.batch * few.heads * few.queries * few.keys * few.width / times["ours"]
    for peer, backend in (("torch flash", "FLASH_ATTENTION"), ("torch cuDNN", "CUDNN_ATTENTION")):
        _add(report, few.name, tflops, {**times, peer: times[backend]}, peer, 1.0, error, error <= 1e-2)


def _biased(report: Report, torch: Any, lengths: tuple[int, int, int, int], repeats: int) -> None:
    """T5's attention in both directions, over torch's cuDNN backend, the fastest that reads a bias."""
    batch, heads, length, width = lengths
    label = f"{batch}x{heads}x{length}x{width} with a bias"
    names = {False: f"forward {label}", True: f"backward {label}"}
    if not report.wants(*names.values()):
        return
    rng = np.random.default_rng(7)
    q, k, v, do = (drawn(rng, lengths) for _ in range(4))
    bias = drawn(rng, (1, heads, length, length))
    # T5 does not scale; random scores then are as large as 40.
    options: dict[str, Any] = {"bias": bias, "scale": width**-0.5}
    forward: Callable[..., Any] = partial(attention.forward, return_stats=True, **options)
    o, stats = forward(q, k, v)
    grads = attention.backward(do, q, k, v, o, stats, **options)
    tensors = [torch.from_dlpack(each) for each in (q, k, v)]
    given = {"attn_mask": torch.from_dlpack(bias), "scale": options["scale"]}
    exact_arrays = [each[:1].double().requires_grad_() for each in tensors]
    exact = ((options["scale"] * exact_arrays[0] @ exact_arrays[1].mT + given["attn_mask"].double()).softmax(-1)) @ (
        exact_arrays[2]
    )
    exact.backward(torch.from_dlpack(do)[:1].double())
    kept = [each.clone().requires_grad_() for each in tensors]
    result, dy = _by(torch, "CUDNN_ATTENTION", *kept, **given)(), torch.from_dlpack(do)
    arrays = (do, q, k, v, o, stats)
    works: dict[bool, dict[str, Callable[[], Any]]] = {
        False: {
            "ours": partial(forward, q, k, v, out=(o, stats)),
            # With gradients recorded, torch keeps statistics, too.
            "torch cuDNN": _by(torch, "CUDNN_ATTENTION", *kept, **given),
        },
        True: {
            "ours": partial(attention.backward, *arrays, out=grads, **options),
            "torch cuDNN": lambda: torch.autograd.grad(result, kept, dy, retain_graph=True),
        },
    }
    found = {False: (o, exact.detach()), True: (grads[0], exact_arrays[0].grad)}
    for backward, own in works.items():
        got, wanted = found[backward]
        error = float((torch.from_dlpack(got)[:1].double() - wanted).norm() / wanted.norm())
        times = gpu_ms(own, repeats=repeats)
        tflops = 4e-9 * batch * heads * length**2 * width * (2.5 if backward else 1) / times["ours"]
        _add(report, names[backward], tflops, times, "torch cuDNN", 1.05, error, error <= 1e-2)


def _add(
    report: Report, name: str, tflops: float, times: Mapping[str, float], peer: str, bound: float, error: float,
    right: bool,
) -> None:  # fmt: skip
    """Report a time over a peer's."""
    ratio = times["ours"] / times[peer]
    report.add(
        name=f"{name}, over {peer}",
        ms=times["ours"],
        tflops=tflops,
        error=error,
        right=right,
        ratio=ratio,
        bound=bound,
        peers={peer: times[peer]},
        holds=right and ratio <= bound + RESOLUTION,
    )


def _narrow(report: Report, torch: Any, shape: Shape, repeats: int) -> None:
    """float8 forward, with scales, over bfloat16 of the same numbers."""
    name = f"forward {shape.name}, float8_e4m3fn"
    if not report.wants(name):
        return
    rng, counts = np.random.default_rng(7), (shape.heads, shape.heads_kv, shape.heads_kv)
    narrow = [drawn(rng, (shape.batch, n, shape.length, shape.width)).astype("float8_e4m3fn") for n in counts]
    wide = [each.astype(numbacc.bfloat16) for each in narrow]
    # Weights are about one over the keys, and results the root of it: both are far from the least number then.
    numbers = {"scale_s": 256.0, "descale_s": 1 / 256, "scale_o": 256.0}
    numbers |= dict.fromkeys(("descale_q", "descale_k", "descale_v"), 1.0)
    scales = {each: numbacc.full((1,), number, dtype="float32") for each, number in numbers.items()}
    o, o_wide = (numbacc.empty(arrays[0].shape, arrays[0].dtype) for arrays in (narrow, wide))
    works: dict[str, Callable[[], Any]] = {
        "ours": partial(attention.forward, *narrow, mask=shape.mask, **scales, out=o),
        "our bfloat16": partial(attention.forward, *wide, mask=shape.mask, out=o_wide),
    }
    works["ours"]()
    q, k, v = (torch.from_dlpack(each)[0, 0].double() for each in wide)
    exact = last_weights(torch, shape, q, k) @ v
    found = torch.from_dlpack(o.astype(numbacc.bfloat16))[0, 0, -ROWS:].double() / numbers["scale_o"]
    error = float((found - exact).norm() / exact.norm())
    times = gpu_ms(works, repeats=repeats)
    # Roundings of the weights and of o to three bits make 0.04 of it.
    _add(report, name, shape.tflops(times["ours"], False), times, "our bfloat16", 1.0, error, error <= 6e-2)


def _decoding(report: Report, torch: Any, repeats: int) -> None:
    """One query over many cached keys in pages, over a copy of the bytes of keys and values."""
    batch, heads, heads_kv, keys, width, page = 32, 32, 8, 32768, 128, 64
    name = f"decoding, {batch}x{heads}({heads_kv})x1 of {keys}x{width}, pages of {page}"
    if not report.wants(name):
        return
    count = batch * keys // page
    order = np.random.default_rng(3).permutation(count).astype(np.int32).reshape(batch, -1)
    table, lengths = numbacc.asarray(order), numbacc.asarray(np.full(batch, keys, np.int32))
    q = numbacc.asarray(np.random.default_rng(4).standard_normal((batch, heads, 1, width)).astype(numbacc.bfloat16))
    tensors = [torch.randn(count, heads_kv, page, width, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    k, v = (numbacc.from_dlpack(each) for each in tensors)
    out = numbacc.empty(q.shape, q.dtype)
    given = {"page_table_k": table, "page_table_v": table, "seq_len_kv": lengths, "out": out}
    attention.forward(q, k, v, **given)
    sheets = torch.from_dlpack(table)[0].long()
    # The first sequence, with its pages in order.
    whole = [each[sheets].transpose(0, 1).reshape(heads_kv, keys, width).double() for each in tensors]
    row = torch.from_dlpack(q)[0].double().reshape(heads_kv, heads // heads_kv, width)
    wanted = ((width**-0.5 * row @ whole[0].mT).softmax(-1) @ whole[1]).reshape(heads, 1, width)
    found = torch.from_dlpack(out)[0].double()
    right = bool((found - wanted).norm() <= 1e-2 * wanted.norm())
    # A copy reads and writes: half of the bytes each.
    works: dict[str, Callable[[], Any]] = {"ours": partial(attention.forward, q, k, v, **given)}
    works |= {"copy": copy_of(2 * k._numbacc_layout.nbytes)}
    add_bandwidth(report, name, works, 0.8, repeats, right=right)


def _plans(report: Report) -> None:
    """The time of the first plan of a shape that is on no disk, and of one that is; `startup` has a new process's."""
    name = "first plan of a shape, forward, bfloat16"
    if not report.wants(name):
        return

    def plans() -> list[float]:
        """Milliseconds for each of several shapes."""
        spans = []
        for length in range(520, 600, 16):
            q = numbacc.empty((1, 4, length, 64), "bfloat16")
            start = time.perf_counter()
            attention.forward.plan(q, q, q, mask="causal")
            spans.append(1e3 * (time.perf_counter() - start))
            attention.cache_clear()
        return spans

    spans, again = plans(), plans()
    report.add(name=name, host_ms=float(np.median(spans)), first_of_all_ms=spans[0])
    kept = float(np.median(again))
    report.add(name=f"{name}, kept on disk", host_ms=kept, bound=20.0, holds=kept <= 20.0)


def _host(report: Report, torch: Any) -> None:
    """Host time of small attention: in turn with torch's, and against 20 µs."""
    problem = Problem(torch, Shape(1, 8, 8, 128, 64, True))
    ours = {
        f"attention.{'backward' if backward else 'forward'} with out": (0.7, problem.ours(backward))
        for backward in (False, True)
    }
    for (name, call), backward in zip(ours.items(), (False, True), strict=True):
        theirs = {"torch cuDNN": problem.theirs(backward, "cudnn")}
        add_host_times(report, {name: call}, theirs, problem.shape.name)
        figure = report.figures[-1]
        micros = figure["us"]
        report.add(name=f"{figure['name']}, at most 20", us=micros, bound=20.0, holds=micros <= 20.0)
