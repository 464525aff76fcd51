"""Matrix products against torch's and nvmath's, fused against unfused, and the host time of one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.base.layout import Layout
from numbacc.gemm.epilogue_plans import map_plan

from . import gemm_grid, peers
from .gemm_grid import STORED
from .harness import RESOLUTION, Report, add_host_times, gpu_ms, host_times

#: m, n, k
SQUARE = (8192, 8192, 8192)
LAYER = (4096, 11008, 4096)
SLIM = (8192, 8192, 1024)
HOST = (16, 1024, 1024)
#: Names of figures.
_FUSION = "gelu_aux_bias 8192x8192x1024, fused over unfused"
_MLP = "mlp and mlp_backward bfloat16, 8192 rows, 4096 -> 11008 -> 4096"


def run(report: Report, *, quick: bool = False) -> None:
    """All figures of the matrix products."""
    torch = peers.import_torch()
    repeats = 10 if quick else 40
    for dtype in ("bfloat16", "float16"):
        for shape in (SQUARE, LAYER):
            for kind in ("bias", "gelu_bias", "gelu_aux_bias", "dgelu_bgrad"):
                for stored in STORED:
                    _epilogue(report, torch, dtype, shape, kind, stored, repeats)
    if report.wants("float8_e4m3fn 8192^3, ours, speed over bfloat16"):
        _float8(report, repeats)
    for dtype, compute, bound in (("float32", None, 1.0), ("float32", "tf32", 1.0), ("float64", None, 1.02)):
        for stored in STORED:
            _plain(report, torch, dtype, compute, stored, bound, repeats // 2)
    for name, measure in ((_FUSION, _fusion), (_MLP, partial(_mlp, torch=torch))):
        if report.wants(name):
            measure(report, repeats=repeats)
    if report.wants("host time"):
        _host(report, torch)
    gemm_grid.run(report, quick=quick)


class Problem:
    """Random operands of a product, a result to write to, and a check of a part of it in float64."""

    def __init__(self, shape: tuple[int, int, int], dtype: str, kind: str = "none", stored: str = STORED[0]):
        m, n, k = shape
        rng = np.random.default_rng(3)
        self.shape, self.dtype, self.kind = shape, dtypes.dtype(dtype), kind

        def normal(*lengths: int) -> Any:
            # One random block, repeated at a distance that is not a divisor: filling gigabytes takes longest.
            block = rng.standard_normal(999_983, np.float32).astype(self.dtype)
            return numbacc.asarray(np.resize(block, lengths))

        self.a = normal(m, k)
        self.b = normal(k, n) if stored == STORED[0] else normal(n, k).T
        self.options: dict[str, Any] = {"epilogue": kind}
        if kind.endswith("bias"):
            self.options["bias"] = normal(n)
        if kind.startswith("d"):
            self.options["aux"] = normal(m, n)
        if "_aux" in kind:
            self.options["aux"] = numbacc.empty((m, n), dtype)
        self.out = numbacc.empty((m, n), dtype)

    def work(self, **more: Any) -> Callable[[], Any]:
        """The product, ready to be run."""
        return partial(gemm.matmul, self.a, self.b, out=self.out, **self.options, **more)

    def error(self, result: Any) -> float:
        """‖ours - exact‖ / ‖exact‖ over a block of rows and columns at the beginning and the end."""
        worst = 0.0
        for part in (slice(0, 16), slice(-16, None)):
            exact = self._exact(part)
            ours = [numbacc.asnumpy(self.out[part, part])]
            if "_aux" in self.kind:
                ours.append(numbacc.asnumpy(self.options["aux"][part, part]))
            for one, other in zip(ours, exact, strict=True):
                difference = np.linalg.norm(one.astype(np.float64) - other)
                worst = max(worst, float(difference / np.linalg.norm(other)))
        if "bgrad" in self.kind:
            total = numbacc.asnumpy(self.out).astype(np.float64)[:, :16].sum(axis=0)
            got = numbacc.asnumpy(result.bias_grad).astype(np.float64)[:16]
            worst = max(worst, float(np.linalg.norm(got - total) / np.linalg.norm(total)) / 4)
        return worst

    def _exact(self, part: slice) -> list[Any]:
        def values(array: Any) -> Any:
            return numbacc.asnumpy(array).astype(np.float64)

        z = values(self.a[part]) @ values(self.b[:, part])
        if "bias" in self.options:
            z = z + values(self.options["bias"][part])
        root = np.sqrt(2 / np.pi)
        if self.kind.startswith("gelu"):
            gelu = z * 0.5 * (1 + np.tanh(root * (z + 0.044715 * z**3)))
            return [gelu, z] if "_aux" in self.kind else [gelu]
        if self.kind.startswith("dgelu"):
            x = values(self.options["aux"][part, part])
            t = np.tanh(root * (x + 0.044715 * x**3))
            slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x)
            return [z * slope]
        return [z]


def _allowed(dtype: Any) -> float:
    """The allowed error of a rounded result, in the norm."""
    return 4 * float(ml_dtypes.finfo(dtype).eps) if dtype.itemsize < 4 else 64 * float(ml_dtypes.finfo(dtype).eps)


def _report(
    report: Report,
    name: str,
    problem: Problem,
    works: dict[str, Callable[[], Any]],
    bounds: dict[str, float],
    repeats: int,
    allowed: float,
) -> dict[str, float]:
    """Check ours, time all, and add a figure for each of ours: its time over the best of the others'."""
    ours = [key for key in works if key.startswith("ours")]
    errors = {}
    for key in ours:
        problem.out._fill(float("nan"), 0)
        errors[key] = problem.error(works[key]())
    times = gpu_ms(works, repeats=repeats)
    # Peers that compute less are shown, but nothing was promised against them.
    others = {key: time for key, time in times.items() if key not in ours and "no aux" not in key}
    less = {key: time for key, time in times.items() if "no aux" in key}
    m, n, k = problem.shape
    for key in ours:
        figure: dict[str, Any] = {
            "name": f"{name}, {key}",
            "ms": times[key],
            "TFLOP_per_s": 2 * m * n * k / times[key] / 1e9,
            "error": errors[key],
            "right": errors[key] <= allowed,
        }
        if others and key in bounds:
            ratio = times[key] / min(others.values())
            holds = figure["right"] and ratio <= bounds[key] + RESOLUTION
            figure |= {"ratio": ratio, "bound": bounds[key], "peers": others | less, "holds": holds}
        report.add(**figure)
    return times


