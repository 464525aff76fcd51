"""`python -m tools.check`: its cases, and what it calls right. Engines run on a GPU only."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from cudnn_cases import need_planning
from paths import ROOT
from skips import skip, skip_if

import numbacc
from numbacc.base.attention_band import Band
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.conv.lowering import Way, lower, ways
from numbacc.conv.plans import ConvPlan
from numbacc.libraries.cudnn_rules import nan_lost
from numbacc.libraries.cudnn_search import algorithms
from numbacc.reference import attention as reference
from tools.check import __main__ as check
from tools.check import attention_worker
from tools.check import conv_worker as worker
from tools.check.__main__ import main, names, summary
from tools.check.attention_cases import cases as attention_cases
from tools.check.attention_oracle import judge as judge_attention
from tools.check.conv_cases import DTYPES, MEMORY_LAYOUTS, activation_cases, cases, nan_cases, overflow_cases
from tools.check.conv_worker import _numbacc_attempts, judge, judge_nan, prepare, request_of

pytestmark = skip_if(simulated(), "not simulated")
CASES, ATTENTION = list(cases()), list(attention_cases())
RESULTS = ROOT / "benchmarks" / "checks"
PLAIN = Way(False, False)
ACTIVATION, NAN, OVERFLOW = list(activation_cases()), list(nan_cases()), list(overflow_cases())


def test_cases_have_names_of_their_own():
    assert len({case.name for case in CASES}) == len(CASES)
    assert names("conv") == [case.name for case in CASES]
    # A worker knows a case by its name, whatever is checked.
    every = [*CASES, *ACTIVATION, *NAN, *OVERFLOW]
    assert len({case.name for case in every}) == len(every)
    only = names("conv", ["depthwise"])
    assert only and all("depthwise" in name for name in only) and len(only) < len(CASES)
    more = names("conv", ["depthwise", "3-d"])
    assert set(only) < set(more) and all("depthwise" in name or "3-d" in name for name in more)


def test_parts_are_all_together():
    parts = [names("conv", part=(k, 7)) for k in range(1, 8)]
    assert sorted(name for part in parts for name in part) == sorted(names("conv"))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    for wrong in ("0/3", "4/3", "1", "a/b"):
        with pytest.raises(SystemExit):
            main(["conv", "--part", wrong])


def test_what_calls_run_is_checked_too():
    """Beside engines: what is around them, int8's other ways, gradients as convolutions, Fourier transforms."""

    def ours(name):
        (case,) = [case for case in CASES if case.name == name]
        return [attempt.record["engine"] for attempt in _numbacc_attempts(prepare(case), case)]

    assert ours("forward 2-d NHWC float16 relu") == ["numbacc"]
    for dtype in ("float32", "float32_fft", "tf32"):
        assert ours(f"backward_data 2-d NCHW {dtype}") == ["numbacc", "numbacc as a convolution"]
    assert ours("backward_data 2-d strided NCHW float32") == ["numbacc"]
    for out in ("int32", "float32"):
        for epilogue in ("", " bias", " relu"):
            assert ours(f"forward 2-d NHWC int8 {out}{epilogue}") == ["numbacc", "numbacc by floats"]
    engines = [case for case in CASES if not (case.has_engines or case.memory_layout)]
    assert {case.dtype for case in engines} == {"float32_fft", "int8"} and len(engines) < 100


@pytest.mark.parametrize("case", CASES[::13], ids=lambda case: case.name)
def test_a_rounded_result_is_right_and_a_wrong_one_is_not(case):
    arrays = prepare(case)
    found = arrays.wanted[False].astype(arrays.problem.out.dtype)
    right, over = judge(arrays, found, PLAIN, frozenset())
    assert right and over <= 1
    for wrong in (np.zeros_like(found), np.roll(found, 1), -found):
        assert not judge(arrays, wrong, PLAIN, frozenset())[0]
    if found.dtype.kind != "i":
        found.flat[-1] = np.nan  # what was not written
        assert not judge(arrays, found, PLAIN, frozenset())[0]


