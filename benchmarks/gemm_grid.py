"""Matrix products of many shapes against torch: how far the choice of algorithm is from the best, tuned and not."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numbacc
from numbacc import gemm
from numbacc.base import dtypes

from . import peers
from .harness import RESOLUTION, Report, gpu_ms

#: How b lies: as numbacc's layers keep a weight, or as torch's do.
STORED = ("(k, n)", "(n, k).T")
#: What our time is to be at most, over torch's.
BOUNDS = {"ours": 1.02, "ours tuned": 1.0}
KINDS = ("none", "bias", "gelu_bias")
#: n, k: widths of usual models, and odd ones.
WIDTHS = (
    (4096, 4096), (14336, 4096), (4096, 14336), (3072, 768), (768, 3072), (50257, 768), (1000, 777), (8192, 1024),
    (5120, 5120), (2560, 10240), (333, 4099), (18944, 3584), (28672, 8192),
)  # fmt: skip
ROWS = (1, 2, 8, 16, 24, 64, 100, 256, 512, 2048, 4096, 16384)
#: dtype -> every how many of all combinations are taken, and the most operations of one in 1e9.
PARTS = {"float32": (7, 140), "bfloat16": (7, 2300), "float16": (17, 1500), "float64": (13, 160)}
#: Nine of ten pairs of medians of one short work are no further apart.
_TICK_MS = 0.0003
#: Figures that are shown one by one.
_WORST = 6


class Case(NamedTuple):
    """A product; `stored` is how b lies, `batch` how many there are."""

    dtype: str
    m: int
    n: int
    k: int
    kind: str = "none"
    stored: str = STORED[1]
    batch: int = 1

    def __str__(self) -> str:
        many = f"{self.batch} x " if self.batch > 1 else ""
        return f"{self.kind} {self.dtype} {many}{self.m}x{self.n}x{self.k}, b {self.stored}"


#: What was once slower than torch, and batches.
FURTHER = (
    Case("float32", 64, 4096, 14336), Case("float32", 64, 4096, 14336, "bias"), Case("float32", 8, 14336, 4096),
    Case("float32", 8, 4096, 14336, "bias", STORED[0]), Case("float32", 16, 1000, 777),
    Case("float32", 12, 1536, 512, "gelu_bias"), Case("float32", 1, 4096, 4096, "bias"),
    Case("bfloat16", 64, 4096, 14336, "bias"), Case("bfloat16", 100, 4096, 14336, "bias", STORED[0]),
    Case("bfloat16", 2, 4096, 4096, "none", STORED[0]), Case("bfloat16", 2048, 50257, 768, "gelu_bias"),
    Case("bfloat16", 4096, 1000, 777, "gelu_bias"), Case("float64", 8, 28672, 8192, "bias", STORED[0]),
    Case("float64", 512, 5120, 5120, "bias"), Case("float64", 256, 50257, 768, "bias"),
    Case("bfloat16", 64, 512, 512, "none", STORED[0], 64), Case("bfloat16", 512, 512, 512, "none", STORED[1], 64),
    Case("float32", 128, 64, 128, "none", STORED[1], 96), Case("float16", 100, 77, 333, "none", STORED[0], 17),
    Case("float64", 128, 128, 128, "none", STORED[1], 64),
)  # fmt: skip


def cases(every: int = 1) -> Iterator[Case]:
    """The grid: for each dtype a part of all rows, widths and epilogues, and each further case; every how many."""
    found = list(FURTHER)
    for dtype, (step, most) in PARTS.items():
        number = 0
        for m in ROWS:
            for n, k in WIDTHS:
                for kind in KINDS:
                    # float64's GELU is ours alone: torch has none with tanh that is as exact.
                    if 2e-9 * m * n * k > most or (dtype == "float64" and kind == "gelu_bias"):
                        continue
                    number += 1
                    if number % step == 0:
                        found.append(Case(dtype, m, n, k, kind, STORED[number // step // 3 % 3 > 0]))
    yield from list(dict.fromkeys(found))[::every]


def run(report: Report, *, quick: bool = False) -> None:
    """One figure per dtype and epilogue, the worst cases, and torch's own ways to be faster for some."""
    torch = peers.import_torch()
    if torch is None:
        return
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        measured = [_measure(torch, case) for case in cases(4 if quick else 1) if report.wants(f"grid: {case}")]
        _summarize(report, measured)
        if not quick and report.wants(str(_TRIED)):
            _strongest(report, torch, _TRIED)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept
        _exactly(torch, False)
        torch.cuda.empty_cache()


