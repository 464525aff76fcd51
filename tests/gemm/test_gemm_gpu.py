"""What only a real GPU shows of matrix products: streams, graphs, threads, tuning, large sizes, foreign arrays."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import gemm_oracle
import numpy as np
import pytest
from conftest import Place
from gemm_call import BY_COLUMNS, DTYPES, EPILOGUES, PADDED, Call, is_fused
from gemm_oracle import GELU_ERROR, GELU_SLOPE_ERROR
from gpu_work import slow_down
from graphs import captured, overwrite
from skips import needed
from stress_gemm_bits import stress

import numbacc
from numbacc import gemm
from numbacc.base import dtypes
from numbacc.libraries import cublaslt
from numbacc.runtime import device, workspace

pytestmark = pytest.mark.gpu

PLACE = Place("gpu")
RNG = np.random.default_rng(17)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape, np.float32).astype(dtypes.dtype(dtype))


def assert_is_product(result, a, b, bias=0.0):
    """To a tolerance relative to the largest element, in float64."""
    want = a.astype(np.float64) @ b.astype(np.float64) + np.asarray(bias, np.float64)
    assert np.abs(numbacc.asnumpy(result).astype(np.float64) - want).max() <= 1e-5 * np.abs(want).max()


# ---------------------------------------------------------------- sizes that kernels for large matrices take


@pytest.mark.parametrize("kind", EPILOGUES)
@pytest.mark.parametrize(
    "dtypes", [v for k, v in DTYPES.items() if k != "float64"], ids=[k for k in DTYPES if k != "float64"]
)
@pytest.mark.fills_memory
def test_large_sizes(kind, dtypes):
    """Aligned and not: tiles, split sums, and epilogues that the library fuses only here."""
    for shape in ((256, 512, 1024), (129, 264, 520), (1000, 24, 40)):
        call = Call(PLACE, shape, kind, *dtypes)
        call.verify(call.run())


@pytest.fixture
def proposals(monkeypatch):
    """What the heuristics propose, and `number`, which of it is taken."""
    made = SimpleNamespace(number=0, found=[])

    def choose(product, proposed, again, *place):
        # What is proposed where there is little scratch memory, or none, is chosen, or measured, too.
        made.found = list({each.data: each for each in (*proposed, *again(2**20), *again(0))}.values())
        return made.found[made.number] if made.number < len(made.found) else None

    monkeypatch.setattr(cublaslt, "best", choose)
    monkeypatch.setattr(cublaslt, "is_stand_in", lambda *arguments: False)
    gemm.cache_clear()
    yield made
    gemm.cache_clear()


@pytest.mark.parametrize("shape", [(36, 1, 32), (1, 36, 32), (1, 1, 40), (300, 1, 136), (64, 16, 32)])
@pytest.mark.parametrize("dtypes", DTYPES.values(), ids=DTYPES)
def test_all_that_the_heuristics_propose_is_right(proposals, dtypes, shape):
    """Of small products, a column and a row among them: those have kernels of their own."""
    for kind in EPILOGUES:
        for layouts in ({}, dict.fromkeys("ab", BY_COLUMNS), {"b": BY_COLUMNS, "out": BY_COLUMNS}):
            proposals.number, proposals.found = 0, [None]
            while proposals.number < len(proposals.found):
                gemm.cache_clear()
                call = Call(PLACE, shape, kind, *dtypes, layouts=layouts)
                call.verify(call.run())
                proposals.number += 1


@pytest.mark.parametrize("dtype", ["float32", "tf32", "bfloat16 to float32", "float16 to float32"])
@pytest.mark.parametrize("kind", ["gelu", "gelu_aux_bias", "dgelu", "dgelu_bgrad"])
def test_gelu_is_as_exact_as_the_docs_say(proposals, kind, dtype):
    """At a quarter of a million places from -11 to 11, by each of the first algorithms that the heuristics propose."""
    dtype, out_dtype, compute = DTYPES[dtype]
    derivative = kind.startswith("d")
    z = np.linspace(-11, 11, 512 * 512, dtype=np.float32).reshape(512, 512)
    inputs = {"a": np.zeros((512, 16)), "b": np.zeros((16, 512)), "c": z, "aux": z, "bias": np.zeros(512)}
    if derivative:  # of a product of ones
        inputs["a"][:, 0] = inputs["b"][0] = 1
    exact = gemm_oracle.gelu(z.astype(np.float64))
    proposals.found = [None]
    while proposals.number < min(len(proposals.found), 4):
        cublaslt.algorithms.clear()
        gemm.cache_clear()
        beta = 0.0 if derivative else 1.0
        call = Call(PLACE, (512, 512, 16), kind, dtype, out_dtype, compute, beta=beta, inputs=inputs)
        out, _ = call.results(call.run())
        error = np.abs(out - (exact.slope if derivative else exact.value)).max()
        assert error <= (GELU_SLOPE_ERROR if derivative else GELU_ERROR)
        proposals.number += 1


@pytest.mark.parametrize("kind", ["none", "gelu_aux_bias", "relu_aux", "dgelu_bgrad", "bgradb"])
def test_float64(kind):
    call = Call(PLACE, (130, 136, 64), kind, "float64")
    call.verify(call.run())


def test_dgelu_bgrad_of_many_elements():
    """Where the sum is left to a kernel of ours."""
    call = Call(PLACE, (1024, 1024, 64), "dgelu_bgrad", "bfloat16")
    call.verify(call.run())


@pytest.mark.parametrize("dtype, kind, rows", [("bfloat16", "gelu_bias", 4096), ("float64", "bias", 512)])
def test_epilogues_that_older_kernels_have(dtype, kind, rows):
    """Rows that are not aligned, in 16 bits; float64's bias: what is fused there is slower than a kernel behind."""
    call = Call(PLACE, (rows, 1000, 777), kind, dtype, layouts={"b": BY_COLUMNS})
    call.verify(call.run())
    if device.capability(0) == (9, 0):
        assert call.plan().info.backend == "cublasLt+kernel"


