"""Write the table of functions in docs/elementwise.md: dtypes, errors, and speed by the newest results on a GPU.

python benchmarks/functions.py
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from test_elementwise import LIMITS  # noqa: E402

from numbacc.elementwise.gradients import DIFFERENTIABLE  # noqa: E402
from numbacc.elementwise.table import TABLE  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")
KINDS = {"f": "floats", "i": "integers", "b": "bool", "c": "complex"}
#: What has no rounding of its own.
EXACT = {"abs", "negative", "sign", "floor", "ceil", "trunc", "round", "relu", "relu6", "where", "maximum", "minimum"}
EXACT |= {"fmax", "fmin", "clamp", "copysign"}


def figures() -> dict[str, dict]:
    """Figures of the newest results, by name."""
    newest = sorted((ROOT / "benchmarks" / "results").glob("*-elementwise.json"))[-1]
    return {figure["name"]: figure for figure in json.loads(newest.read_text())["figures"]}


def lines() -> list[str]:
    """The table's lines."""
    found = figures()
    head = "| function | dtypes | gradient | ulp | copy's speed: float32, float16, bfloat16 | torch's time over ours |"
    table = [head, "|---|---|---|---|---|---|"]
    for name, entry in TABLE.items():
        kinds = ", ".join(told for kind, told in KINDS.items() if kind in entry.row.meanings)
        gradient = "yes" if name in DIFFERENTIABLE else ""
        ulp = "" if entry.row.rule == "bool" or "f" not in entry.row.meanings else str(LIMITS.get(name, 2))
        ulp = "0" if name in EXACT else ulp
        own = [next((f for k, f in found.items() if k.startswith(f"{name} {d}, 2^")), {}) for d in DTYPES]
        speed = " ".join(f"{f['bandwidth']:.2f}" if "bandwidth" in f else "-" for f in own)
        ratio = " ".join(f"{f['peers']['torch'] / f['ms']:.2f}" if "torch" in f.get("peers", {}) else "-" for f in own)
        measured = any("bandwidth" in f for f in own)
        cells = [f"`{name}`", kinds, gradient, ulp, speed if measured else "", ratio if re.search(r"\d", ratio) else ""]
        table.append(f"| {' | '.join(cells)} |")
    return table


def main() -> None:
    path = ROOT / "docs" / "elementwise.md"
    text = path.read_text()
    new = "<!-- table -->\n" + "\n".join(lines()) + "\n<!-- end -->"
    path.write_text(re.sub(r"<!-- table -->.*?<!-- end -->", lambda _: new, text, flags=re.DOTALL))


if __name__ == "__main__":
    main()
