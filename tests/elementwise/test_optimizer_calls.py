"""AdamW's step over lists: its plans, in several threads, on several streams, in graphs, beside torch."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import refused
from optimizer_cases import KINDS, OPTIONS, assert_same, drawn, exact, put
from threads import run_threads

import numbacc
from numbacc import elementwise as ew

pytestmark = pytest.mark.usefixtures("small_lists")


def test_plans(place):
    lists = drawn(KINDS[1], [(5,), (2, 3)])
    mine, others = put(place, lists), put(place, lists)
    plan = ew.adamw_step.plan(*mine, 1)
    assert plan(*mine, 2, **OPTIONS)[0] is mine[0]
    ew.adamw_step(*others, 2, **OPTIONS)
    assert_same(place, mine, others)
    assert plan.info.dtypes == ("bfloat16", "bfloat16", "float32", "float32") and plan.info.math_dtype == "float32"
    assert plan.info.backend == {"numpy": "numpy", "simulator": "simulator", "gpu": "kernel"}[place.name]
    assert "2 parameters of bfloat16" in repr(plan) and "elementwise.adamw_step" in repr(plan)
    refused(numbacc.LayoutError, "adamw_step", run=lambda: plan(*[each[:1] for each in mine], 1))
    row = [each[1] for each in mine]
    single = ew.adamw_step.plan(*row, 1)
    assert single(*row, 3, **OPTIONS)[1] is row[2] and "one parameter" in repr(single)
    ew.adamw_step(*[each[1] for each in others], 3, **OPTIONS)
    assert_same(place, mine, others)
    if place.is_device:
        step = place.put(np.array(4))
        ew.adamw_step.plan(*mine, step)(*mine, step, **OPTIONS)


def test_the_plan_of_arrays_laid_out_alike_is_found_again(place):
    ew.cache_clear()
    for seed in range(3):
        ew.adamw_step(*put(place, drawn(KINDS[0], [(5,), (2, 3)], seed)), 1)
    assert ew.cache_info().misses == 1 + (2 if place.name == "numpy" else 0)


def test_eight_threads(place):
    """Each with its own parameters, of which all have the plan in common."""
    rounds = 2 if place.is_slow else 20

    def work(k):
        lists = drawn(KINDS[0], [(33,), (5,)], k)
        mine, wanted = put(place, lists), list(zip(*lists, strict=True))
        stream = numbacc.stream() if k % 2 else None
        for t in range(1, rounds + 1):
            ew.adamw_step(*mine, t, stream=stream)
            wanted = [(w[0], row[1], *w[1:]) for w, row in zip([exact(*row, t) for row in wanted], wanted, strict=True)]
        for own, row in zip(mine[0], wanted, strict=True):
            np.testing.assert_allclose(place.get(own), row[0], rtol=1e-4, atol=1e-5)

    run_threads(work)


def test_streams(place):
    streams = [None, numbacc.stream(), numbacc.stream()]
    lists = drawn(KINDS[0], [(5,), (2, 3)])
    mine, others = put(place, lists), put(place, lists)
    for t in range(1, 7):
        ew.adamw_step(*mine, t, stream=streams[t % 3])
        ew.adamw_step(*others, t)
    assert_same(place, mine, others)


def test_a_graph_makes_a_new_step_at_each_launch(device_place):
    """Gradients change, and the counter that the graph itself moves on."""
    place, shapes = device_place, [(5, 6), (3,), (40,)]
    p, g, m, v = put(place, drawn(KINDS[0], shapes))
    others = put(place, drawn(KINDS[0], shapes))
    count = place.put(np.array(0))
    with numbacc.graph() as graph:
        ew.add(count, 1, out=count)
        ew.adamw_step(p, g, m, v, count, **OPTIONS)
    ew.cache_clear()
    for t in range(1, 4):
        fresh = drawn(KINDS[0], shapes, t)[1]
        for own, x in zip(g, fresh, strict=True):
            own[...] = x
        graph.launch()
        others[1] = [place.put(x) for x in fresh]
        ew.adamw_step(*others, t, **OPTIONS)
    assert place.get(count).item() == 3
    for own, other in zip((p, m, v), (others[0], *others[2:]), strict=True):
        for x, y in zip(own, other, strict=True):
            np.testing.assert_allclose(place.get(x), place.get(y), rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
def test_gradients_of_another_stream_are_waited_for():
    from gpu_work import Slow, poison

    slow, s = Slow(), numbacc.stream()
    lists = drawn(KINDS[0], [(1000,), (37,)])
    for stream in (None, s):
        mine = [[numbacc.asarray(x) for x in each] for each in lists]
        others = [[numbacc.asarray(x) for x in each] for each in lists]
        good = [numbacc.asarray(x) for x in lists[1]]
        for x in mine[1]:
            poison(x, s)
        slow(s)
        for x, y in zip(mine[1], good, strict=True):
            ew.copy(y, out=x, stream=s)
        ew.adamw_step(*mine, 1, stream=stream)
        ew.adamw_step(*others, 1)
        for x, y in zip(mine[0], others[0], strict=True):
            np.testing.assert_array_equal(numbacc.asnumpy(x), numbacc.asnumpy(y))


@pytest.mark.gpu
def test_a_graph_that_torch_captures(torch):
    lists = drawn(KINDS[0], [(100,), (7, 5)])
    tensors = [[torch.tensor(x, device="cuda") for x in each] for each in lists]
    others = [[numbacc.asarray(x) for x in each] for each in lists]
    count = torch.zeros(1, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        count += 1
        ew.adamw_step(*tensors, count, stream=torch.cuda.current_stream())
    for t in (1, 2):
        graph.replay()
        torch.cuda.synchronize()
        ew.adamw_step(*others, t)
    for x, y in zip(tensors[0], others[0], strict=True):
        np.testing.assert_allclose(x.cpu().numpy(), numbacc.asnumpy(y), rtol=1e-5, atol=1e-6)


def test_as_torch_has_it(place, torch):
    """Twenty steps of two parameters, on the CPU in torch."""
    host = drawn(KINDS[0], [(50,), (6, 7)])
    parameters = [torch.nn.Parameter(torch.tensor(x)) for x in host[0]]
    optimizer = torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)
    zeros = [[np.zeros_like(x) for x in host[0]] for _ in range(2)]
    mine = put(place, (host[0], host[1], *zeros))
    for t in range(1, 3 if place.is_slow else 21):
        g = drawn(KINDS[0], [(50,), (6, 7)], t)[1]
        for parameter, x in zip(parameters, g, strict=True):
            parameter.grad = torch.tensor(x)
        optimizer.step()
        mine[1] = [place.put(x) for x in g]
        ew.adamw_step(*mine, t, rate=0.01, weight_decay=0.1)
    for own, parameter in zip(mine[0], parameters, strict=True):
        np.testing.assert_allclose(place.get(own), parameter.detach().numpy(), rtol=1e-5, atol=1e-6)