@pytest.mark.parametrize("start", [1, 2, 4, 8])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_arrays_that_start_anywhere(dtype, start):
    """One plan, arrays of other alignment: each gets an algorithm that may read it."""
    plan = None
    for margin in (0, start, 0):
        layouts = {name: {"margins": ((0, 0), (margin, 64 - margin))} for name in ("a", "b", "out")}
        call = Call(PLACE, (64, 64, 128), "bias", dtype, layouts=layouts)
        assert plan is None or call.plan() is plan
        plan = call.plan()
        call.verify(call.run())


def test_batches_of_one_call_and_of_many():
    """Dimensions that merge take one call of the library, others one for each step."""
    merged = Call(PLACE, (16, 16, 16), batch_a=(2, 3), batch_b=(2, 3))
    assert "calls" not in merged.plan().info.algorithm
    apart = Call(PLACE, (16, 16, 16), batch_a=(2, 3), batch_b=(3,))
    assert "2 calls" in apart.plan().info.algorithm
    stacked = Call(PLACE, (16, 16, 16), "gelu_aux_bias", batch_a=(2, 3))
    assert "calls" not in stacked.plan().info.algorithm
    for call in (merged, apart, stacked):
        call.verify(call.run())


# ---------------------------------------------------------------- streams


def test_work_goes_to_the_stream_asked_for():
    a, b = normal(64, 32), normal(32, 48)
    stream = numbacc.stream()
    for given in (stream, stream.handle):
        result = gemm.matmul(*(numbacc.asarray(x, stream=given) for x in (a, b)), stream=given)
        assert_is_product(result, a, b)
        assert result._storage.stream == stream.handle
    with stream:
        assert gemm.matmul(numbacc.asarray(a), numbacc.asarray(b))._storage.stream == stream.handle


@pytest.mark.parametrize("late", ["a", "bias", "c"])
def test_a_product_waits_for_its_inputs_on_other_streams(late):
    from numbacc.kernels.elementwise.copy import copy

    values = {"a": normal(256, 128), "b": normal(128, 256), "bias": normal(256), "c": normal(256, 256)}
    first, second = numbacc.stream(), numbacc.stream()
    arrays = {name: numbacc.asarray(value, stream=second) for name, value in values.items()}
    arrays[late] = numbacc.zeros(values[late].shape, stream=first)
    source = numbacc.asarray(values[late])
    device.synchronize(0, 0)
    busy = slow_down(first)
    copy(source, arrays[late], first.handle)  # behind the slow work
    result = gemm.matmul(**arrays, beta=1.0, epilogue="bias", stream=second)
    assert_is_product(result, values["a"], values["b"], values["bias"] + values["c"])
    del busy


