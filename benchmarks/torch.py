"""numbacc.torch: host time of its functions against torch's, and a layer of Llama against torch, also compiled."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from . import peers
from .harness import RESOLUTION, Report, gpu_ms, host_times

#: The target for a call's host time, divided by torch's.
_BOUND = 1.2
#: Sequences and their length, for the layer of Llama 3 8B.
_BATCH, _LENGTH = 2, 2048
_DEVICE = "cuda"
_PAGE = Path(__file__).parents[1] / "docs" / "torch.md"


class Pair(NamedTuple):
    """A function of ours and torch's nearest one.

    Attributes:
        ours, theirs: functions of the same tensors.
        shapes: of the tensors, which all have gradients.
        dtype: of the tensors.
    """

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of torch models."""
    torch = peers.import_torch()
    if torch is None:
        print("no figure of torch: torch is not installed, or does not see the GPU")
        return
    for name, pair in _pairs(torch):
        _host(report, torch, name, pair, quick)
    for label, make in _layers(quick):
        if report.wants(label):
            make(report, torch, label, quick)


# ---------------------------------------------------------------- host time


def _pairs(torch: Any) -> Iterator[tuple[str, Pair]]:
    """Yield functions, of small tensors, so that the GPU is faster than the host."""
    import numbacc.torch as nt

    functional = torch.nn.functional
    matrix, heads = (64, 256), (1, 4, 64, 64)
    target = torch.arange(64, device=_DEVICE)
    angles = torch.rand(64, 32, device=_DEVICE)
    yield "gated", Pair(lambda x: nt.gated(x, "glu"), functional.glu, (matrix,))
    yield "linear", Pair(nt.linear, functional.linear, (matrix, (128, 256), (128,)))
    yield (
        "linear, relu",
        Pair(
            lambda x, w, b: nt.linear(x, w, b, "relu"),
            lambda *t: functional.linear(*t).relu(),
            (matrix, (128, 256), (128,)),
        ),
    )
    yield (
        "attention",
        Pair(
            lambda *t: nt.attention(*t, mask="causal"),
            lambda *t: functional.scaled_dot_product_attention(*t, is_causal=True),
            (heads,) * 3,
            "bfloat16",
        ),
    )
    yield "conv", Pair(lambda *t: nt.conv(*t, padding=1), lambda *t: functional.conv2d(*t, padding=1), (
        (2, 32, 16, 16), (32, 32, 3, 3), (32,),
    ))  # fmt: skip
    yield "layer_norm", Pair(nt.layer_norm, lambda x, w, b: functional.layer_norm(x, (256,), w, b), (
        matrix, (256,), (256,),
    ))  # fmt: skip
    yield "rms_norm", Pair(nt.rms_norm, lambda x, w: functional.rms_norm(x, (256,), w, 1e-6), (matrix, (256,)))
    yield "softmax", Pair(nt.softmax, lambda x: functional.softmax(x, -1), (matrix,))
    yield "log_softmax", Pair(nt.log_softmax, lambda x: functional.log_softmax(x, -1), (matrix,))
    yield (
        "cross_entropy",
        Pair(lambda x: nt.cross_entropy(x, target), lambda x: functional.cross_entropy(x, target), (matrix,)),
    )
    yield "dropout", Pair(nt.dropout, functional.dropout, (matrix,))
    yield "rope", Pair(lambda x: nt.rope(x, angles, angles), partial(_rotated, torch, angles), (heads,))


def _rotated(torch: Any, angles: Any, x: Any) -> Any:
    a, b = x.chunk(2, -1)
    return torch.cat((a * angles - b * angles, a * angles + b * angles), -1)


def _host(report: Report, torch: Any, name: str, pair: Pair, quick: bool) -> None:
    """Report the host time of a call without gradients, of one that records them, and of both directions."""
    plain = [torch.randn(shape, device=_DEVICE, dtype=getattr(torch, pair.dtype)) for shape in pair.shapes]
    tracked = [each.clone().requires_grad_() for each in plain]
    slope = torch.ones_like(pair.theirs(*plain))

    def both(function: Callable[..., Any]) -> Any:
        return torch.autograd.grad(function(*tracked), tracked, slope)

    ways: dict[str, Callable[[Callable[..., Any]], Any]] = {
        "forward": lambda function: function(*plain),
        "forward, recorded": lambda function: function(*tracked),
        "forward and backward": both,
    }
    for way, call in ways.items():
        label = f"host time, {name}, {way}"
        if not report.wants(label):
            continue
        works = {"torch": partial(call, pair.theirs), "ours": partial(call, pair.ours)}
        times = host_times(works, batches=11 if quick else 31, calls=50)
        ratio = times["ours"] / times["torch"]
        report.add(
            name=label, us=times["ours"], ratio=ratio, peers={"torch us": times["torch"]}, bound=_BOUND,
            holds=ratio <= _BOUND,
        )  # fmt: skip