def _epilogue(
    report: Report, torch: Any, dtype: str, shape: tuple[int, int, int], kind: str, stored: str, repeats: int
) -> None:
    """A product with its epilogue, as the heuristics choose it and tuned, against torch's best for the same results."""
    name = f"{kind} {dtype} {'x'.join(map(str, shape))}, b {stored}"
    if not report.wants(f"{name}, ours tuned"):
        return
    problem = Problem(shape, dtype, kind, stored)
    works = {"ours": problem.work(), "ours tuned": problem.work(tune=True)} | _torch_works(torch, problem)
    _report(report, name, problem, works, {"ours": 1.02, "ours tuned": 1.0}, repeats, _allowed(problem.dtype))


def _torch_works(torch: Any, problem: Problem) -> dict[str, Callable[[], Any]]:
    """torch's ways to the same results on the same memory."""
    if torch is None:
        return {}
    extras = (problem.options.get("bias"), problem.options.get("aux"))
    tensors = [
        None if array is None else torch.from_dlpack(array) for array in (problem.a, problem.b, *extras, problem.out)
    ]
    return peers.gemm(torch, problem.kind, *tensors)


def _float8(report: Report, repeats: int) -> None:
    """float8 against bfloat16 of the same shape: how much faster, of at least 1.6 times."""
    wide = Problem(SQUARE, "bfloat16")
    narrow = Problem(SQUARE, "float8_e4m3fn")
    narrow.out = numbacc.empty(SQUARE[:2], "bfloat16")
    columns = numbacc.empty((SQUARE[1], SQUARE[2]), "float8_e4m3fn").T
    columns[...] = narrow.b
    narrow.b = columns
    works = {"bfloat16": wide.work()}
    for compute in ("float32", "fast"):
        works[f"ours {compute}"] = narrow.work(out_dtype="bfloat16", compute=compute)
    # A product of float8 numbers is added up with 13 or 14 bits by the tensor cores.
    times = _report(report, "float8_e4m3fn 8192^3", narrow, works, {}, repeats, 0.02)
    for compute in ("float32", "fast"):
        ratio = times["bfloat16"] / times[f"ours {compute}"]
        report.add(
            name=f"float8_e4m3fn 8192^3, compute={compute!r}, speed over bfloat16",
            ratio=ratio,
            at_least=1.6,
            holds=ratio >= 1.6,
        )


def _plain(
    report: Report, torch: Any, dtype: str, compute: str | None, stored: str, bound: float, repeats: int
) -> None:
    """A product without epilogue."""
    name = f"matmul {compute or dtype} 8192^3, b {stored}"
    if not report.wants(f"{name}, ours tuned"):
        return
    problem = Problem(SQUARE, dtype, stored=stored)
    works = {"ours": problem.work(compute=compute), "ours tuned": problem.work(compute=compute, tune=True)}
    if torch is None:
        return
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = compute == "tf32"
    try:
        works |= _torch_works(torch, problem)
        allowed = 2e-3 if compute else _allowed(problem.dtype)
        times = _report(report, name, problem, works, {"ours": bound, "ours tuned": bound}, repeats, allowed)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept
    if compute:
        again = gpu_ms({"first": works["ours"], "second": works["ours"]}, repeats=repeats)
        report.add(
            name=f"resolution: one work timed twice, {name}",
            ratio=again["first"] / again["second"],
            ms=times["ours"],
        )


