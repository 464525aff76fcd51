"""Gradients of softmax, norms, cross entropy and reductions against a copy of the same bytes, and against torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import numbacc
from numbacc import elementwise
from numbacc.random import Generator

from . import peers
from .harness import Report, add_bandwidth, copy_of, wide

_SIZE = 2**27
_COLUMNS = (128, 1024, 4096, 16384, 131072)
#: Of norms of a sum with a residual.
_SUM_COLUMNS = (1024, 4096, 16384)
#: Of cross entropy with its gradient.
_CLASSES = (4096, 50304, 131072)
#: Part of copy bandwidth that is aimed at.
_BOUND = 0.90
#: So many results are looked at.
_FEW = 4


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of gradients of rows."""
    torch = peers.import_torch()
    makers: dict[str, Callable[..., Any]] = {
        "softmax_backward": _softmax,
        "rms_norm_backward": _rms,
        "layer_norm_backward": _layer,
        "cross_entropy_backward": _entropy,
        "mean_backward": partial(_reduction, "mean", 1),
        "std_backward": partial(_reduction, "std", 4),
        "max_backward": partial(_reduction, "max", 4),
    }
    sums = {f"add_{kind}_norm_backward": partial(_sum, f"add_{kind}_norm") for kind in ("rms", "layer")}
    for dtype in ("float32", "bfloat16"):
        names = {f"{name} {dtype}, {_SIZE // n} x {n}": (make, n) for name, make in makers.items() for n in _COLUMNS}
        names |= {f"{name} {dtype}, {_SIZE // n} x {n}": (make, n) for name, make in sums.items() for n in _SUM_COLUMNS}
        names |= {f"cross_entropy_and_gradient {dtype}, {_SIZE // n} x {n}": (_loss_and_slope, n) for n in _CLASSES}
        if not report.wants(*names):
            continue
        whole, other = (Generator("philox", seed=seed).normal(size=_SIZE, dtype=dtype) for seed in (7, 8))
        for label, (make, columns) in names.items():
            if report.wants(label):
                rows = _SIZE // columns
                x, dy = (each[: rows * columns].reshape(rows, columns) for each in (whole, other))
                work, wanted, nbytes, theirs = make(torch, dy, x)
                _figure(report, label, work, wanted, nbytes, theirs, quick)


def _figure(
    report: Report,
    label: str,
    work: Callable[[], Any],
    wanted: Any,
    nbytes: int,
    theirs: Callable[[], Any] | dict[str, Any] | None,
    quick: bool,
) -> None:
    found = work()
    first = found[0] if isinstance(found, tuple) else found
    eps = {2: 2.0**-6, 4: 2.0**-17}[first.dtype.itemsize]
    rows = wide(first[:_FEW])
    if not np.isclose(rows, wanted, rtol=eps, atol=eps * np.abs(wanted).max()).all():
        report.add(name=label, right=False)
        return
    works = {"ours": work, "copy": copy_of(nbytes)}
    missing: dict[str, str] = {}
    if isinstance(theirs, dict):

        def is_right(found: Any) -> bool:
            own = wide(found[0][:_FEW])
            return bool(np.isclose(own, wanted, rtol=4 * eps, atol=4 * eps * np.abs(wanted).max()).all())

        alone = theirs.pop("two calls")
        found, missing = peers.those_that_run(theirs, is_right)
        works |= {"two calls": alone, **found}
    elif theirs is not None:
        works["torch"] = theirs
    add_bandwidth(report, label, works, _BOUND, 7 if quick else 15, right=True, **peers.told(missing))


def _softmax(torch: Any, dy: Any, x: Any) -> Any:
    out = elementwise.softmax_backward(dy, x)
    theirs = None
    if torch is not None:
        ours, own = map(torch.from_dlpack, (dy, x))
        theirs = lambda: torch.ops.aten._softmax_backward_data(ours, own, -1, own.dtype)  # noqa: E731
    wanted = elementwise.softmax_backward(wide(dy[:_FEW]), wide(x[:_FEW]))
    return lambda: elementwise.softmax_backward(dy, x, out=out), wanted, 3 * x.nbytes, theirs


def _rms(torch: Any, dy: Any, x: Any) -> Any:
    weight = _weight(x)
    out = elementwise.rms_norm_backward(dy, x, weight)
    wanted, _ = elementwise.rms_norm_backward(wide(dy[:_FEW]), wide(x[:_FEW]), wide(weight))
    theirs = None
    if torch is not None:
        slope, *inputs = map(torch.from_dlpack, (dy, x, weight))
        inputs = [each.detach().requires_grad_() for each in inputs]
        y = torch.nn.functional.rms_norm(inputs[0], (x.shape[-1],), inputs[1], eps=1e-5)
        theirs = lambda: torch.autograd.grad(y, inputs, slope, retain_graph=True)  # noqa: E731
    return lambda: elementwise.rms_norm_backward(dy, x, weight, out=out), wanted, 3 * x.nbytes, theirs


