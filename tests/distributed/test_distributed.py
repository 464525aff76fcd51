"""Operations of several ranks on NumPy arrays, in threads, against float64; and data-parallel training."""

from __future__ import annotations

import socket
import threading
import time
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from rank_threads import together

import numbacc
from numbacc import distributed
from numbacc.distributed import data_parallel
from numbacc.distributed.communicator import Communicator
from numbacc.distributed.control import Control
from numbacc.distributed.environment import Ranks
from numbacc.errors import DeviceError, DTypeError, LayoutError, OptionError, RankError, ShapeError

SIZE = 3
#: op -> the reduction of the ranks' values, which are the rows.
EXACT = {"sum": np.sum, "mean": np.mean, "product": np.prod, "max": np.max, "min": np.min}
FLOATS = ("float32", "float64", "float16", ml_dtypes.bfloat16)


def values_of(dtype, shape, rank):
    rng = np.random.default_rng(rank)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def wide(array):
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def test_reductions(tmp_path):
    """All dtypes and ops give the same bits on all ranks, and sums of narrow floats are rounded once."""
    dtypes = [*FLOATS, "int8", "uint8", "int32", "int64", "uint64", "complex64", "complex128"]
    shapes = ((), (1,), (7,), (6, 4), (3, 0), (60_001,))

    def work(team):
        found = {}
        for dtype in map(np.dtype, dtypes):
            for op in EXACT:
                if (op == "mean" and dtype.kind in "iu") or (dtype.kind == "c" and op not in ("sum", "mean")):
                    with pytest.raises(DTypeError, match=f"{dtype}.*{op}"):
                        team.all_reduce(np.ones(3, dtype), op)
                    continue
                for shape in shapes:
                    found[dtype, op, shape] = team.all_reduce(values_of(dtype, shape, team.rank), op)
                rows = team.reduce_scatter(values_of(dtype, (6, 4), team.rank), op)
                assert np.array_equal(rows, found[dtype, op, (6, 4)][2 * team.rank : 2 * team.rank + 2])
        return found

    first, *others = together(SIZE, tmp_path, work)
    for (dtype, op, shape), got in first.items():
        assert got.dtype == dtype and got.shape == shape
        assert all(got.tobytes() == other[dtype, op, shape].tobytes() for other in others)
        expected = EXACT[op](np.stack([wide(values_of(dtype, shape, k)) for k in range(SIZE)]), axis=0)
        eps = 0 if dtype.kind in "iu" else float(ml_dtypes.finfo(dtype).eps)
        assert np.all(np.abs(wide(got) - expected) <= 4 * eps * SIZE + eps / 2 * np.abs(expected)), (dtype, op, shape)
        if got.size and eps > 1e-3:  # rounded once: no further from the exact result than its own rounding
            narrow = np.abs(wide(got) - expected) <= 0.501 * eps * np.abs(expected) + 1e-6
            assert narrow.all() or op == "product", (dtype, op)


def test_all_else(tmp_path):
    """Gathering, broadcasting, sending; strided arrays; results that are views; in place."""

    def work(team):
        rank = team.rank
        gathered = team.all_gather(np.full((2, 3), rank, ml_dtypes.float8_e4m3fn))
        assert np.array_equal(gathered.astype(int), np.repeat(np.arange(SIZE), 2)[:, None] * np.ones(3, int))
        for root in range(SIZE):
            assert team.broadcast(np.full(5, rank, bool), root).tolist() == [root > 0] * 5
        memory = np.full((8, 10), -1.0)
        x = memory[1:7, ::2]
        x[...] = np.arange(30.0).reshape(6, 5) + rank
        expected = SIZE * np.arange(30.0).reshape(6, 5) + sum(range(SIZE))
        assert np.array_equal(team.all_reduce(x.T), expected.T)
        out = np.full((6, 10), np.nan)[:, 1::2]
        assert team.all_reduce(x, out=out) is out and np.array_equal(out, expected)
        assert team.all_reduce(x, out=x) is x and np.array_equal(x, expected)
        assert (memory[[0, 7]] == -1).all() and (memory[:, 1::2] == -1).all()
        part = x[2 * rank : 2 * rank + 2]
        assert np.array_equal(team.all_gather(part, out=np.empty((6, 5))), expected)
        flat = np.arange(6.0)
        team.reduce_scatter(flat, out=flat[2 * rank : 2 * rank + 2])
        assert flat[2 * rank] == 6 * rank
        team.all_gather(flat[2 * rank : 2 * rank + 2], out=flat)
        assert np.array_equal(flat, 3 * np.arange(6.0))
        if rank == 1:
            team.send(memory[:3, ::-3], 2)
        elif rank == 2:
            got = np.empty((4, 3)).T
            assert team.receive(1, out=got) is got and np.array_equal(got, memory[:3, ::-3])
        team.barrier()
        team.check()
        assert repr(team) == f"numbacc.distributed.Communicator(rank {rank} of {SIZE}, {team.device}, sockets)"
        with numbacc.portable():
            made = team.all_reduce(numbacc.full(3, rank, device=None if not numbacc.has_gpu() else "cpu"), "max")
            assert numbacc.asnumpy(made).tolist() == [SIZE - 1] * 3

    together(SIZE, tmp_path, work)


