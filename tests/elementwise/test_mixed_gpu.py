"""Operands of several dtypes and a scalar where maps meet the rest on a real GPU: others' arrays, graphs, threads."""

from __future__ import annotations

import mixed
import numpy as np
import pytest
from conftest import refused
from gpu_work import Slow, poison
from mixed import DTYPES, SHAPE, expected, hosts, put, run
from skips import skip_if
from threads import run_threads

import numbacc
from numbacc import elementwise as ew
from numbacc.base.dispatch import has_gpu, simulated
from numbacc.runtime import device as runtime

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def slow():
    return Slow()


def empty(shape=SHAPE, **where):
    out = numbacc.empty(shape, "float16", **where)
    poison(out, where.get("stream"))
    return out


class Theirs:
    """An array of another library, which says on which stream it was written last."""

    def __init__(self, array, stream):
        self._array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": stream.handle}


@pytest.mark.parametrize("step", [slice(None), slice(None, None, 2), slice(None, None, -1)], ids=str)
def test_others_arrays_are_read_behind_their_producers(slow, step):
    given = hosts(1)
    arrays, s = put(hosts()), numbacc.stream()
    views = [a[:, step] for a in arrays]
    out = empty(views[0].shape)
    made = mixed.plan(views, out)
    fresh = put(given, stream=s)
    slow(s, 20)
    for array, new in zip(arrays, fresh, strict=True):
        # As another library writes: numbacc is not told.
        runtime.copy_on_device(array._address, new._address, array.nbytes, 0, s.handle)
    found = run(made, [Theirs(v, s) for v in views], out, 2.5)
    np.testing.assert_array_equal(numbacc.asnumpy(found), expected([h[:, step] for h in given], 2.5))


def test_torchs_tensors_of_several_dtypes(torch):
    given = hosts()
    tensors = [torch.from_numpy(a).cuda() for a in given]
    out = torch.empty(SHAPE, dtype=torch.float16, device="cuda")
    ours = [numbacc.asarray(t) for t in tensors]
    made = mixed.plan(ours, numbacc.asarray(out))
    torch.cuda.synchronize()
    run(made, tensors, out, -1.5)
    np.testing.assert_array_equal(numbacc.asnumpy(numbacc.asarray(out)), expected(given, -1.5))


def test_what_differs_from_the_last_call_with_torchs_tensors(torch):
    """Calls like the last one skip checks. Other layouts, addresses, gradients, streams and captures are noticed."""
    flat = torch.randn(33 * 65 + 1, device="cuda")
    x, y = flat[:-1].view(33, 65), torch.randn(33, 65, device="cuda")
    out = torch.empty_like(x)

    def check(a, b, target, **where):
        target.fill_(torch.nan)
        assert ew.add(a, b, out=target, **where) is target
        torch.cuda.synchronize()
        assert torch.equal(target, a + b)

    moved = flat[1:].view(33, 65)
    pairs = [(x, y), (x, y), (moved, y), (y, x), (x.T, y.T), (x[:, ::2], y[:, ::2]), (x.double(), y.double()), (x, y)]
    pairs += [(x[:5], y[:5]), (x, y[:1]), (x, x), (x[:0], y[:0]), (x, y)]
    for a, b in pairs:
        for _ in range(2):
            check(a, b, torch.empty_like(torch.add(a, b)))
            np.testing.assert_array_equal(numbacc.asnumpy(ew.add(a, b)), (a + b).cpu().numpy())
    wanted = x + y
    assert torch.equal(ew.add(x, y, out=x), wanted)
    refused(numbacc.LayoutError, "overlaps", run=lambda: ew.add(x, y, out=moved))
    refused(numbacc.DTypeError, "resolve_neg", run=lambda: ew.add(torch._neg_view(x), y, out=out))
    x.requires_grad_()
    for options in ({}, {"out": out}):
        refused(numbacc.DTypeError, "detach", run=lambda options=options: ew.add(x, y, **options))
    with torch.no_grad():
        check(x, y, out)
    x = x.detach()
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        for _ in range(2):
            check(x, y, out, stream=side)
        with torch.cuda.graph(graph, stream=side):
            ew.add(x, y, out=out, stream=side)
        y.mul_(2)
        graph.replay()
        side.synchronize()
        assert torch.equal(out, x + y)
    check(x, y, out)


@skip_if(simulated() or not has_gpu() or runtime.device_count() < 2, "two gpus")
@pytest.mark.parametrize("device, current", [(0, 1), (1, 0), (1, 1)])
def test_it_runs_where_its_arrays_are(device, current):
    with runtime.on_device(current):
        s = numbacc.stream(device=device)
        given = hosts(device)
        for stream in (None, s):
            arrays, out = put(given, device, stream), empty(device=device, stream=stream)
            found = run(mixed.plan(arrays, out), arrays, out, 0.5, stream)
            assert found.device == device
            np.testing.assert_array_equal(numbacc.asnumpy(found, stream=stream), expected(given, 0.5))
        assert runtime.current_device() == current


def test_a_graph_is_replayed_with_new_inputs_and_the_scalar_it_was_captured_with(slow):
    arrays, out = put(hosts()), empty()
    made = mixed.plan(arrays, out)
    with numbacc.graph() as g:
        run(made, arrays, out, 3.5)
    streams = [None, numbacc.stream(), numbacc.stream()]
    for k in range(6):
        given = hosts(k + 1)
        with numbacc.stream(streams[k % 3] or 0):
            slow(streams[k % 3], 3)
            for array, host in zip(arrays, given, strict=True):
                array[...] = host
        poison(out)
        g.launch(streams[(k + 1) % 3])
        got = numbacc.asnumpy(out, stream=streams[(k + 2) % 3])
        np.testing.assert_array_equal(got, expected(given, 3.5))
        run(made, arrays, out, -k)
        np.testing.assert_array_equal(numbacc.asnumpy(out), expected(given, -k))


@pytest.mark.parametrize("starts", [(1, 0, 0, 0), (0, 3, 1, 0), (1, 1, 5, 7), (0, 0, 0, 1)], ids=str)
def test_a_new_alignment_inside_a_capture(starts):
    given, shape = hosts(2), SHAPE
    arrays, out = put(hosts()), empty()
    made = mixed.plan(arrays, out)
    run(made, arrays, out, 1.0)
    pairs = zip((*DTYPES, "float16"), starts, strict=True)
    *others, target = (mixed.moved(shape, dtype, start) for dtype, start in pairs)
    poison(target)
    with numbacc.graph() as g:
        run(made, others, target, 4.5)
    for array, host in zip(others, given, strict=True):
        array[...] = host
    g.launch()
    np.testing.assert_array_equal(numbacc.asnumpy(target), expected(given, 4.5))


def test_threads_share_a_plan_and_bring_scalars_of_their_own(busy_collector):
    given = hosts()
    shared, out = put(given), empty()
    made = mixed.plan(shared, out)

    def work(k):
        with numbacc.stream() as s:
            mine, target = put(hosts(k), stream=s), numbacc.empty(SHAPE, "float16", stream=s)
            for n in range(30):
                scale = k + n / 2
                run(made, mine, target, scale, s)
                np.testing.assert_array_equal(numbacc.asnumpy(target, stream=s), expected(hosts(k), scale))
                run(made, shared, target, scale, s)
                np.testing.assert_array_equal(numbacc.asnumpy(target, stream=s), expected(given, scale))

    run_threads(work)
