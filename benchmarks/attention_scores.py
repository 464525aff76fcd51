"""Attention with score and mask functions against compiled flex_attention; and, of plain scores, against cuDNN."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import attention

from . import peers
from .harness import RESOLUTION, Report, gpu_ms

#: Batch, heads, length and head dimension of the promised figures.
SHAPE = (4, 32, 4096, 128)
#: Shapes with other head dimensions, without bounds.
OTHER_SHAPES = ((4, 32, 4096, 64), (4, 16, 4096, 256))
#: What ours may take of a peer's time, at most: forward and backward.
_FLEX, _CUDNN = {False: 1 / 1.3, True: 1 / 1.2}, {False: 1 / 0.93, True: 1 / 0.7}
#: What the kernels with mma.sync may take of cuDNN's time, at most. Nothing is promised for gradients.
_WARPS = {False: 1 / 0.5}
_CAP = 20.0


class Scores(NamedTuple):
    """Score and mask functions, for numbacc and for torch.

    Attributes:
        name: for the report.
        options: of `attention.forward`.
        score, mask: torch's functions, or None.
        peer: "flex" or "cuDNN".
        left: the part of all scores that the mask leaves.
        by_warps: whether the kernels with mma.sync compute ours, as on GPUs without wgmma.
        shape: batch, heads, length and elements.
    """

    name: str
    options: dict[str, Any]
    score: Any
    mask: Any
    peer: str
    left: float
    by_warps: bool = False
    shape: tuple[int, int, int, int] = SHAPE


def _all(torch: Any) -> list[Scores]:
    _, heads, length, _ = SHAPE
    slopes = torch.pow(2.0, -torch.arange(1, heads + 1, device="cuda") / 4).float()
    ends = np.sort(np.random.default_rng(0).integers(0, length, 7))
    own = np.searchsorted(ends, np.arange(length), side="right").astype(np.int32)
    documents = torch.from_numpy(own).cuda()
    seen = (own[:, None] == own) & (np.arange(length)[:, None] >= np.arange(length))

    def capped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return _CAP * math.tanh(s / _CAP)

    def alibi(s: Any, b: Any, h: Any, i: Any, j: Any, slope: Any) -> Any:
        return s + slope * (j - i)

    def unchanged(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return s

    def same(b: Any, h: Any, i: Any, j: Any) -> Any:
        return (own[i] == own[j]) & (i >= j)

    def causal(b: Any, h: Any, i: Any, j: Any) -> Any:
        return i >= j

    promised = [
        Scores("causal", {"score": unchanged, "mask": "causal"}, None, causal, "cuDNN", 0.5),
        Scores("full", {"score": unchanged}, None, None, "cuDNN", 1.0),
        Scores("soft-cap, causal", {"score": capped, "mask": "causal"},
               lambda s, b, h, i, j: _CAP * torch.tanh(s / _CAP), causal, "flex", 0.5),
        Scores("ALiBi, causal",
               {"score": alibi, "mask": "causal", "operands": (numbacc.from_dlpack(slopes[:, None, None]),)},
               lambda s, b, h, i, j: s + slopes[h] * (j - i), causal, "flex", 0.5),
        Scores("documents, causal", {"mask": same}, None,
               lambda b, h, i, j: (documents[i] == documents[j]) & (i >= j), "flex", float(seen.mean())),
    ]  # fmt: skip
    others = [each._replace(shape=shape) for shape in OTHER_SHAPES for each in (promised[0], promised[2])]
    return promised + others + [each._replace(name=f"{each.name}, mma.sync", by_warps=True) for each in promised[:2]]


def _name(found: Scores, is_backward: bool, peer: str) -> str:
    direction = "backward" if is_backward else "forward"
    return f"score functions, {direction} {'x'.join(map(str, found.shape))} {found.name}, over {peer}"


def _exact(torch: Any, found: Scores, arrays: list[Any], do: Any) -> list[Any]:
    """Return o, dq, dk and dv of the last head, by torch in float64."""
    b, h, length = arrays[0].shape[0] - 1, arrays[0].shape[1] - 1, arrays[0].shape[2]
    q, k, v = (each[b, h].double().requires_grad_() for each in arrays)
    i, j = torch.arange(length, device="cuda")[:, None], torch.arange(length, device="cuda")[None]
    s = q @ k.T * q.shape[1] ** -0.5
    if found.score is not None:
        s = found.score(s, b, h, i, j)
    if found.mask is not None:
        s = s.masked_fill(~found.mask(b, h, i, j), -math.inf)
    o = s.softmax(-1) @ v
    o.backward(do[b, h].double())
    return [o.detach(), q.grad, k.grad, v.grad]


def run(report: Report, *, quick: bool = False) -> None:
    """All figures."""
    torch = peers.import_torch()
    if torch is None:
        return
    from numbacc.attention import flash

    for found in _all(torch):
        if report.wants(
            *[_name(found, is_backward, peer) for is_backward in (False, True) for peer in ("cuDNN", "flex")]
        ):
            try:
                flash.prefers_wgmma = not found.by_warps
                attention.cache_clear()
                _measure(report, torch, found, 10 if quick else 30, quick or found.by_warps)
            finally:
                flash.prefers_wgmma = True
                attention.cache_clear()


def _measure(report: Report, torch: Any, found: Scores, repeats: int, quick: bool) -> None:
    batch, heads, length, width = found.shape
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(found.shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    arrays = [numbacc.from_dlpack(each) for each in (q, k, v)]
    dy = numbacc.from_dlpack(do)
    forward: Callable[..., Any] = partial(attention.forward, **found.options, return_stats=True)
    o, stats = forward(*arrays)
    gradients: Callable[..., Any] = attention.backward
    backward = partial(gradients, dy, *arrays, o, stats, **found.options)
    grads = backward()
    function: Any = attention.forward
    plan = function.plan(*arrays, **found.options, return_stats=True)
    works: dict[bool, dict[str, Callable[[], Any]]] = {
        False: {"ours": partial(forward, *arrays, out=(o, stats))}, True: {"ours": partial(backward, out=grads)},
    }  # fmt: skip
    if found.peer == "cuDNN":
        more: dict[str, Any] = {"mask": found.options.get("mask"), "return_stats": True}
        theirs, others = attention.forward(*arrays, **more)
        own = gradients(dy, *arrays, theirs, others, mask=more["mask"])
        works[False]["cuDNN"] = partial(attention.forward, *arrays, **more, out=(theirs, others))
        works[True]["cuDNN"] = partial(gradients, dy, *arrays, theirs, others, mask=more["mask"], out=own)
    if not quick and report.wants(_name(found, False, "flex"), _name(found, True, "flex")):
        from torch._functorch import config
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        # A backward pass that is repeated must keep its buffers.
        config.donated_buffer = False
        block_mask = None if found.mask is None else create_block_mask(found.mask, None, None, length, length)
        flex, leaves = (
            torch.compile(flex_attention, dynamic=False),
            [each.clone().requires_grad_() for each in (q, k, v)],
        )
        result = flex(*leaves, score_mod=found.score, block_mask=block_mask)
        works[False]["flex"] = partial(flex, *leaves, score_mod=found.score, block_mask=block_mask)
        works[True]["flex"] = partial(torch.autograd.grad, result, leaves, do, retain_graph=True)
    exact = _exact(torch, found, [q, k, v], do)
    results = [torch.from_dlpack(each)[-1, -1].double() for each in (o, *grads)]
    errors = [float((one - two).norm() / two.norm()) for one, two in zip(results, exact, strict=True)]
    for is_backward, own_works in works.items():
        times = gpu_ms(own_works, repeats=repeats)
        error = max(errors[1:]) if is_backward else errors[0]
        tflops = 4e-9 * batch * heads * length**2 * found.left * width * (2.5 if is_backward else 1) / times["ours"]
        for peer in own_works:
            if peer == "ours":
                continue
            bounds = _FLEX if peer == found.peer == "flex" else None
            if peer == "cuDNN":
                bounds = _WARPS if found.by_warps else _CUDNN
            if found.shape != SHAPE:
                bounds = None
            ratio = times["ours"] / times[peer]
            right = error <= 1e-2
            aim = {} if bounds is None or is_backward not in bounds else {
                "bound": bounds[is_backward], "holds": right and ratio <= bounds[is_backward] + RESOLUTION,
            }  # fmt: skip
            report.add(
                name=_name(found, is_backward, peer),
                ms=times["ours"], tflops=tflops, error=error, right=right, ratio=ratio, peers={peer: times[peer]},
                algorithm=plan.info.algorithm, **aim,
            )  # fmt: skip