def test_messages(tmp_path):
    def work(team):
        x, frozen = np.ones(6), np.ones(6)
        frozen.flags.writeable = False
        for error, words, call in (
            (OptionError, "op='avg' is unknown; the operations are sum", lambda: team.all_reduce(x, "avg")),
            (OptionError, "op=None is unknown", lambda: team.reduce_scatter(x, None)),
            (OptionError, "root=3", lambda: team.broadcast(x, 3)),
            (OptionError, "is this rank itself", lambda: team.send(x, team.rank)),
            (ShapeError, r"out has shape \(5,\); it must have shape \(6,\)", lambda: team.all_reduce(x, out=x[:5])),
            (ShapeError, "multiple of the 3 ranks", lambda: team.reduce_scatter(x[:4])),
            (ShapeError, "x has rank 0", lambda: team.all_gather(np.array(1.0))),
            (DTypeError, "out has dtype float64", lambda: team.all_reduce(x.astype("float32"), out=x)),
            (LayoutError, "out is read-only", lambda: team.all_reduce(x, out=frozen)),
            (LayoutError, "out overlaps x in part", lambda: team.all_reduce(x[:4], out=x[2:])),
            (LayoutError, "share memory", lambda: team.all_reduce(x, out=np.broadcast_to(1.0, 6))),
        ):
            with pytest.raises(error, match=words):
                call()

    together(SIZE, tmp_path, work)


@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_the_mean_of_pieces_is_rounded_once(dtype, ranks):
    rows = np.stack([values_of(dtype, 1000, rank) for rank in range(ranks)])
    out = np.full(1002, 7, dtype)
    data_parallel._mean(rows, out[1:-1])
    assert out[0] == out[-1] == 7
    exact, eps = wide(rows).mean(axis=0), float(ml_dtypes.finfo(dtype).eps)
    largest = np.abs(wide(rows)).max(axis=0)
    assert (np.abs(wide(out[1:-1]) - exact) <= 0.51 * eps * np.abs(exact) + 2e-6 * largest).all()


def test_a_rank_that_hangs_is_named(tmp_path):
    """While others wait for it in a reduction. Before that, ranks that are late for less than the limit do no harm."""

    def work(team):
        for k in range(3):
            time.sleep(0.3 * (team.rank == k))
            team.all_reduce(np.ones(3))
            team.barrier()
        time.sleep(0.3)
        start = time.monotonic()
        with pytest.raises(RankError, match=r"rank 1 of 3 has failed.*\n.*not made a call that rank [02] made"):
            while team.rank == 1:  # hangs
                team.check()
                time.sleep(0.01)
            team.all_reduce(np.ones(3))
        assert time.monotonic() - start < 5

    together(SIZE, tmp_path, work, call_timeout=0.8)


def test_ranks_in_different_calls_end(tmp_path):
    """One waits for an array, and the others for all ranks: each has made as many calls."""

    def work(team):
        with pytest.raises(RankError, match=r"rank . of 3 has failed.*\n.*not made a call.*waits in another call"):
            if team.rank == 1:
                team.all_reduce(np.ones(3))
            team.barrier()

    together(SIZE, tmp_path, work, call_timeout=0.5)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ended", [0, 1])
