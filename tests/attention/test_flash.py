"""Attention with score and mask functions by numbacc's flash kernels: public calls.

Hopper runs kernels with wgmma. Here it also runs those with mma.sync, which other GPUs run.
"""

from __future__ import annotations

import math

import attention_oracle
import numpy as np
import pytest
from attention_call import Call, small
from attention_oracle import BFLOAT16, HALF, MASKS
from conftest import RUNS_KERNELS, Place
from skips import skip
from threads import run_threads

import numbacc
from numbacc import attention
from numbacc.attention import executables, flash
from numbacc.base.dispatch import has_gpu, runtime, simulated
from numbacc.errors import UnsupportedError

pytestmark = RUNS_KERNELS


@pytest.fixture
def hopper_place(monkeypatch):
    if not has_gpu():
        skip("device")
    if not simulated() and runtime().capability(0) != (9, 0):
        skip("clusters")
    monkeypatch.setattr(flash, "simulates_kernels", True)
    return Place("simulator" if simulated() else "gpu")


@pytest.fixture
def warp_place(monkeypatch):
    """A place where the kernels with mma.sync run."""
    if not has_gpu():
        skip("device")
    monkeypatch.setattr(flash, "simulates_kernels", True)
    monkeypatch.setattr(flash, "prefers_wgmma", False)
    attention.cache_clear()
    yield Place("simulator" if simulated() else "gpu")
    attention.cache_clear()


def unchanged(s, b, h, q, k):
    return s


def biased(s, b, h, q, k, x):
    return s + x


def alibi(s, b, h, q, k, slope):
    return s + slope * (k - q)


class Scored(Call):
    """A call whose bias or slopes are the operand of a score function."""

    @property
    def keywords(self):
        given = super().keywords
        bias, slopes = given.pop("bias", None), given.pop("alibi", None)
        if bias is not None:
            return {**given, "score": biased, "operands": (bias,)}
        if slopes is not None:
            return {**given, "score": alibi, "operands": (slopes[:, None, None],)}
        return {"score": unchanged, **given}

    def shape(self, name):
        return (2, *super().shape(name)) if name == "stats" else super().shape(name)

    def backward(self, o, stats, **more):
        return super().backward(o, stats, **{"bias_grad": False, "operand_grads": self.bias_grad, **more})

    def check(self, gradients=True):
        o, stats = self.forward()
        found = {"o": self.turned(self.place.get(o)), "stats": self.place.get(stats).sum(0)}
        if gradients:
            made = {name: self.place.get(each) for name, each in self.backward(o, stats).items()}
            found |= {name: each if name == "dbias" else self.turned(each) for name, each in made.items()}
        for operand in self.operands.values():
            operand.assert_untouched()
        attention_oracle.assert_right(self.case, self.given, found, o=found["o"], narrow=True, slack=1e-5)

    def algorithms(self):
        views, given = self.views("q", "k", "v"), {**self.keywords, "return_stats": True}
        outs = self.results("out", "stats")
        given["out"] = None if outs is None else tuple(each.view for each in outs)
        answer = attention.forward.plan(*views, **given)
        return answer.info.algorithm


def large(**more):
    sizes = {"heads": 1, "groups": 2, "queries": 141, "keys": 205, "width": 64, "value_width": 64, "window": 40}
    return small(**{**sizes, "dtype": BFLOAT16, **more})


def flat(rank, *order):
    return {"order": order or tuple(range(rank)), "margins": ((1, 1), *[(0, 0)] * (rank - 2), (8, 8))}