# ---------------------------------------------------------------- a layer of Llama


def _layers(quick: bool) -> Iterator[tuple[str, Callable[[Report, Any, str, bool], None]]]:
    for part in ("norm", "mlp", "attention", "layer"):
        for direction in ("forward", "forward and backward"):
            label = f"llama 8B {part}, {direction}, {_BATCH} x {_LENGTH} bfloat16"
            yield label, partial(_llama, part, direction)


def page_code() -> dict[str, Any]:
    """Return the functions of docs/torch.md that replace parts of Llama."""
    blocks = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    space: dict[str, Any] = {}
    exec(next(each for each in blocks if "def use_numbacc" in each), space)
    return space


def _llama(part: str, direction: str, report: Report, torch: Any, label: str, quick: bool) -> None:
    """Report the GPU time of a part of a layer with numbacc's functions, over the fastest of torch's ways."""
    from . import llama

    replaced = ((llama.LlamaRMSNorm, "forward"), (llama.LlamaMLP, "forward"), (llama, "apply_rotary_pos_emb"))
    kept = {pair: getattr(*pair) for pair in replaced}
    config = llama.Config()
    torch.manual_seed(3)
    exact, call_exact = _part(torch, llama, part, config, torch.float32)
    given = torch.randn(_BATCH, _LENGTH, config.hidden_size, device=_DEVICE)
    slope = torch.randn_like(given).bfloat16()
    layer, call = _part(torch, llama, part, config, torch.bfloat16)
    layer.load_state_dict(exact.state_dict())
    x = given.bfloat16()
    embeddings = llama.position_embeddings(config, _BATCH, _LENGTH, x)

    def step(call: Callable[..., Any], layer: Any, x: Any) -> Any:
        if direction == "forward":
            with torch.no_grad():
                return [call(layer, x, embeddings)]
        x = x.detach().requires_grad_()
        for each in layer.parameters():
            each.grad = None
        y = call(layer, x, embeddings)
        y.backward(slope.to(y.dtype))
        return [y.detach(), x.grad, *(each.grad for each in layer.parameters())]

    wanted = step(call_exact, exact, x.float())
    del exact
    limits = [_error(*pair) for pair in zip(step(call, layer, x), wanted, strict=True)]
    works: dict[str, Callable[[], Any]] = {}
    compiled = None if quick else torch.compile(call)
    works["torch, eager"] = partial(step, call, layer, x)
    times = dict(gpu_ms(works, repeats=5 if quick else 15))
    if compiled is not None:
        step(compiled, layer, x)
        times |= gpu_ms({"torch.compile": partial(step, compiled, layer, x)}, repeats=15)
    try:
        page_code()["use_numbacc"](llama)
        torch.compiler.reset()
        for module in layer.modules():
            if hasattr(module, "config"):
                module.config = config._replace(attn_implementation="numbacc")
        found = step(call, layer, x)
        errors = [_error(*pair) for pair in zip(found, wanted, strict=True)]
        right = all(error <= 2 * limit + 1e-3 for error, limit in zip(errors, limits, strict=True))
        if not right:
            report.add(name=label, right=False, errors=errors, limits=limits)
            return
        del found, wanted
        times |= {"ours": gpu_ms({"ours": partial(step, call, layer, x)}, repeats=5 if quick else 15)["ours"]}
        if not quick:
            ours = torch.compile(lambda *given: call(*given))
            step(ours, layer, x)
            times |= gpu_ms({"ours, torch.compile": partial(step, ours, layer, x)}, repeats=15)
    finally:
        for (owner, name), each in kept.items():
            setattr(owner, name, each)
        torch.compiler.reset()
    ratio = times["ours"] / times["torch, eager"]
    report.add(
        name=label, right=True, ms=times.pop("ours"), ratio=ratio, peers=times, bound=1.0,
        holds=ratio <= 1.0 + RESOLUTION,
    )  # fmt: skip


def _part(torch: Any, llama: Any, part: str, config: Any, dtype: Any) -> tuple[Any, Callable[..., Any]]:
    """Return a module on the GPU, and how it is called: (module, x, embeddings)."""
    makers: dict[str, tuple[Callable[[], Any], bool]] = {
        "norm": (lambda: llama.LlamaRMSNorm(config.hidden_size), False),
        "mlp": (lambda: llama.LlamaMLP(config), False),
        "attention": (lambda: llama.LlamaAttention(config), True),
        "layer": (lambda: llama.LlamaDecoderLayer(config), True),
    }
    make, takes_embeddings = makers[part]
    with torch.device(_DEVICE):
        module = make().to(dtype)
    if takes_embeddings:
        return module, lambda module, x, embeddings: module(x, tuple(each.to(x.dtype) for each in embeddings))
    return module, lambda module, x, embeddings: module(x)


def _error(found: Any, wanted: Any) -> float:
    """Return ‖found - wanted‖ / ‖wanted‖."""
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())