def _layer(torch: Any, dy: Any, x: Any) -> Any:
    weight = _weight(x)
    out = elementwise.layer_norm_backward(dy, x, weight, bias=True)
    wanted = elementwise.layer_norm_backward(wide(dy[:_FEW]), wide(x[:_FEW]), wide(weight), bias=True)[0]
    theirs = None
    if torch is not None:
        slope, own, w = map(torch.from_dlpack, (dy, x, weight))
        shape = [x.shape[-1]]
        _, mean, factor = torch.ops.aten.native_layer_norm(own, shape, w, w, 1e-5)
        theirs = lambda: torch.ops.aten.native_layer_norm_backward(  # noqa: E731
            slope, own, shape, mean, factor, w, w, [True, True, True]
        )
    return lambda: elementwise.layer_norm_backward(dy, x, weight, bias=True, out=out), wanted, 3 * x.nbytes, theirs


def _sum(name: str, torch: Any, dy: Any, x: Any) -> Any:
    """Of a norm of a sum with a residual, and what comes through the residual. x stands for the sum."""
    weight, more = _weight(x), {"bias": True} if name == "add_layer_norm" else {}
    backward, alone = (getattr(elementwise, f"{each}_backward") for each in (name, name.removeprefix("add_")))
    slope = Generator("philox", seed=9).normal(size=x.shape, dtype=str(x.dtype))
    out = backward(dy, slope, x, weight, **more)
    wanted = backward(*[wide(each[:_FEW]) for each in (dy, slope, x)], wide(weight), **more)[0]

    def apart() -> Any:
        alone(dy, x, weight, out=out, **more)
        return elementwise.add(out[0], slope, out=out[0])

    theirs: dict[str, Any] = {"two calls": apart}
    if torch is not None:
        slopes, own, w = [torch.from_dlpack(each) for each in (dy, slope)], *map(torch.from_dlpack, (x, weight))
        weights = [w, torch.zeros_like(w)] if more else [w]
        theirs |= peers.sum_norms(torch, name, own, torch.zeros_like(own), weights, slopes)
    return lambda: backward(dy, slope, x, weight, out=out, **more), wanted, 4 * x.nbytes, theirs


def _entropy(torch: Any, dy: Any, x: Any) -> Any:
    rows, columns = x.shape
    host = np.random.default_rng(9).integers(0, columns, rows)
    target = numbacc.asarray(host)
    slope = numbacc.full(rows, 1.0, "float32")
    _, stats = elementwise.cross_entropy(x, target, reduction="none", return_stats=True)
    out = numbacc.empty_like(x)
    few = slice(_FEW)
    wanted = elementwise.cross_entropy_backward(np.ones(_FEW), wide(x[few]), host[few], reduction="none")
    theirs = None
    if torch is not None:
        logits, labels = torch.from_dlpack(x).detach().requires_grad_(), torch.from_dlpack(target)
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum")
        theirs = lambda: torch.autograd.grad(loss, logits, retain_graph=True)  # noqa: E731

    def work() -> Any:
        return elementwise.cross_entropy_backward(slope, x, target, reduction="none", stats=stats, out=out)

    return work, wanted, 2 * x.nbytes, theirs


def _loss_and_slope(torch: Any, dy: Any, x: Any) -> Any:
    """The sum of losses, and its gradient. The first result is the gradient."""
    rows, columns = x.shape
    host = np.random.default_rng(9).integers(0, columns, rows)
    target, out, few = numbacc.asarray(host), numbacc.empty_like(x), slice(_FEW)
    wanted = elementwise.cross_entropy_backward(np.ones(_FEW), wide(x[few]), host[few], reduction="none")

    def apart() -> Any:
        loss, saved = elementwise.cross_entropy(x, target, reduction="sum", return_saved=True)
        return elementwise.cross_entropy_backward(1.0, saved, out=out), loss

    theirs: dict[str, Any] = {"two calls": apart}
    if torch is not None:
        theirs |= peers.losses_and_gradients(torch, *map(torch.from_dlpack, (x, target)))
    ours = partial(elementwise.cross_entropy_and_gradient, x, target, reduction="sum", out=(None, out))
    return lambda: ours()[::-1], wanted, 2 * x.nbytes, theirs


def _reduction(name: str, times: int, torch: Any, dy: Any, x: Any) -> Any:
    """Of rows. So many times the bytes of x are read, or written."""
    backward, slope = getattr(elementwise, f"{name}_backward"), elementwise.copy(dy[:, 0])
    out = numbacc.empty_like(x)
    wanted = backward(wide(slope[:_FEW]), wide(x[:_FEW]), axis=1)
    theirs = None
    if torch is not None:
        own, given = torch.from_dlpack(x).detach().requires_grad_(), torch.from_dlpack(slope)
        called = {"mean": torch.mean, "std": partial(torch.std, correction=0), "max": torch.amax}[name]
        y = called(own, -1)
        theirs = lambda: torch.autograd.grad(y, own, given, retain_graph=True)  # noqa: E731
    return lambda: backward(slope, x, axis=1, out=out), wanted, times * x.nbytes, theirs


def _weight(x: Any) -> Any:
    return numbacc.asarray(np.linspace(0.5, 2.0, x.shape[-1]).astype(x.dtype))