ROWS = {name: {"margins": ((0, 0), (0, 0), (0, 0), (8, 0))} for name in ("q", "k", "v", "do", "out", "dq", "dk", "dv")}
CASES = {
    "head dimension 64": (large(dtype=HALF), {}),
    "head dimension 128": (large(width=128, value_width=128), {}),
    "head dimension 256": (large(width=256, value_width=256), {}),
    "heads of 200 and values of 136": (large(width=200, value_width=136, mask="causal", groups=3), {}),
    "smaller heads": (large(width=40, value_width=88, dtype=HALF), {}),
    "heads that are copied": (large(width=37, value_width=20), {}),
    "lengths": (large(lengths=((141, 205), (77, 130)), mask="causal"), {}),
    "lengths, bottom right": (large(lengths=((0, 205), (141, 0)), mask="causal_bottom_right"), {}),
    "bias": (large(bias=(1, 2, 141, 205)), {}),
    "bias of each": (large(bias=(2, 2, 141, 205), mask="causal", width=128, value_width=128), {}),
    "bias of keys": (large(bias=(2, 1, 1, 205)), {}),
    "bias of queries": (large(bias=(1, 1, 141, 1), dtype=HALF), {}),
    "bias of heads": (large(bias=(1, 2, 1, 1), mask="causal"), {}),
    "slopes": (large(slopes=True, mask="causal", groups=3), {}),
    "more queries": (large(queries=205, keys=141, mask="causal"), {}),
    "one query": (large(queries=1), {}),
    "packed rows": (large(), {"layouts": ROWS}),
    "misaligned": (large(), {"layouts": {name: {"margins": ((0, 0),) * 3 + ((1, 0),)} for name in ROWS}}),
    "turned": (large(), {"layouts": {name: {"order": (0, 2, 1, 3)} for name in ROWS}}),
    "strided": (large(), {"layouts": {name: {"steps": (1, 1, -2, 1)} for name in (*ROWS, "stats")}}),
    "repeated keys": (large(groups=1, heads=2), {"layouts": {"k": {"steps": (1, 0, 1, 1)}}}),
    "BSHD": (large(mask="causal", groups=3), {"layout": "BSHD", "layouts": {"out": {}, "dq": {}}}),
    **{f"mask {mask}": (large(mask=mask, keys=300, width=128, value_width=128), {}) for mask in MASKS[2:]},
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_calls(hopper_place, name):
    case, options = CASES[name]
    call = Scored(hopper_place, case, **options)
    call.check()
    assert call.algorithms().startswith("flash")


@pytest.mark.gpu
@pytest.mark.parametrize(
    "name",
    [
        "head dimension 128", "smaller heads", "heads that are copied", "lengths, bottom right", "bias of each",
        "bias of queries", "slopes", "one query", "misaligned", "turned", "strided", "BSHD", "mask window",
    ],
)  # fmt: skip
def test_calls_by_warps(warp_place, name):
    case, options = CASES[name]
    call = Scored(warp_place, case, **options)
    call.check()
    assert call.algorithms().startswith("flash kernels of numbacc: mma.sync")


@pytest.mark.gpu
def test_wide_heads_by_warps(warp_place):
    """The kernels with mma.sync do not compute gradients of heads of more than 128 elements."""
    call = Scored(warp_place, *CASES["head dimension 256"][:1])
    call.check()
    assert call.algorithms().startswith("flash kernels of numbacc: mma.sync")


@pytest.mark.slow
@pytest.mark.parametrize(("place", "width"), [("hopper_place", 64), ("warp_place", 72)])
def test_a_call_in_the_simulator(request, place, width):
    """Tiles of the kernels with mma.sync have 32 keys or queries there: half a word of the mask's bits."""
    case = small(batch=1, heads=1, groups=2, queries=70, keys=130, width=width, value_width=40, dtype=BFLOAT16)
    call = Scored(request.getfixturevalue(place), case, mask=attention.CausalSlidingWindow(130))
    call.case = case._replace(mask="causal")
    call.check()
    assert call.algorithms().startswith("flash")


#: Calls without functions whose gradients the flash kernels compute, since sequences are short.
SHORT = {
    "causal": (large(mask="causal"), {}),
    "no mask": (large(dtype=HALF, keys=256, groups=1), {}),
    "BSHD": (large(mask="causal", groups=3), {"layout": "BSHD"}),
    "bottom right": (large(mask="causal_bottom_right", dtype=HALF), {}),
    "rows apart": (large(mask="causal"), {"layouts": ROWS}),
    "misaligned": (large(), {"layouts": {name: {"margins": ((0, 0),) * 3 + ((1, 0),)} for name in ROWS}}),
    "strided": (large(mask="causal"), {"layouts": {name: {"steps": (1, 1, -2, 1)} for name in ROWS}}),
    "strided statistics": (large(mask="causal"), {"layouts": {"stats": {"steps": (1, 1, -2)}}}),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHORT)
def test_gradients_of_short_sequences(hopper_place, monkeypatch, name):
    case, options = SHORT[name]
    monkeypatch.setattr(executables, "_MANY", 0)
    attention.cache_clear()
    check_short(Call(hopper_place, case, **options))
    attention.cache_clear()


@pytest.mark.slow
def test_short_sequences_in_the_simulator(hopper_place, monkeypatch):
    case = small(batch=1, heads=1, groups=2, queries=130, keys=150, width=64, value_width=64, dtype=BFLOAT16)
    monkeypatch.setattr(executables, "_MANY", 0)
    attention.cache_clear()
    for layouts in ({}, {name: {"steps": (1, 1, -2, 1)} for name in ROWS} | {"stats": {"steps": (1, 1, -2)}}):
        check_short(Call(hopper_place, case._replace(mask="causal"), layouts=layouts))
    attention.cache_clear()


def check_short(call):
    call.check()
    o, stats = call.forward()
    outs = call.results("dq", "dk", "dv")
    given = {**call.keywords, "out": None if outs is None else tuple(each.view for each in outs)}
    answer = attention.backward.plan(*call.views("do", "q", "k", "v"), o, stats, **given)
    assert answer.info.algorithm.startswith("flash")


# ---------------------------------------------------------------- masks and elements, against NumPy

DOCUMENTS = np.sort(np.random.default_rng(5).integers(0, 5, 300))
MANY = (np.arange(300) % 3 + 2**24, np.arange(300)[:, None] % 2 == 0)
FUNCTIONS = {
    "documents": ({"mask": lambda b, h, i, j: DOCUMENTS[i] == DOCUMENTS[j]}, ()),
    "causal documents": (
        {"mask": lambda b, h, i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j), "score": unchanged}, (),
    ),
    "prefix of each head": ({"mask": lambda b, h, i, j: j < 16 or j <= i - 100 * h - b}, ()),
    "soft-cap and a mask that equals causal": (
        {"score": lambda s, b, h, i, j: 3 * math.tanh(s / 3), "mask": lambda b, h, i, j: j <= i}, (),
    ),
    "large integers": (
        {"score": lambda s, b, h, i, j, n, t: s * 2 if t and n == 2**24 + 1 else s + i // 7 % 3}, MANY,
    ),
    "documents on the GPU": (
        {"score": lambda s, b, h, i, j, x, y: s if x == y else -math.inf}, (DOCUMENTS[:, None], DOCUMENTS),
    ),
    "a product with an element": (
        {"score": lambda s, b, h, i, j, x, y: s * y + x}, ("learn", (2, 300, 300), (2, 1, 1, 300)),
    ),
}  # fmt: skip


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(hopper_place, name):
    check_functions(hopper_place, name)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["causal documents", "prefix of each head", "a product with an element"])
