"""The process that runs engines of attention: on a GPU; without one it asks cuDNN for plans of a GPU that is not there.

Results go into poisoned memory, and are compared with float64, which has the softmax from `numbacc.reference`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import numbacc
from numbacc_bindings.cudnn import CudnnError
from numbacc_bindings.errors import LibraryError

from .. import attention
from .. import cudnn as answers
from ..attention.geometry import LAYOUTS
from ..attention.problem import EXTRAS, OPERANDS, Problem
from ..attention.requests import Request
from ..base.dispatch import has_gpu
from ..device import runtime
from ..errors import Error
from ..libraries import cudnn as library
from ..libraries import cudnn_plans
from ..libraries.cudnn_descriptors import Site, describe
from ..libraries.cudnn_search import algorithms
from ..reference import attention as reference
from .attention_cases import Case, cases
from .engines import engines, tell

#: How many settings of an engine's knobs are tried: each is compiled, which takes half a second or more.
_KNOBS = 2
#: The GPU that plans are asked for where there is none.
_ELSEWHERE = "H200"
_SEED, _OFFSET = 5, 8

Arrays = dict[str, Any]


class Expected(NamedTuple):
    """A result, and the scale at which its errors are counted: the sum of the magnitudes that it is added up from."""

    value: Any
    scale: Any


def request_of(case: Case) -> Request:
    """A case as numbacc is asked for it."""
    return attention.request(case.q, case.k, case.v, dtype=case.dtype, **case.asked)


def options_of(case: Case) -> dict[str, Any]:
    """The options of its calls; seed and offset apart."""
    known = ("mask", "dropout", "layout", "max_len_q", "max_len_kv", "deterministic", "bias_grad")
    return {name: case.asked[name] for name in known if name in case.asked}


def drawn(case: Case, problem: Problem) -> Arrays:
    """The inputs in NumPy, but for what forward gives."""
    rng, found = np.random.default_rng(len(case.name)), {}
    for name, lies in problem.inputs.items():
        if name in ("seq_len_q", "seq_len_kv"):
            lengths = [pair[name == "seq_len_kv"] for pair in case.lengths]
            values: Any = np.cumsum([0, *lengths]) if problem.geometry.is_packed else np.array(lengths)
        elif name.startswith("page_table"):
            values = rng.permutation(problem.geometry.sheets)[: lies.size].reshape(lies.shape)
        elif name == "alibi":
            values = 2.0 ** -np.arange(1, lies.size + 1)
        else:
            values = rng.standard_normal(lies.shape)
        found[name] = values.astype(lies.dtype)
    return found


def sequences(problem: Problem, host: Arrays, name: str, array: Any) -> Any:
    """An array as (batch, heads, sequence, elements), in float64."""
    geometry = problem.geometry
    of_queries = name in ("q", "do", "o", "out", "dq")
    if geometry.is_packed:
        starts = host["seq_len_q" if of_queries else "seq_len_kv"]
        found = reference.padded(array, starts, geometry.queries if of_queries else geometry.keys)
    else:
        found = array.transpose(LAYOUTS[geometry.layout])
        if geometry.page and not of_queries:
            found = reference.gathered(found, host[f"page_table_{name}"], host["seq_len_kv"])
    return found.astype(np.float64)


def expected(problem: Problem, host: Arrays, kept: Any = None) -> dict[str, Expected]:
    """All results by name, in float64, queries and keys as `sequences` has them.

    Args:
        host: the inputs; gradients, if o is among them.
        kept: what dropout keeps.
    """
    geometry = problem.geometry
    rows = {name: sequences(problem, host, name, host[name]) for name in ("q", "k", "v", "do", "o") if name in host}
    queries, keys = host.get("seq_len_q"), host.get("seq_len_kv")
    if geometry.is_packed:
        queries, keys = np.diff(host["seq_len_q"]), np.diff(host["seq_len_kv"])
    bias = host.get("bias")
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape).astype(np.float64)
    how = reference.Scores(problem.scale, problem.band, bias, host.get("alibi"), queries, keys)
    # Of values that are the rows of a unit matrix the output is the softmax.
    unit = np.broadcast_to(np.eye(geometry.keys), (geometry.batch, geometry.heads_kv, geometry.keys, geometry.keys))
    p, stats = reference.forward(rows["q"], rows["k"], unit, how)
    m = 1.0 if kept is None else kept / (1.0 - problem.options.dropout)
    k, v = (np.repeat(rows[name], geometry.group, axis=1) for name in ("k", "v"))
    if "o" not in rows:
        return {"out": Expected(p * m @ v, p * m @ np.abs(v)), "stats": Expected(stats, 1 + np.abs(stats))}

    def shared(array: Any) -> Any:
        return array.reshape(geometry.batch, geometry.heads_kv, geometry.group, *array.shape[2:]).sum(axis=2)

    def gradients(q: Any, k: Any, do: Any, ds: Any, factor: float) -> dict[str, Any]:
        turned = ds.swapaxes(2, 3)
        return {
            "dq": factor * (ds @ k),
            "dk": factor * shared(turned @ q),
            "dv": shared((p * m).swapaxes(2, 3) @ do),
        }

    q, do, o = rows["q"], rows["do"], rows["o"]
    ds = p * (m * (do @ v.swapaxes(2, 3)) - (do * o).sum(-1, keepdims=True))
    size = p * (m * (np.abs(do) @ np.abs(v).swapaxes(2, 3)) + np.abs(do * o).sum(-1, keepdims=True))
    values = gradients(q, k, do, ds, problem.scale)
    scales = gradients(np.abs(q), np.abs(k), np.abs(do), size, abs(problem.scale))
    if problem.options.bias_grad:
        assert bias is not None
        axes = tuple(axis for axis, n in enumerate(bias.shape) if n == 1)
        values["dbias"], scales["dbias"] = (each.sum(axis=axes, keepdims=True) for each in (ds, size))
    return {name: Expected(values[name], scales[name]) for name in values}


def judge(problem: Problem, host: Arrays, wanted: dict[str, Expected], found: Arrays) -> tuple[bool, float]:
    """(whether results are right, their largest error over what is allowed).

    Allowed is what roundings may make: of the weights and their gradients between the products, of what heads that
    share a key add, of the result.
    """
    worst = 0.0
    unit = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[problem.dtype.name]
    for name, (value, scale) in wanted.items():
        if name == "stats":
            wide, allowed = found[name].astype(np.float64), 1e-4 * scale
        else:
            is_bias = name == "dbias"
            wide = found[name].astype(np.float64) if is_bias else sequences(problem, host, name, found[name])
            wide = wide.reshape(value.shape)
            # float16 has no exponents below that.
            least = 2.0**-24 * problem.geometry.keys if problem.dtype.name == "float16" else 1e-30
            allowed = 4 * unit * scale + np.where(scale > 0, least, 1e-30)
        none = np.isneginf(value)
        if not np.isfinite(wide[~none]).all() or not np.array_equal(np.isneginf(wide), none):
            return False, math.inf
        off = np.abs(np.where(none, 0, wide) - np.where(none, 0, value)) / np.where(none, 1, allowed)
        worst = max(worst, float(off.max(initial=0)))
    return worst <= 1, worst


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
        self.wanted = expected(self.problem, self.host, kept)

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
        poison = {name: np.full(lies.shape, np.nan, lies.dtype) for name, lies in self.problem.outputs.items()}
        outs, extras = tuple(numbacc.asarray(each) for each in poison.values()), self._extras()
        rows = [self.device[name] for name in OPERANDS[self.case.direction]]
        is_forward = self.case.direction == "forward"
        prepared: Any = attention.forward_plan if is_forward else attention.backward_plan
        more = {"return_stats": True} if is_forward else {}
        plan = prepared(*rows, **extras, **options_of(self.case), **more, out=outs)
        plan(*rows, **extras, **self._random, out=outs)
        return dict(zip(poison, (numbacc.asnumpy(each) for each in outs), strict=True)), plan.info


def findings(case: Case, skip: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What numbacc's choice and each other engine do with a case; the numbers in `skip` are left out."""
    if not has_gpu():
        yield planned(case)
        return
    told: dict[str, Any] = {"case": case.name, "number": 0, "engine": "engine chosen", "way": []}
    yield {**told, "finding": "begins"}
    attention.cache_clear()
    if 0 in skip:
        return
    work = Work(case)
    told = tried(work, told)
    yield told
    if told["finding"] == "failed" or "unfused" in told["engine"]:
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
        told = {
            "case": case.name,
            "number": number,
            "engine": str(configuration),
            "way": [],
            "known": configuration.engine in known,
        }
        yield {**told, "finding": "begins"}
        try:
            with runtime.on_device(0):
                algorithm = cudnn_plans.keep(configuration, cudnn_plans.build(configuration, site))
        except CudnnError as error:
            yield {**told, "finding": "refused", "detail": str(error)[-200:]}
            continue
        attention.cache_clear()
        algorithms.put(key, algorithm)
        yield tried(work, told)


def tried(work: Work, told: dict[str, Any]) -> dict[str, Any]:
    """What came of running a case twice."""
    try:
        (first, info), (again, _) = work.run(), work.run()
    except (Error, LibraryError) as error:
        return {**told, "finding": "failed", "detail": str(error)[-200:]}
    right, over = judge(work.problem, work.host, work.wanted, first)
    if told["number"] == 0:
        told = {**told, "engine": info.algorithm}
    if info.deterministic and any(first[name].tobytes() != again[name].tobytes() for name in first):
        told = {**told, "unstable": True}
    return {**told, "finding": "right" if right else "wrong", "detail": f"{over:.3g} of what is allowed"}


def planned(case: Case) -> dict[str, Any]:
    """What cuDNN says of a case for a GPU that is not there."""
    found = answers.supports(request_of(case), _ELSEWHERE)
    told = {"case": case.name, "number": 0, "way": [], "engine": found.engine or "engine none"}
    detail = f"{found.workspace_bytes} bytes of workspace" if found else found.reason[-200:]
    return {**told, "finding": "planned" if found else "no plan", "detail": detail}


if __name__ == "__main__":
    tell(cases(), findings)