def test_calls_that_wait_for_a_rank_that_has_ended_well(tmp_path, ended):
    """Without a limit of time: the end of the rank is known."""

    def barrier(team):
        if team.rank != ended:
            with pytest.raises(
                RankError, match=rf"rank {ended} of 3 .*\nit has already ended, and rank . waits for all"
            ):
                team.barrier()

    def reduction(team):
        if team.rank != ended:
            # A rank that notices the end of the first one may end before another does.
            with pytest.raises(RankError, match=r"rank . called all_reduce\(.*\), and rank . has already ended"):
                team.all_reduce(np.ones(3))

    for work in (barrier, reduction):
        (tmp_path / work.__name__).mkdir()
        start = time.monotonic()
        together(SIZE, tmp_path / work.__name__, work)
        assert time.monotonic() - start < 10


def test_limits_of_calls():
    for limit in (0, -1.0, float("nan")):
        with pytest.raises(OptionError, match=r"call_timeout=.* must be a positive number of seconds, or None"):
            distributed.init(call_timeout=limit)


def test_ranks_that_differ_are_named(tmp_path):
    def work(team):
        with pytest.raises(
            ShapeError,
            match=r"all_reduce\(float32 \(4,\), sum\).*all_reduce\(float32 \(5,\), sum\)|"
            r"all_reduce\(float32 \(5,\), sum\).*all_reduce\(float32 \(4,\), sum\)",
        ):
            team.all_reduce(np.ones(4 + team.rank, np.float32))

    together(2, tmp_path, work)


def test_calls_of_gpus_are_compared(tmp_path):
    """NCCL itself would wait for ever."""

    def work(team):
        team._note("all_reduce(float32 (4,), sum)")
        team._note(f"broadcast(float32 ({4 + team.rank},))")
        with pytest.raises(RankError, match=r"call 2 differs.*float32 \(4,\).*float32 \(5,\)|\(5,\).*\(4,\)"):
            team.barrier()
            team.barrier()

    together(2, tmp_path, work)


def test_a_call_that_waits_for_a_rank_that_has_ended(tmp_path):
    def work(team):
        team._note("barrier")
        if team.rank == 0:
            team._note("all_reduce(float32 (4,), sum)")
            with pytest.raises(
                RankError, match=r"rank 0 called all_reduce\(float32 \(4,\), sum\), and rank 1 has already"
            ):
                team.barrier()

    together(2, tmp_path, work)


def test_an_error_ends_the_others(tmp_path):
    def work(team):
        if team.rank == 1:
            raise ValueError("boom")
        with pytest.raises(RankError, match=r"rank 1 of 3 has failed, so rank . ends.\n.*boom"):
            while True:
                team.all_reduce(np.ones(3))

    with pytest.raises(ValueError, match="boom"):
        together(SIZE, tmp_path, work)


def test_meeting_where_another_program_listens(tmp_path):
    """torchrun does, at MASTER_PORT."""
    port = _free_port()
    with socket.create_server(("127.0.0.1", port)) as other:
        stop = _answering(other)
        found = together(
            2,
            tmp_path,
            lambda team: team.all_reduce(np.ones(2)).tolist(),
            ranks=lambda number: Ranks(number, 2, 0, "127.0.0.1", port, "run"),
        )
        stop.set()
    assert found == [[2.0, 2.0]] * 2


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def _answering(server):
    """Close each connection with words that are not ours, until the event is set."""
    stop = threading.Event()
    server.settimeout(0.1)

    def serve():
        while not stop.is_set():
            try:
                made, _ = server.accept()
            except OSError:
                continue
            made.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            made.close()

    threading.Thread(target=serve, daemon=True).start()
    return stop


def test_ranks_that_do_not_come():
    with pytest.raises(DeviceError, match="rank 1 of 2 did not find rank 0 at 127"):
        Control(Ranks(1, 2, 1, "127.0.0.1", _free_port(), "run"), 0.3)


# ---------------------------------------------------------------- one rank