def test_functions_by_warps(warp_place, name):
    check_functions(warp_place, name)


def check_functions(place, name):
    (options, operands), rng = FUNCTIONS[name], np.random.default_rng(1)
    learns = bool(operands) and isinstance(operands[0], str)
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in operands[1:]] if learns else [*operands]
    q, k, v, do = (rng.standard_normal((2, heads, 300, 64)).astype(BFLOAT16) for heads in (2, 1, 1, 2))
    given, results = [each.astype(np.float64) for each in (q, k, v, do)], []
    for put, arrays in ((lambda x: x, given), (place.put, map(place.put, (q, k, v, do)))):
        q, k, v, do = arrays
        own = {**options, "operands": tuple(map(put, operands)) or None}
        o, saved = attention.forward(q, k, v, return_saved=True, **own)
        results.append((o, *attention.backward(do, saved, operand_grads=learns)))
    assert attention.backward.plan(do, saved).info.algorithm.startswith("flash")
    for exact, found in zip(*results, strict=True):
        found = numbacc.asnumpy(found).astype(np.float64)
        np.testing.assert_allclose(found, exact, rtol=0, atol=2e-2 * np.abs(exact).max())
        assert np.linalg.norm(found - exact) <= 8e-3 * np.linalg.norm(exact)


@pytest.mark.gpu
def test_packed_sequences_and_pages(hopper_place):
    rng, put = np.random.default_rng(2), hopper_place.put
    starts, ends = np.array([0, 130, 200], np.int32), np.array([0, 90, 300], np.int32)
    q, k, v, do = (
        rng.standard_normal((n, h, 64)).astype(BFLOAT16) for n, h in ((200, 4), (300, 2), (300, 2), (200, 4))
    )
    options = {"layout": "THD", "max_len_q": 130, "mask": "causal", "score": lambda s, b, h, i, j: s * 2}
    results = []
    for move, arrays in ((lambda x: x, [x.astype(np.float64) for x in (q, k, v, do)]), (put, map(put, (q, k, v, do)))):
        *inputs, dout = arrays
        o, saved = attention.forward(
            *inputs, **options, seq_len_q=move(starts), seq_len_kv=move(ends), return_saved=True
        )
        results.append((o, *attention.backward(dout, saved)))
    assert attention.backward.plan(dout, saved).info.algorithm.startswith("flash")
    for exact, found in zip(*results, strict=True):
        assert np.linalg.norm(numbacc.asnumpy(found).astype(float) - exact) <= 8e-3 * np.linalg.norm(exact)
    table, lengths = rng.permutation(8).astype(np.int32).reshape(2, 4), np.array([256, 100], np.int32)
    q, (k, v) = rng.standard_normal((2, 4, 5, 64)), (rng.standard_normal((8, 2, 64, 64)) for _ in range(2))
    results = []
    for move, kind in ((lambda x: x, np.float64), (put, BFLOAT16)):
        tables = {name: move(table) for name in ("page_table_k", "page_table_v")}
        given = [move(each.astype(BFLOAT16).astype(kind)) for each in (q, k, v)]
        more = {**tables, "seq_len_kv": move(lengths), "score": options["score"]}
        results.append(attention.forward(*given, **more))
    assert attention.forward.plan(*given, **more).info.algorithm.startswith("flash")
    assert np.linalg.norm(numbacc.asnumpy(results[1]).astype(float) - results[0]) <= 8e-3 * np.linalg.norm(results[0])


