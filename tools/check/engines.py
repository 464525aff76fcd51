"""The parts that both workers share: the engines of a graph, and how a worker reports its findings."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from numbacc.libraries import cudnn_plans
from numbacc.libraries.cudnn_descriptors import Descriptor, Site
from numbacc.runtime import device as runtime
from numbacc_bindings.cudnn import HeurMode
from numbacc_bindings.errors import LibraryError

Findings = Callable[[Any, Sequence[int]], Iterator[dict[str, Any]]]


def engines(described: Descriptor, site: Site, most: int) -> Iterator[cudnn_plans.Configuration]:
    """Every engine of a graph, each with at most so many settings of its knobs: those by default, then those that the
    heuristics propose first. A heuristic may propose one engine with dozens of tiles.
    """
    with runtime.on_device(0):
        every = list(cudnn_plans.all_engines(described, site))
        for mode in (HeurMode.A, HeurMode.FALLBACK, HeurMode.B):
            every += cudnn_plans.proposals(described, site, mode)
    tried = Counter[int]()
    for configuration in {(each.engine, each.knobs): each for each in every}.values():
        tried[configuration.engine] += 1
        if tried[configuration.engine] <= most:
            yield configuration


def is_gone() -> bool:
    """Whether nothing runs on the GPU any more, after a kernel that read what is not there."""
    try:
        runtime.synchronize(0, 0)
    except LibraryError:
        return True
    return False


def serve(cases: Iterable[Any], findings: Findings) -> None:
    """Run the cases that standard input names, and print the findings, one line of JSON each.

    Args:
        cases: all of them, each with a name; asked for are those named, and for some the numbers of engines that are
            to be left out.
        findings: what each engine does with a case, but for those numbers.
    """
    asked = json.load(sys.stdin)
    wanted, deadline = set(asked["cases"]), time.monotonic() + asked["seconds"]
    for case in cases:
        if case.name in wanted and time.monotonic() < deadline:
            for record in findings(case, asked["skip"].get(case.name, ())):
                print(json.dumps(record), flush=True)
                if record["finding"] == "failed" and is_gone():
                    sys.exit(1)  # another process goes on
            print(json.dumps({"case": case.name, "finding": "case done"}), flush=True)