def test_products_do_not_wait():
    stream = numbacc.stream()
    call = Call(PLACE, (256, 256, 256), "gelu_aux_bias", "bfloat16", layouts={"out": {}})
    call.run(stream=stream)
    stream.synchronize()
    busy = slow_down(stream, 0.2)
    mark = device.DriverEvent(0)
    for _ in range(10):
        answer = call.run(stream=stream)
    mark.record(stream.handle)
    assert not mark.is_done()
    stream.synchronize()
    assert mark.is_done()
    call.verify(answer)
    del busy


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("shape", [(64, 48, 32), (16, 64, 8192)], ids=["plain", "long sums"])
@pytest.mark.parametrize("kind", ["bias", "gelu_bias"])
def test_a_product_is_captured_into_a_graph(kind, shape):
    """Replayed with other inputs, while the stream's scratch memory has grown elsewhere."""
    stream = numbacc.stream()
    m, n, k = shape
    values = {
        "a": normal(m, k, dtype="bfloat16"),
        "b": normal(k, n, dtype="bfloat16"),
        "bias": normal(n, dtype="bfloat16"),
    }
    arrays = {name: numbacc.asarray(value, stream=stream) for name, value in values.items()}
    out = numbacc.empty((m, n), "bfloat16", stream=stream)
    plan = gemm.matmul.plan(**arrays, epilogue=kind, out=out)
    with captured(stream) as graph:
        plan(**arrays, out=out, stream=stream)
        gemm.matmul(**arrays, epilogue=kind, out=out, stream=stream)
    for seed in range(3):
        again = Call(PLACE, shape, kind, "bfloat16", seed=seed)
        for name, array in arrays.items():
            overwrite(array, getattr(again.inputs, name), stream)
        out._fill(float("nan"), stream.handle)
        graph.replay()
        again.verify(out)
        # Other work on the stream, with more scratch memory than before, or none any more.
        big = Call(PLACE, (32, 32, 1 << (12 + 2 * seed)), "none", "bfloat16", seed=seed)
        big.verify(big.run(stream=stream))
        workspace.release(0)


def test_a_composed_epilogue_is_captured_too():
    stream = numbacc.stream()
    call = Call(PLACE, (33, 20, 16), "gelu_aux_bias", "float64", layouts={"out": {}, "aux": {}})
    assert not is_fused(call.plan())
    call.run(stream=stream)  # compiled now
    with captured(stream) as graph:
        answer = call.run(stream=stream)
    for array in (call.out.view, call.aux.view):
        array._fill(float("nan"), stream.handle)
    graph.replay()
    call.verify(answer)


# ---------------------------------------------------------------- threads


@pytest.mark.parametrize("kind", ["bias", "gelu_aux_bias"])
def test_threads_share_a_plan(kind):
    """Each with its own arrays, on a stream of its own and on the default one."""
    plan = Call(PLACE, (64, 96, 4096), kind).plan()
    failures = []

    def work(seed, stream):
        try:
            for turn in range(20):
                call = Call(PLACE, (64, 96, 4096), kind, seed=100 * seed + turn)
                given = {name: call.arguments[name] for name in ("a", "b", "bias")}
                call.verify(plan(**given, stream=stream))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed, numbacc.stream() if seed % 2 else None)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_threads_come_and_go():
    """A plan and its handles outlive the thread that used them first."""
    call = Call(PLACE, (32, 32, 32), "relu_bias")
    for _ in range(5):
        answers = []
        thread = threading.Thread(target=lambda answers=answers: answers.append(call.run()))
        thread.start()
        thread.join()
        call.verify(answers[0])


# ---------------------------------------------------------------- tuning


