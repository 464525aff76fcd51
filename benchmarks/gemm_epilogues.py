"""Products with Python epilogues against cuBLASLt, a product followed by one elementwise kernel, and torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc import elementwise, gated, gemm, random

from . import peers
from .harness import Report, gpu_ms, wide

#: Rows of a, and (n, k): sizes that are not multiples of a tile, too.
ROWS = (64, 100, 256, 777, 2048, 4096, 16384)
WIDTHS = ((4096, 4096), (1024, 1024), (11008, 4096), (4096, 11008), (8192, 1024), (3072, 768))
#: Shapes that torch.compile is tuned for, which takes it minutes.
TUNED = ((4096, 4096, 4096), (2048, 11008, 4096))
#: Rows, in, out of gated layers.
GATED = ((4096, 4096, 11008), (1024, 4096, 4096), (8192, 2048, 5632))
#: Rows, groups, k, n of products of groups, and whether groups have equal sizes.
GROUPED = ((8192, 8, 4096, 4096, True), (8192, 8, 4096, 4096, False), (4096, 64, 2048, 1408, False))
FLOAT8 = ((4096, 4096, 4096), (8192, 8192, 8192), (2048, 11008, 4096))
#: Results that are checked, by rows and columns.
_FEW = 64
#: The largest number of float8_e4m3fn.
_MOST = 448.0


def squared(x: float, bias: float) -> float:
    """relu(x + bias)², which no library fuses."""
    return max(x + bias, 0.0) ** 2


def scaled(x: float, row: float, column: float) -> float:
    """A product with a scale for each row and column."""
    return x * row * column


def same(x: float) -> float:
    """The product itself. With `return x` alone the library would compute it."""
    return x * 1.0


class Case(NamedTuple):
    """An epilogue.

    Attributes:
        function: for numbacc.
        operands: "row" or "column" for each operand.
        in_torch: (torch, product in float32, operands in float32) -> the result.
        out: the dtype of the result.
    """

    name: str
    function: Callable[..., Any]
    operands: tuple[str, ...]
    in_torch: Callable[..., Any]
    out: str = "bfloat16"


CASES = (
    Case("relu(x + b)^2", squared, ("row",), lambda torch, x, b: torch.relu(x + b) ** 2),
    Case("row-scaled", scaled, ("row", "column"), lambda torch, x, r, c: x * r * c),
    Case("to float8", scaled, ("row", "column"), lambda torch, x, r, c: x * r * c, "float8_e4m3fn"),
)


def run(report: Report, *, quick: bool = False) -> None:
    """All figures."""
    repeats = 6 if quick else 12
    measured = []
    for m in ROWS[::3] if quick else ROWS:
        for n, k in WIDTHS[::3] if quick else WIDTHS:
            if report.wants(f"grid: relu(x + b)^2 bfloat16 {m}x{n}x{k}"):
                measured.append(_grid(report, (m, n, k), repeats))
    _summarize(report, measured)
    for each in GROUPED:
        sizes = "equal" if each[-1] else "random"
        if report.wants(name := "grouped bfloat16 {} rows, {} groups, k {}, n {}, {} sizes".format(*each[:4], sizes)):
            _grouped(report, name, each, repeats)
    for shape in FLOAT8:
        if report.wants(name := "float8_e4m3fn {}x{}x{}, plain".format(*shape)):
            _float8(report, name, shape, repeats)
    for rows in GATED:
        if report.wants(name := "gated.linear swiglu bfloat16 {}x{}x2*{}".format(*rows)):
            _gated(report, name, rows, repeats, quick)
    for case in CASES:
        for shape in TUNED:
            name = f"{case.name} bfloat16 {shape[0]}x{shape[1]}x{shape[2]} over torch.compile"
            if not quick and report.wants(name):
                _tuned(report, name, case, shape, repeats)


def _normal(*shape: int, dtype: str = "bfloat16", seed: int = 3) -> Any:
    values = random.Generator(seed=seed).normal(size=shape, dtype="float32")
    return elementwise.astype(values, dtype)


def _part(array: Any) -> Any:
    return wide(array[:_FEW, :_FEW])


def _right(out: Any, a: Any, b: Any, function: Callable[..., Any], *operands: Any) -> bool:
    """Whether the first rows and columns of a result are right, in float64."""
    exact = wide(a[:_FEW]) @ wide(b[:, :_FEW])
    wanted = np.vectorize(function)(exact, *operands) if operands else np.vectorize(function)(exact)
    found = _part(out)
    slack = 0.01
    if out.dtype.itemsize == 1:
        slack = 0.07
        wanted = np.clip(wanted, -_MOST, _MOST)  # larger results are saturated
    return bool(np.abs(found - wanted).max() <= slack * np.abs(wanted).max())


def _grid(report: Report, shape: tuple[int, int, int], repeats: int) -> dict[str, float]:
    """One shape: the function, untuned and tuned, our plain product, cuBLASLt's, and its product and one kernel."""
    m, n, k = shape
    a, b, bias = _normal(m, k), _normal(k, n, seed=4), _normal(n, seed=5)
    out, product = (numbacc.empty((m, n), "bfloat16") for _ in range(2))
    kernel: Any = elementwise.kernel(squared)

    def after() -> None:
        gemm.matmul(a, b, out=product)
        kernel(product, bias, out=product)

    works: dict[str, Callable[[], Any]] = {
        "ours": partial(gemm.matmul, a, b, epilogue=squared, operands=(bias,), out=out),
        "tuned": partial(gemm.matmul, a, b, epilogue=squared, operands=(bias,), out=out, tune=True),
        "plain": partial(gemm.matmul, a, b, epilogue=same, out=product),
        "cuBLASLt": partial(gemm.matmul, a, b, out=product),
        "cuBLASLt + kernel": after,
    }
    right = True
    for name in ("tuned", "ours"):
        out[...] = 0
        works[name]()
        right = right and _right(out, a, b, squared, wide(bias[:_FEW]))
    times = gpu_ms(works, repeats=repeats)
    options: dict[str, Any] = {"epilogue": squared, "operands": (bias,), "out": out}
    ours, tuned = (gemm.matmul.plan(a, b, **options, tune=each).info for each in (False, True))
    found = {
        "speed": times["cuBLASLt + kernel"] / times["ours"], "tuned_speed": times["cuBLASLt + kernel"] / times["tuned"],
        "over_plain": times["ours"] / times["plain"], "plain_speed": times["cuBLASLt"] / times["plain"],
    }  # fmt: skip
    report.add(
        name=f"grid: relu(x + b)^2 bfloat16 {m}x{n}x{k}", right=right, ms=times["ours"], ms_tuned=times["tuned"],
        tflops=2e-9 * m * n * k / times["ours"], **found, algorithm=_short(ours), tuned_algorithm=_short(tuned),
        peers={name: times[name] for name in ("cuBLASLt", "cuBLASLt + kernel")},
    )  # fmt: skip
    return found


