"""Draws docs/measured.svg from the newest results: the time that others take, over numbacc's, on the same work.

Run as `python -m benchmarks.plot`, after results were added. A test draws it again and compares.
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


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "docs" / "measured.svg"
    target.write_text(svg())