# ---------------------------------------------------------------- paths and order


@pytest.mark.gpu
def test_statistics_fit_the_other_path(hopper_place):
    """Gradients from the statistics of either path, by either path, are the same."""
    call = Scored(hopper_place, large(bias=(1, 2, 141, 205)))
    (do, q, k, v), bias, zero = call.views("do", "q", "k", "v"), call.operands["bias"].view, numbacc.zeros((1, 1, 1, 1))
    for options, more in (
        ({"score": biased, "operands": (bias,), "mask": "causal"}, {"operand_grads": True}),
        ({"mask": lambda b, h, i, j: j <= i + 1}, {}),
    ):
        found = []
        for unfused in ({}, {"bias": zero}):
            o, stats = attention.forward(q, k, v, **options, **unfused, return_stats=True)
            for deterministic in (False, True):
                grads = attention.backward(do, q, k, v, o, stats, **options, **more, deterministic=deterministic)
                found.append([hopper_place.get(each).astype(float) for each in grads])
        for other in found[1:]:
            for one, two in zip(found[0], other, strict=True):
                assert np.linalg.norm(one - two) <= 1e-2 * np.linalg.norm(one)


@pytest.mark.gpu
@pytest.mark.parametrize("place", ["hopper_place", "warp_place"])
def test_plain_calls_that_cudnn_refuses(request, monkeypatch, place):
    def refused(*args):
        raise UnsupportedError("no engine")

    place = request.getfixturevalue(place)
    monkeypatch.setattr(executables.fused_calls, "executable", refused)
    attention.cache_clear()
    for case in (large(mask="causal"), large(mask="window", dtype=HALF)):
        check_short(Call(place, case))
    attention.cache_clear()


@pytest.mark.gpu
def test_other_calls_run_unfused(hopper_place):
    call = Scored(hopper_place, large())
    q, k, v = call.views("q", "k", "v")
    o, saved = attention.forward(q, k, v, score=unchanged, return_saved=True)
    for plan in (
        attention.forward.plan(q, k, v, score=unchanged, dropout=0.5),
        attention.forward.plan(q, k, v, score=unchanged, alibi=numbacc.zeros(2)),
        attention.forward.plan(*(each.astype("float32") for each in (q, k, v)), score=unchanged),
        attention.backward.plan(o, saved, deterministic=True),
    ):
        assert plan.info.algorithm.startswith("unfused")


WINDOW = np.abs(np.arange(141)[:, None] - np.arange(205)) < 40


@pytest.mark.gpu
@pytest.mark.parametrize("mask", [None, lambda b, h, i, j: abs(i - j) < 40, lambda b, h, i, j: WINDOW[i, j]])
def test_streams_threads_and_graphs(hopper_place, mask):
    """Plans, and lists of blocks, may be made in another thread, on another stream, or while a graph is captured."""
    case = large(mask="window" if mask else None)
    call = Scored(hopper_place, case, **({"mask": mask} if mask else {}))

    def work(k):
        with numbacc.stream():
            for _ in range(3):
                call.check()

    attention.cache_clear()
    run_threads(work, 4)
    attention.cache_clear()
    if mask is not None and mask.__code__.co_names:
        call.forward()  # arrays are not copied from the host in a capture
    with numbacc.graph() as graph:
        o, stats = call.forward()
        grads = call.backward(o, stats)
    attention.cache_clear()
    for seed in (5, 6):
        values = attention_oracle.inputs(case._replace(seed=seed))
        for name in ("q", "k", "v", "do"):
            call.operands[name].view[...] = getattr(values, name)
        graph.launch()
        found = {"o": hopper_place.get(o), "stats": hopper_place.get(stats).sum(0)}
        found |= {name: hopper_place.get(each) for name, each in grads.items()}
        attention_oracle.assert_right(case, values, found, o=found["o"], narrow=True, slack=1e-5)