def test_one_rank(place):
    """Everything works on its arrays alone, wherever they are."""
    team = distributed.init()
    assert team is distributed.init() and (team.rank, team.world_size) == (0, 1)
    x = place.put(np.arange(12, dtype=np.float32).reshape(4, 3))
    for found in (team.all_reduce(x, "mean"), team.reduce_scatter(x), team.all_gather(x), team.broadcast(x)):
        assert found is not x and type(found) is type(x)
        np.testing.assert_array_equal(numbacc.asnumpy(found), np.arange(12.0).reshape(4, 3))
    assert team.all_reduce(x, out=x) is x
    out = place.put(np.zeros((3, 4), np.float32))
    assert team.all_gather(x.T, out=out) is out
    np.testing.assert_array_equal(numbacc.asnumpy(out), np.arange(12.0).reshape(4, 3).T)
    team.barrier()
    gradients, parameters = place.put(np.ones(300, np.float32)), place.put(np.zeros(300, np.float32))
    parallel = distributed.DataParallel(team, gradients, parameters, shard=True, bucket_bytes=256)
    parallel.ready(100, 300)
    updated = [part.whole for part in parallel.reduced()]
    assert sorted((each.start, each.stop) for each in updated) == [
        (part.whole.start, part.whole.stop) for part in parallel.parts
    ]
    np.testing.assert_array_equal(numbacc.asnumpy(parallel.unshare(parallel.share(gradients))), np.ones(300))


# ---------------------------------------------------------------- data-parallel training


@pytest.mark.parametrize("shard, overlap", [(False, "backward"), (True, "update")], ids=["replicated", "sharded"])
def test_steps_of_training(tmp_path, shard, overlap):
    """Momentum steps on the means of all ranks' gradients, reported layer by layer, in any order within a bucket."""
    length, edges = 5000, [0, 640, 1500, 4100, 5000]

    def gradient(rank, step):
        return np.random.default_rng([rank, step]).integers(-64, 64, length) / 64

    def work(team):
        gradients, parameters = np.full(length, np.nan, np.float32), np.zeros(length, np.float32)
        parallel = distributed.DataParallel(
            team, gradients, parameters, shard=shard, boundaries=[4100], overlap=overlap, bucket_bytes=2048
        )
        moment = np.zeros(parallel.state_size, np.float32)
        for step in range(4):
            new = gradient(team.rank, step)
            for low, high in [*pairwise(edges)][::-1]:
                gradients[low:high] = new[low:high]
                if step < 3:  # in the last step, nothing is reported
                    parallel.ready(low, high)
            for part in parallel.reduced():
                moment[part.local] = 0.5 * moment[part.local] + gradients[part.whole]
                parameters[part.whole] -= moment[part.local]
        assert sum(part.local.stop - part.local.start for part in parallel.parts) == parallel.state_size
        return parameters, parallel.unshare(moment), parallel.state_size

    found = together(SIZE, tmp_path, work)
    moment, parameters = np.zeros(length), np.zeros(length)
    for step in range(4):
        moment = 0.5 * moment + np.mean([gradient(rank, step) for rank in range(SIZE)], axis=0)
        parameters -= moment
    for got, got_moment, size in found:
        np.testing.assert_allclose(got, parameters, rtol=0, atol=2e-6)
        np.testing.assert_allclose(got_moment, moment, rtol=0, atol=1e-6)
        assert size < length / 2 if shard else size == length


def test_messages_of_data_parallel():
    team = Communicator(Ranks(), 1.0)
    x = np.zeros(256, np.float32)
    for error, words, call in (
        (ShapeError, "gradients has shape", lambda: distributed.DataParallel(team, x.reshape(2, 128))),
        (ShapeError, "parameters has shape", lambda: distributed.DataParallel(team, x, x[:4])),
        (LayoutError, "contiguous", lambda: distributed.DataParallel(team, x[::2])),
        (DTypeError, "gradients has dtype int32", lambda: distributed.DataParallel(team, x.astype(np.int32))),
        (OptionError, "shard=True needs parameters", lambda: distributed.DataParallel(team, x, shard=True)),
        (OptionError, "overlap='both' is unknown", lambda: distributed.DataParallel(team, x, overlap="both")),
        (OptionError, "boundaries=300", lambda: distributed.DataParallel(team, x, boundaries=[300])),
    ):
        with pytest.raises(error, match=words):
            call()
    parallel = distributed.DataParallel(team, x)
    parallel.ready(slice(0, 128))
    with pytest.raises(OptionError, match="gradients 64 to 256 were reported twice"):
        parallel.ready(64, 256)
    with pytest.raises(OptionError, match="stop=300"):
        parallel.ready(128, 300)
    with pytest.raises(OptionError, match="must be a slice"):
        parallel.ready(3.5)
    for _ in parallel.reduced():
        break  # a loop that ends early
    parallel.ready(0, 256)
    assert len([*parallel.reduced()]) == len(parallel.parts)
    for method in (parallel.share, parallel.unshare):
        with pytest.raises(ShapeError, match=r"array has shape \(3,\)"):
            method(x[:3])


