"""Write the table of functions in docs/elementwise.md: dtypes, errors, and speed by the newest results on a GPU.

Run as `python -m benchmarks.functions`, after results were added. A test compares.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / name) for name in ("support", "oracles")]

from elementwise_cases import LIMITS  # noqa: E402

from numbacc import elementwise  # noqa: E402
from numbacc.elementwise.gradients import DIFFERENTIABLE  # noqa: E402
from numbacc.elementwise.rows import TABLE  # noqa: E402

DTYPES = ("float32", "float16", "bfloat16")
#: Those of the measured errors.
PRECISIONS = ("float32", "float64", "float16", "bfloat16")
KINDS = {"f": "floats", "i": "integers", "b": "bool", "c": "complex"}
#: What has no rounding of its own.
EXACT = {"abs", "negative", "sign", "floor", "ceil", "trunc", "round", "relu", "relu6", "where", "maximum", "minimum"}
EXACT |= {"fmax", "fmin", "clamp", "copysign", "nextafter"}
RESULTS = ROOT / "benchmarks" / "results"


def figures(subject: str, results: Path = RESULTS) -> dict[str, dict]:
    """Figures of a subject by name, each of the newest results that have it."""
    found = {}
    for path in sorted(results.glob(f"*-{subject}.json")):
        found |= {figure["name"]: figure for figure in json.loads(path.read_text())["figures"]}
    return found


def _error(name: str, measured: dict[str, dict]) -> str:
    """The largest errors that were measured, by dtype; where none were, what tests allow in float32."""
    if measured:
        own = [measured.get(f"{name} {dtype}") for dtype in PRECISIONS]
        return " ".join("-" if each is None else f"{each['ulp']:.3g}" for each in own) if any(own) else ""
    entry = TABLE[name]
    if entry.row.rule == "bool" or "f" not in entry.row.meanings:
        return ""
    return "0" if name in EXACT else str(LIMITS.get(name, 2))


def _told(measured: dict[str, dict]) -> list[str]:
    """What the column of errors has."""
    if not measured:
        return ["Errors are what tests allow of kernels in float32.", ""]
    count = max(figure["count"] for figure in measured.values())
    more = [name for name, figure in measured.items() if not figure.get("holds", True)]
    told = f"Errors are the largest of up to {count:,} values of a function, and of all 65,536 values of 16 bits."
    beyond = f" Above the target: {', '.join(f'`{name}`' for name in more)}." if more else ""
    return [told + beyond, ""]


#: Arguments that all functions have: the page gives the complete signatures.
COMMON = ("return_saved", "out", "where", "stream")


def taken(name: str) -> inspect.Signature:
    """What a function takes that is its own."""
    own = inspect.signature(getattr(elementwise, name)).parameters.values()
    kept = [each for each in own if each.name not in COMMON and each.kind is not each.VAR_KEYWORD]
    return inspect.Signature([each.replace(annotation=each.empty) for each in kept])


def lines(results: Path = RESULTS) -> list[str]:
    """The table's lines, and what is said of it."""
    found, measured = figures("elementwise", results), figures("ulp", results)
    errors = f"error in ulp{': ' + ', '.join(PRECISIONS) if measured else ''}"
    speeds = f"speed relative to a copy: {', '.join(DTYPES)}"
    head = f"| function | dtypes | gradient | {errors} | {speeds} | torch's time / numbacc's |"
    table = [*_told(measured), head, "|---|---|---|---|---|---|"]
    for name, entry in TABLE.items():
        kinds = ", ".join(told for kind, told in KINDS.items() if kind in entry.row.meanings)
        gradient = "yes" if name in DIFFERENTIABLE else ""
        own = [next((f for k, f in found.items() if k.startswith(f"{name} {d}, 2^")), {}) for d in DTYPES]
        speed = " ".join(f"{f['bandwidth']:.2f}" if "bandwidth" in f else "-" for f in own)
        ratio = " ".join(f"{f['peers']['torch'] / f['ms']:.2f}" if "torch" in f.get("peers", {}) else "-" for f in own)
        told = any("bandwidth" in f for f in own)
        cells = [f"`{name}{taken(name)}`", kinds, gradient, _error(name, measured), speed if told else ""]
        table.append(f"| {' | '.join([*cells, ratio if re.search(r'[0-9]', ratio) else ''])} |")
    return table


def written(text: str, results: Path = RESULTS) -> str:
    """The page with the table of the results."""
    new = "<!-- table -->\n" + "\n".join(lines(results)) + "\n<!-- end -->"
    return re.sub(r"<!-- table -->.*?<!-- end -->", lambda _: new, text, flags=re.DOTALL)


def main() -> None:
    path = ROOT / "docs" / "elementwise.md"
    path.write_text(written(path.read_text()))


if __name__ == "__main__":
    main()