@pytest.mark.parametrize("memory_layout", MEMORY_LAYOUTS)
@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_operands_that_lie_otherwise(named, direction, memory_layout):
    """As is said, in memory that belongs to nobody else, and never as an engine gets them."""
    (case,) = [case for case in CASES if case.name == f"{direction} 2-d {named} float16 {memory_layout}"]
    call, how = request_of(case).problem.call, MEMORY_LAYOUTS[memory_layout]
    arrays, offsets = (call.a, call.b, call.out), worker._offsets(case, request_of(case).problem)
    kernels = {"forward": 1, "backward_data": 1, "backward_filter": 2}[direction]
    for number, (array, offset) in enumerate(zip(arrays, offsets, strict=True)):
        is_meant = how.which in ("all", "kernels" if number == kernels else "images")
        assert offset == how.offset * is_meant
        is_dense = array.high - array.low == array.size * 2
        assert is_dense is not bool(how.gap and is_meant)
        order = [named[k] for k in np.argsort([-step for step in array.strides])]
        if not is_meant or not how.order:
            assert order == list(named)
        else:
            ahead = how.order.replace("P", "HW")
            assert order == [*ahead, *(axis for axis in named if axis not in ahead)]
    is_own = how.order == ("NPC" if named == "NHWC" else "NC") and not how.offset
    assert any(ConvPlan(call)._key([2 * each for each in offsets])) is bool(how.offset)
    found = lower(request_of(case).problem, PLAIN, [not each for each in offsets])
    assert bool(found.copies) is not is_own


def test_every_direction_and_dtype_is_checked_wherever_operands_lie():
    kinds = {(case.direction, case.dtype, case.memory_layout) for case in CASES if case.memory_layout}
    dtypes = [dtype for dtype in DTYPES if dtype != "float32_fft"]
    every = product(("forward", "backward_data", "backward_filter"), dtypes, MEMORY_LAYOUTS)
    assert kinds == {kind for kind in every if kind[:2] == ("forward", "int8") or kind[1] != "int8"}


def test_an_overflow_that_is_no_infinity_is_wrong():
    """Nor is NaN one; what is about as large as the largest number may be either."""
    case = next(case for case in OVERFLOW if case.direction == "forward")
    arrays = prepare(case)
    wanted = arrays.wanted[False]
    assert (np.abs(wanted) > 66000).mean() > 0.2 and (np.abs(wanted) < 60000).mean() > 0.2
    with np.errstate(over="ignore"):
        found = wanted.astype(np.float16)
    assert judge(arrays, found, PLAIN, frozenset())[0]
    (beyond, *_), (within, *_) = (np.flatnonzero(each) for each in (np.abs(wanted) > 70000, np.abs(wanted) < 60000))
    opposite = -np.sign(wanted.flat[beyond]) * np.inf
    wrongs = [(beyond, wrong) for wrong in (0, np.nan, 65504, opposite)]
    for place, wrong in (*wrongs, (within, np.inf)):
        other = found.copy()
        other.flat[place] = wrong
        assert not judge(arrays, other, PLAIN, frozenset())[0]


@pytest.mark.parametrize("direction", ["forward", "backward_data", "backward_filter"])
@pytest.mark.parametrize("named", ["NCHW", "NHWC"])
def test_what_reaches_other_groups_is_told_from_what_does_not(named, direction):
    (case,) = [case for case in NAN if case.name == f"{direction} nan 2-d groups of four {named} float16"]
    arrays = prepare(case)
    found = arrays.wanted[False].astype(np.float16)
    assert judge_nan(arrays, found, PLAIN)[0] == "kept"
    axis = 0 if direction == "backward_filter" else named.index("C")
    found = np.moveaxis(found, axis, 0)
    group = len(found) // 8
    spoilt = int(np.flatnonzero(np.isnan(found).reshape(len(found), -1).any(1))[0]) // group
    for where, finding in ((spoilt, "spread"), ((spoilt + 1) % 8, "leaked")):
        other = found.copy()
        other[where * group, np.isfinite(other[where * group])] = np.nan
        assert judge_nan(arrays, np.moveaxis(other, 0, axis), PLAIN)[0] == finding


def ways_of(case, rough=False):
    """The graphs of a convolution by what is fused; of what calls take, or with what is not exact enough for them."""
    problem = request_of(case).problem
    return {
        "+".join(name for name, is_done in way._asdict().items() if is_done): lower(
            problem, way, (True,) * (len(problem.inputs) + 1)
        ).graphs[0]
        for way in ways(problem, rough=rough)
    }


