"""Host time of everyday calls on small device arrays, against the same calls on torch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import numbacc

from . import peers
from .harness import Report, host_times

Work = Callable[[], Any]


class Case(NamedTuple):
    """A call of ours, torch's, what our time is to be at most of torch's, and what is equal where both are right."""

    name: str
    ours: Work
    theirs: Work
    bound: float
    found: Callable[[Any], Any]


#: Microseconds that torch may take to take an array of ours.
EXPORT_US = 8.0


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of arrays; they need torch, whose calls are the measure."""
    torch = peers.import_torch()
    if torch is None:
        report.add(name="host time of everyday calls", skipped="needs torch")
        return
    batches = 21 if quick else 51
    for case in [*_cases(torch), *_functions(torch)]:
        if not report.wants(f"host time, {case.name}"):
            continue
        if case.found(case.ours()) != case.found(case.theirs()):
            report.add(name=f"host time, {case.name}", right=False)
            continue
        times = host_times({"ours": case.ours, "torch": case.theirs}, batches=batches)
        ratio = times["ours"] / times["torch"]
        peer = {"torch": times["torch"]}
        report.add(
            name=f"host time, {case.name}", right=True, us=times["ours"], ratio=ratio, peers=peer, bound=case.bound,
            holds=ratio <= case.bound,
        )  # fmt: skip
    if report.wants(_EXPORT, _IMPORT):
        _exchange(report, torch, batches)


def _cases(torch: Any) -> list[Case]:
    host = np.arange(64, dtype=np.float32).reshape(8, 8)
    x = numbacc.asarray(np.arange(64 * 2048, dtype=np.float32).reshape(64, 2048))
    small = numbacc.asarray(host)
    t, few = torch.from_dlpack(x), torch.from_dlpack(small)

    def memory(array: Any) -> Any:
        """Where a view of x or t lies: shape, strides in bytes, address."""
        if isinstance(array, torch.Tensor):
            return tuple(array.shape), tuple(4 * n for n in array.stride()), array.data_ptr()
        return array.shape, array.strides, array._address

    def shape(array: Any) -> Any:
        return tuple(array.shape), str(array.dtype).removeprefix("torch.")

    def values(array: Any) -> Any:
        return (array.cpu().numpy() if isinstance(array, torch.Tensor) else numbacc.asnumpy(array)).tolist()

    return [
        Case("empty((8, 1024))", lambda: numbacc.empty((8, 1024)), lambda: torch.empty((8, 1024), device="cuda"), 1.2,
             shape),
        Case("x[:, :100]", lambda: x[:, :100], lambda: t[:, :100], 1.5, memory),
        Case("x[3]", lambda: x[3], lambda: t[3], 1.5, memory),
        Case("x.T", lambda: x.T, lambda: t.T, 1.5, memory),
        Case("x.reshape(128, 1024)", lambda: x.reshape(128, 1024), lambda: t.reshape(128, 1024), 1.5, memory),
        Case("asarray, 8 x 8 of NumPy", lambda: numbacc.asarray(host), lambda: torch.from_numpy(host).cuda(), 1.2,
             values),
        Case("copy_to_host, 8 x 8", small.copy_to_host, lambda: few.cpu().numpy(), 1.2, lambda a: a.tolist()),
    ]  # fmt: skip


def _functions(torch: Any) -> list[Case]:
    """Functions that allocate their results, each against the torch function that a torch user would call."""
    F = torch.nn.functional
    rng = np.random.default_rng(0)

    def pair(*shape: int) -> tuple[Any, Any]:
        ours = numbacc.asarray(rng.standard_normal(shape, dtype=np.float32))
        return ours, torch.from_dlpack(ours)

    (x, t), (y, u), (w, v), (a, b), (bias, c) = pair(64, 256), pair(64, 256), pair(256, 128), pair(256), pair(256)
    labels = numbacc.asarray(np.arange(64) % 256)
    targets = torch.from_dlpack(labels)
    aten = torch.ops.aten
    norms = torch.native_layer_norm(t, (256,), b, c, 1e-5)
    ew = numbacc.elementwise

    def sums(array: Any) -> Any:
        """The sum of the result or of its first part, to 4 digits."""
        first = array[0] if isinstance(array, (tuple, list)) else array
        host = first.cpu().numpy() if isinstance(first, torch.Tensor) else numbacc.asnumpy(first)
        return first.shape, float(f"{np.abs(host).sum(dtype=np.float64):.4g}")

    calls: list[tuple[str, Work, Work]] = [
        ("concatenate of two", lambda: ew.concatenate((x, y)), lambda: torch.cat((t, u))),
        ("stack of two", lambda: ew.stack((x, y)), lambda: torch.stack((t, u))),
        ("cross_entropy", lambda: ew.cross_entropy(x, labels), lambda: F.cross_entropy(t, targets)),
        ("zeros", lambda: numbacc.zeros((64, 256)), lambda: torch.zeros((64, 256), device="cuda")),
        ("x.mean()", lambda: x.mean(), lambda: t.mean()),
        ("x.sum(axis=1)", lambda: x.sum(axis=1), lambda: t.sum(1)),
        ("x.argmax(axis=1)", lambda: x.argmax(axis=1), lambda: t.argmax(1)),
        ("gelu_backward", lambda: ew.gelu_backward(y, x), lambda: aten.gelu_backward(u, t)),
        ("softmax", lambda: ew.softmax(x), lambda: torch.softmax(t, -1)),
        ("layer_norm", lambda: ew.layer_norm(x, a, bias), lambda: F.layer_norm(t, (256,), b, c)),
        ("layer_norm_backward", lambda: ew.layer_norm_backward(y, x, a, bias=True),
             lambda: aten.native_layer_norm_backward(u, t, (256,), norms[1], norms[2], b, c, [True] * 3)),
        ("x @ w of 256 x 128", lambda: x @ w, lambda: t @ v),
    ]  # fmt: skip
    return [Case(f"{name}, 64 x 256", ours, theirs, 1.0, sums) for name, ours, theirs in calls]


class _Torchs:
    """An exporter of torch's own capsules: the time of `torch.from_dlpack` that is torch's."""

    def __init__(self, torch: Any, tensor: Any):
        self._capsule = lambda: torch.utils.dlpack.to_dlpack(tensor)
        self._device = tensor.__dlpack_device__()

    def __dlpack_device__(self) -> Any:
        return self._device

    def __dlpack__(self, **options: Any) -> Any:
        return self._capsule()


_EXPORT, _IMPORT = "host time, torch.from_dlpack of ours", "host time, numbacc.from_dlpack of torch's tensors"


def _exchange(report: Report, torch: Any, batches: int) -> None:
    """Arrays on their way to torch and back."""
    x = numbacc.asarray(np.ones((64, 2048), np.float32))
    t = torch.from_dlpack(x)
    theirs = _Torchs(torch, t)
    right = t.data_ptr() == x._address == numbacc.from_dlpack(t)._address and bool((t == 1).all())
    times = host_times(
        {
            "ours": lambda: torch.from_dlpack(x),
            "of torch's own capsules": lambda: torch.from_dlpack(theirs),
            "of torch's tensors": lambda: torch.from_dlpack(t),
            "from torch": lambda: numbacc.from_dlpack(t),
        },
        batches=batches,
    )
    us, back = times.pop("ours"), times.pop("from torch")
    report.add(
        name=_EXPORT, right=right, us=us, peers=times, bound_us=EXPORT_US,
        holds=us <= EXPORT_US,
    )  # fmt: skip
    report.add(name=_IMPORT, right=right, us=back)