# ---------------------------------------------------------------- AdamW


def adamw_in_float64(length, decayed, gradient, steps, max_norm, start):
    """The formula of Loshchilov and Hutter, with gradients scaled to a norm of at most `max_norm`."""
    p, m, v = np.array(start, np.float64), np.zeros(length), np.zeros(length)
    decay = np.where(np.arange(length) < decayed, 0.1, 0.0)
    for t in range(1, steps + 1):
        g = gradient(t)
        if max_norm is not None:
            g = g * min(1.0, max_norm / (np.sqrt(np.sum(g * g)) + 1e-6))
        m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
        p = p - 0.01 * decay * p - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8)
    return p, m, v


@pytest.mark.parametrize(
    "shard, dtype, max_norm, overlap",
    [
        (True, "float32", 2.0, "update"),
        (True, ml_dtypes.bfloat16, None, "backward"),
        (False, ml_dtypes.bfloat16, 2.0, "backward"),
    ],
)
def test_adamw(tmp_path, shard, dtype, max_norm, overlap):
    """Means over the ranks, the norm of all gradients, weight decay of some; states that fit any number of ranks."""
    length, decayed, steps = 2000, 1300, 5
    start = np.random.default_rng(3).standard_normal(length).astype(dtype)

    def gradient(rank, t):  # exact in bfloat16, as are the means
        return np.random.default_rng([rank, t]).integers(-4, 4, length) * 0.75

    def make(team, parameters):
        gradients = np.full(length, np.nan).astype(dtype)
        return gradients, distributed.ParallelAdamW(
            team, gradients, parameters, rate=1.0, decayed=decayed, max_norm=max_norm, shard=shard, overlap=overlap,
            bucket_bytes=1024,
        )  # fmt: skip

    def train(optimizer, gradients, rank, first, last):
        for t in range(first, last):
            gradients[...] = gradient(rank, t)
            optimizer.ready(1300, length)
            optimizer.ready(0, 1300)
            optimizer.step()

    def work(team):
        parameters = start.copy()
        gradients, optimizer = make(team, parameters)
        optimizer.rate = 0.01
        train(optimizer, gradients, team.rank, 1, 4)
        state = {name: np.array(each) for name, each in optimizer.state_dict().items()}
        parameters = np.zeros_like(start)
        gradients, optimizer = make(team, parameters)  # which goes on from the state
        optimizer.load_state_dict(state)
        train(optimizer, gradients, team.rank, 4, steps + 1)
        assert optimizer.m.size == optimizer.parallel.state_size
        return parameters, {name: np.array(each) for name, each in optimizer.state_dict().items()}

    found = together(SIZE, tmp_path, work)
    mean = lambda t: np.mean([gradient(rank, t) for rank in range(SIZE)], axis=0)  # noqa: E731
    p, m, v = adamw_in_float64(length, decayed, mean, steps, max_norm, start)
    for parameters, state in found:
        assert state["count"].tolist() == [steps] and parameters.tobytes() == found[0][0].tobytes()
        for name, exact in (("master", p), ("m", m), ("v", v)):
            np.testing.assert_allclose(state[name], exact, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(parameters, state["master"].astype(dtype))
    alone = distributed.ParallelAdamW(Communicator(Ranks(), 1.0), np.zeros(length, np.float32), start.astype("float32"))
    alone.load_state_dict(found[0][1])
    np.testing.assert_array_equal(alone.m, found[0][1]["m"])
    with pytest.raises(OptionError, match="state lacks"):
        alone.load_state_dict({})
    with pytest.raises(ShapeError, match="m has shape"):
        alone.load_state_dict({**found[0][1], "m": np.ones(3)})