GRAPHS = {
    "conv": (CASES, ways_of),
    "activations": (ACTIVATION, ways_of),
    "nan": (NAN, ways_of),
    "overflow": (OVERFLOW, ways_of),
    "attention": (
        ATTENTION,
        lambda case: dict.fromkeys(("", attention_worker.NOT_CHOSEN), attention_worker.request_of(case).graphs()[0]),
    ),
}
#: What is wrong in settings that no call takes: see docs/attention.md.
UNTAKEN = {
    "conv": [],
    "activations": [],
    "nan": [],
    "overflow": [],
    "attention": [
        "forward float8_e5m2 causal, two queries: not chosen 2",
        "forward float8_e5m2 causal, one key: not chosen 2",
    ],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("subject", sorted({path.stem.rpartition("-")[2] for path in RESULTS.glob("*.json")}))
def test_what_was_found_wrong_is_not_taken(subject):
    """The newest committed findings of each case and the table of wrong engines say the same."""
    found, (all_cases, graphs_of) = {}, GRAPHS[subject]
    for path in sorted(RESULTS.glob(f"*-{subject}.json")):
        found |= check.findings(path)
    assert not {case.name for case in all_cases} - set(found)
    taken = []
    for case in all_cases:
        graphs = graphs_of(case)
        known = {way: algorithms.wrong(graph, 91900) for way, graph in graphs.items()}
        for key, finding in found[case.name].items():
            way, _, engine = key.rpartition(" ")
            if finding.startswith(("right", "refused", "kept", "spread")):
                continue
            is_engine = engine.isdigit()  # our own kernels have no number
            if is_engine and way not in graphs:
                assert way in ways_of(case, rough=True)
            elif finding.startswith(("lost", "leaked")):  # NaN: an engine is taken all the same, and its plan tells
                is_known = is_engine and (int(engine) in known[way] or nan_lost(graphs[way], int(engine)))
                assert is_known or not is_engine, (case.name, key)
            elif not (is_engine and int(engine) in known[way]):
                taken.append(f"{case.name}: {key}")
    assert taken == UNTAKEN[subject]


def test_the_table_of_what_attention_s_check_found():
    """In the docs, out of the latest findings; what is wrong has a line of its own."""
    findings = check.findings(sorted(RESULTS.glob("*-attention.json"))[-1])
    rows = {}
    for case, engines in findings.items():
        direction, dtype = case.split()[:2]
        floats = "8 bits" if dtype.startswith("float8") else "16 bits"
        for engine, finding in engines.items():
            name, _, error = finding.partition(" ")
            if name != "refused":
                wrong = "" if name == "right" else f", {name}"
                rows.setdefault((direction, floats, engine + wrong), []).append(float(error) if not wrong else np.inf)
    lines = [f"| {' | '.join(key)} | {len(errors)} | {max(errors):.2f} |" for key, errors in sorted(rows.items())]
    text = (RESULTS.parents[1] / "docs" / "cudnn-faults.md").read_text()
    table = text.split("<!-- check -->\n")[1].split("\n<!-- end -->")[0].splitlines()
    assert table[2:] == lines, "\n".join(lines)


# ---------------------------------------------------------------- attention


def test_cases_of_attention_have_names_of_their_own():
    assert len({case.name for case in ATTENTION}) == len(ATTENTION)
    assert names("attention", ["dropout"]) == [case.name for case in ATTENTION if "dropout" in case.name]
    asked = [attention_worker.request_of(case) for case in ATTENTION]
    assert all(len(each.graphs()) == 1 for each in asked)
    assert {each.problem.call.direction for each in asked} == {"forward", "backward"}


def kind_of(case):
    """A case's name without direction, dtype and mask."""
    return case.name.partition(", ")[2]


#: A case of every kind.
KINDS = list({(kind_of(case), case.direction, case.dtype[:6]): case for case in ATTENTION}.values())


@pytest.mark.parametrize(
    "case", [each for each in KINDS if "vectors" not in each.name][::3], ids=lambda case: case.name
)
def test_attention_that_is_right_is_called_so_and_what_is_wrong_is_not(case):
    """NumPy's 16-bit results, which whole matrices in float64 agree with."""
    if has_gpu():
        skip("no gpu")
    work = attention_worker.Work(case)
    found, _ = work.run()

    def judged(**changed):
        return judge_attention(work.wanted, {**found, **changed})

    right, over = judged()
    assert right and 0 < over <= 1
    for name in work.wanted:
        spoilt = found[name].copy()
        # One key that is seen has all weight, whatever the query, and a row's slopes add up to 0.
        is_nothing = np.abs(spoilt.astype(np.float64)).max() < 2**-4
        if name == "stats" or (is_nothing and name in ("dq", "dk", "dbias")):
            continue
        place = np.unravel_index(np.abs(spoilt.astype(np.float64)).argmax(), spoilt.shape)
        # Of two keys and many queries sums may be off by as much as they are.
        largest, (value, allowed) = float(spoilt[place]), work.wanted[name]
        is_loose = abs(value[place]) < 2 * np.broadcast_to(allowed, value.shape)[place]
        for wrong in (np.nan, -9 * largest if is_loose else 0):
            spoilt[place] = wrong
            assert not judged(**{name: spoilt})[0], (name, wrong)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn"])
def test_a_mistake_of_the_reference_is_seen(dtype, monkeypatch):
    """The oracle is not made of it."""
    if has_gpu():
        skip("no gpu")
    (case,) = [each for each in ATTENTION if each.name == f"forward {dtype} causal window"]
    found, _ = attention_worker.Work(case).run()
    masked = reference._masked
    monkeypatch.setattr(reference, "_masked", lambda *given: masked(*given[:-1], given[-1]._replace(band=Band(-41, 0))))
    work = attention_worker.Work(case)
    assert judge_attention(work.wanted, found)[0] and not judge_attention(work.wanted, work.run()[0])[0]


def test_a_statistic_that_is_not_told_is_seen():
    if has_gpu():
        skip("no gpu")
    (case,) = [each for each in ATTENTION if each.name == "forward float16 full, no keys"]
    work = attention_worker.Work(case)
    found, _ = work.run()
    stats = found["stats"].copy()
    assert np.isneginf(stats).any() and judge_attention(work.wanted, found)[0]
    stats[np.isneginf(stats)] = np.nan
    assert not judge_attention(work.wanted, {**found, "stats": stats})[0]


@skip_if(has_gpu(), "no gpu")
def test_attention_is_planned_without_a_gpu(capsys, tmp_path):
    need_planning()
    name, report = "forward bfloat16 bottom right, pages of 64, 1 queries", tmp_path / "report.json"
    assert main(["attention", "--only", name, "--workers", "1", "--json", str(report)]) == 0
    told = capsys.readouterr().out
    assert "there is no GPU" in told and "1 planned" in told
    about, (case, engines) = json.loads(report.read_text()).items()
    day, version = time.strptime(about[1].pop("date"), "%Y-%m-%d"), about[1].pop("cudnn")
    assert day.tm_year > 2025 and version >= 90800
    assert about == ("about", {"subject": "attention", "gpu": None, "numbacc": numbacc.__version__})
    assert case == name and check.findings(report) == {name: engines}


class Ended:
    """A worker that has told findings of its first case, and ended with a status; `tells` are those of one after the
    other, the last of which say the same again."""

    def __init__(self, tells, most=5):
        self.tells, self.given, self.most = list(tells), [], most

    def __call__(self, command, **pipes):
        self.stdin = SimpleNamespace(write=lambda text: self.given.append(json.loads(text)), close=lambda: None)
        assert len(self.given) < self.most
        finding, self.returncode = self.tells.pop(0) if len(self.tells) > 1 else self.tells[0]
        self.stdout = map(json.dumps, self.told(finding))
        return nullcontext(self)

    def told(self, finding):
        """What it tells of: the first engine, and the next that is not to be left out."""
        skipped = self.given[-1]["skip"].get("a", [])
        first, other = (
            {"case": "a", "number": number, "engine": f"engine {number}", "way": [], "detail": ""}
            for number in (0, 1 + len(skipped))
        )
        yield {**first, "finding": "right"}
        yield {**other, "finding": "begins"}
        yield {**other, "finding": finding}
        if not self.returncode:
            yield {"case": "a", "finding": "case done"}

    def wait(self):
        pass


@pytest.mark.parametrize(
    "tells, skipped",
    [
        ([("right", 0)], [[]]),
        ([("right", 1)], [[]]),  # it would end in the same way again
        ([("failed", 1), ("right", 0)], [[], [1]]),
        ([("failed", 1), ("right", 1)], [[], [1]]),
    ],
)
def test_another_worker_goes_on_where_one_has_failed(monkeypatch, tells, skipped):
    worker = Ended(tells)
    monkeypatch.setattr(check.subprocess, "Popen", worker)
    found = check._run_worker("worker", ["a"], time.monotonic() + 60)
    # The first engine, which each tells of, once.
    assert [each["finding"] for each in found] == ["right", *(finding for finding, _ in tells)]
    assert [each["skip"].get("a", []) for each in worker.given] == skipped


def test_the_worst_of_an_engine_is_told():
    def line(engine, finding, detail, way=()):
        return {"case": "a", "engine": engine, "way": list(way), "finding": finding, "detail": detail}

    found = [
        line("engine 2, tile_size=1", "right", "0.5 of what is allowed"),
        line("engine 2, tile_size=2", "wrong", "3 of what is allowed"),
        line("engine 2", "wrong", "inf of what is allowed"),
        line("engine 3", "right", "0.25 of what is allowed"),
        line("engine 3", "right", "0.5 of what is allowed"),
        line("engine 3", "failed", "no", way=("bias",)),
        line("engine 4, tile_size=1", "lost", "2 of 9"),
        line("engine 4", "kept", "9"),
    ]
    told = {"2": "wrong inf", "3": "right 0.5", "bias 3": "failed no", "4": "lost 2 of 9"}
    assert summary(found) == {"a": told}


@skip_if(has_gpu(), "no gpu")
def test_the_command_says_that_it_needs_a_gpu(capsys):
    assert main(["conv"]) == 1
    assert "needs a GPU" in capsys.readouterr().out
