"""Add new results to those in benchmarks/results: one file for each subject and GPU, the newest figure of each name.

Run as `python -m benchmarks.keep gated.json gated`: a file that `--json` wrote, and its subject. Figures that were not
measured again stay, and name the run that they are from.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .harness import as_json

RESULTS = Path(__file__).parent / "results"


def stored(subject: str, card: str, results: Path = RESULTS) -> Path | None:
    """Return the file of a subject and a card, such as "h200"."""
    return next(results.glob(f"????-??-??*-{card}-{subject}.json"), None)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the newest figure of each name, with the runs that they are from.

    Args:
        old, new: results, as `Report.write` writes them.
    """
    runs = [{key: value for key, value in old.items() if key not in ("earlier_runs", "figures")}]
    runs += old.get("earlier_runs", [])
    names = {figure["name"] for figure in new["figures"]}
    kept = [figure for figure in old["figures"] if figure["name"] not in names]
    # 0 is the old file's own run.
    run_of = [figure.get("earlier_run", -1) + 1 for figure in kept]
    used = sorted(set(run_of))
    head = {key: value for key, value in new.items() if key != "figures"}
    if used:
        head["earlier_runs"] = [runs[run] for run in used]
    earlier = [{**figure, "earlier_run": used.index(run)} for figure, run in zip(kept, run_of, strict=True)]
    return {**head, "figures": [*earlier, *new["figures"]]}


def keep(new: dict[str, Any], subject: str, results: Path = RESULTS) -> Path:
    """Write new results into the file of their subject and card, and return its path."""
    card = new["gpu"].split()[1].lower() if new["gpu"] else "cpu"
    path = stored(subject, card, results)
    everything = new if path is None else merged(json.loads(path.read_text()), new)
    day = new["date"]
    if path is not None and path.name.startswith(day):
        # Runs of one day have letters: none, b, c, ...
        letter = path.name.removeprefix(day).partition("-")[0] or "a"
        day += chr(ord(letter) + 1)
    target = results / f"{day}-{card}-{subject}.json"
    figures = everything.pop("figures")
    target.write_text(as_json(everything, figures))
    if path is not None:
        path.unlink()
    return target


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.keep", description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="results that --json wrote")
    known = sorted({re.split(r"-h\d+-", path.stem)[-1] for path in RESULTS.glob("*.json")})
    parser.add_argument("subject", help=f"the end of the file's name: {', '.join(known)}, or a new one")
    options = parser.parse_args(argv)
    print(keep(json.loads(options.file.read_text()), options.subject))


if __name__ == "__main__":
    main()