class Measured(NamedTuple):
    """The measurements of a case.

    Attributes:
        ms: work -> median milliseconds.
        ratios: "ours", "ours tuned" -> the time over torch's.
        resolution: what two medians of torch's one work differ by, and at least `RESOLUTION` and `_TICK_MS`.
        right: whether all elements are.
    """

    case: Case
    ms: dict[str, float]
    ratios: dict[str, float]
    resolution: float
    right: bool

    def holds(self, name: str) -> bool:
        """True if a way of ours is right and within its bound."""
        return self.right and self.ratios[name] <= BOUNDS[name] + self.resolution


def _exactly(torch: Any, exact: bool) -> None:
    """Whether torch adds up parts of 16-bit sums in float32, as we do; by default it may do so in 16 bits."""
    matmul = torch.backends.cuda.matmul
    matmul.allow_bf16_reduced_precision_reduction = matmul.allow_fp16_reduced_precision_reduction = not exact


def _operands(torch: Any, case: Case) -> tuple[Any, ...]:
    """a, b, bias or None, and out, as torch's tensors."""
    dtype, batch = getattr(torch, case.dtype), (case.batch,) if case.batch > 1 else ()
    generator = torch.Generator("cuda").manual_seed(3)

    def normal(*shape: int) -> Any:
        wide = torch.float64 if case.dtype == "float64" else torch.float32
        return torch.randn(*shape, generator=generator, device="cuda", dtype=wide).to(dtype)

    a = normal(*batch, case.m, case.k)
    b = normal(*batch, case.k, case.n) if case.stored == STORED[0] else normal(*batch, case.n, case.k).mT
    bias = normal(case.n) if case.kind != "none" else None
    return a, b, bias, torch.empty(*batch, case.m, case.n, device="cuda", dtype=dtype)


def _ours(case: Case, tensors: tuple[Any, ...], **options: Any) -> Callable[[], Any]:
    a, b, bias, out = (None if each is None else numbacc.asarray(each) for each in tensors)
    if bias is not None:
        options["bias"] = bias
    return lambda: gemm.matmul(a, b, out=out, epilogue=case.kind, **options)


def _measure(torch: Any, case: Case) -> Measured:
    tensors = _operands(torch, case)
    a, b, bias, out = tensors
    works = {"ours": _ours(case, tensors), "ours tuned": _ours(case, tensors, tune=True)}
    exact = _exact(torch, case, a, b, bias)
    right = all(_is_right(torch, case, work, out, exact) for work in works.values())
    del exact
    (theirs,) = peers.gemm(torch, case.kind, a, b, bias, None, out).values()

    def in_float32() -> None:
        _exactly(torch, True)
        theirs()

    def by_default() -> None:
        _exactly(torch, False)
        theirs()

    works |= {"torch": in_float32, "torch again": in_float32}
    if case.dtype in ("float16", "bfloat16"):
        works["torch, sums in 16 bits"] = by_default
    operations = 2 * case.m * case.n * case.k * case.batch
    slow = operations > (1e10 if case.dtype in ("float32", "float64") else 1e11)
    ms = gpu_ms(works, repeats=9 if slow else 41)
    one, two = ms["torch"], ms["torch again"]
    ratios = {name: ms[name] / ((one + two) / 2) for name in BOUNDS}
    return Measured(case, ms, ratios, max(RESOLUTION, max(_TICK_MS, abs(one - two)) / min(one, two)), right)


def _exact(torch: Any, case: Case, a: Any, b: Any, bias: Any) -> Any:
    """The result before it is rounded: in float64, or for 16 bits in float32."""
    wide = torch.float64 if case.dtype in ("float32", "float64") else torch.float32
    z = a.to(wide) @ b.to(wide)
    if bias is not None:
        z += bias.to(wide)
    return torch.nn.functional.gelu(z, approximate="tanh") if case.kind == "gelu_bias" else z


