"""A training step of a transformer, and its last layer with the loss alone, in time and memory, against torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numbacc
from numbacc import elementwise, gemm, nn

from . import peers, training
from .harness import RESOLUTION, Report, gpu_ms

#: Rows, width and classes: of GPT-2 with 8 x 1024 tokens, and of Llama 3 8B with 4096.
_SHAPES = ((8192, 768, 50304), (4096, 4096, 128256))
_DEVICE = "cuda"


class Result(NamedTuple):
    """A loss and its gradients, as torch's tensors."""

    loss: Any
    dx: Any
    dw: Any


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of training steps and of parts of them."""
    torch = peers.import_torch()
    if torch is None:
        print("no figure of model: torch is not installed, or does not see the GPU")
        return
    for rows, width, classes in _SHAPES:
        label = f"linear cross entropy, forward and gradients, {rows} x {width} x {classes} bfloat16"
        if report.wants(label):
            _last_layer(report, torch, label, rows, width, classes, quick)
    training.run(report, torch, quick=quick)


def _last_layer(report: Report, torch: Any, label: str, rows: int, width: int, classes: int, quick: bool) -> None:
    """Report time and memory of the loss and both gradients."""
    torch.manual_seed(0)
    x = torch.randn(rows, width, device=_DEVICE).bfloat16()
    weight = (torch.randn(classes, width, device=_DEVICE) * width**-0.5).bfloat16()
    target = torch.randint(0, classes, (rows,), device=_DEVICE)
    exact = _exact(torch, x, weight, target)

    def right(found: Result) -> bool:
        """Return whether loss and gradients are within roundings of bfloat16: torch's loss has that dtype, too."""
        return abs(float(found.loss) - float(exact.loss)) <= 2**-8 * float(exact.loss) and all(
            float((one.float() - other).abs().max()) <= 2**-6 * float(other.abs().max())
            for one, other in ((found.dx, exact.dx), (found.dw, exact.dw))
        )

    ours = {"ours": partial(_fused, torch, x, weight, target), "unfused": partial(_unfused, torch, x, weight, target)}
    makers: dict[str, Callable[[], Callable[[], Result]]] = {name: partial(_same, work) for name, work in ours.items()}
    makers |= _theirs(torch, x, weight, target, compiled=not quick)
    works, missing = peers.those_that_run(makers, right)
    times = gpu_ms(works, repeats=5 if quick else 15)
    memory = {name: _peak(torch, work, ours=name in ours) for name, work in works.items()}
    best = min(times[name] for name in times if name != "ours")
    ratio, share = times["ours"] / times["torch"], memory["ours"] / memory["torch"]
    report.add(
        name=label, right="ours" in works, ms=times["ours"], ratio=ratio, of_best=times["ours"] / best,
        peers={f"{name} ms": ms for name, ms in times.items() if name != "ours"}, bound=1.0,
        holds=ratio <= 1.0 + RESOLUTION, **peers.told(missing),
    )  # fmt: skip
    report.add(
        name=f"{label}, memory", right=True, gib=memory["ours"] / 2**30, ratio=share,
        peers={f"{name} GiB": nbytes / 2**30 for name, nbytes in memory.items() if name != "ours"}, bound=0.25,
        holds=share <= 0.25,
    )  # fmt: skip


def _exact(torch: Any, x: Any, weight: Any, target: Any) -> Result:
    """Return the results in float32, by rows, from float64 sums of each row."""
    loss, dx, dw = 0.0, torch.empty_like(x, dtype=torch.float32), torch.zeros_like(weight, dtype=torch.float32)
    wide, count = weight.float(), len(x)
    for first in range(0, count, 512):
        part = slice(first, first + 512)
        z = x[part].float() @ wide.T
        logs = z.double().log_softmax(-1)
        here = torch.arange(len(z), device=z.device)
        loss -= float(logs[here, target[part]].sum())
        dz = logs.exp_()
        dz[here, target[part]] -= 1
        dz = (dz / count).float()
        dx[part] = dz @ wide
        dw += dz.T @ x[part].float()
    return Result(loss / count, dx, dw)


def _same(work: Callable[[], Result]) -> Callable[[], Result]:
    return work


def _fused(torch: Any, x: Any, weight: Any, target: Any) -> Result:
    inputs = map(numbacc.asarray, (x, weight.T, target))
    loss, (dx, dw, _) = nn.linear_cross_entropy(*inputs)
    return Result(*(torch.from_dlpack(each) for each in (loss, dx, dw.T)))


def _unfused(torch: Any, x: Any, weight: Any, target: Any) -> Result:
    inputs = [numbacc.asarray(each) for each in (x, weight.T)]
    y, saved = gemm.linear(*inputs)
    loss, kept = elementwise.cross_entropy(y, numbacc.asarray(target), return_saved=True)
    dx, dw, _ = gemm.linear_backward(elementwise.cross_entropy_backward(1.0, kept, out=y), saved)
    return Result(*(torch.from_dlpack(each) for each in (loss, dx, dw.T)))


def _theirs(
    torch: Any, x: Any, weight: Any, target: Any, *, compiled: bool
) -> Mapping[str, Callable[[], Callable[[], Result]]]:
    functional = torch.nn.functional

    def plain(x: Any, weight: Any, target: Any) -> Any:
        return functional.cross_entropy(functional.linear(x, weight), target)

    def both(loss_of: Callable[..., Any]) -> Callable[[], Result]:
        def work() -> Result:
            given = [each.detach().requires_grad_() for each in (x, weight)]
            loss = loss_of(*given, target)
            return Result(loss.detach(), *torch.autograd.grad(loss, given))

        return work

    def liger() -> Callable[[], Result]:
        from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

        loss_of = LigerFusedLinearCrossEntropyLoss()
        return both(lambda x, weight, target: loss_of(weight, x, target))

    found = {"torch": lambda: both(plain), "liger": liger}
    return found | ({"torch.compile": lambda: both(torch.compile(plain))} if compiled else {})


def _peak(torch: Any, work: Callable[[], Result], *, ours: bool) -> int:
    """Return the most bytes that a call has at once, without its results: dw is float32 here and bfloat16 in torch."""
    torch.cuda.synchronize()
    if ours:
        numbacc.release_memory()
        numbacc.peak_memory(reset=True)
        before = numbacc.peak_memory()
    else:
        torch.cuda.reset_peak_memory_stats()
        before = int(torch.cuda.memory_allocated())
    found = work()
    torch.cuda.synchronize()
    most = numbacc.peak_memory() if ours else int(torch.cuda.max_memory_allocated())
    return int(most - before - sum(each.nbytes for each in found))
