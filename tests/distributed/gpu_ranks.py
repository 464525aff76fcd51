"""A rank of test_distributed_gpu.py: `python -m numbacc launch --gpus 2 gpu_ranks.py NAME` runs one function of it."""

from __future__ import annotations

import os
import signal
import sys
import time

import ml_dtypes
import numpy as np

import numbacc
from numbacc import distributed, gemm
from numbacc import elementwise as ew

team = distributed.init(call_timeout=6.0 if sys.argv[1] == "hangs" else 600.0)
SIZE, RANK = team.world_size, team.rank
host, put = numbacc.asnumpy, numbacc.asarray
#: op -> the reduction of the ranks' values.
EXACT = {"sum": np.sum, "mean": np.mean, "product": np.prod, "max": np.max, "min": np.min}
DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "uint32", "int64", "uint64", "complex64",
    "complex128",
]  # fmt: skip


def wide(array):
    return host(array).astype(np.complex128)


def reductions():
    """Of all dtypes and ops, on small integers, whose results are exact; into poisoned memory between guards."""
    count = np.arange(12 * SIZE).reshape(3 * SIZE, 4)
    for dtype in (numbacc.empty(1, name).dtype for name in DTYPES):
        for op, function in EXACT.items():
            if (op == "mean" and dtype.kind in "iu") or (dtype.kind == "c" and op not in ("sum", "mean")):
                continue
            rows = [((count + k) % 2 + 1 if op == "product" else count % 7 + k).astype(dtype) for k in range(SIZE)]
            x = put(rows[RANK])
            want = function(np.stack([wide(row) for row in rows]), axis=0).astype(dtype).astype(np.complex128)
            memory = numbacc.full((3 * SIZE + 2, 4), 99, dtype)
            team.all_reduce(x, op, out=memory[1:-1])
            got = wide(memory)
            assert np.array_equal(got[1:-1], want) and (got[[0, -1]] == 99).all(), (dtype, op)
            part = wide(team.reduce_scatter(x, op))
            assert np.array_equal(part, want[3 * RANK : 3 * RANK + 3]), (dtype, op)
        assert np.array_equal(wide(team.all_gather(x)), np.concatenate([wide(row) for row in rows]))
        assert np.array_equal(wide(team.broadcast(x, SIZE - 1)), wide(rows[-1]))
    for name in ("int16", "bool", "float8_e4m3fn", "float8_e5m2"):
        x = put(np.array([RANK, 1, 0, 1]), name)
        gathered = host(team.all_gather(x)).astype(float).reshape(SIZE, 4)
        assert np.array_equal(gathered[:, 0], np.minimum(np.arange(SIZE), 1 if name == "bool" else SIZE))


def layouts():
    """Strided and misaligned arrays, in place and not; arrays of torch; sending."""
    total = SIZE * (SIZE + 1) / 2
    big = put(np.full((7, 9), RANK + 1.0, np.float32))
    got = host(team.all_reduce(big[1:6, 1:8:2]))
    assert got.shape == (5, 4) and (got == total).all()
    view = big[1:6, 1:8:2]
    assert team.all_reduce(view, out=view) is view
    got = host(big)
    assert (got[1:6, 1:8:2] == total).all() and (got[[0, 6]] == RANK + 1).all() and (got[:, 2] == RANK + 1).all()
    odd = put(np.full(11, RANK + 1, np.float16))  # at 2 bytes modulo 4
    team.all_reduce(odd[1:8], out=odd[1:8])
    got = host(odd)
    assert (got[1:8] == total).all() and (got[[0, 8, 9, 10]] == RANK + 1).all()
    turned = put(np.arange(12.0).reshape(3, 4) + RANK).T
    assert np.array_equal(host(team.all_reduce(turned)), (SIZE * np.arange(12.0).reshape(3, 4) + total - SIZE).T)
    x = put(np.arange(4.0 * SIZE) + RANK)
    own = slice(4 * RANK, 4 * RANK + 4)
    team.reduce_scatter(x, out=x[own])
    assert np.array_equal(host(x)[own], (SIZE * np.arange(4.0 * SIZE) + total - SIZE)[own])
    team.all_gather(x[own], out=x)
    assert np.array_equal(host(x), SIZE * np.arange(4.0 * SIZE) + total - SIZE)
    if RANK == 0:
        team.send(put(np.arange(6.0).reshape(2, 3)).T, 1)
    elif RANK == 1:
        out = numbacc.full((3, 4), -1, "float64")
        team.receive(0, out=out[:, 1:3])
        assert np.array_equal(host(out)[:, 1:3], np.arange(6.0).reshape(2, 3).T) and (host(out)[:, [0, 3]] == -1).all()
    try:
        team.all_reduce(x[:4], out=x[2:6])
        raise AssertionError("overlapping arrays were accepted")
    except numbacc.LayoutError:
        pass
    try:
        import torch
    except ImportError:
        return
    tensor = torch.full((5,), RANK + 1.0, device="cuda", dtype=torch.bfloat16)
    assert team.all_reduce(tensor, out=tensor) is tensor and bool((tensor == total).all())


