"""The process that runs engines of attention: on a GPU; without one it asks cuDNN for plans of a GPU that is not there.

Results go into poisoned memory, and are compared with those of `attention_oracle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import numbacc
from numbacc import attention
from numbacc import cudnn as answers
from numbacc.attention.problem import EXTRAS, OPERANDS, AttentionProblem
from numbacc.attention.requests import Request
from numbacc.base.dispatch import has_gpu
from numbacc.errors import Error
from numbacc.libraries import cudnn as library
from numbacc.libraries import cudnn_plans
from numbacc.libraries.cudnn_descriptors import Site, describe
from numbacc.libraries.cudnn_search import algorithms
from numbacc.runtime import device as runtime
from numbacc_bindings.cudnn import CudnnError
from numbacc_bindings.errors import LibraryError

from .attention_cases import Case, cases
from .attention_oracle import Arrays, expected, judge
from .engines import engines, serve

#: How many settings of an engine's knobs are tried: each is compiled, which takes half a second or more.
_KNOBS = 2
#: The GPU that plans are asked for where there is none.
_ELSEWHERE = "H200"
_SEED, _OFFSET = 5, 8
#: How findings call the other engines, and other settings of the engine that calls choose.
NOT_CHOSEN = "not chosen"


def request_of(case: Case) -> Request:
    """A case as numbacc is asked for it."""
    more = {"return_stats": True} if case.direction == "forward" else {}
    function: Any = getattr(attention, case.direction)
    asked: Request = function.request(case.q, case.k, case.v, dtype=case.dtype, **{**more, **case.asked})
    return asked


def options_of(case: Case) -> dict[str, Any]:
    """The options of its calls; seed and offset apart."""
    known = (
        "mask",
        "scale",
        "dropout",
        "layout",
        "max_len_q",
        "max_len_kv",
        "deterministic",
        "bias_grad",
        "return_amax",
    )
    return {name: case.asked[name] for name in known if name in case.asked}


def drawn(case: Case, problem: AttentionProblem) -> Arrays:
    """The inputs in NumPy, but for what forward gives."""
    rng, found = np.random.default_rng(len(case.name)), {}
    for name, layout in problem.inputs.items():
        if name in ("seq_len_q", "seq_len_kv"):
            lengths = [pair[name == "seq_len_kv"] for pair in case.lengths]
            values: Any = np.cumsum([0, *lengths]) if problem.geometry.is_packed else np.array(lengths)
        elif name.startswith("page_table"):
            values = rng.permutation(problem.geometry.sheets)[: layout.size].reshape(layout.shape)
        elif name == "alibi":
            values = 2.0 ** -np.arange(1, layout.size + 1)
        else:
            values = rng.standard_normal(layout.shape)
        found[name] = values.astype(layout.dtype)
    return found | {name: np.array([number], np.float32) for name, number in case.scales.items()}


class Work:
    """A case on the GPU."""

    def __init__(self, case: Case):
        self.problem, self.case = request_of(case).problem, case
        self._random = {"seed": _SEED, "offset": _OFFSET} if self.problem.options.dropout else {}
        self.host = drawn(case, self.problem)
        self.device = self._put()
        if case.direction == "backward":
            given = self._forward(attention.forward, return_stats=True)
            self.host["o"], self.host["stats"] = (numbacc.asnumpy(each) for each in given)
            self.device = self._put()
        kept = numbacc.asnumpy(self._forward(attention.dropout_mask)) if self.problem.options.dropout else None
        self.wanted = expected(case, self.host, kept)

    def _put(self) -> Arrays:
        arrays = {name: numbacc.asarray(array) for name, array in self.host.items()}
        if self.case.together:
            rows = [self.host[name] for name in ("q", "k", "v")]
            whole = numbacc.asarray(np.concatenate(rows, axis=2))
            ends = np.cumsum([0, *(each.shape[2] for each in rows)]).tolist()
            for number, name in enumerate(("q", "k", "v")):
                arrays[name] = whole[:, :, ends[number] : ends[number + 1]]
        return arrays

    def _extras(self) -> Arrays:
        return {name: self.device[name] for name in EXTRAS if name in self.device}

    def _forward(self, function: Any, **more: Any) -> Any:
        """What a function of queries, keys and values gives."""
        options = {name: each for name, each in options_of(self.case).items() if name != "bias_grad"}
        rows = (self.device[name] for name in OPERANDS["forward"])
        return function(*rows, **self._extras(), **options, **self._random, **more)

    def run(self) -> tuple[Arrays, Any]:
        """The results, and what the plan says of itself."""
        poison = {name: np.full(layout.shape, np.nan, layout.dtype) for name, layout in self.problem.outputs.items()}
        outs, extras = tuple(numbacc.asarray(each) for each in poison.values()), self._extras()
        rows = [self.device[name] for name in OPERANDS[self.case.direction]]
        is_forward = self.case.direction == "forward"
        prepared: Any = attention.forward.plan if is_forward else attention.backward.plan
        more = {"return_stats": True} if is_forward else {}
        plan = prepared(*rows, **extras, **options_of(self.case), **more, out=outs)
        plan(*rows, **extras, **self._random, out=outs)
        return dict(zip(poison, (numbacc.asnumpy(each) for each in outs), strict=True)), plan.info


def findings(case: Case, skip: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What numbacc's choice and each other engine do with a case; the numbers in `skip` are left out."""
    if not has_gpu():
        yield planned(case)
        return
    record: dict[str, Any] = {"case": case.name, "number": 0, "engine": "engine chosen", "way": []}
    yield {**record, "finding": "begins"}
    attention.cache_clear()
    if 0 in skip:
        return
    work = Work(case)
    record = tried(work, record)
    yield record
    if record["finding"] == "failed" or "unfused" in record["engine"]:
        return
    # The graph of this very call was looked for last.
    key, first = algorithms.items()[-1]
    assert first is not None
    (graph,), site = key.graphs, Site(library._handles.get(0))
    known = algorithms.wrong(graph, key.version)
    with runtime.on_device(0):
        described = describe(graph, site)
    for number, configuration in enumerate(engines(described, site, _KNOBS), 1):
        if number in skip or str(configuration) == first.text:
            continue
        record = {
            "case": case.name,
            "number": number,
            "engine": str(configuration),
            "way": [NOT_CHOSEN],
            "known": configuration.engine in known,
        }
        yield {**record, "finding": "begins"}
        try:
            with runtime.on_device(0):
                algorithm = cudnn_plans.keep(configuration, cudnn_plans.build(configuration, site))
        except CudnnError as error:
            yield {**record, "finding": "refused", "detail": str(error)[-200:]}
            continue
        attention.cache_clear()
        algorithms.put(key, algorithm)
        yield tried(work, record)


def tried(work: Work, record: dict[str, Any]) -> dict[str, Any]:
    """What came of running a case twice."""
    try:
        (first, info), (again, _) = work.run(), work.run()
    except (Error, LibraryError) as error:
        return {**record, "finding": "failed", "detail": str(error)[-200:]}
    right, over = judge(work.wanted, first)
    if record["number"] == 0:
        record = {**record, "engine": info.algorithm}
    if info.deterministic and any(first[name].tobytes() != again[name].tobytes() for name in first):
        record = {**record, "unstable": True}
    return {**record, "finding": "right" if right else "wrong", "detail": f"{over:.3g} of what is allowed"}


def planned(case: Case) -> dict[str, Any]:
    """What cuDNN says of a case for a GPU that is not there."""
    found = answers.supports(request_of(case), _ELSEWHERE)
    record = {"case": case.name, "number": 0, "way": [], "engine": found.engine or "engine none"}
    detail = f"{found.workspace_bytes} bytes of workspace" if found else found.reason[-200:]
    return {**record, "finding": "planned" if found else "no plan", "detail": detail}


if __name__ == "__main__":
    serve(cases(), findings)