def _short(info: Any) -> str:
    """Return a plan's tiles, or that it uses the library."""
    return str(info.algorithm).split(", grid")[0] if info.backend == "kernel" else str(info.backend)


def _summarize(report: Report, measured: list[dict[str, float]]) -> None:
    """Geometric means and the worst values of the grid."""
    if measured:
        columns = {key: [each[key] for each in measured] for key in measured[0]}
        means = {f"mean_{key}": float(np.exp(np.log(values).mean())) for key, values in columns.items()}
        worst = {"worst_over_plain": max(columns["over_plain"]), "worst_plain_speed": min(columns["plain_speed"])}
        report.add(name=f"all {len(measured)} shapes of the grid, relu(x + b)^2 bfloat16", **means, **worst)


def _tuned(report: Report, name: str, case: Case, shape: tuple[int, int, int], repeats: int) -> None:
    """One epilogue against torch.compile in its most thorough mode."""
    torch = peers.import_torch()
    if torch is None:
        return
    m, n, k = shape
    a, b = _normal(m, k), _normal(k, n, seed=4)
    shapes = {"row": (n,), "column": (m, 1)}
    operands = [_normal(*shapes[each], dtype="float32", seed=5 + j) for j, each in enumerate(case.operands)]
    out = numbacc.empty((m, n), case.out)
    work = partial(gemm.matmul, a, b, epilogue=case.function, operands=operands, out=out)
    work()
    given = [torch.from_dlpack(each) for each in (a, b, *operands)]
    kind = torch.float8_e4m3fn if case.out.startswith("float8") else torch.bfloat16

    def formula(a: Any, b: Any, *more: Any) -> Any:
        return case.in_torch(torch, (a @ b).float(), *more).to(kind)

    torch._dynamo.reset()
    compiled = torch.compile(formula, mode="max-autotune-no-cudagraphs")
    works = {"ours": work, "torch.compile": partial(compiled, *given)}
    works["torch.compile"]()
    values = [wide(each)[:_FEW] for each in operands]
    times = gpu_ms(works, repeats=repeats)
    speed = times["torch.compile"] / times["ours"]
    report.add(
        name=name, right=_right(out, a, b, case.function, *values), ms=times["ours"], speed=speed, bound=1.1,
        holds=speed >= 1.1, peers={"torch.compile": times["torch.compile"]},
    )  # fmt: skip