def order():
    """A slow producer on one stream, NCCL on another, a consumer on a third; memory is freed while it is used."""
    s, t = numbacc.stream(), numbacc.stream()
    count = 1 << 20
    for k in range(10):
        x, a = numbacc.empty(count), numbacc.full((2048, 2048), 1e-3)
        for _ in range(4):
            a = gemm.matmul(a, a, stream=s)
        ew.multiply(a[0, 0:1].broadcast_to((count,)), 0.0, out=x, stream=s)
        ew.add(x, float(RANK + 1 + k), out=x, stream=s)
        team.all_reduce(x, out=x, stream=t)
        y = ew.add(x, 1.0)  # on the default stream
        del x
        numbacc.full(count, -5.0)
        assert (host(y) == SIZE * k + SIZE * (SIZE + 1) / 2 + 1).all()


def graphs():
    x, b = numbacc.full(1000, RANK + 1), numbacc.full(1000, RANK + 1, "bfloat16")
    with numbacc.graph() as graph:
        y = ew.add(team.all_reduce(ew.multiply(x, 2.0)), 1.0)
        team.all_reduce(b, "mean", out=b)
        z = team.all_gather(y[:2])
    for k in range(3):
        x[...], b[...] = float(RANK + 1 + k), float(RANK + k)
        graph.launch()
        assert (host(y) == 2 * (SIZE * k + SIZE * (SIZE + 1) / 2) + 1).all()
        assert (host(b).astype(float) == k + (SIZE - 1) / 2).all() and (host(z) == host(y)[0]).all()
    team.all_reduce(x)  # outside of the graph
    return graph


def training(dtype, shard, captured, overlap, registered=False):
    """AdamW on the means of all ranks' gradients, against float64."""
    length, edges = 64 * 9000, [64 * k for k in range(0, 9001, 1500)]
    base = np.random.default_rng(1).integers(-8, 8, length).astype(np.float64)
    with numbacc.stream():
        pattern, scale = put(base, dtype), numbacc.full(1, 0, dtype)
        empty = team.registered_empty if registered else numbacc.empty
        gradients, parameters = empty(length, dtype), empty(length, dtype)
        gradients[...], parameters[...] = np.nan, 1.0
        optimizer = distributed.ParallelAdamW(
            team, gradients, parameters, rate=0.01, weight_decay=0.0, shard=shard, overlap=overlap, bucket_bytes=2**18
        )

        def step():
            for low, high in zip(edges[-2::-1], edges[:0:-1], strict=True):
                ew.multiply(pattern[low:high], scale.broadcast_to((high - low,)), out=gradients[low:high])
                optimizer.ready(low, high)
            optimizer.step()

        run, graph, exact, m, v = step, None, np.ones(length), np.zeros(length), np.zeros(length)
        for t in range(1, 5):
            scale[...] = float(RANK + t)
            if captured and t == 2:
                with numbacc.graph() as graph:
                    step()
                run = graph.launch
            run()
            g = base * (t + (SIZE - 1) / 2)
            m, v = 0.9 * m + 0.1 * g, 0.95 * v + 0.05 * g * g
            exact -= 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.95**t)) + 1e-8)
        state = optimizer.state_dict()
        np.testing.assert_allclose(host(state["m"]), m, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(host(state["master"]), exact, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(host(parameters), host(state["master"]).astype(parameters.dtype))
    return graph


#: dtype, shard, captured, overlap of `training`, and whether memory is registered.
CASES = (
    ("float32", False, False, "backward"),
    ("float32", True, True, "update"),
    ("bfloat16", True, True, "backward"),
    ("bfloat16", True, False, "backward"),
    ("bfloat16", False, True, "update"),
    ("bfloat16", True, True, "backward", True),
    ("float32", True, False, "update", True),
    ("float16", False, False, "backward", True),
)


def checks():
    kept = [work() for work in (reductions, layouts, order, graphs)]
    kept += [training(*case) for case in CASES]
    team.barrier()
    print("all right", RANK, flush=True)
    return kept  # graphs that live as long as the process


def ends(how):
    """Rank 1 ends while rank 0 waits for it, in a kernel of NCCL's."""
    x = numbacc.full(1000, 1)
    with numbacc.graph() as graph:
        team.all_reduce(x, out=x)
    graph.launch()
    host(x)
    team.barrier()
    if RANK == 1:
        time.sleep(0.5)
        print("ends at", time.time(), flush=True)
        if how == "error":
            raise ValueError("boom")
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "hangs":
            os.kill(os.getpid(), signal.SIGSTOP)
    if how == "shapes":
        host(team.all_reduce(numbacc.zeros(3 + RANK)))
    elif how == "well":
        if RANK == 0:
            host(team.all_reduce(x))
        return
    else:
        graph.launch()
    host(x)
    for _ in range(2000):  # the error comes between two statements
        time.sleep(0.01)


if __name__ == "__main__":
    assert team.device.startswith("cuda") and ml_dtypes
    result = checks() if sys.argv[1] == "checks" else ends(sys.argv[1])