def _fusion(report: Report, repeats: int) -> None:
    """gelu_aux_bias in one call, against the product, the bias and GELU as kernels of their own."""
    problem = Problem(SLIM, "bfloat16", "gelu_aux_bias")
    aux, bias = problem.options["aux"], problem.options["bias"]

    def layouts(*arrays: Any) -> list[Layout]:
        return [array._numbacc_layout for array in arrays]

    add = map_plan("epilogue.bias", tuple(layouts(aux, bias)), tuple(layouts(aux)))
    activate = map_plan("epilogue.gelu", tuple(layouts(aux)), tuple(layouts(problem.out)))

    def unfused() -> None:
        gemm.matmul(problem.a, problem.b, out=aux)
        add.run([aux, bias], [aux], aux, 0)
        activate.run([aux], [problem.out], problem.out, 0)

    works = {"ours": problem.work(), "unfused": unfused}
    _report(report, _FUSION, problem, works, {"ours": 0.95}, repeats, 0.02)


def _mlp(report: Report, torch: Any, repeats: int) -> None:
    """A step of a two-layer perceptron, forward and backward, against torch's autograd."""
    if torch is None:
        return
    rows, width, hidden = 8192, 4096, 11008
    rng = np.random.default_rng(5)

    def normal(*lengths: int) -> Any:
        block = rng.standard_normal(999_983, np.float32) / np.sqrt(lengths[0])
        return numbacc.asarray(np.resize(block.astype(dtypes.dtype("bfloat16")), lengths))

    x, w1, b1, w2, b2 = normal(rows, width), normal(width, hidden), normal(hidden), normal(hidden, width), normal(width)
    dy = normal(rows, width)
    tx, tw1, tb1, tw2, tb2 = (torch.from_dlpack(each).detach().requires_grad_() for each in (x, w1, b1, w2, b2))
    tdy, functional = torch.from_dlpack(dy), torch.nn.functional

    def ours() -> Any:
        _, saved = gemm.mlp(x, w1, b1, w2, b2)
        return gemm.mlp_backward(dy, saved)

    def theirs() -> Any:
        z = functional.gelu(functional.linear(tx, tw1.t(), tb1), approximate="tanh")
        y = functional.linear(z, tw2.t(), tb2)
        return torch.autograd.grad(y, (tx, tw1, tb1, tw2, tb2), tdy)

    error = 0.0
    for mine, other in zip(ours(), theirs(), strict=True):
        difference = torch.from_dlpack(mine).float() - other.float()
        error = max(error, float(difference.norm() / other.float().norm()))
    times = gpu_ms({"ours": ours, "torch autograd": theirs}, repeats=max(repeats // 2, 5))
    report.add(
        name=_MLP,
        ms=times["ours"],
        error=error,
        right=error < 0.02,
        ratio=times["ours"] / times["torch autograd"],
        peers={"torch autograd": times["torch autograd"]},
    )


def _host(report: Report, torch: Any) -> None:
    """Host time of one small product: with a bias, of a weight's transpose, and of a layer in training."""
    if torch is None:
        return
    problem = Problem(HOST, "bfloat16", "bias")
    a, b, bias = problem.a, problem.b, problem.options["bias"]
    out = problem.out
    x, w, shift = (torch.from_dlpack(array) for array in (a, b, bias))
    weight = w.t().contiguous()
    linear = torch.nn.functional.linear
    works: dict[str, Callable[[], Any]] = {
        "ours": lambda: gemm.matmul(a, b, bias=bias, epilogue="bias", out=out),
        "torch F.linear": lambda: linear(x, weight, shift),
    }
    planned = peers.nvmath_matmul(x, w, shift)
    if planned is not None:
        works["nvmath Matmul.execute"] = planned
    theirs = host_times(works)
    ours = theirs.pop("ours")
    for peer, bound in (("torch F.linear", 0.7), ("nvmath Matmul.execute", 0.3)):
        if peer in theirs:
            ratio = ours / theirs[peer]
            report.add(
                name=f"host time, matmul 16x1024x1024 with bias, over {peer}",
                us=ours,
                ratio=ratio,
                bound=bound,
                peers=theirs,
                holds=ratio <= bound,
            )
    needs_grad = [each.detach().requires_grad_() for each in (x, weight, shift)]
    for name, aim, own, peer, their in (
        ("matmul(x, w.T)", 1.2, lambda: gemm.matmul(a, b.T), "torch x @ w.t()", lambda: x @ w.t()),
        (
            "linear(x, w, bias), in training", 1.0, lambda: gemm.linear(a, b, bias),
            "torch F.linear, recorded by autograd", lambda: linear(*needs_grad),
        ),
    ):  # fmt: skip
        add_host_times(report, {name: (aim, own)}, {peer: their}, "16x1024x1024")