def _gated(report: Report, name: str, shape: tuple[int, int, int], repeats: int, quick: bool) -> None:
    """A gated layer against the product and the gate, and torch.compile."""
    m, k, n = shape
    x, w = _normal(m, k), _normal(k, 2 * n, seed=4)
    out, product = numbacc.empty((m, n), "bfloat16"), numbacc.empty((m, 2 * n), "bfloat16")

    def after() -> None:
        gemm.matmul(x, w, out=product)
        gated.forward(product, out=out)

    works: dict[str, Callable[[], Any]] = {"product + gate": after, "ours": partial(gated.linear, x, w, out=out)}
    torch = peers.import_torch()
    if torch is not None and not quick and shape == GATED[0]:
        silu, given = torch.nn.functional.silu, [torch.from_dlpack(each) for each in (x, w)]

        def formula(x: Any, w: Any) -> Any:
            a, b = (x @ w).float().chunk(2, -1)
            return (a * silu(b)).to(torch.bfloat16)

        torch._dynamo.reset()
        works["torch.compile"] = partial(torch.compile(formula, mode="max-autotune-no-cudagraphs"), *given)
    for work in works.values():
        work()
    few = min(_FEW, n)
    halves = [wide(x[:_FEW]) @ wide(w[:, start : start + few]) for start in (0, n)]
    wanted = halves[0] * halves[1] / (1 + np.exp(-halves[1]))
    right = bool(np.abs(_part(out) - wanted).max() <= 0.01 * np.abs(wanted).max())
    times = gpu_ms(works, repeats=repeats)
    ours = times.pop("ours")
    speed = times["product + gate"] / ours
    more = {"over_torch": times["torch.compile"] / ours} if "torch.compile" in times else {}
    report.add(name=name, right=right, ms=ours, speed=speed, bound=1.15, holds=speed >= 1.15, **more, peers=times)


def _grouped(report: Report, name: str, each: tuple[int, int, int, int, bool], repeats: int) -> None:
    """Groups of rows against a product for each group, and one product of the same size."""
    rows, groups, k, n, is_equal = each
    rng = np.random.default_rng(3)
    own = np.full(groups, rows // groups) if is_equal else rng.multinomial(rows, rng.dirichlet(np.ones(groups)))
    a, b, whole = _normal(rows, k), _normal(groups, k, n, seed=4), _normal(k, n, seed=5)
    sizes, out = numbacc.asarray(own.astype(np.int32)), numbacc.empty((rows, n), "bfloat16")
    starts = [0, *np.cumsum(own).tolist()]

    def loop() -> None:
        for group in range(groups):
            part = slice(starts[group], starts[group + 1])
            if starts[group] < starts[group + 1]:
                gemm.matmul(a[part], b[group], out=out[part])

    works: dict[str, Callable[[], Any]] = {
        "loop": loop, "one product": partial(gemm.matmul, a, whole, out=out),
        "ours": partial(gemm.grouped, a, b, sizes, out=out),
    }  # fmt: skip
    for work in works.values():
        work()
    largest = int(np.argmax(own))
    part = slice(starts[largest], starts[largest + 1])
    right = _right(out[part], a[part], b[largest], same)
    times = gpu_ms(works, repeats=repeats)
    ours = times.pop("ours")
    report.add(name=name, right=right, ms=ours, speed=times["loop"] / ours, peers=times)


def _float8(report: Report, name: str, shape: tuple[int, int, int], repeats: int) -> None:
    """Our plain product of float8 over cuBLASLt's, both with fast sums."""
    m, n, k = shape
    a, b = _normal(m, k, dtype="float8_e4m3fn"), _normal(n, k, dtype="float8_e4m3fn", seed=4).T
    out = numbacc.empty((m, n), "bfloat16")
    works = {
        "cuBLASLt": partial(gemm.matmul, a, b, compute="fast", out=out),
        "ours": partial(gemm.matmul, a, b, compute="fast", epilogue=same, out=out),
    }
    for work in works.values():
        work()
    right = _right(out, a, b, same)
    times = gpu_ms(works, repeats=repeats)
    speed = times["cuBLASLt"] / times["ours"]
    peer = {"cuBLASLt": times["cuBLASLt"]}
    report.add(name=name, right=right, ms=times["ours"], speed=speed, bound=0.95, holds=speed >= 0.95, peers=peer)