def _is_right(torch: Any, case: Case, work: Callable[[], Any], out: Any, exact: Any) -> bool:
    """Whether each element is within a tolerance of the exact one, and of the results' usual size."""
    out.fill_(math.nan)
    work()
    torch.cuda.synchronize()
    eps = float(torch.finfo(out.dtype).eps)
    allowed = eps * (4 if dtypes.dtype(case.dtype).itemsize < 4 else 256)
    usual = float(exact.norm()) / math.sqrt(exact.numel())
    difference = (out.to(exact.dtype) - exact).abs_()
    # A NaN is within nothing.
    return bool((difference <= allowed * (exact.abs() + usual)).all())


def _summarize(report: Report, measured: list[Measured]) -> None:
    for name, bound in BOUNDS.items():
        for dtype in PARTS:
            for kind in KINDS:
                chosen = [each for each in measured if (each.case.dtype, each.case.kind) == (dtype, kind)]
                if chosen:
                    _add_group(report, f"grid: {kind} {dtype}, {name}", name, bound, chosen)
        for each in sorted(measured, key=lambda each: -each.ratios[name] + each.resolution)[:_WORST]:
            theirs = {key: span for key, span in each.ms.items() if key.startswith("torch")}
            report.add(
                name=f"grid, among the worst: {each.case}, {name}", ms=each.ms[name], ratio=each.ratios[name],
                resolution=each.resolution, peers=theirs, right=each.right,
            )  # fmt: skip


def _add_group(report: Report, title: str, name: str, bound: float, chosen: list[Measured]) -> None:
    """The figure of a dtype and epilogue: `ratio` is the geometric mean, `holds` speaks of each case."""
    ratios = [each.ratios[name] for each in chosen]
    within = [each.holds(name) for each in chosen]
    figure: dict[str, Any] = {
        "name": title,
        "cases": len(chosen),
        "ratio": math.exp(sum(map(math.log, ratios)) / len(ratios)),
        "worst": max(ratios),
        "bound": bound,
        "within": sum(within) / len(within),
    }
    narrow = [each.ms[name] / each.ms[key] for each in chosen for key in each.ms if key.endswith("16 bits")]
    if narrow:
        figure["worst_over_sums_in_16_bits"] = max(narrow)
    report.add(**figure, right=all(each.right for each in chosen), holds=all(within))


#: The product on which torch's own ways to choose are tried, which take ten seconds.
_TRIED = Case("bfloat16", 64, 4096, 14336, "bias")


def _strongest(report: Report, torch: Any, case: Case) -> None:
    """torch at its strongest: TunableOp, and torch.compile that measures Triton's kernels against cuBLAS's."""
    tensors = _operands(torch, case)
    a, b, bias, _ = tensors
    weight, tunable = b.mT, torch.cuda.tunable
    _exactly(torch, True)

    def linear() -> Any:
        return torch.nn.functional.linear(a, weight, bias)

    def by_tunable() -> None:
        tunable.enable(True)
        linear()
        tunable.enable(False)

    works = {"ours tuned": _ours(case, tensors, tune=True), "torch": linear, "torch TunableOp": by_tunable}
    compiled = _compiled(torch, linear)
    if compiled is not None:
        works["torch.compile max-autotune"] = compiled
    tunable.set_filename(os.devnull)
    ms = gpu_ms(works, repeats=41)
    ours = ms.pop("ours tuned")
    ratio = ours / min(ms.values())
    report.add(
        name=f"{case}, ours tuned, over torch's strongest", ms=ours, ratio=ratio, bound=1.0, peers=ms,
        holds=ratio <= 1 + RESOLUTION,
    )  # fmt: skip


def _compiled(torch: Any, work: Callable[[], Any]) -> Callable[[], Any] | None:
    """The work compiled with everything tried, None where there is no compiler."""
    try:
        torch._dynamo.reset()
        found = torch.compile(work, mode="max-autotune-no-cudagraphs")
        # It tells at length of kernels that do not fit this GPU.
        logging.disable()
        with contextlib.redirect_stderr(io.StringIO()):
            found()
        torch.cuda.synchronize()
    except Exception:  # whatever its compilers miss on a machine
        return None
    finally:
        logging.disable(logging.NOTSET)
    return found  # type: ignore[no-any-return]