@pytest.mark.parametrize("kind", ["none", "gelu_aux_bias", "dgelu_bgrad"])
def test_tuned_products_are_right(kind, tmp_path, monkeypatch):
    """Measured, from the cache, and from disk; c in place is added once, and what is around stays."""
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    gemm.cache_clear()

    def run(seed):
        layouts = {"out": PADDED, "aux": PADDED, "a": BY_COLUMNS}
        call = Call(
            PLACE, (96, 72, 128), kind, "bfloat16", layouts=layouts, beta=0.5, in_place=True, seed=seed,
            options={"tune": True},
        )  # fmt: skip
        call.verify(call.run())
        return call.plan().info.algorithm

    measured = run(0)
    assert any(choice.tuned for choice, _ in gemm.algorithms())
    files = list(tmp_path.rglob("*"))
    assert files
    assert run(1) == measured
    gemm.cache_clear()
    assert run(2) == measured
    assert len(list(tmp_path.rglob("*"))) == len(files)
    gemm.cache_clear()


def test_nothing_is_measured_while_a_graph_is_captured(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBACC_CACHE_DIR", str(tmp_path))
    gemm.cache_clear()
    stream = numbacc.stream()
    call = Call(PLACE, (64, 64, 96), "bias", layouts={"out": {}}, options={"tune": True})
    call.plan()  # a library's handle cannot be made inside
    with captured(stream) as graph:
        answer = call.run(stream=stream)
    graph.replay()
    call.verify(answer)
    assert not any(choice.tuned for choice, _ in gemm.algorithms())
    call.verify(call.run())
    assert any(choice.tuned for choice, _ in gemm.algorithms())


# ---------------------------------------------------------------- the same bits


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_product_called_deterministic_has_the_same_bits_every_time(dtype):
    """With C, a bias, strides of every kind, in fresh memory, on several streams, with other work beside it."""
    counts, found = stress(8, 1, dtype, report=lambda entry: None)
    assert counts["products"] > 3
    assert not [each for each in found if each["deterministic"]]


# ---------------------------------------------------------------- memory, foreign arrays


def test_many_products_do_not_leak():
    call = Call(PLACE, (64, 64, 4096), "gelu_aux_bias", "bfloat16")
    call.run()
    device.synchronize(0, 0)
    before = device.pool_bytes(0)[1]
    for _ in range(1000):
        call.run()
    device.synchronize(0, 0)
    assert device.pool_bytes(0)[1] == before


def test_scratch_memory_stays_within_its_limit():
    for limit in (1, 1 << 16, 1 << 20, 1 << 26):
        call = Call(PLACE, (64, 64, 16384), "bias", "bfloat16", options={"workspace_limit": limit})
        assert call.plan().info.workspace_bytes <= limit
        call.verify(call.run())


def test_numbas_own_arrays_are_taken():
    from numba import cuda

    a, b = normal(33, 20), normal(20, 47)
    out = cuda.device_array((33, 47), np.float32)
    assert gemm.matmul(cuda.to_device(a), cuda.to_device(b), out=out) is out
    assert_is_product(out, a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torchs_tensors_are_taken(dtype):
    torch = needed("torch", "torch")
    kind = getattr(torch, dtype)
    x, w = torch.randn(64, 96, device="cuda", dtype=kind), torch.randn(48, 96, device="cuda", dtype=kind)
    bias = torch.randn(48, device="cuda", dtype=kind)
    out = torch.full((64, 48), float("nan"), device="cuda", dtype=kind)
    answer = gemm.matmul(x, w.T, bias=bias, epilogue="bias", out=out)
    assert answer is out
    exact = torch.nn.functional.linear(*(t.double() for t in (x, w, bias)))
    tolerance = 4 * torch.finfo(kind).eps * exact.abs().max()
    assert (out.double() - exact).abs().max() <= tolerance
    back = torch.from_dlpack(gemm.matmul(x, w.T, bias=bias, epilogue="bias"))
    assert torch.equal(back, out)
    y, aux = gemm.matmul(x, w.T, epilogue="gelu_aux")
    z = x.double() @ w.double().T
    want = torch.nn.functional.gelu(z, approximate="tanh")
    allowed = 4 * torch.finfo(kind).eps * z.abs().max() + GELU_ERROR * (kind != torch.float64)
    assert (torch.from_dlpack(y).double() - want).abs().max() <= allowed
    assert (torch.from_dlpack(aux).double() - z).abs().max() <= 4 * torch.finfo(kind).eps * z.abs().max()
