"""Draws docs/measured.svg and docs/scaling.svg from the newest results.

The first shows the time that others take on the same work, over numbacc's; the second shows training on several GPUs.
Run as `python -m benchmarks.plot`, after results were added. A test draws them again and compares.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

HERE = Path(__file__).parent

#: (subject, name of the figure, what it is called, the peers that are drawn). The peers' values of gemm are
#: milliseconds, as ours; the others' are ratios.
BARS = [
    ("gated", "geglu backward bfloat16, rows 8192 x 2*14336", "geglu backward, bf16", ("torch.compile", "torch")),
    (
        "gated",
        "geglu_tanh backward bfloat16, rows 8192 x 2*14336",
        "geglu_tanh backward, bf16",
        ("torch.compile", "Liger"),
    ),
    ("gated", "swiglu backward bfloat16, rows 8192 x 2*14336", "swiglu backward, bf16", ("torch.compile", "Liger")),
    ("gated", "glu forward float32, rows 8192 x 2*14336", "glu forward, float32", ("torch F.glu", "torch.compile")),
    (
        "gemm",
        "gelu_aux_bias bfloat16 4096x11008x4096, b (n, k).T, ours",
        "product, bias, GELU with aux, bf16",
        ("torch F.linear, gelu",),
    ),
    (
        "gemm",
        "dgelu_bgrad bfloat16 4096x11008x4096, b (k, n), ours",
        "product, GELU's derivative, sum, bf16",
        ("torch mm, gelu_backward, sum",),
    ),
    ("fft-random", "rfft2 float32, real to complex, 8192 x 8192", "rfft2 of 8192 x 8192", ("torch", "CuPy")),
    ("fft-random", "random float32, 2^28", "2^28 uniforms", ("torch", "CuPy Generator")),
]
COLOURS = ("#4c78a8", "#f58518")
_LEFT, _SCALE, _BAR, _GAP, _TOP = 270, 80, 14, 12, 44


def figures() -> dict[str, dict[str, dict]]:
    """Subject -> name -> figure, of the newest results."""
    found = {}
    for subject in {bar[0] for bar in BARS}:
        path = sorted((HERE / "results").glob(f"*-h200-{subject}.json"))[-1]
        found[subject] = {figure["name"]: figure for figure in json.loads(path.read_text())["figures"]}
    return found


def rows() -> list[tuple[str, list[tuple[str, float]]]]:
    """(what, [(peer, its time over ours)])."""
    found = figures()
    answer = []
    for subject, name, title, peers in BARS:
        figure = found[subject][name]
        ours = figure["ms"] if subject == "gemm" else 1.0
        answer.append((title, [(peer, figure["peers"][peer] / ours) for peer in peers]))
    return answer


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(words)}</text>'


def svg() -> str:
    y, parts = _TOP, []
    for title, peers in rows():
        parts.append(text(_LEFT - 10, y + _BAR * len(peers) / 2 + 4, title, 'text-anchor="end"'))
        for k, (peer, ratio) in enumerate(peers):
            parts.append(
                f'<rect x="{_LEFT}" y="{y}" width="{ratio * _SCALE:.1f}" height="{_BAR - 2}" fill="{COLOURS[k]}"/>'
            )
            parts.append(text(_LEFT + ratio * _SCALE + 6, y + _BAR - 4, f"{ratio:.2f}  {peer}", 'font-size="11"'))
            y += _BAR
        y += _GAP
    one = _LEFT + _SCALE
    head = [
        text(
            16,
            22,
            "Time that others take on the same work, over numbacc's (1: as fast), NVIDIA H200",
            'font-weight="bold"',
        ),
        f'<line x1="{one}" y1="{_TOP - 8}" x2="{one}" y2="{y - _GAP + 6}" stroke="black" stroke-dasharray="3 3"/>',
    ]
    size = f'width="860" height="{y + 8}"'
    style = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13"'
    return "\n".join(
        [f"<svg {size} {style}>", '<rect width="100%" height="100%" fill="white"/>', *head, *parts, "</svg>\n"]
    )


# ---------------------------------------------------------------- training on several GPUs

#: (configuration, scaling, title) of the panels.
PANELS = [
    ("A", "weak", "A: 8 x 1024 tokens a GPU"),
    ("A", "strong", "A: 8 x 1024 tokens in all"),
    ("1B", "weak", "1B: 8 x 1024 tokens a GPU"),
    ("1B", "strong", "1B: 8 x 1024 tokens in all"),
]
#: The name and colour of each line, and the beginnings of its figures' names.
LINES = [
    ("numbacc", "#4c78a8", ("numbacc", "sharded", "replicated")),
    ("torch DistributedDataParallel", "#f58518", ("torch, compiled", "torch DistributedDataParallel, compiled")),
    ("torch DistributedDataParallel in a graph", "#e45756", ("torch DistributedDataParallel in a graph",)),
    ("torch FSDP2", "#54a24b", ("torch FSDP2",)),
]
_WIDTH, _HEIGHT = 330, 180


def speeds() -> dict[tuple[str, str, str], dict[int, float]]:
    """(configuration, scaling, line) -> number of GPUs -> the most tokens a second, of the newest results."""
    path = sorted((HERE / "results").glob("*-h100-distributed.json"))[-1]
    found: dict[tuple[str, str, str], dict[int, float]] = {}
    for figure in json.loads(path.read_text())["figures"]:
        model, scaling, gpus, way = figure["name"].removeprefix("training ").split(", ", 3)
        count = int(gpus.split()[0])
        for line, _, names in LINES:
            if way.startswith(names) and figure.get("tokens_per_second"):
                # With one GPU, both kinds of scaling are the same.
                for kind in ("weak", "strong") if count == 1 else (scaling,):
                    points = found.setdefault((model, kind, line), {})
                    points[count] = max(points.get(count, 0.0), figure["tokens_per_second"])
    return found


def scaling_svg() -> str:
    """Return the tokens a second by the number of GPUs."""
    found = speeds()
    parts = [
        text(
            16,
            22,
            "Training: tokens a second, over numbacc's on one NVIDIA H100; dashed: perfect",
            'font-weight="bold"',
        )
    ]
    x = 16
    for line, colour, _ in LINES:
        parts.append(f'<rect x="{x}" y="34" width="14" height="10" fill="{colour}"/>')
        parts.append(text(x + 20, 44, line))
        x += 40 + 7 * len(line)
    most = max(count for points in found.values() for count in points)
    measured = [each for each in PANELS if len(found.get((*each[:2], "numbacc"), ())) > 1]
    for number, (model, scaling, title) in enumerate(measured):
        left, top = 50 + number % 2 * (_WIDTH + 80), 80 + number // 2 * (_HEIGHT + 70)
        one = found[model, scaling, "numbacc"][1]

        def at(count: int, share: float, left: int = left, top: int = top) -> str:
            return f"{left + _WIDTH * count / most:.1f},{top + _HEIGHT * (1 - share / most):.1f}"

        parts.append(text(left, top - 10, title))
        parts.append(f'<path d="M{left},{top}V{top + _HEIGHT}H{left + _WIDTH}" fill="none" stroke="black"/>')
        parts.append(f'<path d="M{at(0, 0)}L{at(most, most)}" stroke="gray" stroke-dasharray="3 3"/>')
        for count in (1, 2, 4, 8):
            if count <= most:
                across, down = map(float, at(count, count).split(","))
                parts.append(text(across, top + _HEIGHT + 16, str(count), 'text-anchor="middle" font-size="11"'))
                parts.append(text(left - 6, down + 4, str(count), 'text-anchor="end" font-size="11"'))
        parts.append(text(left + _WIDTH / 2, top + _HEIGHT + 32, "GPUs", 'text-anchor="middle" font-size="11"'))
        for line, colour, _ in LINES:
            points = sorted(found.get((model, scaling, line), {}).items())
            if points:
                places = [at(count, speed / one) for count, speed in points]
                parts.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="2"/>')
                parts += [
                    '<circle cx="{}" cy="{}" r="3.5" fill="{}"/>'.format(*place.split(","), colour) for place in places
                ]
    size = f'width="860" height="{80 + -(-len(measured) // 2) * (_HEIGHT + 70)}"'
    style = 'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="13"'
    return "\n".join([f"<svg {size} {style}>", '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "docs"
    (folder / "measured.svg").write_text(svg())
    (folder / "scaling.svg").write_text(scaling_svg())
